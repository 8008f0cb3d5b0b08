# SPDX-License-Identifier: Apache-2.0
"""Afresh blocks by hand, for tests only."""

from afresh import AFRESH, MOST_FIRST_BITS
from bits import BitWriter


def make_afresh(steps, width, frame=None, most_first_bits=MOST_FIRST_BITS):
    """One coded block from the steps of all elements from zero bits; frame compresses planes, where given."""
    bits, first_bits = 8 * width, 0
    while width > 1 and first_bits < most_first_bits and len({step >> (bits - first_bits - 1) for step in steps}) == 1:
        first_bits += 1
    coded = bytes([AFRESH, first_bits | steps[0] >> (bits - first_bits) << 3])
    below = bits - first_bits
    for size in [8] if width == 1 else [8, 8 - first_bits] + [8] * (width - 2):
        below -= size
        numbers = [step >> below & (1 << size) - 1 for step in steps]
        if frame:
            content = frame(bytes(numbers))
            coded += _varint(len(content)) + content
        else:
            packed = BitWriter()
            for number in numbers:
                packed.put(number, size)
            coded += b"\0" + packed.bytes()
    return coded


def _varint(number):
    coded = bytearray()
    while number > 127:
        coded.append(number & 127 | 128)
        number >>= 7
    return bytes(coded + bytes([number]))
