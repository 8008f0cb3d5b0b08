# SPDX-License-Identifier: Apache-2.0
"""Files that are no safetensors files, seen as two tensors: "Opaque files" of wdelta-delta(5)."""

from elements import width_of
from safetensors import Header, Tensor


def opaque_header(size, dtype):
    """What a file of that size has instead of a header: nothing in front, and two tensors."""
    elements = size // width_of(dtype)
    end = elements * width_of(dtype)
    return Header([Tensor("body", dtype, [elements], 0, end), Tensor("tail", "U8", [size - end], end, size)], {}, 0)


def resized(content, size):
    """content cut off, or continued by zero bytes, to that size."""
    return bytes(content[:size]).ljust(size, b"\0")
