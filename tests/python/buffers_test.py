# SPDX-License-Identifier: Apache-2.0
"""lib/python/wdelta.py with nothing but Python: buffers go into commits and come back, and what goes wrong is an
exception of the right kind, with nothing half-done left.

usage: buffers_test.py LIBRARY WDELTA [options of unittest]"""

import array
import copy
import ctypes
import gc
import json
import mmap
import os
import pickle
import random
import shutil
import signal
import socket
import threading
import unittest.mock
from pathlib import Path

import door
from door import Case, wdelta
from s3_emulator import S3, Fault


def numbers(seed=1, count=70_000):
    return array.array("H", random.Random(seed).choices(range(1 << 16), k=count))


class Stores(Case):
    """One that takes connections and never answers."""

    def setUp(self):
        super().setUp()
        server = socket.create_server(("127.0.0.1", 0))
        self.cancel, self.connections = threading.Event(), []

        def serve():
            try:
                while True:
                    self.connections.append(server.accept()[0])
                    self.cancel.set()
            except OSError:
                for connection in self.connections:
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.close)
        self.addCleanup(server.shutdown, socket.SHUT_RDWR)
        self.environment.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.getsockname()[1]}", AWS_ACCESS_KEY_ID="a",
                                AWS_SECRET_ACCESS_KEY="b")
        self.repo = "s3://bucket/run"

    def test_waiting_for_it_can_be_cancelled(self):
        for call in (self.repository, lambda **options: self.push({"w": b"1"}, **options),
                     lambda **options: self.load({"w": bytearray(1)}, "main", **options)):
            self.cancel.clear()
            with self.assertRaises(wdelta.Interrupted):
                call(cancel=self.cancel)

    def test_what_its_progress_throws_ends_it(self):
        told = []

        def progress(*words):
            told.append(words)
            raise KeyError("enough")

        with self.assertRaisesRegex(KeyError, "enough"):
            self.repository(progress=progress)
        self.assertEqual(told, [("opening", 0, 0)])


