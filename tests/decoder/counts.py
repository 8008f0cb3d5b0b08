# SPDX-License-Identifier: Apache-2.0
"""How often each class changes in a strip: "Numbers of changes" of wdelta-delta(5)."""

from elements import signed_of
from refusal import require

FIRST_ORDER = 6  # of numbers in the first classed strip


def log(value):
    return max(0, value.bit_length() - 1)


def order_for(x):
    """The order of the code of a difference from x."""
    return log(x * 5 // 2) // 2


def share(left, weights):
    """How many of the changes that are left the first of the classes is expected to have that have these weights."""
    return left * weights[0] // sum(weights)


class ExpectedCount:
    """What is expected of one class in the next classed strip; strips says how many there were, up to 16."""

    def __init__(self):
        self._m = self._t = self.strips = 0

    def count(self):
        return (self._m + 8) // 16

    def order(self):
        x = self.count()
        order = order_for(x + x // self.strips)
        return max(order, log(self._t // 4)) if self.strips > 3 else order

    def told(self, count, difference=0):
        """Takes note of a number and of its difference, as the page numbers differences, which the first strip needs
        not."""
        if self.strips:
            self._t = 4 * difference if self.strips == 1 else self._t - self._t // 4 + difference
        self.strips = min(16, self.strips + 1)
        self._m = (self._m * (self.strips - 1) + 16 * count) // self.strips


class Counts:
    """Reads the numbers of changes of one classed strip after another, of the classes that are used. weights: those of
    the classes where the group has a reference."""

    def __init__(self, bits, used, weights, what):
        self._bits, self._weights, self._what = bits, weights, what
        self._expected = [ExpectedCount() for _ in range(used)]
        self._take = self._first if weights is None else self._shared

    def take(self, elements):
        """Those of the next strip, which has so many elements."""
        counts = self._take(elements)
        self._within(sum(counts), 1, elements)
        self._take = self._later
        return counts

    def _within(self, count, least, most):
        require(least <= count <= most, f"{self._what}: {count} changes in {most} elements")
        return count

    def _first(self, elements):
        counts, before = [], 0
        for expected in self._expected:
            before = self._within(before + signed_of(self._bits.golomb(FIRST_ORDER)), 0, elements)
            expected.told(before)
            counts.append(before)
        return counts

    def _shared(self, elements):
        left, counts = self._within(self._bits.golomb(FIRST_ORDER), 1, elements), []
        for number, expected in enumerate(self._expected, 1):
            count = left
            if number < len(self._expected):
                x = share(left, self._weights[number - 1:])
                count = x + signed_of(self._bits.shorter(order_for(x)))
                require(0 <= count <= left, f"{self._what}: {count} changes of {left} that are left")
            expected.told(count)
            counts.append(count)
            left -= count
        return counts

    def _later(self, elements):
        counts = []
        for expected in self._expected:
            difference = self._bits.shorter(expected.order())
            counts.append(self._within(expected.count() + signed_of(difference), 0, elements))
            expected.told(counts[-1], difference)
        return counts
