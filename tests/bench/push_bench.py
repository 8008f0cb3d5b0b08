#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures pushes out of a trainer's memory and fills of it, through lib/python/wdelta.py, beside what torch and
safetensors take for the same bytes.

usage: push_bench.py BUILD_FOLDER SIZE_MIB [DENSITY [FOLDER]]

SIZE_MIB of bf16 tensors of torch, on the CUDA device if there is one and in host memory else, change in DENSITY (0.01)
of their elements before each push. The repository and the files of the peers lie in FOLDER, in memory (/dev/shm) unless
it is named, so that no disk is measured. Medians of ROUNDS (5) pushes of one Pusher, after the two that store all and
compare for the first time:

  stop        the loop waits: until the tensors are copied; for load_into and the peers, all of it
  done        from there until the commit is made

and what is filled is compared with what was pushed. Runs where torch is: in this interpreter, or in the environment
that `make check-torch` leaves in BUILD_FOLDER; exits 77 where there is none."""

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "lib" / "python"), str(ROOT / "tests" / "services")]
import wdelta  # noqa: E402
from measure import machine, table  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

ROUNDS = int(os.environ.get("ROUNDS", "5"))
TENSOR_ELEMENTS = 4096 * 4096


class Bench:
    def __init__(self, size_mib, density, folder):
        self.device = "cuda" if torch.cuda.is_available() and wdelta.cuda()[0] else "cpu"
        self.density, self.folder = density, folder
        torch.manual_seed(1)
        count = max(1, size_mib * 2**20 // (2 * TENSOR_ELEMENTS))
        self.model = {f"layers.{i}.weight": torch.randn(4096, 4096, device=self.device).mul_(0.02).bfloat16() for i in range(count)}
        self.size_bytes = 2 * count * TENSOR_ELEMENTS
        self.rows = []

    def train(self):
        """One step of the representation for some elements, up or down."""
        for tensor in self.model.values():
            chance = torch.rand(tensor.shape, device=self.device)
            step = (chance < self.density / 2).short() - (chance > 1 - self.density / 2).short()
            tensor.view(torch.int16).add_(step)
        self.settle()

    def settle(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def timed(self, work):
        self.settle()
        start = time.perf_counter()
        work()
        self.settle()
        return time.perf_counter() - start

    def row(self, name, *columns):
        """Columns: seconds, rate of the whole checkpoint."""
        cells = [name]
        for seconds in columns:
            cells += [f"{seconds:.3f}", f"{self.size_bytes / 1e9 / seconds:.1f}"] if seconds is not None else ["", ""]
        self.rows.append(cells)

    def pushes(self, reference, engine):
        repo = f"{self.folder}/repo-{reference}-{engine}"
        stops, dones = [], []
        with wdelta.Pusher(repo, reference=reference, engine=engine) as pusher:
            for number in range(ROUNDS + 2):
                self.train()
                stop = self.timed(lambda: pusher.push(self.model))
                done = self.timed(pusher.wait)
                if number >= 2:
                    stops.append(stop)
                    dones.append(done)
            report = pusher.last
        self.row(f"push, {reference}, engine {engine}", statistics.median(stops), statistics.median(dones))
        bits = 8 * report.stored_bytes / report.change_count
        self.rows[-1].append(f"{report.stored_bytes / 1e6:.1f} MB, {bits:.2f} bits a change")
        return repo

    def fills(self, repo, engine):
        there = {name: torch.empty_like(tensor) for name, tensor in self.model.items()}
        taken = [self.timed(lambda: wdelta.load_into(there, repo, engine=engine)) for _ in range(2)]
        if any(not torch.equal(tensor.view(torch.int16), there[name].view(torch.int16)) for name, tensor in self.model.items()):
            sys.exit("push_bench.py: what was filled is not what was pushed")
        self.row(f"load_into, engine {engine}", min(taken), None)

    def peers(self):
        self.row("tensor.to('cpu'), all of them", min(self.timed(lambda: [t.to("cpu", copy=True) for t in self.model.values()]) for _ in range(3)), None)
        path = f"{self.folder}/peer"
        self.row("torch.save", min(self.timed(lambda: torch.save(self.model, path)) for _ in range(2)), None)
        try:
            from safetensors.torch import save_file
        except ImportError:
            pass
        else:
            self.row("safetensors save_file", min(self.timed(lambda: save_file(self.model, path)) for _ in range(2)), None)
        os.unlink(path)

    def run(self):
        engines = ["cuda", "auto"] if self.device == "cuda" else ["auto"]
        for engine in engines:
            for reference in ("device", "host") if engine == "cuda" else ("host", "repository"):
                repo = self.pushes(reference, engine)
                if reference == "host":
                    self.fills(repo, engine)
                shutil.rmtree(repo)
        self.peers()
        where = torch.cuda.get_device_name() if self.device == "cuda" else "host memory"
        table(f"{self.size_bytes / 2**30:.1f} GiB of bf16 tensors in {where}, {self.density:.1%} changed",
              ["", "stop, s", "GB/s", "done, s", "GB/s", "stored"], [row + [""] * (6 - len(row)) for row in self.rows])


def main():
    if len(sys.argv) not in (3, 4, 5):
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    if torch is None:
        from client_environment import finished_environment
        interpreter = finished_environment(build / "tests" / "clients", ROOT / "tests" / "python" / "torch_packages.txt")
        if interpreter is None:
            print("push_bench.py: there is no torch; `make check-torch` fetches it, some gigabytes")
            sys.exit(77)
        os.execv(interpreter, [interpreter, "-B", *sys.argv])
    density = float(sys.argv[3]) if len(sys.argv) > 3 else 0.01
    folder = tempfile.mkdtemp(prefix="wdelta-bench-", dir=sys.argv[4] if len(sys.argv) > 4 else "/dev/shm")
    os.environ.update(WDELTA_LIBRARY=str(build / "lib" / "libwdelta.so"), WDELTA_STATE_DIR=f"{folder}/state",
                      WDELTA_CACHE_DIR=f"{folder}/cache")
    print(f"machine: {machine()}; torch {torch.__version__}")
    try:
        Bench(int(sys.argv[2]), density, folder).run()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
