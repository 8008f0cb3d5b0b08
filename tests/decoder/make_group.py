# SPDX-License-Identifier: Apache-2.0
"""A tiny encoder of groups with parameters by wdelta-delta(5), for tests only: correct, and no smaller than asked."""

from collections import namedtuple

from bits import BitWriter
from classed import HIGH, LOW, coder_count, places_of_classes
from elements import order
from frequencies import TOTAL, Symbols, bucket_of, probability_weights, step_weights, weight_of
from group import NO_SIGNS, CountCode, gap_bucket_bits, most_gap_buckets

# What make_delta calls the blocks of groups; blocks themselves do not have it, unlike the other modes.
CLASSED = 4
# How groups are made. bounds: of the contexts. given: whether weights are given. columns, rows: None, or the bits
# of a mask over the whole tensor as a number; sign: the probability that is told where there is a mask. blocks: of how
# many blocks a group is; strip: of how many a strip is; batch: of how many strips a batch is. odd: adds buckets,
# classes and weights that nothing uses.
Grouping = namedtuple("Grouping", "bounds given columns rows sign blocks odd batch strip",
                      defaults=((), True, None, None, 128, 2, False, 1, 1))

# What a class says of itself: the codes of its gap weights or of their probability, and of its distance weights.
_Told = namedtuple("_Told", "gaps probability gap_buckets distances distance_probability")
# One change: the number of its class, the gap before it, its distance and its sign as it is coded.
Change = namedtuple("Change", "of gap distance sign")

# What a coded block may have that it must not: bits in what the states hold, states that end elsewhere, and bits behind
# the states.
Flaws = namedtuple("Flaws", "held least_end pad", defaults=(0, LOW, 0))
NO_FLAWS = Flaws()


class Masks:
    """Both masks of a group, and what class_of and row_length mean to places_of_classes."""

    def __init__(self, grouping, first_element, row):
        self.bounds, self.classes = grouping.bounds, range(len(grouping.bounds) + 1)
        self.row, self._first_row = row, first_element // row if row else 0
        self.columns = grouping.columns if row else None
        self.rows = grouping.rows >> self._first_row if row and grouping.rows is not None else None
        self.sign = NO_SIGNS if self.columns is None and self.rows is None else grouping.sign

    def class_of(self, context):
        return sum(bound <= context for bound in self.bounds)

    def turned(self, element):
        if not self.row:
            return 0
        row, column = divmod(element, self.row)
        return ((self.columns or 0) >> column ^ (self.rows or 0) >> (row - self._first_row)) & 1


def _changes(old, new, begin, masks, width, floating):
    """The changes of a strip, class by class; old and new are lists of elements."""
    half, changes = 1 << (8 * width - 1), []
    for number, places in enumerate(places_of_classes(old, masks, width, floating)):
        gap = 0
        for place in places:
            if old[place] == new[place]:
                gap += 1
                continue
            ends = [order(side[place], 8 * width) if floating else side[place] for side in (old, new)]
            upwards = (ends[1] - ends[0]) % (2 * half)
            # What is half of all numbers away may go either way.
            sign = int(upwards > half or upwards == half and place & 1)
            changes.append(Change(number, gap, 2 * half - upwards if sign else upwards,
                                   sign ^ masks.turned(begin + place)))
            gap = 0
    return changes


def _weight_codes(values, odd):
    """Codes of weights for the buckets of values, nearest from above to how often each is there."""
    counts = [0] * (max(bucket_of(value)[0] for value in values) + 1)
    for value in values:
        counts[bucket_of(value)[0]] += 1
    codes = [next(code for code in range(64) if weight_of(code) >= count) if count else 0 for count in counts]
    if odd:
        codes = [code or 1 for code in codes]
    return codes


def _probability_code(values):
    share = len(values) / (len(values) + sum(values))
    return next(code for code in range(256) if (16 + (code & 15)) * 2.0 ** (-5 - (code >> 4)) <= share or code == 255)


