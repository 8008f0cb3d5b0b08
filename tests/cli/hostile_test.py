# SPDX-License-Identifier: Apache-2.0
"""A repository written by someone who means harm, with every digest right: nothing is written where it should not be,
nothing large is allocated, and a checkpoint that is in the way of a pull is not written through."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import testing

sys.path.append(str(Path(__file__).resolve().parent.parent / "decoder"))
from blake3 import blake3  # noqa: E402


def digest_of(content):
    digest = blake3(content)
    return digest if isinstance(digest, str) else digest.hex()


class HostileTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo, self.out = self.scratch / "repo", self.scratch / "deep" / "er" / "out"
        self.write_weights("step/model.safetensors", self.some_weights())
        self.write("step/config.json", "{}")
        self.write("step/sub/side", self.random.randbytes(70000))
        commit = self.run_ok("push", self.scratch / "step", self.repo).strip()
        self.book, = (self.repo / "recipes" / commit).iterdir()
        self.manifest = json.loads((self.repo / "commits" / f"{commit}.json").read_bytes())
        self.number = 1

    def commit_text(self, text, book=None):
        """Makes these bytes the tip of main, with the recipe book of the honest commit or another one."""
        book = book or self.book.read_bytes()
        commit = digest_of(text)
        self.write(f"repo/recipes/{commit}/{digest_of(book)}.json", book)
        self.write(f"repo/commits/{commit}.json", text)
        self.number += 1
        self.write(f"repo/branches/main/{self.number:016}", self.sealed({
            "format": "wdelta-entry", "version": 1, "commit": commit, "write": "0" * 32,
            "time": "2026-01-01T00:00:00Z"}))

    def commit(self, manifest, book=None):
        self.commit_text((json.dumps(manifest, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass"), book)

    def refused(self, code=5, words=("pull",), says=()):
        """The tip of main is refused: nothing is written but, at most, the state of a pull in its own folder."""
        before = testing.describe(self.scratch)
        self.run_fails(code, *words, self.repo, *([self.out] if words == ("pull",) else []), says=says, timeout=30)
        self.assertEqual([path for path in self.out.rglob("*") if ".wdelta" not in path.parts], [])
        shutil.rmtree(self.scratch / "deep", ignore_errors=True)
        self.assertEqual(testing.describe(self.scratch), before)

    def with_path(self, path):
        """The honest manifest with one more file, in its place in the order."""
        text = "hostile"
        file = {"path": path, "size": len(text), "digest": digest_of(text.encode()), "executable": False, "text": text}
        return {**self.manifest, "files": sorted([*self.manifest["files"], file],
                                                 key=lambda each: each["path"].encode("utf-8", "surrogatepass"))}

    def test_the_workshop_itself(self):
        self.commit(self.with_path("harmless"))
        self.run_ok("pull", self.repo, self.out)
        self.assertEqual((self.out / "harmless").read_text(), "hostile")
        self.run_ok("verify", self.repo)

    def test_paths_that_lead_elsewhere(self):
        for path in ("../x", "/abs", f"{self.scratch}/abs", "a/../../b", "..", ".", "", "./a", "a/.", "a/..", "a//b",
                     "a/", "//x", ".wdelta/state.json",
                     ".wdelta", "a/.wdelta/x", ".git/config", "a/.GIT/hooks/pre-commit", "x/.git", "a\\b", "..\\x", "a\0b", "a\nb", "\x1b[2J", "a\x7f", "\ud800",
                     "x" * 5000):
            with self.subTest(path=path[:50]):
                self.commit(self.with_path(path))
                self.refused()
                self.refused(words=("show",))
                self.refused(words=("verify",))
        text = json.dumps(self.with_path("PLACE")).encode()
        self.commit_text(text.replace(b"PLACE", b"\xff\xfe") + b"\n")
        self.refused()

    def assert_printed_as_text(self, code, *words, says):
        """What is printed has nothing for a terminal to obey, and these lines."""
        done = self.run_any(*words)
        self.assertEqual(done.code, code, self.told(done))
        self.assertNotRegex(done.out, "[\0-\x09\x0b-\x1f\x7f-\x9f]", self.told(done))
        for line in says:
            self.assertIn(line, done.out.split("\n"), self.told(done))
        return done.out

    def test_words_are_printed_as_text(self):
        words, escaped = "µ\t\x1b[2J\r\x7f\x9b1mred", r"µ\x09\x1b[2J\x0d\x7f\xc2\x9b1mred"
        commit, book = self.book.parent.name, self.book.read_bytes()
        self.write("repo/tags/work\x9b1m/0000000000000001", self.sealed({
            "format": "wdelta-entry", "version": 1, "commit": commit, "write": "0" * 32,
            "time": "2026-01-01T00:00:00Z"}))
        self.commit({**self.manifest, "message": f"{words}\n\ncommit  forged\n",
                     "author": f"{words}\n", "meta": {f"k{words}": f"{words}\nmeta    forged=1"}}, book)
        log = self.assert_printed_as_text(0, "log", self.repo, says=())
        self.assertEqual(len(log.splitlines()), 1)
        self.assertTrue(log.endswith(f"(main) {escaped}\n"), log)
        log = self.assert_printed_as_text(0, "log", f"{self.repo}@{commit}", says=())
        self.assertIn(r"(tag: work\xc2\x9b1m)", log)
        self.assert_printed_as_text(0, "tag", self.repo, says=[rf"{commit[:12]}  work\xc2\x9b1m"])
        self.assert_printed_as_text(0, "show", self.repo, says=[
            rf"author  {escaped}\x0a", rf"meta    k{escaped}={escaped}\x0ameta    forged=1",
            f"    {escaped}", "    ", "    commit  forged"])
        shown = json.loads(self.run_ok("show", "--json", self.repo))
        self.assertEqual(shown["message"], f"{words}\n\ncommit  forged\n")

    def test_names_of_tensors_are_printed_as_text(self):
        words, escaped = "µ\x1b[2J\r\nremoved: all\x9b1m", r"µ\x1b[2J\x0d\x0aremoved: all\xc2\x9b1m"
        (_, dtype, shape, content), *others = self.some_weights()
        self.write_weights("old/model.safetensors", [(f"old{words}", dtype, shape, content), *others])
        self.write_weights("new/model.safetensors", [(f"new{words}", dtype, shape, content[::-1]), *others])
        old, new = self.scratch / "old", self.scratch / "new"
        diff = self.assert_printed_as_text(0, "diff", old, new, says=[f"removed: old{escaped}"])
        self.assertIn(f"\nnew{escaped}  ", diff)
        self.run_ok("push", old, self.scratch / "pushed")
        self.assert_printed_as_text(10, "verify", new, self.scratch / "pushed",
                                    says=[f"  tensors that differ: old{escaped}, new{escaped}"])

    def test_names_of_files_are_printed_as_text(self):
        self.write_weights("step/kept\x9b1m.safetensors", self.some_weights())
        step, pushed, out = self.scratch / "step", self.scratch / "pushed", self.scratch / "out"
        self.run_ok("push", step, pushed)
        self.write("out/stray\x9b1m", b"")
        said = self.run_any("pull", pushed, out).err
        self.assertIn("left alone: stray\\xc2\\x9b1m\n", said)
        self.assertNotIn("\x9b", said)
        shutil.rmtree(pushed / "objects")
        for base, says in ((self.scratch / "old", "kept\\xc2\\x9b1m.safetensors is still missing: "),
                           (step, "restored kept\\xc2\\x9b1m.safetensors (")):
            base.mkdir(exist_ok=True)
            said = self.run_any("push", "--repair", "--base", base, pushed)
            self.assertIn(says, said.out, self.told(said))
            self.assertNotIn("\x9b", said.out + said.err)

    def test_paths_that_collide(self):
        files = self.manifest["files"]
        for name, listed in (
                ("twice", [*files, files[-1]]), ("out of order", files[::-1]),
                ("below a file", self.with_path("config.json/x")["files"]),
                ("a file and a directory", self.with_path("sub")["files"]),
                ("case of a file", self.with_path("Config.json")["files"]),
                ("case of a directory", self.with_path("SUB/other")["files"]),
                ("case of a file and a directory", self.with_path("CONFIG.JSON/x")["files"]),
                ("case of our own", self.with_path(".WDelta/state.json")["files"])):
            with self.subTest(name):
                self.commit({**self.manifest, "files": listed})
                self.refused()
                self.refused(words=("verify",))

    def test_a_checkpoint_whose_names_collide(self):
        for first, second in (("config.json", "Config.json"), ("sub/side", "SUB/other"), ("sub/side", "Sub")):
            if (self.scratch / "step" / second).exists():
                self.skipTest("this file system takes one case for the other")
            self.write(f"step/{second}", "x")
            for words in (["push", self.scratch / "step", self.repo],
                          ["diff", self.scratch / "step", self.scratch / "step", "-o", self.scratch / "delta"]):
                self.run_fails(9, *words, says=[f'"{first}"', f'"{second}"'], absent=self.scratch / "delta")
            (self.scratch / "step" / second).unlink()
        # A directory that a pull is to make may hold what it likes besides.
        self.write("deep/er/out/notes", "x")
        self.write("deep/er/out/NOTES", "y")
        self.run_ok("pull", self.repo, self.out)

    def test_members_that_are_not_what_they_should_be(self):
        file = self.manifest["files"][0]
        for change in ({"size": -1}, {"size": 1 << 70}, {"size": "1"}, {"digest": "x" * 64},
                       {"digest": file["digest"].upper()[:63]}, {"digest": None},
                       {"executable": 1}, {"path": 7}, {"path": None}, {"text": "other"}, {"text": 3},
                       {"size": 1 << 62}):
            with self.subTest(change):
                self.commit({**self.manifest, "files": [{**file, **change}, *self.manifest["files"][1:]]})
                self.refused()
        self.commit({**self.manifest, "files": [{**file, "text": "[]"},
                                                *self.manifest["files"][1:]]})  # of another digest
        self.run_fails(5, "pull", self.repo, self.out, says="config.json", absent=self.out / "config.json")
        shutil.rmtree(self.scratch / "deep")
        # Whoever reads it says so, and none makes an honest commit of it.
        for words in (("verify", self.repo), ("verify", "--quick", self.repo), ("verify", "--deep", self.repo),
                      ("verify", f"{self.repo}@main")):
            self.assertRegex(self.run_fails(5, *words).out, '"config.json" in the manifest has digest .*expected')
        self.run_fails(5, "push", f"{self.repo}@main", self.scratch / "other", says='"config.json" in the manifest')
        self.run_fails(5, "push", f"{self.repo}@main", self.repo, "--branch", "copy", says="commits/")
        for change in ({"format": "x"}, {"parent": "x"}, {"files": {}}, {"files": [[]]}, {"meta": []},
                       {"meta": {"a": 1}}, {"time": 1},
                       {"time": ""}, {"time": "x" * 300}, {"time": "2026-11-21T06:15:00.000Z"},
                       {"time": "2026-11-21 06:15:00Z"}, {"time": "2026-11- 1T06:15:00Z"},
                       {"step": -1}, {"step": 1.5}, {"recipes": ""}, {"ancestors": [{}]},
                       {"ancestors": [{"distance": 2, "id": "0" * 64, "time": "", "step": None, "message": ""}]}):
            with self.subTest(change):
                self.commit({**self.manifest, **change})
                self.refused()
                self.refused(words=("log",))
        self.commit({**self.manifest, "parent": "0" * 64})
        self.refused(words=("verify",))
        self.commit({**self.manifest, "version": 2})
        self.refused(9)
        for text in (b"", b"[]", b"{", b"null", b"[" * 100000, b'{"a":' * 100000,
                     json.dumps(self.manifest).encode()[:-5]):
            self.commit_text(text)
            self.refused()

    def test_recipes_that_are_not_what_they_should_be(self):
        book = json.loads(self.book.read_bytes())
        first, *others = book["recipes"]
        gone = "0" * 64
        for change in ({"object": "../../../etc/passwd"}, {"object": "/etc/passwd"}, {"object": ""}, {"object": 1},
                       {"object": f"{gone}.safetensors"},
                       {"offset": 1 << 63, "length": 1 << 63}, {"offset": (1 << 64) - 1},
                       {"length": first["length"] - 1},
                       {"length": first["length"] + 1}, {"size": 1 << 62, "length": 1 << 62}, {"digest": gone},
                       {"base": [first["digest"]]}, {"base": [gone]}, {"base": "x"}, {"base": [1]}, {"base": []},
                       {"offset": -1}, {"offset": 1}):
            with self.subTest(change):
                self.commit(self.manifest, json.dumps({**book, "recipes": [{**first, **change}, *others]}).encode())
                done = self.run_any("pull", self.repo, self.out)
                self.assertIn(done.code, (4, 5), self.told(done))
                self.assert_one_line_error(done)
                self.assertFalse((self.out / "config.json").exists())
                verified = self.run_any("verify", self.repo)
                self.assertIn(verified.code, (0, 5), self.told(verified))
                self.run_fails(5, "verify", f"{self.repo}@main")
        self.assert_no_leftovers()

    def books(self, *recipes):
        """The honest book with its first recipe replaced."""
        book = json.loads(self.book.read_bytes())
        return json.dumps({**book, "recipes": [*recipes, *book["recipes"][1:]]}).encode()

    def test_recipes_that_go_in_circles(self):
        first, *_ = json.loads(self.book.read_bytes())["recipes"]
        delta = self.first_delta()

        def step(digest, base):
            return {**first, **delta, "digest": digest, "base": [base]}

        digests = [f"{i:064x}" for i in range(20000)]
        for length in (1, 2, 20000):
            around = [step(digest, digests[(i + 1) % length]) for i, digest in enumerate(digests[:length])]
            self.commit(self.manifest, self.books(step(first["digest"], digests[0]), *around))
            with self.subTest(length):
                self.run_fails(5, "pull", self.repo, self.out, says="no recipe")
                found = self.run_any("verify", f"{self.repo}@main").out
                self.assertRegex(found, r"(?m)^(model\.safetensors|sub/side): the repository has no recipe")
                self.run_fails(5, "verify", self.repo)
        # A chain that ends somewhere, but is longer than any stack.
        around = [step(digest, digests[i + 1]) for i, digest in enumerate(digests[:-1])]
        around.append({**first, "digest": digests[-1]})
        self.commit(self.manifest, self.books(step(first["digest"], digests[0]), *around))
        self.run_fails(5, "pull", self.repo, self.out)
        self.run_fails(5, "verify", f"{self.repo}@main")

    def first_delta(self):
        """Object, offset and length of a real delta."""
        self.write_weights("next/model.safetensors", self.some_weights())
        self.run_ok("diff", self.scratch / "step/model.safetensors", self.scratch / "next/model.safetensors", "-o",
                    self.scratch / "delta")
        content = (self.scratch / "delta").read_bytes()
        name = f"{digest_of(content)}.safetensors"
        self.write(f"repo/objects/{name[:2]}/{name}", content)
        return {"object": name, "offset": 0, "length": len(content)}

    def test_sizes_that_lie(self):
        weights = next(file for file in self.manifest["files"] if file["path"] == "model.safetensors")
        rest = [file for file in self.manifest["files"] if file is not weights]
        recipes = json.loads(self.book.read_bytes())["recipes"]
        honest = next(recipe for recipe in recipes if recipe["digest"] == weights["digest"])
        others = [recipe for recipe in recipes if recipe is not honest]
        pack = next(recipe for recipe in others if not recipe["object"].endswith(".safetensors"))
        for size in (0, 1, weights["size"] - 1, weights["size"] + 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            lying = {**self.manifest, "files": sorted([{**weights, "size": size}, *rest], key=lambda file: file["path"])}
            for book in ([honest], [{**honest, "size": size, "length": size}], [{**honest, "size": size}],
                         [{**pack, "digest": weights["digest"], "size": size, "length": size}],
                         [{**pack, "digest": weights["digest"], "size": size, "length": size, "offset": (1 << 64) - size}]
                         if 0 < size < 1 << 63 else [],
                         [{**honest, **self.first_delta(), "size": size, "base": []}]):
                with self.subTest(size=size, book=book):
                    self.commit(lying, json.dumps({"format": "wdelta-recipes", "version": 1,
                                                   "recipes": [*book, *others]}).encode())
                    for words in (["pull", self.repo, self.out], ["verify", f"{self.repo}@main"]):
                        done = self.run_any(*words, timeout=60)
                        # 3: there is no room for what it says it is.
                        self.assertIn(done.code, (3, 4, 5) if size > 1 << 39 else (4, 5), self.told(done))
                        self.assert_one_line_error(done)
                    self.assertFalse((self.out / "model.safetensors").exists())
                    self.assertFalse((self.out / "config.json").exists())
                    self.assert_no_leftovers()

    def test_ancestors_that_no_child_could_have(self):
        """They are refused where they are read: a push would write them into each commit to come."""
        self.write_weights("step/model.safetensors", self.some_weights())
        tip = self.run_ok("push", self.scratch / "step", self.repo).strip()
        manifest = json.loads((self.repo / "commits" / f"{tip}.json").read_bytes())
        book, = (self.repo / "recipes" / tip).iterdir()
        self.number = 2
        parent, = manifest["ancestors"]
        far = {**parent, "distance": (1 << 64) - 1}
        for ancestors in ([parent, far], [{**parent, "message": "x" * 201}], [{**parent, "message": "a\nb"}],
                          [{**parent, "time": "x" * 201}]):
            with self.subTest(ancestors):
                self.commit({**manifest, "ancestors": ancestors}, book.read_bytes())
                for words in (("pull",), ("log",)):
                    self.refused(5, words)
                self.run_fails(5, "push", self.scratch / "step", self.repo)

    def test_nothing_is_pushed_that_nobody_could_read(self):
        """The farthest ancestor that there can be is one too far for a child of its commit."""
        self.write_weights("step/model.safetensors", self.some_weights())
        tip = self.run_ok("push", self.scratch / "step", self.repo).strip()
        manifest = json.loads((self.repo / "commits" / f"{tip}.json").read_bytes())
        book, = (self.repo / "recipes" / tip).iterdir()
        parent, = manifest["ancestors"]
        self.number = 2
        self.commit({**manifest, "ancestors": [parent, {**parent, "distance": 1 << 48}]}, book.read_bytes())
        log = self.run_ok("log", self.repo, "-n", "1")
        self.write_weights("step/model.safetensors", self.some_weights())
        self.run_fails(5, "push", self.scratch / "step", self.repo,
                       says=["the new commit: ancestor", f"is {(1 << 48) + 1} commits back"])
        self.assertEqual(self.run_ok("log", self.repo, "-n", "1"), log)
        self.run_ok("pull", self.repo, self.out)

    def test_ancestors_that_are_others_than_those_of_the_parent(self):
        """Found by verify, at no depth later than another, and where a revision leads to one."""
        other = self.book.parent.name
        for step in (1, 2, 3):
            self.write_weights("step/model.safetensors", self.some_weights())
            tip = self.run_ok("push", self.scratch / "step", self.repo, "--step", step, "-b", "run").strip()
        self.run_ok("verify", "--quick", self.repo)
        manifest = json.loads((self.repo / "commits" / f"{tip}.json").read_bytes())
        book, = (self.repo / "recipes" / tip).iterdir()
        parent, grandparent = manifest["ancestors"]
        for ancestors, is_led_astray in (([parent, {**grandparent, "id": other}], True),
                                         ([parent, {**grandparent, "step": 7}], True),
                                         ([parent, {**grandparent, "message": "7"}], True),
                                         ([{**parent, "time": "2020-01-01T00:00:00Z"}, grandparent], False),
                                         ([parent], False),
                                         ([parent, grandparent, {**grandparent, "distance": 3}], False)):
            with self.subTest(ancestors):
                self.commit({**manifest, "ancestors": ancestors}, book.read_bytes())
                for depth in ("--quick", "--deep"):
                    self.assertRegex(self.run_fails(5, "verify", depth, self.repo).out,
                                     f"ancestors are not those that its parent {manifest['parent']} has: .* expected")
                if is_led_astray:
                    for revision in ("main~2", f"step:{ancestors[1]['step']}"):
                        self.run_fails(5, "show", f"{self.repo}@{revision}", says="a commit after it tells of")
                if ancestors[0] != parent:
                    self.run_fails(5, "show", f"{self.repo}@main~1", says="a commit after it tells of")

    def test_a_file_that_is_larger_than_any(self):
        for size in ((1 << 45) + 1, 1 << 60):
            files = [{**file, "size": size} if file["path"].startswith("sub") else file for file in self.manifest["files"]]
            self.commit({**self.manifest, "files": files})
            self.refused(says="at most")
            self.assertIn("at most", self.run_fails(5, "verify", "--deep", self.repo).out)

    def test_thousands_of_ways_that_are_all_lost(self):
        book = json.loads(self.book.read_bytes())
        recipe = next(recipe for recipe in book["recipes"] if recipe["size"] == 70000)
        ways = [{**recipe, "object": f"{i:064x}", "offset": 0} for i in range(3000)]
        self.commit(self.manifest, (json.dumps({**book, "recipes": [
            *ways, *(other for other in book["recipes"] if other != recipe)]}) + "\n").encode())
        done = self.run_any("pull", self.repo, self.out)
        self.assertEqual(done.code, 5, self.told(done))
        self.assertLess(len(done.err.splitlines()), 20)

    def test_gc_removes_nothing_behind_a_symlink(self):
        theirs = [self.write("victim/thesis.txt", "mine"), self.write("victim/" + "0" * 64, "mine"),
                  self.write("victim/sub/" + "0" * 64, "mine")]
        (self.repo / "objects/00").symlink_to(self.scratch / "victim")
        ours = self.write("repo/objects/01/" + "01" * 32, "nobody's")
        note = self.write("repo/objects/note.txt", "mine")
        self.run_ok("gc", self.repo, "--grace", "0")
        self.assertTrue(all(path.exists() for path in [*theirs, note]))
        self.assertFalse(ours.exists())

    def test_documents_that_are_no_sound_json(self):
        text = json.dumps(self.manifest)
        book = self.book.read_text()
        for name, change in (("twice", ('"parent"', '"parent": null, "parent"')), ("huge", ('"step": null', '"step": 1e999')),
                             ("long", ('"step": null', '"step": ' + "9" * 100000)), ("deep", ('"meta": {', '"meta": {"a":' + '{"a":' * 99999)),
                             ("negative", ('"step": null', '"step": -1')), ("fraction", ('"step": null', '"step": 1.0')),
                             ("bytes", ('"message": "', '"message": "\udcff')), ("half", ('"message": "', '"message": "\\ud800')),
                             ("array", ('"meta": {', '"more": ' + "[" * 100000 + ', "meta": {'))):
            with self.subTest(name):
                self.assertIn(change[0], text)
                self.commit_text(text.replace(*change, 1).encode("utf-8", "surrogateescape"))
                for words in (("pull",), ("log",), ("show",), ("verify",)):
                    self.refused(words=words)
        for name, change in (("twice", ('"recipes":', '"recipes":[],"recipes":')), ("huge", ('"offset":0', '"offset":1e999')),
                             ("deep", ('"recipes":[', '"recipes":' + "[" * 100000)), ("bytes", ('"object":"', '"object":"\udcff'))):
            with self.subTest(name):
                self.assertIn(change[0], book)
                self.commit(self.manifest, book.replace(*change, 1).encode("utf-8", "surrogateescape"))
                self.refused()
                self.refused(words=("verify",))

    def entry(self, number, commit="0" * 64):
        self.write(f"repo/branches/main/{number:016}", self.sealed({
            "format": "wdelta-entry", "version": 1, "commit": commit, "write": "0" * 32, "time": "2026-01-01T00:00:00Z"}))

    def test_branches_that_are_not_what_they_should_be(self):
        entries, state = self.repo / "branches" / "main", self.scratch / "state"
        good = (entries / f"{1:016}").read_bytes()
        honest = json.loads(good)["commit"]
        sealed = {"format": "wdelta-entry", "version": 1, "commit": honest, "write": "0" * 32, "time": ""}
        for name, number, content in (
                ("a missing commit", 2, {**sealed, "commit": "1" * 64}), ("a gap", 3, sealed), ("far away", 9999999999999999, sealed),
                ("no commit", 2, {**sealed, "commit": "x"}), ("another format", 2, {**sealed, "format": "x"}),
                ("a path", 2, {**sealed, "commit": "../../x"}), ("empty", 2, b""), ("large", 2, b" " * 100000),
                ("deep", 2, b"[" * 60000), ("not sealed", 2, good.replace(b"2026", b"2027")), ("bytes", 2, b"\xff" + good)):
            content = content if isinstance(content, bytes) else self.sealed(content)
            path = self.write(f"repo/branches/main/{number:016}", content)
            with self.subTest(name):
                for words in (("pull",), ("show",), ("log",), ("verify",)):
                    self.refused(words=words)
                self.run_fails(5, "push", self.scratch / "step", self.repo)
            path.unlink()
            shutil.rmtree(state)
        self.write(f"repo/branches/main/{0:016}", b"not counted")
        self.write("repo/branches/main/readme", b"nor this")
        self.run_ok("pull", self.repo, self.out)

    def test_a_repository_document_that_lies(self):
        path = self.repo / "wdelta.json"
        good = path.read_bytes()
        document = json.loads(good)
        document.pop("digest")
        for code, content in ((5, b""), (5, b"{}"), (5, b"\xff"), (5, b"[" * 100000), (5, good[:-2]), (5, good + b" "),
                              (5, self.sealed({**document, "id": 7})), (9, self.sealed({**document, "version": 2})),
                              (9, self.sealed({**document, "branches": "any"})), (5, self.sealed({**document, "format": "x"})),
                              (5, self.sealed({**document, "id": "../../../tmp/x"}))):
            path.write_bytes(content)
            with self.subTest(content[:60]):
                for words in (("pull",), ("log",), ("verify",)):
                    self.refused(code, words)
                self.run_fails(code, "push", self.scratch / "step", self.repo)

    def test_a_million_entries(self):
        if not shutil.which("b3sum"):
            self.skipTest("b3sum is not installed")

        def digest(path):
            return subprocess.run(["b3sum", "--no-names", path], capture_output=True, check=True, text=True).stdout.strip()

        empty, count = digest_of(b""), 1_000_000
        files = ",".join(f'{{"path":"f{i:07}","size":0,"digest":"{empty}","executable":false,"text":""}}' for i in range(count))
        head = json.dumps({**self.manifest, "files": []})
        large = self.write("large", head.replace('"files": []', f'"files": [{files}]') + "\n")
        self.book_and_entry(digest(large), large, self.book.read_bytes())
        for words in (["show", self.repo, "-q"], ["verify", self.repo]):
            self.measured(*words)
        first = json.dumps(json.loads(self.book.read_bytes())["recipes"][0])
        more = ",".join(first.replace(first[12:76], f"{i:064x}", 1) for i in range(count))
        book = self.write("book", self.book.read_text().replace('"recipes":[', f'"recipes":[{more},', 1))
        honest = self.write("manifest", json.dumps(self.manifest) + "\n")
        commit = digest(honest)
        place = self.repo / "recipes" / commit
        place.mkdir()
        shutil.move(book, place / f"{digest(book)}.json")
        shutil.rmtree(self.repo / "recipes" / self.large)
        (self.repo / "commits" / f"{self.large}.json").unlink()
        self.book_and_entry(commit, honest, None)
        self.measured("pull", self.repo, self.out)
        self.assert_same_tree(self.out, self.scratch / "step")

    def book_and_entry(self, commit, manifest, book):
        if book is not None:
            self.write(f"repo/recipes/{commit}/{digest_of(book)}.json", book)
            self.large = commit
        shutil.move(manifest, self.repo / "commits" / f"{commit}.json")
        self.number += 1
        self.entry(self.number, commit)

    def measured(self, *words):
        """A run that must end well, in bounded memory; says what it took."""
        child = subprocess.Popen(self.command(*words), env=self.environment(), stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        print(f"{words[0]}: {usage.ru_utime + usage.ru_stime:.1f} s of processor, {usage.ru_maxrss >> 10} MiB", flush=True)
        self.assertEqual(child.returncode, 0)
        if not testing.is_sanitized():
            self.assertLess(usage.ru_maxrss, 3 << 20)

    def test_every_document_mutated(self):
        """Documents with a change in them, and every digest right again: whatever comes of it, it is told in one line."""
        step2 = self.write_weights("step/model.safetensors", self.some_weights())
        self.run_ok("push", self.scratch / "step", self.repo, "--tag", "v")
        paths = [path for path in self.repo.rglob("*") if path.is_file()]
        commits = {path.stem: path for path in (self.repo / "commits").iterdir()}
        tip = json.loads(self.run_ok("show", self.repo, "--json"))["commit"]
        text, (book,) = commits[tip].read_bytes(), [path.read_bytes() for path in (self.repo / "recipes" / tip).iterdir()]
        self.number = 2
        for i in range(int(os.environ.get("ROUNDS", 60))):
            what, mutated = ("manifest", self.mutated(text)) if i % 2 else ("book", self.mutated(book))
            self.commit_text(*((mutated, book) if what == "manifest" else (text[:-1] + b" " * i + b"\n", mutated)))
            with self.subTest(round=i, seed=self.seed, mutated=mutated):
                for words in (["pull", self.repo, self.out], ["verify", self.repo], ["verify", f"{self.repo}@main"], ["log", self.repo],
                              ["show", self.repo], ["push", self.scratch / "step", self.repo, "-b", f"side-{i}", "--step", i]):
                    done = self.run_any(*words, timeout=60)
                    self.assertIn(done.code, (0, 4, 5, 9), self.told(done))
                    if done.code != 0:
                        self.assert_one_line_error(done)
                outside = [path for path in (self.scratch / "deep").rglob("*") if path != self.out and self.out not in path.parents]
                self.assertLessEqual(set(outside), {self.out.parent})
            shutil.rmtree(self.scratch / "deep", ignore_errors=True)
        self.assertTrue(step2.exists() and paths)

    def mutated(self, content):
        """The document with one to three values, names or bytes exchanged."""
        content = bytearray(content)
        for _ in range(self.random.randrange(1, 4)):
            at = self.random.randrange(len(content))
            kind = self.random.randrange(6)
            if kind == 0:
                content[at] ^= 1 << self.random.randrange(8)
            elif kind == 1:
                del content[at:at + self.random.randrange(1, 20)]
            elif kind == 2:
                content[at:at] = content[at - 20:at]
            elif kind == 3:
                content[at:at] = self.random.choice([b"null", b"-1", b"1e999", b"[[[", b'{"a":', b"\\u0000", b"\\ud800", b"\xff", b"9" * 40])
            elif kind == 4:
                numbers = [match.span() for match in re.finditer(rb"(?<=:)\d+", content)]
                begin, end = self.random.choice(numbers)
                content[begin:end] = str(self.random.choice([0, 1, 2**32, 2**62, 2**63, 2**64 - 1, 2**64])).encode()
            else:
                digests = [match.span() for match in re.finditer(rb"[0-9a-f]{64}", content)]
                (begin, end), (other, behind) = self.random.choice(digests), self.random.choice(digests)
                content[begin:end] = content[other:behind]
        return bytes(content)

    def test_symlinks_in_the_way(self):
        elsewhere = self.scratch / "elsewhere"
        elsewhere.mkdir()
        self.out.mkdir(parents=True)
        (self.out / "sub").symlink_to(elsewhere)
        for options in ([], ["--force"]):
            self.run_fails(3, "pull", self.repo, self.out, *options, says="sub")
            self.assertEqual(os.listdir(elsewhere), [])
        (self.out / "sub").unlink()
        (self.out / "sub").symlink_to(self.scratch / "nowhere")
        self.run_fails(3, "pull", self.repo, self.out, says="sub")
        self.assertFalse((self.scratch / "nowhere").exists())
        (self.out / "sub").unlink()
        (self.out / "config.json").unlink(missing_ok=True)
        for name in ("config.json", "model.safetensors"):
            self.write(f"elsewhere/{name}", "precious")
            (self.out / name).unlink(missing_ok=True)
            (self.out / name).symlink_to(elsewhere / name)
        self.run_fails(3, "pull", self.repo, self.out, says="config.json")
        self.run_ok("pull", self.repo, self.out, "--force")
        for name in ("config.json", "model.safetensors"):
            self.assertEqual((elsewhere / name).read_text(), "precious")
            self.assertFalse((self.out / name).is_symlink())
        self.assert_same_tree(self.out, self.scratch / "step")

    def test_state_that_is_a_symlink(self):
        elsewhere = self.scratch / "elsewhere"
        elsewhere.mkdir()
        self.out.mkdir(parents=True)
        (self.out / ".wdelta").symlink_to(elsewhere)
        self.run_fails(3, "pull", self.repo, self.out, says=".wdelta")
        self.assertEqual(os.listdir(elsewhere), [])
        (self.out / ".wdelta").unlink()
        (self.out / ".wdelta").mkdir()
        (self.out / ".wdelta" / "lock").symlink_to(elsewhere / "lock")
        self.run_fails(3, "pull", self.repo, self.out, says=["lock", "symlink"])
        self.assertEqual(os.listdir(elsewhere), [])
        (self.out / ".wdelta" / "lock").unlink()
        for name, content in (("state.json", b"precious"), ("config.json", b"precious")):
            self.write(f"elsewhere/{name}", content)
        (self.out / ".wdelta" / "state.json").symlink_to(elsewhere / "state.json")
        self.run_fails(5, "pull", self.repo, self.out, says="state.json")
        self.run_ok("pull", self.repo, self.out, "--force")
        self.write("step/config.json", "{}\n")
        self.write_weights("step/model.safetensors", self.some_weights())
        self.run_ok("push", self.scratch / "step", self.repo)
        (self.out / ".wdelta" / "aside").symlink_to(elsewhere)
        self.run_ok("pull", self.repo, self.out)
        self.assert_same_tree(self.out, self.scratch / "step")
        self.assertEqual({name: (elsewhere / name).read_bytes() for name in os.listdir(elsewhere)},
                         {"state.json": b"precious", "config.json": b"precious"})

    def test_a_directory_that_is_a_symlink_is_the_one_that_is_meant(self):
        real = self.scratch / "real"
        real.mkdir()
        (self.scratch / "parent").symlink_to(real)
        (real / "link").symlink_to(real / "target")
        (real / "target").mkdir()
        self.run_ok("pull", self.repo, self.scratch / "parent" / "link")
        self.assert_same_tree(real / "target", self.scratch / "step")
        self.assertTrue((real / "link").is_symlink())
        (real / "nowhere").symlink_to(real / "absent")
        self.run_fails(3, "pull", self.repo, real / "nowhere", absent=real / "absent")

    def test_a_directory_where_a_file_belongs(self):
        for options in ([], ["--force"]):
            self.write(self.out / "config.json" / "x" / "mine", "mine")
            self.run_fails(3, "pull", self.repo, self.out, *options, says="config.json")
        self.assertTrue((self.out / "config.json" / "x" / "mine").exists())

    def test_state_of_a_pull_that_lies(self):
        self.run_ok("pull", self.repo, self.out)
        state = self.out / ".wdelta" / "state.json"
        good = json.loads(state.read_bytes())
        good.pop("digest")
        victim = self.write("deep/er/victim", "precious")
        for place in ("../victim", str(victim)):
            stamp = next(iter(good["files"].values()))
            state.write_bytes(self.sealed({**good, "files": {**good["files"], place: stamp}}))
            self.run_any("pull", self.repo, self.out, "--force")
            self.assertEqual(victim.read_text(), "precious")
        for content in (b"", b"{}", b"garbage", state.read_bytes()[:-3]):
            state.write_bytes(content)
            done = self.run_any("pull", self.repo, self.out)
            if done.code != 0:
                self.assertEqual(done.code, 5, self.told(done))
                self.assert_one_line_error(done)
                self.assertIn("state.json", done.err)
        self.run_ok("pull", self.repo, self.out, "--force")
        self.assert_same_tree(self.out, self.scratch / "step")


if __name__ == "__main__":
    testing.main()
