#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures wdelta against its peers on the same files in the same run.

usage: bench.py [--keep P] BUILD_FOLDER SIZE [CHECKPOINT.safetensors...]

Makes checkpoints of SIZE (512M, 2G) in BUILD_FOLDER/bench: of the given files, consecutive ones of a real run, tiled;
else of a made-up run that differs as post-training steps do. With --keep each change of the given files is kept with
probability P (tensors.py). Prints medians of whole processes, taken in turn. ROUNDS in the environment says how many
rounds (5); ONLY, which tables: kernels,blake3,codec,hallway,cores,shards,engines,cold,peers; SHARD, how large the files
of the table of shards are (16M).
"""
import argparse
import json
import os
import shutil
import sys

from measure import cores, forget, machine, output_of, paired, probability, read_whole, run, table
from tile import size_bytes

ROUNDS = int(os.environ.get("ROUNDS", "5"))
CHAIN = 10
HERE = os.path.dirname(os.path.abspath(__file__))
SHARD_BYTES = size_bytes(os.environ.get("SHARD", "16M"))
PATCH_FROM_BYTES = 2**30  # zstd --patch-from is not asked for more


def google_benchmark(program, title):
    if not os.path.exists(program):
        print(f"\n{title}: skipped, Google Benchmark was not there at configure time")
        return
    text = output_of([program, "--benchmark_format=json", "--benchmark_min_time=0.2"])
    rows = [[entry["name"], f"{entry['bytes_per_second'] / 1e9:.1f}"] for entry in json.loads(text)["benchmarks"] if "bytes_per_second" in entry]
    table(title, ["kernel", "GB/s"], rows)


class Bench:
    def __init__(self, build, size, checkpoints, keep, has_chain):
        self.build, self.folder = build, f"{build}/bench"
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        os.environ["WDELTA_STATE_DIR"] = f"{self.folder}/state"
        self.wdelta = [f"{build}/wdelta", "--quiet"]
        self.out = f"{self.folder}/out"
        self.delta = f"{self.folder}/delta"
        self.chain = [f"{self.folder}/chain-{number}" for number in range(CHAIN if has_chain else 1)]
        self.old, self.new = self.make_checkpoints(size, self.thinned(checkpoints, keep) if keep else checkpoints)
        self.size_bytes = os.path.getsize(self.new)
        self.b3sum = ["b3sum", self.old, self.new]
        self.diff = [*self.wdelta, "diff", self.old, self.new, "-o", self.delta]
        self.apply = [*self.wdelta, "apply", self.old, self.delta, "-o", self.out]
        self.copy = f"cp {self.old} {self.out} && b3sum {self.out}"
        run(self.diff)
        os.sync()  # or the system would write to the disk what was made here while the first rounds run

    def thinned(self, checkpoints, keep):
        folder = f"{self.folder}/thinned"
        os.makedirs(folder)
        # By a program of its own, as below.
        run([sys.executable, "-B", f"{HERE}/tensors.py", str(keep), folder, *checkpoints])
        return [f"{folder}/{os.path.basename(path)}" for path in checkpoints]

    def make_checkpoints(self, size, checkpoints):
        """Two files that stay, and a delta for each step of the chain, which are made and removed one by one."""
        turn = 2 * (len(checkpoints) - 1)  # there and back again, when there are fewer than the chain needs
        if not checkpoints:
            run([f"{self.build}/tests/make-run", f"{self.folder}/run", "--steps", str(len(self.chain) + 1), "--size", size, "--single", "--quiet"])
        elif turn <= CHAIN:
            sys.exit(f"bench.py: give {CHAIN // 2 + 2} or more consecutive checkpoints, or none")

        def step(number):
            if not checkpoints:
                return f"{self.folder}/run/step-{number + 1:04}/model.safetensors"
            path = f"{self.folder}/step-{number:04}.safetensors"
            if not os.path.exists(path):
                # Each tile is at another point of the way, so that no two steps of the chain are the same file.
                tiles = [checkpoints[min(at, turn - at)] for at in ((number + copy) % turn for copy in range(turn))]
                # By a program of its own: this one's size would be taken for that of the programs that it starts.
                run([sys.executable, "-B", f"{HERE}/tile.py", path, size, *tiles])
            return path

        for number, delta in enumerate(self.chain):
            run([*self.wdelta, "diff", step(number), step(number + 1), "-o", delta])
            if number > 1:
                os.unlink(step(number))
        if len(self.chain) > 1:
            os.unlink(step(len(self.chain)))
        return step(0), step(1)

    def warm(self):
        """The state before every run: inputs in the page cache, whatever else goes on, and no output."""
        self.clean()
        for path in (self.old, self.new):
            read_whole(path)

    def clean(self):
        if os.path.exists(self.out):
            os.unlink(self.out)

    def blake3(self):
        hash_file = f"{self.build}/tests/bench-hash-file"
        one = paired([[hash_file, "1", self.new], ["b3sum", "--num-threads", "1", self.new]], ROUNDS, self.warm)
        all_cores = paired([[hash_file, str(cores()), self.old, self.new], self.b3sum], ROUNDS, self.warm)
        rows = []
        for name, size_bytes, (ours, theirs) in (("one thread, one file", self.size_bytes, one), ("all cores, both files", 2 * self.size_bytes, all_cores)):
            rows.append([name, f"{ours.wall_s:.3f}", f"{size_bytes / 1e9 / ours.wall_s:.1f}", f"{theirs.wall_s:.3f}", f"{size_bytes / 1e9 / theirs.wall_s:.1f}",
                         f"{ours.over(theirs):.2f}", f"{ours.cpu_over(theirs):.2f}"])
        table("BLAKE3 of a file in the page cache, whole processes", ["", "wdelta, s", "GB/s", "b3sum, s", "GB/s", "ratio", "of CPU time"], rows)

        # What HashingReader chooses between, by the processor.
        rows = []
        for name, what in (("hashed", "hash"), ("copied into cache and hashed", "copy")):
            read, mapped = paired([[hash_file, what, way, self.new] for way in ("read", "map")], ROUNDS, self.warm)
            rows.append([name, f"{read.wall_s:.3f}", f"{mapped.wall_s:.3f}", f"{mapped.over(read):.2f}", f"{mapped.cpu_over(read):.2f}"])
        table("a file in the page cache, one thread", ["", "read(2), s", "mapped, s", "ratio", "of CPU time"], rows)

    def codec(self):
        rows = []
        for encoding in ("auto", "sparse", "dense", "whole"):
            report = json.loads(output_of([*self.wdelta, "diff", self.old, self.new, "--json", "--encoding", encoding]))
            rows.append([encoding, report["changed"], f"{report['changed'] / report['elements']:.2%}", report["encoded_bytes"],
                         f"{8 * report['encoded_bytes'] / report['changed']:.2f}"])
        table("coded size", ["encoding", "changed elements", "density", "bytes", "bits a change"], rows)

    def verified(self):
        """A commit of one checkpoint, and its directory."""
        directory, repository = f"{self.folder}/checkpoint", f"{self.folder}/repository"
        if not os.path.exists(repository):
            os.makedirs(directory)
            os.link(self.new, f"{directory}/model.safetensors")
            run([*self.wdelta, "push", directory, repository])
            os.sync()
            read_whole(self.new)
        return [*self.wdelta, "verify", directory, repository]

    def hallway(self):
        diff, b3sum = paired([self.diff, self.b3sum], ROUNDS, self.warm)
        apply, copy = paired([self.apply, self.copy], ROUNDS, self.warm)
        run(self.apply)
        run(["cmp", self.out, self.new])
        one, ten = paired([[*self.wdelta, "apply", self.old, *deltas, "-o", self.out] for deltas in (self.chain[:1], self.chain)], ROUNDS, self.warm)
        self.clean()
        verify, b3sum_new = paired([self.verified(), ["b3sum", self.new]], ROUNDS, self.warm)

        def row(name, ours, theirs, must_be, aim):
            return [name, f"{ours.wall_s:.3f}", f"{theirs.wall_s:.3f}", f"{ours.over(theirs):.2f}", f"{ours.cpu_over(theirs):.2f}", must_be, aim,
                    f"{ours.peak_bytes / 2**20:.0f}"]

        table(f"the hallway: a pair of {self.size_bytes / 2**30:.2f} GiB in the page cache, all cores",
              ["", "s", "peer, s", "ratio", "of CPU time", "must be", "aim", "peak, MiB"], [
                  row("diff -o / b3sum OLD NEW", diff, b3sum, "1.20", "1.00"),
                  row("apply / cp BASE OUT + b3sum OUT", apply, copy, "1.10", "0.90"),
                  row(f"apply of {CHAIN} deltas / of one", ten, one, "2.20", "1.60"),
                  row("verify DIR REPO / b3sum of the files", verify, b3sum_new, "1.05", "0.95"),
              ])

    def cores(self):
        counts = [1 << power for power in range(cores().bit_length())]
        if len(counts) == 1:
            counts.append(2)
        rows = []
        for name, command in (("diff -o", self.diff), ("apply", self.apply), ("verify", self.verified())):
            series = paired([[*command, f"-j{count}"] for count in counts], ROUNDS, self.warm)
            rows.append([name, f"{series[0].wall_s:.3f}"])
            for more in series[1:]:
                rows[-1] += [f"{more.wall_s:.3f}", f"{series[0].over(more):.2f}"]
        self.clean()
        table("one thread, and more", ["", "-j1, s", *(cell for count in counts[1:] for cell in (f"-j{count}, s", "speed-up"))], rows)

    def shards(self):
        """The same of a made-up checkpoint in many files: small ones, unless SHARD says another size."""
        folder, out, delta, pushed_old, repository = (f"{self.folder}/{name}" for name in (
            "shards", "shards-out", "shards-delta", "shards-old", "shards-repository"))
        count = max(2, self.size_bytes // SHARD_BYTES)
        run([f"{self.build}/tests/make-run", folder, "--steps", "2", "--size", str(self.size_bytes), "--shards", str(count), "--quiet"])
        old, new = (f"{folder}/step-{number:04}" for number in (1, 2))
        old_files, new_files = (sorted(f"{step}/{name}" for name in os.listdir(step)) for step in (old, new))
        run([*self.wdelta, "push", old, pushed_old])
        run(f"cp -al {pushed_old} {repository}")
        run([*self.wdelta, "push", new, repository])
        run([*self.wdelta, "diff", old, new, "-o", delta])

        def warm():
            shutil.rmtree(out, ignore_errors=True)
            for path in old_files + new_files:
                read_whole(path)

        def not_pushed():
            shutil.rmtree(repository)
            run(f"cp -al {pushed_old} {repository}")  # objects are never written to again
            run([*self.wdelta, "push", old, repository])  # as it has that: only where the files lie is written down
            warm()

        def pulled():
            warm()
            run([*self.wdelta, "pull", f"{repository}@main~1", out])

        copy = f"cp -r {old} {out} && b3sum {out}/*"
        all_cores = max(2, cores())
        rows = []
        for name, command, peer, before in (
                ("diff -o", ["diff", old, new, "-o", out], ["b3sum", *old_files, *new_files], warm),
                ("apply", ["apply", old, delta, "-o", out], copy, warm),
                ("pull", ["pull", repository, out], f"cp -r {new} {out}/new && sync -f {out} && b3sum {out}/new/*", pulled),
                ("verify", ["verify", new, repository], ["b3sum", *new_files], warm),
                ("verify --deep", ["verify", "--deep", repository], ["b3sum", *old_files, *new_files], warm),
                ("push", ["push", new, repository], ["b3sum", *old_files, *new_files], not_pushed)):
            command = [*self.wdelta, *command]
            one, many, theirs = paired([[*command, "-j1"], [*command, f"-j{all_cores}"], peer], ROUNDS, before)
            rows.append([name, f"{one.wall_s:.3f}", f"{many.wall_s:.3f}", f"{one.over(many):.2f}", f"{theirs.wall_s:.3f}", f"{many.over(theirs):.2f}"])
        for path in (folder, out, delta, pushed_old, repository):
            shutil.rmtree(path, ignore_errors=True)
        table(f"a checkpoint of {self.size_bytes / 2**30:.2f} GiB in {len(new_files)} files", ["", "-j1, s", f"-j{all_cores}, s", "speed-up", "peer, s", "ratio"], rows)

    def engines(self):
        names = [engine["name"] for engine in json.loads(output_of([*self.wdelta, "--version", "--json"]))["engines"] if engine["usable"]]
        rows = []
        for name, command in (("diff -o", self.diff), ("apply", self.apply)):
            series = paired([[*command, "--engine", engine] for engine in names], ROUNDS, self.warm)
            for engine, one in zip(names, series):
                rows.append([f"{name} --engine {engine}", f"{one.wall_s:.3f}", f"{self.size_bytes / 1e9 / one.wall_s:.1f}", f"{one.over(series[0]):.2f}"])
        self.clean()
        table("engines, all cores (BLAKE3 has kernels of its own, which do not change)", ["", "s", "GB/s of the checkpoint", f"of {names[0]}'s"], rows)

    def cold(self):
        dd = [f"dd if={path} of=/dev/null bs=4M" for path in (self.old, self.new)]

        def cold():
            for path in (self.old, self.new):
                forget(path)

        rows = []
        for name, ours, peer in (("verify / dd of the file", self.verified(), dd[1]), ("diff / dd of both", self.diff[:-2], " && ".join(dd))):
            mine, theirs = paired([ours, peer], ROUNDS, cold, warm_up=False)
            size_bytes = self.size_bytes * (2 if "both" in name else 1)
            rows.append([name, f"{mine.wall_s:.3f}", f"{size_bytes / 1e9 / mine.wall_s:.2f}", f"{theirs.wall_s:.3f}", f"{size_bytes / 1e9 / theirs.wall_s:.2f}",
                         f"{1 / mine.over(theirs):.2f}"])
        for path in (self.old, self.new):
            read_whole(path)
        table("files that are not in the page cache (must be 0.90 of dd's rate)", ["", "s", "GB/s", "dd, s", "GB/s", "rate of dd's"], rows)

    def peers(self):
        """In turn with each of them; with xdelta3 once, which takes a minute or two."""
        peer = f"{self.folder}/peer"
        coders = [("xdelta3 -1", 1, f"xdelta3 -1 -e -f -s {self.old} {self.new} {peer}", f"xdelta3 -d -f -s {self.old} {peer} {self.out}")]
        if self.size_bytes <= PATCH_FROM_BYTES * 1.05:
            coders.insert(0, ("zstd -1 --patch-from", ROUNDS, f"zstd -1 -q -f --patch-from={self.old} {self.new} -o {peer}",
                              f"zstd -d -q -f --long=31 --patch-from={self.old} {peer} -o {self.out}"))

        def without_delta():
            self.warm()
            if os.path.exists(peer):
                os.unlink(peer)

        size = os.path.getsize(self.delta)
        rows = []
        for name, rounds, there, back in coders:
            diff, their_diff = paired([self.diff, there], rounds, without_delta, warm_up=rounds > 1)
            apply, their_apply = paired([self.apply, back], rounds, self.warm, warm_up=rounds > 1)
            rows.append([name, f"{their_diff.wall_s:.2f}", f"{diff.wall_s:.3f}", f"{their_diff.over(diff):.0f} ×",
                         f"{their_apply.wall_s:.2f}", f"{apply.wall_s:.3f}", f"{their_apply.over(apply):.1f} ×",
                         f"{os.path.getsize(peer) / 1e6:.2f}", f"{size / 1e6:.2f}", f"{os.path.getsize(peer) / size:.1f} ×"])
        self.clean()
        os.unlink(peer)
        table(f"other delta coders, a pair of {self.size_bytes / 2**30:.2f} GiB",
              ["", "diff, s", "wdelta, s", "of wdelta's", "apply, s", "wdelta, s", "of wdelta's", "delta, MB", "wdelta, MB", "of wdelta's"], rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=probability, metavar="P")
    parser.add_argument("build")
    parser.add_argument("size")
    parser.add_argument("checkpoints", nargs="*")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    if arguments.keep and not arguments.checkpoints:
        parser.error("--keep needs checkpoints: what is made up has a learning rate")
    only = os.environ.get("ONLY", "kernels,blake3,codec,hallway,cores,shards,engines,cold,peers").split(",")
    print(f"machine: {machine()}\n{output_of([f'{build}/wdelta', '--version']).strip()}; b3sum {output_of(['b3sum', '--version']).split()[1]}, "
          f"{output_of(['zstd', '--version']).strip().strip('*').strip()}", flush=True)
    if "kernels" in only:
        google_benchmark(f"{build}/tests/bench-engine", "engine kernels and block codec, one core")
        google_benchmark(f"{build}/tests/bench-blake3", "BLAKE3 kernels, one core")
        google_benchmark(f"{build}/tests/bench-xet", "Xet, what an upload to the Hub is made of, one core")
        only.remove("kernels")
    if not only:
        return
    bench = Bench(build, arguments.size, [os.path.abspath(path) for path in arguments.checkpoints], arguments.keep, "hallway" in only)
    for name in only:
        getattr(bench, name)()
    shutil.rmtree(bench.folder)


if __name__ == "__main__":
    main()
