# SPDX-License-Identifier: Apache-2.0
"""Completions, each in its real shell: commands, options, values, files, directories and revisions; and the hidden
command behind them, which never complains."""

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import testing
from terminal import Terminal

COMPLETIONS = Path(__file__).parents[2] / "completions"
DUMP = "\x18d"  # bound to what writes the line to the file `line`


def tails(words):
    """What is behind the '@': a shell replaces only that."""
    return {word.rpartition("@")[2] for word in words}


class Laws:
    """What every shell does. `offered(line)` is the set of words that may stand at the end of the line, and
    `completed(line)` the words of the line after one press of the tab key."""

    shell = ""

    def setUp(self):
        super().setUp()
        if not shutil.which(self.shell):
            self.skipTest(f"{self.shell} is not installed")
        (self.scratch / "bin").mkdir()
        os.symlink(testing.WDELTA, self.scratch / "bin" / "wdelta")
        self.write("my runs/a file.delta", "")
        self.write("my runs/other.delta", "")
        (self.scratch / "my runs/sub").mkdir()

    def shell_environment(self, **more):
        return self.environment(PATH=f"{self.scratch}/bin:{os.environ['PATH']}", TERM="xterm", **more)

    def make_repository(self, path="my runs/demo"):
        for step in (1, 2):
            self.write_weights("save/model.safetensors", self.some_weights())
            self.id = self.run_ok("push", self.scratch / "save", self.scratch / path, "--step", step, "-m",
                                  f"reward: {step}", "-q").strip()
        self.run_ok("tag", self.scratch / path, "v1")
        return {"main", "v1", "step:1", "step:2", self.id[:12]}

    def test_commands_are_completed(self):
        self.assertEqual(self.offered("wdelta pu"), {"push", "pull"})
        self.assertEqual(self.completed("wdelta ver"), ["wdelta", "verify"])
        self.assertNotIn("complete", self.offered("wdelta "))
        self.assertEqual(self.completed("wdelta help exi"), ["wdelta", "help", "exit-codes"])

    def test_options_and_their_values_are_completed(self):
        self.assertEqual(self.completed("wdelta push --anch"), ["wdelta", "push", "--anchor"])
        self.assertEqual(self.offered("wdelta push --t"), {"--threads", "--transfers", "--tag"})
        self.assertEqual(self.offered("wdelta -q push --anchor "), {"auto", "never", "now"})
        self.assertEqual(self.completed("wdelta push --anchor=ne"), ["wdelta", "push", "--anchor=never"])
        self.assertEqual(self.completed("wdelta diff --engine sc"), ["wdelta", "diff", "--engine", "scalar"])

    def test_files_and_directories_with_blanks_are_completed(self):
        self.assertEqual(self.completed("wdelta verify my"), ["wdelta", "verify", "my runs/"])
        self.assertEqual(self.completed("wdelta verify my\\ runs/a"), ["wdelta", "verify", "my runs/a file.delta"])
        self.assertEqual(self.completed("wdelta diff x y -o 'my runs/o"),
                         ["wdelta", "diff", "x", "y", "-o", "my runs/other.delta"])
        self.assertEqual(self.completed("wdelta log my\\ runs/"), ["wdelta", "log", "my runs/sub/"])

    def test_revisions_are_completed_behind_the_repository(self):
        names = self.make_repository()
        self.assertLessEqual(names, tails(self.offered("wdelta log my\\ runs/demo@")))
        self.assertEqual(tails(self.offered("wdelta log my\\ runs/demo@st")), {"step:1", "step:2"})
        self.assertEqual(self.completed("wdelta log my\\ runs/demo@m"), ["wdelta", "log", "my runs/demo@main"])
        self.assertEqual(self.completed("wdelta log \"my runs/demo@v"), ["wdelta", "log", "my runs/demo@v1"])
        self.assertEqual(self.completed("wdelta pull my\\ runs/demo@step:2"),
                         ["wdelta", "pull", "my runs/demo@step:2"])
        self.assertEqual(self.completed(f"wdelta show my\\ runs/demo@{self.id[:9]}"),
                         ["wdelta", "show", f"my runs/demo@{self.id[:12]}"])

    def test_revisions_are_completed_in_arguments_of_their_own(self):
        names = self.make_repository()
        self.assertLessEqual(names, self.offered("wdelta tag my\\ runs/demo name "))
        self.assertEqual(self.completed("wdelta tag my\\ runs/demo v"), ["wdelta", "tag", "my runs/demo", "v1"])
        self.assertEqual(self.completed("wdelta tag my\\ runs/demo name step:1"),
                         ["wdelta", "tag", "my runs/demo", "name", "step:1"])

    def test_ranges_are_completed_at_both_ends(self):
        self.make_repository()
        self.assertEqual(self.completed("wdelta squash my\\ runs/demo v"), ["wdelta", "squash", "my runs/demo", "v1.."])
        self.assertEqual(self.completed("wdelta squash my\\ runs/demo step:1..m"),
                         ["wdelta", "squash", "my runs/demo", "step:1..main"])

    def test_a_path_with_another_at_is_completed(self):
        self.make_repository("me@here/demo")
        self.assertEqual(self.completed("wdelta log me@here/demo@ma"), ["wdelta", "log", "me@here/demo@main"])

    def test_the_home_directory_is_understood(self):
        self.make_repository("demo")
        self.assertEqual(self.completed("wdelta log ~/demo@ma")[-1].rpartition("@")[2], "main")


