# SPDX-License-Identifier: Apache-2.0
"""wdelta: git for weights, from inside a training or serving process.

Tensors go from memory into a commit of a repository, and from a commit into memory, without a file in between. This is
one file over the C library libwdelta: there is nothing to build, and neither torch nor numpy need be there.

    import wdelta

    wdelta.push(model.state_dict(), "s3://bucket/run", step=100)
    wdelta.load_into(model.state_dict(), "s3://bucket/run@step:100")

What a repository, a branch, a revision and a commit are says wdelta(1), the files that a push from memory makes
wdelta-library(3).

Tensors
    A state dict is a mapping from names to tensors, or anything with a method state_dict() that gives one. A tensor is

    - a torch.Tensor on the CPU or on a CUDA device, of any strides. Of fp4 two elements are one of torch's;
    - a numpy.ndarray, with the dtypes of ml_dtypes where these are in use;
    - what has __cuda_array_interface__ (CuPy, Numba), on the CUDA device 0 where it does not say which;
    - what has Python's buffer protocol: array.array, bytearray, memoryview;
    - Typed(any of these, "BF16"), where the framework has no name for what the bits are: bf16 in an array of uint16.

    Nothing is copied on the way in or out: the library reads and fills the memory where it is, on the GPU too; but of
    tensors with gaps on a GPU a contiguous copy is made there, and arrays of CuPy and Numba must have none. Tensors
    of other devices, sparse ones and parts of distributed ones (DTensor) are refused: gather them first.

    Tied tensors. Names that share memory are pushed each, as a state dict has them. With tied="once" they are stored
    under the name that sorts first, as safetensors' own save_model() does, with `"other": "first"` in the files'
    __metadata__, ordered by name, whereas it writes several such entries in any order. load_into() fills memory once,
    and asks no name of a commit whose memory another name fills; where the commit has several of them they must be the
    same there. Tensors that overlap in any other way are not filled.

Repeated pushes
    A push of a Repository or a Pusher keeps a copy of what it pushed, as many bytes as the checkpoint, in host memory
    (reference="host"), which the next is compared with; reference="repository" keeps none, and reads the previous state
    out of the repository. The function push() opens the repository and leaves it again: it keeps none. With
    reference="device" and engine="cuda" the copy is on the CUDA device, and tensors="copied" (as a Pusher has it) that
    lie there are compared there, so that only what changed comes to the host.

While training goes on
    A Pusher commits in a thread. push() returns once the tensors are copied into host memory (from a GPU:
    over the bus), so the loop waits for that and no longer: comparing, coding and sending go on beside it. Memory: two
    copies of the checkpoint from the second push on, pinned where tensors come from a GPU; with reference="device" and
    engine="cuda" both are on the device, and between pushes there is one. Errors surface at the next call, and at
    close().

        with wdelta.Pusher("s3://bucket/run") as pusher:
            for step, batch in enumerate(batches):
                train(batch)
                if step % 50 == 0:
                    pusher.push(model.state_dict(), step=step)

    With several processes (DDP) one of them pushes: the rank 0. Weights in shards (FSDP) have to be gathered first,
    into host memory, say.

With transformers
    A callback for its Trainer, to be copied:

        import logging

        import transformers
        import wdelta

        class PushCallback(transformers.TrainerCallback):
            \"\"\"Pushes the weights whenever the Trainer saves, while training goes on.\"\"\"

            def __init__(self, repo, **options):
                self.pusher = wdelta.Pusher(repo, **options)

            def on_save(self, args, state, control, model=None, **others):
                if not state.is_world_process_zero:
                    return
                said = {"step": state.global_step, "meta": {} if state.epoch is None else {"epoch": state.epoch},
                        "files": {"config.json": model.config.to_json_string().encode()}}
                try:
                    self.pusher.push(model.state_dict(), **said)
                except wdelta.WdeltaError as error:  # of the push before: this one was not begun
                    logging.warning("push: %s", error)
                    self.pusher.push(model.state_dict(), **said)

            def on_train_end(self, args, state, control, **others):
                self.pusher.close()

        trainer = transformers.Trainer(model, callbacks=[PushCallback("s3://bucket/run")])

Errors
    WdeltaError, with .status (the program's exit statuses), .message, .hint, and a class for each status: ConflictError
    (7) where someone else pushed first, NotFoundError (4), LocalError (3), NetworkError (8) and so on. Ctrl-C cancels
    and leaves nothing half-done. An exception in `progress` cancels too, and is what the call then raises,
    though all may be done by then. When the program ends, what its daemon threads have the library do is cancelled and
    waited for, and these threads end with it. What __del__ calls of an object that lives to the very end is done, and
    its progress and note are told nothing.

The library
    This file runs on Python 3.8 and later, over a libwdelta of its own version: the first of what the variable
    WDELTA_LIBRARY names; libwdelta.so beside this file; below the PREFIX that this file is installed under
    (PREFIX/share/wdelta/python); where the system's loader finds it. It is loaded at the first use, so that importing
    this module never fails. What the program takes from its environment (WDELTA_STATE_DIR,
    AWS_*, HF_TOKEN ...) is taken from os.environ, or from the mapping `environment`.
"""

import atexit
import contextlib
import ctypes
import ctypes.util
import operator
import os
import sys
import threading
import weakref
from urllib.parse import unquote
from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path

__all__ = ["push", "load_into", "Pusher", "Repository", "Commit", "Typed", "Report", "Loaded", "library_version",
           "engine", "cuda", "WdeltaError", "InternalError", "UsageError", "LocalError", "NotFoundError",
           "CorruptError", "BaseMismatchError", "ConflictError", "NetworkError", "UnsupportedError",
           "VerificationError", "Interrupted"]


# ---- Errors ---------------------------------------------------------------------------------------------------------


def _printable(text):
    """In one line, whatever a name in it may hold."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class WdeltaError(Exception):
    """What went wrong: .message, one line "object: what is wrong: reason"; .hint, the way out, or ""; .status."""

    status = 1

    def __init__(self, message, hint=""):
        message, hint = _printable(message), _printable(hint)
        super().__init__(message, hint)
        self.message, self.hint = message, hint

    def __str__(self):
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class InternalError(WdeltaError):
    """A bug in the library."""

    status = 1


class UsageError(WdeltaError):
    """The caller asked for something that makes no sense."""

    status = 2


class LocalError(WdeltaError):
    """A file, memory or a device here failed; or a tensor changed while it was read."""

    status = 3


class NotFoundError(WdeltaError):
    """There is no such repository, revision, file or tensor; or no libwdelta."""

    status = 4


class CorruptError(WdeltaError):
    """Bytes are not what they claim to be."""

    status = 5


class BaseMismatchError(WdeltaError):
    """A delta was offered a base that it was not made from."""

    status = 6


class ConflictError(WdeltaError):
    """Someone else pushed first, or the tag is taken: push again."""

    status = 7


class NetworkError(WdeltaError):
    """A remote store failed."""

    status = 8


class UnsupportedError(WdeltaError):
    """This build, store, device or processor cannot do it."""

    status = 9


class VerificationError(WdeltaError):
    """A check found a difference."""

    status = 10


class Interrupted(WdeltaError):
    """Cancelled; nothing half-done is left."""

    status = 130


_ERRORS = {kind.status: kind for kind in (InternalError, UsageError, LocalError, NotFoundError, CorruptError,
                                          BaseMismatchError, ConflictError, NetworkError, UnsupportedError,
                                          VerificationError, Interrupted)}


# ---- The library: structs and functions as in wdelta.h --------------------------------------------------------------


_text, _handle, _size = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t
_u64, _i32, _u32 = ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint32
_numbers = ctypes.POINTER(ctypes.c_int64)
_texts = ctypes.POINTER(_text)
_Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _text, _u64, _u64)
_Note = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _text)


class _Sized(ctypes.Structure):
    """A struct whose first member is its size."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(self), **members)


