# SPDX-License-Identifier: Apache-2.0
"""Coded blocks: "The block index" and "Blocks" of wdelta-delta(5)."""

import sys
from array import array
from functools import lru_cache
from itertools import accumulate

import zstd
from elements import TYPECODE, order, signed_of, stepped
from refusal import Refused, require

SPARSE, DENSE, WHOLE = 1, 2, 3

assert sys.byteorder == "little", "this decoder reads elements in the machine's order"


def read_varint(content, at, what):
    """Returns the number at content[at:] and where it ends."""
    number = 0
    for length in range(10):
        require(at + length < len(content), f"{what}: cut inside a varint")
        byte = content[at + length]
        number |= (byte & 127) << (7 * length)
        if byte < 128:
            require(byte or length == 0, f"{what}: varint is longer than needed")
            require(number < 1 << 64, f"{what}: varint is too large")
            return number, at + length + 1
    raise Refused(f"{what}: varint of more than ten bytes")


class Block:
    """One coded block: first read, then given its streams (decompressed or not), then applied. What is compressed of
    it are its parts; here there is one."""

    def __init__(self, coded, count, width, what):
        self.count, self.width, self.what, self.parts = count, width, what, [self]
        require(coded[0] & 0xE0 == 0, f"{what}: unknown bits in the first byte of a block")
        self.mode, stored = coded[0] & 15, coded[0] >> 4 & 1
        require(self.mode in (SPARSE, DENSE, WHOLE), f"{what}: unknown mode {self.mode}")
        at = 1
        shortest = longest = count * width
        if self.mode == SPARSE:
            self.changed, at = read_varint(coded, at, what)
            require(1 <= self.changed <= count, f"{what}: {self.changed} changes in {count} elements")
            shortest = 2 * self.changed
            longest = self.changed * (4 + (width if width > 1 else 0))
        self.streams = coded[at:]
        self.frame_size = None if stored else zstd.content_size(self.streams, what)
        length = len(self.streams) if stored else self.frame_size
        require(shortest <= length <= longest, f"{what}: streams of {length} bytes, not of {shortest} to {longest}")

    def applied(self, base, floating):
        """The elements of the result in bytes and how many of them changed; base is the bytes of the base's."""
        if self.mode == WHOLE:
            return self.streams, differing(base, self.streams, self.width)
        old = array(TYPECODE[self.width])
        old.frombytes(base)
        new = self._dense(old, floating) if self.mode == DENSE else self._sparse(old, floating)
        return new.tobytes(), self.changed

    def _dense(self, old, floating):
        planes = bytearray(self.count * self.width)
        for plane in range(self.width):
            planes[plane::self.width] = self.streams[plane * self.count:(plane + 1) * self.count]
        steps = array(TYPECODE[self.width])
        steps.frombytes(planes)
        self.changed = self.count - steps.count(0)
        step_up = _stepper(self.width, floating)
        return array(TYPECODE[self.width], map(step_up, old, steps))

    def _sparse(self, old, floating):
        n, width, streams = self.changed, self.width, bytes(self.streams)
        gaps, steps = streams[:n], streams[n:2 * n]
        long_gaps, long_steps = gaps.count(255), steps.count(255)
        require(width > 1 or not long_steps, f"{self.what}: a step of 256 or more in a byte")
        length = 2 * n + 2 * long_gaps + width * long_steps
        require(len(streams) == length, f"{self.what}: streams of {len(streams)} bytes, not of {length}")
        more_gaps, more_steps = array("H"), array(TYPECODE[width])
        more_gaps.frombytes(streams[2 * n:2 * n + 2 * long_gaps])
        more_steps.frombytes(streams[2 * n + 2 * long_gaps:])
        # A change lies behind the change before it: the distance is the gap and 1.
        places = list(accumulate(distance for distance in _extended(gaps, more_gaps, 1, 256)))
        require(places[-1] <= self.count, f"{self.what}: a change lies behind the end of the block")
        step_list = list(_extended(steps, more_steps, 1, 256))
        require(max(step_list) >> (8 * width) == 0, f"{self.what}: a step of more than {8 * width} bits")
        step_up = _stepper(width, floating)
        new = array(TYPECODE[width], old)
        for place, step in zip(places, step_list):
            new[place - 1] = step_up(old[place - 1], step)
        return new


def _extended(small, large, less, from_large):
    """Each byte of small plus less, or where it is 255 the next number of large plus from_large."""
    rest = iter(large)
    return (byte + less if byte != 255 else next(rest) + from_large for byte in small)


def differing(base, result, width):
    if bytes(base) == bytes(result):
        return 0
    old, new = array(TYPECODE[width]), array(TYPECODE[width])
    old.frombytes(base)
    new.frombytes(result)
    return sum(map(int.__ne__, old, new))


@lru_cache(maxsize=None)
def _stepper(width, floating):
    """stepped for one kind of element, by tables where these are small."""
    bits = 8 * width
    if width > 2:
        return lambda base, step: stepped(base, step, bits, floating)
    size, mask = 1 << bits, (1 << bits) - 1
    orders = [order(value, bits) if floating else value for value in range(size)]
    signed = [signed_of(step) for step in range(size)]
    return lambda base, step: orders[(orders[base] + signed[step]) & mask]
