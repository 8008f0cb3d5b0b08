# SPDX-License-Identifier: Apache-2.0
"""The scripts of wdelta-training(7), run as they stand in the page, with stand-ins for the training program."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import testing

PAGE = Path(__file__).parents[2] / "man" / "wdelta-training.7"


def scripts():
    """The scripts of the page by the titles of their sections."""
    found = {}
    for section in re.split(r"^\.Ss ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, body = section.split("\n", 1)
        [script] = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed$", body, flags=re.MULTILINE | re.DOTALL)
        found[title] = script.replace("\\e", "\\")
    return found


class TrainingTest(testing.Case):
    def setUp(self):
        super().setUp()
        self.steps = self.make_run("made", "--size", "1M", "--shards", 2, "--steps", 4)
        self.repo = self.scratch / "repo"
        self.bin = self.scratch / "bin"
        self.write("bin/wdelta", f'#!/bin/sh\nexec "{testing.WDELTA}" "$@"\n', executable=True)

    def script(self, title, **environment):
        """Starts the script of a section in the scratch directory."""
        path = self.write("scripts/" + re.sub(r"\W+", "-", title), scripts()[title], executable=True)
        more = {"REPO": str(self.repo), "PATH": f"{self.bin}:{os.environ['PATH']}", **environment}
        return subprocess.Popen([path], cwd=self.scratch, env=self.environment(**more), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_script(self, title, code=0, **environment):
        process = self.script(title, **environment)
        out, err = process.communicate()
        self.assertEqual(process.returncode, code, f"{title}\n{out}\n{err}")
        return out + err

    def steps_in_log(self, revision=""):
        lines = self.run_ok("log", f"{self.repo}{revision}", "--json").splitlines()
        return [json.loads(line)["step"] for line in lines]

    def push_steps(self, count):
        return [self.run_ok("push", step, self.repo, "--step", i + 1).strip()
                for i, step in enumerate(self.steps[:count])]

    def place_saves(self, count):
        for i, step in enumerate(self.steps[:count]):
            shutil.copytree(step, self.scratch / "run" / f"step-{i + 1}")

    def test_save_loop(self):
        (self.scratch / "run").mkdir()
        self.write("bin/train", f'#!/bin/sh\ncp -r "{self.steps[0].parent}/step-000${{1##*-}}" "$1"\n', executable=True)
        said = self.run_script("Push each save while training goes on", LAST_STEP="4")
        self.assertNotIn("push failed", said)
        self.assertEqual(self.steps_in_log(), [4, 3, 2, 1])
        ids = (self.scratch / "pushed.ids").read_text().split()
        for i, commit in enumerate(ids):
            self.run_ok("pull", f"{self.repo}@{commit}", self.scratch / "out")
            self.assert_same_tree(self.scratch / "out", self.steps[i])
        self.assertEqual(len(ids), 4)

    def test_epilogue(self):
        self.place_saves(3)
        cut = sorted((self.scratch / "run" / "step-3").glob("*.safetensors"))[0]
        title = "Save what a job left, in an epilogue of SLURM"
        self.run_script(title, SLURM_SUBMIT_DIR=str(self.scratch), SLURM_JOB_ID="17")
        self.assertEqual(self.steps_in_log(), [3])
        cut.write_bytes(cut.read_bytes()[:-1])
        # A save that will never be whole is waited for: here not for ten minutes.
        self.write("bin/timeout", '#!/bin/sh\nshift\nexec /usr/bin/timeout 4 "$@"\n', executable=True)
        said = self.run_script(title, SLURM_SUBMIT_DIR=str(self.scratch), SLURM_JOB_ID="18")
        self.assertIn("run/step-3 is not whole", said)
        self.assertEqual(self.steps_in_log(), [2, 3])
        self.assertEqual(json.loads(self.run_ok("show", self.repo, "--json"))["meta"], {"job": "18"})

    def test_pinned_commit(self):
        commit, newer = self.push_steps(2)
        title = "Pull a pinned commit in CI, and prove it"
        self.assertIn(commit, self.run_script(title, COMMIT=commit))
        self.assert_same_tree(self.scratch / "weights", self.steps[0])
        stored = max((path for path in (self.repo / "objects").rglob("*") if path.is_file()),
                     key=lambda path: path.stat().st_size)
        content = bytearray(stored.read_bytes())
        content[len(content) // 2] ^= 1
        stored.write_bytes(content)
        shutil.rmtree(self.scratch / "weights")
        self.run_script(title, 5, COMMIT=newer)

    def test_rollback(self):
        commits = self.push_steps(4)
        self.run_ok("pull", self.repo, self.scratch / "resume")
        self.run_script("Roll a collapsed run back to its last good step", LAST_GOOD_STEP="2")
        self.assert_same_tree(self.scratch / "resume", self.steps[1])
        self.assertEqual(self.steps_in_log(), [2, 1])
        tags = json.loads(self.run_ok("tag", self.repo, "--json"))
        self.assertEqual(list(tags.values()), [commits[3]])
        self.assertEqual(self.steps_in_log("@" + list(tags)[0]), [4, 3, 2, 1])
        # A run may collapse again the same day.
        self.run_ok("push", self.steps[2], self.repo, "--step", 3)
        self.run_script("Roll a collapsed run back to its last good step", LAST_GOOD_STEP="1")
        self.assertEqual(self.steps_in_log(), [1])

    def test_follow_up(self):
        # The run goes on, and ends, while its first commit is evaluated; the last one is evaluated in vain.
        go_on = self.scratch / "go on"
        self.write("bin/evaluate", '#!/bin/sh\necho "$2" >>evaluated\nwhile ! [ -e "go on" ]; do sleep 0.1; done\n'
                                   '[ "$(wc -l <evaluated)" -lt 3 ]\n', executable=True)
        process = self.script("Evaluate every commit of a run as it comes")
        self.addCleanup(process.kill)
        commits = []
        for i, step in enumerate(self.steps[:4]):
            commits.append(self.run_ok("push", step, self.repo, "--step", i + 1).strip())
            while not self.evaluated():
                self.assertIsNone(process.poll())
        self.run_ok("squash", self.repo, f"{commits[0]}..{commits[2]}")
        self.run_ok("gc", self.repo, "--grace", "0d")
        self.write("run/finished", "")
        go_on.touch()
        _, said = process.communicate()
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(self.evaluated(), [commits[0], *commits[2:]])
        self.assertIn(f"{commits[1]}: is gone", said)
        self.assertIn(f"{commits[3]}: failed", said)
        self.assert_same_tree(self.scratch / "latest", self.steps[3])

    def evaluated(self):
        path = self.scratch / "evaluated"
        return path.read_text().split() if path.exists() else []


if __name__ == "__main__":
    testing.main()
