#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures wdelta against its peers on the same files in the same run.

usage: bench.py BUILD_FOLDER SIZE

Makes a pair of checkpoints of SIZE (512M, 1G; zstd --patch-from takes at most 1G) that differ as post-training steps
do, in BUILD_FOLDER/bench, reads them into the page cache, and prints medians of whole processes. Paired figures are
taken in turn, A B A B, so that a drifting machine does not favour one side.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

RUNS = 5


def run(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options).stdout.decode()


def seconds(command, before=None):
    if before:
        before()
    start = time.perf_counter()
    subprocess.run(command, check=True, shell=isinstance(command, str), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def paired(commands, runs=RUNS, before=None):
    """Medians of several commands, taken in turn after one warm-up of each."""
    times = [[] for _ in commands]
    for turn in range(runs + 1):
        for series, command in zip(times, commands):
            taken = seconds(command, before)
            if turn > 0:
                series.append(taken)
    return [statistics.median(series) for series in times]


def table(title, heading, rows):
    widths = [max(len(str(row[i])) for row in [heading] + rows) for i in range(len(heading))]
    print(f"\n{title}\n")
    for number, row in enumerate([heading] + rows):
        cells = [str(cell).ljust(width) if i == 0 else str(cell).rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 1) + ("-" if i == 0 else ":") for i, width in enumerate(widths)) + "|")


def machine():
    with open("/proc/cpuinfo") as f:
        info = dict(line.split(":", 1) for line in f.read().split("\n\n")[0].splitlines() if ":" in line)
    info = {key.strip(): value.strip() for key, value in info.items()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{info['model name']} (family {info['cpu family']}, model {info['model']}), {os.cpu_count()} cores, {memory:.0f} GiB, "
            f"Linux {os.uname().release}")


def google_benchmark(program, title, pattern):
    if not os.path.exists(program):
        print(f"\n{title}: skipped, Google Benchmark was not there at configure time")
        return
    text = run([program, "--benchmark_format=json", f"--benchmark_filter={pattern}", "--benchmark_min_time=0.2"])
    rows = [[entry["name"], f"{entry['bytes_per_second'] / 1e9:.1f}"] for entry in json.loads(text)["benchmarks"] if "bytes_per_second" in entry]
    table(title, ["kernel", "GB/s"], rows)


def blake3(build, pair):
    ours, theirs = paired([[f"{build}/bench-hash-file", "1", pair[1]], ["b3sum", "--num-threads", "1", pair[1]]])
    both, b3sum = paired([[f"{build}/bench-hash-file", str(os.cpu_count()), *pair], ["b3sum", *pair]])
    size = os.path.getsize(pair[1]) / 1e9
    table("BLAKE3 of a file in the page cache, whole processes", ["", "wdelta, s", "GB/s", "b3sum, s", "GB/s", "speed ratio"], [
        ["one thread, one file", f"{ours:.3f}", f"{size / ours:.1f}", f"{theirs:.3f}", f"{size / theirs:.1f}", f"{theirs / ours:.2f}"],
        ["all cores, both files", f"{both:.3f}", f"{2 * size / both:.1f}", f"{b3sum:.3f}", f"{2 * size / b3sum:.1f}", f"{b3sum / both:.2f}"],
    ])


