# SPDX-License-Identifier: Apache-2.0
"""A tiny encoder of deltas by wdelta-delta(5), for tests only: it makes what it is told to make, small or not."""

import json
from itertools import cycle, groupby
from operator import ne
from os.path import commonprefix

from afresh import AFRESH
from blake3 import blake3
from elements import BLOCK_ELEMENTS, FLOATING, elements_of, order, width_of
from group import Referable, Shape, row_length
from make_afresh import make_afresh
from make_group import CLASSED, Grouping, make_group
from opaque import opaque_header, resized
from refusal import Refused

SPARSE, DENSE, WHOLE = 1, 2, 3
_ZEROS = "0" * 64


def varint(number):
    coded = bytearray()
    while number > 127:
        coded.append(number & 127 | 128)
        number >>= 7
    return bytes(coded + bytes([number]))


def raw_frame(content):
    """A zstd frame that holds content uncompressed, or as a run where it is one byte over and over."""
    frame = bytearray(b"\x28\xb5\x2f\xfd" + bytes([0xA0]) + len(content).to_bytes(4, "little"))
    for begin in range(0, max(1, len(content)), 1 << 17):
        piece = content[begin:begin + (1 << 17)]
        run = len(piece) > 1 and len(set(piece)) == 1
        last = begin + (1 << 17) >= len(content)
        frame += (last | run << 1 | len(piece) << 3).to_bytes(3, "little")
        frame += piece[:1] if run else piece
    return bytes(frame)


def steps_between(base, result, width, floating):
    """The step of each element; base and result are lists of elements as bits."""
    bits = 8 * width
    steps = []
    for old, new in zip(base, result):
        signed = (order(new, bits) - order(old, bits) if floating else new - old) % (1 << bits)
        # Read as two's complement: below half of the range it is upwards, from there on downwards.
        steps.append(2 * signed if signed >> (bits - 1) == 0 else 2 * ((1 << bits) - signed) - 1)
    return steps


def encode_block(mode, base, result, width, floating, framed=False):
    """One coded block from bytes; empty where nothing changed, if mode is sparse."""
    elements = [elements_of(side, width) for side in (base, result)]
    if mode == AFRESH:
        steps = steps_between([0] * len(elements[1]), elements[1], width, floating)
        return make_afresh(steps, width, raw_frame if framed else None)
    steps = steps_between(*elements, width, floating)
    front = b""
    if mode == WHOLE:
        streams = result
    elif mode == DENSE:
        streams = b"".join(bytes(step >> 8 * plane & 255 for step in steps) for plane in range(width))
    else:
        places = [place for place, step in enumerate(steps) if step]
        if not places:
            return b""
        gaps = [place - before - 1 for before, place in zip([-1] + places, places)]
        changes = [steps[place] for place in places]
        front = varint(len(places))
        streams = bytes(min(gap, 255) for gap in gaps) + bytes(min(step - 1, 255) for step in changes)
        streams += b"".join((gap - 255).to_bytes(2, "little") for gap in gaps if gap >= 255)
        streams += b"".join((step - 256).to_bytes(width, "little") for step in changes if step >= 256)
    return bytes([mode | (0 if framed else 16)]) + front + (raw_frame(streams) if framed else streams)


def _parsed(content):
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    tensors = [(name, value["dtype"], value["shape"], *(start + at for at in value["data_offsets"]))
               for name, value in header.items()]
    return content[:start], sorted(tensors, key=lambda tensor: tensor[3:])


def _named(path, content):
    return {"path": path, "size": len(content), "digest": blake3(content)}


def container(entries, metadata):
    """A sealed delta from its entries, a list of names and bytes, and its metadata without the two digests."""
    payload = b"".join(entry for _, entry in entries)
    header = {"__metadata__": {**metadata, "payload": blake3(payload), "digest": _ZEROS}}
    at = 0
    for name, entry in entries:
        header[name] = {"dtype": "U8", "shape": [len(entry)], "data_offsets": [at, at + len(entry)]}
        at += len(entry)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return seal(len(text).to_bytes(8, "little") + text) + payload


