# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch through lib/python/wdelta.py, on the CPU and, where there is one, on a CUDA device.

usage: torch_test.py LIBRARY WDELTA [options of unittest]

Runs where torch is: in this interpreter, or in the environment below the build folder that `make check-torch` makes
(WDELTA_CHECK_TORCH=1). That is a download of gigabytes, so nothing else makes it. Exits 77 where there is no torch."""

import os
import sys
import unittest.mock
from pathlib import Path

import door
from door import Case, wdelta

PINS = Path(__file__).with_name("torch_packages.txt")

try:
    import torch
except ImportError:
    torch = None

DTYPES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
          "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
          "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
          "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu"}


def content_of(tensor):
    """The bytes of a tensor, row by row."""
    return bytes(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).tolist())


class Tensors(Case):
    device = "cpu"

    def setUp(self):
        super().setUp()
        if self.device == "cuda":
            there, reason = wdelta.cuda()
            if not torch.cuda.is_available() or not there:
                if os.environ.get("WDELTA_REQUIRE_CUDA") == "1":
                    self.fail(f"there is no CUDA device: {reason}")
                self.skipTest(f"there is no CUDA device: {reason}")
        torch.manual_seed(5)

    def bits(self, dtype, *shape):
        """A tensor of random bits: NaNs with payloads, infinities, denormals."""
        dtype = getattr(torch, dtype)
        if dtype == torch.bool:
            return torch.randint(0, 2, shape, dtype=torch.uint8).view(torch.bool).to(self.device)
        width = torch.empty((), dtype=dtype).element_size()
        raw = torch.randint(0, 256, (*shape[:-1], shape[-1] * width), dtype=torch.uint8)
        return raw.view(dtype).to(self.device)

    def zeros(self, dtype, *shape):
        return torch.zeros_like(self.bits("uint8" if dtype == "bool" else dtype, *shape).view(torch.uint8)).view(
            getattr(torch, dtype))

    def test_every_dtype_keeps_its_bits(self):
        tensors = {name: self.bits(dtype, 3, 40) for name, dtype in DTYPES.items()}
        self.push(tensors)
        pushed = self.pulled_tensors()
        self.assertEqual({name: (dtype, shape) for name, (dtype, shape, _) in pushed.items()},
                         {name: (name, [3, 40]) for name in DTYPES})
        room = {name: self.zeros(dtype, 3, 40) for name, dtype in DTYPES.items()}
        self.load(room)
        for name in DTYPES:
            self.assertEqual(pushed[name][2], content_of(tensors[name]), name)
            self.assertEqual(content_of(room[name]), pushed[name][2], name)

    def test_a_tensor_that_reaches_beyond_its_storage_is_refused(self):
        shrunk = torch.zeros(1000, device=self.device)
        self.push({"w": shrunk[10:20]})
        whole_and_parts = (shrunk, shrunk[10:20], shrunk[:20:2], shrunk[1:2])
        first, none = shrunk[:1], shrunk[5:5]
        shrunk.untyped_storage().resize_(4)
        for tensor in whole_and_parts:
            for use in (self.push, self.load):
                with self.assertRaisesRegex(wdelta.UsageError, "^w: its storage has 4 bytes"):
                    use({"w": tensor})
        self.push({"w": first, "none": none})

    def test_two_numbers_of_four_bits_are_one_element_of_torch(self):
        raw = torch.randint(0, 256, (4, 8), dtype=torch.uint8, device=self.device)
        self.push({"w": raw.view(torch.float4_e2m1fn_x2)})
        self.assertEqual(self.pulled_tensors()["w"], ("F4", [4, 16], content_of(raw)))
        room = torch.zeros_like(raw)
        self.load({"w": room.view(torch.float4_e2m1fn_x2)})
        self.assertTrue(torch.equal(room, raw))

    def test_tensors_are_read_and_filled_where_they_are_whatever_their_strides(self):
        base = torch.randn(40, 30, device=self.device).to(torch.bfloat16)
        seen = {"transposed": base.t(), "part": base[5:20:3, 7:], "row": base[3], "one": base[3, 4], "empty": base[:0],
                "spread": base[0].expand(4, 30),
                "channels": base.reshape(1, 4, 10, 30).to(memory_format=torch.channels_last)}
        self.push(seen)
        pushed = self.pulled_tensors()
        for name, tensor in seen.items():
            self.assertEqual(pushed[name][1:], (list(tensor.shape), content_of(tensor)), name)
        room = torch.full((60, 80), 7.0, dtype=torch.bfloat16, device=self.device)
        self.load({"transposed": room[::2, ::2]})
        self.assertTrue(torch.equal(room[::2, ::2], base.t()))
        room[::2, ::2] = 7
        self.assertTrue((room == 7).all())

    def test_where_the_library_takes_no_gaps_a_copy_without_them_stands_in(self):
        base = torch.randn(40, 30, device=self.device).to(torch.bfloat16)
        with unittest.mock.patch.object(wdelta, "_may_have_gaps", lambda tensor: False):
            self.push({"b": base.t(), "a": base.t(), "part": base[5:20:3, 7:]}, tied="once")
            self.assertEqual({name: content for name, (_, _, content) in self.pulled_tensors().items()},
                             {"a": content_of(base.t()), "part": content_of(base[5:20:3, 7:])})
            room = torch.full((60, 80), 7.0, dtype=torch.bfloat16, device=self.device)
            version = room._version
            self.load({"a": room[::2, ::2], "b": room[::2, ::2]})
        self.assertGreater(room._version, version)
        self.assertTrue(torch.equal(room[::2, ::2], base.t()))
        room[::2, ::2] = 7
        self.assertTrue((room == 7).all())

    def test_a_module_is_pushed_and_filled_as_it_is_and_autograd_is_told(self):
        model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20)).to(self.device)
        report = self.push(model, step=1)
        self.assertEqual(set(self.pulled_tensors()), set(model.state_dict()))
        other = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20)).to(self.device)
        versions = [parameter._version for parameter in other.parameters()]
        loaded = self.load(other, "step:1")
        self.assertEqual(loaded.id, report.id)
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(other.state_dict()[name], tensor), name)
        self.assertTrue(all(parameter._version > version for parameter, version in zip(other.parameters(), versions)))

    def test_tied_weights_are_one_tensor_where_asked(self):
        model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(50, 16), "head": torch.nn.Linear(16, 50, bias=False)})
        model["head"].weight = model["embed"].weight
        model.to(self.device)
        self.push(model)
        self.assertEqual(set(self.pulled_tensors()), {"embed.weight", "head.weight"})
        self.push(model, tied="once")
        self.assertEqual(set(self.pulled_tensors()), {"embed.weight"})
        expected = model["embed"].weight.detach().clone()
        with torch.no_grad():
            model["embed"].weight.zero_()
        self.assertEqual(self.load(model).missing, [])
        self.assertTrue(torch.equal(model["head"].weight, expected))

    def test_training_goes_on_while_weights_are_pushed(self):
        model = torch.nn.Linear(64, 64).to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = []
        with self.pusher() as pusher:
            for step in range(5):
                optimizer.zero_grad()
                model(torch.randn(8, 64, device=self.device)).square().sum().backward()
                optimizer.step()
                pusher.push(model, step=step)
                seen.append(content_of(model.weight))
        for step, content in enumerate(seen):
            self.assertEqual(self.pulled_tensors(f"step:{step}")["weight"][2], content)

    def test_what_the_library_cannot_take_as_it_is_is_refused(self):
        lazy = torch.zeros(2, dtype=torch.complex64).conj()
        for tensor in (torch.zeros(2, device="meta"), torch.zeros(2, 2).to_sparse(), lazy,
                       torch.zeros(2, dtype=torch.complex128)):
            with self.assertRaisesRegex(wdelta.UsageError, "^w: "):
                self.push({"w": tensor})

        class DistributedTensor(torch.Tensor):
            """As DTensor shows itself."""

            full_tensor = None

        with self.assertRaisesRegex(wdelta.UsageError, "full_tensor"):
            self.push({"w": torch.zeros(2).as_subclass(DistributedTensor)})


class TensorsOnCuda(Tensors):
    device = "cuda"

    def test_what_lies_on_the_device_is_compared_there(self):
        weights = self.bits("bfloat16", 1 << 20)
        with self.repository(engine="cuda") as repository:
            for tensors in ("borrowed", "copied"):
                repository.push({"w": weights}, reference="device", tensors=tensors)
                weights.view(torch.int16)[::1000] += 1
                report = repository.push({"w": weights}, reference="device", tensors=tensors)
                self.assertEqual((report.change_count, report.compared_with_repository), (1049, False))
                self.assertEqual(self.pulled_tensors()["w"][2], content_of(weights))

    def test_what_a_stream_has_not_done_yet_is_waited_for(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            tensor = torch.zeros(1 << 24, device=self.device)
            for _ in range(50):
                tensor += 1
            self.push({"w": tensor})
            room = torch.zeros_like(tensor)
            self.load({"w": room})
            total = room.sum()
        self.assertEqual(total.item(), 50 * (1 << 24))


if __name__ == "__main__":
    if torch is None:
        from client_environment import Unreachable, client_environment, finished_environment
        interpreter = finished_environment(door.environments(), PINS)
        if interpreter is None and os.environ.get("WDELTA_CHECK_TORCH") != "1":
            print("python-torch: skipped: there is no torch; `make check-torch` fetches it, some gigabytes")
            sys.exit(77)
        if interpreter is None:
            try:
                interpreter = client_environment(door.environments(), PINS)
            except Unreachable as error:
                print(f"python-torch: skipped: torch cannot be had: {error}")
                sys.exit(77)
        os.execv(interpreter, [interpreter, "-B", *sys.argv])
    door.main()
