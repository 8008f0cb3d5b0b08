# SPDX-License-Identifier: Apache-2.0
"""lib/python/wdelta.py where something comes in between: handlers of signals, forks, callbacks that call back, the end
of the interpreter. And what a call that failed leaves alive.

usage: lifetimes_test.py LIBRARY WDELTA [options of unittest]"""

import array
import contextlib
import gc
import os
import signal
import threading
import time
import weakref

import door
from door import Case, Gate, wdelta


class Handlers(Case):
    """A program gets a signal at a chosen moment: what a handler calls waits for others, and never for what it came in
    between of."""

    def run_with_handler(self, function, handler, call):
        """A signal comes while the library is in `function`, and 0.2 seconds before that ends."""
        self.push({"w": b"1"})
        done = self.run_lines("import os, signal, time\n"
                              "import wdelta\n"
                              f"repo = wdelta.Repository({self.repo!r}, environment={self.environment!r})\n"
                              "commit = repo.commit()\n"
                              "plain, closed = wdelta._plain, []\n"
                              "def interrupted(name, *arguments):\n"
                              f"    if name == {function!r}:\n"
                              "        os.kill(os.getpid(), signal.SIGTERM)\n"
                              "        time.sleep(0.2)\n"
                              "    result = plain(name, *arguments)\n"
                              "    if name == 'wdelta_close':\n"
                              "        closed.append('freed')\n"
                              f"    elif name == {function!r}:\n"
                              "        closed.append('called')\n"
                              "    return result\n"
                              "def handle(*_):\n"
                              f"    {handler}\n"
                              "signal.signal(signal.SIGTERM, handle)\n"
                              "wdelta._plain = interrupted\n"
                              "try:\n"
                              f"    {call}\n"
                              "except wdelta.UsageError as error:\n"
                              "    print(error)\n"
                              "print(*closed)\n")
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_a_repository_is_closed_by_a_handler_that_comes_between_its_own_call(self):
        for function, call in (("wdelta_commit_open", "repo.commit()"), ("wdelta_resolve", "repo.resolve()"),
                               ("wdelta_push_begin", "repo.push({'w': b'2'})"),
                               ("wdelta_reference_bytes", "repo.reference_bytes"),
                               ("wdelta_drop_references", "repo.drop_references()")):
            with self.subTest(call=call):
                self.assertEqual(self.run_with_handler(function, "repo.close()", f"{call}; repo.resolve()"),
                                 "Repository: is closed\ncalled freed\n")

    def test_a_commit_is_closed_by_a_handler_that_comes_between_its_own_call(self):
        for function in ("wdelta_commit_read_size", "wdelta_commit_read"):
            with self.subTest(function=function):
                told = self.run_with_handler(function, "commit.close()", "commit.read(commit.files[0].path)")
                self.assertIn(told, ("called\n", "Commit: is closed\ncalled\n"))

    def test_a_pusher_that_a_handler_closes_while_push_waits_says_that_it_is_closed(self):
        done = self.run_lines("import os, signal, threading\n"
                              "import wdelta\n"
                              f"pusher = wdelta.Pusher({self.repo!r}, environment={self.environment!r})\n"
                              "class Waited(threading.Event):\n"
                              "    def wait(self):\n"
                              "        if not signals:\n"
                              "            signals.append(signal.SIGTERM)\n"
                              "            os.kill(os.getpid(), signal.SIGTERM)\n"
                              "        return super().wait()\n"
                              "signals = []\n"
                              "signal.signal(signal.SIGTERM, lambda *_: pusher.close())\n"
                              "pusher.push({'w': b'1'})\n"
                              "pusher._begun.is_over.__class__ = Waited\n"
                              "try:\n"
                              "    pusher.push({'w': b'2'})\n"
                              "except wdelta.UsageError as error:\n"
                              "    print(error)\n"
                              "print(pusher.last.created)\n")
        self.assertEqual((done.returncode, done.stdout), (0, "Pusher: is closed\nTrue\n"))
        self.assertEqual(len(self.tips()), 1)


