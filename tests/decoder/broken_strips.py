# SPDX-License-Identifier: Apache-2.0
"""What broken_groups.py has, for groups in strips."""

from broken_groups import (CHANGES, ELEMENTS, FAR, FAR_TOLD, ONE, RARE, RARE_TOLD, SPARSE_BLOCK, block_of, case,
                           given, index_of, parameters)
from elements import BLOCK_ELEMENTS
from group import symbols_of
from make_afresh import make_afresh
from make_delta import varint
from make_group import Change, Flaws, classed_block
from told import most_gap_buckets

WIDE = given((1,) * 32, (1,))  # any gap within a block
BLOCK = block_of(CHANGES, WIDE)
STRIPS = 2, 4, 8, 16, 32  # of how many blocks
MORE = CHANGES + (Change(0, BLOCK_ELEMENTS - 6, 1, 0),)  # the last one is the first element of the next block
AFRESH_BLOCK = make_afresh([2000] * ELEMENTS, 2)
# An element of another class than all others, which are 1000.
OTHER = 0xFC18


def strip_case(changes=(MORE,), blocks=2, strip=2, batch=1, first=0, told=WIDE, counts=None, parts=None, batches=None,
               index=None, result=None, old=None, dtype="I16"):
    """A base, a delta and its result: a group in strips, right in all parts that are not given. changes: those of each
    strip; blocks: of how many the group is, the last of ELEMENTS; first: how many are before it; counts: of each strip;
    result: what changes from the beginning of each strip on, where that is not changes."""
    counts = [(len(one),) if one else None for one in changes] if counts is None else counts
    parts = parameters((told,), counts=counts) if parts is None else parts
    if batches is None:
        together = [sum(changes[at:at + batch], ()) for at in range(0, len(changes), batch)]
        batches = [block_of(one, told) if one else b"" for one in together]
    index = index_of(parts, batches, blocks, batch, strip, first) if index is None else index
    begins = {max(first, (first // strip + place) * strip): one
              for place, one in enumerate(changes if result is None else result)}
    front, *more = (begins.get(block, ()) for block in range(first + blocks))
    shape = ((first + blocks - 1) * BLOCK_ELEMENTS + ELEMENTS,)
    return case(parts, batches, shape, index, front, dtype, more=more, old=old)


def any_gap(strip, more=0):
    """A class that has all gap buckets there may be, and more."""
    return given((1,) * (most_gap_buckets(strip) + more), (1,))


def two_classes(gaps):
    """Parts of a strip of two blocks that each have one element of the second class, and one change in each class, the
    gaps of which are given; the result has the changes that gaps of 7 and 1 are."""
    old = [1000] * (BLOCK_ELEMENTS + ELEMENTS)
    old[5] = old[BLOCK_ELEMENTS + 3] = OTHER
    told, coded = any_gap(2), [Change(of, gap, 1, 0) for of, gap in enumerate(gaps)]
    return {"parts": parameters((told, told), (128,), counts=((1, 1),)),
            "batches": [classed_block(coded, [symbols_of(told)] * 2)], "old": old,
            "result": ((Change(0, 8, 1, 0), Change(0, BLOCK_ELEMENTS - 6, 1, 0)),)}


def right_strips():
    """Groups that look odd and break no rule: bases, deltas, results."""
    alone, none, last = parameters((WIDE,), counts=((3,), None)), (), BLOCK_ELEMENTS + ELEMENTS - 1
    # One of each in the first block, all others in the second.
    full = (Change(0, ELEMENTS, 1, 0),) + ONE * (BLOCK_ELEMENTS - 1)
    return [
        strip_case(), strip_case(batch=64), strip_case(strip=8),
        *(strip_case((CHANGES,), 1, strip) for strip in (1, *STRIPS)),
        # A change in the last block alone, and as many gap buckets as there may be.
        *(strip_case(((Change(0, last, 1, 0),),), strip=strip, told=any_gap(strip)) for strip in STRIPS),
        strip_case(((Change(0, last - 1, 1, 0), Change(0, 0, 1, 0)),), told=any_gap(2)),
        strip_case(**two_classes((7, 1))),
        # Strips that begin where the tensor says, not the group.
        strip_case((CHANGES, CHANGES), 2, 2, first=1), strip_case((CHANGES, MORE), 3, 2, first=1),
        strip_case((MORE, MORE), 4, 4, 2, first=2), strip_case((CHANGES, CHANGES), 2, 8, 64, first=7),
        # Strips without changes, and batches of them.
        strip_case((MORE, none), 3), strip_case((none, CHANGES), 3), strip_case((none, CHANGES), 3, batch=2),
        strip_case((none, none, CHANGES), 5, batch=2), strip_case((CHANGES, none, none), 4, first=1, batch=2),
        # Strips of one block where others may be coded alone, and such as need no group.
        case(alone, [BLOCK, SPARSE_BLOCK], (BLOCK_ELEMENTS + ELEMENTS,),
             more=(CHANGES,)),
        case(alone, [BLOCK, AFRESH_BLOCK], (BLOCK_ELEMENTS + ELEMENTS,)),
        # Raw bits that end within a byte where a strip does, and words.
        strip_case((FAR, FAR), 2, 2, 2, 1, FAR_TOLD), strip_case((RARE, RARE), 2, 2, 2, 1, RARE_TOLD),
        # As many changes as there may be.
        strip_case((full,), told=any_gap(2)), strip_case((ONE * (BLOCK_ELEMENTS - 1), ONE), 2, 2, 2, 1)]


def broken_strips():
    """A list of what is wrong, a part of this decoder's message, base and delta."""
    made = _broken_index() + _broken_parameters() + _broken_changes() + _broken_coding()
    return [(what, reason, base, delta) for what, reason, (base, delta, _) in made]


def _broken_index():
    parts = parameters((WIDE,))
    made = [(f"strips of 2^{log} blocks", f"strip of 2.{log} blocks",
             strip_case((CHANGES,), 1, index=index_of(parts, [BLOCK], told=log))) for log in (6, 7)]
    made.append(("strips of 2^6 blocks, and a reference", "strip of 2.6 blocks",
                 strip_case((CHANGES,), 1, index=index_of(parts, [BLOCK], told=14))))
    made += [(f"batches of {batch} strips", f"batches of {batch} strips",
              strip_case((CHANGES, CHANGES), 2, batch=batch, first=1, batches=[BLOCK]))
             for batch in (0, 65, 128, (1 << 64) - 1)]
    front = b"\1\1\1" + varint(len(parts))
    made += [(what, reason, strip_case((CHANGES,), 1, index=index)) for what, reason, index in (
        ("an index that ends before the size of strips", "cut", front),
        ("a cut size of strips", "cut", front + b"\x81"),
        ("a long size of strips", "longer than needed", front + b"\x81\0" + varint(len(BLOCK))),
        ("an index that ends behind the size of strips", "cut", front + b"\1"),
        ("a size of batches of one strip", "shorter", front + b"\1\1" + varint(len(BLOCK))))]
    made.append(("both sizes without parameters", "", case(b"", [SPARSE_BLOCK], index=b"\1\1\1\0\1\1\x08")))
    both = block_of(CHANGES * 2, WIDE)
    return made + [
        ("a batch for each block", "shorter than the entry", strip_case(batches=[block_of(MORE, WIDE), BLOCK])),
        ("an empty batch for the second block", "behind the index", strip_case(batches=[block_of(MORE, WIDE), b""])),
        ("a batch too few where the first strip is short", "cut",
         strip_case((CHANGES, CHANGES), 2, first=1, batches=[both])),
        ("strips that begin with the group", "",
         strip_case((MORE, CHANGES), 3, first=1, result=(CHANGES, CHANGES)))]


def _broken_parameters():
    made = [(f"a gap bucket too many for {strip} blocks", f"{most_gap_buckets(strip) + 1} gap buckets",
             strip_case(strip=strip, told=any_gap(strip, 1))) for strip in STRIPS]
    made += [(f"64 gap buckets for {strip} blocks", "64 gap buckets",
              strip_case(strip=strip, told=any_gap(strip, 64 - most_gap_buckets(strip)))) for strip in STRIPS]
    return made + [
        ("numbers of changes for each block", "left over",
         strip_case(parts=parameters((WIDE,), counts=((4,), (4,))))),
        ("no changes in a strip", "0 changes", strip_case(counts=((0,),))),
        ("-1 changes in a strip", "-1 changes", strip_case((CHANGES, CHANGES), 2, first=1, counts=((3,), (-1,)))),
        ("11 changes in 10", "11 changes in 10", strip_case((ONE * 11,), 1, result=((),))),
        ("11 changes in the last strip, of 10", "11 changes in 10",
         strip_case((ONE, ONE * 11), 3, result=(ONE, ()))),
        ("more changes together than elements", "12 changes in 10",
         strip_case((ONE * 12,), 1, parts=parameters((WIDE, WIDE), (128,), counts=((6, 6),)), result=((),))),
        ("more changes than two blocks have elements", "65547 changes",
         strip_case((ONE * (BLOCK_ELEMENTS + ELEMENTS + 1),), batches=[BLOCK], result=((),))),
        ("a change more than there may be", "65537 changes", strip_case((ONE * (BLOCK_ELEMENTS + 1),))),
        ("a change more than there may be in two strips", "65537 changes",
         strip_case((ONE * BLOCK_ELEMENTS, ONE), 2, 2, 2, 1)),
        ("elements of eight bytes", "eight bytes", strip_case(dtype="I64"))]


def _broken_changes():
    """Changes that do not lie in their strips; what is left of the result is the base."""
    behind = BLOCK_ELEMENTS + ELEMENTS
    wide = any_gap(2)
    made = [(f"a gap longer than a strip of {strip} blocks", "end of its class",
             strip_case(((Change(0, (strip - 1) * BLOCK_ELEMENTS + ELEMENTS, 1, 0),),), strip, strip,
                        told=any_gap(strip), result=((),))) for strip in STRIPS]
    made += [(what, "end of its class", strip_case(changes, told=wide, result=((),))) for what, changes in (
        ("a last gap that is too long", (CHANGES + (Change(0, behind - 6, 1, 0),),)),
        ("a change behind the last element", ((Change(0, behind - 1, 1, 0), Change(0, 0, 1, 0)),)),
        ("the longest gap", ((Change(0, (1 << 17) - 1, 1, 0),),)))]
    # In numbers of 32 bits they end where they begin.
    made.append(("gaps that add up to 2^32", "end of its class",
                 strip_case(((Change(0, (1 << 19) - 1, 1, 0),) * (1 << 13),), 8, 8, told=any_gap(8), result=((),))))
    made.append(("a change in the next strip", "end of its class",
                 strip_case(((Change(0, BLOCK_ELEMENTS - 1, 1, 0), Change(0, 0, 1, 0)), ()), 2, first=1, told=wide)))
    return made + [(what, "end of its class", strip_case(**two_classes(gaps))) for what, gaps in (
        ("a change outside the first class in the last block", (behind - 2, 1)),
        ("a change outside the second class in the last block", (7, 2)))]


def _broken_coding():
    none, block, far, rare = (), block_of(MORE, WIDE), block_of(FAR * 2, FAR_TOLD), block_of(RARE * 2, RARE_TOLD)
    length = len(BLOCK)
    made = [
        ("no bytes for a strip", "cut", strip_case(batches=[b""], result=(none,))),
        ("no bytes for the last strip", "cut",
         strip_case((MORE, CHANGES), 3, batches=[block, b""], result=(MORE, none))),
        ("no bytes for a batch of strips", "cut",
         strip_case((CHANGES, CHANGES), 2, 2, 2, 1, batches=[b""], result=(none, none))),
        ("bytes for a strip of no changes", f"{length} bytes without a classed strip",
         strip_case((none, CHANGES), 3, batches=[BLOCK, BLOCK])),
        ("bytes for a batch of no changes", f"{length} bytes without a classed strip",
         strip_case((none, none, CHANGES), 5, batch=2, batches=[BLOCK, BLOCK])),
        ("a byte for no changes", "1 bytes without a classed strip",
         strip_case((none, CHANGES), 3, batches=[b"\0", BLOCK])),
        ("no classed strip", "no classed strip", strip_case((none,), batches=[b""])),
        ("no classed strip, and bytes", "no classed strip", strip_case((none,), batches=[block])),
        # What blocks alone may be.
        ("a sparse block that is a strip", "8 bytes without a classed strip",
         strip_case((MORE, none), 3, batches=[block, SPARSE_BLOCK], result=(MORE, CHANGES))),
        ("a sparse block that is the first strip", "8 bytes without a classed strip",
         strip_case((none, CHANGES), 2, first=1, batches=[SPARSE_BLOCK, BLOCK], result=(CHANGES, CHANGES))),
        ("an afresh block that is a strip", "bytes without a classed strip",
         strip_case((MORE, none), 3, batches=[block, AFRESH_BLOCK])),
        ("a sparse block where classes are told", "", strip_case((CHANGES,), 1, batches=[SPARSE_BLOCK])),
        ("blocks of a strip coded alone", "", strip_case((CHANGES * 2,), batches=[BLOCK * 2])),
        ("another number of changes", "", strip_case(counts=((5,),)))]
    made += [(what, reason, strip_case(batches=[coded])) for what, reason, coded in (
        ("cut states of a strip", "cut", block[:-1]), ("a byte behind a strip", "behind the raw bits", block + b"\0"),
        ("loose ends in the states of a strip", "loose ends", block_of(MORE, WIDE, flaws=Flaws(held=1 << 14))),
        ("bits behind the states of a strip", "behind the states", block_of(MORE, WIDE, flaws=Flaws(pad=0x80))))]
    made += [(what, reason, strip_case((FAR, FAR), 2, 2, 2, 1, FAR_TOLD, batches=[coded]))
             for what, reason, coded in (("a raw byte of strips too few", "cut", far[:-1]),
                                         ("a raw byte of strips too many", "behind the raw bits", far + b"\0"))]
    made += [(f"{cut} bytes of words of strips too few", "cut",
              strip_case((RARE, RARE), 2, 2, 2, 1, RARE_TOLD, batches=[rare[:-cut]])) for cut in (1, 2)]
    return made
