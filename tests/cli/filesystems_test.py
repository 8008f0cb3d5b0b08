# SPDX-License-Identifier: Apache-2.0
"""The main job on the file systems that people have: on those that lack locks, hard links, or an exchange of names, as
NFS and Lustre do (made so by tests/fault_points), and on those that this machine can mount."""

import json
import os
import shutil
import subprocess

import fault_points
import testing


class FileSystemCase(testing.Case):
    """A test of the main job in a directory that is somehow special."""

    def steps(self, count=3, size="1M"):
        return self.make_run("run", "--size", size, "--shards", 2, "--steps", count)

    def main_job(self, place, **more):
        """Pushes a few commits to a repository in `place`, and pulls them there, forwards and back."""
        steps, repo, out = self.steps(), place / "repo", place / "out"
        ids = [self.run_ok("push", step, repo, "--step", i, **more).strip() for i, step in enumerate(steps)]
        for i, options in ((0, []), (2, []), (1, []), (2, ["--swap"]), (0, ["--swap"]), (1, [])):
            self.run_ok("pull", *options, f"{repo}@{ids[i]}", out, **more)
            self.assert_same_tree(out, steps[i])
            self.run_ok("verify", out, f"{repo}@{ids[i]}", **more)
        self.run_ok("verify", repo, **more)
        self.run_ok("verify", f"{repo}@main", **more)
        self.diff_and_apply(place, steps, **more)
        self.assert_no_leftovers(place)

    def diff_and_apply(self, place, steps, **more):
        for i, (old, new) in enumerate(((steps[0], steps[1]), (sorted(steps[0].glob("*.safetensors"))[0],
                                                               sorted(steps[1].glob("*.safetensors"))[0]))):
            delta, rebuilt = place / f"delta-{i}", place / f"rebuilt-{i}"
            self.run_ok("diff", old, new, "-o", delta, **more)
            self.run_ok("apply", old, delta, "-o", rebuilt, **more)
            (self.assert_same_tree if new.is_dir() else self.assert_same_file)(rebuilt, new)


