# SPDX-License-Identifier: Apache-2.0
"""The content store behind the emulated Hub: xorbs, files made of them, and links that give out their bytes."""

import re
import secrets
import threading
import time
from dataclasses import dataclass

import xet


@dataclass
class File:
    """What a file is made of: (xorb, first chunk, end chunk) in order."""

    size: int
    terms: list


@dataclass
class Grant:
    """What a link allows: the bytes first to last, both included, of a file or a xorb."""

    kind: str
    raw: bytes
    first: int
    last: int
    until: float
    uses: float  # how many are left


class Content:
    """Keeps what was uploaded, after looking at every hash of it. With verify off, hashes are believed: for large
    files, which plain Python would take minutes for."""

    def __init__(self, settings):
        self.settings = settings
        self.lock = threading.RLock()
        self.xorbs = {}
        self.files = {xet.ZERO: File(0, [])}
        self.told = {}  # chunks of a xorb, as the shard that brought it had them
        self.grants = {}
        self.late = set()  # what a link has been made to that had ended before anybody could follow it

    def add_xorb(self, raw, body):
        """Whether it is new."""
        verify = self.settings["verify"]
        with self.lock:
            if raw in self.xorbs:
                return False
        xorb = xet.read_xorb(body, verify)
        if verify and xorb.raw != raw:
            raise xet.Refused(f"xorb hash is {xet.text_of(xorb.raw)}, the address says {xet.text_of(raw)}")
        xorb.raw = raw
        with self.lock:
            if raw in self.xorbs:
                return False
            self.xorbs[raw] = xorb
        return not self.settings["xorbs_are_known"]

    def add_shard(self, body):
        """Whether it brought anything new. All or nothing."""
        files, xorbs = xet.read_shard(body)
        with self.lock:
            for raw, chunks, stored in xorbs:
                self._check_xorb(raw, chunks, stored)
            made = {}
            for raw, terms in files:
                made[raw] = self._checked_file(raw, terms)
            is_new = any(raw not in self.files for raw in made) or any(raw not in self.told for raw, _, _ in xorbs)
            self.told.update((raw, chunks) for raw, chunks, _ in xorbs)
            self.files.update(made)
        return is_new

    def _xorb(self, raw):
        if raw not in self.xorbs:
            raise xet.Refused(f"xorb {xet.text_of(raw)} was not uploaded before the shard")
        return self.xorbs[raw]

    def _check_xorb(self, raw, chunks, stored):
        xorb = self._xorb(raw)
        # hf_xet 1.8 tells nothing here; a sender may count a footer that it left out.
        if 0 < stored < len(xorb.body):
            raise xet.Refused(f"a xorb of {len(xorb.body)} bytes is told to have {stored}")
        if [size for _, size in chunks] != [chunk.size for chunk in xorb.chunks]:
            raise xet.Refused(f"xorb {xet.text_of(raw)} has other chunks than the shard tells")
        if self.settings["verify"]:
            if [told for told, _ in chunks] != [chunk.raw for chunk in xorb.chunks]:
                raise xet.Refused(f"xorb {xet.text_of(raw)} has chunks of other hashes than the shard tells")
        else:
            for chunk, (told, _) in zip(xorb.chunks, chunks):
                chunk.raw = told

    def _checked_file(self, raw, terms):
        nodes = []
        for term in terms:
            chunks = self._xorb(term.xorb).chunks
            if term.end > len(chunks):
                raise xet.Refused(f"a term of chunks {term.first} to {term.end} in a xorb of {len(chunks)}")
            taken = chunks[term.first:term.end]
            if sum(chunk.size for chunk in taken) != term.size:
                raise xet.Refused("a term of another size than its chunks")
            if any(chunk.raw is None for chunk in taken):
                raise xet.Refused("a term in a xorb that no shard told of")
            if self.settings["verify"] and xet.verification_hash([chunk.raw for chunk in taken]) != term.verification:
                raise xet.Refused("a term with a wrong verification hash")
            nodes += [(chunk.raw, chunk.size) for chunk in taken]
        if self.settings["verify"] and xet.file_hash(nodes) != raw:
            raise xet.Refused(f"file hash is {xet.text_of(xet.file_hash(nodes))}, the shard says {xet.text_of(raw)}")
        made = File(sum(size for _, size in nodes), [(term.xorb, term.first, term.end) for term in terms])
        if self.settings["verify_cuts"] and xet.cut(self.whole(made)) != [size for _, size in nodes]:
            raise xet.Refused(f"file {xet.text_of(raw)} is not cut where the protocol says")
        return made

    def pieces(self, file, first, last):
        """The bytes first to last, both included."""
        at = 0
        for raw, begin, end in file.terms:
            xorb = self.xorbs[raw]
            for number in range(begin, end):
                size = xorb.chunks[number].size
                if at + size > first and at <= last:
                    content = xorb.content(number)
                    yield content[max(first - at, 0):last + 1 - at]
                at += size
                if at > last:
                    return

    def whole(self, file):
        return b"".join(self.pieces(file, 0, file.size - 1))

    # Links ------------------------------------------------------------------------------------------------------

    def link(self, base, kind, raw, first, last):
        token, place = secrets.token_hex(16), (kind, raw, first, last)
        with self.lock:
            is_late = self.settings["first_links_are_late"] and place not in self.late
            if is_late:
                self.late.add(place)
            until = 0 if is_late else time.time() + self.settings["link_s"]
            self.grants[token] = Grant(*place, until, self.settings["link_uses"])
        return f"{base}/{kind}/{xet.text_of(raw)}?signature={token}"

    def granted(self, kind, text, token):
        """(size, function that yields the bytes of a range), or None."""
        grant = self.grants.get(token)
        if grant is None or grant.kind != kind or xet.text_of(grant.raw) != text or grant.until < time.time():
            return None
        with self.lock:
            grant.uses -= 1
        if grant.uses < 0:
            return None
        if kind == "file":
            file = self.files[grant.raw]
            return grant, file.size, lambda first, last: self.pieces(file, first, last)
        body = self.xorbs[grant.raw].body
        return grant, len(body), lambda first, last: iter([memoryview(body)[first:last + 1]])

    def reconstruction(self, raw, asked, base, version):
        """The answer to a query, or None when the range begins behind the end."""
        file = self.files[raw]
        first, last = asked or (0, max(file.size - 1, 0))
        if first >= max(file.size, 1):
            return None
        terms, fetches = [], {}
        at = 0
        skipped = None
        for xorb_raw, begin, end in file.terms:
            xorb = self.xorbs[xorb_raw]
            kept = []
            for number in range(begin, end):
                size = xorb.chunks[number].size
                if at + size > first and at <= last:
                    skipped = first - at if skipped is None else skipped
                    kept.append(number)
                at += size
            if not kept:
                continue
            chunks = {"start": kept[0], "end": kept[-1] + 1}
            terms.append({"hash": xet.text_of(xorb_raw), "range": chunks,
                          "unpacked_length": sum(xorb.chunks[number].size for number in kept)})
            span = {"start": xorb.chunks[kept[0]].begin, "end": xorb.chunks[kept[-1]].end - 1}
            url = self.link(base, "xorb", xorb_raw, span["start"], span["end"])
            known = fetches.setdefault(xet.text_of(xorb_raw), [])
            if version == 2:
                known.append({"url": url, "ranges": [{"chunks": chunks, "bytes": span}]})
            else:
                known.append({"range": chunks, "url": url, "url_range": span})
        return {"offset_into_first_range": skipped or 0, "terms": terms, "xorbs" if version == 2 else "fetch_info": fetches}


_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def parse_range(header, size):
    """(first, last) of a Range header, None without one; Refused when it asks for nothing that is there."""
    if header is None:
        return None
    match = _RANGE.fullmatch(header.strip())
    if not match:
        raise xet.Refused(f"range {header!r}")
    first = int(match[1])
    last = min(int(match[2]) if match[2] else size - 1, size - 1)
    if first > last:
        raise xet.Refused(f"range {header!r} of {size} bytes")
    return first, last