class Forks(Case):
    def in_a_child(self, work):
        """Whether `work` is true in a child of this process, which has a quarter of a minute for it."""
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(15)
            code = 2
            with contextlib.suppress(BaseException):
                code = 0 if work() else 1
            os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_child_has_nothing_to_wait_for_of_a_push_that_its_parent_began(self):
        gate = Gate()
        pusher = self.pusher(progress=gate)
        self.addCleanup(pusher.close)
        self.addCleanup(gate.open.set)
        pusher.push({"w": b"1" * 1000})
        self.assertTrue(gate.reached.wait(60))

        def leave():
            with pusher:
                pass
            return True

        def push():
            try:
                pusher.push({"w": b"2"})
            except wdelta.UsageError as error:
                return "was opened in the parent of this process" in str(error)

        def look():
            pusher.cancel()
            return (pusher.running, pusher.wait()) == (False, None)

        for work in (look, push, leave):
            self.in_a_child(work)
        self.assertTrue(pusher.running)
        gate.open.set()
        self.assertTrue(pusher.wait().created)

    def test_a_child_hears_nothing_of_an_error_of_its_parents_push(self):
        self.push({"w": b"0"}, tag="taken")
        pusher = self.pusher()
        pusher.push({"w": b"1"}, tag="taken")
        pusher._begun.is_over.wait(60)
        self.in_a_child(lambda: pusher.close() is None)
        with self.assertRaises(wdelta.ConflictError):
            pusher.close()

    def test_a_child_that_is_forked_while_a_call_runs_is_told_whose_handle_it_is(self):
        self.push({"w": b"1"})
        repository = self.repository()
        commit = repository.commit()

        def is_refused(call):
            try:
                call()
            except wdelta.UsageError as error:
                return "parent" in str(error)

        # As another thread would hold them.
        with repository._changing, repository._listener._turn, commit._changing, commit._working:
            for call in (repository.resolve, repository.commit, lambda: commit.read("model.safetensors"),
                         lambda: repository.reference_bytes, lambda: repository.push({"w": b"2"})):
                self.in_a_child(lambda call=call: is_refused(call))
            self.in_a_child(lambda: commit.cancel() is None)
        commit.close()


class TheEnd(Case):
    def test_an_object_that_lives_to_the_end_may_push_and_load(self):
        for call in ("repo.push({'w': content}, progress=print)", "repo.load_into({'w': bytearray(len(content))})",
                     "repo.resolve()", "repo.commit()", "pusher.push({'w': content}); pusher.close()",
                     "wdelta.push({'w': content}, repo.location, environment=environment)"):
            with self.subTest(call=call):
                self.repo = str(self.scratch / f"repo-{call.split('(')[0]}")
                done = self.run_lines(
                    "import os\n"
                    "import wdelta\n"
                    f"environment = {self.environment!r}\n"
                    "class Trainer:\n"
                    "    def __init__(self):\n"
                    f"        self.repo = wdelta.Repository({self.repo!r}, environment=environment)\n"
                    "        self.pusher = wdelta.Pusher(self.repo)\n"
                    "        self.content = os.urandom(20_000_000)\n"
                    "        self.repo.push({'w': self.content}, step=1)\n"
                    "        self.kept = wdelta, environment\n"
                    "    def __del__(self):\n"
                    "        repo, pusher, content, (wdelta, environment) = (self.repo, self.pusher, self.content,\n"
                    "                                                        self.kept)\n"
                    f"        {call}\n"
                    "        print('done', flush=True)\n"
                    "trainer = Trainer()\n")
                self.assertEqual((done.returncode, done.stdout), (0, "done\n"))
                self.assertEqual(len(self.tips()), 2 if "push" in call else 1)


class WhatIsLeft(Case):
    """With the collector of cycles off, which may not come for a long time."""

    def setUp(self):
        super().setUp()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)

    def raises(self, kind, call):
        """Not assertRaises(), which clears the frames of what it catches."""
        try:
            call()
        except kind:
            return
        self.fail(f"no {kind.__name__}")

    def check_freed(self, kind, call):
        """After the call has failed the caller's tensors are the caller's alone."""
        numbers, room = array.array("B", bytes(1000)), bytearray(1000)
        left = weakref.ref(numbers)
        self.raises(kind, lambda: call({"a": numbers, "w": room}))
        room.append(1)  # BufferError where it is exported
        del numbers
        self.assertIsNone(left())

    def test_a_call_that_fails_lets_go_of_tensors(self):
        self.push({"w": b"1", "a": b"2"})
        repository, enough = self.repository(), threading.Event()
        enough.set()

        def fails(*_):
            raise ZeroDivisionError

        for reason, kind, call in (
                ("progress of a push", ZeroDivisionError, lambda state: repository.push(state, progress=fails)),
                ("progress of a load", ZeroDivisionError, lambda state: repository.load_into(state, progress=fails)),
                ("cancelled push", wdelta.Interrupted, lambda state: repository.push(state, cancel=enough)),
                ("cancelled load", wdelta.Interrupted, lambda state: repository.load_into(state, cancel=enough)),
                ("another shape", wdelta.UsageError, repository.load_into),
                ("refused name", wdelta.UsageError, lambda state: repository.push({**state, "": b""})),
                ("no tensor", wdelta.UsageError, lambda state: repository.push({**state, "none": None})),
                ("missing name", wdelta.NotFoundError, lambda state: repository.load_into({**state, "c": b""})),
                ("missing commit", wdelta.NotFoundError, lambda state: repository.load_into(state, "nowhere"))):
            with self.subTest(reason=reason):
                self.check_freed(kind, call)

    def test_a_pusher_lets_go_of_what_it_raised_and_of_tensors(self):
        raised = []

        class Odd(Exception):
            def __init__(self):
                raised.append(weakref.ref(self))

        def fails(_):
            raise Odd

        pusher = self.pusher(done=fails)

        def push_and_wait(state):
            pusher.push(state)
            pusher.wait()

        self.check_freed(Odd, push_and_wait)
        self.check_freed(wdelta.UsageError, lambda state: pusher.push({**state, "none": None}))
        pusher.push({"w": b"1"})
        self.raises(Odd, pusher.close)
        self.assertEqual([left() for left in raised], [None, None])

    def test_what_control_c_ends_lets_go_of_what_it_raised(self):
        repository, sent, left = self.repository(), [], []

        class Hurry(KeyboardInterrupt):
            pass

        def interrupt(*_):
            hurry = Hurry()
            left.append(weakref.ref(hurry))
            try:
                raise hurry
            finally:
                del hurry

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)

        def progress(*_):
            if not sent:
                sent.append(signal.SIGALRM)
                os.kill(os.getpid(), signal.SIGALRM)
                for _ in range(1000):  # until the handler has raised it
                    if left:
                        break
                    time.sleep(0.01)

        self.check_freed(Hurry, lambda state: repository.push(state, progress=progress))
        self.assertEqual([each() for each in left], [None])

    def test_functions_that_are_told_are_let_go_when_the_call_is_over(self):
        def told(*_):
            pass

        left = weakref.ref(told)
        repository = wdelta.Repository(self.repo, environment=self.environment, progress=told)
        repository.push({"w": b"1"}, note=told)
        repository.commit().close()
        repository.close()
        del told, repository
        self.assertIsNone(left())


