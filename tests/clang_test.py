# SPDX-License-Identifier: Apache-2.0
"""The program and the fuzz targets are C++ to clang too, which makes the latter: they are read whole, and no code is made
of them. Nobody makes the other tests with it.

Most sources include the same few headers: those are read once, and their templates made. Sources that the build puts
into one are read as one.

usage: clang_test.py BUILD: what was configured there. Skipped where there is no clang."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SKIPPED = 77
ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "lib", ROOT / "cmd", ROOT / "tests" / "fuzz", ROOT / "tests" / "testing"]
COMPILERS = {".cpp": "clang++", ".cxx": "clang++", ".c": "clang"}
# What says how a source is to be read; all else is about what is made of it.
READING = ("-I", "-D", "-std", "-m", "-W", "-f")
OF_CODE = ("-fPIC", "-fPIE", "-falign-", "-fno-move-loop-invariants")

# Of these one or the other is built.
ALTERNATIVES = re.compile(r"absent\.cpp$|/cuda/runtime_[a-z_]*\.cpp$")

# Read once for all sources that are to be read in the usual way.
HEADERS = ("algorithm", "atomic", "charconv", "chrono", "filesystem", "fmt/format.h", "fstream", "functional", "map",
           "memory", "mutex", "nlohmann/json.hpp", "numeric", "optional", "random", "set", "span", "string", "thread",
           "vector")
USUAL = ["-DFMT_SHARED", "-std=c++20", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
UNUSUAL = ("-m", "-fno-")


def sources_of(command):
    """What it compiles: CMake puts several sources into one."""
    file = Path(command["file"])
    if file.parent.name != "Unity":
        return [file]
    return [Path(source) for source in re.findall(r'#include "(.*)"', file.read_text())]


def reading(command):
    """The words of a compiler's command that say what to read and how; nothing where clang does not read that."""
    words = shlex.split(command["command"])
    if Path(command["file"]).suffix not in COMPILERS:
        return None
    if any(word.endswith("/avx512_model") for word in words):  # where intrinsics are functions, as they are to GCC alone
        return None
    if not all(any(map(source.is_relative_to, FOLDERS)) for source in sources_of(command)):
        return None
    kept = [command["file"]]
    for word, following in zip(words[1:], [*words[2:], ""]):
        if word == "-isystem":
            kept += [word, following]
        elif word.startswith(READING) and not word.startswith(OF_CODE):
            kept.append(word)
    return kept


def read_headers(folder):
    """Reads HEADERS into a file there, and returns its name."""
    source, result = os.path.join(folder, "headers.hpp"), os.path.join(folder, "headers.pch")
    with open(source, "w") as file:
        file.writelines(f"#include <{header}>\n" for header in HEADERS)
    subprocess.run(["clang++", "-fpch-instantiate-templates", *USUAL, "-x", "c++-header", source, "-o", result],
                   check=True)
    return result


def complaints(command, headers):
    words = reading(command)
    compiler = COMPILERS[os.path.splitext(command["file"])[1]]
    is_usual = all(word in words for word in USUAL) and not any(word.startswith(UNUSUAL) for word in words)
    known = ["-include-pch", headers] if is_usual else []
    done = subprocess.run([compiler, "-fsyntax-only", "-Wno-unknown-warning-option", *known, *words],
                          cwd=command["directory"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout or ("" if done.returncode == 0 else f"{command['file']}: clang ends with {done.returncode}\n")


def main():
    if not all(map(shutil.which, COMPILERS.values())):
        print("skipped: there is no clang")
        return SKIPPED
    with open(os.path.join(sys.argv[1], "compile_commands.json")) as file:
        commands = [command for command in json.load(file) if reading(command)]
    # Half of the cores: it is one test of many.
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(1, os.cpu_count() // 2)) as pool:
        headers = read_headers(folder)
        told = "".join(pool.map(lambda command: complaints(command, headers), commands))
    read = {os.path.realpath(source) for command in commands for source in sources_of(command)}
    for source in sorted(source for folder in FOLDERS for source in folder.rglob("*.cpp")):
        if str(source) not in read and not ALTERNATIVES.search(str(source)):
            told += f"{source}: no command compiles it, so that it was not read\n"
    print(told or f"{len(read)} sources: nothing to say")
    return 1 if told or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
