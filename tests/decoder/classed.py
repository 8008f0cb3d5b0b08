# SPDX-License-Identifier: Apache-2.0
"""Classed blocks: the section of that name in wdelta-delta(5)."""

from array import array
from bisect import bisect_right
from functools import cached_property, lru_cache
from itertools import islice

from bits import BitReader
from elements import BLOCK_ELEMENTS, elements_of, order
from frequencies import TOTAL, bucket_start
from refusal import Refused, require

LOW, HIGH = 1 << 15, 1 << 16  # where a coder's state ends
MOST_CHANGES = 65536  # of a batch

_WITHOUT_SIGN = bytes(byte << 1 & 255 for byte in range(256))
_HIGHEST_BIT = bytes(byte >> 7 for byte in range(256))


def coder_count(changes):
    return 1 if changes < 128 else 2 if changes < 256 else 4 if changes < 512 else 8


def contexts_of(content, width, floating):
    """The context of each element, a byte each."""
    content = bytes(content)
    highest = content[width - 1::width]
    if not floating:
        return highest
    # A bit of the byte below is in the sign's stead. All elements at once, each in a byte of an integer.
    contexts = int.from_bytes(highest.translate(_WITHOUT_SIGN), "little")
    if width > 1:
        contexts |= int.from_bytes(content[width - 2::width].translate(_HIGHEST_BIT), "little")
    return contexts.to_bytes(len(highest), "little")


@lru_cache(maxsize=64)
def _class_of_contexts(bounds):
    return bytes(bisect_right(bounds, context) for context in range(256))


def places_of_classes(content, group, begin, width, floating):
    """For each class of the group the places of its elements in the strip, whose bytes content is, and which begins
    with that element of the tensor."""
    class_of = _class_of_contexts(tuple(group.bounds))
    places = [[] for _ in group.classes]
    numbers = contexts_of(content, width, floating).translate(class_of)
    for place in group.kept.places(begin, len(numbers)):
        places[numbers[place]].append(place)
    return places


def _classes(counts):
    """The class of each change of a strip."""
    return [number for number, count in enumerate(counts) for _ in range(count)]


class ClassedStrip:
    """One strip that is classed; of the same use as a Block, and taken as if it were one."""

    parts = ()

    def __init__(self, batch, group, place, what):
        """place: that of the strip in its group; batch: the one that its changes are coded in."""
        self._batch, self._group, self._place, self._what = batch, group, place, what
        self._width = group.shape.width
        self._begin = group.shape.first_block * BLOCK_ELEMENTS + sum(group.shape.counts[:place])
        self.changed = sum(group.counts[place])

    def applied(self, base, floating):
        """The elements of the result in bytes and how many of them changed; base is the bytes of the base's."""
        old, bits = elements_of(base, self._width), 8 * self._width
        new = array(old.typecode, old)
        places = places_of_classes(base, self._group, self._begin, self._width, floating)
        classes = _classes(self._group.counts[self._place])
        before, rank = None, -1
        for number, (gap, distance, sign) in zip(classes, self._batch.changes[self._place]):
            # Each class begins anew.
            rank = (rank if number == before else -1) + 1 + gap
            before = number
            if rank >= len(places[number]):
                raise Refused(f"{self._what}: a change lies behind the end of its class")
            place = places[number][rank]
            sign ^= self._group.turned(self._begin + place)
            ordered = order(old[place], bits) if floating else old[place]
            ordered = (ordered - distance if sign else ordered + distance) & (1 << bits) - 1
            new[place] = order(ordered, bits) if floating else ordered
        return new.tobytes(), self.changed


class Batch:
    """The changes of classed strips that are coded together; they are decoded once, when the first is asked for."""

    def __init__(self, coded, group, places, what):
        """places: those of the classed strips in their group, in order."""
        self._coded, self._group, self._places, self._what = bytes(coded), group, places, what
        count = sum(sum(group.counts[place]) for place in places)
        require(count <= MOST_CHANGES, f"{what}: {count} changes in a batch")

    @cached_property
    def changes(self):
        """Gap, distance and sign as it is coded of each change, in a list for each place."""
        classes = [_classes(self._group.counts[place]) for place in self._places]
        decoded = iter(self._decoded(sum(classes, [])))
        return {place: list(islice(decoded, len(own))) for place, own in zip(self._places, classes)}

    def _decoded(self, classes):
        coders = coder_count(len(classes))
        states, at = self._states(coders)
        gap_buckets, step_symbols = [], []

        def decoded(coder, symbols):
            nonlocal at
            x = states[coder]
            r = x % TOTAL
            symbol = symbols.at(r)
            x = symbols.frequency[symbol] * (x // TOTAL) + r - symbols.begin[symbol]
            if x < LOW:
                require(at + 2 <= len(self._coded), f"{self._what}: the words are cut")
                x = x << 16 | int.from_bytes(self._coded[at:at + 2], "little")
                at += 2
            states[coder] = x
            return symbol

        for begin in range(0, len(classes), coders):
            turn = [self._group.classes[number] for number in classes[begin:begin + coders]]
            gap_buckets += [decoded(coder, one.gaps) for coder, one in enumerate(turn)]
            step_symbols += [decoded(coder, one.steps) for coder, one in enumerate(turn)]
        return self._with_raw_bits(gap_buckets, step_symbols, states, at)

    def _states(self, coders):
        """The states at first, and where the words begin."""
        bits = BitReader(self._coded[:4 * coders + coders * 30 // 8 + 1], f"{self._what}: states")
        more = [bits.take(4) for _ in range(coders)]
        states = [1 << (15 + extra) | bits.take(15 + extra) for extra in more]
        total_bits = sum(19 + extra for extra in more)
        padding = bits.take(-total_bits % 8)
        require(padding == 0, f"{self._what}: bits behind the states")
        return states, (total_bits + 7) // 8

    def _with_raw_bits(self, gap_buckets, step_symbols, states, at):
        require(all(LOW <= state < HIGH for state in states), f"{self._what}: a state ends out of range")
        held = sum((state - LOW) << (15 * coder) for coder, state in enumerate(states))
        front = 15 * len(states) // 8
        require(held >> (8 * front) == 0, f"{self._what}: loose ends in the states")
        raw = held.to_bytes(front, "little") + self._coded[at:]
        bits = BitReader(raw, f"{self._what}: raw bits")
        changes, total_bits = [], 0
        for bucket, symbol in zip(gap_buckets, step_symbols):
            values = []
            for start, more in (bucket_start(bucket), bucket_start(symbol // 2)):
                values.append(start + bits.take(more))
                total_bits += more
            changes.append((values[0], values[1] + 1, symbol & 1))
        require(len(raw) == max(front, (total_bits + 7) // 8), f"{self._what}: bytes behind the raw bits")
        require(bits.take(8 * len(raw) - total_bits) == 0, f"{self._what}: loose ends behind the raw bits")
        return changes
