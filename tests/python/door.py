# SPDX-License-Identifier: Apache-2.0
"""What the tests of lib/python/wdelta.py share: the module over the library that is tested, a repository for each test,
and its commits as the program has them, for the program and the library must agree."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "lib" / "python"), str(ROOT / "tests" / "services")]

import wdelta  # noqa: E402  (found only now)

PROGRAM = None


def _reader():
    """tests/cli/safetensors.py, under a name that leaves the package of that name alone."""
    import importlib.util
    spec = importlib.util.spec_from_file_location("wdelta_safetensors", ROOT / "tests" / "cli" / "safetensors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


safetensors = _reader()


class Gate:
    """Progress that stops a push where it is until it may go on."""

    def __init__(self):
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, *_):
        self.reached.set()
        if not self.open.wait(60):
            raise AssertionError("nobody opened the gate")


class Case(unittest.TestCase):
    """A test with a directory of its own, gone afterwards, and in it a repository and the state of who pushes."""

    maxDiff = 2000
    longest_run_s = 60

    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="wdelta-test-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.repo = str(self.scratch / "repo")
        self.environment = {"WDELTA_STATE_DIR": str(self.scratch / "state"), "HOME": str(self.scratch),
                            "WDELTA_CACHE_DIR": str(self.scratch / "cache")}

    def push(self, state, **options):
        return wdelta.push(state, self.repo, **{"environment": self.environment, **options})

    def load(self, state, revision=None, **options):
        location = self.repo if revision is None else f"{self.repo}@{revision}"
        return wdelta.load_into(state, location, **{"environment": self.environment, **options})

    def repository(self, **options):
        repository = wdelta.Repository(self.repo, **{"environment": self.environment, **options})
        self.addCleanup(repository.close)
        return repository

    def pusher(self, **options):
        return wdelta.Pusher(self.repo, **{"environment": self.environment, **options})

    def run_program(self, *words):
        done = subprocess.run([PROGRAM, *map(str, words)], env={**os.environ, **self.environment}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def run_lines(self, lines, **environment):
        """Runs lines of Python that import the module, in a process of their own. Those that hang are a failure."""
        return subprocess.run([sys.executable, "-B", "-c", lines], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=self.longest_run_s,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "lib" / "python"),
                                   **{name: str(value) for name, value in environment.items()}})

    def pulled(self, revision="main"):
        """The files of a commit, as the program pulls them."""
        folder = self.scratch / "pulled"
        shutil.rmtree(folder, ignore_errors=True)
        self.run_program("pull", "-q", f"{self.repo}@{revision}", folder)
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
                if path.is_file() and ".wdelta" not in path.parts}

    def pulled_tensors(self, revision="main", file="model.safetensors"):
        """The tensors of a commit, as the program pulls them, by name: (dtype, shape, content)."""
        return safetensors.decode(self.pulled(revision)[file])

    def tips(self):
        """The ids of the branch's commits, the newest first; none where there is no commit."""
        if not (Path(self.repo) / "commits").exists() or not any((Path(self.repo) / "commits").iterdir()):
            return []
        log = self.run_program("log", "--json", self.repo)
        return [json.loads(line)["commit"] for line in log.splitlines()]


def environments():
    """Where environments of packages are made: in the build folder that WDELTA on the command line is in."""
    return Path(sys.argv[2]).resolve().parent / "tests" / "clients"


def library_and_program():
    """Takes LIBRARY and WDELTA from the command line."""
    global PROGRAM
    os.environ["WDELTA_LIBRARY"] = str(Path(sys.argv.pop(1)).resolve())
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())


def main():
    library_and_program()
    unittest.main(verbosity=2)
