# SPDX-License-Identifier: Apache-2.0
"""The Hub's own clients, huggingface_hub and hf_xet, against the emulated Hub: what they send it takes, and what it
gives they read. So the emulator's strictness is not of our own making.

usage: clients_test.py FOLDER [options of unittest]: makes the clients' environment below FOLDER. Exits 77 where the
packages cannot be had."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from client_environment import Unreachable, client_environment
from hub_emulator import READ_TOKEN, WRITE_TOKEN, Hub

PINS = Path(__file__).with_name("hub_clients.txt")
SKIPPED = 77
PYTHON = None


class Case(unittest.TestCase):
    settings = {}

    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="wdelta-test-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.random = random.Random(11)
        self.hub = Hub(**self.settings)
        self.addCleanup(self.hub.close)
        self.hub.buckets.create("tester/run", True)

    def tearDown(self):
        self.assertEqual(self.hub.log.violations, [])

    def run_client(self, words, token=WRITE_TOKEN, fails=False):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
        environment.update(HF_ENDPOINT=self.hub.url, HF_TOKEN=token, HF_HOME=str(self.scratch / "home"), LC_ALL="C.UTF-8",
                           HOME=str(self.scratch), HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_UPDATE_CHECK="1",
                           HF_HUB_DISABLE_PROGRESS_BARS="1", PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([str(word) for word in words], cwd=self.scratch, env=environment, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode != 0, fails, f"{done.stdout}\n{done.stderr}")
        return done.stdout if not fails else done.stderr

    def script(self, text, **more):
        """Runs lines of Python that know `api` and call tell(value); returns what they told, or
        what they say when they are to fail."""
        lines = "import json, sys\nfrom pathlib import Path\nfrom huggingface_hub import HfApi, HfFileSystem\n" \
                "api = HfApi()\ndef tell(value): print('told ' + json.dumps(value))\n" + textwrap.dedent(text)
        said = self.run_client([PYTHON, "-c", lines], **more)
        if more.get("fails"):
            return said
        told = [json.loads(line[5:]) for line in said.splitlines() if line.startswith("told ")]
        return told[0] if len(told) == 1 else told

    def command(self, *words, **more):
        return self.run_client([PYTHON.parent / "hf", *words], **more)

    def write(self, name, content):
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return content


class HubClient(Case):
    def test_buckets(self):
        told = self.script("""
            tell(api.create_bucket("tester/new", private=True).bucket_id)
            tell(api.create_bucket("tester/new", exist_ok=True).bucket_id)
            found = api.bucket_info("tester/new")
            tell([found.id, found.private, found.size, found.total_files])
            tell([bucket.id for bucket in api.list_buckets()])
            api.delete_bucket("tester/new")
            tell([bucket.id for bucket in api.list_buckets()])
            """)
        self.assertEqual(told, ["tester/new", "tester/new", ["tester/new", True, 0, 0], ["tester/new", "tester/run"],
                                ["tester/run"]])

    def upload_and_download(self):
        files = {"big.bin": self.random.randbytes(900_000), "d/text": b"the same words again and again\n" * 9000,
                 "d/floats": b"".join(bytes([self.random.randrange(256), 0, 128, 63]) for _ in range(40_000)),
                 "empty": b"", "small": b"Hello World!"}
        for name, content in files.items():
            self.write(f"from/{name}", content)
        told = self.script("""
            names = sorted(str(path.relative_to("from")) for path in Path("from").rglob("*") if path.is_file())
            api.batch_bucket_files("tester/run", add=[(f"from/{name}", name) for name in names])
            api.batch_bucket_files("tester/run", add=[(b"from memory", "memory"), (b"Hello World!", "small/twin")])
            tell([[entry.path, entry.size] for entry in api.list_bucket_tree("tester/run", recursive=True)])
            api.download_bucket_files("tester/run", [(name, f"to/{name}") for name in names])
            api.batch_bucket_files("tester/run", delete=["memory"])
            tell([entry.path for entry in api.list_bucket_tree("tester/run", "d", recursive=True)])
            """)
        expected = {**files, "memory": b"from memory", "small/twin": b"Hello World!"}
        self.assertEqual(told[0], [[name, len(expected[name])] for name in sorted(expected)])
        self.assertEqual(told[1], ["d/floats", "d/text"])
        self.assertIsNone(self.hub.file("tester/run", "memory"))
        for name, content in files.items():
            self.assertEqual(self.hub.file("tester/run", name), content, name)
            self.assertEqual((self.scratch / "to" / name).read_bytes(), content, name)

    def test_files_go_up_and_come_down(self):
        self.upload_and_download()
        schemes = {chunk.scheme for xorb in self.hub.content.xorbs.values() for chunk in xorb.chunks}
        self.assertGreater(len(schemes), 1, "the client compressed nothing: LZ4 was not tried")

    def test_files_go_up_and_come_down_with_the_old_protocol(self):
        self.hub.settings.update(shard_versions=[1], reconstruction_versions=[1], grants=False)
        self.upload_and_download()

    def test_files_go_up_and_come_down_over_a_bad_line(self):
        self.hub.faults.add(match="POST /api/.*/batch", kind="status", status=503)
        self.hub.faults.add(match="PUT /upload/", kind="status", status=503)
        self.hub.faults.add(match="POST /v1/xorb-commits/", kind="lose_reply")
        self.hub.faults.add(match="POST /v2/shards", kind="lose_reply")
        self.hub.faults.add(match="GET /api/.*/tree", kind="rate_limit", seconds=0)
        self.hub.faults.add(match="GET /xorb/", kind="truncate", bytes=1000)
        self.hub.faults.add(match="GET /v2/reconstructions/", kind="reset")
        self.upload_and_download()
        self.assertEqual([rule["bitten"] for rule in self.hub.faults.rules], [1] * 7)

    def test_ranges_of_a_file_system(self):
        content = self.write("weights", self.random.randbytes(500_000))
        ranges = [(0, 10), (123_456, 70_000), (499_990, 10), (131_071, 2)]
        told = self.script(f"""
            api.batch_bucket_files("tester/run", add=[("weights", "a/weights")])
            fs = HfFileSystem()
            tell(fs.ls("hf://buckets/tester/run/a", detail=False))
            tell(fs.size("hf://buckets/tester/run/a/weights"))
            with fs.open("hf://buckets/tester/run/a/weights", "rb", block_size=4096) as file:
                for begin, size in {ranges}:
                    file.seek(begin)
                    tell(file.read(size).hex())
            """)
        self.assertEqual(told[:2], [["buckets/tester/run/a/weights"], len(content)])
        self.assertEqual(told[2:], [content[begin:begin + size].hex() for begin, size in ranges])
        self.assertTrue(any(entry["server"] == "cdn" and entry["path"].startswith("/file/") and entry["range"]
                            for entry in self.hub.log.requests))

    def test_sync(self):
        files = {"a": b"one", "d/b": self.random.randbytes(200_000), "d/e/c": b""}
        for name, content in files.items():
            self.write(f"local/{name}", content)
        self.script("""
            api.sync_bucket("local", "hf://buckets/tester/run/kept", quiet=True)
            api.sync_bucket("hf://buckets/tester/run/kept", "back", quiet=True)
            """)
        for name, content in files.items():
            self.assertEqual(self.hub.file("tester/run", f"kept/{name}"), content)
            self.assertEqual((self.scratch / "back" / name).read_bytes(), content)
        # A second time nothing is sent.
        self.hub.log.clear()
        self.script('api.sync_bucket("local", "hf://buckets/tester/run/kept", quiet=True)')
        self.assertEqual([entry["path"] for entry in self.hub.log.requests if entry["method"] == "POST"], [])

    def test_failures_are_told(self):
        self.write("weights", b"some")
        self.hub.settings["failing_operations"] = [0]
        said = self.script('api.batch_bucket_files("tester/run", add=[("weights", "a"), ("weights", "b")])', fails=True)
        self.assertIn("refused on request", said)
        said = self.script('api.batch_bucket_files("tester/run", add=[("weights", "a")])', token=READ_TOKEN, fails=True)
        self.assertIn("403", said)
        self.assertIn("BucketNotFoundError", self.script('api.bucket_info("tester/none")', fails=True))


class HubCommand(Case):
    def test_a_bucket_s_life(self):
        content = self.write("weights.bin", self.random.randbytes(100_000))
        self.command("buckets", "create", "tester/new")
        self.assertIn("tester/new", self.command("buckets", "list"))
        self.command("buckets", "cp", "weights.bin", "hf://buckets/tester/new/d/weights.bin")
        self.assertEqual(self.hub.file("tester/new", "d/weights.bin"), content)
        self.assertIn("d/weights.bin", self.command("buckets", "list", "tester/new", "-R"))
        self.command("buckets", "cp", "hf://buckets/tester/new/d/weights.bin", "back.bin")
        self.assertEqual((self.scratch / "back.bin").read_bytes(), content)
        self.command("buckets", "sync", "hf://buckets/tester/new", "synced")
        self.assertEqual((self.scratch / "synced/d/weights.bin").read_bytes(), content)
        self.assertIn("tester/new", self.command("buckets", "info", "tester/new"))
        self.command("buckets", "rm", "tester/new/d/weights.bin", "--yes")
        self.assertIsNone(self.hub.file("tester/new", "d/weights.bin"))
        self.command("buckets", "delete", "tester/new", "--yes")
        self.assertNotIn("tester/new", self.hub.buckets.buckets)


def main():
    global PYTHON
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        PYTHON = client_environment(sys.argv.pop(1), PINS)
    except Unreachable as error:
        names = ", ".join(line.strip() for line in PINS.read_text().split() if line.startswith(("hugging", "hf")))
        count = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]).countTestCases()
        print(f"{count} tests of the Hub's clients ({names}) skipped, the packages cannot be had: {error}")
        sys.exit(SKIPPED)
    unittest.main()


if __name__ == "__main__":
    main()
