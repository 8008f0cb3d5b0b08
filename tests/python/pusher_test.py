# SPDX-License-Identifier: Apache-2.0
"""Pushes in the background: the loop waits for the copy alone, and hears of errors at its next call. And the callback
for transformers that the module's text offers, with a stand-in for the Trainer.

usage: pusher_test.py LIBRARY WDELTA [options of unittest]"""

import inspect
import os
import re
import sys
import textwrap
import threading
import types
import unittest.mock

import door
from door import Case, Gate, wdelta


def private_bytes():
    """Memory of this process that is no file's."""
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))


class InTheBackground(Case):
    def test_tensors_are_the_callers_again_while_the_push_is_still_on_its_way(self):
        gate = Gate()
        weights = bytearray(range(256)) * 4000
        pushed = bytes(weights)
        pusher = self.pusher(progress=gate)
        self.assertTrue(pusher.push({"w": weights}, step=1))
        self.assertTrue(gate.reached.wait(60))
        self.assertTrue(pusher.running)
        self.assertIsNone(pusher.last)
        weights[:] = bytes(len(weights))
        gate.open.set()
        report = pusher.wait()
        self.assertEqual((pusher.running, pusher.last), (False, report))
        self.assertEqual(self.pulled_tensors("step:1")["w"][2], pushed)
        pusher.push({"w": weights}, step=2)
        pusher.close()
        pusher.close()
        self.assertEqual(pusher.last.parent, report.id)
        self.assertEqual(self.pulled_tensors()["w"][2], bytes(len(pushed)))
        with self.assertRaisesRegex(wdelta.UsageError, "closed"):
            pusher.push({"w": weights})

    def test_options_that_make_no_sense_leave_no_repository_behind(self):
        for options, kind in (({"branches": "x"}, TypeError), ({"tensors": "borrowed"}, wdelta.UsageError),
                              ({"attempts": 0}, wdelta.UsageError)):
            with self.assertRaises(kind):
                self.pusher(**options)
        self.assertFalse(os.path.exists(self.repo))

    def test_nothing_but_a_copy_is_pushed(self):
        pusher = self.pusher()
        self.addCleanup(pusher.close)
        with self.assertRaisesRegex(wdelta.UsageError, "a Pusher copies them"):
            pusher.push({"w": b"1"}, tensors="borrowed")
        with self.assertRaisesRegex(wdelta.UsageError, "a Pusher copies them"):
            self.pusher(tensors="borrowed")
        for unknown in ("cancel", "branches"):
            with self.assertRaisesRegex(TypeError, unknown):
                self.pusher(**{unknown: None})
            with self.assertRaisesRegex(TypeError, unknown):
                pusher.push({"w": b"1"}, **{unknown: None})

    def test_a_repository_is_freed_once_nobody_uses_it(self):
        repository, gate = self.repository(), Gate()
        threads = [threading.Thread(target=repository.push, args=({"w": b"1" * 100},), kwargs={"progress": gate})]
        threads[0].start()
        self.assertTrue(gate.reached.wait(60))
        # The first waits for the push, and the second must for it.
        threads += [threading.Thread(target=each) for each in (repository.drop_references, repository.close)]
        for thread in threads[1:]:
            thread.start()
        while not repository._calls:
            pass
        self.assertTrue(threads[2].is_alive())
        gate.open.set()
        for thread in threads:
            thread.join()
        with self.assertRaisesRegex(wdelta.UsageError, "closed"):
            repository.resolve()
        self.assertEqual(len(self.tips()), 1)

    def test_memory_of_two_copies_stays_from_push_to_push_and_is_given_back_on_demand(self):
        size = 64 << 20
        weights = bytearray(b"\x01") * size
        repository = self.repository()
        before = private_bytes()
        taken = []
        with wdelta.Pusher(repository) as pusher:
            for step in range(4):
                weights[step] ^= 2
                pusher.push({"w": weights})
                pusher.wait()
                taken.append((private_bytes() - before) / size)
            self.assertEqual(pusher.last.change_count, 1)
            self.assertLess(taken[0], 1.5)
            for copies in taken[1:]:
                self.assertGreater(copies, 1.5)
                self.assertLess(copies, 2.5)
            repository.drop_references()
            self.assertLess((private_bytes() - before) / size, 0.5)

    def test_the_second_push_compares_with_a_copy_that_the_first_left(self):
        weights = bytearray(range(256)) * 4000
        reports = []
        with self.pusher(done=reports.append) as pusher:
            pusher.push({"w": weights})
            weights[5] ^= 1
            pusher.push({"w": weights})
        self.assertEqual([report.compared_with_repository for report in reports][1], False)
        self.assertEqual(reports[1].change_count, 1)
        self.assertEqual(reports[1].reference_bytes, reports[1].checkpoint_bytes)

    def test_a_push_that_comes_while_one_runs_waits_or_is_skipped(self):
        gate = Gate()
        pusher = self.pusher(busy="skip", progress=gate)
        self.assertTrue(pusher.push({"w": b"1"}))
        self.assertTrue(gate.reached.wait(60))
        self.assertFalse(pusher.push({"w": b"2"}))
        gate.open.set()
        pusher.wait()
        self.assertTrue(pusher.push({"w": b"3"}))
        pusher.close()
        self.assertEqual(len(self.tips()), 2)
        with self.pusher() as pusher:
            for i in range(4, 7):
                self.assertTrue(pusher.push({"w": b"%d" % i}))
        self.assertEqual(len(self.tips()), 5)

    def test_an_error_is_raised_by_the_next_call_once_and_by_close(self):
        self.push({"w": b"0"}, tag="taken")
        pusher = self.pusher()
        self.assertTrue(pusher.push({"w": b"1"}, tag="taken"))
        with self.assertRaises(wdelta.ConflictError):
            pusher.push({"w": b"2"})
        self.assertTrue(pusher.push({"w": b"3"}, tag="taken"))
        with self.assertRaises(wdelta.ConflictError):
            pusher.wait()
        self.assertIsNone(pusher.wait())
        pusher.push({"w": b"4"}, tag="taken")
        with self.assertRaises(wdelta.ConflictError):
            pusher.close()
        with self.assertRaisesRegex(wdelta.UsageError, "w2: "):
            with self.pusher() as pusher:
                pusher.push({"w": b"5", "w2": None})  # at once: nothing was begun
        with self.assertRaises(ZeroDivisionError):
            with self.pusher(done=lambda report: 1 / 0) as pusher:
                pusher.push({"w": b"6"})

    def test_an_exception_of_the_loop_is_not_hidden_and_what_was_pushed_last_is_kept(self):
        self.push({"w": b"0"}, tag="taken")
        with self.assertRaises(ZeroDivisionError):
            with self.pusher() as pusher:
                pusher.push({"w": b"1"}, step=1)
                pusher.push({"w": b"2"}, tag="taken")
                1 / 0
        self.assertEqual(self.repository().commit("step:1").step, 1)

        def fails(_):
            raise KeyError("of the push")

        for callback in ("progress", "done"):
            with self.assertRaises(ZeroDivisionError):
                with self.pusher(**{callback: lambda *_: fails(None)}) as pusher:
                    pusher.push({"w": b"3"})
                    1 / 0

    def test_a_lost_race_is_tried_again_as_often_as_asked(self):
        real, calls = wdelta._Push.commit, []

        def losing(push, cancel=None):
            calls.append(push)
            if len(calls) < 3:
                raise wdelta.ConflictError("somebody was first")
            return real(push, cancel)

        with unittest.mock.patch.object(wdelta._Push, "commit", losing):
            with self.pusher(attempts=3) as pusher:
                pusher.push({"w": b"1"})
            self.assertTrue(pusher.last.created)
            self.assertEqual(calls, [calls[0]] * 3)
            calls.clear()
            with self.assertRaises(wdelta.ConflictError):
                with self.pusher(attempts=2) as pusher:
                    pusher.push({"w": b"2"})

    def test_a_push_can_be_cancelled_and_the_next_goes_through(self):
        gate = Gate()
        pusher = self.pusher(progress=gate)
        pusher.cancel()
        pusher.push({"w": bytes(range(256)) * 40_000})
        self.assertTrue(gate.reached.wait(60))
        pusher.cancel()
        gate.open.set()
        with self.assertRaises(wdelta.Interrupted):
            pusher.close()
        self.assertEqual(self.tips(), [])
        with self.pusher() as pusher:
            pusher.push({"w": b"1"})
        self.assertEqual(len(self.tips()), 1)

    def test_a_program_that_ends_after_a_push_waits_for_it(self):
        lines = ("import wdelta\n"
                 f"pusher = wdelta.Pusher({self.repo!r}, environment={self.environment!r})\n"
                 "pusher.push({'w': bytes(range(256)) * 4000})\n")
        done = self.run_lines(lines)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(len(self.tips()), 1)


    def test_a_child_that_is_forked_while_a_push_runs_does_not_keep_the_next_one_waiting(self):
        notes, gate = [], Gate()

        def noted(text):
            notes.append(text)
            pusher.cancel()

        pusher = self.pusher(progress=gate)
        self.addCleanup(pusher.close)
        pusher.push({"w": b"1" * 1000})
        self.assertTrue(gate.reached.wait(60))
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # a worker of a DataLoader, say
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        os.close(reading)
        gate.open.set()
        try:
            pusher.wait()
            pusher.push({"w": b"2" * 1000}, note=noted)
            pusher.wait()
        finally:
            os.close(writing)
            os.waitpid(child, 0)
        self.assertEqual((len(self.tips()), notes), (2, []))

    def test_control_c_while_it_waits_does_not_make_it_believe_that_the_push_has_ended(self):
        lines = ("import os, signal, sys, threading, time\n"
                 "import wdelta\n"
                 "gate, reached, waiting = threading.Event(), threading.Event(), threading.Event()\n"
                 "def progress(*_):\n"
                 "    reached.set()\n"
                 "    gate.wait()\n"
                 "def interrupt():\n"
                 "    waiting.wait()\n"
                 "    time.sleep(0.3)\n"
                 "    os.kill(os.getpid(), signal.SIGINT)\n"
                 "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                 f"pusher = wdelta.Pusher({self.repo!r}, progress=progress, environment={self.environment!r})\n"
                 "pusher.push({'w': b'1'})\n"
                 "reached.wait()\n"
                 "for wait in (pusher.wait, pusher.close):\n"
                 "    waiting.clear()\n"
                 "    threading.Thread(target=interrupt).start()\n"
                 "    try:\n"
                 "        waiting.set()\n"
                 "        wait()\n"
                 "    except KeyboardInterrupt:\n"
                 "        print('interrupted', pusher.running)\n"
                 "gate.set()\n"
                 "print(pusher.wait().created, pusher.running)\n"
                 "pusher.push({'w': b'2'})\n"
                 "pusher.close()\n")
        done = self.run_lines(lines)
        self.assertEqual(done.stdout, "interrupted True\ninterrupted True\nTrue False\n")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(self.tips()), 2)

    def test_it_tries_once_at_least(self):
        for attempts in (0, -1, 1.5, None, "2"):
            with self.assertRaisesRegex(wdelta.UsageError, "^attempts: "):
                self.pusher(attempts=attempts)

    def test_where_there_is_no_thread_to_be_had_it_pushes_all_the_same(self):
        failing = unittest.mock.patch.object(threading.Thread, "start",
                                             side_effect=RuntimeError("can't start new thread"))
        pusher = self.pusher()
        with failing:
            self.assertTrue(pusher.push({"w": b"1"}))
            self.assertFalse(pusher.running)
            self.assertTrue(pusher.wait().created)
        with self.assertRaises(KeyboardInterrupt):
            with unittest.mock.patch.object(threading.Thread, "start", side_effect=KeyboardInterrupt()):
                pusher.push({"w": b"3"})
        self.assertFalse(pusher.running)
        pusher.push({"w": b"4"})
        pusher.close()
        self.assertEqual(self.pulled_tensors()["w"][2], b"4")

    def test_what_a_program_pushes_when_it_ends_is_pushed(self):
        for order in (("import wdelta", "atexit.register(save)"), ("atexit.register(save)", "import wdelta")):
            with self.subTest(order=order):
                self.repo = str(self.scratch / order[0][:6])
                lines = ("import atexit\n"
                         "def save():\n"
                         f"    repo, environment = {self.repo!r}, {self.environment!r}\n"
                         "    wdelta.push({'w': b'1'}, repo, environment=environment)\n"
                         "    with wdelta.Pusher(repo, environment=environment) as pusher:\n"
                         "        pusher.push({'w': b'2'})\n"
                         "    room = bytearray(1)\n"
                         "    wdelta.load_into({'w': room}, repo, environment=environment)\n"
                         "    print(bytes(room))\n" + "\n".join(order) + "\n")
                done = self.run_lines(lines)
                self.assertEqual((done.returncode, done.stdout), (0, "b'2'\n"))
                self.assertEqual(len(self.tips()), 2)

    def test_a_program_may_end_while_a_daemon_thread_pushes(self):
        for progress in ("None", "lambda *_: time.sleep(0.02)"):
            lines = ("import os, threading, time\n"
                     "import wdelta\n"
                     "class Last:\n"
                     "    def __del__(self, sleep=time.sleep):\n"
                     "        sleep(0.5)\n"  # of the interpreter's end, when it ends threads that come for its lock
                     "last = Last()\n"
                     "begun = threading.Event()\n"
                     "content = os.urandom(30_000_000)\n"
                     f"repo = wdelta.Repository({self.repo!r}, environment={self.environment!r})\n"
                     "def work():\n"
                     "    begun.set()\n"
                     "    while True:\n"
                     "        repo.push({'w': content}, reference='repository',\n"
                     f"                  progress={progress})\n"
                     "threading.Thread(target=work, daemon=True).start()\n"
                     "begun.wait()\n"
                     "time.sleep(0.1)\n")
            with self.subTest(progress=progress):
                done = self.run_lines(lines)
                self.assertEqual((done.returncode, done.stdout), (0, ""))


