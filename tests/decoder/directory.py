# SPDX-License-Identifier: Apache-2.0
"""Deltas of directories, and the choice between these and deltas of files."""

import os
import re
import string
from pathlib import Path

from delta import Delta, Named, check_content, check_path, check_seal
from refusal import Refused, is_count, require, strict_json

LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # the case that does not count
LISTING = "wdelta.json"


def _read(path, what):
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Refused(f"{what}: {path}: {error.strerror}") from None


def base_contents(base, delta):
    """The files that delta names, from base: a directory that holds them, or itself the only one."""
    if os.path.isdir(base):
        return [_read(Path(base, named.path), f"{delta.what}: base") for named in delta.base]
    require(len(delta.base) <= 1, f"{delta.what}: reads {len(delta.base)} files, and the base is one")
    return [_read(base, f"{delta.what}: base")] if delta.base else []


class DirectoryDelta:
    """The listing of a delta of directories, checked."""

    def __init__(self, root):
        self.root, self.what = root, str(root)
        text = _read(Path(root, LISTING), self.what)
        listing = strict_json(text, dict, self.what)
        require(re.search(rb',"digest":"[0-9a-f]{64}"}\n$', text), f"{self.what}: does not end in its digest")
        check_seal(text, listing.get("digest"), self.what)
        require(listing.get("format") == "wdelta-delta-directory", f"{self.what}: not a delta of directories")
        version = listing.get("version")
        require(is_count(version) and version == 1, f"{self.what}: version {version!r} is not known")
        files, removed = listing.get("files"), listing.get("removed")
        require(isinstance(files, list) and isinstance(removed, list), f"{self.what}: no list of files")
        for entry in files:
            require(isinstance(entry, dict) and is_count(entry.get("size")) and
                    isinstance(entry.get("digest"), str) and re.fullmatch("[0-9a-f]{64}", entry["digest"]) and
                    isinstance(entry.get("executable"), bool) and entry.get("as") in ("same", "delta", "file"),
                    f"{self.what}: bad description of a file")
        paths = [entry.get("path") for entry in files] + removed
        for path in paths:
            check_path(path, self.what)
        require(len(set(paths)) == len(paths), f"{self.what}: a path stands twice")
        names, folded = {entry["path"] for entry in files}, {}
        for path in names:
            for end in range(1, path.count("/") + 2):
                spelled = "/".join(path.split("/")[:end])
                other = folded.setdefault(spelled.translate(LOWER), spelled)
                require(other == spelled, f"{self.what}: {other} and {spelled} are one where case does not count")
        for path in names:
            parts = path.split("/")
            require(not any("/".join(parts[:end]) in names for end in range(1, len(parts))),
                    f"{self.what}: {path} lies in a file")
        self.files, self.removed = files, removed

    def apply(self, base, out):
        """Makes the directory out, which must not be there yet."""
        os.mkdir(out)
        for entry in self.files:
            path, source = entry["path"], entry["as"]
            stored = Path(self.root, "files", path)
            if source == "delta":
                delta = Delta(_read(stored, self.what), f"{self.what}: {path}")
                content = delta.apply(base_contents(base, delta)).content
            else:
                content = _read(Path(base, path) if source == "same" else stored, self.what)
            check_content(content, Named(path, entry["size"], entry["digest"]), f"{self.what}: {path}")
            target = Path(out, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(target.stat().st_mode | 0o111 if entry["executable"] else target.stat().st_mode & ~0o111)


def apply_one(base, delta, out):
    """Makes out, a file or a directory, from base and one delta."""
    if os.path.isdir(delta):
        require(os.path.isdir(base), f"{delta}: a delta of directories, and {base} is none")
        DirectoryDelta(delta).apply(base, out)
    else:
        opened = Delta(_read(delta, "delta"), str(delta))
        Path(out).write_bytes(opened.apply(base_contents(base, opened)).content)
