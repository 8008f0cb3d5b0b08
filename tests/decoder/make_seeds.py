#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seeds of the fuzz targets of groups and deltas.

    make_seeds.py OUT

Those of tests/fuzz/group_fuzz.cpp become files of OUT/group, those of tests/fuzz/delta_fuzz.cpp files of OUT/delta;
what these say of inputs and bases is done here, too. They depend on nothing but this program.
"""

import json
import random
import sys
from collections import namedtuple
from pathlib import Path

sys.dont_write_bytecode = True

from afresh import AFRESH
from bits import BitWriter
from delta import Delta
from elements import BLOCK_ELEMENTS, FLOATING, width_of
from group import Referable, Shape, strip_counts
from groupings import GAPPY, few_changes
from make_delta import DENSE, WHOLE, make_delta
from make_group import CLASSED, DISTANCES, SOME, Grouping, make_group
from random_checkpoint import random_tensor
from read_group import read_group

# Where groups begin.
FIRST_BLOCK = 1
# A group. last: how many elements its last block has; changes: about how many each block has; of: how the group that it
# refers to is made, from other changes of the same elements.
Seed = namedtuple("Seed", "dtype last changes grouping row of", defaults=(0, None))


def group_seeds(rng):
    columns, rows, sixteen = rng.getrandbits(1024), rng.getrandbits(1 << 13), tuple(range(4, 124, 8))
    refers = Grouping(back=1)
    return {
        "bf16_weights": Seed("BF16", 60, (20,), Grouping((8, 40))),
        "bf16_probabilities": Seed("BF16", 200, (20,), Grouping((8, 40), given=False)),
        "bf16_some_weights": Seed("BF16", 300, (60,), Grouping((2, 8, 40), given=SOME)),
        "bf16_unused": Seed("BF16", 40, (12,), Grouping((62, 63, 126, 127, 250))),
        "bf16_rows": Seed("BF16", 200, (40,), Grouping((8,), rows=rows, sign=30), row=20),
        "u16_sixteen_classes": Seed("U16", 400, (120,), Grouping(sixteen, given=SOME)),
        "i8_two_classes": Seed("I8", 500, (200,), Grouping((12,))),
        "f8_columns": Seed("F8_E4M3", 900, (400,), Grouping((16, 60), columns=columns, sign=200), row=40),
        "f32_probabilities": Seed("F32", 300, (25,), Grouping(given=False)),
        "f32_both_masks": Seed("F32", 90, (80,), Grouping(sixteen, columns=columns, rows=rows, sign=60), row=9),
        "steps_at_any_alignment": Seed("BF16", 64712, (67, 131, 45), Grouping((8, 40), given=False)),
        "bf16_odd": Seed("BF16", 200, (30,), Grouping((8, 40), columns=columns, odd=True), row=30),
        "batch_bf16": Seed("BF16", 50, (30, 0, 40), Grouping((8, 40), rows=rows, given=SOME), row=1000),
        "batch_u8": Seed("U8", 300, (40, 50), Grouping(GAPPY, given=DISTANCES)),
        "strip_2_bf16": Seed("BF16", 5000, (30, 40, 0, 50), Grouping((8, 40), strip=2)),
        "strip_8_u8": Seed("U8", 300, (40, 30, 50), Grouping((12,), strip=8, odd=True)),
        "strip_32_f8": Seed("F8_E5M2", 2000, (60, 0, 0, 60), Grouping((16,), columns=columns, strip=32), row=512),
        "refers_bf16": Seed("BF16", 200, (20,), refers, of=Grouping((8, 40), given=False)),
        "refers_u8": Seed("U8", 300, (40, 30), refers._replace(rarer=-5), of=Grouping((12,), given=False)),
        "refers_masks": Seed("BF16", 200, (40,), refers._replace(columns=columns, rows=rows, sign=100), row=20,
                             of=Grouping((8,), rows=rows, given=DISTANCES)),
        "refers_gap_weights": Seed("BF16", 3000, (60,), refers, of=Grouping((8,))),
        "refers_unused": Seed("U16", 300, (20,), refers, of=Grouping((62, 63, 126), given=False)),
        "refers_more_buckets": Seed("F32", 200, (30,), refers._replace(rarer=9, odd=True),
                                    of=Grouping((8, 40), given=SOME)),
        "skips_bf16": Seed("BF16", 3000, (20,), Grouping((8, 40), given=False, skips=2), row=50),
        "skips_masks": Seed("F32", 500, (9,), Grouping((40,), columns=columns, rows=rows, sign=90, skips=0), row=10),
        "skips_batch": Seed("U8", 3000, (30, 0, 20), Grouping((12,), given=SOME, skips=0), row=1000),
        "skips_strip_4": Seed("F8_E4M3", 700, (20, 40, 9), Grouping((16, 60), strip=4, odd=True, skips=1), row=700),
        "refers_skips": Seed("BF16", 900, (20,), refers._replace(skips=1), row=30, of=Grouping((8,), skips=3)),
        "refers_strip_2": Seed("U8", 300, (40, 0, 0, 30), refers._replace(strip=2), of=Grouping((12,), given=SOME)),
    }


def group_base(size):
    state, base = 1, bytearray()
    for _ in range(size):
        state = (state * 1664525 + 1013904223) % (1 << 32)
        base.append((state >> 24) & (state >> 16) & 255)
    return bytes(base)


def group_input(name, seed):
    """The bytes of an input, once it is known that they make the result."""
    rng, width, floating = random.Random(f"group {name}"), width_of(seed.dtype), seed.dtype in FLOATING
    blocks = [BLOCK_ELEMENTS] * (len(seed.changes) - 1) + [seed.last]
    counts, base = strip_counts(FIRST_BLOCK, blocks, seed.grouping.strip), group_base(sum(blocks) * width)
    shape = Shape(width, seed.row, FIRST_BLOCK, counts, seed.grouping.strip)

    def made(grouping, reference=None):
        result, strips, at = few_changes(rng, base, seed.dtype, seed.changes), [], 0
        for count in counts:
            old, new = (side[at:at + count * width] for side in (base, result))
            strips.append((old, new, b"" if old == new else None))
            at += count * width
        grouping = grouping._replace(strip=seed.grouping.strip, batch=len(strips))
        return strips, *make_group(strips, FIRST_BLOCK * BLOCK_ELEMENTS, seed.row, width, floating, grouping, reference)

    reference, of_reference = None, b""
    if seed.of:
        _, of_reference, _ = made(seed.of)
        of_reference += bytes(-len(of_reference) % 4)
        reference = Referable(of_reference, shape, "reference")
    strips, parameters, coded = made(seed.grouping, reference and reference.parameters(width))
    decoded = read_group(parameters, coded, shape, name, len(strips), reference)
    for (old, new, _), strip in zip(strips, decoded):
        if (strip.applied(old, floating)[0] if strip else old) != new:
            sys.exit(f"{name}: the group does not make the result")
    head = BitWriter()
    for number, bits in ((width.bit_length() - 1, 2), (floating, 1), (seed.row, 13), (seed.last - 1, 16),
                         (len(parameters), 14), (len(blocks) - 1, 2), (seed.grouping.strip.bit_length() - 1, 3),
                         (len(of_reference) // 4, 5)):
        head.put(number, bits)
    return head.bytes() + of_reference + parameters + b"".join(coded)


def _file(tensors):
    """A file of names, dtypes, shapes and contents, with the header that the base has in C++."""
    header, at = {}, 0
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(content for *_, content in tensors)


def delta_seeds(rng):
    """For each seed the contents of its bases, its result and what make_delta is told."""
    content = bytes((number * 2654435761 >> 24) & 255 for number in range(70240))
    old = [("a", "BF16", [60], content[:120]), ("b", "F32", [30], content[120:240]),
           ("c", "I8", [70000], content[240:])]

    def changed(*counts):
        """The same with so many changes in each block."""
        return [(name, dtype, shape, few_changes(rng, before, dtype, of_blocks))
                for (name, dtype, shape, before), of_blocks in zip(old, counts)]

    few, many = changed([10], [9], [8, 6]), changed([0], [0], [300, 20])
    matrix = ("c", "I8", [350, 200], many[2][3])
    added = ("d", "F16", [5], random_tensor(rng, "F16", [5]))
    alone = _file([(*about, random_tensor(rng, *about[1:])) for *about, _ in old[:2]])
    # Elements that begin with the same bits, of which the highest is set.
    high = _file([(name, dtype, shape, bytes(rng.getrandbits(8) if (at + 1) % width_of(dtype) else rng.choice((64, 65))
                                             for at in range(120))) for name, dtype, shape, _ in old[:2]])
    base, classes = [_file(old)], Grouping((60, 130, 200), given=SOME)
    masked = classes._replace(columns=rng.getrandbits(200), rows=rng.getrandbits(350), sign=30, batch=2)
    return {
        "afresh": ([], alone, {"mode": AFRESH, "framed": True, "bundle": 2}),
        "afresh_high_bytes": ([], high, {"mode": AFRESH, "bundle": 2}),
        "bundle": (base, _file(few), {"framed": True, "bundle": 3}),
        "dense": (base, _file(changed([40], [0], [0])), {"mode": DENSE}),
        "from-nothing": ([], alone, {"mode": WHOLE}),
        "in-place": (base, _file(few), {}),
        # Without a base, for the target's is no opaque file.
        "opaque": ([], few_changes(rng, bytes(300001), "BF16", (40, 50, 60)),
                   {"mode": CLASSED, "opaque": "BF16", "grouping": Grouping(blocks=3, strip=2, batch=2)}),
        "other-header": (base, _file([few[0], few[2], added]), {}),
        "parameters": (base, _file([old[0], old[1], matrix]),
                       {"mode": CLASSED, "sources": {"c": [0, "c"]}, "grouping": masked}),
        "references": (base, _file(changed([20], [0], [40, 30])),
                       {"mode": CLASSED, "bundle": 2, "grouping": [classes, Grouping(back=1, rarer=20, strip=2)]}),
        "skipped-rows": (base, _file([old[0], old[1], matrix]),
                         {"mode": CLASSED, "sources": {"c": [0, "c"]}, "grouping": classes._replace(skips=1, strip=2)}),
        "strips": (base, _file(many), {"mode": CLASSED, "grouping": classes._replace(strip=4)}),
        "unchanged": (base, base[0], {}),
    }


def shortened(group, last):
    """An input with fewer elements, so that changes lie behind the last: refused, but for all engines to look for."""
    return group[:2] + (last - 1).to_bytes(2, "little") + group[4:]


def delta_input(name, base, result, choices):
    delta = make_delta([("base.safetensors", content) for content in base], result, **choices)
    if Delta(delta).apply(base).content != result:
        sys.exit(f"{name}: the delta does not make the result")
    return delta


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_seeds.py OUT")
    rng = random.Random("seeds")
    inputs = {"group": {name: group_input(name, seed) for name, seed in group_seeds(rng).items()},
              "delta": {name: delta_input(name, *seed) for name, seed in delta_seeds(rng).items()}}
    inputs["group"]["changes_behind_the_end"] = shortened(inputs["group"]["bf16_some_weights"], 64)
    inputs["group"]["changes_in_the_last_class"] = shortened(inputs["group"]["u16_sixteen_classes"], 130)
    for target, named in inputs.items():
        folder = Path(sys.argv[1], target)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in named.items():
            (folder / name).write_bytes(content)
            print(f"{target}/{name}: {len(content)} bytes")


if __name__ == "__main__":
    main()
