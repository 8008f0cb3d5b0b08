# SPDX-License-Identifier: Apache-2.0
"""Classes that are told by how they differ from those of another group: "References" of wdelta-delta(5)."""

from collections import namedtuple

from elements import signed_of
from refusal import require
from told import (NO_SIGNS, Row, Told, inverted, most_distance_buckets, most_gap_buckets, take_sign,
                  usual_gap_buckets)

# How much rarer changes are, how many buckets there are more than usual and more than those of the reference, and the
# probability of a sign.
Differences = namedtuple("Differences", "rarer gap_buckets distance_buckets sign", defaults=(0, 0, 0, NO_SIGNS))


# Of the first two what they are at most, and at least when they are less than 0.
MOST_RARER, MOST_GAP_BUCKETS, MOST_DISTANCE_BUCKETS = 255, 64, 62


def take_differences(bits, masked, what):
    rarer, gap_buckets = signed_of(bits.golomb(2)), signed_of(bits.golomb(0))
    distance_buckets = bits.golomb(0)
    require(abs(rarer) <= MOST_RARER, f"{what}: changes are rarer by {rarer}")
    require(abs(gap_buckets) <= MOST_GAP_BUCKETS, f"{what}: {gap_buckets} gap buckets more")
    require(distance_buckets <= MOST_DISTANCE_BUCKETS, f"{what}: {distance_buckets} distance buckets more")
    return Differences(rarer, gap_buckets, distance_buckets, take_sign(bits, NO_SIGNS, what) if masked else NO_SIGNS)


def all_used(classes):
    """What classes tell, where those that are not used are as others."""
    before, used = next(one for one in classes if one), []
    for one in classes:
        before = one or before
        used.append(before)
    return used


def rarer_code(one, differences):
    """The code of the probability of gaps, inverted, of a class as one of the reference."""
    return max(0, min(255, inverted(one.gaps.probability) + differences.rarer))


def referring(classes, differences, shape):
    """What the classes of a group tell by those of its reference."""
    return [_differing(one, differences, shape) for one in all_used(classes)]


def _extended(codes, more, most):
    """A row of weights that are given, with so many buckets more, but no more than there may be."""
    codes = [code or 1 for code in codes][:most]
    codes += [1] * min(more, most - len(codes))
    return Row(len(codes), codes)


def _differing(one, differences, shape):
    most_gaps, most_distances = most_gap_buckets(shape.strip), most_distance_buckets(shape.width)
    if one.gaps.codes is None:
        code = rarer_code(one, differences)
        buckets = max(1, min(most_gaps, usual_gap_buckets(code) + differences.gap_buckets))
        gaps = Row(buckets, None, inverted(code))
    else:
        gaps = _extended(one.gaps.codes, differences.gap_buckets, most_gaps)
    if one.distances.codes is None:
        buckets = min(most_distances, one.distances.buckets + differences.distance_buckets)
        distances = one.distances._replace(buckets=buckets)
    else:
        distances = _extended(one.distances.codes, differences.distance_buckets, most_distances)
    return Told(gaps, distances, differences.sign)
