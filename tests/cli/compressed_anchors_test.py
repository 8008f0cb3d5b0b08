# SPDX-License-Identifier: Apache-2.0
"""`push --compress-anchors` and `squash --anchor --compress-anchors`: weights stored whole take a third less, and
whatever is made from them is what it would be otherwise, from every store."""

import json
import random
import shutil
import struct
import sys
from pathlib import Path

import safetensors
import testing
from hub_test import REPO as HUB_REPO
from hub_test import HubCase
from s3_test import REPO as S3_REPO
from s3_test import S3Case

sys.path.insert(0, str(Path(__file__).parents[1] / "decoder"))
from blake3 import blake3  # noqa: E402

ELEMENTS = 70_000  # one block, and a part of another


def weights(rng, elements=ELEMENTS, dtype="BF16"):
    """Normally distributed ones, as a tensor of the dtype holds them."""
    values = struct.pack(f"<{elements}f", *(rng.gauss(0, 0.02) for _ in range(elements)))
    if dtype == "F32":
        return values
    assert dtype == "BF16"
    halves = bytearray(2 * elements)
    halves[::2], halves[1::2] = values[2::4], values[3::4]
    return bytes(halves)


def reseal(altered, original):
    """An altered delta with digests that hold again; as it is where it is not a delta any more."""
    start = 8 + struct.unpack_from("<Q", original)[0]
    metadata = json.loads(original[8:start])["__metadata__"]
    front, digest = altered[:start], metadata["digest"].encode()
    if front.count(digest) != 1 or front.count(metadata["payload"].encode()) != 1 or altered[:8] != original[:8]:
        return altered
    front = front.replace(metadata["payload"].encode(), blake3(altered[start:]).encode())
    front = front.replace(digest, b"0" * 64)
    return front.replace(b'"digest":"' + b"0" * 64, b'"digest":"' + blake3(front).encode()) + altered[start:]


