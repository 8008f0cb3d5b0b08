#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden cases: small bases and results, and the deltas that a build of wdelta makes of them, or the encoder
of this folder.

    make_golden.py WDELTA OUT [NAME...]

Each case is a folder of OUT with base.safetensors, delta.safetensors and result.safetensors. Bases and results depend
on nothing but this program. A case that is there is left alone: deltas once released must decode for ever. Deltas of
opaque files come out of a repository; of their results, which are large, only the digest is kept: result.b3.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from array import array
from math import prod
from pathlib import Path

sys.dont_write_bytecode = True

from blake3 import blake3
from delta import Delta
from directory import base_contents
from elements import BITS, FLOATING, stepped, width_of
from make_delta import make_delta
from make_group import CLASSED, DISTANCES, SOME, Grouping
from random_checkpoint import bytes_of, perturbed, random_tensor, write_safetensors
from repository import Repository


def _pair(rng, dtypes, count, density):
    old = [(f"model.{dtype}", dtype, [count], random_tensor(rng, dtype, [count])) for dtype in dtypes]
    new = [(name, dtype, shape, perturbed(rng, content, dtype, density)) for name, dtype, shape, content in old]
    return old, new


def sparse_bf16(rng):
    old, new = _pair(rng, ["BF16"], 16000, 0.03)
    return write_safetensors(old), write_safetensors(new), ["--encoding", "sparse"]


def dense_f32(rng):
    old, new = _pair(rng, ["F32"], 6000, 0.5)
    return write_safetensors(old), write_safetensors(new), ["--encoding", "dense"]


def whole(rng):
    old, new = _pair(rng, ["F16", "I64"], 1500, 1.0)
    return write_safetensors(old), write_safetensors(new), ["--encoding", "whole"]


def all_dtypes(rng):
    old, new = _pair(rng, BITS, 400, 0.1)
    return write_safetensors(old, {"format": "pt"}), write_safetensors(new, {"format": "pt"}), []


def two_blocks(rng):
    old = bytes(rng.choice((0, 1, 2, 3)) for _ in range(70000))
    new = bytearray(old)
    for place in (0, 255, 511, 768, 65535, 65536, 69999):
        new[place] ^= 1
    return (*(write_safetensors([("w", "U8", [70000], bytes(side))]) for side in (old, new)), [])


def header_changed(rng):
    old, _ = _pair(rng, ["BF16", "F32"], 500, 0.0)
    result = write_safetensors(old[::-1], {"step": "2", "ü": "☃"}, padding=3)
    return write_safetensors(old, {"step": "1"}), result, []


def afresh(rng):
    old, new = _pair(rng, ["BF16", "F32"], 1000, 0.02)
    new[1] = ("model.F32", "F32", [10, 100], new[1][3])
    new += [("added", "F16", [300], random_tensor(rng, "F16", [300])), ("zeros", "I32", [40], bytes(160)),
            ("empty", "F64", [0, 3], b"")]
    return write_safetensors(old), write_safetensors(new), []


def unchanged(rng):
    old, _ = _pair(rng, ["BF16"], 500, 0.0)
    return write_safetensors(old), write_safetensors(old), []


def moved(rng):
    old, new = _pair(rng, ["BF16", "F32"], 800, 0.05)
    base = {f"{tensor[1].lower()}.safetensors": write_safetensors([tensor]) for tensor in old}
    return base, write_safetensors(new), []