class _Error(ctypes.Structure):
    _fields_ = [("status", _i32), ("message", ctypes.c_char * 1532), ("hint", ctypes.c_char * 512)]


class _Callbacks(_Sized):
    _fields_ = [("struct_size", _size), ("context", ctypes.c_void_p), ("progress", _Progress), ("note", _Note)]


class _RepositoryOptions(_Sized):
    _fields_ = [("struct_size", _size), ("settings", _texts), ("environment", ctypes.c_void_p),
                ("environment_context", ctypes.c_void_p), ("create", _i32), ("threads", _u32), ("engine", _text),
                ("transfers", _u32), ("bytes_per_second", _u64), ("callbacks", ctypes.POINTER(_Callbacks))]


class _Tensor(_Sized):
    _fields_ = [("struct_size", _size), ("name", _text), ("dtype", _text), ("dimensions", _u32), ("shape", _numbers),
                ("strides", _numbers), ("elements", ctypes.c_void_p), ("device", _i32), ("device_index", _i32),
                ("stream", ctypes.c_void_p), ("file", _text)]


class _PushOptions(_Sized):
    _fields_ = [("struct_size", _size), ("branch", _text), ("message", _text), ("author", _text), ("tag", _text),
                ("step", _u64), ("has_step", _i32), ("tensors", _i32), ("reference", _i32), ("anchor", _i32),
                ("compress_whole", _i32), ("weights_path", _text), ("largest_shard_bytes", _u64),
                ("callbacks", ctypes.POINTER(_Callbacks))]


class _PushReport(_Sized):
    _fields_ = [("struct_size", _size), ("id", ctypes.c_char * 65), ("parent", ctypes.c_char * 65), ("created", _i32),
                ("compared_with_repository", _i32), ("file_count", _u64), ("checkpoint_bytes", _u64),
                ("stored_bytes", _u64), ("delta_bytes", _u64), ("element_count", _u64), ("change_count", _u64),
                ("anchor_bytes", _u64), ("reference_bytes", _u64)]


class _CommitSummary(_Sized):
    _fields_ = [("struct_size", _size), ("id", _text), ("parent", _text), ("message", _text), ("author", _text),
                ("time", _text), ("step", _u64), ("has_step", _i32), ("meta_count", _size), ("meta_keys", _texts),
                ("meta_values", _texts), ("file_count", _size), ("tensor_count", _size)]


class _File(_Sized):
    _fields_ = [("struct_size", _size), ("path", _text), ("size_bytes", _u64), ("digest", _text)]


class _TensorDescription(_Sized):
    _fields_ = [("struct_size", _size), ("name", _text), ("dtype", _text), ("file", _text), ("dimensions", _u32),
                ("shape", _numbers), ("size_bytes", _u64)]


_to = ctypes.POINTER
# What a function takes before its wdelta_error, and each gives a status.
_CHECKED = {
    "wdelta_engine": (_text, _to(_text)),
    "wdelta_open": (_text, _to(_RepositoryOptions), _to(_handle)),
    "wdelta_resolve": (_handle, _text, ctypes.c_char * 65),
    "wdelta_push_begin": (_handle, _to(_PushOptions), _to(_handle)),
    "wdelta_push_add": (_handle, _to(_Tensor)),
    "wdelta_push_add_file": (_handle, _text, ctypes.c_void_p, _size),
    "wdelta_push_meta": (_handle, _text, _text),
    "wdelta_push_file_metadata": (_handle, _text, _text),
    "wdelta_push_commit": (_handle, _to(_PushReport)),
    "wdelta_commit_open": (_handle, _text, _to(_Callbacks), _to(_handle)),
    "wdelta_commit_summarise": (_handle, _to(_CommitSummary)),
    "wdelta_commit_file": (_handle, _size, _to(_File)),
    "wdelta_commit_tensor": (_handle, _size, _to(_TensorDescription)),
    "wdelta_commit_find": (_handle, _text, _text, _to(_TensorDescription)),
    "wdelta_commit_fill": (_handle, _to(_Tensor), _size),
    "wdelta_commit_read": (_handle, _text, ctypes.c_void_p, _size),
    "wdelta_commit_read_size": (_handle, _text, _to(_u64)),
}
# What the others give and take.
_PLAIN = {
    "wdelta_version": (_text,),
    "wdelta_cuda": (ctypes.c_int, _to(_text)),
    "wdelta_close": (None, _handle),
    "wdelta_reference_bytes": (_u64, _handle),
    "wdelta_drop_references": (None, _handle),
    "wdelta_push_cancel": (None, _handle),
    "wdelta_push_free": (None, _handle),
    "wdelta_commit_cancel": (None, _handle),
    "wdelta_commit_free": (None, _handle),
}
_LIBRARY_NAMES = ("libwdelta.so", "libwdelta.so.0", "libwdelta.dylib")
_loading = threading.RLock()  # what it loads may be asked for by a handler of a signal that comes in between
_loaded = None


def _places():
    """Where the library may be, in the order of search."""
    named = os.environ.get("WDELTA_LIBRARY")
    if named:
        return [named]
    here = Path(__file__).resolve().parent
    folders = [here]
    if here.parts[-3:] == ("share", "wdelta", "python"):
        prefix = here.parents[2]
        folders += [prefix / "lib", *sorted(prefix.glob("lib/*-linux-gnu")), prefix / "lib64"]
    beside = [str(folder / name) for folder in folders for name in _LIBRARY_NAMES if (folder / name).exists()]
    found = ctypes.util.find_library("wdelta")
    return [*beside, *([found] if found else []), *_LIBRARY_NAMES]


def _library():
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                _loaded = _load()
    return _loaded


def _load():
    reasons = []
    for place in _places():
        try:
            library = ctypes.CDLL(place)
            for name, arguments in _CHECKED.items():
                function = getattr(library, name)
                function.restype, function.argtypes = _i32, [*arguments, _to(_Error)]
            for name, (result, *arguments) in _PLAIN.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
            return library
        except (OSError, AttributeError) as error:
            reasons.append(str(error))
    raise NotFoundError(f"libwdelta: it cannot be loaded: {reasons[0]}",
                        "install it, or set WDELTA_LIBRARY to the path of libwdelta.so")


def _raise(error):
    kind = _ERRORS.get(error.status, InternalError)
    raise kind(error.message.decode("utf-8", "replace"), error.hint.decode("utf-8", "replace"))


class _Running:
    """The calls of the library that are on their way in this process."""

    def __init__(self):
        self._changed = threading.Condition()
        self._count = 0
        self._cancels = {}  # of the calls that can be cancelled, each under a key of its own
        self._is_over = False  # the program ends

    def begin(self):
        with self._changed:
            self._end_thread_if_over()
            self._count += 1

    def end(self):
        with self._changed:
            self._count -= 1
            if self._is_over:
                self._changed.notify_all()
            self._end_thread_if_over()

    def _end_thread_if_over(self):
        if self._is_over and threading.current_thread().daemon:
            raise SystemExit  # of a thread, without a word

    @contextlib.contextmanager
    def cancelled_by(self, cancel_now):
        key = object()
        self._cancels[key] = cancel_now
        try:
            yield
        finally:
            self._cancels.pop(key, None)

    def finish(self):
        """Cancels what daemon threads have the library do, and waits for it: the interpreter ends these threads when
        they come for its lock, be it in a callback, and the library's own with them, out of the middle of their work.
        Handlers of atexit that come later may go on calling."""
        with self._changed:
            self._is_over = True
            while self._count:
                for cancel_now in list(self._cancels.values()):
                    cancel_now()
                self._changed.wait()


