# SPDX-License-Identifier: Apache-2.0
"""A tiny encoder of groups with parameters by wdelta-delta(5), for tests only: correct, and no smaller than asked."""

from collections import namedtuple

from bits import BitWriter
from classed import HIGH, LOW, coder_count, places_of_classes
from elements import order
from frequencies import TOTAL, Symbols, bucket_of, step_weights, weight_of
from group import CountCode
from told import NO_SIGNS, Expected, Row, Told, expected_buckets, gap_bucket_bits, inverted, most_gap_buckets

# What make_delta calls the blocks of groups; blocks themselves do not have it, unlike the other modes.
CLASSED = 4
# How groups are made. bounds: of the contexts. given: whether weights are given; SOME means that some are. columns,
# rows: None, or the bits of a mask over the whole tensor as a number; sign: the probability that is told where there is
# a mask. blocks: of how many blocks a group is; strip: of how many a strip is; batch: of how many strips a batch is.
# odd: adds buckets, classes and weights that nothing uses. brief: whether the parameters are.
Grouping = namedtuple("Grouping", "bounds given columns rows sign blocks odd batch strip brief",
                      defaults=((), True, None, None, 128, 2, False, 1, 1, False))
SOME = "some"

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


def _told(number, changes, masks, grouping, longest_distance):
    """What the class of that number tells, from all its changes in the group; None where it is not used."""
    if not changes and not grouping.odd:
        return None
    gaps, distances = [one.gap for one in changes] or [3], [one.distance - 1 for one in changes] or [0]
    most = most_gap_buckets(grouping.strip), bucket_of(longest_distance - 1)[0] + 1
    rows = []
    # Among four classes some are of each sort.
    for values, odd_buckets, given_too in zip((gaps, distances), most, (number & 1, number & 2)):
        codes = _weight_codes(values, grouping.odd)
        if grouping.odd:
            codes += [0] * (odd_buckets - len(codes))
        given = given_too if grouping.given == SOME else grouping.given
        rows.append(Row(len(codes), codes) if given else Row(len(codes), None, _probability_code(values)))
    return Told(*rows, masks.sign)


def _put_row(bits, row):
    if row.codes is None:
        bits.put(row.probability, 8)
    for code in row.codes or ():
        bits.put(code, 6)


def _put_class(bits, told, masked, strip):
    bits.put(int(told.gaps.codes is not None), 1)
    bits.put(told.gaps.buckets - 1, gap_bucket_bits(strip))
    _put_row(bits, told.gaps)
    bits.put(int(told.distances.codes is not None), 1)
    bits.put(told.distances.buckets - 1, 6)
    _put_row(bits, told.distances)
    if masked:
        bits.put(told.sign, 8)


def _difference(signed):
    return 2 * signed if signed >= 0 else -2 * signed - 1


def _put_brief_codes(bits, codes):
    for before, code in zip((63, *codes), codes):
        bits.golomb(_difference(code - before), 2)


def _put_brief_class(bits, told, masked, expected):
    gaps, distances = told.gaps, told.distances
    bits.put(int(gaps.codes is not None), 1)
    if gaps.codes is not None:
        bits.golomb(_difference(gaps.buckets - 1 - expected.gap_buckets), 2)
        _put_brief_codes(bits, gaps.codes)
    else:
        code = inverted(gaps.probability)
        bits.golomb(_difference(code - expected.gap_code), 3)
        bits.golomb(_difference(gaps.buckets - 1 - expected_buckets(code)), 0)
    bits.golomb(_difference(distances.buckets - 1 - expected.distance_buckets), 0)
    if distances.buckets != 1:
        bits.put(int(distances.codes is not None), 1)
        if distances.codes is not None:
            _put_brief_codes(bits, distances.codes)
        else:
            bits.golomb(_difference(inverted(distances.probability) - expected.distance_code), 3)
    if masked:
        bits.golomb(_difference(told.sign - expected.sign), 3)
    expected.told(told)


def put_classes(bits, bounds, classes, masked, strip, brief):
    """classes: for each what it tells, or None."""
    for before, bound in zip((None, *bounds), bounds):
        if brief and before is not None:
            bits.golomb(bound - before - 1, 0)
        else:
            bits.put(bound, 8)
    expected = Expected()
    for told in classes:
        bits.put(int(told is not None), 1)
        if told and brief:
            _put_brief_class(bits, told, masked, expected)
        elif told:
            _put_class(bits, told, masked, strip)


def symbols_of(told):
    """Those of gaps and those of steps."""
    return Symbols(told.gaps.weights()), Symbols(step_weights(told.distances.weights(), told.sign))


def put_counts(bits, codes, counts, brief):
    """The numbers of changes of a classed strip; codes: CountCodes; both of the classes that are used."""
    before = 0
    for code, count in zip(codes, counts):
        _put_count(bits, code, count, before)
        before = count if brief else 0


def _put_count(bits, code, count, before):
    order, difference = code.order(), _difference(count - code.expected(before))
    if not code.strips:
        bits.golomb(difference, order)
    elif difference >> order < 8:
        bits.put(1 << (difference >> order), (difference >> order) + 1)
        bits.put(difference & (1 << order) - 1, order)
    else:
        bits.put(0, 8)
        bits.golomb(difference - (8 << order), order)
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
    told = [_told(number, [one for changes in changes_of for one in changes if one.of == number], masks, grouping,
                  1 << (8 * width - 1)) for number in masks.classes]
    masked = masks.columns is not None or masks.rows is not None
    bits.put(len(told) - 1, 4)
    bits.put(int(masks.columns is not None) | int(masks.rows is not None) << 1 | int(grouping.brief) << 2, 4)
    put_classes(bits, grouping.bounds, told, masked, grouping.strip, grouping.brief)
    tables = [symbols_of(one) if one else None for one in told]
    if masks.columns is not None:
        bits.put(masks.columns & (1 << row + -row % 8) - 1, row + -row % 8)
    if masks.rows is not None:
        rows = (begin - 1) // row - first_element // row + 1
        bits.put(masks.rows & (1 << rows + -rows % 8) - 1, rows + -rows % 8)
    used = [number for number in masks.classes if told[number]]
    codes, made = [CountCode() for _ in used], []
    for changes in changes_of:
        bits.put(int(bool(changes)), 1)
        if changes:
            counts = [sum(one.of == number for one in changes) for number in used]
            put_counts(bits, codes, counts, grouping.brief)
    for first in range(0, len(strips), grouping.batch):
        together = sum(changes_of[first:first + grouping.batch], [])
        made.append(classed_block(together, tables) if together else strips[first][2] or b"")
    return bits.bytes(), made