def opaque_shorter_base(rng):
    old = random_tensor(rng, "F32", [20000])
    rest = b"".join(b"%d\n" % (number // 50) for number in range(240000))
    return old, perturbed(rng, old, "F32", 0.2) + rest + b"odd", None


def opaque_alone(rng):
    rows = (b"%d %s\n" % (number // 50, b"a" * rng.randrange(9)) for number in range(130000))
    return None, b"".join(rows), None


def _weight(rng, dtype):
    """The bits of an element as weights are: exponents next to each other, each half as frequent as the one above."""
    bits = 8 * width_of(dtype)
    exponent = 118 - min(int(rng.expovariate(0.7)), 30)
    below = bits - 9
    return rng.getrandbits(1) << (bits - 1) | exponent << below | rng.getrandbits(below)


def _trained(rng, dtype, count, turned):
    """Weights before and after a step: the smaller the more likely to change; turned says which way an element goes."""
    old = [_weight(rng, dtype) for _ in range(count)]
    new = []
    for element, before in enumerate(old):
        exponent = before >> (8 * width_of(dtype) - 9) & 255
        step = 0
        if rng.random() < min(0.9, 0.06 * 2 ** (118 - exponent)):
            step = 2 - (turned(element) ^ (rng.random() < 0.1)) + 2 * min(int(rng.expovariate(1)), 40)
        new.append(stepped(before, step, 8 * width_of(dtype), True))
    return [bytes_of(side, width_of(dtype)) for side in (old, new)]


def classed(rng):
    tensors = [(dtype, [5000], *_trained(rng, dtype, 5000, lambda element: rng.getrandbits(1)))
               for dtype in ("BF16", "F16", "F32")]
    for dtype in ("I8", "F8_E4M3", "U16"):
        old = random_tensor(rng, dtype, [5000])
        tensors.append((dtype, [5000], old, perturbed(rng, old, dtype, 0.2)))
    return (*(write_safetensors([(dtype, dtype, shape, sides[side]) for dtype, shape, *sides in tensors])
              for side in (0, 1)), ["--encoding", "classed"])


def classed_matrices(rng):
    tensors = []
    for name, dtype, rows, columns in (("columns", "BF16", 120, 50), ("both", "F32", 90, 60)):
        ways = [rng.getrandbits(1) for _ in range(columns + rows)]
        if name == "columns":
            ways[columns:] = [0] * rows
        # Called before the next round, which gives it other ways.
        pair = _trained(rng, dtype, rows * columns,
                        lambda element: ways[element % columns] ^ ways[columns + element // columns])
        tensors.append((name, dtype, [rows, columns], *pair))
    return (*(write_safetensors([(*about, sides[side]) for *about, first, second in tensors
                                 for sides in ((first, second),)]) for side in (0, 1)), [])


def classed_blocks(rng):
    """Three blocks, the one in the middle unchanged."""
    old = bytes(rng.choice((0, 1, 2, 3, 130)) for _ in range(2 * 65536 + 4000))
    new = bytearray(old)
    for place in rng.sample(range(len(old)), 3000):
        if place // 65536 != 1:
            new[place] = (old[place] + rng.choice((1, 1, 1, 255, 2, 7))) % 256
    return (*(write_safetensors([("w", "U8", [len(old)], bytes(side))]) for side in (old, new)), [])


def batches(rng):
    """Blocks of few changes, one of them unchanged, coded together; a matrix with a mask among them."""
    old = bytes(rng.choice((0, 0, 0, 3)) for _ in range(3 * 65536 + 500))
    new = bytearray(old)
    for place in rng.sample(range(len(old)), 400):
        if place // 65536 != 1:
            new[place] += 1 + rng.randrange(2)
    rows, columns = 700, 100
    before, after = array("H", [0x3c00]) * (rows * columns), array("H", [0x3c00]) * (rows * columns)
    for place in rng.sample(range(rows * columns), 3000):
        after[place] += 1 if place // columns % 2 else -1
    sides = (old, before.tobytes()), (bytes(new), after.tobytes())
    return (*(write_safetensors([("u8", "U8", [len(old)], plain), ("bf16", "BF16", [rows, columns], matrix)])
              for plain, matrix in sides), [])


def strips(rng):
    """Blocks of which four make a strip and one is left, and a matrix with a mask of two."""
    elements = 4 * 65536 + 3000
    old = bytes(rng.choice((0, 0, 0, 3, 200)) for _ in range(elements))
    new = bytearray(old)
    # The second half of a block without changes, and changes on both sides of where blocks meet.
    for place in [65535, 65536, 131071, 196608, *rng.sample(range(elements), 1500)]:
        if place not in range(98304, 131071):
            new[place] = old[place] + 1 + rng.randrange(2)
    rows, columns = 66, 1000
    before, after = bytearray([60]) * (rows * columns), bytearray([60]) * (rows * columns)
    for place in rng.sample(range(rows * columns), 3000):
        after[place] += 1 if place // columns % 2 else -1
    sides = (old, before), (new, after)
    return (*(write_safetensors([("u8", "U8", [elements], bytes(plain)),
                                 ("f8", "F8_E4M3", [rows, columns], bytes(matrix))])
              for plain, matrix in sides), [])


def compressed(rng):
    """Weights without a base, and such as have nothing to do with theirs."""
    tensors = [(dtype, [9000], bytes_of([_weight(rng, dtype) for _ in range(9000)], width_of(dtype)))
               for dtype in ("BF16", "F16", "F32")]
    before = bytes_of([_weight(rng, "BF16") for _ in range(9000)], 2)
    return (write_safetensors([("BF16", "BF16", [9000], before)]),
            write_safetensors([(dtype, dtype, shape, content) for dtype, shape, content in tensors]), [])


def parameters(rng):
    """Parameters with all that they may tell, of two strips of a matrix with both masks and of a vector."""
    rows, columns = 265, 500
    row_ways, column_ways = rng.getrandbits(rows), rng.getrandbits(columns)
    tensors = []
    for name, shape, count in (("matrix", [rows, columns], 1800), ("vector", [2000], 300)):
        # Exponents of which some change seldom or never.
        before = array("H", rng.choices((0x3d20, 0x3ca0, 0xbc10, 0xbb90, 0x3a80, 0x3910), (1, 9, 20, 20, 9, 1),
                                        k=prod(shape)))
        after = array("H", before)
        for place in rng.sample(range(len(before)), count):
            if before[place] >> 7 & 255 == 121 and rng.random() < 0.9 or before[place] == 0x3a80:
                continue
            row, column = divmod(place, columns)
            # The bits of negative numbers grow downwards.
            turned = row_ways >> row & 1 ^ column_ways >> column & 1 ^ before[place] >> 15 ^ (rng.random() < 0.05)
            distance = 1 + min(int(rng.expovariate(0.8)), 15)
            after[place] += -distance if turned else distance
        tensors.append((name, "BF16", shape, before.tobytes(), after.tobytes()))
    return (*(write_safetensors([(*about, sides[side]) for *about, first, second in tensors
                                 for sides in ((first, second),)]) for side in (0, 1)),
            Grouping(bounds=(115, 118, 119, 120, 121, 122), given=SOME, columns=column_ways, rows=row_ways, sign=13,
                     blocks=8, strip=2, batch=2))


def references(rng):
    """Tensors in bundles, whose groups refer to others: right before and further back, of other strips, of other widths
    and with masks of their own."""
    rows, columns = 132, 500
    tensors = []
    for number, dtype in enumerate(("BF16", "BF16", "F16", "F32", "I8", "U16", "BF16")):
        width, shape = width_of(dtype), [rows, columns] if dtype == "I8" else [1500]
        before = [rng.getrandbits(8) if dtype == "I8" else _weight(rng, dtype) for _ in range(prod(shape))]
        after = list(before)
        for place in rng.sample(range(prod(shape)), prod(shape) // (50 if dtype == "I8" else 20 - number)):
            step = 1 + min(int(rng.expovariate(0.4 + number / 4)), 40)
            after[place] = stepped(before[place], step, 8 * width, dtype in FLOATING)
        tensors.append((f"{number}.weight", dtype, shape, bytes_of(before, width), bytes_of(after, width)))
    likely, rare = Grouping(bounds=(116, 118, 119), given=DISTANCES), Grouping(bounds=(60, 117), given=SOME, strip=32)
    refers = Grouping(back=1)
    return (*(write_safetensors([(*about, sides[side]) for *about, first, second in tensors
                                 for sides in ((first, second),)]) for side in (0, 1)),
            [likely, refers, refers._replace(rarer=9, odd=True), rare,
             refers._replace(rarer=40, batch=2, columns=rng.getrandbits(columns), rows=rng.getrandbits(rows), sign=60),
             refers._replace(back=2, rarer=-255), refers._replace(back=2, rarer=255, strip=8)])


def skipped_rows(rng):
    """An embedding of which a few rows change, of two blocks that its rows do not end with, and one of another dtype;
    a matrix of which all rows change."""
    tensors = []
    for name, dtype, rows, columns, changing in (("embedding", "BF16", 700, 100, 60), ("other", "F32", 120, 64, 9),
                                                 ("all", "BF16", 60, 50, 60)):
        width = width_of(dtype)
        before = [_weight(rng, dtype) for _ in range(rows * columns)]
        after, chosen = list(before), rng.sample(range(rows), changing)
        for row in chosen:
            for place in rng.sample(range(row * columns, (row + 1) * columns), columns // 8):
                step = 1 + min(int(rng.expovariate(0.7)), 40)
                after[place] = stepped(before[place], step, 8 * width, True)
        tensors.append((name, dtype, [rows, columns], bytes_of(before, width), bytes_of(after, width)))
    return (*(write_safetensors([(*about, sides[side]) for *about, first, second in tensors
                                 for sides in ((first, second),)]) for side in (0, 1)), [])


CASES = (sparse_bf16, dense_f32, whole, all_dtypes, two_blocks, moved, header_changed, afresh, unchanged,
         opaque_shorter_base, opaque_alone, classed, classed_matrices, classed_blocks,
         batches, strips, compressed, parameters, references, skipped_rows)


def _diff(binary, folder, base, result, options):
    """Writes the case's files and lets the binary diff them; the delta of one file of directories comes out of theirs.
    Where options are a Grouping, or several that take turns, the delta is this folder's."""
    (folder / "result.safetensors").write_bytes(result)
    if isinstance(base, bytes):
        (folder / "base.safetensors").write_bytes(base)
        if any(isinstance(option, Grouping) for option in (options, *options)):
            (folder / "delta.safetensors").write_bytes(make_delta(
                [("base.safetensors", base)], result, mode=CLASSED, path="result.safetensors", grouping=options,
                bundle=1 if isinstance(options, Grouping) else 4))
            return
        names = ["base.safetensors", "result.safetensors", "-o", "delta.safetensors"]
        subprocess.run([binary, "diff", *names, *options], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return
    (folder / "base").mkdir()
    for name, content in base.items():
        (folder / "base" / name).write_bytes(content)
    with tempfile.TemporaryDirectory() as aside:
        place = min(base)
        next_folder, delta = Path(aside, "next"), Path(aside, "delta")
        next_folder.mkdir()
        (next_folder / place).write_bytes(result)
        subprocess.run([binary, "diff", folder / "base", next_folder, "-o", delta, *options], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.copyfile(delta / "files" / place, folder / "delta.safetensors")


def _push(binary, folder, base, result):
    """The same for an opaque file and its base, which may be None."""
    with tempfile.TemporaryDirectory() as aside:
        checkpoint, repository = Path(aside, "checkpoint"), Path(aside, "repository")
        checkpoint.mkdir()
        for content in (base, result) if base is not None else (result,):
            (checkpoint / "state.bin").write_bytes(content)
            done = subprocess.run([binary, "push", checkpoint, repository, "--quiet"], check=True, text=True,
                                  stdout=subprocess.PIPE, env={"WDELTA_STATE_DIR": aside})
        reader = Repository(repository)
        commit = reader.commit(done.stdout.strip())
        book, digest = reader.books(commit)[commit.recipes], commit.files[0].digest
        recipe, = (recipe for recipe in book if recipe.digest == digest)
        (folder / "delta.safetensors").write_bytes(reader.stored(recipe))
    if base is not None:
        (folder / "base.bin").write_bytes(base)
    (folder / "result.b3").write_text(blake3(result) + "\n")


def make(binary, case, folder):
    base, result, options = case(random.Random(f"golden {case.__name__}"))
    with tempfile.TemporaryDirectory() as aside:
        made = Path(aside)
        if options is None:
            _push(binary, made, base, result)
        else:
            _diff(binary, made, base, result, options)
        delta = (made / "delta.safetensors").read_bytes()
        opened = Delta(delta)
        named = next((path.name for path in made.glob("base*")), "")
        if opened.apply(base_contents(made / named, opened)).content != result:
            sys.exit(f"{case.__name__}: the delta does not make the result")
        shutil.copytree(made, folder)
    print(f"{case.__name__}: a delta of {len(delta)} bytes for {len(result)}")


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: make_golden.py WDELTA OUT [NAME...]")
    binary, out = Path(sys.argv[1]).absolute(), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if (case.__name__ in sys.argv[3:] or not sys.argv[3:]) and not (out / case.__name__).exists():
            make(binary, case, out / case.__name__)


if __name__ == "__main__":
    main()