class PoorFileSystemTest(FileSystemCase):
    """File systems on which chosen calls fail."""

    def setUp(self):
        super().setUp()
        fault_points.require(self)
        self.poor = self.scratch / "poor"
        self.poor.mkdir()

    def faults(self, *points, below=None):
        """Options that run the binary with calls failing below a directory."""
        return {"env": fault_points.environment(below or self.poor, *points)}

    def test_no_locks(self):
        step, = self.steps(1)
        for error in ("ENOLCK", "ENOSYS", "EOPNOTSUPP"):
            with self.subTest(error):
                more = self.faults(f"flock={error}", below=self.scratch)
                place = self.poor / error
                push = self.run_any("push", step, place / "repo", **more)
                for done in (push, self.run_any("pull", place / "repo", place / "out", **more)):
                    self.assertEqual(done.code, 0, self.told(done))
                    self.assertEqual(done.err.count("has no locks"), 1, self.told(done))
        shutil.rmtree(self.scratch / "run")
        self.main_job(self.poor, **more)

    def test_directories_that_cannot_be_synced(self):
        self.main_job(self.poor, **self.faults("fsync_directory=EINVAL"))

    def test_a_directory_whose_sync_fails(self):
        step, = self.steps(1)
        self.run_fails(3, "push", step, self.poor / "repo", says="sync directory",
                       **self.faults("fsync_directory=EIO"))
        self.run_ok("push", step, self.poor / "repo")
        self.run_ok("verify", self.poor / "repo")

    def test_calls_that_signals_break_off(self):
        calls = ("open", "pread", "pwrite", "fsync", "fsync_directory", "flock", "fallocate", "copy_file_range")
        self.main_job(self.poor, **self.faults(*(f"{call}=EINTR" for call in calls)))

    def test_short_reads_and_writes(self):
        self.main_job(self.poor, **self.faults("pread=SHORT", "pwrite=SHORT", "copy_file_range=SHORT"))

    def test_no_exchange_of_names(self):
        for error in ("EINVAL", "ENOSYS"):
            self.main_job(self.poor / error, **self.faults(f"renameat2={error}"))
            shutil.rmtree(self.scratch / "run")

    def test_all_habits_of_nfs_at_once(self):
        self.main_job(self.poor, **self.faults("flock=ENOLCK", "fsync_directory=EINVAL", "renameat2=EINVAL",
                                               "ioctl=EOPNOTSUPP", "copy_file_range=EOPNOTSUPP",
                                               "fallocate=EOPNOTSUPP", "pread=SHORT", "fsync=EINTR", "open=EINTR"))

    def test_no_reservation_and_no_copies_by_the_kernel(self):
        self.main_job(self.poor, **self.faults("fallocate=EOPNOTSUPP", "ioctl=EOPNOTSUPP",
                                               "copy_file_range=EOPNOTSUPP"))

    def test_a_file_handle_that_went_stale(self):
        steps, repo, out = self.steps(2), self.poor / "repo", self.poor / "out"
        self.run_ok("push", steps[0], repo)
        self.run_ok("pull", repo, out)
        for call in ("open", "pread"):
            stale = self.faults(f"{call}=ESTALE")
            for words in (["pull", repo, self.poor / "new"], ["verify", f"{repo}@main"], ["push", steps[1], repo]):
                done = self.run_fails(3, *words, says=["Stale file handle", "hint: the file server"], **stale)
                self.assertNotIn("internal", done.err)
        self.run_ok("verify", repo)

    def test_verify_looks_at_the_other_files_where_one_cannot_be_read(self):
        step, = self.steps(1)
        repo, out = self.scratch / "repo", self.poor / "out"
        self.run_ok("push", step, repo)
        shutil.copytree(step, out)
        lost, damaged, *_ = sorted(out.glob("*.safetensors"))
        for call in ("open=EIO", "open=EACCES"):
            few = self.faults(call, below=lost)
            done = self.run_fails(3, "verify", out, repo, says=lost.name, **few)
            self.assertIn(f"{lost.name}: not looked at: ", done.out)
            told = json.loads(self.run_any("verify", out, repo, "--json", **few).out.splitlines()[0])
            self.assertEqual(([], [lost.name]), (told["findings"], [each["object"] for each in told["unseen"]]))
            content = bytearray(damaged.read_bytes())
            content[-1] ^= 1
            damaged.write_bytes(content)
            # What is wrong counts for more than what is not known.
            done = self.run_fails(10, "verify", out, repo, says=damaged.name, **few)
            for line in (f"{damaged.name}: differs", f"{lost.name}: not looked at: "):
                self.assertIn(line, done.out)
            content[-1] ^= 1
            damaged.write_bytes(content)
        self.run_ok("verify", out, repo)

    def test_a_repository_needs_hard_links_and_nothing_else_does(self):
        steps = self.steps(2)
        for error in ("EPERM", "EOPNOTSUPP"):
            poor, place = self.faults(f"link={error}"), self.poor / error
            self.run_fails(9, "push", steps[0], place / "repo", says="hard links", **poor)
            repo = self.scratch / f"repo-{error}"  # elsewhere
            ids = [self.run_ok("push", step, repo, **poor).strip() for step in steps]
            for i, options in ((0, []), (1, []), (0, ["--swap"])):
                self.run_ok("pull", *options, f"{repo}@{ids[i]}", place / "out", **poor)
                self.assert_same_tree(place / "out", steps[i])
            self.diff_and_apply(place, steps, **poor)

    def test_a_file_system_that_does_not_say_how_full_it_is(self):
        for fault in ("ZERO", "ENOSYS"):
            self.main_job(self.poor / fault, **self.faults(f"statvfs={fault}", below=self.scratch))
            shutil.rmtree(self.scratch / "run")

    def test_a_checkpoint_rewritten_within_the_grain_of_the_clock(self):
        """Neither pull nor push takes a file for unchanged because its size and times are what they were."""
        (a, b), repo, out = self.steps(2), self.scratch / "repo", self.scratch / "out"
        mine = self.scratch / "mine"
        shutil.copytree(a, mine)
        first = self.run_ok("push", mine, repo).strip()
        self.run_ok("pull", repo, out)
        for place in (mine, out):
            shard = sorted(place.glob("*.safetensors"))[0]
            stat, content = shard.stat(), bytearray(shard.read_bytes())
            content[-1] ^= 1
            with open(shard, "r+b") as file:  # in place: the inode stays too
                file.write(content)
            os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            self.assertEqual((shard.stat().st_ino, shard.stat().st_mtime_ns), (stat.st_ino, stat.st_mtime_ns))
        self.run_fails(3, "pull", repo, out, says=shard.name)
        second = self.run_ok("push", b, repo).strip()  # compares with what lies in `mine`
        third = self.run_ok("push", mine, repo).strip()
        self.assertEqual(len({first, second, third}), 3)
        for revision, step in ((first, a), (second, b), (third, mine)):
            self.run_ok("pull", "--force", f"{repo}@{revision}", out)
            self.assert_same_tree(out, step)
        stat = shard.stat()
        with open(sorted(mine.glob("*.safetensors"))[0], "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(bytes([content[-1] ^ 2]))
        os.utime(file.name, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self.assertNotEqual(self.run_ok("push", mine, repo).strip(), third)
        self.run_ok("verify", mine, repo)


class MountedTest(FileSystemCase):
    """Real file systems, small, made for the test."""

    def mounted(self, kind, source, options):
        """Mounts a file system, for this test only."""
        if not shutil.which("mount"):
            self.skipTest("mount is not installed")
        disk = self.scratch / "disk"
        disk.mkdir()
        done = subprocess.run(["mount", "-t", kind, "-o", options, source, disk], stderr=subprocess.PIPE)
        if done.returncode != 0:
            self.skipTest(f"no {kind} can be mounted here: {done.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        return disk

    def made(self, kind, size, *options):
        """A new file system in a file, mounted."""
        program = shutil.which(f"mkfs.{kind}", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if not program:
            self.skipTest(f"mkfs.{kind} is not installed")
        image = self.scratch / "image"
        with open(image, "wb") as file:
            file.truncate(size)
        subprocess.run([program, *options, image], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self.mounted(kind, image, "loop")

    def small_tmpfs(self, options):
        return self.mounted("tmpfs", "wdelta-test", options)

    def test_tmpfs(self):
        self.main_job(self.small_tmpfs("size=64m"))

    def test_ext4(self):
        self.main_job(self.made("ext4", 64 << 20, "-q", "-F"))

    def test_ext4_with_small_blocks_and_no_extents(self):
        disk = self.made("ext4", 64 << 20, "-q", "-F", "-b", "1024", "-O", "^extent,^64bit,^metadata_csum",
                         "-E", "lazy_itable_init=0")
        self.main_job(disk)

    def test_ext3_whose_clock_ticks_in_seconds(self):
        """Inodes of 128 bytes have no room for parts of a second."""
        disk = self.made("ext4", 64 << 20, "-q", "-F", "-I", "128")
        (disk / "file").touch()
        self.assertEqual((disk / "file").stat().st_mtime_ns % 10**9, 0)
        self.main_job(disk)
        repo, out = disk / "repo", disk / "out"
        for options in ([], ["--swap"]):
            shard = sorted(out.glob("*.safetensors"))[0]
            stat = shard.stat()
            with open(shard, "r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"?")
            os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            self.run_fails(3, "pull", *options, repo, out, says=shard.name)
            self.run_ok("pull", *options, "--force", repo, out)
            self.run_ok("verify", out, repo)

    def shares_bytes(self, disk):
        """The main job where files can share their bytes: a swap needs room for what is new only."""
        self.main_job(disk)
        steps, repo, out = self.make_run("large", "--size", "48M", "--shards", 4, "--steps", 1), disk / "r", disk / "o"
        self.run_ok("push", steps[0], self.scratch / "elsewhere")
        self.run_ok("pull", self.scratch / "elsewhere", out)
        (steps[0] / "config.json").write_text("{}")
        self.run_ok("push", steps[0], self.scratch / "elsewhere", "--step", 2)
        before = os.statvfs(disk).f_bfree * os.statvfs(disk).f_frsize
        holder = [open(path, "rb") for path in out.glob("*.safetensors")]  # so that the old bytes stay
        self.run_ok("pull", "--swap", self.scratch / "elsewhere", out)
        after = os.statvfs(disk).f_bfree * os.statvfs(disk).f_frsize
        for file in holder:
            file.close()
        self.assert_same_tree(out, steps[0])
        self.assertLess(before - after, 24 << 20)
        self.assertFalse(repo.exists())

    def test_xfs(self):
        self.shares_bytes(self.made("xfs", 400 << 20, "-q", "-m", "reflink=1"))

    def test_btrfs(self):
        self.shares_bytes(self.made("btrfs", 400 << 20, "-q"))

    def test_fat(self):
        """No hard links, no modes, one case: no place for a repository, but for all else."""
        disk = self.made("vfat", 64 << 20)
        steps, repo, out = self.steps(), self.scratch / "repo", disk / "out"
        self.run_fails(9, "push", steps[0], disk / "repo", says="hard links")
        ids = [self.run_ok("push", step, repo, "--step", i).strip() for i, step in enumerate(steps)]
        for i, options in ((0, []), (2, ["--swap"]), (1, []), (0, ["--swap"])):
            self.run_ok("pull", *options, f"{repo}@{ids[i]}", out)
            for path in steps[i].iterdir():
                self.assert_same_file(out / path.name, path)

    def runs_full(self, disk, more_room):
        """Pushes and pulls until nothing fits, then goes on with more room."""
        steps = self.make_run("run", "--size", "2M", "--shards", 2, "--steps", 8)
        repo, out, ids, told = disk / "repo", disk / "out", [], None
        for i, step in enumerate(steps):
            (step / "noise").write_bytes(self.random.randbytes(3 << 19))
            for j in range(4):
                (step / f"part-{j}").mkdir()
                (step / f"part-{j}" / "config.json").write_text(f"{i} {j}")
            done = self.run_any("push", step, repo, "--step", i)
            if done.code == 0:
                ids.append(done.out.strip())
                continue
            self.assertEqual(done.code, 3, self.told(done))
            self.assert_one_line_error(done)
            self.assertRegex(done.err, "No space left|are missing")
            told = done
            break
        self.assertIsNotNone(told, "it never ran full")
        self.assertTrue(ids, self.told(told))
        self.assert_no_leftovers(disk)
        self.run_ok("verify", repo)
        self.run_ok("verify", f"{repo}@main")
        self.run_ok("pull", repo, self.scratch / "elsewhere")
        self.assert_same_tree(self.scratch / "elsewhere", steps[len(ids) - 1])
        for options in ([], ["--swap"]):
            done = self.run_any("pull", *options, repo, out)
            if done.code == 0:  # there was room left for one
                self.assert_same_tree(out, steps[len(ids) - 1])
                continue
            self.assertEqual(done.code, 3, self.told(done))
            self.assert_one_line_error(done)
            self.assertRegex(done.err, "No space left|are missing")
            self.assertFalse((out / "config.json").exists())
            self.assert_no_leftovers(disk)
        more_room()
        for i, options in ((0, []), (len(ids) - 1, ["--swap"])):
            self.run_ok("pull", *options, f"{repo}@{ids[i]}", out)
            self.assert_same_tree(out, steps[i])
        self.run_ok("push", steps[len(ids)], repo, "--step", len(ids))
        self.run_ok("verify", f"{repo}@main")
        self.run_ok("verify", steps[len(ids)], repo)

    def test_tmpfs_that_runs_full(self):
        disk = self.small_tmpfs("size=7m")
        self.runs_full(disk, lambda: subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True))

    def test_tmpfs_that_runs_out_of_files(self):
        disk = self.small_tmpfs("size=64m,nr_inodes=45")
        self.runs_full(disk, lambda: subprocess.run(["mount", "-o", "remount,nr_inodes=1000", disk], check=True))

    def test_ext4_that_runs_full(self):
        disk = self.made("ext4", 24 << 20, "-q", "-F", "-O", "^has_journal")
        (disk / "filler").write_bytes(bytes(12 << 20))
        self.runs_full(disk, (disk / "filler").unlink)

    def test_ext4_that_runs_out_of_files(self):
        disk = self.made("ext4", 64 << 20, "-q", "-F", "-N", "128")
        fillers = []
        while os.statvfs(disk).f_ffree > 45:
            fillers.append(disk / f"filler-{len(fillers)}")
            fillers[-1].touch()
        self.runs_full(disk, lambda: [filler.unlink() for filler in fillers])


class GroupTest(FileSystemCase):
    """Repositories that a group writes to, and others."""

    GROUP = 54321

    def member(self, user, umask, *, groups=(GROUP,)):
        """Options that run the binary as a user of the group, on a copy of it that this user can reach."""
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")
        self.scratch.chmod(0o755)
        binary, state = self.scratch / "wdelta", self.scratch / f"state-{user}"
        if not binary.exists():
            shutil.copy(testing.WDELTA, binary)
            self.addCleanup(setattr, testing, "WDELTA", testing.WDELTA)
            testing.WDELTA = str(binary)
        state.mkdir(exist_ok=True)
        shutil.chown(state, user, user)
        become = ("setpriv", f"--reuid={user}", f"--regid={user}", "--groups", ",".join(map(str, groups)))
        probe = subprocess.run([*become, binary, "--version"], capture_output=True, cwd="/")
        if probe.returncode != 0:
            self.skipTest(f"another user cannot run the binary: {probe.stderr.decode().strip()}")
        return {"prefix": (*become, *self.with_umask(umask)), "env": {"WDELTA_STATE_DIR": str(state)}, "cwd": "/"}

    @staticmethod
    def with_umask(umask):
        return ("sh", "-c", f'umask {umask:o} && exec "$@"', "sh")

    def assert_modes(self, repo, file_mode, folder_mode, mask=0o7777):
        for folder, _, files in os.walk(repo):
            self.assertEqual(os.stat(folder).st_mode & mask, folder_mode & mask, folder)
            for name in files:
                path = os.path.join(folder, name)
                self.assertEqual(os.stat(path).st_mode & mask, file_mode & mask, path)

    def push_all(self, steps, repo, **more):
        (steps[0] / "run.sh").write_text("#!/bin/sh")
        (steps[0] / "run.sh").chmod(0o755)
        (steps[0] / "large").write_bytes(self.random.randbytes(3 << 20))  # an object of its own
        (steps[0] / "large").chmod(0o755)
        for i, step in enumerate(steps):
            self.run_ok("push", step, repo, "--step", i, "--tag", f"v{i}", **more)

    def test_modes_follow_the_umask(self):
        steps = self.steps(2)
        for umask in (0o077, 0o027, 0o022, 0o002):
            with self.subTest(umask=oct(umask)):
                repo = self.scratch / f"repo-{umask:o}"
                self.push_all(steps, repo, prefix=self.with_umask(umask))
                self.assert_modes(repo, 0o666 & ~umask, 0o777 & ~umask)

    def test_everything_is_for_the_group_where_the_directory_is(self):
        steps = self.steps(2)
        for umask in (0o077, 0o022):
            with self.subTest(umask=oct(umask)):
                repo = self.scratch / f"repo-{umask:o}"
                repo.mkdir()
                repo.chmod(0o2770)
                self.push_all(steps, repo, prefix=self.with_umask(umask))
                self.assert_modes(repo, 0o660, 0o2770, mask=0o7770)
                others = 0o007 & ~umask
                for path in (repo / "objects").rglob("*.safetensors"):
                    self.assertEqual(path.stat().st_mode & 0o7777, 0o660 | others & 0o006)

    def test_a_directory_that_is_only_one_of_the_two_is_not_for_the_group(self):
        steps = self.steps(1)
        for mode, folders in ((0o2750, 0o2700), (0o770, 0o700)):
            repo = self.scratch / f"repo-{mode:o}"
            repo.mkdir()
            repo.chmod(mode)
            self.push_all(steps, repo, prefix=self.with_umask(0o077))
            repo.chmod(folders)  # what was made in it
            self.assert_modes(repo, 0o600, folders)

    def test_two_users_of_a_group_push_in_turn(self):
        (self.scratch / "shared").mkdir()
        repo = self.scratch / "shared" / "repo"
        alice, bob = self.member(54001, 0o077), self.member(54002, 0o022)
        mallory = self.member(54003, 0o022, groups=(54003,))
        repo.mkdir()
        os.chown(repo, 0, self.GROUP)
        repo.chmod(0o2770)
        steps = self.steps(4)
        ids = [self.run_ok("push", step, repo, "--step", i, "--tag", f"v{i}", **(alice, bob)[i % 2]).strip()
               for i, step in enumerate(steps)]
        self.assert_modes(repo, 0o660, 0o2770, mask=0o7770)
        for folder, _, files in os.walk(repo):
            for name in files:
                self.assertEqual(os.stat(os.path.join(folder, name)).st_gid, self.GROUP)
        for i, user in ((3, alice), (2, bob), (0, bob), (1, alice)):
            out = self.scratch / f"state-{54001 if user is alice else 54002}" / "out"
            self.run_ok("pull", f"{repo}@{ids[i]}", out, **user)
            self.assert_same_tree(out, steps[i])
        self.run_ok("verify", f"{repo}@main", **bob)
        self.run_fails(3, "push", steps[0], repo, says="Permission denied", **mallory)


if __name__ == "__main__":
    testing.main()
