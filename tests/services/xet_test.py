# SPDX-License-Identifier: Apache-2.0
"""Holds the emulator's own reading of the Xet protocol to the published vectors."""

import hashlib
import json
import unittest
from pathlib import Path

import lz4
import xet

VECTORS = json.loads((Path(__file__).parents[2] / "testdata" / "xet" / "vectors.json").read_text())


def splitmix(seed, size):
    mask = (1 << 64) - 1
    words = []
    for _ in range(-(-size // 8)):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        words.append((z ^ z >> 31).to_bytes(8, "little"))
    return b"".join(words)[:size]


def content_of(name, size):
    if name.startswith("splitmix"):
        return splitmix(int(name[8:].split("_")[0]), size)
    return {"hello_world": b"Hello World!", "const59_1000000": b"\x3b" * size,
            "bytes_0_255_x64": bytes(range(256)) * 64}.get(name, bytes(size))


class Vectors(unittest.TestCase):
    def test_the_gear_table(self):
        table = b"".join(word.to_bytes(8, "little") for word in xet.GEAR)
        self.assertEqual(hashlib.sha256(table).hexdigest(),
                         "e1d3936666d7ae7a977c958e9afcc75f90aaca758ce5fbe4ece61dffefe1912c")

    def test_published_inputs(self):
        for name, expected in VECTORS["generated"].items():
            with self.subTest(name):
                content = content_of(name, expected["len"])
                sizes = xet.cut(content)
                ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
                self.assertEqual(ends, expected["boundaries"])
                nodes = [(xet.chunk_hash(content[end - size:end]), size) for end, size in zip(ends, sizes)]
                self.assertEqual([xet.text_of(raw) for raw, _ in nodes], expected["chunk_hashes"])
                self.assertEqual(xet.text_of(xet.root_of(nodes)), expected["xorb_hash"])
                self.assertEqual(xet.text_of(xet.file_hash(nodes)), expected["file_hash"])
                if expected["verification_hash"]:
                    self.assertEqual(xet.text_of(xet.verification_hash([raw for raw, _ in nodes])),
                                     expected["verification_hash"])

    def test_published_patterns(self):
        pattern = VECTORS["cdc_padded_pattern"]
        for padding in range(0, 128, 7):
            content = bytes(pattern["base"]) + bytes(padding)
            while len(content) < 65536:
                content += content[:65536 - len(content)]
            sizes = xet.cut(content)
            self.assertEqual([sum(sizes[:i + 1]) for i in range(len(sizes))], pattern["boundaries"][padding])

    def test_published_trees(self):
        for tree in VECTORS["merkle_aggregation"]:
            nodes = [(xet.raw_of(text), size) for text, size in tree["nodes"]]
            self.assertEqual(xet.text_of(xet.root_of(nodes)), tree["xorb_hash"])
            self.assertEqual(xet.text_of(xet.file_hash(nodes)), tree["file_hash_by_salt"][0][1])

    def test_plain_python_cuts_as_numpy_does(self):
        if xet.numpy is None:
            self.skipTest("numpy is not there")
        content = splitmix(7, 400_000) + b"\x3b" * 200_000
        expected = xet.cut(content)
        kept, xet.numpy = xet.numpy, None
        try:
            self.assertEqual(xet.cut(content), expected)
        finally:
            xet.numpy = kept


def record(content, scheme=0, size=None):
    size = len(content) if size is None else size
    return bytes([0]) + len(content).to_bytes(3, "little") + bytes([scheme]) + size.to_bytes(3, "little") + content


class Bodies(unittest.TestCase):
    def test_a_xorb_is_read(self):
        xorb = xet.read_xorb(record(b"Hello World!"))
        self.assertEqual(xet.text_of(xorb.raw), "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb")
        self.assertEqual(xorb.content(0), b"Hello World!")

    def test_a_damaged_xorb_is_refused(self):
        body = record(b"Hello") + record(b"World")
        for size in range(len(body)):
            if size != len(record(b"Hello")):
                with self.assertRaises(xet.Refused):
                    xet.read_xorb(body[:size])
        for damaged in (b"\1" + body[1:], record(b"x", 3), record(b"x", 0, 2), record(b"", 0), record(b"x" * 131073)):
            with self.assertRaises(xet.Refused):
                xet.read_xorb(damaged)

    def test_lz4_frames(self):
        # Literals, a match that overlaps itself, literals again.
        block = bytes([0x31]) + b"abc" + bytes([3, 0]) + bytes([0x20]) + b"yz"
        frame = bytes.fromhex("04224d18" "60" "40" "82") + len(block).to_bytes(4, "little") + block + bytes(4)
        self.assertEqual(lz4.decode_frame(frame, 10), b"abcabcab" b"yz")
        xorb = xet.read_xorb(record(frame, 1, 10))
        self.assertEqual(xorb.chunks[0].raw, xet.chunk_hash(b"abcabcabyz"))
        # Bytes 0, 4, 8 first, then 1, 5, 9, then 2, 6, then 3, 7.
        grouped = xet.read_xorb(record(frame, 2, 10))
        self.assertEqual(grouped.content(0), b"aaaybbbzcc")
        for size in range(len(frame)):
            with self.assertRaises(lz4.Damaged):
                lz4.decode_frame(frame[:size], 10)
        with self.assertRaises(lz4.Damaged):
            lz4.decode_frame(frame, 9)

    def test_a_shard_is_read_and_a_cut_one_refused(self):
        body = bytes.fromhex(
            "48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa902000000000000000000000000000000"
            "bd60b088ade0daa9b195cfbd7ac8e7d74f6db014045ac9326571b887d268eb6b00000080010000000000000000000000"
            "a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e8000000000c0000000000000001000000"
            "4ccb988e4563cb8923b7a7a5506bbe7592e648535df0824b2b86c35daf1ab75f00000000000000000000000000000000"
            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000"
            "a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e800000000010000000c00000014000000"
            "a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e8000000000c0000000000000000000000"
            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000")
        files, xorbs = xet.read_shard(body)
        self.assertEqual(xet.text_of(files[0][0]), "a9dae0ad88b060bdd7e7c87abdcf95b132c95a0414b06d4f6beb68d287b87165")
        self.assertEqual(files[0][1][0].verification, xet.verification_hash([xorbs[0][1][0][0]]))
        self.assertEqual(xorbs[0][2], 20)
        for size in range(len(body)):
            with self.assertRaises(xet.Refused):
                xet.read_shard(body[:size])


if __name__ == "__main__":
    unittest.main()
