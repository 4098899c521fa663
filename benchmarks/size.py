"""Time, compilation and memory for N four-bars over one second, each N in its own process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.markdown import duration, table

SIZES = (1, 3, 10, 30, 100, 300, 1000)
LIMIT = 60.0
"""Larger sizes are skipped after a run that takes longer than this (s), without compilation."""
TIMEOUT = 600.0
"""Limit for the process of one size (s)."""
SPAN, RTOL = 1.0, 1e-8
ROOT = Path(__file__).parents[1]


def measure(quick: bool = False) -> dict[str, Any]:
    """Results with one row per tool and N."""
    rows = []
    for tool in ("bricard", "MuJoCo"):
        for n in SIZES[:4:2] if quick else SIZES:
            row = _in_new_process(tool, n)
            rows.append({"tool": tool, "n": n} | row)
            print(f"{tool:8} N = {n:5} {row}", flush=True)
            if row.get("failed") or row["seconds"] > LIMIT:
                break
    return {"rows": rows, "span": SPAN}


def _in_new_process(tool: str, n: int) -> dict[str, Any]:
    """Result of `measure_one` in a new process, or the reason for its failure."""
    command = [sys.executable, "-m", "benchmarks.size", tool, str(n)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {TIMEOUT:.0f} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def measure_one(tool: str, n: int) -> dict[str, Any]:
    """CPU time of a run and of the first run with its preparation (s), error (m) and peak memory (MB)."""
    import numpy as np

    from benchmarks.problems import four_bars

    problem = four_bars(n)
    reference = problem.points[:2]  # at 0 and 1 s
    start = time.process_time()
    if tool == "MuJoCo":
        from benchmarks.peers.mujoco_ import Simulation

        simulation = Simulation(problem.model, 1e-3, "RK4", 0.75)

        def work():
            simulation.reset()
            simulation.steps(1000)

        def points():
            return np.stack([reference[0], simulation.observe()[0][:2]])
    else:
        import bricard as br

        example = br.gallery.load("n-four-bar", n=n)
        last = {}

        def work():
            last["run"] = example.simulate(t_end=SPAN, save=[0.0, SPAN], rtol=RTOL, atol=RTOL)
            last["run"].q.block_until_ready()

        def points():
            return np.stack([problem.track(example.system, q) for q in last["run"].q])

    from benchmarks.timing import cpu_time

    work()
    first = time.process_time() - start
    seconds = cpu_time(work, 3)
    error = float(np.max(np.linalg.norm(points() - reference, axis=1)))
    return {"seconds": seconds, "first": first, "error": error, "memory": _peak_memory()}


def _peak_memory() -> float:
    """Peak memory of this process (MB), from /proc if possible: `getrusage` may include that of the parent process."""
    status = Path("/proc/self/status")
    if status.exists():
        return float(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) / 1024
    import resource

    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (1024**2 if sys.platform == "darwin" else 1024)


def growth(data: dict[str, Any], tool: str = "bricard") -> float | None:
    """Exponent p of the time ∼ Nᵖ over the larger half of the sizes."""
    import numpy as np

    rows = [r for r in data["rows"] if r["tool"] == tool and r.get("seconds")]
    rows = rows[len(rows) // 2 - 1 :] if len(rows) > 3 else rows
    if len(rows) < 2:
        return None
    return float(np.polyfit(np.log([r["n"] for r in rows]), np.log([r["seconds"] for r in rows]), 1)[0])


def ratios(data: dict[str, Any]) -> dict[str, float]:
    """Ratio of the time of bricard to the time of MuJoCo."""
    times = {(r["tool"], r["n"]): r["seconds"] for r in data["rows"] if r.get("seconds")}
    return {
        f"size N={n}": times[tool, n] / times["MuJoCo", n]
        for tool, n in times
        if tool == "bricard" and ("MuJoCo", n) in times
    }


def markdown(data: dict[str, Any]) -> str:
    """Table with both tools for each N."""
    rows = [
        [
            f"{r['n']}",
            r["tool"],
            *(
                [r["failed"], "", "", ""]
                if r.get("failed")
                else [duration(r["seconds"]), f"{r['error']:.0e} m", duration(r["first"]), f"{r['memory']:.0f} MB"]
            ),
        ]
        for r in sorted(data["rows"], key=lambda r: (r["n"], r["tool"]))
    ]
    p = growth(data)
    head = ["N", "tool", "run", "error", "from import to first result", "peak memory"]
    exponent = "" if p is None else f"\n\nThe time of bricard grows as N^{p:.2f} over the larger sizes."
    return f"{data['span']:g} s of N four-bars:\n\n" + table(head, rows) + exponent


if __name__ == "__main__":
    print(json.dumps(measure_one(sys.argv[1], int(sys.argv[2]))))
