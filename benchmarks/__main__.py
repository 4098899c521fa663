"""Speed against other tools: `make bench` or `python -m benchmarks [parts] [--quick] [--check]`.

Parts: work-precision, evaluation, batch, size, cold, charts; without any, all of them. Results go to
`benchmarks/results` as JSON and to `docs/benchmarks.md` as tables, and the diagrams to `docs/images`. `--quick` takes
some minutes and only prints. `--check` measures again and compares ratios (ours over a peer's, in one run) with the
stored ones: it fails if one grew by more than half. Times vary between machines; ratios in one run are what to compare.
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
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer problems and settings; nothing is written")
    parser.add_argument(
        "--check", action="store_true", help="compare ratios with the stored results; nothing is written"
    )
    parser.add_argument(
        "--problem", action="append", default=[], help="only this problem of work-precision (again for more)"
    )
    chosen = parser.parse_args(arguments)
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    regressions = []
    for part in chosen.parts or PARTS:
        print(f"\n== {part}", flush=True)
        data = measure(part, chosen.quick, tuple(chosen.problem))
        print("\n" + markdown(part, data))
        if chosen.check:
            stored = results.load(part)
            found = results.worse(ratios(part, stored), ratios(part, data)) if stored else [f"{part}: nothing stored"]
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
    """Run one part."""
    if part == "work-precision":
        from benchmarks import work_precision

        return work_precision.measure(problems, quick)
    return _module(part).measure(quick)


def markdown(part: str, data: dict[str, Any]) -> str:
    """The results of a part for people."""
    if part == "work-precision":
        from benchmarks import work_precision

        return targets.table(targets.outcomes(data["runs"])) + "\n\n" + work_precision.markdown(data)
    return _module(part).markdown(data)


def ratios(part: str, data: dict[str, Any]) -> dict[str, float]:
    """Ours over a peer's, by what was measured; none where there is no peer."""
    if part == "work-precision":
        return {f"{o.problem} {o.goal:.0e} m": 1 / o.ratio for o in targets.outcomes(data["runs"]) if o.ratio}
    module = _module(part)
    return module.ratios(data) if hasattr(module, "ratios") else {}


def publish(part: str, data: dict[str, Any]) -> None:
    """Into the documentation."""
    m = results.machine()
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items())
    put("machine", f"Measured on {m['cores']} cores of {m['processor']}, Python {m['python']}, {versions}.")
    said = data.get("provisional")  # what is wrong with the numbers, if something is
    put(part, (f"**Provisional**: {said}\n\n" if said else "") + markdown(part, data))
    if part == "work-precision":
        from benchmarks.plot import draw

        draw(data["runs"])


def _with_stored(data: dict[str, Any]) -> dict[str, Any]:
    """The stored runs of other problems, and the new ones."""
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
