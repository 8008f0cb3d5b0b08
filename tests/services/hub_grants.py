# SPDX-License-Identifier: Apache-2.0
"""Xorbs that go straight to where they are kept: the content store gives out a grant, the CDN takes the bytes, a commit
ends it. The Hub's clients do so since hf_xet 1.8, and post to the content store where there are no grants."""

import secrets
import threading
from dataclasses import dataclass

import xet

_POLYNOMIAL = 0x9A6C9329AC4BC9B5  # CRC-64/NVME, reflected


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc64(content):
    value = 0xFFFFFFFFFFFFFFFF
    for byte in content:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFFFFFFFFFF


@dataclass
class Grant:
    raw: bytes
    length: int
    checksum: int
    secret: str
    body: bytes = None


class Grants:
    """The grants of one store."""

    def __init__(self, content):
        self.content = content
        self.lock = threading.Lock()
        self.grants = {}

    def give(self, raw, asked, base):
        """What a grant is, or None when the xorb is there already."""
        checksum = asked.get("checksum", {})
        length = asked.get("length")
        if not isinstance(length, int) or not 0 < length <= xet.XORB_BYTES or checksum.get("algo") != "crc64nvme":
            raise xet.Refused(f"a grant for {asked}")
        if raw in self.content.xorbs:
            return None
        name, secret = secrets.token_hex(8), secrets.token_hex(8)
        with self.lock:
            self.grants[name] = Grant(raw, length, int(checksum["value"]), secret)
        return {"id": name, "method": "PUT", "url": f"{base}/upload/{name}", "headers": {"x-upload-secret": secret}}

    def upload(self, name, body, secret):
        """The status of taking the bytes."""
        grant = self.grants.get(name)
        if grant is None or secret != grant.secret:
            return 403
        if grant.body is not None:
            return 412
        if len(body) != grant.length:
            raise xet.Refused(f"{len(body)} bytes, the grant is for {grant.length}")
        if self.content.settings["verify"] and crc64(body) != grant.checksum:
            raise xet.Refused("bytes of another checksum than the grant's")
        grant.body = body
        return 200

    def commit(self, raw, name):
        """Whether there was something to commit."""
        grant = self.grants.get(name)
        if grant is None or grant.raw != raw or grant.body is None:
            return False
        self.content.add_xorb(raw, grant.body)
        return True
