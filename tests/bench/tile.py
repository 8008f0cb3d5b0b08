#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a large checkpoint file out of a small one: its tensors again and again, under names of their own.

usage: tile.py LARGE.safetensors SIZE SMALL.safetensors...

SIZE as in 512M or 2G; the result has at least that many bytes of tensors. What post-training changes depends on real
weights, and real checkpoints that are small enough to ship are too small to time. Several small ones take turns; they
must be laid out alike.
"""
import json
import sys

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def size_bytes(text):
    return int(float(text[:-1]) * UNITS[text[-1]]) if text[-1] in UNITS else int(text)


def read_parts(path):
    with open(path, "rb") as f:
        header = f.read(int.from_bytes(f.read(8), "little"))
        return header, f.read()


def tile(target, least_bytes, sources):
    first, payload = read_parts(sources[0])
    header = json.loads(first)
    copies = max(1, -(-least_bytes // len(payload)))
    tiled = {"__metadata__": header.pop("__metadata__")} if "__metadata__" in header else {}
    for copy in range(copies):
        for name, tensor in header.items():
            offsets = [offset + copy * len(payload) for offset in tensor["data_offsets"]]
            tiled[f"tile.{copy}.{name}"] = {**tensor, "data_offsets": offsets}
    text = json.dumps(tiled, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for copy in range(copies):
            other, payload = read_parts(sources[copy % len(sources)])
            if json.loads(other).keys() - {"__metadata__"} != header.keys() or len(payload) != offsets_end(header):
                sys.exit(f"tile.py: {sources[copy % len(sources)]} is not laid out like {sources[0]}")
            f.write(payload)


def offsets_end(header):
    return max((tensor["data_offsets"][1] for tensor in header.values()), default=0)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    tile(sys.argv[1], size_bytes(sys.argv[2]), sys.argv[3:])


if __name__ == "__main__":
    main()
