# SPDX-License-Identifier: Apache-2.0
"""What a push takes of a checkpoint, and when: --include, --exclude, .wdeltaignore, --wait-stable, unfinished saves."""

import json
import os
import shutil
import signal
import subprocess
import time

import testing


class PushChoiceTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.step, = self.make_run("run", "--size", "1M", "--shards", 2, "--steps", 1)
        (self.step / "optimizer.pt").write_bytes(self.random.randbytes(5000))
        (self.step / "logs" / "deep").mkdir(parents=True)
        (self.step / "logs" / "deep" / "events").write_text("e")
        self.repo = self.scratch / "repo"

    def pushed(self, *options):
        """The places in the commit that a push with these options makes."""
        self.run_ok("push", self.step, self.repo, *options)
        return {file["path"] for file in json.loads(self.run_ok("show", self.repo, "--json"))["files"]}

    def places(self):
        return {str(path.relative_to(self.step)) for path in self.step.rglob("*") if path.is_file()}

    def test_options_choose(self):
        weights = {place for place in self.places() if place.endswith(".safetensors")}
        self.assertEqual(self.pushed("--include", "*.safetensors"), weights)
        self.assertEqual(self.pushed("--exclude", "optim*.pt", "--exclude", "logs/"),
                         self.places() - {"optimizer.pt", "logs/deep/events"})
        self.assertEqual(self.pushed("--include", "*.json", "--exclude", "*index*"),
                         {place for place in self.places() if place.endswith(".json") and "index" not in place})
        self.run_fails(2, "push", self.step, self.repo, "--include", "nothing*", says="no files to push")

    def test_ignore_file_chooses(self):
        (self.step / ".wdeltaignore").write_text("# big\nopt*\nlogs/\n!optimizer.pt\n")
        self.assertEqual(self.pushed(), self.places() - {"logs/deep/events"})
        self.assertEqual(self.pushed("--exclude", "optimizer.pt"),
                         self.places() - {"logs/deep/events", "optimizer.pt"})

    def test_what_is_left_out_may_be_anything(self):
        os.mkfifo(self.step / "logs" / "pipe")
        self.run_fails(3, "push", self.step, self.repo, says="not a regular file")
        self.assertNotIn("logs/pipe", self.pushed("--exclude", "logs"))

    def test_left_out_shard_is_not_missing(self):
        shard = sorted(self.step.glob("*.safetensors"))[0]
        self.assertNotIn(shard.name, self.pushed("--exclude", shard.name))
        shard.unlink()
        self.run_fails(3, "push", self.step, self.repo, "--exclude", shard.name, says=[shard.name, "--wait-stable"])

    def test_unfinished_is_refused(self):
        shard = sorted(self.step.glob("*.safetensors"))[0]
        content = shard.read_bytes()
        for size in (0, 5, 100, len(content) - 1):
            shard.write_bytes(content[:size])
            self.run_fails(3, "push", self.step, self.repo, says=[shard.name, "--wait-stable"], absent=self.repo)
        shard.write_bytes(b"\xff" * len(content))
        self.run_fails(5, "push", self.step, self.repo, says=shard.name, absent=self.repo)

    def start_waiting(self):
        process = subprocess.Popen(self.command("push", self.step, self.repo, "--wait-stable", "1"),
                                   env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def test_waits_for_a_saver(self):
        whole = self.scratch / "whole"
        shutil.copytree(self.step, whole)
        shards = sorted(self.step.glob("*.safetensors"))
        contents = [shard.read_bytes() for shard in shards]
        shards[0].write_bytes(contents[0][:-1])
        shards[1].unlink()
        process = self.start_waiting()
        time.sleep(1.5)
        self.assertIsNone(process.poll())
        shards[1].write_bytes(contents[1])
        time.sleep(1.5)
        self.assertIsNone(process.poll())
        shards[0].write_bytes(contents[0])
        out, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said)
        self.run_ok("pull", f"{self.repo}@{out.decode().strip()}", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", whole)

    def test_what_no_waiting_mends_is_not_waited_for(self):
        os.mkfifo(self.step / "pipe")
        self.run_fails(3, "push", self.step, self.repo, "--wait-stable", "1", says="pipe: is not a regular file")
        (self.step / "pipe").unlink()
        (self.step / "lost").symlink_to("nothing")
        self.run_fails(3, "push", self.step, self.repo, "--wait-stable", "1", says="symlink to nothing")

    def test_a_half_written_index_is_waited_for(self):
        index = self.step / "model.safetensors.index.json"
        index.write_text('{"weight_map": {')
        process = self.start_waiting()
        time.sleep(0.5)
        index.write_text('{"weight_map": {}}')
        _, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said)

    def test_waiting_can_be_interrupted(self):
        sorted(self.step.glob("*.safetensors"))[0].unlink()
        process = self.start_waiting()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assertFalse(self.repo.exists())


if __name__ == "__main__":
    testing.main()
