# SPDX-License-Identifier: Apache-2.0
"""Virtual environments of pinned packages, made below the build folder once and used again."""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path


class Unreachable(Exception):
    """The packages cannot be had here."""


def finished_environment(folder, requirements):
    """The interpreter of that environment where it was made before, or None."""
    place = _place(folder, requirements)
    return _interpreter(place) if (place / "finished").exists() else None


def client_environment(folder, requirements):
    """The interpreter of an environment that has what a file of pins lists; Unreachable with the installer's last word
    where it cannot be made. Several tests may ask at once."""
    place = _place(folder, requirements)
    finished = place / "finished"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            _run([sys.executable, "-m", "venv", "--clear", str(place / "environment")])
            _run([str(_interpreter(place)), "-m", "pip", "install", "--quiet", "--no-deps",
                  "--disable-pip-version-check", "--retries", "1", "--timeout", "20", "-r", str(requirements)])
            finished.touch()
    return _interpreter(place)


def _place(folder, requirements):
    requirements = Path(requirements)
    pins = requirements.read_bytes()
    return Path(folder) / f"{requirements.stem}-{hashlib.sha256(pins + sys.version.encode()).hexdigest()[:12]}"


def _interpreter(place):
    return place / "environment" / "bin" / "python"


def _run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        last = [line for line in done.stdout.splitlines() if line.strip()][-1:]
        raise Unreachable(last[0] if last else f"{command[1:4]} failed")
