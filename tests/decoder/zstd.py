# SPDX-License-Identifier: Apache-2.0
"""Zstandard frames (RFC 8878): their extent and content size, and the decompression of many with one command."""

import subprocess

from refusal import Refused, require

_MAGIC = b"\x28\xb5\x2f\xfd"


def content_size(frame, what):
    """Checks that frame is exactly one frame and returns the content size that its header gives."""
    require(len(frame) >= 6 and bytes(frame[:4]) == _MAGIC, f"{what}: no zstd frame")
    descriptor = frame[4]
    single = descriptor >> 5 & 1
    size_code = descriptor >> 6
    require(descriptor & 8 == 0, f"{what}: reserved bit of a zstd frame is set")
    require(single or size_code, f"{what}: zstd frame without content size")
    at = 5 + (not single)
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    require(not any(frame[at:at + dictionary_bytes]), f"{what}: zstd frame asks for a dictionary")
    at += dictionary_bytes
    size_bytes = (1, 2, 4, 8)[size_code]
    size = int.from_bytes(frame[at:at + size_bytes], "little") + (256 if size_code == 1 else 0)
    at += size_bytes
    last = 0
    while not last:
        require(at + 3 <= len(frame), f"{what}: zstd frame is cut")
        block = int.from_bytes(frame[at:at + 3], "little")
        last, kind = block & 1, block >> 1 & 3
        require(kind != 3, f"{what}: reserved zstd block type")
        # A run of one byte (kind 1) is as long in the frame as that byte.
        at += 3 + (1 if kind == 1 else block >> 3)
    at += 4 if descriptor & 4 else 0
    require(at == len(frame), f"{what}: zstd frame is cut, or bytes follow it")
    return size


def decompress(frames, sizes):
    """The contents of frames, whose content sizes are sizes. Frames behind one another decompress to their contents
    behind one another, so one run of the command does for all."""
    if not frames:
        return []
    done = subprocess.run(["zstd", "-dcq"], input=b"".join(frames), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    if done.returncode:
        raise Refused(f"zstd: {done.stderr.decode(errors='replace').strip()}")
    require(len(done.stdout) == sum(sizes), "zstd: contents are not as long as the frames say")
    contents, at = [], 0
    whole = memoryview(done.stdout)
    for size in sizes:
        contents.append(whole[at:at + size])
        at += size
    return contents
