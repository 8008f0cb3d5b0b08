# SPDX-License-Identifier: Apache-2.0
"""What lies in a pulled directory and is not of the commit: left alone, or refused before anything changes, by both ways
to pull."""

import json
import os
import shutil
import socket

import testing

WAYS = ((), ("--swap",))  # the two ways to pull


class StraysTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo, self.out = self.scratch / "repo", self.scratch / "out"

    def push_steps(self, count=2, size="1M"):
        self.steps = self.make_run("run", "--size", size, "--shards", 2, "--steps", count)
        self.ids = [self.run_ok("push", step, self.repo, "--step", i).strip() for i, step in enumerate(self.steps)]

    def at(self, step):
        return f"{self.repo}@{self.ids[step]}"

    def test_a_stray_in_the_way_is_refused_before_anything_changes(self):
        self.push_steps()
        (self.steps[1] / "trainer").mkdir()
        (self.steps[1] / "trainer" / "state").write_text("x")
        (self.steps[1] / "notes").write_text("x")
        deep = self.run_ok("push", self.steps[1], self.repo, "--step", 5).strip()
        for stray in ("trainer", "notes/mine", "config.json/mine"):
            self.run_ok("pull", self.at(0), self.out)
            path = self.out / stray
            if path.parent.is_file():
                path.parent.unlink()
            path.parent.mkdir(exist_ok=True)
            path.write_text("mine")
            before, beside = testing.describe(self.out), sorted(os.listdir(self.scratch))
            for words in WAYS:
                for force in ((), ("--force",)):
                    with self.subTest(stray, words=words, force=force):
                        self.run_fails(3, "pull", *words, *force, f"{self.repo}@{deep}", self.out,
                                       says=[stray, "in the way", "move it away"])
                        self.assertEqual(testing.describe(self.out), before)
                        self.assertEqual(sorted(os.listdir(self.scratch)), beside)
            shutil.rmtree(self.out)

    def odd_things(self):
        """What is neither a file nor a directory, nor leads to a file: how each is made."""
        def bind(path):
            server = socket.socket(socket.AF_UNIX)
            self.addCleanup(server.close)
            server.bind(str(path))

        return {"a FIFO": os.mkfifo, "a socket": bind,
                "a symlink to a directory": lambda path: path.symlink_to(self.scratch),
                "a symlink to nothing": lambda path: path.symlink_to("nowhere"),
                "a symlink to itself": lambda path: path.symlink_to(path.name)}

    def stamps(self):
        """Whatever lies in the directory, each as it is: nothing is read."""
        paths = (self.out / folder / name for folder, folders, files in os.walk(self.out) for name in folders + files)
        found = {path: os.lstat(path) for path in paths if ".wdelta" not in path.parts}
        return {path: (status.st_ino, status.st_mode, status.st_mtime_ns) for path, status in found.items()}

    def test_what_is_no_file_and_not_of_the_commit_is_left_alone(self):
        self.push_steps()
        self.run_ok("pull", self.at(0), self.out)
        for kind, make in self.odd_things().items():
            make(self.out / "latest")
            (self.out / "sub").mkdir(exist_ok=True)
            make(self.out / "sub" / "odd")
            before = self.stamps()
            for words in WAYS:
                for force in ((), ("--force",)):
                    with self.subTest(kind, words=words, force=force):
                        for step in (1, 0):
                            told = self.run_any("pull", *words, *force, self.at(step), self.out, timeout=20)
                            self.assertEqual(told.code, 0, self.told(told))
                            self.assertIn("left alone: latest, sub/odd\n", told.err)
                            self.run_ok("verify", self.out, self.at(step), timeout=20)
                        for name in ("latest", "sub/odd"):
                            self.assertEqual(self.stamps()[self.out / name], before[self.out / name])
            make(self.out / "odd.safetensors")  # a loader would stumble over it
            before = self.stamps()
            with self.subTest(kind):
                self.run_fails(3, "pull", self.at(0), self.out, says=["odd.safetensors", "--force"], timeout=20)
                self.assertEqual(self.stamps(), before)
                wrong = self.run_fails(10, "verify", self.out, self.at(0), timeout=20)
                self.assertIn("odd.safetensors: is not of the commit", wrong.out)
                self.run_ok("pull", "--force", self.at(0), self.out, timeout=20)
            self.assertFalse(os.path.lexists(self.out / "odd.safetensors"), kind)
            (self.out / "latest").unlink()
            (self.out / "sub" / "odd").unlink()

    def test_what_is_no_file_in_the_place_of_one_is_a_change(self):
        self.push_steps()
        self.run_ok("pull", self.at(0), self.out)
        for kind, make in self.odd_things().items():
            for words in WAYS:
                for place in ("config.json", "tokenizer.json", "model-00001-of-00002.safetensors"):
                    with self.subTest(kind, words=words, place=place):
                        (self.out / place).unlink()
                        make(self.out / place)
                        before = self.stamps()
                        for step in (0, 1):
                            self.run_fails(3, "pull", *words, self.at(step), self.out, says=[place, "--force"],
                                           timeout=20)
                            self.assertEqual(self.stamps(), before)
                        wrong = self.run_fails(10, "verify", self.out, self.at(0), timeout=20)
                        self.assertIn(f"{place}: is no file", wrong.out)
                        for step in (1, 0):
                            self.run_ok("pull", *words, "--force", self.at(step), self.out, timeout=20)
                            self.assert_same_tree(self.out, self.steps[step])

    def test_a_symlink_in_the_place_of_a_directory_is_in_the_way(self):
        self.push_steps(1)
        (self.steps[0] / "sub").mkdir()
        (self.steps[0] / "sub" / "side").write_text("x")
        self.run_ok("push", self.steps[0], self.repo, "--step", 5)
        self.run_ok("pull", self.repo, self.out)
        (self.out / "sub").rename(self.scratch / "elsewhere")
        (self.out / "sub").symlink_to(self.scratch / "elsewhere")
        (self.scratch / "elsewhere" / "side").write_text("mine")
        before = self.stamps()
        for words in WAYS:
            for force in ((), ("--force",)):
                self.run_fails(3, "pull", *words, *force, self.repo, self.out, says=["sub", "in the way of sub/side"])
                self.assertEqual(self.stamps(), before)
        self.assertEqual((self.scratch / "elsewhere" / "side").read_text(), "mine")

    def test_what_no_checkpoint_has_is_in_the_way_before_anything_changes(self):
        self.push_steps(2)
        self.run_ok("pull", self.at(0), self.out)
        (self.out / "config.json").unlink()
        (self.out / "config.json/.git").mkdir(parents=True)
        (self.out / "config.json/.git/HEAD").write_text("mine")
        before = self.stamps()
        for words in WAYS:
            for force in ((), ("--force",)):
                self.run_fails(3, "pull", *words, *force, self.at(1), self.out, says=["config.json"])
                self.assertEqual(self.stamps(), before)
        shutil.rmtree(self.out / "config.json/.git")  # an empty directory is in nobody's way
        self.run_ok("pull", "--force", self.at(1), self.out)
        self.assert_same_tree(self.out, self.steps[1])

    def test_a_symlink_to_a_file_that_changes_becomes_one_of_its_own(self):
        for change in ("changes", "goes"):
            for words in WAYS:
                with self.subTest(change, words=words):
                    repo = self.scratch / f"repo-{change}-{len(words)}"
                    old, new = self.random.randbytes(3000), self.random.randbytes(3000)
                    folders = [self.scratch / f"{name}-{change}-{len(words)}" for name in ("one", "two", "out")]
                    for folder in folders[:2]:
                        self.write(folder / "b.bin", old)
                    self.write(folders[0] / "a.bin", old)
                    if change == "changes":
                        self.write(folders[1] / "a.bin", new)
                    self.write(folders[2] / "a.bin", old)
                    (folders[2] / "b.bin").symlink_to("a.bin")
                    for folder in folders[:2]:
                        self.run_ok("push", folder, repo)
                    self.run_ok("pull", *words, f"{repo}@main~1", folders[2])
                    self.run_ok("pull", *words, repo, folders[2])
                    self.assert_same_tree(folders[2], folders[1])
                    self.run_ok("verify", folders[2], repo)

    def test_files_whose_names_no_commit_can_hold_are_left_alone(self):
        self.push_steps()
        self.run_ok("pull", self.at(0), self.out)
        names = (b"back\\slash", b"two\nlines", b"no \xff UTF-8", b".WDELTA")
        for name in names:
            with open(os.path.join(bytes(self.out), name), "wb") as file:
                file.write(name)
        (self.out / "sub").mkdir()
        with open(os.path.join(bytes(self.out), b"sub/\xc3("), "wb") as file:
            file.write(b"x")
        for words in WAYS:
            for force in ((), ("--force",)):
                for step in (1, 0):
                    with self.subTest(words=words, force=force, step=step):
                        told = self.run_any("pull", "--json", *words, *force, self.at(step), self.out)
                        self.assertEqual(told.code, 0, self.told(told))
                        self.assertEqual(len(json.loads(told.out)["strays"]), len(names) + 1)
                        self.run_ok("verify", self.out, self.at(step))
                        for name in names:
                            with open(os.path.join(bytes(self.out), name), "rb") as file:
                                self.assertEqual(file.read(), name)
        (self.out / "sub" / "a\\b.safetensors").write_bytes(b"x")  # a loader would pick it up all the same
        for words in WAYS:
            self.run_fails(3, "pull", *words, self.at(1), self.out, says=["sub/a\\b.safetensors", "--force"])
        self.assertIn("sub/a\\b.safetensors: is not of the commit", self.run_fails(10, "verify", self.out, self.at(0)).out)
        self.run_ok("pull", "--force", self.at(0), self.out)
        with open(os.path.join(bytes(self.out), b"no \xff.safetensors"), "wb") as file:
            file.write(b"x")
        self.run_fails(3, "pull", self.at(1), self.out, says=[r"no \xff.safetensors", "--force"])
        for words in WAYS:
            self.run_ok("pull", "--force", *words, self.at(1), self.out)
        self.assertEqual(sorted(self.out.glob("**/*.safetensors")),
                         sorted(self.out / path.name for path in self.steps[1].glob("*.safetensors")))
        self.run_fails(9, "push", self.out, self.repo, says="its name")

    def test_nothing_is_pulled_over_a_repository(self):
        """Neither the one that is pulled from, nor one that lies where weights would be removed by force."""
        self.push_steps(size="4M")  # so that objects are shards
        model = self.scratch / "model"
        shutil.copytree(self.steps[0], model)
        inner, link = model / "repo", self.scratch / "link"
        shutil.copytree(self.repo, inner)
        link.symlink_to(inner)
        before = testing.describe(model)
        for way in WAYS:
            for words in ((inner, model), (link, model), (inner, inner / "objects"), (inner, link / "commits" / "new"),
                          (self.repo, inner), (self.repo, inner / "weights")):
                self.run_fails(2, "pull", "-f", *way, *words, absent=inner / "weights")
            self.run_fails(3, "pull", "-f", *way, self.repo, model, says=str(inner))
            self.assertEqual({path: what for path, what in testing.describe(model).items() if ".wdelta" not in path},
                             before)
        self.run_ok("verify", inner)


if __name__ == "__main__":
    testing.main()
