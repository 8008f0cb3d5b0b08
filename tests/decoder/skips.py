# SPDX-License-Identifier: Apache-2.0
"""Rows in which nothing changes: "Skipped rows" of wdelta-delta(5)."""

from itertools import compress

from elements import BLOCK_ELEMENTS
from refusal import require

ORDER_BITS = 4


def row_parts(begin, end, row):
    """The elements of a tensor from begin to end: a range for each row, or for each part of one that lies in another
    block."""
    parts = []
    while begin < end:
        stop = min(end, (begin // row + 1) * row, (begin // BLOCK_ELEMENTS + 1) * BLOCK_ELEMENTS)
        parts.append(range(begin, stop))
        begin = stop
    return parts


def take_skips(bits, parts, what):
    """Those of the parts of rows that are skipped."""
    order, at, skipped = bits.take(ORDER_BITS), 0, []
    while at < len(parts):
        number, left = bits.shorter(order), len(parts) - at
        require(number <= left, f"{what}: {number} rows are skipped of {left} that are left")
        skipped += parts[at:at + number]
        at += number + 1  # the one behind them, if there is one, is not skipped
    require(skipped, f"{what}: no rows are skipped")
    return skipped


class Kept:
    """The elements of a group, from begin to end, that are in classes: all but those of the parts of rows that are
    skipped."""

    def __init__(self, begin, end, skipped):
        self._begin, self._flags = begin, bytearray(b"\1") * (end - begin) if skipped else None
        for part in skipped:
            self._flags[part.start - begin:part.stop - begin] = bytes(len(part))

    def places(self, begin, count):
        """Where they lie among so many elements from begin on."""
        if self._flags is None:
            return range(count)
        return compress(range(count), self._flags[begin - self._begin:])
