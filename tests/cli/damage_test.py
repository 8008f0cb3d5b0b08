# SPDX-License-Identifier: Apache-2.0
"""Bytes that are not what they claim to be are refused, and nothing of them is written."""

import concurrent.futures
import json
import os
import shutil
import struct
from pathlib import Path

import safetensors
import testing


class DamageTest(testing.Case):
    def in_parallel(self, check, cases):
        """Calls check(case) for all cases, two at a time."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for _ in pool.map(check, cases):
                pass

    def damaged_copies(self, content):
        """Every cut of `content`, and it with each of its bytes changed."""
        for i in range(len(content)):
            yield f"cut-{i}", content[:i]
            yield f"flip-{i}", content[:i] + bytes([content[i] ^ self.random.randrange(1, 256)]) + content[i + 1:]

    def test_a_delta_cut_or_changed_anywhere(self):
        tensors = self.some_weights(count=2, elements=40)
        old = self.write_weights("old.safetensors", tensors)
        new = self.write_weights("new.safetensors", self.moved(tensors))
        self.run_ok("diff", old, new, "-o", self.scratch / "delta")
        copies = list(self.damaged_copies((self.scratch / "delta").read_bytes()))
        (self.scratch / "copies").mkdir()
        applied = {name for name, _ in self.random.sample(copies, 200)}

        def check(case):
            name, content = case
            path = self.write(f"copies/{name}", content)
            done = self.run_any("verify", path)
            self.assertEqual(done.code, 5, self.told(done))
            self.assert_one_line_error(done)
            if name in applied:
                out = self.scratch / f"out-{name}"
                done = self.run_any("apply", old, path, "-o", out)
                self.assertEqual(done.code, 5, self.told(done))
                self.assertFalse(out.exists(), self.told(done))
            path.unlink()

        self.in_parallel(check, copies)
        self.assert_no_leftovers()

    def test_a_delta_with_more_behind_it(self):
        tensors = self.some_weights(count=2, elements=40)
        old = self.write_weights("old.safetensors", tensors)
        new = self.write_weights("new.safetensors", self.moved(tensors))
        self.run_ok("diff", old, new, "-o", self.scratch / "delta")
        longer = self.write("longer", (self.scratch / "delta").read_bytes() + b"\0")
        self.run_fails(5, "verify", longer)
        self.run_fails(5, "apply", old, longer, "-o", self.scratch / "out", absent=self.scratch / "out")

    def test_a_directory_delta(self):
        for step in "ab":
            self.write_weights(f"{step}/model.safetensors", self.some_weights())
            self.write(f"{step}/side.txt", step * 100)
        self.run_ok("diff", self.scratch / "a", self.scratch / "b", "-o", self.scratch / "delta")
        for path in [path for path in (self.scratch / "delta").rglob("*") if path.is_file()]:
            content = path.read_bytes()
            at = self.random.randrange(len(content))
            for bad in (content[:at], content[:at] + bytes([content[at] ^ 1]) + content[at + 1:], None):
                path.unlink() if bad is None else path.write_bytes(bad)
                # Without its list it is no delta, and is taken for a repository, which it is neither.
                code = 4 if bad is None and path.parent == self.scratch / "delta" else 5
                self.run_fails(code, "verify", self.scratch / "delta")
                self.run_fails(code, "apply", self.scratch / "a", self.scratch / "delta", "-o", self.scratch / "out",
                               absent=self.scratch / "out")
            path.write_bytes(content)
        self.run_ok("verify", self.scratch / "delta")
        self.assert_no_leftovers()

    def small_repository(self):
        """A repository with objects of all kinds, and the checkpoints in it."""
        repo, steps, tensors = self.scratch / "repo", [self.scratch / "a", self.scratch / "b"], self.some_weights()
        for i, step in enumerate(steps):
            self.write_weights(f"{step.name}/model-1.safetensors", tensors if i == 0 else self.moved(tensors))
            self.write_weights(f"{step.name}/model-2.safetensors", self.some_weights())
            self.write(f"{step.name}/config.json", f'{{"step":{i}}}')
            self.write(f"{step.name}/packed", self.random.randbytes(70000))
            self.write(f"{step.name}/large", self.random.randbytes(1 << 21))
            self.run_ok("push", step, repo, "--tag", f"v{i}")
        self.run_ok("verify", repo)
        return repo, steps

    def test_every_file_of_a_repository(self):
        repo, _ = self.small_repository()
        paths = [path for path in repo.rglob("*") if path.is_file()]
        self.assertGreater(len(paths), 12)
        for path in paths:
            key, content = path.relative_to(repo).as_posix(), path.read_bytes()
            places = {0, len(content) - 1, self.random.randrange(len(content))}
            copies = [content[:at] + bytes([content[at] ^ 0x20]) + content[at + 1:] for at in places]
            for bad in [*copies, b"", content[:-1], content + b"\n"]:
                path.write_bytes(bad)
                done = self.run_any("verify", repo)
                self.assertEqual(done.code, 5, f"{key}: {self.told(done)}")
                self.assertIn(key, done.out + done.err)
                self.assert_one_line_error(done)
            path.write_bytes(content)
        self.run_ok("verify", repo)

    def test_every_file_of_a_repository_is_missed(self):
        repo, _ = self.small_repository()
        for path in [path for folder in ("objects", "commits", "recipes") for path in (repo / folder).rglob("*")
                     if path.is_file()]:
            path.rename(self.scratch / "away")
            self.run_fails(5, "verify", repo)
            (self.scratch / "away").rename(path)
        self.run_ok("verify", repo)

    def test_commands_on_a_repository_that_lost_a_document(self):
        repo, steps = self.small_repository()
        first, tip = (self.run_ok("log", f"{repo}@v{i}", "-n", 1, "-v").split()[0] for i in (0, 1))
        out = self.scratch / "out"
        push = ("push", steps[0], repo)
        pull, squash = ("pull", repo, out), ("squash", repo, "v0..main")
        cases = ((f"commits/{tip}.json", pull, ("pull", f"{repo}@v1", out), ("pull", f"{repo}@main~1", out),
                  ("log", repo), ("show", repo), squash, push),
                 (f"commits/{first}.json", ("pull", f"{repo}@v0", out), ("pull", f"{repo}@main~1", out), ("log", repo),
                  squash),
                 (f"recipes/{tip}", pull, ("tag", repo, "v2"), ("branch", repo, "side", "v1")))
        for lost, *commands in cases:
            (repo / lost).rename(self.scratch / "away")
            before = testing.describe(repo)
            for words in commands:
                says = lost if lost.startswith("commits/") else "push --repair"
                self.run_fails(5, *words, says=says, absent=out, env={"WDELTA_STATE_DIR": str(self.scratch / "other")})
            self.assertEqual(testing.describe(repo), before)
            (self.scratch / "away").rename(repo / lost)
        self.run_fails(4, "pull", f"{repo}@{'0' * 64}", out, absent=out)

    def test_what_lies_beside_documents_is_damage_to_verify_and_nothing_to_others(self):
        repo, steps = self.small_repository()
        tip = self.run_ok("log", repo, "-n", 1, "-v").split()[0]
        out = self.scratch / "out"
        for place in (f"commits/{tip}.bak", f"commits/old/{tip}.json", f"commits/{tip}", "commits/notes",
                      f"recipes/{tip}/notes", f"recipes/{tip}/{'0' * 64}", f"recipes/{tip}/old/{'0' * 64}.json",
                      f"recipes/old/{tip}/{'0' * 64}.json", "branches/main/notes", "branches/notes", "tags/v0/1"):
            with self.subTest(place):
                stray = self.write(f"repo/{place}", "mine")
                for depth in ("--quick", "--deep"):
                    done = self.run_fails(5, "verify", depth, repo)
                    self.assertRegex(done.out, rf"\A{place}: has no name of an? (commit|recipe book|entry)\n\Z")
                self.assertIn(tip, self.run_ok("show", f"{repo}@{tip}"))
                self.run_ok("pull", f"{repo}@{tip[:8]}", out)
                self.assert_same_tree(out, steps[1])
                self.run_ok("push", steps[1], repo)
                self.run_ok("push", "--repair", "--base", steps[1], repo)
                for words in (("stats",), ("log",), ("branch",), ("squash", "v0..main", "-n"), ("gc", "--grace", "0")):
                    self.run_ok(words[0], repo, *words[1:])
                self.assertEqual(stray.read_text(), "mine")
                stray.unlink()
                shutil.rmtree(out)
        self.run_ok("verify", repo)

    def test_an_object_in_another_folder_than_its_own_is_lost(self):
        self.write_weights("a/model.safetensors", self.some_weights(1, 1 << 20))
        step, repo, out = self.scratch / "a", self.scratch / "repo", self.scratch / "out"
        self.run_ok("push", step, repo)
        whole = json.loads(self.run_ok("stats", "--json", repo))["whole_bytes"]
        self.assertGreater(whole, 1 << 20)

        def misplace():
            object, = (path for path in self.objects(repo) if path.parent.name != "zz")
            (repo / "objects" / "zz").mkdir(exist_ok=True)
            object.rename(repo / "objects" / "zz" / object.name)

        for words in (("push", "--repair", "--base", step, repo), ("push", "--anchor", "now", step, repo)):
            with self.subTest(words):
                misplace()
                self.run_fails(5, "verify", repo)
                self.assertEqual(json.loads(self.run_ok("stats", "--json", repo))["whole_bytes"], 0)
                self.run_ok(*words)
                self.run_ok("pull", repo, out)
                self.assert_same_tree(out, step)
                shutil.rmtree(out)
                shutil.rmtree(repo / "objects" / "zz")
                self.run_ok("verify", repo)

    def objects(self, repo):
        return {path for path in (repo / "objects").rglob("*") if path.is_file()}

    def two_steps(self, *options, elements=200_000, adapters=0):
        """A repository with two commits, the objects that the second added, and its checkpoint."""
        tensors = self.some_weights(1, elements)
        self.write_weights("a/model.safetensors", tensors)
        self.write_weights("b/model.safetensors", self.moved(tensors))
        for i in range(adapters):
            self.write(f"b/adapter-{i}", self.random.randbytes(70_000 + i))
        self.run_ok("push", self.scratch / "a", self.scratch / "repo", *options[:1])
        before = self.objects(self.scratch / "repo")
        self.run_ok("push", self.scratch / "b", self.scratch / "repo", *options[1:])
        return self.scratch / "repo", self.objects(self.scratch / "repo") - before, self.scratch / "b"

    def assert_comes_back(self, repo, step):
        self.run_ok("pull", repo, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", step)
        self.run_ok("verify", f"{repo}@main")

    def test_what_is_left_makes_a_file_whose_best_way_is_lost(self):
        repo, added, step = self.two_steps("-q", "--anchor", "now")
        anchor = max(added, key=lambda path: path.stat().st_size)
        for lose in (lambda: os.truncate(anchor, 1000), anchor.unlink):
            lose()
            said = self.run_any("pull", repo, self.scratch / "out")
            self.assertEqual(said.code, 0, self.told(said))
            self.assertIn("another way is taken", said.err)
            self.assert_comes_back(repo, step)
            shutil.rmtree(self.scratch / "out")
        self.assertIn(anchor.name, self.run_fails(5, "verify", repo, says="push --repair").out)
        self.assertIn("nothing is missing", self.run_ok("push", "--repair", "--base", step, repo))
        self.run_ok("verify", "--deep", repo)
        said = self.run_any("pull", repo, self.scratch / "out")
        self.assertEqual((said.code, "another way" in said.err), (0, False), self.told(said))

    def test_an_anchor_makes_a_file_whose_delta_is_damaged(self):
        repo, added, step = self.two_steps("-q", "--anchor", "now")
        delta = min(added, key=lambda path: path.stat().st_size)
        content = bytearray(delta.read_bytes())
        self.run_ok("pull", f"{repo}@main~1", self.scratch / "out")
        for place in (len(content) - 1, 20):
            delta.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1:])
            shutil.copytree(self.scratch / "out", self.scratch / "there")
            said = self.run_any("pull", repo, self.scratch / "there")
            self.assertEqual(said.code, 0, self.told(said))
            self.assertIn("another way is taken", said.err)
            self.assert_same_tree(self.scratch / "there", step)
            shutil.rmtree(self.scratch / "there")
        self.assertIn(delta.name, self.run_fails(5, "verify", repo).out)

    def test_nothing_is_made_of_what_a_damaged_repository_makes(self):
        ids, steps = [], []
        tensors = self.some_weights(3, 60_000)
        for i in range(3):
            path = self.scratch / f"step-{i}"
            self.write_weights(f"step-{i}/a.safetensors", tensors)
            self.write_weights(f"step-{i}/b.safetensors", self.some_weights(1, 90_000))
            self.write(f"step-{i}/state.pt", self.random.randbytes(1_200_000))
            self.write(f"step-{i}/side.bin", self.random.randbytes(70_000))
            steps.append(path)
            ids.append(self.run_ok("push", path, self.scratch / "repo", "--anchor", "never").strip())
            tensors = self.moved(tensors)
        for path in sorted((self.scratch / "repo/objects").rglob("*")):
            if not path.is_file():
                continue
            content = path.read_bytes()
            at = self.random.randrange(len(content) // 2, len(content))
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
            damaged = 0
            for i, commit in enumerate(ids):
                shutil.rmtree(self.scratch / "other", ignore_errors=True)
                shutil.rmtree(self.scratch / "out", ignore_errors=True)
                source, words = f"{self.scratch}/repo@{commit}", (path.name, at, i)
                pulled = self.run_any("pull", source, self.scratch / "out")
                self.assertIn(pulled.code, (0, 5), (words, self.told(pulled)))
                if pulled.code == 0:
                    self.assert_same_tree(self.scratch / "out", steps[i])
                    self.run_ok("push", source, self.scratch / "other")
                    self.assertEqual(self.run_ok("diff", "-q", "--exit-code", source, steps[i]), "")
                    continue
                damaged += 1
                self.run_fails(5, "push", source, self.scratch / "other", says="expected")
                self.run_fails(4, "log", self.scratch / "other")
                self.run_fails(5, "push", source, self.scratch / "repo", "-b", "again", says="expected")
                for words in ([], ["-o", self.scratch / "delta"]):
                    self.run_fails(5, "diff", steps[i], source, *words, says="expected", absent=self.scratch / "delta")
                    done = self.run_any("diff", "-q", source, steps[i], "--exit-code", *words)
                    # Of a base that is no safetensors file its digest tells enough.
                    self.assertIn(done.code, (0, 5), self.told(done))
                    self.assertEqual(done.code == 0 and words != [], (self.scratch / "delta").exists())
                    shutil.rmtree(self.scratch / "delta", ignore_errors=True)
            self.assertGreater(damaged, 0)
            path.write_bytes(content)
        self.assertEqual(set(json.loads(self.run_ok("branch", self.scratch / "repo", "--json"))), {"main"})

    def test_what_is_left_makes_a_file_whose_whole_object_has_other_bytes(self):
        repo, added, step = self.two_steps("-q", "--anchor", "now")
        anchor = max(added, key=lambda path: path.stat().st_size)
        sound = anchor.read_bytes()
        for at in (self.random.randrange(8, 40), len(sound) - 1):  # in the header, and behind it
            anchor.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1:])
            for words in (("pull", repo, self.scratch / "out"), ("verify", f"{repo}@main")):
                said = self.run_any(*words)
                self.assertEqual(said.code, 0, self.told(said))
                self.assertIn(f"{anchor.name}: is not what it should be", said.err)
                self.assertIn("another way is taken", said.err)
            self.assert_same_tree(self.scratch / "out", step)
            shutil.rmtree(self.scratch / "out")
        self.assertIn(anchor.name, self.run_fails(5, "verify", repo, says="remove what is damaged").out)
        anchor.unlink()
        self.run_ok("push", "--repair", "--base", step, repo)
        self.run_ok("verify", "--deep", repo)

    def test_an_anchor_that_is_asked_for_stores_what_is_lost(self):
        repo, _, step = self.two_steps("-q")
        self.write("b/more", "x")
        for what in ("the commit that is there", "another one"):
            shutil.rmtree(repo / "objects")
            self.run_ok("push", "--anchor", "now", step, repo)
            self.run_ok("pull", repo, self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", step)
            self.run_ok("verify", f"{repo}@main")
            self.write("b/more", what)

    def test_a_push_builds_on_nothing_that_is_lost(self):
        for lose in (lambda anchor: os.truncate(anchor, 1000), Path.unlink):
            for previous_is_here in (True, False):
                for is_new in (True, False):
                    with self.subTest(lose=lose, previous_is_here=previous_is_here, is_new=is_new):
                        repo, _, step = self.two_steps("-q")
                        lose(max(self.objects(repo), key=lambda path: path.stat().st_size))
                        if not previous_is_here:
                            step = step.rename(self.scratch / "elsewhere")
                            shutil.copytree(step, self.scratch / "c")
                            shutil.rmtree(step)
                            step = self.scratch / "c"
                        if is_new:
                            self.write(step.name + "/more", "x")
                        said = self.run_any("push", step, repo)
                        self.assertEqual(said.code, 0, self.told(said))
                        self.assertRegex(said.err, "objects/.*is lost or cut short")
                        self.assert_comes_back(repo, step)
                        self.assertNotIn("is lost", self.run_any("push", step, repo).err)
                        for path in self.scratch.iterdir():
                            shutil.rmtree(path)

    def test_a_push_that_may_store_nothing_whole_says_what_is_lost(self):
        repo, _, step = self.two_steps("-q")
        max(self.objects(repo), key=lambda path: path.stat().st_size).unlink()
        self.write("b/more", "x")
        said = self.run_any("push", "--anchor=never", step, repo)
        self.assertEqual(said.code, 0, self.told(said))
        self.assertIn("push --repair --base DIR REPO", said.err)
        self.run_fails(5, "verify", f"{repo}@main")
        self.run_ok("push", "--repair", "--base", step, f"{repo}@main")
        self.assert_comes_back(repo, step)

    def test_a_commit_that_a_branch_named_before_is_missed(self):
        repo, _, step = self.two_steps("-q")
        tip = self.run_ok("log", repo, "-n", 1, "-v").split()[0]
        self.run_ok("branch", repo, "main", "main~1", "--force")
        self.run_ok("verify", repo)
        (repo / f"commits/{tip}.json").unlink()
        self.assertIn(tip, self.run_fails(5, "verify", repo).out)

    def test_a_commit_that_squash_gave_up_may_lack_objects(self):
        repo, _ = self.small_repository()
        tensors = self.some_weights(2, 400_000)
        for i in range(3):
            tensors = self.moved(tensors)
            self.write_weights("c/model-1.safetensors", tensors)
            self.run_ok("push", self.scratch / "c", repo, "--step", 10 + i, "--anchor", "never")
        before = self.objects(repo)
        self.run_ok("squash", repo, "step:10..step:12")
        objects = {path: path.stat().st_size for path in before}
        for path in sorted(objects, key=objects.get):
            path.rename(self.scratch / "away")
            if self.run_any("verify", f"{repo}@step:12").code == 0 and self.run_any("verify", f"{repo}@step:11").code == 5:
                break
            (self.scratch / "away").rename(path)
        else:
            self.fail("no object is only of the commit that was given up")
        self.assertIn("nothing is missing", self.run_ok("push", "--repair", "--base", self.scratch / "c", repo))
        self.run_ok("verify", repo)
        self.run_ok("verify", "--deep", repo)

    def test_what_repair_restored_is_known_to_pushes_far_ahead(self):
        repo, added, step = self.two_steps("--compress-anchors", "--anchor=never")
        for path in added:
            path.unlink()
        self.run_ok("push", "--repair", "--base", step, repo)
        tensors = [(name, *rest) for name, rest in safetensors.decode((step / "model.safetensors").read_bytes()).items()]
        for i in range(68):
            tensors = self.moved(tensors, 0.0001)
            self.write_weights("c/model.safetensors", tensors)
            self.run_ok("push", self.scratch / "c", repo, "--anchor", "never")
        self.run_ok("pull", repo, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.scratch / "c")
        self.run_ok("verify", repo)

    def test_what_repair_restored_is_what_is_read(self):
        for name, options in (("compressed", ("--compress-anchors",)), ("pack", ("-q",))):
            with self.subTest(name):
                repo, added, step = self.two_steps(*options, adapters=6)
                for path in added:
                    path.unlink()
                self.run_fails(5, "pull", repo, self.scratch / "out", says="push --repair")
                self.run_ok("push", "--repair", "--base", step, repo)
                self.assert_comes_back(repo, step)
                self.run_ok("verify", "--deep", repo)
                for folder in ("repo", "out", "a", "b", "state"):
                    shutil.rmtree(self.scratch / folder, ignore_errors=True)

    def test_pull_of_what_is_damaged(self):
        repo, (_, step) = self.small_repository()
        out = self.scratch / "out"
        for path in [path for path in repo.rglob("*") if path.is_file() and path.name != "0000000000000001"]:
            content, key = path.read_bytes(), path.relative_to(repo).as_posix()
            at = self.random.randrange(len(content))
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
            done = self.run_any("pull", repo, out)
            if done.code == 0:  # the tip does not need it
                self.assert_same_tree(out, step)
                self.assertTrue(key.startswith(("objects/", "commits/", "recipes/")), self.told(done))
            else:
                self.assertEqual(done.code, 5, f"{key}: {self.told(done)}")
                self.assert_one_line_error(done)
                self.assertIn(path.stem if key.startswith("objects/") else key, done.err)
                for found in out.rglob("*.*") if out.exists() else []:
                    if found.is_file() and ".wdelta" not in found.parts:
                        self.assert_same_file(found, step / found.relative_to(out))
                        self.assertTrue(key.startswith("objects/"), f"{found} was written: {self.told(done)}")
                self.assertFalse((out / "config.json").exists(), self.told(done))
            path.write_bytes(content)
            shutil.rmtree(out, ignore_errors=True)
        self.assert_no_leftovers()

    def test_pull_over_another_commit_of_what_is_damaged(self):
        repo, (a, b) = self.small_repository()
        out = self.scratch / "out"
        self.run_ok("pull", f"{repo}@v0", out)
        for path in sorted((repo / "objects").rglob("*.safetensors")):
            content = path.read_bytes()
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            done = self.run_any("pull", repo, out)
            if done.code != 0:
                self.assertEqual(done.code, 5, self.told(done))
                for place in ("model-1.safetensors", "model-2.safetensors"):
                    found = testing.file_digest(out / place)
                    self.assertIn(found, (testing.file_digest(a / place), testing.file_digest(b / place)))
            path.write_bytes(content)
            self.run_ok("pull", repo, out)
            self.assert_same_tree(out, b)
            self.run_ok("pull", f"{repo}@v0", out)
            self.assert_same_tree(out, a)
        self.assert_no_leftovers()

    def test_huge_header(self):
        good = self.write_weights("good.safetensors", self.some_weights())
        for announced in (1 << 60, (1 << 64) - 1, 100_000_001, 1 << 32):
            for behind in (b"", b'{"x":', b" " * 4096):
                bad = self.write("bad.safetensors", struct.pack("<Q", announced) + behind)
                for words in (["diff", good, bad, "-o", self.scratch / "out"], ["diff", bad, good],
                              ["push", bad, self.scratch / "repo"],
                              ["verify", bad], ["apply", good, bad, "-o", self.scratch / "out"]):
                    self.run_fails(5, *words, says="bad.safetensors", absent=self.scratch / "out", timeout=20,
                                   **({} if testing.is_sanitized() else {"prefix": ("prlimit", f"--as={1 << 30}")}))

    def test_a_checkpoint_that_is_cut(self):
        step, = self.make_run("run", "--size", "1M", "--shards", 2, "--steps", 1)
        weights = next(step.glob("*-00002-of-*"))
        content = weights.read_bytes()
        for length in (0, 7, 8, 9, 100, len(content) // 2, len(content) - 1):
            weights.write_bytes(content[:length])
            # Most likely it is still being written.
            self.run_fails(3, "push", step, self.scratch / "repo", says=[weights.name, "--wait-stable"])
            self.run_fails(5, "diff", step, step, "-o", self.scratch / "delta", says=weights.name,
                           absent=self.scratch / "delta")
        weights.unlink()
        self.run_fails(3, "push", step, self.scratch / "repo", says=weights.name)
        self.assertFalse((self.scratch / "repo" / "branches").exists())

    def test_every_cut_of_a_small_checkpoint(self):
        good = self.write("good.safetensors", safetensors.encode(self.some_weights(count=2, elements=30)))
        content = good.read_bytes()

        def check(length):
            bad = self.write(f"cut-{length}.safetensors", content[:length])
            done = self.run_any("diff", good, bad, "-o", f"{bad}.delta")
            self.assertEqual(done.code, 5, self.told(done))
            self.assert_one_line_error(done)
            self.assertFalse(os.path.exists(f"{bad}.delta"))

        self.in_parallel(check, range(len(content)))
        self.assert_no_leftovers()

    def test_a_sound_object_in_the_place_of_another(self):
        repo, _ = self.small_repository()
        objects = sorted((repo / "objects").rglob("*.safetensors"))
        for first, second in zip(objects, objects[1:]):
            content = first.read_bytes()
            shutil.copyfile(second, first)
            self.run_fails(5, "verify", repo)
            first.write_bytes(content)
        self.run_ok("verify", repo)


if __name__ == "__main__":
    testing.main()
