# SPDX-License-Identifier: Apache-2.0
"""Dtypes, element widths and kinds, and steps: "Elements" and "Steps" of wdelta-delta(5)."""

from array import array

BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64,
    "F32": 32, "I32": 32, "U32": 32,
    "BF16": 16, "F16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}
FLOATING = {"F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}
BLOCK_ELEMENTS = 65536
TYPECODE = {1: "B", 2: "H", 4: "I", 8: "Q"}


def elements_of(content, width):
    """The elements of so many bytes each, as numbers."""
    elements = array(TYPECODE[width])
    elements.frombytes(content)
    return elements


def width_of(dtype):
    """Bytes per element; what is narrower than a byte is taken as its bytes."""
    return max(1, BITS[dtype] // 8)


def order(value, bits):
    """The place of a floating element among its neighbours; its own inverse."""
    return value ^ ((1 << (bits - 1)) - 1) if value >> (bits - 1) else value


def signed_of(step):
    """The signed step, not yet taken modulo 2^w."""
    return (step >> 1) ^ -(step & 1)


def stepped(base, step, bits, floating):
    """The element that lies step away from base."""
    mask = (1 << bits) - 1
    if not floating:
        return (base + signed_of(step)) & mask
    return order((order(base, bits) + signed_of(step)) & mask, bits)
