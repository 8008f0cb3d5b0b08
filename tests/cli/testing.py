# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: a scratch directory for each test, runs of the binary, and the checks that
hold for every run: the exit code, one line for an error, and nothing half-written left."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import safetensors

sys.path.append(str(Path(__file__).resolve().parent.parent / "decoder"))
from blake3 import blake3  # noqa: E402

WDELTA = os.environ.get("WDELTA", "")
MAKE_RUN = os.environ.get("MAKE_RUN", "")
_LEFTOVER = re.compile(r"\..*\.wdelta-[^/]{6}")
_STATE = ".wdelta"  # what pull keeps beside a checkpoint


# What asks the program to stop, and the exit status that says so.
STOPPED = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}


class Run:
    """A run of the binary that has ended."""

    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    def __str__(self):
        return f"exit {self.code} of {' '.join(map(str, self.words))}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Case(unittest.TestCase):
    """A test with a directory of its own, gone afterwards, and a state directory in it."""

    maxDiff = 2000

    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="wdelta-test-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
        self.random = random.Random(self.seed)

    def environment(self, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("WDELTA", "XDG_"))}
        environment.update(WDELTA_STATE_DIR=str(self.scratch / "state"), HOME=str(self.scratch), LC_ALL="C.UTF-8")
        environment.update(more)
        return environment

    def command(self, *words):
        return [WDELTA, *(word if isinstance(word, bytes) else str(word) for word in words)]

    def run_any(self, *words, env=None, prefix=(), timeout=120, **more):
        """Runs the binary whatever comes of it."""
        done = subprocess.run([*prefix, *self.command(*words)], env=self.environment(**(env or {})), timeout=timeout,
                              stdin=subprocess.DEVNULL,
                              **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})
        out, err = ((text or b"").decode("utf-8", "backslashreplace") for text in (done.stdout, done.stderr))
        return Run(words, done.returncode, out, err)

    def run_ok(self, *words, **more):
        """Runs the binary, which must succeed; returns what it printed."""
        done = self.run_any(*words, **more)
        self.assertEqual(done.code, 0, self.told(done))
        return done.out

    def run_fails(self, code, *words, says=(), absent=None, **more):
        """Runs the binary, which must fail with this exit code, in one line, and without the output."""
        done = self.run_any(*words, **more)
        self.assertEqual(done.code, code, self.told(done))
        self.assert_one_line_error(done)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, done.err, self.told(done))
        if absent is not None:
            self.assertFalse(os.path.lexists(absent), f"{absent} is there\n{self.told(done)}")
        self.assert_no_leftovers()
        return done

    def told(self, done):
        return f"seed {self.seed}: {done}"

    def assert_one_line_error(self, done):
        notes = re.compile(r"wdelta: \w+: note: ")
        errors = [line for line in done.err.splitlines() if line.startswith("wdelta: ") and not notes.match(line)]
        self.assertEqual(len(errors), 1, self.told(done))
        command = next((word for word in done.words if not str(word).startswith("-")), "")
        form = "interrupted" if done.code in STOPPED.values() else ".+: .+"
        self.assertRegex(errors[0], rf"^wdelta: {re.escape(str(command))}: {form}", self.told(done))
        behind = done.err.splitlines()[done.err.splitlines().index(errors[0]) + 1:]
        self.assertTrue(all(line.startswith("hint: ") for line in behind) and len(behind) <= 1, self.told(done))

    def assert_no_leftovers(self, below=None):
        """Nothing that was written aside is left anywhere in the scratch directory."""
        left = []
        for folder, folders, files in os.walk(below or self.scratch):
            left += [os.path.join(folder, name) for name in folders + files if _LEFTOVER.fullmatch(name)]
        self.assertEqual(left, [])

    def assert_same_tree(self, found, expected):
        """Two directories hold the same files, byte for byte, with the same executable bits."""
        self.assertEqual(describe(found), describe(expected), f"seed {self.seed}: {found} is not {expected}")

    def assert_same_file(self, found, expected):
        self.assertEqual(file_digest(found), file_digest(expected), f"seed {self.seed}: {found} is not {expected}")

    def make_run(self, name, *options):
        """Checkpoints of a made-up training run: returns their directories, or files with --single."""
        subprocess.run([MAKE_RUN, str(self.scratch / name), "--quiet", "--threads", "2", *map(str, options)],
                       check=True)
        return sorted((self.scratch / name).iterdir())

    @staticmethod
    def sealed(document):
        """The text of a document of wdelta, with its digest."""
        text = json.dumps({**document, "digest": "0" * 64}, separators=(",", ":")) + "\n"
        return text.replace("0" * 64, blake3(text.encode())).encode()

    def write(self, name, content, executable=False):
        """Writes a file, its directories too; text or bytes."""
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o755 if executable else 0o644)
        return path

    def write_weights(self, name, tensors, **more):
        return self.write(name, safetensors.encode(tensors, **more))

    def some_weights(self, count=3, elements=3000, dtype="BF16"):
        """Random tensors, as safetensors.encode takes them."""
        size = safetensors.size_of(dtype, [elements])
        return [(f"layer.{i}.weight", dtype, [elements], self.random.randbytes(size)) for i in range(count)]

    def compressible_weights(self, count=2, elements=400_000):
        """The same with few exponents, so that they take less room compressed, as those of models do."""
        weights = []
        for name, dtype, shape, content in self.some_weights(count, elements):
            content = bytearray(content)
            content[1::2] = content[1::2].translate(bytes(0x3a + byte % 4 + (byte & 128) for byte in range(256)))
            weights.append((name, dtype, shape, bytes(content)))
        return weights

    def moved(self, tensors, share=0.02):
        """The tensors with some of their bytes changed, as a training step would."""
        moved = []
        for name, dtype, shape, content in tensors:
            content = bytearray(content)
            touched = min(len(content), max(1, int(len(content) * share)))
            for place in self.random.sample(range(len(content)), touched):  # distinct: two flips could undo each other
                content[place] ^= 1 << self.random.randrange(3)
            moved.append((name, dtype, shape, bytes(content)))
        return moved


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_sanitized():
    """Whether the binary was built with a sanitizer that takes the address space for itself."""
    content = Path(WDELTA).read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


