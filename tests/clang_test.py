# SPDX-License-Identifier: Apache-2.0
"""Every source is C++ to clang too, which the fuzz targets are made with: it is read whole, and no code is made of it.

usage: clang_test.py BUILD: what was configured there. Skipped where there is no clang."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

SKIPPED = 77
COMPILERS = {".cpp": "clang++", ".c": "clang"}
# What says how a source is to be read; all else is about what is made of it.
READING = ("-I", "-D", "-std", "-m", "-W", "-f")


def reading(command):
    """The words of a compiler's command that say what to read and how; nothing where clang does not read that."""
    words = shlex.split(command["command"])
    if os.path.splitext(command["file"])[1] not in COMPILERS:
        return None
    kept = [command["file"]]
    for word, following in zip(words[1:], [*words[2:], ""]):
        if word == "-isystem":
            kept += [word, following]
        elif word.startswith(READING):
            kept.append(word)
    return kept


def complaints(command):
    words = reading(command)
    compiler = COMPILERS[os.path.splitext(command["file"])[1]]
    done = subprocess.run([compiler, "-fsyntax-only", "-Wno-unknown-warning-option", *words], cwd=command["directory"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout or ("" if done.returncode == 0 else f"{command['file']}: clang ends with {done.returncode}\n")


def main():
    if not all(map(shutil.which, COMPILERS.values())):
        print("skipped: there is no clang")
        return SKIPPED
    with open(os.path.join(sys.argv[1], "compile_commands.json")) as file:
        commands = list(filter(reading, json.load(file)))
    # Half of the cores: it is one test of many.
    with ThreadPoolExecutor(max(1, os.cpu_count() // 2)) as pool:
        told = "".join(pool.map(complaints, commands))
    print(told or f"{len(commands)} sources: nothing to say")
    return 1 if told or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
