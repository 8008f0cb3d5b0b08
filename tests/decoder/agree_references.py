# SPDX-License-Identifier: Apache-2.0
"""Groups that refer to others, made by hand and by the binary."""

from math import prod

from agreement import Agreement
from broken_references import broken_references, right_references
from elements import BITS, BLOCK_ELEMENTS, width_of
from groupings import DTYPES, few_changes, referring
from make_delta import SPARSE, make_delta
from make_group import CLASSED, DISTANCES, SOME, Grouping
from random_checkpoint import perturbed, random_tensor, write_safetensors

NAME = "m.safetensors"


class References(Agreement):
    def check(self, base, result, **choices):
        self.applied_by_the_binary(base, make_delta([(NAME, base)], result, **{"mode": CLASSED, **choices}), result)

    def sides(self, tensors):
        """A base and a result from names, dtypes, shapes and both contents."""
        return (write_safetensors([(*about, pair[side]) for *about, pair in tensors]) for side in (0, 1))

    def tensors(self, densities):
        made = []
        for dtype in DTYPES:
            for shape in ([640], [40, 16], [2, 8, 40], [1, 640]):
                content = random_tensor(self.rng, dtype, shape)
                new = perturbed(self.rng, content, dtype, self.rng.choice(densities))
                made.append((f"{dtype} {shape}", dtype, shape, (content, new)))
        self.rng.shuffle(made)
        return made

    def test_references_between_tensors(self):
        for densities in ((0.01, 0.1), (0.3, 0.6), (0.02, 1.0)):
            base, result = self.sides(self.tensors(densities))
            for number, groups in enumerate(referring(self.rng)):
                for bundle in (1, 3, 99):
                    with self.subTest(densities=densities, grouping=number, bundle=bundle):
                        self.check(base, result, grouping=groups, bundle=bundle)

    def test_references_within_tensors(self):
        for dtype, shape in (("BF16", [4 * BLOCK_ELEMENTS // 900 + 1, 900]), ("U8", [9 * BLOCK_ELEMENTS + 77]),
                             ("F32", [2, 150, 512])):
            old = self.rng.randbytes(prod(shape) * width_of(dtype))
            new = few_changes(self.rng, old, dtype, (300, 500, 30, 90, 2000, 0, 60, 40, 9, 9))
            base, result = self.sides([("w", dtype, shape, (old, new))])
            for number, groups in enumerate(referring(self.rng)):
                with self.subTest(dtype=dtype, grouping=number):
                    self.check(base, result, grouping=groups)

    def test_any_references(self):
        for turn in range(20):
            tensors = []
            for name in range(self.rng.randrange(2, 7)):
                dtype = self.rng.choice(DTYPES)
                # So many that those of fewer bits than a byte fill bytes.
                columns = self.rng.choice((4, 128, 500))
                rows = self.rng.choice((200, 2 * BLOCK_ELEMENTS + 77, 4 * BLOCK_ELEMENTS)) // columns + 1
                shape = self.rng.choice(([rows, columns], [rows * columns]))
                old = self.rng.randbytes(prod(shape) * BITS[dtype] // 8)
                new = few_changes(self.rng, old, dtype, [self.rng.choice((0, 2, 9, 90, 700)) for _ in range(5)])
                tensors.append((str(name), dtype, shape, (old, new)))
            groups = [self.some_grouping() for _ in range(self.rng.randrange(2, 9))]
            base, result = self.sides(tensors)
            with self.subTest(turn=turn, groups=groups):
                self.check(base, result, grouping=groups, bundle=self.rng.choice((1, 2, 99)))

    def some_grouping(self):
        masks = [self.rng.getrandbits(1 << 12) if self.rng.random() < 0.4 else None for _ in range(2)]
        return Grouping(bounds=tuple(sorted(self.rng.sample(range(1, 256), self.rng.choice((0, 1, 5, 15))))),
                        given=self.rng.choice((False, DISTANCES, SOME, True)), columns=masks[0], rows=masks[1],
                        sign=self.rng.randrange(1, 256), blocks=self.rng.randrange(1, 6),
                        odd=self.rng.random() < 0.2, batch=self.rng.choice((1, 1, 2, 64)),
                        strip=self.rng.choice((1, 1, 2, 4, 32)), back=self.rng.choice((0, 1, 1, 2, 3)),
                        rarer=self.rng.choice((0, 0, -3, 5, -40, 40, -255, 255)),
                        skips=self.rng.choice((None, None, 0, 2, 15)))

    def test_groups_without_parameters_between(self):
        old = self.rng.randbytes(6 * BLOCK_ELEMENTS)
        base, result = self.sides([("w", "U8", [len(old)], (old, few_changes(self.rng, old, "U8", [50] * 6)))])
        modes = CLASSED, SPARSE, SPARSE, CLASSED, SPARSE, CLASSED
        self.check(base, result, mode_of=lambda name, block: modes[block],
                   grouping=[Grouping(given=False, blocks=1), Grouping(back=1, blocks=1)])

    def test_chains(self):
        """Of deltas that are applied in one pass."""
        versions = [self.tensors((0.05, 0.3))]
        for _ in range(4):
            versions.append([(*about, (pair[1], perturbed(self.rng, pair[1], about[1], 0.1)))
                             for *about, pair in versions[-1]])
        files = [next(self.sides(versions[0])), *(list(self.sides(version))[1] for version in versions)]
        paths, turns = [], referring(self.rng)
        for number in range(len(versions)):
            paths.append(self.root / f"delta {number}")
            paths[-1].write_bytes(make_delta([(NAME, files[number])], files[number + 1], mode=CLASSED, path=NAME,
                                             grouping=turns[number], bundle=number + 1))
        (self.root / NAME).write_bytes(files[0])
        self.succeeds("apply", self.root / NAME, *paths, "-o", self.root / "out")
        self.same(self.root / "out", files[-1])

    def test_what_the_binary_makes_of_tensors_that_are_alike(self):
        found = False
        for dtype, count, density in (("BF16", 300, 0.05), ("F32", 900, 0.02), ("I8", 300, 0.1), ("F16", 5000, 0.01)):
            tensors = []
            for number in range(60):
                old = random_tensor(self.rng, dtype, [count // 10, 10])
                new = perturbed(self.rng, old, dtype, density * (1 + number % 3))
                tensors.append((f"layers.{number:02}.weight", dtype, [count // 10, 10], (old, new)))
            with self.subTest(dtype=dtype):
                opened = self.decoded_from_the_binary(*self.sides(tensors))
                found = found or any(group.back for group in opened.groups)
        self.assertTrue(found, "the binary made no reference")

    def test_rules_under_good_digests(self):
        for number, (base, delta, result) in enumerate(right_references()):
            with self.subTest(number):
                self.applied_by_the_binary(base, delta, result)
        for what, _, base, delta in broken_references():
            self.refused_by_the_binary(what, base, delta)

    def test_any_bit_may_flip(self):
        taken = refused = 0
        for number, groups in enumerate(referring(self.rng)):
            old = random_tensor(self.rng, "BF16", [9, 8])
            pairs = [(old, perturbed(self.rng, old, "BF16", 0.2)) for _ in range(len(groups) + 1)]
            base, result = self.sides([(str(at), "BF16", [9, 8], pair) for at, pair in enumerate(pairs)])
            delta = make_delta([(NAME, base)], result, mode=CLASSED, grouping=groups, bundle=1 + number % 3)
            for verdict in self.damaged(base, delta):
                taken, refused = taken + (verdict is None), refused + (verdict is not None)
        self.assertTrue(taken and refused)