class WithTransformers(Case):
    """Runs what the module's text says as it stands there."""

    def setUp(self):
        super().setUp()
        text = inspect.getdoc(wdelta)
        section = text[text.index("With transformers"):text.index("\nErrors\n")]
        code = textwrap.dedent(section[section.index("        import logging"):])
        self.assertIn("class PushCallback", code)

        class Model:
            config = types.SimpleNamespace(to_json_string=lambda: '{"layers": 1}')
            weights = bytearray(range(256)) * 100

            def state_dict(self):
                return {"w": self.weights}

        class Trainer:
            """As much of it as calls callbacks: at every step, at every second a save, and at the end."""

            def __init__(self, model, callbacks):
                self.model, self.callbacks = model, callbacks

            def train(self, is_first_process=True, has_epochs=True):
                state = types.SimpleNamespace(is_world_process_zero=is_first_process, global_step=0, epoch=None)
                for step in range(1, 7):
                    self.model.weights[step] ^= 1
                    state.global_step, state.epoch = step, step / 6 if has_epochs else None
                    if step % 2 == 0:
                        self.tell("on_save", state)
                self.tell("on_train_end", state)

            def tell(self, event, state):
                for callback in self.callbacks:
                    getattr(callback, event)("args", state, "control", model=self.model, optimizer=None)

        class TrainerCallback:
            pass

        transformers = types.ModuleType("transformers")
        transformers.Trainer, transformers.TrainerCallback = Trainer, TrainerCallback
        self.names = {"model": Model()}
        # The repository of the text is of this test, and so is the environment.
        code, count = re.subn(r'PushCallback\("s3://[^"]*"\)', "PushCallback(REPO, environment=ENVIRONMENT)", code)
        self.assertEqual(count, 1)
        self.names.update(REPO=self.repo, ENVIRONMENT=self.environment)
        with unittest.mock.patch.dict(sys.modules, transformers=transformers):
            exec(compile(code, "wdelta.__doc__", "exec"), self.names)

    def check_commit(self, step, meta):
        with self.repository().commit(f"step:{step}") as commit:
            self.assertEqual(commit.meta, meta)
            self.assertEqual(commit.read("config.json"), b'{"layers": 1}')

    def test_the_callback_pushes_each_save(self):
        self.names["trainer"].train()
        self.assertEqual(len(self.tips()), 3)
        self.check_commit(4, {"epoch": str(4 / 6)})
        self.assertEqual(self.pulled_tensors()["w"][2], self.names["model"].weights)

    def test_where_nobody_counts_epochs_the_callback_says_none(self):
        self.names["trainer"].train(has_epochs=False)
        self.assertEqual(len(self.tips()), 3)
        self.check_commit(4, {})

    def test_the_callback_pushes_nothing_in_another_process_than_the_first(self):
        self.names["trainer"].train(is_first_process=False)
        self.assertEqual(self.tips(), [])

    def test_a_push_that_failed_does_not_end_the_training(self):
        real, calls = wdelta._Push.commit, []

        def failing(push, cancel=None):
            calls.append(push)
            if len(calls) == 1:
                raise wdelta.NetworkError("the store: cannot be reached")
            return real(push, cancel)

        with unittest.mock.patch.object(wdelta._Push, "commit", failing), self.assertLogs(level="WARNING") as logged:
            self.names["trainer"].train()
        self.assertIn("cannot be reached", logged.output[0])
        self.assertEqual(len(self.tips()), 2)
        for step in (4, 6):
            self.check_commit(step, {"epoch": str(step / 6)})
        self.assertEqual(self.pulled_tensors()["w"][2], self.names["model"].weights)


if __name__ == "__main__":
    door.main()
