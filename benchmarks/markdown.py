"""Generated tables of the documentation; markers separate them from the text around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def put(part: str, text: str, page: Path = PAGE) -> None:
    """Replace the text between the markers of `part` in `page`."""
    start, end = f"<!-- {part}: generated -->", f"<!-- {part}: end -->"
    content = page.read_text()
    if start not in content or end not in content:
        raise ValueError(f"{page.name} has no markers for {part}; add {start} and {end} to it")
    before, rest = content.split(start, 1)
    after = rest.split(end, 1)[1]
    page.write_text(f"{before}{start}\n\n{text.strip()}\n\n{end}{after}")


def number(value: float | None) -> str:
    """Value with two significant digits; empty if it is not finite."""
    return "" if value is None or not math.isfinite(value) else f"{value:.2g}"


def duration(seconds: float | None) -> str:
    """Time with three significant digits in s, ms or µs; empty if it is not finite."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
