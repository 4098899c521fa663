"""Benchmarks against other tools: `make bench` or `python -m benchmarks [parts] [--quick] [--check]`.

The parts are work-precision, evaluation, batch, size, cold and charts; by default all are run. Results are written to
`benchmarks/results` as JSON and to `docs/benchmarks.md` as tables, diagrams to `docs/images`. `--quick` takes some
minutes and only prints. `--check` measures again and compares the ratios (time of bricard over time of the peer in the
same run) with the stored ones; it fails if one grew by more than half. Times vary between machines, ratios much less.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import results, targets
from benchmarks.markdown import put

PARTS = ("work-precision", "evaluation", "batch", "size", "cold", "charts")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])  # pyright: ignore[reportOptionalMemberAccess]
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="run fewer problems and settings; write nothing")
    parser.add_argument("--check", action="store_true", help="compare ratios with the stored results; write nothing")
    parser.add_argument(
        "--problem", action="append", default=[], help="run only this problem of work-precision; may be repeated"
    )
    chosen = parser.parse_args(arguments)
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    regressions = []
    for part in chosen.parts or PARTS:
        print(f"\n== {part}", flush=True)
        data = measure(part, chosen.quick, tuple(chosen.problem))
        print("\n" + markdown(part, data))
        if chosen.check:
            stored = results.load(part)
            found = (
                results.worse(ratios(part, stored), ratios(part, data)) if stored else [f"{part}: no stored results"]
            )
            if stored and stored.get("provisional"):
                print(f"the stored results are provisional: {stored['provisional']}")
            regressions += found
        elif not chosen.quick:
            if chosen.problem and part == "work-precision":
                data = _with_stored(data)
            results.save(part, data)
            publish(part, data)
    for line in regressions:
        print(f"worse than stored: {line}")
    return 1 if regressions else 0


def measure(part: str, quick: bool, problems: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run one part and return its results."""
    if part == "work-precision":
        from benchmarks import work_precision

        return work_precision.measure(problems, quick)
    return _module(part).measure(quick)


def markdown(part: str, data: dict[str, Any]) -> str:
    """The results of a part as Markdown."""
    if part == "work-precision":
        from benchmarks import work_precision

        return targets.table(targets.outcomes(data["runs"])) + "\n\n" + work_precision.markdown(data)
    return _module(part).markdown(data)


def ratios(part: str, data: dict[str, Any]) -> dict[str, float]:
    """Ratios of the time of bricard to the time of a peer, by measurement; empty for parts without a peer."""
    if part == "work-precision":
        return {f"{o.problem} {o.accuracy:.0e} m": 1 / o.ratio for o in targets.outcomes(data["runs"]) if o.ratio}
    module = _module(part)
    return module.ratios(data) if hasattr(module, "ratios") else {}


def publish(part: str, data: dict[str, Any]) -> None:
    """Write the results of a part into the documentation."""
    m = results.machine()
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items())
    put("machine", f"Measured on {m['cores']} cores of {m['processor']}, Python {m['python']}, {versions}.")
    reason = data.get("provisional")  # why the numbers are provisional, if they are
    put(part, (f"**Provisional**: {reason}\n\n" if reason else "") + markdown(part, data))
    if part == "work-precision":
        from benchmarks.plot import draw

        draw(data["runs"])


def _with_stored(data: dict[str, Any]) -> dict[str, Any]:
    """The new runs together with the stored runs of other problems."""
    stored = results.load("work-precision")
    if stored is None:
        return data
    new = {r["problem"] for r in data["runs"]}
    from benchmarks.problems import BUILD

    runs = [r for r in stored["runs"] if r["problem"] not in new] + data["runs"]
    return data | {"runs": sorted(runs, key=lambda r: list(BUILD).index(r["problem"]))}


def _module(part: str) -> Any:
    from importlib import import_module

    return import_module(f"benchmarks.{part}")


if __name__ == "__main__":
    sys.exit(main())
