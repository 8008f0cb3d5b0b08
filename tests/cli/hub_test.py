# SPDX-License-Identifier: Apache-2.0
"""Repositories in buckets of the Hub, on an emulated Hub that believes nothing: what was pushed comes back, whatever
goes wrong on the way is gone over again or said in one line, the token goes to nobody but the Hub, and the Hub's own
clients read and write the same buckets."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import testing

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("services", "decoder")]
from blake3 import blake3  # noqa: E402
from client_environment import Unreachable, client_environment  # noqa: E402
from hub_buckets import Entry  # noqa: E402
from hub_emulator import FULL_TOKEN, READ_TOKEN, STRANGER_TOKEN, WRITE_TOKEN, Hub  # noqa: E402
from s3_emulator import S3, Fault  # noqa: E402

REPO = "hf://buckets/tester/run"


class HubCase(testing.Case):
    settings = {}

    def setUp(self):
        super().setUp()
        self.hub = Hub(**self.settings)
        self.addCleanup(self.hub.close)
        self.token = WRITE_TOKEN

    def tearDown(self):
        self.assertEqual(self.hub.log.violations, [], f"seed {self.seed}")

    def environment(self, **more):
        environment = {name: value for name, value in super().environment().items()
                       if not name.startswith(("HF_", "HUGGING", "AWS_")) and not name.lower().endswith("_proxy")}
        environment.update(HF_ENDPOINT=self.hub.url, WDELTA_CACHE_DIR=str(self.scratch / "cache"))
        if self.token:
            environment["HF_TOKEN"] = self.token
        environment.update(more)
        return environment

    def run_any(self, *words, **more):
        done = super().run_any(*words, **more)
        for token in (WRITE_TOKEN, READ_TOKEN, STRANGER_TOKEN, FULL_TOKEN):
            self.assertNotIn(token, done.out + done.err, "a token was shown")
        return done

    def make_repository(self, settle_ms=30):
        """A repository in a bucket that settles sooner than the Hub's, so that pushes need not wait for seconds."""
        head = json.dumps({"format": "wdelta-repository", "version": 1, "id": "5" * 32, "branches": "contested",
                           "settle_ms": settle_ms, "tick_ms": 1000}, separators=(",", ":"))[:-1] + ',"digest":"'
        digest = blake3((head + "0" * 64 + '"}\n').encode())
        document = (head + digest + '"}\n').encode()
        self.hub.buckets.create("tester/run", False)
        now = time.time()
        self.hub.buckets.buckets["tester/run"].set("wdelta.json", Entry(self.hub.store(document), len(document), now, now),
                                                   now)

    def make_steps(self, count=3, elements=60000):
        tensors, self.steps = self.some_weights(2, elements), []
        for i in range(count):
            self.write_weights(f"step-{i}/model.safetensors", tensors)
            self.write(f"step-{i}/config.json", json.dumps({"step": i}))
            self.write(f"step-{i}/empty", "")
            self.steps.append(self.scratch / f"step-{i}")
            tensors = self.moved(tensors)
        return self.steps

    def push(self, step, *options, **more):
        return self.run_ok("push", step, REPO, *options, **more).strip()

    def assert_holds(self, revision, step):
        shutil.rmtree(self.scratch / "out", ignore_errors=True)
        self.run_ok("pull", f"{REPO}@{revision}", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", step)

    def requests(self, pattern=""):
        return [f"{entry['method']} {entry['path']}" for entry in self.hub.log.requests
                if re.search(pattern, f"{entry['method']} {entry['path']}")]


class HubTest(HubCase):
    def objects(self):
        return [path for path in self.hub.buckets.buckets["tester/run"].history
                if path.startswith("objects/") and self.hub.file("tester/run", path) is not None]

    def test_everything_that_works_in_a_directory(self):
        self.make_steps(5)
        ids = [self.push(step, "--create", "--step", i) for i, step in enumerate(self.steps)]
        self.assertEqual(self.push(self.steps[4], "--step", 4), ids[4])
        log = [json.loads(line)["commit"] for line in self.run_ok("log", REPO, "--json").splitlines()]
        self.assertEqual(log, ids[::-1])
        self.run_ok("tag", REPO, "v1", "step:1")
        for i, step in enumerate(self.steps):
            self.assert_holds(f"step:{i}", step)
        self.assert_holds("v1", self.steps[1])
        self.run_ok("verify", self.scratch / "out", f"{REPO}@v1")
        self.run_ok("verify", REPO, "--deep")
        self.run_ok("branch", REPO, "main", "step:3", "--force")
        self.assert_holds("main", self.steps[3])
        self.run_ok("squash", REPO, "step:1..step:3")
        before = self.objects()
        gone = json.loads(self.run_ok("gc", REPO, "--json", "--grace", "0"))
        self.assertEqual(gone["given_up"], [ids[2]])
        self.assertEqual(len(before) - len(self.objects()), gone["removed"])
        self.assertGreater(gone["removed"], 0)
        self.assertFalse([path for path in self.hub.buckets.buckets["tester/run"].history
                          if path.startswith("gc/") and self.hub.file("tester/run", path) is not None])
        self.run_ok("verify", REPO, "--deep")
        for i in (0, 1, 3):
            self.assert_holds(ids[i], self.steps[i])
        self.run_fails(4, "pull", f"{REPO}@{ids[2]}", self.scratch / "gone", absent=self.scratch / "gone")

    def test_an_endpoint_that_sends_on_to_another_place_is_told_so(self):
        """As http://huggingface.co does, or a mirror that has moved: the token does not go there."""
        step = self.make_steps(1)[0]
        self.push(step, "--create", "--private")
        with S3() as moved:
            moved.faults = [Fault(f"sends-on:{self.hub.url}{{path}} -", 1000)]
            for words in (("log", REPO), ("push", step, REPO, "--create")):
                self.hub.log.clear()
                done = self.run_fails(8, *words, env={"HF_ENDPOINT": moved.url})
                self.assertRegex(done.err, f"hint: .* {re.escape(self.hub.url)}: .*HF_ENDPOINT")

    def test_what_a_listing_shows_twice_is_there_once(self):
        self.make_repository()
        self.make_steps(2)
        self.push(self.steps[0])
        said = json.loads(self.run_ok("stats", REPO, "--json"))
        page = self.hub.buckets.page

        def twice(*words):
            entries, last = page(*words)
            return [entry for entry in entries for _ in range(2)], last

        self.hub.buckets.page = twice
        self.assertEqual(json.loads(self.run_ok("stats", REPO, "--json")), said)
        self.push(self.steps[1])
        self.assert_holds("main", self.steps[1])

    def test_another_part_than_was_asked_for_is_not_taken_for_damage(self):
        self.write("large/model.bin", self.random.randbytes(4 << 20))
        self.push(self.scratch / "large", "--create")
        ranged = self.hub.ranged

        def from_the_beginning(request, size, read, headers):
            answer = ranged(request, size, read, headers)
            asked = re.fullmatch(r"bytes=([1-9]\d*)-(\d+)", request.headers.get("Range") or "")
            if asked:
                last = min(int(asked[2]), size - 1) - int(asked[1])
                answer.headers["Content-Range"] = f"bytes 0-{last}/{size}"
                answer.body = iter(read(0, last))
            return answer

        self.hub.ranged = from_the_beginning
        self.run_fails(8, "verify", REPO, "--deep", says="the answer is")
        self.run_fails(8, "pull", REPO, self.scratch / "out", absent=self.scratch / "out/model.bin")
        self.hub.ranged = ranged
        self.run_ok("verify", REPO, "--deep")

    def test_a_prefix_is_a_repository_of_its_own(self):
        self.make_steps(2)
        self.run_ok("push", self.steps[0], REPO, "--create")
        self.run_ok("push", self.steps[1], REPO + "/deep/er")
        self.run_ok("pull", REPO + "/deep/er", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.steps[1])
        self.run_fails(4, "log", REPO + "/deep", says="no wdelta repository")
        self.assert_holds("main", self.steps[0])

    def test_a_push_makes_few_requests(self):
        self.make_repository()
        self.make_steps(3)
        for i in range(40):
            self.write(f"step-2/many/{i}", os.urandom(70000))
        self.push(self.steps[0], "--create")
        self.push(self.steps[1])
        self.hub.log.clear()
        self.push(self.steps[2])
        self.assertLess(len(self.requests()), 25, self.requests())
        for pattern in ("POST .*xet-write|GET .*xet-write", "POST /v[12]/shards", "POST .*/batch"):
            self.assertLessEqual(len(self.requests(pattern)), 3, (pattern, self.requests()))

    def test_who_may_not(self):
        step = self.make_steps(1)[0]
        self.run_fails(4, "push", step, REPO, says=["there is no such bucket", "--create"])
        self.push(step, "--create", "--private")
        for token, code, words, says in (
                ("", 8, ["pull", REPO, self.scratch / "out"], ["wants a token", "HF_TOKEN"]),
                ("hf_mistyped", 8, ["pull", REPO, self.scratch / "out"], ["does not accept the token of HF_TOKEN"]),
                (STRANGER_TOKEN, 4, ["pull", REPO, self.scratch / "out"], ["there is no such bucket, or the token may not"]),
                (READ_TOKEN, 8, ["push", step, REPO, "-m", "new", "--step", "5"], ["write access", "HF_TOKEN"]),
                (WRITE_TOKEN, 4, ["log", "hf://buckets/tester/other"], ["there is no such bucket"]),
                (WRITE_TOKEN, 2, ["log", "hf://buckets/tester"], ["hf://buckets/NAMESPACE/NAME"]),
                (WRITE_TOKEN, 2, ["log", "hf://tester/run"], ["hf://buckets/NAMESPACE/NAME"])):
            self.token = token
            self.run_fails(code, *words, says=says, absent=self.scratch / "out")
        self.token = FULL_TOKEN
        self.run_fails(8, "push", step, "hf://buckets/full/run", "--create", says="room")
        self.token = WRITE_TOKEN
        self.run_fails(8, "log", REPO, "--offline", says="offline")
        self.assert_holds("main", step)

    def test_no_token_leaves_the_hub(self):
        self.make_repository()
        self.make_steps(2, 900000)
        for step in self.steps:
            self.push(step, "--create")
        self.assert_holds("main", self.steps[1])
        # The emulator's content network takes it for a violation; what lies outside of the Hub gets nothing either.
        self.assertTrue(self.requests("GET /cdn|GET /xorb|GET /link") or len(self.hub.log.requests) > 10)

    FAULTS = (("503s", dict(kind="status", status=503, times=2)), ("429", dict(kind="rate_limit", seconds=0)),
              ("reset before", dict(kind="reset", at="request")), ("reset", dict(kind="reset", bytes=9)),
              ("truncated", dict(kind="truncate", bytes=5)), ("reply lost", dict(kind="lose_reply")),
              ("twice", dict(kind="duplicate")))

    MAY_END = ("batch",)

    def test_whatever_goes_wrong_once_is_gone_over_again(self):
        self.make_repository()
        self.make_steps(2)
        self.push(self.steps[0], "--create")
        for name, fault in self.FAULTS:
            for place in ("tree", "paths-info", "batch", "xet-write-token", "/v1/xorbs/", "/v[12]/shards", "resolve"):
                with self.subTest(fault=name, place=place):
                    self.hub.faults.clear()
                    # Where a branch stands is not written twice: there a lost reply may end the push, and the next one goes on.
                    self.hub.faults.add(match=place, **fault)
                    done = self.run_any("push", self.steps[1], REPO, "-m", f"{name} {place}", "--meta", f"{name}={place}")
                    # An answer that comes twice can be taken for that to the next question: what it says is not believed.
                    if done.code in ((5, 8) if name == "twice" else (8,)):
                        self.assert_one_line_error(done)
                        self.assertTrue(name == "twice" or place in self.MAY_END, self.told(done))
                        done = self.run_any("push", self.steps[1], REPO, "-m", f"{name} {place}", "--meta", f"{name}={place}")
                    self.assertEqual(done.code, 0, self.told(done))
                    self.assert_holds("main", self.steps[1])
        self.hub.faults.clear()
        self.run_ok("verify", REPO, "--deep")

    def test_hosts_that_race(self):
        """Listings lag behind for less than the settle time."""
        self.make_repository(settle_ms=600)
        self.hub.settings.update(listing_delay_s=0.3, paths_delay_s=0.0)
        self.make_steps(4, 4000)
        first = self.push(self.steps[0])
        reported, conflicts = [], []

        def train(host):
            for i in range(3):
                while True:
                    done = self.run_any("push", self.steps[(host + i) % 4], REPO, "--step", 1 + 3 * host + i,
                                        env={"WDELTA_STATE_DIR": str(self.scratch / f"state-{host}")})
                    if done.code == 0:
                        reported.append(done.out.strip())
                        break
                    self.assertEqual(done.code, 7, self.told(done))
                    self.assert_one_line_error(done)
                    conflicts.append(host)

        with ThreadPoolExecutor(4) as threads:
            for each in [threads.submit(train, host) for host in range(4)]:
                each.result()
        time.sleep(0.6)
        log = [json.loads(line)["commit"] for line in self.run_ok("log", REPO, "--json").splitlines()]
        self.assertEqual(len(reported), 12)
        self.assertLessEqual({first, *reported}, set(log))
        self.assertTrue(conflicts)
        self.run_ok("verify", REPO, "--deep")

    def test_lines_that_a_batch_leaves_out(self):
        self.make_repository()
        self.make_steps(2)
        self.push(self.steps[0], "--create")
        self.hub.settings["failing_operations"] = [0]
        self.push(self.steps[1])
        self.assert_holds("main", self.steps[1])

    def test_a_bucket_that_is_there_need_not_be_made(self):
        self.make_repository()
        self.make_steps(1)
        self.hub.faults.add(match=r"^POST /api/buckets/tester/\w+$", kind="status", status=403, times=0)
        self.push(self.steps[0], "--create")
        self.assert_holds("main", self.steps[0])
        self.run_fails(8, "push", self.steps[0], "hf://buckets/tester/none", "--create", says="the token may not do that")

    def test_variables_are_read_as_the_hub_s_own_client_reads_them(self):
        self.make_repository()
        for on in ("1", "True", "YES", "on"):
            self.run_fails(8, "log", REPO, env={"HF_HUB_OFFLINE": on}, says="offline")
        self.write("home/token", WRITE_TOKEN)
        self.token = None
        self.make_steps(2)
        self.push(self.steps[0], env={"HF_HOME": str(self.scratch / "home")})
        self.run_fails(8, "push", self.steps[1], REPO, says="there is none",
                       env={"HF_HOME": str(self.scratch / "home"), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "True"})

    def test_of_what_was_not_asked_nothing_is_done(self):
        self.make_repository()
        self.make_steps(3)
        first, _, last = [self.push(step, "--create") for step in self.steps]
        self.run_ok("squash", REPO, f"{first}..{last}")
        before = set(self.objects())
        self.hub.settings["paths_unasked"] = ["wdelta.json", "x"]
        gone = json.loads(self.run_ok("gc", REPO, "--json", "--grace", "0"))
        self.hub.settings["paths_unasked"] = []
        self.assertLess(set(self.objects()), before)
        self.assertGreater(gone["removed"], 0)
        self.assertIsNotNone(self.hub.file("tester/run", "wdelta.json"))
        self.run_ok("verify", REPO, "--deep")
        self.assert_holds("main", self.steps[2])

    def test_a_token_for_the_content_store_that_expires(self):
        self.make_repository()
        self.make_steps(2)
        self.hub.settings["token_s"] = 62
        self.push(self.steps[0], "--create")
        self.hub.faults.add(match="/v1/xorbs/", kind="status", status=401)
        self.push(self.steps[1])
        self.assert_holds("main", self.steps[1])

    def test_damaged_bytes_are_never_believed(self):
        self.make_repository()
        self.make_steps(1)
        self.push(self.steps[0], "--create")
        self.hub.faults.add(match="", kind="damage", bytes=100, times=0)
        done = self.run_any("pull", REPO, self.scratch / "out")
        self.assertIn(done.code, (5, 8), self.told(done))
        self.assert_one_line_error(done)
        self.assertFalse((self.scratch / "out" / "model.safetensors").exists())

    def test_an_older_content_store(self):
        self.make_repository()
        self.hub.settings["shard_versions"] = [1]
        step = self.make_steps(1)[0]
        self.push(step, "--create")
        self.assert_holds("main", step)


    def test_a_content_store_that_takes_xorbs_no_more(self):
        self.make_repository()
        step = self.make_steps(1)[0]
        self.hub.faults.add(match="POST /v1/xorbs/", kind="status", status=410, times=0)
        self.run_fails(9, "push", step, REPO, says=["does not take xorbs", "s3.hf.co"])


class LargeTest(HubCase):
    settings = {"verify": False, "verify_cuts": False}

    def test_objects_of_many_parts(self):
        self.make_repository()
        steps = self.make_run("run", "--size", "80M", "--single", "--steps", 2)
        for step in steps:
            self.push(step, "--create", "--anchor", "now")
        self.assertGreater(len(self.requests("POST /v1/xorbs/")), 3)
        for i, step in enumerate(steps):
            self.assert_holds(f"main~{1 - i}", step)
        self.hub.settings["link_uses"] = 1
        self.assert_holds("main", steps[1])

    def test_links_that_end_before_they_are_followed(self):
        self.make_repository()
        step, = self.make_run("run", "--size", "20M", "--single", "--steps", 1)
        self.push(step, "--create", "--anchor", "now")
        self.hub.settings["first_links_are_late"] = True
        self.assert_holds("main", step)
        self.assertTrue(self.hub.content.late)
        self.hub.settings["link_s"] = -1
        shutil.rmtree(self.scratch / "out")
        before = len(self.requests("GET .*/resolve/"))
        self.run_fails(8, "pull", REPO, self.scratch / "out", says=["wdelta.json", "links", "refused"])
        self.assertEqual(len(self.requests("GET .*/resolve/")) - before, 3)
        self.assertFalse((self.scratch / "out").exists())

    def test_only_the_hub_says_that_a_thing_is_not_there(self):
        self.make_repository()
        self.make_steps(1)
        self.push(self.steps[0], "--create")
        self.hub.faults.add(match="^GET .*signature=", kind="status", status=404)
        self.assert_holds("main", self.steps[0])
        self.hub.faults.add(match="^GET .*signature=", kind="status", status=404, times=0)
        for words in (("log", REPO), ("pull", REPO, self.scratch / "none"), ("gc", REPO, "--grace", "0")):
            self.run_fails(8, *words, says=["links", "refused"])

    def test_a_pull_that_was_killed_goes_on_where_it_stood(self):
        self.make_repository()
        step, = self.make_run("run", "--size", "40M", "--single", "--steps", 1)
        self.push(step, "--create")
        fault = self.hub.faults.add(match=".", kind="slow", seconds=0, pause_s=0.02, times=0, skip=20)
        child = subprocess.Popen(self.command("pull", REPO, self.scratch / "out", "--transfers", "2"),
                                 env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        spool = self.scratch / "out/.wdelta/incoming"
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            if sum(path.stat().st_blocks * 512 for path in spool.glob("*")) > 10 << 20:
                break
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        arrived = sum(path.stat().st_blocks * 512 for path in spool.glob("*"))
        self.hub.faults.clear()
        self.hub.log.clear()
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", step)
        fetched = sum(entry.get("sent", entry.get("sent_bytes", 0)) for entry in self.hub.log.requests)
        self.assertGreater(arrived, 5 << 20, fault)
        self.assertLess(fetched, (41 << 20) - arrived // 2, (fetched, arrived))


class ClientsTest(HubCase):
    """huggingface_hub and hf_xet on the same buckets."""

    def client(self, *lines):
        try:
            python = client_environment(Path(testing.MAKE_RUN).parent / "clients",
                                        Path(__file__).parents[1] / "services" / "hub_clients.txt")
        except Unreachable as error:
            self.skipTest(f"huggingface_hub cannot be had here: {error}")
        done = subprocess.run([python, "-c", "\n".join(["from huggingface_hub import HfApi, HfFileSystem", "api = HfApi()",
                                                        *lines])],
                              env=self.environment(HF_HOME=str(self.scratch / "home"), HF_HUB_DISABLE_TELEMETRY="1",
                                                   HF_HUB_DISABLE_PROGRESS_BARS="1"),
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_they_read_what_wdelta_pushed(self):
        self.make_repository()
        self.make_steps(2)
        for step in self.steps:
            self.push(step, "--create", "--anchor", "now")
        out = self.scratch / "downloaded"
        out.mkdir()
        self.client("fs = HfFileSystem()",
                    "fs.get('buckets/tester/run/', %r, recursive=True)" % f"{out}/")
        local = out if (out / "wdelta.json").exists() else next(out.rglob("wdelta.json")).parent
        # A bucket copied into a directory is the same repository, for whoever only reads.
        self.run_ok("verify", local, "--deep")
        self.run_ok("pull", local, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.steps[1])

    def test_wdelta_pulls_what_they_uploaded(self):
        self.make_steps(2)
        local = self.scratch / "local"
        for step in self.steps:
            self.run_ok("push", step, local)
        shutil.rmtree(local / "staging", ignore_errors=True)
        self.client("api.create_bucket('tester/run', exist_ok=True)",
                    "from pathlib import Path", "root = Path(%r)" % str(local),
                    "api.batch_bucket_files('tester/run', add=[(str(p), str(p.relative_to(root)))"
                    " for p in sorted(root.rglob('*')) if p.is_file()])")
        self.assert_holds("main", self.steps[1])
        self.assert_holds("main~1", self.steps[0])
        self.run_ok("verify", REPO, "--deep")


if __name__ == "__main__":
    testing.main()
