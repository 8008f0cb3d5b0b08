# SPDX-License-Identifier: Apache-2.0
"""A model of the Hub as the first commit of a repository: copied by the Hub without its bytes going through here, or
only referred to; what is recorded stays the same when the model moves on, and what is lost with it is found, said, and
restored from a copy."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import testing
from hub_test import READ_TOKEN, REPO, STRANGER_TOKEN, WRITE_TOKEN, HubCase, Unreachable, client_environment
from s3_emulator import S3

FIRST, SECOND = "1" * 40, "2" * 40
MODEL = "hf://org/model"


class BaseCase(HubCase):
    def setUp(self):
        super().setUp()
        self.make_repository()
        self.tensors = self.some_weights(2, 600_000)
        self.write_weights("base/model-1.safetensors", self.tensors[:1])
        self.write_weights("base/model-2.safetensors", self.tensors[1:])
        self.write("base/config.json", '{"model": 1}')
        self.write("base/tokenizer.json", self.random.randbytes(70_000))  # git's, too large for a manifest
        self.write("base/deep/notes.md", "read me")
        self.write("base/empty.txt", "")
        self.base = self.scratch / "base"
        self.publish(FIRST)
        tuned = self.moved(self.tensors)
        self.write_weights("tuned/model-1.safetensors", tuned[:1])
        self.write_weights("tuned/model-2.safetensors", tuned[1:])
        shutil.copy(self.base / "tokenizer.json", self.scratch / "tuned/tokenizer.json")
        self.write("tuned/config.json", '{"model": 2}')
        self.tuned = self.scratch / "tuned"
        self.hub.log.clear()

    def publish(self, commit, **more):
        files = {str(path.relative_to(self.base)): path.read_bytes() for path in self.base.rglob("*") if path.is_file()}
        return self.hub.add_model("org/model", commit, files, **more)

    def download(self):
        """As the Hub's own client leaves the model behind: links to files named by their etags."""
        cache = self.scratch / "hf/hub/models--org--model"
        for path in self.base.rglob("*"):
            if path.is_file():
                link = cache / "snapshots" / FIRST / path.relative_to(self.base)
                link.parent.mkdir(parents=True, exist_ok=True)
                blob = cache / "blobs" / testing.file_digest(path)
                blob.parent.mkdir(exist_ok=True)
                shutil.copy(path, blob)
                link.symlink_to(blob)

    def environment(self, **more):
        return super().environment(**{"HF_HOME": str(self.scratch / "hf"), **more})

    def weights_bytes(self):
        return sum(path.stat().st_size for path in self.base.glob("*.safetensors"))

    def moved_bytes(self):
        """(what clients sent, what they were sent)"""
        return (sum(entry["received_bytes"] for entry in self.hub.log.requests),
                sum(entry["sent_bytes"] for entry in self.hub.log.requests))

    def elsewhere(self):
        """Another machine: no state, no cache."""
        return {"env": {"WDELTA_STATE_DIR": str(self.scratch / "state-2"), "HF_HOME": str(self.scratch / "hf-2"),
                        "WDELTA_CACHE_DIR": str(self.scratch / "cache-2")}}

    def assert_pulls(self, location, expected):
        shutil.rmtree(self.scratch / "out", ignore_errors=True)
        self.run_ok("pull", location, self.scratch / "out", **self.elsewhere())
        self.assert_same_tree(self.scratch / "out", expected)

    def book(self, repository):
        """The books of a repository in a directory, oldest commit first."""
        return [json.loads(path.read_text()) for path in sorted((repository / "recipes").rglob("*.json"))]


