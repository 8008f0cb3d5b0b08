# SPDX-License-Identifier: Apache-2.0
"""Killed at any moment, a repository is whole and a second run finishes; asked to stop, a run leaves nothing behind."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
import time

import testing

ROUNDS = int(os.environ.get("ROUNDS", 20))


class InterruptsTest(testing.Case):
    def start(self, *words, **more):
        return subprocess.Popen(self.command(*words), env=self.environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def run_with_signal(self, number, delay, *words):
        """Runs the binary and sends it a signal after so many seconds."""
        child = self.start(*words)
        time.sleep(delay)
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
        return testing.Run(words, child.returncode, out.decode(), err.decode())

    def time_of(self, *words):
        begin = time.monotonic()
        self.run_ok(*words)
        return time.monotonic() - begin

    def steps(self):
        return self.make_run("run", "--size", "64M", "--shards", 4, "--steps", 2)

    def test_push_killed_at_any_moment(self):
        print(f"seed {self.seed}", flush=True)
        steps, repo, killed = self.steps(), self.scratch / "repo", 0
        first = self.time_of("push", steps[0], self.scratch / "another")
        second = self.time_of("push", steps[1], self.scratch / "another")
        for i in range(ROUNDS):
            fresh = i % 5 == 0
            if fresh:
                shutil.rmtree(repo, ignore_errors=True)
            step = steps[i % 2]
            done = self.run_with_signal(signal.SIGKILL, self.random.uniform(0, first if fresh else second), "push",
                                        step, repo, "--step", i)
            self.assertIn(done.code, (0, -signal.SIGKILL), self.told(done))
            killed += done.code != 0
            before = self.run_any("log", repo, "--json")
            self.assertIn(before.code, (0, 4), self.told(before))
            if (repo / "wdelta.json").exists():
                self.run_ok("verify", repo)
            self.run_ok("push", step, repo, "--step", i)
            self.run_ok("verify", repo)
            self.assertEqual(json.loads(self.run_ok("log", repo, "-n", 1, "--json"))["step"], i)
        self.assertGreater(killed, 0)
        self.run_ok("verify", f"{repo}@main")
        self.run_ok("pull", repo, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", steps[(ROUNDS - 1) % 2])

    def test_pull_killed_at_any_moment(self):
        print(f"seed {self.seed}", flush=True)
        steps, repo, out, killed = self.steps(), self.scratch / "repo", self.scratch / "out", 0
        ids = [self.run_ok("push", step, repo).strip() for step in steps]
        usual = self.time_of("pull", f"{repo}@{ids[1]}", out)
        trees = [testing.describe(step) for step in steps]
        for i in range(ROUNDS):
            if i % 5 == 0:
                shutil.rmtree(out)
            where = f"{repo}@{ids[i % 2]}"
            done = self.run_with_signal(signal.SIGKILL, self.random.uniform(0, usual), "pull", where, out)
            self.assertIn(done.code, (0, -signal.SIGKILL), self.told(done))
            killed += done.code != 0
            if (out / "config.json").exists():  # a loader may start, so it must find one commit
                found = {path: what for path, what in testing.describe(out).items() if not path.startswith(".")}
                self.assertIn({path: what for path, what in found.items() if path.startswith("model")},
                              [{path: what for path, what in tree.items() if path.startswith("model")}
                               for tree in trees])
            self.run_ok("pull", where, out)
            self.assert_same_tree(out, steps[i % 2])
            self.assert_no_leftovers(out)
        self.assertGreater(killed, 0)

    def test_another_commit_after_a_killed_pull(self):
        steps, repo, out = self.steps(), self.scratch / "repo", self.scratch / "out"
        ids = [self.run_ok("push", step, repo).strip() for step in steps]
        usual = self.time_of("pull", f"{repo}@{ids[0]}", out)
        for _ in range(5):
            self.run_with_signal(signal.SIGKILL, self.random.uniform(0, usual), "pull", f"{repo}@{ids[1]}", out)
            self.run_ok("pull", f"{repo}@{ids[0]}", out)
            self.assert_same_tree(out, steps[0])

    def test_asked_to_stop_at_any_moment(self):
        (a, b), repo, out = self.steps(), self.scratch / "repo", self.scratch / "out"
        self.run_ok("push", a, repo)
        self.run_ok("diff", a, b, "-o", self.scratch / "delta")
        shard = sorted(a.glob("*.safetensors"))[0].name
        self.run_ok("diff", a / shard, b / shard, "-o", self.scratch / "shard.delta")
        runs = (["diff", a, b, "-o", out], ["diff", a / shard, b / shard, "-o", out],
                ["apply", a, self.scratch / "delta", "-o", out],
                ["apply", a / shard, self.scratch / "shard.delta", "-o", out], ["diff", a, b], ["verify", repo],
                ["verify", f"{repo}@main"], ["verify", a, repo])
        stopped = 0
        for words in runs:
            usual = self.time_of(*words)
            for number, code in list(testing.STOPPED.items()) * 2:
                remove(out)
                done = self.run_with_signal(number, self.random.uniform(0, usual), *words)
                # Before main has set up anything the signal itself ends the program, which a shell reports just so.
                self.assertIn(done.code, (0, code, -number), self.told(done))
                if done.code != 0:
                    self.assertFalse(out.exists(), self.told(done))
                    stopped += 1
                if done.code == code:
                    self.assert_one_line_error(done)
                self.assert_no_leftovers()
            remove(out)
        self.assertGreater(stopped, 0)

    def test_push_and_pull_asked_to_stop(self):
        steps, repo, out = self.steps(), self.scratch / "repo", self.scratch / "out"
        ids = [self.run_ok("push", step, repo).strip() for step in steps]
        usual = self.time_of("pull", f"{repo}@{ids[0]}", out)
        for i in range(8):
            number, code = list(testing.STOPPED.items())[i % 3]
            for words in (["push", steps[i % 2], repo, "--step", i], ["pull", f"{repo}@{ids[1 - i % 2]}", out]):
                done = self.run_with_signal(number, self.random.uniform(0, usual), *words)
                self.assertIn(done.code, (0, code, -number), self.told(done))
                self.assert_no_leftovers()
            self.run_ok("verify", repo)
            self.run_ok("pull", f"{repo}@{ids[i // 4]}", out)
            self.assert_same_tree(out, steps[i // 4])

    def test_asked_to_stop_while_nobody_reads(self):
        names = [(f"{i:05}-{'x' * 40}", "BF16", [2], bytes(4)) for i in range(3000)]
        old = self.write_weights("a.safetensors", names)
        new = self.write_weights("b.safetensors", [(name, dtype, shape, b"abcd") for name, dtype, shape, _ in names])
        child = self.start("diff", old, new)
        waiting = bytearray(4)
        while int.from_bytes(waiting, sys.byteorder) < 60000:  # of the 65536 that a pipe takes
            self.assertIsNone(child.poll())
            time.sleep(0.01)
            fcntl.ioctl(child.stdout, termios.FIONREAD, waiting)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(timeout=60), -signal.SIGTERM)
        child.stdout.close()
        child.stderr.close()

    def test_stopped_while_waiting_for_another(self):
        step, = self.make_run("run", "--size", "1M", "--single", "--steps", 1)
        repo, out = self.scratch / "repo", self.scratch / "out"
        self.run_ok("push", step, repo)
        self.run_ok("pull", repo, out)
        push_lock, = (self.scratch / "state").glob("push/*/main.json.lock")
        for words, lock in ((["push", step, repo, "--step", 5], push_lock),
                            (["pull", repo, out], out / ".wdelta" / "lock")):
            with open(lock, "r+b") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                for number, code in testing.STOPPED.items():
                    child = self.start(*words)
                    told = child.stderr.readline().decode()  # it says that it waits
                    self.assertIn("waiting", told)
                    child.send_signal(number)
                    _, err = child.communicate(timeout=10)
                    done = testing.Run(words, child.returncode, "", told + err.decode())
                    self.assertEqual(done.code, code, self.told(done))
                child = self.start(*words)
                child.stderr.readline()
                self.assertIsNone(child.poll())
            self.assertEqual(child.wait(10), 0)  # the lock is free now
            child.communicate()

    def test_what_a_shell_wants_ignored_is_ignored(self):
        """As nohup(1) does, and a script for what it runs in the background."""
        step, = self.make_run("run", "--size", "1M", "--single", "--steps", 1)
        repo = self.scratch / "repo"
        self.run_ok("push", step, repo)
        lock, = (self.scratch / "state").glob("push/*/main.json.lock")
        for number in testing.STOPPED:
            with open(lock, "r+b") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                child = self.start("push", step, repo, "--step", number,
                                   preexec_fn=lambda number=number: signal.signal(number, signal.SIG_IGN))
                self.assertIn(b"waiting", child.stderr.readline())
                child.send_signal(number)
                time.sleep(0.2)
                self.assertIsNone(child.poll())
            child.communicate(timeout=10)
            self.assertEqual(child.returncode, 0)
        self.run_ok("verify", repo)
        self.assert_no_leftovers()

    def test_many_pushes_at_once(self):
        steps, repo = self.make_run("run", "--size", "1M", "--single", "--steps", 6), self.scratch / "repo"
        children = [self.start("push", step, repo, "-q", "--step", i) for i, step in enumerate(steps)]
        ids = {child.communicate(timeout=60)[0].decode().strip() for child in children}
        self.assertEqual([child.returncode for child in children], [0] * len(steps))
        log = [json.loads(line) for line in self.run_ok("log", repo, "--json").splitlines()]
        self.assertEqual({commit["commit"] for commit in log}, ids)
        self.assertEqual({commit["step"] for commit in log}, set(range(len(steps))))
        for i, step in enumerate(steps):
            self.run_ok("verify", step, f"{repo}@step:{i}")


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    testing.main()
