# SPDX-License-Identifier: Apache-2.0
"""A program on a terminal of its own, for tests of what only a terminal gets to see."""

import os
import pty
import select
import signal
import time

# Only a program that hangs makes a test wait so long.
_PATIENCE_SECONDS = 120


class Terminal:
    """Runs a program with a terminal as its input, output and error; `screen` is all that it wrote so far."""

    def __init__(self, command, environment, folder, stdout=None, columns=200):
        self.screen = ""
        self.code = None
        self.child, self.master = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.environ["COLUMNS"] = str(columns)
            if stdout is not None:
                os.dup2(stdout, 1)
            os.execvpe(str(command[0]), [str(word) for word in command], environment)
        os.set_blocking(self.master, False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.master)
        if self.code is None:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds=1):
        """Reads what comes within so many seconds; whether there may be more."""
        select.select([self.master], [], [], seconds)
        try:
            piece = os.read(self.master, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:  # what Linux says once the program is gone
            return False
        self.screen += piece.decode("utf-8", "replace")
        return bool(piece)

    def wait_for(self, text):
        """Reads until the text was written."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while text not in self.screen:
            if not self.read() or time.monotonic() > end:
                raise AssertionError(f"{text!r} did not come; what came is\n{self.screen}")

    def ended(self):
        """Whether the program is gone; its exit status is kept for wait()."""
        return os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self):
        """Reads until the program is gone; returns its exit status."""
        while self.read():
            pass
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        return self.code
