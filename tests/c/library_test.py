# SPDX-License-Identifier: Apache-2.0
"""libwdelta from outside: its laws in C, what the program and independent readers make of what it pushed, what the
shared library shows, and which compilers take the header.

usage: library_test.py WDELTA MAKE_RUN LAWS LIBRARY HEADER
"""
import array
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAWS, LIBRARY, HEADER = sys.argv[3:6]
del sys.argv[3:6]
for folder in ("cli", "services"):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / folder))
import safetensors  # noqa: E402  (the tests' own)
from s3_emulator import S3  # noqa: E402
from testing import Case, main  # noqa: E402

ROWS, COLUMNS = 640, 333


def number(index, step):
    old = (index * 2654435761 & 0xFFFFFFFF) >> 13 & 0xFFFF
    return old + step & 0xFFFF if index % 97 == step % 97 else old


def matrix(first, step):
    return array.array("H", (number(first + i, step) for i in range(ROWS * COLUMNS))).tobytes()


def model(step):
    """What laws.c pushes, in the order that wdelta-library(3), "Layout", gives."""
    return [
        ("count", "I64", [], struct.pack("<q", step)),
        ("empty", "F32", [0, 3], b""),
        ("model.norm", "F32", [COLUMNS], struct.pack(f"<{COLUMNS}f", *(i / 4 for i in range(COLUMNS)))),
        ("model.embed", "BF16", [ROWS, COLUMNS], matrix(0, step)),
        ("model.transposed", "BF16", [ROWS, COLUMNS], matrix(1, step)),
        ("mask", "BOOL", [7], bytes([0, 1, 0, 1, 0, 1, 0])),
    ]


def encode(tensors, metadata):
    for spaces in range(8):
        content = safetensors.encode(tensors, metadata, b" " * spaces)
        if struct.unpack_from("<Q", content)[0] % 8 == 0:
            return content