class Pushes(Case):
    def test_files_are_all_the_bytes_that_they_are_given_as(self):
        wide = array.array("I", [1, 2, 3])
        self.push({}, files={"wide": wide, "every.other": memoryview(b"abcdef")[::2], "list": bytearray(b"xy")})
        self.assertEqual(self.pulled(), {**self.pulled(), "wide": wide.tobytes(), "every.other": b"ace", "list": b"xy"})
        for content in (None, 5, [1]):
            with self.assertRaisesRegex(wdelta.UsageError, "^odd: is "):
                self.push({}, files={"odd": content})

    def test_arrays_of_ctypes_are_buffers(self):
        values = (ctypes.c_float * 3)(1.5, 2, -0.0)
        self.push({"w": values})
        self.assertEqual(self.pulled_tensors()["w"], ("F32", [3], bytes(values)))
        target = (ctypes.c_float * 3)()
        self.load({"w": target})
        self.assertEqual(bytes(target), bytes(values))

    def test_a_push_is_the_checkpoint_that_the_program_pulls(self):
        weights, bias, flags = numbers(), array.array("f", [1.5, -0.0, float("nan")]), bytearray(b"\0\1\1")
        report = self.push({"b.weight": wdelta.Typed(weights, "BF16"), "a.bias": bias,
                            "grid": wdelta.Typed(memoryview(weights).cast("B"), "F32", (5, 7000)),
                            "flags": wdelta.Typed(flags, "BOOL"), "steps": array.array("q", [-1]), "none": b"",
                            "one": wdelta.Typed(array.array("d", [2.5]), "F64", ())},
                           step=7, message="first", author="me@here", meta={"loss": 1.25}, tag="start",
                           files={"config.json": b"{}", "notes/a.txt": "text", "own.py": Path(__file__)},
                           file_metadata={"model": "small"})
        self.assertTrue(report.created)
        self.assertEqual(report.parent, "")
        files = self.pulled("step:7")
        self.assertEqual(set(files), {"model.safetensors", "config.json", "notes/a.txt", "own.py"})
        self.assertEqual((files["config.json"], files["notes/a.txt"]), (b"{}", b"text"))
        self.assertEqual(files["own.py"], Path(__file__).read_bytes())
        tensors = door.safetensors.decode(files["model.safetensors"])
        self.assertEqual(tensors, {
            "b.weight": ("BF16", [70_000], weights.tobytes()), "a.bias": ("F32", [3], bias.tobytes()),
            "grid": ("F32", [5, 7000], weights.tobytes()), "flags": ("BOOL", [3], b"\0\1\1"),
            "steps": ("I64", [1], b"\xff" * 8), "none": ("U8", [0], b""),
            "one": ("F64", [], array.array("d", [2.5]).tobytes())})
        length = int.from_bytes(files["model.safetensors"][:8], "little")
        self.assertEqual(json.loads(files["model.safetensors"][8:8 + length])["__metadata__"],
                         {"format": "pt", "model": "small"})
        with self.repository().commit("start") as commit:
            self.assertEqual((commit.id, commit.step, commit.message, commit.author, commit.meta),
                             (report.id, 7, "first", "me@here", {"loss": "1.25"}))
            self.assertEqual(commit.read("config.json"), b"{}")
            self.assertEqual(commit.read("model.safetensors"), files["model.safetensors"])
            self.assertEqual({tensor.name: (tensor.dtype, list(tensor.shape)) for tensor in commit.tensors},
                             {name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()})
            self.assertEqual({file.path: file.size_bytes for file in commit.files},
                             {path: len(content) for path, content in files.items()})

    def test_elements_narrower_than_a_byte_are_told_by_their_shape(self):
        self.push({"a": wdelta.Typed(b"abc", "F6_E2M3", (2, 2)), "b": wdelta.Typed(b"abcdef", "F6_E3M2", (8,)),
                   "c": wdelta.Typed(b"ab", "F4", (4,))})
        self.assertEqual(self.pulled_tensors(),
                         {"a": ("F6_E2M3", [2, 2], b"abc"), "b": ("F6_E3M2", [8], b"abcdef"), "c": ("F4", [4], b"ab")})
        room = {"a": wdelta.Typed(bytearray(3), "F6_E2M3", (2, 2))}
        self.load(room, strict=False)
        self.assertEqual(room["a"].memory, b"abc")

    def test_a_second_push_stores_what_changed_and_the_same_again_makes_no_commit(self):
        for reference in ("host", "repository"):
            with self.subTest(reference=reference):
                self.repo = str(self.scratch / reference)
                repository = self.repository()
                weights = numbers()
                tensors = {"w": wdelta.Typed(weights, "BF16")}
                first = repository.push(tensors, reference=reference)
                self.assertEqual(repository.reference_bytes > 0, reference == "host")
                for i in range(100):
                    weights[700 * i] ^= 1
                second = repository.push(tensors, reference=reference)
                self.assertEqual((second.parent, second.created), (first.id, True))
                self.assertEqual((second.element_count, second.change_count), (70_000, 100))
                self.assertLess(second.delta_bytes, 2000)
                self.assertEqual(second.compared_with_repository, reference == "repository")
                self.assertEqual(self.pulled_tensors()["w"][2], weights.tobytes())
                again = repository.push(tensors, reference=reference)
                self.assertEqual((again.id, again.created), (second.id, False))
                self.assertEqual(again.parent, first.id)
                repository.drop_references()
                self.assertEqual(repository.reference_bytes, 0)
                weights[3] ^= 5
                self.assertEqual(repository.push(tensors).change_count, 1)

    def test_what_the_program_pushed_and_the_library_pushes_are_the_same_to_both(self):
        tensors = {"w": wdelta.Typed(numbers(), "BF16")}
        id_of_ours = self.push(tensors, step=1).id
        folder = self.scratch / "checkpoint"
        self.run_program("pull", "-q", self.repo, folder)
        self.assertEqual(self.run_program("push", "-q", folder, self.repo, "--step", 1).strip(), id_of_ours)

    def test_elements_that_do_not_lie_side_by_side_are_pushed_and_filled_where_they_are(self):
        room = bytearray(range(240)) * 4
        every_third = memoryview(room)[5:-4:3]
        backwards = memoryview(room)[::-1]
        self.push({"third": every_third, "back": backwards})
        tensors = self.pulled_tensors()
        self.assertEqual(tensors["third"][2], every_third.tobytes())
        self.assertEqual(tensors["back"][2], backwards.tobytes())
        target = bytearray(b"\xee" * 3 * len(every_third))
        self.load({"third": memoryview(target)[1::3]})
        self.assertEqual(bytes(target[1::3]), every_third.tobytes())
        self.assertEqual(set(target[0::3] + target[2::3]), {0xee})

    def test_a_large_state_is_split_into_shards_with_an_index(self):
        tensors = {f"layer.{i}": wdelta.Typed(numbers(i), "F16") for i in range(3)}
        self.push(tensors, shard_bytes=150_000)
        files = self.pulled()
        self.assertEqual(len([path for path in files if path.endswith(".safetensors")]), 3)
        self.assertEqual(set(json.loads(files["model.safetensors.index.json"])["weight_map"]), set(tensors))
        room = {name: wdelta.Typed(array.array("H", bytes(140_000)), "F16") for name in tensors}
        self.load(room)
        self.assertEqual([tensor.memory for tensor in room.values()], [tensor.memory for tensor in tensors.values()])

    def test_tied_tensors_are_stored_each_or_once_and_filled_once(self):
        weights = numbers()
        tied = {"lm_head": wdelta.Typed(weights, "BF16"), "embed": wdelta.Typed(weights, "BF16"),
                "other": wdelta.Typed(numbers(2), "BF16"), "no": b"", "none": b""}
        self.push(tied)
        self.assertEqual(set(self.pulled_tensors()), set(tied))
        self.push(tied, tied="once")
        content = self.pulled()["model.safetensors"]
        self.assertEqual(set(door.safetensors.decode(content)), {"embed", "other", "no", "none"})
        length = int.from_bytes(content[:8], "little")
        self.assertEqual(json.loads(content[8:8 + length])["__metadata__"]["lm_head"], "embed")
        for revision in ("main", "main~1"):
            room = wdelta.Typed(array.array("H", bytes(140_000)), "BF16")
            loaded = self.load({"lm_head": room, "embed": room}, revision)
            self.assertEqual(room.memory, weights)
            self.assertEqual(loaded.missing, [])
        apart = wdelta.Typed(array.array("H", bytes(140_000)), "BF16")
        with self.assertRaisesRegex(wdelta.NotFoundError, "lm_head"):
            self.load({"lm_head": apart})


