# SPDX-License-Identifier: Apache-2.0
"""A delta between two files, opened and applied."""

import re
from collections import namedtuple

import zstd
from blake3 import blake3
from elements import BITS, FLOATING, width_of
from index import Index
from opaque import opaque_header, resized
from refusal import is_count, require, strict_json
from safetensors import header_length, read_header

CONTENT_LIMIT = 100_000_000

# A file as the metadata names it.
Named = namedtuple("Named", "path size digest")
Result = namedtuple("Result", "content elements changed")
# A tensor of the result with all that is needed to make it; source is the bytes of the base or None, strips are how
# many elements each has and how it is coded, None for one without changes.
Plan = namedtuple("Plan", "tensor source strips")


def check_seal(text, digest, what):
    """Refuses text unless digest, which stands in it once, is the digest of text with zeros in its place."""
    require(isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest), f"{what}: 'digest' is no digest")
    written = digest.encode()
    require(text.count(written) == 1, f"{what}: 'digest' does not stand there once as it is")
    require(blake3(text.replace(written, b"0" * 64)) == digest, f"{what}: does not have its digest")


def framed_limit(frame):
    """What a frame may hold of bytes that a reader keeps."""
    return min(CONTENT_LIMIT, (16 << 20) + 256 * len(frame))


def check_path(path, what):
    require(isinstance(path, str) and not any(ord(letter) < 32 or ord(letter) == 127 or letter == "\\"
                                              for letter in path) and
            all(part not in ("", ".", "..") and part.lower() not in (".wdelta", ".git") and len(part.encode()) <= 255
                for part in path.split("/")),
            f"{what}: bad path {path!r}")


def check_content(content, named, what):
    require(len(content) == named.size, f"{what}: {len(content)} bytes, not {named.size}")
    require(blake3(content) == named.digest, f"{what}: does not have the digest {named.digest}")


def _named(value, what):
    require(isinstance(value, dict) and {"path", "size", "digest"} <= set(value), f"{what}: not a file's description")
    check_path(value["path"], what)
    require(is_count(value["size"]), f"{what}: bad size")
    require(isinstance(value["digest"], str) and re.fullmatch("[0-9a-f]{64}", value["digest"]), f"{what}: bad digest")
    return Named(value["path"], value["size"], value["digest"])


