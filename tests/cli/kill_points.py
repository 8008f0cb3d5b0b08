# SPDX-License-Identifier: Apache-2.0
"""Runs of the binary under tests/kill_points: which calls change the file system, and what is there when the program
ends at one of them or one of them fails."""

import errno
import os
import shutil
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import testing

ENTRANCES = ("config.json", "model.safetensors.index.json")


class Point(NamedTuple):
    number: int
    call: str
    path: str
    other: str
    error: int

    @property
    def writes(self):
        """Whether it only fills a file that has no name of its own yet."""
        return self.call in ("pwrite", "write", "fallocate", "ftruncate")

    @property
    def syncs(self):
        return self.call in ("fsync", "fdatasync")

    @property
    def removes(self):
        return self.call in ("unlink", "unlinkat", "rmdir", "remove")

    def told(self, below):
        """Call and paths without what is different in each run."""
        paths = [self.path] if self.other == "-" else [self.path, self.other]
        short = " -> ".join(os.path.relpath(path, below) for path in paths)
        short = re.sub(r"\.wdelta-[0-9a-f]{6}", ".wdelta-*", short)
        return f"{self.call} {re.sub(r'[0-9a-f]{32,64}', '#', short)}"


def library():
    return Path(testing.MAKE_RUN).parent / "kill-points.so"


def environment(below, at=None, log=None):
    more = {"LD_PRELOAD": str(library()), "KILL_POINTS_BELOW": os.path.realpath(below)}
    if at is not None:
        more["KILL_POINTS_AT"] = at
    if log is not None:
        more["KILL_POINTS_LOG"] = str(log)
    return more


class Paused:
    """A run that waits before one of its calls until it is told to go on."""

    def __init__(self, case, number, *words, below=None, env=None):
        """The number-th of its calls below a directory, that of the test's files if none is given."""
        self.case, self.words = case, words
        self.gate = Path(tempfile.mkdtemp(dir=case.scratch, prefix="gate-")) / "gate"
        self.child = start(case, *words, env={**(env or {}), **environment(below or case.scratch, f"wait:{number}"),
                                              "KILL_POINTS_GATE": str(self.gate)})
        while not Path(f"{self.gate}.reached").exists() and self.child.poll() is None:
            time.sleep(0.001)

    def go_on(self):
        self.gate.touch()
        return ended(self.child, self.words)


def paused_at(case, repo, at, *words, env=None):
    """A run that waits before the first of its calls in `repo` that at() describes: found out on a copy. Skips the test
    where the binary cannot be run so."""
    require(case)
    with tempfile.TemporaryDirectory(dir=case.scratch) as folder:
        copy, log = Path(folder) / "copy", Path(folder) / "calls"
        shutil.copytree(repo, copy, copy_function=shutil.copy2)
        case.run_any(*(copy if word == repo else word for word in words),
                     env={**(env or {}), "WDELTA_STATE_DIR": folder + "/state", **environment(copy, log=log)})
        number = next(call.number for call in read_log(log) if at(call))
    return Paused(case, number, *words, below=repo, env=env)


def start(case, *words, env=None):
    return subprocess.Popen(case.command(*words), env=case.environment(**(env or {})), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(child, words, told=""):
    out, err = child.communicate(timeout=120)
    return testing.Run(words, child.returncode, out, told + err)


def read_log(log):
    points = []
    for line in Path(log).read_text().splitlines():
        number, call, path, other, error = line.split("\t")
        points.append(Point(int(number), call, path, other, int(error)))
    return sorted(points)


def require(case):
    """Skips the test where the binary cannot be run so."""
    testing.require_preloadable(case, library())
    probe, log = case.write_weights("probe.safetensors", []), case.scratch / "probe.log"
    case.run_ok("diff", probe, probe, "-o", case.scratch / "probe.delta", env=environment(case.scratch, log=log))
    case.assertTrue(log.exists(), "kill-points.so does not see the calls of the binary")


def error_for(point):
    """How this call fails in real life: a full disk stays full, a broken one has a bad spot."""
    if point.writes or point.call in ("open", "creat", "mkdir", "mkdirat", "symlink", "symlinkat"):
        return f"from:{point.number}:{errno.ENOSPC}"
    return f"fail:{point.number}:{errno.EIO}"


def weights_of(tree):
    return {path: what for path, what in tree.items() if path.endswith(".safetensors")}


def mixture(found, trees):
    """What a loader that starts now would be wrong about; None where it finds one commit or does not start."""
    entrances = {path: what for path, what in found.items() if path in ENTRANCES}
    if not entrances:
        return None
    for tree in trees:
        if weights_of(found) == weights_of(tree) and all(tree.get(path) == what for path, what in entrances.items()):
            return None
    return f"{sorted(entrances)} beside {sorted(weights_of(found))} of no one commit"


def main():
    if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"  # thousands of syncs, of which only the order matters
    testing.main()