def seal(beginning, digest=_ZEROS):
    """The beginning of a delta or a listing, whose digest is still that of zeros, with its digest."""
    zeroed = beginning.replace(digest.encode(), _ZEROS.encode())
    return zeroed.replace(b'"digest":"' + _ZEROS.encode(), b'"digest":"' + blake3(zeroed).encode())


def make_delta(base_files, result, mode=SPARSE, framed=False, sources=None, path="model.safetensors",
               with_header=False, mode_of=None, extra=None, opaque=None, grouping=None, bundle=1):
    """A delta that makes result from base_files, a list of paths and contents.

    sources: from names to None or [number, name], as in the format; what has no default source starts afresh anyway.
    mode_of: a mode for each tensor and block, called with the name and the number of the block.
    grouping: a Grouping, or several that take turns; blocks lie in such groups, which have parameters where the mode of
    a block is classed, and are in batches and strips where no block has another mode.
    bundle: how many tensors share an entry, where these are more than one.
    with_header: store the header even where it is the base's. extra: more metadata.
    opaque: the dtype that base and result, which are no safetensors files, are taken for.
    """
    described = [_named(*base) for base in base_files]
    if opaque:
        base_files = [(name, resized(content, len(result))) for name, content in base_files]
    parse = (lambda content: (b"", opaque_header(len(content), opaque).tensors)) if opaque else _parsed
    beginning, tensors = parse(result)
    parsed = [parse(content) for _, content in base_files]
    found = [{tensor[0]: tensor for tensor in names} for _, names in parsed]
    sources = dict(sources or {})
    coded_tensors, elements, changed = [], 0, 0
    groups = _Groups([grouping] if isinstance(grouping, Grouping) else grouping) if grouping else None
    for name, dtype, shape, begin, end in tensors:
        width, floating = width_of(dtype), dtype in FLOATING
        if name not in sources:
            default = found[0].get(name) if found else None
            if default is None or default[1:3] != (dtype, shape):
                sources[name] = None
        number, source_name = sources.get(name, (0, name)) or (None, None)
        if number is None:
            base = bytes(end - begin)
        else:
            base = base_files[number][1][slice(*found[number][source_name][3:])]
        new, coded = result[begin:end], []
        elements += (end - begin) // width
        changed += sum(map(ne, elements_of(base, width), elements_of(new, width)))
        if base == new and number is not None:
            continue
        step, blocks = BLOCK_ELEMENTS * width, []
        for block, at in enumerate(range(0, len(new), step)):
            old_part, new_part = base[at:at + step], new[at:at + step]
            chosen = mode_of(name, block) if mode_of else mode
            if chosen == CLASSED and (width == 8 or not grouping):
                chosen = SPARSE
            coded = None
            if old_part == new_part:
                coded = b""
            elif chosen != CLASSED:
                coded = encode_block(chosen, old_part, new_part, width, floating, framed)
            blocks.append((old_part, new_part, coded))
        made = groups.tensor(blocks, row_length(shape), width, floating) if grouping else _one_group(blocks)
        coded_tensors.append((name, *made))
    taken = {tensor[0] for tensor in tensors}
    entries, index = _entries(coded_tensors, bundle, taken)
    metadata = {"format": "wdelta-delta", "version": "4",
                "base": json.dumps(described),
                "result": json.dumps(_named(path, result)), "elements": str(elements), "changed": str(changed)}
    if opaque:
        metadata["opaque"] = opaque
    elif sources:
        metadata["sources"] = json.dumps(sources)
    taken |= {name for name, _ in entries}
    metadata["index"] = _free_name("index", taken)
    entries.append((metadata["index"], raw_frame(index)))
    if with_header or not opaque and (not parsed or parsed[0][0] != beginning):
        metadata["header"] = _free_name("header", taken)
        entries.append((metadata["header"], raw_frame(beginning)))
    return container(entries, {**metadata, **(extra or {})})


def _one_group(blocks):
    """The part of the index and the entry of a tensor whose blocks are one group without parameters."""
    coded = [block for _, _, block in blocks]
    group = varint(len(coded)) + b"\0" if coded else b""
    return varint(len(coded)) + group + b"".join(varint(len(block)) for block in coded), b"".join(coded)


