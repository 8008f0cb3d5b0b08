# SPDX-License-Identifier: Apache-2.0
"""What the tests of agreement between the binary and this decoder stand on."""

import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from blake3 import blake3
from broken import taken_apart
from delta import Delta
from make_delta import container, make_delta
from make_group import CLASSED
from refusal import Refused

SEED = int(os.environ.get("WDELTA_SEED", "20260302"))


class Agreement(unittest.TestCase):
    # Set by the program before any test runs.
    binary = workdir = None

    def setUp(self):
        self.rng = random.Random(SEED)
        self.root = Path(tempfile.mkdtemp(dir=self.workdir))
        self.addCleanup(shutil.rmtree, self.root)

    def wdelta(self, *arguments):
        return subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True, errors="replace",
                              check=False, env={**os.environ, "WDELTA_STATE_DIR": str(self.root / "state")})

    def succeeds(self, *arguments):
        done = self.wdelta(*arguments)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")

    def same(self, out, result):
        self.assertTrue(out.read_bytes() == result, f"{out} is not the result")

    def refused_by_the_binary(self, what, base, delta):
        """As corrupt, in one line, and nothing is left."""
        (self.root / "m.safetensors").write_bytes(base)
        (self.root / "delta").write_bytes(delta)
        (self.root / "out").unlink(missing_ok=True)
        with self.subTest(what):
            done = self.wdelta("apply", self.root / "m.safetensors", self.root / "delta", "-o", self.root / "out")
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertFalse((self.root / "out").exists())

    def damaged(self, base, delta):
        """Flips bits of what a delta has of tensors. What this decoder makes of it becomes the result that the delta
        names: the digests refuse nothing, and the binary must make the same of it or refuse it too. Returns what this
        decoder said of each, None where it took it."""
        entries, metadata = taken_apart(delta)
        coded = b"".join(entry for name, entry in entries if name != metadata["index"])
        verdicts = []
        for bit in self.rng.sample(range(8 * len(coded)), int(os.environ.get("WDELTA_ALTERATIONS", "400")) // 8):
            flipped = bytearray(coded)
            flipped[bit // 8] ^= 1 << bit % 8
            altered, at = [], 0
            for name, entry in entries:
                length = 0 if name == metadata["index"] else len(entry)
                altered.append((name, bytes(flipped[at:at + length]) or entry))
                at += length
            made, verdict = base, None
            try:
                made = Delta(container(altered, metadata)).unchecked([base]).content
            except Refused as refusal:
                verdict = str(refusal)
            named = {"path": "m.safetensors", "size": len(made), "digest": blake3(made)}
            broken = container(altered, {**metadata, "result": json.dumps(named)})
            with self.subTest(bit=bit, python=verdict):
                if verdict is None:
                    self.applied_by_the_binary(base, broken, made)
            if verdict is not None:
                self.refused_by_the_binary(f"bit {bit}: {verdict}", base, broken)
            verdicts.append(verdict)
        return verdicts

    def applied_by_the_binary(self, base, delta, result):
        (self.root / "m.safetensors").write_bytes(base)
        (self.root / "delta").write_bytes(delta)
        (self.root / "out").unlink(missing_ok=True)
        self.succeeds("apply", self.root / "m.safetensors", self.root / "delta", "-o", self.root / "out")
        self.same(self.root / "out", result)

    def chain_applied_by_the_binary(self, name, files, groupings, ends):
        """In one pass, from the first file to that at each of the ends; groupings: how the delta to each next file has
        its blocks."""
        paths = []
        for number, grouping in enumerate(groupings):
            paths.append(self.root / f"delta {number}")
            paths[-1].write_bytes(make_delta([(name, files[number])], files[number + 1], mode=CLASSED, path=name,
                                             grouping=grouping))
        (self.root / name).write_bytes(files[0])
        for last in ends:
            with self.subTest(last=last, groupings=groupings):
                self.succeeds("apply", self.root / name, *paths[:last], "-o", self.root / f"out {last}")
                self.same(self.root / f"out {last}", files[last])

    def decoded_from_the_binary(self, base, result, *options):
        """Checks a delta that the binary makes; returns it opened."""
        old, new, delta = (self.root / name for name in ("old.safetensors", "new.safetensors", "delta.safetensors"))
        old.write_bytes(base)
        new.write_bytes(result)
        delta.unlink(missing_ok=True)
        self.succeeds("diff", old, new, "-o", delta, *options)
        opened = Delta(delta.read_bytes())
        made = opened.apply([base] if opened.base else [])
        self.assertTrue(made.content == result)
        self.assertEqual((str(made.elements), str(made.changed)),
                         (opened.metadata["elements"], opened.metadata["changed"]))
        return opened
