# SPDX-License-Identifier: Apache-2.0
"""The law that what the binary pushes, this folder rebuilds, from the pages alone; run by agree_test.py."""

import json
import os
import shutil
import struct
import sys
from array import array
from pathlib import Path
from unittest import mock

from agreement import Agreement
from blake3 import blake3
from elements import BITS
from random_checkpoint import perturbed, random_tensor, write_safetensors
from repository import Repository

sys.path.append(str(Path(__file__).parents[1] / "services"))
from hub_emulator import Hub  # noqa: E402

MIB = 1 << 20  # opaque files above this size are compared, those below are packed


def _tree(root):
    return {str(path.relative_to(root)): (path.read_bytes(), os.access(path, os.X_OK))
            for path in sorted(root.rglob("*")) if path.is_file()}


class Repositories(Agreement):
    """Repositories of `wdelta push`, read by this folder's own reader."""

    def setUp(self):
        super().setUp()
        self.repository = self.root / "repository"
        self.pushed = {}  # by commit

    def push(self, files, *options):
        """Pushes a checkpoint of these contents by path; returns the commit's id and the report."""
        checkpoint = self.root / f"checkpoint {len(self.pushed)}"
        for path, content in files.items():
            (checkpoint / path).parent.mkdir(parents=True, exist_ok=True)
            (checkpoint / path).write_bytes(content)
            if path.endswith(".sh"):
                (checkpoint / path).chmod(0o755)
        done = self.wdelta("push", checkpoint, self.repository, "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.pushed[report["commit"]] = _tree(checkpoint)
        return report["commit"], report

    def check(self, models=None):
        """Every commit of the repository rebuilds to what was pushed; returns the reader."""
        reader = Repository(self.repository, models)
        self.assertEqual(set(reader.commits()), set(self.pushed))
        for commit_id, pushed in self.pushed.items():
            commit = reader.commit(commit_id)
            self.assertTrue(reader.checkpoint(commit) == pushed, f"{commit_id} is not what was pushed")
            self.assertTrue(commit.parent is None or commit.parent in self.pushed)
            line = []
            while commit.parent:
                commit = reader.commit(commit.parent)
                line.append(commit.id)
            for distance, ancestor in reader.commit(commit_id).ancestors:
                self.assertEqual(line[distance - 1], ancestor)
        reader.check_objects()
        return reader

    def opaque_deltas(self, reader):
        """The dtypes of opaque deltas by whether they have a base."""
        found = {True: set(), False: set()}
        for recipe in reader.recipes:
            if recipe.base is not None:
                delta = reader.delta(recipe)
                if delta.opaque is not None:
                    found[bool(delta.base)].add(delta.opaque)
        return found

    def stepped(self, content, form, share):
        """content with this share of its numbers moved by a little, or all where share is 1."""
        numbers = bytearray(content)
        width = struct.calcsize(form)
        places = range(0, len(numbers) - width + 1, width)
        for at in places if share == 1 else self.rng.sample(places, int(len(places) * share)):
            number, = struct.unpack_from(form, numbers, at)
            struct.pack_into(form, numbers, at, (number + self.rng.choice((-2, -1, 1, 2))) % (1 << 8 * width))
        return bytes(numbers)

    def test_files_of_any_format(self):
        floats = array("f", [self.rng.gauss(0, 0.02) for _ in range(MIB // 4 + 700)]).tobytes()
        halves = array("H", floats)[1::2].tobytes()  # truncated, as bf16 is
        lines = [b"%d\t%s\n" % (number, self.rng.choice((b"token", b"merge", b"word"))) for number in range(90000)]
        files = {"optimizer.bin": floats + b"odd", "halves.pt": 3 * halves, "bytes.distcp": self.rng.randbytes(MIB),
                 "vocabulary.txt": b"".join(lines), "noise.pt": self.rng.randbytes(MIB + 1),
                 "zeros.bin": bytes(2 * MIB + 5), "small.bin": self.rng.randbytes(70000), "short.pt": b"x",
                 "run.sh": b"#!/bin/sh\n", "empty": b"", "m.safetensors": write_safetensors([])}
        self.push(files)
        for step in range(1, 4):
            files = {**files, "optimizer.bin": self.stepped(files["optimizer.bin"], "<I", 0.1),
                     "halves.pt": self.stepped(files["halves.pt"], "<H", 0.6)[:len(files["halves.pt"]) - 1001 * step],
                     "bytes.distcp": self.stepped(files["bytes.distcp"], "<B", 0.01) + self.rng.randbytes(step),
                     "zeros.bin": files["zeros.bin"] + bytes(step), "noise.pt": self.rng.randbytes(MIB + step),
                     "vocabulary.txt": files["vocabulary.txt"][step:]}
            self.push(files, "--anchor", "now" if step == 2 else "never")
        found = self.opaque_deltas(self.check())
        self.assertLessEqual({"U8", "BF16", "F32"}, found[True])
        self.assertTrue(found[False])

    def test_checkpoints_that_change_their_form(self):
        tensors = [(f"{i}.{dtype}", dtype, [16, 24], random_tensor(self.rng, dtype, [16, 24]))
                   for i in range(2) for dtype in BITS]

        def shards(name, count):
            cut = [tensors[i::count] for i in range(count)]
            names = [f"{name}-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
            weight_map = {tensor[0]: shard for shard, part in zip(names, cut) for tensor in part}
            index = json.dumps({"weight_map": weight_map}).encode()
            return {**{shard: write_safetensors(part, {"format": "pt"}) for shard, part in zip(names, cut)},
                    "model.safetensors.index.json": index, "config.json": b"{}"}

        self.push(shards("model", 4), "--step", 1, "-m", "first\nline", "--meta", "loss=0.5", "--tag", "v1/a")
        for name, count in (("model", 5), ("global_step100/model", 5), ("global_step200/model", 1), ("model", 2)):
            tensors = [(*tensor[:3], perturbed(self.rng, tensor[3], tensor[1], 0.02)) for tensor in tensors]
            self.push(shards(name, count), "-m", "ü" * 150)
        tensors = [("model." + name, *rest) for name, *rest in tensors]
        self.push(shards("model", 2), "--anchor", "now")
        tensors = [(name, dtype, [384 // 8, 8], content) for name, dtype, _, content in tensors[::-1]]
        self.push(shards("model", 2), "-b", "other/branch")
        tip, _ = self.push(shards("model", 3), "-b", "other/branch", "--tag", "v2")
        reader = self.check()
        self.assertEqual(list(reader.names("branches")), ["main", "other/branch"])
        self.assertEqual(reader.names("branches")["other/branch"][-1], tip)
        self.assertEqual(reader.names("tags"), {"v1/a": [next(iter(self.pushed))], "v2": [tip]})
        for again in range(2):
            self.wdelta("tag", self.repository, "v2", tip)
            self.wdelta("tag", self.repository, "v2", "--delete")
            self.assertEqual(self.check().names("tags")["v2"], [tip, None] * (again + 1))
        self.assertEqual(reader.tips("tags"), {"v1/a": next(iter(self.pushed))})
        first = reader.commit(next(iter(self.pushed)))
        self.assertEqual((first.step, first.message, first.meta), (1, "first\nline", {"loss": "0.5"}))
        self.assertIsNone(first.parent)

    def test_a_base_that_is_only_referred_to(self):
        tensors = [(f"{i}.{dtype}", dtype, [16, 24], random_tensor(self.rng, dtype, [16, 24]))
                   for i in range(2) for dtype in BITS]
        model = {"a/model.safetensors": write_safetensors(tensors), "config.json": b"{}",
                 "tokenizer.json": self.rng.randbytes(70000), "large.bin": self.rng.randbytes(MIB + 5)}
        at = "c" * 40
        with Hub() as hub, mock.patch.dict(os.environ, {"HF_ENDPOINT": hub.url, "no_proxy": "*"}):
            hub.add_model("org/model", at, model)
            options = ["--base", "hf://org/model", "--reference"]
            for step in range(3):
                tensors = [(*tensor[:3], perturbed(self.rng, tensor[3], tensor[1], 0.02)) for tensor in tensors]
                report = self.push({**model, "a/model.safetensors": write_safetensors(tensors)}, "--step", step,
                                   *options)[1]
                if step == 0:
                    self.pushed[report["parent"]] = {path: (content, False) for path, content in model.items()}
        reader = self.check({("org/model", at, path): content for path, content in model.items()})
        first = reader.commit(reader.commit(reader.names("branches")["main"][0]).parent)
        self.assertEqual((first.meta, first.message), ({"base": f"hf://org/model@{at}"}, f"base hf://org/model@{at}"))

    def sealed(self, **document):
        text = json.dumps({**document, "digest": "0" * 64}, separators=(",", ":")).encode() + b"\n"
        return text.replace(b"0" * 64, blake3(text).encode())

    def make_contested(self, tick_ms):
        self.repository.mkdir()
        (self.repository / "wdelta.json").write_bytes(self.sealed(
            format="wdelta-repository", version=1, id="a" * 32, branches="contested", settle_ms=20, tick_ms=tick_ms))

    def add_entry(self, branch, number, before, commit, written_ms):
        """Writes an entry as a store would have it that took it at this time; returns its id."""
        write = "%032x" % self.rng.randrange(1, 1 << 128)
        path = self.repository / "branches" / branch / f"{number:016}-{write}-{before}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.sealed(format="wdelta-entry", version=2 if commit is None else 1, commit=commit,
                                     write=write, before=before, time="2026-01-01T00:00:00Z"))
        os.utime(path, ns=(written_ms * 10**6, written_ms * 10**6))
        if self.rng.random() < 0.3:
            shutil.copy(path, f"{path}-withdrawn")
        return write

    def test_contested_entries(self):
        self.make_contested(self.rng.choice([1, 10]))
        kept = [self.push({"side.json": b"%d" % step}, "--tag", f"t{step}")[0] for step in range(3)]
        loose = [self.push({"side.json": b"%d" % step}, "-b", "gone")[0] for step in range(10, 30)]
        shutil.rmtree(self.repository / "branches/gone")
        for branch in (f"b{i}" for i in range(5)):
            written = [(0, "0" * 32)]
            for _ in range(self.rng.randrange(1, 12)):
                number, before = self.rng.choice(written)
                write = self.add_entry(branch, number + 1, before, self.rng.choice(kept + loose + 4 * [None]),
                                       1_000_000 + self.rng.randrange(30))
                written.append((number + 1, write))
        reader = self.check()
        names = {name: commits for name, commits in reader.names("branches").items() if commits}
        done = self.wdelta("branch", self.repository, "--json")
        self.assertEqual(json.loads(done.stdout), reader.tips("branches"))
        self.assertEqual(names["main"], kept)
        self.assertEqual(reader.names("tags"), {f"t{step}": [commit] for step, commit in enumerate(kept)})
        forks = reader.forks("branches")
        self.assertTrue(any(forks.values()))
        for name in reader.tips("branches"):
            done = self.wdelta("log", f"{self.repository}@{name}", "--json")
            shown = [entry["commit"] for entry in map(json.loads, done.stdout.splitlines())
                     if entry["names"] == [f"fork of {name}"]]
            self.assertEqual(set(shown), forks[name], done.stderr)

    def test_a_long_line_of_small_commits(self):
        files = {f"side/{i}.json": b"%d" % i for i in range(9)}
        files.update(big=self.rng.randbytes((64 << 10) + 1), blob=self.rng.randbytes(1000))
        for step in range(80):
            files[f"side/{step % 9}.json"] = b"step %d\n" % step
            self.push(files, "--step", step)
        reader = self.check()
        tip = reader.commit(reader.names("branches")["main"][-1])
        self.assertEqual(tip.step, 79)
        self.assertEqual(len(reader.keys("objects")), 1)
        self.assertEqual([distance for distance, _ in tip.ancestors][:64], list(range(1, 65)))
        self.assertEqual({file.path for file in tip.files if file.content is None}, {"big"})
