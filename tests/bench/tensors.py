#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tensors of checkpoints, and checkpoints of which less changes.

usage: tensors.py KEEP FOLDER FIRST.safetensors NEXT.safetensors...

Writes copies of the checkpoints to FOLDER under their own names. Each element is as it is in FIRST, but with probability
KEEP, drawn from one seed and the same for all, as it is in the checkpoint: from one copy to the next so much of what
changes between the checkpoints does, with the exponents and signs of real changes.
"""
import json
import os
import shutil
import struct
import sys

import numpy as np

WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def tensors_of(path, mode="r"):
    """Names, dtypes and the bits of the elements, mapped from the file; with mode r+ what is written goes there."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        width = WIDTHS.get(entry["dtype"])
        if width and end > begin:
            yield name, entry["dtype"], np.memmap(path, UNSIGNED[width], mode, 8 + length + begin, ((end - begin) // width,))


def thinned(base, next_, keep, path):
    """A copy of next_ at `path` whose elements are those of base but with probability `keep`, drawn for each element:
    the same draws for whatever is laid out alike. All that base does not have as well is as in next_."""
    shutil.copyfile(next_, path)
    random = np.random.default_rng(1)
    old_tensors = {name: (dtype, bits) for name, dtype, bits in tensors_of(base)}
    for name, dtype, new in tensors_of(path, "r+"):
        old_dtype, old = old_tensors.get(name, (None, ()))
        if old_dtype == dtype and len(old) == len(new):
            undone = random.random(len(new), np.float32) >= keep
            new[undone] = old[undone]
            new.flush()
    return path


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    for checkpoint in sys.argv[3:]:
        thinned(sys.argv[3], checkpoint, float(sys.argv[1]), f"{sys.argv[2]}/{os.path.basename(checkpoint)}")
