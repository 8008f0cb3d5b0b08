# SPDX-License-Identifier: Apache-2.0
"""LZ4 frames, decoded in plain Python: what the Hub's own clients compress chunks with. Checksums are not looked at,
because whoever calls this compares a hash of the result."""

_MAGIC = b"\x04\x22\x4d\x18"


class Damaged(ValueError):
    """The bytes are no LZ4 frame."""


def _length(block, at, start):
    """A length that begins with a nibble, and where it ends."""
    length = start
    if start == 15:
        while True:
            length += block[at]
            at += 1
            if block[at - 1] != 255:
                break
    return length, at


def _decode_block(block, output):
    at = 0
    while at < len(block):
        token = block[at]
        literals, at = _length(block, at + 1, token >> 4)
        if at + literals > len(block):
            raise Damaged("literals reach over the end of a block")
        output += block[at:at + literals]
        at += literals
        if at == len(block):
            return
        distance = block[at] | block[at + 1] << 8
        length, at = _length(block, at + 2, token & 15)
        length += 4
        begin = len(output) - distance
        if distance == 0 or begin < 0:
            raise Damaged(f"a match {distance} bytes back")
        if distance >= length:
            output += output[begin:begin + length]
        else:
            pattern = bytes(output[begin:])
            output += (pattern * (length // distance + 1))[:length]


def decode_frame(frame, limit):
    """The content of a frame, at most limit bytes. A match may reach back over earlier blocks."""
    try:
        if frame[:4] != _MAGIC:
            raise Damaged("no magic number")
        flags = frame[4]
        at = 6 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0) + 1
        output = bytearray()
        while True:
            size = int.from_bytes(frame[at:at + 4], "little")
            at += 4
            if size == 0:
                break
            stored = size >> 31
            size &= 0x7FFFFFFF
            block = frame[at:at + size]
            if len(block) != size:
                raise Damaged("cut in a block")
            if stored:
                output += block
            else:
                _decode_block(block, output)
            if len(output) > limit:
                raise Damaged(f"more than {limit} bytes")
            at += size + (4 if flags & 16 else 0)
        at += 4 if flags & 4 else 0
    except IndexError:
        raise Damaged("cut") from None
    if at != len(frame):
        raise Damaged("bytes behind the end, or cut")
    return bytes(output)