class Steps:
    """Some checkpoints of a run, made once: each a directory below the scratch directory of the test."""

    _contents = None

    def make_steps(self, count=3):
        if Steps._contents is None:
            Steps._contents = [weights(random.Random(number)) for number in range(2)]
        tensors, self.steps = [(f"layer.{i}", "BF16", [100, ELEMENTS // 100], content)
                               for i, content in enumerate(Steps._contents)], []
        for step in range(count):
            self.write_weights(f"step-{step}/model.safetensors", tensors, metadata={"format": "pt"})
            self.write(f"step-{step}/config.json", json.dumps({"step": step}))
            self.steps.append(self.scratch / f"step-{step}")
            tensors = self.moved(tensors, 0.01)

    def shown(self, where):
        """How the weights of a commit would be fetched, and how many bytes that takes for each that they have."""
        shown = json.loads(self.run_ok("show", where, "--json"))
        file, = (file for file in shown["files"] if file["path"] == "model.safetensors")
        return file["fetch"], file["fetch_bytes"] / file["size"]

    def assert_compressed(self, where):
        fetch, share = self.shown(where)
        self.assertEqual(fetch, "compressed")
        self.assertLess(1.48 * share, 1)

    def assert_pulls(self, where, step, into="out", *options):
        self.run_ok("pull", where, self.scratch / into, *options)
        self.assert_same_tree(self.scratch / into, self.steps[step])

    def walk(self, repo):
        """A chain whose first link is compressed, there and back, and an anchor in the middle of it."""
        self.make_steps(4)
        self.run_ok("push", self.steps[0], repo, "--step", 0, "--compress-anchors")
        self.assert_compressed(repo)
        for step in (1, 2):
            self.run_ok("push", self.steps[step], repo, "--step", step)
            self.assert_pulls(repo, step)
        self.assertEqual(self.shown(repo)[0], "anchor and 2 deltas")
        self.assert_pulls(f"{repo}@step:0", 0)
        self.assert_pulls(f"{repo}@step:2", 2, "other", "--swap")
        self.run_ok("push", self.steps[3], repo, "--step", 3, "--anchor", "now", "--compress-anchors")
        self.assert_compressed(repo)
        for step in range(4):
            shutil.rmtree(self.scratch / "fresh", ignore_errors=True)
            self.assert_pulls(f"{repo}@step:{step}", step, "fresh")
            self.run_ok("verify", self.scratch / "fresh", f"{repo}@step:{step}")
        for depth in ((), ("--quick",), ("--deep",)):
            self.run_ok("verify", repo, *depth)


class InADirectory(Steps, testing.Case):
    def setUp(self):
        super().setUp()
        self.repo = self.scratch / "repo"

    def objects(self):
        return {path.name: testing.file_digest(path) for path in (self.repo / "objects").rglob("*") if path.is_file()}

    def test_a_chain(self):
        self.walk(self.repo)
        stats = json.loads(self.run_ok("stats", self.repo, "--json"))
        self.assertEqual(stats["whole_bytes"] + stats["delta_bytes"], stats["object_bytes"])
        self.assertGreater(stats["whole_bytes"], 1.2 * (self.steps[0] / "model.safetensors").stat().st_size)
        self.assertEqual(len(self.run_ok("log", self.repo, "-q").splitlines()), 4)

    def test_without_the_option_anchors_are_plain_files(self):
        self.make_steps(2)
        for step in self.steps:
            self.run_ok("push", step, self.repo, "--anchor", "now")
            self.assertEqual(self.shown(self.repo), ("whole", 1.0))
            self.assertIn(testing.file_digest(step / "model.safetensors"), self.objects().values())

    def test_without_the_checkpoint_that_was_pushed(self):
        """What is pushed next is compared with the repository, which makes the weights of the compressed ones."""
        self.make_steps(2)
        self.run_ok("push", self.steps[0], self.repo, "--compress-anchors")
        shutil.rmtree(self.scratch / "state")
        moved = self.scratch / "moved"
        self.steps[0].rename(moved)
        done = self.run_any("push", self.steps[1], self.repo, "--json")
        self.assertEqual(done.code, 0, self.told(done))
        pushed = json.loads(done.out)
        self.assertTrue(pushed["compared_with_repository"])
        self.assertLess(pushed["stored_bytes"], pushed["checkpoint_bytes"] / 10)
        self.assert_pulls(self.repo, 1)
        again = json.loads(self.run_ok("push", moved, self.repo, "--json", "-b", "side", "--compress-anchors"))
        self.assertEqual(again["stored_bytes"] + again["anchor_bytes"], again["stored_bytes"])

    def test_the_same_bytes_from_any_engine_and_number_of_threads(self):
        self.make_steps(1)
        found = []
        for options in (["-j", 1], ["-j", 3], ["-j", 2, "--engine", "scalar"]):
            shutil.rmtree(self.repo, ignore_errors=True)
            self.run_ok("push", self.steps[0], self.repo, "--compress-anchors", *options)
            found.append(self.objects())
        self.assertEqual(found[1:], found[:1] * 2)

    def test_squashed_into_a_compressed_anchor(self):
        self.make_steps(3)
        ids = [self.run_ok("push", step, self.repo, "--step", i).strip() for i, step in enumerate(self.steps)]
        alone = self.run_any("squash", self.repo, "..main", "--compress-anchors")
        self.assertEqual((alone.code, "--compress-anchors requires --anchor" in alone.err), (2, True), self.told(alone))
        self.run_ok("squash", self.repo, "..main", "--anchor", "--compress-anchors")
        self.assert_compressed(self.repo)
        self.run_ok("gc", self.repo, "--grace", "0")
        self.assertEqual(len(self.objects()), 1)
        self.assert_compressed(self.repo)
        self.assert_pulls(self.repo, 2)
        self.run_fails(4, "pull", f"{self.repo}@{ids[0]}", self.scratch / "none", says="squash",
                       absent=self.scratch / "none")
        self.run_ok("verify", self.repo)
        # And back into plain ones, for whoever wants these: a copy is pushed to a branch of its own.
        self.run_ok("push", self.steps[0], self.repo, "--step", 9)
        self.assert_pulls(self.repo, 0)

    def test_files_of_every_sort(self):
        rng = random.Random(self.seed)
        tensors = [("bf16", "BF16", [ELEMENTS], weights(rng)), ("f32", "F32", [9000], weights(rng, 9000, "F32")),
                   ("zeros", "BF16", [3 * 65536], bytes(6 * 65536)), ("empty", "F32", [0, 5], b""),
                   ("huge", "BF16", [5000], b"\x80\x7f" * 2500 + b"\x80\xff" * 2500)]
        tensors += [(dtype, dtype, [24], rng.randbytes(safetensors.size_of(dtype, [24]))) for dtype in safetensors.BITS]
        step = self.scratch / "step"
        self.write_weights("step/model.safetensors", tensors, padding=b" " * 5, metadata={"ü": "☃"})
        self.write_weights("step/none.safetensors", [])
        self.write_weights("step/small.safetensors", [("w", "F8_E4M3", [3], b"\1\2\3")])
        self.write_weights("step/noise.safetensors", [("w", "BF16", [ELEMENTS], rng.randbytes(2 * ELEMENTS))])
        self.write("step/optimizer.bin", weights(rng, 2 * 300_000))
        self.write("step/run.sh", "#!/bin/sh\n", executable=True)
        self.run_ok("push", step, self.repo, "--compress-anchors")
        self.run_ok("pull", self.repo, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", step)
        shown = {file["path"]: file["fetch"] for file in json.loads(self.run_ok("show", self.repo, "--json"))["files"]}
        # What does not get smaller stays as it is.
        self.assertEqual(shown, {"model.safetensors": "compressed", "none.safetensors": "whole",
                                 "small.safetensors": "whole", "noise.safetensors": "whole",
                                 "optimizer.bin": "compressed", "run.sh": "in the manifest"})

    def test_damage_is_found_and_never_pulled(self):
        self.make_steps(1)
        self.run_ok("push", self.steps[0], self.repo, "--compress-anchors")
        path, = (path for path in (self.repo / "objects").rglob("*") if path.is_file())
        whole = path.read_bytes()
        path.chmod(0o644)
        start = 8 + struct.unpack_from("<Q", whole)[0]
        places = [self.random.randrange(len(whole)) for _ in range(6)]
        places += [0, 9, start, start + 1, start + 2, len(whole) - 1]
        for place in places:
            damaged = bytearray(whole)
            damaged[place] ^= 1 << self.random.randrange(8)
            path.write_bytes(damaged)
            with self.subTest(place=place):
                self.run_fails(5, "pull", self.repo, self.scratch / "out",
                               absent=self.scratch / "out/model.safetensors")
                self.run_fails(5, "verify", self.repo)
                # Digests that hold again hide the damage from all but the last check.
                path.write_bytes(reseal(bytes(damaged), whole))
                done = self.run_any("pull", self.repo, self.scratch / "out")
                self.assertIn(done.code, (5, 9), self.told(done))
                self.assertFalse((self.scratch / "out/model.safetensors").exists())
            shutil.rmtree(self.scratch / "out", ignore_errors=True)
        for cut in (0, start - 1, start, len(whole) - 1):
            path.write_bytes(whole[:cut])
            self.run_fails(5, "pull", self.repo, self.scratch / "out", absent=self.scratch / "out/model.safetensors")
            self.run_fails(5, "verify", self.repo, "--quick")
        path.unlink()
        # A plain copy of what it made restores it.
        self.run_ok("push", "--repair", "--base", self.steps[0], self.repo)
        self.assertEqual(self.shown(self.repo), ("whole", 1.0))
        self.assert_pulls(self.repo, 0)

    def test_a_wdelta_that_does_not_know_such_deltas_says_so(self):
        """By the number of their encoding."""
        self.make_steps(1)
        self.run_ok("push", self.steps[0], self.repo, "--compress-anchors")
        path, = (path for path in (self.repo / "objects").rglob("*") if path.is_file())
        whole = path.read_bytes()
        start = 8 + struct.unpack_from("<Q", whole)[0]
        header = json.loads(whole[8:start])
        frame, end = (start + at for at in header[header["__metadata__"]["index"]]["data_offsets"])
        index = frame + 9  # behind the head of the frame, whose only block is not compressed
        self.assertEqual(whole[frame + 6:index + 1], bytes([(end - index) << 3 | 1, 0, 0, 1]))
        newer = whole[:index] + b"\7" + whole[index + 1:]
        path.chmod(0o644)
        path.write_bytes(reseal(newer, whole))
        self.run_fails(9, "pull", self.repo, self.scratch / "out", says=("encoding 7", "newer wdelta"),
                       absent=self.scratch / "out/model.safetensors")


class OnS3(Steps, S3Case):
    def test_a_chain(self):
        self.serve()
        self.walk(S3_REPO)


class OnTheHub(Steps, HubCase):
    def test_a_chain(self):
        self.make_repository()
        self.walk(HUB_REPO)


class LongChains(testing.Case):
    def test_anchors_are_of_use_where_the_first_was_compressed(self):
        repo = self.scratch / "repo"
        tensors, anchors = self.compressible_weights(1, 600_000), []
        for step in range(70):
            self.write_weights("c/model.safetensors", tensors)
            options = ["--compress-anchors"] if step == 0 else []
            told = json.loads(self.run_ok("push", self.scratch / "c", repo, "--json", *options))
            anchors += [step] if told["anchor_bytes"] else []
            tensors = self.moved(tensors, 0.0001)
        self.assertEqual(anchors, [64])
        shown = json.loads(self.run_ok("show", repo, "--json"))
        self.assertEqual(shown["files"][0]["fetch"], "anchor and 5 deltas")
        self.run_ok("pull", repo, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.scratch / "c")


if __name__ == "__main__":
    testing.main()
