# SPDX-License-Identifier: Apache-2.0
"""A tiny encoder of groups with parameters by wdelta-delta(5), for tests only: correct, and no smaller than asked."""

from collections import Counter, namedtuple
from itertools import compress
from operator import ne

from bits import BitWriter
from classed import HIGH, LOW, coder_count, places_of_classes
from counts import FIRST_ORDER, Earlier, order_for, share
from elements import elements_of, order
from frequencies import TOTAL, bucket_of, weight_of
from group import Shape, symbols_of
from reference import MOST_DISTANCE_BUCKETS, MOST_GAP_BUCKETS, Differences, all_used, rarer_code, referring
from skips import ORDER_BITS, Kept, row_parts
from told import NO_SIGNS, Expected, Row, Told, inverted, most_gap_buckets, usual_gap_buckets

# What make_delta calls the blocks of groups; blocks themselves do not have it, unlike the other modes.
CLASSED = 4
# How groups are made. bounds: of the contexts. given: whether weights are given; SOME means that some are, DISTANCES
# that of these some are and of gaps none. columns, rows: None, or the bits of a mask over the whole tensor as a number;
# sign: the probability that is told where there is a mask. blocks: of how many blocks a group is; strip: of how many a
# strip is; batch: of how many strips a batch is. odd: adds buckets, classes and weights that nothing uses. back: where
# it is not 0, the group refers to the group that is so far before it, if that can be, and has its bounds; rarer: how
# much rarer changes are than there. skips: where it is not None, the order of the list of skipped rows, which are those
# without changes, and every other of them where the group is odd.
Grouping = namedtuple("Grouping", "bounds given columns rows sign blocks odd batch strip back rarer skips",
                      defaults=((), True, None, None, 128, 2, False, 1, 1, 0, 0, None))
SOME, DISTANCES = "some", "distances"

# One change: the number of its class, the gap before it, its distance and its sign as it is coded.
Change = namedtuple("Change", "of gap distance sign")

# What a coded block may have that it must not: bits in what the states hold, states that end elsewhere, and bits behind
# the states.
Flaws = namedtuple("Flaws", "held least_end pad", defaults=(0, LOW, 0))
NO_FLAWS = Flaws()


class Masks:
    """Both masks of a group, and what bounds, classes and kept mean to places_of_classes."""

    def __init__(self, grouping, bounds, first_element, row, kept):
        self.bounds, self.classes, self.kept = bounds, range(len(bounds) + 1), kept
        self.row, self._first_row = row, first_element // row if row else 0
        self.columns = grouping.columns if row else None
        self.rows = grouping.rows >> self._first_row if row and grouping.rows is not None else None
        self.head = int(self.columns is not None) | int(self.rows is not None) << 1
        self.sign = grouping.sign if self.head else NO_SIGNS

    def turned(self, element):
        if not self.row:
            return 0
        row, column = divmod(element, self.row)
        return ((self.columns or 0) >> column ^ (self.rows or 0) >> (row - self._first_row)) & 1


def _changes(old, new, begin, masks, width, floating):
    """The changes of a strip, class by class; old and new are its bytes."""
    half, changes = 1 << (8 * width - 1), []
    places_of = places_of_classes(old, masks, begin, width, floating)
    old, new = elements_of(old, width), elements_of(new, width)
    changed = list(map(ne, old, new))
    for number, places in enumerate(places_of):
        before = -1
        for rank, place in compress(enumerate(places), map(changed.__getitem__, places)):
            ends = [order(side[place], 8 * width) if floating else side[place] for side in (old, new)]
            upwards = (ends[1] - ends[0]) % (2 * half)
            # What is half of all numbers away may go either way.
            sign = int(upwards > half or upwards == half and place & 1)
            changes.append(Change(number, rank - before - 1, 2 * half - upwards if sign else upwards,
                                   sign ^ masks.turned(begin + place)))
            before = rank
    return changes


def _weight_codes(values, odd):
    """Codes of weights for the buckets of values, nearest from above to how often each is there."""
    counts = Counter(bucket_of(value)[0] for value in values)
    codes = [next(code for code in range(64) if weight_of(code) >= counts[bucket]) if counts[bucket] else 0
             for bucket in range(max(counts) + 1)]
    if odd:
        codes = [code or 1 for code in codes]
    return codes


def _probability_code(values):
    share = len(values) / (len(values) + sum(values))
    return next(code for code in range(256) if (16 + (code & 15)) * 2.0 ** (-5 - (code >> 4)) <= share or code == 255)


