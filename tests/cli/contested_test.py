# SPDX-License-Identifier: Apache-2.0
"""Repositories whose branch entries are contested, here in a directory: pushes race and one wins, losers are told, and
what a late entry takes out of a branch is shown as a fork until it has a name."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import testing

SETTLE_MS = 400  # for a disk that is busy: an entry of a directory has the time of its content, before it was synced


class ContestedTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo, tensors = self.scratch / "repo", self.some_weights(1, 500)
        self.write("repo/wdelta.json", self.sealed({
            "format": "wdelta-repository", "version": 1, "id": "a" * 32, "branches": "contested",
            "settle_ms": SETTLE_MS, "tick_ms": 1}))
        for i in range(6):
            self.write_weights(f"step-{i}/model.safetensors", tensors)
            tensors = self.moved(tensors)

    def push(self, step, host="one", *options):
        done = self.run_any("push", self.scratch / f"step-{step}", self.repo, "--step", step, *options,
                            env={"WDELTA_STATE_DIR": str(self.scratch / f"state-{host}")})
        return done

    def pushed(self, step, host="one", *options):
        done = self.push(step, host, *options)
        self.assertEqual(done.code, 0, self.told(done))
        return done.out.strip()

    def log(self, *words):
        lines = self.run_ok("log", self.repo, "--json", *words).splitlines()
        return [(entry["commit"], entry["names"]) for entry in map(json.loads, lines)]

    def entries(self, branch="main"):
        return sorted(path.name for path in (self.repo / "branches" / branch).iterdir())

    def test_the_work_of_every_day(self):
        first = self.pushed(0, "one", "--tag", "v1")
        second = self.pushed(1)
        self.assertEqual(self.log(), [(second, ["main"]), (first, ["tag: v1"])])
        for number, name in enumerate(self.entries(), 1):
            self.assertRegex(name, f"^{number:016}-[0-9a-f]{{32}}-[0-9a-f]{{32}}$")
        self.run_ok("branch", self.repo, "main", first, "--force")
        self.assertEqual(self.log(), [(first, ["main", "tag: v1"])])
        self.assertEqual(len(self.entries()), 3)
        self.run_ok("pull", f"{self.repo}@{second}", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.scratch / "step-1")
        self.run_ok("branch", self.repo, "main", "--delete")
        self.run_fails(4, "log", self.repo, says="main")
        self.assertEqual(len(self.entries()), 4)
        self.assertEqual(self.log("--all"), [(second, []), (first, ["tag: v1"])])
        self.run_ok("branch", self.repo, "main", first)
        self.assertEqual(self.log(), [(first, ["main", "tag: v1"])])
        self.run_ok("verify", self.repo, "--deep")
        self.run_ok("gc", self.repo, "--grace", "0")
        self.run_ok("pull", f"{self.repo}@v1", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.scratch / "step-0")

    def test_of_pushes_from_several_hosts_each_wins_or_is_told(self):
        base, hosts, rounds = self.pushed(0), 6, 3
        for step in range(6, hosts * rounds + 1):
            self.write_weights(f"step-{step}/model.safetensors", self.some_weights(1, 500))

        def work(host):
            return [self.push(1 + host * rounds + i, f"host{host}") for i in range(rounds)]

        with ThreadPoolExecutor(hosts) as pool:
            done = [each for runs in pool.map(work, range(hosts)) for each in runs]
        won = [each.out.strip() for each in done if each.code == 0]
        for each in done:
            self.assertIn(each.code, (0, 7), self.told(each))
            if each.code == 7:
                self.assertIn("moved by someone else", each.err)
                self.assertIn("hint: ", each.err)
        self.assertGreaterEqual(len(won), rounds)
        self.assertEqual({commit for commit, _ in self.log()}, {base, *won})
        self.run_ok("verify", self.repo)

    def test_a_late_entry_makes_a_fork(self):
        base = self.pushed(0)
        self.run_ok("branch", self.repo, "aside", base)
        late = self.pushed(1, "two", "-b", "aside")
        before = self.entries()[0][17:49]
        forked = self.pushed(2)
        write = "f" * 32
        path = self.write(f"repo/branches/main/{2:016}-{write}-{before}", self.sealed({
            "format": "wdelta-entry", "version": 1, "commit": late, "write": write, "before": before,
            "time": "2026-01-01T00:00:00Z"}))
        os.utime(path, (1, 1))  # as if it had been there first
        self.assertEqual(self.log(), [(late, ["aside", "main"]), (base, []), (forked, ["fork of main"])])
        self.assertEqual([commit for commit, _ in self.log("-n", "1")], [late])
        self.assertRegex(self.run_ok("log", self.repo), rf"{forked[:12]}.*\(fork of main\)")
        done = self.run_any("verify", self.repo)
        self.assertEqual(done.code, 0, self.told(done))
        self.assertRegex(done.err, rf"note: branch main has a fork: commit {forked}")
        self.run_ok("gc", self.repo, "--grace", "0")
        done = self.push(3)
        self.assertEqual(done.code, 0, self.told(done))
        told = re.search(r"note: branch main has a fork: .*(wdelta branch REPO NAME [0-9a-f]+)", done.err)
        self.assertTrue(told, self.told(done))
        self.run_ok("pull", f"{self.repo}@{forked}", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.scratch / "step-2")
        self.run_ok(*told.group(1).replace("REPO", str(self.repo)).replace("NAME", "kept").split()[1:])
        self.assertNotIn("fork", self.run_ok("log", self.repo))
        self.assertNotIn("fork", self.push(4).err)

    def test_damage_to_entries_is_found(self):
        self.pushed(0), self.pushed(1), self.pushed(2)
        middle = self.repo / "branches/main" / self.entries()[1]
        content = middle.read_bytes()
        for damaged in (content[:-9], content.replace(b'"write":"', b'"write":"0', 1), b""):
            middle.write_bytes(damaged)
            self.run_fails(5, "verify", self.repo, says=middle.name)
        middle.unlink()
        self.assertIn("missing", self.run_fails(5, "verify", self.repo).out)

    def test_settings_that_make_no_sense_are_refused(self):
        for settle, tick in ((0, 1), (1, 0), (600001, 1), ("1", 1), (None, 1)):
            self.write("repo/wdelta.json", self.sealed({
                "format": "wdelta-repository", "version": 1, "id": "a" * 32, "branches": "contested",
                **({} if settle is None else {"settle_ms": settle}), "tick_ms": tick}))
            self.run_fails(5, "log", self.repo, says="_ms")


if __name__ == "__main__":
    testing.main()
