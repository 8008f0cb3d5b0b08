# SPDX-License-Identifier: Apache-2.0
"""Groups that break one rule of wdelta-delta(5) each, in deltas whose digests hold: every decoder refuses them.

What they decode to, were the rule not there, is the result that the delta names: no digest refuses them in its stead."""

import json
from math import prod

from bits import BitWriter
from blake3 import blake3
from classed import HIGH
from elements import BLOCK_ELEMENTS, width_of
from group import symbols_of
from make_afresh import make_afresh
from make_delta import container, raw_frame, varint
from make_group import NO_FLAWS, Change, CountWriter, Flaws, classed_block, put_classes, put_skips
from random_checkpoint import bytes_of, write_safetensors
from told import NO_SIGNS, Row, Told

NAME = "m.safetensors"
ELEMENTS = 10
CHANGES = (Change(0, 0, 1, 0), Change(0, 1, 1, 0), Change(0, 2, 1, 1))
ONE = (Change(0, 0, 1, 0),)
SPARSE_BLOCK = b"\x11\3\0\1\2\1\1\0"  # one with CHANGES


def given(gaps, distances, sign=NO_SIGNS):
    """A class that tells codes of weights."""
    return Told(Row(len(gaps), gaps), Row(len(distances), distances), sign)


PLAIN = given((1, 1, 1), (1,))


def parameters(classes=(PLAIN,), bounds=(), head=0, mask=(), counts=((len(CHANGES),),), behind=(), bits=None,
               skips=None):
    """The parameters of a group. classes: Told, or None for one that is not used; head: the bits that say which masks
    there are; mask: pairs of a number and its bits; counts: for each strip those of the classes that are used, or None;
    behind: more pairs of a number and its bits, in front of the masks; bits: a BitWriter; skips: what put_skips takes,
    the order and the numbers of a list of skipped rows."""
    bits = bits or BitWriter()
    bits.put(head | bool(skips) << 2, 3)
    put_classes(bits, bounds, classes, head)
    put_end(bits, CountWriter(bits, sum(map(bool, classes))), counts, (*behind, *mask))
    if skips:
        put_skips(bits, *skips)
    return bits.bytes()


def put_end(bits, writer, counts, more):
    """What is behind the classes, counts by a CountWriter of bits; more: pairs of a number and its bits."""
    for one in counts:
        writer.put(one)
    for number, width in more:
        bits.put(number, width)


def delta_of(base, result, entries, index):
    """A delta between two files that write_safetensors made, from what the format keeps of it; entries: pairs of a name
    and bytes; index: what its entry holds."""
    described = ({"path": NAME, "size": len(content), "digest": blake3(content)} for content in (base, result))
    old, new = (json.dumps(one) for one in described)
    return container([*entries, ("i", raw_frame(index))],
                     {"format": "wdelta-delta", "version": "4", "base": f"[{old}]", "result": new, "elements": "0",
                      "changed": "0", "index": "i"})


def file_of(dtype, shape, content):
    return write_safetensors([("w", dtype, shape, content)])


def index_of(parts, batches, blocks=None, batch=1, strip=1, first=0, told=None):
    """The index of a tensor that is one group, or has so many blocks in a group without changes in front of it as first
    says. parts: its parameters; batches: as they are coded; blocks: of how many it is; strip: a power of two; told:
    what is told of strips and reference, where that is not what it should be."""
    blocks = len(batches) if blocks is None else blocks
    index = b"\1" + varint(first + blocks) + (varint(first) + b"\0" * (1 + first) if first else b"")
    index += varint(blocks) + varint(len(parts))
    if parts:
        index += varint(strip.bit_length() - 1 if told is None else told)
        if (first + blocks - 1) // strip > first // strip:
            index += varint(batch)
    return index + b"".join(varint(len(one)) for one in batches)


def changed(elements, blocks):
    """elements, numbers of two's complement all in one class, after the changes of each block."""
    elements = list(elements)
    for block, changes in enumerate(blocks):
        place = block * BLOCK_ELEMENTS - 1
        for change in changes:
            place += change.gap + 1
            elements[place] += -change.distance if change.sign else change.distance
    return elements


