# SPDX-License-Identifier: Apache-2.0
"""Classed blocks, made by hand and by the binary."""

from math import prod

from afresh import AFRESH
from agreement import Agreement
from broken_classes import broken_classes, right_classes
from broken_groups import broken_groups, right
from elements import BITS, BLOCK_ELEMENTS, FLOATING, stepped, width_of
from groupings import DTYPES, batched, few_changes, groupings, striped
from make_delta import DENSE, SPARSE, WHOLE, make_delta
from make_group import CLASSED
from random_checkpoint import bytes_of, perturbed, random_tensor, write_safetensors


class Classed(Agreement):
    def check(self, base, result, **choices):
        self.applied_by_the_binary(base, make_delta([("m.safetensors", base)], result, mode=CLASSED, **choices), result)

    def test_every_dtype_and_number_of_coders(self):
        # Changes for one, two, four and eight coders.
        for density in (0.1, 0.3, 0.6, 1.0):
            old = []
            for dtype in DTYPES:
                for shape in ([640], [40, 16], [2, 8, 40], [1, 640]):
                    old.append((f"{dtype} {shape}", dtype, shape, random_tensor(self.rng, dtype, shape)))
            new = [(*tensor, perturbed(self.rng, content, tensor[1], density)) for *tensor, content in old]
            for number, grouping in enumerate(groupings(self.rng)):
                with self.subTest(density=density, grouping=number):
                    self.check(write_safetensors(old), write_safetensors(new), grouping=grouping)

    def test_extreme_steps(self):
        old_tensors, new_tensors = [], []
        for dtype in DTYPES:
            bits, top = 8 * width_of(dtype), (1 << 8 * width_of(dtype)) - 1
            half = 1 << (bits - 1)
            pairs = [(start, stepped(start, step, bits, dtype in FLOATING))
                     for start in (0, 1, half - 1, half, half + 1, top)
                     for step in (0, 1, 2, 5, 6, 7, 8, 254, 255, 65535, half - 1, half, top - 1, top) if step <= top]
            pairs += [(0, 0)] * (-len(pairs) % 24)
            for side, tensors in zip(zip(*pairs), (old_tensors, new_tensors)):
                content = bytes_of(side, bits // 8)
                tensors.append((dtype, dtype, [len(content) * 8 // BITS[dtype]], content))
        for grouping in groupings(self.rng):
            self.check(write_safetensors(old_tensors), write_safetensors(new_tensors), grouping=grouping)

    def test_blocks_of_every_sort(self):
        modes = CLASSED, SPARSE, CLASSED, DENSE, WHOLE, CLASSED
        for dtype, shape in (("I8", [5 * BLOCK_ELEMENTS + 100]), ("BF16", [5 * BLOCK_ELEMENTS // 640 + 1, 640])):
            width, count = width_of(dtype), prod(shape)
            old = self.rng.randbytes(width * count)
            new = bytearray(old)
            for element in self.rng.sample(range(count), count // 50):
                new[element * width] ^= 1 + element % 3
            # A block without changes, and one whose only change is its last element.
            for block, last in ((1, 0), (2, 1)):
                begin, end = (at * BLOCK_ELEMENTS * width for at in (block, block + 1))
                new[begin:end] = old[begin:end]
                new[end - width] ^= last
            sides = [write_safetensors([("w", dtype, shape, bytes(side))]) for side in (old, new)]
            for number, grouping in enumerate(groupings(self.rng)):
                with self.subTest(dtype=dtype, grouping=number):
                    self.check(*sides, grouping=grouping, mode_of=lambda name, block: modes[block])

    def test_batches_of_every_dtype_and_number_of_coders(self):
        # Changes of two or three blocks for one, two, four and eight coders.
        turns = (50, 40, 20), (70, 90, 30), (200, 190, 0), (600, 0, 20)
        for number, grouping in enumerate(batched(self.rng)):
            old, new = [], []
            # Each dtype has batches of each size.
            for place, dtype in enumerate(DTYPES[number % 2::2]):
                shape = ([BLOCK_ELEMENTS + 512], [257, 512], [1, 129, 2, 256])[place % 3]
                content = self.rng.randbytes(prod(shape) * BITS[dtype] // 8)
                old.append((dtype, dtype, shape, content))
                new.append((*old[-1][:3], few_changes(self.rng, content, dtype, turns[(number // 2 + place) % 4])))
            with self.subTest(grouping=number):
                self.check(write_safetensors(old), write_safetensors(new), grouping=grouping)

    def test_groups_of_which_some_are_in_batches(self):
        # One in batches, one with blocks of two modes, one without parameters.
        modes = CLASSED, CLASSED, SPARSE, CLASSED, AFRESH
        for turn, (dtype, shape) in enumerate((("U8", [4 * BLOCK_ELEMENTS + 100]),
                                               ("BF16", [4 * BLOCK_ELEMENTS // 640 + 1, 640]))):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            new = few_changes(self.rng, old, dtype, (90, 60, 50, 700, 4))
            sides = [write_safetensors([("w", dtype, shape, side)]) for side in (old, new)]
            for number, grouping in enumerate(batched(self.rng)[turn::2]):
                with self.subTest(dtype=dtype, grouping=number):
                    self.check(*sides, grouping=grouping._replace(blocks=2), mode_of=lambda name, block: modes[block])

    def test_what_the_binary_makes_of_matrices(self):
        for dtype in ("BF16", "F32", "F8_E4M3", "F16", "I16"):
            width = width_of(dtype)
            for columns in (2, 3, 64, 65, 500):
                rows = 12000 // columns
                old = random_tensor(self.rng, dtype, [rows * columns])
                ways, new = [self.rng.getrandbits(1) for _ in range(rows + columns)], bytearray(old)
                for element in range(rows * columns):
                    if self.rng.random() < 0.6:
                        row, column = divmod(element, columns)
                        at = slice(element * width, (element + 1) * width)
                        step = 2 - (ways[row] ^ ways[rows + column] ^ (self.rng.random() < 0.05))
                        new[at] = stepped(int.from_bytes(old[at], "little"), step, 8 * width,
                                          dtype in FLOATING).to_bytes(width, "little")
                with self.subTest(dtype=dtype, columns=columns):
                    sides = (write_safetensors([("w", dtype, [rows, columns], bytes(side))]) for side in (old, new))
                    self.decoded_from_the_binary(*sides)

    def test_rules_under_good_digests(self):
        for base, delta, result in right() + right_classes():
            self.applied_by_the_binary(base, delta, result)
        for what, _, base, delta in broken_groups() + broken_classes():
            self.refused_by_the_binary(what, base, delta)

    def test_any_bit_may_flip(self):
        cases = []
        for number, grouping in enumerate(groupings(self.rng)):
            dtype, shape = (("BF16", [9, 8]), ("F32", [90]), ("I8", [7, 11]))[number % 3]
            old = random_tensor(self.rng, dtype, shape)
            cases.append((dtype, shape, old, perturbed(self.rng, old, dtype, 0.2), grouping))
        shape, old = [66, 1000], self.rng.randbytes(66000)
        for grouping in (batched(self.rng)[1], batched(self.rng)[-2], striped(self.rng)[1], striped(self.rng)[5],
                         striped(self.rng)[-2]):
            cases.append(("I8", shape, old, few_changes(self.rng, old, "I8", (20, 30)), grouping))
        taken = refused = 0
        for dtype, shape, old, new, grouping in cases:
            base, result = (write_safetensors([("w", dtype, shape, side)]) for side in (old, new))
            delta = make_delta([("m.safetensors", base)], result, mode=CLASSED, grouping=grouping)
            for verdict in self.damaged(base, delta):
                taken, refused = taken + (verdict is None), refused + (verdict is not None)
        self.assertTrue(taken and refused)
