"""Time to the first result in a new process (import, build, compile, simulate A03), with a cold and a warm cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.markdown import duration, table

LIMITS = {"cold": 4.0, "warm": 2.0}
"""Target time of the process (s) with a cold and with a warm compilation cache."""
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
    """Wall times of the process and its parts, and its CPU time (s), each from the fastest of three processes.

    The cache is empty for each cold process.
    """
    results: dict[str, Any] = {}
    # As after installation, Python modules are compiled to bytecode beforehand.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-c", "import bricard as br; br.gallery.load('andrews')"], env=environment, check=True
    )
    repeats = 1 if quick else 3
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for label in ("cold", *["warm"] * repeats):
                found = _run(environment, cache)
                if label not in results or found["whole"] < results[label]["whole"]:
                    results[label] = found
                print(label, {k: f"{x:.2f} s" for k, x in found.items()}, flush=True)
    return results


def _run(environment: dict[str, str], cache: str) -> dict[str, float]:
    """Times (s) of one process that uses and fills the compilation cache in the folder `cache`."""
    environment = environment | {
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    start, before = time.perf_counter(), _children_cpu_time()
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    whole, cpu = time.perf_counter() - start, _children_cpu_time() - before
    if done.returncode:
        raise RuntimeError(f"the first run of A03 failed: {done.stderr.strip()[-500:]}")
    parts = json.loads(done.stdout.splitlines()[-1].replace("'", '"'))
    return {"whole": whole, "cpu": cpu} | parts


def _children_cpu_time() -> float:
    """Total CPU time (s) of the child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def markdown(data: dict[str, Any]) -> str:
    """Table with one row per state of the cache."""
    rows = [
        [
            f"{label} compilation cache",
            *(duration(data[label][k]) for k in ("whole", "cpu", "import", "build", "simulate")),
            f"< {LIMITS[label]:g} s",
            "yes" if data[label]["whole"] < LIMITS[label] else "**no**",
        ]
        for label in LIMITS
    ]
    return table(["", "whole process", "CPU time", "import", "build", "compile and simulate", "target", ""], rows)
