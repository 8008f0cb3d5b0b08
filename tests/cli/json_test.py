# SPDX-License-Identifier: Apache-2.0
"""The documents of --json are what wdelta(1) says: no member that is not described, none missing, each of its type; and
the examples with jq in the manual run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import testing

sys.path.insert(0, str(Path(__file__).parents[1] / "services"))
from hub_emulator import Hub  # noqa: E402

MANUAL = Path(__file__).parents[2] / "man"

# What is run for each part of "JSON", in this order, in one directory; and the exit status. Together the runs must show
# every member.
RUNS = [
    ("diff", 0, "diff old new -o delta --stats"),
    ("diff", 0, "diff old new"),
    ("apply", 0, "apply old delta -o out --stats"),
    ("push", 0, "push old repo --step 1 --meta key=value -m words"),
    ("push", 0, "push new repo --anchor now --stats"),
    ("push", 0, "push new repo"),
    ("push", 0, "push new based --base hf://org/model --reference"),
    ("branch REPO NAME", 0, "branch repo work/one"),
    ("branch REPO NAME", 0, "branch -d repo work/one"),
    ("branch REPO NAME", 0, "branch repo work/one"),
    ("branch REPO", 0, "branch repo"),
    ("tag REPO NAME", 0, "tag repo name"),
    ("tag REPO NAME", 0, "tag -d repo name"),
    ("tag REPO NAME", 0, "tag repo name"),
    ("tag REPO", 0, "tag repo"),
    ("log", 0, "log repo"),
    ("log", 0, "log -a repo"),
    ("show", 0, "show repo"),
    ("show", 0, "show repo@step:1"),
    ("pull", 0, "pull repo pulled --stats"),
    ("show", 0, "show based"),
    ("pull", 0, "pull repo@step:1 strayed"),
    ("verify", 0, "verify new repo --stats"),
    ("verify", 10, "verify old repo"),
    ("verify", 0, "verify repo"),
    ("verify", 0, "verify repo@main"),
    ("verify", 0, "verify delta"),
    ("verify", 8, "verify based --quick --offline"),
    ("squash", 0, "squash repo step:1..main --dry-run"),
    ("squash", 0, "squash repo ..main --anchor"),
    ("gc", 0, "gc repo --grace 0"),
    ("stats", 0, "stats based"),
    ("push --repair", 0, "push --repair --base old broken"),
    ("push --repair", 4, "push --repair --base old gone"),
    ("help", 0, "help"),
    ("help", 0, "help push"),
    ("help exit-codes", 0, "help exit-codes"),
    ("--version", 0, "--version"),
    ("Errors", 4, "log nosuch"),
    ("Errors", 2, "psuh"),
    ("Errors", 2, "push --stpe 1"),
    ("Errors", 4, "pull repo@nosuch dir"),
]

TYPES = {
    "bytes": lambda value: type(value) is int and value >= 0,
    "count": lambda value: type(value) is int and value >= 0,
    "seconds": lambda value: type(value) in (int, float) and value >= 0,
    "digest": lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value),
    "time": lambda value: isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


class Node:
    """What the manual says of a value: its types, or its members, or its elements (a member called "[]")."""

    def __init__(self, path):
        self.path, self.types, self.optional, self.seen, self.members = path, [], False, False, {}

    def at(self, steps):
        if not steps:
            return self
        step = self.members.setdefault(steps[0], Node(f"{self.path}.{steps[0]}".replace(".[]", "[]").lstrip(".")))
        return step.at(steps[1:])

    def missing(self):
        """Described members that never were there."""
        inner = [path for node in self.members.values() for path in node.missing()]
        return inner if self.seen or not self.path else [self.path, *inner]


def described():
    """The parts of "JSON" by their titles."""
    section = re.search(r"^\.Sh JSON\n(.*?)^\.Sh ", (MANUAL / "wdelta.1").read_text(), re.M | re.S).group(1)
    parts = {}
    for title, text in re.findall(r"^\.Ss ([^\n]*)\n(.*?)(?=^\.Ss |\Z)", section, re.M | re.S):
        root = parts[title.removeprefix("wdelta ")] = Node("")
        for paths, kind in re.findall(r"^\.It (Va .*) Pq (.*)$", text, re.M):
            types, _, optional = kind.partition(", ")
            for path in re.findall(r"Va (\S+)", paths):
                node = root.at(path.replace("[]", ".[]").split("."))
                node.types, node.optional = types.split(" or "), optional == "optional"
    return parts


def is_optional(node):
    """An array is optional when what is said of its elements is."""
    return node.optional or ("[]" in node.members and node.members["[]"].optional)


class Disagreement(Exception):
    pass


def compare(value, node):
    node.seen = True
    if not node.members or node.types:
        if not any(TYPES[kind](value) for kind in node.types):
            raise Disagreement(f"{node.path}: {value!r} is no {' or '.join(node.types)}")
    if "[]" in node.members:
        if not isinstance(value, list):
            raise Disagreement(f"{node.path}: {value!r} is no array")
        for element in value:
            compare(element, node.members["[]"])
    elif node.members and value is not None:
        if not isinstance(value, dict):
            raise Disagreement(f"{node.path}: {value!r} is no object")
        compare_members(value, node)


def compare_members(value, node):
    rest = node.members.get("*")
    for name, inner in value.items():
        member = node.members.get(name)
        if member is None and rest is None:
            raise Disagreement(f"{node.path}.{name} is not described")
        for each in (member, rest if member is None or member.types == ["object"] else None):
            if each is not None:
                compare(inner, each)
    for name, member in node.members.items():
        if name not in value and name != "*" and not is_optional(member):
            raise Disagreement(f"{member.path} is not there")


class JsonTest(testing.Case):
    def make_inputs(self):
        tensors = self.some_weights()
        self.write_weights("old/model.safetensors", tensors)
        self.write_weights("new/model.safetensors", self.moved(tensors[:-1]))
        self.write_weights("new/extra.safetensors", self.some_weights(1))
        self.write("old/config.json", "{}")
        self.write("new/tokenizer.json", "{}")
        self.write("strayed/notes.txt", "mine")

    def make_repositories(self):
        """A model on an emulated Hub, and repositories that lost objects."""
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        files = {"model.safetensors": (self.scratch / "old/model.safetensors").read_bytes(), "config.json": b"{}"}
        self.hub.add_model("org/model", "1" * 40, files)
        for name, checkpoint in (("broken", "old"), ("gone", "new")):
            self.run_ok("push", self.scratch / checkpoint, self.scratch / name)
            shutil.rmtree(self.scratch / name / "objects")

    def environment(self, **more):
        hub = getattr(self, "hub", None)
        return super().environment(**({"HF_ENDPOINT": hub.url, "no_proxy": "*"} if hub else {}), **more)

    def test_documents_are_what_the_manual_says(self):
        self.make_inputs()
        self.make_repositories()
        parts = described()
        self.assertEqual(set(parts), {title for title, _, _ in RUNS}, "parts of JSON in wdelta(1), and runs here")
        for title, code, line in RUNS:
            with self.subTest(line):
                done = self.run_any("--json", *line.split(), cwd=self.scratch) if line.startswith("-") \
                    else self.run_any(*line.split(), "--json", cwd=self.scratch)
                self.assertEqual(done.code, code, done)
                self.assertTrue(done.out, done)
                rows = done.out.splitlines()
                self.assertTrue(len(rows) == 1 or title == "log", done)
                for row in rows:
                    try:
                        compare(json.loads(row), parts[title])
                    except Disagreement as error:
                        self.fail(f"wdelta {line}: {error}\n{row}")
        for title, node in parts.items():
            self.assertEqual(node.missing(), [], f"{title}: described, but no run here prints it")

    def test_every_command_has_a_part(self):
        commands = {command["name"] for command in json.loads(self.run_ok("help", "--json"))["commands"]}
        self.assertLessEqual(commands, {title.split()[0] for title in described()})

    def test_a_path_that_is_no_utf8_is_printed_all_the_same(self):
        self.make_inputs()
        self.run_ok("diff", self.scratch / "old/model.safetensors", self.scratch / "new/model.safetensors", "-o",
                    self.scratch / "delta")
        out = self.run_ok("apply", "--json", self.scratch / "old/model.safetensors", self.scratch / "delta", "-o",
                          os.fsencode(self.scratch) + b"/\xff")
        self.assertTrue(json.loads(out)["output"].endswith("/\N{REPLACEMENT CHARACTER}"))
        for name, printed in ((b"no\x1bsuch", "no\x1bsuch"), (b"no\xffsuch", "no\N{REPLACEMENT CHARACTER}such")):
            done = self.run_any("pull", "--json", name, self.scratch / "out")
            self.assertEqual(json.loads(done.out)["error"]["object"], printed)


def examples():
    """The literal blocks of the manual that use jq, with the names of their pages."""
    for page in sorted(MANUAL.glob("wdelta*.1")):
        for block in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed\n", page.read_text(), re.M | re.S):
            if "jq " in block:
                yield page.name, block.replace("\\e", "\\").replace("\\&", "")


class ExamplesTest(testing.Case):
    def prepare(self, folder):
        """What the manual's examples take for granted: a run, a repository of it, and a directory pulled from that."""
        for step, path in enumerate(self.make_run("fixture/run", "--size", "1M", "--steps", "3"), 1):
            if step < 3:
                self.run_ok("push", "-q", path, folder / "runs/demo", "--step", step)
        for tag, step in (("v1", 2), ("best", 2), ("old", 1)):
            self.run_ok("tag", folder / "runs/demo", tag, f"step:{step}")
        self.run_ok("branch", folder / "runs/demo", "side", "step:1")
        self.run_ok("pull", folder / "runs/demo@step:1", folder / "weights")
        self.write("fixture/weights/notes.txt", "mine")
        self.run_ok("diff", folder / "run/step-0001", folder / "run/step-0002", "-o", folder / "step-2.delta")

    def test_the_examples_with_jq_run(self):
        for program in ("jq", "b3sum"):
            if not shutil.which(program):
                self.skipTest(f"{program} is not installed")
        self.prepare(self.scratch / "fixture")
        (self.scratch / "bin").mkdir()
        os.symlink(testing.WDELTA, self.scratch / "bin/wdelta")
        environment = self.environment(PATH=f"{self.scratch}/bin:{os.environ['PATH']}")
        for number, (page, block) in enumerate(examples()):
            with self.subTest(page):
                folder = self.scratch / f"example-{number}"
                shutil.copytree(self.scratch / "fixture", folder)
                done = subprocess.run(["sh", "-e", "-c", block], cwd=folder, capture_output=True, text=True,
                                      env=environment, check=False)
                self.assertEqual(done.returncode, 0, f"{block}{done.stdout}{done.stderr}")
                self.assertNotIn("jq: ", done.stderr, block)
                self.assertRegex(done.stdout, r"\S", f"{block} prints nothing")
        self.assertEqual({page for page, _ in examples()}, {page.name for page in MANUAL.glob("wdelta*.1")},
                         "pages with an example for jq")


if __name__ == "__main__":
    testing.main()
