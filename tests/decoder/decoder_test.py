#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Laws of the plain Python decoder, held against hand-made deltas: no binary is needed."""

import json
import os
import random
import sys
import tempfile
import unittest
from itertools import product
from math import prod
from pathlib import Path

sys.dont_write_bytecode = True

import refusal
from afresh import AFRESH
from bits import BitReader, BitWriter
from blake3 import blake3, keyed_blake3, plain_blake3
from broken import broken_afresh, broken_blocks, broken_bundles, broken_metadata, broken_opaque, harmless, one
from broken_classes import broken_classes, right_classes
from broken_groups import PLAIN, broken_groups, parameters, right
from broken_references import broken_references, right_references
from broken_skips import broken_skips, right_skips
from broken_strips import broken_strips, right_strips
from delta import Delta
from elements import BITS, BLOCK_ELEMENTS, FLOATING, stepped, width_of
from frequencies import frequencies, probability_weights, step_weights, weight_of
from group import Group, Referable, Shape, strip_counts
from groupings import DTYPES, batched, few_changes, groupings, referring, skipping, striped
from make_delta import DENSE, SPARSE, WHOLE, make_delta, make_listing, reseal, steps_between
from make_group import CLASSED, Grouping, make_group, put_classes, skip_numbers
from random_checkpoint import bytes_of, perturbed, random_tensor, some_rows_perturbed, write_safetensors
from read_group import read_group
from refusal import Refused
from skips import row_parts
from wdelta_decode import decode

SEED = int(os.environ.get("WDELTA_SEED", "20260301"))
VECTORS = Path(__file__).parents[2] / "testdata" / "blake3" / "test_vectors.json"
MODES = (SPARSE, DENSE, WHOLE, AFRESH)


def small_pair(rng):
    """A pair with a change in each of sparse places, a new header and a tensor afresh, and its delta below 2 KB."""
    old = random_tensor(rng, "BF16", [300])
    tensors = [("a", "BF16", [300], old), ("b", "I8", [16], bytes(range(16)))]
    base = write_safetensors(tensors)
    next_tensors = [("a", "BF16", [300], perturbed(rng, old, "BF16", 0.05)), ("b", "I8", [4, 4], bytes(range(1, 17)))]
    result = write_safetensors(next_tensors, {"step": "2"})
    delta = make_delta([("m.safetensors", base)], result, framed=True)
    return base, result, delta


class Blake3(unittest.TestCase):
    def test_vectors(self):
        for case in json.loads(VECTORS.read_text())["cases"]:
            content = bytes(i % 251 for i in range(case["input_len"]))
            self.assertEqual(plain_blake3(content), case["hash"][:64], case["input_len"])

    def test_keyed_vectors(self):
        vectors = json.loads(VECTORS.read_text())
        for case in vectors["cases"]:
            content = bytes(i % 251 for i in range(case["input_len"]))
            digest = keyed_blake3(vectors["key"].encode(), content).hex()
            self.assertEqual(digest, case["keyed_hash"][:64], case["input_len"])

    def test_both_ways_agree_where_the_rule_changes(self):
        content = random.Random(SEED).randbytes((1 << 20) + 1)
        for length in ((1 << 20) - 1, 1 << 20, (1 << 20) + 1):
            self.assertEqual(blake3(content[:length]), plain_blake3(content[:length]))


class Steps(unittest.TestCase):
    def test_the_page_s_examples(self):
        self.assertEqual(steps_between([5] * 4, [5, 4, 6, 3], 2, False), [0, 1, 2, 3])
        # Minus zero is next below zero, the smallest negative number next below that.
        self.assertEqual(steps_between([0, 0, 0x8000], [0x8000, 0x8001, 1], 2, True), [1, 3, 4])

    def test_all_steps_between_all_bytes_lead_back(self):
        for floating in (False, True):
            for old in range(256):
                steps = steps_between([old] * 256, range(256), 1, floating)
                self.assertEqual(sorted(steps), list(range(256)))
                self.assertEqual([stepped(old, step, 8, floating) for step in steps], list(range(256)))


def frequencies_of(gap_weights, distance_weights, sign):
    return frequencies(gap_weights), frequencies(step_weights(distance_weights, sign))