_running = _Running()
os.register_at_fork(after_in_child=_running.__init__)  # what runs in the parent does not run here
atexit.register(_running.finish)


def _plain(name, *arguments):
    """Calls a function of the library that cannot fail."""
    function = getattr(_library(), name)
    _running.begin()
    try:
        return function(*arguments)
    finally:
        _running.end()


def _call(name, *arguments):
    error = _Error()
    if _plain(name, *arguments, ctypes.byref(error)) != 0:
        _raise(error)


def _bytes(text):
    """A text for the library; None stays None. Paths, and numbers as str() has them, are taken too."""
    if text is None:
        return None
    if not isinstance(text, bytes):
        try:
            text = os.fsencode(text) if isinstance(text, os.PathLike) else str(text).encode()
        except UnicodeEncodeError:
            raise UsageError(f"{text!r}: is no text: UTF-8 cannot hold it") from None
    if b"\0" in text:
        raise UsageError(f"{text!r}: holds a zero byte")
    return text


def _str(text):
    return "" if text is None else text.decode("utf-8", "replace")


def _whole(name, number, bits=64):
    """A whole number that so many bits hold: ctypes would cut off what is more."""
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not hasattr(number, "__index__") or not 0 <= operator.index(number) < 1 << bits:
        _refuse(name, f"{number!r} is no whole number from 0 to 2^{bits} - 1")
    return operator.index(number)


def _items(name, mapping):
    """The entries of an option that is a mapping; None has none."""
    if mapping is None:
        return ()
    if not hasattr(mapping, "items"):
        _refuse(name, f"is no mapping but {type(mapping).__name__}")
    return mapping.items()


def _choice(name, value, choices):
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise UsageError(f"{name}={value!r}: is none of {', '.join(map(repr, choices))}") from None


def _cancellable(work, cancel_now, cancel):
    """Does `work` so that Ctrl-C, the event `cancel` and the end of the program end it early."""
    with _running.cancelled_by(cancel_now):
        # Where the interpreter ends, as in __del__ of what lived so long, no other thread gets its lock any more.
        if sys.is_finalizing() or cancel is None and threading.current_thread() is not threading.main_thread():
            return work()
        return _beside(work, cancel_now, cancel)


def _beside(work, cancel_now, cancel):
    """Does it in a thread of its own, for Python runs what belongs to a signal in the main thread, and only when that
    is in no call of the library."""
    outcome = {}
    begun, finished = threading.Event(), threading.Event()

    def run():
        begun.set()
        try:
            outcome["result"] = work()
        except BaseException as error:
            outcome["error"] = error
        finally:
            finished.set()

    worker = threading.Thread(target=run, name="wdelta")
    interrupt = None
    if cancel is not None and cancel.is_set():
        cancel_now()
    try:
        worker.start()
    except RuntimeError:  # there are no threads to be had, as in an atexit handler from Python 3.12 on
        worker = None
    except BaseException as error:  # Ctrl-C, and it may run already; where it has not begun it finds the handle closed
        cancel_now()
        if not begun.wait(1):
            raise
        interrupt = error
    if worker is None:
        return work()
    while not finished.is_set():
        try:
            while not finished.wait(None if cancel is None else 0.05):
                if cancel.is_set():
                    cancel_now()
        except BaseException as error:  # a second Ctrl-C too
            interrupt = interrupt or error
            cancel_now()
    worker.join()
    try:
        if interrupt is not None:
            raise interrupt
        if "error" in outcome:
            raise outcome["error"]
        return outcome["result"]
    finally:
        # What is raised knows this frame, and its tensors. Were it known here it would live, and they with it, until
        # somebody looks for cycles.
        interrupt = None
        outcome.clear()


_telling = threading.local()  # .of: where a callback runs in this thread, the call that it is told of


class _Told:
    """Of one call: the exception that a callback raised, whether it is to end, and what cannot be waited for before it
    has ended."""

    error = None
    is_cancelled = False

    def __init__(self, *engaged):
        self.engaged = engaged
        # What a callback calls is a part of the call that it is told of.
        self.within = getattr(_telling, "of", None) if engaged else None

    @contextlib.contextmanager
    def telling(self):
        """In what is called back to tell of this call."""
        before, _telling.of = getattr(_telling, "of", None), self
        try:
            yield
        finally:
            _telling.of = before


def _refuse_called_back(engaged, call):
    """Raises UsageError where the call would wait for the one that its caller is told of."""
    told = getattr(_telling, "of", None)
    while told is not None:
        if any(each is engaged for each in told.engaged):
            raise UsageError(f"{call}() would wait for the call that it is told of",
                             "call it later: progress, note and done may only cancel what they are told of")
        told = told.within


class _Listener:
    """The functions that the library calls, as long as this lives. An exception in one of them cancels the call that it
    was told of."""

    def __init__(self, progress, note):
        self.now = _Told()  # of the call that works: there is one at a time
        self._turn = threading.Lock()
        here = weakref.ref(self)  # what is called would keep it alive, and is kept alive by it

        def told(_, label, done, total):
            now = here().now
            if progress is not None and now.error is None:
                _Listener._try(now, progress, _str(label), done, total)
            return 1 if now.is_cancelled or now.error is not None else 0

        def noted(_, text):
            now = here().now
            if note is not None and now.error is None:
                _Listener._try(now, note, _str(text))

        self._callbacks = _Callbacks(progress=_Progress(told), note=_Note(noted))

    @staticmethod
    def _try(now, function, *arguments):
        try:
            with now.telling():
                function(*arguments)
        except BaseException as error:
            now.error = error

    def pointer(self):
        # Where the interpreter ends a thread of the library that came for its lock would be ended too.
        return ctypes.pointer(_Callbacks() if sys.is_finalizing() else self._callbacks)

    def call(self, cancel, engaged, call, *arguments):
        """Makes a call of the library that tells this listener how it goes on, and has no handle to be cancelled
        by. `engaged`: what it is a call of."""
        told = _Told(engaged, self)

        def cancel_now():
            told.is_cancelled = True

        def work():
            # The one before may be waiting for a network, which is no reason to wait for that one.
            while not self._turn.acquire(timeout=0.05):
                if told.is_cancelled:
                    raise Interrupted("wdelta: cancelled")
            try:
                self.now = told
                call(*arguments)
            finally:
                self.now = _Told()
                self._turn.release()

        try:
            try:
                return _cancellable(work, cancel_now, cancel)
            except Interrupted:
                if told.error is None:
                    raise
            raise told.error
        finally:
            told.error = None  # as in _beside()


def library_version():
    """The version of libwdelta, for instance "0.1.0"."""
    return _str(_library().wdelta_version())


def engine(name="auto"):
    """The name of the engine that "auto", or another name, stands for here, for instance "avx512"."""
    chosen = _text()
    _call("wdelta_engine", _bytes(name), ctypes.byref(chosen))
    return _str(chosen.value)


