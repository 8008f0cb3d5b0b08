# SPDX-License-Identifier: Apache-2.0
"""What the tests of agreement between the binary and this decoder stand on."""

import os
import random
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from delta import Delta

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

    def applied_by_the_binary(self, base, delta, result):
        (self.root / "m.safetensors").write_bytes(base)
        (self.root / "delta").write_bytes(delta)
        (self.root / "out").unlink(missing_ok=True)
        self.succeeds("apply", self.root / "m.safetensors", self.root / "delta", "-o", self.root / "out")
        self.same(self.root / "out", result)

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