class StringsOfBits(unittest.TestCase):
    def test_numbers_of_every_order_come_back_and_cut_ones_are_refused(self):
        for code, order, before in product(("golomb", "shorter"), (0, 1, 7, 30, 100), range(8)):
            for number in {0, 1, 6, 7, (1 << order) - 1, 1 << order, (8 << order) - 1, 8 << order, (1 << order + 32) - 1}:
                with self.subTest(code=code, order=order, before=before, number=number):
                    bits = BitWriter()
                    bits.put(0, before)
                    getattr(bits, code)(number, order)
                    whole, cut = BitReader(bits.bytes(), "a number"), BitReader(bits.bytes()[:-1], "a number")
                    whole.take(before)
                    self.assertEqual(getattr(whole, code)(order), number)
                    whole.finish()
                    with self.assertRaisesRegex(Refused, "cut"):
                        cut.take(before)
                        getattr(cut, code)(order)

    def test_no_number_has_more_zeros_before_it(self):
        for zeros in (32, 33):
            bits = BitWriter()
            bits.put(1 << zeros, zeros + 1)
            bits.put(5, zeros)
            reader = BitReader(bits.bytes(), "a number")
            if zeros == 32:
                self.assertEqual(reader.golomb(0), (1 << 32 | 5) - 1)
            else:
                self.assertRaisesRegex(Refused, "more than 32 zero bits", reader.golomb, 0)


