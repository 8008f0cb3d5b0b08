# SPDX-License-Identifier: Apache-2.0
"""Names that are deleted are not there, no commit goes with them, and all of it is found again."""

import json

import testing


class NamesTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo, self.count = self.scratch / "repo", 0
        self.main = [self.push() for _ in range(3)]
        self.run_ok("branch", self.repo, "side", self.main[1])
        self.side = [self.push("-b", "side") for _ in range(2)]

    def push(self, *options):
        self.write_weights(f"step-{self.count}/model.safetensors", self.some_weights(1, 500))
        commit = self.run_ok("push", self.scratch / f"step-{self.count}", self.repo, "--step", self.count, *options)
        self.count += 1
        return commit.strip()

    def listed(self, kind):
        return json.loads(self.run_ok(kind, self.repo, "--json"))

    def log(self, *words):
        lines = self.run_ok("log", self.repo, "--json", *words).splitlines()
        return {entry["commit"]: entry["names"] for entry in map(json.loads, lines)}

    def pulls(self, revision, step):
        self.run_ok("pull", f"{self.repo}@{revision}", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.scratch / f"step-{step}")

    def test_a_deleted_name_is_not_there_and_comes_back(self):
        for kind, others in (("branch", {"main": self.main[2], "side": self.side[1]}), ("tag", {})):
            self.run_ok(kind, self.repo, "gone", self.main[0])
            self.run_ok(kind, self.repo, "gone", self.main[1], "--force")
            entries = sorted((self.repo / ("branches" if kind == "branch" else "tags") / "gone").iterdir())
            self.assertEqual(self.run_ok(kind, self.repo, "-d", "gone"), f"deleted  gone (was {self.main[1]})\n")
            self.assertTrue(all(path.exists() for path in entries))
            self.assertEqual(self.listed(kind), others)
            self.assertEqual(self.run_ok(kind, self.repo, "-v"),
                             "".join(f"{commit}  {name}\n" for name, commit in sorted(others.items())))
            self.assertNotIn("gone", self.run_ok("log", self.repo))
            for words in (["pull", f"{self.repo}@gone", self.scratch / "absent"], ["show", f"{self.repo}@gone"],
                          [kind, self.repo, "-d", "gone"]):
                self.run_fails(4, *words, says="gone", absent=self.scratch / "absent")
            stats = json.loads(self.run_ok("stats", self.repo, "--json"))
            self.assertEqual((stats["branches"], stats["tags"]), (2, 0))
            self.run_ok("verify", self.repo)
            # As any name that is free.
            told = json.loads(self.run_ok(kind, self.repo, "gone", self.main[2], "--json"))
            self.assertEqual(told, {kind: "gone", "commit": self.main[2], "before": None})
            self.pulls("gone", 2)
            told = json.loads(self.run_ok(kind, self.repo, "--delete", "gone", "--json"))
            self.assertEqual(told, {kind: "gone", "commit": None, "before": self.main[2]})
            self.assertEqual(self.run_ok(kind, "-q", self.repo, "gone", self.main[2]), "")
            self.assertEqual(self.run_ok(kind, "-q", self.repo, "gone", "-d"), "")

    def test_what_cannot_be_deleted(self):
        for kind in ("branch", "tag"):
            self.run_fails(4, kind, self.repo, "-d", "never", says="never")
            for words, says in (([], "--delete requires NAME"), (["side", self.main[0]], "excludes --delete"),
                                (["-f", "side"], "excludes")):
                done = self.run_any(kind, self.repo, "-d", *words)
                self.assertEqual(done.code, 2, self.told(done))
                self.assertIn(says, done.err)
            self.run_fails(2, kind, self.repo, "-d", "a b", says="a b")
            self.run_fails(4, kind, self.scratch / "nothing", "-d", "side", absent=self.scratch / "nothing")
        self.run_fails(4, "branch", self.repo, "-d", "sid", says="sid")
        self.run_fails(4, "tag", self.repo, "-d", "side", says="side")  # a branch
        self.assertEqual(set(self.listed("branch")), {"main", "side"})

    def test_no_name_goes_before_an_id(self):
        for kind in ("branch", "tag"):
            self.run_fails(2, kind, self.repo, self.main[2], self.main[0], says="form of a commit's id")
        self.run_fails(2, "push", self.scratch / "step-0", self.repo, "-b", self.main[2], says="form of a commit's id")
        self.run_ok("tag", self.repo, self.main[2][:12], self.main[0])
        self.pulls(self.main[2][:12], 0)
        self.pulls(self.main[2][:13], 2)
        # By somebody who can write there, but not make a file of another digest.
        tags = self.repo / "tags"
        (tags / self.main[2][:12]).rename(tags / self.main[2])
        self.pulls(self.main[2], 2)

    def test_a_branch_that_was_deleted_begins_anew(self):
        self.run_ok("branch", self.repo, "-d", "main")
        done = self.run_fails(4, "log", self.repo, says="main")
        self.assertIn("--all", done.err)
        self.run_fails(4, "push", f"{self.repo}@main", self.scratch / "other", says="main")
        first = self.push()
        self.assertEqual(list(self.log()), [first])
        self.pulls("main", 5)
        for step, commit in ((2, self.main[2]), (4, self.side[1])):
            self.pulls(commit, step)
        self.run_ok("verify", self.repo, "--deep")

    def test_nothing_is_lost_with_a_name(self):
        self.run_ok("branch", self.repo, "-d", "side")
        self.run_ok("branch", self.repo, "main", self.main[0], "--force")
        for _ in range(2):
            self.run_ok("gc", self.repo, "--grace", "0")
        self.run_ok("verify", self.repo, "--deep")
        for step, commit in enumerate([*self.main, *self.side]):
            self.pulls(commit, step)
        self.run_ok("branch", self.repo, "side", self.side[1])
        self.assertEqual(list(self.log("-n", "9")), [self.main[0]])
        self.pulls("side~1", 3)

    def test_a_commit_whose_tag_was_deleted_can_be_squashed(self):
        self.run_ok("tag", self.repo, "keep", self.main[1])
        self.run_ok("branch", self.repo, "-d", "side")
        self.push()
        before = json.loads(self.run_ok("squash", self.repo, f"{self.main[0]}..main", "--dry-run", "--json"))
        self.assertIn(self.main[1], before["kept"])
        self.run_ok("tag", self.repo, "keep", "--delete")
        self.run_ok("squash", self.repo, f"{self.main[1]}..main")
        self.run_ok("gc", self.repo, "--grace", "0")
        self.run_ok("verify", self.repo, "--deep")
        self.pulls(self.main[1], 1)  # two commits were pushed on top of it
        self.run_fails(4, "pull", f"{self.repo}@{self.main[2]}", self.scratch / "out", says="squash")

    def test_log_of_all(self):
        self.run_ok("branch", self.repo, "-d", "side")
        self.run_ok("branch", self.repo, "main", self.main[0], "--force")
        self.run_ok("tag", self.repo, "v1", self.main[0])
        late = self.push()
        everything = self.log("--all")
        self.assertEqual(set(everything), {*self.main, *self.side, late})
        order = list(everything)
        for child, parent in ((late, self.main[0]), (self.main[1], self.main[0]), (self.main[2], self.main[1]),
                              (self.side[0], self.main[1]), (self.side[1], self.side[0])):
            self.assertLess(order.index(child), order.index(parent))
        self.assertEqual({commit: names for commit, names in everything.items() if names},
                         {late: ["main"], self.main[0]: ["tag: v1"]})
        self.assertEqual(list(self.log("-a", "-n", "2")), order[:2])
        lines = self.run_ok("log", "-a", self.repo).splitlines()
        self.assertEqual([line[:12] for line in lines], [commit[:12] for commit in order])
        self.run_fails(2, "log", "-a", f"{self.repo}@main", says="main")
        self.run_fails(4, "log", "-a", self.scratch / "nothing")


if __name__ == "__main__":
    testing.main()
