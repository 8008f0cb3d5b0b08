# SPDX-License-Identifier: Apache-2.0
"""A strict reader of the header of a safetensors file."""

from collections import namedtuple
from math import prod

from elements import BITS
from refusal import is_count, require, strict_header

HEADER_LIMIT = 100_000_000
MOST_EXTENTS = 255
METADATA = "__metadata__"

# begin and end count from the beginning of the file.
Tensor = namedtuple("Tensor", "name dtype shape begin end")
# tensors in the order in which they lie; start is where the first one lies.
Header = namedtuple("Header", "tensors metadata start")


def header_length(content, what):
    """8 + N, once it is known to be within bounds."""
    require(len(content) >= 8, f"{what}: shorter than the 8 bytes of a header's length")
    length = int.from_bytes(content[:8], "little")
    require(length <= HEADER_LIMIT, f"{what}: header of {length} bytes is too long")
    return 8 + length


def read_header(content, total, what):
    """Reads the header at the beginning of content; total is the length of the whole file, None to take it as it comes.
    """
    start = header_length(content, what)
    require(start <= len(content), f"{what}: cut inside the header")
    text = bytes(content[8:start])
    require(text[:1] == b"{", f"{what}: header does not begin with a brace")
    members = strict_header(text, what)
    metadata = members.pop(METADATA, None)
    metadata = {} if metadata is None else metadata
    require(isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values()),
            f"{what}: __metadata__ is not an object of strings")
    tensors = [_tensor(name, value, start, f"{what}: {name}") for name, value in members.items()]
    # A sort keeps the order of equals: empty tensors at one place stay in the order of the header.
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    end = start
    for tensor in tensors:
        require(tensor.begin == end, f"{what}: {tensor.name}: gap or overlap before it")
        end = tensor.end
    require(total is None or end == total, f"{what}: tensors end at {end}, the file at {total}")
    return Header(tensors, metadata, start)


def _tensor(name, value, start, what):
    require(isinstance(value, dict) and {"dtype", "shape", "data_offsets"} <= set(value),
            f"{what}: not an object with dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    require(isinstance(dtype, str) and dtype in BITS, f"{what}: unknown dtype {dtype!r}")
    require(isinstance(shape, list) and all(map(is_count, shape)), f"{what}: shape is no list of counts")
    require(len(shape) <= MOST_EXTENTS, f"{what}: shape has {len(shape)} extents")
    require(isinstance(offsets, list) and len(offsets) == 2 and all(map(is_count, offsets)) and
            offsets[0] <= offsets[1], f"{what}: bad data_offsets")
    bits = prod(shape) * BITS[dtype]
    require(bits % 8 == 0 and bits // 8 == offsets[1] - offsets[0], f"{what}: its length does not fit dtype and shape")
    return Tensor(name, dtype, shape, start + offsets[0], start + offsets[1])