def cuda():
    """Whether tensors on a CUDA device can be pushed and filled, and the device's name or what is missing."""
    reason = _text()
    there = _library().wdelta_cuda(ctypes.byref(reason))
    return bool(there), _str(reason.value)


# ---- Tensors --------------------------------------------------------------------------------------------------------


# By the names of torch and numpy (ml_dtypes), which are the same but for few: the name in safetensors and the bytes of
# an element. Of float4_e2m1fn_x2 an element holds two numbers.
_DTYPES = {
    "bool": ("BOOL", 1), "uint8": ("U8", 1), "int8": ("I8", 1), "uint16": ("U16", 2), "int16": ("I16", 2),
    "uint32": ("U32", 4), "int32": ("I32", 4), "uint64": ("U64", 8), "int64": ("I64", 8), "float16": ("F16", 2),
    "bfloat16": ("BF16", 2), "float32": ("F32", 4), "float64": ("F64", 8), "complex64": ("C64", 8),
    "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1), "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1), "float8_e8m0fnu": ("F8_E8M0", 1), "float4_e2m1fn_x2": ("F4", 1),
}
_BITS = {dtype: 8 * width for dtype, width in _DTYPES.values()}
_BITS.update({"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6})  # elements narrower than a byte lie without gaps
# By the letters of Python's buffer protocol; how wide the integers are is the machine's.
_LETTERS = {"?": "bool", "e": "float16", "f": "float32", "d": "float64", "B": "uint8", "b": "int8", "c": "uint8",
            "H": "uint16", "h": "int16", "I": "uint32", "i": "int32",
            "L": f"uint{8 * ctypes.sizeof(ctypes.c_long)}", "l": f"int{8 * ctypes.sizeof(ctypes.c_long)}",
            "Q": "uint64", "q": "int64"}
_HOST, _CUDA = 0, 1
_PER_THREAD_STREAM = 2  # as __cuda_array_interface__ and the CUDA runtime call it
_HOW_TO_NAME_BITS = "taken for integers as wide, Typed(memory, dtype) names what the bits are"


class Typed:
    """Memory as numbers that its framework has no name for: Typed(array_of_uint16, "BF16"). `dtype` is as safetensors
    writes it, as wide as the elements are. With `shape` the memory, without gaps, is taken for a tensor of that
    shape, whatever its elements."""

    def __init__(self, memory, dtype, shape=None):
        try:
            self.memory, self.dtype, self.shape = memory, dtype, None if shape is None else tuple(shape)
        except TypeError:
            raise UsageError(f"Typed: its shape is {shape!r}, and no sequence of numbers") from None


class _View:
    """Where a tensor's numbers are and what they are. `keep` is what the memory belongs to."""

    __slots__ = ("dtype", "shape", "strides", "address", "device", "index", "stream", "writable", "keep", "origin")

    def __init__(self, dtype, shape, strides, address, *, writable, keep, device=_HOST, index=0, stream=None):
        self.dtype, self.shape, self.address, self.keep = dtype, tuple(shape), address, keep
        self.strides = None if strides is None or _is_row_major(self.shape, strides) else tuple(strides)
        self.device, self.index, self.stream, self.writable = device, index, stream, writable
        self.origin = None  # of a copy: the torch tensor that it was made of

    def count(self):
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def memory(self):
        """The same for tensors that are the same memory read in the same way; None where there is none."""
        if not self.count():
            return None
        address, strides = self.address, self.strides
        if self.origin is not None:
            address, strides = self.origin.data_ptr(), tuple(self.origin.stride())
        return self.dtype, self.shape, strides, address, self.device, self.index

    def told(self, name, file=None):
        dimensions = len(self.shape)
        numbers = ctypes.c_int64 * dimensions
        return _Tensor(name=_bytes(name), dtype=self.dtype.encode(), dimensions=dimensions,
                       shape=numbers(*self.shape) if dimensions else None,
                       strides=numbers(*self.strides) if self.strides is not None and dimensions else None,
                       elements=self.address, device=self.device, device_index=self.index, stream=self.stream,
                       file=_bytes(file))


def _is_row_major(shape, strides):
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(tuple(strides))):
        if extent == 0:
            return True
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _refuse(name, what, hint=""):
    raise UsageError(f"{name}: {what}", hint)


def _named_dtype(name, dtype):
    if dtype not in _DTYPES:
        _refuse(name, f"safetensors has no dtype for {dtype}", _HOW_TO_NAME_BITS)
    return _DTYPES[dtype]


def _in_elements(name, strides, width):
    if strides is not None and any(stride % width for stride in strides):
        _refuse(name, "its elements do not lie a whole number of elements apart", "push a contiguous copy of it")
    return None if strides is None else [stride // width for stride in strides]


def _may_have_gaps(tensor):
    """Whether the library takes a torch tensor with gaps where this one is."""
    return tensor.device.type == "cpu"


def _check_storage(name, tensor):
    """A torch tensor keeps its shape when its storage is made smaller, as FSDP does with what is not in use."""
    if not tensor.numel() or not hasattr(tensor, "untyped_storage"):
        return
    last = tensor.storage_offset() + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
    needed, there = (last + 1) * tensor.element_size(), tensor.untyped_storage().nbytes()
    if needed > there:
        _refuse(name, f"its storage has {there} bytes, and it reaches to byte {needed}",
                "it was freed or made smaller: gather or restore it first")


def _torch_view(name, tensor, torch):
    if hasattr(tensor, "full_tensor"):
        _refuse(name, "is a part of a distributed tensor", "gather it first: tensor.full_tensor()")
    if tensor.layout != torch.strided:
        _refuse(name, f"is of {tensor.layout}", "tensor.to_dense() has its numbers side by side")
    if tensor.device.type == "meta":
        _refuse(name, "has no memory: it is on the device meta", "module.to_empty(device=...) gives it some")
    if tensor.device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"{name}: is on {tensor.device}, which is neither the CPU nor a CUDA device",
                               "push tensor.cpu()")
    if tensor.is_conj() or tensor.is_neg():
        _refuse(name, "is a lazy conjugate or negative", "push tensor.resolve_conj().resolve_neg()")
    _check_storage(name, tensor)
    dtype, _ = _named_dtype(name, str(tensor.dtype).split(".")[-1])
    if dtype != "F4" and not tensor.is_contiguous() and not _may_have_gaps(tensor):
        view = _torch_view(name, tensor.detach().contiguous(), torch)
        view.origin = tensor
        return view
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if dtype == "F4":
        if not shape or not tensor.is_contiguous():
            _refuse(name, "numbers of 4 bits must lie row by row without gaps", "tensor.contiguous()")
        shape, strides = (*shape[:-1], 2 * shape[-1]), None
    if tensor.device.type == "cpu":
        return _View(dtype, shape, strides, tensor.data_ptr(), writable=True, keep=tensor)
    return _View(dtype, shape, strides, tensor.data_ptr(), writable=True, keep=tensor, device=_CUDA,
                 index=tensor.device.index or 0, stream=torch.cuda.current_stream(tensor.device).cuda_stream)


def _numpy_view(name, value, numpy):
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(value, masked.MaskedArray):
        _refuse(name, "is a masked array, and a tensor has no mask", "array.filled(number) has a number in every place")
    array = numpy.asarray(value)  # of a single number, a copy
    if array.dtype.byteorder == (">" if sys.byteorder == "little" else "<"):
        _refuse(name, "has the other byte order", "array.astype(array.dtype.newbyteorder('='))")
    dtype, width = _named_dtype(name, array.dtype.name)
    return _View(dtype, array.shape, _in_elements(name, array.strides, width), array.ctypes.data,
                 writable=isinstance(value, numpy.ndarray) and array.flags.writeable, keep=array)


def _cuda_view(name, value):
    told = value.__cuda_array_interface__
    kind, width = told["typestr"][1], int(told["typestr"][2:])
    named = {"b": "bool", "u": f"uint{8 * width}", "i": f"int{8 * width}", "f": f"float{8 * width}",
             "c": f"complex{8 * width}"}.get(kind, told["typestr"])
    dtype, width = _named_dtype(name, named)
    address, read_only = told["data"]
    device = getattr(getattr(value, "device", None), "id", 0)
    stream = told.get("stream")
    return _View(dtype, told["shape"], _in_elements(name, told.get("strides"), width), address, writable=not read_only,
                 keep=value, device=_CUDA, index=device, stream=None if stream == 1 else stream)


class _Exported:
    """A buffer held by Python's own protocol, which tells the address of one that is read-only as well."""

    class Buffer(ctypes.Structure):
        _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                    ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                    ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                    ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]

    _ASKED = 0x18 | 0x4  # PyBUF_STRIDES | PyBUF_FORMAT

    def __init__(self, value):
        self.buffer = self.Buffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(value), ctypes.byref(self.buffer), self._ASKED)

    def __del__(self):
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self.buffer))  # does nothing to one that was not had