def block_of(changes, told=PLAIN, flaws=NO_FLAWS):
    return classed_block(changes, [symbols_of(told)], flaws)


BLOCK = block_of(CHANGES)


def case(parts=None, blocks=(BLOCK,), shape=(ELEMENTS,), index=None, changes=CHANGES, dtype="I16", entry=None,
         more=(), old=None):
    """A base, a delta and its result: a group of one tensor, right in all parts that are not given. changes: those of
    the first block; more: of those behind; old: the elements of the base, where these are not all the same."""
    parts = parameters() if parts is None else parts
    width, old = width_of(dtype), old or [1000] * prod(shape)
    base, result = (file_of(dtype, list(shape), bytes_of(side, width))
                    for side in (old, changed(old, (changes, *more))))
    entry = parts + b"".join(blocks) if entry is None else entry
    index = index_of(parts, blocks) if index is None else index
    return base, delta_of(base, result, [("w", entry)], index), result


# Changes whose distances have four raw bits each, more than a state holds, and changes with so rare gaps that the coder
# takes words.
FAR = tuple(Change(0, gap, 40 + gap, 0) for gap in range(3))
FAR_TOLD = given((1, 1, 1), (0,) * 10 + (1,))
RARE = (Change(0, 1, 1, 0),) * 5
RARE_TOLD = given((63, 1), (63, 1))
MATRIX = (2, 5)
# Gaps of up to a whole block.
WIDE_TOLD = given((1,) + (0,) * 30 + (1,), (1,))


def _batch_case(counts=((3,), (3,)), batches=None, changes=(CHANGES, CHANGES), batch=2, told=PLAIN, index=None):
    """The same of a group in batches, whose last block has ELEMENTS; counts and changes: of each block."""
    parts = parameters((told,), counts=counts)
    if batches is None:
        batches = [block_of(sum(map(tuple, changes), ()), told)]
    shape = ((len(counts) - 1) * BLOCK_ELEMENTS + ELEMENTS,)
    index = index_of(parts, batches, len(counts), batch) if index is None else index
    return case(parts, batches, shape, index, changes[0], more=changes[1:])


def right():
    """Groups that look odd and break no rule: bases, deltas, results."""
    long = given((1, 1, 1), (1,) + (0,) * 29)
    return [
        case(), case(parameters((PLAIN, None), (128,))), case(parameters((PLAIN, PLAIN), (128,), counts=((3, 0),))),
        # Masks in which no bit is set, or all are; what fills them up is not looked at.
        case(parameters((PLAIN,), head=1, mask=((0xE0, 8),)), shape=MATRIX),
        case(parameters((PLAIN,), head=2, mask=((0xFC, 8),)), shape=MATRIX),
        case(parameters((PLAIN,), head=3, mask=((0x1F, 8), (3, 8))), shape=MATRIX),
        # As many distance buckets as there may be.
        case(parameters((long,)), [block_of(CHANGES, long)]),
        case(parameters((FAR_TOLD,)), [block_of(FAR, FAR_TOLD)], changes=FAR),
        case(parameters((RARE_TOLD,), counts=((5,),)), [block_of(RARE, RARE_TOLD)], changes=RARE),
        # A group without parameters.
        case(b"", [SPARSE_BLOCK])] + _right_batches()


