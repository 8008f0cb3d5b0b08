# SPDX-License-Identifier: Apache-2.0
"""The buckets of the emulated Hub, and what may be done with them."""

import json
import re
import secrets
import threading
import time
from dataclasses import dataclass, field

import xet

MOST_OPERATIONS = 1000
MOST_PATHS = 2000
LARGEST_PAGE = 5000
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def stamp(seconds):
    """With a fraction, which clients insist on."""
    milliseconds = int(round(seconds * 1000))
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000)) + f".{milliseconds % 1000:03}Z"


def why_no_name(bucket):
    namespace, _, name = bucket.partition("/")
    for part in (namespace, name):
        if not _NAME.fullmatch(part) or part[0] in "-." or part[-1] in "-.":
            return "may hold letters, digits, '.', '_' and '-', these two neither first nor last"
    if "--" in bucket or ".." in bucket or bucket.endswith(".git") or len(bucket) > 96:
        return "may hold neither '--' nor '..', nor end in '.git', nor be longer than 96"
    return None


def why_no_key(key):
    if not key or key[0] == "/" or key[-1] == "/" or "//" in key or key.startswith("./"):
        return "begins or ends with '/', or holds '//'"
    if "../" in key or key.endswith("..") or "\\" in key or "\0" in key:
        return "holds '..', '\\' or NUL"
    return None


@dataclass
class Entry:
    raw: bytes
    size: int
    mtime: float
    uploaded: float
    content_type: str = None

    def listed(self, path):
        entry = {"type": "file", "path": path, "size": self.size, "xetHash": xet.text_of(self.raw),
                 "mtime": None if self.mtime is None else stamp(self.mtime), "uploadedAt": stamp(self.uploaded)}
        if self.content_type:
            entry["contentType"] = self.content_type
        return entry


@dataclass
class Bucket:
    name: str
    private: bool
    created: float
    updated: float
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    history: dict = field(default_factory=dict)  # by path: (when, Entry or None), oldest first

    def set(self, path, entry, now):
        self.history.setdefault(path, []).append((now, entry))
        self.updated = now

    def get(self, path):
        versions = self.history.get(path)
        return versions[-1][1] if versions else None

    def as_of(self, moment):
        """The files that there were, by path, in order."""
        seen = {}
        for path in sorted(self.history):
            entry = None
            for when, version in self.history[path]:
                if when <= moment:
                    entry = version
            if entry is not None:
                seen[path] = entry
        return seen

    def described(self):
        entries = self.as_of(time.time()).values()
        return {"_id": self.id, "id": self.name, "author": self.name.split("/")[0], "private": self.private,
                "visibility": "private" if self.private else "public", "createdAt": stamp(self.created),
                "updatedAt": stamp(self.updated), "size": sum(entry.size for entry in entries),
                "totalFiles": len(entries), "repoType": "bucket", "cdnRegions": []}


class Buckets:
    def __init__(self, content, settings):
        self.content, self.settings = content, settings
        self.lock = threading.RLock()
        self.buckets = {}
        self.models = {}

    def create(self, name, private):
        now = time.time()
        with self.lock:
            if name in self.buckets:
                return False
            self.buckets[name] = Bucket(name, private, now, now)
        return True

    def page(self, bucket, prefix, recursive, limit, after):
        """(entries, path that the next page begins behind, or None)."""
        with self.lock:
            listed = []
            folders = set()
            for path, entry in bucket.as_of(time.time() - self.settings["listing_delay_s"]).items():
                if not path.startswith(prefix):
                    continue
                rest = path[len(prefix):]
                cut = rest.find("/", 1 if rest.startswith("/") else 0)
                if not recursive and cut >= 0:
                    folder = prefix + rest[:cut]
                    if folder not in folders:
                        folders.add(folder)
                        listed.append((folder, {"type": "directory", "path": folder, "uploadedAt": stamp(entry.uploaded)}))
                else:
                    listed.append((path, entry.listed(path)))
        listed = sorted((item for item in listed if after is None or item[0] > after), key=lambda item: item[0])
        page = listed[:limit]
        return [entry for _, entry in page], page[-1][0] if len(listed) > limit else None

    def paths(self, bucket, paths):
        with self.lock:
            seen = bucket.as_of(time.time() - self.settings["paths_delay_s"])
        return [seen[path].listed(path) for path in paths if path in seen]

    def batch(self, bucket, text, may_read):
        """(processed, failures) of a batch of operations."""
        lines = [line for line in text.split("\n") if line]
        if not 0 < len(lines) <= MOST_OPERATIONS:
            raise xet.Refused(f"{len(lines)} operations, expected 1 to {MOST_OPERATIONS}")
        operations = []
        for line in lines:
            operation = json.loads(line)
            if not isinstance(operation, dict) or operation.get("type") not in ("addFile", "copyFile", "deleteFile"):
                raise xet.Refused(f"operation {line!r}")
            if operation["type"] == "addFile" and any(other["type"] == "deleteFile" for other in operations):
                raise xet.Refused("an addFile behind a deleteFile")
            operations.append(operation)
        chosen = set(self.settings["failing_operations"])
        failures = []
        now = time.time()
        with self.lock:
            for number, operation in enumerate(operations):
                why = "refused on request" if number in chosen else self._apply(bucket, operation, now, may_read)
                if why:
                    failures.append({"path": operation.get("path", ""), "error": why})
        return len(operations), failures

    def _apply(self, bucket, operation, now, may_read):
        path = operation.get("path")
        if not isinstance(path, str) or why_no_key(path):
            return f"path {path!r} {why_no_key(path) if isinstance(path, str) else 'is no text'}"
        if operation["type"] == "deleteFile":
            if bucket.get(path) is None and self.settings["deleting_nothing_fails"]:
                return "no such file"
            if bucket.get(path) is not None:
                bucket.set(path, None, now)
            return None
        mtime = operation.get("mtime")
        # Milliseconds: a time in seconds would be in the first weeks of 1970.
        if mtime is not None and (not isinstance(mtime, int) or mtime < 10**11):
            return f"mtime {mtime!r} is not in milliseconds"
        try:
            raw = xet.raw_of(operation.get("xetHash", ""))
        except xet.Refused as error:
            return str(error)
        if operation["type"] == "copyFile" and self.settings["copies_fail"]:
            return self.settings["copies_fail"]
        if operation["type"] == "copyFile":
            kind, source = operation.get("sourceRepoType"), operation.get("sourceRepoId")
            if kind not in ("bucket", "model", "dataset", "space") or not may_read(kind, source):
                return f"{kind} {source} does not exist, or you may not read it"
            if not self._holds(kind, source, raw):
                return f"{source} has no file of hash {xet.text_of(raw)}"
        elif raw not in self.content.files:
            return f"no shard told of a file {xet.text_of(raw)}"
        bucket.set(path, Entry(raw, self.content.files[raw].size, None if mtime is None else mtime / 1000, now,
                               operation.get("contentType")), now)
        return None

    def _holds(self, kind, name, raw):
        if kind == "bucket":
            return any(entry.raw == raw for entry in self.buckets[name].as_of(time.time()).values())
        return self.models[name].holds(raw)
