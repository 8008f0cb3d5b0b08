#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The binary against an S3 that checks every signature and goes wrong on request."""

import datetime
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "services"))

import s3_emulator
import testing
from s3_emulator import S3, Fault

REPO = "s3://bucket/runs/me"
MIB = 1 << 20


class S3Case(testing.Case):
    def serve(self, **options):
        s3 = S3(**options)
        s3.__enter__()
        self.addCleanup(s3.__exit__)
        self.s3 = s3
        return s3

    def environment(self, **more):
        environment = {name: value for name, value in super().environment().items() if not name.startswith("AWS_")}
        if hasattr(self, "s3"):
            environment.update(self.s3.environment())
        environment.update(WDELTA_CACHE_DIR=str(self.scratch / "cache"))
        environment.update(more)
        return {name: value for name, value in environment.items() if value is not None}

    def told(self, done):
        if hasattr(self, "s3"):
            return super().told(done) + "\n--- last requests\n" + "\n".join(self.s3.requests[-20:])
        return super().told(done)

    def run_any(self, *words, **more):
        done = super().run_any(*words, **more)
        for secret in (s3_emulator.SECRET, "Signature="):
            self.assertNotIn(secret, done.out + done.err)
        if hasattr(self, "s3"):
            self.assertEqual(self.s3.violations, [])
        return done

    def requests(self, pattern):
        return [request for request in self.s3.requests if re.search(pattern, request)]

    def some_history(self, steps=4):
        """Checkpoints of a small run."""
        tensors = self.some_weights(count=4, elements=40_000)
        checkpoints = []
        for step in range(steps):
            self.write_weights(f"c{step}/model.safetensors", tensors)
            self.write(f"c{step}/config.json", f'{{"step": {step}}}')
            checkpoints.append(self.scratch / f"c{step}")
            tensors = self.moved(tensors)
        return checkpoints

    def push_all(self, checkpoints):
        return [self.run_ok("push", checkpoint, REPO, "--step", str(step)).strip()
                for step, checkpoint in enumerate(checkpoints)]


