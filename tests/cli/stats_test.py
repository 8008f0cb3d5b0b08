# SPDX-License-Identifier: Apache-2.0
"""What `wdelta stats` says is what is there."""

import json
import shutil
from pathlib import Path

import testing


def size_of(directory):
    return sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())


class StatsTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo, self.steps, tensors = self.scratch / "repo", [], self.some_weights(2, 4000)
        for i in range(4):
            self.write_weights(f"step-{i}/model.safetensors", tensors)
            self.write(f"step-{i}/config.json", json.dumps({"step": i}))
            self.write(f"step-{i}/packed", b"\0" * 70000 + self.random.randbytes(1000))
            self.write(f"step-{i}/always", "the same")
            self.steps.append(self.scratch / f"step-{i}")
            tensors = self.moved(tensors)

    def stats(self):
        stats = json.loads(self.run_ok("stats", self.repo, "--json"))
        self.assertEqual(stats["object_bytes"], size_of(self.repo / "objects"))
        self.assertEqual(stats["objects"], sum(1 for path in (self.repo / "objects").rglob("*") if path.is_file()))
        self.assertEqual(stats["stored_bytes"], size_of(self.repo))
        return stats

    def test_of_a_repository_as_it_grows(self):
        for i, step in enumerate(self.steps, 1):
            self.run_ok("push", step, self.repo, "--step", i, "--anchor", "never")
            stats = self.stats()
            self.assertEqual((stats["commits"], stats["given_up"], stats["branches"], stats["tags"]), (i, 0, 1, 0))
            self.assertEqual(stats["checkpoint_bytes"], sum(map(size_of, self.steps[:i])))
            self.assertEqual(stats["distinct_bytes"], stats["checkpoint_bytes"] - (i - 1) * len("the same"))
            self.assertEqual((stats["files"], stats["distinct_files"]), (4 * i, 3 * i + 1))
            self.assertEqual(stats["whole_bytes"] + stats["delta_bytes"], stats["object_bytes"])
            self.assertEqual(stats["delta_bytes"] > 0, i > 1)
            self.assertLess(stats["delta_bytes"], stats["whole_bytes"])
        before = stats
        self.run_ok("push", self.steps[3], self.repo, "--step", 9, "--tag", "v1", "-b", "main")
        after = self.stats()
        self.assertEqual((after["commits"], after["tags"]), (5, 1))
        self.assertEqual(after["distinct_bytes"], before["distinct_bytes"])
        self.assertEqual(after["object_bytes"], before["object_bytes"])
        self.assertEqual(after["checkpoint_bytes"], before["checkpoint_bytes"] + size_of(self.steps[3]))

    def test_what_nothing_needs_is_neither_whole_nor_delta(self):
        for i, step in enumerate(self.steps, 1):
            self.run_ok("push", step, self.repo, "--step", i, "--anchor", "never")
        self.run_ok("squash", self.repo, "step:1..main")
        squashed = self.stats()
        self.assertEqual((squashed["commits"], squashed["given_up"]), (4, 2))
        self.assertEqual(squashed["checkpoint_bytes"], size_of(self.steps[0]) + size_of(self.steps[3]))
        garbage = self.random.randbytes(5000)
        shutil.copy(self.write("garbage", garbage), self.repo / "objects" / ("0" * 64))
        self.assertEqual(self.stats()["object_bytes"], squashed["object_bytes"] + 5000)
        self.assertEqual(self.stats()["whole_bytes"], squashed["whole_bytes"])
        self.run_ok("gc", self.repo, "--grace", "0")
        collected = self.stats()
        self.assertEqual((collected["commits"], collected["given_up"]), (4, 2))
        self.assertLess(collected["object_bytes"], squashed["object_bytes"])
        self.assertLessEqual(collected["whole_bytes"] + collected["delta_bytes"], collected["object_bytes"])

    def test_in_words(self):
        self.run_ok("push", self.steps[0], self.repo, "--tag", "v1")
        words = self.run_ok("stats", self.repo)
        found = [line.split()[0] for line in words.splitlines()]
        self.assertEqual(found, ["commits", "branches", "tags", "checkpoints", "distinct", "stored", "objects", "whole",
                                 "deltas"])
        self.assertRegex(words, r"(?m)^tags +1$")
        self.assertRegex(words, r"(?m)^checkpoints +[\d.]+ KiB +files: 4$")

    def test_of_a_repository_that_lost_a_commit(self):
        for i, step in enumerate(self.steps[:2]):
            self.run_ok("push", step, self.repo, "--tag", f"v{i}")
        tip = json.loads(self.run_ok("log", self.repo, "-n", 1, "--json"))["commit"]
        side = self.run_ok("push", self.steps[2], self.repo, "-b", "side", "--tag", "v2").strip()
        for commit in (tip, side):
            manifest = self.repo / "commits" / f"{commit}.json"
            manifest.rename(self.scratch / "away")
            self.run_fails(5, "stats", self.repo, says=f"commits/{commit}.json")
            (self.scratch / "away").rename(manifest)
        shutil.rmtree(self.repo / "branches/side")
        manifest.rename(self.scratch / "away")
        self.run_fails(5, "stats", self.repo, says=f"commits/{side}.json")  # a tag names it still
        (self.scratch / "away").rename(manifest)
        self.stats()

    def test_where_there_is_none(self):
        self.run_fails(4, "stats", self.repo, absent=self.repo)


if __name__ == "__main__":
    testing.main()
