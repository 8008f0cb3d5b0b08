# SPDX-License-Identifier: Apache-2.0
"""Sixteen hosts push to one branch as fast as they can, each in a process of its own for every push: of each push
either the commit is in the history for good or its host was told that somebody else was first. Nothing is lost.

ROUNDS pushes of each host (20); on two cores that takes about a minute for each kind of store."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import testing
from hub_test import REPO as HUB_REPO
from hub_test import HubCase
from s3_test import REPO as S3_REPO
from s3_test import S3Case

HOSTS = 16
ROUNDS = int(os.environ.get("ROUNDS", 20))


class Race:
    """What both kinds of stores are held to."""

    def race(self, repository):
        steps = []
        tensors = self.some_weights(1, 300)
        for number in range(4):
            self.write_weights(f"racer-{number}/model.safetensors", tensors)
            steps.append(self.scratch / f"racer-{number}")
            tensors = self.moved(tensors)

        def pushes_of(host):
            own = {f"WDELTA_{name}_DIR": str(self.scratch / f"{name}-{host}") for name in ("STATE", "CACHE")}
            return [(self.run_any("push", steps[(host + i) % 4], repository, "--step", 1 + host * ROUNDS + i, env=own),
                     (host + i) % 4) for i in range(ROUNDS)]

        with ThreadPoolExecutor(HOSTS) as pool:
            done = [each for pushes in pool.map(pushes_of, range(HOSTS)) for each in pushes]
        for push, _ in done:
            self.assertIn(push.code, (0, 7), self.told(push))
            if push.code == 7:
                self.assert_one_line_error(push)
                self.assertRegex(push.err, "moved by someone else meanwhile")
        won = {push.out.strip(): step for push, step in done if push.code == 0}
        self.assertEqual(len(won), sum(push.code == 0 for push, _ in done))
        return won, len(done) - len(won), steps

    def check(self, repository, first, won, lost, steps):
        log = [json.loads(line) for line in self.run_ok("log", repository, "--json").splitlines()]
        history = [entry["commit"] for entry in log]
        self.assertEqual(sorted(history), sorted([first, *won]))
        self.assertFalse([entry for entry in log if any(name.startswith("fork") for name in entry["names"])])
        for newer, older in zip(history, history[1:]):
            parent = json.loads(self.run_ok("show", f"{repository}@{newer}", "--json"))["parent"]
            self.assertEqual(parent, older)
        self.assertGreaterEqual(len(won), ROUNDS)
        self.assertGreater(lost, 0)
        for commit in self.random.sample(sorted(won), 3):
            self.run_ok("pull", f"{repository}@{commit}", self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", steps[won[commit]])
        self.run_ok("verify", repository)


class OnS3(Race, S3Case):
    def test_where_one_can_create_a_key(self):
        self.serve()
        first = self.run_ok("push", self.some_history(1)[0], S3_REPO).strip()
        self.check(S3_REPO, first, *self.race(S3_REPO))


class OnTheHub(Race, HubCase):
    def test_where_all_can_and_listings_lag(self):
        self.make_repository(settle_ms=700)
        self.make_steps(1, 300)
        first = self.push(self.steps[0])
        self.hub.settings["listing_delay_s"] = 0.35
        raced = self.race(HUB_REPO)
        self.hub.settings["listing_delay_s"] = 0
        self.check(HUB_REPO, first, *raced)


if __name__ == "__main__":
    testing.main()
