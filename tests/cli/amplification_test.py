# SPDX-License-Identifier: Apache-2.0
"""A few kilobytes from somebody who means harm, every digest right, take no memory that is worth speaking of."""

import json
import subprocess
import sys
from pathlib import Path

import safetensors
import testing

sys.path.append(str(Path(__file__).resolve().parent.parent / "decoder"))
from blake3 import blake3  # noqa: E402

MIB = 1 << 20
# A process of its own, and small: a child counts what its parent had when it began.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
sys.exit(code)
"""
PIECE = 1 << 17  # what a block of a frame holds at most


def frame_of(content):
    """A zstd frame of content, in which what is one byte over and over takes four bytes for each piece."""
    frame = bytearray(b"\x28\xb5\x2f\xfd\xa0" + len(content).to_bytes(4, "little"))
    for begin in range(0, max(1, len(content)), PIECE):
        piece = content[begin:begin + PIECE]
        is_run = piece.count(piece[:1]) == len(piece) > 1
        is_last = begin + PIECE >= len(content)
        frame += (is_last | is_run << 1 | len(piece) << 3).to_bytes(3, "little") + (piece[:1] if is_run else piece)
    return bytes(frame)


def varint(number):
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])


def bundle_of(stem, numbers):
    """What an index tells of a bundle of empty tensors whose names are `stem` and a number."""
    told = b"\2" + varint(len(numbers))
    for i, number in enumerate(numbers):
        tail = b"%03d" % number
        told += varint(len(stem) if i else 0) + (varint(3) if i else varint(len(stem) + 3) + stem) + tail + b"\0"
    return told


def sealed(text):
    return text.replace(b"0" * 64, blake3(text).encode())


class AmplificationTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.base = self.write("base.safetensors", safetensors.encode(self.some_weights(1, 100)))

    def delta(self, name, result, index=b"", bundles=(), header=None):
        """A delta of the base that changes nothing, but for what is told of it."""
        entries = [*((bundle, b"") for bundle in bundles), ("index", frame_of(index))]
        base, made = ({"path": "base.safetensors", "size": len(content), "digest": blake3(content)}
                      for content in (self.base.read_bytes(), result))
        metadata = {"format": "wdelta-delta", "version": "4", "base": json.dumps([base]), "result": json.dumps(made),
                    "elements": "0", "changed": "0", "index": "index"}
        if header is not None:
            entries.append(("header", frame_of(header)))
            metadata["header"] = "header"
        payload = b"".join(entry for _, entry in entries)
        head, at = {"__metadata__": {**metadata, "payload": blake3(payload), "digest": "0" * 64}}, 0
        for key, entry in entries:
            head[key] = {"dtype": "U8", "shape": [len(entry)], "data_offsets": [at, at + len(entry)]}
            at += len(entry)
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return self.write(name, sealed(len(text).to_bytes(8, "little") + text) + payload)

    def takes(self, most_mib, code, *words, says=""):
        """A run that ends with that status and has taken no more memory."""
        done = subprocess.run([sys.executable, "-c", MEASURE, *map(str, self.command(*words))], env=self.environment(),
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(says, done.stderr)
        if not testing.is_sanitized():
            self.assertLess(int(done.stdout.splitlines()[-1]), most_mib, done.stderr)

    def test_names_that_begin_as_others_do(self):
        told = [bundle_of(b"a" * MIB, range(first, first + 40)) for first in (100, 200, 300)]
        for count in (1, 3):
            delta = self.delta("names", self.base.read_bytes(), b"".join(told[:count]), [str(i) for i in range(count)])
            self.assertLess(delta.stat().st_size, 2 * MIB)
            # One alone is no more than a reader takes, though the result has no such tensors.
            self.takes(300, 0 if count == 1 else 5, "verify", delta, says="names" if count > 1 else "")

    def test_a_header_that_is_nearly_all_blanks(self):
        front = self.base.read_bytes()
        length = 8 + int.from_bytes(front[:8], "little")
        text = front[8:length]

        def padded(size_bytes):
            return size_bytes.to_bytes(8, "little") + text + b" " * (size_bytes - len(text))

        large = padded(90 * MIB)
        delta = self.delta("large", large + front[length:], header=large)
        self.assertLess(delta.stat().st_size, MIB)
        self.takes(60, 5, "verify", delta, says="header entry")
        # As many as one likes, each with as much as it may have, are read one by one.
        small = padded(16 * MIB)
        self.base = self.write("base.safetensors", small + front[length:])
        deltas = [self.delta(f"small-{i}", self.base.read_bytes(), header=small) for i in range(24)]
        self.takes(160, 0, "apply", self.base, *deltas, "-o", self.scratch / "out")
        self.assertEqual((self.scratch / "out").read_bytes(), self.base.read_bytes())

    def test_documents_of_millions_of_values(self):
        bomb = "[" + "{}," * 1_500_000 + "{}]"
        tip = self.run_ok("push", self.base, self.scratch / "repo").strip()
        manifest = json.loads((self.scratch / f"repo/commits/{tip}.json").read_text())
        for number, (value, code, says) in enumerate((("[{}]", 0, ""), (bomb, 5, "values")), 2):
            text = json.dumps({**manifest, "x": "BOMB"}).replace('"BOMB"', value).encode()
            self.write(f"repo/commits/{blake3(text)}.json", text)
            self.write(f"repo/branches/main/{number:016}", self.sealed({
                "format": "wdelta-entry", "version": 1, "commit": blake3(text), "write": "0" * 32,
                "time": "2026-01-01T00:00:00Z"}))
            self.takes(200, code, "log", self.scratch / "repo", says=says)
        self.write("checkpoint/model.safetensors", self.base.read_bytes())
        self.write("checkpoint/model.safetensors.index.json", '{"weight_map":{},"x":' + bomb + "}")
        self.takes(200, 3, "diff", self.scratch / "checkpoint", self.scratch / "checkpoint", says="values")


if __name__ == "__main__":
    testing.main()
