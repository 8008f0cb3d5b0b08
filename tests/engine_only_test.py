# SPDX-License-Identifier: Apache-2.0
"""The engine and its tests build alone: `cmake --preset engine-only` finds no package where none is, and what it
compiles includes no header, and calls no function of ours, from outside of it.

usage: engine_only_test.py BUILD [options of unittest]: BUILD is one of the whole program."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ["fmt", "nlohmann_json", "CLI11", "CURL", "OpenSSL", "doctest", "benchmark", "PkgConfig", "Python3"]
# Files of the libraries that the program and its other tests are made with.
FOREIGN = re.compile(r"/(fmt|nlohmann|CLI|curl|openssl|benchmark|doctest|zstd)(/|\.h$)")
BUILD = None


def run(words, **more):
    done = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, words))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class EngineOnly(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="wdelta-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        # The compiler of the build that this is a test of; a generator that is there wherever CMake is in use.
        cache = (BUILD / "CMakeCache.txt").read_text()
        compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE).group(1)
        cls.said = run(["cmake", "--preset", "engine-only", "-B", cls.folder, f"-DCMAKE_CXX_COMPILER={compiler}",
                        *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in PACKAGES)], cwd=ROOT)
        cls.commands = [entry for entry in json.loads((cls.folder / "compile_commands.json").read_text())
                        if entry["file"].endswith(".cpp")]

    def test_it_is_configured_where_no_package_is_and_says_what_it_goes_without(self):
        self.assertIn("zstd is not here", self.said)
        self.assertIn("doctest is not here", self.said)
        names = {Path(entry["file"]).name for entry in self.commands}
        self.assertGreaterEqual(names, {"engine.cpp", "group_encoder.cpp", "frame_absent.cpp", "blake3.cpp", "cursor.cpp",
                                        "kernels_test.cpp", "group_test.cpp", "blake3_test.cpp", "main.cpp"})
        self.assertFalse(names & {"frame.cpp", "json.cpp", "file.cpp"})
        self.assertGreaterEqual(names, {path.name for path in (ROOT / "tests" / "engine").rglob("*_test.cpp")})

    def test_no_header_of_another_library_is_read(self):
        def headers(entry):
            words = [word for word in shlex.split(entry["command"])]
            at = words.index("-o")
            del words[at:at + 2]
            words.remove("-c")
            return run([*words, "-M"], cwd=entry["directory"]).replace("\\\n", " ").split()[1:]

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for entry, found in zip(self.commands, pool.map(headers, self.commands)):
                ours = str(ROOT / "tests" / "doctest_absent")
                foreign = [path for path in found if FOREIGN.search(path)
                           and not os.path.realpath(Path(entry["directory"], path)).startswith(ours)]
                self.assertEqual(foreign, [], entry["file"])

    def test_it_calls_no_function_of_ours_that_it_does_not_hold(self):
        """Asked of the objects of the whole build, whose other files would give the linker what this one lacks."""
        listed = re.search(r'set\(WDELTA_ENGINE_BASE "(.*)"\)', (ROOT / "lib/CMakeLists.txt").read_text()).group(1)
        objects = [path for path in BUILD.glob("lib/CMakeFiles/wdelta_*.dir/**/*.o")
                   if path.parent.name == "engine" or "engine" in path.parent.parts[len(BUILD.parts):] or
                   path.parent.name == "base" and re.fullmatch(listed, path.name.removesuffix(".cpp.o"))]
        self.assertTrue(objects)
        held, called = set(), {}
        for path in objects:
            for line in run(["nm", "--demangle", path]).splitlines():
                kind, name = line[17:18], line[19:]
                if not name.startswith("wdelta::") and " wdelta::" not in name.split("(")[0]:
                    continue
                if kind in "Uw":
                    called.setdefault(name, path.name)
                else:
                    held.add(name)
        self.assertTrue(called)
        self.assertEqual({name: path for name, path in called.items() if name not in held}, {})


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
