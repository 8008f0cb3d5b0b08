# SPDX-License-Identifier: Apache-2.0
"""An S3 of our own, on loopback, for tests: strict where real ones are strict, and as faulty as a test asks for.

It checks every signature (Signature Version 4, in headers), the hash of every body, its length, conditions on writes,
ETags of parts; it pages its lists. What it refuses as a protocol error of ours it also remembers: see `S3.violations`.
A test uses it as

    with S3(fault="...") as s3: ...

or runs it by itself: s3_emulator.py [PORT].
"""

import datetime
import hashlib
import hmac
import http.server
import re
import sys
import threading
import time
import urllib.parse
import uuid
from xml.sax.saxutils import escape

KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
REGION = "eu-test-1"
SMALLEST_PART = 5 << 20
EMPTY_HASH = hashlib.sha256(b"").hexdigest()


class Object:
    def __init__(self, content, etag, clock):
        self.content, self.etag, self.time = content, etag, clock


class Upload:
    def __init__(self, key, clock):
        self.key, self.time, self.parts = key, clock, {}


class Refusal(Exception):
    """An answer with an error document."""

    def __init__(self, status, code, message="", **headers):
        super().__init__(code)
        self.status, self.code, self.message, self.headers = status, code, message, headers


class Fault:
    """What goes wrong with the next requests: `kind`, for `count` of those that `matches` (method and path) describes.

    status:N      answers N, with nothing done; status:N:CODE with that code
    timeout       answers 400 RequestTimeout, with nothing done, as AWS does when a body comes too slowly
    sends-on:URL TEXT   answers 307 with that place to go to ("{path}": the request's) and that text, with nothing done
    says:TEXT     answers 200 and that text, with nothing done
    reset         closes the connection in the middle of the answer's body
    truncate      sends half of the body, then ends in good order
    slow          sends the body in small pieces with pauses
    drop          closes the connection with nothing done
    lost          does what was asked for, and closes the connection instead of answering
    after:N       does what was asked for, and answers N
    elsewhere     sends a reader on to another address, as the Hub's gateway does
    expired       does so with an address that is not good any more
    beginning     sends an object's first bytes whichever were asked for, and says so
    unmarked      sends a part of an object with status 200, saying which it is
    claims:N      says that an object has N bytes, or "*", when it sends a part of it
    """

    def __init__(self, kind, count=1, matches="", headers=None):
        self.kind, self.count, self.matches, self.headers = kind, count, re.compile(matches), headers or {}


class S3:
    """A server with buckets; a context."""

    def __init__(self, buckets=("bucket",), page=1000, ignores_conditions=False, clock_offset=0, list_parts=True, port=0):
        self.port = port
        self.buckets = {name: {} for name in buckets}
        self.uploads = {}
        self.page, self.ignores_conditions, self.list_parts = page, ignores_conditions, list_parts
        self.clock_offset = clock_offset
        self.faults = []
        self.requests = []  # "METHOD /path?query" in the order of their arrival
        self.bytes_in = self.bytes_out = 0
        self.violations = []
        self.lock = threading.RLock()
        self.keys = {KEY_ID: SECRET}
        self.session_tokens = {}
        self.tickets = {}
        self.rewrite = lambda text: text  # of documents: what stores say in other ways than AWS

    def __enter__(self):
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.server.s3 = self
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def environment(self, **more):
        """What a client needs to know."""
        return {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": REGION, "no_proxy": "127.0.0.1", **more}

    def clock(self):
        return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.clock_offset)

    def fault_for(self, request):
        with self.lock:
            for fault in self.faults:
                if fault.count > 0 and fault.matches.search(request):
                    fault.count -= 1
                    return fault
        return None