def end_to_end(wdelta, pair, chain, folder):
    old, new = pair
    delta, out = f"{folder}/delta", f"{folder}/out"
    env_free = [wdelta, "--quiet"]

    def clean():
        for path in (out, f"{folder}/out.cp"):
            if os.path.exists(path):
                os.unlink(path)

    diff, b3sum = paired([[*env_free, "diff", old, new, "-o", delta], ["b3sum", old, new]])
    apply, copy = paired([[*env_free, "apply", old, delta, "-o", out], f"cp {old} {folder}/out.cp && b3sum {folder}/out.cp"], before=clean)
    one, ten = paired([[*env_free, "apply", old, chain[0], "-o", out], [*env_free, "apply", old, *chain, "-o", out]], before=clean)
    run([*env_free, "apply", old, delta, "-o", out])
    run(["cmp", out, new])
    clean()
    print("(zstd and xdelta3 are measured once: they take long)")
    zstd = seconds(["zstd", "-1", "-q", "-f", f"--patch-from={old}", new, "-o", f"{folder}/zstd"])
    zstd_back = seconds(["zstd", "-d", "-q", "-f", "--long=31", f"--patch-from={old}", f"{folder}/zstd", "-o", out])
    xdelta = seconds(["xdelta3", "-1", "-e", "-f", "-s", old, new, f"{folder}/xdelta"])
    clean()
    xdelta_back = seconds(["xdelta3", "-d", "-f", "-s", old, f"{folder}/xdelta", out])
    clean()
    size = os.path.getsize(delta)

    def peer(name, back_and_forth, path):
        forth, back = back_and_forth
        return [name, f"{forth:.2f}", f"{forth / diff:.1f} ×", f"{back:.2f}", f"{back / apply:.1f} ×", f"{os.path.getsize(path) / 1e6:.2f}",
                f"{os.path.getsize(path) / size:.1f} ×"]

    table(f"diff and apply, a pair of {os.path.getsize(old) / 2**30:.2f} GiB in the page cache, all cores",
          ["", "diff, s", "of wdelta's", "apply, s", "of wdelta's", "delta, MB", "of wdelta's"], [
              ["wdelta", f"{diff:.3f}", "1", f"{apply:.3f}", "1", f"{size / 1e6:.2f}", "1"],
              ["b3sum OLD NEW", f"{b3sum:.3f}", f"{b3sum / diff:.2f} ×", "", "", "", ""],
              ["cp BASE OUT; b3sum OUT", "", "", f"{copy:.3f}", f"{copy / apply:.2f} ×", "", ""],
              peer("zstd -1 --patch-from", (zstd, zstd_back), f"{folder}/zstd"),
              peer("xdelta3 -1", (xdelta, xdelta_back), f"{folder}/xdelta"),
          ])
    table("a chain of deltas", ["", "apply, s", "of one delta's"], [["1 delta", f"{one:.3f}", "1"], [f"{len(chain)} deltas", f"{ten:.3f}", f"{ten / one:.2f} ×"]])


def codec(wdelta, pair):
    report = json.loads(run([wdelta, "diff", *pair, "--json"]))
    rows = [["automatic", report["changed"], f"{report['changed'] / report['elements']:.2%}", report["encoded_bytes"],
             f"{8 * report['encoded_bytes'] / report['changed']:.2f}"]]
    for encoding in ("sparse", "dense", "whole"):
        forced = json.loads(run([wdelta, "diff", *pair, "--json", "--encoding", encoding]))
        rows.append([encoding, forced["changed"], "", forced["encoded_bytes"], f"{8 * forced['encoded_bytes'] / forced['changed']:.2f}"])
    table("coded size", ["encoding", "changed elements", "density", "bytes", "bits a change"], rows)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, size = os.path.abspath(sys.argv[1]), sys.argv[2]
    wdelta = f"{build}/wdelta"
    folder = f"{build}/bench"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    print(f"machine: {machine()}\n{run([wdelta, '--version']).strip()}; b3sum {run(['b3sum', '--version']).split()[1]}, "
          f"{run(['zstd', '--version']).strip().strip('*').strip()}")
    google_benchmark(f"{build}/tests/bench-engine", "engine kernels and block codec, one core", ".*")
    google_benchmark(f"{build}/tests/bench-blake3", "BLAKE3 kernels, one core", ".*")
    google_benchmark(f"{build}/tests/bench-xet", "Xet, what an upload to the Hub is made of, one core", ".*")
    run([f"{build}/tests/make-run", f"{folder}/run", "--steps", "11", "--size", size, "--single", "--quiet"])
    steps = [f"{folder}/run/step-{step:04}/model.safetensors" for step in range(1, 12)]
    chain = [f"{folder}/chain-{number}" for number in range(10)]
    for number, delta in enumerate(chain):
        run([wdelta, "diff", steps[number], steps[number + 1], "-o", delta])
    for step in steps[2:]:
        os.unlink(step)
    pair = steps[:2]
    run(["b3sum", *pair])  # into the page cache
    blake3(f"{build}/tests", pair)
    codec(wdelta, pair)
    end_to_end(wdelta, pair, chain, folder)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