class OnTerminal(Laws):
    """A shell that is typed to."""

    def typed(self, keys):
        """The words of the line once these keys were pressed."""
        path = self.scratch / "line"
        path.unlink(missing_ok=True)
        with Terminal(self.start(), self.shell_environment(), self.scratch) as terminal:
            terminal.wait_for("ready> ")
            terminal.type(keys + DUMP)
            while not path.exists() or not path.read_text().endswith("\n"):
                time.sleep(0.01)
                self.assertIsNone(terminal.code)
            self.assertNotIn("wdelta: ", terminal.screen)
        line = path.read_text().rstrip("\n")
        try:
            return shlex.split(line)
        except ValueError:  # a quote that is still open
            return shlex.split(line + keys[keys.find("my runs") - 1])

    def completed(self, line):
        return self.typed(line + "\t")

    def offered(self, line):
        before = len(shlex.split(line + "x"))
        return set(self.typed(line + self.insert_all)[before - 1:])


class BashTest(OnTerminal, testing.Case):
    shell = "bash"
    insert_all = "\x1b*"

    def start(self):
        rc = self.write("bashrc", f"""
source {shlex.quote(str(COMPLETIONS / "wdelta.bash"))}
dump() {{ printf '%s\\n' "$READLINE_LINE" >line; }}
bind -x '"\\C-xd": dump'
PS1='ready> '
""")
        return ["bash", "--noprofile", "--rcfile", rc, "-i"]

    def test_breaks_without_the_at_are_understood(self):
        self.make_repository()
        line = self.typed("shopt -u hostcomplete; COMP_WORDBREAKS=${COMP_WORDBREAKS//[@:]}\nwdelta log my\\ runs/demo@m\t")
        self.assertEqual(line, ["wdelta", "log", "my runs/demo@main"])


class ZshTest(OnTerminal, testing.Case):
    shell = "zsh"
    insert_all = "\x18a"

    def start(self):
        self.write(".zshrc", f"""
fpath=({shlex.quote(str(COMPLETIONS))} $fpath)
autoload -U compinit && compinit -u -D
dump() {{ print -r -- "$BUFFER" >line }}
zle -N dump
bindkey '^Xd' dump
zle -C all complete-word _generic
bindkey '^Xa' all
zstyle ':completion:all::::' completer _all_matches _complete
zstyle ':completion:all:*' insert yes
PS1='ready> '
""")
        return ["zsh", "-d", "-i"]

    def shell_environment(self, **more):
        return super().shell_environment(ZDOTDIR=str(self.scratch), **more)

    def test_descriptions_are_shown(self):
        with Terminal(self.start(), self.shell_environment(), self.scratch) as terminal:
            terminal.wait_for("ready> ")
            terminal.type("wdelta pu\t")
            terminal.wait_for("commit a checkpoint to a repository")