def _buffer_view(name, value):
    try:
        view = memoryview(value)
    except TypeError:
        _refuse(name, f"is no tensor but {type(value).__name__}", "leave it out, or put it into `meta` or `files`")
    except (BufferError, ValueError) as error:  # of a mapping that was closed, say
        _refuse(name, f"its memory cannot be had: {error}")
    native = "@=<" if sys.byteorder == "little" else "@=>!"
    letter = view.format.lstrip(native)
    if view.itemsize not in (1, 2, 4, 8) or letter not in _LETTERS:
        _refuse(name, f"its elements have the format {view.format!r}", _HOW_TO_NAME_BITS)
    dtype, width = _DTYPES[_LETTERS[letter]]
    if width != view.itemsize:
        _refuse(name, f"its elements have the format {view.format!r} and {view.itemsize} bytes")
    exported = _Exported(view)
    return _View(dtype, view.shape, _in_elements(name, view.strides, width), exported.buffer.buf,
                 writable=not view.readonly, keep=(exported, view))


def _view(name, value):
    """Where the tensor of that name is. UsageError where it is none."""
    if isinstance(value, Typed):
        return _typed_view(name, value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_view(name, value, torch)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _numpy_view(name, value, numpy)
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda_view(name, value)
    return _buffer_view(name, value)


def _typed_view(name, typed):
    view = _view(name, typed.memory)
    if not isinstance(typed.dtype, str) or typed.dtype not in _BITS:
        _refuse(name, f"{typed.dtype!r} is none of {', '.join(sorted(_BITS))}")
    for extent in typed.shape or ():
        if not hasattr(extent, "__index__") or not 0 <= operator.index(extent) < 1 << 63:
            _refuse(name, f"its shape has {extent!r}, which is no whole number from 0 to 2^63 - 1")
    bits, held_bits = _BITS[typed.dtype], _BITS[view.dtype]
    if typed.shape is None and bits == held_bits >= 8:
        view.dtype = typed.dtype
        return view
    if view.strides is not None:
        _refuse(name, f"its memory has gaps, and cannot be taken for {typed.dtype}")
    size_bits = view.count() * held_bits
    if typed.shape is None:
        _refuse(name, f"its elements have {held_bits} bits, and those of {typed.dtype} {bits}",
                "give a shape: Typed(memory, dtype, shape)")
    taken = _View(typed.dtype, typed.shape, None, view.address, writable=view.writable, keep=view.keep,
                  device=view.device, index=view.index, stream=view.stream)
    if taken.count() * bits != size_bits:
        _refuse(name, f"a tensor of {typed.dtype}, shape {list(typed.shape)}, does not fill its {size_bits // 8} bytes")
    return taken


def _views(state_dict):
    """The views of a state dict by name, in the order of names."""
    if not isinstance(state_dict, Mapping) and hasattr(state_dict, "state_dict"):
        state_dict = state_dict.state_dict()
    if not isinstance(state_dict, Mapping):
        raise UsageError(f"{type(state_dict).__name__}: is no mapping from names to tensors")
    for name in state_dict:
        if not isinstance(name, str):
            raise UsageError(f"{name!r}: is no name of a tensor")
    return {name: _view(name, state_dict[name]) for name in sorted(state_dict)}


# ---- Repositories ---------------------------------------------------------------------------------------------------


class _Owner:
    """Of a handle of the library, which it frees. Not in a child after fork(): there it is the parent's."""

    _free = None

    def __init__(self):
        self._handle = None
        self._process = os.getpid()
        self._changing = threading.Condition()  # of what follows
        self._calls = {}  # how many use the handle, by the thread that makes them
        self._left = None  # the handle, where the last of them is to free it

    def _open(self):
        if self._handle is None:
            raise UsageError(f"{type(self).__name__}: is closed")
        if self._process != os.getpid():
            raise UsageError(f"{type(self).__name__}: was opened in the parent of this process",
                             "open another after fork()")
        return self._handle

    @contextlib.contextmanager
    def _used(self):
        """The handle, which close() does not free meanwhile."""
        self._open()  # in a child after fork() locks may be held by threads that it does not have
        thread = threading.get_ident()
        with self._changing:
            self._calls[thread] = self._calls.get(thread, 0) + 1
        try:
            yield self._open()
        finally:
            with self._changing:
                self._calls[thread] -= 1
                if not self._calls[thread]:
                    del self._calls[thread]
                left = None
                if not self._calls:
                    left, self._left = self._left, None
                self._changing.notify_all()
            if left is not None:
                _plain(self._free, left)

    def _on_handle(self, function, *arguments):
        """Calls a function of the library whose first argument is the handle."""
        with self._used() as handle:
            _call(function, handle, *arguments)

    def close(self):
        """Frees it, once no call works on it any more. A second call does nothing."""
        if getattr(self, "_process", None) != os.getpid():
            return
        _refuse_called_back(self, f"{type(self).__name__}: close")
        with self._changing:
            # Of this thread there are calls where it is in a handler of a signal that came in between: they cannot be
            # waited for.
            while self._calls.keys() - {threading.get_ident()}:
                self._changing.wait()
            handle, self._handle = self._handle, None
            if self._calls:
                self._left, handle = handle or self._left, None
        if handle is not None:
            _plain(self._free, handle)

    def __reduce__(self):
        raise TypeError(f"{type(self).__name__}: cannot be copied or pickled: open another")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self, *_):
        if not sys.is_finalizing():
            with contextlib.suppress(SystemExit):  # of a daemon thread at the end of the program
                self.close()


class _Cancellable(_Owner):
    """Of a handle that the library can be told to stop working on."""

    _cancel = None

    def __init__(self):
        super().__init__()
        self._working = threading.Lock()  # held while a call that takes its turn works on the handle

    def cancel(self):
        """Makes the call that works on it in another thread, and every later one that takes long, end soon with
        Interrupted."""
        if self._process != os.getpid():
            return
        with self._changing:
            if self._handle is not None:
                getattr(_library(), self._cancel)(self._handle)

    def _work(self, cancel, told, function, *arguments):
        """Calls a function of the library that takes long, and that `told` is told of."""
        self._open()  # before locks are waited for: see _used()

        def work():
            with self._working:
                self._listener.now = told
                try:
                    self._on_handle(function, *arguments)
                finally:
                    self._listener.now = _Told()

        try:
            try:
                _cancellable(work, self.cancel, cancel)
            except Interrupted:
                if told.error is None:
                    raise
            if told.error is not None:  # also one that came too late to cancel anything
                raise told.error
        finally:
            told.error = None  # as in _beside()


