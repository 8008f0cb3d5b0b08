# SPDX-License-Identifier: Apache-2.0
"""The parameters of a group of blocks: "Groups", "Sign masks" and "Skipped rows" of wdelta-delta(5)."""

from collections import namedtuple

from bits import BitReader
from counts import Counts
from elements import BLOCK_ELEMENTS
from frequencies import Symbols, step_weights
from reference import referring, take_differences
from refusal import require
from skips import Kept, row_parts, take_skips
from told import Classes

ROW_LIMIT = 65536
REFERENCE_LIMIT = 65536  # of bytes of parameters, up to the masks

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


def symbols_of(told):
    """The frequencies of a class by what it tells."""
    return Class(Symbols(told.gaps.weights()), Symbols(step_weights(told.distances.weights(), told.sign)))


class Parameters:
    """The parameters of a group up to its masks, read: told, what each class tells (None for one that is not used), and
    counts, for each strip the number of changes of each class, or None where the strip is not classed. reference: the
    Parameters of the group that it refers to, where it does."""

    def __init__(self, content, shape, what, reference=None):
        require(shape.width < 8, f"{what}: classed blocks of elements of eight bytes")
        self.shape, self._what, self._bits = shape, what, BitReader(content, what)
        self.has_columns, self.has_rows, self.has_skips = (self._bits.take(1) for _ in range(3))
        self.masked = self.has_columns or self.has_rows
        weights = None
        if reference is None:
            class_count = self._bits.take(4) + 1
            self.bounds = self._take_bounds(class_count - 1)
            classes = Classes(self._bits, shape, self.masked, what)
            self.told = [classes.take() if self._bits.take(1) else None for _ in range(class_count)]
        else:
            self.bounds, weights = reference.bounds, reference.weights()
            self.told = referring(reference.told, take_differences(self._bits, self.masked, what), shape)
        used = [number for number, told in enumerate(self.told) if told]
        counts, self.counts = Counts(self._bits, len(used), weights, what), []
        for elements in shape.counts:
            taken = dict(zip(used, counts.take(elements))) if self._bits.take(1) else None
            self.counts.append(taken and [taken.get(number, 0) for number in range(len(self.told))])
        require(any(self.counts), f"{what}: it has no classed strip")
        self.front_bytes = self._bits.bytes_taken()

    def _take_bounds(self, count):
        bounds = []
        for _ in range(count):
            bounds.append(bounds[-1] + 1 + self._bits.golomb(0) if bounds else self._bits.take(8))
            require(1 <= bounds[-1] <= 255, f"{self._what}: a bound of {bounds[-1]}")
        return bounds

    def weights(self):
        """Of each class what says how large its share is expected to be in a group that refers to this one."""
        return [1 + sum(counts[number] for counts in self.counts if counts) for number in range(len(self.told))]


class Referable(namedtuple("Referable", "content shape what")):
    """A group that others may refer to."""

    def parameters(self, width):
        """As a group reads them that refers to this one and has elements of that width."""
        read = Parameters(self.content, self.shape._replace(width=width), self.what)
        require(read.front_bytes <= REFERENCE_LIMIT, f"{self.what}: {read.front_bytes} bytes of parameters to refer to")
        return read


class Group(Parameters):
    """All parameters of a group, read: its masks and which of its elements are kept, too, and of each class the
    frequencies."""

    def __init__(self, content, shape, what, reference=None):
        super().__init__(content, shape, what, reference)
        self.classes = [told and symbols_of(told) for told in self.told]
        require(shape.row or not self.masked, f"{what}: a sign mask without rows")
        require(shape.row or not self.has_skips, f"{what}: rows are skipped where there are none")
        self._columns = self._rows = 0
        begin = shape.first_block * BLOCK_ELEMENTS
        end = begin + sum(shape.counts)
        if self.has_columns:
            self._columns = self._take_mask(shape.row)
        if self.has_rows:
            self._rows = self._take_mask((end - 1) // shape.row - begin // shape.row + 1)
        skipped = take_skips(self._bits, row_parts(begin, end, shape.row), what) if self.has_skips else []
        self.kept = Kept(begin, end, skipped)
        self._bits.finish()

    def _take_mask(self, length):
        return self._bits.take(length + -length % 8)

    def turned(self, element):
        """Whether the sign of an element is turned round, counted from the beginning of the tensor."""
        if not self.masked:
            return 0
        row, column = divmod(element, self.shape.row)
        row -= self.shape.first_block * BLOCK_ELEMENTS // self.shape.row
        return (self._columns >> column ^ self._rows >> row) & 1
