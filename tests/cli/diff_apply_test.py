# SPDX-License-Identifier: Apache-2.0
"""diff and apply: apply(diff(a, b), a) is b, for files and directories, one delta or several; and what is refused."""

import json
import os
import resource
import shutil
import subprocess

import fault_points
import kill_points
import safetensors
import testing


def read_tensors(path):
    return safetensors.decode(path.read_bytes())


class DiffApplyTest(testing.Case):
    def diff(self, base, result, delta, *options):
        self.run_ok("diff", base, result, "-o", delta, *options)
        self.run_ok("verify", delta)
        return delta

    def chain_of(self, steps):
        return [self.diff(base, result, self.scratch / f"delta-{i}")
                for i, (base, result) in enumerate(zip(steps, steps[1:]))]

    def check_chain(self, steps, assert_same):
        """Several deltas in one pass make what they make one after the other: the last step."""
        deltas = self.chain_of(steps)
        self.run_ok("apply", steps[0], *deltas, "-o", self.scratch / "at-once")
        assert_same(self.scratch / "at-once", steps[-1])
        at = steps[0]
        for i, delta in enumerate(deltas):
            self.run_ok("apply", at, delta, "-o", self.scratch / f"after-{i}")
            at = self.scratch / f"after-{i}"
            assert_same(at, steps[i + 1])
        self.assert_no_leftovers()

    def test_chain_of_files(self):
        steps = self.make_run("run", "--size", "2M", "--single", "--steps", 4)
        self.check_chain([next(step.glob("*.safetensors")) for step in steps], self.assert_same_file)

    def test_chain_of_directories(self):
        for name, options in (("single", ["--single"]), ("sharded", ["--shards", 3])):
            with self.subTest(name):
                steps = self.make_run(name, "--size", "2M", "--steps", 4, *options)
                self.check_chain(steps, self.assert_same_tree)
                for path in self.scratch.glob("delta-*"):
                    shutil.rmtree(path)
                for path in [*self.scratch.glob("after-*"), self.scratch / "at-once"]:
                    shutil.rmtree(path)

    def test_directories_with_side_files(self):
        for step in "abc":
            self.write_weights(f"{step}/model.safetensors", self.some_weights())
            self.write(f"{step}/config.json", "{}\n" if step == "a" else '{"a":1}\n')
            self.write(f"{step}/run.sh", "#!/bin/sh\n", executable=step != "b")
            self.write(f"{step}/empty", b"")
        self.write("a/removed/deep/er.txt", "removed")
        self.write("b/added/no te.txt", "added")
        self.write("b/big.bin", self.random.randbytes(3 << 20))
        self.write("c/big.bin", self.random.randbytes(3 << 20))
        (self.scratch / "c" / "nothing" / "here").mkdir(parents=True)
        a, b, c = (self.scratch / step for step in "abc")
        deltas = self.chain_of([a, b, c])
        (self.scratch / "c" / "nothing" / "here").rmdir()
        (self.scratch / "c" / "nothing").rmdir()  # directories without files are no part of a checkpoint
        self.run_ok("apply", a, *deltas, "-o", self.scratch / "at-once")
        self.assert_same_tree(self.scratch / "at-once", c)
        self.run_ok("apply", a, deltas[0], "-o", self.scratch / "once")
        self.assert_same_tree(self.scratch / "once", b)
        changes = {file["path"]: file["change"] for file in json.loads(self.run_ok("diff", a, b, "--json"))["files"]}
        self.assertEqual(changes, {
            "model.safetensors": "changed", "config.json": "changed", "run.sh": "changed", "empty": "same",
            "removed/deep/er.txt": "removed", "added/no te.txt": "added", "big.bin": "added"})

    def test_directories_with_nothing(self):
        self.write_weights("full/model.safetensors", self.some_weights())
        (self.scratch / "empty").mkdir()
        full, empty = self.scratch / "full", self.scratch / "empty"
        for base, result in ((empty, full), (full, empty), (empty, empty), (full, full)):
            with self.subTest(base=base.name, result=result.name):
                delta = self.diff(base, result, self.scratch / f"{base.name}-{result.name}")
                out = self.scratch / f"out-{base.name}-{result.name}"
                self.run_ok("apply", base, delta, "-o", out)
                self.assert_same_tree(out, result)
        self.assertEqual(self.run_any("diff", "--exit-code", full, full).code, 0)
        self.assertEqual(self.run_any("diff", "--exit-code", empty, full).code, 10)

    def test_empty_output_directory_is_taken(self):
        a, b = self.make_run("run", "--size", "1M", "--shards", 2, "--steps", 2)
        for name in ("delta", "out"):
            (self.scratch / name).mkdir()
        self.run_ok("diff", a, b, "-o", f"{self.scratch}/delta/")
        self.run_ok("apply", a, self.scratch / "delta", "-o", f"{self.scratch}/out/")
        self.assert_same_tree(self.scratch / "out", b)

    def test_removed_tensors_are_those_that_no_file_has(self):
        def lay_out(name, **shards):
            for shard, tensors in shards.items():
                self.write_weights(f"{name}/{shard}.safetensors", [by_name[tensor] for tensor in tensors])
            return self.scratch / name

        by_name = {name: (name, *rest) for name, (_, *rest) in zip("abcd", self.some_weights(4))}
        old = lay_out("old", m1="abc", m2="d")
        for name, new, removed in (
                ("moved", lay_out("moved", m1="ab", m2="cd"), []),
                ("moved to a new file", lay_out("grown", m1="ab", m2="d", m3="c"), []),
                ("moved and gone", lay_out("less", m1="b", m2="cd"), [("m1.safetensors", "a")]),
                ("gone, other files", lay_out("named", n1="a", n2="b", n3="d"), [("n1.safetensors", "c")])):
            with self.subTest(name):
                files = json.loads(self.run_ok("diff", old, new, "--json"))["files"]
                self.assertEqual([(file["path"], tensor) for file in files for tensor in file.get("removed_tensors", [])],
                                 removed)
                lines = self.run_ok("diff", old, new).splitlines()
                self.assertEqual([line for line in lines if line.startswith("removed:")],
                                 [f"removed: {tensor}" for _, tensor in removed])

    def test_figures_agree_with_a_count_in_python(self):
        a, b = self.make_run("run", "--size", "1M", "--single", "--steps", 2)
        (old,), (new,) = a.glob("*.safetensors"), b.glob("*.safetensors")
        base, result = read_tensors(old), read_tensors(new)
        expected = {name: safetensors.count_changes(base[name], result[name]) for name in result}
        found = json.loads(self.run_ok("diff", old, new, "--json"))
        (file,) = found["files"]
        self.assertEqual({tensor["name"]: tensor["changed"] for tensor in file["tensors"]}, expected)
        self.assertEqual(found["changed"], sum(expected.values()))
        self.assertEqual(found["elements"], sum(tensor["elements"] for tensor in file["tensors"]))
        self.assertEqual(found["encoded_bytes"], sum(tensor["encoded_bytes"] for tensor in file["tensors"]))
        for tensor in file["tensors"]:
            self.assertEqual(tensor["shape"], result[tensor["name"]][1])
            self.assertEqual(tensor["encoding"] == "same", expected[tensor["name"]] == 0)
        lines = self.run_ok("diff", old, new).splitlines()
        table = {line.split()[0]: line.split() for line in lines[1:] if line.split()[:1]
                 and line.split()[0] in expected}
        self.assertEqual({name: int(row[4].replace(",", "")) for name, row in table.items()}, expected)
        self.assertEqual(len({line.index("BF16") for line in lines if " BF16 " in line}), 1, "the table is aligned")
        changed = sum(1 for count in expected.values() if count)
        total = f"{changed} of {len(expected)} tensors, {sum(expected.values()):,} of {found['elements']:,} elements"
        self.assertTrue(lines[-1].startswith(total), lines[-1])
        stat = self.run_ok("diff", a, b, "--stat").splitlines()
        self.assertEqual(len(stat), 1 + len(list(b.iterdir())))
        self.assertEqual(stat[-1], lines[-1])
        self.assertEqual(self.run_ok("diff", a, b, "-q"), "")

    def test_nearly_all_is_not_all(self):
        elements = 200_000
        old = self.write_weights("old.safetensors", [("x", "U8", [elements], bytes(elements))])
        for changed, said in ((1, "(<0.001 %)"), (elements - 1, "(>99.9 %)"), (elements, "(100 %)")):
            content = b"\1" * changed + bytes(elements - changed)
            new = self.write_weights("new.safetensors", [("x", "U8", [elements], content)])
            self.assertIn(f"{changed:,} of 200,000 elements changed {said}", self.run_ok("diff", old, new))

    def test_many_files_side_by_side(self):
        """Shards and revisions of them, on one thread and on more than there are shards: the same delta and result."""
        steps, repo = self.make_run("run", "--size", "24M", "--shards", 8, "--steps", 3), self.scratch / "repo"
        for step in steps:
            self.run_ok("push", step, repo)
        expected = self.scratch / "expected"
        self.run_ok("diff", steps[0], steps[2], "-o", expected, "-j1")
        for threads in (2, 3, 4, 16):
            for kind, old, new in (("paths", steps[0], steps[2]), ("revisions", f"{repo}@main~2", f"{repo}@main")):
                delta, out = self.scratch / f"{kind}-{threads}", self.scratch / f"out-{kind}-{threads}"
                self.run_ok("diff", old, new, "-o", delta, "-j", threads)
                self.assert_same_tree(delta, expected)
                self.run_ok("apply", old, delta, "-o", out, "-j", threads)
                self.assert_same_tree(out, steps[2])
                self.run_ok("verify", out, repo, "-j", threads)
        self.run_ok("verify", repo, "--deep", "-j4")

    def test_one_of_many_files_is_wrong(self):
        steps, repo = self.make_run("run", "--size", "24M", "--shards", 8, "--steps", 2), self.scratch / "repo"
        self.run_ok("push", steps[1], repo)
        delta, out = self.scratch / "delta", self.scratch / "out"
        self.run_ok("diff", *steps, "-o", delta)
        shards = [sorted(step.glob("*.safetensors"))[5] for step in steps]
        for shard in shards:
            content = bytearray(shard.read_bytes())
            content[-1] ^= 1
            shard.write_bytes(content)
        for threads in (4, 16):  # each shard on a thread of its own, and in lanes
            self.run_fails(6, "apply", steps[0], delta, "-o", out, "-j", threads, says=shards[0].name, absent=out)
            self.run_fails(10, "verify", steps[1], repo, "-j", threads, says=shards[1].name)

    def test_exit_code(self):
        a, b = self.make_run("run", "--size", "1M", "--single", "--steps", 2)
        for extra in ([], ["--json"], ["--stat"], ["-o", self.scratch / "delta"]):
            self.assertEqual(self.run_any("diff", "--exit-code", a, b, *extra).code, 10)
        self.assertEqual(self.run_any("diff", "--exit-code", a, a).code, 0)
        self.assertEqual(self.run_any("diff", a, b).code, 0)
        shutil.copytree(a, self.scratch / "copy")
        os.chmod(self.scratch / "copy" / "config.json", 0o755)
        self.assertEqual(self.run_any("diff", "--exit-code", a, self.scratch / "copy").code, 10)

    def test_a_shard_that_is_saved_anew_while_others_are_compared(self):
        kill_points.require(self)
        for step in "ab":
            for shard in range(3):
                self.write_weights(f"{step}/{shard}.safetensors", self.some_weights(1, 200))
        words = "diff", "-j1", self.scratch / "a", self.scratch / "b", "-o", self.scratch / "out"
        log = self.scratch / "points"
        self.run_ok(*words, env=kill_points.environment(self.scratch, log=log))
        shutil.rmtree(self.scratch / "out")
        point = next(point for point in kill_points.read_log(log) if point.other.endswith("0.safetensors"))
        for elements in (200, 201):
            diff = kill_points.Paused(self, point.number, *words)
            self.write_weights("next", self.some_weights(1, elements)).rename(self.scratch / "b/2.safetensors")
            done = diff.go_on()
            self.assertEqual(done.code, 3, self.told(done))
            self.assertIn("changed while it was read" if elements == 200 else "2.safetensors: has", done.err)
            self.assertFalse((self.scratch / "out").exists())

    def test_what_is_beside_an_output_under_a_name_much_like_ours(self):
        self.write_weights("a.safetensors", self.some_weights())
        kept = [self.write(".out.wdelta-backup/thesis.txt", "mine"), self.write(".out.wdelta-note01", "mine")]
        self.run_ok("diff", self.scratch / "a.safetensors", self.scratch / "a.safetensors", "-o", self.scratch / "out")
        self.assertTrue(all(path.exists() for path in kept))
        self.write_weights("run/model.safetensors", self.some_weights())
        self.write("run/.run.wdelta-config", "mine")
        self.run_ok("push", self.scratch / "run", self.scratch / "repo")
        self.run_ok("pull", self.scratch / "repo", self.scratch / "pulled")
        self.assert_same_tree(self.scratch / "pulled", self.scratch / "run")

    def test_what_is_replaced_leaves_its_permissions(self):
        for step in "ab":
            self.write_weights(f"{step}/m.safetensors", self.some_weights())
        a, b = (self.scratch / f"{step}/m.safetensors" for step in "ab")
        delta, out = self.write("delta", ""), self.write("out", "")
        delta.chmod(0o600)
        out.chmod(0o640)
        self.run_ok("diff", a, b, "-o", delta)
        self.run_ok("apply", a, delta, "-o", out)
        self.assertEqual((delta.stat().st_mode & 0o777, out.stat().st_mode & 0o777), (0o600, 0o640))
        for name in ("deltas", "outs"):
            (self.scratch / name).mkdir(0o700)
        self.run_ok("diff", a.parent, b.parent, "-o", self.scratch / "deltas")
        self.run_ok("apply", a.parent, self.scratch / "deltas", "-o", self.scratch / "outs")
        for name in ("deltas", "outs"):
            self.assertEqual((self.scratch / name).stat().st_mode & 0o777, 0o700)

    def another_group(self):
        """A group that files can be given and that new ones do not have."""
        if os.geteuid() == 0:
            return 54321
        others = [group for group in os.getgroups() if group != os.getegid()]
        if not others:
            self.skipTest("only root, and who is in a second group, can give files another group")
        return others[0]

    def replace_all(self, group, mode, **more):
        """Modes and groups of a file and a directory that were of that group, with that mode, and were replaced."""
        for step in "ab":
            self.write_weights(f"{step}/m.safetensors", self.some_weights())
        a, b = (self.scratch / f"{step}/m.safetensors" for step in "ab")
        shutil.rmtree(self.scratch / "outs", ignore_errors=True)
        out, outs = self.write("out", ""), self.scratch / "outs"
        outs.mkdir()
        for path, executable in ((out, 0), (outs, 0o110)):
            os.chown(path, -1, group)
            path.chmod(mode | executable)
        self.run_ok("diff", a, b, "-o", out, **more)
        self.run_ok("diff", a.parent, b.parent, "-o", outs, **more)
        return [(path.stat().st_mode & 0o7777, path.stat().st_gid) for path in (out, outs)]

    def test_what_is_replaced_leaves_its_group(self):
        group = self.another_group()
        self.assertEqual(self.replace_all(group, 0o640), [(0o640, group), (0o750, group)])

    def test_where_the_group_cannot_be_given_nobody_may_read_more(self):
        group = self.another_group()
        fault_points.require(self)
        refused = fault_points.environment(self.scratch, "chown=EPERM")
        for mode, file, directory in ((0o640, 0o600, 0o700), (0o604, 0o600, 0o700), (0o664, 0o644, 0o744)):
            with self.subTest(oct(mode)):
                self.assertEqual(self.replace_all(group, mode, env=refused),
                                 [(file, os.getegid()), (directory, os.getegid())])

    def test_an_output_directory_that_cannot_be_given_its_mode_leaves_nothing(self):
        fault_points.require(self)
        for step in "ab":
            self.write_weights(f"{step}/m.safetensors", self.some_weights())
        (self.scratch / "out").mkdir()
        self.run_fails(3, "diff", self.scratch / "a", self.scratch / "b", "-o", self.scratch / "out", says="set mode",
                       env=fault_points.environment(self.scratch, "chmod=EPERM"))
        self.assert_no_leftovers()

    def test_directories_that_cannot_be_replaced(self):
        for step in "ab":
            self.write_weights(f"{step}/m.safetensors", self.some_weights())
        (self.scratch / "empty").mkdir()
        (self.scratch / "link").symlink_to("empty")
        (self.scratch / "nowhere").symlink_to("gone")
        for output, why in (("link", "is a symlink"), ("nowhere", "is a symlink"), ("empty/.", "is no name"),
                            ("x" * 256, "has a longer name")):
            self.run_fails(3, "diff", self.scratch / "a", self.scratch / "b", "-o", f"{self.scratch}/{output}", says=why)
        self.assertTrue((self.scratch / "link").is_symlink() and not list((self.scratch / "empty").iterdir()))

    def test_a_commit_and_what_it_was_pushed_from(self):
        self.write_weights("a/m.safetensors", self.some_weights())
        self.write("a/train.log", "x")
        self.write("a/.wdeltaignore", "*.log\n")
        repo = self.scratch / "repo"
        self.run_ok("push", self.scratch / "a", repo)
        self.run_ok("diff", "--exit-code", f"{repo}@main", self.scratch / "a")
        self.run_ok("diff", "--exit-code", self.scratch / "a", f"{repo}@main")
        self.run_ok("diff", f"{repo}@main", self.scratch / "a", "-o", self.scratch / "delta")
        for output in ("objects/x", "commits/y", "z"):
            self.run_fails(2, "diff", f"{repo}@main", self.scratch / "a", "-o", repo / output, says="lies in a repository")
            self.run_fails(2, "apply", f"{repo}@main", self.scratch / "delta", "-o", repo / output, says="lies in a repository")
        self.run_ok("verify", repo)

    def test_files_of_a_base_that_no_delta_needs(self):
        for step in "ab":
            self.write_weights(f"{step}/m.safetensors", self.some_weights())
        self.run_ok("diff", self.scratch / "a/m.safetensors", self.scratch / "b/m.safetensors", "-o", self.scratch / "delta")
        for i in range(60):
            self.write(f"a/side-{i}", "x")
        self.run_ok("apply", self.scratch / "a", self.scratch / "delta", "-o", self.scratch / "out",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        self.assert_same_file(self.scratch / "out", self.scratch / "b/m.safetensors")

    def test_what_fails_in_a_directory_is_named_as_it_was_going_to_be(self):
        for step in "ab":
            self.write_weights(f"{step}/sub/m.safetensors", self.some_weights(1, 30_000))
        old, new, delta, out = (self.scratch / name for name in ("a", "b", "delta", "out"))
        self.diff(old, new, delta)

        def limited(*words, output):
            done = self.run_fails(3, *words, "-o", output, absent=output, says=f"{output}/",
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)))
            self.assertIn("sub/m.safetensors", done.err)
            self.assertNotIn(".wdelta-", done.err)

        limited("diff", old, new, output=self.scratch / "again")
        limited("apply", old, delta, output=out)

    def test_a_base_that_is_damaged_anywhere_is_not_the_base(self):
        tensors = self.some_weights(2, 3000)
        for step, content in (("a", tensors), ("b", self.moved(tensors))):
            self.write_weights(f"{step}/m.safetensors", content)
        old, new, out = self.scratch / "a/m.safetensors", self.scratch / "b/m.safetensors", self.scratch / "out"
        alone = self.diff(old, new, self.scratch / "delta")
        whole = self.diff(self.scratch / "a", self.scratch / "b", self.scratch / "deltas")
        content = old.read_bytes()
        header = range(8 + int.from_bytes(content[:8], "little"))
        for at in [*header[:8], *self.random.sample(header, 60), *self.random.sample(range(len(content)), 20)]:
            old.write_bytes(content[:at] + bytes([content[at] ^ self.random.randrange(1, 256)]) + content[at + 1:])
            base, delta = self.random.choice(((old, alone), (old.parent, whole)))
            self.run_fails(6, "apply", base, delta, "-o", out, says="m.safetensors", absent=out)

    def test_names_in_brackets_are_names(self):
        old, new = (self.write_weights(f"{name}.safetensors", self.some_weights(1)) for name in "ab")
        delta = self.scratch / "[x,y]"
        self.run_ok("diff", old, new, "-o", delta)
        for before in ((), ("-q",), ("-qj", "2"), ("-j2", "--color=never"), ("--color", "never", "--threads", "2")):
            with self.subTest(before):
                self.run_ok(*before, "apply", old, "[x,y]", "-o", self.scratch / "out", cwd=self.scratch)
                self.assert_same_file(self.scratch / "out", new)
                (self.scratch / "out").unlink()
        self.run_ok("push", "-m", "[x,y]", old.rename(self.scratch / "apply"), "repo", cwd=self.scratch)
        self.assertIn("    [x,y]\n", self.run_ok("show", "repo", cwd=self.scratch))

    def test_deltas_of_a_directory_that_are_not_what_its_list_says(self):
        for step in "ab":
            for shard in range(2):
                self.write_weights(f"{step}/{shard}.safetensors", self.some_weights(1, 9000))
        a, b, delta = self.scratch / "a", self.scratch / "b", self.scratch / "delta"
        self.run_ok("diff", "--encoding", "sparse", a, b, "-o", delta)
        files = [delta / "files" / f"{shard}.safetensors" for shard in range(2)]
        sound = [path.read_bytes() for path in files]
        files[0].write_bytes(sound[1])
        files[1].unlink()
        done = self.run_fails(5, "verify", delta, says="2 of 2 are wrong")
        for path in files:
            self.assertIn(str(path), done.out)
        files[0].write_bytes(sound[0])
        files[1].write_bytes(sound[1])
        self.run_ok("verify", delta)
        # Nothing differs, and what copied it left out folders with nothing in them.
        self.run_ok("diff", a, a, "-o", self.scratch / "same")
        (self.scratch / "same/files").rmdir()
        self.run_ok("verify", self.scratch / "same")
        self.run_ok("apply", a, self.scratch / "same", "-o", self.scratch / "again")
        self.run_fails(4, "apply", a, b, "-o", self.scratch / "no", says="is no delta")

    def test_every_encoding(self):
        old = self.write_weights("old.safetensors", tensors := self.some_weights(elements=70000))
        new = self.write_weights("new.safetensors", self.moved(tensors))
        sizes = {}
        for encoding in ("auto", "classed", "sparse", "dense", "whole", "afresh"):
            delta = self.diff(old, new, self.scratch / encoding, "--encoding", encoding)
            self.run_ok("apply", old, delta, "-o", self.scratch / "out")
            self.assert_same_file(self.scratch / "out", new)
            sizes[encoding] = delta.stat().st_size
        # What pays in classes is not tried as sparse: a step that is a power of two, as here, would take less there.
        self.assertEqual(sizes["auto"], min(sizes[other] for other in sizes if other != "sparse"))
        self.assertLess(sizes["auto"], 1.2 * sizes["sparse"])
        self.run_fails_usage("diff", old, new, "--encoding", "smart")

    def run_fails_usage(self, *words):
        done = self.run_any(*words)
        self.assertEqual(done.code, 2, self.told(done))
        self.assertTrue(done.err.startswith("wdelta: "), self.told(done))

    def test_inputs_are_not_overwritten(self):
        a, b = self.make_run("run", "--size", "1M", "--single", "--steps", 2)
        (old,), (new,) = a.glob("*.safetensors"), b.glob("*.safetensors")
        before = testing.describe(self.scratch / "run")
        (link := self.scratch / "link").symlink_to(a)
        for base, result, output in ((old, new, old), (old, new, new), (a, b, a), (a, b, b),
                                     (old, new, os.path.relpath(new)), (a, b, a / "delta"), (a, b, b / "sub" / "delta"),
                                     (a, b, link / "delta"), (link, b, os.path.relpath(a / "delta"))):
            self.run_fails(2, "diff", base, result, "-o", output, says="is one of the two checkpoints, or lies in it")
        self.write("full/file", "x")
        self.run_fails(3, "diff", a, b, "-o", self.scratch / "full", says="full")
        delta = self.diff(a, b, self.scratch / "delta")
        self.run_fails(3, "apply", a, delta, "-o", self.scratch / "full", says="full")
        for output in (a, a / "out", link / "out", delta, delta / "out"):
            self.run_fails(2, "apply", a, delta, "-o", output, says="lies in it")
        self.diff(old, new, a.parent / "beside.delta").unlink()
        self.assertEqual((self.scratch / "full" / "file").read_text(), "x")
        self.assertEqual(testing.describe(self.scratch / "run"), before)
        delta = self.diff(old, new, self.scratch / "file.delta")
        content = delta.read_bytes()
        self.run_fails(2, "apply", old, delta, "-o", delta)
        self.assertEqual(delta.read_bytes(), content)

    def test_nothing_but_files_is_replaced(self):
        old = self.write_weights("old.safetensors", tensors := self.some_weights())
        new = self.write_weights("new.safetensors", self.moved(tensors))
        delta = self.diff(old, new, self.scratch / "delta")
        pipe, link, dangling, folder = (self.scratch / name for name in ("pipe", "link", "dangling", "folder"))
        os.mkfifo(pipe)
        link.symlink_to(pipe)
        folder.mkdir()
        for output in (pipe, link, "/dev/null"):
            before = os.lstat(output)
            for words in (("diff", old, new), ("apply", old, delta)):
                self.run_fails(3, *words, "-o", output, says="not a regular file")
            self.assertTrue(os.path.samestat(os.lstat(output), before))
        # What leads to a file that is open, as /dev/stdout does, though that is a regular one.
        (self.scratch / "stdout").symlink_to("/proc/self/fd/1")
        (self.scratch / "to-stdout").symlink_to("stdout")
        for output in (self.scratch / "stdout", self.scratch / "to-stdout", "/proc/self/fd/1", "/dev/fd/1"):
            for words in (("diff", old, new), ("apply", old, delta)):
                with open(self.scratch / "redirected", "wb") as redirected:
                    done = subprocess.run(self.command(*words, "-o", output), stdout=redirected, stderr=subprocess.PIPE,
                                          env=self.environment(), text=True, check=False)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("open", done.stderr)
        self.assertTrue((self.scratch / "stdout").is_symlink())
        for words in (("diff", old, new), ("apply", old, delta)):
            for output in (folder, f"{folder}/", "."):
                self.run_fails(3, *words, "-o", output, says="is a directory", cwd=self.scratch)
            self.run_fails(2, *words, "-o", "-", says="stdout", absent=self.scratch / "-", cwd=self.scratch)
            self.run_ok(*words, "-o", "./-", cwd=self.scratch)
            (self.scratch / "-").unlink()
        # A symlink is replaced itself.
        kept = self.write("kept", b"kept")
        for target in (kept, self.scratch / "nowhere"):
            dangling.symlink_to(target)
            self.run_ok("apply", old, delta, "-o", dangling)
            self.assertFalse(dangling.is_symlink())
            self.assert_same_file(dangling, new)
            dangling.unlink()
        self.assertEqual(kept.read_bytes(), b"kept")

    def test_files_and_directories(self):
        old = self.write_weights("old.safetensors", tensors := self.some_weights())
        new = self.write_weights("sub/new.safetensors", self.moved(tensors))
        delta = self.scratch / "delta"
        for extra in ([], ["-o", delta]):
            self.run_fails(2, "diff", old, new.parent, *extra, says="is a file", absent=delta)
        self.diff(new.parent, old, delta)
        self.run_ok("apply", new.parent, delta, "-o", self.scratch / "out")
        self.assert_same_file(self.scratch / "out", old)

    def test_a_base_that_is_not_looked_at_is_refused(self):
        """Kinds of files go by their names, as in a repository: a blob of the Hub's cache has none."""
        new = self.write_weights("new.safetensors", self.some_weights())
        old = self.write("blob", new.read_bytes())
        for extra in ([], ["-o", self.scratch / "delta"]):
            self.run_fails(2, "diff", old, new, *extra, says="blob: is no .safetensors file",
                           absent=self.scratch / "delta")
        self.assertEqual(self.run_any("diff", "--exit-code", new, old).code, 0)

    def test_a_file_of_the_same_bytes_is_the_same(self):
        old = self.write_weights("old.safetensors", self.some_weights())
        new = self.write("new.safetensors", old.read_bytes())
        new.chmod(0o755)
        self.assertEqual(self.run_any("diff", "--exit-code", old, new).code, 0)

    def test_apply_over_its_base(self):
        a, b = self.make_run("run", "--size", "1M", "--single", "--steps", 2)
        (old,), (new,) = a.glob("*.safetensors"), b.glob("*.safetensors")
        delta = self.diff(old, new, self.scratch / "delta")
        self.run_ok("apply", old, delta, "-o", old)
        self.assert_same_file(old, new)
        self.run_fails(6, "apply", old, delta, "-o", old)  # a delta is never applied twice
        self.assert_same_file(old, new)

    def test_wrong_bases_and_orders(self):
        steps = [next(step.glob("*.safetensors"))
                 for step in self.make_run("run", "--size", "1M", "--single", "--steps", 4)]
        deltas, out = self.chain_of(steps), self.scratch / "out"
        self.run_fails(6, "apply", steps[1], deltas[0], "-o", out, absent=out)
        self.run_fails(6, "apply", steps[0], deltas[1], deltas[0], "-o", out, absent=out)
        self.run_fails(6, "apply", steps[0], deltas[0], deltas[2], "-o", out, absent=out)
        self.run_fails(6, "apply", steps[0], deltas[0], deltas[0], "-o", out, absent=out)
        # Each is of the one right before it, not of any before it: nothing is applied twice or left out.
        around = self.diff(steps[1], steps[3], self.scratch / "around.delta")
        for last in ([deltas[1]], [deltas[2], deltas[1]], [deltas[2], deltas[2]], [deltas[0]], [around]):
            self.run_fails(6, "apply", steps[0], *deltas[:2], *last, "-o", out, absent=out, says="in order")
        # One that takes nothing from its base has no order.
        short = self.write_weights("short.safetensors", self.some_weights())
        anew = self.diff(short, steps[2], self.scratch / "anew.delta")
        self.run_ok("apply", steps[0], deltas[0], anew, deltas[2], "-o", out)
        self.assert_same_file(out, steps[3])
        os.remove(out)
        self.run_fails(6, "apply", short, deltas[0], "-o", out, absent=out)
        damaged = bytearray(deltas[0].read_bytes())
        damaged[-1] ^= 1
        self.run_fails(5, "apply", steps[0], self.write("damaged", damaged), "-o", out, absent=out, says="damaged")
        self.run_fails(5, "apply", steps[0], steps[1], "-o", out, absent=out)  # weights are no delta

    def test_wrong_bases_and_orders_of_directories(self):
        steps = self.make_run("run", "--size", "1M", "--shards", 2, "--steps", 4)
        deltas, out = self.chain_of(steps), self.scratch / "out"
        self.run_fails(6, "apply", steps[1], deltas[0], "-o", out, absent=out)
        self.run_fails(6, "apply", steps[0], deltas[1], deltas[0], "-o", out, absent=out)
        self.run_fails(6, "apply", steps[0], deltas[0], deltas[2], "-o", out, absent=out)
        os.remove(next(steps[0].glob("*-00002-of-*")))
        os.remove(next(steps[0].glob("*.index.json")))
        self.run_fails(6, "apply", steps[0], deltas[0], "-o", out, absent=out)
        self.run_fails(2, "apply", steps[1], deltas[1], next(steps[0].glob("*.safetensors")), "-o", out, absent=out)
        (deltas[1] / "wdelta.json").write_text("{}")
        self.run_fails(5, "apply", steps[1], deltas[1], "-o", out, absent=out)

    def test_missing_inputs(self):
        a, b = self.make_run("run", "--size", "1M", "--single", "--steps", 2)
        delta, none, out = self.diff(a, b, self.scratch / "delta"), self.scratch / "none", self.scratch / "out"
        self.run_fails(4, "diff", none, b, says="none")
        self.run_fails(4, "diff", a, none, "-o", out, absent=out, says="none")
        self.run_fails(4, "apply", none, delta, "-o", out, absent=out, says="none")
        self.run_fails(4, "apply", a, none, "-o", out, absent=out, says="none")
        for words in (["diff"], ["diff", a], ["apply", a, delta], ["apply", a, "-o", out], ["fold", a], []):
            self.assertEqual(self.run_any(*words).code, 2, words)

    def test_revisions_as_checkpoints(self):
        steps, repo = self.make_run("run", "--size", "1M", "--shards", 2, "--steps", 3), self.scratch / "repo"
        for number, step in enumerate(steps, 1):
            self.run_ok("push", step, repo, "--step", number)
        for i, (old, new) in enumerate(((f"{repo}@step:1", steps[2]), (steps[0], f"{repo}@step:3"),
                                        (f"{repo}@main~2", f"{repo}@main"))):
            delta = self.diff(old, new, self.scratch / f"delta-{i}")
            self.run_ok("apply", steps[0], delta, "-o", self.scratch / f"out-{i}")
            self.assert_same_tree(self.scratch / f"out-{i}", steps[2])
            self.run_ok("apply", f"{repo}@step:1", delta, "-o", self.scratch / f"remade-{i}")
            self.assert_same_tree(self.scratch / f"remade-{i}", steps[2])
            self.run_fails(6, "apply", f"{repo}@step:2", delta, "-o", self.scratch / "out", absent=self.scratch / "out")
        self.assertEqual(self.run_any("diff", "--exit-code", f"{repo}@step:2", steps[1]).code, 0)
        self.assertEqual(self.run_any("diff", "--exit-code", "@step:2", steps[1], env={"WDELTA_REPO": str(repo)}).code,
                         0)
        self.run_fails(4, "diff", f"{repo}@step:9", steps[1])
        self.run_fails(4, "diff", f"{self.scratch}/none@main", steps[1])


if __name__ == "__main__":
    testing.main()