def require_preloadable(case, library):
    """Skips the test where the binary cannot be run under that library."""
    if not library.exists():
        case.skipTest(f"{library.name} is not built")
    if is_sanitized():
        case.skipTest("a sanitizer cannot be preloaded after another library")
    if is_static():
        case.skipTest(f"{library.name} does not reach into this binary: it is linked statically")


def is_static():
    """Whether the binary has no interpreter (ELF, program headers), so that nothing can be preloaded into it."""
    content = Path(WDELTA).read_bytes()
    begin = int.from_bytes(content[32:40], "little")
    size, count = (int.from_bytes(content[at:at + 2], "little") for at in (54, 56))
    interpreter = 3
    return all(int.from_bytes(content[at:at + 4], "little") != interpreter
               for at in range(begin, begin + size * count, size))


def describe(directory):
    """What is in a directory: digest and executable bit by path; of directories, those that hold nothing."""
    found = {}
    for folder, folders, files in os.walk(directory, followlinks=False):
        relative = os.path.relpath(folder, directory)
        if relative == ".":
            folders[:] = [name for name in folders if name != _STATE]
        elif not folders and not files:
            found[relative] = "an empty directory"
        for name in files:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                executable = bool(os.stat(path).st_mode & 0o100)
                found[os.path.normpath(os.path.join(relative, name))] = (file_digest(path), executable)
            else:
                found[os.path.normpath(os.path.join(relative, name))] = "a dangling symlink"
    return found


def heed_signals():
    """Has what asks a program to stop do so, here and in every program that is started: what a script runs in the
    background, or nohup, begins with some of these ignored, and goes on ignoring them."""
    for number in STOPPED:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def main():
    """NAME_test.py [WDELTA MAKE_RUN] [options of unittest]; the binaries may come from the environment too."""
    global WDELTA, MAKE_RUN
    heed_signals()
    words = sys.argv[1:]
    if words and os.access(words[0], os.X_OK):
        WDELTA = os.path.abspath(words.pop(0))
        if words and os.access(words[0], os.X_OK):
            MAKE_RUN = os.path.abspath(words.pop(0))
    if not WDELTA or not MAKE_RUN:
        sys.exit(f"usage: {sys.argv[0]} WDELTA MAKE_RUN, or set these two in the environment")
    unittest.main(module="__main__", argv=[sys.argv[0], *words])
