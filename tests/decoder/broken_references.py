# SPDX-License-Identifier: Apache-2.0
"""What broken_groups.py has, for groups that refer to others."""

from collections import namedtuple
from math import prod

from bits import BitWriter
from broken_classes import LIKELY, RARE, Overlong
from broken_groups import (CHANGES, ELEMENTS, MATRIX, ONE, PLAIN, SPARSE_BLOCK, block_of, changed, delta_of,
                           given, index_of, parameters, put_end)
from broken_skips import ROWS, SKIPPED, SPREAD
from broken_strips import OTHER
from elements import BLOCK_ELEMENTS, width_of
from group import Shape, symbols_of
from make_delta import told_bundle, varint
from make_group import Change, CountWriter, classed_block, put_differences, put_skips
from random_checkpoint import bytes_of, write_safetensors
from reference import Differences, referring
from told import ONE_DISTANCE, Row, Told, most_gap_buckets


def _gaps_from(code, buckets):
    """A class that tells a probability of gaps, and nothing of distances."""
    return Told(Row(buckets, None, code), ONE_DISTANCE)


# What the classes of a reference may tell; the second one has a probability of distances.
LIKE = _gaps_from(0x47, 5)
EVEN = Told(LIKE.gaps, Row(6, None, 0x41))
EVERY = None, LIKE, None, _gaps_from(RARE, 3), _gaps_from(LIKELY, 32), None
# A tensor that is one group. told: what the index says of strips and reference; changes: of each block, all in one
# class; old: the elements of the base, where these are not all the same; index: its part, where it is not as it should.
Tensor = namedtuple("Tensor", "parts batches told changes dtype shape old index",
                    defaults=((CHANGES,), "I16", (ELEMENTS,), None, None))


def _first_used(classes):
    return [bool(one) for one in classes].index(True)


def reference(classes=(LIKE,), head=0, mask=(), told=0, skips=None, **more):
    """A group that others refer to; the first class that is used has all elements and CHANGES."""
    first = _first_used(classes)
    bounds = (*range(1, first + 1), *range(129 + first, 128 + len(classes)))
    counts = ((len(CHANGES),) + (0,) * (sum(map(bool, classes)) - 1),)
    parts = parameters(classes, bounds, head, mask, counts, skips=skips)
    return Tensor(parts, [block_of(CHANGES, classes[first])], told, **more)


def refers(classes=(LIKE,), differences=Differences(), counts=None, head=0, mask=(), behind=(), told=8, bits=None,
           changes=(CHANGES,), batches=None, width=2, strip=1, skips=None, **more):
    """A group that refers to one of these classes. changes: of each strip, which are those of the first class that is
    used; counts: as they are told; behind: pairs of a number and its bits, in front of the masks; batches: as they are
    coded; bits: a BitWriter; skips: the order and the numbers of a list of skipped rows."""
    first, bits = _first_used(classes), bits or BitWriter()
    weights = [1 + len(CHANGES) * (number == first) for number in range(len(classes))]
    if counts is None:
        counts = [[len(one) * (number == first) for number in range(len(classes))] if one else None for one in changes]
    bits.put(head | bool(skips) << 2, 3)
    put_differences(bits, differences, head)
    put_end(bits, CountWriter(bits, len(classes), weights), counts, (*behind, *mask))
    if skips:
        put_skips(bits, *skips)
    if batches is None:
        own = referring(classes, differences, Shape(width, 0, 0, (), strip))[first]
        batches = [block_of(one, own) if one else b"" for one in changes]
    return Tensor(bits.bytes(), batches, told | strip.bit_length() - 1, changes, **more)