class Loads(Case):
    def test_any_revision_fills_a_state_dict_and_says_what_it_was(self):
        weights, ids = numbers(), []
        with self.repository() as repository:
            for step in range(3):
                weights[step] ^= 1
                ids.append(repository.push({"w": wdelta.Typed(weights, "BF16")}, step=step).id)
        room = {"w": wdelta.Typed(array.array("H", bytes(140_000)), "BF16")}
        for revision, step in (("step:1", 1), ("main~2", 0), (None, 2), (ids[1][:12], 1), ("main", 2)):
            loaded = self.load(room, revision)
            self.assertEqual((loaded.id, loaded.step), (ids[step], step))
            expected = numbers()
            for i in range(step + 1):
                expected[i] ^= 1
            self.assertEqual(room["w"].memory, expected)
        here = {**self.environment, "WDELTA_REPO": self.repo}
        self.assertEqual(wdelta.load_into(room, "@step:1", environment=here).id, ids[1])
        # A URL is a location as any other, with bytes escaped and an '@' of its own.
        elsewhere = self.scratch / "100% mine@home"
        shutil.copytree(self.repo, elsewhere)
        url = elsewhere.as_uri().replace("%40", "@")
        for url in (url, url.replace("file://", "file://localhost")):
            self.assertEqual(wdelta.load_into(room, url, environment=self.environment).id, ids[2])
            self.assertEqual(wdelta.load_into(room, url + "@step:0", environment=self.environment).id, ids[0])

    def test_names_that_are_missing_are_refused_before_anything_is_written_or_told(self):
        self.push({"a": b"aaaa", "b": b"bbbb"})
        room = {"a": bytearray(4), "c": bytearray(4), "d": bytearray(4)}
        with self.assertRaisesRegex(wdelta.NotFoundError, "^c and 1 more: no tensor of commit [0-9a-f]{12} has that"):
            self.load(room)
        self.assertEqual(set(map(bytes, room.values())), {bytes(4)})
        loaded = self.load(room, strict=False)
        self.assertEqual((loaded.missing, loaded.unexpected), (["c", "d"], ["b"]))
        self.assertEqual(list(room.values()), [b"aaaa", bytes(4), bytes(4)])

    def test_a_file_is_asked_for_by_its_place_and_has_to_be_there(self):
        self.push({"a": b"1"}, weights_path="one.safetensors", files={"config.json": b"{}"})
        one = self.pulled()["one.safetensors"]
        self.push({"a": b"2", "b": b"3"}, weights_path="two.safetensors", files={"one.safetensors": one})
        room = {"a": bytearray(1)}
        for file, content in (("one.safetensors", b"1"), (Path("two.safetensors"), b"2"), (b"one.safetensors", b"1")):
            self.load(room, file=file)
            self.assertEqual(room["a"], content)
        for strict in (True, False):
            with self.assertRaisesRegex(wdelta.NotFoundError, "^tow.safetensors: is no file of commit [0-9a-f]{12}$"):
                self.load(room, file="tow.safetensors", strict=strict)
        with self.assertRaisesRegex(wdelta.NotFoundError, "^b: no tensor of one.safetensors in commit [0-9a-f]{12} "):
            self.load({"b": bytearray(1)}, file="one.safetensors")
        self.assertEqual(self.load({"b": bytearray(1)}, file="one.safetensors", strict=False).missing, ["b"])

    def test_what_the_commit_does_not_have_may_be_called_and_be_anything(self):
        self.push({"a": b"1"})
        for name in ("\x01" * 500, "\x01" * 10_000, "\u2028" * 3000):
            room = {"a": bytearray(1), name: b"read-only"}
            self.assertEqual(self.load(room, strict=False).missing, [name])
            self.assertEqual(room["a"], b"1")

    def test_another_dtype_or_shape_and_memory_that_may_not_be_written_are_refused(self):
        self.push({"a": b"aaaa"})
        for wrong in (bytearray(5), array.array("b", b"aaaa"), wdelta.Typed(bytearray(4), "U8", (2, 2)), b"bbbb"):
            with self.assertRaisesRegex(wdelta.UsageError, "^(.*: )?a: "):
                self.load({"a": wrong})

    def test_a_repository_that_is_not_there_is_not_made_by_looking(self):
        with self.assertRaises(wdelta.NotFoundError) as caught:
            self.load({"a": bytearray(1)})
        self.assertEqual(caught.exception.status, 4)
        self.assertIn(self.repo, caught.exception.message)
        self.assertFalse(Path(self.repo).exists())
        with self.assertRaises(wdelta.UsageError):
            self.load({"a": bytearray(1)}, "")


    def test_tensors_that_share_memory_are_filled_where_what_they_hold_is_the_same(self):
        numbers_of_both = numbers(1, 3_000_000)
        other = array.array("H", numbers_of_both)
        other[-1] ^= 1
        self.push({"a": wdelta.Typed(numbers_of_both, "BF16"), "b": wdelta.Typed(numbers_of_both, "BF16"),
                   "c": wdelta.Typed(other, "BF16")})
        room = wdelta.Typed(array.array("H", bytes(6_000_000)), "BF16")
        self.load({"a": room, "b": room})
        self.assertEqual(room.memory, numbers_of_both)
        with self.assertRaisesRegex(wdelta.UsageError, '^c: is to lie in the memory of "a", and is another tensor'):
            self.load({"a": room, "c": room})
        for state in ({"a": room, "c": room}, {"c": room, "gone": room}):
            state.pop("a", None)
            self.load(state)
            self.assertEqual(room.memory, other)

    def test_tensors_that_overlap_in_memory_are_refused_and_those_that_lie_between_each_other_are_not(self):
        self.push({"a": bytes([1] * 6), "b": bytes([2] * 6), "c": bytes([3] * 6)})
        room = memoryview(bytearray(30))
        for overlapping in ({"a": room[:6], "b": room[3:9]}, {"a": room[:6], "b": room[5:11]},
                            {"a": room[0:12:2], "b": room[4:10]}, {"a": room[0:18:3], "b": room[17:11:-1]},
                            {"a": room[0:6], "c": room[6:12], "b": room[5::-1]},
                            {"a": room[0:24:4], "c": room[1:25:4], "b": room[3:9]}):
            with self.assertRaisesRegex(wdelta.UsageError, '^[abc]: overlaps "[abc]" in memory'):
                self.load(overlapping)
        self.assertEqual(bytes(room), bytes(30))
        self.load({"a": room[0:18:3], "b": room[1:19:3], "c": room[17:0:-3]})
        self.assertEqual(bytes(room), bytes([1, 2, 3] * 6) + bytes(12))
        self.load({"a": room[0:6], "b": room[6:12], "c": room[12:18]})
        self.assertEqual(bytes(room[:18]), bytes([1] * 6 + [2] * 6 + [3] * 6))


