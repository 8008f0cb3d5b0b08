#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every include of the library to the table of rooms in lib/README.md, what a build of the engine alone compiles
to the standard library and zstd, and JSON, which takes seconds to compile, to headers about nothing else. Refuses
words that belong in cmd/, and hash tables of names.

usage: check_layers.py LIB
"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "base": set(),
    "checkpoint": {"base"},
    "engine": {"base"},
    "store": {"base"},
    "delta": {"base", "checkpoint", "engine"},
    "repo": {"base", "checkpoint", "engine", "store", "delta"},
    "user": {"base", "store"},
    "include": set(),
    "c": {"base", "checkpoint", "engine", "store", "delta", "repo", "user", "include"},
    "python": set(),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"/]+)/', re.MULTILINE)
# What is done only for those who ask for it: the variables of the process, by programs in C; SIGBUS, by whole programs.
ON_REQUEST = {"c/wdelta.cpp": {"getenv"}, "base/mapped_stretch.cpp": {"sigaction", "signal", "raise"}}
# Words that only cmd/ may use: the library never prints, reads the environment, exits or handles signals.
FORBIDDEN = re.compile(r"\b(std::cout|std::cerr|std::clog|stdout|stderr|fmt::print|getenv|secure_getenv|sigaction"
                       r"|(?:v?[fd]?printf|fputs|fputc|putc|puts|putchar|fwrite|perror|exit|_exit|_Exit|quick_exit"
                       r"|signal|raise|sigprocmask|pthread_sigmask)(?=\s*\())(?!\w)")
# What a build of the engine alone (cmake --preset engine-only) does without.
OTHERS = re.compile(r'^\s*#\s*include\s*<((?:fmt|nlohmann|curl|CLI|openssl|benchmark)/[^>]*)>', re.MULTILINE)
# Every file that sees a header with JSON in it compiles JSON: such a header is about nothing else.
JSON_HEADER = re.compile(r'^\s*#\s*include\s*"base/json\.hpp"', re.MULTILINE)
BASE_FILE = re.compile(r'^\s*#\s*include\s*"base/([^"]+)\.hpp"', re.MULTILINE)
ENGINE_BASE = re.compile(r'set\(WDELTA_ENGINE_BASE "(.*)"\)')
# Names come from outside, and can be chosen to have one std::hash: a table of them takes quadratic time.
HASHED_NAMES = re.compile(r"\bunordered_\w+<\s*std::string\w*\b[^;]*")


def engine_only(lib):
    """What is wrong with the engine's files, its tests, and the files of base that it stands on: what they include, and
    what that includes, must be in the list of lib/CMakeLists.txt and need no other library."""
    listed = re.compile(ENGINE_BASE.search((lib / "CMakeLists.txt").read_text()).group(1))
    tests = lib.parent / "tests"
    base = [path for path in (lib / "base").glob("*.?pp") if listed.fullmatch(path.stem)]
    waiting = base + [path for path in [*(lib / "engine").rglob("*"), *(tests / "engine").rglob("*"),
                                        *(tests / "base").glob("*_test.cpp"), tests / "testing/random.hpp"]
                      if path.is_file() and (path.parent.name != "base" or listed.fullmatch(path.stem[:-5]))]
    seen = set(waiting)
    wrong = []
    while waiting:
        path = waiting.pop()
        text = path.read_text()
        wrong += [f"{path}: includes <{other}>, which a build of the engine alone has not" for other in OTHERS.findall(text)]
        for name in BASE_FILE.findall(text):
            header = lib / "base" / f"{name}.hpp"
            source = header.with_suffix(".cpp")
            if source.exists() and not listed.fullmatch(name):
                wrong.append(f"{path}: base/{name} is not in WDELTA_ENGINE_BASE of lib/CMakeLists.txt")
            elif header not in seen:
                seen.add(header)
                waiting.append(header)
    return wrong


def main():
    lib = pathlib.Path(sys.argv[1])
    wrong = []
    rooms = sorted(path.name for path in lib.iterdir() if path.is_dir())
    for room in rooms:
        if room not in MAY_INCLUDE:
            wrong.append(f"lib/{room}: is in no row of the table in tests/check_layers.py")
            continue
        for path in sorted(path for path in (lib / room).rglob("*") if path.is_file()):
            text = path.read_text()
            for other in INCLUDE.findall(text):
                if other != room and other not in MAY_INCLUDE[room]:
                    wrong.append(f"{path}: {room} may not include {other}")
            if path.suffix == ".hpp" and JSON_HEADER.search(text) and not path.stem.endswith("_json"):
                wrong.append(f"{path}: includes base/json.hpp, which only a header NAME_json.hpp may")
            code = re.sub(r"//.*|/\*(?:.|\n)*?\*/", "", text)
            allowed = ON_REQUEST.get(str(path.relative_to(lib)), set())
            wrong += [f"{path}: {table}: use a std::map or std::set, names can be chosen to have one hash"
                      for table in HASHED_NAMES.findall(code)]
            wrong += [f"{path}: {word} belongs in cmd/" for word in FORBIDDEN.findall(code) if word not in allowed]
    wrong += engine_only(lib)
    print("\n".join(wrong) if wrong else f"layers: ok ({len(rooms)} rooms)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
