# SPDX-License-Identifier: Apache-2.0
"""Two at once: one run waits before a call by which it changes the file system, each in turn, while another comes and
goes. Pushes from one host queue; of two hosts one wins and the other loses nothing; readers find whole commits."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import kill_points
import testing


class TwoAtOnceTest(testing.Case):
    def setUp(self):
        super().setUp()
        kill_points.require(self)
        self.repo, self.steps, tensors = self.scratch / "repo", [], self.some_weights(2, 900)
        for i in range(8):
            self.write_weights(f"step-{i}/model.safetensors", tensors)
            self.write_weights(f"step-{i}/more-{i}.safetensors", self.some_weights(1, 900))
            self.write(f"step-{i}/config.json", json.dumps({"step": i}))
            self.write(f"step-{i}/packed", self.random.randbytes(66000))
            self.steps.append(self.scratch / f"step-{i}")
            tensors = self.moved(tensors)
        self.first = self.run_ok("push", self.steps[0], self.repo).strip()
        shutil.copytree(self.repo, self.scratch / "repo.start")
        shutil.copytree(self.scratch / "state", self.scratch / "state.start")

    def restore(self):
        for name in ("repo", "state", "state-other", "out"):
            shutil.rmtree(self.scratch / name, ignore_errors=True)
        for name in ("repo", "state"):
            shutil.copytree(self.scratch / f"{name}.start", self.scratch / name)

    def host(self, name):
        return {"WDELTA_STATE_DIR": str(self.scratch / f"state-{name}")}

    def log(self):
        return [json.loads(line)["commit"] for line in self.run_ok("log", self.repo, "--json").splitlines()]

    def parent_of(self, commit):
        return json.loads(self.run_ok("show", f"{self.repo}@{commit}", "--json"))["parent"]

    def points_of(self, *words):
        """The calls of a run by which it changes something."""
        log = self.scratch / "points"
        log.unlink(missing_ok=True)
        self.run_ok(*words, env=kill_points.environment(self.scratch, log=log))
        points = [point for point in kill_points.read_log(log) if not point.writes and not point.syncs]
        self.assertGreater(len(points), 4)
        self.restore()
        return points

    def at_each_point(self, body, *words):
        """Runs the binary once for each point, and `body` with it while it waits there."""
        for point in self.points_of(*words):
            with self.subTest(number=point.number, point=point.told(self.scratch)):
                body(kill_points.Paused(self, point.number, *words))
            self.restore()

    def assert_holds(self, commit, step):
        self.run_ok("pull", f"{self.repo}@{commit}", self.scratch / "held")
        self.assert_same_tree(self.scratch / "held", self.steps[step])

    def test_another_host_pushes_in_the_middle_of_a_push(self):
        codes = []

        def meanwhile(push):
            other = self.run_ok("push", self.steps[2], self.repo, env=self.host("other")).strip()
            one = push.go_on()
            self.run_ok("verify", self.repo)
            codes.append(one.code)
            if one.code == 0:
                log = self.log()
                self.assertEqual(sorted(log), sorted([one.out.strip(), other, self.first]))
                self.assertEqual(self.parent_of(log[0]), log[1])
                self.assertEqual(self.parent_of(log[1]), self.first)
            else:
                self.assertEqual(one.code, 7, self.told(one))
                self.assert_one_line_error(one)
                self.assertIn("nothing was lost", one.err)
                self.assertEqual(self.log(), [other, self.first])
                again = self.run_ok("push", self.steps[1], self.repo).strip()
                self.assertEqual(self.log(), [again, other, self.first])
                self.assert_holds(again, 1)
            self.assert_holds(other, 2)

        self.at_each_point(meanwhile, "push", self.steps[1], self.repo, "--anchor", "never")
        self.assertEqual(set(codes), {0, 7})

    def test_readers_in_the_middle_of_a_push(self):
        def meanwhile(push):
            log = self.log()
            self.assertEqual(log[-1], self.first)
            self.run_ok("verify", self.repo)
            self.run_ok("pull", self.repo, self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", self.steps[len(log) - 1])
            done = push.go_on()
            self.assertEqual(done.code, 0, self.told(done))
            self.run_ok("pull", f"{self.repo}@v", self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", self.steps[1])

        self.at_each_point(meanwhile, "push", self.steps[1], self.repo, "--tag", "v", "--anchor", "now")

    def test_a_push_in_the_middle_of_a_pull(self):
        def meanwhile(pull):
            self.run_ok("push", self.steps[1], self.repo)
            done = pull.go_on()
            self.assertEqual(done.code, 0, self.told(done))
            self.assert_same_tree(self.scratch / "out", self.steps[0])

        self.at_each_point(meanwhile, "pull", self.repo, self.scratch / "out")

    def waiting(self, *words, env=None):
        """A run that says that it waits."""
        child = kill_points.start(self, *words, env=env)
        told = child.stderr.readline()
        self.assertIn("waiting for another", told)
        return lambda: kill_points.ended(child, words, told)

    def test_pushes_from_one_host_queue(self):
        words = ["push", self.steps[1], self.repo]
        points = [point for point in self.points_of(*words) if "/staging/" in point.path or "/branches/" in point.path]
        for point in points:
            with self.subTest(point=point.told(self.scratch)):
                push = kill_points.Paused(self, point.number, *words)
                second = self.waiting("push", self.steps[2], self.repo)
                third = self.waiting("push", self.steps[3], self.repo)
                runs = [push.go_on(), second(), third()]
                self.assertEqual([run.code for run in runs], [0, 0, 0], [self.told(run) for run in runs])
                one, two, three = (run.out.strip() for run in runs)
                self.assertEqual(self.parent_of(one), self.first)
                self.assertEqual(sorted(self.log()), sorted([one, two, three, self.first]))
                self.assertIn(one, (self.parent_of(two), self.parent_of(three)))
                for commit, step in ((one, 1), (two, 2), (three, 3)):
                    self.assert_holds(commit, step)
            self.restore()
        self.assertTrue(points)

    def test_pushes_to_two_branches_do_not_wait(self):
        push = kill_points.Paused(self, 10, "push", self.steps[1], self.repo)
        side = self.run_ok("push", self.steps[2], self.repo, "-b", "side").strip()
        self.assertEqual(push.go_on().code, 0)
        self.assert_holds(side, 2)
        self.run_ok("verify", self.repo)

    def test_the_first_pushes_of_two_hosts(self):
        shutil.rmtree(self.scratch / "repo.start")
        (self.scratch / "repo.start").mkdir()
        self.restore()
        def meanwhile(push):
            other = self.run_ok("push", self.steps[2], self.repo, env=self.host("other")).strip()
            one = push.go_on()
            self.assertIn(one.code, (0, 7), self.told(one))
            if one.code == 7:
                one = self.run_any("push", self.steps[1], self.repo)
            one = one.out.strip()
            self.assertEqual(set(self.log()), {one, other})
            self.run_ok("verify", self.repo)
            self.assert_holds(one, 1)
            self.assert_holds(other, 2)

        self.at_each_point(meanwhile, "push", self.steps[1], self.repo)

    def test_many_hosts_race(self):
        rounds, hosts, conflicts = 4, 5, []

        def train(host):
            reported = []
            for i in range(rounds):
                words = ["push", self.steps[(host + i) % 4], self.repo, "--step", host * rounds + i]
                while True:
                    done = self.run_any(*words, env=self.host(host))
                    if done.code == 0:
                        break
                    self.assertEqual(done.code, 7, self.told(done))
                    conflicts.append(host)
                reported.append((done.out.strip(), (host + i) % 4))
            return reported

        with ThreadPoolExecutor(hosts) as threads:
            reported = [each for host in threads.map(train, range(hosts)) for each in host]
        self.assertEqual(len(dict(reported)), rounds * hosts)
        log = self.log()
        self.assertEqual(set(log), {self.first, *dict(reported)})
        self.assertEqual([self.parent_of(commit) for commit in log], [*log[1:], None])
        self.run_ok("verify", self.repo)
        for commit, step in reported:
            self.assert_holds(commit, step)
        self.assertTrue(conflicts)

    def test_two_pulls_into_one_directory(self):
        second = self.run_ok("push", self.steps[1], self.repo).strip()
        shutil.rmtree(self.scratch / "repo.start")
        shutil.copytree(self.repo, self.scratch / "repo.start")
        words = ["pull", f"{self.repo}@{second}", self.scratch / "out"]
        points = [point for point in self.points_of(*words) if "state.json" in point.path or "safetensors" in point.path
                  or "config.json" in point.path]
        for start in (None, self.first, second):
            for point in points:
                with self.subTest(start=start, point=point.told(self.scratch)):
                    if start:
                        self.run_ok("pull", f"{self.repo}@{start}", self.scratch / "out")
                    pull = kill_points.Paused(self, point.number, *words)
                    if pull.child.poll() is None:
                        other = self.waiting("pull", f"{self.repo}@{self.first}", self.scratch / "out")
                        runs = [pull.go_on(), other()]
                        self.assertEqual([run.code for run in runs], [0, 0], [self.told(run) for run in runs])
                        self.assert_same_tree(self.scratch / "out", self.steps[0])
                    else:
                        pull.go_on()
                self.restore()

    def push(self, step):
        return self.run_ok("push", step, self.repo, "--anchor", "never").strip()

    def push_all(self):
        """Four commits to start with."""
        commits = [self.first, *(self.push(step) for step in self.steps[1:4])]
        for name in ("repo", "state"):
            shutil.rmtree(self.scratch / f"{name}.start")
            shutil.copytree(self.scratch / name, self.scratch / f"{name}.start")
        return commits

    def test_a_squash_in_the_middle_of_a_push_and_one_behind_it(self):
        kept = self.push_all()

        def meanwhile(push):
            self.run_ok("squash", self.repo, f"{kept[1]}..main")
            done = push.go_on()
            self.assertEqual(done.code, 0, self.told(done))
            commits = [(done.out.strip(), 4)]
            for step in (5, 6, 7):
                commits.append((self.push(self.steps[step]), step))
            self.run_ok("squash", self.repo, f"{done.out.strip()}..main")
            self.run_ok("verify", self.repo, "--deep")
            for commit, step in commits:
                self.assert_holds(commit, step)
            self.run_ok("gc", self.repo, "--grace", "0")
            for commit, step in (commits[0], commits[-1]):
                self.assert_holds(commit, step)
            self.run_ok("verify", self.repo, "--deep")

        self.at_each_point(meanwhile, "push", self.steps[4], self.repo, "--anchor", "never")

    def test_readers_in_the_middle_of_a_squash(self):
        commits = self.push_all()
        def meanwhile(squash):
            self.assertEqual(self.log(), commits[::-1])
            for i, commit in enumerate(commits):
                self.assert_holds(commit, i)
            done = squash.go_on()
            self.assertEqual(done.code, 0, self.told(done))
            for i, commit in enumerate(commits):
                self.assert_holds(commit, i)
            self.run_ok("verify", self.repo)

        self.at_each_point(meanwhile, "squash", self.repo, "main~3..main")


if __name__ == "__main__":
    kill_points.main()
