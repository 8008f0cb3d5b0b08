# SPDX-License-Identifier: Apache-2.0
"""What the emulated services share: HTTP/1.1 on loopback, a log of requests, and faults on request."""

import json
import re
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class Reply(Exception):
    """An answer; raised from anywhere while a request is worked on."""

    def __init__(self, status=200, body=b"", headers=None, content_type="application/json", length=None):
        super().__init__(status)
        self.status, self.headers = status, dict(headers or {})
        self.body = body if isinstance(body, bytes) or hasattr(body, "__next__") else json.dumps(body).encode()
        self.content_type = content_type
        self.length = len(self.body) if length is None else length  # of a body that is an iterator


class Gone(Exception):
    """The connection is broken off."""


class Faults:
    """Rules that bite requests. A rule: match (a regular expression on "METHOD path?query"), kind, times (how many
    requests, default 1; 0: all), skip (how many matching requests go well before), and what the kind needs:

    status      status, headers, body: the answer instead
    rate_limit  429 with RateLimit, seconds (1)
    reset       the connection is reset: after bytes (0) of the answer's body, or with at="request" before the request's
                body was read
    truncate    the answer ends after bytes (0) of its body
    slow        the answer begins after seconds, and its body comes in pieces with pause_s (0) between them
    lose_reply  the request is worked on, the connection reset
    status_after  the request is worked on; status, headers, body: the answer instead
    duplicate   the answer comes twice
    damage      a byte of the answer's body, the one at bytes (0), is another"""

    KINDS = ("status", "rate_limit", "reset", "truncate", "slow", "lose_reply", "status_after", "duplicate", "damage")

    def __init__(self):
        self.lock = threading.Lock()
        self.rules = []

    def add(self, **rule):
        if rule.get("kind") not in self.KINDS or not isinstance(rule.get("match"), str):
            raise ValueError(f"fault {rule}")
        rule = {"times": 1, "skip": 0, "bytes": 0, "seconds": 1, **rule, "bitten": 0}
        rule["pattern"] = re.compile(rule["match"])
        with self.lock:
            self.rules.append(rule)
        return rule

    def clear(self):
        with self.lock:
            self.rules = []

    def bite(self, request):
        with self.lock:
            for rule in self.rules:
                if rule["pattern"].search(request) and (not rule["times"] or rule["bitten"] < rule["times"]):
                    if rule["skip"]:
                        rule["skip"] -= 1
                        continue
                    rule["bitten"] += 1
                    return rule
        return None


class Log:
    """Every request, in order, and what a strict server would complain of."""

    def __init__(self):
        self.lock = threading.Lock()
        self.requests, self.violations = [], []

    def add(self, **entry):
        """Adds a request that began; what came of it is filled in later."""
        with self.lock:
            self.requests.append(entry)
        return entry

    def violation(self, text):
        with self.lock:
            self.violations.append(text)

    def clear(self):
        with self.lock:
            self.requests, self.violations = [], []


class Server(ThreadingHTTPServer):
    """One host of a service. `answer(request)` raises or returns a Reply."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, name, answer, log, faults):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name, self.answer, self.log, self.faults = name, answer, log, faults
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def handle_error(self, request, client_address):
        pass  # clients break connections off, some on purpose

    def close(self):
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def do_any(self):
        split = urlsplit(self.path)
        self.place = split.path
        self.segments = [unquote(segment) for segment in split.path.split("/")[1:]]
        self.query = {name: values[-1] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
        started = time.time()
        fault = None if self.place.startswith("/_control/") else self.server.faults.bite(f"{self.command} {self.path}")
        self.sent_bytes, status = 0, 0
        self.body = b""
        entry = {}
        if not self.place.startswith("/_control/"):
            entry = self.server.log.add(
                server=self.server.name, method=self.command, path=self.path, status=0, received_bytes=0, sent_bytes=0,
                at=started, seconds=None, fault=fault["kind"] if fault else None, range=self.headers.get("Range"),
                has_authorization="Authorization" in self.headers, user_agent=self.headers.get("User-Agent"))
        try:
            if fault and fault["kind"] == "reset" and fault.get("at") == "request":
                raise Gone
            self.body = self.read_body()
            try:
                reply = self.faulty(fault) or self.server.answer(self)
            except Reply as raised:
                reply = raised
            if fault and fault["kind"] == "lose_reply":
                raise Gone
            if fault and fault["kind"] == "status_after":
                reply = self.refusal(fault)
            # Before the client has its answer, and may ask for the log at once.
            status = entry["status"] = reply.status
            for _ in range(2 if fault and fault["kind"] == "duplicate" else 1):
                self.send(reply, fault)
        except Gone:
            self.break_off()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            entry.update(status=status, received_bytes=len(self.body), sent_bytes=self.sent_bytes,
                         seconds=time.time() - started)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_any

    def read_body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = bytearray()
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return bytes(body)
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if len(body) != size:
            raise Gone
        return body

    @staticmethod
    def refusal(fault):
        body = fault.get("body", {"error": "refused on request"})
        return Reply(fault["status"], body.encode() if isinstance(body, str) else body, fault.get("headers"))

    def faulty(self, fault):
        if fault and fault["kind"] == "status":
            return self.refusal(fault)
        if fault and fault["kind"] == "rate_limit":
            return Reply(429, {"error": "too many requests"},
                         {"RateLimit": f'"api";r=0;t={fault["seconds"]}',
                          "RateLimit-Policy": '"fixed window";"api";q=500;w=300'})
        return None

    def send(self, reply, fault):
        kind = fault["kind"] if fault else None
        limit = fault["bytes"] if kind in ("truncate", "reset") else None
        if kind == "slow":
            time.sleep(fault["seconds"])
        self.send_response(reply.status)
        headers = {name.lower(): value for name, value in reply.headers.items()}
        headers.setdefault("content-length", str(reply.length))
        if reply.content_type and reply.length:
            headers.setdefault("content-type", reply.content_type)
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(name, one)
        self.end_headers()
        pieces = iter([reply.body]) if isinstance(reply.body, bytes) else reply.body
        if self.command == "HEAD" or reply.status == 304:
            pieces = iter(())
        for piece in pieces:
            if kind == "damage" and 0 <= fault["bytes"] - self.sent_bytes < len(piece):
                piece = bytearray(piece)
                piece[fault["bytes"] - self.sent_bytes] ^= 1
            if limit is not None:
                piece = piece[:limit - self.sent_bytes]
            step = 4096 if kind == "slow" and fault.get("pause_s") else max(len(piece), 1)
            for begin in range(0, len(piece), step):
                self.wfile.write(piece[begin:begin + step])
                if kind == "slow" and fault.get("pause_s"):
                    self.wfile.flush()
                    time.sleep(fault["pause_s"])
            self.sent_bytes += len(piece)
            if limit is not None and self.sent_bytes >= limit:
                break
        self.wfile.flush()
        if kind == "reset":
            raise Gone
        if kind == "truncate":
            self.close_connection = True

    def break_off(self):
        """Resets the connection instead of closing it."""
        self.close_connection = True
        try:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        except OSError:
            pass