def _right_batches():
    """The same of groups that may be in batches."""
    afresh, none = make_afresh([2000] * ELEMENTS, 2), ()
    alone, parts = parameters(), parameters(counts=((3,), None))
    return [
        # More blocks in a batch than there are, one alone, and no batches where there are no parameters.
        _batch_case(((3,),), changes=(CHANGES,), batch=64), _batch_case(((3,),), changes=(CHANGES,), batch=1),
        # Modes that batches do not know, beside them.
        case(parts, [BLOCK, afresh], (BLOCK_ELEMENTS + ELEMENTS,), index_of(parts, [BLOCK, afresh])),
        case(parts, [BLOCK, afresh], (BLOCK_ELEMENTS + ELEMENTS,),
             b"\1\2\1" + varint(len(alone)) + b"\0" + varint(len(BLOCK)) + b"\1\0" + varint(len(afresh)),
             entry=alone + BLOCK + afresh),
        _batch_case(), _batch_case(batch=3), _batch_case(batch=64),
        # Blocks without changes, and batches of them.
        _batch_case(((3,), None), changes=(CHANGES, none)), _batch_case((None, (3,)), changes=(none, CHANGES)),
        _batch_case((None, None, (3,)), [b"", BLOCK], (none, none, CHANGES)),
        _batch_case(((3,), None, None), [BLOCK, b""], (CHANGES, none, none)),
        _batch_case(((3,), None, (3,)), changes=(CHANGES, none, CHANGES), batch=3),
        # Raw bits that end within a byte where a block does, and words.
        _batch_case(changes=(FAR, FAR), told=FAR_TOLD), _batch_case(((5,), (5,)), changes=(RARE, RARE), told=RARE_TOLD),
        # As many changes as there may be.
        _batch_case(((BLOCK_ELEMENTS - 1,), (1,)), changes=(ONE * (BLOCK_ELEMENTS - 1), ONE))]


def broken_groups():
    """A list of what is wrong, a part of this decoder's message, base and delta."""
    few = ((4,),)
    too_long = given((1, 1, 1), (1,) + (0,) * 30)
    none = parameters((PLAIN, PLAIN), (128,), counts=((3, 0),))
    rows = [
        ("a bound of 0", "a bound of 0", parameters((None, PLAIN), (0,))),
        ("no gap weights", "no weight", parameters((PLAIN, given((0, 0), (1,))), (128,), counts=((3, 0),))),
        ("no distance weights", "no weight", parameters((PLAIN, given((1,), (0, 0))), (128,), counts=((3, 0),))),
        ("a distance bucket too many", "31 distance buckets", parameters((too_long,))),
        ("a column mask without a matrix", "without rows", parameters((PLAIN,), head=1, mask=((0, 16),))),
        ("a row mask without a matrix", "without rows", parameters((PLAIN,), head=2, mask=((0, 8),))),
        ("bits left over", "left over", parameters(behind=((1, 1),))),
        ("a byte left over", "left over", parameters() + b"\0"),
        ("more zeros than any number has", "zero bits", parameters(counts=(), behind=((1, 1), (0, 200)))),
        ("another number of changes", "", parameters(counts=few))]
    made = [(what, reason, case(parts)) for what, reason, parts in rows]
    made += [(f"parameters of {length} bytes", "", case(none[:length])) for length in range(1, len(none))]
    no_sign = PLAIN._replace(sign=0)
    made.append(("a sign of probability 0", "probability 0",
                 case(parameters((no_sign,), head=1, mask=((0, 8),)), shape=MATRIX)))
    made += [
        ("no changes", "0 changes", case(parameters(counts=((0,),)))),
        ("11 changes in 10", "11 changes", case(parameters(counts=((11,),)), [block_of(ONE * 11)], changes=[])),
        ("more changes together than elements", "12 changes",
         case(parameters((PLAIN, PLAIN), (128,), counts=((6, 6),)), changes=[])),
        ("no classed block", "no classed strip", case(parameters(counts=(None,)), [SPARSE_BLOCK])),
        ("no block at all", "no classed strip", case(parameters(counts=(None,)), [b""], changes=[])),
        ("a classed block that is empty", "cut", case(blocks=[b""], changes=[])),
        ("a classed block that is sparse", "", case(blocks=[SPARSE_BLOCK])),
        ("a classed block behind a mode", "", case(blocks=[b"\4" + BLOCK])),
        ("a group without parameters", "unknown mode 4", case(b"", [b"\4" + BLOCK])),
        ("elements of eight bytes", "eight bytes", case(dtype="I64")),
        ("a class without elements", "end of its class", case(parameters((PLAIN, None), (1,)), changes=[])),
        ("a gap beyond the block", "end of its class", case(blocks=[block_of([Change(0, 2, 1, 0)] * 4)], changes=[],
                                                           parts=parameters(counts=few)))]
    for what, reason, flaws in (("loose ends in the states", "loose ends in the states", Flaws(held=1 << 8)),
                                ("the last loose end in the states", "loose ends in the states", Flaws(held=1 << 14)),
                                ("raw bits where there are none", "loose ends behind", Flaws(held=1)),
                                ("bits behind the states", "behind the states", Flaws(pad=0x80)),
                                ("a state that ends too large", "out of range", Flaws(least_end=HIGH)),
                                ("one that ends much too large", "out of range", Flaws(least_end=1 << 24))):
        made.append((what, reason, case(blocks=[block_of(CHANGES, flaws=flaws)])))
    for what, reason, block in (("a byte behind", "behind the raw bits", BLOCK + b"\0"),
                                ("a word behind", "behind the raw bits", BLOCK + b"\0\0"),
                                ("cut states", "cut", BLOCK[:-1])):
        made.append((what, reason, case(blocks=[block])))
    far = block_of(FAR, FAR_TOLD)
    for what, reason, block in (("a raw byte too few", "cut", far[:-1]),
                                ("a raw byte too many", "behind the raw", far + b"\0"),
                                ("loose raw bits", "loose ends behind", far[:-1] + bytes([far[-1] | 0x80]))):
        made.append((what, reason, case(parameters((FAR_TOLD,)), [block], changes=FAR)))
    rare = block_of(RARE, RARE_TOLD)
    for length in (1, 2, 3, 4):
        made.append((f"{length} bytes of words too few", "cut", case(parameters((RARE_TOLD,), counts=((5,),)),
                                                                     [rare[:-length]], changes=RARE)))
    parts, whole = parameters(), parameters() + BLOCK
    made += [(what, reason, case(index=index)) for what, reason, index in (
        ("a group of no blocks", "group of 0", b"\1\1\0\0" + index_of(parts, [BLOCK])[2:]),
        ("a group of two blocks", "group of 2", b"\1\1\2" + index_of(parts, [BLOCK])[3:] + b"\0"),
        ("parameters longer than the entry", "longer", b"\1\1\1" + varint(len(whole) + 1) + b"\0\0"),
        ("an index that ends in the group", "cut", b"\1\1\1" + varint(len(parts))),
        ("an index that ends before the length of a batch", "cut", index_of(parts, [], 1)),
        ("an index that ends before the group", "cut", b"\1\1"),
        ("a group too many", "behind the index", index_of(parts, [BLOCK]) + b"\1\0\0"))]
    return [(what, reason, base, delta) for what, reason, (base, delta, _) in made + _two_blocks() + _broken_batches()]


