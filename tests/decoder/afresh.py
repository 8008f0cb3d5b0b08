# SPDX-License-Identifier: Apache-2.0
"""Blocks without regard to their base: "Afresh blocks" of wdelta-delta(5)."""

from array import array

import zstd
from bits import BitReader
from blocks import differing, read_varint
from elements import TYPECODE, stepped
from refusal import require

AFRESH = 5
MOST_FIRST_BITS = 5


class Plane:
    """One of the numbers of all steps; streams are decompressed from outside where there is a frame_size."""

    def __init__(self, streams, bits, count, frame_size, what):
        self.streams, self.bits, self.count, self.frame_size, self.what = streams, bits, count, frame_size, what

    def numbers(self):
        if self.frame_size is not None:
            require(all(number >> self.bits == 0 for number in self.streams), f"{self.what}: a number is too large")
            return self.streams
        if self.bits == 8:
            return self.streams
        bits = BitReader(self.streams, self.what)
        numbers = [bits.take(self.bits) for _ in range(self.count)]
        bits.finish()
        return numbers


class AfreshBlock:
    """One coded block: read, given its decompressed planes, then applied, like Block."""

    def __init__(self, coded, count, width, what):
        self.count, self.width = count, width
        require(coded[0] >> 4 == 0, f"{what}: unknown bits in the first byte of a block")
        require(len(coded) > 1, f"{what}: cut behind its mode")
        self.first_bits, self.first = coded[1] & 7, coded[1] >> 3
        require(self.first_bits <= (MOST_FIRST_BITS if width > 1 else 0) and self.first >> self.first_bits == 0,
                f"{what}: {self.first_bits} first bits that are {self.first}")
        widths = [8] if width == 1 else [8, 8 - self.first_bits] + [8] * (width - 2)
        at, self.parts = 2, []
        for bits in widths:
            length, at = read_varint(coded, at, what)
            framed, length = length > 0, length or (count * bits + 7) // 8
            require(at + length <= len(coded), f"{what}: a plane is cut")
            streams = coded[at:at + length]
            size = zstd.content_size(streams, what) if framed else None
            require(size in (None, count), f"{what}: a plane of {size} numbers for {count} elements")
            self.parts.append(Plane(streams, bits, count, size, what))
            at += length
        require(at == len(coded), f"{what}: bytes behind the planes")

    def applied(self, base, floating):
        """The elements of the result in bytes, and how many of them changed."""
        bits, steps = 8 * self.width, [self.first] * self.count
        for plane in self.parts:
            steps = [step << plane.bits | number for step, number in zip(steps, plane.numbers())]
        new = array(TYPECODE[self.width], (stepped(0, step, bits, floating) for step in steps)).tobytes()
        return new, differing(base, new, self.width)
