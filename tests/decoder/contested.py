# SPDX-License-Identifier: Apache-2.0
"""Which of the entries of a branch count where they are contested: wdelta-repository(5), "Contested entries"."""

import re
from collections import namedtuple

from refusal import require

NOTHING = "0" * 32
KEY = re.compile("([0-9]{16})-([0-9a-f]{32})-([0-9a-f]{32})(-withdrawn)?")

Entry = namedtuple("Entry", "number write before commit written_ms withdrawn")


def entry_of(last, document, written_ms):
    """What the last part of a key and the document under it say of an entry or its withdrawal."""
    parts = KEY.fullmatch(last)
    require(parts, f"{last}: is no key of an entry")
    number, write, before, withdrawn = parts.groups()
    require(write != NOTHING and (document.get("write"), document.get("before")) == (write, before),
            f"{last}: holds another entry")
    return Entry(int(number), write, before, document["commit"], written_ms, withdrawn is not None)


def line(entries, tick_ms):
    """The entries that count, oldest first."""
    found, before = [], NOTHING
    while True:
        rivals = [entry for entry in entries
                  if (entry.number, entry.before, entry.withdrawn) == (len(found) + 1, before, False)]
        if not rivals:
            return found
        found.append(min(rivals, key=lambda entry: (entry.written_ms // tick_ms, entry.write)))
        before = found[-1].write


def left(entries, tick_ms):
    """The entries that neither count nor were withdrawn, and that no other such entry builds on."""
    gone = {entry.write for entry in entries if entry.withdrawn} | {entry.write for entry in line(entries, tick_ms)}
    remaining = [entry for entry in entries if entry.write not in gone]
    built_upon = {entry.before for entry in remaining}
    return [entry for entry in remaining if entry.write not in built_upon]