class Hallway(S3Case):
    """Everything that works against a directory works against a bucket."""

    def walk(self):
        checkpoints = self.some_history()
        commits = self.push_all(checkpoints)
        out = self.scratch / "out"
        for step in (3, 0, 2):
            self.run_ok("pull", f"{REPO}@step:{step}", out)
            self.assert_same_tree(out, checkpoints[step])
        self.assertEqual(len(self.run_ok("log", REPO, "--json").splitlines()) > 0, True)
        self.run_ok("verify", REPO, "--deep")
        self.run_ok("verify", out, f"{REPO}@step:2")
        self.run_ok("tag", REPO, "best", "step:1")
        self.run_ok("squash", REPO, f"{commits[0]}..{commits[3]}")
        self.run_ok("branch", REPO, "main", "best", "--force")
        self.run_ok("gc", REPO, "--grace", "0")
        self.run_ok("pull", REPO, self.scratch / "back")
        self.assert_same_tree(self.scratch / "back", checkpoints[1])
        self.assert_no_leftovers()
        self.assertEqual([path.name for path in (self.scratch / "cache").rglob("*") if path.is_file()], [])

    def test_push_pull_verify_squash_and_gc(self):
        self.serve(page=3)
        self.walk()

    def test_the_same_while_the_store_fails_again_and_again(self):
        self.serve(page=3)
        kinds = ["status:503", "status:500", "reset", "truncate", "slow", "lost", "elsewhere"]
        self.s3.fault_for = lambda request: (
            Fault(self.random.choice(kinds)) if self.random.random() < 0.1 else None)
        self.walk()

    def test_a_bucket_without_prefix(self):
        self.serve()
        checkpoint = self.some_history(1)[0]
        self.run_ok("push", checkpoint, "s3://bucket")
        self.run_ok("pull", "s3://bucket/", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", checkpoint)
        self.assertIn("wdelta.json", self.s3.buckets["bucket"])

    def test_a_list_in_pages_is_read_to_its_end_however_it_says_that_there_is_more(self):
        """`verify` would say ok of what it has not seen, and `gc` would take for not there what is on later pages."""
        for flag in ("<IsTruncated>1</IsTruncated>", "<IsTruncated>TRUE</IsTruncated>", ""):
            with self.subTest(flag):
                self.serve(page=2)
                checkpoints = self.some_history(4)
                self.push_all(checkpoints[:3])
                before = set(self.s3.buckets["bucket"])
                self.run_ok("push", checkpoints[3], REPO)
                log = self.run_ok("log", REPO)
                self.s3.rewrite = lambda text: text.replace(b"<IsTruncated>true</IsTruncated>", flag.encode())
                self.assertEqual(self.run_ok("log", REPO), log)
                self.run_ok("verify", REPO)
                lost, = [key for key in set(self.s3.buckets["bucket"]) - before if "/recipes/" in key]
                del self.s3.buckets["bucket"][lost]
                self.run_fails(5, "verify", REPO)

    def test_what_a_list_shows_twice_is_there_once(self):
        """As lists do that are made while others write: a key ends one page and begins the next."""
        self.serve(page=2)
        checkpoints = self.some_history(3)
        self.push_all(checkpoints[:2])
        log = self.run_ok("log", REPO)
        self.s3.rewrite = lambda text: re.sub(b"(<Contents>.*?</Contents>)", rb"\1\1", text)
        self.assertEqual(self.run_ok("log", REPO), log)
        self.run_ok("push", checkpoints[2], REPO)
        self.run_ok("verify", REPO)
        self.run_ok("gc", REPO, "--grace", "0")
        self.s3.rewrite = lambda text: text
        self.run_ok("verify", REPO)
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", checkpoints[2])

    def test_a_list_without_times_or_sizes_is_refused(self):
        self.serve()
        self.push_all(self.some_history(2))
        before = dict(self.s3.buckets["bucket"])
        for name in (b"LastModified", b"Size", b"Key"):
            self.s3.rewrite = lambda text: re.sub(b"<%s>[^<]*</%s>" % (name, name), b"", text)
            self.run_fails(8, "gc", REPO, "--grace", "0", says=f"without its {name.decode()}")
        self.assertEqual({key: found for key, found in self.s3.buckets["bucket"].items() if "/gc/" not in key}, before)
        self.s3.rewrite = lambda text: text[:-5]
        self.run_fails(8, "verify", REPO, says="ends too early")

    def test_what_others_keep_in_the_bucket_is_left_alone(self):
        self.serve(buckets=("bucket", "other"))
        for name in ("runs/mel", "runs/me2/x", "a/../b"):
            self.s3.buckets["bucket"][name] = s3_emulator.Object(b"theirs", '"x"', self.s3.clock())
        self.push_all(self.some_history(2))
        self.run_ok("gc", REPO, "--grace", "0")
        self.assertEqual(self.s3.buckets["bucket"]["runs/mel"].content, b"theirs")


class Writers(S3Case):
    def test_of_writers_that_race_each_is_in_the_history_or_told(self):
        self.serve()
        base, *others = self.some_history(6)
        self.run_ok("push", base, REPO)
        running = [subprocess.Popen(self.command("push", other, REPO, "-m", other.name), stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True,
                                    env=self.environment(WDELTA_STATE_DIR=str(self.scratch / f"state-{other.name}")))
                   for other in others]
        ended = [(process.communicate(), process.returncode) for process in running]
        log = self.run_ok("log", REPO, "--json")
        self.assertIn(0, [code for _, code in ended], ended)
        for (out, err), code in ended:
            self.assertIn(code, (0, 7), err)
            if code == 0:
                self.assertIn(out.strip(), log)
        self.run_ok("verify", REPO)

    def test_a_lost_reply_is_no_conflict(self):
        self.serve()
        first, second = self.some_history(2)
        self.run_ok("push", first, REPO)
        self.s3.faults = [Fault("lost", 2, r"^PUT .*/branches/main/")]
        self.run_ok("push", second, REPO)
        self.assertEqual(len(self.requests(r"^PUT .*/branches/main/0+2")), 1)
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", second)

    def test_names_are_read_side_by_side(self):
        self.serve()
        self.run_ok("push", self.some_history(1)[0], REPO)
        for name in "ab":
            self.run_ok("tag", REPO, name, "main")
        meeting = threading.Barrier(2, timeout=60)

        def meet(request):
            if re.match("GET .*/tags/[ab]/0", request):
                meeting.wait()

        self.s3.fault_for = meet
        self.assertIn("tag: a, tag: b", self.run_ok("log", REPO))
        self.assertFalse(meeting.broken)

    def test_no_contested_entry_is_written_twice(self):
        self.serve(ignores_conditions=True)
        steps = self.some_history(4)
        self.run_ok("push", steps[0], REPO)
        for step, kind in zip(steps[1:], ("lost", "after:503", "after:500")):
            self.s3.faults = [Fault(kind, 1, r"^PUT .*/branches/main/")]
            self.run_ok("push", step, REPO)
        written = self.requests(r"^PUT .*/branches/main/")
        self.assertGreater(len(written), 3)
        self.assertEqual(len(written), len(set(written)), written)
        self.assertEqual(len(self.run_ok("log", REPO, "--json").splitlines()), 4)

    def test_an_entry_that_did_not_arrive_is_sent_again(self):
        self.serve()
        first, second = self.some_history(2)
        self.run_ok("push", first, REPO)
        self.s3.faults = [Fault("drop", 2, r"^PUT .*/branches/main/"), Fault("status:500", 1, r"^PUT .*/branches/main/")]
        self.run_ok("push", second, REPO)
        self.assertEqual(len(self.requests(r"^PUT .*/branches/main/0+2")), 4)

    def test_a_body_that_came_too_slowly_is_sent_again(self):
        self.serve()
        first, second = self.some_history(2)
        for step in (first, second):
            self.s3.faults = [Fault("timeout", 2, f"^PUT .*/{folder}/") for folder in ("objects", "commits", "branches")]
            self.run_ok("push", step, REPO)
            self.assertEqual([fault.count for fault in self.s3.faults], [0, 0, 0])
        self.run_ok("verify", REPO)

    def test_a_lost_reply_does_not_hide_a_lost_race(self):
        self.serve()
        first, second, third = self.some_history(3)
        self.run_ok("push", first, REPO)
        winner = self.environment(WDELTA_STATE_DIR=str(self.scratch / "state-2"))
        ran = []

        def race(request):
            if self.s3.fault_for is race and re.match(r"PUT .*/branches/main/0+2", request):
                self.s3.fault_for = lambda request: None
                ran.append(subprocess.run(self.command("push", third, REPO), env=winner, capture_output=True, text=True))
                return Fault("lost")
            return None

        self.s3.fault_for = race
        self.run_fails(7, "push", second, REPO, says="by someone else")
        self.assertEqual(ran[0].returncode, 0, ran[0].stderr)
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", third)

    def test_an_entry_that_was_only_said_to_be_taken(self):
        self.serve()
        first, second = self.some_history(2)
        self.run_ok("push", first, REPO)
        self.s3.faults = [Fault("says:", 1, "^PUT .*/branches/")]
        self.run_fails(8, "push", second, REPO, says="does not have it")
        self.run_ok("push", second, REPO)
        self.run_ok("verify", REPO)

    def test_what_was_made_all_the_same_is_told(self):
        self.serve()
        first, second = self.some_history(2)
        self.run_ok("push", first, REPO)
        self.s3.faults = [Fault("status:403", 100, "^PUT .*/tags/")]
        done = self.run_any("push", second, REPO, "--tag", "v1")
        self.assertEqual(done.code, 8, self.told(done))
        self.s3.faults = []
        self.assertIn(self.run_ok("log", "-v", "-n", "1", REPO).split()[0], done.err)

    def test_what_a_killed_first_push_asked_the_store_with_is_in_nobodys_way(self):
        self.serve()
        checkpoint, = self.some_history(1)
        self.s3.faults = [Fault("status:403", 100, "^DELETE ")]
        self.run_ok("push", checkpoint, REPO)
        left = [key for key in self.s3.buckets["bucket"] if "/probe-" in key]
        self.assertEqual(len(left), 1)
        self.assertRegex(left[0], r"/probe-[0-9a-f]{16}$")
        self.s3.faults = []
        for key in [key for key in self.s3.buckets["bucket"] if key not in left]:
            del self.s3.buckets["bucket"][key]
        self.run_ok("push", checkpoint, REPO)
        self.run_ok("verify", REPO)
        others = [f"{REPO}/probe-llama", f"{REPO}/probe-{'0' * 16}"]
        for other in others:
            self.run_ok("push", checkpoint, other)
        self.s3.buckets["bucket"]["runs/me/probe-notes.txt"] = self.s3.buckets["bucket"][left[0]]
        time.sleep(1.1)
        self.run_ok("gc", REPO, "--grace", "0")
        for other in others:
            self.run_ok("verify", other)
        self.assertNotIn(left[0], self.s3.buckets["bucket"])
        self.assertIn("runs/me/probe-notes.txt", self.s3.buckets["bucket"])

    def test_a_push_while_verify_looks_at_commits(self):
        self.serve()
        first, second = self.some_history(2)
        self.run_ok("push", first, REPO)
        pushed = []

        def push_before(request):
            if "prefix=runs%2Fme%2Fcommits" in request and not pushed:
                pushed.append(None)
                pushed.append(self.run_ok("push", second, REPO))

        self.s3.fault_for = push_before
        for options in ((), ("--quick",), ("--deep",)):
            pushed.clear()
            self.run_ok("verify", REPO, *options)
            self.assertEqual(len(pushed), 2)

    def test_a_list_that_lacks_what_is_there_is_not_believed(self):
        self.serve()
        self.run_ok("push", self.some_history(1)[0], REPO)
        nothing = "says:<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        self.s3.faults = [Fault(nothing, 100, r"\?list-type")]
        self.run_fails(5, "verify", REPO, says="wdelta.json")
        # The newest entry is missing from the list alone.
        self.s3.faults = []
        second = self.run_ok("push", self.scratch / "c0", REPO, "-m", "again", "--step", "7").strip()
        everything = self.s3.buckets["bucket"]
        key, = [key for key in everything if key.endswith("/branches/main/0000000000000002")]
        page = ("<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>" + key[:-1] + "1</Key><Size>200"
                "</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>")
        self.s3.faults = [Fault("says:" + page, 100, r"prefix=runs%2Fme%2Fbranches")]
        self.run_ok("gc", REPO, "--grace", "0")
        self.s3.faults = []
        self.assertIn(second, self.run_ok("log", "-v", REPO))
        self.run_ok("verify", REPO, "--deep")

    def test_a_push_of_what_gc_is_about_to_remove(self):
        """What a killed push left is pushed again between gc's look at its age and its removal."""
        self.serve()
        tensors = self.some_weights(2, 1_500_000)
        self.write_weights("a/model.safetensors", tensors)
        self.write_weights("b/model.safetensors", self.moved(tensors, 0.3))
        self.write("b/side", self.random.randbytes(70_000))
        self.write_weights("whole/model.safetensors", self.some_weights(1, 2_000_000))
        self.run_ok("push", self.scratch / "a", REPO)
        before = set(self.s3.buckets["bucket"])
        for name in ("b", "whole"):
            self.run_ok("branch", REPO, name, "main")
            self.run_ok("push", self.scratch / name, REPO, "-b", name)
            for key in [key for key in self.s3.buckets["bucket"] if f"/branches/{name}/" in key]:
                del self.s3.buckets["bucket"][key]
        left = {key for key in self.s3.buckets["bucket"] if key not in before and "/objects/" in key}
        self.assertGreater(len(left), 2)
        time.sleep(1.1)
        self.run_ok("gc", REPO, "--grace", "1s")
        time.sleep(2.1)
        pushed = []

        def push_first(request):
            if request.startswith("DELETE ") and "/objects/" in request and not pushed:
                pushed.append(request)
                for name in ("b", "whole"):
                    self.run_ok("branch", REPO, name, "main")
                    self.run_ok("push", self.scratch / name, REPO, "-b", name)

        self.s3.fault_for = push_first
        self.run_ok("gc", REPO, "--grace", "1s", "--transfers", "1")
        self.assertEqual(len(pushed), 1)
        self.s3.fault_for = lambda _: None
        self.assertFalse(left & set(self.s3.buckets["bucket"]))
        for name in ("b", "whole"):
            self.run_ok("pull", f"{REPO}@{name}", self.scratch / f"pulled-{name}")
            self.assert_same_tree(self.scratch / f"pulled-{name}", self.scratch / name)
        self.run_ok("verify", "--deep", REPO)

    def test_a_copy_in_a_store_that_takes_every_key_twice(self):
        self.serve()
        first, second = self.some_history(2)
        self.run_ok("push", first, REPO)
        self.s3.ignores_conditions = True
        before = {key: found.content for key, found in self.s3.buckets["bucket"].items()}
        self.run_fails(9, "push", second, REPO, says="moved by exclusive creation")
        self.run_fails(9, "tag", REPO, "v1", says="moved by exclusive creation")
        after = self.s3.buckets["bucket"]
        self.assertEqual({key: after[key].content for key in before}, before)
        self.assertFalse([key for key in after if key not in before and ("/branches/" in key or "/tags/" in key)])

    def test_parts_that_come_with_status_200_are_parts(self):
        """As rclone's server sends them."""
        self.serve()
        self.write_weights("whole/model.safetensors", self.some_weights(1, 3_000_000))
        self.write("whole/more.bin", self.random.randbytes(2_500_000))
        self.run_ok("push", self.scratch / "whole", REPO)
        self.s3.faults = [Fault("unmarked", 10**6, "^GET ")]
        self.run_ok("pull", REPO, self.scratch / "pulled")
        self.assert_same_tree(self.scratch / "pulled", self.scratch / "whole")
        self.run_ok("verify", REPO)

    def test_what_is_left_makes_a_file_whose_whole_object_has_other_bytes(self):
        self.serve()
        tensors = self.some_weights(1, 3_000_000)
        self.write_weights("a/model.safetensors", tensors)
        self.write_weights("b/model.safetensors", self.moved(tensors))
        self.run_ok("push", self.scratch / "a", REPO)
        first = {key for key in self.s3.buckets["bucket"] if "/objects/" in key}
        self.run_ok("push", self.scratch / "b", REPO, "--anchor", "now")
        objects = self.s3.buckets["bucket"]
        anchor = max((key for key in objects if "/objects/" in key and key not in first), key=lambda key: len(objects[key].content))
        sound = objects[anchor]
        objects[anchor] = s3_emulator.Object(sound.content[:-1] + bytes([sound.content[-1] ^ 1]), sound.etag,
                                             self.s3.clock())
        said = self.run_any("pull", REPO, self.scratch / "out")
        self.assertEqual(said.code, 0, self.told(said))
        self.assertIn("another way is taken", said.err)
        self.assert_same_tree(self.scratch / "out", self.scratch / "b")

    def test_gc_waits_for_a_list_that_lags(self):
        self.serve()
        self.run_ok("push", self.some_history(1)[0], REPO)
        nothing = "says:<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        self.s3.faults = [Fault(nothing, 2, r"prefix=runs%2Fme%2Fgc")]
        self.run_ok("gc", REPO)

    def test_a_store_that_ignores_conditions_has_contested_entries(self):
        self.serve(ignores_conditions=True)
        first, second, third = self.some_history(3)
        self.run_ok("push", first, REPO)
        running = [subprocess.Popen(self.command("push", other, REPO), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True,
                                    env=self.environment(WDELTA_STATE_DIR=str(self.scratch / f"state-{other.name}")))
                   for other in (second, third)]
        ended = [(process.communicate(), process.returncode) for process in running]
        self.assertIn(sorted(code for _, code in ended), ([0, 0], [0, 7]), ended)
        log = self.run_ok("log", REPO, "--json")
        for (out, _), code in ended:
            if code == 0:
                self.assertIn(out.strip(), log)
        self.run_ok("verify", REPO)

    def test_on_a_store_that_ignores_conditions_branches_are_contested(self):
        self.serve(ignores_conditions=True)
        first, second = self.some_history(2)
        self.run_ok("push", first, REPO)
        self.run_ok("push", second, REPO)
        self.assertIn(b'"contested"', self.s3.buckets["bucket"]["runs/me/wdelta.json"].content)
        entries = [key for key in self.s3.buckets["bucket"] if "/branches/main/" in key]
        self.assertEqual([len(key.rpartition("/")[2]) for key in entries], [16 + 33 + 33] * 2)
        self.assertEqual(len(self.run_ok("log", REPO).splitlines()), 2)
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", second)


class LargeObjects(S3Case):
    def large_checkpoint(self, mib=150):
        self.write("large/model.bin", self.random.randbytes(mib * MIB))
        return self.scratch / "large"

    def test_an_upload_that_broke_off_goes_on_with_the_parts_that_are_missing(self):
        self.serve()
        checkpoint = self.large_checkpoint()
        self.s3.faults = [Fault("status:500", 100, r"partNumber=2&", {"Retry-After": "0"})]
        self.run_fails(8, "push", checkpoint, REPO, says="does not answer as it should")
        self.assertEqual(len(self.s3.uploads), 1)
        self.s3.faults, self.s3.requests = [], []
        self.run_ok("push", checkpoint, REPO)
        self.assertEqual(len(self.requests(r"partNumber=2&")), 1)
        self.assertEqual(len(self.requests(r"partNumber=[13]&")), 0)
        self.assertEqual(self.s3.uploads, {})
        self.run_ok("verify", REPO)

    def test_an_upload_that_fails_for_good_is_given_up(self):
        self.serve()
        self.s3.faults = [Fault("status:413", 1, r"partNumber=2&")]
        self.run_fails(9, "push", self.large_checkpoint(), REPO)
        self.assertEqual(self.s3.uploads, {})

    def at_second_part(self, then):
        """Calls it once, when a push of a large checkpoint is about to send its second part; pushes that."""
        self.serve()
        checkpoint = self.large_checkpoint()

        def second_part(request):
            if self.s3.fault_for is second_part and "partNumber=2&" in request:
                self.s3.fault_for = lambda request: None
                then(checkpoint)

        self.s3.fault_for = second_part
        self.run_ok("push", checkpoint, REPO, "--transfers", "1")
        self.assertEqual(self.s3.uploads, {})
        self.run_ok("verify", REPO)

    def test_of_two_that_send_the_same_one_completes_it_for_both(self):
        def push_too(checkpoint):
            other = self.environment(WDELTA_STATE_DIR=str(self.scratch / "state-2"),
                                     WDELTA_CACHE_DIR=str(self.scratch / "cache-2"))
            done = subprocess.run(self.command("push", checkpoint, REPO, "-b", "other"), env=other, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(self.requests(r"partNumber=1&")), 1)  # what was there was not sent again

        self.at_second_part(push_too)

    def test_an_upload_that_another_program_gives_up_is_begun_anew(self):
        self.at_second_part(lambda _: self.s3.uploads.clear())

    def test_an_upload_of_another_program_is_not_given_up(self):
        self.serve()
        checkpoint = self.large_checkpoint()
        self.s3.faults = [Fault("status:500", 100, r"partNumber=2&", {"Retry-After": "0"})]
        self.run_fails(8, "push", checkpoint, REPO)
        self.s3.faults = [Fault("status:413", 1, r"partNumber=2&")]
        self.run_fails(9, "push", checkpoint, REPO)
        self.assertEqual(len(self.s3.uploads), 1)
        self.s3.faults = []
        self.run_ok("push", checkpoint, REPO)

    def test_gc_says_that_it_could_not_look_for_uploads(self):
        self.serve()
        self.run_ok("push", self.some_history(1)[0], REPO)
        self.s3.faults = [Fault("status:400", 1, "[?&]uploads=")]
        self.run_fails(8, "gc", REPO)
        self.s3.faults = [Fault("status:403", 1, "[?&]uploads=")]
        self.run_ok("gc", REPO)

    def test_a_completion_whose_reply_is_lost_is_done(self):
        self.serve()
        self.s3.faults = [Fault("lost", 1, r"^POST .*uploadId=")]
        self.run_ok("push", self.large_checkpoint(70), REPO)
        self.run_ok("verify", REPO)

    def test_a_completion_is_believed_only_when_it_says_so(self):
        checkpoint = self.large_checkpoint(70)
        for text in ("", '<?xml version="1.0" encoding="UTF-8"?>  ', "<Error><Code>InternalErr", "<html>hello</html>",
                     "<Error><Code>InternalError</Code><Message>try again</Message></Error>"):
            with self.subTest(text):
                self.serve()
                self.s3.faults = [Fault(f"says:{text}", 100, r"^POST .*uploadId=")]
                self.run_fails(8, "push", checkpoint, REPO)
                self.run_fails(4, "log", REPO)
                self.s3.faults = [Fault(f"says:{text}", 2, r"^POST .*uploadId=")]
                self.run_ok("push", checkpoint, REPO)
                self.run_ok("verify", REPO)

    def test_a_list_of_uploads_that_begins_anew_each_time_ends(self):
        self.serve()
        self.s3.faults = [Fault("says:<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k"
                                "</NextKeyMarker></ListMultipartUploadsResult>", 50, r"\?uploads=?&prefix")]
        self.run_ok("push", self.large_checkpoint(70), REPO)
        self.assertLess(len(self.requests(r"uploads=?&")), 8)

    def test_a_download_that_broke_off_goes_on_where_it_stood(self):
        self.serve()
        checkpoint = self.large_checkpoint(40)
        self.run_ok("push", checkpoint, REPO)
        count = [0]

        def fail_after_some(request):
            count[0] += "/objects/" in request
            return Fault("status:500", headers={"Retry-After": "0"}) if count[0] > 4 and "/objects/" in request else None

        self.s3.fault_for = fail_after_some
        self.run_fails(8, "pull", REPO, self.scratch / "out")
        self.assertNotEqual(list((self.scratch / "out/.wdelta/incoming").glob("spool-*")), [])
        self.s3.fault_for = lambda request: None
        self.s3.bytes_out = 0
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", checkpoint)
        self.assertLess(self.s3.bytes_out, 38 * MIB)
        self.assertFalse((self.scratch / "out/.wdelta/incoming").exists())

    def test_bodies_that_end_early_are_gone_on_with(self):
        self.serve()
        checkpoint = self.large_checkpoint(40)
        self.run_ok("push", checkpoint, REPO)
        count = [0]

        def cut_all_but_the_first(request):
            count[0] += "/objects/" in request
            return Fault("reset") if "/objects/" in request and 1 < count[0] < 20 else None

        self.s3.fault_for = cut_all_but_the_first
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assertGreater(count[0], 20)
        self.assert_same_tree(self.scratch / "out", checkpoint)

    def test_another_part_than_was_asked_for_is_not_taken_for_damage(self):
        self.serve()
        checkpoint = self.large_checkpoint(4)
        self.run_ok("push", checkpoint, REPO)
        for kind in ("beginning", "claims:*"):
            self.s3.faults = [Fault(kind, 1000, r"^GET .*/objects/")]
            done = self.run_fails(8, "verify", REPO, "--deep", says="the answer is")
            self.assertNotIn("--repair", done.err)
            self.run_fails(8, "pull", REPO, self.scratch / "out", absent=self.scratch / "out/model.bin")
        self.s3.faults = [Fault("claims:*", 1000, r"^GET .*/wdelta.json")]
        self.run_fails(8, "log", REPO, says="wdelta.json")
        self.s3.faults = []
        self.run_ok("verify", REPO, "--deep")

    def test_a_size_that_is_a_lie_costs_no_memory(self):
        self.serve()
        self.run_ok("push", self.some_history(1)[0], REPO)
        for size, code in ((1 << 45, 5), (1 << 48, 8), ((1 << 64) - 1, 8)):
            self.s3.faults = [Fault(f"claims:{size}", 1000, r"^GET .*/wdelta.json")]
            self.run_fails(code, "log", REPO, says=["wdelta.json: ", f"{size} bytes"],
                           **({} if testing.is_sanitized() else {"prefix": ("prlimit", f"--as={1 << 30}")}))

    def test_a_tag_that_became_weak_on_the_way_is_the_same(self):
        self.serve()
        checkpoint = self.large_checkpoint(4)
        self.run_ok("push", checkpoint, REPO)
        key, = [key for key, found in self.s3.buckets["bucket"].items() if len(found.content) > 2 * MIB]
        found, count = self.s3.buckets["bucket"][key], [0]

        def weaken(request):
            count[0] += "/objects/" in request
            if count[0] == 2:
                found.etag = "W/" + found.etag

        self.s3.fault_for = weaken
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assertGreater(count[0], 1)
        self.assert_same_tree(self.scratch / "out", checkpoint)

    def test_an_address_that_is_not_good_any_more_is_asked_for_again(self):
        self.serve()
        checkpoint = self.large_checkpoint(20)
        self.run_ok("push", checkpoint, REPO)
        self.s3.faults = [Fault("expired", 2, r"^GET .*/objects/"), Fault("elsewhere", 100, r"^GET .*/objects/")]
        self.run_ok("pull", REPO, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", checkpoint)
        self.s3.faults = [Fault("expired", 3, r"^GET .*/objects/")]
        self.run_fails(8, "pull", REPO, self.scratch / "other", says="access was denied")

    def test_gc_gives_up_uploads_that_were_left(self):
        self.serve()
        self.push_all(self.some_history(1))
        an_hour_ago = self.s3.clock() - datetime.timedelta(hours=1)
        name = "0a" * 32
        for label, key, time in (("x", f"runs/me/objects/0a/{name}", an_hour_ago),
                                 ("w", f"runs/me/objects/0a/{name}.safetensors", an_hour_ago),
                                 ("y", f"elsewhere/objects/0a/{name}", an_hour_ago),
                                 ("z", f"runs/me/objects/0a/{name}", self.s3.clock() + datetime.timedelta(hours=1)),
                                 # Of other programs.
                                 ("a", "runs/me/datasets/huge.tar", an_hour_ago),
                                 ("b", "runs/me/objects/0a/notes.tar", an_hour_ago),
                                 ("c", f"runs/me/objects/0b/{name}", an_hour_ago),
                                 ("d", f"runs/me/objects/0a/{name}/more", an_hour_ago),
                                 ("e", f"runs/me/mine/objects/0a/{name}", an_hour_ago)):
            self.s3.uploads[label] = s3_emulator.Upload(key, time)
        self.run_ok("gc", REPO, "--grace", "0")
        self.assertEqual(sorted(self.s3.uploads), ["a", "b", "c", "d", "e", "y", "z"])

    def test_uploads_that_are_listed_in_another_way(self):
        """By another name, as moto does; or so that it cannot be understood: then the push begins anew."""
        for rewrite, again in ((lambda text: text.replace(b"ListPartsResult", b"ListPartsResponse"), 1),
                               (lambda text: text.replace(b"<PartNumber>", b"<PartNumber>x"), 3),
                               (lambda text: text.replace(b"</ListPartsResult>", b""), 3),
                               (lambda text: text.replace(b"</ListMultipartUploadsResult>", b""), 3)):
            with self.subTest(again):
                self.serve()
                checkpoint = self.large_checkpoint()
                self.s3.faults = [Fault("status:500", 100, r"partNumber=2&", {"Retry-After": "0"})]
                self.run_fails(8, "push", checkpoint, REPO)
                self.s3.faults, self.s3.requests, self.s3.rewrite = [], [], rewrite
                self.run_ok("push", checkpoint, REPO)
                self.assertEqual(len(self.requests(r"partNumber=")), again)
                self.run_ok("verify", REPO)


class Failures(S3Case):
    def assert_tells(self, code, says, hint, **environment):
        done = self.run_fails(code, "push", self.checkpoint, REPO, "-v", says=says, env=environment)
        self.assertRegex(done.err, f"hint: .*{hint}", self.told(done))

    def setUp(self):
        super().setUp()
        self.serve()
        self.checkpoint = self.some_history(1)[0]

    def test_each_has_its_own_line_and_hint(self):
        self.assert_tells(8, "does not know the access key of AWS_ACCESS_KEY_ID", "AWS_PROFILE",
                          AWS_ACCESS_KEY_ID="AKIDNOBODY")
        self.assert_tells(8, "does not go with its access key", "AWS_PROFILE", AWS_SECRET_ACCESS_KEY="hidden")
        self.assert_tells(8, "no credentials", "AWS_ACCESS_KEY_ID", AWS_ACCESS_KEY_ID=None)
        self.assert_tells(8, "not in region us-west-1", f"AWS_REGION={s3_emulator.REGION}", AWS_REGION="us-west-1")
        self.assert_tells(8, "session token", "new credentials", AWS_SESSION_TOKEN="old")
        self.s3.faults = [Fault("status:403:AccessDenied", 100)]
        self.assert_tells(8, "access was denied to the key of AWS_ACCESS_KEY_ID", "rights")
        self.s3.faults = [Fault("status:403:UserSuspended", 100)]
        self.assertNotIn("hint", self.run_fails(8, "push", self.checkpoint, REPO, says="UserSuspended").err)
        self.s3.faults = []
        self.assert_tells(2, "is no http or https URL", "https://", AWS_ENDPOINT_URL="ftp://host")
        del self.s3.buckets["bucket"]
        self.assert_tells(4, "there is no bucket bucket", "AWS_ENDPOINT_URL")

    def test_a_full_store(self):
        for status in ("507", "403:QuotaExceeded"):  # the second is Ceph's
            self.s3.faults = [Fault(f"status:{status}", 100, "^PUT .*objects")]
            self.assert_tells(8, "the store is full", "quota")

    def test_an_endpoint_that_speaks_no_tls(self):
        self.assert_tells(8, "wrong version number\nhint", "speak http", AWS_ENDPOINT_URL=self.s3.url.replace("http:", "https:"))

    def test_a_server_that_is_not_there(self):
        self.assert_tells(8, "after 4 tries", "endpoint", AWS_ENDPOINT_URL="http://127.0.0.1:1")

    def test_offline(self):
        self.run_fails(8, "push", self.checkpoint, REPO, "--offline", says="--offline")
        self.assertEqual(self.s3.requests, [])

    def test_a_clock_that_is_wrong_is_corrected(self):
        for seconds in (0, 10, -10):
            self.s3.clock_offset = -3 * 3600 + seconds
            done = self.run_any("push", self.checkpoint, REPO)
            self.assertEqual(done.code, 0, self.told(done))
            self.assertIn("180 minutes apart", done.err)

    def test_a_clock_that_is_wrong_does_not_hide_that_there_is_no_bucket(self):
        """The answer to HEAD has no body to say why it refuses."""
        self.s3.clock_offset = -3 * 3600
        self.run_ok("push", self.checkpoint, "s3://new/r", "--create")
        self.run_ok("push", self.checkpoint, "s3://new/r", "--create")
        self.run_ok("verify", "s3://new/r")

    def test_a_bucket_that_is_to_be_asked_for_elsewhere(self):
        """As AWS says of a new one: what is signed goes there neither as it is nor without its signature."""
        self.run_ok("push", self.checkpoint, REPO)
        elsewhere = S3()
        elsewhere.__enter__()
        self.addCleanup(elsewhere.__exit__)
        said = ("<Error><Code>TemporaryRedirect</Code><Message>Please re-send this request to the specified temporary "
                "endpoint.</Message><Endpoint>bucket.s3.mars.example.com</Endpoint></Error>")
        for command in (("log", REPO), ("push", self.checkpoint, REPO, "-m", "again", "--step", "7")):
            self.s3.faults = [Fault(f"sends-on:{elsewhere.url}/bucket/x {said}", 100)]
            done = self.run_fails(8, *command, says=["TemporaryRedirect", "bucket.s3.mars.example.com"])
            self.assertRegex(done.err, "hint: .*later")
            self.s3.faults = [Fault(f"sends-on:{elsewhere.url}/bucket/x {said}", 100,
                                    headers={"x-amz-bucket-region": "mars-1"})]
            done = self.run_fails(8, *command, says=["not in region"])
            self.assertRegex(done.err, "hint: set AWS_REGION=mars-1")
        self.assertEqual(elsewhere.requests, [])

    def test_a_profile_with_a_session_token(self):
        self.s3.session_tokens[s3_emulator.KEY_ID] = "fresh"
        self.write(".aws/credentials", "[default]\naws_access_key_id = AKIDNOBODY\n\n# mine\n[me]\n"
                   f"aws_access_key_id={s3_emulator.KEY_ID}\naws_secret_access_key = {s3_emulator.SECRET}\n"
                   "aws_session_token = fresh\n")
        self.write(".aws/config", f"[default]\nregion = mars\n[profile me]\nregion = {s3_emulator.REGION}\n"
                   f"endpoint_url = {self.s3.url}\ns3 =\n  addressing_style = path\n")
        profile = {"AWS_PROFILE": "me", "AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_REGION": None,
                   "AWS_ENDPOINT_URL": None}
        self.run_ok("push", self.checkpoint, REPO, env=profile)
        # As with AWS's own programs keys of the environment count before it.
        self.run_fails(8, "log", REPO, env={**profile, "AWS_ACCESS_KEY_ID": "AKIDNOBODY"}, says="AWS_ACCESS_KEY_ID")
        self.run_fails(4, "log", REPO, env={"AWS_PROFILE": "nobody"}, says="no such profile")

    def test_rates_that_are_none(self):
        for rate in ("0", "-1", "x", "5q", "", "nan"):
            self.run_fails(2, "push", self.checkpoint, REPO, f"--limit-rate={rate}")


if __name__ == "__main__":
    testing.main()
