#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bits per changed element of consecutive checkpoints, by wdelta and by other formats.

usage: size_bench.py [--keep P] BUILD_FOLDER [OLD.safetensors NEW.safetensors ...]

Without files, a made-up run, and pairs of other dtypes made of it. Tensors are compared that both files have in the same
dtype and shape. What wdelta takes is whole delta files, every byte counted. Others are sized by models of their coders,
headers left out; those of bf16:
  TRL v1       4 bytes of position and 2 of value
  TRL v3       2 bytes of gap (4 where one of the tensor's gaps asks for it) and 2 of value
  slime xor    per tensor one zstd -1 frame of old xor new
  class Rice   positions as Rice-coded ranks among the elements of the same exponent (the unchanged ones where these are
               fewer), values as signed steps of the bits in bytes, together in one zstd -1 frame (PULSEPT1 version 3)
Where there are other dtypes:
  planes       per tensor the byte planes of the new elements, or of the steps where they take less, at order 0: the
               entropy of their bytes
The last two lines of each of these tables are what a coder can reach at best that knows no more than what wdelta takes
for context (the base's exponent, of integers the highest byte) and has a bit for each sign. The entropy of positions and
steps, tensor by tensor, is that of one who is told for nothing how often everything comes; "learned" is one who finds it
out as it codes, in each tensor anew (the estimator of Krichevsky and Trofimov, told which distances there are, not how
often): the fewer changes a tensor has, the further it is above. Of a distance that has more than eight bits all but the
eight highest count as they are, as so many different ones say nothing of each other. Behind the table come the tensors
that took most beyond the entropy.

With --keep each change of a pair is kept with probability P and undone otherwise, drawn from one seed: what a run with a
smaller learning rate might look like, with the exponents and signs of real changes.

In front of them, each checkpoint as an anchor: how many times smaller it is as a delta without a base, whole files; its
bf16 tensors behind zstd -1; and these with their exponents at their entropy, tensor by tensor.
"""
import argparse
import json
import math
import os
import shutil
import struct
import subprocess

import numpy as np

from measure import probability, table
from tensors import tensors_of, thinned

ENTROPY = "entropy given the context"
LEARNED = "learned given the context"


def zstd_bytes(data):
    return len(subprocess.run(["zstd", "-1", "-c", "-q"], input=data, stdout=subprocess.PIPE, check=True).stdout)


def entropy_bits(counts):
    counts = np.asarray(counts, float)
    counts = counts[counts > 0]
    return float((counts * np.log2(counts.sum() / counts)).sum())


def steps(dtype, old, new):
    """Signed, between neighbouring numbers."""
    bits = 8 * old.itemsize
    def order(side):
        side = side.astype(np.int64)
        if dtype[0] not in "BF":
            return side
        return np.where(side >> (bits - 1) != 0, (side ^ ((1 << (bits - 1)) - 1)) - (1 << bits), side)
    return (order(new) - order(old) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def contexts(dtype, old):
    shift = 8 * old.itemsize - 8
    if dtype[0] not in "BF":
        return (old >> shift).astype(np.int64)
    return ((old.astype(np.int64) << 1) >> shift) & 255


def learned_bits(counts):
    """What the same sequence takes where each comes with the probability (its count so far + 1/2) / (all so far + ...)."""
    counts = [int(count) for count in counts if count > 0]
    gain = sum(math.lgamma(count + 0.5) - math.lgamma(0.5) for count in counts)
    return (math.lgamma(sum(counts) + len(counts) / 2) - math.lgamma(len(counts) / 2) - gain) / math.log(2)


def context_bits(dtype, old, new, at, bits_of):
    """What changes take, where `bits_of` says what a sequence takes by how often each of its symbols comes."""
    context = contexts(dtype, old)
    distance = np.abs(steps(dtype, old[at], new[at]))
    raw = np.maximum(np.frexp(distance.astype(float))[1] - 8, 0)
    leading = (distance >> raw) + 256 * raw
    elements = np.bincount(context, minlength=256)
    of_changes = np.bincount(context[at], minlength=256)
    bits = float(len(at) + raw.sum())
    for value in np.nonzero(of_changes)[0]:
        bits += bits_of([of_changes[value], elements[value] - of_changes[value]])
        bits += bits_of(np.bincount(leading[context[at] == value]))
    return bits


def plane_bits(elements):
    planes = elements.view(np.uint8).reshape(len(elements), elements.itemsize)
    return sum(entropy_bits(np.bincount(planes[:, i], minlength=256)) for i in range(elements.itemsize))


def planes(dtype, old, new):
    signed = steps(dtype, old, new)
    zigzag = ((signed << 1) ^ (signed >> 63)).astype(np.uint64) & ((1 << 8 * old.itemsize) - 1)
    return min(plane_bits(np.ascontiguousarray(new)), plane_bits(zigzag.astype(old.dtype)))


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
    """Bytes by format; for each tensor that changed how many elements did, and its entropy in bits."""
    old_tensors = {name: (dtype, bits) for name, dtype, bits in tensors_of(base)}
    sizes, patch, of_tensors = {}, [], {}
    pairs = []
    for name, dtype, new in tensors_of(next_):
        before, old = old_tensors.get(name, (None, None))
        if before == dtype and old.shape == new.shape:
            at = np.nonzero(old != new)[0]
            if len(at):
                pairs.append((name, dtype, old, new, at))

    def add(name, size_bytes):
        sizes[name] = sizes.get(name, 0) + size_bytes

    for name, dtype, old, new, at in pairs:
        of_tensors[name] = (len(at), context_bits(dtype, old, new, at, entropy_bits))
        add(ENTROPY, of_tensors[name][1] / 8)
        add(LEARNED, context_bits(dtype, old, new, at, learned_bits) / 8)
        if any(pair[1] != "BF16" for pair in pairs):
            add("planes", planes(dtype, old, new) / 8)
            continue
        gaps = np.diff(at, prepend=-1) - 1
        add("TRL v1", 6 * len(at))
        add("TRL v3", (4 if gaps.max() <= 0xFFFF else 6) * len(at))
        add("slime xor", zstd_bytes((old ^ new).tobytes()))
        patch.append(class_rice(old, new, at))
    if patch:
        sizes["class Rice"] = zstd_bytes(b"".join(patch))
    return sizes, of_tensors


def made_up(build, folder):
    """Pairs of a run's checkpoints, and of other dtypes made of one of its tensors and the same steps."""
    subprocess.run([f"{build}/tests/make-run", f"{folder}/run", "--steps", "3", "--size", "64M", "--single", "--quiet"], check=True)
    run = [f"{folder}/run/step-{step:04}/model.safetensors" for step in (1, 2, 3)]
    weights = max((bits for _, dtype, bits in tensors_of(run[0]) if dtype == "BF16"), key=len)[:1 << 20]
    rng = np.random.default_rng(1)
    # What a trainer holds beside bf16: anything that rounds to them. One step moves each by about the same: masters by
    # what a fine-tuning does, the others so far that something is seen of it.
    low = rng.integers(0, 1 << 16, len(weights), np.uint32)
    master = ((weights.astype(np.uint32) << 16) + low - (1 << 15)).view(np.float32)
    master = np.where(np.isfinite(master), master, 0).astype(np.float32)
    update = np.clip(rng.standard_normal(len(master)), -2, 2).astype(np.float32)

    def moved(rate):
        return master, master - np.float32(rate) * update

    sides = {"F32": moved(1e-6), "F16": tuple(side.astype(np.float16) for side in moved(1e-5)),
             "F8_E4M3": tuple(f8(64 * side) for side in moved(1e-4)),
             "I8": tuple(np.clip(np.rint(2048 * side), -127, 127).astype(np.int8) for side in moved(1e-4))}
    pairs = list(zip(run, run[1:]))
    for dtype, pair in sides.items():
        paths = [f"{folder}/{dtype}-{side}.safetensors" for side in ("old", "new")]
        for path, elements in zip(paths, pair):
            header = json.dumps({"w": {"dtype": dtype, "shape": [len(elements) // 512, 512],
                                       "data_offsets": [0, elements.nbytes]}}).encode()
            with open(path, "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header + elements.tobytes())
        pairs.append(tuple(paths))
    return pairs


def f8(values):
    """The nearest of the numbers of F8_E4M3."""
    code = np.arange(127)
    numbers = np.where(code < 8, code / 8 * 2.0 ** -6, (1 + code % 8 / 8) * 2.0 ** (code // 8 - 7))
    nearest = np.searchsorted((numbers[1:] + numbers[:-1]) / 2, np.abs(values)).astype(np.uint8)
    return nearest | (np.signbit(values).astype(np.uint8) << 7)


def anchor_row(build, folder, checkpoint):
    nothing, delta = f"{folder}/nothing.safetensors", f"{folder}/anchor"
    with open(nothing, "wb") as file:
        file.write(struct.pack("<Q", 8) + b"{}      ")
    subprocess.run([f"{build}/wdelta", "diff", nothing, checkpoint, "-o", delta, "--quiet"], check=True)
    plain = behind_zstd = at_entropy = 0
    for _, dtype, tensor in tensors_of(checkpoint):
        if dtype == "BF16":
            plain += 2 * len(tensor)
            behind_zstd += zstd_bytes(tensor.tobytes())
            at_entropy += len(tensor) + entropy_bits(np.bincount((tensor >> 7) & 0xFF)) / 8
    size = os.path.getsize(checkpoint)
    others_ = [f"{plain / behind_zstd:.4f}", f"{plain / at_entropy:.4f}"] if plain else ["", ""]
    return [short(checkpoint), f"{size}", f"{size / os.path.getsize(delta):.4f}", *others_]


def short(path):
    return "/".join(path.split("/")[-2:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=probability, metavar="P")
    parser.add_argument("build")
    parser.add_argument("checkpoints", nargs="*")
    arguments = parser.parse_args()
    build, checkpoints = arguments.build, arguments.checkpoints
    folder = f"{build}/bench-size"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    pairs = list(zip(checkpoints, checkpoints[1:])) if checkpoints else made_up(build, folder)
    if arguments.keep is not None:
        pairs = [(base, thinned(base, next_, arguments.keep, f"{folder}/kept-{index}.safetensors"))
                 for index, (base, next_) in enumerate(pairs)]
    table("checkpoints as anchors: times smaller", ["checkpoint", "bytes", "wdelta", "zstd -1", "entropy of exponents"],
          [anchor_row(build, folder, path) for path in dict.fromkeys(path for pair in pairs for path in pair)])
    for base, next_ in pairs:
        delta = f"{folder}/delta"
        subprocess.run([f"{build}/wdelta", "diff", base, next_, "-o", delta, "--quiet"], check=True)
        split = subprocess.run([f"{build}/tests/bench-delta-split", base, delta], stdout=subprocess.PIPE, text=True, check=True).stdout
        first, *entries = split.splitlines()
        size, changed, positions, signs, distances = (float(number) for number in first.split())
        sizes, of_tensors = others(base, next_)
        changes = sum(count for count, _ in of_tensors.values())
        if changes == 0:
            print(f"\n{base} -> {next_}: nothing changed")
            continue
        parts = [positions, signs, distances, 8 * size - positions - signs - distances]
        rows = [["wdelta", f"{int(size)}", f"{8 * size / changed:.2f}", *[f"{bits / changed:.2f}" for bits in parts]]]
        for name, bytes_ in sorted(sizes.items(), key=lambda item: -item[1]):
            rows.append([name, f"{bytes_:.0f}", f"{8 * bytes_ / changes:.2f}", "", "", "", ""])
        table(f"{short(base)} -> {short(next_)}: {int(changed)} changes", ["format", "bytes", "bits a change", "positions", "signs", "distances", "overhead"], rows)
        beyond = []
        for line in entries:
            bytes_, name = line.split(" ", 1)
            if name in of_tensors:
                beyond.append((8 * int(bytes_) - of_tensors[name][1], 8 * int(bytes_), *of_tensors[name], name))
        beyond.sort(reverse=True)
        table("beyond the entropy", ["tensor", "changes", "bits a change", "entropy", "ratio"],
              [[name, f"{count}", f"{bits / count:.2f}", f"{entropy / count:.2f}", f"{bits / entropy:.3f}"]
               for _, bits, count, entropy, name in beyond[:5]])


main()
