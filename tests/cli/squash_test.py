# SPDX-License-Identifier: Apache-2.0
"""squash and gc: what is kept pulls bit for bit for ever, what is given up pulls until gc took it, and gc takes nothing
that anything needs, that is too young, or that is not of wdelta."""

import json
import os
import shutil
import time
import urllib.parse

import kill_points
import testing

ANCHOR = ("--anchor", "never")


class SquashTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo, self.steps, self.ids = self.scratch / "repo", [], []
        self.tensors = self.some_weights(2, 20000)
        for i in range(7):
            self.ids.append(self.push(self.next_step(), "--step", i))

    def next_step(self):
        """The next checkpoint of the run."""
        i = len(self.steps)
        self.write_weights(f"step-{i}/model.safetensors", self.tensors)
        self.write(f"step-{i}/config.json", json.dumps({"step": i}))
        self.write(f"step-{i}/extra-{i % 3}", b"%d" % i * 40000)
        self.steps.append(self.scratch / f"step-{i}")
        self.tensors = self.moved(self.tensors)
        return self.steps[-1]

    def push(self, step, *options):
        return self.run_ok("push", step, self.repo, *ANCHOR, *options).strip()

    def squash(self, revisions, *options):
        return json.loads(self.run_ok("squash", self.repo, revisions, "--json", *options))

    def gc(self, *options):
        self.assert_no_leftovers()
        return json.loads(self.run_ok("gc", self.repo, "--json", *options))

    def log(self):
        return [json.loads(line)["commit"] for line in self.run_ok("log", self.repo, "--json").splitlines()]

    def stored_bytes(self):
        return sum(path.stat().st_size for path in (self.repo / "objects").rglob("*") if path.is_file())

    def pulls(self, i):
        shutil.rmtree(self.scratch / "out", ignore_errors=True)
        self.run_ok("pull", f"{self.repo}@{self.ids[i]}", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.steps[i])

    def pulls_only(self, kept):
        """These commits come back, the others are told to be gone; all of them stay in the log."""
        self.assertEqual(self.log(), self.ids[::-1])
        self.run_ok("verify", self.repo, "--deep")
        for i, commit in enumerate(self.ids):
            if i in kept:
                self.pulls(i)
            else:
                shutil.rmtree(self.scratch / "out", ignore_errors=True)
                self.run_fails(4, "pull", f"{self.repo}@{commit}", self.scratch / "out", absent=self.scratch / "out",
                               says="squash")

    def everything(self):
        return range(len(self.ids))

    def test_a_squash_changes_no_commit_until_gc(self):
        done = self.squash("step:1..step:5")
        self.assertEqual((done["squashed"], done["kept"]), (self.ids[4:1:-1][::-1], [self.ids[5]]))
        self.assertGreater(done["stored_bytes"], 0)
        self.pulls_only(self.everything())
        before = self.stored_bytes()
        gone = self.gc("--grace", "0")
        self.assertEqual(sorted(gone["given_up"]), sorted(self.ids[2:5]))
        self.assertEqual(before - self.stored_bytes(), gone["removed_bytes"])
        self.assertGreater(gone["removed"], 2)
        self.pulls_only((0, 1, 5, 6))
        self.assertEqual(self.gc("--grace", "0"),
                         {"given_up": [], "removed": 0, "removed_bytes": 0, "planned": 0, "planned_bytes": 0})
        self.ids.append(self.push(self.steps[2]))
        self.steps.append(self.steps[2])
        self.pulls_only((0, 1, 5, 6, 7))

    def test_into_an_anchor(self):
        done = self.squash("..step:4", "--anchor")
        self.assertEqual((done["squashed"], done["kept"]), (self.ids[:4], [self.ids[4]]))
        self.gc("--grace", "0")
        self.pulls_only((4, 5, 6))

    def test_an_anchor_for_one_commit_is_found(self):
        self.assertEqual(self.squash("step:4..step:5", "--anchor")["squashed"], [])
        shown = json.loads(self.run_ok("show", f"{self.repo}@step:5", "--json"))
        self.assertEqual({file["fetch"] for file in shown["files"]} - {"in the manifest"}, {"whole"})
        self.gc("--grace", "0")
        self.pulls_only(range(7))

    def test_what_is_named_or_branches_stays(self):
        self.run_ok("tag", self.repo, "v2", "step:2")
        self.run_ok("branch", self.repo, "old", "step:3")
        self.run_ok("branch", self.repo, "side", "step:4")
        side = self.push(self.steps[0], "-b", "side")
        done = self.squash("step:0..main")
        self.assertEqual(done["squashed"], [self.ids[1], self.ids[5]])
        self.assertEqual(done["kept"], [self.ids[i] for i in (2, 3, 4, 6)])
        self.gc("--grace", "0")
        self.pulls_only((0, 2, 3, 4, 6))
        self.run_ok("pull", f"{self.repo}@{side}", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.steps[0])

    def test_one_that_was_named_after_its_squash_is_wanted(self):
        self.squash("step:0..main")
        self.run_ok("tag", self.repo, "v3", "step:3")
        self.gc("--grace", "0")
        self.pulls(3)
        self.pulls_only({0, 3, 6} | {i for i in (1, 2, 4, 5) if self.leads_through(i)})
        again = self.squash("step:0..main")
        self.assertEqual([self.ids.index(commit) for commit in again["kept"]], [3, 6])
        self.gc("--grace", "0")
        self.pulls_only((0, 3, 6))

    def test_one_whose_bytes_are_gone_cannot_be_named(self):
        self.squash("step:1..step:4")
        self.gc("--grace", "0")
        before = testing.describe(self.repo)
        pulled = self.run_fails(4, "pull", f"{self.repo}@step:3", self.scratch / "out").err.split("pull: ", 1)[1]
        for words in (("tag", self.repo, "best", "step:3"), ("branch", self.repo, "side", self.ids[3]),
                      ("branch", self.repo, "main", "main~3", "--force")):
            done = self.run_fails(4, *words, says=["squash", "push --repair"])
            self.assertEqual(done.err.split(f"{words[0]}: ", 1)[1], pulled)
        self.assertEqual(testing.describe(self.repo), before)
        self.run_ok("push", "--repair", "--base", self.steps[3], f"{self.repo}@step:3")
        self.run_ok("tag", self.repo, "best", "step:3")
        self.gc("--grace", "0")
        self.pulls_only((0, 1, 3, 4, 5, 6))

    def test_one_whose_bytes_are_gone_and_that_is_wanted_is_damage(self):
        """As when it is named at the very moment at which gc takes it."""
        commands = ((("tag", self.repo, "best", "step:3"),), (("branch", self.repo, "side", "step:3"),),
                    (("branch", self.repo, "twin", "step:3"), ("push", self.steps[0], self.repo, "-b", "twin")))
        added = [self.taken_back(each) for each in commands]
        self.squash("step:1..step:4")
        self.gc("--grace", "0")
        self.assertIn("every commit but 2 that were given up rebuilds", self.run_ok("verify", self.repo, "--deep"))
        shutil.copytree(self.repo, self.scratch / "whole")
        for files in added:
            for name, content in files.items():
                self.write(f"repo/{name}", content)
            for depth in ((), ("--deep",), ("--quick",)):
                done = self.run_fails(5, "verify", self.repo, *depth, says=[self.ids[3], "push --repair"])
                self.assertIn(f"commits/{self.ids[3]}.json: ", done.out)
                self.assertNotIn(self.ids[2], done.out)
            self.run_ok("push", "--repair", "--base", self.steps[3], self.repo)
            self.assertIn("every commit but 1 that was given up", self.run_ok("verify", self.repo, "--deep"))
            shutil.rmtree(self.repo)
            shutil.copytree(self.scratch / "whole", self.repo)

    def taken_back(self, commands):
        """The files that these commands add to the repository, without which they leave it."""
        had = testing.describe(self.repo)
        for words in commands:
            self.run_ok(*words)
        added = testing.describe(self.repo).keys() - had.keys()
        files = {name: (self.repo / name).read_bytes() for name in added}
        for name in added:
            (self.repo / name).unlink()
        return files

    def leads_through(self, i):
        """Whether a commit that was given up can be pulled still: a kept one's bytes may lead through it."""
        return self.run_any("pull", f"{self.repo}@{self.ids[i]}", self.scratch / "through", "--force").code == 0

    def test_squashed_twice_and_across(self):
        self.squash("step:1..step:3")
        self.squash("step:4..step:6")
        self.assertEqual(self.squash("step:0..step:6")["squashed"], [self.ids[i] for i in (1, 3, 4)])
        self.pulls_only(self.everything())
        self.gc("--grace", "0")
        self.pulls_only((0, 6))

    def test_whatever_is_squashed_in_any_order(self):
        """Pushes on two branches, tags, squashes and collections at random: what was not given up comes back."""
        steps, given_up, tagged, gone = {commit: i for i, commit in enumerate(self.ids)}, set(), set(), set()
        for round in range(30):
            kind = self.random.choice(("push", "push", "squash", "squash", "squash", "tag", "gc"))
            commit = self.random.choice(list(steps))
            if kind == "push":
                branch = self.random.choice(("main", "side"))
                done = self.run_ok("push", self.next_step(), self.repo, "-b", branch, "--anchor",
                                   self.random.choice(("never", "now"))).strip()
                steps[done] = len(self.steps) - 1
            elif kind == "tag":
                done = self.run_any("tag", self.repo, f"v{round}", commit)
                self.assertIn(done.code, (0, 4) if commit in gone else (0,), self.told(done))
                if done.code == 0:
                    tagged.add(commit)
            elif kind == "squash":
                other = self.random.choice(list(steps))
                done = self.run_any("squash", self.repo, f"{other}..{commit}", "--json",
                                    *self.random.choice(((), ("--anchor",))))
                self.assertIn(done.code, (0, 2, 4), self.told(done))
                if done.code == 0:
                    given_up.update(json.loads(done.out)["squashed"])
            else:
                taken = set(self.gc("--grace", "0")["given_up"])
                self.assertLessEqual(taken, given_up - tagged)
                gone |= taken
            self.run_ok("verify", self.repo)
            for commit in self.random.sample(sorted(steps.keys() - given_up), 2):
                shutil.rmtree(self.scratch / "out", ignore_errors=True)
                self.run_ok("pull", f"{self.repo}@{commit}", self.scratch / "out")
                self.assert_same_tree(self.scratch / "out", self.steps[steps[commit]])
        for commit in steps.keys() - given_up:
            shutil.rmtree(self.scratch / "out", ignore_errors=True)
            self.run_ok("pull", f"{self.repo}@{commit}", self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", self.steps[steps[commit]])

    def test_a_child_that_does_not_know_its_parents_anchor(self):
        """As when another host pushes while the anchor is being stored."""
        tip = self.run_ok("push", self.next_step(), self.repo, "--anchor", "now").strip()
        books = self.repo / "recipes" / tip
        first = json.loads((self.repo / "commits" / f"{tip}.json").read_text())["recipes"]
        anchor, = (book for book in books.iterdir() if book.stem != first)
        anchor.rename(self.scratch / anchor.name)
        child = self.push(self.next_step())
        (self.scratch / anchor.name).rename(anchor)
        self.ids += [tip, child]
        self.assertEqual(self.squash(f"step:5..{tip}")["squashed"], [self.ids[6]])
        self.gc("--grace", "0")
        self.pulls_only((0, 1, 2, 3, 4, 5, 7, 8))

    def test_what_squash_refuses(self):
        before = testing.describe(self.repo)
        for code, words in ((2, ["step:5..step:1"]), (2, ["step:1"]), (2, ["..main"]), (4, ["none..main"]),
                            (4, ["step:1..none"]), (4, [f"{'0' * 64}..main"])):
            self.run_fails(code, "squash", self.repo, *words)
        self.run_fails(4, "squash", self.scratch / "none", "a..b", absent=self.scratch / "none")
        self.assertEqual(self.squash("step:1..main", "--dry-run")["squashed"], self.ids[2:6])
        self.assertEqual(testing.describe(self.repo), before)
        self.squash("step:1..main")
        self.run_fails(2, "squash", self.repo, "step:3..main", says="squashed")
        self.run_fails(2, "squash", self.repo, "step:0..step:3", says="squashed")
        self.run_ok("tag", self.repo, "back", "step:3")
        self.assertEqual(self.squash("step:0..step:3")["squashed"], [self.ids[1]])
        self.pulls_only(self.everything())

    def test_a_commit_that_is_damaged_is_not_squashed(self):
        for path in sorted((self.repo / "objects").rglob("*.safetensors")):
            if path.stat().st_size < 60000:
                content = bytearray(path.read_bytes())
                content[len(content) // 2] ^= 1
                path.chmod(0o644)
                path.write_bytes(content)
        before = testing.describe(self.repo)
        self.run_fails(5, "squash", self.repo, "step:0..main")
        after = testing.describe(self.repo)
        self.assertEqual({path: after.get(path) for path in before}, before)
        self.assertFalse([path for path in after if path not in before and path.startswith("recipes/")])

    def newest_large(self, since):
        """The largest object that is not among those."""
        added = [path for path in (self.repo / "objects").rglob("*") if path.is_file() and path not in since]
        return max(added, key=lambda path: path.stat().st_size)

    def anchored_in_between(self, *options):
        """Four commits, the third with an anchor; returns the objects from before it."""
        self.repo, self.steps, self.ids = self.scratch / "anchored", [], []
        self.tensors = self.compressible_weights(2, 600_000)
        for i in range(2):
            self.ids.append(self.push(self.next_step(), "--step", i))
        before = {path for path in (self.repo / "objects").rglob("*") if path.is_file()}
        self.ids.append(self.run_ok("push", self.next_step(), self.repo, "--anchor", "now", "--step", 2,
                                    *options).strip())
        self.ids.append(self.push(self.next_step(), "--step", 3))
        return before

    def test_what_is_lost_is_not_relied_upon(self):
        for how in ("lost before", "lost behind", "damaged before"):
            with self.subTest(how):
                before = self.anchored_in_between("--compress-anchors")
                anchor = self.newest_large(before)
                if how == "lost before":
                    anchor.unlink()
                if how == "damaged before":
                    content = bytearray(anchor.read_bytes())
                    content[len(content) // 2] ^= 1
                    anchor.write_bytes(content)
                self.squash("step:0..step:2")
                if how == "lost behind":
                    anchor.unlink()
                self.gc("--grace", "0d")
                self.gc("--grace", "0d")
                for i in (0, 2, 3):
                    self.run_ok("pull", f"{self.repo}@{self.ids[i]}", self.scratch / "out", "-f")
                    self.assert_same_tree(self.scratch / "out", self.steps[i])
                for folder in ("anchored", "out", "state", "step-0", "step-1", "step-2", "step-3"):
                    shutil.rmtree(self.scratch / folder, ignore_errors=True)

    def test_a_commit_that_is_damaged_already_is_in_nobodys_way(self):
        """It leads through what is given up, and cannot be made whatever squash does."""
        def objects():
            return {path for path in (self.repo / "objects").rglob("*") if path.is_file()}
        before = objects()
        self.ids.append(self.push(self.next_step()))
        for path in objects() - before:
            path.unlink()
        damage = self.run_fails(5, "verify", self.repo).out
        self.assertIn(self.ids[7], damage)
        self.assertEqual(self.squash("step:1..step:4")["squashed"], self.ids[2:4])
        self.gc("--grace", "0")
        for i in (0, 1, 4, 5, 6):
            self.pulls(i)
        self.assertEqual(self.run_fails(5, "verify", self.repo).out, damage)

    def test_gc_waits_twice(self):
        self.squash("step:1..main")
        self.assertEqual(self.gc("--grace", "1h")["given_up"], [])
        time.sleep(1.1)
        first = self.gc("--grace", "1s")
        self.assertEqual((len(first["given_up"]), first["removed"]), (4, 0))
        self.assertGreater(first["planned"], 3)
        dry = self.gc("--grace", "1h", "--dry-run")
        self.assertEqual((dry["removed"], dry["planned"]), (0, first["planned"]))
        # Put again meanwhile: as young as can be.
        self.ids.append(self.push(self.steps[3]))
        self.steps.append(self.steps[3])
        time.sleep(2.1)  # since the plan was written, in whole seconds
        second = self.gc("--grace", "1s")
        self.assertGreater(second["removed"], 0)
        self.pulls_only((0, 1, 6, 7, *([3] if self.leads_through(3) else [])))

    def test_gc_says_when_what_is_left_can_go(self):
        """What a plan names that still waits goes first, and what it does not name a grace time behind that."""
        def orphan(content):
            name = testing.blake3(content)
            path = self.write(f"{self.repo.name}/objects/{name[:2]}/{name}", content)
            os.utime(path, (time.time() - 4 * 3600,) * 2)

        def says(grace, line, *more):
            self.assertRegex(self.run_ok("gc", "--grace", grace, *more, self.repo), rf"\A{line}\n\Z")

        orphan(b"one")
        says("2h", r"0 would be removed \(0 B\); 1 more \(3 B\) can go 2h from now", "-n")
        says("2h", r"0 removed \(0 B\); 1 more \(3 B\) can go 2h from now")
        path = self.repo / "gc" / "plan.json"
        plan = json.loads(path.read_text())

        def written_before(seconds):
            path.write_bytes(self.sealed({**plan, "time": plan["time"] - seconds}))
            os.utime(path, (plan["time"] - seconds,) * 2)

        written_before(1800)
        for words in (("-n",), ()):
            would = r"(would be )?removed \(0 B\)"
            says("2h", rf"0 {would}; 1 more \(3 B\) can go 1h (30|2\d)m from now", *words)
            says("3d", rf"0 {would}; 1 more \(3 B\) can go 3d from now", *words)
        orphan(b"other")
        for words in (("-n",), ()):
            says("2h", rf"0 {would}; 1 more \(3 B\) can go 1h (30|2\d)m from now, "
                       r"1 found since \(5 B\) can go 2h after a run that removes these", *words)
        written_before(7200)
        says("2h", r"1 removed \(3 B\); 1 more \(5 B\) can go 2h from now")

    def test_a_dry_run_says_what_a_run_does(self):
        self.squash("step:1..main")
        time.sleep(1.1)
        for grace in ("1s", "0"):
            before = testing.describe(self.repo)
            said = self.gc("--grace", grace, "--dry-run")
            self.assertEqual(testing.describe(self.repo), before)
            # A run that finds the plan of one before it removes what that says.
            self.assertEqual(self.gc("--grace", grace), said)
            self.assertGreater(said["removed" if grace == "0" else "planned"], 3)
        self.pulls_only((0, 1, 6, 7))

    def test_the_clock_is_the_stores(self):
        self.squash("step:1..main")
        self.age("recipes")
        self.age("branches")
        self.assertEqual(self.gc("--grace", "3h", "--dry-run")["given_up"], [])
        self.assertEqual(len(self.gc("--grace", "1h")["given_up"]), 4)

    def age(self, folder):
        for path in (self.repo / folder).rglob("*"):
            os.utime(path, (time.time() - 7200,) * 2)

    def test_what_had_a_name_has_its_grace_time_once_that_is_gone(self):
        self.squash("step:1..main")
        self.run_ok("tag", self.repo, "best", self.ids[3])
        for folder in ("recipes", "branches", "tags"):
            self.age(folder)
        self.run_ok("tag", self.repo, "best", "main", "--force")
        self.assertNotIn(self.ids[3], self.gc("--grace", "1h")["given_up"])
        self.run_ok("tag", self.repo, "best", self.ids[3], "--force")
        self.run_ok("pull", f"{self.repo}@best", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.steps[3])

    def test_a_commit_that_is_given_a_name_while_gc_is_at_work(self):
        kill_points.require(self)
        self.squash("step:1..main")
        for folder in ("recipes", "branches"):
            self.age(folder)
        words = "gc", self.repo, "--grace", "1h"
        saved, log = self.scratch / "saved", self.scratch / "points"
        shutil.copytree(self.repo, saved)
        self.run_ok(*words, env=kill_points.environment(self.scratch, log=log))
        points = kill_points.read_log(log)
        removed = next(i for i, point in enumerate(points) if point.removes and "/recipes/" in point.path)
        first = next(i for i, point in enumerate(points) if "/recipes/" in point.other)
        for point in {points[0], points[first]}:
            self.assertLess(point.number, points[removed].number)
            shutil.rmtree(self.repo)
            shutil.copytree(saved, self.repo)
            for folder in ("recipes", "branches"):
                self.age(folder)
            gc = kill_points.Paused(self, point.number, *words)
            self.run_ok("tag", self.repo, "best", self.ids[3])
            done = gc.go_on()
            self.assertEqual(done.code, 0, self.told(done))
            shutil.rmtree(self.scratch / "out", ignore_errors=True)
            self.run_ok("pull", f"{self.repo}@best", self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", self.steps[3])
            self.run_ok("verify", "--deep", self.repo)

    def test_two_gcs_at_once(self):
        kill_points.require(self)
        words = "gc", self.repo, "--grace", "1h"
        log = self.scratch / "points"
        self.run_ok(*words)  # makes what is there from then on
        self.run_ok(*words, env=kill_points.environment(self.scratch, log=log))
        clock = next(point for point in kill_points.read_log(log) if "gc/clock" in point.other)
        first = kill_points.Paused(self, clock.number + 1, *words)
        self.run_ok(*words)
        done = first.go_on()
        self.assertEqual(done.code, 0, self.told(done))

    def test_what_gc_says_of_commits_that_it_gives_up(self):
        self.squash("step:1..main")
        dry = self.run_ok("gc", self.repo, "--grace", "0", "--dry-run")
        self.assertIn("4 commits that squash gave up could no longer be pulled", dry)
        self.assertIn(self.ids[3][:12], dry)
        self.run_fails(2, "gc", self.repo, "--grace", "7", says="is no time")

    def test_what_pushes_left_that_never_ended(self):
        entries = sorted((self.repo / "branches/main").iterdir())
        entries[-1].unlink()
        staged = self.write("repo/staging/abandoned", b"x" * 1000)
        temporary = self.write("repo/objects/.75.safetensors.wdelta-a1b2c3", b"x")
        for path in (staged, temporary):
            os.utime(path, (time.time() - 7200,) * 2)
        self.ids.pop()
        done = json.loads(self.run_ok("gc", self.repo, "--json", "--grace", "1h"))
        self.assertEqual(done["removed"], 0)
        self.assertFalse(staged.exists() or temporary.exists())
        self.assertEqual(self.gc("--grace", "0")["removed"], done["planned"])
        self.assertGreater(done["planned"], 2)
        self.pulls_only(self.everything())

    def test_what_gc_is_going_to_remove_is_stored_again(self):
        sorted((self.repo / "branches/main").iterdir())[-1].unlink()
        for planned in (False, True):
            branch = "again" if planned else "before"
            self.run_ok("branch", self.repo, branch, self.ids[-2])
            told = json.loads(self.run_ok("push", f"{self.repo}@{self.ids[-1]}", self.repo, "--branch", branch, "--json",
                                          *ANCHOR, "--step", 100))
            self.assertEqual(told["stored_bytes"] > 0, planned, told)
            for path in (self.repo / "branches" / branch).iterdir():
                path.unlink()
            self.gc("--grace", "1h")

    def test_what_a_killed_gc_had_moved_aside_comes_back(self):
        had = testing.describe(self.repo / "objects")
        for number, path in enumerate(sorted(path for path in (self.repo / "objects").rglob("*") if path.is_file())):
            key = urllib.parse.quote(str(path.relative_to(self.repo)), safe="")
            aside = self.repo / "staging" / f"removed-{number:016x}-{key}"
            path.rename(aside)
            os.utime(aside, (0, 0))
        self.gc("--grace", "1h", "--dry-run")
        self.assertNotEqual(testing.describe(self.repo / "objects"), had)
        self.gc("--grace", "1h")
        self.assertEqual(testing.describe(self.repo / "objects"), had)
        self.run_ok("verify", self.repo)

    def test_what_is_behind_symlinks_counts(self):
        for folder in ("branches/main", "recipes/" + self.ids[0], "objects"):
            (self.scratch / folder.replace("/", "-")).parent.mkdir(exist_ok=True)
            moved = (self.repo / folder).rename(self.scratch / folder.replace("/", "-"))
            (self.repo / folder).symlink_to(moved)
        time.sleep(1.1)
        self.assertEqual(self.gc("--grace", "0")["removed"], 0)
        self.pulls_only(self.everything())

    def test_what_is_no_file_is_not_passed_over(self):
        newest = sorted((self.repo / "branches/main").iterdir())[-1]
        newest.unlink()
        for make in (os.mkfifo, lambda path: path.symlink_to("nothing")):
            make(newest)
            for command in (("verify", self.repo), ("gc", self.repo, "--grace", "0"), ("log", self.repo)):
                self.run_fails(5, *command, says=newest.name)
            newest.unlink()

    def test_what_is_not_of_wdelta_stays(self):
        for name in (".gitattributes", ".hidden/x", "objects/.keep", "notes.txt", ".wdelta-mine", "commits/.nfs0001",
                     ".a.wdelta-1234567"):
            os.utime(self.write(f"repo/{name}", name), (0, 0))
        had = testing.describe(self.repo)
        self.gc("--grace", "0")
        found = testing.describe(self.repo)
        self.assertEqual({path: found.get(path) for path in had}, had)

    def test_nothing_is_removed_from_a_damaged_repository(self):
        self.squash("step:1..main")
        whole = self.scratch / "whole"
        self.repo.rename(whole)

        def fails_when(says, damage):
            shutil.rmtree(self.repo, ignore_errors=True)
            shutil.copytree(whole, self.repo)
            damage()
            before = testing.describe(self.repo)
            self.run_fails(5, "gc", self.repo, "--grace", "0", says=says)
            after = testing.describe(self.repo)
            self.assertEqual({key: after[key] for key in after if not key.startswith("gc/clock")}, before)

        def spoil(path):
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:-9])

        commits = self.repo / "commits"
        fails_when(self.ids[6], lambda: (commits / f"{self.ids[6]}.json").unlink())
        fails_when(self.ids[2], lambda: (commits / f"{self.ids[2]}.json").unlink())
        fails_when(self.ids[4], lambda: spoil(commits / f"{self.ids[4]}.json"))
        fails_when("recipes/", lambda: spoil(next((self.repo / "recipes" / self.ids[5]).iterdir())))
        # Objects that only their lost books need are not garbage.
        for commit in self.ids:
            fails_when(commit, lambda commit=commit: shutil.rmtree(self.repo / "recipes" / commit))
        fails_when("branches/", lambda: spoil(self.repo / "branches/main/0000000000000003"))
        fails_when("gc/plan.json", lambda: self.write("repo/gc/plan.json", b"{}"))
        # It says nothing that another run could not find out.
        self.run_fails(5, "gc", self.repo, says="remove it")
        done = self.run_any("verify", self.repo)
        self.assertEqual(done.code, 5, self.told(done))
        self.assertIn("gc/plan.json", done.out, self.told(done))
        self.assertIn("remove it", done.err, self.told(done))
        (self.repo / "gc" / "plan.json").unlink()
        self.run_ok("verify", self.repo)
        self.gc()


if __name__ == "__main__":
    testing.main()