class Damaged(Case):
    def objects(self):
        return sorted((path for path in Path(self.repo, "objects").rglob("*") if path.is_file()),
                      key=lambda path: path.stat().st_size)

    def damage(self, path, change):
        content = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(change(content))
        self.assertNotEqual(path.read_bytes(), content)

    def test_a_header_that_is_not_what_was_pushed_is_corrupt_and_not_the_callers_mistake(self):
        for old, new in ((b'"w"', b'"v"'), (b"[1000]", b"[1001]"), (b'"I8"', b'"U8"'), (b'"w"', b'"x"')):
            with self.subTest(header=new):
                self.repo = str(self.scratch / f"repo-{new.hex()}")
                self.push({"w": wdelta.Typed(bytes(1000), "I8"), "x.y": b"1"})
                for path in self.objects():
                    self.damage(path, lambda content: content.replace(old, new, 1))
                for strict in (True, False):
                    target = bytearray(b"\7" * 1000)
                    with self.assertRaises(wdelta.CorruptError):
                        self.load({"w": wdelta.Typed(target, "I8")}, strict=strict)

    def test_a_file_that_is_rebuilt_of_a_damaged_base_is_named_and_no_object_that_is_whole(self):
        content = bytearray(random.Random(1).choices(range(256), k=300_000))
        for step in range(3):
            content[step] ^= 1
            commit = self.push({"w": content}, step=step).id
        self.damage(self.objects()[-1], lambda content: content[:50_000] + b"damaged" + content[50_007:])
        for use in (lambda: self.load({"w": bytearray(300_000)}),
                    lambda: self.repository().commit().read("model.safetensors")):
            with self.assertRaisesRegex(wdelta.CorruptError, f"@{commit[:12]}/model.safetensors: is not what it"):
                use()


    def test_an_object_that_is_gone_is_damage_and_proves_that_nothing_is_missing(self):
        with S3() as s3:
            environment = {**self.environment, **s3.environment()}
            with wdelta.Repository("s3://bucket/run", environment=environment) as repository:
                repository.push({"w": bytes(random.Random(1).choices(range(256), k=6_000_000))})
                for strict in (True, False):
                    with repository.commit() as commit:
                        bucket, kept = s3.buckets["bucket"], dict(s3.buckets["bucket"])
                        for key in [key for key in kept if "/objects/" in key]:
                            del bucket[key]
                        with self.assertRaises(wdelta.CorruptError) as caught:
                            commit.load_into({"other": bytearray(1)}, strict=strict)
                        bucket.update(kept)
                    self.assertIn("is not there", caught.exception.message)


