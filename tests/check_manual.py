#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the manual to the program: options, exit statuses, JSON members, the list of pages, and mdoc itself.

usage: check_manual.py WDELTA_BINARY MAN_FOLDER
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

# Commands that wdelta(1) itself describes.
WITHOUT_PAGE = {"help"}
OPTION = re.compile(r"\B--?[A-Za-z][A-Za-z-]*")
LONGEST_LINE = 80


class Page:
    """The source of one manual page, cut into its sections."""

    def __init__(self, path):
        self.path = path
        self.text = path.read_text()
        parts = re.split(r"^\.Sh (.*)\n", self.text, flags=re.MULTILINE)
        self.sections = dict(zip(parts[1::2], parts[2::2]))

    def section(self, name):
        if name not in self.sections:
            raise AssertionError(f"{self.path.name}: has no section {name}")
        return self.sections[name]

    def options(self, *sections):
        """Options that are items of lists in these sections."""
        items = "".join(re.findall(r"^\.It Fl .*\n", "".join(map(self.section, sections)), re.MULTILINE))
        return {"-" + name for name in re.findall(r"\bFl (\S+)", items)}

    def mentioned_options(self):
        return {"-" + name for name in re.findall(r"\bFl (-?[A-Za-z]\S*)", self.text)}


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def help_options(wdelta, *command):
    """The options that `wdelta COMMAND --help` lists: lines that begin with one."""
    text = run(wdelta, *command, "--help").stdout
    found = set()
    for line in text.splitlines():
        words = re.match(r"  (-\S+)", line)
        if words:
            found |= set(OPTION.findall(words.group(1).replace(",", " ")))
    if not found:
        raise AssertionError(f"wdelta {' '.join(command)} --help: lists no options")
    return found


def commands_of(wdelta):
    commands = re.findall(r"^  (\w+)  ", run(wdelta, "--help").stdout.partition("Subcommands:\n")[2], re.MULTILINE)
    if not commands:
        sys.exit(f"check_manual: {wdelta} --help: lists no commands")
    return commands


def require_equal(what, expected, found):
    if expected != found:
        missing, surplus = sorted(expected - found), sorted(found - expected)
        raise AssertionError(f"{what}: lacks {missing}, has too many: {surplus}")


def check_options(wdelta, pages, command):
    own = help_options(wdelta, command) - help_options(wdelta)
    page = pages[f"wdelta-{command}.1"]
    require_equal(f"{page.path.name}: OPTIONS", own, page.options("OPTIONS"))
    synopsis = set(re.findall(r"\bFl (\S+)", page.section("SYNOPSIS")))
    require_equal(f"{page.path.name}: SYNOPSIS", set(), {"-" + name for name in synopsis} - own)


def check_common_options(wdelta, pages):
    require_equal("wdelta.1: OPTIONS", help_options(wdelta), pages["wdelta.1"].options("OPTIONS"))


def check_mentions(wdelta, pages, commands):
    known = help_options(wdelta).union(*(help_options(wdelta, command) for command in commands))
    for page in pages.values():
        require_equal(f"{page.path.name}: options named in the text", set(), page.mentioned_options() - known)


def check_exit_statuses(wdelta, pages):
    printed = [line.split(maxsplit=1) for line in run(wdelta, "help", "exit-codes").stdout.splitlines()]
    table = re.findall(r"^\.It (\d+)\n((?:[^.].*\n)+)", pages["wdelta.1"].section("EXIT STATUS"), re.MULTILINE)
    written = [[code, meaning.strip().replace("\n", " ").replace("\\", "")] for code, meaning in table]
    if not printed or printed != written:
        wrong = [f"{a} / {b}" for a, b in zip(printed, written) if a != b]
        raise AssertionError(f"wdelta.1: EXIT STATUS: {len(printed)} rows printed, {len(written)} written: {wrong[:1]}")


def check_pages(pages, commands):
    expected = {f"wdelta-{command}.1" for command in commands if command not in WITHOUT_PAGE} | {"wdelta.1"}
    require_equal("pages of section 1", expected, {name for name in pages if name.endswith(".1")})
    listed = set(re.findall(r"^\.Xr (\S+) (\d)", pages["wdelta.1"].section("SEE ALSO"), re.MULTILINE))
    there = {tuple(name.rsplit(".", 1)) for name in pages if name != "wdelta.1"}
    require_equal("wdelta.1: SEE ALSO", there, listed)
    for command in set(commands) & WITHOUT_PAGE:
        if f".It Cm {command}\n" not in pages["wdelta.1"].text:
            raise AssertionError(f"wdelta.1: does not describe the command {command}")


