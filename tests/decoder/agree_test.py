#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The law that both decoders agree.

    agree_test.py WDELTA WORKDIR

What this folder makes by hand, the binary applies; what the binary makes, this folder decodes; what one of the two
refuses, the other refuses.
"""

import os
import subprocess
import sys
import unittest
from itertools import product
from pathlib import Path

sys.dont_write_bytecode = True

from afresh import AFRESH
from agree_classed import Classed
from agree_directories import Directories
from agree_references import References
from agree_repository import Repositories
from agree_skips import Skips
from agree_strips import Strips
from agreement import SEED, Agreement
from blake3 import blake3
from broken import broken_afresh, broken_blocks, broken_bundles, broken_metadata, broken_opaque, harmless
from delta import Delta
from elements import BITS, BLOCK_ELEMENTS, FLOATING, stepped, width_of
from make_delta import DENSE, SPARSE, WHOLE, make_delta, make_listing, reseal
from make_group import CLASSED, Grouping
from random_checkpoint import bytes_of, checkpoint_pair, perturbed, random_tensor, write_safetensors
from refusal import Refused
from wdelta_decode import decode

# Not found, corrupt, base mismatch, unsupported.
REFUSALS = (4, 5, 6, 9)
GOLDEN = Path(__file__).parents[2] / "testdata" / "golden"
MODES = {"sparse": SPARSE, "dense": DENSE, "whole": WHOLE, "afresh": AFRESH}


class HandMade(Agreement):
    """Deltas of make_delta.py, applied by the binary."""

    def check(self, base, result, **choices):
        self.applied_by_the_binary(base, make_delta([("m.safetensors", base)], result, **choices), result)

    def test_every_dtype_and_mode(self):
        for dtype in BITS:
            old = random_tensor(self.rng, dtype, [400])
            for (name, mode), framed in product(MODES.items(), (False, True)):
                for density in (0.02, 1.0):
                    with self.subTest(dtype=dtype, mode=name, density=density, framed=framed):
                        new = perturbed(self.rng, old, dtype, density)
                        pair = [write_safetensors([("w", dtype, [400], side)]) for side in (old, new)]
                        self.check(*pair, mode=mode, framed=framed)

    def test_extreme_steps(self):
        old_tensors, new_tensors = [], []
        for dtype in BITS:
            width = width_of(dtype)
            bits, top = 8 * width, (1 << 8 * width) - 1
            pairs = [(start, stepped(start, step, bits, dtype in FLOATING))
                     for start in (0, 1, 1 << (bits - 1), (1 << (bits - 1)) + 1, top)
                     for step in (1, 2, 254, 255, 256, 257, 258, 65535, 65536, top - 1, top) if step <= top]
            pairs += [(0, 0)] * (-len(pairs) % 24)
            for side, tensors in zip(zip(*pairs), (old_tensors, new_tensors)):
                content = bytes_of(side, width)
                tensors.append((dtype, dtype, [len(content) * 8 // BITS[dtype]], content))
        for mode in MODES.values():
            self.check(write_safetensors(old_tensors), write_safetensors(new_tensors), mode=mode)

    def test_gaps_and_blocks(self):
        for width, dtype in ((1, "I8"), (2, "BF16"), (8, "F64")):
            old = bytes(width * (3 * BLOCK_ELEMENTS + 9))
            new, place = bytearray(old), 0
            for gap in (254, 255, 256, 0, 510, 63000, BLOCK_ELEMENTS):
                place += gap
                new[place * width] = 1
                place += 1
            new[-1] = 1
            with self.subTest(dtype=dtype):
                pair = [write_safetensors([("w", dtype, [len(old) // width], side)]) for side in (old, bytes(new))]
                self.check(*pair, mode_of=lambda name, block: (SPARSE, SPARSE, WHOLE, DENSE)[block])
        none, last = bytes(BLOCK_ELEMENTS), bytes(BLOCK_ELEMENTS - 1) + b"\1"
        self.check(*(write_safetensors([("w", "U8", [BLOCK_ELEMENTS], side)]) for side in (none, last)))

    def test_whole_files(self):
        for density in (0.0, 0.1):
            for mode in MODES.values():
                base, result = checkpoint_pair(self.rng, density)
                self.check(base, result, mode=mode, framed=True)
        self.check(base, base)
        self.check(base, base, with_header=True)
        self.applied_by_the_binary(base, make_delta([], result), result)

    def test_files_that_are_no_safetensors_files(self):
        old = random_tensor(self.rng, "F32", [300])
        for dtype in BITS:
            size, mode = self.rng.choice((0, 1, 7, 1199, 1200)), self.rng.choice(tuple(MODES.values()))
            result = perturbed(self.rng, old, dtype, 0.1)[:size]
            for base in (None, b"", old[:5], old[:size], old + b"more"):
                with self.subTest(dtype=dtype, size=size, mode=mode, base=None if base is None else len(base)):
                    bases = [] if base is None else [("state.bin", base)]
                    self.applied_by_the_binary(base or b"", make_delta(bases, result, mode=mode, opaque=dtype), result)

    def test_chains_of_deltas_that_see_their_bytes_differently(self):
        versions = [self.rng.randbytes(4 * BLOCK_ELEMENTS + 5)]
        deltas = []
        steps = ("F32", 0), ("F32", 0), ("BF16", 70003), ("BF16", -70001), ("I64", 0)
        for number, (dtype, grows) in enumerate(steps):
            before = versions[-1]
            result = bytearray(before[:grows] if grows < 0 else before + self.rng.randbytes(grows))
            for at in range(number, len(result), 5003):
                result[at] ^= 5
            versions.append(bytes(result))
            deltas.append(self.root / f"delta {number}")
            deltas[-1].write_bytes(make_delta([("state.bin", before)], versions[-1], framed=True, opaque=dtype))
        base = self.root / "state.bin"
        base.write_bytes(versions[0])
        for number in range(len(deltas)):
            self.succeeds("apply", base, *deltas[:number + 1], "-o", self.root / "out")
            self.same(self.root / "out", versions[number + 1])
        decode(base, deltas, self.root / "by python")
        self.same(self.root / "by python", versions[-1])

    def test_sources_in_other_files(self):
        a, b = (random_tensor(self.rng, "F32", [40]) for _ in range(2))
        bases = [("1.safetensors", write_safetensors([("a", "F32", [40], a)])),
                 ("2.safetensors", write_safetensors([("b", "F32", [40], b)]))]
        result = write_safetensors([("a", "F32", [40], a), ("moved", "F32", [40], b),
                                    ("nudged", "F32", [40], perturbed(self.rng, b, "F32", 0.3))])
        delta = make_delta(bases, result, sources={"moved": [1, "b"], "nudged": [1, "b"]}, path="1.safetensors")
        base, made = self.root / "base", self.root / "made"
        base.mkdir()
        for path, content in bases:
            (base / path).write_bytes(content)
        (made / "files").mkdir(parents=True)
        (made / "files" / "1.safetensors").write_bytes(delta)
        (made / "wdelta.json").write_bytes(make_listing(
            [{"path": "1.safetensors", "size": len(result), "digest": blake3(result), "executable": False,
              "as": "delta"}], ["2.safetensors"]))
        self.succeeds("apply", base, made, "-o", self.root / "out")
        self.same(self.root / "out" / "1.safetensors", result)
        self.assertEqual(os.listdir(self.root / "out"), ["1.safetensors"])

    def test_rules_under_good_digests(self):
        for base, delta, result in harmless():
            self.applied_by_the_binary(base or b"", delta, result)
        pair = [write_safetensors([("a", "BF16", [9], bytes(18)), ("b", "I8", shape, bytes(range(8)))], metadata)
                for shape, metadata in (([8], None), ([2, 4], {"step": "2"}))]
        broken = broken_blocks() + broken_afresh() + broken_bundles() + broken_metadata(*pair) + broken_opaque()
        for what, _, base, delta in broken:
            (self.root / "m.safetensors").write_bytes(base or b"")
            (self.root / "delta").write_bytes(delta)
            (self.root / "out").unlink(missing_ok=True)
            with self.subTest(what):
                done = self.wdelta("apply", self.root / "m.safetensors", self.root / "delta", "-o", self.root / "out")
                self.assertIn(done.returncode, REFUSALS, done.stderr)
                self.assertFalse((self.root / "out").exists())

    def test_what_one_refuses_the_other_refuses(self):
        old = random_tensor(self.rng, "BF16", [300])
        base = write_safetensors([("a", "BF16", [300], old), ("b", "F32", [8], bytes(32))])
        result = write_safetensors([("a", "BF16", [300], perturbed(self.rng, old, "BF16", 0.05)),
                                    ("b", "F32", [8], bytes(range(32)))], {"step": "2"})
        deltas = [make_delta([("m.safetensors", base)], result, framed=framed, mode=mode, opaque=opaque)
                  for framed, mode, opaque in ((False, SPARSE, None), (True, SPARSE, None), (False, DENSE, None),
                                               (False, SPARSE, "BF16"), (False, AFRESH, None), (True, AFRESH, None))]
        deltas += [make_delta([("m.safetensors", base)], result, mode=CLASSED, grouping=grouping)
                   for grouping in (Grouping(batch=2), Grouping(bounds=(120,), strip=2),
                                    [Grouping(given=False), Grouping(back=1)])]
        (self.root / "m.safetensors").write_bytes(base)
        altered_path, out = self.root / "delta", self.root / "out"
        for _ in range(int(os.environ.get("WDELTA_ALTERATIONS", "400"))):
            delta = self.rng.choice(deltas)
            at = self.rng.randrange(len(delta))
            flip = self.rng.choice((1, 2, 3, 16, 0x20, 0x80, 0xFF, self.rng.randrange(1, 256)))
            altered = reseal(delta[:at] + bytes([delta[at] ^ flip]) + delta[at + 1:], delta)
            altered_path.write_bytes(altered)
            out.unlink(missing_ok=True)
            try:
                Delta(altered).apply([base])
                verdict = None
            except Refused as refusal:
                verdict = str(refusal)
            done = self.wdelta("apply", self.root / "m.safetensors", altered_path, "-o", out)
            with self.subTest(at=at, flip=flip, python=verdict, binary=(done.returncode, done.stderr)):
                self.assertIn(done.returncode, (0, *REFUSALS))
                self.assertEqual(verdict is None, done.returncode == 0)
                if verdict is None:
                    self.same(out, result)
                else:
                    self.assertFalse(out.exists())


class FromTheBinary(Agreement):
    """Deltas of `wdelta diff`, decoded here."""

    def test_pairs_of_all_dtypes(self):
        for density in (0.0, 0.03, 0.4, 1.0):
            large = (("BF16", "U8"), (("BF16", [3000, 100]), ("F32", [700, 384]))) if density == 0.03 else ()
            base, result = checkpoint_pair(self.rng, density, *large)
            for encoding in (None, "classed", "sparse", "dense", "whole", "afresh"):
                with self.subTest(density=density, encoding=encoding):
                    self.decoded_from_the_binary(base, result, *(["--encoding", encoding] if encoding else []))

    def test_only_the_header_differs(self):
        content = random_tensor(self.rng, "BF16", [64])
        tensors = [("a", "BF16", [32], content[:64]), ("b", "BF16", [32], content[64:])]
        plain = write_safetensors(tensors)
        self.assertIsNone(self.decoded_from_the_binary(plain, plain).header)
        for other in (write_safetensors(tensors, {"a": "b"}), write_safetensors(tensors, padding=0),
                      write_safetensors(tensors, padding=5), write_safetensors(tensors, indent=2),
                      write_safetensors(tensors[::-1])):
            opened = self.decoded_from_the_binary(plain, other)
            self.assertIsNotNone(opened.header)
            self.assertFalse(opened.entries)

    def test_many_empty_entries(self):
        tensors = [(f"zero {i}", "U8", [i % 3 * BLOCK_ELEMENTS], bytes(i % 3 * BLOCK_ELEMENTS)) for i in range(7)]
        self.decoded_from_the_binary(write_safetensors([]), write_safetensors(tensors))

    def test_files_without_tensors(self):
        self.decoded_from_the_binary(write_safetensors([]), write_safetensors([], {"a": "b"}))

    def test_the_command_as_a_program(self):
        base, result = checkpoint_pair(self.rng, 0.1)
        self.decoded_from_the_binary(base, result)
        program = Path(__file__).with_name("wdelta_decode.py")
        arguments = [self.root / "old.safetensors", self.root / "delta.safetensors", "-o", self.root / "out"]
        subprocess.run([sys.executable, "-B", program, *arguments], check=True)
        self.same(self.root / "out", result)

    def test_chains(self):
        versions = [checkpoint_pair(self.rng, 0.05)[0]]
        for _ in range(3):
            versions.append(checkpoint_pair(self.rng, 0.05)[1])
        paths = []
        for number, version in enumerate(versions):
            paths.append(self.root / f"{number}.safetensors")
            paths[-1].write_bytes(version)
        deltas = [self.root / f"delta {number}" for number in range(3)]
        for number, delta in enumerate(deltas):
            self.succeeds("diff", paths[number], paths[number + 1], "-o", delta)
        decode(paths[0], deltas, self.root / "by python")
        self.succeeds("apply", paths[0], *deltas, "-o", self.root / "by binary")
        self.same(self.root / "by python", versions[-1])
        self.same(self.root / "by binary", versions[-1])


class Golden(Agreement):
    """Deltas of earlier builds decode for ever."""

    def test_every_case(self):
        for case in sorted(GOLDEN.iterdir()) if GOLDEN.is_dir() else []:
            with self.subTest(case.name):
                # One that reads no base is given something to ignore.
                base = next(case.glob("base*"), case / "delta.safetensors")
                python, binary = self.root / f"{case.name} python", self.root / f"{case.name} binary"
                decode(base, [case / "delta.safetensors"], python)
                self.succeeds("apply", base, case / "delta.safetensors", "-o", binary)
                if (case / "result.b3").exists():
                    self.assertEqual(blake3(python.read_bytes()) + "\n", (case / "result.b3").read_text())
                    self.same(binary, python.read_bytes())
                else:
                    self.same(python, (case / "result.safetensors").read_bytes())
                    self.same(binary, (case / "result.safetensors").read_bytes())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: agree_test.py WDELTA WORKDIR [UNITTEST ARGUMENTS]")
    Agreement.binary, Agreement.workdir = map(os.path.abspath, sys.argv[1:3])
    os.makedirs(Agreement.workdir, exist_ok=True)
    print("seed", SEED)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