def told_bundle(tensors):
    """The part of the index of a bundle; tensors: of each its name, in bytes, and what is told of it besides."""
    told, before = b"\2" + varint(len(tensors)), b""
    for name, part in tensors:
        shared = len(commonprefix([before, name]))
        told += varint(shared) + varint(len(name) - shared) + name[shared:] + part
        before = name
    return told


def _entries(tensors, bundle, taken):
    """The entries of tensors, of which so many share one, and the index."""
    if bundle == 1:
        return [(name, entry) for name, _, entry in tensors], b"".join(b"\1" + part for _, part, _ in tensors)
    entries, index = [], b""
    for first in range(0, len(tensors), bundle):
        names, parts, coded = zip(*tensors[first:first + bundle])
        entries.append((_free_name(f"bundle {first}", taken), b"".join(coded)))
        index += told_bundle([(name.encode(), part) for name, part in zip(names, parts)])
    return entries, index


class _Groups:
    """Makes the groups of one tensor after another; each may refer to those before it."""

    def __init__(self, groupings):
        self._turns, self._referable = cycle(groupings), []

    def tensor(self, blocks, row, width, floating):
        """The part of the index and the entry of a tensor."""
        index, entry, first = varint(len(blocks)), b"", 0
        while first < len(blocks):
            grouping = next(self._turns)
            part, coded = self._group(blocks[first:first + grouping.blocks], first, row, width, floating, grouping)
            index, entry, first = index + part, entry + coded, first + grouping.blocks
        return index, entry

    def _group(self, blocks, first, row, width, floating, grouping):
        coded = [block for _, _, block in blocks]
        if None not in coded:
            return varint(len(blocks)) + b"\0" + b"".join(varint(len(block)) for block in coded), b"".join(coded)
        if any(coded):
            grouping = grouping._replace(batch=1, strip=1)
        strips, reference = _strips(blocks, first, grouping.strip), self._reference(grouping.back, width)
        parameters, coded = make_group(strips, first * BLOCK_ELEMENTS, row, width, floating, grouping, reference)
        told = grouping.strip.bit_length() - 1
        if reference:
            told |= grouping.back << 3
        else:
            shape = Shape(width, row, first, [len(old) // width for old, _, _ in strips], grouping.strip)
            self._referable.append(Referable(parameters, shape, "reference"))
        index = varint(len(blocks)) + varint(len(parameters)) + varint(told)
        index += varint(grouping.batch) if len(strips) > 1 else b""
        return index + b"".join(varint(len(batch)) for batch in coded), parameters + b"".join(coded)

    def _reference(self, back, width):
        """The Parameters of the group so far back, where it is one that a group of that width may refer to."""
        if not 0 < back <= len(self._referable):
            return None
        try:
            return self._referable[-back].parameters(width)
        except Refused:
            return None


def _strips(blocks, first, strip):
    """Blocks, from that number on, joined to strips, which are like them."""
    strips = []
    for _, numbered in groupby(enumerate(blocks, first), lambda pair: pair[0] // strip):
        olds, news, coded = zip(*(block for _, block in numbered))
        strips.append((b"".join(olds), b"".join(news), None if None in coded else b"".join(coded)))
    return strips


def _free_name(name, taken):
    while name in taken:
        name += "_"
    return name


def make_listing(files, removed):
    """The text of wdelta.json from descriptions of files without their digests' seal."""
    listing = {"format": "wdelta-delta-directory", "version": 1, "files": files, "removed": removed, "digest": _ZEROS}
    return seal(json.dumps(listing, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


def reseal(content, original):
    """content, a delta altered from original, with digests that hold again, so that only what they guard is judged.

    Returns it as it is where the alteration hit the digests' own text or the length of the header.
    """
    start = 8 + int.from_bytes(original[:8], "little")
    metadata = json.loads(original[8:start])["__metadata__"]
    old, old_payload = metadata["digest"].encode(), metadata["payload"].encode()
    beginning, payload = content[:start], content[start:]
    if beginning.count(old) != 1 or beginning.count(old_payload) != 1 or content[:8] != original[:8]:
        return content
    return seal(beginning.replace(old_payload, blake3(payload).encode()), metadata["digest"]) + payload
