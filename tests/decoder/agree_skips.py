# SPDX-License-Identifier: Apache-2.0
"""Groups that skip rows, made by hand and by the binary."""

from math import prod

from agreement import Agreement
from broken_skips import broken_skips, right_skips
from elements import BITS, BLOCK_ELEMENTS, width_of
from groupings import DTYPES, few_changes, skipping
from make_delta import DENSE, SPARSE, make_delta
from make_group import CLASSED, Grouping
from random_checkpoint import some_rows_perturbed, write_safetensors

NAME = "m.safetensors"


def _file(dtype, shape, content):
    return write_safetensors([("w", dtype, shape, content)])


class Skips(Agreement):
    def check(self, base, result, **choices):
        self.applied_by_the_binary(base, make_delta([(NAME, base)], result, **{"mode": CLASSED, **choices}), result)

    def test_rows_of_every_length_and_dtype(self):
        for number, grouping in enumerate(skipping(self.rng)):
            old, new = [], []
            for place, dtype in enumerate(DTYPES[number % 4::4]):
                # Rows of two blocks each, ones that blocks do not end with and ones that they do.
                shape = ([700, 100], [2, 65, 1024], [40000, 4], [3, 40000], [130, 512])[(number + place) % 5]
                content = self.rng.randbytes(prod(shape) * BITS[dtype] // 8)
                old.append((dtype, dtype, shape, content))
                new.append((*old[-1][:3], some_rows_perturbed(self.rng, content, dtype, shape[-1], (0.02, 0.5))))
            with self.subTest(grouping=number):
                self.check(write_safetensors(old), write_safetensors(new), grouping=grouping, bundle=1 + number % 3)

    def test_blocks_of_every_sort(self):
        # One in strips or batches, one with blocks of two modes, one without parameters.
        modes = CLASSED, CLASSED, SPARSE, CLASSED, DENSE
        for turn, (dtype, shape) in enumerate((("U8", [4 * BLOCK_ELEMENTS // 100 + 1, 100]),
                                               ("BF16", [4 * BLOCK_ELEMENTS // 640 + 1, 640]))):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            sides = [_file(dtype, shape, side)
                     for side in (old, few_changes(self.rng, old, dtype, (90, 60, 50, 70, 4)))]
            for number, grouping in enumerate(skipping(self.rng)[turn:6:2]):
                with self.subTest(dtype=dtype, grouping=number):
                    self.check(*sides, grouping=grouping._replace(blocks=2), mode_of=lambda name, block: modes[block])

    def test_chains(self):
        """Of deltas that are applied in one pass, some of which skip rows."""
        shape = [1500, 300]
        versions = [self.rng.randbytes(2 * prod(shape))]
        chosen = [*skipping(self.rng), Grouping(bounds=(120,), blocks=3), Grouping(strip=4, blocks=8)]
        self.rng.shuffle(chosen)
        for _ in chosen:
            versions.append(some_rows_perturbed(self.rng, versions[-1], "BF16", shape[1]))
        files = [_file("BF16", shape, version) for version in versions]
        self.chain_applied_by_the_binary(NAME, files, chosen, (2, len(chosen)))

    def test_what_the_binary_makes_of_embeddings(self):
        for dtype, shape, rows in (("BF16", [3000, 100], (0.05, 0.1)), ("F32", [700, 384], (0.05, 0.1)),
                                   ("F16", [2, 500, 256], (0.02, 0.04)), ("F8_E4M3", [90, 5000], (0.05, 0.1)),
                                   ("BF16", [9000, 33], (0.01, 0.02))):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            new = some_rows_perturbed(self.rng, old, dtype, shape[-1], rows)
            with self.subTest(dtype=dtype, shape=shape):
                opened = self.decoded_from_the_binary(*(_file(dtype, shape, side) for side in (old, new)))
                self.assertTrue(any(group.skips for group in opened.groups))

    def test_rules_under_good_digests(self):
        for number, (base, delta, result) in enumerate(right_skips()):
            with self.subTest(number):
                self.applied_by_the_binary(base, delta, result)
        for what, _, base, delta in broken_skips():
            self.refused_by_the_binary(what, base, delta)

    def test_any_bit_may_flip(self):
        taken = refused = 0
        for number, grouping in enumerate(skipping(self.rng)):
            dtype, shape = (("BF16", [40, 8]), ("I8", [700, 100]))[number % 2]
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            new = some_rows_perturbed(self.rng, old, dtype, shape[1], (0.2, 0.4), (0.3, 0.6))
            base, result = (_file(dtype, shape, side) for side in (old, new))
            delta = make_delta([(NAME, base)], result, mode=CLASSED, grouping=grouping)
            for verdict in self.damaged(base, delta):
                taken, refused = taken + (verdict is None), refused + (verdict is not None)
        self.assertTrue(taken and refused)
