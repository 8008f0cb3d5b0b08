#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second decoder of wdelta's deltas, written from wdelta-delta(5) alone, in plain Python.

    wdelta_decode.py BASE DELTA... -o OUT

It shares no code with the first and is slow; the tests hold the two against each other.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from directory import apply_one
from refusal import Refused, require


def decode(base, deltas, out):
    """Applies deltas one after another; out appears whole or not at all."""
    out = Path(out)
    require(not out.is_dir(), f"{out}: is there already")
    # Beside out, so that the last step is a renaming.
    with tempfile.TemporaryDirectory(dir=out.absolute().parent) as aside:
        for number, delta in enumerate(deltas):
            made = Path(aside, str(number))
            apply_one(base, delta, made)
            base = made
        os.replace(base, out)


def main():
    parser = argparse.ArgumentParser(description="Rebuild a file or a directory from its base and deltas.")
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("deltas", metavar="DELTA", nargs="+")
    parser.add_argument("-o", dest="out", metavar="OUT", required=True)
    options = parser.parse_args()
    try:
        decode(options.base, options.deltas, options.out)
    except (Refused, OSError) as error:
        print(f"wdelta_decode: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
