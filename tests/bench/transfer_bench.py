#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a push and a pull over loopback against curl on the same objects, in the same run.

usage: transfer_bench.py BUILD_FOLDER SIZE [FOLDER]

A checkpoint of SIZE (2G) is pushed whole to a server of S3's protocol on loopback (transfer_server.py), and pulled into
an empty directory. All files are in FOLDER, in memory (/dev/shm) unless it is named, so that no disk is measured. curl
moves the same bytes between the same files and the same server: one process, the objects one after the other (curl), or
eight at a time (curl -Z), over connections that it keeps. It neither hashes nor checks nor syncs; wdelta does all three.
Behind it come pulls and checks of many small files and of a few large ones (SHARDS), from the same server when each of
its answers takes ROUND_TRIP_S.
Times are medians of whole processes taken in turn; peak memory is the largest resident set of any run, beside that of
the same work on a repository in a directory, which needs no network.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench import machine, table  # noqa: E402
from transfer_server import TransferServer  # noqa: E402

RUNS = 5
MOST_BEYOND_BYTES = 256 << 20
MOST_OF_CURL = 1.25
SHARDS = [(64, 8 << 20), (6, 256 << 20)]  # how many files, of how many bytes each
ROUND_TRIP_S = 0.05


class Done:
    def __init__(self, seconds, cpu, peak):
        self.seconds, self.cpu, self.peak = seconds, cpu, peak


def run(command, environment):
    """Wall time, processor time and the largest resident set of one process."""
    start = time.perf_counter()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    told = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command[:3]}: exit {child.returncode}: {told.decode()}")
    return Done(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10)


class Bench:
    def __init__(self, build, size, folder, server):
        self.wdelta, self.folder, self.server = f"{build}/wdelta", folder, server
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "WDELTA_"))},
            "AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something",
            "WDELTA_STATE_DIR": f"{folder}/state", "WDELTA_CACHE_DIR": f"{folder}/cache", "no_proxy": "127.0.0.1"}
        subprocess.run([f"{build}/tests/make-run", f"{folder}/run", "--steps", "1", "--size", size, "--quiet"], check=True)
        self.checkpoint = f"{folder}/run/" + os.listdir(f"{folder}/run")[0]
        self.series = {}

    def measure(self, name, command, before=lambda: None, after=lambda: None):
        for path in ("state", "out", "curl"):
            shutil.rmtree(f"{self.folder}/{path}", ignore_errors=True)
        before()
        self.series.setdefault(name, []).append(run(command, self.environment))
        after()

    def of_wdelta(self, *words):
        return [self.wdelta, *words, "--quiet"]

    def of_curl(self, options, pairs):
        return ["curl", "--silent", "--show-error", "--fail", *options, *(word for pair in pairs for word in pair)]

    def turn(self):
        server = self.server
        self.measure("push", self.of_wdelta("push", self.checkpoint, "s3://bucket/run"),
                     before=lambda: server.remove("run/"))
        objects = server.sizes("run/objects/")
        large = sorted((key for key, size in objects.items()), key=lambda key: -objects[key])
        # The same bytes: the objects are the files of the checkpoint, whole.
        files = {os.path.getsize(f"{self.checkpoint}/{name}"): f"{self.checkpoint}/{name}" for name in os.listdir(self.checkpoint)}
        pairs = [["-T", files[objects[key]], f"{server.url}/bucket/curl/{key}"] for key in large if objects[key] in files]
        moved = sum(objects[key] for key in large if objects[key] in files)
        for name, options in (("curl up", []), ("curl -Z up", ["-Z", "--parallel-max", "8"])):
            self.measure(name, self.of_curl(options, pairs), after=lambda: server.remove("curl/"))
        self.measure("pull", self.of_wdelta("pull", "s3://bucket/run", f"{self.folder}/out"))
        pairs = [["-o", f"{self.folder}/curl/{key}", f"{server.url}/bucket/{key}"] for key in large]
        for name, options in (("curl down", []), ("curl -Z down", ["-Z", "--parallel-max", "8"])):
            self.measure(name, self.of_curl(["--create-dirs", *options], pairs))
        local = f"{self.folder}/local"
        shutil.rmtree(local, ignore_errors=True)
        self.measure("local push", self.of_wdelta("push", self.checkpoint, local))
        self.measure("local pull", self.of_wdelta("pull", local, f"{self.folder}/out"))
        shutil.rmtree(local)
        return moved

    def median(self, name):
        return statistics.median(done.seconds for done in self.series[name])

    def peak(self, name):
        return max(done.peak for done in self.series[name])

    def row(self, name, curls, local):
        median = self.median(name)
        fastest = min(self.median(curl) for curl in curls)
        def cpu(name):
            return statistics.median(done.cpu for done in self.series[name])

        beyond = self.peak(name) - self.peak(local)
        return ([name, f"{median:.2f}", f"{self.moved / median / 1e9:.2f}", f"{cpu(name):.2f}",
                 *(f"{self.median(curl):.2f}" for curl in curls), f"{min(map(cpu, curls)):.2f}", f"{median / fastest:.2f}",
                 f"{self.peak(name) >> 20}", f"{beyond / 2**20:.0f}"],
                median <= MOST_OF_CURL * fastest and beyond <= MOST_BEYOND_BYTES)

    def report(self, moved):
        self.moved = moved
        rows = [self.row("push", ["curl up", "curl -Z up"], "local push"),
                self.row("pull", ["curl down", "curl -Z down"], "local pull")]
        table(f"a push and a pull of {moved / 2**30:.2f} GiB over loopback, everything in memory",
              ["", "s", "GB/s", "CPU s", "curl, s", "curl -Z, s", "CPU s", "of the faster", "peak, MiB", "beyond a directory's, MiB"],
              [row for row, _ in rows])
        print(f"\ngoal: at most {MOST_OF_CURL} of curl's time, at most {MOST_BEYOND_BYTES >> 20} MiB beyond: "
              + ("met" if all(met for _, met in rows) else "missed"))