def write_checkpoint(folder, weights):
    folder.mkdir()
    header = {"w": {"dtype": "U8", "shape": [len(weights)], "data_offsets": [0, len(weights)]}}
    front = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(front)) + front + weights)
    (folder / "config.json").write_text("{}")


def members(value):
    """Names of all members, but for those that the user chose."""
    names = set()
    if isinstance(value, list):
        names.update(*map(members, value))
    if isinstance(value, dict):
        for name, inner in value.items():
            names |= {name} | (set() if name == "meta" else members(inner))
    return names


def check_json(wdelta, pages, commands):
    """Runs every command with --json on two small checkpoints and compares the members with those described."""
    described = {}
    for part in pages["wdelta.1"].section("JSON").split(".Ss wdelta ")[1:]:
        described[part.split("\n", 1)[0]] = set(re.findall(r"\bVa (\S+)", part))
    require_equal("wdelta.1: JSON: commands", set(commands) - WITHOUT_PAGE, set(described))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_checkpoint(folder / "old", bytes(range(200)))
        write_checkpoint(folder / "new", bytes(range(199)) + b"!")
        lines = {
            "push": "old repo --step 1 --meta k=v",
            "diff": "old new -o delta",
            "apply": "old delta -o out",
            "tag": "repo name",
            "log": "repo",
            "show": "repo",
            "pull": "repo pulled",
            "verify": "new repo",
        }
        environment = dict(os.environ, WDELTA_STATE_DIR=str(folder / "state"))
        for command, line in lines.items():
            done = run(wdelta, command, "--json", *line.split(), cwd=folder, env=environment)
            try:
                found = members(json.loads(done.stdout))
            except ValueError as error:
                raise AssertionError(f"wdelta {command} --json {line}: {error}: {done.stderr.strip()}") from error
            require_equal(f"wdelta.1: JSON: {command}", found, described[command])


def check_lint(pages):
    """mandoc finds nothing to say, not even of style; cross references are looked for among these pages."""
    with tempfile.TemporaryDirectory() as name:
        for page in pages.values():
            folder = pathlib.Path(name) / f"man{page.path.suffix[1:]}"
            folder.mkdir(exist_ok=True)
            shutil.copy(page.path, folder)
        # That this folder has no index is a complaint on standard error, and of no interest.
        environment = dict(os.environ, MANPATH=name)
        for page in pages.values():
            said = run("mandoc", "-T", "lint", "-W", "style", str(page.path), env=environment).stdout.strip()
            if said:
                raise AssertionError(f"{page.path.name}: {said}")


def check_lines(pages):
    for page in pages.values():
        for number, line in enumerate(page.text.splitlines(), 1):
            if len(line.encode()) > LONGEST_LINE:
                raise AssertionError(f"{page.path.name}:{number}: is longer than {LONGEST_LINE} columns")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    wdelta = os.path.abspath(sys.argv[1])
    if not os.access(wdelta, os.X_OK):
        sys.exit(f"check_manual: {wdelta}: is no program")
    pages = {path.name: Page(path) for path in sorted(pathlib.Path(sys.argv[2]).glob("wdelta*.[15]"))}
    commands = commands_of(wdelta)
    checks = [("pages", lambda: check_pages(pages, commands))]
    for command in commands:
        if command not in WITHOUT_PAGE:
            checks.append((f"options of {command}", lambda command=command: check_options(wdelta, pages, command)))
    checks += [
        ("options of every command", lambda: check_common_options(wdelta, pages)),
        ("options in the text", lambda: check_mentions(wdelta, pages, commands)),
        ("exit statuses", lambda: check_exit_statuses(wdelta, pages)),
        ("members of JSON", lambda: check_json(wdelta, pages, commands)),
        ("line lengths", lambda: check_lines(pages)),
        ("mandoc lint", lambda: check_lint(pages)),
    ]
    passed, failed, skipped = 0, 0, 0
    for name, check in checks:
        if name == "mandoc lint" and shutil.which("mandoc") is None:
            print("skipped: mandoc lint: there is no mandoc")
            skipped += 1
            continue
        try:
            check()
            passed += 1
        except (AssertionError, KeyError) as error:
            print(f"failed: {name}: {error}")
            failed += 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
