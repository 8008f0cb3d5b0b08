# SPDX-License-Identifier: Apache-2.0
"""The structs and functions of lib/python/wdelta.py are those of wdelta.h, asked of a C compiler.

usage: layout_test.py LIBRARY WDELTA [options of unittest]"""

import ctypes
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import door
from door import wdelta

INCLUDE = door.ROOT / "lib" / "include"
STRUCTS = {wdelta._Error: "wdelta_error", wdelta._Callbacks: "wdelta_callbacks",
           wdelta._RepositoryOptions: "wdelta_repository_options", wdelta._Tensor: "wdelta_tensor",
           wdelta._PushOptions: "wdelta_push_options", wdelta._PushReport: "wdelta_push_report",
           wdelta._CommitSummary: "wdelta_commit_summary", wdelta._File: "wdelta_file",
           wdelta._TensorDescription: "wdelta_tensor_description"}
# What this door has no use for: buffers come as they are, the environment is a mapping.
UNUSED = {"wdelta_status_text", "wdelta_environment_of_process", "wdelta_push_add_dlpack",
          "wdelta_push_add_dlpack_versioned"}


class Layout(unittest.TestCase):
    def setUp(self):
        # Without its comments, which have functions and numbers as well.
        self.header = re.sub(r"/\*.*?\*/", "", (INCLUDE / "wdelta.h").read_text(), flags=re.DOTALL)

    def test_every_struct_lies_as_the_compiler_has_it(self):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("there is no C compiler (cc)")
        self.assertEqual(set(re.findall(r"typedef struct (\w+) \{", self.header)), set(STRUCTS.values()))
        lines, expected = [], []
        for struct, name in STRUCTS.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            expected.append(f"{name} {ctypes.sizeof(struct)}")
            for member, _ in struct._fields_:
                at = getattr(struct, member)
                lines.append(f'printf("{name}.{member} %zu %zu\\n", offsetof({name}, {member}), '
                             f"sizeof((({name}*)0)->{member}));")
                expected.append(f"{name}.{member} {at.offset} {at.size}")
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "layout.c")
            source.write_text("#include <stdio.h>\n#include <stddef.h>\n#include <wdelta.h>\nint main(void) {\n"
                              + "\n".join(lines) + "\nreturn 0;\n}\n")
            subprocess.run([compiler, "-I", INCLUDE, source, "-o", Path(folder, "layout")], check=True)
            told = subprocess.run([Path(folder, "layout")], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(told.splitlines(), expected)

    def test_every_function_of_the_header_is_known_with_as_many_arguments(self):
        declared = re.findall(r"WDELTA_API\s+[\w\s*]*?\b(wdelta_\w+)\(([^)]*)\);", self.header)
        counts = {name: 0 if arguments.strip() in ("", "void") else arguments.count(",") + 1
                  for name, arguments in declared}
        known = {name: len(arguments) + 1 for name, arguments in wdelta._CHECKED.items()}
        known |= {name: len(described) - 1 for name, described in wdelta._PLAIN.items()}
        self.assertEqual(known, {name: count for name, count in counts.items() if name not in UNUSED})
        self.assertLessEqual(UNUSED, counts.keys())

    def test_every_status_has_its_exception_and_every_choice_its_number(self):
        numbers = {name: int(number) for name, number in re.findall(r"\b(WDELTA_\w+) = (\d+)", self.header)}

        def of(prefix):
            return {name.removeprefix(prefix).lower(): number for name, number in numbers.items()
                    if name.startswith(prefix)}

        statuses = numbers["WDELTA_DONE"], numbers["WDELTA_INTERRUPTED"]
        first, last = list(numbers).index("WDELTA_DONE"), list(numbers).index("WDELTA_INTERRUPTED")
        faults = {name: numbers[name] for name in list(numbers)[first + 1:last + 1]}
        self.assertEqual(statuses, (0, 130))
        self.assertEqual({kind.status: f"WDELTA_{self.shouted(kind)}" for kind in wdelta._ERRORS.values()},
                         {number: name for name, number in faults.items()})
        self.assertEqual(of("WDELTA_TENSORS_"), wdelta._TENSORS)
        self.assertEqual(of("WDELTA_REFERENCE_"), wdelta._REFERENCES)
        self.assertEqual(of("WDELTA_ANCHOR_"), wdelta._ANCHORS)
        self.assertEqual(of("WDELTA_CREATE_"), {"nothing": wdelta._CREATE[None], "repository": wdelta._CREATE[True],
                                                "bucket": wdelta._CREATE["bucket"],
                                                "private_bucket": wdelta._CREATE["private bucket"]})
        self.assertEqual((numbers["WDELTA_HOST"], numbers["WDELTA_CUDA"]), (wdelta._HOST, wdelta._CUDA))

    @staticmethod
    def shouted(kind):
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__.removesuffix("Error")).upper()


if __name__ == "__main__":
    door.main()
