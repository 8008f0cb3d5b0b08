# SPDX-License-Identifier: Apache-2.0
"""Arrays of numpy and ml_dtypes through lib/python/wdelta.py.

usage: numpy_test.py LIBRARY WDELTA [options of unittest]

Runs where numpy and ml_dtypes are: in this interpreter, or in an environment that it makes below the build folder.
Exits 77 where they cannot be had."""

import os
import sys
from pathlib import Path

import door
from door import Case, wdelta

PINS = Path(__file__).with_name("numpy_packages.txt")

try:
    import ml_dtypes
    import numpy
except ImportError:
    numpy = None


class Arrays(Case):
    def setUp(self):
        super().setUp()
        self.random = numpy.random.default_rng(5)

    def random_array(self, dtype, shape):
        dtype = numpy.dtype(dtype)
        if dtype == bool:
            return self.random.integers(0, 2, shape).astype(bool)
        count = int(numpy.prod(shape))
        return numpy.frombuffer(self.random.bytes(count * dtype.itemsize), dtype)[:count].reshape(shape).copy()

    def test_every_dtype_keeps_its_bits(self):
        dtypes = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
                  "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64",
                  "C64": "complex64", "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
                  "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
                  "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "F8_E8M0": ml_dtypes.float8_e8m0fnu}
        arrays = {name: self.random_array(dtype, (3, 50)) for name, dtype in dtypes.items()}
        self.push(arrays)
        tensors = self.pulled_tensors()
        self.assertEqual({name: (tensors[name][0], tensors[name][1]) for name in tensors},
                         {name: (name, [3, 50]) for name in dtypes})
        room = {name: numpy.zeros((3, 50), dtype) for name, dtype in dtypes.items()}
        self.load(room)
        for name in dtypes:
            self.assertEqual(tensors[name][2], arrays[name].tobytes(), name)
            self.assertEqual(room[name].tobytes(), arrays[name].tobytes(), name)

    def test_an_array_with_a_mask_is_no_tensor(self):
        masked = numpy.ma.masked_array([1.0, 2.0], [True, False])
        self.push({"w": numpy.zeros(2)})
        for use in (lambda: self.push({"w": masked}), lambda: self.load({"w": masked}),
                    lambda: self.push({"w": wdelta.Typed(masked, "F64")}), lambda: self.push({"w": numpy.ma.masked})):
            with self.assertRaisesRegex(wdelta.UsageError, "^w: is a masked array"):
                use()
        self.assertEqual(len(self.tips()), 1)

    def test_arrays_in_files_are_filled(self):
        values = self.random_array("float32", (4, 5))
        self.push({"w": values})
        room = numpy.memmap(self.scratch / "room", numpy.float32, "w+", shape=(4, 5))
        self.load({"w": room})
        self.assertEqual(room.tobytes(), values.tobytes())
        with self.assertRaisesRegex(wdelta.UsageError, "read-only"):
            self.load({"w": numpy.memmap(self.scratch / "room", numpy.float32, "r", shape=(4, 5))})

    def test_bf16_may_be_in_an_array_of_uint16(self):
        bits = self.random_array("uint16", (4, 5))
        self.push({"w": wdelta.Typed(bits, "BF16")})
        self.assertEqual(self.pulled_tensors()["w"][:2], ("BF16", [4, 5]))
        room = numpy.zeros((4, 5), ml_dtypes.bfloat16)
        self.load({"w": room})
        self.assertEqual(room.tobytes(), bits.tobytes())

    def test_arrays_are_read_and_filled_where_they_are_whatever_their_strides(self):
        base = self.random_array("float32", (40, 30))
        seen = {"transposed": base.T, "reversed": base[::-1, ::-1], "part": base[5:20:3, 7:], "one": base[3, 4],
                "number": numpy.array(2.5), "spread": numpy.broadcast_to(base[0], (3, 30)), "empty": base[:0],
                "fortran": numpy.asfortranarray(base), "single": base[:1, ::7]}
        self.push(seen)
        tensors = self.pulled_tensors()
        for name, array in seen.items():
            self.assertEqual(tensors[name][1:], (list(array.shape), array.tobytes()), name)
        room = numpy.zeros((40, 30), "float32")
        self.load({"transposed": room.T})
        self.assertTrue((room == base).all() or room.tobytes() == base.tobytes())
        room = numpy.full((80, 60), 7, "float32")
        self.load({"fortran": room[::2, 58::-2]})
        self.assertEqual(room[::2, 58::-2].tobytes(), base.tobytes())
        room[::2, 58::-2] = 7
        self.assertTrue((room == 7).all())
        self.load({"number": (number := numpy.zeros(()))})
        self.assertEqual(number, 2.5)

    def test_what_the_library_cannot_take_as_it_is_is_refused(self):
        swapped = numpy.zeros(3, numpy.dtype("float32").newbyteorder())
        crooked = numpy.zeros(3, [("a", "u1"), ("b", "<f4")])["b"]
        for array in (swapped, crooked, numpy.zeros(3, "complex128"), numpy.array(["a"]), numpy.array([None])):
            with self.assertRaisesRegex(wdelta.UsageError, "^w: "):
                self.push({"w": array})
        self.push({"w": numpy.float32(1)})
        fixed = numpy.zeros((), "float32")
        fixed.flags.writeable = False
        for target in (fixed, numpy.float32(0)):
            with self.assertRaisesRegex(wdelta.UsageError, "^w: is read-only"):
                self.load({"w": target})

    def test_two_arrays_of_one_memory_are_tied_and_two_views_that_differ_are_not(self):
        base = self.random_array("float32", (8, 8))
        self.push({"b": base, "a": base[:], "t": base.T, "half": base[:4]}, tied="once")
        self.assertEqual(set(self.pulled_tensors()), {"a", "t", "half"})


if __name__ == "__main__":
    if numpy is None:
        from client_environment import Unreachable, client_environment
        try:
            interpreter = client_environment(door.environments(), PINS)
        except Unreachable as error:
            print(f"python-numpy: skipped: numpy and ml_dtypes cannot be had: {error}")
            sys.exit(77)
        os.execv(interpreter, [interpreter, "-B", *sys.argv])
    door.main()
