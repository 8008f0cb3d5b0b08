#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bits per changed element of consecutive checkpoints, by wdelta and by other formats.

usage: size_bench.py BUILD_FOLDER [OLD.safetensors NEW.safetensors ...]

Without files, a made-up run. Only bf16 tensors that both files have in the same shape are counted; those of wdelta are
whole delta files, every byte counted. The other formats are sized by models of their coders, headers left out:
  TRL v1       4 bytes of position and 2 of value
  TRL v3       2 bytes of gap (4 where one of the tensor's gaps asks for it) and 2 of value
  slime xor    per tensor one zstd -1 frame of old xor new
  class Rice   positions as Rice-coded ranks among the elements of the same exponent (the unchanged ones where these are
               fewer), values as signed steps of the bits in bytes, together in one zstd -1 frame (PULSEPT1 version 3)
The last line of each table is the entropy of positions and steps given the base's exponent, tensor by tensor, with a bit
for each sign: what a coder that knows no more than that can reach at best.
"""
import json
import os
import shutil
import struct
import subprocess
import sys

import numpy as np

from measure import table


def tensors_of(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "BF16" and end > begin:
            yield name, np.memmap(path, np.uint16, "r", 8 + length + begin, ((end - begin) // 2,))


def zstd_bytes(data):
    return len(subprocess.run(["zstd", "-1", "-c", "-q"], input=data, stdout=subprocess.PIPE, check=True).stdout)


def entropy_bits(counts):
    counts = np.asarray(counts, float)
    counts = counts[counts > 0]
    return float((counts * np.log2(counts.sum() / counts)).sum())


def order(bits):
    signed = bits.astype(np.int32)
    return np.where(signed >= 0x8000, (signed ^ 0x7FFF) - 0x10000, signed)


def rice_stream(numbers):
    """A rice-gap stream: the parameter, the length of the unary part, unary part, remainders, escapes."""
    if len(numbers) == 0:
        return b""
    mean = max(float(numbers.mean()), 1e-9)
    guess = max(0, int(np.floor(np.log2(max(mean * np.log(2), 1)))))
    def bits(k):
        quotient = np.minimum(numbers >> k, 32)
        return int((quotient + 1 + k).sum() + 32 * (quotient == 32).sum())
    k = min(range(max(0, guess - 2), guess + 3), key=bits)
    quotient = np.minimum(numbers >> k, 32)
    ends = np.cumsum(quotient + 1) - 1
    unary = np.ones(int(ends[-1]) + 1, np.uint8)
    unary[ends] = 0
    low = ((numbers[:, None] >> np.arange(k - 1, -1, -1)) & 1).astype(np.uint8).ravel()
    escapes = (numbers[quotient == 32] >> k).astype("<u4").tobytes()
    packed = np.packbits(unary).tobytes()
    return struct.pack("<BI", k, len(packed)) + packed + np.packbits(low).tobytes() + escapes


def class_rice(old, new, at):
    exponent = ((old >> 7) & 0xFF).astype(np.uint8)
    changed = np.zeros(len(old), bool)
    changed[at] = True
    parts = []
    classes = 0
    for value in np.unique(exponent[at]):
        of_class = changed[exponent == value]
        complement = 2 * int(of_class.sum()) > len(of_class)
        ranks = np.nonzero(of_class != complement)[0]
        parts.append(rice_stream(np.diff(ranks, prepend=-1) - 1))
        classes += 1
    step = (new[at].astype(np.int32) - old[at].astype(np.int32)).astype(np.int16).astype(np.int32)
    zigzag = ((step << 1) ^ (step >> 15)) & 0xFFFF
    symbols = np.minimum(zigzag, 255).astype(np.uint8).tobytes()
    return b"\0" * (2 + 10 * classes) + b"".join(parts) + symbols + zigzag[zigzag >= 255].astype("<u2").tobytes()


def others(base, next_):
    """Bytes by format, and the number of changes."""
    old_tensors = dict(tensors_of(base))
    sizes = {"TRL v1": 0, "TRL v3": 0, "slime xor": 0, "class Rice": 0, "entropy given the exponent": 0}
    patch = []
    changes = 0
    for name, new in tensors_of(next_):
        old = old_tensors.get(name)
        if old is None or old.shape != new.shape:
            continue
        at = np.nonzero(old != new)[0]
        if len(at) == 0:
            continue
        changes += len(at)
        gaps = np.diff(at, prepend=-1) - 1
        sizes["TRL v1"] += 6 * len(at)
        sizes["TRL v3"] += (4 if gaps.max() <= 0xFFFF else 6) * len(at)
        sizes["slime xor"] += zstd_bytes((old ^ new).tobytes())
        patch.append(class_rice(old, new, at))
        exponent = (old >> 7) & 0xFF
        moved = np.abs(order(new[at]) - order(old[at]))
        elements = np.bincount(exponent, minlength=256)
        of_changes = np.bincount(exponent[at], minlength=256)
        bits = float(len(at))
        for value in np.nonzero(of_changes)[0]:
            bits += entropy_bits([of_changes[value], elements[value] - of_changes[value]])
            bits += entropy_bits(np.unique(moved[exponent[at] == value], return_counts=True)[1])
        sizes["entropy given the exponent"] += bits / 8
    sizes["class Rice"] = zstd_bytes(b"".join(patch))
    return sizes, changes


def main():
    build, *checkpoints = sys.argv[1:]
    folder = f"{build}/bench-size"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if not checkpoints:
        subprocess.run([f"{build}/tests/make-run", f"{folder}/run", "--steps", "3", "--size", "64M", "--single", "--quiet"], check=True)
        checkpoints = [f"{folder}/run/step-{step:04}/model.safetensors" for step in (1, 2, 3)]
    for base, next_ in zip(checkpoints, checkpoints[1:]):
        delta = f"{folder}/delta"
        subprocess.run([f"{build}/wdelta", "diff", base, next_, "-o", delta, "--quiet"], check=True)
        split = subprocess.run([f"{build}/tests/bench-delta-split", base, delta], stdout=subprocess.PIPE, text=True, check=True).stdout
        size, changed, positions, signs, distances = (float(number) for number in split.split())
        sizes, changes = others(base, next_)
        if changes == 0:
            print(f"\n{base} -> {next_}: nothing changed")
            continue
        parts = [positions, signs, distances, 8 * size - positions - signs - distances]
        rows = [["wdelta", f"{int(size)}", f"{8 * size / changed:.2f}", *[f"{bits / changed:.2f}" for bits in parts]]]
        for name, bytes_ in sorted(sizes.items(), key=lambda item: -item[1]):
            rows.append([name, f"{bytes_:.0f}", f"{8 * bytes_ / changes:.2f}", "", "", "", ""])
        short = lambda path: "/".join(path.split("/")[-2:])
        table(f"{short(base)} -> {short(next_)}: {int(changed)} changes", ["format", "bytes", "bits a change", "positions", "signs", "distances", "overhead"], rows)


main()
