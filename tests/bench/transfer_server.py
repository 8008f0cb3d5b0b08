# SPDX-License-Identifier: Apache-2.0
"""As much of S3 as a push and a pull need, on loopback, made to be no bottleneck: bodies go between sockets and files
by sendfile(2) and splice(2), nothing is hashed, no signature is looked at. Keys are files in a folder, which should lie
in memory. For measuring; s3_emulator.py is the one that is strict."""

import os
import re
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

PIPE_BYTES = 1 << 20
DATE = "2026-01-01T00:00:00.000Z"


class TransferServer:
    """A server for one bucket, whatever its name; a context."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.objects = {}  # by key: the files that it consists of, with their sizes
        self.uploads = {}  # by id: the same by number
        self.sent_bytes = self.received_bytes = self.requests = 0
        self.delay_s = 0  # each answer waits so long, as one over a wide network does

    def __enter__(self):
        os.makedirs(self.folder)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.bucket = self
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def sizes(self, prefix):
        """Keys that begin so, with their sizes."""
        return {key: sum(size for _, size in files) for key, files in self.objects.items() if key.startswith(prefix)}

    def remove(self, prefix):
        for key in [key for key in self.objects if key.startswith(prefix)]:
            for path, _ in self.objects.pop(key):
                os.unlink(path)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    rbufsize = 0  # what is buffered no splice would see

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        # Line by line from an unbuffered file would be a call for every byte: the head is peeked at, then taken whole.
        try:
            head = self.peeked_head()
        except OSError:
            head = None
        if head is None:
            self.close_connection = True
            return
        lines = head.decode("latin-1").split("\r\n")
        self.command, self.path, self.request_version = lines[0].split(" ")
        self.requestline = lines[0]
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.close_connection = self.headers.get("connection", "").lower() == "close"
        if "100-continue" in self.headers.get("expect", ""):
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.serve()

    def peeked_head(self):
        import socket
        head = b""
        while True:
            piece = self.connection.recv(65536, socket.MSG_PEEK)
            if not piece:
                return None
            end = (head + piece).find(b"\r\n\r\n")
            taken = len(piece) if end < 0 else end + 4 - len(head)
            head += self.connection.recv(taken)
            if end >= 0:
                return head[:end]

    def serve(self):
        bucket = self.server.bucket
        path, _, query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        key = urllib.parse.unquote(path).lstrip("/").partition("/")[2]
        with bucket.lock:
            bucket.requests += 1
        time.sleep(bucket.delay_s)
        if self.command == "PUT":
            stored = self.store()
            with bucket.lock:
                if "uploadId" in query:
                    bucket.uploads[query["uploadId"]][int(query["partNumber"])] = stored
                elif self.headers.get("if-none-match") and key in bucket.objects:
                    return self.reply(412, b"")
                else:
                    bucket.objects[key] = [stored]
            return self.reply(200, b"", ETag=f'"{os.path.basename(stored[0])}"')
        if self.command == "POST":
            return self.upload(bucket, key, query)
        if self.command == "DELETE":
            bucket.remove(key)
            return self.reply(204, b"")
        if not key:
            return self.list(bucket, query)
        self.get(bucket, key)

    def store(self):
        """The body as a new file: (path, size)."""
        path = f"{self.server.bucket.folder}/{uuid.uuid4().hex}"
        size = left = int(self.headers.get("content-length") or 0)
        out, inlet = os.pipe()
        with open(path, "wb", buffering=0) as file:
            try:
                while left > 0:
                    count = os.splice(self.connection.fileno(), inlet, min(left, PIPE_BYTES))
                    if count == 0:
                        raise ConnectionResetError
                    left -= count
                    while count > 0:
                        count -= os.splice(out, file.fileno(), count)
            finally:
                os.close(out)
                os.close(inlet)
        with self.server.bucket.lock:
            self.server.bucket.received_bytes += size
        return path, size

    def upload(self, bucket, key, query):
        path, size = self.store()
        os.unlink(path)
        if "uploads" in query:
            upload = uuid.uuid4().hex
            with bucket.lock:
                bucket.uploads[upload] = {}
            return self.xml("InitiateMultipartUploadResult", f"<Key>{escape(key)}</Key><UploadId>{upload}</UploadId>")
        with bucket.lock:
            bucket.objects[key] = [part for _, part in sorted(bucket.uploads.pop(query["uploadId"]).items())]
        self.xml("CompleteMultipartUploadResult", f"<Key>{escape(key)}</Key><ETag>\"x\"</ETag>")

    def list(self, bucket, query):
        if "uploads" in query:
            return self.xml("ListMultipartUploadsResult", "<IsTruncated>false</IsTruncated>")
        with bucket.lock:
            rows = "".join(f"<Contents><Key>{escape(key)}</Key><LastModified>{DATE}</LastModified><ETag>\"x\"</ETag>"
                           f"<Size>{size}</Size></Contents>"
                           for key, size in sorted(bucket.sizes(query.get("prefix", "")).items()))
        self.xml("ListBucketResult", f"<IsTruncated>false</IsTruncated>{rows}")

    def get(self, bucket, key):
        files = bucket.objects.get(key)
        if files is None:
            return self.reply(404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>")
        size = sum(size for _, size in files)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        first, last = (int(asked[1]), min(int(asked[2]), size - 1)) if asked else (0, size - 1)
        if asked and first >= size:
            return self.reply(416, b"")
        headers = {"ETag": f'"{os.path.basename(files[0][0])}"'}
        if asked:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        self.head(206 if asked else 200, last + 1 - first, headers)
        if self.command == "HEAD":
            return
        begin = 0
        for path, length in files:
            offset, end = max(first - begin, 0), min(last + 1 - begin, length)
            with open(path, "rb", buffering=0) as file:
                while offset < end:
                    offset += os.sendfile(self.connection.fileno(), file.fileno(), offset, end - offset)
            begin += length
        with bucket.lock:
            bucket.sent_bytes += last + 1 - first

    def head(self, status, length, headers):
        lines = [f"HTTP/1.1 {status} x", time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
                 *(f"{name}: {value}" for name, value in headers.items())]
        if status != 204:
            lines.append(f"Content-Length: {length}")
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode())

    def reply(self, status, body, **headers):
        self.head(status, len(body), headers)
        if body and self.command != "HEAD":
            self.connection.sendall(body)

    def xml(self, root, inside):
        self.reply(200, f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}>{inside}</{root}>'.encode())
