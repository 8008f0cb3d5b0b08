# SPDX-License-Identifier: Apache-2.0
"""The law that both decoders agree, for checkpoint directories; run by agree_test.py."""

import json
import os

from agreement import Agreement
from directory import apply_one
from random_checkpoint import perturbed, random_tensor, write_safetensors
from wdelta_decode import decode


def _tree(root):
    """Paths with contents and the executable bit."""
    return {str(path.relative_to(root)): (path.read_bytes(), os.access(path, os.X_OK))
            for path in sorted(root.rglob("*")) if path.is_file()}


class Directories(Agreement):
    """Deltas of directories, by `wdelta diff`, applied by both."""

    def checkpoint(self, name, shards, side_files):
        root = self.root / name
        weight_map = {}
        for number, tensors in enumerate(shards, 1):
            shard = f"model-{number:05}-of-{len(shards):05}.safetensors"
            weight_map.update({tensor[0]: shard for tensor in tensors})
            side_files = {**side_files, shard: write_safetensors(tensors, {"format": "pt"})}
        side_files["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": weight_map}).encode()
        for path, content in side_files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
            if path.endswith(".sh"):
                (root / path).chmod(0o755)
        return root

    def test_a_sharded_checkpoint(self):
        rows = [[(f"{i}.{j}", dtype, [16, 16], random_tensor(self.rng, dtype, [16, 16]))
                 for j, dtype in enumerate(("BF16", "F32", "F8_E4M3", "I64"))] for i in range(4)]
        nudged = [[(*tensor[:3], perturbed(self.rng, tensor[3], tensor[1], 0.1)) for tensor in row] for row in rows]
        old = self.checkpoint("old", [rows[0] + rows[1], rows[2] + rows[3]], {
            "config.json": b'{"a": 1}', "a b/ünï cödé.txt": b"kept", "changed file.txt": b"before",
            "removed.txt": b"x", "run.sh": b"#!/bin/sh\n", "to be a program": b"#!/bin/sh\n", "empty": b""})
        new = self.checkpoint("new", [nudged[0] + nudged[1], rows[2] + nudged[3]], {
            "config.json": b'{"a": 2}', "a b/ünï cödé.txt": b"kept", "changed file.txt": b"after",
            "run.sh": b"#!/bin/sh\n", "to be a program": b"#!/bin/sh\n", "added ☃/x.sh": b"#!/bin/sh\nexit\n",
            "empty": b""})
        (new / "to be a program").chmod(0o755)
        resharded = self.checkpoint("resharded", [nudged[0], nudged[1] + rows[2], nudged[3]], {"config.json": b"{}"})
        pairs = (old, new), (new, old), (new, resharded), (resharded, old), (old, old)
        for number, (base, result) in enumerate(pairs):
            with self.subTest(base=base.name, result=result.name):
                delta, python, binary = (self.root / f"{kind} {number}" for kind in ("delta", "python", "binary"))
                self.succeeds("diff", base, result, "-o", delta)
                apply_one(base, delta, python)
                self.assertEqual(_tree(python), _tree(result))
                self.succeeds("apply", base, delta, "-o", binary)
                self.assertEqual(_tree(binary), _tree(result))
                if result is resharded:
                    self.assertLess(sum(len(content) for content, _ in _tree(delta / "files").values()), 12000,
                                    "tensors that only moved are not taken from their shards")
        decode(old, [self.root / "delta 0", self.root / "delta 2"], self.root / "chain by python")
        self.succeeds("apply", old, self.root / "delta 0", self.root / "delta 2", "-o", self.root / "chain by binary")
        for made in ("chain by python", "chain by binary"):
            self.assertEqual(_tree(self.root / made), _tree(resharded))
