# SPDX-License-Identifier: Apache-2.0
"""Pushes that race in a bucket of the Hub, which can create nothing exclusively and whose listings may lag: whoever was
told that it won is in the history, everybody else was told."""

import json
from concurrent.futures import ThreadPoolExecutor

import testing
from hub_test import REPO, HubCase


class HubContestedTest(HubCase):
    def push_any(self, number, host):
        path = self.scratch / f"pushed-{number}"
        if not path.exists():
            self.write_weights(f"pushed-{number}/model.safetensors", self.some_weights(1, 500))
        own = {f"WDELTA_{name.upper()}_DIR": str(self.scratch / f"{name}-{host}") for name in ("state", "cache")}
        return self.run_any("push", path, REPO, "--step", number, env=own)

    def log(self):
        return [json.loads(line) for line in self.run_ok("log", REPO, "--json").splitlines()]

    def test_racing_pushes_while_listings_lag(self):
        self.make_steps(1)
        base = self.push(self.steps[0], "--create")
        hosts, rounds = 4, 2
        for number in range(hosts * rounds):
            self.write_weights(f"pushed-{number}/model.safetensors", self.some_weights(1, 500))
        self.hub.settings["listing_delay_s"] = 1.5  # the settle time is 3 s

        def work(host):
            return [self.push_any(host * rounds + i, host) for i in range(rounds)]

        with ThreadPoolExecutor(hosts) as pool:
            done = [each for runs in pool.map(work, range(hosts)) for each in runs]
        for each in done:
            self.assertIn(each.code, (0, 7), self.told(each))
        won = [each.out.strip() for each in done if each.code == 0]
        self.assertGreaterEqual(len(won), rounds)
        self.hub.settings["listing_delay_s"] = 0
        log = self.log()
        self.assertEqual({entry["commit"] for entry in log}, {base, *won})
        self.assertFalse(any(name.startswith("fork") for entry in log for name in entry["names"]))
        self.run_ok("verify", REPO)

    def test_a_lost_reply_is_no_conflict(self):
        self.make_steps(1)
        base = self.push(self.steps[0], "--create")
        for skip in range(3):  # of the batches of a push, the last that counts adds the entry
            rule = self.hub.faults.add(match=r"^POST /api/buckets/.*/batch", kind="lose_reply", skip=skip)
            done = self.push_any(skip, "one")
            self.assertEqual(done.code, 0, self.told(done))
            self.hub.faults.clear()
            commits = [entry["commit"] for entry in self.log()]
            self.assertEqual((commits[0], commits[-1], len(commits)), (done.out.strip(), base, skip + 2), rule)
        self.assertNotIn("fork", self.run_ok("log", REPO))
        self.run_ok("verify", REPO)

    def test_no_entry_is_written_twice(self):
        self.make_steps(1)
        self.push(self.steps[0], "--create")
        history = self.hub.buckets.buckets["tester/run"].history
        for skip in range(3):
            self.hub.faults.add(match=r"^POST /api/buckets/.*/batch", kind="status_after", status=503, skip=skip)
            self.push_any(skip, "one")
            self.hub.faults.clear()
        entries = {path: len(times) for path, times in history.items() if path.startswith("branches/main/")}
        self.assertGreater(len(entries), 2)
        self.assertEqual(set(entries.values()), {1})
        self.assertNotIn("fork", self.run_ok("log", REPO))


if __name__ == "__main__":
    testing.main()
