# SPDX-License-Identifier: Apache-2.0
"""What only a terminal gets to see: progress and colour."""

import os
import re
import signal
import time

import testing
from terminal import Terminal

YELLOW = "\x1b[33m"
WIPED = "\r\x1b[K"
BAR = re.compile(r"\x1b\[K(\w+): [a-z ]+? +(\d+) %  ([\d.]+ \w+) of ([\d.]+ \w+)  ([\d.]+ \w+)/s  (\d+:\d\d) left")


class OnTerminal(testing.Case):
    def on_terminal(self, *words, slowly=False, stdout=None, **environment):
        """What the program writes to its terminal, and its exit status; slowly: it gets a little time now and then."""
        environment = {"TERM": "xterm", **environment}
        environment = {name: value for name, value in self.environment(**environment).items() if value is not None}
        with Terminal(self.command(*words), environment, self.scratch, stdout=stdout) as terminal:
            if slowly:
                self.hold_back(terminal)
            code = terminal.wait()
        return terminal.screen, code

    def hold_back(self, terminal):
        """Lets the program run for a moment at a time, so that its work takes long enough to be watched."""
        while not terminal.ended():
            os.kill(terminal.child, signal.SIGSTOP)
            terminal.read(0.03)
            os.kill(terminal.child, signal.SIGCONT)
            time.sleep(0.0005)  # less than a fast machine needs to be done before anything is drawn

    def make_pair(self, size="64M"):
        return self.make_run("run", "--size", size, "--steps", "2")


class ProgressTest(OnTerminal):
    def check(self, label, total_bytes, *words, tries=1):
        bars = []
        while not bars and tries > 0:
            screen, code = self.on_terminal(*words, slowly=True)
            self.assertEqual(code, 0, screen)
            bars = BAR.findall(screen)
            tries -= 1
        self.assertTrue(bars, f"no progress with share, bytes, rate and time left: {screen!r}")
        self.assertEqual({bar[0] for bar in bars}, {label})
        # One stretch over all files: shares grow, and the total is that of all bytes.
        self.assertEqual(len({bar[3] for bar in bars}), 1, bars)
        shares = [int(bar[1]) for bar in bars]
        self.assertEqual(shares, sorted(shares))
        self.assertLess(max(shares), 101)
        value, unit = bars[0][3].split()
        self.assertAlmostEqual(float(value) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit] / total_bytes, 1, 2)
        # The line is off the screen when results come.
        self.assertIn(WIPED, screen[screen.rfind("left"):])

    def total(self, folder):
        return sum(path.stat().st_size for path in folder.iterdir())

    def test_every_long_command_tells_how_long_it_takes_over_all_bytes(self):
        base, next_ = self.make_pair()
        repo = self.scratch / "repo"
        self.check("push", self.total(base), "push", base, repo, "-j", 1)
        self.check("diff", self.total(next_), "diff", base, next_, "-j", 1, "-o", self.scratch / "delta")
        self.check("apply", self.total(next_), "apply", base, self.scratch / "delta", "-o", self.scratch / "out",
                   "-j", 1)
        self.check("pull", self.total(base), "pull", repo, self.scratch / "pulled", "-j", 1)
        # It only reads, and on a machine with other work to do it may be through before it is held back.
        self.check("verify", self.total(base), "verify", base, repo, "-j", 1, tries=10)

    def test_an_anchor_is_one_stretch(self):
        base, next_ = self.make_pair()
        self.run_ok("push", base, self.scratch / "repo")
        screen, _ = self.on_terminal("push", next_, self.scratch / "repo", "--anchor", "now", "-j", 1, slowly=True)
        anchors = [bar for bar in re.findall(r"storing an anchor +\d+ %  [^ ]+ \w+ of ([\d.]+ \w+)", screen)]
        self.assertEqual(len(set(anchors)), 1, screen)

    def test_it_is_not_drawn_elsewhere_or_when_unwanted(self):
        base, next_ = self.make_pair("16M")
        for options in (["--no-progress"], ["-q"]):
            screen, _ = self.on_terminal("diff", base, next_, "-j", 1, *options, slowly=True)
            self.assertNotIn("left", screen)
            self.assertNotIn("\x1b", screen)
        self.assertEqual(self.run_any("diff", base, next_, "-j", 1).err, "")


class ColourTest(OnTerminal):
    def setUp(self):
        super().setUp()
        self.repo = self.scratch / "repo"
        self.run_ok("push", "-q", self.write_weights("a.safetensors", self.some_weights()), self.repo)

    def log(self, *options, **environment):
        return self.on_terminal("log", self.repo, *options, **{"NO_COLOR": None, **environment})[0]

    def test_a_terminal_gets_colour(self):
        self.assertIn(YELLOW, self.log())
        self.assertIn(YELLOW, self.log(NO_COLOR=""))

    def test_no_color_and_a_dumb_terminal_get_none(self):
        self.assertNotIn("\x1b", self.log(NO_COLOR="1"))
        self.assertNotIn("\x1b", self.log(TERM="dumb"))
        self.assertNotIn("\x1b", self.log("--color", "never"))
        self.assertNotIn("\x1b", self.log("--json"))

    def test_what_is_no_terminal_gets_none(self):
        self.assertNotIn("\x1b", self.run_ok("log", self.repo))
        with open(self.scratch / "piped", "w+b") as file:
            screen, _ = self.on_terminal("log", self.repo, stdout=file.fileno(), NO_COLOR=None)
            self.assertEqual(screen, "")
            self.assertNotIn(b"\x1b", (self.scratch / "piped").read_bytes())

    def test_who_asks_for_it_gets_it(self):
        self.assertIn(YELLOW, self.run_ok("log", self.repo, "--color", "always", env={"NO_COLOR": "1"}))


if __name__ == "__main__":
    testing.main()
