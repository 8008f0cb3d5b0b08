# SPDX-License-Identifier: Apache-2.0
"""The emulated Hub alone: it takes what the protocol allows, refuses all else, and fails as it is asked to."""

import hashlib
import http.client
import json
import random
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path
from urllib.parse import urlsplit

import hub_grants
import xet
from hub_emulator import FULL_TOKEN, READ_TOKEN, STRANGER_TOKEN, WRITE_TOKEN, Hub


def request(method, url, body=None, token=None, headers=None):
    """(status, headers, body)."""
    split = urlsplit(url)
    connection = http.client.HTTPConnection(split.hostname, split.port, timeout=30)
    headers = dict(headers or {})
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    try:
        connection.request(method, split.path + (f"?{split.query}" if split.query else ""), body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def record(content):
    size = len(content).to_bytes(3, "little")
    return bytes(1) + size + bytes(1) + size + content


class Upload:
    """What a client would send of some files in one xorb."""

    def __init__(self, *contents):
        self.body, self.chunks, self.hashes, files = b"", [], [], b""
        made = []
        for content in contents:
            first = len(self.chunks)
            at = 0
            for size in xet.cut(content):
                self.body += record(content[at:at + size])
                self.chunks.append((xet.chunk_hash(content[at:at + size]), size))
                at += size
            made.append((first, len(self.chunks), len(content)))
        self.xorb = xet.root_of(self.chunks)
        for first, end, size in made:
            self.hashes.append(xet.text_of(xet.file_hash(self.chunks[first:end])))
            count = int(end > first)
            files += xet.raw_of(self.hashes[-1]) + self.numbers(1 << 31, count, 0, 0)
            if count:
                files += self.xorb + self.numbers(0, size, first, end)
                files += xet.verification_hash([raw for raw, _ in self.chunks[first:end]]) + bytes(16)
        self.files = files

    @staticmethod
    def numbers(*values):
        return b"".join(value.to_bytes(4, "little") for value in values)

    def shard(self):
        section_end = b"\xff" * 32 + bytes(16)
        xorbs = b""
        if self.chunks:
            total = sum(size for _, size in self.chunks)
            xorbs = self.xorb + self.numbers(0, len(self.chunks), total, len(self.body))
            at = 0
            for raw, size in self.chunks:
                xorbs += raw + self.numbers(at, size, 0, 0)
                at += size
        return xet.SHARD_TAG + self.numbers(2, 0, 0, 0) + self.files + section_end + xorbs + section_end


class Case(unittest.TestCase):
    settings = {}

    def setUp(self):
        self.hub = Hub(**self.settings)
        self.addCleanup(self.hub.close)
        self.bucket = f"{self.hub.url}/api/buckets/tester/run"
        self.random = random.Random(4)
        status, _, _ = self.api("POST", "/api/buckets/tester/run", {"private": True})
        self.assertEqual(status, 200)

    def api(self, method, path, body=None, token=WRITE_TOKEN, **more):
        return request(method, self.hub.url + path, body, token, **more)

    def json(self, *words, **more):
        status, _, body = self.api(*words, **more)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def cas_token(self, kind="write"):
        given = self.json("GET", f"/api/buckets/tester/run/xet-{kind}-token")
        self.assertEqual(given["casUrl"], self.hub.cas.url)
        return given["accessToken"]

    def cas(self, method, path, body=None, token=None, **more):
        return request(method, self.hub.cas.url + path, body, token or self.cas_token(), **more)

    def send(self, upload, version=1):
        token = self.cas_token()
        status, _, body = self.cas("POST", f"/v1/xorbs/default/{xet.text_of(upload.xorb)}", upload.body, token)
        self.assertEqual(status, 200, body)
        status, _, body = self.cas("POST", f"/v{version}/shards", upload.shard(), token)
        self.assertEqual(status, 200, body)
        return body

    def batch(self, *operations, token=WRITE_TOKEN):
        text = "\n".join(json.dumps(operation) for operation in operations)
        status, _, body = self.api("POST", "/api/buckets/tester/run/batch", text.encode(), token,
                                   headers={"Content-Type": "application/x-ndjson"})
        return status, json.loads(body)

    def add(self, path, digest):
        return {"type": "addFile", "path": path, "xetHash": digest, "mtime": 1795237084710}

    def put(self, **contents):
        """Uploads files by name, an underscore for each slash."""
        upload = Upload(*contents.values())
        self.send(upload)
        names = [name.replace("_", "/") for name in contents]
        status, answer = self.batch(*(self.add(name, digest) for name, digest in zip(names, upload.hashes)))
        self.assertEqual((status, answer["success"]), (200, True), answer)
        return upload

    def read(self, path, headers=None, follow_token=None):
        status, answer_headers, _ = self.api("GET", f"/buckets/tester/run/resolve/{path}", headers=headers)
        self.assertEqual(status, 302)
        return request("GET", answer_headers["Location"], token=follow_token, headers=headers)


class Buckets(Case):
    def test_create_tell_list_and_delete(self):
        self.assertEqual(self.api("POST", "/api/buckets/me/second", {})[0], 200)
        status, _, body = self.api("POST", "/api/buckets/tester/run", {})
        self.assertEqual((status, json.loads(body)["url"]), (409, f"{self.hub.url}/buckets/tester/run"))
        told = self.json("GET", "/api/buckets/tester/run")
        self.assertEqual((told["id"], told["private"], told["size"], told["totalFiles"]), ("tester/run", True, 0, 0))
        self.assertRegex(told["createdAt"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual([bucket["id"] for bucket in self.json("GET", "/api/buckets/me")],
                         ["tester/run", "tester/second"])
        self.assertEqual([bucket["id"] for bucket in self.json("GET", "/api/buckets/tester?search=sec", token=None)],
                         ["tester/second"])
        self.assertEqual(self.api("DELETE", "/api/buckets/tester/second")[0], 200)
        self.assertEqual(self.api("GET", "/api/buckets/tester/second")[0], 404)
        for name in ("a--b", ".a", "a..b", "a.git", "x" * 100):
            self.assertEqual(self.api("POST", f"/api/buckets/tester/{name}", {})[0], 400, name)

    def test_who_may_do_what(self):
        self.api("POST", "/api/buckets/tester/open", {})
        for method, path, token, expected in (
                ("GET", "tester/run", None, 401), ("GET", "tester/run", STRANGER_TOKEN, 404),
                ("GET", "tester/run", "hf_wrong", 401), ("GET", "tester/run", READ_TOKEN, 200),
                ("GET", "tester/run/xet-write-token", READ_TOKEN, 403),
                ("GET", "tester/run/xet-read-token", READ_TOKEN, 200),
                ("GET", "tester/open", None, 200), ("GET", "tester/open/xet-read-token", None, 200),
                ("GET", "tester/open/xet-write-token", STRANGER_TOKEN, 403), ("POST", "tester/new", READ_TOKEN, 403),
                ("POST", "tester/new", STRANGER_TOKEN, 403), ("POST", "tester/new", None, 401),
                ("DELETE", "tester/run", READ_TOKEN, 403), ("GET", "tester/none", WRITE_TOKEN, 404),
                ("POST", "stranger/run/batch", WRITE_TOKEN, 404)):
            status, headers, _ = self.api(method, f"/api/buckets/{path}", {} if method == "POST" else None, token)
            self.assertEqual(status, expected, (method, path, token))
            if expected == 404:
                self.assertEqual(headers["X-Error-Code"], "RepoNotFound")
            self.assertTrue(status == 200 or headers["X-Error-Message"])
        self.api("POST", "/api/buckets/full/run", {}, FULL_TOKEN)
        status, _, body = self.api("POST", "/api/buckets/full/run/batch", b"{}", FULL_TOKEN,
                                   headers={"Content-Type": "application/x-ndjson"})
        self.assertEqual((status, b"Storage limit" in body), (403, True))


class Listings(Case):
    def setUp(self):
        super().setUp()
        self.put(a_x=b"1", a_y_z=b"22", ab=b"333", b=b"")

    def names(self, path):
        return [(entry["type"], entry["path"]) for entry in self.json("GET", f"/api/buckets/tester/run/tree{path}")]

    def test_prefixes_are_of_the_key(self):
        files = [("file", name) for name in ("a/x", "a/y/z", "ab", "b")]
        self.assertEqual(self.names(""), files)
        self.assertEqual(self.names("?recursive=true"), files)
        self.assertEqual(self.names("?recursive=false"), [("directory", "a"), files[2], files[3]])
        self.assertEqual(self.names("/a?recursive=true"), files[:3])
        self.assertEqual(self.names("/a%2Fy?recursive=true"), files[1:2])
        self.assertEqual(self.names("/a?recursive=false"), [("file", "a/x"), ("directory", "a/y"), ("file", "ab")])
        entry = self.json("GET", "/api/buckets/tester/run/tree/a/x")[0]
        self.assertEqual((entry["size"], entry["mtime"]), (1, "2026-11-21T04:58:04.710Z"))
        self.assertRegex(entry["uploadedAt"], r"\.\d{3}Z$")

    def test_pages(self):
        for recursive in ("true", "false"):
            whole = self.names(f"?recursive={recursive}")
            found, cursor, pages = [], "", 0
            while cursor is not None:
                status, headers, body = self.api(
                    "GET", f"/api/buckets/tester/run/tree?recursive={recursive}&limit=2{cursor}")
                found += [(entry["type"], entry["path"]) for entry in json.loads(body)]
                link = headers["Link"]
                cursor = "&cursor=" + link.split("cursor=")[1].split(">")[0] if link else None
                pages += 1
            self.assertEqual((found, pages), (whole, 2))
        self.assertEqual(self.api("GET", "/api/buckets/tester/run/tree?limit=5001")[0], 400)

    def test_listings_lag_when_told_to(self):
        self.hub.settings["listing_delay_s"] = 100
        self.assertEqual(self.names(""), [])
        self.assertEqual(len(self.json("POST", "/api/buckets/tester/run/paths-info", {"paths": ["ab", "none"]})), 1)
        self.hub.settings["paths_delay_s"] = 100
        self.assertEqual(self.json("POST", "/api/buckets/tester/run/paths-info", {"paths": ["ab"]}), [])
        self.hub.settings["listing_delay_s"] = 0
        self.batch({"type": "deleteFile", "path": "ab"})
        self.assertNotIn(("file", "ab"), self.names(""))
        self.hub.settings["listing_delay_s"] = 0.3
        time.sleep(0.4)
        self.batch({"type": "deleteFile", "path": "b"})
        self.assertIn(("file", "b"), self.names(""))
        time.sleep(0.4)
        self.assertNotIn(("file", "b"), self.names(""))


class Uploads(Case):
    def test_files_go_up_and_come_back(self):
        big = self.random.randbytes(400_000)
        for version in (1, 2):
            upload = Upload(big + bytes([version]), b"", b"small")
            body = self.send(upload, version)
            last = json.loads(body.splitlines()[-1])
            self.assertEqual(last.get("type"), "result" if version == 2 else None)
            self.assertEqual(last["result"], 1)
            status, answer = self.batch(*(self.add(f"f{i}", digest) for i, digest in enumerate(upload.hashes)))
            self.assertEqual((status, answer), (200, {"success": True, "processed": 3, "succeeded": 3, "failed": []}))
            self.assertEqual(self.hub.file("tester/run", "f0"), big + bytes([version]))
            for path, content in (("f0", big + bytes([version])), ("f1", b""), ("f2", b"small")):
                self.assertEqual(self.read(path)[2], content)
            status, headers, body = self.read("f0", {"Range": "bytes=100000-299999"})
            self.assertEqual((status, headers["Content-Range"]), (206, "bytes 100000-299999/400001"))
            self.assertEqual(body, big[100000:300000])
            self.assertEqual(self.read("f0", {"Range": "bytes=400001-"})[0], 416)
        self.assertEqual(self.hub.log.violations, [])

    def test_a_head_tells_size_hash_and_routes(self):
        upload = self.put(a_b=b"content")
        for path in ("a/b", "a%2Fb"):
            status, headers, body = self.api("HEAD", f"/buckets/tester/run/resolve/{path}")
            self.assertEqual((status, headers["X-Xet-Hash"], headers["Content-Length"], body),
                             (302, upload.hashes[0], "7", b""))
            self.assertIn('/api/buckets/tester/run/xet-read-token>; rel="xet-auth"', headers["Link"])
        status, headers, _ = self.api("GET", "/buckets/tester/run/resolve/none")
        self.assertEqual((status, headers["X-Error-Code"]), (404, "EntryNotFound"))
        status, headers, body = self.api("GET", "/buckets/tester/run/resolve/a/b",
                                         headers={"Accept": "application/vnd.xet-fileinfo+json, */*"})
        self.assertEqual((status, json.loads(body)["size"]), (200, 7))

    def test_what_is_known_is_told(self):
        upload = Upload(b"content")
        address = f"/v1/xorbs/default/{xet.text_of(upload.xorb)}"
        self.assertEqual(self.cas("HEAD", address)[0], 404)
        self.assertEqual(json.loads(self.cas("POST", address, upload.body)[2]), {"was_inserted": True})
        self.assertEqual(json.loads(self.cas("POST", address, upload.body)[2]), {"was_inserted": False})
        status, headers, _ = self.cas("HEAD", address)
        self.assertEqual((status, headers["Content-Length"]), (200, str(len(upload.body))))
        self.assertEqual(self.cas("HEAD", f"/v1/files/{upload.hashes[0]}")[0], 404)
        self.assertEqual(json.loads(self.cas("POST", "/v1/shards", upload.shard())[2]), {"result": 1})
        self.assertEqual(json.loads(self.cas("POST", "/v1/shards", upload.shard())[2]), {"result": 0})
        status, headers, _ = self.cas("HEAD", f"/v1/files/{upload.hashes[0]}")
        self.assertEqual((status, headers["Content-Length"]), (200, "7"))

    def test_grants(self):
        self.assertEqual(hub_grants.crc64(b"123456789"), 0xAE8B14860A799888)
        upload = Upload(b"content")
        token = self.cas_token()
        name = xet.text_of(upload.xorb)
        asked = {"length": len(upload.body),
                 "checksum": {"algo": "crc64nvme", "value": str(hub_grants.crc64(upload.body))}}
        status, _, body = self.cas("POST", f"/v1/xorb-grants/default/{name}", asked, token)
        grant = json.loads(body)
        self.assertEqual((status, grant["method"]), (201, "PUT"))
        commit = f"/v1/xorb-commits/default/{name}/grant/{grant['id']}"
        self.assertEqual(self.cas("POST", commit, token=token)[0], 404)
        self.assertEqual(request("PUT", grant["url"], upload.body)[0], 403)
        self.assertEqual(request("PUT", grant["url"], upload.body[:-1] + b"!", headers=grant["headers"])[0], 400)
        self.assertEqual(request("PUT", grant["url"], upload.body, WRITE_TOKEN, grant["headers"])[0], 400)
        self.assertEqual(request("PUT", grant["url"], upload.body, headers=grant["headers"])[0], 200)
        self.assertEqual(request("PUT", grant["url"], upload.body, headers=grant["headers"])[0], 412)
        self.assertEqual(self.cas("HEAD", f"/v1/xorbs/default/{name}", token=token)[0], 404)
        self.assertEqual(self.cas("POST", commit, token=token)[0], 200)
        self.assertEqual(self.cas("HEAD", f"/v1/xorbs/default/{name}", token=token)[0], 200)
        self.assertEqual(self.cas("POST", f"/v1/xorb-grants/default/{name}", asked, token)[0], 200)
        self.hub.settings["grants"] = False
        self.assertEqual(self.cas("POST", f"/v1/xorb-grants/default/{name}", asked, token)[0], 404)

    def test_order_is_kept(self):
        upload = Upload(b"content")
        self.assertEqual(self.cas("POST", "/v1/shards", upload.shard())[0], 400)
        status, _, body = self.cas("POST", "/v2/shards", upload.shard())
        self.assertEqual((status, json.loads(body.splitlines()[-1])["type"]), (200, "error"))
        self.assertEqual(self.batch(self.add("f", upload.hashes[0]))[0], 422)
        self.assertEqual(self.cas("POST", f"/v1/xorbs/default/{xet.text_of(upload.xorb)}", upload.body)[0], 200)
        self.assertEqual(self.batch(self.add("f", upload.hashes[0]))[0], 422)
        self.assertEqual(self.cas("POST", "/v1/shards", upload.shard())[0], 200)
        self.assertEqual(self.batch(self.add("f", upload.hashes[0]))[0], 200)
        self.assertEqual(self.batch({"type": "deleteFile", "path": "f"}, self.add("f", upload.hashes[0]))[0], 400)
        self.assertEqual(self.batch(self.add("f", upload.hashes[0]), {"type": "deleteFile", "path": "f"})[0], 200)
        self.assertEqual(len(self.hub.log.violations), 5)

    def test_every_wrong_hash_is_refused(self):
        upload = Upload(self.random.randbytes(200_000), b"small")
        body = bytearray(upload.body)
        address = f"/v1/xorbs/default/{xet.text_of(upload.xorb)}"
        for place in (4, 8, 100_000, len(body) - 1):
            damaged = body[:place] + bytes([body[place] ^ 1]) + body[place + 1:]
            self.assertEqual(self.cas("POST", address, bytes(damaged))[0], 400, place)
        self.assertEqual(self.cas("POST", address, bytes(body[:-1]))[0], 400)
        self.assertEqual(self.cas("POST", address, bytes(body))[0], 200)
        shard = upload.shard()
        token = self.cas_token()
        # In each record: the first byte of its hash, and of each of its numbers that tells something.
        for begin in range(0, len(shard), 48):
            for offset in (0, 32, 36, 40):
                damaged = shard[:begin + offset] + bytes([shard[begin + offset] ^ 1]) + shard[begin + offset + 1:]
                status = self.cas("POST", "/v1/shards", damaged, token)[0]
                self.assertEqual(status, 400, (begin // 48, offset))
        self.assertEqual(self.cas("POST", "/v1/shards", shard, token)[0], 200)

    def test_files_cut_elsewhere_are_refused(self):
        content = self.random.randbytes(300_000)
        original, xet.cut = xet.cut, lambda content: [100_000, 100_000, 100_000]
        try:
            upload = Upload(content)
        finally:
            xet.cut = original
        token = self.cas_token()
        self.cas("POST", f"/v1/xorbs/default/{xet.text_of(upload.xorb)}", upload.body, token)
        self.assertEqual(self.cas("POST", "/v1/shards", upload.shard(), token)[0], 400)
        self.hub.settings["verify_cuts"] = False
        self.assertEqual(self.cas("POST", "/v1/shards", upload.shard(), token)[0], 200)

    def test_without_verification_large_files_pass_quickly(self):
        self.hub.settings.update(verify=False, verify_cuts=False)
        self.put(f=b"content")
        self.assertEqual(self.read("f")[2], b"content")

    def test_limits(self):
        digest = xet.text_of(xet.ZERO)
        self.assertEqual(self.batch(*(self.add(f"f{i}", digest) for i in range(1001)))[0], 400)
        self.assertEqual(self.batch(*(self.add(f"f{i}", digest) for i in range(1000)))[0], 200)
        self.assertEqual(self.api("POST", "/api/buckets/tester/run/paths-info", {"paths": ["f"] * 2001})[0], 400)
        many = b"".join(record(bytes([i % 256, i // 256])) for i in range(8193))
        self.assertEqual(self.cas("POST", f"/v1/xorbs/default/{digest}", many)[0], 400)
        for path in ("/f", "f/", "a//b", "./f", "a/../b", "a/..", "a\\b", "a\0b", ""):
            self.assertEqual(self.batch(self.add(path, digest))[0], 422, path)
        self.assertEqual(self.batch({**self.add("f", digest), "mtime": 1795237084})[0], 422)
        self.assertEqual(self.api("POST", "/api/buckets/tester/run/batch", json.dumps(self.add("f", digest)).encode(),
                                  headers={"Content-Type": "application/json"})[0], 400)

    def test_tokens_of_the_content_store(self):
        upload = Upload(b"content")
        address = f"/v1/xorbs/default/{xet.text_of(upload.xorb)}"
        self.assertEqual(request("POST", self.hub.cas.url + address, upload.body)[0], 401)
        self.assertEqual(self.cas("POST", address, upload.body, WRITE_TOKEN)[0], 401)
        self.assertIn("the token of the Hub went to the content store", self.hub.log.violations[-1])
        self.assertEqual(self.cas("POST", address, upload.body, self.cas_token("read"))[0], 403)
        self.hub.settings["token_s"] = -1
        self.assertEqual(self.cas("POST", address, upload.body)[0], 401)

    def test_reconstructions(self):
        content = self.random.randbytes(600_000)
        upload = self.put(f=content)
        for version, shelf in ((1, "fetch_info"), (2, "xorbs")):
            for begin, end in ((0, 599_999), (200_000, 200_000), (599_999, 700_000)):
                status, _, body = self.cas("GET", f"/v{version}/reconstructions/{upload.hashes[0]}",
                                           token=self.cas_token("read"), headers={"Range": f"bytes={begin}-{end}"})
                self.assertEqual(status, 200)
                answer = json.loads(body)
                found = b""
                for term, entry in zip(answer["terms"], answer[shelf][xet.text_of(upload.xorb)]):
                    span = entry["url_range"] if version == 1 else entry["ranges"][0]["bytes"]
                    status, _, part = request("GET", entry["url"],
                                              headers={"Range": f"bytes={span['start']}-{span['end']}"})
                    self.assertEqual(status, 206)
                    xorb = xet.read_xorb(part)
                    found += b"".join(xorb.content(i) for i in range(len(xorb.chunks)))
                    self.assertEqual(request("GET", entry["url"], headers={"Range": "bytes=0-9"})[0], 403)
                skipped = answer["offset_into_first_range"]
                self.assertEqual(found[skipped:skipped + end + 1 - begin], content[begin:end + 1])
            self.assertEqual(self.cas("GET", f"/v{version}/reconstructions/{upload.hashes[0]}",
                                      headers={"Range": "bytes=600000-"})[0], 416)
            self.assertEqual(self.cas("GET", f"/v{version}/reconstructions/{'0' * 63}1")[0], 404)
        self.hub.settings.update(reconstruction_versions=[1], shard_versions=[1])
        self.assertEqual(self.cas("GET", f"/v2/reconstructions/{upload.hashes[0]}")[0], 404)
        self.assertEqual(self.cas("POST", "/v2/shards", upload.shard())[0], 404)

    def test_the_cdn_wants_no_token_and_its_links_end(self):
        self.put(f=b"content")
        self.assertEqual(self.read("f", follow_token=WRITE_TOKEN)[0], 400)
        self.assertIn("a token went to the CDN", self.hub.log.violations[-1])
        self.assertEqual(request("GET", f"{self.hub.cdn.url}/file/{'0' * 64}?signature=x")[0], 403)
        self.hub.settings["link_s"] = -1
        self.assertEqual(self.read("f")[0], 403)

    def test_models_and_copies_from_them(self):
        weights = self.random.randbytes(100_000)
        commit = "c" * 40
        self.hub.add_model("org/model", commit, {"config.json": b"{}", "model.safetensors": weights})
        self.assertEqual(self.json("GET", "/api/models/org/model/revision/main")["sha"], commit)
        entries = {entry["path"]: entry for entry in self.json("GET", f"/api/models/org/model/tree/{commit}")}
        digest = entries["model.safetensors"]["xetHash"]
        self.assertNotIn("xetHash", entries["config.json"])
        self.assertEqual(entries["config.json"]["oid"], "9e26dfeeb6e641a33dae4961196235bdb965b21b")  # git's for "{}"
        self.assertEqual(entries["model.safetensors"]["lfs"]["oid"], hashlib.sha256(weights).hexdigest())
        asked = self.json("POST", f"/api/models/org/model/paths-info/{commit}", {"paths": ["no", "config.json"]})
        self.assertEqual(asked, [entries["config.json"]])
        status, headers, _ = self.api("HEAD", f"/org/model/resolve/{commit}/model.safetensors")
        self.assertEqual((status, headers["X-Xet-Hash"], headers["X-Repo-Commit"], headers["Content-Length"]),
                         (302, digest, commit, "100000"))
        status, headers, _ = self.api("GET", "/org/model/resolve/main/config.json")
        self.assertEqual(status, 307)
        self.assertEqual(self.api("GET", headers["Location"])[2], b"{}")
        status, headers, _ = self.api("GET", "/org/model/resolve/other/config.json")
        self.assertEqual((status, headers["X-Error-Code"]), (404, "RevisionNotFound"))
        copy = {"type": "copyFile", "path": "base.safetensors", "xetHash": digest, "sourceRepoType": "model",
                "sourceRepoId": "org/model"}
        self.assertEqual(self.batch(copy)[0], 200)
        self.assertEqual(self.read("base.safetensors")[2], weights)
        self.assertEqual(self.batch({**copy, "sourceRepoId": "org/none"})[0], 422)
        self.assertEqual(self.batch({**copy, "xetHash": xet.text_of(xet.ZERO)})[0], 422)
        self.hub.buckets.models["org/model"].private = True
        self.assertEqual(self.api("GET", "/api/models/org/model", token=STRANGER_TOKEN)[0], 404)

    def test_a_model_that_moves_and_one_that_is_gated(self):
        first, second = "1" * 40, "2" * 40
        self.hub.add_model("org/model", first, {"a/b/config.json": b"{}", "a/model.safetensors": b"old"})
        self.hub.add_model("org/model", second, {"a/b/config.json": b"[]", "a/model.safetensors": b"new"})
        self.hub.buckets.models["org/model"].branches["refs/pr/1"] = first
        for revision, commit in (("main", second), (first, first), ("refs%2Fpr%2F1", first)):
            self.assertEqual(self.json("GET", f"/api/models/org/model/revision/{revision}")["sha"], commit)
        self.hub.settings["page"] = 2
        status, headers, body = self.api("GET", f"/api/models/org/model/tree/{first}?recursive=true")
        self.assertEqual([entry["path"] for entry in json.loads(body)], ["a", "a/b"])
        rest = headers["Link"][1:].partition(">")[0].removeprefix(self.hub.url)
        self.assertEqual([entry["path"] for entry in self.json("GET", rest)], ["a/b/config.json", "a/model.safetensors"])
        self.assertEqual([entry["path"] for entry in self.json("GET", f"/api/models/org/model/tree/{first}")], ["a"])
        self.hub.buckets.models["org/model"].gated = True
        for token, status in ((None, 401), (STRANGER_TOKEN, 403), (WRITE_TOKEN, 302)):
            found, headers, _ = request("GET", f"{self.hub.url}/org/model/resolve/main/a/model.safetensors", token=token)
            self.assertEqual((found, headers["X-Error-Code"]), (status, None if status == 302 else "GatedRepo"))
        self.hub.renamed["org/old"] = "org/model"
        status, headers, _ = self.api("GET", "/api/models/org/old/revision/main")
        self.assertEqual((status, headers["Location"]), (307, "/api/models/org/model/revision/main"))


class FaultsOnRequest(Case):
    def setUp(self):
        super().setUp()
        self.content = self.random.randbytes(50_000)
        self.upload = self.put(f=self.content)
        self.hub.log.clear()

    def test_statuses_and_rate_limits(self):
        self.hub.faults.add(match="GET /api/buckets", kind="status", status=503, times=2)
        self.hub.faults.add(match="GET /api/buckets", kind="rate_limit", seconds=7)
        found = [self.api("GET", "/api/buckets/tester/run") for _ in range(4)]
        self.assertEqual([status for status, _, _ in found], [503, 503, 429, 200])
        self.assertEqual(found[2][1]["RateLimit"], '"api";r=0;t=7')
        self.assertEqual([entry["fault"] for entry in self.hub.log.requests], ["status", "status", "rate_limit", None])

    def test_resets_and_cuts(self):
        for kind, error in (("reset", (ConnectionResetError, http.client.IncompleteRead)),
                            ("truncate", http.client.IncompleteRead), ("lose_reply", ConnectionResetError)):
            self.hub.faults.add(match="/file/", kind=kind, bytes=20_000)
            with self.assertRaises(error):
                self.read("f")
            self.assertEqual(self.read("f")[2], self.content)
        self.hub.faults.add(match="/batch", kind="reset", at="request")
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            self.batch({"type": "deleteFile", "path": "f"})
        self.assertEqual(self.read("f")[2], self.content)
        # The reply is lost, what was asked for is done.
        self.hub.faults.add(match="/batch", kind="lose_reply")
        with self.assertRaises(ConnectionResetError):
            self.batch({"type": "deleteFile", "path": "f"})
        self.assertEqual(self.api("GET", "/buckets/tester/run/resolve/f")[0], 404)

    def test_damage_and_slowness(self):
        self.hub.faults.add(match="/file/", kind="damage", bytes=300)
        found = self.read("f")[2]
        self.assertEqual([i for i in range(len(found)) if found[i] != self.content[i]], [300])
        self.hub.faults.add(match="/file/", kind="slow", seconds=0.2, pause_s=0.01)
        started = time.monotonic()
        self.assertEqual(self.read("f")[2], self.content)
        self.assertGreater(time.monotonic() - started, 0.2)

    def test_a_reply_that_comes_twice(self):
        self.hub.faults.add(match="/api/buckets/tester/run", kind="duplicate")
        split = urlsplit(self.hub.url)
        with socket.create_connection((split.hostname, split.port), timeout=30) as connection:
            connection.sendall(f"GET /api/buckets/tester/run HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n"
                               f"Authorization: Bearer {WRITE_TOKEN}\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        self.assertEqual((answer.count(b"HTTP/1.1 200"), answer.count(b'"id": "tester/run"')), (2, 2))

    def test_a_success_that_is_none(self):
        self.hub.settings["failing_operations"] = [1]
        operations = [self.add(name, self.upload.hashes[0]) for name in ("p", "q", "r")]
        status, answer = self.batch(*operations)
        self.assertEqual((status, answer["success"], answer["succeeded"], [failed["path"] for failed in answer["failed"]]),
                         (200, False, 2, ["q"]))
        self.assertEqual(self.batch(operations[1])[1]["success"], True)
        self.hub.settings["xorbs_are_known"] = True
        address = f"/v1/xorbs/default/{xet.text_of(Upload(b'new').xorb)}"
        self.assertEqual(json.loads(self.cas("POST", address, Upload(b"new").body)[2]), {"was_inserted": False})


class FromOutside(unittest.TestCase):
    def test_a_program_of_its_own(self):
        program = [sys.executable, "-B", str(Path(__file__).with_name("hub_emulator.py")), "--set", "page=1"]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hub:
            url = hub.stdout.readline().strip()
            control = f"{url}/_control"
            self.assertEqual(json.loads(request("GET", f"{control}/settings")[2])["page"], 1)
            request("POST", f"{control}/settings", {"token_s": 5})
            request("POST", f"{control}/faults", {"match": "GET /api", "kind": "status", "status": 500})
            request("POST", f"{control}/models", {"name": "org/m", "commit": "d" * 40, "files": {"a": {"text": "b"}}})
            self.assertEqual(request("GET", f"{url}/api/models/org/m")[0], 500)
            self.assertEqual(request("GET", f"{url}/api/models/org/m")[0], 200)
            log = json.loads(request("GET", f"{control}/log")[2])
            self.assertEqual([(entry["method"], entry["path"], entry["status"]) for entry in log],
                             [("GET", "/api/models/org/m", 500), ("GET", "/api/models/org/m", 200)])
            self.assertEqual(json.loads(request("GET", f"{control}/violations")[2]), [])
            request("DELETE", f"{control}/faults")
            hub.stdin.close()
            self.assertEqual(hub.wait(30), 0)


if __name__ == "__main__":
    unittest.main()
