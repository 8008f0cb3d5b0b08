# SPDX-License-Identifier: Apache-2.0
"""The bytes that are written depend neither on the engine nor on the number of threads, and an old processor does."""

import json
import os
import re
import shutil
import unittest

import safetensors
import testing

NAMES = ("cuda", "avx512", "avx2", "scalar")
REQUIRE_CUDA = os.environ.get("WDELTA_REQUIRE_CUDA", "0") != "0"
OLD_PROCESSOR = ("qemu-x86_64-static", "-cpu", "Nehalem")


def object_names(repo):
    return sorted(path.name for path in (repo / "objects").rglob("*") if path.is_file())


class EnginesTest(testing.Case):
    def engines(self):
        """The engines that can be used here, as --version -v says."""
        said = self.run_ok("--version", "-v")
        found = re.findall(r"^  (\w+) +(in use|can be used|cannot be used)", said, re.MULTILINE)
        self.assertEqual([name for name, _ in found], list(NAMES), said)
        usable = [name for name, state in found if state != "cannot be used"]
        self.assertIn("scalar", usable)
        # Automatic is the best that needs no device.
        self.assertEqual([name for name, state in found if state == "in use"],
                         [name for name in usable if name != "cuda"][:1])
        return usable

    def checkpoints(self):
        """Two checkpoints with a tensor of each dtype, sparse and dense changes, and several blocks and segments."""
        a, b = self.make_run("run", "--size", "4M", "--shards", 2, "--steps", 2)
        mixed = [(dtype, dtype, [200000], self.random.randbytes(safetensors.size_of(dtype, [200000])))
                 for dtype in safetensors.BITS]
        (a / "mixed.safetensors").write_bytes(safetensors.encode(mixed))
        moved = [tensor for i, each in enumerate(mixed) for tensor in self.moved([each], (0.0001, 0.02, 0.8)[i % 3])]
        (b / "mixed.safetensors").write_bytes(safetensors.encode(moved))
        return a, b

    def test_same_deltas_from_every_engine_and_thread_count(self):
        a, b = self.checkpoints()
        ways = [(engine, threads) for engine in self.engines() for threads in (1, 2, 7)]
        for engine, threads in ways:
            delta = self.scratch / f"delta-{engine}-{threads}"
            self.run_ok("diff", a, b, "-o", delta, "--engine", engine, "-j", threads)
            self.assert_same_tree(delta, self.scratch / f"delta-{ways[0][0]}-1")
        for (engine, threads), (other, count) in zip(ways, ways[1:] + ways[:1]):
            out = self.scratch / f"out-{engine}-{threads}"
            self.run_ok("apply", a, self.scratch / f"delta-{other}-{count}", "-o", out,
                        "--engine", engine, "-j", threads)
            self.assert_same_tree(out, b)
            shutil.rmtree(out)

    def test_same_deltas_with_each_encoding(self):
        a, b = self.checkpoints()
        old, new = a / "mixed.safetensors", b / "mixed.safetensors"
        for encoding in ("classed", "sparse", "dense", "whole", "afresh"):
            deltas = set()
            for engine in self.engines():
                delta = self.scratch / f"{encoding}-{engine}"
                self.run_ok("diff", old, new, "-o", delta, "--engine", engine, "--encoding", encoding)
                self.run_ok("apply", old, delta, "-o", self.scratch / "out", "--engine", engine)
                self.assert_same_file(self.scratch / "out", new)
                deltas.add(testing.file_digest(delta))
            self.assertEqual(len(deltas), 1, encoding)

    def test_same_objects_from_every_engine_and_thread_count(self):
        a, b = self.checkpoints()
        names = set()
        for engine in self.engines():
            for threads in (1, 2, 7):
                repo = self.scratch / f"repo-{engine}-{threads}"
                for step in (a, b):
                    self.run_ok("push", step, repo, "--engine", engine, "-j", threads)
                names.add(tuple(object_names(repo)))
        self.assertEqual(len(names), 1)
        for engine in self.engines():
            out = self.scratch / f"out-{engine}"
            for revision, step in (("@main~1", a), ("", b)):
                self.run_ok("pull", f"{repo}{revision}", out, "--engine", engine)
                self.assert_same_tree(out, step)
                self.run_ok("verify", f"{repo}{revision}", "--engine", engine)
                self.run_ok("verify", out, f"{repo}{revision}", "--engine", engine)

    def test_same_figures_from_every_engine(self):
        a, b = self.checkpoints()
        told = {self.run_ok("diff", a, b, "--json", "--engine", engine) for engine in self.engines()}
        self.assertEqual(len(told), 1)

    def test_engine_by_environment_and_option(self):
        engines = self.engines()
        for engine in engines:
            said = self.run_ok("--version", "-v", env={"WDELTA_ENGINE": engine})
            self.assertRegex(said, rf"(?m)^  {engine} +in use")
            said = self.run_ok("--version", "-v", "--engine", engine, env={"WDELTA_ENGINE": "none"})
            self.assertRegex(said, rf"(?m)^  {engine} +in use")
        best = [engine for engine in engines if engine != "cuda"][0]
        self.assertRegex(self.run_ok("--version", "-v", "--engine", "auto", env={"WDELTA_ENGINE": "scalar"}),
                         rf"(?m)^  {best} +in use")
        old = self.write_weights("a.safetensors", self.some_weights())
        self.run_fails(2, "diff", old, old, "--engine", "sse9", says=["sse9", "scalar"])
        self.run_fails(2, "diff", old, old, env={"WDELTA_ENGINE": "sse9"}, says="sse9")
        self.run_ok("diff", old, old, "--engine", "scalar", env={"WDELTA_ENGINE": "sse9"})
        for count in ("0", "-1", "x", "100000"):
            self.assertEqual(self.run_any("diff", old, old, "-j", count).code, 2)

    def test_cuda_without_a_device(self):
        told = json.loads(self.run_ok("--version", "--json"))["engines"]
        cuda, = [engine for engine in told if engine["name"] == "cuda"]
        self.assertIn(cuda["reason"], self.run_ok("--version", "-v"))
        if cuda["usable"]:
            self.skipTest(f"the cuda engine can be used here: {cuda['reason']}")
        a, b = self.make_run("run", "--size", "1M", "--single", "--steps", 2)
        delta, repo = self.scratch / "delta", self.scratch / "repo"
        self.run_fails(9, "diff", a, b, "-o", delta, "--engine", "cuda", says=["cuda", cuda["reason"], "auto"],
                       absent=delta)
        self.run_fails(9, "push", a, repo, "--engine", "cuda", says=cuda["reason"], absent=repo / "objects")
        self.run_fails(9, "diff", a, b, env={"WDELTA_ENGINE": "cuda"}, says=cuda["reason"])
        self.run_ok("diff", a, b, "--engine", "auto", env={"WDELTA_ENGINE": "cuda"})

    def test_cuda_with_a_device(self):
        if not REQUIRE_CUDA and "cuda" not in self.engines():
            self.skipTest("the cuda engine cannot be used here (WDELTA_REQUIRE_CUDA=1 makes this a failure)")
        self.assertIn("cuda", self.engines(), self.run_ok("--version", "-v"))
        a, b = self.checkpoints()
        for engine in ("cuda", "scalar"):
            self.run_ok("diff", a, b, "-o", self.scratch / engine, "--engine", engine)
        self.assert_same_tree(self.scratch / "cuda", self.scratch / "scalar")
        self.run_ok("apply", a, self.scratch / "scalar", "-o", self.scratch / "out", "--engine", "cuda")
        self.assert_same_tree(self.scratch / "out", b)

    def test_wrong_engine_leaves_nothing(self):
        a, b = self.make_run("run", "--size", "1M", "--single", "--steps", 2)
        self.run_fails(2, "diff", a, b, "-o", self.scratch / "delta", "--engine", "x", absent=self.scratch / "delta")
        self.run_fails(2, "push", a, self.scratch / "repo", "--engine", "x", absent=self.scratch / "repo" / "objects")
        self.run_ok("push", a, self.scratch / "repo")
        self.run_fails(2, "pull", self.scratch / "repo", self.scratch / "out", "--engine", "x",
                       absent=self.scratch / "out")

    @unittest.skipUnless(shutil.which(OLD_PROCESSOR[0]), "qemu-x86_64-static is not installed")
    def test_an_old_processor(self):
        if testing.is_sanitized():
            self.skipTest("qemu cannot run a program with a sanitizer")
        a, b = self.make_run("run", "--size", "1M", "--shards", 2, "--steps", 2)
        old = {"prefix": OLD_PROCESSOR, "timeout": 300}
        said = self.run_ok("--version", "-v", **old)
        self.assertRegex(said, r"(?m)^  avx512 +cannot be used: .*AVX-512")
        self.assertRegex(said, r"(?m)^  avx2 +cannot be used: .*AVX2")
        self.assertRegex(said, r"(?m)^  scalar +in use")
        delta, repo = self.scratch / "delta", self.scratch / "repo"
        self.run_ok("diff", a, b, "-o", delta, **old)
        self.run_ok("diff", a, b, "-o", self.scratch / "delta-here")
        self.assert_same_tree(delta, self.scratch / "delta-here")
        self.run_ok("apply", a, delta, "-o", self.scratch / "out", **old)
        self.assert_same_tree(self.scratch / "out", b)
        for step in (a, b):
            self.run_ok("push", step, repo, **old)
        for revision, step in (("@main~1", a), ("", b)):
            self.run_ok("pull", f"{repo}{revision}", self.scratch / "pulled", **old)
            self.assert_same_tree(self.scratch / "pulled", step)
            self.run_ok("verify", self.scratch / "pulled", f"{repo}{revision}")
        for words in ([repo], [f"{repo}@main"], [delta], [self.scratch / "pulled", repo]):
            self.run_ok("verify", *words, **old)
        for engine in ("avx512", "avx2"):
            self.run_fails(9, "diff", a, b, "--engine", engine, says=engine, **old)
            self.run_fails(9, "diff", a, b, says=engine, env={"WDELTA_ENGINE": engine}, **old)

    def test_version_and_help(self):
        self.assertRegex(self.run_ok("--version"), r"\Awdelta \d+\.\d+\.\d+\S*\n\Z")
        codes = self.run_ok("help", "exit-codes")
        self.assertEqual([line.split()[0] for line in codes.splitlines()], "0 1 2 3 4 5 6 7 8 9 10 129 130 143".split())
        for command in ("diff", "apply", "push", "pull", "log", "show", "verify", "tag"):
            self.assertRegex(self.run_ok(command, "-h"), rf"Usage: (wdelta )?{command} ")
            self.assertEqual(self.run_any(command).code, 2)
            self.assertEqual(self.run_any(command, "--no-such-option").code, 2)
        self.assertEqual(self.run_any("no-such-command").code, 2)
        self.assertIn("diff", self.run_ok("--help"))


if __name__ == "__main__":
    testing.main()
