# SPDX-License-Identifier: Apache-2.0
"""What travels between this machine and a store, and what lies on this machine meanwhile: nothing is sent, fetched or
written twice, whatever was killed in between."""

import os
import re
import signal
import subprocess
import threading
import time

import faults_test
import testing
from s3_test import MIB, REPO, Fault, S3Case
from terminal import Terminal


def held_bytes(folder):
    """What the files below a folder take."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


class Sending(S3Case):
    def setUp(self):
        super().setUp()
        self.serve()

    def watch(self, pattern, act):
        """Calls `act` at each request of that kind, once its body has arrived."""
        def look(request):
            if re.search(pattern, request):
                act(request)
            return None
        self.s3.fault_for = look

    def objects(self):
        return [key for key in self.s3.buckets["bucket"] if "/objects/" in key]

    def test_a_large_file_is_sent_without_a_copy_of_it(self):
        for name, size in (("model.bin", 70), ("other.bin", 5)):
            self.write(f"large/{name}", self.random.randbytes(size * MIB))
        held = []
        self.watch(r"^PUT .*/objects/", lambda _: held.append(held_bytes(self.scratch / "cache")))
        self.run_ok("push", self.scratch / "large", REPO)
        self.assertEqual(len(held), 3, self.s3.requests)
        self.assertLess(max(held), MIB)
        self.run_ok("verify", REPO)

    def test_a_file_that_changes_while_it_is_sent_is_refused(self):
        for size, request in ((150, r"^PUT .*partNumber=1&"), (20, r"^HEAD .*/objects/")):
            with self.subTest(size=size):
                weights = self.write("large/model.bin", self.random.randbytes(size * MIB))
                stamp = weights.stat()

                def change(_):
                    with open(weights, "r+b") as file:
                        file.seek((size - 1) * MIB)
                        byte = file.read(1)
                        file.seek((size - 1) * MIB)
                        file.write(bytes([byte[0] ^ 1]))
                    os.utime(weights, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
                    self.s3.fault_for = lambda request: None

                # By then it was hashed, and is not sent.
                self.watch(request, change)
                done = self.run_fails(3, "push", self.scratch / "large", REPO, "--transfers", "1")
                self.assertIn("changed while it was read", done.err)
                self.assertEqual(self.s3.uploads, {})
                self.assertEqual(self.objects(), [])

    def test_a_repeated_push_sends_only_what_is_missing(self):
        for number in range(3):
            self.write(f"large/{number}.bin", self.random.randbytes(6 * MIB))
        self.s3.faults = [Fault("status:403", 1, r"^PUT .*/branches/")]
        self.run_fails(8, "push", self.scratch / "large", REPO)
        self.assertEqual(len(self.objects()), 3)
        gone = self.objects()[1]
        del self.s3.buckets["bucket"][gone]
        self.s3.requests = []
        self.run_ok("push", self.scratch / "large", REPO)
        self.assertEqual(len(self.requests("^HEAD .*/objects/")), 3)
        self.assertEqual([request.endswith(gone) for request in self.requests("^PUT .*/objects/")], [True])
        self.run_ok("verify", REPO)

    def test_what_a_plan_of_gc_names_is_sent_again(self):
        self.write("large/model.bin", self.random.randbytes(6 * MIB))
        self.run_ok("push", self.some_history(1)[0], REPO)
        self.s3.faults = [Fault("status:403", 1, r"^PUT .*/branches/")]
        self.run_fails(8, "push", self.scratch / "large", REPO)
        self.run_ok("gc", REPO)
        self.s3.requests = []
        self.run_ok("push", self.scratch / "large", REPO)
        self.assertEqual(len(self.requests("^PUT .*/objects/")), 1)

    def test_an_upload_tells_how_far_it_is_while_a_part_goes(self):
        self.write("large/model.bin", self.random.randbytes(90 * MIB))
        environment = {**self.environment(), "TERM": "xterm"}
        command = self.command("push", self.scratch / "large", REPO, "--limit-rate", "45M")
        with Terminal(command, environment, self.scratch) as terminal:
            self.assertEqual(terminal.wait(), 0, terminal.screen)
        shown = re.findall(r"pushing +(\d+) %  [\d.]+ \w+ of 90.0 MiB  [\d.]+ \w+/s  \d+:\d\d left", terminal.screen)
        shares = list(map(int, shown))
        self.assertEqual(shares, sorted(shares), terminal.screen)
        self.assertGreater(len(set(shares)), 8, terminal.screen)
        self.assertLess(max(shares), 101)


class FetchingChains(S3Case):
    def test_the_deltas_of_a_chain_are_fetched_side_by_side(self):
        self.serve()
        steps = self.some_history(3)
        for step in steps:
            self.run_ok("push", step, REPO, "--anchor", "never")
        objects = sorted((len(object_.content), key) for key, object_ in self.s3.buckets["bucket"].items()
                         if "/objects/" in key)
        deltas = [key for _, key in objects[:-1]]
        self.assertEqual(len(deltas), 2, objects)
        for revisions in (["pull", f"{REPO}@main", self.scratch / "out"], ["diff", f"{REPO}@main", steps[2]],
                          ["verify", f"{REPO}@main"]):
            with self.subTest(command=revisions[0]):
                self.s3.requests = []
                meeting = threading.Barrier(2, timeout=60)
                waiting = set(deltas)

                def meet(request):
                    key = next((key for key in waiting if request.startswith("GET ") and request.endswith(key)), None)
                    if key:
                        waiting.discard(key)
                        meeting.wait()

                self.s3.fault_for = meet
                self.run_ok(*revisions)
                self.assertEqual((waiting, meeting.broken), (set(), False))
        self.assert_same_tree(self.scratch / "out", steps[2])


class FetchingMany(S3Case):
    small_disk = faults_test.FaultsTest.small_disk

    def setUp(self):
        super().setUp()
        self.serve()
        self.steps = self.make_run("run", "--size", "24M", "--shards", 24, "--steps", 3)
        for step in self.steps:
            self.run_ok("push", step, REPO, "--anchor", "never")
        self.out = self.scratch / "out"

    def pull(self, revision, *words):
        """The requests for objects that a pull makes, and the bytes that come."""
        self.s3.requests, self.s3.bytes_out = [], 0
        self.run_ok("pull", f"{REPO}@{revision}", self.out, *words)
        return self.requests("^GET .*/objects/"), self.s3.bytes_out

    def test_small_deltas_that_share_a_pack_are_fetched_once_together(self):
        for jobs in (1, 8):
            for swap in ([], ["--swap"]):
                self.run_ok("pull", f"{REPO}@main~2", self.out)
                requests, bytes_out = self.pull("main", "-j", jobs, *swap)
                self.assert_same_tree(self.out, self.steps[2])
                packs = {key: object_ for key, object_ in self.s3.buckets["bucket"].items()
                         if any(request.endswith(key) for request in requests)}
                self.assertEqual(len(packs), 2, requests)
                self.assertLess(len(requests), 12, requests)
                # A reader takes whole pages, and the beginning of a pack with the answer that says how large it is.
                self.assertLess(bytes_out, 1.5 * sum(len(object_.content) for object_ in packs.values()) + MIB)

    def test_one_at_a_time_shares_packs_where_there_is_room_for_one_more_file(self):
        self.out = self.small_disk("36m") / "out"
        self.run_ok("pull", f"{REPO}@main~2", self.out)
        requests, _ = self.pull("main", "-j", 1)
        self.assert_same_tree(self.out, self.steps[2])
        self.assertLess(len(requests), 12, requests)

    def test_many_small_files_wait_for_the_server_together(self):
        at_work, most = [0], [0]
        lock = threading.Lock()

        def look(request):
            if "/objects/" not in request:
                return None
            with lock:
                at_work[0] += 1
                most[0] = max(most[0], at_work[0])
            time.sleep(0.05)
            with lock:
                at_work[0] -= 1
            return None

        self.s3.fault_for = look
        self.pull("main~2", "-j", 4)
        self.assert_same_tree(self.out, self.steps[0])
        self.assertGreater(most[0], 2)


class Fetching(S3Case):
    def setUp(self):
        super().setUp()
        self.serve()
        self.checkpoint = self.scratch / "large"
        self.write("large/model.bin", self.random.randbytes(60 * MIB))
        self.write("large/config.json", "{}")
        self.run_ok("push", self.checkpoint, REPO)
        self.out = self.scratch / "out"

    small_disk = faults_test.FaultsTest.small_disk

    def assert_nothing_was_fetched(self):
        self.assertEqual(self.requests("/objects/"), [])
        self.s3.requests = []

    def test_the_room_for_a_file_is_looked_for_before_it_is_fetched(self):
        disk, cache = self.small_disk("50m"), self.small_disk("1m", "other")
        self.s3.requests = []
        for swap in ([], ["--swap"]):
            done = self.run_fails(3, "pull", REPO, disk / "out", *swap, env={"WDELTA_CACHE_DIR": str(cache)})
            self.assertRegex(done.err, r"needs 62,\d+,\d+ bytes" if not swap else "needs 62,")
            self.assert_nothing_was_fetched()
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        self.run_ok("pull", REPO, disk / "out", env={"WDELTA_CACHE_DIR": str(cache)})
        self.assert_same_tree(disk / "out", self.checkpoint)

    def test_what_a_killed_pull_left_has_its_room_already(self):
        disk = self.small_disk("64m")
        self.out = disk / "out"
        self.kill_on_its_way(self.out / ".wdelta" / "incoming")
        self.run_ok("pull", REPO, self.out)
        self.assert_same_tree(self.out, self.checkpoint)

    def test_the_room_for_what_a_delta_is_made_of_is_looked_for_too(self):
        repository, cache = "s3://bucket/deltas", self.small_disk("1m", "other")
        for step in self.make_run("run", "--size", "8M", "--single", "--steps", 2):
            self.run_ok("push", step, repository, "--anchor", "never")
        self.s3.requests = []
        done = self.run_fails(3, "pull", repository, self.out, env={"WDELTA_CACHE_DIR": str(cache)})
        self.assertRegex(done.err, rf"{cache}: needs [89],\d+,\d+ bytes.*\nhint: WDELTA_CACHE_DIR")
        self.assert_nothing_was_fetched()
        self.run_ok("pull", repository, self.out)

    def test_files_whose_deltas_have_room_only_one_after_the_other(self):
        repository, steps = "s3://bucket/deltas", [self.scratch / name for name in ("before", "after")]
        low_bits = int.from_bytes(b"\7\0" * (4 * MIB))
        for shard in range(4):
            weights = self.random.randbytes(8 * MIB)
            moved = int.from_bytes(weights) ^ (int.from_bytes(self.random.randbytes(8 * MIB)) & low_bits)
            for step, content in zip(steps, (weights, moved.to_bytes(8 * MIB))):
                self.write_weights(f"{step.name}/model-{shard:05}.safetensors", [("w", "BF16", [4 * MIB], content)])
        for step in steps:
            self.run_ok("push", step, repository, "--anchor", "never")
        objects = [len(object_.content) for key, object_ in self.s3.buckets["bucket"].items()
                   if key.startswith("deltas/objects/")]
        deltas = [size for size in objects if size < 8 * MIB]
        self.assertEqual(len(objects), 8)
        self.assertGreater(min(deltas), MIB)  # none shares a pack
        cache = self.small_disk(f"{max(deltas) // MIB + 2}m")
        self.assertLess(os.statvfs(cache).f_blocks * os.statvfs(cache).f_frsize, sum(deltas))
        for swap in ([], ["--swap"]):
            self.run_ok("pull", f"{repository}@main~1", self.out)
            self.run_ok("pull", repository, self.out, "-j", 4, *swap, env={"WDELTA_CACHE_DIR": str(cache)})
            self.assert_same_tree(self.out, steps[1])

    def test_a_deep_check_keeps_no_objects_where_there_is_no_room_for_all(self):
        repository, cache = "s3://bucket/anchors", self.small_disk("20m")
        for step in self.make_run("run", "--size", "8M", "--single", "--steps", 3):
            self.run_ok("push", step, repository, "--anchor", "now")
        self.run_ok("verify", repository, "--deep", "-j", 1, env={"WDELTA_CACHE_DIR": str(cache)})

    def kill_on_its_way(self, incoming, *words):
        """A pull that is killed when some MiB have arrived; returns how many bytes they are."""
        self.s3.fault_for = lambda request: Fault("slow") if "/objects/" in request else None
        child = subprocess.Popen(self.command("pull", REPO, self.out, "--transfers", "2", *words),
                                 env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while child.poll() is None and held_bytes(incoming) < 10 * MIB and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        self.s3.fault_for = lambda request: None
        arrived = held_bytes(incoming)
        self.assertGreater(arrived, 9 * MIB)
        self.s3.bytes_out = 0
        return arrived

    def test_a_killed_pull_goes_on_where_it_stood(self):
        incoming = self.out / ".wdelta" / "incoming"
        arrived = self.kill_on_its_way(incoming)
        self.run_ok("pull", REPO, self.out)
        self.assert_same_tree(self.out, self.checkpoint)
        self.assertLess(self.s3.bytes_out, 62 * MIB - arrived * 3 // 4)
        self.assertFalse(incoming.exists())
        self.assertEqual([path for path in (self.scratch / "cache").rglob("*") if path.is_file()], [])

    def test_so_does_one_that_swaps(self):
        self.run_ok("pull", REPO, self.out)
        (self.out / "model.bin").unlink()
        arrived = self.kill_on_its_way(self.out / ".wdelta" / "incoming", "--swap")
        self.run_ok("pull", REPO, self.out, "--swap")
        self.assert_same_tree(self.out, self.checkpoint)
        self.assertLess(self.s3.bytes_out, 62 * MIB - arrived * 3 // 4)
        self.assertFalse((self.out / ".wdelta" / "incoming").exists())

    def test_so_does_one_that_swaps_in_a_directory_that_is_not_there_yet(self):
        arrived = self.kill_on_its_way(self.scratch / "cache", "--swap")
        self.assertFalse(self.out.exists())
        self.run_ok("pull", REPO, self.out, "--swap")
        self.assert_same_tree(self.out, self.checkpoint)
        self.assertLess(self.s3.bytes_out, 62 * MIB - arrived * 3 // 4)
        self.assertEqual([path for path in (self.scratch / "cache").rglob("*") if path.is_file()], [])

    def test_what_was_on_its_way_for_another_commit_is_dropped_in_the_end(self):
        self.kill_on_its_way(self.out / ".wdelta" / "incoming")
        self.write("small/config.json", "{}")
        self.run_ok("push", self.scratch / "small", REPO)
        self.run_ok("pull", REPO, self.out)
        self.assert_same_tree(self.out, self.scratch / "small")
        self.assertFalse((self.out / ".wdelta" / "incoming").exists())

    def test_nothing_is_written_twice(self):
        most = [0]

        def look(request):
            if "/objects/" in request:
                most[0] = max(most[0], held_bytes(self.out) + held_bytes(self.scratch / "cache"))
            return None

        self.s3.fault_for = look
        self.run_ok("pull", REPO, self.out)
        self.assertGreater(most[0], 0)
        self.assertLess(most[0], 62 * MIB)

    def test_bytes_that_are_not_the_object_are_no_file(self):
        key = next(key for key in self.s3.buckets["bucket"] if "/objects/" in key)
        stored = self.s3.buckets["bucket"][key]
        damaged = bytearray(stored.content)
        damaged[40 * MIB] ^= 1
        stored.content = bytes(damaged)
        self.run_fails(5, "pull", REPO, self.out, says="is not what it should be: digest")
        self.assertFalse((self.out / "model.bin").exists())
        self.assertEqual(held_bytes(self.out / ".wdelta" / "incoming"), 0)
        stored.content = stored.content[:-1]
        self.run_fails(5, "pull", REPO, self.out, says="bytes")

    def test_each_document_is_asked_for_once(self):
        self.run_ok("push", self.some_history(1)[0], REPO, "--step", "7")
        for revision, manifests in ((REPO, 1), (f"{REPO}@main", 1), (f"{REPO}@step:7", 1), (f"{REPO}@main~1", 2)):
            with self.subTest(revision=revision):
                self.s3.requests = []
                self.run_ok("pull", revision, self.scratch / "again")
                asked = [re.sub(r"[?&].*prefix=", "?", request) for request in self.s3.requests]
                self.assertEqual(len(asked), len(set(asked)) + len(self.requests("/objects/"))
                                 - len(set(self.requests("/objects/"))), self.s3.requests)
                self.assertEqual(len(self.requests("/commits/")), manifests, self.s3.requests)
                beside = [request for request in self.s3.requests if "/objects/" not in request]
                # wdelta.json, the branch's list and entry, the manifests, the list of recipe books and the book.
                self.assertEqual(len(beside), 5 + manifests, beside)


class Collecting(S3Case):
    def lists_of_gc(self, steps):
        """How many lists gc asks for in a history of so many commits, most of which it takes."""
        repository = f"s3://bucket/{steps}"
        commits = [self.run_ok("push", checkpoint, repository, "--step", step, "--anchor", "never").strip()
                   for step, checkpoint in enumerate(self.some_history(steps))]
        self.run_ok("squash", repository, f"{commits[0]}..{commits[-1]}")
        self.s3.requests = []
        self.assertIn("removed", self.run_ok("gc", repository, "--grace", "0"))
        self.run_ok("pull", repository, self.scratch / f"out-{steps}")
        self.assert_same_tree(self.scratch / f"out-{steps}", self.scratch / f"c{steps - 1}")
        self.assertGreater(len(self.requests("^DELETE .*/recipes/")), steps - 3)
        return len(self.requests("^GET .*list-type=2"))

    def test_gc_asks_for_lists_not_for_each_key(self):
        self.serve()
        self.assertEqual(self.lists_of_gc(6), self.lists_of_gc(12), self.s3.requests)


class Making(S3Case):
    def test_push_makes_the_bucket_when_asked(self):
        self.serve()
        checkpoint = self.some_history(1)[0]
        self.run_fails(4, "push", checkpoint, "s3://fresh/run", says=["there is no bucket fresh", "--create"])
        for step in (1, 2):
            self.run_ok("push", checkpoint, "s3://fresh/run", "--create", "--step", step)
        self.assertIn("run/wdelta.json", self.s3.buckets["fresh"])
        self.assertEqual(len(self.requests("^PUT /fresh$|^PUT /fresh/$")), 1, self.s3.requests)
        self.run_fails(8, "push", checkpoint, "s3://taken/run", "--create", says="take another")
        self.run_fails(8, "push", checkpoint, "s3://No_Name/run", "--create", says="cannot be made")


class Credentials(S3Case):
    def setUp(self):
        super().setUp()
        self.serve()
        self.checkpoint = self.some_history(1)[0]
        self.without = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}

    def test_those_that_are_not_read_are_named(self):
        for setting, what in (("sso_session = x", "single sign-on"), ("sso_start_url = https://x", "single sign-on"),
                              ("role_arn = arn:aws:iam::1:role/x\nsource_profile = default", "a role"),
                              ("credential_process = /bin/false", "a program"),
                              ("credential_source = Ec2InstanceMetadata", "the machine")):
            for profile in ("default", "work"):
                section = profile if profile == "default" else f"profile {profile}"
                self.write(".aws/config", f"[{section}]\n{setting}\n")
                asked = {} if profile == "default" else {"AWS_PROFILE": profile}
                done = self.run_fails(9, "push", self.checkpoint, REPO, env={**self.without, **asked})
                self.assertIn(f"profile {profile}: has credentials from {what} ({setting.split(' ')[0]})", done.err)
                self.assertIn(f"aws configure export-credentials --profile {profile} --format env", done.err)
                # What the hint makes is used though the profile is still asked for.
                self.run_ok("log", REPO, env=asked) if self.s3.buckets["bucket"] else self.run_ok(
                    "push", self.checkpoint, REPO, env=asked)

    def test_so_are_those_of_a_container(self):
        for variable in ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_WEB_IDENTITY_TOKEN_FILE"):
            self.run_fails(9, "push", self.checkpoint, REPO, env={**self.without, variable: "/x"},
                           says=[variable, "export-credentials"])


if __name__ == "__main__":
    testing.main()
