# SPDX-License-Identifier: Apache-2.0
"""Runs whole programs in turn, A B A B, so that a drifting machine does not favour one side, and says what they took."""

import argparse
import dataclasses
import os
import statistics
import subprocess
import time


@dataclasses.dataclass
class Run:
    wall_s: float
    cpu_s: float
    peak_bytes: int


class Series:
    """The runs of one command. Medians for what a user waits for; the least processor time for comparing under load."""

    def __init__(self):
        self.runs = []

    @property
    def wall_s(self):
        return statistics.median(run.wall_s for run in self.runs)

    @property
    def cpu_s(self):
        return min(run.cpu_s for run in self.runs)

    @property
    def peak_bytes(self):
        return max(run.peak_bytes for run in self.runs)

    def over(self, other):
        """This one's time in units of the other's: the median over the rounds, each of which ran both."""
        return statistics.median(a.wall_s / b.wall_s for a, b in zip(self.runs, other.runs))

    def cpu_over(self, other):
        return self.cpu_s / other.cpu_s


def cores():
    """How many programs run on by default, wdelta and its peers alike: `taskset -c 0,1 make bench` is a bench on two."""
    return len(os.sched_getaffinity(0))


def output_of(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options).stdout.decode()


def run(command):
    """One run, of a list of arguments or a line for the shell. What it prints is dropped unless it fails."""
    start = time.perf_counter()
    child = subprocess.Popen(command, shell=isinstance(command, str), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command}: exit status {child.returncode}: {said.decode(errors='replace')}")
    return Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def paired(commands, rounds, before=lambda: None, warm_up=True):
    """A Series for each command; `before` is called before every single run and is not timed."""
    series = [Series() for _ in commands]
    for number in range(rounds + warm_up):
        for one, command in zip(series, commands):
            before()
            taken = run(command)
            if number >= warm_up:
                one.runs.append(taken)
    return series


def table(title, heading, rows):
    cells = [[str(cell) for cell in row] for row in [heading] + rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heading))]

    def line(row):
        return "| " + " | ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))) + " |"

    rule = "|" + "|".join("-" * (w + 1) + ("-" if i == 0 else ":") for i, w in enumerate(widths)) + "|"
    print("\n".join(["", title, "", line(cells[0]), rule] + [line(row) for row in cells[1:]]), flush=True)


def machine():
    with open("/proc/cpuinfo") as f:
        first = dict(line.split(":", 1) for line in f.read().split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in first.items()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{fields.get('model name', os.uname().machine)} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')}), "
            f"{cores()} cores, {memory:.0f} GiB, Linux {os.uname().release}")


def read_whole(path):
    """Into the page cache."""
    with open(path, "rb", buffering=0) as f:
        while f.read(1 << 22):
            pass


def forget(path):
    """Out of the page cache: what is written is on the disk first, else it would stay."""
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def probability(text):
    """Of an argument."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: a probability above 0, at most 1")
    return value