def in_shards(bench, count, size_bytes):
    """Pulls of a checkpoint in so many files, whole and from one step to the next, and checks of what holds both."""
    folder, server = bench.folder, bench.server
    shards, repository, out = f"{folder}/shards-{count}", f"s3://bucket/shards-{count}", f"{folder}/out"
    subprocess.run([f"{os.path.dirname(bench.wdelta)}/tests/make-run", shards, "--steps", "2", "--size",
                    str(count * size_bytes), "--shards", str(count), "--quiet"], check=True)
    for step in sorted(os.listdir(shards)):
        run(bench.of_wdelta("push", f"{shards}/{step}", repository, "--anchor", "never"), bench.environment)
    shutil.rmtree(shards)
    rows = []
    for name, held, words in (("pull all of it", None, ["pull", f"{repository}@main~1", out]),
                              ("pull one step further", "main~1", ["pull", f"{repository}@main", out]),
                              ("verify", None, ["verify", repository]),
                              ("verify --deep", None, ["verify", "--deep", repository])):
        done = []
        for _ in range(int(os.environ.get("RUNS", RUNS))):
            shutil.rmtree(out, ignore_errors=True)
            if held:
                run(bench.of_wdelta("pull", f"{repository}@{held}", out), bench.environment)
            requests, sent_bytes, server.delay_s = server.requests, server.sent_bytes, ROUND_TRIP_S
            done.append(run(bench.of_wdelta(*words), bench.environment))
            server.delay_s = 0
        rows.append([name, f"{statistics.median(one.seconds for one in done):.2f}", f"{server.requests - requests}",
                     f"{(server.sent_bytes - sent_bytes) / 1e6:.1f}"])
    table(f"pulls and checks of {count} files of {size_bytes >> 20} MiB from a server whose answers take {1000 * ROUND_TRIP_S:.0f} ms",
          ["", "s", "requests", "MB that came"], rows)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    build, size = os.path.abspath(sys.argv[1]), sys.argv[2]
    above = sys.argv[3] if len(sys.argv) == 4 else "/dev/shm"
    folder = tempfile.mkdtemp(prefix="wdelta-transfer-", dir=above)
    try:
        version = subprocess.run(["curl", "--version"], check=True, stdout=subprocess.PIPE).stdout.decode().split(" (")[0]
        print(f"machine: {machine()}; {version}; files in {above}")
        with TransferServer(f"{folder}/server") as server:
            bench = Bench(build, size, folder, server)
            moved = [bench.turn() for _ in range(int(os.environ.get("RUNS", RUNS)))][-1]
            bench.report(moved)
            for count, size_bytes in SHARDS:
                in_shards(bench, count, size_bytes)
            if os.environ.get("JSON"):
                print(json.dumps({name: [vars(done) for done in series] for name, series in bench.series.items()}))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
