# SPDX-License-Identifier: Apache-2.0
"""How push finds the previous checkpoint. Whatever it finds, the commit is right bit for bit; what it must not cost is
a delta that is not small."""

import json
import os
import shutil
from pathlib import Path

import testing


class PreviousTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo = self.scratch / "repo"
        self.originals = {}  # by commit

    def push(self, checkpoint, *options, **more):
        """Pushes, and keeps a copy of what was pushed."""
        done = self.run_any("push", checkpoint, self.repo, "--json", *options, **more)
        self.assertEqual(done.code, 0, self.told(done))
        report = json.loads(done.out)
        original = self.originals[report["commit"]] = self.scratch / "originals" / report["commit"]
        shutil.copytree(checkpoint, original, dirs_exist_ok=True)
        self.assert_no_leftovers()
        return report

    def assert_small(self, report):
        self.assertTrue(report["created"])
        self.assertLess(report["stored_bytes"], report["checkpoint_bytes"] / 20, report)

    def check_all(self):
        """Every commit comes back as it was pushed."""
        self.run_ok("verify", self.repo)
        for i, (commit, original) in enumerate(self.originals.items()):
            self.run_ok("pull", f"{self.repo}@{commit}", self.scratch / f"out-{i}")
            self.assert_same_tree(self.scratch / f"out-{i}", original)

    def write_in_place(self, source, target):
        """As a saver does that opens the files of the last save and writes over them."""
        for path in source.iterdir():
            with open(target / path.name, "r+b") as file:
                file.write(path.read_bytes())
                file.truncate()

    def steps(self, *options):
        return self.make_run("run", "--size", "1M", *(options or ("--shards", 2, "--steps", 3)))

    def test_new_directory_for_each_save(self):
        steps = self.steps()
        self.push(steps[0])
        for step in steps[1:]:
            report = self.push(step)
            self.assert_small(report)
            self.assertFalse(report["compared_with_repository"])
        self.check_all()

    def test_old_directory_is_deleted_before_the_next_push(self):
        steps = self.steps()
        self.push(steps[0])
        for before, step in zip(steps, steps[1:]):
            shutil.rmtree(before)
            report = self.push(step)
            self.assert_small(report)
            self.assertTrue(report["compared_with_repository"])
        self.check_all()

    def test_old_directory_was_renamed_or_lost_a_shard(self):
        a, b, c = self.steps()
        self.push(a)
        a.rename(self.scratch / "elsewhere")
        self.assert_small(self.push(b))
        os.remove(next(b.glob("*-00001-of-*")))
        self.assert_small(self.push(c))
        self.check_all()

    def test_saver_that_writes_in_place(self):
        a, b, c = self.steps()
        saves = self.scratch / "latest"
        shutil.copytree(a, saves)
        self.push(saves)
        for step in (b, c):
            self.write_in_place(step, saves)
            self.assert_small(self.push(saves))
        self.check_all()

    def test_saver_that_writes_in_place_with_a_stamp_that_lies(self):
        a, b, c = self.steps()
        saves = self.scratch / "latest"
        shutil.copytree(a, saves)
        self.push(saves)
        for step in (b, c):
            stamps = {path.name: path.stat() for path in saves.iterdir()}
            self.write_in_place(step, saves)
            for name, stamp in stamps.items():
                os.utime(saves / name, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            report = self.push(saves)
            self.assertTrue(report["created"])
            self.assert_small(report)
        self.check_all()

    def test_the_previous_checkpoint_was_changed_behind_its_stamp(self):
        a, b, _ = self.steps()
        self.push(a)
        weights = next(a.glob("*-00001-of-*"))
        stamp, content = weights.stat(), bytearray(weights.read_bytes())
        content[-9] ^= 0x55
        with open(weights, "r+b") as file:
            file.write(content)
        os.utime(weights, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        done = self.run_any("push", b, self.repo)
        self.assertEqual(done.code, 0, self.told(done))
        self.originals[done.out.strip()] = b
        self.assertIn("was changed", done.err)
        self.check_all()

    def test_the_header_of_the_previous_checkpoint_was_damaged_behind_its_stamp(self):
        steps = self.steps("--single", "--steps", 2)
        self.push(steps[0])
        weights = steps[0] / "model.safetensors"
        stamp = weights.stat()
        content = bytearray(weights.read_bytes())
        content[20] ^= 0x80
        weights.write_bytes(content)
        os.utime(weights, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        report = self.push(steps[1])
        self.assert_small(report)
        self.assertTrue(report["compared_with_repository"])
        self.check_all()

    def test_some_of_many_files_were_changed_behind_their_stamps(self):
        """Shards that are compared side by side: those that were compared with a wrong guess are compared anew."""
        a, b = self.make_run("many", "--size", "24M", "--shards", 12, "--steps", 2)
        for threads in (1, 2, 4, 16):
            repo, shards = self.scratch / f"repo-{threads}", sorted(a.glob("*.safetensors"))
            self.run_ok("push", a, repo)
            kept = {shard: (shard.read_bytes(), shard.stat()) for shard in (shards[0], shards[7])}
            for shard, (content, stamp) in kept.items():
                with open(shard, "r+b") as file:
                    file.write(content[:-9] + bytes([content[-9] ^ 0x55]) + content[-8:])
                os.utime(shard, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            done = self.run_any("push", b, repo, "-j", threads)
            self.assertEqual(done.code, 0, self.told(done))
            self.assertEqual(done.err.count("was changed"), 1, self.told(done))
            for shard, (content, _) in kept.items():
                shard.write_bytes(content)
            for revision, step in (("main", b), ("main~1", a)):
                self.run_ok("verify", step, f"{repo}@{revision}")
            self.run_ok("verify", repo, "--deep")
            summary = json.loads(self.run_ok("stats", repo, "--json"))
            self.assertLess(summary["stored_bytes"], 1.2 * sum(path.stat().st_size for path in a.iterdir()))

    def test_state_directory_is_deleted(self):
        steps = self.steps()
        for step in steps:
            report = self.push(step)
            shutil.rmtree(self.scratch / "state")
            if step != steps[0]:
                self.assert_small(report)
        self.check_all()

    def test_state_file_holds_garbage(self):
        a, b, c = self.steps()
        self.push(a)
        state, = (self.scratch / "state").glob("push/*/main.json")
        sealed = state.read_bytes()
        state.write_bytes(self.random.randbytes(300))
        self.assert_small(self.push(b))
        state.write_bytes(sealed)  # of the commit before: no longer the tip's
        self.assert_small(self.push(c))
        for content in (b"", b"{}", sealed[:-9], sealed.replace(b"safetensors", b"safetensorz")):
            state.write_bytes(content)
            (c / "config.json").write_bytes(self.random.randbytes(100))
            self.assert_small(self.push(c))
        state.unlink()
        state.mkdir()
        (c / "config.json").write_bytes(b"{}")
        self.assert_small(self.push(c))
        self.check_all()

    def test_state_directory_that_cannot_be(self):
        a, b, c = self.steps()
        self.push(a)
        nowhere = {"WDELTA_STATE_DIR": "", "XDG_STATE_HOME": "", "HOME": ""}
        for step, env, said in ((b, {"WDELTA_STATE_DIR": str(self.write("a-file", "x") / "state")}, "a-file/state/"),
                                (c, nowhere, "neither WDELTA_STATE_DIR nor HOME is set")):
            done = self.run_any("push", step, self.repo, env=env)
            self.assertEqual(done.code, 0, self.told(done))
            self.assertRegex(done.err, f"wdelta: push: note: .*{said}")
            self.originals[done.out.strip()] = step
        self.check_all()

    def test_state_is_found_through_the_environment(self):
        a, b, _ = self.steps()
        home = {"WDELTA_STATE_DIR": "", "HOME": str(self.scratch / "home")}
        self.push(a, env=home)
        self.assertTrue(list((self.scratch / "home/.local/state/wdelta/push").glob("*/main.json")))
        self.assert_small(self.push(b, env={**home, "XDG_STATE_HOME": str(self.scratch / "xdg")}))
        self.assertTrue(list((self.scratch / "xdg/wdelta/push").glob("*/main.json")))
        self.assertFalse((self.scratch / "state").exists())

    def test_relative_paths_from_elsewhere(self):
        a, b, _ = self.steps()
        self.push(Path(os.path.relpath(a)))
        report = json.loads(self.run_ok("push", b.name, "../repo", "--json", cwd=b.parent))
        self.assertFalse(report["compared_with_repository"])
        self.assert_small(report)

    def test_a_checkpoint_in_a_directory_whose_name_is_no_utf8(self):
        a, b, _ = self.steps()
        odd = os.fsencode(self.scratch) + b"/\xff\xfe"
        os.rename(a, odd)
        for source in (odd, b):
            done = self.run_any("push", source, self.repo)
            self.assertEqual(done.code, 0, self.told(done))
        self.run_ok("pull", f"{self.repo}@main~1", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", os.fsdecode(odd))

    def test_two_branches_and_a_pull_between(self):
        a, b, c = self.steps()
        self.push(a)
        self.push(b)
        self.assertGreater(self.push(a, "-b", "side")["stored_bytes"], 0)
        self.assert_small(self.push(b, "-b", "side"))
        self.run_ok("pull", f"{self.repo}@side~1", self.scratch / "out")
        self.assert_small(self.push(c))
        self.check_all()

    def shards_of(self, tensors, name, count):
        """A checkpoint of these tensors in so many shards."""
        places, size = {}, -(-len(tensors) // count)
        for i in range(count):
            shard = f"{name}-{i + 1:05}-of-{count:05}.safetensors"
            part = tensors[i * size:(i + 1) * size]
            places.update((tensor[0], shard) for tensor in part)
            self.write_weights(f"{name}/{shard}", part)
        self.write(f"{name}/model.safetensors.index.json", json.dumps({"weight_map": places}))
        return self.scratch / name

    def test_other_shards_and_names_with_the_step(self):
        tensors = self.some_weights(count=40, elements=10000)
        self.push(self.shards_of(tensors, "step-1", 4))
        for name, count in (("step-2", 5), ("step-3", 5), ("step-4", 1), ("step-5", 2)):
            tensors = self.moved(tensors, 0.001)
            report = self.push(self.shards_of(tensors, name, count))
            self.assert_small(report)
            shutil.rmtree(self.scratch / name)  # the next one compares with the repository
        self.check_all()

    def test_a_tensor_that_moved_and_one_that_is_new(self):
        tensors = self.some_weights(count=8, elements=10000)
        self.push(self.shards_of(tensors, "step-1", 2))
        tensors = [tensors[-1], *self.moved(tensors[:-1], 0.001), ("new", "F32", [7], bytes(28))]
        self.assert_small(self.push(self.shards_of(tensors, "step-2", 2)))
        self.check_all()

    def test_first_push_to_a_second_branch_is_not_small_but_right(self):
        a, b, _ = self.steps()
        self.push(a)
        report = self.push(b, "-b", "other")
        self.assertIsNone(report["parent"])
        self.check_all()


if __name__ == "__main__":
    testing.main()
