# SPDX-License-Identifier: Apache-2.0
"""BLAKE3 (hash and keyed mode, 32 bytes of output) in plain Python.

Many chunks are hashed at once: the same 32-bit word of every chunk lies in one large integer, one chunk per 64-bit
lane, so that one addition or XOR of Python serves all of them. The upper half of a lane takes the carries. And the four
words of a row of the state lie side by side, as four mixes are the same.
"""

import shutil
import subprocess
from array import array
from functools import lru_cache

_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)


def _schedule():
    """Which words of the message are mixed in: for each round, for columns and for diagonals, those that the four mixes
    take first, and those that they take second."""
    order, rounds = list(range(16)), []
    for _ in range(7):
        rounds.append(((order[0:8:2], order[1:8:2]), (order[8::2], order[9::2])))
        order = [order[i] for i in _PERMUTATION]
    return rounds


_SCHEDULE = _schedule()
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT, _KEYED = 1, 2, 4, 8, 16
_HASH = (_IV, 0)  # a mode: what every chain starts from, and a flag for every compression
_CHUNK, _BLOCK = 1024, 64
# Wider integers leave the processor's cache, narrower ones spend the time on Python's own overhead.
_LANES = 1024

# The rule for which implementation hashes: from this size on the b3sum command where the system has it, else and below
# this module. test_vectors in decoder_test.py hold this module to the official vectors.
_B3SUM_FROM = 1 << 16


@lru_cache(maxsize=64)
def _ones(lanes):
    return int.from_bytes(b"\1\0\0\0\0\0\0\0" * lanes, "little")


def _row(words, width):
    """Four words side by side in one integer; each takes the bits of width."""
    first, second, third, fourth = words
    return first | second << width | third << 2 * width | fourth << 3 * width


def _turned(row, words, width, mask):
    """A row with the word that is so many words from the first in front."""
    return (row >> words * width | row << (4 - words) * width) & mask


def _mix(a, b, c, d, first, second, mask):
    """Four mixes at once; the rows first and second are the words of the message that each takes."""
    a = (a + b + first) & mask
    d ^= a
    d = (d >> 16 | d << 16) & mask
    c = (c + d) & mask
    b ^= c
    b = (b >> 12 | b << 20) & mask
    a = (a + b + second) & mask
    d ^= a
    d = (d >> 8 | d << 24) & mask
    c = (c + d) & mask
    b ^= c
    return a, (b >> 7 | b << 25) & mask, c, d


def _compress(chain, words, counters, length, flags, lanes):
    """One compression in each lane; chain, words and counters are packed, length and flags hold for all lanes."""
    ones, width = _ones(lanes), 64 * lanes
    mask, mask_of_word = _ones(4 * lanes) * 0xFFFFFFFF, ones * 0xFFFFFFFF
    a, b = _row(chain[:4], width), _row(chain[4:], width)
    c = _row([word * ones for word in _IV[:4]], width)
    d = _row((counters & mask_of_word, counters >> 32 & mask_of_word, length * ones, flags * ones), width)
    for columns, diagonals in _SCHEDULE:
        firsts, seconds = (_row([words[i] for i in order], width) for order in columns)
        a, b, c, d = _mix(a, b, c, d, firsts, seconds, mask)
        b, c, d = _turned(b, 1, width, mask), _turned(c, 2, width, mask), _turned(d, 3, width, mask)
        firsts, seconds = (_row([words[i] for i in order], width) for order in diagonals)
        a, b, c, d = _mix(a, b, c, d, firsts, seconds, mask)
        b, c, d = _turned(b, 3, width, mask), _turned(c, 2, width, mask), _turned(d, 1, width, mask)
    return [row >> at * width & mask_of_word for row in (a ^ c, b ^ d) for at in range(4)]


def _little_words(piece):
    words = array("I", piece)
    if array("H", b"\1\0")[0] != 1:
        words.byteswap()
    return words