def _told(number, changes, masks, grouping, longest_distance):
    """What the class of that number tells, from all its changes in the group; None where it is not used."""
    if not changes and not grouping.odd:
        return None
    gaps, distances = [one.gap for one in changes] or [3], [one.distance - 1 for one in changes] or [0]
    most = most_gap_buckets(grouping.strip), bucket_of(longest_distance - 1)[0] + 1
    # Among four classes some are of each sort.
    given = {SOME: (number & 1, number & 2), DISTANCES: (False, not number & 1)}.get(grouping.given,
                                                                                    (grouping.given, grouping.given))
    rows = []
    for values, odd_buckets, codes_given in zip((gaps, distances), most, given):
        codes = _weight_codes(values, grouping.odd)
        if grouping.odd:
            codes += [0] * (odd_buckets - len(codes))
        rows.append(Row(len(codes), codes) if codes_given else Row(len(codes), None, _probability_code(values)))
    return Told(*rows, masks.sign)


def _differences(changes, reference, masks, grouping):
    """How a group with these changes differs from its reference, with no more buckets than it needs, but where it is
    odd."""
    differences = Differences(grouping.rarer, 0, 0, masks.sign)
    more_gaps, more_distances = -MOST_GAP_BUCKETS, 0
    for number, one in enumerate(all_used(reference.told)):
        own = [change for change in changes if change.of == number]
        gap_buckets = max((bucket_of(change.gap)[0] + 1 for change in own), default=1)
        distance_buckets = max((bucket_of(change.distance - 1)[0] + 1 for change in own), default=1)
        usual = usual_gap_buckets(rarer_code(one, differences)) if one.gaps.codes is None else one.gaps.buckets
        more_gaps = max(more_gaps, gap_buckets - usual)
        more_distances = max(more_distances, distance_buckets - one.distances.buckets)
    odd = 5 if grouping.odd else 0
    return differences._replace(gap_buckets=min(more_gaps + odd, MOST_GAP_BUCKETS),
                                distance_buckets=min(more_distances + odd, MOST_DISTANCE_BUCKETS))


def _difference(signed):
    return 2 * signed if signed >= 0 else -2 * signed - 1


def _put_codes(bits, codes):
    for before, code in zip((63, *codes), codes):
        bits.golomb(_difference(code - before), 2)


def _put_class(bits, told, masked, expected):
    gaps, distances = told.gaps, told.distances
    bits.put(int(gaps.codes is not None), 1)
    if gaps.codes is not None:
        bits.golomb(_difference(gaps.buckets - 1 - expected.gap_buckets), 2)
        _put_codes(bits, gaps.codes)
    else:
        code = inverted(gaps.probability)
        bits.golomb(_difference(code - expected.gap_code), 3)
        bits.golomb(_difference(gaps.buckets - usual_gap_buckets(code)), 0)
    bits.golomb(_difference(distances.buckets - 1 - expected.distance_buckets), 0)
    if distances.buckets != 1:
        bits.put(int(distances.codes is not None), 1)
        if distances.codes is not None:
            _put_codes(bits, distances.codes)
        else:
            bits.golomb(_difference(inverted(distances.probability) - expected.distance_code), 3)
    if masked:
        bits.golomb(_difference(told.sign - expected.sign), 3)
    expected.told(told)


def put_classes(bits, bounds, classes, masked):
    """classes: for each what it tells, or None."""
    bits.put(len(classes) - 1, 4)
    for before, bound in zip((None, *bounds), bounds):
        if before is None:
            bits.put(bound, 8)
        else:
            bits.golomb(bound - before - 1, 0)
    expected = Expected()
    for told in classes:
        bits.put(int(told is not None), 1)
        if told:
            _put_class(bits, told, masked, expected)


def put_differences(bits, differences, masked):
    """What a group with a reference tells of its classes."""
    bits.golomb(_difference(differences.rarer), 2)
    bits.golomb(_difference(differences.gap_buckets), 0)
    bits.golomb(differences.distance_buckets, 0)
    if masked:
        bits.golomb(_difference(differences.sign - NO_SIGNS), 3)


class CountWriter:
    """Writes the numbers of changes of one classed strip after another, of the classes that are used. weights: as the
    reader has them."""

    def __init__(self, bits, used, weights=None):
        self._bits, self._earlier, self._weights = bits, Earlier(used), weights

    def put(self, counts):
        """Writes those of a strip, or that it is not classed where there are none."""
        self._bits.put(int(counts is not None), 1)
        if counts is None:
            return
        difference = 0
        if self._earlier.strips:
            difference = _difference(sum(counts) - self._earlier.expected())
            self._bits.shorter(difference, self._earlier.order())
            self._put_shares(counts, self._earlier.weights())
        elif self._weights:
            self._bits.golomb(sum(counts), FIRST_ORDER)
            self._put_shares(counts, self._weights)
        else:
            for before, count in zip((0, *counts), counts):
                self._bits.golomb(_difference(count - before), FIRST_ORDER)
        self._earlier.told(counts, difference)

    def _put_shares(self, counts, weights):
        left = sum(counts)
        for number, count in enumerate(counts[:-1]):
            x = share(left, weights[number:])
            self._bits.shorter(_difference(count - x), order_for(x))
            left -= count


