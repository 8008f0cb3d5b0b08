# SPDX-License-Identifier: Apache-2.0
"""Buckets, weights and frequencies: "Classed blocks" and "Groups" of wdelta-delta(5)."""

from bisect import bisect_right
from itertools import accumulate

TOTAL = 1024


def bucket_of(value):
    """The bucket of a gap, or of a distance less 1, and how many raw bits it has."""
    if value < 4:
        return value, 0
    e = value.bit_length() - 1
    return 2 * e + (value >> (e - 1) & 1), e - 1


def bucket_start(bucket):
    """The smallest value of a bucket, and how many raw bits say which of its values it is."""
    if bucket < 4:
        return bucket, 0
    e = bucket // 2
    return (2 + bucket % 2) << (e - 1), e - 1


def weight_of(code):
    return (4 + (code - 1 & 3)) << (code - 1 >> 2) if code else 0


def probability_weights(code, buckets):
    """The weights of gap buckets whose gaps come from the probability of that code."""
    reached = [1 << 32, (1 << 32) - ((16 + (code & 15)) << (27 - (code >> 4)))]
    for e in range(1, buckets // 2 + 1):
        before = reached[max(1, 2 * e - 2)]
        reached.append(before * before >> 32)
        reached.append(reached[2 * e] * before >> 32)
    weights = [reached[b] - reached[b + 1] for b in range(buckets - 1)] + [reached[buckets - 1]]
    return [max(1, weight) for weight in weights]


def step_weights(distance_weights, probability):
    """The weights of step symbols: for each distance bucket first the one upwards."""
    return [weight * share for weight in distance_weights for share in (256 - probability, probability)]


def frequencies(weights):
    """One for each weight; they add up to TOTAL."""
    total = sum(weights)
    made = [max(1, weight * TOTAL // total) if weight else 0 for weight in weights]
    left = sum(made) - TOTAL
    if left < 0:
        made[made.index(max(made))] -= left
    while left > 0:
        largest = made.index(max(made))
        taken = min(left, made[largest] // 2)
        made[largest] -= taken
        left -= taken
    return made


class Symbols:
    """The symbols of one kind and class: how often each comes, and where the symbols before it end."""

    def __init__(self, weights):
        self.frequency = frequencies(weights)
        self.begin = [0, *accumulate(self.frequency[:-1])]

    def at(self, r):
        """The symbol for which begin <= r < begin + frequency."""
        return bisect_right(self.begin, r) - 1