def _pack(words):
    """One 32-bit word per lane."""
    packed = array("Q", words)
    if array("H", b"\1\0")[0] != 1:
        packed.byteswap()
    return int.from_bytes(packed.tobytes(), "little")


def _unpack(packed, lanes):
    raw = packed.to_bytes(8 * lanes, "little")
    return [int.from_bytes(raw[8 * i:8 * i + 4], "little") for i in range(lanes)]


def _start(mode, lanes):
    return [word * _ones(lanes) for word in mode[0]]


def _full_chunks(piece, first, mode):
    """The chaining values (8-tuples) of piece, which is whole chunks; first is the number of its first chunk."""
    lanes = len(piece) // _CHUNK
    words = _little_words(piece)
    counters = _pack(range(first, first + lanes))
    chain = _start(mode, lanes)
    for block in range(16):
        flags = mode[1] | (_CHUNK_START if block == 0 else 0) | (_CHUNK_END if block == 15 else 0)
        chain = _compress(chain, [_pack(words[block * 16 + i::256]) for i in range(16)], counters, _BLOCK, flags, lanes)
    return list(zip(*(_unpack(word, lanes) for word in chain)))


def _last_chunk(piece, number, root, mode):
    """The chaining value of one chunk of any length up to 1,024."""
    chain = _start(mode, 1)
    count = max(1, -(-len(piece) // _BLOCK))
    for block in range(count):
        part = piece[block * _BLOCK:(block + 1) * _BLOCK]
        flags = mode[1] | (_CHUNK_START if block == 0 else 0)
        if block == count - 1:
            flags |= _CHUNK_END | (_ROOT if root else 0)
        chain = _compress(chain, list(_little_words(part.ljust(_BLOCK, b"\0"))), number, len(part), flags, 1)
    return tuple(chain)


def _parents(children, root, mode):
    """The level above children; one without a neighbour climbs as it is, which gives BLAKE3's left-heavy tree."""
    above = []
    pairs = len(children) // 2
    for begin in range(0, pairs, _LANES):
        lanes = min(_LANES, pairs - begin)
        left = children[2 * begin:2 * (begin + lanes):2]
        right = children[2 * begin + 1:2 * (begin + lanes):2]
        words = [_pack([child[i] for child in side]) for side in (left, right) for i in range(8)]
        chain = _compress(_start(mode, lanes), words, 0, _BLOCK, mode[1] | _PARENT | (_ROOT if root else 0), lanes)
        above += zip(*(_unpack(word, lanes) for word in chain))
    return above + children[2 * pairs:]


def _digest(content, mode):
    content = bytes(content)
    if len(content) <= _CHUNK:
        level = [_last_chunk(content, 0, True, mode)]
    else:
        whole = (len(content) - 1) // _CHUNK
        level = []
        for first in range(0, whole, _LANES):
            end = min(whole, first + _LANES)
            level += _full_chunks(content[first * _CHUNK:end * _CHUNK], first, mode)
        level.append(_last_chunk(content[whole * _CHUNK:], whole, False, mode))
        while len(level) > 1:
            level = _parents(level, len(level) == 2, mode)
    return b"".join(word.to_bytes(4, "little") for word in level[0])


def plain_blake3(content):
    """The digest by this module alone, as 64 hexadecimal digits."""
    return _digest(content, _HASH).hex()


def keyed_blake3(key, content):
    """The 32 bytes of the digest with a key of 32 bytes, by this module alone."""
    return _digest(content, (tuple(_little_words(key)), _KEYED))


def blake3(content):
    """The digest of content as 64 lower-case hexadecimal digits."""
    return _blake3(bytes(content))


# Who damages one part of a delta after the other hashes what is around it again and again.
@lru_cache(maxsize=256)
def _blake3(content):
    if len(content) >= _B3SUM_FROM and shutil.which("b3sum"):
        done = subprocess.run(["b3sum", "--no-names"], input=content, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode("ascii").strip()
    return plain_blake3(content)