def classed_block(changes, tables, flaws=NO_FLAWS):
    """One coded block, or batch, from its changes and for each class the symbols of gaps and steps."""
    coders, raw = coder_count(len(changes)), BitWriter()
    for change in changes:
        for value in (change.gap, change.distance - 1):
            bits = bucket_of(value)[1]
            raw.put(value & (1 << bits) - 1, bits)
    front = 15 * coders // 8
    held = int.from_bytes(raw.bytes()[:front], "little")
    held |= flaws.held
    states = [flaws.least_end | held >> 15 * coder & LOW - 1 for coder in range(coders)]
    symbols = []
    for begin in range(0, len(changes), coders):
        turn = list(enumerate(changes[begin:begin + coders]))
        symbols += [(coder, tables[one.of][0], bucket_of(one.gap)[0]) for coder, one in turn]
        symbols += [(coder, tables[one.of][1], 2 * bucket_of(one.distance - 1)[0] + one.sign) for coder, one in turn]
    words = []
    for coder, table, symbol in reversed(symbols):
        x, often = states[coder], table.frequency[symbol]
        if x >= often << 21:
            words.append((x & HIGH - 1).to_bytes(2, "little"))
            x >>= 16
        states[coder] = x // often * TOTAL + x % often + table.begin[symbol]
    first = BitWriter()
    for state in states:
        first.put(state.bit_length() - 16, 4)
    for state in states:
        first.put(state - (1 << (state.bit_length() - 1)), state.bit_length() - 1)
    front_bytes = bytearray(first.bytes())
    front_bytes[-1] |= flaws.pad
    return bytes(front_bytes) + b"".join(reversed(words)) + raw.bytes()[front:]


def _put_mask(bits, mask, length):
    length += -length % 8
    bits.put(mask & (1 << length) - 1, length)


def put_skips(bits, order, numbers):
    """The list of skipped rows; numbers: how many are skipped before each that is not, and at the end."""
    bits.put(order, ORDER_BITS)
    for number in numbers:
        bits.shorter(number, order)


def skip_numbers(skipped):
    """The numbers of that list, from whether each row is skipped."""
    numbers = [0]
    for skips in skipped:
        if skips:
            numbers[-1] += 1
        else:
            numbers.append(0)
    return numbers if numbers[-1] else numbers[:-1]


def _without_changes(strips, parts, width, every):
    """Of each part of a row whether it is without changes, and among these one of so many as every says."""
    old, new = (b"".join(strip[side] for strip in strips) for side in (0, 1))
    without, found = [], 0
    for part in parts:
        at = slice((part.start - parts[0].start) * width, (part.stop - parts[0].start) * width)
        same = old[at] == new[at]
        found += same
        without.append(same and found % every == 0)
    return without


def make_group(strips, first_element, row, width, floating, grouping, reference=None):
    """The parameters and the coded batches of one group; strips: for each the bytes of base and of result, and None or
    the block as it is coded already, which is empty where batches or strips are of more than one. reference: the
    Parameters of the group that it refers to, where it does."""
    end = first_element + sum(len(old) for old, _, _ in strips) // width
    parts = row_parts(first_element, end, row) if row and grouping.skips is not None else []
    skips = _without_changes(strips, parts, width, 2 if grouping.odd else 1)
    kept = Kept(first_element, end, list(compress(parts, skips)))
    masks = Masks(grouping, reference.bounds if reference else grouping.bounds, first_element, row, kept)
    bits, changes_of, begin = BitWriter(), [], first_element
    for old, new, coded in strips:
        changes_of.append(_changes(old, new, begin, masks, width, floating) if coded is None else [])
        begin += len(old) // width
    changes = sum(changes_of, [])
    bits.put(masks.head | any(skips) << 2, 3)
    if reference:
        differences = _differences(changes, reference, masks, grouping)
        put_differences(bits, differences, masks.head)
        told = referring(reference.told, differences, Shape(width, row, 0, (), grouping.strip))
    else:
        of_class = [[] for _ in masks.classes]
        for one in changes:
            of_class[one.of].append(one)
        told = [_told(number, own, masks, grouping, 1 << (8 * width - 1)) for number, own in enumerate(of_class)]
        put_classes(bits, masks.bounds, told, masks.head)
    used = [number for number in masks.classes if told[number]]
    counts = CountWriter(bits, len(used), reference and reference.weights())
    for own in changes_of:
        of_class = Counter(one.of for one in own)
        counts.put([of_class[number] for number in used] if own else None)
    if masks.columns is not None:
        _put_mask(bits, masks.columns, row)
    if masks.rows is not None:
        _put_mask(bits, masks.rows, (end - 1) // row - first_element // row + 1)
    if any(skips):
        put_skips(bits, grouping.skips, skip_numbers(skips))
    tables, made = [one and symbols_of(one) for one in told], []
    for first in range(0, len(strips), grouping.batch):
        together = sum(changes_of[first:first + grouping.batch], [])
        made.append(classed_block(together, tables) if together else strips[first][2] or b"")
    return bits.bytes(), made
