# SPDX-License-Identifier: Apache-2.0
"""Groups of every sort, for tests."""

from elements import BITS, width_of
from make_group import Grouping

# All but those of eight bytes.
DTYPES = [dtype for dtype in BITS if width_of(dtype) in (1, 2, 4)]


def groupings(rng):
    """Groups of every sort; masks are of up to 1,024 columns."""
    columns, rows = rng.getrandbits(1024), rng.getrandbits(4096)
    sixteen = tuple(sorted(rng.sample(range(1, 256), 15)))
    return (Grouping(), Grouping(given=False, blocks=1), Grouping(bounds=(1,)), Grouping(bounds=sixteen, given=False),
            Grouping(bounds=(120, 130), columns=columns, sign=1), Grouping(rows=rows, sign=255),
            Grouping(bounds=sixteen, columns=columns, rows=rows, sign=200, odd=True),
            Grouping(odd=True, given=False, blocks=3))
