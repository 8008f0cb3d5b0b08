# SPDX-License-Identifier: Apache-2.0
"""Every command that writes, killed before and after every call by which something becomes visible or vanishes, and with
each of these calls failing: outputs are absent or whole, the repository is sound, nothing that was reported is lost, no
loader starts on a mixture, and the same command run again finishes. What was observed at each point is printed with -v,
and goes to the file that KILL_POINTS_TABLE names.

KILL_POINTS=pull (part of a row's name) runs only those rows."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import kill_points
import testing

CHAIN = [f"push ../{name} repo --step {i}" for i, name in enumerate("abcb", 1)]


class Row(NamedTuple):
    """A command, run in a directory where `before` was run. ../a, ../b, ../c are checkpoints; it writes below here."""
    name: str
    command: str
    before: list = []
    out: str = None  # what `out` is in the end: a checkpoint, or "" where one whole run tells
    tip: str = None  # the checkpoint that becomes the tip of main
    tags: dict = {}  # what tags are in the end, by revision
    gone: tuple = ()  # steps that it may take


ROWS = (
    Row("diff -o FILE", "diff ../a/model-1.safetensors ../b/model-1.safetensors -o out", out=""),
    Row("diff -o DIRECTORY", "diff ../a ../b -o out", out=""),
    Row("apply FILE", "apply ../a/model-1.safetensors ../file.delta -o out", out=""),
    Row("apply DIRECTORY", "apply ../a ../directory.delta -o out", out="b"),
    Row("push, the first", "push ../a repo", tip="a"),
    Row("push, the next", "push ../b repo", ["push ../a repo"], tip="b"),
    Row("push --compress-anchors", "push ../a repo --compress-anchors", tip="a"),
    Row("push --tag --anchor", "push ../b repo --tag v --anchor now", ["push ../a repo"], tip="b", tags={"v": "main"}),
    Row("pull into nothing", "pull repo out", ["push ../b repo"], out="b"),
    Row("pull over another", "pull repo out", ["push ../a repo", "pull repo out", "push ../b repo"], out="b"),
    Row("pull back", "pull repo@main~1 out", ["push ../a repo", "push ../b repo", "pull repo out"], out="a"),
    Row("pull of side files", "pull repo out", ["push ../b repo", "pull repo out", "push ../c repo"], out="c"),
    Row("pull --force", "pull repo out --force",
        ["push ../a repo", "pull repo out", "push ../b repo", "spoil out"], out="b"),
    Row("tag", "tag repo v", ["push ../a repo"], tags={"v": "main"}),
    Row("tag --force", "tag repo v main --force", ["push ../a repo", "tag repo v", "push ../b repo"],
        tags={"v": "main"}),
    Row("pull --swap", "pull repo out --swap", ["push ../a repo", "pull repo out", "push ../b repo"], out="b"),
    Row("squash", "squash repo step:1..step:4", CHAIN),
    Row("squash --anchor", "squash repo step:1..step:3 --anchor", CHAIN),
    Row("squash --compress-anchors", "squash repo step:1..step:3 --anchor --compress-anchors", CHAIN),
    Row("branch", "branch repo side step:2", CHAIN),
    Row("branch --force", "branch repo side step:4 --force", [*CHAIN, "branch repo side step:2"]),
    Row("branch --delete", "branch repo side --delete", [*CHAIN, "branch repo side step:2"]),
    Row("gc", "gc repo", [*CHAIN, "killed push ../c repo -b side"]),
    Row("gc --grace 0", "gc repo --grace 0", [*CHAIN, "squash repo step:1..step:4", "killed push ../c repo -b side"],
        gone=(2, 3)),
)


class KillPointsTest(testing.Case):
    table = []

    def setUp(self):
        super().setUp()
        kill_points.require(self)
        self.place = self.scratch / "place"
        self.place.mkdir()
        self.checkpoints()

    def checkpoints(self):
        tensors = {name: self.some_weights(2, 900) for name in ("1", "2", "old", "new")}
        tensors["1"] = [("even", "BF16", [9000], b"\0\x3c" * 9000)]  # what can be compressed
        moved = {name: self.moved(each) for name, each in tensors.items()}
        side = self.random.randbytes(66000)
        for name, places in (("a", {"1": tensors["1"], "2": tensors["2"], "old": tensors["old"]}),
                             ("b", {"1": moved["1"], "2": tensors["2"], "renamed": tensors["old"], "new": moved["new"]}),
                             ("c", {"1": moved["1"], "2": tensors["2"], "renamed": tensors["old"], "new": moved["new"]})):
            for place, content in places.items():
                self.write_weights(f"{name}/model-{place}.safetensors", content)
            index = {"weight_map": {place: f"model-{place}.safetensors" for place in places}}
            self.write(f"{name}/model.safetensors.index.json", json.dumps(index))
            self.write(f"{name}/config.json", json.dumps({"name": name}))
            self.write(f"{name}/run.sh", f"# {name}", executable=name == "a")
            self.write(f"{name}/packed", side + name.encode())
            self.write(f"{name}/{'both' if name == 'a' else 'both/be/low'}", "a file, and a directory of that name")
            self.write(f"{name}/only/in/{name}", "a directory that comes and goes")
        self.run_ok("diff", self.scratch / "a", self.scratch / "b", "-o", self.scratch / "directory.delta")
        self.run_ok("diff", self.scratch / "a/model-1.safetensors", self.scratch / "b/model-1.safetensors", "-o",
                    self.scratch / "file.delta")
        self.trees = {name: testing.describe(self.scratch / name) for name in "abc"}
        self.assertEqual(kill_points.weights_of(self.trees["b"]), kill_points.weights_of(self.trees["c"]))

    # A run in the directory of the row, with the state in it.
    def here(self, *words, **more):
        env = {"WDELTA_STATE_DIR": "state", **more.pop("env", {})}
        return self.run_any(*words, cwd=self.place, env=env, **more)

    def here_ok(self, *words):
        done = self.here(*words)
        self.assertEqual(done.code, 0, self.told(done))
        return done.out

    def begin(self, row):
        """Makes what the row starts from, and finds out how it ends."""
        self.row, self.reported = row, {}
        for command in row.before:
            words = command.split()
            if words[0] == "spoil":
                self.write("place/out/model-1.safetensors", b"spoilt")
                self.write("place/out/both", b"spoilt")
                continue
            if words[0] == "killed":
                self.here(*words[1:], env=kill_points.environment(self.place, "before:12"))
                continue
            printed = self.here_ok(*words).strip()
            if words[0] == "push":
                self.reported[printed] = words[1][-1]
        self.start = self.scratch / "start"
        shutil.copytree(self.place, self.start)
        self.found = {}
        self.had_tags = self.tags()
        self.whole_trees = [*self.trees.values(), *([self.out()] if "spoil out" in row.before else [])]
        log = self.scratch / "log"
        self.whole = None
        done = self.here(*row.command.split(), env=kill_points.environment(self.place, log=log))
        self.assertEqual(done.code, 0, self.told(done))
        if row.out is not None:
            self.whole = self.out() if row.out == "" else self.trees[row.out]
        self.check_finished("whole")
        self.points = kill_points.read_log(log)
        self.restore()

    def restore(self):
        shutil.rmtree(self.place)
        shutil.copytree(self.start, self.place)

    def out(self):
        """What `out` is: None, the digest of a file, or what is in a directory."""
        out = self.place / "out"
        if not os.path.lexists(out):
            return None
        return testing.describe(out) if out.is_dir() else testing.file_digest(out)

    def tags(self):
        return json.loads(self.here_ok("tag", "repo", "--json")) if self.has_commits() else {}

    def has_commits(self):
        return any((self.place / "repo" / "branches").rglob("[0-9]*"))

    def log(self):
        return [json.loads(line)["commit"] for line in self.here_ok("log", "repo", "--json").splitlines()]

    def of_repository(self, check):
        """What `check` returns, which asks for nothing but the bytes of the repository: of the same ones it is not asked
        again."""
        asked = (check.__name__, *sorted(testing.describe(self.place / "repo").items()))
        if asked not in self.found:
            self.found[asked] = check()
        return self.found[asked]

    def check_repository(self):
        """The repository is sound and has all that was reported; returns what became of the branch."""
        if not (self.place / "repo" / "wdelta.json").exists():
            self.assertEqual(self.reported, {})
            return "no repository"
        if not self.has_commits():
            self.assertEqual(self.reported, {})
            done = self.here("log", "repo")
            self.assertEqual(done.code, 4, self.told(done))
            return "no commit"
        self.here_ok("verify", "repo", *(["--deep"] if self.row.command.startswith(("squash", "gc")) else []))
        log = self.log()
        self.assertEqual([commit for commit in reversed(log) if commit in self.reported], list(self.reported))
        tags = self.tags()
        self.assertEqual(tags.keys() | self.had_tags.keys(), tags.keys())
        moved = " and tag" if tags != self.had_tags else ""
        return ("new commit" if len(log) > len(self.reported) else "old commit") + moved

    def check_killed(self):
        """The law for what is there when a run has ended anyhow; returns what that is, in a few words."""
        observed = []
        if (self.place / "repo").exists() and self.row.before or self.row.tip:
            observed.append(self.of_repository(self.check_repository))
        if self.row.out is not None:
            observed.append(self.check_out())
        return ", ".join(observed)

    def check_out(self):
        found = self.out()
        if not self.row.command.startswith("pull"):
            self.assertIn(found, (None, self.whole))
            return "out absent" if found is None else "out whole"
        found = {} if found is None else {path: what for path, what in found.items() if ".wdelta-" not in path}
        for name, tree in self.trees.items():
            if found == tree:
                return f"out is {name}"
        self.assertIsNone(kill_points.mixture(found, self.whole_trees))
        if found == self.whole_trees[-1]:
            return "out as it was spoilt"
        return "whole weights" if set(found) & set(kill_points.ENTRANCES) else "no loader starts"

    def check_finished(self, before):
        """The law for what is there when the command was run to its end."""
        if self.whole is not None:
            self.assertEqual(self.out(), self.whole)
        if (self.place / "out/.wdelta").exists():
            self.assertLessEqual(set(os.listdir(self.place / "out/.wdelta")), {"lock", "state.json"})
        if (self.place / "repo").exists():
            self.of_repository(self.check_repository)
            self.of_repository(self.check_commits)
        for folder in (path for path in self.place.iterdir() if path.name != "repo"):
            self.assert_no_leftovers(folder)
        self.assertEqual([path for path in os.listdir(self.place) if ".wdelta-" in path], [], before)

    def check_commits(self):
        """The repository has all commits that it should, and they are what was pushed."""
        log = self.log()
        commits = dict(self.reported)
        if self.row.tip:
            commits[log[0]] = self.row.tip
        self.assertEqual(set(log), set(commits))
        for tag, revision in self.row.tags.items():
            self.assertEqual(self.here_ok("show", f"repo@{tag}", "--json"),
                             self.here_ok("show", f"repo@{revision}", "--json"))
        for step, (commit, name) in enumerate(commits.items(), 1):
            if step in self.row.gone:
                done = self.here("pull", f"repo@{commit}", "../fresh")
                self.assertEqual(done.code, 4, self.told(done))
                continue
            self.here_ok("pull", f"repo@{commit}", "../fresh")
            self.assert_same_tree(self.scratch / "fresh", self.scratch / name)
            shutil.rmtree(self.scratch / "fresh")

    def run_again(self, observed):
        again = self.here(*self.row.command.split())
        if again.code == 3 and observed == "out whole":  # a directory that is there already is not replaced
            self.assertIn("exists and is not an empty directory", again.err)
        elif again.code == 4 and self.row.name == "branch --delete":  # nor is one deleted that is not there any more
            self.assertIn("side: is no branch", again.err)
        else:
            self.assertEqual(again.code, 0, self.told(again))
        if self.row.name == "branch --delete":
            self.assertNotIn("side", json.loads(self.here_ok("branch", "repo", "--json")))

    def one_point(self, point, at):
        done = self.here(*self.row.command.split(), "-q", env=kill_points.environment(self.place, at))
        with self.subTest(row=self.row.name, at=at, point=point.told(self.place)):
            if at.startswith(("before", "after")):
                self.assertEqual(done.code, -signal.SIGKILL, self.told(done))
            elif done.code != 0:
                self.assertEqual(done.code, 3, self.told(done))
                self.assert_one_line_error(done)
                if not point.removes:
                    self.assertLessEqual(self.leftovers(self.place), self.leftovers(self.start))
            if point.removes and at.startswith("fail"):
                self.remove_what_could_not_be_removed()
            observed = self.check_killed()
            if done.code == 0 and self.whole is not None:
                self.assertEqual(self.out(), self.whole)
            self.run_again(observed)
            self.check_finished(observed)
            KillPointsTest.table.append((self.row.name, at, point.told(self.place), done.code, observed))
        self.restore()

    def leftovers(self, folder):
        return {str(path.relative_to(folder)) for path in folder.rglob(".*.wdelta-??????")}

    def remove_what_could_not_be_removed(self):
        for path in [*self.place.rglob(".*.wdelta-??????")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def kill_at_every_point(self, row):
        self.begin(row)
        for point in self.points:
            if not point.writes:
                self.one_point(point, f"before:{point.number}")
                if not point.syncs:  # which is seen by nobody
                    self.one_point(point, f"after:{point.number}")
        self.assertGreater(len(self.points), 2)
        self.check_checkpoints()

    def fail_at_every_point(self, row):
        self.begin(row)
        for point in self.points:
            self.one_point(point, kill_points.error_for(point))
        self.check_checkpoints()

    def check_order(self, row):
        """Whatever a run reports is on the disk, and whatever names something is there after what it names."""
        self.begin(row)
        repo = os.path.realpath(self.place / "repo")
        to_sync, to_sync_folders = set(), set()
        for point in self.points:
            if point.error != 0:
                continue
            new = point.other if point.call in ("rename", "link") else point.path
            if point.writes:
                to_sync.add(point.path)
            elif point.syncs:
                to_sync.discard(point.path)
                to_sync_folders.discard(point.path)
            elif point.call == "mkdir" and new.startswith(repo):
                to_sync_folders.add(os.path.dirname(new))
            elif point.call in ("rename", "link") and new.startswith(repo):
                with self.subTest(row=row.name, number=point.number, point=point.told(self.place)):
                    self.assertNotIn(point.path, to_sync)
                    if "/branches/" in new or "/tags/" in new:
                        self.assertEqual(to_sync_folders, set())
                if "/staging/" not in new:  # where gc puts what it is about to remove
                    to_sync_folders.add(os.path.dirname(new))
        self.assertEqual(to_sync_folders, set())

    def check_checkpoints(self):
        for name, tree in self.trees.items():
            self.assertEqual(testing.describe(self.scratch / name), tree)

    @classmethod
    def tearDownClass(cls):
        lines = [f"{name}\t{at}\t{point}\texit {code}\t{observed}\n" for name, at, point, code, observed in cls.table]
        if "-v" in sys.argv:
            sys.stderr.writelines(lines)
        if os.environ.get("KILL_POINTS_TABLE"):
            Path(os.environ["KILL_POINTS_TABLE"]).write_text("".join(lines))


def add_tests():
    for row in ROWS:
        if os.environ.get("KILL_POINTS", "") in row.name:
            name = "".join(c if c.isalnum() else "_" for c in row.name)
            setattr(KillPointsTest, f"test_killed_in_{name}", lambda self, row=row: self.kill_at_every_point(row))
            if row.name.startswith(("push", "tag", "squash", "branch", "gc")):
                setattr(KillPointsTest, f"test_order_on_disk_in_{name}", lambda self, row=row: self.check_order(row))
            setattr(KillPointsTest, f"test_failing_in_{name}", lambda self, row=row: self.fail_at_every_point(row))


add_tests()
if __name__ == "__main__":
    kill_points.main()
