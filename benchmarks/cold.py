"""How long until the first result? Import, build, compile, simulate A03, in a new process; cache cold and warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.markdown import duration, table

GOALS = {"cold": 4.0, "warm": 2.0}
"""Bounds (s) for a new process without and with a warm compilation cache."""
PROGRAM = """
import time; start = time.perf_counter()
import bricard as br
import jax
imported = time.perf_counter()
example = br.gallery.load("andrews")
built = time.perf_counter()
jax.block_until_ready(example.simulate(t_end=0.05, save=11))
print({"import": imported - start, "build": built - imported, "simulate": time.perf_counter() - built})
"""


def measure(quick: bool = False) -> dict[str, Any]:
    """Times (s) of the whole process: by the clock, of its parts too, and of the processor, all threads together.

    Of the quickest of three; the cache is empty for each of the cold ones.
    """
    results: dict[str, Any] = {}
    # As installed: with compiled modules, whatever this process does with its own.
    python = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", "import bricard as br; br.gallery.load('andrews')"], env=python, check=True)
    repeats = 1 if quick else 3
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for label in ("cold", *["warm"] * repeats):
                found = _one(python, cache)
                if label not in results or found["whole"] < results[label]["whole"]:
                    results[label] = found
                print(label, {k: f"{x:.2f} s" for k, x in found.items()}, flush=True)
    return results


def _one(python: dict[str, str], cache: str) -> dict[str, float]:
    """One process, with what is in the folder `cache`, which it fills."""
    environment = python | {
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    start, before = time.perf_counter(), _children()
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    whole, work = time.perf_counter() - start, _children() - before
    if done.returncode:
        raise RuntimeError(f"the first run of A03 failed: {done.stderr.strip()[-500:]}")
    parts = json.loads(done.stdout.splitlines()[-1].replace("'", '"'))
    return {"whole": whole, "cpu": work} | parts


def _children() -> float:
    """CPU time (s) of the processes that have been started and have ended."""
    times = os.times()
    return times.children_user + times.children_system


def markdown(data: dict[str, Any]) -> str:
    """One row per state of the cache."""
    rows = [
        [
            f"{label} compilation cache",
            *(duration(data[label][k]) for k in ("whole", "cpu", "import", "build", "simulate")),
            f"{GOALS[label]:g} s",
            "yes" if data[label]["whole"] < GOALS[label] else "**no**",
        ]
        for label in GOALS
    ]
    return table(["", "whole process", "CPU time", "import", "build", "compile and simulate", "wanted below", ""], rows)