class Delta:
    """An opened delta: everything on the page that can be checked without the base has been."""

    def __init__(self, content, what="delta"):
        self.what = what
        content = memoryview(content)
        container = read_header(content, len(content), what)
        self.metadata = container.metadata
        text = bytes(content[:header_length(content, what)])
        check_seal(text, self._text("digest"), what)
        require(self._text("format") == "wdelta-delta", f"{what}: not a wdelta delta")
        require(self._text("version") == "4", f"{what}: version {self.metadata['version']!r} is not known")
        require(blake3(content[container.start:]) == self._text("payload"), f"{what}: payload has another digest")
        for key in ("elements", "changed"):
            require(re.fullmatch("0|[1-9][0-9]{0,19}", self._text(key)) and int(self._text(key)) < 1 << 64,
                    f"{what}: '{key}' is no decimal number")
        self.base = [_named(value, f"{what}: base") for value in self._json("base", list)]
        self.result = _named(self._json("result", dict), f"{what}: result")
        self.sources = self._json("sources", dict) if "sources" in self.metadata else {}
        for name, source in self.sources.items():
            require(source is None or isinstance(source, list) and len(source) == 2 and is_count(source[0]) and
                    source[0] < len(self.base) and isinstance(source[1], str), f"{what}: bad source of {name}")
        self.opaque = self.metadata.get("opaque")
        if self.opaque is not None:
            require(self.opaque in BITS, f"{what}: 'opaque' is no dtype")
            require(len(self.base) <= 1, f"{what}: an opaque file with more than one base")
            for key in ("sources", "header"):
                require(key not in self.metadata, f"{what}: an opaque file with '{key}'")
        entries = {}
        for entry in container.tensors:
            require(entry.dtype == "U8" and len(entry.shape) == 1, f"{what}: {entry.name}: not bytes in a row")
            entries[entry.name] = content[entry.begin:entry.end]
        self.header_entry = self._take(entries, "header")
        index = self._take(entries, "index")
        self.entries = entries
        require(index is not None, f"{what}: no block index")
        self.names_limit = framed_limit(index)
        self.index = self._unframed(index, "block index", self.names_limit)
        self.header = None
        self.groups = []  # what the index says of them, once the delta was applied
        if self.header_entry is not None:
            self.header = self._unframed(self.header_entry, "header entry", 8 + framed_limit(self.header_entry))

    def _unframed(self, frame, role, limit):
        size = zstd.content_size(frame, f"{self.what}: {role}")
        require(size <= limit, f"{self.what}: {role} is too long")
        [content] = zstd.decompress([frame], [size])
        return content

    def _text(self, key):
        require(key in self.metadata, f"{self.what}: no '{key}'")
        return self.metadata[key]

    def _json(self, key, kind):
        return strict_json(self._text(key), kind, f"{self.what}: '{key}'")

    def _take(self, entries, role):
        if role not in self.metadata:
            return None
        require(self.metadata[role] in entries, f"{self.what}: no entry for the {role}")
        return entries.pop(self.metadata[role])

    def apply(self, base_contents):
        """Makes the result from the contents of the files of base, in their order."""
        made = self.unchecked(base_contents)
        check_content(made.content, self.result, f"{self.what}: result")
        return made

    def unchecked(self, base_contents):
        """The same, whether or not the result is the one that the delta names."""
        require(len(base_contents) == len(self.base), f"{self.what}: needs {len(self.base)} base files")
        for content, named in zip(base_contents, self.base):
            check_content(content, named, f"{self.what}: base {named.path}")
        if self.opaque is not None:
            return self._apply_opaque(base_contents)
        bases = [memoryview(content) for content in base_contents]
        headers = {}

        def header_of(number):
            if number not in headers:
                headers[number] = read_header(bases[number], len(bases[number]), self.base[number].path)
            return headers[number]

        beginning = self.header
        if beginning is None:
            require(bases, f"{self.what}: neither a header nor a base")
            beginning = bases[0][:header_of(0).start]
        result = read_header(beginning, self.result.size, f"{self.what}: result")
        require(result.start == len(beginning), f"{self.what}: bytes behind the result's header")
        plans = self._plans(result, lambda tensor: self._source(tensor, bases, header_of))
        return self._made(beginning, plans)

    def _apply_opaque(self, base_contents):
        base = memoryview(resized(base_contents[0], self.result.size)) if base_contents else None
        plans = self._plans(opaque_header(self.result.size, self.opaque),
                            lambda tensor: None if base is None else base[tensor.begin:tensor.end])
        return self._made(b"", plans)

    def _source(self, tensor, bases, header_of):
        if tensor.name in self.sources and self.sources[tensor.name] is None:
            return None
        if not bases and tensor.name not in self.sources:
            return None
        number, name = self.sources.get(tensor.name, (0, tensor.name))
        what = f"{self.what}: {tensor.name}"
        require(number < len(bases), f"{what}: no base to take it from")
        found = [source for source in header_of(number).tensors if source.name == name]
        require(found, f"{what}: no source {name} in {self.base[number].path}")
        require(found[0].dtype == tensor.dtype and found[0].end - found[0].begin == tensor.end - tensor.begin,
                f"{what}: source of another dtype or size")
        return bases[number][found[0].begin:found[0].end]

    def _plans(self, result, source_of):
        """One plan for each tensor of the result, in the order of the result."""
        tensors = {tensor.name: tensor for tensor in result.tensors}
        for name in self.sources:
            require(name in tensors, f"{self.what}: {name}: no such tensor in the result")
        index, strips = Index(self.index, tensors, self.names_limit, self.what), {}
        for name, entry in self.entries.items():
            strips.update(index.read(name, entry))
        index.finish()
        self.groups = index.groups
        plans = []
        for tensor in result.tensors:
            source = source_of(tensor)
            require(source is not None or tensor.name in strips or tensor.begin == tensor.end,
                    f"{self.what}: {tensor.name}: neither source nor entry")
            plans.append(Plan(tensor, source, strips.get(tensor.name)))
        framed = [part for plan in plans for _, coded in plan.strips or [] if coded
                  for part in coded.parts if part.frame_size is not None]
        contents = zstd.decompress([part.streams for part in framed], [part.frame_size for part in framed])
        for part, content in zip(framed, contents):
            part.streams = content
        return plans

    def _made(self, beginning, plans):
        pieces, elements, changed = [beginning], 0, 0
        for tensor, source, strips in plans:
            width = width_of(tensor.dtype)
            elements += (tensor.end - tensor.begin) // width
            base = memoryview(bytes(tensor.end - tensor.begin)) if source is None else source
            if strips is None:
                pieces.append(base)
                continue
            for count, coded in strips:
                part, base = base[:count * width], base[count * width:]
                if coded:
                    part, strip_changed = coded.applied(part, tensor.dtype in FLOATING)
                    changed += strip_changed
                pieces.append(part)
        return Result(b"".join(pieces), elements, changed)
