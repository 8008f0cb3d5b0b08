#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training runs that push, and servers that pull, from hosts of their own, all to one repository, and all of them
interrupted, terminated or killed at random: at any moment, or before or after any change of the file system. Nothing
that was reported may be lost, and every commit comes back bit for bit.

usage: soak.py BUILD_FOLDER        SOAK_SECONDS=120 SEED=random HOSTS=3"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "cli"))
import kill_points  # noqa: E402
import safetensors  # noqa: E402
import testing  # noqa: E402

LONGEST_RUN = 0.06  # seconds within which a signal comes; a run of these sizes takes about as long


class Broken(Exception):
    """A law that did not hold."""


def require(holds, what):
    if not holds:
        raise Broken(what)


class Soak:
    def __init__(self, seed):
        self.seed = seed
        self.scratch = Path(tempfile.mkdtemp(prefix="wdelta-soak-"))
        self.repo = self.scratch / "repo"
        self.lock = threading.Lock()
        self.reported = {}  # commit: what is in it
        self.tags = {}
        self.pushed = []  # what any push was given, whatever became of it
        self.counts = Counter()
        self.can_preload = kill_points.library().exists() and not testing.is_sanitized()
        self.has_squash = self.run("help", "squash").returncode == 0
        self.has_deep = "--deep" in self.run("verify", "--help").stdout

    def start(self, *words, host="check", **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("WDELTA", "XDG_"))}
        environment.update(WDELTA_STATE_DIR=str(self.scratch / host / "state"), HOME=str(self.scratch), LC_ALL="C.UTF-8")
        environment.update(more)
        return subprocess.Popen([testing.WDELTA, *map(str, words)], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words, **more):
        child = self.start(*words, **more)
        out, err = child.communicate(timeout=600)
        return subprocess.CompletedProcess(words, child.returncode, out, err)

    def run_ok(self, *words):
        done = self.run(*words)
        require(done.returncode == 0, f"exit {done.returncode} of {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def run_injured(self, rng, host, *words):
        """A run that something happens to; returns it, and the exit codes that this may lead to."""
        injury = rng.choice(["none", "signal", "signal", "kill point" if self.can_preload else "kill"])
        number = rng.choice([signal.SIGKILL, *testing.STOPPED])
        if injury == "kill point":
            at = f"{rng.choice(['before', 'after'])}:{rng.randrange(1, 90)}"
            done = self.run(*words, host=host, **kill_points.environment(self.scratch, at))
            allowed = (0, -signal.SIGKILL)
        elif injury == "none":
            done, allowed = self.run(*words, host=host), (0,)
        else:
            child = self.start(*words, host=host)
            time.sleep(rng.uniform(0, LONGEST_RUN))
            child.send_signal(number)
            out, err = child.communicate(timeout=600)
            done = subprocess.CompletedProcess(words, child.returncode, out, err)
            allowed = (0, -number, testing.STOPPED.get(number, 0))
        with self.lock:
            self.counts[f"{words[0]}: exit {done.returncode}"] += 1
        return done, allowed

    def checked(self, done, allowed, *more):
        require(done.returncode in (*allowed, *more),
                f"exit {done.returncode} of {done.args}: {done.stdout}{done.stderr}")
        return done.returncode == 0


class Trainer:
    """Writes one checkpoint after another and pushes each until it is in the repository."""

    def __init__(self, soak, name, branch, rng):
        self.soak, self.name, self.branch, self.rng = soak, name, branch, rng
        self.step, self.shards = 0, {i: self.new_shard() for i in range(2)}
        self.waiting = None

    def new_shard(self):
        return bytearray(self.rng.randbytes(2 * 40000))

    def write(self):
        rng = self.rng
        self.step += 1
        if rng.random() < 0.2 and len(self.shards) < 4:
            self.shards[max(self.shards) + 1] = self.new_shard()
        elif rng.random() < 0.2 and len(self.shards) > 1:
            del self.shards[rng.choice(list(self.shards))]
        for content in self.shards.values():
            for _ in range(rng.choice([0, 300, 3000])):
                content[rng.randrange(len(content))] ^= 1
        folder = self.soak.scratch / self.name / f"step-{self.step}"
        folder.mkdir(parents=True)
        for i, content in self.shards.items():
            (folder / f"model-{i}.safetensors").write_bytes(
                safetensors.encode([("weight", "BF16", [40000], bytes(content))]))
        index = {"weight_map": {str(i): f"model-{i}.safetensors" for i in self.shards}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        (folder / "config.json").write_text(json.dumps({"of": self.name, "step": self.step}))
        (folder / f"notes-{self.step % 3}").mkdir()
        (folder / f"notes-{self.step % 3}" / "log").write_bytes(rng.randbytes(rng.choice([10, 70000])))
        self.waiting = folder
        with self.soak.lock:
            self.soak.pushed.append(testing.describe(folder))
        old = folder.parent / f"step-{self.step - 3}"
        if rng.random() < 0.8:  # else push has to do without the previous checkpoint
            shutil.rmtree(old, ignore_errors=True)

    def turn(self):
        if self.waiting is None:
            self.write()
        tag = f"{self.name}-{self.step}" if self.rng.random() < 0.2 else None
        words = ["push", self.waiting, self.soak.repo, "-b", self.branch, "--step", self.step]
        words += ["--tag", tag] if tag else []
        words += ["--anchor", "now"] if self.rng.random() < 0.1 else []
        done, allowed = self.soak.run_injured(self.rng, self.name, *words)
        if not self.soak.checked(done, allowed, 7):
            return
        commit = done.stdout.strip()
        with self.soak.lock:
            self.soak.reported[commit] = testing.describe(self.waiting)
            if tag:
                self.soak.tags[tag] = commit
        self.waiting = None


class Server:
    """Pulls one commit or another into one directory."""

    def __init__(self, soak, name, rng):
        self.soak, self.name, self.rng = soak, name, rng
        self.directory = soak.scratch / name / "pulled"

    def turn(self):
        with self.soak.lock:
            commits = list(self.soak.reported)
        if not commits:
            return
        commit = self.rng.choice(commits[-12:])
        done, allowed = self.soak.run_injured(self.rng, self.name, "pull", f"{self.soak.repo}@{commit}", self.directory)
        found = testing.describe(self.directory)
        if self.soak.checked(done, allowed):
            require(found == self.soak.reported[commit], f"{self.directory} is not commit {commit}")
        with self.soak.lock:
            known = list(self.soak.pushed)
        wrong = kill_points.mixture(found, known)
        require(wrong is None, f"{self.directory}: {wrong}")
        if done.returncode in testing.STOPPED.values():
            left = [str(path) for path in self.directory.rglob(".*.wdelta-??????")]
            require(not left, f"exit {done.returncode} left {left}")

    def finish(self):
        """Whatever happened before, the next pull succeeds."""
        with self.soak.lock:
            commits = list(self.soak.reported)
        if commits:
            commit = self.rng.choice(commits)
            self.soak.run_ok("pull", f"{self.soak.repo}@{commit}", self.directory)
            require(testing.describe(self.directory) == self.soak.reported[commit],
                    f"{self.directory} is not commit {commit}")


class Squasher:
    def __init__(self, soak, name, rng):
        self.soak, self.name, self.rng = soak, name, rng

    def turn(self):
        back = self.rng.randrange(2, 10)
        words = ["squash", self.soak.repo, f"main~{back}..main~{self.rng.randrange(back - 1)}"]
        done, allowed = self.soak.run_injured(self.rng, self.name, *words)
        self.soak.checked(done, allowed, 2, 4)  # it was squashed before, or there is less history


def check(soak, branches):
    if not soak.reported:
        return
    soak.run_ok("verify", soak.repo, *(["--deep"] if soak.has_deep else []))
    logged = set()
    for branch in branches:
        done = soak.run("log", f"{soak.repo}@{branch}", "--json")
        require(done.returncode in (0, 4), f"log of {branch}: {done.stderr}")
        logged |= {json.loads(line)["commit"] for line in done.stdout.splitlines()}
    lost = [commit for commit in soak.reported if commit not in logged]
    require(not lost, f"commits that were reported and are lost: {lost}")
    tags = json.loads(soak.run_ok("tag", soak.repo, "--json"))
    require(tags.items() >= soak.tags.items(), f"tags that were reported and are lost: {soak.tags.items() - tags.items()}")


def soak_for(soak, seconds, hosts):
    rng = random.Random(soak.seed)
    actors, branches = [], ["main", "side"]
    for i in range(hosts):
        branch = branches[i // 2 % 2]  # the first two race
        actors.append(Trainer(soak, f"trainer-{i}", branch, random.Random(rng.random())))
        actors.append(Server(soak, f"server-{i}", random.Random(rng.random())))
    if soak.has_squash:
        actors.append(Squasher(soak, "squasher", random.Random(rng.random())))
    end, rounds = time.monotonic() + seconds, 0
    with ThreadPoolExecutor(len(actors)) as threads:
        while time.monotonic() < end:
            for turn in [threads.submit(actor.turn) for actor in actors]:
                turn.result()
            rounds += 1
            if rounds % 50 == 0:
                check(soak, branches)
    for actor in actors:
        if isinstance(actor, Server):
            actor.finish()
    check(soak, branches)
    with ThreadPoolExecutor(4) as threads:  # most of the time they wait for the disk
        list(threads.map(lambda i: pull_all(soak, i, 4), range(4)))
    return rounds


def pull_all(soak, first, stride):
    """Pulls every so many-th commit into one directory and looks at what came."""
    directory = soak.scratch / f"all-{first}"
    for commit, tree in list(soak.reported.items())[first::stride]:
        soak.run_ok("pull", f"{soak.repo}@{commit}", directory)
        require(testing.describe(directory) == tree, f"commit {commit} comes back otherwise")


def main():
    testing.WDELTA = os.path.abspath(f"{sys.argv[1]}/wdelta")
    testing.MAKE_RUN = os.path.abspath(f"{sys.argv[1]}/tests/make-run")
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
    seconds = float(os.environ.get("SOAK_SECONDS", 120))
    print(f"seed {seed}, {seconds:g} seconds", flush=True)
    soak = Soak(seed)
    try:
        rounds = soak_for(soak, seconds, int(os.environ.get("HOSTS", 3)))
    except (Broken, subprocess.TimeoutExpired) as broken:
        sys.exit(f"soak: seed {seed}: {broken}\nwhat is left is in {soak.scratch}")
    for what, count in sorted(soak.counts.items()):
        print(f"{count:6}  {what}")
    print(f"soak: ok: {rounds} rounds, {len(soak.reported)} commits reported, none lost, all pulled bit for bit")
    shutil.rmtree(soak.scratch)


if __name__ == "__main__":
    main()
