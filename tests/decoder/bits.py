# SPDX-License-Identifier: Apache-2.0
"""Strings of bits, as "Classed blocks" and "Groups" of wdelta-delta(5) have them: the lowest bit of a byte first; and
the codes of numbers in them."""

from refusal import require

MOST_ZEROS = 8  # before a number in the shorter code
MOST_GOLOMB_ZEROS = 32  # before one in the exponential Golomb code


class BitReader:
    """Reads numbers off a string of bits."""

    def __init__(self, content, what):
        self._content, self._at, self._what = bytes(content), 0, what

    def take(self, bits):
        end = self._at + bits
        require(end <= 8 * len(self._content), f"{self._what}: cut")
        number = int.from_bytes(self._content[self._at // 8:(end + 7) // 8], "little") >> self._at % 8
        self._at = end
        return number & (1 << bits) - 1

    def golomb(self, order):
        """A number in the exponential Golomb code of that order."""
        zeros = self._zeros_ahead()
        self._skip(min(zeros, MOST_GOLOMB_ZEROS) + 1)
        require(zeros <= MOST_GOLOMB_ZEROS, f"{self._what}: more than {MOST_GOLOMB_ZEROS} zero bits before a number")
        below = zeros + order
        return (1 << below | self.take(below)) - (1 << order)

    def shorter(self, order):
        """A number in the code that is shorter for most differences, of that order."""
        zeros = self._zeros_ahead()
        if zeros >= MOST_ZEROS:
            self._skip(MOST_ZEROS)
            return (MOST_ZEROS << order) + self.golomb(order)
        self._skip(zeros + 1)
        return (zeros << order) + self.take(order)

    def _zeros_ahead(self):
        """How many zero bits come next; more than any number may have where no 1 is near."""
        at, end = self._at // 8, (self._at + MOST_GOLOMB_ZEROS) // 8 + 1
        ahead = int.from_bytes(self._content[at:end], "little") >> self._at % 8
        return (ahead & -ahead).bit_length() - 1 if ahead else MOST_GOLOMB_ZEROS + 1

    def _skip(self, bits):
        self._at += bits
        require(self._at <= 8 * len(self._content), f"{self._what}: cut")

    def bytes_taken(self):
        """Those that were begun."""
        return (self._at + 7) // 8

    def finish(self):
        """Nothing but zeros is left, and they fill no byte."""
        left = 8 * len(self._content) - self._at
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