class Refusals(Case):
    def test_what_cannot_be_said_or_read_is_refused_by_its_name(self):
        closed = mmap.mmap(-1, 10)
        closed.close()
        for state, options, kind, message in (
                ({"a": b"1", "layer.7": closed}, {}, wdelta.UsageError, "^layer.7: its memory cannot be had"),
                ({"a\udc80": b"1"}, {}, wdelta.UsageError, "a.udc80"),
                ({"a": wdelta.Typed(b"", "U8", (2**64 + 5, 0))}, {}, wdelta.UsageError, "^a: its shape has 1844"),
                ({"a": wdelta.Typed(b"", "U8", (-1, 0))}, {}, wdelta.UsageError, "^a: its shape has -1"),
                ({}, {"meta": {"loss": None}}, wdelta.UsageError, "loss"),
                ({}, {"meta": {"good": 1, "bad": b"\xff"}}, wdelta.UsageError, "bad"),
                ({}, {"file_metadata": {"bad": b"\xff"}}, wdelta.UsageError, "bad"),
                ({}, {"create": []}, wdelta.UsageError, "create"),
                ({}, {"meta": [1]}, wdelta.UsageError, "^meta: is no mapping but list"),
                ({}, {"file_metadata": "x"}, wdelta.UsageError, "^file_metadata: is no mapping"),
                ({}, {"files": ["a"]}, wdelta.UsageError, "^files: is no mapping"),
                ({}, {"files": {"a": "\udc80"}}, wdelta.UsageError, "^a: is no text"),
                ({}, {"environment": ["A"]}, wdelta.UsageError, "^environment: is no mapping"),
                ({}, {"environment": {"A": None}}, wdelta.UsageError, "^environment.'A'.: is None"),
                ({}, {"files": {"c.json": self.scratch / "none"}}, wdelta.NotFoundError, "^c.json: .*none"),
                ({}, {"files": {"c.json": self.scratch}}, wdelta.LocalError, "^c.json: ")):
            with self.assertRaisesRegex(kind, message):
                self.push(state, **options)
        for garbage in (b"garbage", b"\x10\0\0\0\0\0\0\0{}", b""):
            with self.assertRaisesRegex(wdelta.CorruptError, "^adapter.safetensors: ") as caught:
                self.push({"a": b"1"}, files={"adapter.safetensors": garbage})
            self.assertNotIn("--wait-stable", caught.exception.hint)

    def test_a_location_may_be_bytes_and_need_not_be_utf8(self):
        place = os.fsencode(self.scratch) + b"/caf\xe9"
        for location in (place, os.fsdecode(place), Path(os.fsdecode(place))):
            report = wdelta.push({"a": b"1"}, location, environment=self.environment)
            room = bytearray(1)
            self.assertEqual(wdelta.load_into({"a": room}, location, environment=self.environment).id, report.id)
        self.assertEqual(wdelta.load_into({"a": room}, place + b"@main", environment=self.environment).id, report.id)

    def test_an_environment_may_have_an_entry_without_a_name(self):
        self.environment[""] = "x=y"
        self.assertTrue(self.push({"a": b"x"}).created)
        nameless = {b"": b"x=y", **{name.encode(): value.encode() for name, value in self.environment.items()}}
        with unittest.mock.patch.object(os, "environb", nameless):
            self.assertTrue(self.push({"a": b"y"}, environment=None).created)

    def test_an_array_on_its_threads_own_stream_is_not_filled_by_another_thread(self):
        class OnADevice:
            __cuda_array_interface__ = {"typestr": "|u1", "shape": (1,), "data": (4096, False), "version": 3, "stream": 2}

        self.push({"a": b"x"})
        with self.repository() as repository, repository.commit() as commit:
            self.assertEqual(commit.load_into({"b": OnADevice()}, strict=False).missing, ["b"])
            with self.assertRaisesRegex(wdelta.UsageError, "^a: is on the default stream of its own thread"):
                commit.load_into({"a": OnADevice()})

    def test_a_handle_cannot_be_copied(self):
        with self.repository() as repository:
            repository.push({"a": b"x"})
            with repository.commit() as commit:
                for handle in (repository, commit):
                    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                        with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                            copied(handle)

    def test_what_is_no_tensor_is_refused_by_its_name(self):
        for value in (None, 5, "text", [1, 2], object(), array.array("u", "ab")):
            with self.assertRaisesRegex(wdelta.UsageError, "^model.step: ") as caught:
                self.push({"a": b"x", "model.step": value})
            self.assertEqual(caught.exception.status, 2)
        with self.assertRaisesRegex(wdelta.UsageError, "is no mapping"):
            self.push([b"x"])
        with self.assertRaisesRegex(wdelta.UsageError, "is no name"):
            self.push({5: b"x"})
        with self.assertRaisesRegex(wdelta.UsageError, "shape is 4"):
            wdelta.Typed(b"abcd", "U8", 4)
        for wrong in (wdelta.Typed(b"ab", ["BF16"]), wdelta.Typed(b"ab", b"BF16"), wdelta.Typed(b"abc", "BF16"),
                      wdelta.Typed(b"abc", "BF16", (2,)), wdelta.Typed(b"abc", "Q4"),
                      wdelta.Typed(memoryview(b"abcdef")[::2], "BF16", (1,))):
            with self.assertRaisesRegex(wdelta.UsageError, "^w: "):
                self.push({"w": wrong})
        self.assertEqual(self.tips(), [])

    def test_options_that_make_no_sense_are_refused(self):
        for options in ({"reference": "elsewhere"}, {"tensors": "moved"}, {"tied": "never"}, {"anchor": "perhaps"},
                        {"step": -1}, {"step": 1 << 64}, {"step": 1.5}, {"step": "7"}, {"shard_bytes": 1 << 64},
                        {"threads": -1}, {"threads": 1 << 32}, {"transfers": -1}, {"bytes_per_second": 1 << 64},
                        {"create": "all"}, {"branch": "..bad.."}, {"engine": "steam"}, {"message": "a\0b"}):
            with self.assertRaises((wdelta.UsageError, wdelta.UnsupportedError), msg=options):
                self.push({"a": b"x"}, **options)
        with self.assertRaises(TypeError):
            self.push({"a": b"x"}, colour="red")

    def test_a_copy_on_a_device_is_refused_where_there_is_none(self):
        if wdelta.cuda()[0]:
            self.skipTest("there is a CUDA device")
        with self.assertRaisesRegex(wdelta.UnsupportedError, "CUDA") as caught:
            self.push({"a": b"x"}, reference="device")
        self.assertEqual(caught.exception.status, 9)
        self.assertEqual(self.tips(), [])

    def test_a_tag_that_is_taken_is_a_conflict_with_a_hint(self):
        self.push({"a": b"x"}, tag="v1")
        with self.assertRaises(wdelta.ConflictError) as caught:
            self.push({"a": b"y"}, tag="v1")
        self.assertEqual(caught.exception.status, 7)
        self.assertIn("v1", str(caught.exception))

    def test_a_handle_that_is_closed_or_of_another_process_is_not_used(self):
        repository = self.repository()
        repository.push({"a": b"x"})
        child = os.fork()
        if child == 0:  # its copy of the handle is the parent's: neither used nor freed
            try:
                repository.push({"a": b"y"})
            except wdelta.UsageError as error:
                del repository
                gc.collect()
                os._exit(0 if "parent" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(repository.push({"a": b"z"}).created)
        repository.close()
        repository.close()
        with self.assertRaisesRegex(wdelta.UsageError, "closed"):
            repository.push({"a": b"y"})
        commit = self.repository().commit()
        commit.close()
        for use in (lambda: commit.load_into({}), lambda: commit.load_into({"b": bytearray(1)}, strict=False),
                    lambda: commit.read("model.safetensors")):
            with self.assertRaisesRegex(wdelta.UsageError, "^Commit: is closed"):
                use()


class Breaks(Case):
    def test_an_exception_in_the_progress_of_a_repository_ends_one_call_of_it(self):
        with S3() as s3:
            calls = []

            def progress(*words):
                calls.append(words)
                if len(calls) == 1:
                    raise KeyError("once")

            repository = wdelta.Repository("s3://bucket/run", environment={**self.environment, **s3.environment()},
                                           progress=lambda *words: progress(*words) if s3.faults else None)
            self.addCleanup(repository.close)
            commit = repository.push({"w": b"1"}).id
            for attempt in range(3):
                s3.faults = [Fault("status:500", 100_000 if attempt == 0 else 1, "")]
                if attempt == 0:
                    with self.assertRaises(KeyError):
                        repository.resolve()
                else:
                    self.assertEqual(repository.resolve(), commit)
            self.assertGreater(len(calls), 1)

    def test_a_call_that_waits_for_another_one_of_the_same_repository_can_be_cancelled(self):
        repository, enough = self.repository(), threading.Event()
        repository.push({"w": b"1"})
        enough.set()
        with repository._listener._turn:
            with self.assertRaises(wdelta.Interrupted):
                repository._listener.call(enough, repository, self.fail)
        self.assertTrue(repository.resolve())

    def test_what_has_a_cancel_can_be_cancelled(self):
        """A repository has none: its calls take an event."""
        repository = self.repository()
        self.assertFalse(hasattr(repository, "cancel"))
        repository.push({"w": b"1"})
        with repository.commit() as commit:
            commit.cancel()
            with self.assertRaises(wdelta.Interrupted):
                commit.read(commit.files[0].path)
        commit.cancel()  # once it is closed: nothing

    def test_an_exception_in_progress_cancels_and_is_what_the_push_raises(self):
        class Enough(Exception):
            pass

        def progress(label, done, total):
            seen.append((label, done, total))
            raise Enough()

        first = self.push({"w": wdelta.Typed(numbers(1, 4_000_000), "BF16")}).id
        seen = []
        with self.assertRaises(Enough):
            self.push({"w": wdelta.Typed(numbers(2, 4_000_000), "BF16")}, progress=progress)
        self.assertEqual(self.tips(), [first])
        self.assertTrue(all(isinstance(label, str) and done >= 0 for label, done, total in seen))
        seen = []
        with self.assertRaises(Enough):
            self.load({"w": wdelta.Typed(array.array("H", bytes(8_000_000)), "BF16")}, progress=progress)

    def test_an_exception_that_comes_too_late_to_cancel_is_raised_all_the_same(self):
        real = wdelta._call

        def finished_first(*arguments):
            real(*arguments)
            listener.now.error = ZeroDivisionError()

        with self.repository() as repository, wdelta._Push(repository) as push:
            listener = push._listener
            push.add_all({"w": b"x"})
            with unittest.mock.patch.object(wdelta, "_call", finished_first):
                with self.assertRaises(ZeroDivisionError):
                    push.commit()
        self.assertEqual(len(self.tips()), 1)

    def test_an_event_that_is_set_cancels(self):
        enough = threading.Event()
        enough.set()
        with self.assertRaises(wdelta.Interrupted) as caught:
            self.push({"w": wdelta.Typed(numbers(1, 4_000_000), "BF16")}, cancel=enough,
                      progress=lambda *_: enough.wait(1))
        self.assertEqual(caught.exception.status, 130)
        self.assertEqual(self.tips(), [])

    def test_control_c_ends_a_push_and_leaves_the_branch_where_it_was(self):
        lines = ("import os, signal, sys, time\n"
                 "import wdelta\n"
                 "def progress(*_):\n"
                 "    os.kill(os.getpid(), signal.SIGINT)\n"
                 "    time.sleep(0.2)\n"
                 "try:\n"
                 f"    wdelta.push({{'w': bytes(range(256)) * 40000}}, {self.repo!r}, progress=progress,\n"
                 f"                environment={self.environment!r})\n"
                 "except KeyboardInterrupt:\n"
                 "    sys.exit(5)\n")
        done = self.run_lines(lines)
        self.assertEqual(done.returncode, 5, done.stdout)
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.tips(), [])

    def test_the_module_is_imported_where_there_is_no_library_and_says_what_to_do(self):
        lines = ("import wdelta\n"
                 "try:\n    wdelta.library_version()\n"
                 "except wdelta.NotFoundError as error:\n    print(error.hint)\n")
        done = self.run_lines(lines, WDELTA_LIBRARY=self.scratch / "libwdelta.so")
        self.assertEqual(done.stdout, "install it, or set WDELTA_LIBRARY to the path of libwdelta.so\n")

    def test_the_library_is_found_beside_the_module_and_below_the_prefix_that_it_is_installed_under(self):
        library = Path(os.environ["WDELTA_LIBRARY"])
        lines = "import wdelta; print(wdelta._library()._name)"
        for module, beside in (("share/wdelta/python", "lib/x86_64-linux-gnu/libwdelta.so"),
                               ("share/wdelta/python", "lib/libwdelta.so"), ("any", "any/libwdelta.so.0")):
            with self.subTest(library=beside):
                prefix = self.scratch / beside.replace("/", "-")
                place = prefix / beside
                place.parent.mkdir(parents=True)
                place.symlink_to(library)
                (prefix / module).mkdir(parents=True, exist_ok=True)
                shutil.copy(wdelta.__file__, prefix / module)
                done = self.run_lines(lines, WDELTA_LIBRARY="", PYTHONPATH=prefix / module)
                self.assertEqual(done.stdout, f"{place}\n")

    def test_the_library_says_what_it_is(self):
        self.assertEqual(wdelta.library_version(), self.run_program("--version").split()[1])
        self.assertIn(wdelta.engine(), ("avx512", "avx2", "scalar", "cuda"))
        there, reason = wdelta.cuda()
        self.assertIsInstance(there, bool)
        self.assertTrue(reason)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    door.main()