def _told(changes, grouping, longest_distance):
    """What one class says of itself, from all its changes in the group; None where it is not used."""
    if not changes and not grouping.odd:
        return None
    gaps, distances = [one.gap for one in changes] or [3], [one.distance - 1 for one in changes] or [0]
    buckets = max(bucket_of(gap)[0] for gap in gaps) + 1
    codes = _weight_codes(distances, grouping.odd)
    if grouping.odd:
        buckets = most_gap_buckets(grouping.strip)
        codes += [0] * (bucket_of(longest_distance - 1)[0] + 1 - len(codes))
    if grouping.given:
        codes_of_gaps = _weight_codes(gaps, grouping.odd)
        return _Told(codes_of_gaps + [0] * (buckets - len(codes_of_gaps)), None, buckets, codes, None)
    return _Told(None, _probability_code(gaps), buckets, codes, _probability_code(distances))


def _put_class(bits, told, masks, strip):
    bits.put(int(told is not None), 1)
    if told is None:
        return None
    bits.put(int(told.gaps is not None), 1)
    bits.put(told.gap_buckets - 1, gap_bucket_bits(strip))
    if told.gaps is None:
        bits.put(told.probability, 8)
        gaps = probability_weights(told.probability, told.gap_buckets)
    else:
        for code in told.gaps:
            bits.put(code, 6)
        gaps = [weight_of(code) for code in told.gaps]
    bits.put(int(told.distance_probability is None), 1)
    bits.put(len(told.distances) - 1, 6)
    if told.distance_probability is None:
        for code in told.distances:
            bits.put(code, 6)
        distances = [weight_of(code) for code in told.distances]
    else:
        bits.put(told.distance_probability, 8)
        distances = probability_weights(told.distance_probability, len(told.distances))
    if masks.columns is not None or masks.rows is not None:
        bits.put(masks.sign, 8)
    return Symbols(gaps), Symbols(step_weights(distances, masks.sign))


def _put_golomb(bits, number, order):
    z = number + (1 << order)
    bits.put(0, z.bit_length() - 1 - order)
    bits.put(1, 1)
    bits.put(z - (1 << (z.bit_length() - 1)), z.bit_length() - 1)


def put_count(bits, code, count):
    signed, order = count - code.expected(), code.order()
    difference = 2 * signed if signed >= 0 else -2 * signed - 1
    if not code.strips:
        _put_golomb(bits, difference, order)
    elif difference >> order < 8:
        bits.put(1 << (difference >> order), (difference >> order) + 1)
        bits.put(difference & (1 << order) - 1, order)
    else:
        bits.put(0, 8)
        _put_golomb(bits, difference - (8 << order), order)
    code.told(count, difference)


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


def make_group(strips, first_element, row, width, floating, grouping):
    """The parameters and the coded batches of one group; strips: for each the bytes of base and of result, and None or
    the block as it is coded already, which is empty where batches or strips are of more than one."""
    masks, bits = Masks(grouping, first_element, row), BitWriter()
    changes_of, begin = [], first_element
    for *sides, coded in strips:
        old, new = ([int.from_bytes(side[at:at + width], "little") for at in range(0, len(side), width)]
                    for side in sides)
        changes_of.append(_changes(old, new, begin, masks, width, floating) if coded is None else [])
        begin += len(old)
    told = [_told([one for changes in changes_of for one in changes if one.of == number], grouping,
                  1 << (8 * width - 1)) for number in masks.classes]
    bits.put(len(told) - 1, 4)
    bits.put(int(masks.columns is not None) | int(masks.rows is not None) << 1, 4)
    for bound in grouping.bounds:
        bits.put(bound, 8)
    tables = [_put_class(bits, one, masks, grouping.strip) for one in told]
    if masks.columns is not None:
        bits.put(masks.columns & (1 << row + -row % 8) - 1, row + -row % 8)
    if masks.rows is not None:
        rows = (begin - 1) // row - first_element // row + 1
        bits.put(masks.rows & (1 << rows + -rows % 8) - 1, rows + -rows % 8)
    codes, made = [CountCode() for _ in told], []
    for changes in changes_of:
        bits.put(int(bool(changes)), 1)
        if changes:
            for number, code in enumerate(codes):
                if told[number]:
                    put_count(bits, code, sum(one.of == number for one in changes))
    for first in range(0, len(strips), grouping.batch):
        together = sum(changes_of[first:first + grouping.batch], [])
        made.append(classed_block(together, tables) if together else strips[first][2] or b"")
    return bits.bytes(), made
