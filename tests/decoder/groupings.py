# SPDX-License-Identifier: Apache-2.0
"""Groups of every sort, for tests."""

from elements import BITS, BLOCK_ELEMENTS, width_of
from make_group import DISTANCES, SOME, Grouping
from random_checkpoint import perturbed

# All but those of eight bytes.
DTYPES = [dtype for dtype in BITS if width_of(dtype) in (1, 2, 4)]
# Most of the time nothing changes in the classes in the middle.
GAPPY = (60, 61, 62, 200)


def _sixteen(rng):
    """The bounds of as many classes as there may be."""
    return tuple(sorted(rng.sample(range(1, 256), 15)))


def groupings(rng):
    """Groups of every sort; masks are of up to 1,024 columns."""
    columns, rows, sixteen = rng.getrandbits(1024), rng.getrandbits(4096), _sixteen(rng)
    return (Grouping(), Grouping(given=False, blocks=1), Grouping(bounds=(1,)), Grouping(bounds=sixteen, given=False),
            Grouping(bounds=(120, 130), columns=columns, sign=1), Grouping(rows=rows, sign=255),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, odd=True),
            Grouping(odd=True, given=False, blocks=3), Grouping(bounds=(120,), batch=64),
            Grouping(bounds=(120,), odd=True, batch=64, strip=8), Grouping(bounds=GAPPY, given=SOME),
            Grouping(bounds=(1, 255), given=False, blocks=1),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, given=SOME),
            Grouping(bounds=GAPPY, rows=rows, sign=1, given=DISTANCES),
            Grouping(bounds=(120,), skips=0), Grouping(columns=columns, sign=60, given=SOME, odd=True, skips=4),
            Grouping(bounds=sixteen, columns=columns, sign=255, given=SOME, odd=True, batch=64, strip=32))


def batched(rng):
    """Groups in batches, for tensors of several blocks and rows of up to 1,024 columns."""
    columns, rows, sixteen = rng.getrandbits(1024), rng.getrandbits(4096), _sixteen(rng)
    return (Grouping(batch=2), Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, blocks=5, batch=2),
            Grouping(bounds=(1,), columns=columns, sign=1, given=False, blocks=4, batch=3),
            Grouping(bounds=sixteen, rows=rows, sign=255, odd=True, blocks=9, batch=3),
            Grouping(bounds=(60,), rows=rows, sign=90, blocks=4, batch=2, skips=3),
            Grouping(given=False, blocks=3, batch=64, skips=0), Grouping(bounds=(120, 130), blocks=64, batch=64),
            Grouping(bounds=GAPPY, columns=columns, sign=30, given=SOME, blocks=4, batch=2))


def striped(rng):
    """The same in strips; from the second group on, most begin with a short one."""
    columns, rows, sixteen = rng.getrandbits(1024), rng.getrandbits(4096), _sixteen(rng)
    return (Grouping(strip=2, blocks=9),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, blocks=5, strip=4, batch=2),
            Grouping(bounds=(1,), columns=columns, sign=1, given=False, blocks=3, strip=8),
            Grouping(bounds=sixteen, rows=rows, sign=255, odd=True, blocks=7, strip=2, batch=3),
            Grouping(given=False, blocks=6, strip=4, batch=64),
            Grouping(bounds=(120, 130), blocks=64, strip=8, batch=64), Grouping(odd=True, blocks=1, strip=16, skips=1),
            Grouping(bounds=(60,), given=False, blocks=5, strip=4, batch=2, skips=0),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=30, given=SOME, blocks=5, strip=2),
            Grouping(bounds=GAPPY, given=SOME, odd=True, blocks=64, strip=32, batch=2))


def referring(rng):
    """Groups that take turns, of which some refer to others; the first one of each tuple does not."""
    columns, rows, sixteen = rng.getrandbits(1024), rng.getrandbits(4096), _sixteen(rng)
    plain, gappy = Grouping(given=False, blocks=1), Grouping(bounds=GAPPY, given=DISTANCES, blocks=1)
    masked = Grouping(bounds=sixteen, given=DISTANCES, columns=columns, rows=rows, sign=30)
    back = Grouping(back=1, blocks=1)
    return (
        (plain, back), (gappy, back._replace(blocks=2)), (masked, back._replace(rarer=3)),
        # Gap weights that are given.
        (Grouping(blocks=1), back, back._replace(odd=True)),
        (Grouping(bounds=sixteen, given=SOME, strip=2), back._replace(blocks=3, rarer=-5), back._replace(strip=4)),
        # Probabilities at both ends.
        (gappy, back._replace(rarer=-255), back._replace(rarer=255, odd=True), back._replace(rarer=-1)),
        # Skipped rows on either side.
        (masked._replace(skips=2), back, back._replace(skips=0), plain, back._replace(skips=15, columns=columns)),
        # Masks in the group that refers, in the other and in both.
        (plain, back._replace(columns=columns, sign=1), masked, back, back._replace(rows=rows, sign=255)),
        (masked, back._replace(columns=columns, rows=rows, sign=200, odd=True, rarer=20)),
        # Others between, that can be referred to, or that refer themselves.
        (plain, gappy, masked, back._replace(back=3), back._replace(back=2, odd=True), Grouping(blocks=1),
         back._replace(back=2), back),
        # Strips and batches on either side.
        (gappy._replace(strip=16, blocks=3), back._replace(strip=2, blocks=5, batch=2), back._replace(strip=32)),
        (gappy._replace(blocks=4), back._replace(strip=4, blocks=9, rarer=-8, columns=columns, sign=50),
         back._replace(blocks=3, batch=64, rarer=8)))


def skipping(rng):
    """Groups that skip rows, for tensors of several blocks and rows of up to 1,024 columns; the lists are of any
    order."""
    columns, rows, sixteen = rng.getrandbits(1024), rng.getrandbits(1 << 13), _sixteen(rng)
    return (Grouping(skips=0), Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, blocks=3, skips=4),
            Grouping(given=False, blocks=1, skips=2), Grouping(bounds=GAPPY, given=SOME, blocks=5, strip=2, skips=1),
            Grouping(bounds=(120,), rows=rows, sign=30, blocks=3, strip=8, batch=64, skips=15),
            Grouping(bounds=(60, 130), columns=columns, sign=99, odd=True, blocks=64, strip=32, batch=2, skips=3),
            [Grouping(given=False, skips=0), Grouping(back=1, skips=3), Grouping(back=1, strip=4, blocks=6),
             Grouping(back=1, strip=2, blocks=3, skips=7)])


def few_changes(rng, content, dtype, counts):
    """content with about so many of the elements of each block changed, its first and last one among them."""
    width, new = width_of(dtype), bytearray(content)
    elements = len(content) // width
    for first, count in zip(range(0, elements, BLOCK_ELEMENTS), counts):
        last = min(first + BLOCK_ELEMENTS, elements) - 1
        for place in [first, last, *(rng.randint(first, last) for _ in range(count - 2))] if count else []:
            at = slice(place * width, (place + 1) * width)
            new[at] = perturbed(rng, content[at], dtype, 1.0)
    return bytes(new)
