#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""S3 as others see it: boto3 against our emulator, and wdelta against moto's S3, which nobody here wrote. Both are
installed, at one version, beside the binary; where that fails these tests are skipped."""

import os
import subprocess
import sys
import textwrap
import time
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "services"))

import testing
from s3_emulator import S3, REGION

PACKAGES = ["boto3==1.40.0", "moto[s3,server]==5.1.10"]
MIB = 1 << 20


def setUpModule():
    """A virtual environment that outlives the test: it is made once for a build."""
    global PYTHON
    folder = Path(testing.WDELTA).parent / "s3-clients"
    PYTHON = folder / "bin" / "python"
    done = folder / "done"
    if done.exists() and done.read_text() == " ".join(PACKAGES):
        return
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True, timeout=300)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1",
                        *PACKAGES], check=True, capture_output=True, timeout=900)
    except (OSError, subprocess.SubprocessError) as error:
        raise unittest.SkipTest(f"{' '.join(PACKAGES)} cannot be installed here: {error}")
    done.write_text(" ".join(PACKAGES))


class Clients(testing.Case):
    def environment(self, **more):
        own = {name: value for name, value in super().environment().items() if not name.startswith("AWS_")}
        own.update(WDELTA_CACHE_DIR=str(self.scratch / "cache"), **self.service)
        own.update(more)
        return own

    def boto3(self, code):
        """Runs lines that have `s3`, a client of boto3."""
        lines = "import boto3, sys\ns3 = boto3.client('s3')\n" + textwrap.dedent(code)
        done = subprocess.run([PYTHON, "-c", lines, self.scratch], env=self.environment(), capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def checkpoints(self):
        tensors = self.some_weights(count=3, elements=60_000)
        self.write_weights("c0/model.safetensors", tensors)
        self.write_weights("c1/model.safetensors", self.moved(tensors))
        for name in ("c0", "c1"):
            self.write(f"{name}/größe + =&.json", name)
            self.write(f"{name}/optimizer.bin", self.random.randbytes(70 * MIB))
        return self.scratch / "c0", self.scratch / "c1"

    def push_and_pull(self):
        first, second = self.checkpoints()
        self.run_ok("push", first, "s3://bucket/a b/me", "--step", "0")
        self.run_ok("push", second, "s3://bucket/a b/me", "--step", "1")
        for step, checkpoint in enumerate((first, second)):
            self.run_ok("pull", f"s3://bucket/a b/me@step:{step}", self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", checkpoint)
        self.run_ok("verify", "s3://bucket/a b/me", "--deep")
        self.run_ok("gc", "s3://bucket/a b/me", "--grace", "0")
        return first, second


class Boto3(Clients):
    def test_it_reads_what_was_pushed_and_what_it_copies_is_pulled(self):
        with S3(buckets=("bucket", "copy"), page=7) as s3:
            self.service = s3.environment(AWS_DEFAULT_REGION=REGION)
            first, second = self.push_and_pull()
            self.boto3("""
                for page in s3.get_paginator('list_objects_v2').paginate(Bucket='bucket'):
                    for each in page['Contents']:
                        path = sys.argv[1] + '/copy/' + each['Key']
                        import os; os.makedirs(os.path.dirname(path), exist_ok=True)
                        open(path, 'wb').write(s3.get_object(Bucket='bucket', Key=each['Key'])['Body'].read())
            """)
            self.run_ok("pull", self.scratch / "copy/a b/me", self.scratch / "from-copy")
            self.assert_same_tree(self.scratch / "from-copy", second)
            self.assertEqual(s3.violations, [])


class Moto(Clients):
    def setUp(self):
        super().setUp()
        self.server = subprocess.Popen([PYTHON, "-c", "from moto.server import main; main(['-p', '0'])"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.addCleanup(self.server.stderr.close)
        url = ""
        for line in self.server.stderr:
            if "Running on" in line:
                url = line.split()[-1]
                break
        self.assertTrue(url, "moto did not start")
        for _ in range(100):
            try:
                urllib.request.urlopen(url + "/moto-api/", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        self.service = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
                        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "no_proxy": "127.0.0.1"}
        self.boto3("s3.create_bucket(Bucket='bucket')")

    def test_push_pull_verify_and_gc(self):
        self.push_and_pull()

    def test_a_bucket_that_is_not_there(self):
        self.run_fails(4, "log", "s3://nobody/me", says="there is no bucket nobody")


if __name__ == "__main__":
    testing.main()