class NumbersReckonedByHand(unittest.TestCase):
    def test_classes(self):
        bits = BitWriter()

        def differences(order, *numbers):
            """As the page numbers differences."""
            for number in numbers:
                bits.golomb(number, order)

        # A column mask; four classes, bounds of 100, 120 and 121.
        for number, width in ((1, 3), (3, 4), (100, 8)):
            bits.put(number, width)
        differences(0, 19, 0)
        # The first class: three gap weights, which are 63, 60 and 61; four distance buckets of 20; a sign of 100.
        bits.put(3, 2)
        differences(2, 4, 0, 5, 2)
        differences(0, 6)
        bits.put(0, 1)
        differences(3, 40, 55)
        # One that is not used; gaps of 40, of which ten buckets are one less than expected; two of 6; a sign of 101.
        bits.put(0, 1)
        bits.put(1, 2)
        differences(3, 80)
        differences(0, 1, 0)
        bits.put(0, 1)
        differences(3, 4, 2)
        # One that is as expected: gaps of 56, 13 buckets, no more than one of distances, a sign of 101.
        bits.put(1, 2)
        differences(3, 0)
        differences(0, 0, 0)
        differences(3, 0)
        # 3, 2 and 2 changes; no column's bit.
        bits.put(1, 1)
        differences(6, 6, 1, 0)
        bits.put(0, 8)
        group = Group(bits.bytes(), Shape(2, 5, 0, [10]), "group")
        self.assertEqual((group.bounds, group.counts), ([100, 120, 121], [[3, 0, 2, 2]]))
        told = (([weight_of(code) for code in (63, 60, 61)], probability_weights(20 ^ 15, 4), 100), None,
                (probability_weights(40 ^ 15, 10), probability_weights(6 ^ 15, 2), 101),
                (probability_weights(56 ^ 15, 13), [1], 101))
        self.assertEqual([one and (one.gaps.frequency, one.steps.frequency) for one in group.classes],
                         [one and frequencies_of(*one) for one in told])

    def test_a_reference(self):
        bits = BitWriter()

        def put(*pairs):
            for number, width in pairs:
                bits.put(number, width)

        def golomb(*pairs):
            for number, order in pairs:
                bits.golomb(number, order)

        # No masks; four classes, bounds of 10, 20 and 30, the first class not used.
        put((0, 3), (3, 4), (10, 8))
        golomb((9, 0), (9, 0))
        put((0, 1))
        # Gaps of 40, 11 buckets as usual; four distance buckets, weights of 63, 0, 0 and 5.
        put((1, 1), (0, 1))
        golomb((80, 3), (0, 0), (6, 0))
        put((1, 1))
        golomb((0, 2), (125, 2), (0, 2), (10, 2))
        # A class that is not used; gaps of 64, three buckets less than usual; three distance buckets of 20.
        put((0, 1), (1, 1), (0, 1))
        golomb((16, 3), (5, 0), (2, 0))
        put((0, 1))
        golomb((40, 3))
        # 7 and 9 changes in the first strip, none in the second.
        put((1, 1))
        golomb((14, 6), (4, 6))
        put((0, 1))
        referable = Referable(bits.bytes(), Shape(2, 0, 0, [100, 50]), "reference")
        self.assertEqual(referable.parameters(2).weights(), [1, 8, 1, 10])

        bits = BitWriter()
        # A column mask; gap probabilities 50 less, two gap buckets more than usual, two distance buckets more than the
        # reference has, a sign of 100.
        put((1, 3))
        golomb((99, 2), (4, 0), (2, 0), (55, 3))
        # 9 changes: one where 0 are expected, 5 where 3 are, 0 where 0 are, the rest.
        put((1, 1))
        golomb((9, 6))
        put((4, 3), (4, 3), (0, 1), (1, 1))
        # 60 changes where 9 are expected: 2 where 9 are, 0 where 31 are, 0 where 11 are, the rest.
        put((1, 1), (0, 8))
        golomb((70, 2))
        put((8, 4), (1, 2), (128, 8), (5, 3), (32, 6), (1, 2))
        put((0x16, 8))
        group = Group(bits.bytes(), Shape(2, 5, 0, [10, 100]), "group", referable.parameters(2))
        self.assertEqual((group.bounds, group.counts), ([10, 20, 30], [[1, 5, 0, 3], [2, 0, 0, 58]]))
        like = (probability_weights(15, 8), [weight_of(code) for code in (63, 1, 1, 5, 1, 1)], 100)
        last = probability_weights(14 ^ 15, 9), probability_weights(20 ^ 15, 5), 100
        self.assertEqual([(one.gaps.frequency, one.steps.frequency) for one in group.classes],
                         [frequencies_of(*one) for one in (like, like, like, last)])
        self.assertEqual([group.turned(column) for column in range(5)], [0, 1, 1, 0, 1])

    def skipping_group(self, shape, *pairs):
        """One of a class and of a change in each strip, with a list of pairs of a number and its bits."""
        bits = BitWriter()
        bits.put(4, 3)
        put_classes(bits, (), (PLAIN,), False)
        # One change in the first strip; in each later one as many as expected, in order 1.
        bits.put(1, 1)
        bits.golomb(2, 6)
        for _ in shape.counts[1:]:
            bits.put(3, 3)
        for number, width in pairs:
            bits.put(number, width)
        return Group(bits.bytes(), shape, "group")

    def test_skipped_rows(self):
        # Rows 0, 1, 3 and 6 of seven: numbers of 2, 1, 0 and 1 in order 1.
        group = self.skipping_group(Shape(2, 3, 0, [21]), (1, 4), (2, 2), (0, 1), (1, 1), (1, 1), (1, 1), (0, 1),
                                    (1, 1), (1, 1))
        self.assertEqual(list(group.kept.places(0, 21)), [6, 7, 8, 12, 13, 14, 15, 16, 17])
        self.assertEqual(list(group.kept.places(7, 6)), [0, 1, 5])
        # 17 of 20: eight zero bits and 9 in the exponential Golomb code, which is 10 with three zero bits before it;
        # then twice 0.
        group = self.skipping_group(Shape(2, 2, 0, [40]), (0, 4), (0, 8), (8, 4), (2, 3), (1, 1), (1, 1))
        self.assertEqual(list(group.kept.places(0, 40)), list(range(34, 40)))
        # From block 1 on: 64 elements of row 655, 654 rows, 72 elements of row 1310 and 28 in block 2, a row and 72
        # elements of the last. Skipped are the 64 and both times the 72.
        group = self.skipping_group(Shape(1, 100, 1, [BLOCK_ELEMENTS, 200]), (0, 4), (2, 2), *[(1, 1)] * 653, (2, 2),
                                    (1, 1), (2, 2))
        self.assertEqual(list(group.kept.places(BLOCK_ELEMENTS, BLOCK_ELEMENTS)), list(range(64, BLOCK_ELEMENTS - 72)))
        self.assertEqual(list(group.kept.places(2 * BLOCK_ELEMENTS, 200)), list(range(128)))
        # The same blocks as one strip.
        group = self.skipping_group(Shape(1, 100, 1, [BLOCK_ELEMENTS + 200], 4), (0, 4), (2, 2), *[(1, 1)] * 653,
                                    (2, 2), (1, 1), (2, 2))
        self.assertEqual(list(group.kept.places(BLOCK_ELEMENTS, BLOCK_ELEMENTS + 200)),
                         [*range(64, BLOCK_ELEMENTS - 72), *range(BLOCK_ELEMENTS, BLOCK_ELEMENTS + 128)])

    def test_what_is_written_of_skipped_rows(self):
        self.assertEqual(skip_numbers([True, True, False, True, False, False, True]), [2, 1, 0, 1])
        self.assertEqual(skip_numbers([False, True, False, False]), [0, 1, 0])
        self.assertEqual(skip_numbers([True] * 9), [9])
        self.assertEqual(row_parts(0, 10, 4), [range(4), range(4, 8), range(8, 10)])
        self.assertEqual(row_parts(BLOCK_ELEMENTS, BLOCK_ELEMENTS + 70, 100),
                         [range(BLOCK_ELEMENTS, BLOCK_ELEMENTS + 64), range(BLOCK_ELEMENTS + 64, BLOCK_ELEMENTS + 70)])
        self.assertEqual(len(row_parts(0, 2 * BLOCK_ELEMENTS, 32)), 4096)
        self.assertEqual(len(row_parts(0, 2 * BLOCK_ELEMENTS, 40000)), 5)


