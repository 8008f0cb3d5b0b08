# SPDX-License-Identifier: Apache-2.0
"""What the classes of a group tell of themselves: "Groups" and "Classes" of wdelta-delta(5)."""

from collections import namedtuple

from counts import log
from elements import signed_of
from frequencies import probability_weights, weight_of
from refusal import Refused, require

NO_SIGNS = 128  # the probability of a sign in 1/256 where there is no mask


class Row(namedtuple("Row", "buckets codes probability", defaults=(None,))):
    """The weights of so many buckets, told by their codes or, where these are None, by the code of a probability."""

    def weights(self):
        if self.codes is None:
            return probability_weights(self.probability, self.buckets)
        return [weight_of(code) for code in self.codes]


# What one class tells: two Rows, and the probability of a sign in 1/256.
Told = namedtuple("Told", "gaps distances sign", defaults=(NO_SIGNS,))
# Where there is one bucket of distances it has the largest weight, which matters where a group that refers has more.
ONE_DISTANCE = Row(1, (63,))


def most_gap_buckets(strip):
    return 32 + 2 * log(strip)


def most_distance_buckets(width):
    return 2 * (8 * width - 1)


def inverted(code):
    """The code of a probability as parameters tell it, and the way back."""
    return code ^ 15


def usual_gap_buckets(inverted_code):
    """The number of gap buckets that goes with the code of a probability."""
    return (inverted_code + 1) // 8 + 6


def take_sign(bits, expected, what):
    """The probability of a sign."""
    sign = expected + signed_of(bits.golomb(3))
    require(1 <= sign <= 255, f"{what}: signs of probability {sign}")
    return sign


class Expected:
    """What is expected of the next class that is used, of both numbers of buckets less 1."""

    def __init__(self):
        self.gap_buckets = self.gap_code = self.distance_buckets = self.distance_code = 0
        self.sign = 128

    def told(self, one):
        """Takes note of a class."""
        self.gap_buckets = one.gaps.buckets - 1
        self.distance_buckets = max(0, one.distances.buckets - 1 - 2)
        self.sign = one.sign
        if one.gaps.codes is None:
            self.gap_code = min(255, inverted(one.gaps.probability) + 16)
        # Nothing is told of the weight of one bucket.
        if one.distances.codes is None and one.distances.buckets > 1:
            self.distance_code = max(0, inverted(one.distances.probability) - 16)


class Classes:
    """Reads what each class that is used tells."""

    def __init__(self, bits, shape, masked, what):
        self._bits, self._masked, self._what = bits, masked, what
        self._most_gap_buckets = most_gap_buckets(shape.strip)
        self._most_distance_buckets = most_distance_buckets(shape.width)
        self._expected = Expected()

    def take(self):
        expected = self._expected
        if self._bits.take(1):
            gaps = self._weights(self._gap_buckets(self._number(expected.gap_buckets, 2) + 1))
        else:
            code = self._code(expected.gap_code)
            buckets = self._gap_buckets(self._number(usual_gap_buckets(code), 0))
            gaps = Row(buckets, None, inverted(code))
        buckets = self._distance_buckets(self._number(expected.distance_buckets, 0) + 1)
        if buckets == 1:
            distances = ONE_DISTANCE
        elif self._bits.take(1):
            distances = self._weights(buckets)
        else:
            distances = Row(buckets, None, inverted(self._code(expected.distance_code)))
        told = Told(gaps, distances, take_sign(self._bits, expected.sign, self._what) if self._masked else NO_SIGNS)
        expected.told(told)
        return told

    def _number(self, expected, order):
        return expected + signed_of(self._bits.golomb(order))

    def _within(self, number, least, most, message):
        if not least <= number <= most:
            raise Refused(f"{self._what}: {message.format(number)}")
        return number

    def _gap_buckets(self, number):
        return self._within(number, 1, self._most_gap_buckets, "{} gap buckets")

    def _distance_buckets(self, number):
        return self._within(number, 1, self._most_distance_buckets, "{} distance buckets")

    def _code(self, expected):
        """The code of a probability, inverted."""
        return self._within(self._number(expected, 3), 0, 255, "a probability of the inverted code {}")

    def _weights(self, buckets):
        codes = [63]
        for _ in range(buckets):
            codes.append(self._within(self._number(codes[-1], 2), 0, 63, "a weight of the code {}"))
        require(any(codes[1:]), f"{self._what}: no weight but 0")
        return Row(buckets, codes[1:])
