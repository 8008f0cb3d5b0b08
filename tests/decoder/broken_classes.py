# SPDX-License-Identifier: Apache-2.0
"""What broken_groups.py has, for all that the classes of a group may tell."""

from bits import BitWriter
from broken_groups import BLOCK, CHANGES, ELEMENTS, MATRIX, PLAIN, block_of, case, given, parameters
from broken_strips import MORE, STRIPS, WIDE, any_gap, strip_case, two_classes
from told import Row, Told, inverted, most_gap_buckets

DTYPES = (("I8", 1), ("I16", 2), ("I32", 4))
# Codes of the largest and the smallest probability.
LIKELY, RARE = inverted(0), inverted(255)
TWO_DISTANCES = given((1, 1, 1), (1, 1))


def gaps_from(code, buckets=3):
    """A class that tells a probability of gaps."""
    return Told(Row(buckets, None, code), PLAIN.distances)


def distances_from(code, buckets=2):
    return Told(PLAIN.gaps, Row(buckets, None, code))


def signed(sign):
    return PLAIN._replace(sign=sign)


EVERY = signed(100), gaps_from(0x47), distances_from(0x47), None, signed(1)


def classed(*classes, bounds=None, counts=None, head=0, **parts):
    """Parameters with these classes, and with a column mask where head is 1; only the first class that is used has
    changes, where counts say nothing else."""
    bounds = range(128, 127 + len(classes)) if bounds is None else bounds
    counts = ((len(CHANGES),) + (0,) * (sum(map(bool, classes)) - 1),) if counts is None else counts
    return parameters(classes, bounds, head, ((0, 8),) if head else (), counts, **parts)


def class_case(*classes, dtype="I16", head=0, **parts):
    """A group with such parameters; the changes are coded as those of the first class."""
    return case(classed(*classes, head=head, **parts), [block_of(CHANGES, classes[0])], MATRIX if head else (ELEMENTS,),
                dtype=dtype, old=[3] * ELEMENTS if dtype == "I8" else None)


class Overlong(BitWriter):
    """Writes one number, which others come before, as if so high a bit of it were set."""

    def __init__(self, before, high):
        super().__init__()
        self._before, self._high = before, high

    def golomb(self, number, order):
        self._before -= 1
        if self._before == -1:
            self.put(0, self._high - order)
            self.put(1, 1)
            self.put(number + (1 << order), self._high)
        else:
            super().golomb(number, order)

    @property
    def has_written_it(self):
        return self._before < 0


def right_classes():
    """Groups that look odd and break no rule: bases, deltas, results."""
    made = [
        class_case(PLAIN), class_case(*EVERY, head=1), class_case(TWO_DISTANCES), class_case(given((1, 1, 1), (63,))),
        # Classes that are not used, before, between and behind those that are.
        class_case(PLAIN, None), class_case(PLAIN, None, None, TWO_DISTANCES, None, gaps_from(LIKELY), TWO_DISTANCES),
        *(case(classed(*classes, bounds=bounds), [BLOCK])
          for classes, bounds in (((None, None, PLAIN), (1, 2)), ((None, PLAIN, None), (1, 255)))),
        class_case(*[PLAIN] * 16, bounds=range(241, 256)), class_case(PLAIN, PLAIN, PLAIN, bounds=(4, 255))]
    # Probabilities at both ends, behind each other and behind weights.
    for from_code in (gaps_from, distances_from):
        made += [class_case(*map(from_code, codes)) for codes in ((LIKELY,), (RARE,), (LIKELY, RARE, LIKELY, LIKELY))]
        made.append(class_case(from_code(0x47), TWO_DISTANCES, None, PLAIN, from_code(0x47), from_code(0x48)))
    # As few buckets as there may be, and as many; weights at both ends.
    made += [class_case(given((1,) * 32, (1,)), given((1,), (1,)), given((1,) * 32, (1,))),
             class_case(gaps_from(RARE, 32), gaps_from(LIKELY, 1), gaps_from(LIKELY, 32)),
             class_case(given((63, 1, 63), (63, 0, 63, 0)), given((0, 63, 0), (0, 0, 63)))]
    made += [class_case(given((1, 1, 1), (1,) * (16 * width - 2)), TWO_DISTANCES,
                        distances_from(LIKELY, 16 * width - 2), dtype=dtype) for dtype, width in DTYPES]
    made += [strip_case(parts=classed(any_gap(strip), gaps_from(RARE, most_gap_buckets(strip)), any_gap(strip),
                                    counts=((4, 0, 0),)), told=any_gap(strip), strip=strip)
             for strip in STRIPS]
    made += [class_case(*map(signed, signs), head=1) for signs in ((1, 255, 1), (255, 1), (128, 128), (127, 129))]
    # Numbers of changes as the class before has them, and in later strips.
    wide = any_gap(2)
    made += [strip_case(**{**two_classes((7, 1)), "parts": classed(wide, wide, counts=((1, 1),))}),
             strip_case((CHANGES, MORE), 3, first=1, parts=classed(WIDE, counts=((3,), (4,)))),
             strip_case((MORE, (), CHANGES), 5, parts=classed(WIDE, None, WIDE, counts=((4, 0), None, (3, 0))))]
    return made


def broken_classes():
    """A list of what is wrong, a part of this decoder's message, base and delta."""
    made = _broken_form() + _broken_numbers() + _broken_classes()
    return [(what, reason, base, delta) for what, reason, (base, delta, _) in made]