def sign(secret, text):
    return hmac.new(secret, text.encode(), hashlib.sha256).digest()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # else clients that connect eight times at once wait a second now and then


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of an answer are two writes: without it each would wait for the other's receipt.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    @property
    def s3(self):
        return self.server.s3

    def do_GET(self):
        self.serve()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def serve(self):
        self.fault = None
        path, _, query = self.path.partition("?")
        request = f"{self.command} {self.path}"
        with self.s3.lock:
            self.s3.requests.append(request)
        try:
            body = self.read_body()
            self.fault = self.s3.fault_for(request)
            if self.fault and self.fault.kind.startswith("status:"):
                status, _, code = self.fault.kind[7:].partition(":")
                known = {"503": "SlowDown", "429": "TooManyRequests", "507": "QuotaExceeded"}
                raise Refusal(int(status), code or known.get(status, "Odd"), **self.fault.headers)
            if self.fault and self.fault.kind == "timeout":
                raise Refusal(400, "RequestTimeout")
            if self.fault and self.fault.kind.startswith("sends-on:"):
                url, text = self.fault.kind[9:].split(" ", 1)
                self.reply(307, text.encode(), Location=url.replace("{path}", self.path), **self.fault.headers)
                return
            if self.fault and self.fault.kind.startswith("says:"):
                self.reply(200, self.fault.kind[5:].encode())
                return
            if self.fault and self.fault.kind == "drop":
                self.close_connection = True
                return
            pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
            if dict(pairs).get("ticket"):
                return self.serve_elsewhere(dict(pairs)["ticket"])
            self.check_signature(path, query, body)
            self.answer(path, dict(pairs), body)
        except Refusal as refusal:
            text = (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{refusal.code}</Code>'
                    f"<Message>{escape(refusal.message)}</Message><RequestId>{uuid.uuid4().hex}</RequestId></Error>")
            self.reply(refusal.status, text.encode(), **refusal.headers)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def read_body(self):
        if self.headers.get("Transfer-Encoding"):
            self.violate("a body in chunks")
        if self.headers.get("Expect"):
            self.violate("an Expect header")
        length = self.headers.get("Content-Length")
        if length is None and self.command in ("PUT", "POST"):
            self.violate("a body without Content-Length")
        body = self.rfile.read(int(length or 0))
        if len(body) < int(length or 0):
            raise ConnectionResetError  # a request that is not whole has no effect
        with self.s3.lock:
            self.s3.bytes_in += len(body)
        return body

    def violate(self, what):
        with self.s3.lock:
            self.s3.violations.append(f"{self.command} {self.path}: {what}")
        self.close_connection = True
        raise Refusal(400, "InvalidRequest", what)

    def check_signature(self, path, query, body):
        words = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, "
                             r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
                             self.headers.get("Authorization", ""))
        if not words:
            raise Refusal(403, "AccessDenied", "no signature")
        key_id, day, region, names, signature = words.groups()
        if region != REGION:
            raise Refusal(400, "AuthorizationHeaderMalformed", f"the region is {REGION}", **{"x-amz-bucket-region": REGION})
        secret = self.s3.keys.get(key_id)
        if secret is None:
            raise Refusal(403, "InvalidAccessKeyId", "no such key")
        if self.s3.session_tokens.get(key_id) != self.headers.get("x-amz-security-token"):
            raise Refusal(403, "InvalidToken", "another session token is expected")
        stamp = self.headers.get("x-amz-date", "")
        when = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs((self.s3.clock() - when).total_seconds()) > 900:
            raise Refusal(403, "RequestTimeTooSkewed", "the difference is too large")
        hash_said = self.headers.get("x-amz-content-sha256", "")
        if hash_said != hashlib.sha256(body).hexdigest() and hash_said != "UNSIGNED-PAYLOAD":
            self.violate(f"the body is not what its hash {hash_said} says")
        signed = names.split(";")
        if signed != sorted(signed) or "host" not in signed:
            self.violate("signed headers out of order or without host")
        left_out = [name for name in self.headers if name.lower().startswith("x-amz-") and name.lower() not in signed]
        if left_out:
            self.violate(f"{left_out} are not signed")
        lines = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in signed)
        if path != "/".join(urllib.parse.quote(urllib.parse.unquote(part), safe="-_.~") for part in path.split("/")):
            self.violate("the path is not encoded as it must be")
        pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
        canonical_query = "&".join(f"{urllib.parse.quote(name, safe='-_.~')}={urllib.parse.quote(value, safe='-_.~')}"
                                   for name, value in pairs)
        canonical = "\n".join([self.command, path, canonical_query, lines, names, hash_said])
        to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, f"{day}/{region}/s3/aws4_request",
                             hashlib.sha256(canonical.encode()).hexdigest()])
        key = sign(sign(sign(sign(b"AWS4" + secret.encode(), day), region), "s3"), "aws4_request")
        if not hmac.compare_digest(sign(key, to_sign).hex(), signature) or not stamp.startswith(day):
            raise Refusal(403, "SignatureDoesNotMatch", "the signature is another one")

    def answer(self, path, query, body):
        bucket_name, _, key = urllib.parse.unquote(path.lstrip("/")).partition("/")
        bucket = self.s3.buckets.get(bucket_name)
        if not key and self.command == "PUT" and not query:
            return self.make_bucket(bucket_name, bucket, body)
        if bucket is None:
            raise Refusal(404, "NoSuchBucket", "there is no such bucket")
        with self.s3.lock:
            if not key:
                return self.answer_for_bucket(bucket, query)
            if "uploads" in query or "uploadId" in query:
                return self.answer_for_upload(bucket, key, query, body)
            if self.command == "PUT":
                return self.put(bucket, key, body)
            if self.command == "DELETE":
                return self.delete(bucket, key)
        if self.command in ("GET", "HEAD"):
            return self.get(bucket, key)
        raise Refusal(405, "MethodNotAllowed")

    def get(self, bucket, key):
        found = bucket.get(key)
        if found is None:
            raise Refusal(404, "NoSuchKey", "there is no such key")
        if self.fault and self.fault.kind in ("elsewhere", "expired"):
            ticket = uuid.uuid4().hex
            self.s3.tickets[ticket] = found if self.fault.kind == "elsewhere" else None
            return self.reply(302, b"", Location=f"{self.s3.url}/cdn?ticket={ticket}")
        self.send_object(found)

    def serve_elsewhere(self, ticket):
        for name in ("Authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"):
            if self.headers.get(name):
                self.violate(f"{name} was sent along to another host")
        if self.s3.tickets[ticket] is None:
            raise Refusal(403, "AccessDenied", "this address is not good any more")
        self.send_object(self.s3.tickets[ticket])

    def send_object(self, found):
        headers = {"ETag": found.etag, "Content-Type": "application/octet-stream"}
        asked = self.headers.get("Range")
        if not asked:
            return self.reply(200, found.content, **headers)
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", asked).groups())
        if first > last:
            self.violate("a range that ends before it begins")
        size = len(found.content)
        if first >= size:
            raise Refusal(416, "InvalidRange", **{"Content-Range": f"bytes */{size}"})
        part = found.content[first:last + 1]
        if self.fault and self.fault.kind == "beginning":
            first, part = 0, found.content[:len(part)]
        if self.fault and self.fault.kind.startswith("claims:"):
            size = self.fault.kind[7:]
        headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{size}"
        self.reply(200 if self.fault and self.fault.kind == "unmarked" else 206, part, **headers)

    def put(self, bucket, key, body):
        found = bucket.get(key)
        if not self.s3.ignores_conditions:
            condition = self.headers.get("If-None-Match")
            if condition not in (None, "*"):
                raise Refusal(501, "NotImplemented", "If-None-Match takes * only")
            if condition and found:
                raise Refusal(412, "PreconditionFailed", "it is there already")
        bucket[key] = Object(body, f'"{hashlib.md5(body).hexdigest()}"', self.s3.clock())
        self.reply(200, b"", ETag=bucket[key].etag)

    def delete(self, bucket, key):
        condition = self.headers.get("If-Match")
        found = bucket.get(key)
        if condition and not self.s3.ignores_conditions and found and found.etag != condition:
            raise Refusal(412, "PreconditionFailed", "it is another one")
        bucket.pop(key, None)
        self.reply(204, b"")

    def make_bucket(self, name, bucket, body):
        if bucket is not None:
            raise Refusal(409, "BucketAlreadyOwnedByYou", "it is there")
        if name.startswith("taken"):
            raise Refusal(409, "BucketAlreadyExists", "somebody else has that name")
        if not re.fullmatch("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", name):
            raise Refusal(400, "InvalidBucketName", "that is no name for a bucket")
        if body:
            raise Refusal(400, "InvalidLocationConstraint", "there is one place here")
        self.s3.buckets[name] = {}
        self.reply(200, b"", Location=f"/{name}")

    def answer_for_bucket(self, bucket, query):
        if self.command == "HEAD" and not query:
            return self.reply(200, b"")
        if self.command != "GET":
            raise Refusal(405, "MethodNotAllowed")
        prefix = query.get("prefix", "")
        if "uploads" in query:
            rows = "".join(f"<Upload><Key>{escape(upload.key)}</Key><UploadId>{upload_id}</UploadId>"
                           f"<Initiated>{time_text(upload.time)}</Initiated></Upload>"
                           for upload_id, upload in sorted(self.s3.uploads.items(), key=lambda item: item[1].key)
                           if upload.key.startswith(prefix))
            return self.reply_xml("ListMultipartUploadsResult", f"<IsTruncated>false</IsTruncated>{rows}")
        if query.get("list-type") != "2":
            self.violate("a list of the old kind")
        keys = sorted((key for key in bucket if key.startswith(prefix)), key=str.encode)
        behind = query.get("continuation-token")
        if behind is not None:
            keys = [key for key in keys if key.encode() > bytes.fromhex(behind)]
        page = min(self.s3.page, int(query.get("max-keys", 1000)))
        more = len(keys) > page
        rows = "".join(f"<Contents><Key>{escape(key)}</Key><LastModified>{time_text(bucket[key].time)}</LastModified>"
                       f"<ETag>{escape(bucket[key].etag)}</ETag><Size>{len(bucket[key].content)}</Size>"
                       "<StorageClass>STANDARD</StorageClass></Contents>" for key in keys[:page])
        token = keys[page - 1].encode().hex() if more else ""
        self.reply_xml("ListBucketResult", f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(keys[:page])}</KeyCount>"
                       f"<IsTruncated>{str(more).lower()}</IsTruncated>{rows}"
                       + (f"<NextContinuationToken>{token}</NextContinuationToken>" if more else ""))

    def answer_for_upload(self, bucket, key, query, body):
        if "uploads" in query and self.command == "POST":
            upload_id = uuid.uuid4().hex
            self.s3.uploads[upload_id] = Upload(key, self.s3.clock())
            return self.reply_xml("InitiateMultipartUploadResult",
                                  f"<Key>{escape(key)}</Key><UploadId>{upload_id}</UploadId>")
        upload = self.s3.uploads.get(query.get("uploadId"))
        if upload is None or upload.key != key:
            raise Refusal(404, "NoSuchUpload", "there is no such upload")
        if self.command == "PUT":
            number = int(query["partNumber"])
            if not 1 <= number <= 10000:
                self.violate("a part's number out of range")
            etag = f'"{hashlib.md5(body).hexdigest()}"'
            upload.parts[number] = (body, etag)
            return self.reply(200, b"", ETag=etag)
        if self.command == "GET":
            if not self.s3.list_parts:
                raise Refusal(501, "NotImplemented", "parts are not listed here")
            rows = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag><Size>{len(content)}</Size>"
                           "</Part>" for number, (content, etag) in sorted(upload.parts.items()))
            return self.reply_xml("ListPartsResult", f"<IsTruncated>false</IsTruncated>{rows}")
        if self.command == "DELETE":
            del self.s3.uploads[query["uploadId"]]
            return self.reply(204, b"")
        named = re.findall(r"<Part><PartNumber>(\d+)</PartNumber><ETag>([^<]*)</ETag></Part>", body.decode())
        parts = [(int(number), etag.replace("&quot;", '"')) for number, etag in named]
        if [number for number, _ in parts] != sorted({number for number, _ in parts}):
            raise Refusal(400, "InvalidPartOrder")
        if any(upload.parts.get(number, (b"", None))[1] != etag for number, etag in parts):
            raise Refusal(400, "InvalidPart")
        contents = [upload.parts[number][0] for number, _ in parts]
        if any(len(content) < SMALLEST_PART for content in contents[:-1]):
            raise Refusal(400, "EntityTooSmall")
        digests = b"".join(hashlib.md5(content).digest() for content in contents)
        bucket[key] = Object(b"".join(contents), f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"', self.s3.clock())
        del self.s3.uploads[query["uploadId"]]
        self.reply_xml("CompleteMultipartUploadResult", f"<Key>{escape(key)}</Key>"
                       f"<ETag>{escape(bucket[key].etag)}</ETag>")

    def reply_xml(self, root, inside):
        text = (f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"{inside}</{root}>").encode()
        self.reply(200, self.s3.rewrite(text), **{"Content-Type": "application/xml"})

    def reply(self, status, body, **headers):
        kind = self.fault.kind if self.fault else ""
        if kind == "lost":
            self.close_connection = True
            return
        if kind.startswith("after:"):
            status, body = int(kind[6:]), b""
        self.send_response_only(status)
        self.send_header("Date", self.s3.clock().strftime("%a, %d %b %Y %H:%M:%S GMT"))
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        with self.s3.lock:
            self.s3.bytes_out += len(body)
        if kind in ("reset", "truncate") and body:
            self.wfile.write(body[:len(body) // 2])
            self.close_connection = True
            return
        if kind == "slow":
            for begin in range(0, len(body), max(1, len(body) // 8)):
                self.wfile.write(body[begin:begin + max(1, len(body) // 8)])
                self.wfile.flush()
                time.sleep(0.05)
            return
        self.wfile.write(body)


def time_text(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def main():
    with S3(port=int(sys.argv[1]) if len(sys.argv) > 1 else 0, page=5) as server:
        for name, value in server.environment().items():
            print(f"export {name}={value}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
