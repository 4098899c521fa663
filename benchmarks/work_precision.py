"""Error against CPU time: the problems by bricard and by each peer, in one process."""

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
"""What must be importable, and where its side of the comparison is."""
QUICK = ("A01", "A02 N=2", "A03")


def peers() -> tuple[list[ModuleType], dict[str, str]]:
    """Those that are installed; and why the others are left out."""
    there, missing = [], {}
    for package, side in PEERS.items():
        try:
            import_module(package)
        except ImportError as reason:
            missing[package] = str(reason)
        else:
            there.append(import_module(side))
    return there, missing


def measure(problems: Iterable[str] = (), quick: bool = False, tools: Iterable[str] = ()) -> dict[str, Any]:
    """All runs, and what was left out."""
    there, missing = peers()
    for package, reason in missing.items():
        print(f"without {package}: {reason}")
    runs = []
    for name in tuple(problems) or (QUICK if quick else tuple(BUILD)):
        for run in _runs(name, there, quick, tuple(tools)):
            print(row(run), flush=True)
            runs.append(asdict(run))
    return {"runs": runs, "missing": missing}


def _runs(name: str, there: list[ModuleType], quick: bool, tools: tuple[str, ...]) -> Iterator[Run]:
    from benchmarks import ours

    problem = BUILD[name]()
    for tool in (ours, *there):
        if not tools or tool.NAME in tools:
            yield from tool.runs(problem, quick)


def row(run: Run) -> str:
    """One line of the progress."""
    parts = [f"{run.problem:9} {run.tool:10} {run.setting:28} {1e3 * run.seconds:9.2f} ms   error {run.error:8.1e} m"]
    if run.energy is not None:
        parts.append(f"energy {run.energy:8.1e} J")
    if run.gap is not None:
        parts.append(f"gap {run.gap:8.1e} m")
    if run.compile_seconds is not None:
        parts.append(f"compiling {run.compile_seconds:.1f} s")
    return "   ".join([*parts, run.note])


def markdown(data: dict[str, Any]) -> str:
    """Every run, problem by problem."""
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
