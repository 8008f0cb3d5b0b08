# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints of random bits, for tests."""

import json
from array import array
from math import prod

from elements import BITS, BLOCK_ELEMENTS, FLOATING, TYPECODE, width_of

# Zero, minus zero and what lies beside them, infinities and NaN where the dtype has these: the tops of each half.
_EDGES = (0, 1, 2, -1, -2, 127, 128)


def write_safetensors(tensors, metadata=None, padding=None, indent=None):
    """tensors: a list of name, dtype, shape and bytes, in the order in which they lie."""
    header = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, dtype, shape, content in tensors:
        assert len(content) * 8 == prod(shape) * BITS[dtype], name
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header, indent=indent, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8 if padding is None else padding)
    return len(text).to_bytes(8, "little") + text + b"".join(tensor[3] for tensor in tensors)


def random_element(rng, width):
    bits = 8 * width
    if rng.random() < 0.1:
        half = rng.choice((0, 1 << (bits - 1)))
        return (half + rng.choice(_EDGES)) % (1 << bits)
    if rng.random() < 0.03:
        # All bits of the exponent: infinities, NaN and their payloads.
        return rng.choice(((1 << bits) - 1, (1 << (bits - 1)) - 1)) ^ rng.getrandbits(bits // 2)
    return rng.getrandbits(bits)


def random_tensor(rng, dtype, shape):
    width = width_of(dtype)
    count = prod(shape) * BITS[dtype] // 8 // width
    return b"".join(random_element(rng, width).to_bytes(width, "little") for _ in range(count))


def perturbed(rng, content, dtype, density):
    """content with that share of its elements changed, most of them to a number near by."""
    width = width_of(dtype)
    mask = (1 << 8 * width) - 1
    changed = bytearray(content)
    for at in range(0, len(content), width):
        if rng.random() >= density:
            continue
        old = int.from_bytes(content[at:at + width], "little")
        luck = rng.random()
        if luck < 0.8:
            new = old + rng.choice((-1, 1)) & mask
        elif luck < 0.9:
            new = old + rng.randrange(-300, 300) & mask
        elif luck < 0.95 and dtype in FLOATING:
            new = old ^ 1 << (8 * width - 1)
        else:
            new = random_element(rng, width)
        changed[at:at + width] = new.to_bytes(width, "little")
    return bytes(changed)


def some_rows_perturbed(rng, content, dtype, columns, rows=(0.05, 0.1), density=(0.03, 0.2)):
    """content, a matrix, with some of its elements changed in a few rows alone, at least one, as an embedding changes.
    rows: what share of them, density: of their elements, between which two each."""
    length = columns * width_of(dtype)
    begins = range(0, len(content), length)
    changed = bytearray(content)
    for begin in rng.sample(begins, max(1, int(len(begins) * rng.uniform(*rows)))):
        at = slice(begin, begin + length)
        changed[at] = perturbed(rng, content[at], dtype, rng.uniform(*density))
    return bytes(changed)


def bytes_of(elements, width):
    return array(TYPECODE[width], elements).tobytes()


def _some_shape(rng, count):
    return rng.choice(([count], [4, count // 4], [count // 8, 2, 4]))


def checkpoint_pair(rng, density, block_crossing=(), embeddings=()):
    """Two files with tensors of all dtypes and everything that may happen to a tensor between them. block_crossing:
    dtypes of tensors of more than one block; embeddings: dtypes and shapes of matrices of which a few rows change."""
    old, new = [], []
    for dtype in BITS:
        count = BLOCK_ELEMENTS + 72 if dtype in block_crossing else 8 * rng.randrange(1, 60)
        shape = _some_shape(rng, count)
        name = f"layers.{dtype}/weight ü"
        content = random_tensor(rng, dtype, shape)
        old.append((name, dtype, shape, content))
        new.append((name, dtype, shape, perturbed(rng, content, dtype, density)))
    for dtype, shape in embeddings:
        content = rng.randbytes(prod(shape) * width_of(dtype))
        old.append((f"embedding.{dtype}", dtype, shape, content))
        new.append((*old[-1][:3], some_rows_perturbed(rng, content, dtype, shape[1])))
    for name, before, after in (("added", None, ("BF16", [24])), ("removed", ("F32", [7]), None),
                                ("reshaped", ("BF16", [6, 4]), ("BF16", [4, 6])),
                                ("retyped", ("BF16", [30]), ("F16", [30])), ("empty", ("F32", [0, 4]), ("F32", [0, 4])),
                                ("emptied", ("F32", [3]), ("F32", [0])), ("empty added", None, ("I64", [0])),
                                ("index", ("U8", [5]), ("U8", [5])), ("header", ("U8", [5]), ("U8", [5])),
                                ("scalar", ("F64", []), ("F64", [])), ("zeros added", None, ("I32", [12]))):
        for side, tensor in ((old, before), (new, after)):
            if tensor:
                content = random_tensor(rng, *tensor)
                side.append((name, *tensor, bytes(len(content)) if "zeros" in name else content))
    if density:
        rng.shuffle(new)
    return (write_safetensors(old, {"format": "pt"}),
            write_safetensors(new, {"format": "pt", "step": "2", "ü\"\\": "\n"}, padding=rng.randrange(20)))
