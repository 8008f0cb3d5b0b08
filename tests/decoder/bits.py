# SPDX-License-Identifier: Apache-2.0
"""Strings of bits, as "Classed blocks" and "Groups" of wdelta-delta(5) have them: the lowest bit of a byte first; and
the codes of numbers in them."""

from refusal import Refused, require

MOST_ZEROS = 8  # before a number in the shorter code
MOST_GOLOMB_ZEROS = 32  # before one in the exponential Golomb code


class BitReader:
    """Reads numbers off a string of bits."""

    def __init__(self, content, what):
        self._content, self._at, self._what = bytes(content), 0, what
        self._size_bits = 8 * len(self._content)

    def take(self, bits):
        number = self._ahead(bits)
        self._skip(bits)
        return number & (1 << bits) - 1

    def golomb(self, order):
        """A number in the exponential Golomb code of that order."""
        ahead = self._ahead(2 * MOST_GOLOMB_ZEROS + order + 1)
        zeros = self._zeros(ahead)
        if zeros > MOST_GOLOMB_ZEROS:
            self._skip(MOST_GOLOMB_ZEROS + 1)
            raise Refused(f"{self._what}: more than {MOST_GOLOMB_ZEROS} zero bits before a number")
        below = zeros + order
        self._skip(zeros + 1 + below)
        return (1 << below | ahead >> zeros + 1 & (1 << below) - 1) - (1 << order)

    def shorter(self, order):
        """A number in the code that is shorter for most differences, of that order."""
        zeros = self._zeros(self._ahead(MOST_ZEROS))
        if zeros >= MOST_ZEROS:
            self._skip(MOST_ZEROS)
            return (MOST_ZEROS << order) + self.golomb(order)
        self._skip(zeros + 1)
        return (zeros << order) + self.take(order)

    def _ahead(self, bits):
        """So many bits that come next, and maybe more above them; behind the end all are zero."""
        first = self._at // 8
        return int.from_bytes(self._content[first:(self._at + bits + 7) // 8], "little") >> self._at % 8

    @staticmethod
    def _zeros(ahead):
        """How many zero bits are the lowest; more than any number may have where there is no 1."""
        return (ahead & -ahead).bit_length() - 1 if ahead else MOST_GOLOMB_ZEROS + 1

    def _skip(self, bits):
        self._at += bits
        if self._at > self._size_bits:
            raise Refused(f"{self._what}: cut")

    def bytes_taken(self):
        """Those that were begun."""
        return (self._at + 7) // 8

    def finish(self):
        """Nothing but zeros is left, and they fill no byte."""
        left = self._size_bits - self._at
        require(left < 8, f"{self._what}: bytes are left over")
        require(self.take(left) == 0, f"{self._what}: bits are left over")


class BitWriter:
    """The same the other way, for what tests make by hand."""

    def __init__(self):
        self._bytes, self._rest, self._bits = bytearray(), 0, 0

    def put(self, number, bits):
        assert number >> bits == 0
        self._rest |= number << self._bits
        self._bits += bits
        whole = self._bits // 8
        if whole:
            self._bytes += (self._rest & (1 << 8 * whole) - 1).to_bytes(whole, "little")
            self._rest >>= 8 * whole
            self._bits -= 8 * whole

    def golomb(self, number, order):
        z = number + (1 << order)
        self.put(0, z.bit_length() - 1 - order)
        self.put(1, 1)
        self.put(z - (1 << (z.bit_length() - 1)), z.bit_length() - 1)

    def shorter(self, number, order):
        zeros = number >> order
        if zeros < MOST_ZEROS:
            self.put(1 << zeros, zeros + 1)
            self.put(number & (1 << order) - 1, order)
        else:
            self.put(0, MOST_ZEROS)
            self.golomb(number - (MOST_ZEROS << order), order)

    def bytes(self):
        return bytes(self._bytes) + bytes([self._rest] if self._bits else [])
