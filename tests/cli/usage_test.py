# SPDX-License-Identifier: Apache-2.0
"""Mistyped words are named and get a hint; help is there for every command."""

import json

import testing


class MistypedTest(testing.Case):
    def assert_hint(self, hint, *words, says):
        done = self.run_any(*words)
        self.assertEqual(done.code, 2, done)
        self.assertEqual(done.err.splitlines(), [f"wdelta: {says}", f"hint: {hint}"])
        self.assertEqual(done.out, "")

    def test_the_command_that_was_meant_is_named(self):
        self.assert_hint("did you mean push?", "psuh", "a", "b", says="psuh: is no command")
        self.assert_hint("did you mean verify?", "verfy", says="verfy: is no command")
        self.assert_hint("did you mean pull?", "help", "pul", says="help: pul: is no command")
        self.assert_hint("wdelta --help lists the commands", "frobnicate", says="frobnicate: is no command")
        self.assert_hint("wdelta --help lists the commands", "", says="'': is no command")
        self.assert_hint("wdelta --help lists the commands", "x" * 100000, says=f"{'x' * 4096} ... {'x' * 4096}: is no command")

    def test_an_option_that_may_be_repeated_takes_one_word(self):
        self.write("a/f", "x")
        for i, words in enumerate(("--exclude blobs a REPO", "a --exclude blobs REPO", "--exclude=blobs a REPO",
                                   "--meta k=v a REPO", "--include f a REPO", "--meta k=v --meta l=w a REPO",
                                   "--include f --exclude g --include h a REPO")):
            where = {"a": self.scratch / "a", "REPO": self.scratch / f"repo-{i}"}
            self.run_ok("push", *(where.get(word, word) for word in words.split()))
        shown = json.loads(self.run_ok("show", self.scratch / "repo-5", "--json"))
        self.assertEqual(shown["meta"], {"k": "v", "l": "w"})

    def test_a_command_that_lacks_is_told_in_json_too(self):
        done = self.run_any("--json")
        self.assertEqual((done.code, json.loads(done.out)["error"]["status"]), (2, 2))
        self.assertEqual(done.err.splitlines(), ["wdelta: a command is missing", "hint: wdelta --help lists them"])

    def test_the_option_that_was_meant_is_named(self):
        self.assert_hint("did you mean --step?", "push", "--stpe", "5", "a", "b", says="push: --stpe: is no option")
        self.assert_hint("did you mean --anchor?", "push", "--anch=now", says="push: --anch: is no option")
        self.assert_hint("did you mean --json?", "--jsno", "log", "a", says="log: --jsno: is no option")
        self.assert_hint("wdelta log --help lists the options", "log", "-Q", "a", says="log: -Q: is no option")

    def test_what_nothing_takes_and_what_lacks_is_named(self):
        self.assert_hint("wdelta log --help", "log", "a", "b", "c", says="log: b: is one argument too many")
        self.assert_hint("wdelta push --help", "push", says="push: CHECKPOINT is required")

    def test_a_revision_of_no_characters_is_a_variable_that_is_not_set(self):
        self.write_weights("a/model.safetensors", self.some_weights())
        repository, out = self.scratch / "repository", self.scratch / "out"
        self.run_ok("push", self.scratch / "a", repository)
        for words in (["verify"], ["verify", self.scratch / "a"], ["log"], ["show"], ["diff", self.scratch / "a"]):
            self.run_fails(2, *words, f"{repository}@", says="names no revision behind its '@'")
        self.run_fails(2, "pull", f"{repository}@", out, says="names no revision", absent=out)
        for words in (["tag", repository, "v1", ""], ["branch", repository, "side", ""]):
            self.run_fails(2, *words)
        self.assertEqual(self.run_ok("tag", repository), "")

    def test_words_of_no_characters_are_variables_that_are_not_set(self):
        self.assert_hint("wdelta gc --help", "gc", "repository", "--grace", "", says="gc: --grace: is empty")
        for option in ("--meta", "--include", "--exclude", "--limit-rate"):
            self.assert_hint("wdelta push --help", "push", "a", "b", option, "", says=f"push: {option}: is empty")
        if "s3://" in self.run_ok("--version", "-v"):
            for location in ("s3://", "s3:///prefix"):
                self.run_fails(2, "log", location, says="wdelta: log: s3://: names no bucket")

    def test_what_was_mistyped_cannot_paint_the_terminal(self):
        self.assertNotIn("\x1b", self.run_any("\x1b[31mpush").err)


class HelpTest(testing.Case):
    def test_an_option_without_its_value_or_in_front_of_its_command(self):
        self.run_fails(2, "push", "--step", says="--step: has no value")
        done = self.run_any("--step", "4", "push", "a", "r")
        self.assertEqual((done.code, done.err.splitlines()), (2, ["wdelta: push: --step: stands in front of its command",
                                                                  "hint: wdelta push --step"]))
        self.run_fails(2, "push", "--step", "abc", "a", "r", says='"abc" is no whole number')

    def test_an_option_with_an_empty_value_takes_no_word_more(self):
        self.write_weights("a/m.safetensors", self.some_weights(1, 10))
        self.run_ok("push", "--message=", self.scratch / "a", self.scratch / "r")
        self.run_fails(2, "diff", "--encoding=", self.scratch / "a", self.scratch / "a", says="--encoding")

    def test_a_revision_of_its_own_where_a_repository_has_it(self):
        self.run_fails(2, "show", "r", "step:1", says="a revision is written r@step:1")

    def test_a_url_with_too_few_slashes(self):
        for location in ("s3:/bucket/run", "hf:buckets/me/run", "file:/tmp"):
            self.run_fails(2, "log", location, says=(location, "a URL begins with"))

    def test_every_command_has_help(self):
        commands = [line.split()[0] for line in self.run_ok("--help").partition("Subcommands:\n")[2].splitlines()
                    if line.startswith("  ") and line[2] != " "]
        self.assertIn("push", commands)
        for command in commands:
            with self.subTest(command):
                self.assertIn(f"Usage: wdelta {command} ", self.run_ok(command, "--help"))
                self.assertIn(command, self.run_ok("help", command))
        self.assertIn("wdelta", self.run_ok("help"))

    def test_the_version_names_every_kind_of_store(self):
        said = self.run_ok("--version", "-v")
        self.assertIn("file://", said)
        for scheme in ("hf://buckets/", "s3://"):
            self.assertTrue(scheme in said or "reaches no network" in said, said)

    def test_without_man_the_short_help_is_printed(self):
        self.assertIn("Usage: wdelta push ", self.run_ok("help", "push", env={"PATH": "/nowhere"}))
        self.assertIn("Usage: wdelta ", self.run_ok("help", env={"PATH": "/nowhere"}))

    def test_man_is_asked_for_the_page_of_the_command(self):
        self.write("bin/man", "#!/bin/sh\necho \"page $*\"\n", executable=True)
        environment = {"PATH": f"{self.scratch}/bin:/bin:/usr/bin"}
        self.assertEqual(self.run_ok("help", "push", env=environment), "page wdelta-push\n")
        self.assertEqual(self.run_ok("help", env=environment), "page wdelta\n")

    def test_exit_statuses_are_listed(self):
        self.assertRegex(self.run_ok("help", "exit-codes"), r"(?m)^  7  conflict")


if __name__ == "__main__":
    testing.main()
