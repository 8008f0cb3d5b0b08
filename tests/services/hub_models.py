# SPDX-License-Identifier: Apache-2.0
"""The model repositories of the emulated Hub: revisions, trees, files, and who may read them. Large files
(.safetensors) are in the content store and known by their SHA-256, all others are git blobs."""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from urllib.parse import quote

import xet
from http_server import Reply

MOST_PATHS = 1000
LARGEST_PAGE = 1000
MOVED = "2024-05-01T12:00:00.000Z"


def refused(status, message, code=None):
    headers = {"X-Error-Message": message, "X-Request-Id": "req-model"}
    if code:
        headers["X-Error-Code"] = code
    return Reply(status, {"error": message}, headers)


def blob_id(content):
    """What git calls these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Model:
    """A model repository. Of a file, the raw hash when it is in the content store, else its bytes."""

    name: str
    commit: str  # that main stands at
    private: bool = False
    files: dict = field(default_factory=dict)  # of that commit, by path
    gated: bool = False
    older: dict = field(default_factory=dict)  # files by commit, where main stood before
    branches: dict = field(default_factory=dict)  # commits by name, besides main
    readers: set = field(default_factory=set)  # who may read what is gated

    def move(self, commit, files):
        self.older[self.commit] = self.files
        self.commit, self.files = commit, files

    def at(self, revision):
        """(commit, files) of a revision, or None."""
        commit = self.commit if revision == "main" else self.branches.get(revision, revision)
        if commit == self.commit:
            return commit, self.files
        return (commit, self.older[commit]) if commit in self.older else None

    def holds(self, raw):
        return any(raw in files.values() for files in (self.files, *self.older.values()))


class Models:
    """The part of the Hub that answers for models; it is mixed into it."""

    def add_model(self, name, commit, files, private=False, gated=False):
        """files: bytes by path. The same name again moves main to another commit."""
        stored = {path: self.store_large(content) if path.endswith(".safetensors") else content
                  for path, content in files.items()}
        known = self.buckets.models.get(name)
        if known:
            known.move(commit, stored)
        else:
            self.buckets.models[name] = Model(name, commit, private, stored, gated)
        return self.buckets.models[name]

    def store_large(self, content):
        raw = self.store(content)
        self.sha256[raw] = hashlib.sha256(content).hexdigest()
        return raw

    def sha256_of(self, raw):
        if raw not in self.sha256:
            self.sha256[raw] = hashlib.sha256(self.content.whole(self.content.files[raw])).hexdigest()
        return self.sha256[raw]

    def is_large(self, stored):
        return len(stored) == 32 and stored in self.content.files

    def visible_model(self, request, name):
        model = self.buckets.models.get(name)
        user = self.user_of(request)
        if model is None or (model.private and not self.owns(user, name.split("/")[0])):
            # To somebody it does not know the Hub does not even say that there is nothing.
            if user is None:
                raise refused(401, "Invalid username or password.", "RepoNotFound")
            raise refused(404, "Repository not found", "RepoNotFound")
        return model

    def model_at(self, request, name, revision="main"):
        model = self.visible_model(request, name)
        found = model.at(revision)
        if found is None:
            raise refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return model, *found

    def may_read_model(self, request, name):
        model = self.buckets.models.get(name)
        user = self.user_of(request)
        owns = self.owns(user, name.split("/")[0])
        if model is None or (model.private and not owns):
            return False
        return not model.gated or owns or (user is not None and user[0] in model.readers)

    def model_request(self, request, method, segments):
        name, rest = "/".join(segments[:2]), segments[2:]
        if name in self.renamed:
            return Reply(307, b"", {"Location": request.path.replace(name, self.renamed[name], 1)})
        if (not rest or rest[0] == "revision") and method == "GET":
            model, commit, files = self.model_at(request, name, *rest[1:2])
            return Reply(200, {"_id": "0" * 24, "id": name, "modelId": name, "sha": commit, "lastModified": MOVED,
                               "private": model.private, "gated": "manual" if model.gated else False,
                               "siblings": [{"rfilename": path} for path in sorted(files)]})
        if rest[0] == "tree" and len(rest) >= 2 and method == "GET":
            return self.model_tree(request, *self.model_at(request, name, rest[1])[1:], "/".join(rest[2:]))
        if rest[0] == "paths-info" and len(rest) == 2 and method == "POST":
            files = self.model_at(request, name, rest[1])[2]
            paths = json.loads(request.body).get("paths")
            if not isinstance(paths, list) or not 0 < len(paths) <= MOST_PATHS:
                raise xet.Refused(f"paths-info of more than {MOST_PATHS} paths, or of none")
            return Reply(200, [self.described(path, files[path]) for path in paths if path in files])
        if rest[0] == "xet-read-token" and len(rest) == 2:
            self.model_at(request, name, rest[1])
            return self.give_token(name, False)
        return refused(404, "Not Found")

    def described(self, path, stored):
        if not self.is_large(stored):
            return {"type": "file", "path": path, "size": len(stored), "oid": blob_id(stored)}
        size, digest = self.content.files[stored].size, self.sha256_of(stored)
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n".encode()
        return {"type": "file", "path": path, "size": size, "oid": blob_id(pointer), "xetHash": xet.text_of(stored),
                "lfs": {"oid": digest, "size": size, "pointerSize": len(pointer)}}

    def model_tree(self, request, commit, files, folder):
        limit = int(request.query.get("limit", LARGEST_PAGE))
        if not 0 < limit <= LARGEST_PAGE:
            raise xet.Refused(f"a page of {limit} entries, at most {LARGEST_PAGE}")
        limit = min(limit, self.settings["page"])
        recursive = request.query.get("recursive", "false").lower() in ("true", "1")
        entries = {}
        for path in sorted(files):
            if folder and not path.startswith(folder + "/"):
                continue
            rest = path[len(folder) + 1 if folder else 0:].split("/")
            for depth in range(1, len(rest) if recursive else min(len(rest), 2)):
                parent = "/".join(([folder] if folder else []) + rest[:depth])
                entries[parent] = {"type": "directory", "path": parent, "size": 0, "oid": "0" * 40}
            if recursive or len(rest) == 1:
                entries[path] = self.described(path, files[path])
        cursor = request.query.get("cursor")
        after = base64.urlsafe_b64decode(cursor).decode() if cursor else ""
        left = [path for path in sorted(entries) if path > after]
        headers = {}
        if len(left) > limit:
            cursor = base64.urlsafe_b64encode(left[limit - 1].encode()).decode()
            headers["Link"] = (f"<{self.url}{request.place}?recursive={str(recursive).lower()}&limit={limit}"
                               f"&cursor={quote(cursor)}>; rel=\"next\"")
        return Reply(200, [entries[path] for path in left[:limit]], headers)

    def resolve_in_model(self, request, name, revision, path):
        if name in self.renamed:
            return Reply(307, b"", {"Location": request.path.replace(name, self.renamed[name], 1)})
        model, commit, files = self.model_at(request, name, revision)
        if not self.may_read_model(request, name):
            raise refused(401 if self.user_of(request) is None else 403,
                          f"Access to model {name} is restricted and you are not in the authorized list.", "GatedRepo")
        stored = files.get(path)
        if stored is None:
            raise refused(404, "Entry not found", "EntryNotFound")
        if self.is_large(stored):
            route = f"{self.url}/api/models/{name}/xet-read-token/{commit}"
            etag = f'"{self.sha256_of(stored)}"'
            return self.resolved(request, stored, {
                "X-Repo-Commit": commit, "X-Xet-Refresh-Route": route, "Link": f'<{route}>; rel="xet-auth"'}, etag)
        if not model.private and not model.gated and stored:
            # As the Hub sends its own clients to where such files are kept for all.
            place = f"/api/resolve-cache/models/{name}/{commit}/{quote(path, safe='')}?etag=%22{blob_id(stored)}%22"
            return Reply(307, b"Temporary Redirect", {"Location": place, "X-Repo-Commit": commit,
                                                      "ETag": f'"{blob_id(stored)}"'}, "text/plain")
        return self.git_file(request, commit, stored)

    def resolve_cached(self, request, segments):
        found = self.model_at(request, "/".join(segments[:2]), segments[2])
        return self.git_file(request, found[1], found[2]["/".join(segments[3:])])

    def git_file(self, request, commit, stored):
        return self.ranged(request, len(stored), lambda first, last: iter([stored[first:last + 1]]),
                           {"X-Repo-Commit": commit, "ETag": f'"{blob_id(stored)}"'})