def _case(*tensors, bundle=False):
    """A base, a delta and its result: of tensors, which share an entry in a bundle."""
    base, result, entries, parts = [], [], [], []
    for name, one in zip("abcdefgh", tensors):
        width, fill = width_of(one.dtype), 3 if one.dtype == "I8" else 1000
        old = one.old or [fill] * prod(one.shape)
        for side, elements in ((base, old), (result, changed(old, one.changes))):
            side.append((name, one.dtype, list(one.shape), bytes_of(elements, width)))
        entries.append((name, one.parts + b"".join(one.batches)))
        blocks = -(-prod(one.shape) // BLOCK_ELEMENTS)
        part = index_of(one.parts, one.batches, blocks, strip=1 << (one.told & 7), told=one.told)
        parts.append((name.encode(), one.index or part))
    index = b"".join(part for _, part in parts)
    if bundle:
        index = told_bundle([(name, part[1:]) for name, part in parts])
        entries = [("all", b"".join(entry for _, entry in entries))]
    base, result = write_safetensors(base), write_safetensors(result)
    return base, delta_of(base, result, entries, index), result


def pair(classes=(LIKE,), **choices):
    """A group and one that refers to it."""
    return _case(reference(classes), refers(classes, **choices))


def _two_classes(many, counts):
    """A group with so many changes, all in the first of two classes, and one that refers to it and has as many in each
    as counts say. Both have as many elements as there are in a block; those of the second are half of each class."""
    half, told, bits = BLOCK_ELEMENTS // 2, _gaps_from(LIKELY, 16), BitWriter()
    bits.put(0, 3)
    put_differences(bits, Differences(), 0)
    put_end(bits, CountWriter(bits, 2, (many + 1, 1)), (counts,), ())
    symbols = symbols_of(referring((told,), Differences(), Shape(2, 0, 0, ()))[0])
    coded = [Change(of, 0, 1, 0) for of, count in enumerate(counts) for _ in range(count)]
    changes = ONE * counts[0]
    if counts[1]:
        changes += (Change(0, half - counts[0], 1, 0),) + ONE * (counts[1] - 1)
    shape = (BLOCK_ELEMENTS,)
    return _case(
        Tensor(parameters((told, told), (128,), counts=((many, 0),)), [block_of(ONE * many, told)], 0, (ONE * many,),
               shape=shape),
        Tensor(bits.bytes(), [classed_block(coded, [symbols] * 2)], 8, (changes,), shape=shape,
               old=[1000] * half + [OTHER] * half))


def right_references():
    """Groups that look odd and break no rule: bases, deltas, results."""
    no_gaps = ONE * 3
    plain = Tensor(b"", [SPARSE_BLOCK], 0)
    weighed, gaps = given((1,), (5, 0, 9, 0))._replace(gaps=LIKE.gaps), given((30, 1, 9, 0, 0), (1, 1))
    most = given((9,) * most_gap_buckets(32), (1, 1))
    masked = {"head": 1, "mask": ((0, 8),), "shape": MATRIX}
    skips = {"skips": (0, SKIPPED), "shape": ROWS, "changes": (SPREAD,)}
    like = [block_of(CHANGES, LIKE)]
    return [
        pair(), pair(EVERY), pair((LIKE, None, None)), pair((None, LIKE)), pair((LIKE, EVEN, None, LIKE)),
        _case(reference(), refers(), bundle=True),
        # Probabilities at both ends and behind them, and as few gap buckets as there may be and as many.
        *(pair(differences=Differences(rarer)) for rarer in (-255, -68, -1, 1, 3, 68, 255)),
        *(pair(differences=Differences(rarer, gap_buckets), changes=(no_gaps,))
          for rarer in (0, 255, -255) for gap_buckets in (-64, -38, -5, -1, 1, 31, 32, 64)),
        *(pair(EVERY, differences=Differences(rarer, gap_buckets), changes=(no_gaps,))
          for rarer in (-9, 100) for gap_buckets in (-30, 3)),
        # More distance buckets, of a probability, of weights and of one that tells no weight.
        *(pair((classes,), differences=Differences(0, 0, more)) for classes in (EVEN, weighed, LIKE)
          for more in (0, 1, 24, 29, 30, 62)),
        # Gap weights that are given, which e adds to, but for as many as there may be or more than there may be.
        *(pair((gaps,), differences=Differences(rarer, e))
          for rarer, e in ((0, 0), (-9, 1), (9, 64), (0, -1), (0, -64))),
        pair((LIKE, gaps, None), differences=Differences(1, 2)), pair((None, gaps, LIKE)),
        *(_case(reference((most,), told=5), refers((most,), Differences(0, e), strip=strip))
          for e in (0, 1, 64) for strip in (1, 2, 16, 32)),
        _case(reference((gaps,)), refers((gaps,), Differences(0, 64), strip=32)),
        # Masks in one of the two, or both.
        *(_case(reference(), refers(differences=Differences(sign=sign), **masked)) for sign in (1, 127, 128, 129, 255)),
        _case(reference((LIKE._replace(sign=9),), **masked), refers()),
        _case(reference((LIKE._replace(sign=9),), **masked), refers(differences=Differences(sign=200), **masked)),
        # Skipped rows in one of the two, or both, with masks and without.
        _case(reference(**skips), refers()), _case(reference(), refers(batches=like, **skips)),
        _case(reference(**skips), refers(batches=like, **skips)),
        _case(reference(**{**masked, **skips}), refers(batches=like, **{**masked, **skips})),
        # Elements of other widths.
        _case(reference(dtype="I32"), refers()), _case(reference(), refers(dtype="I32", width=4)),
        _case(reference(dtype="I8"), refers()), _case(reference(), refers(dtype="I8", width=1)),
        _case(reference((Told(LIKE.gaps, Row(30, None, 0x41)),), dtype="I32"),
              refers((Told(LIKE.gaps, Row(30, None, 0x41)),))),
        _case(reference((Told(LIKE.gaps, Row(14, None, 0x41)),)),
              refers((Told(LIKE.gaps, Row(14, None, 0x41)),), Differences(0, 0, 62), dtype="I8", width=1)),
        # Groups further back, behind groups that can be referred to and such as do not count.
        _case(reference(), reference((EVEN,)), refers((EVEN,)), refers(told=16), refers((EVEN,)), refers(told=16)),
        _case(plain, reference(), plain, refers(), plain, refers()),
        _case(reference(), reference((PLAIN,)), refers(told=16), reference((EVEN,)), refers(told=24)),
        # Other sizes of strips, and strips without changes before the first, and behind.
        _case(reference(told=5), refers()), _case(reference(), refers(strip=32)),
        _case(reference(), refers(changes=((), CHANGES), shape=(BLOCK_ELEMENTS + ELEMENTS,))),
        _case(reference(), refers(changes=(CHANGES, ()), shape=(BLOCK_ELEMENTS + ELEMENTS,))),
        _case(reference(), refers(changes=(CHANGES, CHANGES), shape=(BLOCK_ELEMENTS + ELEMENTS,))),
        # As many changes as elements, and one.
        pair(changes=(ONE * ELEMENTS,)), pair(changes=(ONE,)), pair((LIKE, LIKE), changes=(ONE * ELEMENTS,)),
        # Numbers of changes as expected, and far from it.
        *(_two_classes(many, counts) for many in (3, 2000)
          for counts in ((3, 0), (0, 3), (2000, 1), (0, 2000), (1000, 1000), (7, 9000)))]


def broken_references():
    """A list of what is wrong, a part of this decoder's message, base and delta."""
    made = _broken_places() + _broken_form() + _broken_numbers()
    return [(what, reason, base, delta) for what, reason, (base, delta, _) in made]


def _broken_places():
    """References to what cannot be one."""
    plain, one = Tensor(b"", [SPARSE_BLOCK], 0), reference()
    wide = Told(LIKE.gaps, Row(31, None, 0x41))
    rows = [
        ("a reference where none is before", "refers", (refers(),)),
        ("a group that refers to itself, or the one behind", "refers", (refers(), one)),
        ("a reference to a group without parameters", "refers", (plain, refers())),
        ("a reference further back than the first", "refers", (one, refers(told=16))),
        ("a reference that counts a group without parameters", "refers", (one, plain, refers(told=16))),
        ("a reference that counts one that refers itself", "refers", (one, refers(), refers(told=16))),
        *((f"a reference {back} groups back", "refers", (one, one, refers(told=back << 3)))
          for back in (3, 4, 31, 1 << 13, 1 << 29, (1 << 32) + 1, 1 << 60, (1 << 61) - 1)),
        ("a reference with more distance buckets than there may be", "31 distance buckets",
         (reference((wide,), dtype="I32"), refers((wide,)))),
        ("many more of them", "31 distance buckets",
         (reference((wide,), dtype="I32"), refers((wide,), dtype="I8", width=1))),
        ("elements of eight bytes", "eight bytes", (one, refers(dtype="I64", width=8))),
        ("a reference of eight bytes", "eight bytes", (reference(dtype="I64"), refers()))]
    made = [(what, reason, _case(*tensors)) for what, reason, tensors in rows]
    parts = refers()
    index = b"\1\1\1" + varint(len(parts.parts))
    made += [(what, reason, _case(one, parts._replace(index=index + rest))) for what, reason, rest in (
        ("an index that ends before the reference", "cut", b""), ("a cut reference", "cut", b"\x88"),
        ("a long reference", "longer than needed", b"\x88\0" + varint(len(parts.batches[0]))),
        ("a reference of 64 bits and more", "too large", b"\xff" * 9 + b"\x02"))]
    made += [(f"strips of 2^{log} blocks", f"strip of 2.{log} blocks", _case(one, refers(told=8 | log)))
             for log in (6, 7)]
    return made


def _broken_form():
    whole, none = refers(EVERY, Differences(3, -1, 2)), ()
    made = [
        ("classes of their own behind a reference", "", _case(reference(), reference(told=8))),
        ("classes of a reference where there is none", "", _case(reference(), refers(told=0))),
        ("a byte behind", "left over", _case(reference(), refers()._replace(parts=refers().parts + b"\0"))),
        ("bits behind", "left over", _case(reference(), refers(behind=((1, 1),)))),
        ("a column mask without a matrix", "without rows", _case(reference(), refers(head=1, mask=((0, 16),)))),
        ("a row mask without a matrix", "without rows", _case(reference(), refers(head=2, mask=((0, 8),)))),
        ("a mask that is not there", "cut", _case(reference(), refers(head=1, shape=MATRIX))),
        ("rows skipped without a matrix", "where there are none", _case(reference(), refers(skips=(0, SKIPPED)))),
        ("rows skipped in a reference without a matrix", "where there are none",
         _case(reference(skips=(0, SKIPPED)), refers())),
        ("a list that skips no rows", "no rows are skipped",
         _case(reference(), refers(skips=(0, (0, 0)), shape=MATRIX))),
        ("no classed strip", "no classed strip", _case(reference(), refers(changes=(none,)))),
        ("no classed strip, and bytes", "no classed strip",
         _case(reference(), refers(changes=(none,), batches=[SPARSE_BLOCK])))]
    made += [(f"{length} bytes of parameters", "", _case(reference(EVERY), whole._replace(parts=whole.parts[:length])))
             for length in range(1, len(whole.parts))]
    # Where the bit goes unseen the number is right.
    for high in (64, 200):
        before, bits = 0, Overlong(0, high)
        while True:
            parts = refers(head=1, mask=((0, 8),), bits=bits, shape=MATRIX)
            if not bits.has_written_it:
                break
            made.append((f"bit {high} of number {before}", "zero bits", _case(reference(), parts)))
            before += 1
            bits = Overlong(before, high)
    return made


def _broken_numbers():
    few = BLOCK_ELEMENTS + ELEMENTS
    made = [(f"{counts} changes at first", reason, pair((LIKE,) * len(counts), counts=(counts,)))
            for counts, reason in (
                ((0,), "0 changes"), ((0, 0), "0 changes"), ((ELEMENTS + 1,), "11 changes in 10"),
                (((1 << 32) + 3,), "changes in 10"), ((6, 5), "11 changes in 10"), ((4, -1), "4 changes of 3"),
                ((-1, 4), "-1 changes of 3"), ((12, -9), "12 changes of 3"), ((2, 2, -1), "2 changes of 1"),
                ((3, -1, 1), "-1 changes of 0"), ((3, 1, -1), "1 changes of 0"),
                (((1 << 20), 3 - (1 << 20)), "changes of 3"))]
    made += [(f"{count} changes in a later strip", f"{count} changes in {ELEMENTS}",
              _case(reference(), refers(changes=(CHANGES, CHANGES), counts=((3,), (count,)), shape=(few,))))
             for count in (-1, 0, 11)]
    made += [(f"signs of probability {sign}", f"signs of probability {sign}$",
              _case(reference(), refers(differences=Differences(sign=sign), head=1, mask=((0, 8),), shape=MATRIX,
                                        batches=[block_of(CHANGES, LIKE)])))
             for sign in (-1, 0, 256, 257, 512, 1 << 20)]
    block = [block_of(CHANGES, LIKE)]
    made += [(f"{differences}", reason, pair(differences=differences, batches=block)) for differences, reason in (
        *((Differences(rarer), f"rarer by {rarer}$") for rarer in (-5000, -257, -256, 256, 257, 512, 1 << 20)),
        *((Differences(0, more), f": {more} gap buckets more") for more in (-300, -66, -65, 65, 66, 256, 1 << 20)),
        *((Differences(0, 0, more), f"{more} distance buckets more") for more in (63, 64, 256, 1 << 20)))]
    # Another number of changes than are coded.
    made += [(f"{count} changes where there are 3", "", pair(counts=((count,),))) for count in (1, 2, 4, 9)]
    made.append(("changes of a class without elements", "end of its class",
                 pair((LIKE, LIKE), counts=((0, 3),))))
    return made
