# SPDX-License-Identifier: Apache-2.0
"""Full disks, read-only file systems, missing permissions and inputs of the wrong kind: one clear line, the right exit
code, nothing half-written; and the next run, with the fault gone, finishes."""

import json
import os
import re
import shutil
import socket
import subprocess
import unittest

import testing

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class FaultsTest(testing.Case):
    def small_disk(self, size="2m", name="disk"):
        """A file system of its own with so much room."""
        if not shutil.which("mount"):
            self.skipTest("mount is not installed")
        disk = self.scratch / name
        disk.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "wdelta-test", disk],
                              stderr=subprocess.PIPE)
        if done.returncode != 0:
            self.skipTest(f"no file system can be mounted here: {done.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        return disk

    def remount(self, disk, options):
        subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)

    def fill(self, disk):
        """Takes all the room that is left on a disk, to the last byte."""
        path = disk / "filled"
        try:
            with open(path, "wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        except OSError:
            pass
        return path

    def assert_missing_bytes(self, done, needed_bytes, disk, grown_bytes=0):
        """A refusal that says how much is missing, and means it. Files may have grown by a little since."""
        numbers = re.search(r"needs ([\d,]+) bytes, ([\d,]+) are free: ([\d,]+) are missing", done.err)
        self.assertTrue(numbers, self.told(done))
        needed, free, missing = (int(number.replace(",", "")) for number in numbers.groups())
        self.assertEqual(missing, needed - free)
        self.assertTrue(needed_bytes <= needed <= needed_bytes + grown_bytes, (needed, needed_bytes))
        self.assertLessEqual(free, os.statvfs(disk).f_blocks * os.statvfs(disk).f_frsize)

    def steps(self, size="3M", count=2):
        return self.make_run("run", "--size", size, "--shards", 2, "--steps", count)

    def weights(self, step):
        return sorted(step.glob("*.safetensors"))[0]

    def test_full_disk_under_diff(self):
        (a, b), disk = self.steps(), self.small_disk("1m")
        for old, new in ((a, b), (self.weights(a), self.weights(b))):
            self.run_fails(3, "diff", old, new, "-o", disk / "delta", "--encoding", "whole",
                           says=["delta", "No space"], absent=disk / "delta")
            self.assertEqual(os.listdir(disk), [])
        self.remount(disk, "size=20m")
        self.run_ok("diff", a, b, "-o", disk / "delta", "--encoding", "whole")
        self.run_ok("verify", disk / "delta")

    def test_full_disk_under_apply(self):
        (a, b), disk = self.steps(), self.small_disk("1m")
        for i, (old, new) in enumerate(((a, b), (self.weights(a), self.weights(b)))):
            self.run_ok("diff", old, new, "-o", self.scratch / f"delta-{i}")
            done = self.run_fails(3, "apply", old, self.scratch / f"delta-{i}", "-o", disk / "out", says="out: needs",
                                  absent=disk / "out")
            self.assert_missing_bytes(done, sum(map(size_of, b.iterdir())) if new.is_dir() else size_of(new), disk)
            self.assertEqual(os.listdir(disk), [])
        self.remount(disk, "size=20m")
        self.run_ok("apply", a, self.scratch / "delta-0", "-o", disk / "out")
        self.assert_same_tree(disk / "out", b)

    def test_full_disk_under_push(self):
        (a, b), disk = self.steps(), self.small_disk("2m")
        repo = disk / "repo"
        self.run_fails(3, "push", a, repo, says="are missing")
        self.assertFalse((repo / "branches").exists())
        self.remount(disk, "size=4m")
        first = self.run_ok("push", a, repo).strip()
        (b / "noise").write_bytes(self.random.randbytes(2 << 20))
        self.run_fails(3, "push", b, repo, says="No space")
        self.assertEqual(json.loads(self.run_ok("show", repo, "--json"))["commit"], first)
        self.run_ok("verify", repo)
        (b / "noise").unlink()
        filled = self.fill(disk)
        self.run_fails(3, "push", b, repo, says="No space")
        self.run_ok("verify", repo)
        filled.unlink()
        self.run_ok("push", b, repo)
        self.run_ok("verify", repo)
        self.run_ok("verify", f"{repo}@main")

    def test_full_disk_under_pull(self):
        (a, b), disk, repo = self.steps(), self.small_disk("2m"), self.scratch / "repo"
        ids = [self.run_ok("push", step, repo).strip() for step in (a, b)]
        out = disk / "out"
        done = self.run_fails(3, "pull", f"{repo}@{ids[0]}", out, says="out: needs")
        self.assert_missing_bytes(done, sum(map(size_of, a.iterdir())), disk)
        self.assertFalse((out / "config.json").exists())
        self.assertFalse((out / "model.safetensors.index.json").exists())
        self.remount(disk, "size=8m")
        self.run_ok("pull", f"{repo}@{ids[0]}", out)
        self.assert_same_tree(out, a)
        self.fill(disk)
        done = self.run_fails(3, "pull", f"{repo}@{ids[1]}", out, says=["out: needs", " 0 are free"])
        shards = [file for file in b.iterdir() if file.read_bytes() != (a / file.name).read_bytes()]
        self.assert_missing_bytes(done, max(map(size_of, shards)), disk, grown_bytes=4096)
        if (out / "config.json").exists():
            self.assertEqual({self.weights(out).read_bytes() == self.weights(step).read_bytes() for step in (a, b)},
                             {True, False})
        (disk / "filled").unlink()
        self.run_ok("pull", f"{repo}@{ids[1]}", out)
        self.assert_same_tree(out, b)

    def test_a_pull_that_would_fit_at_its_end_but_not_on_its_way(self):
        """A shard that grows needs its room before the old one gives back its own."""
        tensors = self.some_weights(count=1, elements=400_000)
        a = self.write_weights("a/model.safetensors", tensors).parent
        b = self.write_weights("b/model.safetensors", self.moved(tensors)).parent
        repo, disk = self.scratch / "repo", self.small_disk("1200k")
        ids = [self.run_ok("push", step, repo).strip() for step in (a, b)]
        self.run_ok("pull", f"{repo}@{ids[0]}", disk / "out")
        done = self.run_fails(3, "pull", f"{repo}@{ids[1]}", disk / "out", says="out: needs")
        self.assert_missing_bytes(done, size_of(b / "model.safetensors"), disk)
        self.assert_same_tree(disk / "out", a)
        self.run_ok("verify", disk / "out", f"{repo}@{ids[0]}")
        self.remount(disk, "size=1700k")
        self.run_ok("pull", f"{repo}@{ids[1]}", disk / "out")
        self.assert_same_tree(disk / "out", b)

    def test_a_pull_needs_room_for_one_more_shard_only(self):
        steps, repo = self.make_run("run", "--size", "8M", "--shards", 8, "--steps", 2), self.scratch / "repo"
        ids = [self.run_ok("push", step, repo).strip() for step in steps]
        disk = self.small_disk("12m")
        for i in (0, 1, 0):
            self.run_ok("pull", f"{repo}@{ids[i]}", disk / "out")
            self.assert_same_tree(disk / "out", steps[i])

    def test_a_pull_writes_no_more_shards_at_a_time_than_there_is_room_for(self):
        repo, disk, steps = self.scratch / "repo", self.small_disk("27m"), [self.scratch / name for name in "ab"]
        for shard in range(16):
            tensors = self.some_weights(count=1, elements=700_000)
            for step in steps:
                self.write_weights(f"{step.name}/model-{shard:05}.safetensors", tensors)
                tensors = self.moved(tensors)
        ids = [self.run_ok("push", step, repo).strip() for step in steps]
        for threads in (16, 20):  # each shard on a thread of its own, and in lanes
            for i in (0, 1, 0, 1):
                self.run_ok("pull", f"{repo}@{ids[i]}", disk / "out", "-j", threads)
                self.assert_same_tree(disk / "out", steps[i])

    @unittest.skipUnless(shutil.which("prlimit"), "prlimit is not installed")
    def test_files_that_may_not_grow(self):
        (a, b), repo, out = self.steps(), self.scratch / "repo", self.scratch / "out"
        self.run_ok("push", a, repo)
        newer, pulled = shutil.copytree(repo, self.scratch / "newer"), self.scratch / "pulled"
        self.run_ok("pull", repo, pulled)
        self.run_ok("push", b, newer)
        self.run_ok("diff", a, b, "-o", self.scratch / "delta")
        before = testing.describe(repo)
        limit = {"prefix": ("prlimit", "--fsize=10000"), "says": "File too large"}
        for words in (["diff", a, b, "-o", out], ["apply", a, self.scratch / "delta", "-o", out], ["push", b, repo],
                      ["push", b, self.scratch / "another"], ["pull", repo, out], ["pull", newer, pulled]):
            done = self.run_fails(3, *words, **limit)
            self.assertNotIn("anew", done.err)  # other sources would be of no use
        self.assertEqual(testing.describe(repo), before)
        self.run_ok("verify", repo)

    @unittest.skipUnless(shutil.which("prlimit"), "prlimit is not installed")
    def test_open_files_do_not_grow_with_shards_and_deltas(self):
        steps, repo = [], self.scratch / "repo"
        tensors = [self.some_weights(count=1, elements=50) for _ in range(60)]
        for i in range(3):
            tensors = [self.moved(each) for each in tensors]
            steps.append(self.scratch / f"step-{i}")
            for j, each in enumerate(tensors):
                self.write_weights(f"step-{i}/model-{j:05}.safetensors", each)
        few = {"prefix": ("prlimit", "--nofile=50:50")}
        fewer_than_may_be = {"prefix": ("prlimit", "--nofile=50:4096")}  # soft and hard: the program takes what it may
        for i in (0, 1):
            self.run_ok("diff", steps[i], steps[i + 1], "-o", self.scratch / f"delta-{i}", **fewer_than_may_be)
        ids = [self.run_ok("push", step, repo, **fewer_than_may_be).strip() for step in steps]
        self.run_ok("verify", repo, **few)
        self.run_ok("verify", repo, "--deep", **few)
        self.run_ok("verify", f"{repo}@main", **few)
        for i in (0, 2, 1):
            self.run_ok("pull", f"{repo}@{ids[i]}", self.scratch / "pulled", **few)
            self.assert_same_tree(self.scratch / "pulled", steps[i])
        self.run_ok("apply", steps[0], self.scratch / "delta-0", self.scratch / "delta-1", "-o", self.scratch / "out",
                    **few)
        self.assert_same_tree(self.scratch / "out", steps[2])

    def test_full_disk_under_the_state(self):
        a, b = self.steps("1M")
        disk = self.small_disk("16k")
        for step in (a, b):
            done = self.run_any("push", step, self.scratch / "repo", env={"WDELTA_STATE_DIR": str(disk)})
            self.assertEqual(done.code, 0, self.told(done))
            self.fill(disk)
        self.assertIn(f"note: {disk}", done.err)
        self.run_ok("verify", b, self.scratch / "repo")
        self.assert_no_leftovers()

    def test_full_disk_behind_stdout(self):
        (a, b), repo = self.steps("1M"), self.scratch / "repo"
        self.run_ok("push", a, repo, "--tag", "t")
        self.run_ok("diff", a, b, "-o", self.scratch / "delta")
        for words in (["diff", a, b], ["diff", a, b, "--json"], ["log", repo], ["show", repo],
                      ["show", repo, "--json"], ["tag", repo],
                      ["verify", repo], ["apply", a, self.scratch / "delta", "-o", self.scratch / "out"],
                      ["push", b, repo],
                      ["push", b, repo, "--json"], ["pull", repo, self.scratch / "pulled"], ["--version"],
                      ["help", "exit-codes"], ["diff", "--help"]):
            with open("/dev/full", "wb") as full:
                done = self.run_any(*words, stdout=full)
            self.assertEqual(done.code, 3, self.told(done))
            self.assertIn("No space left", done.err, self.told(done))
            if words[0] not in ("--version", "help") and "--help" not in words:
                self.assertIn(f"wdelta: {words[0]}: stdout: ", done.err)
        self.assert_no_leftovers()
        self.run_ok("verify", repo)

    def test_an_error_in_json_that_cannot_be_printed(self):
        long = self.write_weights("long.safetensors", [("x" * 10_000, "BF16", [2], b"1234")] * 2)  # a name given twice
        with open("/dev/full", "wb") as full:
            done = self.run_any("diff", "--json", long, long, stdout=full)
        self.assertEqual(done.code, 5, self.told(done))
        self.assertIn("No space left", done.err)

    def test_closed_pipe_behind_stdout(self):
        a, b = self.steps("1M")
        for options in ([], ["--json"], ["--stat"]):
            reading, writing = os.pipe()
            os.close(reading)
            done = self.run_any("diff", a, b, *options, stdout=writing)
            os.close(writing)
            self.assertNotIn(done.code, (0, 1), self.told(done))
            self.assertEqual(done.err, "", self.told(done))

    def check_unheard(self, name, **streams):
        """What is said on stderr is lost; what is done, what is printed and the exit status are as ever."""
        place = self.scratch / name
        place.mkdir()
        a, b = self.make_run(f"{name}/run", "--size", "1M", "--steps", 2)
        repo, pulled, delta, missing = (place / each for each in ("repo", "pulled", "delta", "missing"))
        self.run_ok("push", a, repo)
        a = a.rename(place / "away")  # the next push notes that it is not where it was
        for words, code, printed in ((["push", b, repo, "--stats"], 0, 65), (["push", b, repo], 0, 65),
                                     (["diff", a, b, "-o", delta, "--stats"], 0, 0),
                                     (["pull", repo, pulled], 0, 1), (["verify", pulled, repo], 0, 1),
                                     (["log", missing], 4, 0), (["diff", a, missing, "--json"], 4, 1),
                                     (["log", "--bogus"], 2, 0), (["bogus"], 2, 0)):
            done = self.run_any(*words, **streams)
            self.assertEqual(done.code, code, self.told(done))
            self.assertGreaterEqual(len(done.out), printed, self.told(done))
        self.assert_same_tree(pulled, b)
        self.assert_no_leftovers()
        self.run_ok("verify", repo)

    def test_nobody_hears_stderr(self):
        reading, gone = os.pipe()
        os.close(reading)
        with open("/dev/full", "wb") as full:
            self.check_unheard("full", stderr=full)
        self.check_unheard("gone", stderr=gone)
        os.close(gone)
        self.check_unheard("closed", preexec_fn=lambda: os.close(2))

    def test_no_file_takes_the_place_of_a_closed_stream(self):
        (a, b), repo = self.steps("1M"), self.scratch / "repo"
        self.run_ok("push", a, repo)
        os.rename(a, self.scratch / "away")
        for words in (["push", b, repo], ["pull", repo, self.scratch / "pulled"], ["log", repo], ["verify", repo]):
            done = self.run_any(*words, preexec_fn=lambda: os.closerange(0, 3))
            self.assertEqual(done.code, 3, self.told(done))  # nothing was printed
        self.assert_same_tree(self.scratch / "pulled", b)
        self.assert_no_leftovers()
        for path in self.scratch.rglob("*"):
            self.assertNotIn(b"wdelta: push: note: ", path.read_bytes() if path.is_file() else b"", path)
        self.run_ok("verify", repo)

    def test_read_only_file_system(self):
        (a, b), disk = self.steps("1M"), self.small_disk("20m")
        repo, out = disk / "repo", disk / "out"
        self.run_ok("push", a, repo)
        self.run_ok("pull", repo, out)
        self.run_ok("diff", a, b, "-o", self.scratch / "delta")
        self.remount(disk, "ro")
        self.addCleanup(self.remount, disk, "rw")
        for words in (["diff", a, b, "-o", disk / "delta"],
                      ["diff", self.weights(a), self.weights(b), "-o", disk / "delta"],
                      ["apply", a, self.scratch / "delta", "-o", disk / "new"], ["push", b, repo],
                      ["push", b, disk / "another"],
                      ["pull", repo, disk / "fresh"], ["pull", repo, out], ["tag", repo, "t"]):
            self.run_fails(3, *words, says=["Read-only file system", str(disk)])
        self.run_ok("pull", repo, self.scratch / "pulled")  # reading needs no more than reading
        self.assert_same_tree(self.scratch / "pulled", a)
        self.run_ok("verify", repo)
        self.run_ok("verify", f"{repo}@main")
        self.run_ok("verify", out, repo)
        self.run_ok("log", repo)

    def as_nobody(self):
        """Options that run the binary as a user with no rights, on a copy of it that this user can reach."""
        if os.geteuid() != 0:
            self.skipTest("only root can become nobody")
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")
        self.scratch.chmod(0o755)
        shutil.copy(testing.WDELTA, self.scratch / "wdelta")
        own = self.scratch / "nobody"
        own.mkdir()
        shutil.chown(own, 65534, 65534)
        probe = subprocess.run([*NOBODY, self.scratch / "wdelta", "--version"], capture_output=True, cwd="/")
        if probe.returncode != 0:
            self.skipTest(f"nobody cannot run the binary: {probe.stderr.decode().strip()}")
        was = testing.WDELTA
        testing.WDELTA = str(self.scratch / "wdelta")
        self.addCleanup(setattr, testing, "WDELTA", was)
        return own, {"prefix": NOBODY, "env": {"WDELTA_STATE_DIR": str(own / "state")}, "cwd": "/"}

    def test_permission_denied(self):
        own, nobody = self.as_nobody()
        (a, b), repo = self.steps("1M"), self.scratch / "repo"
        self.run_ok("push", a, repo)
        self.run_ok("diff", a, b, "-o", self.scratch / "delta")
        self.run_ok("pull", repo, own / "pulled", **nobody)
        self.run_ok("verify", repo, **nobody)
        self.run_ok("pull", repo, self.scratch / "roots")
        for words, named in (
                (["diff", a, b, "-o", self.scratch / "new"], "new"),
                (["apply", a, self.scratch / "delta", "-o", self.scratch / "new"], "new"),
                (["push", b, repo], "repo"), (["push", b, self.scratch / "new"], "new"),
                (["pull", repo, self.scratch / "new"], "new"),
                (["pull", repo, self.scratch / "roots"], "roots"), (["tag", repo, "t"], "repo")):
            self.run_fails(3, *words, says=["Permission denied", named], absent=self.scratch / "new", **nobody)
        shard = self.weights(b)
        shard.chmod(0)
        for words in (["diff", a, b, "-o", own / "new"], ["diff", a, shard], ["push", b, own / "pushed"]):
            self.run_fails(3, *words, says=["Permission denied", shard.name], absent=own / "delta", **nobody)
        # What else is wrong counts for more, and both are told.
        told = self.run_fails(10, "verify", b, repo, says="wrong", **nobody).out
        self.assertRegex(told, rf"(?m)^{shard.name}: not looked at: .*Permission denied")
        self.assertRegex(told, r"(?m)^trainer_state.json: differs")
        shard.chmod(0o644)
        pushed = self.weights(a)
        pushed.chmod(0)
        self.run_fails(3, "verify", a, repo, says=["Permission denied", pushed.name], **nobody)
        pushed.chmod(0o644)
        b.chmod(0o700)
        self.run_fails(3, "diff", a, b, says=["Permission denied", b.name], **nobody)
        stored = next(path for path in (repo / "objects").rglob("*") if path.is_file())
        stored.chmod(0)
        for words in (["pull", repo, own / "new"], ["verify", repo], ["verify", f"{repo}@main"]):
            done = self.run_any(*words, **nobody)
            self.assertIn(done.code, (3, 5), self.told(done))
            self.assert_one_line_error(done)
            self.assertIn(stored.name, done.out + done.err)
        repo.chmod(0o700)
        for words in (["log", repo], ["pull", repo, own / "newer"], ["push", a, repo]):
            self.run_fails(3, *words, says="Permission denied", absent=own / "newer", **nobody)

    def test_state_directory_without_permission(self):
        own, nobody = self.as_nobody()
        a, b = self.steps("1M")
        shutil.copytree(a, own / "a")
        (self.scratch / "roots").mkdir()
        nobody["env"] = {"WDELTA_STATE_DIR": str(self.scratch / "roots" / "state")}
        done = self.run_any("push", a, own / "repo", **nobody)
        self.assertEqual(done.code, 0, self.told(done))
        self.assertIn("roots/state", done.err)
        self.run_ok("verify", a, own / "repo")

    def test_inputs_of_the_wrong_kind(self):
        a, b = self.steps("1M")
        shard, odd = self.weights(b), self.scratch / "odd.safetensors"
        repo, out = self.scratch / "repo", self.scratch / "out"
        self.run_ok("push", a, repo)
        self.run_ok("diff", a, b, "-o", self.scratch / "delta")
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        kinds = {"a FIFO": lambda path: os.mkfifo(path), "a device": lambda path: os.symlink("/dev/zero", path),
                 "a socket": lambda path: server.bind(str(path)),
                 "a symlink to nothing": lambda path: os.symlink("/none", path),
                 "a symlink to itself": lambda path: os.symlink(path, path)}
        shard.unlink()
        for kind, make in kinds.items():
            with self.subTest(kind):
                make(odd)
                for words in (["diff", odd, odd], ["apply", odd, self.scratch / "delta", "-o", out],
                              ["push", odd, repo], ["verify", odd],
                              ["apply", a, odd, "-o", out]):
                    done = self.run_any(*words, timeout=20)
                    self.assertIn(done.code, (3, 4), self.told(done))
                    self.assert_one_line_error(done)
                    self.assertFalse(out.exists(), self.told(done))
                os.rename(odd, shard)
                for words in (["diff", a, b, "-o", out], ["push", b, repo]):
                    self.run_fails(3, *words, says=shard.name, absent=out, timeout=20)
                wrong = self.run_fails(10, "verify", b, repo, timeout=20)
                self.assertIn(f"{shard.name}: is no file", wrong.out)
                shard.unlink()
        shard.mkdir()
        self.run_fails(3, "diff", a, b, says=shard.name)


def size_of(path):
    return path.stat().st_size


if __name__ == "__main__":
    testing.main()