class RoundTrips(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(SEED)

    def check(self, base, result, **choices):
        bases = [("m.safetensors", base)]
        delta = Delta(make_delta(bases, result, **choices))
        made = delta.apply([base])
        self.assertEqual(made.content, result)
        self.assertEqual(str(made.elements), delta.metadata["elements"])
        self.assertEqual(str(made.changed), delta.metadata["changed"])
        return delta

    def test_every_dtype_mode_and_density(self):
        for dtype in BITS:
            old = random_tensor(self.rng, dtype, [600])
            for density in (0.0, 0.02, 0.4, 1.0):
                new = perturbed(self.rng, old, dtype, density)
                for mode in MODES:
                    for framed in (False, True):
                        with self.subTest(dtype=dtype, density=density, mode=mode, framed=framed):
                            self.check(one(dtype, old), one(dtype, new), mode=mode, framed=framed)

    def test_extreme_steps(self):
        for dtype in BITS:
            width = width_of(dtype)
            bits = 8 * width
            top = (1 << bits) - 1
            steps = [s for s in (1, 2, 253, 254, 255, 256, 257, 258, 65535, 65536, top - 1, top) if s <= top]
            starts = (0, 1, 1 << (bits - 1), (1 << (bits - 1)) + 1, (1 << (bits - 1)) - 1, top)
            pairs = [(start, stepped(start, step, bits, dtype in FLOATING)) for start in starts for step in steps]
            old, new = zip(*pairs)
            self.assertEqual(steps_between(old, new, width, dtype in FLOATING), steps * len(starts))
            pad = [0] * 6
            base, result = (one(dtype, bytes_of(list(side) + pad, width)) for side in (old, new))
            for mode in MODES:
                with self.subTest(dtype=dtype, mode=mode):
                    self.check(base, result, mode=mode)

    def test_gaps(self):
        for gaps in ([254], [255], [256], [BLOCK_ELEMENTS - 1], [0, 254, 255, 256, 0, 255, 1000], [255, 65279]):
            old = bytearray(BLOCK_ELEMENTS + 5)
            new, place = bytearray(old), -1
            for gap in gaps:
                place += gap + 1
                new[place] = 7
            new[-1] = 1
            with self.subTest(gaps=gaps):
                self.check(one("U8", bytes(old)), one("U8", bytes(new)))

    def test_blocks_of_all_modes_in_one_tensor(self):
        old = self.rng.randbytes(2 * (5 * BLOCK_ELEMENTS + 77))
        new = bytearray(old)
        for at in range(2, len(new), 4001):
            new[at] ^= 3
        new[2 * BLOCK_ELEMENTS:4 * BLOCK_ELEMENTS] = old[2 * BLOCK_ELEMENTS:4 * BLOCK_ELEMENTS]
        self.check(one("BF16", old), one("BF16", bytes(new)), framed=True,
                   mode_of=lambda name, block: MODES[block % 4])

    def test_classed_blocks_of_every_sort(self):
        for dtype in DTYPES:
            for shape, density in (([640], 0.1), ([40, 16], 0.3), ([2, 8, 40], 0.6), ([640], 1.0)):
                old = random_tensor(self.rng, dtype, shape)
                new = perturbed(self.rng, old, dtype, density)
                sides = [write_safetensors([("w", dtype, shape, side)]) for side in (old, new)]
                for number, grouping in enumerate(groupings(self.rng)):
                    with self.subTest(dtype=dtype, density=density, grouping=number):
                        self.check(*sides, mode=CLASSED, grouping=grouping)

    def test_groups_of_several_blocks(self):
        count = 3 * BLOCK_ELEMENTS + 77
        old = self.rng.randbytes(2 * count)
        new = bytearray(old)
        for at in range(2, len(new), 998):
            new[at] ^= 3
        new[2 * BLOCK_ELEMENTS:4 * BLOCK_ELEMENTS] = old[2 * BLOCK_ELEMENTS:4 * BLOCK_ELEMENTS]
        for number, grouping in enumerate(groupings(self.rng) + batched(self.rng)[:1] + striped(self.rng)[:1]):
            with self.subTest(grouping=number):
                self.check(one("BF16", old), one("BF16", bytes(new)), grouping=grouping,
                           mode_of=lambda name, block: (CLASSED, SPARSE, SPARSE, CLASSED)[block])

    def test_batches(self):
        # Changes for one, two, four and eight coders.
        for dtype, shape, counts in (("BF16", [2, 75, 900], (300, 500, 20)), ("F32", [140, 500], (200, 210)),
                                     ("I8", [2 * BLOCK_ELEMENTS + 90], (90, 0, 60))):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            sides = [write_safetensors([("w", dtype, shape, side)])
                     for side in (old, few_changes(self.rng, old, dtype, counts))]
            for number, grouping in enumerate(batched(self.rng)):
                with self.subTest(dtype=dtype, grouping=number):
                    self.check(*sides, mode=CLASSED, grouping=grouping)

    def test_strips(self):
        # Changes for one, two, four and eight coders; the last strip of the first is one block, or two.
        for dtype, shape, counts in (("U8", [12 * BLOCK_ELEMENTS + 9], (40, 0, 30, 2, 2, 9, 0, 0, 0, 50, 2, 9, 9)),
                                     ("BF16", [2, 110, 900], (300, 500, 20, 90)), ("F32", [140, 500], (200, 210))):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            sides = [write_safetensors([("w", dtype, shape, side)])
                     for side in (old, few_changes(self.rng, old, dtype, counts))]
            for number, grouping in enumerate(striped(self.rng)):
                with self.subTest(dtype=dtype, grouping=number):
                    self.check(*sides, mode=CLASSED, grouping=grouping)

    def test_large_strips(self):
        shape = [34 * BLOCK_ELEMENTS + 9]
        old = self.rng.randbytes(shape[0])
        sides = [write_safetensors([("w", "I8", shape, side)])
                 for side in (old, few_changes(self.rng, old, "I8", [9, 0, 30] * 12))]
        for grouping in (Grouping(bounds=(120,), strip=16, blocks=20, batch=2), Grouping(strip=32, blocks=64),
                         [Grouping(given=False, strip=32, blocks=33), Grouping(back=1, strip=16, blocks=2)]):
            with self.subTest(grouping=grouping):
                self.check(*sides, mode=CLASSED, grouping=grouping)

    def test_references(self):
        for density in (0.1, 0.4):
            tensors = []
            for dtype in DTYPES:
                for shape in ([640], [40, 16], [2, 8, 40], [1, 640]):
                    content = random_tensor(self.rng, dtype, shape)
                    new = perturbed(self.rng, content, dtype, self.rng.random() * 2 * density)
                    tensors.append((f"{dtype} {shape}", dtype, shape, (content, new)))
            self.rng.shuffle(tensors)
            base, result = (write_safetensors([(*about, pair[side]) for *about, pair in tensors]) for side in (0, 1))
            for number, groups in enumerate(referring(self.rng)):
                bundle = self.rng.choice((1, 2, 5, 99))
                with self.subTest(density=density, grouping=number, bundle=bundle):
                    opened = self.check(base, result, mode=CLASSED, grouping=groups, bundle=bundle)
                    wanted = {group.back for group in groups} - {0}
                    self.assertLessEqual(wanted, {group.back for group in opened.groups})

    def test_references_within_tensors_of_several_blocks(self):
        for dtype, shape in (("BF16", [4 * BLOCK_ELEMENTS // 900 + 1, 900]), ("U8", [9 * BLOCK_ELEMENTS + 77])):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            sides = [write_safetensors([("w", dtype, shape, side)])
                     for side in (old, few_changes(self.rng, old, dtype, (300, 500, 30, 90, 2000, 0, 60, 40, 9, 9)))]
            for number, groups in enumerate(referring(self.rng)):
                with self.subTest(dtype=dtype, grouping=number):
                    self.assertTrue(any(group.back for group in self.check(*sides, mode=CLASSED,
                                                                           grouping=groups).groups))

    def test_groups_without_parameters_between(self):
        old = self.rng.randbytes(6 * BLOCK_ELEMENTS)
        sides = [one("U8", side) for side in (old, few_changes(self.rng, old, "U8", [50] * 6))]
        modes = CLASSED, SPARSE, AFRESH, CLASSED, DENSE, CLASSED
        opened = self.check(*sides, mode_of=lambda name, block: modes[block],
                            grouping=[Grouping(given=False, blocks=1), Grouping(back=1, blocks=1)])
        self.assertEqual([group.back for group in opened.groups], [0, 1, 1])

    def test_skipped_rows(self):
        # Rows that blocks do not end with, rows of two blocks each, and rows that blocks do end with.
        for dtype, shape in (("BF16", [700, 100]), ("U8", [5, 40000]), ("F32", [2, 65, 512])):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            sides = [write_safetensors([("w", dtype, shape, side)])
                     for side in (old, some_rows_perturbed(self.rng, old, dtype, shape[-1], (0.2, 0.4)))]
            for number, grouping in enumerate(skipping(self.rng)):
                with self.subTest(dtype=dtype, grouping=number):
                    opened = self.check(*sides, mode=CLASSED, grouping=grouping)
                    self.assertTrue(any(group.skips for group in opened.groups))

    def test_blocks_of_which_all_is_skipped(self):
        shape = [2000, 100]
        old = self.rng.randbytes(prod(shape))
        # A whole row, and one element alone.
        new = bytearray(old)
        for place in (*range(120000, 120100), 180000):
            new[place] ^= 1
        sides = [write_safetensors([("w", "U8", shape, bytes(side))]) for side in (old, new)]
        for number, grouping in enumerate(skipping(self.rng)):
            with self.subTest(grouping=number):
                self.check(*sides, mode=CLASSED, grouping=grouping)

    def test_rows_are_skipped_only_where_there_are_some_without_changes(self):
        for shape, density, skips in (([40, 16], 1.0, False), ([640], 0.05, False), ([640, 1], 0.05, False),
                                      ([40, 16], 0.02, True), ([8, 5, 16], 0.02, True)):
            old = random_tensor(self.rng, "BF16", shape)
            sides = [write_safetensors([("w", "BF16", shape, side)])
                     for side in (old, perturbed(self.rng, old, "BF16", density))]
            with self.subTest(shape=shape, density=density):
                opened = self.check(*sides, mode=CLASSED, grouping=Grouping(skips=0))
                self.assertEqual([group.skips for group in opened.groups], [skips])

    def test_bundles(self):
        tensors = [(f"ü{number}", dtype, [30], random_tensor(self.rng, dtype, [30]))
                   for number, dtype in enumerate(("BF16", "F64", "U8", "F32", "I8"))]
        new = [(*about, perturbed(self.rng, content, about[1], 0.5)) for *about, content in tensors]
        new[2] = tensors[2]
        for bundle in (2, 3, 99):
            for mode in MODES:
                opened = self.check(write_safetensors(tensors), write_safetensors(new), mode=mode, bundle=bundle)
                self.assertEqual(len(opened.entries), -(-4 // bundle))

    def test_strips_are_blocks_that_the_tensor_counts(self):
        self.assertEqual(strip_counts(0, [9, 9, 9, 4], 2), [18, 13])
        self.assertEqual(strip_counts(3, [9, 9, 9, 4], 2), [9, 18, 4])
        self.assertEqual(strip_counts(6, [9, 9, 9, 4], 8), [18, 13])
        self.assertEqual(strip_counts(5, [9, 4], 1), [9, 4])
        self.assertEqual(strip_counts(5, [9, 4], 8), [13])

    def test_sources_in_other_files_and_afresh(self):
        rows = [random_tensor(self.rng, "F32", [40]) for _ in range(3)]
        first = write_safetensors([("a", "F32", [40], rows[0]), ("gone", "F32", [40], rows[1])])
        second = write_safetensors([("x", "F32", [40], rows[2]), ("empty", "F32", [0], b"")])
        result = write_safetensors([
            ("a", "F32", [40], rows[0]), ("moved", "F32", [40], rows[2]), ("empty", "F32", [0], b""),
            ("nudged", "F32", [40], perturbed(self.rng, rows[1], "F32", 0.3)),
            ("new", "F32", [2, 20], rows[1]), ("zero", "I64", [9], bytes(72)), ("none", "BF16", [3, 0], b"")],
            {"format": "pt"}, padding=13)
        bases = [("1.safetensors", first), ("2.safetensors", second)]
        sources = {"moved": [1, "x"], "empty": [1, "empty"], "nudged": [0, "gone"]}
        for mode in MODES:
            delta = Delta(make_delta(bases, result, mode=mode, sources=sources))
            self.assertEqual(set(delta.entries), {"nudged", "new", "zero", "none"})
            self.assertEqual(delta.apply([first, second]).content, result)

    def test_no_base_at_all(self):
        result = one("F16", random_tensor(self.rng, "F16", [100]))
        self.assertEqual(Delta(make_delta([], result)).apply([]).content, result)

    def test_files_that_are_no_safetensors_files(self):
        old = random_tensor(self.rng, "F32", [500])
        for dtype in BITS:
            new = perturbed(self.rng, old, dtype, 0.1)
            for size in (0, 1, 2, 3, 7, 8, 9, 1999, 2000):
                for base in (None, b"", old[:5], old[:size], old, old + b"more"):
                    bases = [] if base is None else [("a.bin", base)]
                    with self.subTest(dtype=dtype, size=size, base=None if base is None else len(base)):
                        content = make_delta(bases, new[:size], mode=self.rng.choice(MODES), opaque=dtype)
                        delta = Delta(content)
                        made = delta.apply([content for _, content in bases])
                        self.assertEqual(made.content, new[:size])
                        self.assertEqual(made.elements, size // width_of(dtype) + size % width_of(dtype))
                        self.assertEqual(str(made.changed), delta.metadata["changed"])
                        self.assertEqual(delta.metadata["opaque"], dtype)

    def test_names_that_clash_with_the_entries_of_the_format(self):
        old = write_safetensors([(name, "U8", [4], bytes(4)) for name in ("index", "header", "index_")])
        new = write_safetensors([(name, "U8", [4], b"\0\1\2\3") for name in ("index", "header", "index_")], {"a": "b"})
        self.check(old, new)

    def test_chains_and_directories(self):
        with tempfile.TemporaryDirectory() as root:
            root = Path(root)
            files = [one("BF16", self.rng.randbytes(64)) for _ in range(3)]
            Path(root, "base").write_bytes(files[0])
            for number in (1, 2):
                Path(root, f"d{number}").write_bytes(make_delta([("base", files[number - 1])], files[number]))
            decode(root / "base", [root / "d1", root / "d2"], root / "out")
            self.assertEqual((root / "out").read_bytes(), files[2])

            old, new = root / "old", root / "delta"
            (old / "sub").mkdir(parents=True)
            (old / "m.safetensors").write_bytes(files[0])
            (old / "sub" / "ü x.txt").write_bytes(b"same")
            (new / "files").mkdir(parents=True)
            (new / "files" / "m.safetensors").write_bytes(make_delta([("m.safetensors", files[0])], files[1]))
            (new / "files" / "run.sh").write_bytes(b"new")
            described = [("m.safetensors", files[1], "delta"), ("sub/ü x.txt", b"same", "same"),
                         ("run.sh", b"new", "file")]
            (new / "wdelta.json").write_bytes(make_listing(
                [{"path": path, "size": len(content), "digest": blake3(content), "executable": path == "run.sh",
                  "as": how} for path, content, how in described], ["gone"]))
            decode(old, [new], root / "made")
            for path, content, _ in described:
                self.assertEqual((root / "made" / path).read_bytes(), content)
                self.assertEqual(os.access(root / "made" / path, os.X_OK), path == "run.sh")
            listing = (new / "wdelta.json").read_bytes()
            for at in range(len(listing)):
                (new / "wdelta.json").write_bytes(listing[:at] + bytes([listing[at] ^ 1]) + listing[at + 1:])
                with self.assertRaises(Refused):
                    decode(old, [new], root / "refused")
                self.assertFalse((root / "refused").exists())


class Refusals(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(SEED)
        self.base, self.result, self.delta = small_pair(self.rng)

    def refused(self, delta, base=None):
        with self.assertRaises(Refused):
            Delta(delta).apply([self.base if base is None else base])

    def deltas(self):
        """One of a safetensors file and one of the same bytes taken as an opaque one."""
        opaque = make_delta([("m.bin", self.base)], self.result, framed=True, opaque="F64")
        for delta in (self.delta, opaque):
            self.assertEqual(Delta(delta).apply([self.base]).content, self.result)
            yield delta

    def test_every_flipped_byte(self):
        for delta in self.deltas():
            for at, byte in enumerate(delta):
                for flip in (1, 0xFF):
                    self.refused(delta[:at] + bytes([byte ^ flip]) + delta[at + 1:])

    def test_every_cut_and_a_byte_more(self):
        for delta in self.deltas():
            for length in range(len(delta)):
                self.refused(delta[:length])
            self.refused(delta + b"\0")

    def test_a_wrong_base(self):
        self.refused(self.delta, self.base[:-1] + b"\xEE")
        self.refused(self.delta, self.base + b"\0")
        self.refused(self.delta, b"")

    def test_alterations_under_good_digests_are_refused_or_harmless(self):
        for at, byte in enumerate(self.delta):
            for flip in (1, 0x80, 0xFF):
                altered = reseal(self.delta[:at] + bytes([byte ^ flip]) + self.delta[at + 1:], self.delta)
                try:
                    self.assertEqual(Delta(altered).apply([self.base]).content, self.result)
                except Refused:
                    pass

    def test_every_flipped_bit_of_a_group_is_refused_or_decodes(self):
        # Of the sorts that refer there is the first one with another that it can refer to.
        sorts = [(None, grouping) for grouping in groupings(self.rng)]
        sorts += [next(pair for pair in zip(turns, turns[1:]) if pair[1].back) for turns in referring(self.rng)]
        for number, (other, grouping) in enumerate(sorts):
            old = random_tensor(self.rng, "BF16", [9, 8])
            new = perturbed(self.rng, old, "BF16", 0.2)
            referable = None
            if other:
                content, _ = make_group([(old, new, None)], 0, 8, 2, True, other)
                referable = Referable(content, Shape(2, 8, 0, [72], other.strip), "reference")
            if grouping.batch > 1:
                grouping = grouping._replace(batch=64)
            # What is in batches is taken for three small blocks, or strips.
            size = 48 if grouping.batch > 1 else len(old)
            sides = [(old[at:at + size], new[at:at + size]) for at in range(0, len(old), size)]
            parameters, (block,) = make_group([(*side, None) for side in sides], 0, 8, 2, True, grouping,
                                              referable and referable.parameters(2))
            shape = Shape(2, 8, 0, [size // 2] * len(sides), grouping.strip)
            for bit in range(8 * len(parameters + block)):
                flipped = bytearray(parameters + block)
                flipped[bit // 8] ^= 1 << bit % 8
                parts, coded = bytes(flipped[:len(parameters)]), bytes(flipped[len(parameters):])
                with self.subTest(grouping=number, bit=bit):
                    try:
                        for read, (part, _) in zip(read_group(parts, [coded], shape, "group", grouping.batch,
                                                              referable), sides):
                            self.assertEqual(len(read.applied(part, True)[0]) if read else size, size)
                    except Refused:
                        pass

    def test_parameters_that_are_long_to_read_are_not_referred_to(self):
        # Of each strip some bytes are told; of a mask behind them nothing is asked.
        def length(strips, mask=()):
            counts = [(1 + 60000 * (strip % 2),) for strip in range(strips)]
            content = parameters(counts=counts, mask=mask, head=bool(mask))
            Referable(content, Shape(2, 8, 0, [BLOCK_ELEMENTS] * strips), "long").parameters(2)
            return len(content)

        few, many = 1, 65536
        while many - few > 1:
            strips = (few + many) // 2
            try:
                few, longest = strips, length(strips)
            except Refused:
                many = strips
        self.assertIn(longest, range(65536 - 8, 65536 + 1))
        with self.assertRaisesRegex(Refused, "to refer to"):
            length(many)
        self.assertGreater(length(few - 8, mask=((0, 800_000),)), 100_000)

    def test_headers_that_hold_very_much(self):
        most = ",".join(["1"] * (refusal.MOST_VALUES - 1))  # and the list itself
        self.assertEqual(len(refusal.strict_header(f'{{"a":[{most}],"b":[{most}]}}', "header")), 2)
        for text in (f'{{"a":[{most},1]}}', f'{{"a":{{"b":[{most}]}}}}'):
            with self.assertRaisesRegex(Refused, "'a' holds more than"):
                refusal.strict_header(text, "header")

    def test_broken_rules_under_good_digests(self):
        for base, delta, made in harmless():
            self.assertEqual(Delta(delta).apply([base] if base is not None else []).content, made)
        for base, delta, made in right() + right_strips() + right_classes() + right_references() + right_skips():
            self.assertEqual(Delta(delta).apply([base]).content, made)
        broken = (broken_blocks() + broken_afresh() + broken_bundles() + broken_metadata(self.base, self.result) +
                  broken_opaque() + broken_groups() + broken_strips() + broken_classes() +
                  broken_references() + broken_skips())
        for what, reason, base, delta in broken:
            with self.subTest(what), self.assertRaisesRegex(Refused, reason):
                Delta(delta).apply([base] if base is not None else [])


if __name__ == "__main__":
    print("seed", SEED)
    unittest.main()
