# SPDX-License-Identifier: Apache-2.0
"""Every dtype, every shape of a header and every kind of side file comes back bit for bit, through a delta and through
a repository."""

import json
import os
import struct

import safetensors
import testing

# Bits worth a look by width: zeros of both signs, infinities, quiet and signalling NaNs with payloads, the smallest and
# largest denormals, and the ends of integers.
SPECIAL = {
    8: [0, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, (0x7FF0 << 48) + 1, 0x7FF8DEADBEEF1234, 1, (1 << 52) - 1,
        (1 << 63) - 1, (1 << 64) - 1],
    4: [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC0BEEF, 1, 0x007FFFFF, 0x7FFFFFFF, 0xFFFFFFFF],
    2: [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0x7C00, 0xFC00, 0x7C01, 0x7E55, 1, 0x007F, 0x03FF, 0x7FFF, 0xFFFF],
    1: [0, 0x80, 0x7F, 0xFF, 0x7C, 0xFC, 1, 7, 0x78],
}


class DtypesTest(testing.Case):
    def check(self, base, result, name="model.safetensors"):
        """Two files, given as bytes: the second comes back through a delta and through a repository, the first too."""
        at = self.scratch / f"case-{len(list(self.scratch.iterdir()))}"
        old, new = (self.write(f"{at.name}/{step}/{name}", content) for step, content in (("a", base), ("b", result)))
        self.run_ok("diff", old, new, "-o", at / "delta")
        self.run_ok("verify", at / "delta")
        self.run_ok("apply", old, at / "delta", "-o", at / "out")
        self.assert_same_file(at / "out", new)
        differs = self.run_any("diff", "--exit-code", old, new)
        self.assertEqual(differs.code, 0 if base == result else 10, self.told(differs))
        self.check_directories([old.parent, new.parent], at / "repo")
        return at / "delta"

    def check_directories(self, steps, repo):
        commits = [self.run_ok("push", step, repo).strip() for step in steps]
        self.run_ok("verify", repo)
        out = repo.parent / f"{repo.name}-out"
        for step, commit in [*zip(steps, commits), *zip(steps, commits)]:
            self.run_ok("pull", f"{repo}@{commit}", out)
            self.assert_same_tree(out, step)
        self.assert_no_leftovers()

    def contents(self, dtype, elements):
        """Two versions of a tensor: random bits, and each special value turned into each other somewhere."""
        size = safetensors.size_of(dtype, [elements])
        width = safetensors.WIDTH[dtype]
        old, new = bytearray(self.random.randbytes(size)), bytearray(self.random.randbytes(size))
        some = SPECIAL[width]
        for i, (a, b) in enumerate((a, b) for a in some for b in some):
            if (i + 1) * width <= size:
                old[i * width:(i + 1) * width] = a.to_bytes(width, "little")
                new[i * width:(i + 1) * width] = b.to_bytes(width, "little")
        same = self.random.randrange(size // 2)  # a stretch that stays
        new[same:] = old[same:]
        return bytes(old), bytes(new)

    def test_every_dtype(self):
        base, result = [], []
        for dtype in safetensors.BITS:
            for elements in (1024, 4, 70000):
                old, new = self.contents(dtype, elements)
                base.append((f"{dtype}.{elements}", dtype, [elements], old))
                result.append((f"{dtype}.{elements}", dtype, [elements], new))
        self.check(safetensors.encode(base), safetensors.encode(result))
        old, new = self.write("old", safetensors.encode(base)), self.write("new", safetensors.encode(result))
        os.rename(old, self.scratch / "old.safetensors")
        os.rename(new, self.scratch / "new.safetensors")
        report = json.loads(self.run_ok("diff", self.scratch / "old.safetensors", self.scratch / "new.safetensors",
                                        "--json"))
        found = {tensor["name"]: tensor["changed"] for tensor in report["files"][0]["tensors"]}
        expected = {old[0]: safetensors.count_changes(old[1:], new[1:]) for old, new in zip(base, result)}
        self.assertEqual(found, expected)

    def test_a_bit_at_each_place_of_each_dtype(self):
        for dtype in ("BF16", "F32", "F64", "F8_E4M3", "BOOL", "F4"):
            size = safetensors.size_of(dtype, [64])
            old = self.random.randbytes(size)
            tensors = [(f"{bit}", dtype, [64], old) for bit in range(8 * size)]
            moved = []
            for bit in range(8 * size):
                new = bytearray(old)
                new[bit // 8] ^= 1 << bit % 8
                moved.append((f"{bit}", dtype, [64], bytes(new)))
            path = [self.write(f"{dtype}-{i}.safetensors", safetensors.encode(each))
                    for i, each in enumerate((tensors, moved))]
            self.run_ok("diff", *path, "-o", self.scratch / "delta")
            self.run_ok("apply", path[0], self.scratch / "delta", "-o", self.scratch / "out")
            self.assert_same_file(self.scratch / "out", path[1])

    def test_shapes_and_emptiness(self):
        tensors = [("empty", "F32", [0], b""), ("scalar", "BF16", [], b"\x80\x3f"),
                   ("none", "I64", [3, 0, 1 << 40], b""),
                   ("one", "U8", [1, 1, 1, 1, 1, 1, 1, 1], b"\xff"), ("last", "F64", [0, 0], b"")]
        moved = [(name, dtype, shape, bytes(byte ^ 1 for byte in content)) for name, dtype, shape, content in tensors]
        nothing = safetensors.encode([])
        only_empty = safetensors.encode([("empty", "F32", [0], b"")])
        files = [safetensors.encode(tensors), safetensors.encode(moved), nothing, only_empty,
                 safetensors.encode([], metadata={"format": "pt"})]
        for base in files:
            for result in files:
                self.check(base, result)

    def test_headers(self):
        tensors = self.some_weights(count=4, elements=500)
        plain = safetensors.encode(tensors)
        for i in range(1, 9):
            self.check(plain, safetensors.encode(self.moved(tensors), padding=b" " * i))
        others = {
            "newlines behind": safetensors.encode(tensors, padding=b"\n\t \r" * 3),
            "indented": safetensors.encode(tensors, indent=3),
            "with metadata": safetensors.encode(tensors, metadata={"format": "pt", "größe": "\"\\ \n 🙂"}),
            "with a step": safetensors.encode(self.moved(tensors), metadata={"step": "2"}),
            "empty metadata": safetensors.encode(tensors, metadata={}),
            "named in another order": safetensors.encode(tensors, in_header=[each[0] for each in reversed(tensors)]),
            "lying in another order": safetensors.encode(tensors[::-1]),
        }
        for name, content in others.items():
            with self.subTest(name):
                delta = self.check(plain, content)
                self.assertLess(delta.stat().st_size, len(plain), "the tensors are known")
                self.check(content, plain)

    def test_tensors_that_come_go_and_turn(self):
        a, b, c = self.some_weights(count=3, elements=900)
        base = [a, b, c]
        content = b[3]
        others = {
            "removed": [a, c], "added": [a, b, ("new", "F32", [9], self.random.randbytes(36)), c],
            "retyped": [a, (b[0], "F16", [900], content), c], "to bytes": [a, (b[0], "U8", [1800], content), c],
            "reshaped": [a, (b[0], "BF16", [30, 30], content), c],
            "grown": [a, (b[0], "BF16", [901], content + b"xy"), c],
            "renamed": [a, ("other", "BF16", [900], content), c],
            "exchanged": [(c[0], *a[1:]), b, (a[0], *c[1:])], "nothing left": [], "all new": self.some_weights(count=2),
        }
        for name, result in others.items():
            with self.subTest(name):
                self.check(safetensors.encode(base), safetensors.encode(result))
                self.check(safetensors.encode(result), safetensors.encode(base))

    def test_names(self):
        names = ["a b", " ", "", "größe", "模型.权重", "🙂", "it's \"quoted\"", "back\\slash", "tab\there", "line\nbreak",
                 "%s{}",
                 "../up", "/root", "a/b", "x" * 5000, "\u0000", "__metadata", "format", "-o", "ffn{0}"]
        tensors = [(name, "BF16", [50], self.random.randbytes(100)) for name in names]
        delta = self.check(safetensors.encode(tensors), safetensors.encode(self.moved(tensors)))
        self.assertEqual(len(safetensors.decode(delta.read_bytes())), 2, "one for all, as they are small, and the index")
        found = json.loads(self.run_ok("diff", delta.parent / "a", delta.parent / "b", "--json"))
        self.assertEqual([tensor["name"] for tensor in found["files"][0]["tensors"]], names)
        self.run_ok("diff", delta.parent / "a", delta.parent / "b")
        # Names that the container of a delta may want for itself.
        entries = [name for name in safetensors.decode(delta.read_bytes()) if name not in names]
        taken = [(name, "BF16", [50], self.random.randbytes(100))
                 for name in entries + ["__index__", "index", "header"]]
        self.check(safetensors.encode(taken), safetensors.encode(self.moved(taken), metadata={"a": "b"}))

    def test_names_of_files(self):
        names = ["my model.safetensors", "größe 模型 🙂.safetensors", "it's \"quoted\".safetensors", "-o.safetensors",
                 "%s{}.safetensors", ".hidden.safetensors", "sub dir/ä/b.safetensors", "a@b.safetensors", "#?&=.safetensors",
                 " .safetensors"]
        for step in "ab":
            for name in names:
                self.write(f"{step}/{name}", safetensors.encode(self.some_weights()))
                self.write(f"{step}/{name}.txt", f"{step} of {name}")
        a, b = self.scratch / "a", self.scratch / "b"
        self.check_directories([a, b], self.scratch / "my repo")
        self.run_ok("diff", a, b, "-o", self.scratch / "the delta")
        self.run_ok("apply", a, self.scratch / "the delta", "-o", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", b)
        for name in (b"a\\b", b"\xff", b"new\nline"):
            path = os.fsencode(b) + b"/" + name
            with open(path, "wb"):
                pass
            self.run_fails(9, "push", b, self.scratch / "my repo")
            self.run_fails(9, "diff", a, b)
            os.remove(path)

    def test_snapshot_of_a_hub_cache(self):
        base = self.scratch / "models--org--name"
        for step in "ab":
            for name, content in (("model.safetensors", safetensors.encode(self.some_weights())),
                                  ("config.json", step.encode()),
                                  ("original/params.json", b"{}")):
                blob = self.write(base / "blobs" / self.random.randbytes(20).hex(), content)
                link = base / "snapshots" / step / name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.path.relpath(blob, link.parent))
        a, b = base / "snapshots/a", base / "snapshots/b"
        self.check_directories([a, b], self.scratch / "repo")
        self.assertFalse(any(path.is_symlink() for path in (self.scratch / "repo-out").rglob("*")))
        self.run_ok("diff", a, b, "-o", self.scratch / "delta")
        self.run_ok("apply", a, self.scratch / "delta", "-o", self.scratch / "out")
        self.assert_same_tree(self.scratch / "out", b)
        self.run_ok("push", a / "model.safetensors", self.scratch / "single")  # the link itself
        self.run_ok("verify", a / "model.safetensors", self.scratch / "single")
        os.remove(os.path.join(b, os.readlink(b / "model.safetensors")))
        self.run_fails(3, "push", b, self.scratch / "repo", says="model.safetensors")

    def test_side_files_of_every_size(self):
        sizes = [0, 1, 1 << 16, (1 << 16) + 1, 1 << 20, (1 << 20) + 1, 3 << 20]
        for step in "abc":
            self.write_weights(f"{step}/model.safetensors", self.some_weights())
            for size in sizes:
                text = (f"{step} ä\n" * (size // 4 + 1)).encode()[:size]
                kept = "bc" if size % 2 else "ab"  # changes in one step, stays in the other
                same = step in kept
                self.write(f"{step}/text-{size}", text if not same else b"s" * size, executable=size == 1)
                self.write(f"{step}/nested/dir/binary-{size}", self.random.randbytes(size), executable=step == "b")
            for i in range(8):  # more than a manifest takes
                self.write(f"{step}/tokens-{i}", self.random.randbytes(60000) if i % 2 else f"{step}{i}" * 30000)
        self.check_directories([self.scratch / step for step in "abc"], self.scratch / "repo")

    def test_files_that_are_no_safetensors(self):
        good = self.write_weights("good.safetensors", self.some_weights())
        entry = '"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}'
        for i, header in enumerate((
                "", "[]", "{", "{}x", f"{{{entry},{entry}}}", f' {{{entry}}}',
                '{"x":{"dtype":"Q8","shape":[4],"data_offsets":[0,4]}}',
                '{"x":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}}',
                '{"x":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}}',
                '{"x":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}}',
                '{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}',
                '{"x":{"dtype":"U64","shape":[2305843009213693952,8],"data_offsets":[0,4]}}',
                '{"__metadata__":{"a":1}}',
                '{"x":{"dtype":"F4","shape":[3],"data_offsets":[0,4]}}', f'{{"__metadata__":3,{entry}}}')):
            bad = self.write(f"bad-{i}.safetensors", struct.pack("<Q", len(header)) + header.encode() + b"1234")
            with self.subTest(header):
                self.run_fails(5, "diff", good, bad, "-o", self.scratch / "delta", absent=self.scratch / "delta",
                               says=bad.name)
                self.run_fails(5, "diff", bad, good, says=bad.name)
                self.run_fails(5, "push", bad, self.scratch / "repo", says=bad.name)


if __name__ == "__main__":
    testing.main()
