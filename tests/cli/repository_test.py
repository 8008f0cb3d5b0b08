# SPDX-License-Identifier: Apache-2.0
"""push, log, show, tag and pull: whatever was pushed comes back bit for bit, in any order; nothing else is touched."""

import json
import os
import resource
import shutil
import subprocess

import testing


class RepositoryTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.repo = self.scratch / "repo"

    def push(self, checkpoint, *options, **more):
        out = self.run_ok("push", checkpoint, self.repo, *options, **more)
        self.assertRegex(out, r"\A[0-9a-f]{64}\n\Z")
        self.assert_no_leftovers()
        return out.strip()

    def push_chain(self, *options):
        self.steps = self.make_run("run", "--size", "1M", *options)
        self.ids = [self.push(step, "--step", 10 * i, "-m", f"step {i}") for i, step in enumerate(self.steps, 1)]

    def show(self, revision=""):
        return json.loads(self.run_ok("show", f"{self.repo}{revision}", "--json"))

    def log(self, revision="", *options):
        return [json.loads(line) for line in self.run_ok("log", f"{self.repo}{revision}", "--json",
                                                         *options).splitlines()]

    def pull(self, revision, directory, *options):
        self.run_ok("pull", f"{self.repo}{revision}", directory, *options)
        self.assert_no_leftovers()
        self.run_ok("verify", directory, f"{self.repo}{revision}")

    def test_every_step_comes_back_in_any_order(self):
        self.push_chain("--shards", 3, "--steps", 4)
        self.run_ok("verify", self.repo)
        for i, step in enumerate(self.steps):
            self.pull(f"@{self.ids[i]}", self.scratch / f"fresh-{i}")
            self.assert_same_tree(self.scratch / f"fresh-{i}", step)
            self.run_ok("verify", f"{self.repo}@{self.ids[i]}")
        for i in (3, 0, 2, 1, 1, 3, 2, 0):
            self.pull(f"@{self.ids[i]}", self.scratch / "one")
            self.assert_same_tree(self.scratch / "one", self.steps[i])
            wrong = self.run_fails(10, "verify", self.scratch / "one", f"{self.repo}@{self.ids[i - 1]}")
            self.assertRegex(wrong.out, r"model-0000\d-of-\d{5}.safetensors: differs.*\n  tensors that differ: model\.")

    def test_a_commit_that_is_pushed_again_is_not_stored_again(self):
        weights = self.some_weights(2, 300_000)
        for step, dtype in enumerate(("BF16", "F32", "BF16")):
            # In between nothing of it is left, and the parent's book knows nothing of the first.
            tensors = weights if dtype == "BF16" else self.some_weights(2, 300_000, dtype)
            self.write_weights(f"{step}/model.safetensors", tensors)
        for step in range(2):
            self.run_ok("push", self.scratch / str(step), self.repo, "--step", step)
        report = json.loads(self.run_ok("push", f"{self.repo}@step:0", self.repo, "--step", 2, "--json"))
        self.assertEqual(report["stored_bytes"], 0, report)
        self.run_ok("squash", self.repo, "step:0..step:2")
        self.run_ok("gc", self.repo, "--grace", "0d")
        self.run_ok("verify", "--deep", self.repo)
        self.run_ok("pull", self.repo, self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.scratch / "2")
        # A copy elsewhere has what it needs.
        self.run_ok("push", f"{self.repo}@main", self.scratch / "other")
        self.run_ok("verify", "--deep", self.scratch / "other")

    def test_small_files_alone_are_not_looked_for(self):
        for i in range(2):
            self.write("side/config.json", b"%d" % i)
            done = self.run_any("push", self.scratch / "side", self.repo, "--json")
            self.assertEqual((done.code, done.err), (0, ""))
            self.assertFalse(json.loads(done.out)["compared_with_repository"])

    def test_what_a_loader_would_pick_up_was_looked_at(self):
        self.write("one/config.json", "{}")
        self.run_ok("push", self.scratch / "one", self.repo)
        for name in "ab":
            self.write(f"one/{name}.safetensors", "")
        told = self.run_fails(10, "verify", self.scratch / "one", self.repo, "--json")
        told = json.loads(told.out)
        self.assertEqual((told["checked"], len(told["findings"])), (3, 2))

    def test_file_url(self):
        self.push_chain("--single", "--steps", 2)
        self.run_ok("pull", f"file://{self.repo}@step:10", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", self.steps[0])
        self.run_ok("log", f"file://{self.repo}")
        spaced = self.scratch / "100% mine@home"
        self.run_ok("push", self.steps[0], spaced)
        self.run_ok("log", f"{spaced.as_uri()}@main")
        self.run_ok("push", self.steps[1], spaced.as_uri())
        self.assertEqual(len(self.run_ok("log", spaced).splitlines()), 2)

    def test_log_and_show(self):
        self.push_chain("--single", "--steps", 3)
        log = self.log()
        self.assertEqual([commit["commit"] for commit in log], self.ids[::-1])
        self.assertEqual([commit["step"] for commit in log], [30, 20, 10])
        self.assertEqual([commit["message"] for commit in log], ["step 3", "step 2", "step 1"])
        self.assertEqual([commit["names"] for commit in log], [["main"], [], []])
        self.assertEqual(len(self.log("", "-n", "2")), 2)
        self.assertEqual(len(self.log("@main~1")), 2)
        lines = self.run_ok("log", self.repo).splitlines()
        self.assertEqual([line.split()[0] for line in lines], [id[:12] for id in self.ids[::-1]])
        for i, commit in enumerate(self.ids):
            shown = self.show(f"@{commit}")
            self.assertEqual(shown["parent"], self.ids[i - 1] if i else None)
            expected = {path.name: path.stat().st_size for path in self.steps[i].iterdir()}
            self.assertEqual({file["path"]: file["size"] for file in shown["files"]}, expected)
            self.assertIn(f"commit  {commit}\n", self.run_ok("show", f"{self.repo}@{commit}"))

    def test_every_form_of_a_revision(self):
        self.push_chain("--single", "--steps", 3)
        self.run_ok("tag", self.repo, "v1.0", "step:10")
        self.push(self.steps[0], "-b", "side/line", "--step", 10)
        forms = {"": 2, "@main": 2, "@main~1": 1, "@main~": 1, "@main~~": 0, "@main~1~1": 0, "@step:20": 1,
                 "@step:30~2": 0, "@v1.0": 0, f"@{self.ids[1][:8]}": 1, f"@{self.ids[1]}~": 0, "@main~0": 2}
        for form, i in forms.items():
            self.assertEqual(self.show(form)["commit"], self.ids[i], form)
        self.assertEqual(self.log("@side/line")[0]["names"], ["side/line"])
        self.run_fails(4, "show", f"{self.repo}@main~3")
        for unknown in ("@none", "@step:11", f"@{self.ids[1][:7]}", "@00000000", "@v1.0~1", "@main/x", "@../main",
                        "@side"):
            done = self.run_fails(4, "pull", f"{self.repo}{unknown}", self.scratch / "out", absent=self.scratch / "out")
            self.assertIn(unknown[1:], done.err)
        for wrong in ("@main~x", "@step:x", "@step:"):
            self.run_fails(2, "show", f"{self.repo}{wrong}")

    def test_a_path_with_an_at_sign(self):
        self.repo = self.scratch / "user@host"
        self.push_chain("--single", "--steps", 2)
        self.assertEqual(self.show()["commit"], self.ids[1])
        self.assertEqual(self.show("@step:10")["commit"], self.ids[0])

    def test_tags(self):
        self.push_chain("--single", "--steps", 2)
        self.run_ok("tag", self.repo, "a/b")
        self.run_ok("tag", self.repo, "first", "main~1")
        self.run_ok("tag", self.repo, "first", "main~1")  # what it names already
        tags = json.loads(self.run_ok("tag", self.repo, "--json"))
        self.assertEqual(tags, {"a/b": self.ids[1], "first": self.ids[0]})
        self.assertEqual(self.run_ok("tag", self.repo), f"{self.ids[1][:12]}  a/b\n{self.ids[0][:12]}  first\n")
        self.run_fails(7, "tag", self.repo, "first", "main", says="first")
        self.assertEqual(self.show("@first")["commit"], self.ids[0])
        self.run_ok("tag", self.repo, "first", "main", "--force")
        self.assertEqual(self.show("@first")["commit"], self.ids[1])
        self.assertEqual(sorted(self.log()[0]["names"]), ["main", "tag: a/b", "tag: first"])
        for name in ("a b", "../x", "-x", "/x", "x/", "a//b", ".x", "1" * 16, "x" * 201, "ä", "a@b", "a~b", "step:1"):
            self.run_fails(2, "tag", self.repo, "--", name)
        self.run_fails(7, "push", self.steps[0], self.repo, "--tag", "first")
        # What a script's unset variable makes of them.
        for unset in (["push", self.steps[0], self.repo, "--tag", ""], ["push", self.steps[0], self.repo, "-b", ""],
                      ["push", self.steps[0], self.repo, "--base", "hf://a/b", "--base-copy", ""],
                      ["tag", self.repo, ""], ["tag", self.repo, "", self.ids[0]], ["branch", self.repo, ""], ["verify", self.repo, ""],
                      ["pull", self.repo, ""], ["squash", self.repo, ""]):
            self.run_fails(2, *unset, says="is empty")
        self.assertEqual(self.show()["commit"], self.ids[1])
        self.run_fails(4, "tag", self.repo, "new", "none")
        self.run_ok("verify", self.repo)

    def test_what_is_said_of_a_commit(self):
        step, = self.make_run("run", "--size", "1M", "--single", "--steps", 1)
        message = "größer, \"besser\" \\ 更好\n\nsecond paragraph 🙂"
        commit = self.push(step, "-m", message, "--step", 7, "--tag", "v7",
                           "--meta", "loss=0.5=half", "--meta", "ключ=µ")
        shown = self.show("@v7")
        self.assertEqual((shown["commit"], shown["message"], shown["step"]), (commit, message, 7))
        self.assertEqual(shown["meta"], {"loss": "0.5=half", "ключ": "µ"})
        self.assertEqual(self.log()[0]["message"], message.split("\n")[0])
        for wrong in ("loss", "=x"):
            self.run_fails(2, "push", step, self.repo, "--meta", wrong)
        self.run_fails(2, "push", step, self.scratch / "new", "-m", b"\xff\xfe", absent=self.scratch / "new")
        self.run_fails(2, "push", step, self.repo, "--meta", b"k=\xff")
        self.assertEqual(len(self.log()), 1)

    def test_numbers_that_are_none(self):
        step, = self.make_run("run", "--size", "1M", "--single", "--steps", 1)
        for number in (0, (1 << 64) - 1):
            self.push(step, "--step", number)
            self.assertEqual(self.log("@step:%d" % number)[0]["step"], number)
        for number in ("-1", str(1 << 64), "x", "1.5", ""):
            for words in (["push", step, self.repo, "--step", number], ["log", self.repo, "-n", number]):
                done = self.run_any(*words)
                self.assertEqual(done.code, 2, self.told(done))
        self.assertEqual(len(self.log()), 2)

    def test_a_pulled_directory_is_a_checkpoint(self):
        self.push_chain("--shards", 2, "--steps", 2)
        self.pull("@step:10", self.scratch / "out")
        self.assertEqual(self.run_any("diff", "--exit-code", self.scratch / "out", self.steps[0]).code, 0)
        back = self.push(self.scratch / "out", "--step", 30)
        self.assertEqual(self.show(f"@{back}")["files"][0]["path"], "config.json")
        self.pull("", self.scratch / "again")
        self.assert_same_tree(self.scratch / "again", self.steps[0])
        (self.scratch / "any").touch()  # written with the mode that any other file gets
        modes = {path.stat().st_mode for path in (self.scratch / "again").iterdir() if path.is_file()}
        self.assertEqual(modes, {(self.scratch / "any").stat().st_mode})

    def test_pushing_the_same_again(self):
        step, = self.make_run("run", "--size", "1M", "--shards", 2, "--steps", 1)
        options = ["--step", 1, "--meta", "b=1", "--meta", "a=2"]
        commit = self.push(step, *options)
        (self.repo / "staging").mkdir(exist_ok=True)
        before = testing.describe(self.repo)
        self.assertEqual(self.push(step, *options), commit)
        shutil.copytree(step, self.scratch / "copy")
        self.assertEqual(self.push(self.scratch / "copy", *options, "-m", "another word"), commit)
        self.assertEqual(self.push(step, "--step", 1, "--meta", "a=2", "--meta", "b=1"), commit)
        self.assertEqual(testing.describe(self.repo), before)
        self.assertEqual(self.push(step, *options, "--tag", "late"), commit)
        self.assertEqual(self.show("@late")["commit"], commit)
        self.assertNotEqual(self.push(step, "--step", 2, *options[2:]), commit)
        twice = self.push(step, "--meta", "k=1", "--meta", "k=2")
        self.assertEqual(self.push(step, "--meta", "k=1", "--meta", "k=2"), twice)

    def test_locally_changed_files_are_refused(self):
        self.push_chain("--shards", 2, "--steps", 2)
        out = self.scratch / "out"
        self.pull("@step:10", out)
        weights = next(out.glob("*-00001-of-*"))
        for name in (weights.name, "config.json"):
            content = bytearray((out / name).read_bytes())
            content[-2] ^= 1
            (out / name).write_bytes(content)
        before = testing.describe(out)
        for revision in ("", "@step:10"):
            self.run_fails(3, "pull", f"{self.repo}{revision}", out, says=["config.json", weights.name, "--force"])
            self.assertEqual(testing.describe(out), before)
        self.pull("", out, "--force")
        self.assert_same_tree(out, self.steps[1])

    def test_a_changed_file_with_an_old_stamp_is_noticed(self):
        self.push_chain("--single", "--steps", 2)
        out = self.scratch / "out"
        self.pull("@step:10", out)
        weights, = out.glob("*.safetensors")
        status, content = weights.stat(), bytearray(weights.read_bytes())
        content[-1] ^= 1
        with open(weights, "r+b") as file:
            file.write(content)
        os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.run_fails(3, "pull", self.repo, out, says=weights.name)

    def test_deleted_and_strange_files(self):
        self.push_chain("--shards", 2, "--steps", 2)
        out = self.scratch / "out"
        self.pull("@step:10", out)
        os.remove(next(out.glob("*-00002-of-*")))
        os.remove(out / "config.json")
        self.write("out/notes.txt", "mine")
        self.write("out/sub/notes.txt", "mine")
        self.pull("@step:20", out)
        os.remove(next(out.glob("*-00001-of-*")))
        self.pull("@step:20", out)
        self.assertEqual(((out / "notes.txt").read_text(), (out / "sub/notes.txt").read_text()), ("mine", "mine"))
        stray = self.write_weights("out/adapter.safetensors", self.some_weights())
        self.run_fails(3, "pull", f"{self.repo}@step:10", out, says="adapter.safetensors")
        self.assertTrue(stray.exists())
        self.pull("@step:10", out, "--force")
        self.assertFalse(stray.exists())
        os.remove(out / "notes.txt")
        shutil.rmtree(out / "sub")
        self.assert_same_tree(out, self.steps[0])

    def there_and_back(self):
        """Pulls step a, b, a and b into one directory."""
        a, b = self.scratch / "a", self.scratch / "b"
        for step in (a, b):
            self.write_weights(f"{step.name}/model.safetensors", self.some_weights())
        commits = {step: self.push(step) for step in (a, b)}
        for step in (a, b, a, b):
            self.pull(f"@{commits[step]}", self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", step)

    def test_executable_bits_and_directories_that_come_and_go(self):
        self.write("a/gone/with/it", "x")
        self.write("a/gone/on its own", "x")
        self.write("b/gone/but/not it", "x")
        self.write("b/weights/more.safetensors", (self.write_weights("more", self.some_weights())).read_bytes())
        self.write("a/run", "#!/bin/sh", executable=True)
        self.write("b/run", "#!/bin/sh")
        self.there_and_back()

    def test_a_file_that_becomes_a_directory_and_one_again(self):
        self.write("a/both", "a file")
        self.write("b/both/deeper/file", "in a directory of that name")
        self.there_and_back()

    def test_a_directory_that_becomes_a_file_and_one_again(self):
        self.write("a/both/deeper/file", "in a directory of that name")
        self.write("b/both", "a file")
        self.there_and_back()

    def test_single_file_and_another_name(self):
        tensors = self.some_weights(elements=20000)
        one = self.write_weights("step-1.safetensors", tensors)
        first = self.push(one)
        again = json.loads(self.run_ok("push", one, self.repo, "--json"))
        self.assertEqual((again["commit"], again["parent"], again["created"]), (first, None, False))
        two = self.write_weights("step-2.safetensors", self.moved(tensors, 0.001))
        report = json.loads(self.run_ok("push", two, self.repo, "--json"))
        self.assertEqual(report["parent"], first)
        self.assertLess(report["stored_bytes"], two.stat().st_size / 20)
        again = json.loads(self.run_ok("push", two, self.repo, "--json"))
        self.assertEqual((again["commit"], again["parent"], again["created"]), (report["commit"], first, False))
        self.pull("", self.scratch / "out")
        self.assert_same_file(self.scratch / "out" / "step-2.safetensors", two)
        self.assertEqual({path.name for path in (self.scratch / "out").iterdir()}, {".wdelta", two.name})
        self.pull(f"@{first}", self.scratch / "out")
        self.assertEqual({path.name for path in (self.scratch / "out").iterdir()}, {".wdelta", one.name})
        self.assert_same_file(self.scratch / "out" / one.name, one)

    def test_what_is_no_repository(self):
        step, = self.make_run("run", "--size", "1M", "--single", "--steps", 1)
        none = self.scratch / "none"
        for words in (["log", none], ["show", none], ["verify", none], ["tag", none],
                      ["pull", none, self.scratch / "out"]):
            self.run_fails(4, *words, says="none", absent=none)
        self.write("full/file", "x")
        self.run_fails(2, "push", step, self.scratch / "full", says="full")
        self.assertEqual(os.listdir(self.scratch / "full"), ["file"])
        self.run_fails(4, "log", self.scratch / "full")
        self.run_fails(4, "push", none, self.repo, absent=self.repo)
        for scheme in ("ftp://host/x", "nothing://x"):
            self.assertIn(self.run_any("log", scheme).code, (2, 9))
        self.run_fails(2, "push", step, self.repo, "-b", "a b", absent=self.repo / "branches")
        before = testing.describe(step)
        self.assertIn(self.run_any("push", step, step / "config.json").code, (2, 3))
        self.assertEqual(testing.describe(step), before)
        self.run_fails(4, "pull", self.scratch / "full" / "file" / "repo", self.scratch / "out",
                       absent=self.scratch / "out")

    def peak_kib(self, *words):
        if testing.is_sanitized():
            self.skipTest("memory is another's")
        child = subprocess.Popen(self.command(*words), env=self.environment())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        return usage.ru_maxrss  # or what this process had when it began, if that is more

    def test_a_commit_of_more_shards_than_files_can_be_open(self):
        for step in range(2):
            for shard in range(40):
                self.write_weights(f"{step}/{shard}.safetensors", [
                    ("w", "U8", [1 << 20], self.random.randbytes(4) * ((1 << 18) - 1) + bytes([step] * 4))])
            self.run_ok("push", self.scratch / str(step), self.repo, "--step", step)
        for words in (["verify", "--deep", self.repo], ["verify", f"{self.repo}@step:1"],
                      ["verify", f"{self.repo}@step:0"], ["pull", f"{self.repo}@step:1", self.scratch / "out"],
                      ["push", f"{self.repo}@step:1", self.scratch / "other"]):
            self.run_ok(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))

    def test_many_files_of_long_chains_take_the_memory_of_few(self):
        def peak_kib(files):
            repo = self.scratch / f"repo-{files}"
            for step in self.make_run(f"run-{files}", "--size", f"{files}M", "--shards", files, "--steps", 16):
                self.run_ok("push", "-q", step, repo, "--anchor", "never")
            return self.peak_kib("verify", "-q", "-j2", f"{repo}@main")

        few, many = peak_kib(4), peak_kib(40)
        self.assertLess(many, 1.5 * few)

    def test_many_tensors_through_a_long_chain_take_the_memory_of_a_short_one(self):
        tensors = self.some_weights(3000, 20)
        for _ in range(50):
            self.write_weights("step/model.safetensors", tensors)
            tensors = self.moved(tensors)
            self.run_ok("push", "-q", self.scratch / "step", self.repo, "--anchor", "never")
        short, long = (self.peak_kib("pull", "-q", "-j2", f"{self.repo}@{revision}", self.scratch / revision)
                       for revision in ("main~45", "main"))
        self.assertLess(long, 3 * short)

    def test_many_files_of_which_one_is_compared_take_the_memory_of_few(self):
        def peak_kib(files):
            shards = [self.some_weights(2, 1000) for _ in range(files)]
            for _ in range(3):  # the files of the second commit and on are rebuilt
                for number, tensors in enumerate(shards):
                    self.write_weights(f"run-{files}/model-{number:05}.safetensors", tensors)
                self.run_ok("push", "-q", self.scratch / f"run-{files}", self.scratch / f"repo-{files}")
                shards = [self.moved(tensors) for tensors in shards]
            one = self.write_weights(f"one-{files}/model-00000.safetensors", shards[0]).parent
            return self.peak_kib("diff", "-q", f"{self.scratch / f'repo-{files}'}@main", one)

        few, many = peak_kib(20), peak_kib(300)
        self.assertLess(many, 2 * few)


if __name__ == "__main__":
    testing.main()