Report = namedtuple("Report", [name for name, _ in _PushReport._fields_ if name != "struct_size"])
Report.__doc__ = """What a push did: .id of the commit that the branch stands at now, .parent, .created (False: the tip
was this already), and counts; what each is says wdelta.h."""
Loaded = namedtuple("Loaded", ["id", "step", "missing", "unexpected"])
Loaded.__doc__ = """What load_into() filled tensors with: the commit's .id and .step (or None), the names that the
commit does not have (.missing: left as they were) and those that it has beyond the state dict (.unexpected)."""
TensorDescription = namedtuple("TensorDescription", ["name", "dtype", "shape", "file", "size_bytes"])
FileDescription = namedtuple("FileDescription", ["path", "size_bytes", "digest"])

_CREATE = {None: 0, False: 0, True: 1, "repository": 1, "bucket": 2, "private bucket": 3}


class Repository(_Owner):
    """A repository. Keeps, for each branch that it pushed to, what the next push is compared with. Several threads may
    use it at once; their pushes queue.

    create: True makes the repository where there is none, "bucket" and "private bucket" the bucket as well; None: there
    must be one. environment: a mapping of the variables of wdelta(1), "Environment"; None: os.environ as it is now.
    threads, engine, transfers, bytes_per_second: as the options of the program; 0 and None: by default. progress and
    note: as for push(), for work that has none of its own. cancel: as for push(), while it is opened."""

    _free = "wdelta_close"

    def __init__(self, location, *, create=True, environment=None, threads=0, engine=None, transfers=0,
                 bytes_per_second=0, progress=None, note=None, cancel=None):
        super().__init__()
        self.location = os.fspath(location)
        if environment is None:
            environment = os.environb
        lines = []
        for name, value in _items("environment", environment):
            if value is None:
                _refuse(f"environment[{name!r}]", "is None", "leave out what is not set")
            if name:  # an entry of the process need not have one
                lines.append(_bytes(name) + b"=" + _bytes(value))
        self._progress, self._note = progress, note
        self._listener = _Listener(progress, note)
        options = _RepositoryOptions(settings=(_text * (len(lines) + 1))(*lines, None),
                                     create=_choice("create", create, _CREATE), engine=_bytes(engine),
                                     threads=_whole("threads", threads, 32), transfers=_whole("transfers", transfers, 32),
                                     bytes_per_second=_whole("bytes_per_second", bytes_per_second),
                                     callbacks=self._listener.pointer())
        handle = _handle()
        self._listener.call(cancel, self, _call, "wdelta_open", _bytes(os.fsencode(location)), ctypes.byref(options),
                            ctypes.byref(handle))
        self._handle = handle

    def _listener_for(self, progress, note):
        return _Listener(progress or self._progress, note or self._note)

    def push(self, state_dict, *, cancel=None, **options):
        """Makes a commit of the tensors of a state dict; the arguments are those of the function push()."""
        _refuse_called_back(self, "Repository: push")
        with _Push(self, **options) as push:
            push.add_all(state_dict)
            return push.commit(cancel)

    def commit(self, revision="", *, progress=None, note=None, cancel=None):
        """The Commit that a revision names, "" the tip of main."""
        return Commit(self, revision, progress=progress, note=note, cancel=cancel)

    def load_into(self, state_dict, revision="", *, progress=None, note=None, cancel=None, **options):
        """Fills the tensors of a state dict from the commit that a revision names; as the function load_into()."""
        with self.commit(revision, progress=progress, note=note, cancel=cancel) as commit:
            return commit.load_into(state_dict, cancel=cancel, **options)

    def resolve(self, revision=""):
        """The id of the commit that a revision names."""
        digits = (ctypes.c_char * 65)()
        self._open()
        _refuse_called_back(self._listener, "Repository: resolve")
        self._listener.call(None, self, self._on_handle, "wdelta_resolve", _bytes(revision), digits)
        return _str(digits.value)

    @property
    def reference_bytes(self):
        """How many bytes of memory the copies take that the next pushes are compared with."""
        with self._used() as handle:
            return _plain("wdelta_reference_bytes", handle)

    def drop_references(self):
        """Frees these copies, and memory that is kept for those of the next push: that one reads the previous state
        out of the repository. Waits for a push that runs."""
        _refuse_called_back(self, "Repository: drop_references")
        with self._used() as handle:
            _plain("wdelta_drop_references", handle)


_TENSORS = {"copied": 0, "borrowed": 1}
_REFERENCES = {"host": 0, "repository": 1, "device": 2}
_ANCHORS = {"auto": 0, "never": 1, "now": 2}


class _Push(_Cancellable):
    """One push. What it was given stays alive until it is closed."""

    _free, _cancel = "wdelta_push_free", "wdelta_push_cancel"

    def __init__(self, repository, *, branch=None, message=None, author=None, step=None, tag=None, meta=None,
                 files=None, file_metadata=None, weights_path=None, shard_bytes=0, tensors="borrowed",
                 reference="host", anchor="auto", compress=False, tied="each", progress=None, note=None):
        super().__init__()
        self._repository, self._kept = repository, []
        self._stores_once = _choice("tied", tied, {"each": False, "once": True})
        self._listener = repository._listener_for(progress, note)
        options = _PushOptions(branch=_bytes(branch), message=_bytes(message), author=_bytes(author), tag=_bytes(tag),
                               step=0 if step is None else _whole("step", step), has_step=0 if step is None else 1,
                               tensors=_choice("tensors", tensors, _TENSORS),
                               reference=_choice("reference", reference, _REFERENCES),
                               anchor=_choice("anchor", anchor, _ANCHORS), compress_whole=1 if compress else 0,
                               weights_path=_bytes(weights_path), largest_shard_bytes=_whole("shard_bytes", shard_bytes),
                               callbacks=self._listener.pointer())
        handle = _handle()
        repository._on_handle("wdelta_push_begin", ctypes.byref(options), ctypes.byref(handle))
        self._handle = handle
        for key, value in _items("meta", meta):
            if value is None:
                _refuse(f"meta[{key!r}]", "is None", "a value is a text or a number")
            _call("wdelta_push_meta", handle, _bytes(key), _bytes(value))
        for key, value in _items("file_metadata", file_metadata):
            _call("wdelta_push_file_metadata", handle, _bytes(key), _bytes(value))
        for path, content in _items("files", files):
            if isinstance(content, os.PathLike):
                try:
                    content = Path(content).read_bytes()
                except OSError as error:
                    kind = NotFoundError if isinstance(error, FileNotFoundError) else LocalError
                    raise kind(f"{path}: cannot be read: {os.fspath(content)}: {error.strerror}") from error
            elif isinstance(content, str):
                try:
                    content = content.encode()
                except UnicodeEncodeError:
                    _refuse(path, "is no text: UTF-8 cannot hold it", "give it as bytes")
            try:
                content = memoryview(content).tobytes()
            except TypeError:
                _refuse(path, f"is {type(content).__name__}", "a file is given as bytes, as a str or as a path")
            _call("wdelta_push_add_file", handle, _bytes(path), content, len(content))

    def add_all(self, state_dict):
        first_names = {}
        for name, view in _views(state_dict).items():
            first = first_names.setdefault(view.memory(), name)
            if self._stores_once and first != name and view.memory() is not None:
                self._on_handle("wdelta_push_file_metadata", _bytes(name), _bytes(first))
                continue
            self._on_handle("wdelta_push_add", ctypes.byref(view.told(name)))
            self._kept.append(view.keep)

    def let_go(self):
        """Of the tensors: they were copied."""
        self._kept.clear()

    def commit(self, cancel=None):
        report = _PushReport()
        self._work(cancel, _Told(self, self._repository), "wdelta_push_commit", ctypes.byref(report))
        values = [getattr(report, name) for name in Report._fields]
        told = Report(*(_str(value) if isinstance(value, bytes) else value for value in values))
        return told._replace(created=bool(told.created), compared_with_repository=bool(told.compared_with_repository))


