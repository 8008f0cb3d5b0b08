# SPDX-License-Identifier: Apache-2.0
"""Runs of the binary under tests/fault_points: chosen calls fail below a directory."""

import os
from pathlib import Path

import testing


def library():
    return Path(testing.MAKE_RUN).parent / "fault-points.so"


def environment(below, *points):
    return {"LD_PRELOAD": str(library()), "FAULT_BELOW": os.path.realpath(below), "FAULT_POINTS": ",".join(points)}


def environment_of_few_threads(most, refused):
    """Of a program that gets no more than so many threads beside its first; `refused` is made when it asks for more."""
    return {"LD_PRELOAD": str(library()), "FAULT_THREADS": str(most), "FAULT_REFUSED": str(refused)}


def require(case):
    """Skips the test where the binary cannot be run so."""
    testing.require_preloadable(case, library())
    probe = case.write_weights("probe.safetensors", [])
    done = case.run_any("diff", probe, probe, "-o", case.scratch / "probe.delta",
                        env=environment(case.scratch, "open=EIO"))
    case.assertEqual(done.code, 3, "fault-points.so does not reach the calls of the binary")
    probe.unlink()