class CopyTest(BaseCase):
    def test_a_base_that_is_here_moves_no_bytes(self):
        self.download()
        pushed = self.run_any("push", self.tuned, REPO, "--base", MODEL, "--step", 1)
        self.assertEqual(pushed.code, 0, self.told(pushed))
        self.assertIn("copied by the Hub", pushed.err)
        sent, received = self.moved_bytes()
        self.assertLess(sent, self.weights_bytes() // 3)
        self.assertLess(received, 60_000)
        log = [json.loads(line) for line in self.run_ok("log", REPO, "--json").splitlines()]
        self.assertEqual([entry["message"] for entry in log], ["", f"base {MODEL}@{FIRST}"])
        self.assert_pulls(REPO, self.tuned)
        self.assert_pulls(REPO + "@main~1", self.base)
        self.run_ok("verify", REPO, "--deep")
        for name in ("model-1.safetensors", "model-2.safetensors"):
            digest = self.run_ok("show", REPO + "@main~1", "--json")
            digest = next(file["digest"] for file in json.loads(digest)["files"] if file["path"] == name)
            copied = self.hub.file("tester/run", f"objects/{digest[:2]}/{digest}.safetensors")
            self.assertEqual(copied, (self.base / name).read_bytes())

    def test_a_base_that_is_not_here_is_read_once_and_never_sent(self):
        pushed = self.run_any("push", self.tuned, REPO, "--base", MODEL + "@main", "--json")
        self.assertEqual(pushed.code, 0, self.told(pushed))
        self.assertIn("reading it once from the Hub", pushed.err)
        base = json.loads(pushed.out)["base"]
        self.assertEqual((base["model"], base["revision"], base["files"]), ("org/model", FIRST, 6))
        self.assertEqual((base["copied_bytes"], base["referred_bytes"]), (self.weights_bytes(), 0))
        sent, received = self.moved_bytes()
        self.assertLess(sent, self.weights_bytes() // 3)
        self.assertLess(received, self.weights_bytes() + 300_000)
        self.assert_pulls(REPO, self.tuned)

    def test_a_copy_that_is_not_the_same_is_not_believed(self):
        copy = self.scratch / "copy"
        shutil.copytree(self.base, copy)
        damaged = bytearray((copy / "model-1.safetensors").read_bytes())
        damaged[-1] ^= 1
        (copy / "model-1.safetensors").write_bytes(damaged)
        pushed = self.run_any("push", self.tuned, REPO, "--base", MODEL, "--base-copy", copy, "--json")
        self.assertEqual(pushed.code, 0, self.told(pushed))
        self.assertIn("is not the file of hf://org/model@", pushed.err)
        self.assertEqual(json.loads(pushed.out)["base"]["fetched_bytes"],
                         (self.base / "model-1.safetensors").stat().st_size)
        self.assert_pulls(REPO, self.tuned)
        self.run_ok("verify", REPO, "--deep")

    def test_what_is_left_out_of_the_checkpoint_is_left_out_of_the_base(self):
        self.run_ok("push", self.tuned, REPO, "--base", MODEL, "--exclude", "*.md", "--exclude", "model-2*")
        files = [file["path"] for file in json.loads(self.run_ok("show", REPO + "@main~1", "--json"))["files"]]
        self.assertEqual(files, ["config.json", "empty.txt", "model-1.safetensors", "tokenizer.json"])

    def test_where_nothing_can_be_copied_it_is_said(self):
        self.run_fails(9, "push", self.tuned, self.scratch / "repo", "--base", MODEL,
                       says=["only a bucket of the Hub can", "--reference"])
        self.hub.settings["copies_fail"] = "the model is in another region"
        self.run_fails(9, "push", self.tuned, REPO, "--base", MODEL, says=["in another region", "--reference"])
        self.hub.settings["copies_fail"] = ""
        self.run_ok("push", self.tuned, REPO, "--base", MODEL)
        self.assert_pulls(REPO, self.tuned)

    def test_the_model_moves_on_and_nothing_changes(self):
        first = self.run_ok("push", self.tuned, REPO, "--base", MODEL).strip()
        self.write("base/config.json", '{"model": 3}')
        self.publish(SECOND)
        # The script that pushes each save says --base each time.
        self.write("tuned/config.json", '{"model": 4}')
        second = self.run_ok("push", self.tuned, REPO, "--base", MODEL, "--step", 2).strip()
        self.assertNotEqual(first, second)
        self.run_ok("push", self.tuned, REPO, "--base", f"{MODEL}@{FIRST}", "--step", 3)
        self.run_fails(2, "push", self.tuned, REPO, "--base", f"{MODEL}@{SECOND}", says="begins with another base")
        self.run_fails(2, "push", self.tuned, REPO, "--base", "hf://org/other", says="begins with another base")
        log = [json.loads(line)["message"] for line in self.run_ok("log", REPO, "--json").splitlines()]
        self.assertEqual(log, ["", "", "", f"base {MODEL}@{FIRST}"])
        self.run_ok("push", self.tuned, REPO, "-b", "newer", "--base", MODEL)
        log = [json.loads(line)["message"] for line in self.run_ok("log", REPO + "@newer", "--json").splitlines()]
        self.assertEqual(log, ["", f"base {MODEL}@{SECOND}"])
        self.run_ok("verify", REPO, "--deep")

    def test_a_branch_that_has_begun_cannot_begin_again(self):
        self.run_ok("push", self.tuned, REPO)
        self.hub.log.clear()
        self.run_fails(2, "push", self.tuned, REPO, "--step", 2, "--base", MODEL, says=["has commits already", "-b NAME"])
        self.assertEqual(self.requests("/api/models/"), [])

    def test_the_same_base_is_the_same_commit_for_everybody(self):
        commits = set()
        for name in ("tester/run", "tester/other"):
            repository = f"hf://buckets/{name}"
            self.run_ok("push", self.tuned, repository, "--create", "--base", MODEL)
            commits.add(json.loads(self.run_ok("show", repository + "@main~1", "--json"))["commit"])
        self.assertEqual(len(commits), 1)

    def test_a_push_that_is_killed_leaves_no_branch_and_the_next_one_goes_on(self):
        for place, number in (("GET .*/file/", signal.SIGINT), ("GET .*/file/", signal.SIGKILL),
                              ("POST .*/v1/xorbs", signal.SIGINT), ("POST .*/batch", signal.SIGKILL)):
            with self.subTest(place=place, signal=number):
                self.hub.log.clear()
                self.hub.faults.add(match=place, kind="slow", seconds=1, pause_s=0.05, times=0)
                child = subprocess.Popen(self.command("push", self.tuned, REPO, "--base", MODEL),
                                         env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline and not self.requests(place):
                    time.sleep(0.02)
                time.sleep(0.3)
                child.send_signal(number)
                _, errors = child.communicate()
                self.assertEqual(child.returncode, 130 if number == signal.SIGINT else -number, errors)
                self.hub.faults.clear()
                time.sleep(1.5)  # what was on its way to the Hub arrives
                self.assertFalse([path for path in self.hub.buckets.buckets["tester/run"].history
                                  if path.startswith("branches")])
        self.run_ok("push", self.tuned, REPO, "--base", MODEL)
        self.assert_pulls(REPO, self.tuned)
        self.run_ok("verify", REPO)


class ReferenceTest(BaseCase):
    def setUp(self):
        super().setUp()
        self.repo = self.scratch / "repo"

    def refer(self, repository=None, *options):
        return self.run_ok("push", self.tuned, repository or self.repo, "--base", MODEL, "--reference", *options)

    def test_in_a_directory(self):
        self.download()
        self.refer()
        self.assertEqual(self.requests("GET .*/file/"), [])
        stored = sum(path.stat().st_size for path in (self.repo / "objects").rglob("*") if path.is_file())
        self.assertLess(stored, self.weights_bytes() // 3)
        self.assert_pulls(self.repo, self.tuned)
        self.assert_pulls(f"{self.repo}@main~1", self.base)
        self.run_ok("verify", self.repo, "--deep")
        self.run_ok("verify", self.scratch / "out", f"{self.repo}@main~1", "--json")

    def test_in_a_bucket(self):
        self.refer(REPO)
        self.assertFalse(any("copyFile" in str(entry) for entry in self.hub.log.requests))
        self.assert_pulls(REPO, self.tuned)
        self.assert_pulls(REPO + "@main~1", self.base)
        tuned = self.tensors
        for step in range(3):
            tuned = self.moved(tuned)
            self.write_weights("tuned/model-1.safetensors", tuned[:1])
            self.run_ok("push", self.tuned, REPO, "--step", step)
        self.hub.log.clear()
        self.run_ok("verify", REPO, "--deep")
        # Five commits, each made from the base.
        self.assertLess(sum(entry["sent_bytes"] for entry in self.hub.log.requests if "/file/" in entry["path"]),
                        2 * self.weights_bytes())

    def test_what_the_hubs_own_client_downloaded_is_not_fetched(self):
        self.download()
        self.refer()
        self.hub.log.clear()
        self.run_ok("pull", self.repo, self.scratch / "out", "--offline")
        self.assert_same_tree(self.scratch / "out", self.tuned)
        self.assertEqual(self.requests(), [])
        cached = self.scratch / "hf/hub/models--org--model/snapshots" / FIRST / "model-1.safetensors"
        content = bytearray(cached.read_bytes())
        content[-1] ^= 1
        cached.write_bytes(content)
        pulled = self.run_any("pull", f"{self.repo}@main~1", self.scratch / "other")
        self.assertEqual(pulled.code, 0, self.told(pulled))
        self.assertIn(f"is not {MODEL}@{FIRST}/model-1.safetensors", pulled.err)
        self.assert_same_tree(self.scratch / "other", self.base)
        self.assertEqual(len({request.split("?")[0] for request in self.requests("GET .*/resolve/")}), 1)

    def test_on_s3(self):
        with S3() as s3:
            more = {**self.elsewhere()["env"], **s3.environment()}
            repository = "s3://bucket/runs/me"
            self.run_fails(9, "push", self.tuned, repository, "--base", MODEL, says="--reference", env=more)
            self.run_ok("push", self.tuned, repository, "--base", MODEL, "--reference", env=more)
            for revision, expected in (("main", self.tuned), ("main~1", self.base)):
                shutil.rmtree(self.scratch / "out", ignore_errors=True)
                self.run_ok("pull", f"{repository}@{revision}", self.scratch / "out", env=more)
                self.assert_same_tree(self.scratch / "out", expected)
            self.run_ok("verify", repository, "--deep", env=more)
            self.assertEqual(s3.violations, [])

    def test_what_is_recorded_and_shown(self):
        self.refer()
        for book in self.book(self.repo):
            self.assertEqual(book["version"], 2)
        references = [recipe for recipe in self.book(self.repo)[0]["recipes"] if "model" in recipe]
        for recipe in references:
            self.assertEqual(set(recipe), {"digest", "size", "model", "commit", "path", "etag"})
            self.assertEqual((recipe["model"], recipe["commit"]), ("org/model", FIRST))
        by_path = {recipe["path"]: recipe for recipe in references}
        self.assertEqual(set(by_path), {"model-1.safetensors", "model-2.safetensors", "tokenizer.json"})
        self.assertEqual(by_path["model-1.safetensors"]["etag"], testing.file_digest(self.base / "model-1.safetensors"))
        self.assertIn("hf://org/model@111111111111 and 1 delta", self.run_ok("show", self.repo))
        shown = {file["path"]: file for file in json.loads(self.run_ok("show", self.repo, "--json"))["files"]}
        self.assertEqual(shown["model-1.safetensors"]["references"], [f"{MODEL}@{FIRST}/model-1.safetensors"])
        self.assertEqual(shown["config.json"]["references"], [])
        stats = json.loads(self.run_ok("stats", self.repo, "--json"))
        self.assertEqual(stats["referred_bytes"], sum(recipe["size"] for recipe in references))
        # Nothing was asked of the Hub for that.
        self.hub.log.clear()
        self.run_ok("log", self.repo, "--offline")
        self.run_ok("gc", self.repo, "--grace", "0", "--offline")
        self.assertEqual(self.requests(), [])
        self.assert_pulls(self.repo, self.tuned)

    def test_an_anchor_makes_it_stand_alone(self):
        self.refer()
        self.run_ok("squash", self.repo, "..main~1", "--anchor")
        del self.hub.buckets.models["org/model"]
        self.assert_pulls(f"{self.repo}@main~1", self.base)
        self.assert_pulls(self.repo, self.tuned)
        self.run_ok("verify", self.repo, "--quick")
        self.assertEqual(json.loads(self.run_ok("stats", self.repo, "--json"))["referred_bytes"], 0)

    def test_a_model_that_is_gone_is_said_and_restored(self):
        self.refer()
        self.run_ok("verify", self.repo, "--quick")
        self.assertEqual(len(self.requests("POST .*/paths-info/")), 1)
        del self.hub.buckets.models["org/model"]
        for token in (WRITE_TOKEN, ""):
            self.token = token
            done = self.run_fails(5, "verify", self.repo, "--quick", says=["wrong", "push --repair --base DIR"])
            self.assertIn(f"{MODEL}@{FIRST}/model-1.safetensors: there is no such model", done.out)
        self.run_fails(4, "pull", self.repo, self.scratch / "lost", says=["no such model", "push --repair --base DIR"],
                       **self.elsewhere())
        self.write("empty/nothing", "x")
        done = self.run_fails(4, "push", "--repair", "--base", self.scratch / "empty", self.repo, says="still missing")
        self.assertIn("model-1.safetensors is still missing", done.out)
        done = json.loads(self.run_any("push", "--repair", "--base", self.base, f"{self.repo}@main", "--json").out)
        self.assertEqual(([file["path"] for file in done["restored"]], done["missing"], done["repaired_commits"]),
                         (["model-1.safetensors", "model-2.safetensors", "tokenizer.json"], [], 1))
        self.assert_pulls(self.repo, self.tuned)
        self.assertIn("1 commits can be pulled", self.run_ok("push", "--repair", "--base", self.base, self.repo))
        self.assertIn("nothing is missing", self.run_ok("push", "--repair", "--base", self.base, self.repo))
        self.assert_pulls(f"{self.repo}@main~1", self.base)
        self.run_ok("verify", self.repo, "--deep")
        self.run_ok("verify", self.repo, "--quick")

    def test_a_file_that_is_another_now(self):
        self.refer()
        model = self.hub.buckets.models["org/model"]
        model.files["model-1.safetensors"] = model.files["model-2.safetensors"]
        del model.files["tokenizer.json"]
        done = self.run_fails(5, "verify", self.repo, "--quick")
        self.assertIn(f"model-1.safetensors: is another file: {testing.file_digest(self.base / 'model-2.safetensors')}",
                      done.out)
        self.assertIn("tokenizer.json: is not there any more", done.out)
        self.run_fails(5, "pull", self.repo, self.scratch / "lost", **self.elsewhere())

    def test_bytes_that_are_damaged_on_the_way_are_never_believed(self):
        self.hub.faults.add(match="GET .*/file/", kind="damage", bytes=2000, times=0)
        self.run_fails(5, "push", self.tuned, self.repo, "--base", MODEL, "--reference", says="the Hub lists")
        self.hub.faults.clear()
        self.refer()
        self.hub.faults.add(match="GET .*/file/", kind="damage", bytes=2000, times=0)
        self.run_ok("verify", self.repo)
        self.run_fails(5, "verify", self.repo, "--deep")
        self.run_fails(5, "pull", f"{self.repo}@main~1", self.scratch / "damaged", **self.elsewhere())
        self.assertFalse((self.scratch / "damaged/model-1.safetensors").exists())

    def test_who_may_not(self):
        for revision, says in (("no-such", ["no such revision", "commits/main"]), ("3" * 40, ["no such revision"])):
            self.run_fails(4, "push", self.tuned, self.repo, "--base", f"{MODEL}@{revision}", "--reference", says=says)
        self.run_fails(4, "push", self.tuned, self.repo, "--base", "hf://org/none", "--reference", says="no such model")
        for wrong in ("hf://org", "hf://buckets/org/model", "hf://org/model@", "hf://org/mo del", self.base, "s3://a/b"):
            self.run_fails(2, "push", self.tuned, self.repo, "--base", wrong, "--reference")
        self.refer()
        model = self.hub.buckets.models["org/model"]
        model.gated = True
        for token, says in (("", ["only whom they know", "HF_TOKEN"]),
                            (STRANGER_TOKEN, ["only whom they know", "ask for access"]),
                            ("hf_mistyped", ["does not accept the token of HF_TOKEN"])):
            self.token = token
            self.run_fails(8, "pull", self.repo, self.scratch / "lost", says=says, **self.elsewhere())
        self.token = READ_TOKEN
        model.readers.add("tester")
        self.assert_pulls(self.repo, self.tuned)
        self.run_fails(8, "pull", self.repo, self.scratch / "lost", "--offline", says="offline")
        self.run_fails(8, "verify", self.repo, "--quick", "--offline", says="offline")
        self.token = STRANGER_TOKEN
        model.private = True
        self.run_fails(4, "pull", self.repo, self.scratch / "lost", says="no such model, or the token may not see it",
                       **self.elsewhere())

    def test_a_model_that_was_renamed(self):
        self.refer()
        self.hub.buckets.models["org/renamed"] = self.hub.buckets.models.pop("org/model")
        self.hub.renamed["org/model"] = "org/renamed"
        self.run_ok("verify", self.repo, "--quick")
        self.assert_pulls(self.repo, self.tuned)
        self.run_ok("push", self.tuned, self.scratch / "other", "--base", MODEL, "--reference")
        references = [recipe for recipe in self.book(self.scratch / "other")[0]["recipes"] if "model" in recipe]
        self.assertEqual({recipe["model"] for recipe in references}, {"org/renamed"})


class ClientTest(BaseCase):
    """huggingface_hub downloads the model."""

    def test_what_it_downloaded_is_read_instead_of_the_hub(self):
        try:
            python = client_environment(Path(testing.MAKE_RUN).parent / "clients",
                                        Path(__file__).parents[1] / "services" / "hub_clients.txt")
        except Unreachable as error:
            self.skipTest(f"huggingface_hub cannot be had here: {error}")
        done = subprocess.run([python, "-c", "from huggingface_hub import snapshot_download as get; get('org/model')"],
                              env=self.environment(HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1"),
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        for repository, *options in ((REPO,), (self.scratch / "repo", "--reference")):
            pushed = json.loads(self.run_ok("push", self.tuned, repository, "--base", MODEL, "--json", *options))
            self.assertEqual(pushed["base"]["fetched_bytes"], 0, pushed)
            self.assert_pulls(f"{repository}@main~1", self.base)


class RepairTest(BaseCase):
    def test_an_anchor_that_is_lost(self):
        repo = self.scratch / "repo"
        self.run_ok("push", self.base, repo)
        self.run_ok("push", self.tuned, repo, "--anchor", "never")
        whole = self.run_ok("show", repo, "--json")
        lost = max((repo / "objects").rglob("*.safetensors"), key=lambda path: path.stat().st_size)
        content = lost.read_bytes()
        for spoil in (lost.unlink, lambda: lost.write_bytes(content[:-1])):
            spoil()
            self.run_fails(5, "verify", repo, "--quick", says="push --repair --base DIR")
            self.assertIn("2 commits can be pulled", self.run_ok("push", "--repair", "--base", self.base, repo))
            self.assertEqual(lost.read_bytes(), content)
            self.run_ok("verify", repo, "--deep")
            self.assertEqual(self.run_ok("show", repo, "--json"), whole)

    def test_a_delta_that_is_lost(self):
        repo = self.scratch / "repo"
        self.run_ok("push", self.base, repo)
        before = set((repo / "objects").rglob("*"))
        self.run_ok("push", self.tuned, repo, "--anchor", "never")
        for path in set((repo / "objects").rglob("*")) - before:
            if path.is_file():
                path.unlink()
        self.run_fails(5, "verify", repo, "--quick")
        self.assertIn("1 commits can be pulled", self.run_ok("push", "--repair", "--base", self.tuned, repo))
        self.run_ok("verify", repo, "--deep")
        self.assert_pulls(repo, self.tuned)

    def test_words_that_make_no_sense(self):
        repo = self.scratch / "repo"
        for words, says in ((["--repair", repo], "--base"), ([self.tuned], "REPO is required"),
                            ([self.tuned, repo, "--reference"], "--base")):
            done = self.run_any("push", *words)
            self.assertEqual(done.code, 2, self.told(done))
            self.assertIn(says, done.err)
        self.run_fails(2, "push", "--repair", "--base", self.base, repo, repo, says="one argument too many")
        self.run_fails(2, "push", "--repair", "--base", MODEL, repo, says="is no directory")
        self.run_fails(4, "push", "--repair", "--base", self.base, repo, says="no wdelta repository")
        for words in (["--tag", "v1"], ["-m", "words"], ["-b", "side"], ["--step", "1"], ["--meta", "k=v"], ["--create"],
                      ["--anchor", "now"], ["--compress-anchors"], ["--include", "*"], ["--exclude", "*"],
                      ["--wait-stable", "1"], ["--reference"], ["--base-copy", self.base]):
            done = self.run_any("push", "--repair", "--base", self.base, repo, *words)
            self.assertEqual((done.code, "excludes" in done.err), (2, True), self.told(done))


if __name__ == "__main__":
    testing.main()
