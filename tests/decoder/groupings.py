# SPDX-License-Identifier: Apache-2.0
"""Groups of every sort, for tests."""

from elements import BITS, BLOCK_ELEMENTS, width_of
from make_group import SOME, Grouping
from random_checkpoint import perturbed

# All but those of eight bytes.
DTYPES = [dtype for dtype in BITS if width_of(dtype) in (1, 2, 4)]
# Most of the time nothing changes in the classes in the middle.
GAPPY = (60, 61, 62, 200)


def groupings(rng):
    """Groups of every sort; masks are of up to 1,024 columns."""
    columns, rows = rng.getrandbits(1024), rng.getrandbits(4096)
    sixteen = tuple(sorted(rng.sample(range(1, 256), 15)))
    return (Grouping(), Grouping(given=False, blocks=1), Grouping(bounds=(1,)), Grouping(bounds=sixteen, given=False),
            Grouping(bounds=(120, 130), columns=columns, sign=1), Grouping(rows=rows, sign=255),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, odd=True),
            Grouping(odd=True, given=False, blocks=3), Grouping(bounds=(120,), batch=64),
            Grouping(bounds=(120,), odd=True, batch=64, strip=8), Grouping(bounds=GAPPY, given=SOME),
            Grouping(brief=True), Grouping(bounds=(1, 255), given=False, blocks=1, brief=True),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, given=SOME, brief=True),
            Grouping(bounds=GAPPY, rows=rows, sign=1, given=SOME, brief=True),
            Grouping(bounds=sixteen, columns=columns, sign=255, given=SOME, odd=True, batch=64, strip=8, brief=True))


def batched(rng):
    """Groups in batches, for tensors of several blocks and rows of up to 1,024 columns."""
    columns, rows = rng.getrandbits(1024), rng.getrandbits(4096)
    sixteen = tuple(sorted(rng.sample(range(1, 256), 15)))
    return (Grouping(batch=2), Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, blocks=5, batch=2),
            Grouping(bounds=(1,), columns=columns, sign=1, given=False, blocks=4, batch=3),
            Grouping(bounds=sixteen, rows=rows, sign=255, odd=True, blocks=9, batch=3),
            Grouping(given=False, blocks=3, batch=64), Grouping(bounds=(120, 130), blocks=64, batch=64),
            Grouping(bounds=GAPPY, columns=columns, sign=30, given=SOME, blocks=4, batch=2, brief=True),
            Grouping(bounds=sixteen, blocks=64, batch=64, brief=True))


def striped(rng):
    """The same in strips; from the second group on, most begin with a short one."""
    columns, rows = rng.getrandbits(1024), rng.getrandbits(4096)
    sixteen = tuple(sorted(rng.sample(range(1, 256), 15)))
    return (Grouping(strip=2, blocks=9),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, blocks=5, strip=4, batch=2),
            Grouping(bounds=(1,), columns=columns, sign=1, given=False, blocks=3, strip=8),
            Grouping(bounds=sixteen, rows=rows, sign=255, odd=True, blocks=7, strip=2, batch=3),
            Grouping(given=False, blocks=6, strip=4, batch=64),
            Grouping(bounds=(120, 130), blocks=64, strip=8, batch=64), Grouping(odd=True, blocks=1, strip=8),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=30, given=SOME, blocks=5, strip=2, brief=True),
            Grouping(bounds=GAPPY, given=SOME, odd=True, blocks=64, strip=4, batch=2, brief=True))


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
