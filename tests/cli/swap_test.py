# SPDX-License-Identifier: Apache-2.0
"""pull --swap: whoever looks at the directory sees one commit or the other, whatever happens on the way."""

import fcntl
import json
import os
import shutil
import subprocess
import threading
import time

import fault_points
import testing

WAYS = ((), ("--swap",))  # the two ways to pull


class SwapTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo, self.place = self.scratch / "repo", self.scratch / "place"
        self.place.mkdir()
        self.out = self.place / "out"

    def push_steps(self, count=2, size="1M"):
        self.steps = self.make_run("run", "--size", size, "--shards", 2, "--steps", count)
        self.ids = [self.run_ok("push", step, self.repo, "--step", i).strip() for i, step in enumerate(self.steps)]

    def at(self, step):
        return f"{self.repo}@{self.ids[step]}"

    def swap(self, step, *options, **more):
        return self.run_ok("pull", "--swap", *options, self.at(step), self.out, **more)

    def beside(self):
        """What lies beside the directory."""
        return sorted(name for name in os.listdir(self.place) if name != "out")

    def poor(self, *points):
        """Options that run the binary on a poorer file system: see filesystems_test.py."""
        fault_points.require(self)
        return {"env": fault_points.environment(self.place, *points)}

    def no_exchange(self):
        return self.poor("renameat2=EINVAL")

    def test_forwards_and_back(self):
        self.push_steps(3)
        (self.steps[1] / "run.sh").write_text("#!/bin/sh\n")
        (self.steps[1] / "run.sh").chmod(0o755)
        self.ids[1] = self.run_ok("push", self.steps[1], self.repo, "--step", 1).strip()
        for more in ({}, self.no_exchange(), self.poor("renameat2=ENOSYS")):
            for i in (0, 2, 1, 1, 0):
                self.swap(i, **more)
                self.assert_same_tree(self.out, self.steps[i])
                self.assertEqual(self.beside(), [])
                self.run_ok("verify", self.out, self.at(i))
                told = self.run_ok("pull", self.at(i), self.out, "--json")
                self.assertIn('"written":0', told)
            shutil.rmtree(self.out)

    def test_a_directory_becomes_a_file_and_back(self):
        self.push_steps(2)
        (self.steps[0] / "both").mkdir()
        (self.steps[0] / "both" / "side").write_text("x")
        (self.steps[1] / "both").write_text("y")
        for i in (0, 1):
            self.ids[i] = self.run_ok("push", self.steps[i], self.repo, "--step", i).strip()
        for more in ({}, self.no_exchange()):
            for i in (0, 1, 0, 1):
                self.swap(i, **more)
                self.assert_same_tree(self.out, self.steps[i])
        self.swap(0)
        (self.out / "both" / "note").write_text("mine")
        self.run_fails(3, "pull", "--swap", self.at(1), self.out, says=["both"])
        self.assertEqual((self.out / "both" / "note").read_text(), "mine")

    def test_what_is_right_already_is_not_fetched_and_not_linked(self):
        self.push_steps()
        self.swap(0)
        before = {path.name: path.stat().st_ino for path in self.out.iterdir()}
        shard = sorted(self.steps[0].glob("*.safetensors"))[0].name
        shutil.copy(self.steps[0] / shard, self.steps[1] / shard)  # this one stays the same
        same = self.run_ok("push", self.steps[1], self.repo, "--step", 7).strip()
        (self.repo / "objects").rename(self.scratch / "hidden")  # whoever fetches it now fails
        (self.repo / "objects").mkdir()
        for path in (self.scratch / "hidden").rglob("*.safetensors"):
            if path.stat().st_size < 300_000:  # deltas
                target = self.repo / path.relative_to(self.scratch / "hidden").parent.name
                (self.repo / "objects" / target.name).mkdir(exist_ok=True)
                shutil.copy(path, self.repo / "objects" / target.name)
        for path in (self.scratch / "hidden").rglob("*"):
            if path.is_file() and path.suffix != ".safetensors":
                (self.repo / "objects" / path.parent.name).mkdir(exist_ok=True)
                shutil.copy(path, self.repo / "objects" / path.parent.name)
        with open(self.out / shard, "r+b") as writer:  # a saver that writes in place
            self.run_ok("pull", "--swap", f"{self.repo}@{same}", self.out)
            writer.write(b"scribbled")
        self.assert_same_tree(self.out, self.steps[1])
        for path in self.out.iterdir():
            self.assertNotEqual(path.stat().st_ino, before.get(path.name), path)

    def test_a_reader_sees_one_commit_or_the_other(self):
        self.push_steps(size="4M")
        self.swap(0)
        trees = [testing.describe(step) for step in self.steps]
        seen, wrong, stop = [0, 0], [], threading.Event()

        def read():
            while not stop.is_set():
                try:
                    fd = os.open(self.out, os.O_RDONLY | os.O_DIRECTORY)
                except FileNotFoundError:  # between two renames
                    continue
                try:
                    tree = testing.describe(f"/proc/self/fd/{fd}/")
                    there = {place: what for place, what in tree.items() if what != "a dangling symlink"}
                    if tree in trees:
                        seen[trees.index(tree)] += 1
                    elif not any(there.items() <= each.items() for each in trees):  # else the old one, being removed
                        wrong.append(tree)
                except FileNotFoundError:
                    pass
                finally:
                    os.close(fd)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for more in ({}, self.no_exchange()):
                for i in (1, 0) * 4:
                    self.swap(i, **more)
                    time.sleep(0.05)
        finally:
            stop.set()
            reader.join()
        self.assertEqual(wrong, [])
        self.assertTrue(all(seen), seen)

    def test_what_is_not_of_the_commit_goes_along(self):
        self.push_steps()
        links = self.poor("link=EPERM")
        for more in ({}, links, self.no_exchange()):
            self.swap(0, **more)
            (self.out / "notes").write_text("mine\n")
            (self.out / "notes").chmod(0o640)
            os.utime(self.out / "notes", ns=(10**18, 10**18 + 123456789))
            (self.out / "eval" / "deep").mkdir(parents=True)
            (self.out / "eval").chmod(0o700)
            (self.out / "eval" / "deep" / "scores").write_text("1")
            (self.out / "empty").mkdir(exist_ok=True)
            (self.out / ".git").mkdir()
            (self.out / ".git" / "HEAD").write_text("ref")
            (self.out / "latest").symlink_to("notes")
            with open(self.out / "notes", "a") as writer:  # an editor, a logger
                self.swap(1, **more)
                writer.write("more\n")
            if more != links:
                self.assertEqual((self.out / "notes").read_text(), "mine\nmore\n")
            else:
                self.assertEqual((self.out / "notes").stat().st_mtime_ns, 10**18 + 123456789)
            self.assertEqual((self.out / "notes").stat().st_mode & 0o7777, 0o640)
            self.assertEqual((self.out / "eval").stat().st_mode & 0o7777, 0o700)
            self.assertEqual((self.out / "eval" / "deep" / "scores").read_text(), "1")
            self.assertEqual((self.out / ".git" / "HEAD").read_text(), "ref")
            self.assertEqual(os.readlink(self.out / "latest"), "notes")
            self.assertTrue((self.out / "empty").is_dir())
            self.run_ok("verify", self.out, self.at(1))
            shutil.rmtree(self.out)
        self.assertEqual(self.beside(), [])

    def test_local_changes_are_refused(self):
        self.push_steps()
        self.swap(0)
        shard = sorted(self.out.glob("*.safetensors"))[0]
        shard.write_bytes(shard.read_bytes()[:-1] + b"!")
        (self.out / "mine.safetensors").write_bytes(b"mine")
        before = testing.describe(self.out)
        self.run_fails(3, "pull", "--swap", self.at(1), self.out, says=[shard.name, "mine.safetensors", "--force"])
        self.assertEqual(testing.describe(self.out), before)
        self.assertEqual(self.beside(), [])
        self.swap(1, "--force")
        self.assert_same_tree(self.out, self.steps[1])

    def test_what_a_killed_pull_left_goes_when_there_is_nothing_to_do(self):
        self.push_steps(1)
        for words in WAYS:
            self.run_ok("pull", self.at(0), self.out)
            for left in ("aside/config.json", "incoming/some"):
                (self.out / ".wdelta" / left).parent.mkdir()
                (self.out / ".wdelta" / left).write_text("{}")
            self.assertIn('"written":0', self.run_ok("pull", "--json", *words, self.at(0), self.out))
            self.assertEqual(sorted(os.listdir(self.out / ".wdelta")), ["lock", "state.json"], words)

    def test_a_file_that_changed_unseen_is_fetched_anew(self):
        """A stamp that is believed, and bytes that are others all the same."""
        self.push_steps()
        self.run_ok("pull", self.at(0), self.out)
        state = self.out / ".wdelta" / "state.json"
        document = json.loads(state.read_text())
        for name in ("tokenizer.json", sorted(self.out.glob("*.safetensors"))[0].name):
            with open(self.out / name, "r+b") as file:
                file.seek(-2, os.SEEK_END)
                file.write(b"??")
            times = (self.out / name).stat()
            document["files"][name].update(mtime=str(times.st_mtime_ns), ctime=str(times.st_ctime_ns))
        state.write_bytes(self.sealed(document))
        os.utime(state, (time.time() + 10,) * 2)
        done = self.run_any("pull", "--swap", self.at(1), self.out)
        self.assertEqual(done.code, 0, self.told(done))
        self.assertIn("tokenizer.json: was changed since", done.err)
        self.assert_same_tree(self.out, self.steps[1])

    def test_copies_that_the_kernel_only_says_it_made(self):
        self.push_steps()
        for points in (("ioctl=ZERO",), ("ioctl=EOPNOTSUPP", "copy_file_range=ZERO"),
                       ("ioctl=EXDEV", "copy_file_range=EXDEV"), ("copy_file_range=EIO",)):
            for i in (0, 1):
                self.swap(i, **self.poor(*points))
                self.assert_same_tree(self.out, self.steps[i])
            shutil.rmtree(self.out)

    def test_the_directory_keeps_its_mode(self):
        self.push_steps()
        self.swap(0)
        self.assertEqual(self.out.stat().st_mode & 0o777, self.place.stat().st_mode & 0o777)
        for mode in (0o700, 0o2775, 0o1777):
            self.out.chmod(mode)
            for i in (1, 0):
                self.swap(i)
                self.assertEqual(self.out.stat().st_mode & 0o7777, mode)

    def test_all_names_of_a_directory(self):
        self.push_steps()
        (self.place / "empty").mkdir()
        (self.place / "real").mkdir()
        (self.place / "link").symlink_to("real")
        for name in ("new", "deep/er/new", "slash/", "empty", "link", "deep/../dots"):
            for i in (0, 1):
                self.run_ok("pull", "--swap", self.at(i), name, cwd=self.place)
                self.assert_same_tree(self.place / name, self.steps[i])
        self.assertTrue((self.place / "link").is_symlink())
        (self.place / "here").mkdir()
        for i in (0, 1):
            self.run_ok("pull", "--swap", self.at(i), ".", cwd=self.place / "here")
            self.assert_same_tree(self.place / "here", self.steps[i])
        self.assert_no_leftovers(self.place)
        (self.place / "file").write_text("x")
        (self.place / "dangling").symlink_to("nowhere")
        for name in ("file", "dangling"):
            self.run_fails(3, "pull", "--swap", self.at(0), self.place / name, says=name)
        self.assert_no_leftovers(self.place)

    def test_a_mount_point_is_refused_before_any_work(self):
        self.push_steps(1)
        self.out.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "wdelta-test", self.out], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.out])
        self.run_fails(3, "pull", "--swap", self.at(0), self.out, says=["is a mount point", "hint: pull without"])
        self.assertEqual(os.listdir(self.out) + self.beside(), [])
        self.out = self.out / "below"
        self.swap(0)
        (self.out / "mounted").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "wdelta-test", self.out / "mounted"], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.out / "mounted"])
        (self.out / "mounted" / "file").write_text("mine")
        self.run_fails(3, "pull", "--swap", self.at(0), self.out, says=["mounted: is a mount point"])
        self.run_ok("pull", self.at(0), self.out)
        self.assertEqual((self.out / "mounted" / "file").read_text(), "mine")

    def test_room_for_the_whole_is_needed(self):
        self.push_steps(size="3M")
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "wdelta-test", self.place],
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.place])
        self.swap(0)
        self.run_fails(3, "pull", "--swap", self.at(1), self.out, says=["needs 3,", "are missing"])
        self.assert_same_tree(self.out, self.steps[0])
        self.assertEqual(self.beside(), [])
        self.run_ok("pull", self.at(1), self.out)
        self.assert_same_tree(self.out, self.steps[1])

    def test_killed_at_any_moment(self):
        self.push_steps(size="16M")
        print(f"seed {self.seed}", flush=True)
        trees = [testing.describe(step) for step in self.steps]
        self.swap(0)
        begin = time.monotonic()
        self.swap(1)
        usual = time.monotonic() - begin
        killed = 0
        for i, more in enumerate(({}, self.no_exchange()) * 10):
            self.swap(0)
            (self.out / "notes").write_text("mine")
            child = subprocess.Popen(self.command("pull", "--swap", self.at(1), self.out),
                                     env=self.environment(**more.get("env", {})), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            time.sleep(self.random.uniform(0, usual))
            child.kill()
            killed += child.wait() != 0
            if self.out.exists():
                found = testing.describe(self.out)
                self.assertEqual(found.pop("notes"), (testing.file_digest(self.out / "notes"), False))
                self.assertIn(found, trees)
            else:
                self.assertIn(".out.wdelta-olddir", self.beside())
            self.run_ok("pull", *WAYS[i // 2 % 2], self.at(1), self.out)
            self.assertEqual((self.out / "notes").read_text(), "mine")
            (self.out / "notes").unlink()
            self.assert_same_tree(self.out, self.steps[1])
            self.assertEqual(self.beside(), [])
        self.assertGreater(killed, 0)

    def test_asked_to_stop(self):
        self.push_steps(size="64M")
        self.swap(1)
        begin = time.monotonic()
        self.swap(0)
        usual = time.monotonic() - begin
        stopped, wanted = 0, 1
        # The signal comes at any moment; how many come in time depends on the machine, so that there are as many tries
        # as it takes to stop a few.
        for i in range(200):
            number, code = list(testing.STOPPED.items())[i % 3]
            child = subprocess.Popen(self.command("pull", "--swap", self.at(wanted), self.out), env=self.environment(),
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(self.random.uniform(0, usual))
            child.send_signal(number)
            _, err = child.communicate()
            self.assertIn(child.returncode, (0, code, -number), err)
            stopped += child.returncode == code
            wanted = 1 - wanted if child.returncode == 0 else wanted
            self.assertEqual(self.beside(), [])
            self.assertIn(testing.describe(self.out), [testing.describe(step) for step in self.steps])
            if i >= 5 and stopped >= 2:
                break
        self.assertGreaterEqual(stopped, 2)

    def build_by_hand(self, name, step):
        """A complete directory as a pull leaves it, under another name."""
        self.run_ok("pull", self.at(step), self.scratch / "built")
        (self.scratch / "built").rename(self.place / name)

    OLD, NEW = ".out.wdelta-olddir", ".out.wdelta-newdir"

    def test_killed_between_two_renames(self):
        """What a kill can leave where names cannot be exchanged, each finished or undone by either kind of pull."""
        self.push_steps(3)
        for way in WAYS:
            for wanted in (0, 1, 2):
                for built in ("DIR is not there", "DIR is not there, the new one is not whole", "DIR is new",
                              "DIR was made anew, empty"):
                    with self.subTest(built, way=way, wanted=wanted):
                        self.build_by_hand(self.OLD, 0)
                        (self.place / self.OLD / "notes").write_text("mine")
                        self.build_by_hand("out" if built == "DIR is new" else self.NEW, 1)
                        if built == "DIR is not there, the new one is not whole":
                            (self.place / self.NEW / ".wdelta" / "state.json").unlink()
                        elif built == "DIR is new":
                            (self.out / "notes").write_text("mine")
                        else:
                            (self.place / self.NEW / "notes").write_text("mine")
                        if built == "DIR was made anew, empty":
                            self.out.mkdir()
                        self.run_ok("pull", *way, self.at(wanted), self.out)
                        self.assertEqual((self.out / "notes").read_text(), "mine")
                        (self.out / "notes").unlink()
                        self.assert_same_tree(self.out, self.steps[wanted])
                        self.assertEqual(self.beside(), [])
                    shutil.rmtree(self.place)
                    self.place.mkdir()

    def test_made_anew_between_two_renames(self):
        """Then nobody but the user knows which of the two counts."""
        self.push_steps()
        for way in WAYS:
            self.build_by_hand(self.OLD, 0)
            self.build_by_hand(self.NEW, 1)
            self.out.mkdir()
            (self.out / "notes").write_text("mine")
            done = self.run_any("pull", *way, self.at(1), self.out)
            self.assertEqual(done.code, 3, self.told(done))
            self.assert_one_line_error(done)
            self.assertIn(self.OLD, done.err)
            self.assertEqual((self.out / "notes").read_text(), "mine")
            self.assert_same_tree(self.place / self.OLD, self.steps[0])
            shutil.rmtree(self.place)
            self.place.mkdir()

    def test_what_killed_pulls_leave_is_removed_by_either_kind(self):
        self.push_steps()
        for way in WAYS:
            self.swap(0)
            for name in (self.NEW, ".out.wdelta-rm01af", ".out.wdelta-rmffff"):
                (self.place / name).mkdir()
                (self.place / name / "model.safetensors").write_bytes(b"half")
            others = [".out2.wdelta-newdir", ".out.wdelta-abcdef", "out.wdelta-newdir"]
            for name in others:
                (self.place / name).mkdir()
            self.run_ok("pull", *way, self.at(1), self.out)
            self.assert_same_tree(self.out, self.steps[1])
            self.assertEqual(self.beside(), sorted(others))
            for name in others:
                (self.place / name).rmdir()

    def test_what_is_no_directory_where_pulls_make_theirs(self):
        """Nothing is written through a symlink, and nobody waits for it to become a directory."""
        self.push_steps()
        elsewhere = self.place / "elsewhere"
        for way in WAYS:
            for name in (self.NEW, self.OLD):
                for target in ("nowhere", "elsewhere", None):
                    elsewhere.mkdir()
                    self.run_ok("pull", self.at(0), self.out)
                    (self.place / name).write_text("mine") if target is None else (self.place / name).symlink_to(target)
                    done = self.run_any("pull", *way, self.at(1), self.out)
                    self.assertIn(name, done.err)
                    self.assertEqual(list(elsewhere.iterdir()), [])
                    # What only a pull with --swap makes stands in no other's way.
                    stands_in_the_way = name == self.OLD or way
                    self.assertEqual(done.code, 3 if stands_in_the_way else 0, self.told(done))
                    self.assert_same_tree(self.out, self.steps[0 if stands_in_the_way else 1])
                    self.assertTrue(os.path.lexists(self.place / name))
                    (self.place / name).unlink()
                    shutil.rmtree(self.out)
                    elsewhere.rmdir()

    def test_a_second_pull_waits_and_then_finds_the_new_directory(self):
        self.push_steps()
        for first in WAYS:
            for second in WAYS:
                for there in (True, False):
                    shutil.rmtree(self.out, ignore_errors=True)
                    if there:
                        self.swap(0)
                    children = [subprocess.Popen(self.command("pull", *way, self.at(1 - i), self.out),
                                                 env=self.environment(), stdout=subprocess.PIPE,
                                                 stderr=subprocess.PIPE) for i, way in enumerate((first, second))]
                    codes = [(child.communicate(), child.returncode)[1] for child in children]
                    # Where there was no directory, one that makes it in place and one that swaps may collide.
                    self.assertIn(codes, [[0, 0]] if there or first == second else [[0, 0], [0, 7], [7, 0]])
                    found = testing.describe(self.out)
                    self.assertIn(found, [testing.describe(step) for step in self.steps])
                    self.assertEqual(self.beside(), [])

    def test_whoever_waits_for_a_directory_that_is_exchanged_waits_for_the_new_one_too(self):
        self.push_steps()
        for way in WAYS:
            self.run_ok("pull", self.at(0), self.out)
            self.run_ok("pull", self.at(0), self.scratch / "new")
            with open(self.out / ".wdelta" / "lock") as old, open(self.scratch / "new" / ".wdelta" / "lock") as new:
                for held in (old, new):
                    fcntl.flock(held, fcntl.LOCK_EX)
                child = subprocess.Popen(self.command("pull", *way, self.at(1), self.out), env=self.environment(),
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                self.assertIn(b"waiting", child.stderr.readline())
                self.out.rename(self.scratch / "old")
                (self.scratch / "new").rename(self.out)
                old.close()
                self.assertIn(b"waiting", child.stderr.readline())
                self.assertIsNone(child.poll())
                self.assert_same_tree(self.out, self.steps[0])
            child.communicate()
            self.assertEqual(child.returncode, 0)
            self.assert_same_tree(self.out, self.steps[1])
            self.assert_same_tree(self.scratch / "old", self.steps[0])
            shutil.rmtree(self.scratch / "old")

    def test_notes_are_in_the_new_directory_before_it_is_seen(self):
        """So that a kill behind the exchange cannot lose them: here nothing can be added to it from then on."""
        self.push_steps()
        self.swap(0)
        (self.out / "notes").write_text("mine")
        closed = self.poor("link=EPERM", "ioctl=EOPNOTSUPP", "pwrite=EIO")
        closed["env"]["FAULT_BELOW"] += "/out"
        self.swap(1, **closed)
        self.assertEqual((self.out / "notes").read_text(), "mine")

    def test_waiting_is_said(self):
        self.push_steps()
        self.swap(0)
        with open(self.out / ".wdelta" / "lock", "r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            child = subprocess.Popen(self.command("pull", "--swap", self.at(1), self.out), env=self.environment(),
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.assertIn(b"waiting for another pull", child.stderr.readline())
            self.assert_same_tree(self.out, self.steps[0])
        child.communicate()
        self.assertEqual(child.returncode, 0)
        self.assert_same_tree(self.out, self.steps[1])

    def test_no_locks_is_said_once(self):
        self.push_steps()
        self.swap(0)
        done = self.run_any("pull", "--swap", self.at(1), self.out, **self.poor("flock=ENOLCK"))
        self.assertEqual((done.code, done.err.count("has no locks")), (0, 1), self.told(done))

    def test_files_that_cannot_be_removed_yet_are_left_to_the_next_pull(self):
        """As over NFS while somebody has them open."""
        self.push_steps()
        self.swap(0)
        done = self.run_any("pull", "--swap", self.at(1), self.out, **self.poor("unlinkat=EBUSY"))
        self.assertEqual(done.code, 0, self.told(done))
        self.assertIn("the next pull removes it", done.err)
        self.assert_same_tree(self.out, self.steps[1])
        self.assertEqual(len(self.beside()), 1)
        self.swap(0, **self.poor("unlinkat=EBUSY"))
        self.assert_same_tree(self.out, self.steps[0])
        self.assertEqual(len(self.beside()), 2)
        self.run_ok("pull", self.at(0), self.out)
        self.assertEqual(self.beside(), [])


if __name__ == "__main__":
    testing.main()