class CalledBack(Case):
    """What is told how a call goes on cannot wait for that call."""

    def run_call(self, lines):
        self.push({"w": b"1"})
        done = self.run_lines("import wdelta\n"
                              f"R, E = {self.repo!r}, {self.environment!r}\n"
                              "repo = wdelta.Repository(R, environment=E)\n"
                              "def call(progress):\n"
                              "    return repo.push({'w': b'2' * 1000}, progress=progress)\n"
                              "def tried(function):\n"
                              "    try:\n"
                              "        print(function())\n"
                              "    except wdelta.UsageError as error:\n"
                              "        print(error)\n" + lines)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.splitlines()

    def test_what_would_wait_for_the_push_that_it_is_told_of_is_refused(self):
        for called in ("drop_references", "push", "close"):
            with self.subTest(called=called):
                words = "{'w': b'3'}" if called == "push" else ""
                told = self.run_call(f"tried(lambda: call(lambda *_: repo.{called}({words})))\n")
                self.assertEqual(len(told), 1)
                self.assertRegex(told[0], f"^Repository: {called}\\(\\) would wait for the call that it is told of")

    def test_what_need_not_wait_for_it_is_not(self):
        told = self.run_call("seen = []\n"
                             "def progress(*_):\n"
                             "    if not seen:\n"
                             "        room = bytearray(1)\n"
                             "        seen.append((repo.reference_bytes, len(repo.resolve()),\n"
                             "                     repo.load_into({'w': room}).missing, bytes(room)))\n"
                             "tried(lambda: call(progress).created)\n"
                             "print(seen)\n")
        self.assertEqual(told, ["True", "[(0, 64, [], b'1')]"])

    def test_a_commit_and_a_repository_are_not_used_by_what_is_told_of_their_reading(self):
        # Where nothing is waited for nobody is told of an opening: here the library says that it is at it.
        told = self.run_call("plain = wdelta._plain\n"
                             "def waiting(name, *arguments):\n"
                             "    if name == 'wdelta_commit_open':\n"
                             "        if arguments[2].contents.progress(None, b'opening', 0, 0):\n"
                             "            raise wdelta.Interrupted('opening: interrupted')\n"
                             "    return plain(name, *arguments)\n"
                             "wdelta._plain = waiting\n"
                             "tried(lambda: repo.commit(progress=lambda *_: repo.close()))\n"
                             "for use in (lambda: commit.read('model.safetensors'), lambda: commit.close(),\n"
                             "            lambda: commit.load_into({'w': bytearray(1)})):\n"
                             "    calls = []\n"
                             "    def progress(*_):\n"
                             "        if calls:\n"
                             "            use()\n"
                             "    commit = repo.commit(progress=progress)\n"
                             "    calls.append(1)\n"
                             "    tried(lambda: commit.read('model.safetensors'))\n")
        self.assertEqual([line.split("(")[0] for line in told],
                         ["Repository: close", "Commit: read", "Commit: close", "Commit: load_into"])

    def test_a_pusher_is_not_waited_for_by_what_it_calls(self):
        for called in ("wait", "close", "push"):
            for by in ("done", "progress"):
                with self.subTest(called=called, by=by):
                    words = "{'w': b'3'}" if called == "push" else ""
                    told = self.run_call(f"pusher = wdelta.Pusher(R, environment=E,\n"
                                         f"                       {by}=lambda *_: pusher.{called}({words}))\n"
                                         "pusher.push({'w': b'2'})\n"
                                         "tried(pusher.wait)\n"
                                         "tried(pusher.close)\n")
                    self.assertRegex(told[0], f"^Pusher: {called}\\(\\) would wait for the call that it is told of")
                    self.assertEqual(told[1:], ["None"])


if __name__ == "__main__":
    door.main()