class Commit(_Cancellable):
    """A commit, opened to be read: .id, .parent, .message, .author, .time, .step (None where it has none), .meta,
    .files and .tensors. Used by one thread at a time."""

    _free, _cancel = "wdelta_commit_free", "wdelta_commit_cancel"

    def __init__(self, repository, revision="", *, progress=None, note=None, cancel=None):
        super().__init__()
        self._repository = repository
        self._listener = repository._listener_for(progress, note)
        handle = _handle()
        repository._open()
        self._listener.call(cancel, repository, repository._on_handle, "wdelta_commit_open", _bytes(revision),
                            self._listener.pointer(), ctypes.byref(handle))
        self._handle = handle
        told = _CommitSummary()
        _call("wdelta_commit_summarise", handle, ctypes.byref(told))
        self.id, self.parent, self.message = _str(told.id), _str(told.parent), _str(told.message)
        self.author, self.time = _str(told.author), _str(told.time)
        self.step = told.step if told.has_step else None
        self.meta = {_str(told.meta_keys[i]): _str(told.meta_values[i]) for i in range(told.meta_count)}
        self.files = [self._file(i) for i in range(told.file_count)]
        self.tensors = [self._tensor(i) for i in range(told.tensor_count)]

    def _file(self, index):
        told = _File()
        self._on_handle("wdelta_commit_file", index, ctypes.byref(told))
        return FileDescription(_str(told.path), told.size_bytes, _str(told.digest))

    def _tensor(self, index):
        told = _TensorDescription()
        self._on_handle("wdelta_commit_tensor", index, ctypes.byref(told))
        shape = tuple(told.shape[i] for i in range(told.dimensions))
        return TensorDescription(_str(told.name), _str(told.dtype), shape, _str(told.file), told.size_bytes)

    def read(self, path, *, cancel=None):
        """The bytes of a file, compared with its digest."""
        _refuse_called_back(self, "Commit: read")
        size_bytes = _u64()
        self._on_handle("wdelta_commit_read_size", _bytes(path), ctypes.byref(size_bytes))
        content = bytearray(size_bytes.value)
        room = (ctypes.c_char * len(content)).from_buffer(content) if content else None
        self._work(cancel, _Told(self), "wdelta_commit_read", _bytes(path), room, len(content))
        del room
        return bytes(content)

    def load_into(self, state_dict, *, file=None, strict=True, cancel=None):
        """Fills the tensors of a state dict; as the function load_into()."""
        self._open()
        _refuse_called_back(self, "Commit: load_into")
        file = None if file is None else _str(_bytes(file))
        if file is not None and all(each.path != file for each in self.files):
            raise NotFoundError(f"{file}: is no file of commit {self.id[:12]}")
        views = _views(state_dict)
        held = {tensor.name for tensor in self.tensors if file is None or tensor.file == file}
        filled, told = {}, []  # by memory, whatever the names that share it; and by name
        for name, view in views.items():
            if name not in held:
                continue
            if not view.writable:
                _refuse(name, "is read-only")
            if view.device == _CUDA and view.stream == _PER_THREAD_STREAM:
                # Another thread fills, so that Ctrl-C ends it; its stream of that name is another one.
                _refuse(name, "is on the default stream of its own thread", "give it on a stream that has a name")
            told.append(filled.setdefault(view.memory() or name, view).told(name, file))
        missing = [name for name, view in views.items() if name not in held and view.memory() not in filled]
        if missing and strict:
            self._prove_absent(missing[0], file, cancel)
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            place = f"commit {self.id[:12]}" if file is None else f"{file} in commit {self.id[:12]}"
            raise NotFoundError(f"{missing[0]}{others}: no tensor of {place} has that name",
                                "strict=False fills the others")
        if told:
            self._work(cancel, _Told(self), "wdelta_commit_fill", (_Tensor * len(told))(*told), len(told))
        if missing:
            self._prove_absent(missing[0], file, cancel)
        for view in filled.values():
            if view.origin is not None:
                view.origin.detach().copy_(view.keep)
        _mark_written(view.origin if view.origin is not None else view.keep for view in filled.values())
        return Loaded(self.id, self.step, missing, sorted(held - views.keys()))

    def _prove_absent(self, name, file, cancel):
        """That a tensor is not there is what headers say, which the library compares with their digests first."""
        with contextlib.suppress(NotFoundError):
            self._work(cancel, _Told(self), "wdelta_commit_find", _bytes(name), _bytes(file),
                       ctypes.byref(_TensorDescription()))


def _mark_written(tensors):
    """Tells torch's autograd that tensors were written behind its back."""
    torch = sys.modules.get("torch")
    increment = getattr(getattr(getattr(torch, "autograd", None), "graph", None), "increment_version", None)
    if increment is not None:
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and not tensor.is_inference():
                increment(tensor)


# ---- The two doors --------------------------------------------------------------------------------------------------


_OF_REPOSITORY = ("create", "environment", "threads", "engine", "transfers", "bytes_per_second")


def _options_of_repository(options):
    return {name: options.pop(name) for name in _OF_REPOSITORY if name in options}


def push(state_dict, repo, *, cancel=None, **options):
    """Makes a commit of the tensors of a state dict and returns a Report, whose .id is the commit's. When this is what
    the branch stands at already, no commit is made.

    repo: a path, file://, s3:// or hf://buckets/ location, or a Repository, which is better where several pushes follow
    each other: it keeps what to compare with.
    branch ("main"), message, author, step (an integer), tag, meta (a mapping of texts): what the commit says.
    files: a mapping from places ("config.json") to bytes, text, or a path to read.
    file_metadata: texts for __metadata__ of the safetensors files, beside {"format": "pt"}; None takes an entry away.
    weights_path ("model.safetensors"), shard_bytes (5e9): where tensors go; beyond that they go to several files.
    tensors: "borrowed": they are read where they are, twice, and must not change until this returns (LocalError where
      they do); "copied": into host memory first.
    reference: what the next push of this Repository compares with: "host", a copy in memory; "repository", none;
      "device", a copy on the CUDA device (UnsupportedError where there is none).
    anchor ("auto", "never", "now"), compress (False): whether weights are stored whole as well, and compressed.
    tied: "each" or "once", see the module's text.
    progress(label, done, total): called some ten times a second, in other threads. An exception in it cancels. It must
      not call what would wait for the call that it is told of, nor wait for a thread that does: UsageError where that
      is seen at once (push(), drop_references() and close() of the Repository, anything of the Commit that is read).
    note(text): told what is worth knowing and no error. What it may call is as for progress.
    cancel: a threading.Event that, once set, ends this soon with Interrupted.
    create (True), environment, threads, engine, transfers, bytes_per_second: as for Repository, where repo is none."""
    if isinstance(repo, Repository):
        return repo.push(state_dict, cancel=cancel, **options)
    options.setdefault("reference", "repository")
    with Repository(repo, cancel=cancel, **_options_of_repository(options)) as repository:
        return repository.push(state_dict, cancel=cancel, **options)


