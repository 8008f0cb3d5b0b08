# SPDX-License-Identifier: Apache-2.0
"""What others do while gc is at work, at the worst moment: nothing of it is lost, and nothing is damaged behind it."""

import itertools
import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import kill_points
import testing
from hub_base_test import MODEL, BaseCase
from hub_base_test import REPO as HUB_REPO
from s3_emulator import Fault
from s3_test import REPO as S3_REPO
from s3_test import S3Case
from xet import Refused

ONE_SECOND = ("--grace", "1s")


class Held:
    """Holds the first request that `matches` until go_on(); for fault_for of an emulator."""

    def __init__(self, matches):
        self.matches, self.reached, self.released = matches, threading.Event(), threading.Event()

    def __call__(self, request):
        if self.matches(request) and not self.reached.is_set():
            self.reached.set()
            self.released.wait(60)


def lists(folder):
    return lambda request: request.startswith("GET") and f"prefix=runs%2Fme%2F{folder}%2F&" in request + "&"


class Races(testing.Case):
    def state(self, host):
        return {"WDELTA_STATE_DIR": str(self.scratch / f"state-{host}")}

    def steps(self, count):
        tensors = self.some_weights(1, 3000)
        for i in range(count):
            self.write_weights(f"s{i}/model.safetensors", tensors)
            tensors = self.moved(tensors)
        return [self.scratch / f"s{i}" for i in range(count)]

    def assert_pulled(self, revision, checkpoint):
        out = self.scratch / "out"
        self.run_ok("pull", revision, out)
        self.assert_same_tree(out, checkpoint)
        shutil.rmtree(out)

    def test_a_tag_for_a_commit_whose_recipes_gc_is_removing(self):
        repo, steps = self.scratch / "repo", self.steps(4)
        ids = [self.run_ok("push", step, repo, "--step", i).strip() for i, step in enumerate(steps)]
        self.run_ok("squash", repo, f"{ids[0]}..{ids[3]}")
        time.sleep(2.1)
        gc = kill_points.paused_at(self, repo, lambda call: call.removes and "/recipes/" in call.path, "gc", repo, *ONE_SECOND)
        self.run_ok("tag", repo, "wanted", ids[2])
        self.assert_pulled(f"{repo}@wanted", steps[2])
        self.assertEqual(gc.go_on().code, 0)
        self.assert_pulled(f"{repo}@wanted", steps[2])
        for _ in range(2):
            time.sleep(2.1)
            self.run_ok("gc", repo, *ONE_SECOND)
        self.assert_pulled(f"{repo}@wanted", steps[2])
        self.run_ok("verify", "--deep", repo)
        self.run_fails(4, "pull", f"{repo}@{ids[1]}", self.scratch / "out", says="gave up")

    def test_a_branch_for_a_commit_that_a_plan_names(self):
        repo, steps = self.scratch / "repo", self.steps(3)
        self.run_ok("push", steps[0], repo)
        loser = kill_points.paused_at(self, repo, lambda call: call.call.startswith("link") and "branches/main" in call.other,
                            "push", steps[2], repo, "--step", 2, env=self.state("loser"))
        self.run_ok("push", steps[1], repo, "--step", 1)
        self.assertEqual(loser.go_on().code, 7)
        lost = next(path.stem for path in (repo / "commits").iterdir() if json.loads(path.read_text())["step"] == 2)
        time.sleep(1.2)
        self.run_ok("gc", repo, *ONE_SECOND)
        time.sleep(2.1)
        gc = kill_points.paused_at(self, repo, lambda call: "removed-" in call.other, "gc", repo, *ONE_SECOND)
        named = self.run_any("branch", repo, "mine", lost)
        self.assertEqual(gc.go_on().code, 0)
        # One key was on its way already: whoever named it had to be told, unless it was none of this commit's.
        if named.code == 0:
            self.assert_pulled(f"{repo}@mine", steps[2])
            self.run_ok("verify", repo)
        else:
            self.assertEqual(named.code, 5, self.told(named))

    def test_a_plan_of_a_clock_that_was_ahead(self):
        repo, steps = self.scratch / "repo", self.steps(1)
        self.run_ok("push", steps[0], repo)
        self.write("repo/gc/plan.json", self.sealed({"format": "wdelta-gc-plan", "version": 1,
                                                     "time": int(time.time()) + 10**8, "keys": []}))
        content = b"junk" * 100
        digest = testing.blake3(content)
        garbage = self.write(f"repo/objects/{digest[:2]}/{digest}", content)
        os.utime(garbage, (10**9, 10**9))
        for _ in range(2):
            self.assertTrue(garbage.exists())
            self.run_ok("gc", repo, *ONE_SECOND)
            time.sleep(2.1)
        self.assertFalse(garbage.exists())

    def test_the_time_that_a_gc_left_that_was_killed(self):
        repo, steps = self.scratch / "repo", self.steps(1)
        self.run_ok("push", steps[0], repo)
        for name in ("gc/clock", f"gc/clock-{'0' * 16}"):
            os.utime(self.write(f"repo/{name}", b""), (10**9, 10**9))
        self.run_ok("gc", repo)
        self.assertEqual([path for path in (repo / "gc").glob("*") if "clock" in path.name], [])


