# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as they are: whatever a training run does to its files from one save to the next, every commit comes back
bit for bit, forwards and backwards, and what did not change is not uploaded again."""

import hashlib
import json
import os
import shutil
import zipfile
from array import array

import safetensors
import testing

MIB = 1 << 20


class CheckpointsTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo = self.scratch / "repo"
        self.pushed = []  # commits and the checkpoints they were made of, oldest first

    def checkpoint(self, files):
        """A directory with these contents by path."""
        root = self.scratch / f"checkpoint-{len(list(self.scratch.glob('checkpoint-*')))}"
        root.mkdir()
        for path, content in files.items():
            self.write(root / path, content)
        return root

    def push(self, files, *options):
        """Pushes a checkpoint of these contents; returns the report."""
        root = self.checkpoint(files)
        report = json.loads(self.run_ok("push", root, self.repo, "--json", *options))
        self.pushed.append((report["commit"], root))
        sizes = [len(content) for content in files.values()]
        self.assertEqual((report["files"], report["checkpoint_bytes"]), (len(sizes), sum(sizes)))
        for key in ("files", "bytes", "stored_bytes"):
            told = {"files": "files", "bytes": "checkpoint_bytes", "stored_bytes": "stored_bytes"}[key]
            self.assertEqual(sum(kind[key] for kind in report["kinds"].values()), report[told], report)
        return report

    def assert_small(self, report, share=0.1):
        """No tensor was uploaded whole: a law, not a tuned number."""
        self.assertTrue(report["created"])
        self.assertLess(report["stored_bytes"], share * report["checkpoint_bytes"], report)

    def assert_no_larger(self, report):
        """What cannot be made smaller is not made larger either."""
        self.assertLess(report["stored_bytes"], report["checkpoint_bytes"] * 1.01 + 4096, report)

    def check_all(self):
        """Every commit is rebuilt afresh, and in place, backwards and forwards."""
        self.run_ok("verify", self.repo)
        for commit, original in self.pushed:
            fresh = self.scratch / "fresh"
            self.run_ok("pull", f"{self.repo}@{commit}", fresh)
            self.assert_same_tree(fresh, original)
            shutil.rmtree(fresh)
        there = self.scratch / "there"
        for commit, original in [*self.pushed[::-1], *self.pushed[1:]]:
            self.run_ok("pull", f"{self.repo}@{commit}", there)
            self.assert_same_tree(there, original)
        self.run_ok("verify", there, f"{self.repo}@{self.pushed[-1][0]}")
        self.assert_no_leftovers()

    def object_count(self):
        return sum(len(files) for _, _, files in os.walk(self.repo / "objects"))

    # What happens to tensors.

    def one_file(self, tensors, **more):
        return {"model.safetensors": safetensors.encode(tensors, **more), "config.json": b"{}"}

    def sharded(self, tensors, count, folder="", more=None):
        """The files of a checkpoint in so many shards with their index."""
        size = -(-len(tensors) // count)
        files, places = dict(more or {}), {}
        for i in range(count):
            shard = f"model-{i + 1:05}-of-{count:05}.safetensors"
            part = tensors[i * size:(i + 1) * size]
            places.update((tensor[0], shard) for tensor in part)
            files[folder + shard] = safetensors.encode(part, metadata={"format": "pt"})
        files[folder + "model.safetensors.index.json"] = json.dumps({"weight_map": places}).encode()
        return files

    def renamed(self, tensors, name):
        return [(name(tensor[0]), *tensor[1:]) for tensor in tensors]

    def test_tensors_are_renamed_reshaped_reordered(self):
        tensors = self.some_weights(count=60, elements=6000)
        self.push(self.one_file(tensors))
        for change in (lambda each: self.renamed(each, "model.{}".format),
                       lambda each: [(n, d, [6, 10, 100], c) for n, d, _, c in each],
                       lambda each: each[::-1],
                       lambda each: self.renamed(each, lambda name: name.removeprefix("model.")),
                       lambda each: self.renamed([(n, d, [100, 60], c) for n, d, _, c in each[10:] + each[:10]],
                                                 "base_model.model.{}".format),
                       lambda each: self.renamed(each, lambda name: name.replace("weight", "kernel"))):
            tensors = change(self.moved(tensors, 0.001))
            self.assert_small(self.push(self.one_file(tensors)))
        self.check_all()

    def test_tensors_are_added_removed_retyped(self):
        tensors = self.some_weights(count=40, elements=6000)
        self.push(self.one_file(tensors))
        tensors = [*tensors[5:], ("added", "F32", [10, 20], self.random.randbytes(800))]
        self.assert_small(self.push(self.one_file(tensors)))
        name, _, shape, content = tensors[0]
        tensors = [(name, "F16", shape, content), *tensors[1:]]  # one of 36 starts afresh
        self.assert_small(self.push(self.one_file(tensors)))
        self.push(self.one_file([(name, "F32", shape, self.random.randbytes(24000)) for name, _, shape, _ in tensors
                                 if name != "added"]))
        self.assert_no_larger(self.push(self.one_file(self.some_weights(count=3))))
        self.assert_no_larger(self.push(self.one_file([])))
        self.assert_no_larger(self.push(self.one_file(tensors)))
        self.check_all()

    def test_only_the_header_changes(self):
        tensors = self.some_weights(count=20, elements=20000)
        self.push(self.one_file(tensors))
        names = [tensor[0] for tensor in tensors]
        for more in ({"metadata": {"format": "pt"}}, {"metadata": {"format": "pt", "step": "2", "ü": "☃"}},
                     {"padding": b" " * 7}, {"in_header": names[::-1]}, {"indent": 2}, {}):
            report = self.push(self.one_file(tensors, **more))
            self.assert_small(report, 0.02)
            self.assertEqual(report["changed"], 0)
        self.check_all()

    def test_tied_and_untied_tensors(self):
        tensors = self.some_weights(count=3, elements=40000)
        head = ("lm_head.weight", *tensors[0][1:])
        self.push(self.one_file(tensors))
        self.assert_small(self.push(self.one_file([*tensors, head])), 0.02)
        self.assert_small(self.push(self.one_file(tensors)), 0.02)
        self.assert_small(self.push(self.one_file([head, *tensors[1:]])), 0.02)
        self.assert_small(self.push(self.one_file([*self.moved([head, *tensors[1:]], 0.001), tensors[0]])))
        self.check_all()

    def test_empty_tensors_and_files_without_tensors(self):
        tensors = self.some_weights(count=3, elements=30000)
        empty = [(f"empty.{i}", dtype, [0, 3], b"") for i, dtype in enumerate(("BF16", "I64", "F32"))]
        none = {"none.safetensors": safetensors.encode([]), "empty.safetensors": safetensors.encode(empty),
                "also.safetensors": safetensors.encode([], metadata={"a": "b"}), "no bytes.bin": b""}
        self.push({**self.one_file(tensors), **none})
        self.assert_small(self.push({**self.one_file([empty[0], *tensors, *empty[1:]]), **none}), 0.02)
        self.assert_small(self.push({**self.one_file(self.moved(tensors, 0.001)), **none,
                                     "none.safetensors": safetensors.encode(empty)}))
        # All tensors go, and come back: the commit before no longer has them.
        self.assert_no_larger(self.push({**self.one_file(empty), **none}))
        self.push({**self.one_file(tensors), **none})
        self.check_all()

    def test_the_number_of_shards_changes(self):
        tensors = self.some_weights(count=60, elements=6000)
        self.push(self.sharded(tensors, 4))
        for count, folder in ((5, ""), (1, ""), (7, "weights/"), (4, "")):
            tensors = self.moved(tensors, 0.001)
            self.assert_small_without_anchors(self.sharded(tensors, count, folder))
        whole = {"model.safetensors": safetensors.encode(self.moved(tensors, 0.001))}
        self.assert_small_without_anchors(whole)
        self.assert_small_without_anchors(self.sharded(self.renamed(tensors, "model.{}".format), 4))
        self.check_all()

    def assert_small_without_anchors(self, files):
        """What all files are made of is fetched once for all of them: no reason to store any of them whole."""
        report = self.push(files)
        self.assert_small(report)
        self.assertEqual(report["anchor_bytes"], 0, report)
        for words in ((), ("--swap",)):
            pulled = json.loads(self.run_ok("pull", *words, self.repo, self.scratch / "fresh", "--json"))
            self.assertLess(pulled["fetched_bytes"], 1.2 * report["checkpoint_bytes"])
            shutil.rmtree(self.scratch / "fresh")
        shown = json.loads(self.run_ok("show", self.repo, "--json"))
        self.assertEqual(shown["fetch_bytes"], pulled["fetched_bytes"])

    def test_two_sets_of_weights_with_the_same_tensors(self):
        model = self.some_weights(count=24, elements=6000)
        ema = self.moved(model, 0.3)
        for model_count, ema_count in ((1, 3), (1, 2), (2, 5)):
            files = {**self.sharded(model, model_count, "model/"), **self.sharded(ema, ema_count, "ema/")}
            report = self.push(files)
        self.assertEqual(report["changed"], 0, report)
        self.assert_small(report)
        files = {"unet/w.safetensors": safetensors.encode(model), "unet_ema/w.safetensors": safetensors.encode(ema)}
        self.push(files)
        report = self.push({path.replace("w.", "w.fp16."): content for path, content in files.items()})
        self.assertEqual((report["changed"], report["stored_bytes"]), (0, 0), report)
        ema = self.moved(ema, 0.001)
        self.assert_small(self.push({"unet/w.safetensors": safetensors.encode(model),
                                     "unet_ema/w.safetensors": safetensors.encode(ema)}))
        self.check_all()

    def test_directories_that_are_named_for_the_step_and_ranks_with_the_same_tensors(self):
        ranks = [self.some_weights(count=4, elements=30000) for _ in range(3)]
        states = [self.random.randbytes(MIB + 1000) for _ in range(3)]
        for step in (99, 100, 101, 1000):
            if step > 99:
                ranks = [self.moved(rank, 0.001) for rank in ranks]
                states = [self.flipped(state, 0.001) for state in states]
            files = {"latest": f"global_step{step}".encode()}
            for i, (rank, state) in enumerate(zip(ranks, states)):
                files[f"global_step{step}/rank_{i:02}/model.safetensors"] = safetensors.encode(rank)
                files[f"global_step{step}/zero_pp_rank_{i}_optim_states.pt"] = state
                files[f"global_step{step}/rank{i}_step{step}.bin"] = state[::-1]
            report = self.push(files)
            if step > 99:
                self.assert_small(report)
        self.check_all()

    def test_adapters_in_which_every_element_changes(self):
        for step in range(3):
            tensors = self.some_weights(count=8, elements=20000, dtype="F32")
            report = self.push({"adapter_model.safetensors": safetensors.encode(tensors), "adapter_config.json": b"{}"})
            self.assert_no_larger(report)
        # Said again, it costs nothing at all.
        files = {"adapter_model.safetensors": safetensors.encode(tensors), "adapter_config.json": b"{}"}
        self.assertFalse(json.loads(self.run_ok("push", self.checkpoint(files), self.repo, "--json"))["created"])
        self.check_all()

    # Files of other formats.

    def flipped(self, content, share):
        """content with this share of its bytes changed a little."""
        changed = bytearray(content)
        for _ in range(int(len(changed) * share)):
            changed[self.random.randrange(len(changed))] ^= 1
        return bytes(changed)

    def numbers(self, count):
        """As many numbers of single precision as an optimizer's state has them."""
        return array("f", [self.random.gauss(0, 0.01) for _ in range(count)])

    def torch_file(self, storages, pickled):
        """As torch.save writes it: a zip file whose members are stored as they are, a small pickle in front."""
        path = self.scratch / "torch file"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
            def add(name, content):
                file.writestr(zipfile.ZipInfo(f"archive/{name}", (1980, 1, 1, 0, 0, 0)), content)
            add("data.pkl", pickled)
            add("byteorder", b"little")
            for i, storage in enumerate(storages):
                add(f"data/{i}", storage)
            add("version", b"3\n")
        return path.read_bytes()

    def test_torch_files_and_optimizer_states(self):
        weights = [self.random.randbytes(700_000) for _ in range(3)]
        moments = [self.numbers(200_000) for _ in range(2)]
        for step in range(4):
            files = {"pytorch_model.bin": self.torch_file(weights, b"a pickle of step %d" % step),
                     "optimizer.pt": self.torch_file([moment.tobytes() for moment in moments], bytes(300)),
                     "__0_0.distcp": b"".join(weights), "scheduler.pt": b"step %d" % step,
                     "rng_state.pth": self.random.randbytes(14000), "training_args.bin": b"the same"}
            report = self.push(files)
            kinds = report["kinds"]
            self.assertEqual([kinds[kind]["files"] for kind in ("weights", "optimizer", "side")], [2, 3, 1])
            self.assert_no_larger(report)
            if step > 0:
                self.assertLess(kinds["weights"]["stored_bytes"], kinds["weights"]["bytes"] / 10)
                # Every moment moves by a hundredth, but stays near what it was.
                self.assertLess(kinds["optimizer"]["stored_bytes"], kinds["optimizer"]["bytes"])
            weights = [self.flipped(weight, 0.001) for weight in weights]
            moments = [array("f", [x * self.random.uniform(0.99, 1.01) for x in moment]) for moment in moments]
        self.check_all()

    def test_weights_under_names_that_do_not_say_so(self):
        tensors = self.compressible_weights()
        first = safetensors.encode(tensors)
        tensors = self.moved(tensors, 0.01)
        second, third = safetensors.encode(tensors), safetensors.encode(self.moved(tensors, 0.01))
        for before in ({"model.safetensors.tmp": first}, {"blobs/0123abcd": first, "model.safetensors": first}):
            with self.subTest(before=list(before)):
                self.repo, self.pushed = self.scratch / f"repo-{len(before)}", []
                self.push(before, "--anchor", "never")
                for content in (first, second, third):
                    self.assert_small(self.push({"model.safetensors": content, "note": content[:20]}), 0.1)
                self.run_ok("verify", "--deep", self.repo)
                self.check_all()
                shutil.rmtree(self.scratch / "there")

    def test_a_cache_of_the_hub_is_stored_once(self):
        tensors = self.compressible_weights()
        for step in range(3):
            content = safetensors.encode(tensors)
            blob = hashlib.sha256(content).hexdigest()
            report = self.push({f"blobs/{blob}": content, "snapshots/main/model.safetensors": content})
            if step > 0:
                self.assert_small(report)
            tensors = self.moved(tensors, 0.001)
        self.check_all()

    def test_a_checkpoint_with_a_copy_of_the_one_before_is_squashed(self):
        tensors, kept = self.compressible_weights(), {}
        for _ in range(5):
            content = safetensors.encode(tensors)
            self.push({"model.safetensors": content, **kept})
            kept, tensors = {"model.safetensors.prev": content}, self.moved(tensors, 0.01)
        self.run_ok("squash", self.repo, f"{self.pushed[0][0]}..{self.pushed[-1][0]}")
        self.pushed = [self.pushed[0], self.pushed[-1]]
        self.run_ok("verify", "--deep", self.repo)
        self.check_all()

    def test_files_that_grow_shrink_and_come_back(self):
        state = self.random.randbytes(2 * MIB)
        self.push({"state.bin": state})
        self.assert_small(self.push({"state.bin": state + b"a few bytes"}), 0.01)
        self.assert_small(self.push({"state.bin": state[:-1001]}), 0.01)
        self.assert_no_larger(self.push({"state.bin": state[:1000]}))
        self.assert_no_larger(self.push({"state.bin": b""}))
        self.assert_no_larger(self.push({"state.bin": bytes(3 * MIB)}))
        self.assert_no_larger(self.push({"other.bin": state}))
        self.assert_small(self.push({"other.bin": state, "twice/other.bin": state, "again.pt": state}), 0.01)
        self.assertEqual(self.push({"other.bin": state}, "--meta", "a=b")["stored_bytes"], 0)
        self.check_all()

    def test_text_of_several_megabytes(self):
        words = [self.random.randbytes(6).hex() for _ in range(3000)]
        merges = [" ".join(self.random.choices(words, k=2)) for _ in range(120_000)]
        log = [json.dumps({"step": i, "loss": self.random.random()}) for i in range(40_000)]
        tokenizer = json.dumps(merges, indent=1).encode()
        report = self.push({"tokenizer.json": tokenizer, "log.jsonl": "\n".join(log).encode()})
        self.assertLess(report["stored_bytes"], report["checkpoint_bytes"] * 0.7)
        log += [json.dumps({"step": i, "loss": 0.5}) for i in range(40_000, 40_100)]
        report = self.push({"tokenizer.json": tokenizer, "log.jsonl": "\n".join(log).encode()})
        self.assert_small(report, 0.02)
        self.check_all()

    def test_thousands_of_small_files_cost_few_objects(self):
        files = {f"{kind}/{i % 37}/{i}.{kind}": self.random.randbytes(100 + i)
                 for kind in ("json", "pt") for i in range(800)}
        files.update((f"experts/{i}.safetensors", safetensors.encode(self.some_weights(count=1, elements=700)))
                     for i in range(400))
        self.push(files)
        self.assertLess(self.object_count(), 10)
        for _ in range(2):
            for path in self.random.sample(sorted(files), 60):
                if path.endswith(".safetensors"):
                    tensors = safetensors.decode(files[path])
                    files[path] = safetensors.encode(self.moved([(n, *rest) for n, rest in tensors.items()], 0.001))
                else:
                    files[path] = self.flipped(files[path] + b"x", 0.1)
            before = self.object_count()
            self.assert_small(self.push(files))
            self.assertLess(self.object_count(), before + 10)
            del self.pushed[1:-1]  # two of them are enough to pull
        self.check_all()

    def test_identical_files_are_stored_once(self):
        tensors = self.some_weights(count=4, elements=200_000)
        weights = safetensors.encode(tensors)
        blob = self.random.randbytes(100_000)
        report = self.push({"model.safetensors": weights, "ema/model.safetensors": weights, "a": blob, "b": blob,
                            "c/a.bin": blob})
        self.assertLess(report["stored_bytes"], 1.02 * (len(weights) + len(blob)))
        moved = safetensors.encode(self.moved(tensors, 0.001))
        report = self.push({"model.safetensors": moved, "ema/model.safetensors": moved, "a": blob, "c/a.bin": blob})
        self.assert_small(report, 0.02)
        # One goes on, the other stays behind.
        ahead = safetensors.encode(self.moved(tensors, 0.001))
        self.assert_small(self.push({"model.safetensors": ahead, "ema/model.safetensors": moved}), 0.02)
        self.check_all()


if __name__ == "__main__":
    testing.main()