def load_into(state_dict, location, *, file=None, strict=True, cancel=None, progress=None, note=None, **options):
    """Fills the tensors of a state dict, in place, from a commit, and returns what was Loaded. Name, dtype and shape
    must be the commit's; strides and device need not. Afterwards the numbers are the commit's, proven by its digests;
    when it fails on the way, tensors hold anything.

    location: "REPO@REV" (a branch, a tag, an id's first digits, "step:100", "main~2"), or "REPO": the tip of main.
    file: where a name is in several files of the commit, the one to take; NotFoundError where there is none.
    strict: tensors that the commit does not have are a NotFoundError, before anything is written; False leaves them.
      Either way that they are not there is proven, for which all files that could have them are read.
    cancel, progress, note: as for push(); create, environment and so on as for Repository, but nothing is created."""
    options.setdefault("create", None)
    repo, revision = _split(os.fsdecode(location), options.get("environment"))
    with Repository(repo, cancel=cancel, **options) as repository:
        return repository.load_into(state_dict, revision, file=file, strict=strict, cancel=cancel, progress=progress,
                                    note=note)


def _split(location, environment):
    """REPO and REV: at the last "@", unless the whole is a path of something that exists; as the program has it."""
    path = location
    if path.startswith("file://"):
        path = path[len("file://"):]
        path = unquote(path[len("localhost"):] if path.startswith("localhost") else path)
    if "@" not in location or os.path.exists(path):
        return location, ""
    repo, _, revision = location.rpartition("@")
    if not revision:
        raise UsageError(f"{location}: names no revision behind its '@'", "leave the '@' out for the tip of main")
    repo = repo or (os.environ if environment is None else environment).get("WDELTA_REPO", "")
    if not repo:
        raise UsageError(f"{location}: names no repository", "set WDELTA_REPO, or write REPO@REV")
    return repo, revision


# ---- In the background ----------------------------------------------------------------------------------------------


class _Begun:
    """A push of a Pusher, and what became of it."""

    def __init__(self, push):
        self.push, self.thread, self.error = push, None, None
        self.is_working, self.is_over = threading.Event(), threading.Event()


class Pusher:
    """Pushes in a thread, one after another. push() waits until the tensors are copied, and no longer; an error of a
    push is raised by the next call of push() or wait(), and by close(). Used by one thread.

    busy: what push() does while the push before still runs: "wait" for it, or "skip" this one and return False.
    attempts: how often, once at least, to try to commit where someone else pushed first or the network failed.
    done: called with the Report of each push, in its thread; its exception counts as the push's. It and progress must
      not call push(), wait() or close() of this, which wait for them: UsageError.
    The rest are as for push(), and may be given for each push too."""

    def __init__(self, repo, *, busy="wait", attempts=1, done=None, **options):
        self._skips = _choice("busy", busy, {"wait": False, "skip": True})
        self._attempts, self._done = _whole("attempts", attempts, 32), done
        if not self._attempts:
            _refuse("attempts", "0 would push nothing", "1 tries once")
        self._owned = not isinstance(repo, Repository)
        of_repository = _options_of_repository(options) if self._owned else {}
        self._options = self._checked(options)  # before a repository is made
        self._repository = Repository(repo, **of_repository) if self._owned else repo
        self._process = os.getpid()
        self._last_begun = None
        self.last = None  # the Report of the last push that succeeded

    @staticmethod
    def _checked(options):
        for name in options:
            if name not in _Push.__init__.__kwdefaults__:
                raise TypeError(f"Pusher has no option {name!r}")
        if options.get("tensors", "copied") != "copied":
            raise UsageError(f"tensors={options['tensors']!r}: a Pusher copies them, so that push() need not wait")
        return options

    def push(self, state_dict, **options):
        """Begins a push, once the one before is done. Raises the error of that one first: then nothing was begun, and
        the next call begins one. Returns False where it was skipped."""
        _refuse_called_back(self, "Pusher: push")
        self._open()
        if self._skips and self.running:
            return False
        self.wait()
        push = _Push(self._open(), **{**self._options, **self._checked(options), "tensors": "copied"})
        try:
            push.add_all(state_dict)
            self._open()
        except BaseException:
            push.close()
            raise
        push.let_go()
        begun = _Begun(push)
        # No daemon: the interpreter waits for it, so that the last push of a program is not cut off.
        thread = threading.Thread(target=self._commit, args=(begun,), name="wdelta-push", daemon=False)
        try:
            if sys.is_finalizing():  # it would never run: see _cancellable()
                self._commit(begun)
            else:
                thread.start()
                begun.thread = thread
        except RuntimeError:  # there are no threads to be had, as in an atexit handler from Python 3.12 on
            self._commit(begun)
        except BaseException:  # Ctrl-C, and it may run already; where it has not begun it finds the handle closed
            push.cancel()
            if begun.is_working.wait(1):
                begun.thread, self._last_begun = thread, begun
            else:
                push.close()
            raise
        self._last_begun = begun
        return True

    def _open(self):
        if self._repository is None:
            raise UsageError("Pusher: is closed")
        return self._repository

    @property
    def _begun(self):
        """The push that runs, or whose outcome nobody has asked for. In a child after fork() that is the parent's."""
        return self._last_begun if self._process == os.getpid() else None

    def _commit(self, begun):
        begun.is_working.set()
        try:
            with _Told(self).telling():
                with begun.push as push:
                    for attempt in range(1, self._attempts + 1):
                        try:
                            self.last = push.commit()
                            break
                        except (ConflictError, NetworkError):
                            if attempt >= self._attempts:
                                raise
                if self._done is not None:
                    self._done(self.last)
        except BaseException as error:
            begun.error = error
        finally:
            begun.is_over.set()

    @property
    def running(self):
        """Whether a push is on its way."""
        begun = self._begun
        return begun is not None and not begun.is_over.is_set()

    def wait(self):
        """Waits for the push that runs. Returns the Report of the last one that succeeded (None before the first), or
        raises the error of the last one, once."""
        _refuse_called_back(self, "Pusher: wait")
        begun = self._begun
        if begun is not None:
            # Not join(): up to Python 3.12 a thread counts as ended once Ctrl-C has broken off a join() of it.
            begun.is_over.wait()
            if begun.thread is not None:
                begun.thread.join()
            self._last_begun = None
            try:
                if begun.error is not None:
                    raise begun.error
            finally:
                begun.error = None  # as in _beside()
        return self.last

    def cancel(self):
        """Makes the push that runs end soon with Interrupted."""
        begun = self._begun
        if begun is not None:
            begun.push.cancel()

    def close(self):
        """Waits for the push that runs and raises its error; a second call does nothing. Where Ctrl-C ends the waiting
        the push goes on, and this may be called again."""
        _refuse_called_back(self, "Pusher: close")
        try:
            self.wait()
        finally:
            if not self.running:
                repository, self._repository = self._repository, None
                if repository is not None and self._owned:
                    repository.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        # What the loop pushed last is worth keeping whatever ended the loop, but for a user who is in a hurry.
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.cancel()
        try:
            self.close()
        except Exception:
            if kind is None:
                raise
