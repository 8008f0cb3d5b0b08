# SPDX-License-Identifier: Apache-2.0
"""The one exception of the decoder, and strict JSON on top of it."""

import json

DEEPEST = 16
MOST_VALUES = 1_000_000


class Refused(Exception):
    """The bytes are not what the man page asks for, or not what they claim to be."""


def require(condition, message):
    if not condition:
        raise Refused(message)


def _object_without_repeats(pairs):
    members = dict(pairs)
    require(len(members) == len(pairs), "JSON: a key stands twice in one object")
    return members


def _no_constant(word):
    raise Refused(f"JSON: {word} is not JSON")


def _values(value, depth=1):
    """How many values a value is, with all that lie in it."""
    if not isinstance(value, (dict, list)):
        return 1
    require(depth <= DEEPEST, f"JSON: nested deeper than {DEEPEST}")
    return 1 + sum(_values(inner, depth + 1) for inner in (value.values() if isinstance(value, dict) else value))


def strict_json(text, kind, what, bounded=True):
    """Parses text (bytes or str) as JSON whose outermost value is of the Python type kind. What is not bounded is so
    member by member."""
    try:
        if isinstance(text, (bytes, bytearray, memoryview)):
            text = bytes(text).decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object_without_repeats, parse_constant=_no_constant)
        # An escaped half of a surrogate pair passes the parser but is no text.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Refused(f"{what}: not JSON: {error}") from None
    require(isinstance(value, kind), f"{what}: not a JSON {kind.__name__}")
    count = _values(value)
    if bounded:
        require(count <= MOST_VALUES + len(text.encode()) // 16, f"{what} holds {count} values")
    return value


def strict_header(text, what):
    """The header of a safetensors file: of none of its members there is very much."""
    members = strict_json(text, dict, what, bounded=False)
    for name, value in members.items():
        require_bounded(value, f"{what}: {name!r}")
    return members


def require_bounded(value, what):
    require(_values(value) <= MOST_VALUES, f"{what} holds more than {MOST_VALUES} values")


def is_count(value):
    """A JSON number that counts something; JSON's true and 1.0 are no counts."""
    return type(value) is int and 0 <= value < 1 << 64