class OnS3(S3Case):
    def push_on_top(self, s3, held, gc, push):
        """gc waits at its request, push runs, gc goes on."""
        s3.fault_for = held
        with ThreadPoolExecutor(1) as pool:
            collecting = pool.submit(self.run_any, *gc)
            self.assertTrue(held.reached.wait(30))
            self.run_ok(*push)
            held.released.set()
            self.assertEqual(collecting.result().code, 0)

    def test_a_push_on_what_was_given_up_and_rolled_back_to(self):
        s3 = self.serve()
        steps = self.some_history(6)
        ids = self.push_all(steps[:5])
        self.run_ok("squash", S3_REPO, f"{ids[0]}..{ids[4]}")
        time.sleep(2.2)
        self.run_ok("branch", S3_REPO, "main", ids[2], "--force")
        # Commits are listed, books and names not yet.
        self.push_on_top(s3, Held(lists("recipes")), ("gc", S3_REPO, *ONE_SECOND), ("push", steps[5], S3_REPO, "--step", 5))
        for revision, step in ((f"{S3_REPO}@main~1", steps[2]), (S3_REPO, steps[5])):
            self.run_ok("pull", revision, self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", step)
        self.run_ok("verify", S3_REPO)

    def test_the_grace_time_begins_when_there_is_a_plan(self):
        s3 = self.serve()
        grace = ("--grace", "6s")
        self.write_weights("small/model.safetensors", self.some_weights(1, 3000))
        self.write_weights("big/model.safetensors", self.some_weights(1, 3_000_000))
        big = ("push", self.scratch / "big", S3_REPO, "-b", "big")
        self.run_ok("push", self.scratch / "small", S3_REPO)
        s3.fault_for = lambda request: Fault("status:403") if request.startswith("PUT") and "/commits/" in request else None
        self.run_fails(8, *big)
        time.sleep(1.1)
        first_gc = Held(lists("commits"))
        pushing = Held(lambda request: request.startswith("PUT") and "/recipes/" in request)
        s3.fault_for = lambda request: first_gc(request) or pushing(request)
        with ThreadPoolExecutor(2) as pool:
            collecting = pool.submit(self.run_any, "gc", S3_REPO, *grace)
            self.assertTrue(first_gc.reached.wait(30))
            began = time.monotonic()
            time.sleep(2)
            pushed = pool.submit(self.run_any, *big)  # finds the large object where it is, and no plan
            self.assertTrue(pushing.reached.wait(30))
            first_gc.released.set()
            self.assertEqual(collecting.result().code, 0)
            time.sleep(max(0, began + 6.1 - time.monotonic()))
            self.run_ok("gc", S3_REPO, *grace)
            pushing.released.set()
            self.assertEqual(pushed.result().code, 0)
        self.run_ok("pull", f"{S3_REPO}@big", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.scratch / "big")


class WithABase(BaseCase):
    def test_a_base_that_is_put_again_while_gc_removes_it(self):
        for more in ((), ("--reference",)):
            with self.subTest(more=more):
                self.setUp()
                self.download()
                words = ("push", self.tuned, HUB_REPO, "-b", "tuned", "--base", MODEL, *more)
                self.write_weights("other/model.safetensors", self.some_weights(1, 500))
                self.run_ok("push", self.scratch / "other", HUB_REPO)
                batch = self.hub.buckets.batch

                def refusing(bucket, text, may_read, batch=batch):
                    if "branches/tuned" in text:
                        raise Refused("not now")
                    return batch(bucket, text, may_read)

                self.hub.buckets.batch = refusing
                self.assertNotEqual(self.run_any(*words).code, 0)
                self.hub.buckets.batch = batch
                self.hub.log.violations.clear()  # the refusal is this test's own
                time.sleep(1.2)
                self.run_ok("gc", HUB_REPO, *ONE_SECOND)
                time.sleep(3)
                removing = Held(lambda text: '"deleteFile"' in text and ("commits/" in text or "recipes/" in text))

                def held(bucket, text, may_read, batch=batch, removing=removing):
                    removing(text)
                    return batch(bucket, text, may_read)

                self.hub.buckets.batch = held
                with ThreadPoolExecutor(1) as pool:
                    collecting = pool.submit(self.run_any, "gc", HUB_REPO, *ONE_SECOND)
                    self.assertTrue(removing.reached.wait(30))
                    done = self.run_any(*words, **({} if more else self.elsewhere()))
                    self.assertEqual(done.code, 0, self.told(done))
                    removing.released.set()
                    self.assertEqual(collecting.result().code, 0)
                self.run_ok("pull", f"{HUB_REPO}@tuned", self.scratch / "out")
                self.run_ok("pull", f"{HUB_REPO}@tuned~1", self.scratch / "out2")
                self.run_ok("verify", HUB_REPO)
                self.run_ok("gc", HUB_REPO)

    def test_a_plan_of_a_moment_when_a_base_was_there_and_its_child_not(self):
        repo = self.scratch / "r"
        self.run_ok("push", self.base, repo)
        words = ("push", self.tuned, repo, "-b", "tuned", "--base", MODEL, "--reference")
        state = {"WDELTA_STATE_DIR": str(self.scratch / "state-loser")}
        manifests = itertools.count()
        loser = kill_points.paused_at(
            self, repo, lambda call: call.call.startswith("rename") and "/commits/" in call.other and next(manifests) == 1,
            *words, env=state)
        time.sleep(1.2)
        self.run_ok("gc", repo, "--grace", "1h")  # it plans; what the paused push has staged is no leftover
        self.run_ok("push", self.tuned, repo, "-b", "tuned")
        self.assertEqual(loser.go_on().code, 7)
        for _ in range(4):
            time.sleep(2.1)
            self.run_ok("gc", repo, *ONE_SECOND)
            self.run_ok("verify", repo)
        self.assertEqual(len(list((repo / "commits").iterdir())), 2)
        self.assertIn("commits", self.run_ok("stats", repo))


if __name__ == "__main__":
    testing.main()
