#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the manual to the program: the parts that the program writes, the options in the text, the list of JSON
documents, the list of pages, and mdoc itself. With --write, puts the program's parts into the pages first (`make manual`).

usage: check_manual.py [--write] WDELTA_BINARY MAN_FOLDER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Commands that wdelta(1) itself describes.
WITHOUT_PAGE = {"help"}
LONGEST_LINE = 80
# A part of a page that `wdelta manual WORDS` prints.
PART = re.compile(r'^(\.\\" wdelta (manual .*)\n)((?:.*\n)*?)(\.\\" end\n)', re.MULTILINE)


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

    def parts(self):
        """What each `wdelta manual WORDS` is to have printed, by its words."""
        return {words: text for _, words, text, _ in PART.findall(self.text)}

    def mentioned_options(self):
        return {"-" + name for name in re.findall(r"\bFl (-?[A-Za-z]\S*)", self.text)}


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def own_options(wdelta, *command):
    """The options of a command that others lack; without one, those that all have."""
    items = re.findall(r"^\.It Fl .*", run(wdelta, "manual", "options", *command).stdout, re.MULTILINE)
    return {"-" + name for item in items for name in re.findall(r"\bFl (\S+)", item)}


def commands_of(wdelta):
    commands = re.findall(r"^  (\w+)  ", run(wdelta, "--help").stdout.partition("Subcommands:\n")[2], re.MULTILINE)
    if not commands:
        sys.exit(f"check_manual: {wdelta} --help: lists no commands")
    return commands


def require_equal(what, expected, found):
    if expected != found:
        missing, surplus = sorted(expected - found), sorted(found - expected)
        raise AssertionError(f"{what}: lacks {missing}, has too many: {surplus}")


def expected_parts(name):
    """The parts that a page must have."""
    if name == "wdelta.1":
        return {"manual options", "manual commands", "manual exit-codes"}
    command = re.fullmatch(r"wdelta-(\w+)\.1", name)
    return {f"manual options {command.group(1)}"} if command else set()


def check_parts(wdelta, page):
    parts = page.parts()
    require_equal(f"{page.path.name}: parts", expected_parts(page.path.name), set(parts))
    for words, text in parts.items():
        if text != run(wdelta, *words.split()).stdout:
            raise AssertionError(f"{page.path.name}: is not what wdelta {words} prints; make manual puts it there")


def write_parts(wdelta, page):
    text = PART.sub(lambda part: part[1] + run(wdelta, *part[2].split()).stdout + part[4], page.path.read_text())
    if text != page.path.read_text():
        page.path.write_text(text)
        print(f"wrote {page.path}")


def check_synopsis(wdelta, page):
    command = re.fullmatch(r"wdelta-(\w+)\.1", page.path.name)
    if command:
        synopsis = {"-" + name for name in re.findall(r"\bFl (\S+)", page.section("SYNOPSIS"))}
        require_equal(f"{page.path.name}: SYNOPSIS", set(), synopsis - own_options(wdelta, command.group(1)))


def check_mentions(wdelta, pages, commands):
    known = own_options(wdelta).union(*(own_options(wdelta, command) for command in commands))
    for page in pages.values():
        require_equal(f"{page.path.name}: options named in the text", set(), page.mentioned_options() - known)


def check_pages(pages, commands):
    expected = {f"wdelta-{command}.1" for command in commands if command not in WITHOUT_PAGE} | {"wdelta.1"}
    require_equal("pages of section 1", expected, {name for name in pages if name.endswith(".1")})
    listed = set(re.findall(r"^\.Xr (\S+) (\d)", pages["wdelta.1"].section("SEE ALSO"), re.MULTILINE))
    there = {tuple(name.rsplit(".", 1)) for name in pages if name != "wdelta.1"}
    require_equal("wdelta.1: SEE ALSO", there, listed)
    for command in set(commands) & WITHOUT_PAGE:
        if f".It Cm {command}\n" not in pages["wdelta.1"].text:
            raise AssertionError(f"wdelta.1: does not describe the command {command}")


def check_json(pages, commands):
    """Every command has its part; tests/cli/json_test.py holds what each prints to it."""
    described = {title.split()[0] for title in re.findall(r"^\.Ss wdelta (\w.*)", pages["wdelta.1"].section("JSON"), re.M)}
    require_equal("wdelta.1: JSON: commands", set(commands), described)


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


def check_revisions(texts):
    """No example names a revision that is none: an @ with nothing behind it is refused."""
    for name, text in texts.items():
        bare = re.search(r"^.*\bwdelta .*\s@(?=[\s)|]|$)", text, re.MULTILINE)
        if bare:
            raise AssertionError(f"{name}: {bare[0]}: names no revision behind its @")


def check_lines(pages):
    for page in pages.values():
        for number, line in enumerate(page.text.splitlines(), 1):
            if len(line.encode()) > LONGEST_LINE:
                raise AssertionError(f"{page.path.name}:{number}: is longer than {LONGEST_LINE} columns")


def main():
    words = sys.argv[1:]
    write = words[:1] == ["--write"]
    if len(words[write:]) != 2:
        sys.exit(__doc__)
    wdelta = os.path.abspath(words[write])
    if not os.access(wdelta, os.X_OK):
        sys.exit(f"check_manual: {wdelta}: is no program")
    pages = {path.name: Page(path) for path in sorted(pathlib.Path(words[write + 1]).glob("wdelta*.[1357]"))}
    if write:
        for page in pages.values():
            write_parts(wdelta, page)
        pages = {name: Page(page.path) for name, page in pages.items()}
    commands = commands_of(wdelta)
    readme = pathlib.Path(words[write + 1]).parent / "README.md"
    checks = [("pages", lambda: check_pages(pages, commands))]
    for page in pages.values():
        checks.append((f"the program's parts of {page.path.name}", lambda page=page: check_parts(wdelta, page)))
    checks += [
        ("synopses", lambda: [check_synopsis(wdelta, page) for page in pages.values()]),
        ("options in the text", lambda: check_mentions(wdelta, pages, commands)),
        ("documents of JSON", lambda: check_json(pages, commands)),
        ("revisions in examples", lambda: check_revisions({**{page.path.name: page.text for page in pages.values()},
                                                           "README.md": readme.read_text()})),
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
