# SPDX-License-Identifier: Apache-2.0
"""The parameters of a group of blocks: "Groups", "Brief parameters" and "Sign masks" of wdelta-delta(5)."""

from collections import namedtuple

from bits import BitReader
from elements import BLOCK_ELEMENTS, signed_of
from frequencies import Symbols, step_weights
from refusal import require
from told import BriefClasses, Classes, log

ROW_LIMIT = 65536

# What a group is about: the width of its elements, how long rows are (see row_length), the number of its first block,
# how many elements each of its strips has (see strip_counts), and of how many blocks a strip is at most.
Shape = namedtuple("Shape", "width row first_block counts strip", defaults=(1,))
# The frequencies of one class.
Class = namedtuple("Class", "gaps steps")


def row_length(shape):
    """How long the rows of a tensor are; 0 when it has none."""
    return shape[-1] if len(shape) > 1 and 2 <= shape[-1] <= ROW_LIMIT else 0


def strip_counts(first_block, counts, strip):
    """How many elements each strip of a group has; counts: those of its blocks, from the number of the first one on."""
    strips = {}
    for block, elements in enumerate(counts, first_block):
        strips[block // strip] = strips.get(block // strip, 0) + elements
    return list(strips.values())


def block_at(shape, place):
    """The number of the first block of a strip of the group."""
    return max(shape.first_block, (shape.first_block // shape.strip + place) * shape.strip)


def _class(told):
    return Class(Symbols(told.gaps.weights()), Symbols(step_weights(told.distances.weights(), told.sign)))


class CountCode:
    """How the numbers of changes of one class are told, one classed strip after another."""

    def __init__(self):
        self._m = self._t = self.strips = 0

    def expected(self, before=0):
        """before: what is expected in the first classed strip."""
        return (self._m + 8) // 16 if self.strips else before

    def order(self):
        if not self.strips:
            return 6
        x = self.expected()
        order = log((x + x // self.strips) * 5 // 2) // 2
        return max(order, log(self._t // 4)) if self.strips > 3 else order

    def take(self, bits, before=0):
        """The next number, which may be less than 0; before: as for expected."""
        order, zeros = self.order(), 0
        if not self.strips:
            difference = bits.golomb(order)
        else:
            while zeros < 8 and not bits.take(1):
                zeros += 1
            difference = (zeros << order) + (bits.take(order) if zeros < 8 else bits.golomb(order))
        count = self.expected(before) + signed_of(difference)
        self.told(count, difference)
        return count

    def told(self, count, difference):
        """Takes note of the next number and of its difference, as the page numbers differences."""
        if self.strips:
            self._t = 4 * difference if self.strips == 1 else self._t - self._t // 4 + difference
        self.strips = min(16, self.strips + 1)
        self._m = (self._m * (self.strips - 1) + 16 * count) // self.strips


class Group:
    """The parameters of a group, read: classes (None for one that is not used), masks, and counts, for each strip the
    number of changes of each class, or None where the strip is not classed."""

    def __init__(self, content, shape, what):
        require(shape.width < 8, f"{what}: classed blocks of elements of eight bytes")
        self.shape = shape
        row, first_element = shape.row, shape.first_block * BLOCK_ELEMENTS
        bits = BitReader(content, what)
        class_count = bits.take(4) + 1
        has_columns, has_rows, self._brief = bits.take(1), bits.take(1), bits.take(1)
        require(bits.take(1) == 0, f"{what}: an unknown bit is set")
        require(row or not has_columns and not has_rows, f"{what}: a sign mask without rows")
        self.bounds = self._take_bounds(bits, class_count - 1, what)
        told = (BriefClasses if self._brief else Classes)(bits, shape, has_columns or has_rows, what)
        self.classes = [_class(told.take()) if bits.take(1) else None for _ in range(class_count)]
        self._columns = self._rows = 0
        if has_columns:
            self._columns = bits.take(row + -row % 8)
        if has_rows:
            last = first_element + sum(shape.counts) - 1
            rows = last // row - first_element // row + 1
            self._rows = bits.take(rows + -rows % 8)
        self.masked = has_columns or has_rows
        codes = [CountCode() for _ in self.classes]
        self.counts = [self._strip_counts(bits, codes, elements, what) if bits.take(1) else None
                       for elements in shape.counts]
        bits.finish()
        require(any(self.counts), f"{what}: it has no classed strip")

    def _take_bounds(self, bits, count, what):
        bounds = []
        for _ in range(count):
            brief = self._brief and bounds
            bounds.append(bounds[-1] + 1 + bits.golomb(0) if brief else bits.take(8))
            require(bounds[-1] <= 255, f"{what}: a bound of {bounds[-1]}")
        require(all(low < high for low, high in zip([0] + bounds, bounds)), f"{what}: bounds do not ascend")
        return bounds

    def _strip_counts(self, bits, codes, elements, what):
        counts, before = [], 0
        for one, code in zip(self.classes, codes):
            counts.append(code.take(bits, before) if one else 0)
            require(0 <= counts[-1] <= elements, f"{what}: {counts[-1]} changes in {elements} elements")
            if one and self._brief:
                before = counts[-1]
        require(1 <= sum(counts) <= elements, f"{what}: {sum(counts)} changes in {elements} elements")
        return counts

    def class_of(self, context):
        return sum(bound <= context for bound in self.bounds)

    def turned(self, element):
        """Whether the sign of an element is turned round, counted from the beginning of the tensor."""
        if not self.masked:
            return 0
        row, column = divmod(element, self.shape.row)
        row -= self.shape.first_block * BLOCK_ELEMENTS // self.shape.row
        return (self._columns >> column ^ self._rows >> row) & 1
