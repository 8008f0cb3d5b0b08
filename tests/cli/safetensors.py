# SPDX-License-Identifier: Apache-2.0
"""Writing and reading safetensors files, with the liberties that the format leaves."""

import json
import struct

BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16, "I16": 16,
    "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F8_E8M0": 8, "I8": 8, "U8": 8,
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}
# The width of an element as wdelta-delta(5) compares them.
WIDTH = {dtype: max(1, bits // 8) for dtype, bits in BITS.items()}


def size_of(dtype, shape):
    bits = BITS[dtype]
    for extent in shape:
        bits *= extent
    assert bits % 8 == 0, (dtype, shape)
    return bits // 8


def encode(tensors, metadata=None, padding=b"", in_header=None, indent=None):
    """The bytes of a file. Tensors are (name, dtype, shape, content) and lie in this order; `in_header` gives the order
    of names in the header; `padding` follows the JSON text, none is added to it."""
    entries, at = {}, 0
    for name, dtype, shape, content in tensors:
        assert len(content) == size_of(dtype, shape), (name, dtype, shape, len(content))
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    header = {"__metadata__": metadata} if metadata is not None else {}
    for name in in_header or entries:
        header[name] = entries[name]
    separators = (",", ":") if indent is None else None
    text = json.dumps(header, ensure_ascii=False, separators=separators, indent=indent).encode() + padding
    return struct.pack("<Q", len(text)) + text + b"".join(content for *_, content in tensors)


def decode(content):
    """The tensors of a file by name, as (dtype, shape, content)."""
    (length,) = struct.unpack_from("<Q", content)
    front = 8 + length
    tensors = {}
    for name, entry in json.loads(content[8:front]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["dtype"], entry["shape"], content[front + begin:front + end])
    return tensors


def count_changes(base, result):
    """How many elements of two tensor contents of one dtype and shape differ, as bits."""
    (dtype, _, old), (_, _, new) = base, result
    width = WIDTH[dtype]
    return sum(old[i:i + width] != new[i:i + width] for i in range(0, len(new), width))
