"""Error against CPU time for each problem, in bricard and in each peer, measured in one process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import import_module
from types import ModuleType
from typing import Any

from benchmarks.markdown import duration, number, table
from benchmarks.problems import BUILD
from benchmarks.runs import Run

PEERS = {
    "mujoco": "benchmarks.peers.mujoco_",
    "pinocchio": "benchmarks.peers.pinocchio_",
    "exudyn": "benchmarks.peers.exudyn_",
}
"""Package of each peer, and the module that runs the problems with it."""
QUICK_PROBLEMS = ("A01", "A02 N=2", "A03")


def peers() -> tuple[list[ModuleType], dict[str, str]]:
    """Modules of the installed peers, and the import errors of the others."""
    installed, missing = [], {}
    for package, module in PEERS.items():
        try:
            import_module(package)
        except ImportError as reason:
            missing[package] = str(reason)
        else:
            installed.append(import_module(module))
    return installed, missing


def measure(problems: Iterable[str] = (), quick: bool = False, tools: Iterable[str] = ()) -> dict[str, Any]:
    """All runs, and the peers that are missing."""
    installed, missing = peers()
    for package, reason in missing.items():
        print(f"{package} is left out: {reason}")
    runs = []
    for name in tuple(problems) or (QUICK_PROBLEMS if quick else tuple(BUILD)):
        for run in _runs(name, installed, quick, tuple(tools)):
            print(row(run), flush=True)
            runs.append(asdict(run))
    return {"runs": runs, "missing": missing}


def _runs(name: str, installed: list[ModuleType], quick: bool, tools: tuple[str, ...]) -> Iterator[Run]:
    from benchmarks import ours

    problem = BUILD[name]()
    for tool in (ours, *installed):
        if not tools or tool.NAME in tools:
            yield from tool.runs(problem, quick)


def row(run: Run) -> str:
    """Line of text that reports a run."""
    parts = [f"{run.problem:9} {run.tool:10} {run.setting:28} {1e3 * run.seconds:9.2f} ms   error {run.error:8.1e} m"]
    if run.energy is not None:
        parts.append(f"energy {run.energy:8.1e} J")
    if run.gap is not None:
        parts.append(f"gap {run.gap:8.1e} m")
    if run.compile_seconds is not None:
        parts.append(f"compiling {run.compile_seconds:.1f} s")
    return "   ".join([*parts, run.note])


def markdown(data: dict[str, Any]) -> str:
    """Table of all runs by problem."""
    rows = [
        [
            r["problem"],
            f"{r['tool']}, {r['setting']}",
            duration(r["seconds"]) or "failed",
            number(r["error"]) or "failed",
            number(r["energy"]),
            number(r["gap"]),
            "" if (r["compile_seconds"] or 0.0) < 0.5 else f"{r['compile_seconds']:.0f} s",
            r["note"],
        ]
        for r in data["runs"]
    ]
    head = ["", "tool and setting", "CPU time", "error (m)", "energy (J)", "gap (m)", "compiling", ""]
    return table(head, rows)