def _broken_form():
    long, block = classed(*EVERY, head=1), block_of(CHANGES, EVERY[0])
    made = [
        ("a byte behind masks", "left over", case(long + b"\0", [block], MATRIX)),
        ("bits in front of the masks", "left over",
         case(classed(*EVERY, head=1, behind=((0, 8),)), [block], MATRIX)),
        ("a mask cut off", "cut", case(long[:-1], [block], MATRIX)),
        ("a mask that is not there", "cut", case(classed(PLAIN, head=3), [BLOCK], MATRIX))]
    made += [(f"{length} bytes of parameters", "", case(long[:length], [block], MATRIX))
             for length in range(1, len(long))]
    # Where the bit goes unseen the number is right.
    for high in (16, 32, 64, 200):
        before, bits = 0, Overlong(0, high)
        while True:
            parts = classed(*EVERY, head=1, bits=bits)
            if not bits.has_written_it:
                break
            made.append((f"bit {high} of number {before}", "zero bits" if high > 32 + 6 else "",
                         case(parts, [block], MATRIX)))
            before += 1
            bits = Overlong(before, high)
    return made


def _broken_numbers():
    """Bounds and numbers of changes."""
    made = [(f"a second bound of {bound}", f"a bound of {bound}", class_case(PLAIN, None, None, bounds=(128, bound)))
            for bound in (256, 256 + 129, (1 << 16) + 129, (1 << 32) + 129)]
    made += [("a bound behind 255", "a bound of 256", class_case(PLAIN, None, None, None, bounds=(4, 255, 256))),
             ("a first bound of 0", "a bound of 0", case(classed(None, PLAIN, bounds=(0,)))),
             ("a bound behind 0", "a bound of 0", case(classed(None, PLAIN, None, bounds=(0, 128))))]
    made += [(f"{counts} changes at first", f"{wrong} changes", class_case(*[PLAIN] * len(counts), counts=(counts,)))
             for counts, wrong in (((-1,), -1), ((-1, 4), -1), ((4, -1), -1), ((3, -1), -1), ((3, 0, -1), -1),
                                   ((0,), 0), ((0, 0), 0), ((3, 11), 11), ((3, 8), 11),
                                   ((3 + (1 << 32),), 3 + (1 << 32)))]
    made += [("a number of changes told as that of another", "", class_case(PLAIN, PLAIN, counts=((3, 3),))),
             ("-1 changes in a later strip", "-1 changes",
              strip_case((CHANGES, CHANGES), 2, first=1, parts=classed(WIDE, counts=((3,), (-1,)))))]
    return made


def _broken_classes():
    """What the second class tells, or the third."""
    codes = -1, -2, -256, 256, 257, 1 << 16, 1 << 32
    rows = [(f"a probability of gaps of {code}", f"code {code}$", gaps_from(inverted(code))) for code in codes]
    rows += [(f"a probability of distances of {code}", f"code {code}$", distances_from(inverted(code)))
             for code in codes]
    for code in (-1, 64, 65, 127, 256, 1 << 32):
        for place in range(3):
            weights = [1, 1, 1]
            weights[place] = code
            rows += [(f"gap weight {place} of {code}", f"a weight of the code {code}$", given(weights, (1,))),
                     (f"distance weight {place} of {code}", f"a weight of the code {code}$", given((1,), weights))]
    rows += [("no gap weight but 0", "no weight", given((0, 0, 0), (1,))),
             ("no gap weight but 0, of one", "no weight", given((0,), (1,))),
             ("no distance weight but 0", "no weight", given((1,), (0, 0)))]
    for buckets in (0, 33, 34, 64, 256 + 3):
        rows += [(f"{what} of {buckets} gap buckets", f": {buckets} gap buckets", told) for what, told in (
            ("weights", given((1,) * buckets, (1,))), ("a large probability", gaps_from(LIKELY, buckets)),
            ("a small probability", gaps_from(RARE, buckets)))]
    made = [(what, reason, class_case(PLAIN, told)) for what, reason, told in rows]
    made += [(f"{what} of {buckets} distance buckets of {dtype}", f": {buckets} distance buckets",
              class_case(PLAIN, told, dtype=dtype))
             for dtype, width in DTYPES for buckets in (0, 16 * width - 1, 64, 256 + 2)
             for what, told in (("weights", given((1, 1, 1), (1,) * buckets)),
                                ("a probability", distances_from(LIKELY, buckets)))]
    made += [(f"{what} of a gap bucket too many for {strip} blocks", f": {most_gap_buckets(strip) + 1} gap buckets",
              strip_case(strip=strip, told=any_gap(strip),
                         parts=classed(any_gap(strip), told, counts=((4, 0),))))
             for strip in STRIPS
             for what, told in (("weights", any_gap(strip, 1)),
                                ("a probability", gaps_from(RARE, most_gap_buckets(strip) + 1)))]
    made += [(f"a sign of probability {sign}", f"signs of probability {sign}$",
              class_case(PLAIN, signed(sign), head=1)) for sign in (-1, 0, 256, 257, 512, 1 << 32)]
    # Behind what is expected at the ends.
    made += [("a larger code of gaps than the largest", "code 256", class_case(PLAIN, gaps_from(RARE),
                                                                              gaps_from(inverted(256)))),
             ("a smaller code of distances than the smallest", "code -1",
              class_case(PLAIN, distances_from(LIKELY), distances_from(inverted(-1)))),
             ("a sign past the most likely", "probability 256", class_case(PLAIN, signed(255), signed(256), head=1))]
    return made