class Library(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.world = Path(tempfile.mkdtemp(prefix="wdelta-laws-"))
        cls.addClassCleanup(shutil.rmtree, cls.world, ignore_errors=True)
        cls.laws = subprocess.run([LAWS, "all", cls.world], capture_output=True, text=True, timeout=600)

    def test_its_laws_hold(self):
        self.assertEqual(self.laws.returncode, 0, self.laws.stdout + self.laws.stderr)
        self.assertIn("\n0 failures", self.laws.stdout)

    def test_the_program_pulls_what_it_pushed_byte_for_byte_as_the_layout_is_documented(self):
        for step in (1, 4, 7):
            self.run_ok("pull", f"{self.world}/run@step:{step}", self.scratch / "out")
            content = (self.scratch / "out/model.safetensors").read_bytes()
            self.assertEqual(content, encode(model(step), {"format": "pt"}))
            self.assertEqual((self.scratch / "out/config.json").read_text(), '{"model_type": "laws"}\n')
            self.assertEqual(sorted(os.listdir(self.scratch / "out")), [".wdelta", "config.json", "model.safetensors"])
        self.run_ok("verify", self.world / "run")

    def test_shards_are_cut_by_name_and_their_index_is_as_transformers_writes_it(self):
        self.run_ok("pull", self.world / "shards", self.scratch / "out")
        tensors = {tensor[0]: tensor for tensor in model(5)}
        shards = [["count", "empty", "mask"], ["model.embed"], ["model.norm"], ["model.transposed"]]
        places = {}
        for i, names in enumerate(shards):
            name = f"model-{i + 1:05}-of-00004.safetensors"
            content = (self.scratch / "out" / name).read_bytes()
            self.assertEqual(content, encode([tensors[each] for each in names], {"made": "by laws"}), name)
            places.update(dict.fromkeys(names, name))
        total = sum(len(tensor[3]) for tensor in tensors.values())
        index = {"metadata": {"total_size": total}, "weight_map": places}
        self.assertEqual((self.scratch / "out/model.safetensors.index.json").read_text(),
                         json.dumps(index, indent=2, sort_keys=True) + "\n")
        self.assertEqual(safetensors.decode((self.scratch / "out/unet/model.safetensors").read_bytes())["bias"],
                         ("U8", [3], bytes([4, 5, 6])))

    def test_a_push_of_the_same_files_by_the_program_finds_nothing_to_push(self):
        (self.scratch / "c").mkdir()
        (self.scratch / "c/model.safetensors").write_bytes(encode(model(7), {"format": "pt"}))
        (self.scratch / "c/config.json").write_text('{"model_type": "laws"}\n')
        tip = json.loads(self.run_ok("show", self.world / "run", "--json"))
        self.assertEqual(tip["step"], 7)
        pushed = self.run_ok("push", self.scratch / "c", self.world / "run", "--step", 7)
        self.assertEqual(pushed.strip(), tip["commit"])

    def test_the_writer_of_safetensors_itself_makes_the_same_file_and_its_reader_loads_it(self):
        python = os.environ.get("SAFETENSORS_PYTHON", sys.executable)
        if subprocess.run([python, "-I", "-c", "import safetensors.numpy"], capture_output=True).returncode != 0:
            self.skipTest("safetensors and numpy are not here; SAFETENSORS_PYTHON names a Python with them")
        self.run_ok("pull", f"{self.world}/run@step:1", self.scratch / "out")
        program = """
import sys, numpy, safetensors.numpy
old = open(sys.argv[1], "rb").read()
from safetensors import safe_open, deserialize, serialize
pairs = deserialize(old)
names = {"I64": "int64", "F32": "float32", "BF16": "bfloat16", "BOOL": "bool"}
try:
    from safetensors import TensorSpec
    import ctypes
    kept = {name: ctypes.create_string_buffer(bytes(t["data"]), len(t["data"])) for name, t in pairs}
    given = {name: TensorSpec(dtype=names[t["dtype"]], shape=t["shape"], data_ptr=ctypes.addressof(kept[name]),
                              data_len=len(t["data"])) for name, t in reversed(pairs)}
except ImportError:
    given = {name: {"dtype": names[t["dtype"]], "shape": t["shape"], "data": bytes(t["data"])}
             for name, t in reversed(pairs)}
assert bytes(serialize(given, {"format": "pt"})) == old, "another file"
with safe_open(sys.argv[1], "numpy") as opened:
    assert opened.metadata() == {"format": "pt"}
    assert opened.get_tensor("count") == 1
    assert numpy.array_equal(opened.get_tensor("model.norm"), numpy.arange(333, dtype="float32") / 4)
"""
        done = subprocess.run([python, "-I", "-c", program, self.scratch / "out/model.safetensors"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_bytes_of_the_repository_that_were_changed_are_corrupt_and_not_filled_in_silence(self):
        repository = self.scratch / "damaged"
        shutil.copytree(self.world / "run", repository)
        self.assertEqual(subprocess.run([LAWS, "fill", repository, "main"], timeout=60).returncode, 0)
        largest = max((path for path in repository.rglob("objects/*/*") if path.is_file()), key=os.path.getsize)
        content = bytearray(largest.read_bytes())
        content[-1000] ^= 1
        largest.chmod(0o644)
        largest.write_bytes(content)
        done = subprocess.run([LAWS, "fill", repository, "step:1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("digest", done.stderr)

    def test_a_bucket_is_reached_as_the_environment_says_and_without_it_the_key_is_missed(self):
        with S3() as s3:
            environment = self.environment(**s3.environment(), WDELTA_CACHE_DIR=str(self.scratch / "cache"))
            for words in (["push", "s3://bucket/run", "3"], ["fill", "s3://bucket/run", "step:4"]):
                done = subprocess.run([LAWS, *words], env=environment, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(s3.violations, [])
            self.run_ok("pull", "s3://bucket/run@step:4", self.scratch / "out", env=environment)
            content = (self.scratch / "out/model.safetensors").read_bytes()
            self.assertEqual(content, encode(model(4), {"format": "pt"}))
            environment = {name: value for name, value in environment.items() if "KEY" not in name}
            done = subprocess.run([LAWS, "fill", "s3://bucket/run", "main"], env=environment, capture_output=True,
                                  text=True, timeout=120)
            self.assertNotIn(done.returncode, (0, 1), done.stderr)

    def test_the_shared_library_shows_the_functions_of_the_header_and_nothing_else(self):
        shown = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY], check=True,
                               capture_output=True, text=True).stdout.split("\n")
        names = {line.split()[2] for line in shown if line} - {"WDELTA_0"}
        names -= {"WDELTA_0@@WDELTA_0"}
        self.assertTrue(all(name.endswith("@@WDELTA_0") for name in names), names)
        header = Path(HEADER).read_text()
        declared = {word for line in header.split("WDELTA_API ")[1:] for word in [line.split("(")[0].split()[-1]]}
        declared = {name.lstrip("*") for name in declared if name.lstrip("*").startswith("wdelta_")}
        self.assertEqual({name.split("@")[0] for name in names}, declared)
        self.assertIn("wdelta_push_commit", declared)
        dynamic = subprocess.run(["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertIn("soname: [libwdelta.so.0]", dynamic)

    def test_compilers_of_c_and_of_cpp_take_the_header_without_a_word(self):
        source = ('#include "wdelta.h"\n'
                  "int main(void) { wdelta_push_options o = WDELTA_PUSH_OPTIONS_INIT; return (int)o.step; }\n")
        taken = []
        of_c, of_cpp = ("c99", "c11", "c17"), ("c++11", "c++20")
        for compiler, language, standards in (("gcc", "c", of_c), ("clang", "c", of_c), ("g++", "c++", of_cpp),
                                              ("clang++", "c++", of_cpp)):
            if shutil.which(compiler) is None:
                continue
            for standard in standards:
                words = [compiler, "-x", language, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror",
                         "-I", str(Path(HEADER).parent), "-fsyntax-only", "-"]
                done = subprocess.run(words, input=source, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.stderr + done.stdout, "", words)
                taken.append(standard)
        self.assertTrue(taken, "there is no compiler here")


if __name__ == "__main__":
    main()
