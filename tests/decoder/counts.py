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


class Earlier:
    """What the classed strips so far say of the next one, where there are some."""

    def __init__(self, used):
        self.by_class = [0] * used
        self.strips = self._t = 0

    def expected(self):
        """How many changes the next has."""
        return sum(self.by_class) // self.strips

    def order(self):
        x = self.expected()
        order = order_for(x + x // self.strips)
        return max(order, log(self._t // 4)) if self.strips > 3 else order

    def weights(self):
        return [1 + changes for changes in self.by_class]

    def told(self, counts, difference=0):
        """Takes note of the numbers of a strip and of the difference of their sum, as the page numbers differences,
        which the first strip needs not."""
        if self.strips:
            self._t = 4 * difference if self.strips == 1 else self._t - self._t // 4 + difference
        self.strips += 1
        self.by_class = [sum(pair) for pair in zip(self.by_class, counts)]


class Counts:
    """Reads the numbers of changes of one classed strip after another, of the classes that are used. weights: those of
    the classes where the group has a reference."""

    def __init__(self, bits, used, weights, what):
        self._bits, self._used, self._weights, self._what = bits, used, weights, what
        self._earlier = Earlier(used)

    def take(self, elements):
        """Those of the next strip, which has so many elements."""
        difference = 0
        if self._earlier.strips:
            difference = self._bits.shorter(self._earlier.order())
            total = self._earlier.expected() + signed_of(difference)
            counts = self._shares(self._within(total, 1, elements), self._earlier.weights())
        elif self._weights:
            counts = self._shares(self._within(self._bits.golomb(FIRST_ORDER), 1, elements), self._weights)
        else:
            counts = self._first(elements)
        self._earlier.told(counts, difference)
        return counts

    def _within(self, count, least, most):
        require(least <= count <= most, f"{self._what}: {count} changes in {most} elements")
        return count

    def _first(self, elements):
        counts, before = [], 0
        for _ in range(self._used):
            before = self._within(before + signed_of(self._bits.golomb(FIRST_ORDER)), 0, elements)
            counts.append(before)
        self._within(sum(counts), 1, elements)
        return counts

    def _shares(self, left, weights):
        counts = []
        for number in range(self._used - 1):
            x = share(left, weights[number:])
            count = x + signed_of(self._bits.shorter(order_for(x)))
            require(0 <= count <= left, f"{self._what}: {count} changes of {left} that are left")
            counts.append(count)
            left -= count
        return [*counts, left]