def _two_blocks():
    """The same where a group has a second block, which changes nothing if it is taken for what it is not."""
    shape = (BLOCK_ELEMENTS + ELEMENTS,)

    def made(what, reason, counts, blocks):
        return what, reason, case(parameters(counts=counts), blocks, shape)

    return [made("the second block is said to be classed", "cut", ((3,), (3,)), [BLOCK, b""]),
            made("the second block is classed unsaid", "unknown", ((3,), None), [BLOCK, b"\4" + BLOCK]),
            made("a second number below 0", "-1 changes", ((3,), (-1,)), [BLOCK, b""])]


def _broken_batches():
    """The same of groups in batches."""
    both, none = block_of(CHANGES * 2), ()
    far, rare = block_of(FAR * 2, FAR_TOLD), block_of(RARE * 2, RARE_TOLD)
    made = [(f"batches of {batch} blocks", f"batches of {batch} strips", _batch_case(batch=batch))
            for batch in (0, 65, 128, (1 << 64) - 1)]
    front = b"\1\2\2" + varint(len(parameters(counts=((3,), (3,))))) + b"\0"
    made += [(what, reason, _batch_case(index=index)) for what, reason, index in (
        ("no size of batches", "cut", front + varint(len(both))),
        ("an index that ends before the size of batches", "cut", front),
        ("a cut size of batches", "cut", front + b"\x82"),
        ("a long size of batches", "longer than needed", front + b"\x82\0" + varint(len(both))),
        ("an index that ends behind the size of batches", "cut", front + b"\2"))]
    made.append(("a size of batches of one strip", "shorter",
                 case(index=b"\1\1\1" + varint(len(parameters())) + b"\0\1" + varint(len(BLOCK)))))
    made += [
        ("a size of batches without parameters", "cut", case(b"", [SPARSE_BLOCK], index=b"\1\1\1\0\1\x08")),
        ("a size of strips without parameters", "shorter", case(b"", [SPARSE_BLOCK], index=b"\1\1\1\0\0\x08")),
        ("a batch too many", "shorter than the entry", _batch_case(batches=[BLOCK, BLOCK])),
        ("an empty batch too many", "behind the index", _batch_case(batches=[both, b""])),
        ("a batch too few", "cut",
         _batch_case(((3,), None, (3,)), [both], (CHANGES, none, CHANGES))),
        ("a batch for each block", "shorter than the entry",
         _batch_case(((3,), None, (3,)), [BLOCK, b"", BLOCK], (CHANGES, none, CHANGES))),
        ("no bytes for changes", "cut", _batch_case(batches=[b""], changes=(none, none))),
        ("no bytes for the last changes", "cut",
         _batch_case(((3,), None, (3,)), [BLOCK, b""], (CHANGES, none, none))),
        # Of no changes there could be a state alone.
        ("a batch of no changes", "3 bytes without a classed strip",
         _batch_case((None, None, (3,)), [block_of(()), BLOCK], (none, none, CHANGES))),
        ("a byte for no changes", "1 bytes without a classed strip",
         _batch_case((None, None, (3,)), [b"\0", BLOCK], (none, none, CHANGES))),
        ("a sparse block in a batch alone", "8 bytes without a classed strip",
         _batch_case(((3,), None, None), [BLOCK, SPARSE_BLOCK], (CHANGES, none, CHANGES))),
        ("a sparse block in a batch", "behind the raw bits",
         _batch_case(((3,), None), [BLOCK + SPARSE_BLOCK])),
        ("blocks of a batch coded alone", "", _batch_case(batches=[BLOCK + BLOCK])),
        ("a change more than there may be", "65537 changes",
         _batch_case(((BLOCK_ELEMENTS,), (1,)), changes=(ONE * BLOCK_ELEMENTS, ONE))),
        ("many more changes than there may be", "65546 changes",
         _batch_case(((BLOCK_ELEMENTS,), (ELEMENTS,)), [BLOCK], (ONE * BLOCK_ELEMENTS, ONE * ELEMENTS))),
        ("a change in the next block", "end of its class",
         _batch_case(((2,), None), changes=((Change(0, 0, 1, 0), Change(0, BLOCK_ELEMENTS - 1, 1, 0)), none),
                     told=WIDE_TOLD)),
        ("another number of changes in the second block", "", _batch_case(((3,), (4,)), [both]))]
    made += [(what, reason, _batch_case(batches=[batch])) for what, reason, batch in (
        ("cut states of a batch", "cut", both[:-1]), ("a byte behind a batch", "behind the raw bits", both + b"\0"),
        ("a word behind a batch", "behind the raw bits", both + b"\0\0"),
        ("loose ends in the states of a batch", "loose ends", block_of(CHANGES * 2, flaws=Flaws(held=1 << 8))),
        ("bits behind the states of a batch", "behind the states", block_of(CHANGES * 2, flaws=Flaws(pad=0x80))))]
    made += [(what, reason, _batch_case(batches=[batch], changes=(FAR, FAR), told=FAR_TOLD))
             for what, reason, batch in (("a raw byte of a batch too few", "cut", far[:-1]),
                                         ("a raw byte of a batch too many", "behind the raw bits", far + b"\0"))]
    made += [(f"{length} bytes of words of a batch too few", "cut",
              _batch_case(((5,), (5,)), [rare[:-length]], (RARE, RARE), told=RARE_TOLD)) for length in (1, 2)]
    return made
