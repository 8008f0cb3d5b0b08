# SPDX-License-Identifier: Apache-2.0
"""What broken_groups.py has, for groups that skip rows."""

from broken_groups import BLOCK, CHANGES, PLAIN, SPARSE_BLOCK, block_of, case, index_of, parameters
from broken_strips import OTHER, WIDE
from elements import BLOCK_ELEMENTS
from group import symbols_of
from make_group import Change, classed_block

ROWS = 4, 5  # a matrix of which SKIPPED says that the first row and the third are skipped
SKIPPED = 1, 1
TALL = 656, 100  # one of two blocks: of the last row the first 36 elements are in the first
LAST_ROW = 655
IN_FIRST = BLOCK_ELEMENTS - 100 * LAST_ROW


def _ahead(elements, changes=CHANGES):
    """changes where so many elements more are ahead of them."""
    return (changes[0]._replace(gap=changes[0].gap + elements), *changes[1:])


# What CHANGES are where all elements count.
SPREAD = Change(0, 5, 1, 0), Change(0, 1, 1, 0), Change(0, 7, 1, 1)


def skip_case(numbers=SKIPPED, changes=SPREAD, shape=ROWS, order=0, parts=None, blocks=(BLOCK,), counts=None,
              told=PLAIN, **more):
    """A base, a delta and its result: a group of one class that skips rows, right in all parts that are not given.
    numbers: of the list of skipped rows, in the code of that order; changes: those of the first block as all elements
    count; more: what case takes."""
    counts = ((len(CHANGES),),) if counts is None else counts
    parts = parameters((told,), counts=counts, skips=(order, numbers)) if parts is None else parts
    return case(parts, blocks, shape, changes=changes, **more)


def _tall_case(numbers, counts, blocks, changes=((), ()), strip=1, **more):
    """The same of TALL; changes: those of each block."""
    parts = parameters((WIDE,), counts=counts, skips=(0, numbers))
    return skip_case(numbers, changes[0], TALL, parts=parts, blocks=blocks, more=changes[1:],
                     index=index_of(parts, blocks, 2, strip=strip), **more)


def _two_classes():
    """A row of elements of the second class is skipped, and not counted there."""
    coded = classed_block([Change(0, 1, 1, 0), Change(1, 2, 1, 0)], [symbols_of(PLAIN)] * 2)
    return skip_case(parts=parameters((PLAIN, PLAIN), (128,), counts=((1, 1),), skips=(0, (1, 0))), shape=(3, 5),
                     blocks=[coded], old=[OTHER] * 5 + [1000] * 5 + [OTHER] * 5,
                     changes=(Change(0, 6, 1, 0), Change(0, 5, 1, 0)))


def right_skips():
    """Groups that look odd and break no rule: bases, deltas, results."""
    block, far = block_of(CHANGES, WIDE), (Change(0, 0, 1, 0), Change(0, 1, 1, 0), Change(0, 132, 1, 1))
    behind = parameters(skips=(0, (2,)))
    return [
        *(skip_case(order=order) for order in range(16)),
        # All rows but the first, and all but the last; of many rows, so that their number is a long one.
        skip_case((0, 3), CHANGES, (4, 10)), skip_case((3,), _ahead(30), (4, 10)),
        skip_case((0, 299), CHANGES, (300, 10)), skip_case((299,), _ahead(2990), (300, 10)),
        *(skip_case((299,), _ahead(2990), (300, 10), order) for order in (1, 5, 6, 15)),
        # A tensor of more dimensions, and elements of other widths.
        skip_case(shape=(2, 2, 5)), skip_case(dtype="I32"), skip_case(dtype="I8", old=[3] * 20),
        # Behind masks, which say something of a row that is skipped, too.
        *(skip_case(parts=parameters((PLAIN,), head=head, mask=mask, skips=(3, SKIPPED)))
          for head, mask in ((1, ((0, 8),)), (2, ((5, 8),)), (3, ((0x1F, 8), (0xFF, 8))))),
        _two_classes(),
        # A first part of a row that is skipped, and all of a block with it; a second part, and all of another block.
        *(_tall_case((LAST_ROW + 1,), counts, blocks, ((), CHANGES), strip)
          for counts, blocks, strip in ((((3,),), [block], 2), ((None, (3,)), [b"", block], 1))),
        *(_tall_case((0, LAST_ROW - 1, 1), counts, blocks, ((*far[:2], Change(0, BLOCK_ELEMENTS - 4, 1, 1)), ()), strip)
          for counts, blocks, strip in ((((3,),), [block_of(far, WIDE)], 2),
                                        (((3,), None), [block_of(far, WIDE), b""], 1))),
        # Both parts are kept, and the changes of a strip go on from one to the other.
        _tall_case((LAST_ROW, 0), ((3,),), [block_of((Change(0, IN_FIRST - 1, 1, 0), *CHANGES[1:]), WIDE)],
                   ((Change(0, BLOCK_ELEMENTS - 1, 1, 0),), (Change(0, 1, 1, 0), Change(0, 2, 1, 1))), 2),
        # A block beside, that is coded alone.
        _tall_case((0, LAST_ROW), ((3,), None), [block, SPARSE_BLOCK], (CHANGES, CHANGES)),
        # A group that begins within a row, of which it skips the second part, and the row behind it.
        skip_case((2,), (), (658, 100), parts=behind, more=(_ahead(200 - IN_FIRST),),
                  index=index_of(behind, [BLOCK], first=1)),
        # Rows of a block each.
        skip_case((1,), (), (2, BLOCK_ELEMENTS), blocks=[b"", BLOCK], counts=(None, (3,)), more=(CHANGES,))]


