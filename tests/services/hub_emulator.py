#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An emulator of the Hub's buckets on loopback: its API, its content store and its CDN, each a host of its own.

It believes nothing: tokens, names, orders, limits and every hash are looked at, by code that shares nothing with the
library. What it cannot know of the real service it keeps strict, and tests can loosen (see SETTINGS).

usage: hub_emulator.py [--set NAME=VALUE]... prints its address, then serves until its standard input ends.

In a test: `with Hub() as hub:`, then hub.url, hub.log, hub.faults, hub.settings. From outside, the same by
GET /_control/log, /_control/violations, /_control/settings, POST /_control/settings, /_control/faults (one rule, see
http_server.Faults), /_control/models ({"name", "commit", "files": {path: {"hash": …} or {"text": …}}}),
DELETE /_control/faults, /_control/log."""

import base64
import json
import secrets
import sys
import time
from urllib.parse import quote

import xet
from http_server import Faults, Log, Reply, Server
from hub_buckets import LARGEST_PAGE, MOST_PATHS, Buckets, why_no_name
from hub_content import Content, parse_range
from hub_grants import Grants
from hub_models import Model, Models

WRITE_TOKEN, READ_TOKEN, STRANGER_TOKEN, FULL_TOKEN = "hf_tester", "hf_reader", "hf_stranger", "hf_full"

SETTINGS = {
    "verify": True,  # hashes are made from the bytes
    "verify_cuts": True,  # files are cut where the protocol says
    "token_s": 900,  # how long a token for the content store lives
    "link_s": 3600,  # how long a link to bytes lives
    "link_uses": float("inf"),  # or until so many have followed it
    "first_links_are_late": False,  # and the first one to some bytes has ended when it is made
    "listing_delay_s": 0,  # a listing shows what there was so long ago
    "paths_delay_s": 0,  # and so does paths-info
    "paths_unasked": [],  # of these it tells, too, and of each path twice
    "page": 1000,  # entries on a page of a listing, when the client asks for none
    "grants": True,  # xorbs may go straight to the CDN
    "shard_versions": [1, 2],
    "reconstruction_versions": [1, 2],
    "xorbs_are_known": False,  # every xorb is said to have been there
    "failing_operations": [],  # numbers of lines of the next batch that fail; the batch says so in a 200
    "deleting_nothing_fails": False,
    "copies_fail": "",  # why the Hub copies nothing
}


def refused(status, message, code=None):
    headers = {"X-Error-Message": message, "X-Request-Id": secrets.token_hex(8)}
    if code:
        headers["X-Error-Code"] = code
    return Reply(status, {"error": message}, headers)


class Hub(Models):
    def __init__(self, **settings):
        unknown = set(settings) - set(SETTINGS)
        if unknown:
            raise ValueError(f"no such settings: {unknown}")
        self.settings = {**SETTINGS, **settings}
        self.log, self.faults = Log(), Faults()
        self.content = Content(self.settings)
        self.grants = Grants(self.content)
        self.buckets = Buckets(self.content, self.settings)
        self.users = {WRITE_TOKEN: ("tester", True), READ_TOKEN: ("tester", False), STRANGER_TOKEN: ("stranger", True),
                      FULL_TOKEN: ("full", True)}
        self.organisations = {"tester": {"tester", "org"}, "stranger": {"stranger"}, "full": {"full"}}
        self.renamed = {}  # models, new names by old
        self.sha256 = {}  # of large files of models, by raw hash
        self.tokens = {}  # for the content store: (bucket, may write, until)
        self.cdn = Server("cdn", self.answer_cdn, self.log, self.faults)
        self.cas = Server("cas", self.answer_cas, self.log, self.faults)
        self.hub = Server("hub", self.answer_hub, self.log, self.faults)
        self.url = self.hub.url

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for server in (self.hub, self.cas, self.cdn):
            server.close()

    def store(self, content):
        """Puts bytes into the content store by the back door; returns the raw file hash."""
        sizes = xet.cut(content)
        at, body, nodes = 0, b"", []
        for size in sizes:
            piece = content[at:at + size]
            body += bytes(1) + size.to_bytes(3, "little") + bytes(1) + size.to_bytes(3, "little") + piece
            nodes.append((xet.chunk_hash(piece), size))
            at += size
        if nodes:
            root = xet.root_of(nodes)
            self.content.add_xorb(root, body)
            for chunk, (raw, _) in zip(self.content.xorbs[root].chunks, nodes):
                chunk.raw = raw
            self.content.files[xet.file_hash(nodes)] = type(self.content.files[xet.ZERO])(
                len(content), [(root, 0, len(nodes))])
        return xet.file_hash(nodes)

    def file(self, bucket, path):
        """The bytes that a bucket has at a path, or None."""
        entry = self.buckets.buckets[bucket].get(path)
        return entry and self.content.whole(self.content.files[entry.raw])

    # Who may do what ---------------------------------------------------------------------------------------------

    def user_of(self, request):
        """(name, may write) by the token; None without one."""
        header = request.headers.get("Authorization")
        if header is None:
            return None
        user = self.users.get(header.removeprefix("Bearer "))
        if not header.startswith("Bearer ") or user is None:
            raise refused(401, "Invalid credentials in Authorization header")
        return user

    def owns(self, user, namespace):
        return user is not None and namespace in self.organisations[user[0]]

    def readable(self, request, name):
        """The bucket, when whoever asks may see it."""
        user = self.user_of(request)
        bucket = self.buckets.buckets.get(name)
        hidden = bucket is not None and bucket.private and not self.owns(user, name.split("/")[0])
        if bucket is None or hidden:
            if user is None:
                raise refused(401, "Invalid username or password.", "RepoNotFound")
            raise refused(404, "Repository not found", "RepoNotFound")
        return bucket

    def writable(self, request, name):
        bucket = self.readable(request, name)
        user = self.user_of(request)
        if user is None:
            raise refused(401, "Invalid username or password.")
        if not user[1] or not self.owns(user, name.split("/")[0]):
            raise refused(403, "You don't have the required permissions to write to this bucket")
        return bucket

    def may_read(self, request, kind, name):
        if kind != "bucket":
            return self.may_read_model(request, name)
        found = self.buckets.buckets.get(name)
        return found is not None and (not found.private or self.owns(self.user_of(request), name.split("/")[0]))

    # The Hub -----------------------------------------------------------------------------------------------------

    def answer_hub(self, request):
        segments, method = request.segments, request.command
        try:
            if segments[0] == "_control":
                return self.control(request, segments[1], method)
            if segments[:2] == ["api", "buckets"] and len(segments) >= 3:
                return self.bucket_request(request, method, segments[2:])
            if segments[0] == "buckets" and len(segments) >= 5 and segments[3] == "resolve":
                name = "/".join(segments[1:3])
                return self.resolve_in_bucket(request, self.readable(request, name), "/".join(segments[4:]))
            if segments == ["api", "whoami-v2"]:
                user = self.user_of(request)
                if user is None:
                    raise refused(401, "Invalid username or password.")
                return Reply(200, {"type": "user", "name": user[0], "auth": {"type": "access_token"},
                                   "orgs": [{"name": name} for name in self.organisations[user[0]]]})
            if segments[:2] == ["api", "models"] and len(segments) >= 4:
                return self.model_request(request, method, segments[2:])
            if segments[:3] == ["api", "resolve-cache", "models"] and len(segments) >= 7:
                return self.resolve_cached(request, segments[3:])
            if len(segments) >= 5 and segments[2] == "resolve":
                return self.resolve_in_model(request, "/".join(segments[:2]), segments[3], "/".join(segments[4:]))
        except xet.Refused as error:
            self.log.violation(f"{method} {request.path}: {error}")
            return refused(400, str(error))
        return refused(404, "Not Found")

    def control(self, request, what, method):
        sent = json.loads(request.body) if request.body else None
        if what == "log":
            if method == "DELETE":
                self.log.clear()
            return Reply(200, self.log.requests)
        if what == "violations":
            return Reply(200, self.log.violations)
        if what == "settings":
            self.settings.update(sent or {})
            return Reply(200, self.settings)
        if what == "faults":
            if method == "DELETE":
                self.faults.clear()
            elif sent:
                self.faults.add(**sent)
            return Reply(200, [{name: value for name, value in rule.items() if name != "pattern"}
                               for rule in self.faults.rules])
        if what == "models":
            files = {path: xet.raw_of(file["hash"]) if "hash" in file else file["text"].encode()
                     for path, file in sent["files"].items()}
            self.buckets.models[sent["name"]] = Model(sent["name"], sent["commit"], sent.get("private", False), files)
            return Reply(200, {})
        return refused(404, "Not Found")

    def bucket_request(self, request, method, segments):
        user = self.user_of(request)
        if segments[0] == "me":
            if user is None:
                raise refused(401, "Invalid username or password.")
            segments = [user[0], *segments[1:]]
        if len(segments) == 1:
            return self.list_buckets(request, user, segments[0])
        name, rest = "/".join(segments[:2]), segments[2:]
        if not rest:
            if method == "POST":
                return self.create(request, user, name)
            if method == "DELETE":
                self.writable(request, name)
                del self.buckets.buckets[name]
                return Reply(200, {})
            return Reply(200, self.readable(request, name).described())
        if rest[0] == "tree" and method == "GET":
            return self.tree(request, self.readable(request, name), "/".join(rest[1:]))
        if rest == ["paths-info"] and method == "POST":
            sent = json.loads(request.body)
            paths = sent.get("paths")
            if not isinstance(paths, list) or len(paths) > MOST_PATHS:
                raise xet.Refused(f"paths-info of more than {MOST_PATHS} paths, or of none")
            unasked = self.settings["paths_unasked"]
            return Reply(200, self.buckets.paths(self.readable(request, name), 2 * (paths + unasked) if unasked else paths))
        if rest in (["xet-read-token"], ["xet-write-token"]) and method == "GET":
            may_write = rest == ["xet-write-token"]
            (self.writable if may_write else self.readable)(request, name)
            return self.give_token(name, may_write)
        if rest == ["batch"] and method == "POST":
            return self.batch(request, self.writable(request, name))
        return refused(404, "Not Found")

    def create(self, request, user, name):
        if user is None:
            raise refused(401, "Invalid username or password.")
        if not user[1] or not self.owns(user, name.split("/")[0]):
            raise refused(403, f"You don't have the rights to create a bucket under this namespace: {name}")
        if why_no_name(name):
            raise xet.Refused(f"bucket name {name!r} {why_no_name(name)}")
        sent = json.loads(request.body or b"{}")
        unknown = set(sent) - {"private", "visibility", "resourceGroupId", "region"}
        if unknown:
            raise xet.Refused(f"creating a bucket with {unknown}")
        described = {"url": f"{self.url}/buckets/{name}", "name": name}
        if not self.buckets.create(name, sent.get("private", sent.get("visibility") == "private")):
            return Reply(409, {"error": "You already created this bucket", **described},
                         {"X-Error-Message": "You already created this bucket"})
        return Reply(200, {**described, "id": self.buckets.buckets[name].id})

    def list_buckets(self, request, user, namespace):
        seen = [bucket.described() for name, bucket in sorted(self.buckets.buckets.items())
                if name.startswith(namespace + "/") and (not bucket.private or self.owns(user, namespace))
                and request.query.get("search", "") in name]
        return Reply(200, seen)

    def tree(self, request, bucket, prefix):
        limit = int(request.query.get("limit", self.settings["page"]))
        if not 0 < limit <= LARGEST_PAGE:
            raise xet.Refused(f"a page of {limit} entries, at most {LARGEST_PAGE}")
        cursor = request.query.get("cursor")
        after = json.loads(base64.urlsafe_b64decode(cursor))["after"] if cursor else None
        recursive = request.query.get("recursive", "true").lower() in ("true", "1")
        entries, last = self.buckets.page(bucket, prefix, recursive, limit, after)
        headers = {}
        if last is not None:
            cursor = base64.urlsafe_b64encode(json.dumps({"after": last}).encode()).decode()
            headers["Link"] = (f"<{self.url}{request.place}?limit={limit}&recursive={str(recursive).lower()}"
                               f"&cursor={quote(cursor)}>; rel=\"next\"")
        return Reply(200, entries, headers)

    def give_token(self, name, may_write):
        token = "xet_" + secrets.token_hex(24)
        until = time.time() + self.settings["token_s"]
        self.tokens[token] = (name, may_write, until)
        given = {"accessToken": token, "exp": int(until), "casUrl": self.cas.url}
        return Reply(200, given, {"X-Xet-Access-Token": token, "X-Xet-Token-Expiration": str(int(until)),
                                  "X-Xet-Cas-Url": self.cas.url})

    def batch(self, request, bucket):
        if request.headers.get_content_type() != "application/x-ndjson":
            raise xet.Refused(f"a batch as {request.headers.get_content_type()}, expected application/x-ndjson")
        if self.user_of(request)[0] == "full":
            raise refused(403, "Storage limit reached: your namespace has used all of its private storage")
        try:
            count, failures = self.buckets.batch(bucket, request.body.decode(),
                                                 lambda kind, name: self.may_read(request, kind, name))
        except ValueError as error:
            raise xet.Refused(f"a batch that is no JSON lines: {error}") from None
        if any(failure["error"] not in ("refused on request", self.settings["copies_fail"]) for failure in failures):
            self.log.violation(f"batch: {failures}")
        self.settings["failing_operations"] = []
        answer = {"success": not failures, "processed": count, "succeeded": count - len(failures), "failed": failures}
        return Reply(422 if len(failures) == count else 200, answer)

    def resolve_in_bucket(self, request, bucket, path):
        entry = bucket.get(path)
        if entry is None:
            raise refused(404, "Entry not found", "EntryNotFound")
        base = f"{self.url}/api/buckets/{bucket.name}"
        headers = {"Link": f'<{base}/xet-read-token>; rel="xet-auth", '
                           f'<{self.cas.url}/v1/reconstructions/{xet.text_of(entry.raw)}>; rel="xet-reconstruction-info"',
                   "X-Xet-Refresh-Route": f"{base}/xet-read-token"}
        return self.resolved(request, entry.raw, headers)

    def resolved(self, request, raw, headers, etag=None):
        text, size = xet.text_of(raw), self.content.files[raw].size
        etag = etag or f'"{text}"'
        headers = {**headers, "X-Xet-Hash": text, "X-Linked-Size": str(size), "X-Linked-ETag": etag, "ETag": etag,
                   "Accept-Ranges": "bytes"}
        if "application/vnd.xet-fileinfo+json" in request.headers.get("Accept", ""):
            described = {"hash": text, "size": size, "etag": etag, "refreshUrl": headers["X-Xet-Refresh-Route"],
                         "reconstructionUrl": f"{self.cas.url}/v1/reconstructions/{text}"}
            return Reply(200, described, headers, "application/vnd.xet-fileinfo+json")
        headers["Location"] = self.content.link(self.cdn.url, "file", raw, 0, size - 1)
        if request.command == "HEAD":
            # Without the body that a redirect has: clients take the length for the file's.
            headers["Content-Length"] = str(size)
        return Reply(302, b"Found. Redirecting", headers, "text/plain")

    # The content store -------------------------------------------------------------------------------------------

    def answer_cas(self, request):
        try:
            return self.content_request(request, request.command, request.segments)
        except xet.Refused as error:
            self.log.violation(f"{request.command} {request.path}: {error}")
            return Reply(400, {"error": str(error)})

    def content_request(self, request, method, segments):
        if segments[:2] == ["v1", "telemetry"]:
            return Reply(200, {})
        may_write = self.check_token(request)
        version = {"v1": 1, "v2": 2}.get(segments[0])
        if segments[:3] == ["v1", "xorbs", "default"] and len(segments) == 4:
            raw = xet.raw_of(segments[3])
            if method == "POST":
                self.require(may_write)
                return Reply(200, {"was_inserted": self.content.add_xorb(raw, request.body)})
            known = self.content.xorbs.get(raw)
            return Reply(200, b"", {"Content-Length": str(len(known.body))}) if known else refused(404, "Not Found")
        if self.settings["grants"] and segments[:3] == ["v1", "xorb-grants", "default"] and len(segments) == 4:
            self.require(may_write)
            given = self.grants.give(xet.raw_of(segments[3]), json.loads(request.body), self.cdn.url)
            return Reply(201, given) if given else Reply(200, {})
        if segments[:3] == ["v1", "xorb-commits", "default"] and segments[4:5] == ["grant"] and len(segments) == 6:
            self.require(may_write)
            is_there = self.grants.commit(xet.raw_of(segments[3]), segments[5])
            return Reply(200, {}) if is_there else refused(404, "No data was uploaded for this grant")
        if segments[1:] == ["shards"] and method == "POST" and version in self.settings["shard_versions"]:
            self.require(may_write)
            return self.add_shard(request.body, version)
        if segments[1:2] == ["reconstructions"] and len(segments) == 3 and method == "GET" and (
                version in self.settings["reconstruction_versions"]):
            raw = xet.raw_of(segments[2])
            if raw not in self.content.files:
                return refused(404, "Not Found")
            size = self.content.files[raw].size
            try:
                asked = parse_range(request.headers.get("Range"), size)
            except xet.Refused:
                return refused(416, "Range Not Satisfiable")
            found = self.content.reconstruction(raw, asked, self.cdn.url, version)
            return Reply(200, found) if found else refused(416, "Range Not Satisfiable")
        if segments[:2] == ["v1", "files"] and len(segments) == 3:
            known = self.content.files.get(xet.raw_of(segments[2]))
            return Reply(200, b"", {"Content-Length": str(known.size)}) if known else refused(404, "Not Found")
        return refused(404, "Not Found")

    def check_token(self, request):
        header = request.headers.get("Authorization", "")
        known = self.tokens.get(header.removeprefix("Bearer "))
        if known is None:
            if header.removeprefix("Bearer ") in self.users:
                self.log.violation(f"{request.path}: the token of the Hub went to the content store")
            raise refused(401, "Unauthorized")
        if known[2] < time.time():
            raise refused(401, "Token expired")
        return known[1]

    def require(self, may_write):
        if not may_write:
            raise refused(403, "Forbidden: a token for reading")

    def add_shard(self, body, version):
        if version == 1:
            return Reply(200, {"result": int(self.content.add_shard(body))})
        events = [{"type": "validating", "verified": 0, "total": 1}]
        try:
            result = {"type": "result", "result": int(self.content.add_shard(body))}
            events += [{"type": "committing", "stage": "uploading"}, {"type": "something new"}, result]
        except xet.Refused as error:
            self.log.violation(f"shard: {error}")
            events.append({"type": "error", "message": str(error), "retryable": False})
        return Reply(200, "".join(json.dumps(event) + "\n" for event in events).encode(),
                     content_type="application/x-ndjson")

    # The CDN -----------------------------------------------------------------------------------------------------

    def answer_cdn(self, request):
        if "Authorization" in request.headers:
            self.log.violation(f"{request.path}: a token went to the CDN")
            return refused(400, "Only one auth mechanism allowed")
        if request.command == "PUT" and request.segments[0] == "upload" and len(request.segments) == 2:
            try:
                return Reply(self.grants.upload(request.segments[1], request.body, request.headers["x-upload-secret"]))
            except xet.Refused as error:
                self.log.violation(f"{request.path}: {error}")
                return refused(400, str(error))
        granted = None
        if len(request.segments) == 2:
            granted = self.content.granted(*request.segments, request.query.get("signature"))
        if granted is None:
            return refused(403, "Forbidden")
        grant, size, read = granted
        if grant.kind == "xorb":
            try:
                asked = parse_range(request.headers.get("Range"), size)
            except xet.Refused:
                return refused(416, "Range Not Satisfiable")
            if asked != (grant.first, grant.last):
                self.log.violation(f"{request.path}: asked for {asked}, the link is for {grant.first}-{grant.last}")
                return refused(403, "Forbidden: the link is for other bytes")
        return self.ranged(request, size, read, {"ETag": f'"{xet.text_of(grant.raw)}"'})

    def ranged(self, request, size, read, headers):
        headers = {**headers, "Accept-Ranges": "bytes"}
        try:
            asked = parse_range(request.headers.get("Range"), size)
        except xet.Refused:
            return Reply(416, b"", {**headers, "Content-Range": f"bytes */{size}"})
        first, last = asked or (0, size - 1)
        if asked:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        return Reply(206 if asked else 200, iter(read(first, last)), headers, "application/octet-stream",
                     last + 1 - first)


def main():
    settings = {}
    words = sys.argv[1:]
    while words:
        if words.pop(0) != "--set" or not words or "=" not in words[0]:
            sys.exit(__doc__)
        name, value = words.pop(0).split("=", 1)
        settings[name] = json.loads(value)
    with Hub(**settings) as hub:
        print(hub.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
