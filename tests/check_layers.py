#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every include of the library to the table of rooms in lib/README.md.

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
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"/]+)/', re.MULTILINE)
# The variables of the process are for those who ask the C library for them.
MAY_READ_ENVIRONMENT = {"c/wdelta.cpp"}
# Words that only cmd/ may use: the library never prints, reads the environment, exits or handles signals.
FORBIDDEN = re.compile(r"\b(std::cout|std::cerr|printf|fmt::print|getenv|std::exit|_exit|sigaction|std::signal)\b")


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
            code = re.sub(r"//.*|/\*(?:.|\n)*?\*/", "", text)
            allowed = {"getenv"} if str(path.relative_to(lib)) in MAY_READ_ENVIRONMENT else set()
            wrong += [f"{path}: {word} belongs in cmd/" for word in FORBIDDEN.findall(code) if word not in allowed]
    print("\n".join(wrong) if wrong else f"layers: ok ({len(rooms)} rooms)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