def broken_skips():
    """A list of what is wrong, a part of this decoder's message, base and delta."""
    made = [(f"rows skipped in a tensor of shape {shape}", "rows are skipped where there are none",
             skip_case(shape=shape, changes=[])) for shape in ((20,), (20, 1), (4, 5, 1))]
    # In the order of 15 each number takes two bytes.
    front, whole = parameters(), parameters(skips=(15, SKIPPED))
    made += [(f"{length} bytes of parameters", "cut", skip_case(parts=whole[:length]))
             for length in range(len(front), len(whole))]
    made += [
        ("a list of an order alone", "cut", skip_case((), CHANGES)),
        ("a list that ends before the last row", "cut", skip_case((0, 1), shape=(4, 10), changes=CHANGES)),
        ("a list of rows instead of their parts", "cut", _tall_case((LAST_ROW,), ((3,),), [BLOCK], strip=2)),
        ("a list where the bit is not set", "left over",
         skip_case(parts=bytes([whole[0] ^ 4]) + whole[1:], changes=CHANGES)),
        ("a bit where there is no list", "cut", skip_case(parts=bytes([front[0] ^ 4]) + front[1:], changes=CHANGES)),
        ("a byte behind the list", "left over", skip_case(parts=parameters(skips=(0, SKIPPED)) + b"\0")),
        ("a number behind the last row", "left over", skip_case((*SKIPPED, 0))),
        ("a number behind all that are left", "left over", skip_case((0, 3, 0), CHANGES, (4, 10))),
        ("a large number behind all that are left", "left over", skip_case((0, 3, 1 << 20), CHANGES, (4, 10))),
        ("a list that skips no rows", "no rows are skipped", skip_case((0,) * 4, CHANGES)),
        ("a list that skips no rows, of one", "no rows are skipped", skip_case((0,), CHANGES, (1, 10))),
        ("more zeros than any number has", "zero bits", skip_case((8 + (1 << 33), 1)))]
    made += [(f"{number} rows skipped of {left}, in order {order}", f"{number} rows are skipped of {left} that",
              skip_case(numbers, changes, (4, 10), order))
             for number, left, numbers, changes in ((5, 4, (5,), []), (4, 3, (0, 4), CHANGES), (9, 2, (1, 9), []))
             for order in (0, 1, 15)]
    # In numbers of fewer bits one row is skipped.
    made += [(f"2^{bits} rows and one skipped, in order {order}", f"{(1 << bits) + 1} rows are skipped of 4",
              skip_case(((1 << bits) + 1, 1), order=order))
             for order, bits in ((0, 8), (0, 16), (0, 32), (15, 16), (15, 32), (15, 47))]
    made += [(what, "end of its class", skip_case(numbers, [])) for what, numbers in (
        ("a change behind the only row that is kept", (1, 2)), ("changes where all rows are skipped", (4,)))]
    made += [
        ("a change behind a first part of a row", "end of its class",
         _tall_case((LAST_ROW, 1), ((1,),), [block_of((Change(0, IN_FIRST, 1, 0),), WIDE)], strip=2)),
        ("a change in a block of which all is skipped", "end of its class",
         _tall_case((0,) * (LAST_ROW + 1) + (1,), ((3,), (1,)),
                    [block_of(CHANGES, WIDE), block_of(CHANGES[:1], WIDE)], (CHANGES, ()))),
        ("rows skipped in elements of eight bytes", "eight bytes", skip_case(dtype="I64"))]
    return [(what, reason, base, delta) for what, reason, (base, delta, _) in made]
