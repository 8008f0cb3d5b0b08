# SPDX-License-Identifier: Apache-2.0
"""The Xet protocol as a server sees it: hashes made from bytes, xorbs and shards taken apart. Written from the
protocol's documents and on BLAKE3 in plain Python, so that it shares nothing with the library that it checks."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import lz4

sys.path.insert(0, str(Path(__file__).parents[1] / "decoder"))
from blake3 import keyed_blake3  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

CHUNK_KEY = bytes([102, 151, 245, 119, 91, 149, 80, 222, 49, 53, 203, 172, 165, 151, 24, 28,
                   157, 228, 33, 16, 155, 235, 43, 88, 180, 208, 176, 75, 147, 173, 242, 41])
NODE_KEY = bytes([1, 126, 197, 199, 165, 71, 41, 150, 253, 148, 102, 102, 180, 138, 2, 230,
                  93, 221, 83, 111, 55, 199, 109, 210, 248, 99, 82, 230, 74, 83, 113, 63])
VERIFICATION_KEY = bytes([127, 24, 87, 214, 206, 86, 237, 102, 18, 127, 249, 19, 231, 165, 195, 243,
                          164, 205, 38, 213, 181, 219, 73, 230, 65, 36, 152, 127, 40, 251, 148, 195])
FILE_KEY = bytes(32)
ZERO = bytes(32)

SHORTEST, LONGEST = 8192, 131072
XORB_BYTES, XORB_CHUNKS, SHARD_BYTES = 64 << 20, 8192, 64 << 20
GEAR = [int(word, 16)
        for word in (Path(__file__).parents[2] / "testdata" / "xet" / "gear_table.txt").read_text().split()]


class Refused(Exception):
    """What a client sent is not what it claims, or not what the protocol allows."""


def text_of(raw):
    """The form of a hash in URLs and JSON: each 8 bytes backwards."""
    return b"".join(raw[i:i + 8][::-1] for i in range(0, 32, 8)).hex()


def raw_of(text):
    if len(text) != 64 or any(c not in "0123456789abcdef" for c in text):
        raise Refused(f"{text!r} is no hash of 64 lower-case hex digits")
    turned = bytes.fromhex(text)
    return b"".join(turned[i:i + 8][::-1] for i in range(0, 32, 8))


def chunk_hash(content):
    return keyed_blake3(CHUNK_KEY, content)


def root_of(nodes):
    """The root over (raw hash, size) of chunks."""
    if not nodes:
        return ZERO
    while len(nodes) > 1:
        parents = []
        at = 0
        while at < len(nodes):
            left = len(nodes) - at
            count = min(9, left)
            if left > 2:
                for i in range(2, min(9, left)):
                    if int.from_bytes(nodes[at + i][0][24:32], "little") % 4 == 0:
                        count = i + 1
                        break
            group = nodes[at:at + count]
            written = "".join(f"{text_of(raw)} : {size}\n" for raw, size in group)
            parents.append((keyed_blake3(NODE_KEY, written.encode()), sum(size for _, size in group)))
            at += count
        nodes = parents
    return nodes[0][0]


def file_hash(nodes):
    return keyed_blake3(FILE_KEY, root_of(nodes)) if nodes else ZERO


def verification_hash(hashes):
    return keyed_blake3(VERIFICATION_KEY, b"".join(hashes))


def _matches(content):
    """Where the gear hash of the 64 bytes that end there has 16 leading zeros, in order."""
    if numpy is not None:
        rolled = numpy.array(GEAR, dtype=numpy.uint64)[numpy.frombuffer(content, dtype=numpy.uint8)]
        for step in (1, 2, 4, 8, 16, 32):  # of so many bytes each, then of twice as many
            later = rolled[step:] + (rolled[:-step] << numpy.uint64(step))
            rolled = numpy.concatenate([rolled[:step], later])
        return numpy.flatnonzero(rolled < numpy.uint64(1 << 48)).tolist()
    found = []
    rolled = 0
    for place, byte in enumerate(content):
        rolled = ((rolled << 1) + GEAR[byte]) & 0xFFFFFFFFFFFFFFFF
        if rolled < 1 << 48:
            found.append(place)
    return found


def cut(content):
    """The sizes of the chunks of a file."""
    sizes = []
    begin = 0
    for place in _matches(content) + [len(content) - 1]:
        while place + 1 - begin >= LONGEST:
            sizes.append(LONGEST)
            begin += LONGEST
        size = place + 1 - begin
        if size >= SHORTEST or (size > 0 and place == len(content) - 1):
            sizes.append(size)
            begin = place + 1
    return sizes


@dataclass
class Chunk:
    raw: bytes  # its hash
    size: int
    scheme: int
    begin: int  # of its record in the body
    end: int


@dataclass
class Xorb:
    raw: bytes
    body: bytes
    chunks: list = field(default_factory=list)

    def content(self, number):
        """The bytes of a chunk."""
        chunk = self.chunks[number]
        return _uncompressed(self.body[chunk.begin + 8:chunk.end], chunk.scheme, chunk.size)


def _uncompressed(stored, scheme, size):
    if scheme == 0:
        content = stored
    elif scheme in (1, 2):
        try:
            content = lz4.decode_frame(stored, size)
        except lz4.Damaged as error:
            raise Refused(f"LZ4: {error}") from None
    else:
        raise Refused(f"compression scheme {scheme}")
    if len(content) != size:
        raise Refused(f"a chunk of {len(content)} bytes claims {size}")
    if scheme == 2:
        joined = bytearray(size)
        begin = 0
        for group in range(4):
            count = (size + 3 - group) // 4
            joined[group::4] = content[begin:begin + count]
            begin += count
        content = bytes(joined)
    return content


def read_xorb(body, verify=True):
    """Takes a body apart; with verify, every hash is made from the bytes, else hashes are None."""
    if len(body) > XORB_BYTES:
        raise Refused(f"a xorb of {len(body)} bytes, at most {XORB_BYTES}")
    xorb = Xorb(ZERO, bytes(body))
    at = 0
    while at < len(body) and body[at:at + 1] != b"X":
        header = body[at:at + 8]
        if len(header) < 8:
            raise Refused("cut in the header of a chunk")
        if header[0] != 0:
            raise Refused(f"version {header[0]} of a chunk")
        stored, scheme, size = int.from_bytes(header[1:4], "little"), header[4], int.from_bytes(header[5:8], "little")
        if not 0 < size <= LONGEST:
            raise Refused(f"a chunk of {size} bytes, expected 1 to {LONGEST}")
        if at + 8 + stored > len(body):
            raise Refused("cut in a chunk")
        raw = None
        if verify:
            raw = chunk_hash(_uncompressed(bytes(body[at + 8:at + 8 + stored]), scheme, size))
        xorb.chunks.append(Chunk(raw, size, scheme, at, at + 8 + stored))
        at += 8 + stored
    if not xorb.chunks or len(xorb.chunks) > XORB_CHUNKS:
        raise Refused(f"{len(xorb.chunks)} chunks, expected 1 to {XORB_CHUNKS}")
    if verify:
        xorb.raw = root_of([(chunk.raw, chunk.size) for chunk in xorb.chunks])
    return xorb


SHARD_TAG = bytes.fromhex("48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa9")
_END = b"\xff" * 32
_RECORD = 48


@dataclass
class Term:
    xorb: bytes
    size: int
    first: int
    end: int
    verification: bytes = None


class _Records:
    def __init__(self, body):
        self.body, self.at = body, 0

    def next(self):
        record = self.body[self.at:self.at + _RECORD]
        if len(record) < _RECORD:
            raise Refused("a shard that is cut")
        self.at += _RECORD
        return record[:32], [int.from_bytes(record[i:i + 4], "little") for i in range(32, 48, 4)]


def read_shard(body):
    """(files, xorbs): lists of (raw hash, terms) and of (raw hash, [(raw hash, size)], stored size)."""
    if len(body) > SHARD_BYTES:
        raise Refused(f"a shard of {len(body)} bytes, at most {SHARD_BYTES}")
    records = _Records(body)
    tag, (version, version_high, footer, footer_high) = records.next()
    if tag != SHARD_TAG or (version, version_high) != (2, 0):
        raise Refused("not a shard of version 2")
    if (footer, footer_high) not in ((0, 0), (200, 0)):
        raise Refused(f"a footer of {footer} bytes")
    files, xorbs = [], []
    while True:
        raw, (flags, count, *rest) = records.next()
        if raw == _END and not any((flags, count, *rest)):
            break
        if any(rest) or flags & 0x3FFFFFFF or not flags >> 31:
            raise Refused(f"a file with flags {flags:#x}")
        terms = []
        for _ in range(count):
            xorb, (term_flags, size, first, end) = records.next()
            if term_flags or first >= end:
                raise Refused("a term of no chunks, or with flags")
            terms.append(Term(xorb, size, first, end))
        for term in terms:
            term.verification, rest = records.next()
            if any(rest):
                raise Refused("a verification record with more in it")
        if flags >> 30 & 1:
            records.next()  # the SHA-256 that git repositories want
        files.append((raw, terms))
    while True:
        raw, (flags, count, size, stored) = records.next()
        if raw == _END and not any((flags, count, size, stored)):
            break
        if flags:
            raise Refused(f"a xorb with flags {flags:#x}")
        chunks = []
        offset = 0
        for _ in range(count):
            chunk, (chunk_offset, chunk_size, chunk_flags, last) = records.next()
            if chunk_offset != offset or chunk_flags & 0x7FFFFFFF or last:
                raise Refused("a chunk that does not lie behind the one before it")
            chunks.append((chunk, chunk_size))
            offset += chunk_size
        if offset != size:
            raise Refused(f"chunks of {offset} bytes in a xorb of {size}")
        xorbs.append((raw, chunks, stored))
    if len(body) - records.at != footer:
        raise Refused(f"{len(body) - records.at} bytes behind the sections, {footer} claimed")
    return files, xorbs
