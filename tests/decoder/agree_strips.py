# SPDX-License-Identifier: Apache-2.0
"""Blocks in strips, made by hand and by the binary."""

from math import prod

from afresh import AFRESH
from agreement import Agreement
from broken_strips import broken_strips, right_strips
from elements import BITS, BLOCK_ELEMENTS, width_of
from groupings import DTYPES, batched, few_changes, striped
from index import TENSOR
from make_delta import SPARSE, make_delta
from make_group import CLASSED, Grouping
from random_checkpoint import write_safetensors

NAME = "m.safetensors"
SEGMENT_BYTES = 4 << 20  # what the binary codes as groups of their own, and rebuilds at a time


def _file(dtype, shape, content):
    return write_safetensors([("w", dtype, shape, content)])


class Strips(Agreement):
    def check(self, base, result, **choices):
        self.applied_by_the_binary(base, make_delta([(NAME, base)], result, mode=CLASSED, **choices), result)

    def test_strips_of_every_dtype_and_number_of_coders(self):
        # Changes of a few blocks for one, two, four and eight coders.
        turns = (50, 40, 20), (70, 90, 30, 10), (200, 190, 0, 3), (600, 0, 20)
        for number, grouping in enumerate(striped(self.rng)):
            old, new = [], []
            for place, dtype in enumerate(DTYPES[number % 4::4]):
                shape = ([3 * BLOCK_ELEMENTS + 512], [385, 512], [1, 193, 4, 256])[place % 3]
                content = self.rng.randbytes(prod(shape) * BITS[dtype] // 8)
                old.append((dtype, dtype, shape, content))
                new.append((*old[-1][:3], few_changes(self.rng, content, dtype, turns[(number + place) % 4])))
            with self.subTest(grouping=number):
                self.check(write_safetensors(old), write_safetensors(new), grouping=grouping)

    def test_strips_and_groups_that_begin_anywhere(self):
        for turn in range(12):
            dtype = self.rng.choice(("U8", "I8", "F8_E5M2", "BF16"))
            count = self.rng.randrange(1, 18) * BLOCK_ELEMENTS + self.rng.choice((0, 1, 77, 40000))
            columns = self.rng.choice((1, 3, 100, 1000))
            count -= count % columns
            counts = [self.rng.choice((0, 2, 5, 60, 300)) for _ in range(18)]
            strip = self.rng.choice((2, 4, 8, 16))
            grouping = Grouping(bounds=tuple(sorted(self.rng.sample(range(1, 256), self.rng.randrange(5)))),
                                given=self.rng.random() < 0.5, blocks=self.rng.randrange(1, 14), strip=strip,
                                batch=self.rng.choice((1, 2, 3, 64)), skips=self.rng.choice((None, 0, 5)))
            old = self.rng.randbytes(count * width_of(dtype))
            new = few_changes(self.rng, old, dtype, counts)
            with self.subTest(turn=turn, dtype=dtype, count=count, counts=counts, grouping=grouping):
                self.check(*(_file(dtype, [count // columns, columns], side) for side in (old, new)), grouping=grouping)

    def test_strips_of_many_changes(self):
        old = self.rng.randbytes(8 * BLOCK_ELEMENTS)
        for strip, every in ((2, 2), (2, 3), (4, 5), (8, 9), (8, 100)):
            new = bytearray(old)
            for place in range(0, len(new), every):
                new[place] ^= 1 + place % 5
            with self.subTest(strip=strip, every=every):
                self.check(*(_file("U8", [len(old)], bytes(side)) for side in (old, new)),
                           grouping=Grouping(bounds=(60, 120, 200), blocks=8, strip=strip))

    def test_large_strips(self):
        count = 40 * BLOCK_ELEMENTS + 9
        old = self.rng.randbytes(count)
        new = few_changes(self.rng, old, "U8", [self.rng.choice((0, 2, 60)) for _ in range(41)])
        for strip in 16, 32:
            for blocks, batch in ((64, 2), (23, 1)):
                with self.subTest(strip=strip, blocks=blocks):
                    self.check(*(_file("U8", [count], side) for side in (old, new)),
                               grouping=Grouping(bounds=(60, 200), blocks=blocks, strip=strip, batch=batch))

    def test_groups_of_which_some_are_in_strips(self):
        # One in strips, one with blocks of two modes, one without parameters.
        modes = CLASSED, CLASSED, SPARSE, CLASSED, AFRESH
        for turn, (dtype, shape) in enumerate((("U8", [4 * BLOCK_ELEMENTS + 100]),
                                               ("BF16", [4 * BLOCK_ELEMENTS // 640 + 1, 640]))):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            sides = [_file(dtype, shape, side)
                     for side in (old, few_changes(self.rng, old, dtype, (90, 60, 50, 700, 4)))]
            for number, grouping in enumerate(striped(self.rng)[turn::2]):
                with self.subTest(dtype=dtype, grouping=number):
                    self.check(*sides, grouping=grouping._replace(blocks=2), mode_of=lambda name, block: modes[block])

    def test_chains_of_strips_batches_and_blocks(self):
        """They are applied in one pass, which begins anew in the middle of the tensor."""
        shape = [SEGMENT_BYTES // 1000 + 300, 500]
        versions = [self.rng.randbytes(2 * prod(shape))]
        chosen = [*self.rng.sample(striped(self.rng), 4), batched(self.rng)[1], Grouping(bounds=(120,), blocks=3)]
        self.rng.shuffle(chosen)
        for number in range(len(chosen)):
            counts = [self.rng.choice((0, 3, 50, 50, 200)) for _ in range(2 * SEGMENT_BYTES // BLOCK_ELEMENTS)]
            counts[number] = 9  # never a version without changes
            versions.append(few_changes(self.rng, versions[-1], "BF16", counts))
        files = [_file("BF16", shape, version) for version in versions]
        self.chain_applied_by_the_binary(NAME, files, chosen, (2, len(chosen)))

    def test_what_the_binary_makes_of_several_blocks(self):
        for dtype, shape, count in (("BF16", [9 * BLOCK_ELEMENTS // 512 + 1, 512], 40),
                                    ("F32", [3 * BLOCK_ELEMENTS + 100], 50), ("I8", [5 * BLOCK_ELEMENTS], 200),
                                    ("U16", [9 * BLOCK_ELEMENTS], 6000), ("F16", [2, BLOCK_ELEMENTS], 20000)):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            for counts in ([count] * 10, [0, count, count, 0, count, 0, 0, 0, count]):
                new = few_changes(self.rng, old, dtype, counts)
                with self.subTest(dtype=dtype, counts=counts):
                    opened = self.decoded_from_the_binary(*(_file(dtype, shape, side) for side in (old, new)))
                    # It need not make strips with blocks without changes.
                    if 0 not in counts:
                        self.assertTrue(any(group.strip > 1 for group in opened.groups))

    def test_what_the_binary_makes_where_a_group_begins_within_a_strip(self):
        for blocks_ahead in (1, 2, 3, 5, 6):
            # The last of the blocks ahead goes on behind the segment's end.
            ahead = bytes(SEGMENT_BYTES - 2 * blocks_ahead * BLOCK_ELEMENTS + 20000)
            old = self.rng.randbytes(2 * (11 * BLOCK_ELEMENTS + 500))
            new = few_changes(self.rng, old, "BF16", [500] * 11 + [9])
            with self.subTest(blocks_ahead=blocks_ahead):
                opened = self.decoded_from_the_binary(*(
                    write_safetensors([("ahead", "U8", [len(ahead)], ahead), ("w", "BF16", [len(old) // 2], side)])
                    for side in (old, new)))
                encoding, blocks, first_group = opened.index[:3]
                self.assertEqual((encoding, blocks), (TENSOR, 12))
                self.assertEqual(first_group, blocks_ahead)
                self.assertTrue(any(group.strip > 1 for group in opened.groups))

    def test_rules_under_good_digests(self):
        for base, delta, result in right_strips():
            self.applied_by_the_binary(base, delta, result)
        for what, _, base, delta in broken_strips():
            self.refused_by_the_binary(what, base, delta)
