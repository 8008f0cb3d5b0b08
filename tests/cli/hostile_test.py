# SPDX-License-Identifier: Apache-2.0
"""A repository written by someone who means harm, with every digest right: nothing is written where it should not be,
nothing large is allocated, and a checkpoint that is in the way of a pull is not written through."""

import json
import os
import shutil
import sys
import unittest
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

    def sealed(self, document):
        text = json.dumps({**document, "digest": "0" * 64}, separators=(",", ":")) + "\n"
        return text.replace("0" * 64, digest_of(text.encode())).encode()

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
                     ".wdelta", "a/.wdelta/x", "a\\b", "..\\x", "a\0b", "a\nb", "\x1b[2J", "a\x7f", "\ud800",
                     "x" * 5000):
            with self.subTest(path=path[:50]):
                self.commit(self.with_path(path))
                self.refused()
                self.refused(words=("show",))
                self.refused(words=("verify",))
        text = json.dumps(self.with_path("PLACE")).encode()
        self.commit_text(text.replace(b"PLACE", b"\xff\xfe") + b"\n")
        self.refused()

    def test_paths_that_collide(self):
        files = self.manifest["files"]
        for name, listed in (
                ("twice", [*files, files[-1]]), ("out of order", files[::-1]),
                ("below a file", self.with_path("config.json/x")["files"]),
                ("a file and a directory", self.with_path("sub")["files"])):
            with self.subTest(name):
                self.commit({**self.manifest, "files": listed})
                self.refused()

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
        for change in ({"format": "x"}, {"parent": "x"}, {"files": {}}, {"files": [[]]}, {"meta": []},
                       {"meta": {"a": 1}}, {"time": 1},
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

    def test_a_directory_where_a_file_belongs(self):
        for options in ([], ["--force"]):
            (self.out / "config.json" / "x").mkdir(parents=True, exist_ok=True)
            self.run_fails(3, "pull", self.repo, self.out, *options, says="config.json")
        self.assertTrue((self.out / "config.json" / "x").exists())

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
