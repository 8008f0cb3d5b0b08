# SPDX-License-Identifier: Apache-2.0
"""`--stats` says where the time went; the bytes that it counts are those that the work must move."""

import json

import testing


class StageStatsTest(testing.Case):
    def setUp(self):
        super().setUp()
        old = self.some_weights(3, 200_000)
        self.old, self.new = self.scratch / "old.safetensors", self.scratch / "new.safetensors"
        self.write_weights("old.safetensors", old)
        self.write_weights("new.safetensors", self.moved(old))
        self.size = self.new.stat().st_size
        self.delta, self.out = self.scratch / "delta", self.scratch / "out"

    def stages(self, *arguments):
        answer = json.loads(self.run_ok(*arguments, "--stats", "--json"))
        stages = {stage["stage"]: stage for stage in answer["stages"]}
        self.assertEqual(list(stages), ["read", "hash", "code", "write", "wait"])
        busy = sum(stage["seconds"] for stage in stages.values())
        self.assertGreater(busy, 0)
        return stages, busy, answer["seconds"]

    def test_a_diff_reads_and_hashes_each_file_once(self):
        self.run_ok("diff", self.old, self.new, "-o", self.delta)
        payload = self.delta.stat().st_size
        for threads in (1, 2):
            stages, busy, wall = self.stages("diff", self.old, self.new, "-o", self.delta, "-j", threads)
            self.assertLessEqual(busy, wall * threads)
            # The delta goes through the same stages once more, when its header is known.
            for stage in ("read", "hash"):
                self.assertGreaterEqual(stages[stage]["bytes"], 2 * self.size)
                self.assertLessEqual(stages[stage]["bytes"], 2 * self.size + 2 * payload + 2**20)
            self.assertLessEqual(stages["code"]["bytes"], self.size)
            self.assertGreaterEqual(stages["write"]["bytes"], payload)
            self.assertLessEqual(stages["write"]["bytes"], 2 * payload)

    def test_an_apply_reads_the_base_once_and_hashes_both_ends(self):
        self.run_ok("diff", self.old, self.new, "-o", self.delta)
        stages, _, _ = self.stages("apply", self.old, self.delta, "-o", self.out)
        payload = self.delta.stat().st_size
        self.assertGreaterEqual(stages["read"]["bytes"], self.size)
        self.assertLessEqual(stages["read"]["bytes"], self.size + payload)
        self.assertGreaterEqual(stages["hash"]["bytes"], 2 * self.size)
        self.assertLessEqual(stages["hash"]["bytes"], 2 * self.size + payload)
        self.assertEqual(stages["write"]["bytes"], self.size)

    def test_without_json_a_table_goes_to_standard_error(self):
        done = self.run_any("diff", self.old, self.new, "--stats", "-q")
        self.assertEqual((done.code, done.out), (0, ""), done)
        for word in ("read", "hash", "code", "write", "wait", "wall:"):
            self.assertIn(word, done.err)
        self.assertEqual(self.run_any("diff", self.old, self.new, "-q").err, "")


if __name__ == "__main__":
    testing.main()