class FishTest(Laws, testing.Case):
    shell = "fish"

    def candidates(self, line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {shlex.quote(str(COMPLETIONS / 'wdelta.fish'))}\n"
                               'complete -C "$LINE"'], env=self.shell_environment(LINE=line), cwd=self.scratch,
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return [row.partition("\t")[::2] for row in done.stdout.splitlines()]

    def offered(self, line):
        return {word for word, _ in self.candidates(line)}

    def completed(self, line):
        words = shlex.split(line + "x" if line.count('"') + line.count("'") == 0 else line + line[line.find("my") - 1])
        offered = self.offered(line)
        self.assertEqual(len(offered), 1, offered)
        return words[:-1] + list(offered)

    def test_descriptions_are_shown(self):
        self.assertIn(("push", "commit a checkpoint to a repository"), self.candidates("wdelta pu"))


class HiddenCommandTest(testing.Case):
    def complete(self, *words, **environment):
        done = self.run_any("complete", "--", *words, env=environment, cwd=self.scratch)
        self.assertEqual((done.code, done.err), (0, ""), done)
        return [line.partition("\t")[0] for line in done.out.splitlines()]

    def make_repository(self):
        checkpoint = self.write_weights("a.safetensors", self.some_weights())
        self.run_ok("push", "-q", checkpoint, self.scratch / "repo", "-b", "main", "--tag", "good")
        return self.scratch / "repo"

    def test_it_is_not_in_the_help(self):
        self.assertNotRegex(self.run_ok("--help"), r"(?m)^  complete\b")

    def test_every_command_and_option_of_the_help_is_offered(self):
        for command in self.complete(""):
            with self.subTest(command):
                for name in self.complete(command, "-"):
                    self.assertIn(name, self.run_ok(command, "--help"))

    def test_the_repository_of_the_environment_is_used(self):
        self.assertIn("@good", self.complete("log", "@", WDELTA_REPO=str(self.make_repository())))
        self.assertEqual(self.complete("log", "@"), [""])

    def test_anything_may_stand_before_the_cursor(self):
        for words in ([], [""], ["--"], ["-"], ["nosuch", ""], ["push", "--nosuch", ""], ["push", "--", "-"],
                      ["push", "--nosuch="], ["log", "a", "b", "c", ""], ["-j"], ["-j", ""], ["push", "-vj", ""],
                      ["log", "@@@@"], ["log", "/dev/zero@"], ["log", "\xff@\n"], ["complete", ""],
                      ["log", "s3://bucket@"], ["log", "nosuch://x@"], ["tag", "", ""], ["log", "~/@"]):
            with self.subTest(words):
                self.complete(*words)

    def test_a_broken_repository_offers_what_is_whole(self):
        repository = self.make_repository()
        self.assertIn("repo@good", self.complete("log", "repo@"))
        for path in (repository / "commits").iterdir():
            path.write_bytes(path.read_bytes()[:-5])
        self.assertEqual(set(self.complete("log", "repo@")), {"repo@main", "repo@good"})
        for path in (repository / "tags").rglob("0*"):
            path.write_text("{}")
        self.assertEqual(self.complete("log", "repo@"), ["repo@main"])
        (repository / "wdelta.json").write_text("[" * 100000)
        self.assertEqual(self.complete("log", "repo@"), [""])

    def test_a_repository_that_does_not_answer_offers_nothing(self):
        repository = self.make_repository()
        (repository / "wdelta.json").unlink()
        os.mkfifo(repository / "wdelta.json")
        self.complete("log", "repo@")

    def test_hostile_names_and_messages_stay_out_of_the_shell(self):
        repository = self.make_repository()
        shutil.copytree(repository / "tags/good", repository / "tags/$(touch pwned)")
        self.run_ok("push", "-q", self.write_weights("b.safetensors", self.some_weights()), repository, "-m",
                    "a\x1b[31mb\tc")
        found = self.run_ok("complete", "--", "log", f"{repository}@")
        self.assertNotIn("pwned", found)
        self.assertIn("a\\x1b[31mb\\x09c", found)


if __name__ == "__main__":
    testing.main()
