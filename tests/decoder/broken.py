# SPDX-License-Identifier: Apache-2.0
"""Deltas whose digests hold and that break one rule of the page each: every decoder refuses them."""

import json

from elements import BITS, width_of
from make_delta import DENSE, container, encode_block, make_delta, raw_frame, reseal, seal, told_bundle, varint
from random_checkpoint import write_safetensors
from zstd import content_size, decompress

NAME = "m.safetensors"
ONE_GROUP = b"\1\1\1\0"  # what the index has of a tensor of one block, in front of its length


def one(dtype, content, name="w"):
    """A file of one tensor."""
    return write_safetensors([(name, dtype, [len(content) * 8 // BITS[dtype]], content)])


def taken_apart(delta):
    """Entries and metadata of a delta, as container takes them."""
    start = 8 + int.from_bytes(delta[:8], "little")
    header = json.loads(delta[8:start])
    metadata = header.pop("__metadata__")
    entries = [(name, delta[start + value["data_offsets"][0]:start + value["data_offsets"][1]])
               for name, value in header.items()]
    return entries, {key: value for key, value in metadata.items() if key not in ("payload", "digest")}


def _indexed(entries, index, metadata, frame=None):
    """A delta of these entries and an index, which is there as frame if that is given."""
    return container([*entries, ("i", raw_frame(index) if frame is None else frame)], {**metadata, "index": "i"})


def _still(coded, elements=10, dtype="BF16", index=None, frame=None):
    """A base and a delta that claims to change nothing in it, with coded as the only block of its only tensor, so that
    the result's digest refuses nothing that the rules let through."""
    base = one(dtype, bytes(elements * width_of(dtype)))
    _, metadata = taken_apart(make_delta([(NAME, base)], base))
    index = ONE_GROUP + varint(len(coded)) if index is None else index
    return base, _indexed([("w", coded)], index, metadata, frame)


AB = ((b"a", b"\1\1\0\3"), (b"b", b"\1\1\0\3"))  # two tensors of a block of three bytes each


def _bundled(tensors=AB, blocks=b"\x13\1\2\x13\3\4", told=None, own=None):
    """A base with tensors a, b and c of two bytes, its delta with a bundle, and a result in which a and b changed.
    told: what is told of the bundle; own: an entry of a tensor of its own, behind the bundle, and its part of the
    index."""
    sides = [write_safetensors([(name, "U8", [2], content) for name, content in zip("abc", contents)])
             for contents in ((b"\5\5", b"\6\6", b"\7\7"), (b"\1\2", b"\3\4", b"\7\7"))]
    _, metadata = taken_apart(make_delta([(NAME, sides[0])], sides[1]))
    index = told_bundle(tensors) if told is None else told
    entries = [("two", blocks)]
    if own:
        entries.append((own[0], own[1]))
        index += own[2]
    return sides[0], _indexed(entries, index, metadata), sides[1]


def broken_bundles():
    """Like broken_blocks, where tensors share an entry."""
    (_, part), _ = AB

    def named(*names):
        return {"tensors": [(name, part) for name in names]}

    rows = (
        ("a bundle of no tensors", "no tensors", {"tensors": (), "blocks": b""}),
        ("no tensors, and blocks", "no tensors", {"tensors": ()}),
        ("encodings in a bundle", "", {"tensors": [(name, b"\1" + part) for name in (b"a", b"b")]}),
        ("a bundle in a bundle", "2 blocks", {"tensors": [(b"a", told_bundle(AB))]}),
        ("a tensor without groups in a bundle", "", {"tensors": [(b"a", part), (b"b", b"\1")]}),
        ("a group of 0 in a bundle", "group of 0", {"tensors": [(b"a", b"\1\0\0\3"), (b"b", part)]}),
        ("a tensor twice", "two places", {"tensors": [*AB, (b"a", b"\1\1\0\0")]}),
        ("a tensor that has an entry, too", "two places", {"own": ("a", b"", ONE_GROUP + b"\0")}),
        ("no such tensor", "no such tensor", named(b"a", b"d")),
        ("a name that is no text", "UTF-8", named(b"a", b"\xff")),
        ("half a letter", "UTF-8", named("ä".encode()[:1], "ä".encode())),
        ("a byte behind the blocks", "shorter", {"blocks": b"\x13\1\2\x13\3\4\0"}),
        ("a block that is cut", "longer", {"blocks": b"\x13\1\2\x13\3"}),
        ("a tensor less than there are", "shorter", {"told": b"\2\1\0\1a" + part + b"\0\1b" + part}),
        ("a tensor more than there are", "varint", {"told": b"\2\3\0\1a" + part + b"\0\1b" + part}),
        ("many more tensors than there are", "varint",
         {"told": b"\2" + varint((1 << 64) - 1) + b"\0\1a" + part + b"\0\1b" + part}),
        ("a first name that goes on", "begins with more", {"told": b"\2\2\1\0" + part + b"\0\1b" + part}),
        ("a name that begins with more than there is", "begins with more",
         {"told": b"\2\2\0\1a" + part + b"\2\1b" + part}),
        ("a name that is cut", "a name is cut", {"told": b"\2\2\0\1a" + part + b"\0\x7fb" + part}),
        ("a length of a name that is cut", "varint", {"told": b"\2\2\0\1a" + part + b"\0\x80"}),
        ("a name without how much more it has", "varint", {"told": b"\2\2\0\1a" + part + b"\0"}),
        ("no names", "varint", {"told": b"\2\2"}), ("no number of tensors", "varint", {"told": b"\2"}),
        ("tensors that the index ends before", "varint", {"told": b"\2\2\0\1a" + part}),
        ("a cut number of blocks", "cut", {"tensors": [(b"a", part), (b"b", b"\x81")]}))
    return [(what, reason, *_bundled(**choices)[:2]) for what, reason, choices in rows]


def harmless():
    """Bases, deltas and results that look odd and break no rule; a base is None where none is read."""
    made = []
    for coded in (encode_block(DENSE, bytes(20), bytes(20), 2, True), b"\x13" + bytes(20),
                  b"\2" + raw_frame(bytes(20))):
        base, delta = _still(coded)
        made.append((base, delta, base))
    plane, frame = b"\0" + bytes(10), raw_frame(bytes(10))
    for coded in (b"\5\0" + plane * 2, b"\5\5" + plane + b"\0" + bytes(4), b"\5\0" + plane + varint(len(frame)) + frame,
                  b"\x13" + bytes(20)):
        base, delta = _still(coded)
        made.append((base, delta, base))
    base, result = one("I16", bytes(20)), one("I16", bytes(range(20)))
    made.append((base, make_delta([(NAME, base)], result, extra={"note": "unknown keys are ignored"}), result))
    made.append((base, make_delta([(NAME, base)], result, sources={"w": [0, "w"]}), result))
    made.append((base, make_delta([(NAME, base)], base, with_header=True), base))
    made.append((base, make_delta([(NAME, base)], result, opaque="I16"), result))  # a safetensors file, taken as bytes
    # Bundles: under any name, of any order, of a single tensor, beside an entry, and with a block that does not change.
    (_, part), _ = AB
    made.append(_bundled())
    made.append(_bundled(((b"b", part), (b"a", part)), b"\x13\3\4\x13\1\2"))
    made.append(_bundled(((b"c", b"\1\1\0\0"), (b"b", part), (b"a", part)), b"\x13\3\4\x13\1\2"))
    made.append(_bundled(((b"b", part),), b"\x13\3\4", own=("a", b"\x13\1\2", ONE_GROUP + b"\3")))
    for content, dtype in ((b"", "F64"), (bytes(9), "I8"), (bytes(range(7)), "F64"), (bytes(range(9)), "F6_E3M2")):
        made.append((None, make_delta([], content, opaque=dtype), content))
    return made


def broken_afresh():
    """Like broken_blocks."""
    plane = b"\0" + bytes(10)
    framed = varint(len(raw_frame(bytes(10)))) + raw_frame(bytes(10))
    rows = (
        ("bit 4 of the mode", "unknown bits", b"\x15\0" + plane * 2),
        ("bit 7 of the mode", "unknown bits", b"\x85\0" + plane * 2),
        ("nothing behind the mode", "cut", b"\5"),
        ("no planes", "cut", b"\5\0"),
        ("six first bits", "first bits", b"\5\6" + plane + b"\0" + bytes(3)),
        ("seven first bits", "first bits", b"\5\7" + plane + b"\0" + bytes(2)),
        ("a first bit where there is none", "first bits", b"\5\x08" + plane * 2),
        ("a first bit too many", "first bits", b"\5\x11" + plane + b"\0" + bytes(9)),
        ("a cut plane", "cut", b"\5\0" + plane + plane[:-1]),
        ("a cut frame", "cut", b"\5\0" + plane + framed[:-1]),
        ("one plane", "cut", b"\5\0" + plane),
        ("bytes behind the planes", "behind the planes", b"\5\0" + plane * 3),
        ("bits behind a plane", "left over", b"\5\5" + plane + b"\0\0\0\0\x40"),
        ("a frame of more numbers", "11 numbers", b"\5\0" + plane + varint(13) + raw_frame(bytes(11))),
        ("a frame of fewer numbers", "9 numbers", b"\5\0" + plane + varint(21) + raw_frame(b"\0\1" + bytes(7))),
        ("no frame", "no zstd frame", b"\5\0" + plane + b"\x0a" + bytes(10)),
        ("a number that is too large", "too large",
         b"\5\5" + plane + varint(22) + raw_frame(b"\x08" + bytes(9))),
        ("a long varint", "longer than needed", b"\5\0" + plane + b"\x80\0" + bytes(10)),
    )
    made = [(what, reason, *_still(coded)) for what, reason, coded in rows]
    made.append(("a first bit of a byte", "first bits", *_still(b"\5\1" + plane, dtype="U8")))
    return made


def broken_blocks():
    """A list of what is wrong, a part of this decoder's message, base and delta."""
    rows = (
        ("mode 0", "mode", b"\x10" + bytes(20)),
        ("mode 4", "mode", b"\x14" + bytes(20)),
        ("bit 5 of the mode", "unknown bits", b"\x32" + bytes(20)),
        ("no changes", "0 changes", b"\x11\0"),
        ("more changes than elements", "11 changes", b"\x11\x0b" + bytes(22)),
        ("a long varint", "longer than needed", b"\x11\x81\0\0\0"),
        ("a cut varint", "cut", b"\x11\x80"),
        ("a change behind the end", "behind the end", b"\x11\1\x0a\0"),
        ("changes behind the end", "behind the end", b"\x11\2\5\4\0\0"),
        ("a short stream", "streams", b"\x11\2\0\0\0"),
        ("a long stream", "streams", b"\x11\2\0\0\0\1\0"),
        ("no gap where one is due", "streams", b"\x11\1\xff\0"),
        ("a step of too many bits", "more than 16 bits", b"\x11\1\0\xff\0\xff"),
        ("short elements", "streams", b"\x13" + bytes(19)),
        ("long planes", "streams", b"\x12" + bytes(21)),
        ("no frame", "no zstd frame", b"\2" + bytes(20)),
        ("a frame and more", "bytes follow", b"\2" + raw_frame(bytes(20)) + b"\0"),
        ("two frames", "bytes follow", b"\2" + raw_frame(bytes(10)) * 2),
        ("a frame too large", "streams", b"\2" + raw_frame(bytes(21))),
        ("a frame without content size", "content size", b"\2\x28\xb5\x2f\xfd\0\x58\xa1\0\0" + bytes(20)),
        ("a frame shorter than its size", "zstd", b"\3" + raw_frame(bytes(20))[:-4] + b"\x9b\0\0\0"),
    )
    made = [(what, reason, *_still(coded)) for what, reason, coded in rows]
    made.append(("a step of 256 in a byte", "256 or more", *_still(b"\x11\1\0\xff", dtype="U8")))
    still = b"\x13" + bytes(20)
    for what, reason, index in (
            *((f"encoding {encoding}", "encoding", bytes([encoding]) + ONE_GROUP[1:] + b"\x15")
              for encoding in (0, 3, 4, 5, 6, 7, 129, 255)),
            ("no blocks", "0 blocks", b"\1\0"), ("two blocks", "2 blocks", b"\1\2\2\0\x15\0"),
            ("a block without a group", "group of 21", b"\1\1\x15"),
            ("a group of no blocks", "group of 0", b"\1\1\0\0"),
            ("a group of two blocks", "group of 2", b"\1\1\2\0\x15\0"),
            ("a bundle's encoding", "begins with more", b"\2" + ONE_GROUP[1:] + b"\x15"),
            ("a block too long", "longer", ONE_GROUP + b"\x16"), ("a block too short", "streams", ONE_GROUP + b"\x14"),
            *((f"an index of {length} bytes", "cut", ONE_GROUP[:length]) for length in range(5)),
            ("bytes behind the index", "behind the index", ONE_GROUP + b"\x15\0")):
        made.append((what, reason, *_still(still, index=index)))
    made.append(("a byte behind the blocks", "shorter", *_still(still + b"\0", index=ONE_GROUP + b"\x15")))
    index = ONE_GROUP + b"\x15"
    for what, reason, frame in (
            ("an index in no frame", "no zstd frame", index), ("no index in its entry", "no zstd frame", b""),
            ("an index in two frames", "bytes follow", raw_frame(index[:2]) + raw_frame(index[2:])),
            ("an empty frame behind the index", "bytes follow", raw_frame(index) + raw_frame(b"")),
            ("a cut frame of an index", "cut", raw_frame(index)[:-1]),
            ("an index without content size", "content size",
             b"\x28\xb5\x2f\xfd\0\x58" + (len(index) << 3 | 1).to_bytes(3, "little") + index),
            ("an index that is said to be longer", "", raw_frame(index).replace(b"\5\0\0\0", b"\6\0\0\0", 1)),
            ("an index that is said to be much too long", "too long",
             raw_frame(index).replace(b"\5\0\0\0", (100_000_001).to_bytes(4, "little"), 1)),
            ("an index that hardly takes anything", "too long", raw_frame(bytes(17 << 20)))):
        made.append((what, reason, *_still(still, frame=frame)))
    unchanged = one("BF16", bytes(20))
    _, metadata = taken_apart(make_delta([(NAME, unchanged)], unchanged))
    skippable = b"\x50\x2a\x4d\x18" + bytes([4, 0, 0, 0]) + b"none"
    made.append(("a skippable frame for an index", "no zstd frame", unchanged, _indexed([], b"", metadata, skippable)))
    return made


def broken_metadata(base, result):
    """Like broken_blocks; result has another header than base and a tensor b of another shape."""
    entries, metadata = taken_apart(make_delta([(NAME, base)], result))
    rows = [*(("version", version) for version in ("", "1", "2", "3", "5", "04", "4.0")), ("format", "x"),
            ("base", "[]"), ("base", "{}"), ("base", "["), ("index", "none"), ("result", "[]"), ("header", "a"),
            ("sources", '{"b":[1,"b"]}'), ("sources", '{"b":null,"c":null}'), ("sources", "[]"),
            ("sources", '{"b":[0,"b"]}'), ("sources", '{"b":[0,"none"]}'), ("sources", '{"b":0}')]
    made = [(f"{key} is {value}", "", base, container(entries, {**metadata, key: value})) for key, value in rows]
    for key in metadata:
        if key not in ("elements", "changed"):
            without = {other: metadata[other] for other in metadata if other != key}
            made.append((f"no {key}", "", base, container(entries, without)))
    made.append(("an entry for no tensor", "no such tensor", base, container([("c", b"")] + entries, metadata)))
    # A member that is ignored, of whichever entry comes first.
    whole = container(entries, metadata)
    start = 8 + int.from_bytes(whole[:8], "little")
    text = whole[8:start].rstrip().replace(b'"dtype"', b'"x":' + b"[" * 15 + b"]" * 15 + b',"dtype"', 1)
    made.append(("a member that is nested too deep", "nested", base,
                 seal(len(text).to_bytes(8, "little") + text, json.loads(text)["__metadata__"]["digest"]) + whole[start:]))
    # Made longer until there is padding.
    whole = container(entries, metadata)
    while whole[7 + int.from_bytes(whole[:8], "little")] != ord(" "):
        metadata["what"] = metadata.get("what", "") + "."
        whole = container(entries, metadata)
    start = 8 + int.from_bytes(whole[:8], "little")
    made.append(("a zero byte behind the JSON", "not JSON", base,
                 reseal(whole[:start - 1] + b"\0" + whole[start:], whole)))
    # The part of b in the index is its end: one block in a group, and a length of one byte.
    frame = dict(entries)[metadata["index"]]
    [index] = decompress([frame], [content_size(frame, "index")])
    left = [entry for entry in entries if entry[0] not in ("b", metadata["index"])]
    made.append(("a tensor afresh without an entry", "neither source nor entry", base,
                 _indexed(left, index[:-len(ONE_GROUP) - 1], metadata)))
    return made


def broken_opaque():
    """Like broken_blocks, for files that are no safetensors files; a base is None where none is read."""
    base, result = bytes(range(100, 121)), bytes(range(1, 24))
    coded = [("body", b"\x13" + result[:22]), ("tail", b"\x13" + result[22:])]
    index = ONE_GROUP + b"\x17" + ONE_GROUP + b"\2"
    _, alone = taken_apart(make_delta([], result, opaque="BF16"))
    _, metadata = taken_apart(make_delta([(NAME, base)], result, opaque="BF16"))

    def made(what, reason, entries=None, index=index, told=metadata, **more):
        delta = _indexed(entries or coded, index, {**told, **more})
        return what, reason, None if told is alone else base, delta

    described, = json.loads(metadata["base"])
    rows = [made(f"{key} is {value!r}", reason, **{key: value}) for key, value, reason in (
        ("sources", "{}", "with 'sources'"), ("sources", '{"body":null}', "with 'sources'"),
        ("sources", '{"body":[0,"body"]}', "with 'sources'"), ("header", "tail", "with 'header'"),
        ("header", "none", "with 'header'"), ("opaque", "", "no dtype"), ("opaque", "bf16", "no dtype"),
        ("opaque", "BF17", "no dtype"), ("opaque", "U8", "streams"), ("opaque", "F64", "streams"))]
    rows.append(made("two bases", "more than one base", base=json.dumps([described, {**described, "path": "other"}])))
    rows += [made(f"a base of {size} bytes", "bytes, not", base=json.dumps([{**described, "size": size}]))
             for size in (0, 20, 22)]
    result = json.loads(metadata["result"])
    rows += [made(f"a result of {size} bytes", reason, result=json.dumps({**result, "size": size}))
             for size, reason in ((21, "streams"), (22, "1 blocks for 0"), (24, "streams"), (25, "streams"))]
    rows += [
        made("a header in the payload", "no such tensor", coded + [("head", b"")], index + b"\1\0"),
        made("a body of no blocks", "0 blocks", [("body", b""), coded[1]], b"\1\0" + ONE_GROUP + b"\2"),
        made("a body of two blocks", "2 blocks", index=b"\1\2\2\0\x17\0" + ONE_GROUP + b"\2"),
        made("a body with a byte of the tail", "streams", [("body", coded[0][1] + b"\0"), coded[1]],
             ONE_GROUP + b"\x18" + ONE_GROUP + b"\2"),
        made("a tail of two bytes", "streams", [coded[0], ("tail", coded[1][1] + b"\0")],
             ONE_GROUP + b"\x17" + ONE_GROUP + b"\3"),
        made("no body and no base", "body: neither source nor entry", coded[1:], ONE_GROUP + b"\2", alone),
        made("no tail and no base", "tail: neither source nor entry", coded[:1], ONE_GROUP + b"\x17", alone)]
    return rows
