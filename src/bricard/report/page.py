"""A self-contained HTML page with the animation and the plots of a run; it needs no network."""

from __future__ import annotations

import datetime
import html
import json
import math
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from bricard.errors import is_concrete
from bricard.files import check_writable, named_as, write_text
from bricard.report.curves import LOG_FLOOR, panels, rounded, scale, thinned
from bricard.report.scene import scene
from bricard.report.summary import Summary, summarize
from bricard.simulation.trajectory import Trajectory

MAX_SAMPLES, LIGHT_SAMPLES, LIGHT_FRAMES = 2000, 400, 240
"""Samples per curve in a file; samples per curve and frames in a notebook, which stores every page it shows."""

MAX_TIME_BUTTONS = 24
"""Times of singular positions or impacts that get a button; the others are only counted."""

PAGES = (".html", ".htm")
SCRIPTS = ("scene.js", "parts.js", "chart.js", "page.js")


def write_report(
    trajectory: Trajectory,
    path: str | Path,
    *,
    title: str | None = None,
    source: str = "",
    settings: Mapping[str, Any] | None = None,
    summary: Summary | None = None,
) -> Path:
    """Write the animation and the plots of a run to one self-contained HTML file, and return its path.

    `title` is the heading (default: the first line of the system's docstring) and `source` a reference shown below it;
    `settings` are shown in addition to those in the trajectory. Pass `summary` if it is already computed. The extension
    `.html` is added to a path without one. `ModelError` if the path has another extension or cannot be written; the
    file is written completely or not at all.
    """
    path = named_as(path, PAGES)
    check_writable(path)  # fail before the expensive part
    summary = summarize(trajectory, title, settings) if summary is None else summary
    write_text(path, render(trajectory, summary, source))
    return path


def notebook_page(trajectory: Trajectory) -> str | None:
    """The page as an iframe for notebooks, with fewer samples than a file; None for a batch or an empty trajectory."""
    if not is_concrete(trajectory) or trajectory.t.ndim != 1 or len(trajectory) == 0:
        return None
    page = render(trajectory, summarize(trajectory), light=True)
    style = "width: 100%; height: 760px; border: 0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def render(trajectory: Trajectory, summary: Summary, source: str = "", light: bool = False) -> str:
    """The page as HTML text; `light` reduces the number of samples and frames."""
    static = resources.files("bricard.report") / "static"
    parts = {
        "title": html.escape(_heading(summary)),
        "style": (static / "page.css").read_text("utf-8"),
        "header": _header(summary, source),
        "facts": _facts(summary),
        "data": _embedded(_data(trajectory, summary, light)),
        "script": "\n".join((static / name).read_text("utf-8") for name in SCRIPTS),
    }
    # One pass, so that braces in a title are not taken for placeholders.
    template = (static / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _data(trajectory: Trajectory, summary: Summary, light: bool) -> dict[str, Any]:
    t = times = np.asarray(trajectory.t)
    plots = []
    for panel in panels(trajectory, summary.singular):
        times, columns = thinned(t, [c.values for c in panel.curves], LIGHT_SAMPLES if light else MAX_SAMPLES)
        size = scale(columns)
        curves = [
            {"name": c.name, "indeterminate": c.indeterminate, "y": rounded(y, panel.log, size)}
            for c, y in zip(panel.curves, columns, strict=True)
        ]
        plots.append({"title": panel.title, "unit": panel.unit, "log": panel.log, "note": panel.note, "curves": curves})
    return {
        "t": rounded(times),
        "span": list(summary.span) if summary.states else [0.0, 0.0],
        "plots": plots,
        "scene": scene(trajectory, LIGHT_FRAMES) if light else scene(trajectory),
        "singular": [round(x, 6) for x in summary.singular.times],
    }


def _embedded(data: dict[str, Any]) -> str:
    """JSON that cannot close the surrounding script element, whatever names it contains."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# -- header, readable without JavaScript -------------------------------------------------------------------------------


def _heading(summary: Summary) -> str:
    return summary.title.rstrip(".") or summary.name


def _header(summary: Summary, source: str) -> str:
    status = "stopped early" if summary.failed else summary.status
    lines = [
        f'<p class="eyebrow">{html.escape(summary.name)} '
        f'<span class="chip {"bad" if summary.failed else "good"}">{html.escape(status)}</span></p>',
        f"<h1>{html.escape(_heading(summary))}</h1>",
    ]
    if source:
        lines.append(f'<p class="source">{html.escape(source)}</p>')
    if summary.failed:
        lines.append(f'<p class="failure" role="alert">{html.escape(_sentence(summary.status))}</p>')
    tiles = "".join(
        f"<div><dt>{html.escape(label)}</dt><dd>{html.escape(value)}<small>{html.escape(more)}</small></dd></div>"
        for label, value, more in _tiles(summary)
    )
    lines.append(f'<dl class="tiles">{tiles}</dl>')
    if summary.mobility:
        lines.append(f'<p class="mobility">{html.escape(summary.mobility)}</p>')
    if summary.singular.times:
        lines.append(_time_buttons("Passed ", "singular position", summary.singular.times))
    if summary.impacts:
        lines.append(_time_buttons("", "impact", summary.impacts))
    if summary.contact_words:
        lines.append(f'<p class="mobility">Contact forces: {html.escape(summary.contact_words)}</p>')
    return "\n".join(lines)


def _tiles(summary: Summary) -> list[tuple[str, str, str]]:
    relative = summary.energy_drift / summary.energy_scale if summary.energy_scale > 0.0 else math.nan
    tiles = [("Simulated", f"{_number(summary.span[1] - summary.span[0])} s", f"{summary.states} states saved")]
    if summary.steps is not None:
        tiles.append(("Steps", str(summary.steps), f"{summary.rejected} rejected"))
    of_kinetic = f"{relative:.1g} of the largest kinetic energy" if math.isfinite(relative) else ""
    tiles.append(("Energy drift", f"{_number(summary.energy_drift)} J", of_kinetic))
    if not summary.constraint_error <= LOG_FLOOR:  # there are constraints, or contacts that were closed
        tiles.append(("Constraint error", _number(summary.constraint_error), "maximum of position and velocity"))
    if len(summary.singular.measure):
        tiles.append(("Singular positions", str(len(summary.singular.times)), "passed"))
    if summary.impacts:
        tiles.append(("Impacts", str(len(summary.impacts)), "at contacts"))
    return tiles


def _time_buttons(verb: str, noun: str, times: tuple[float, ...]) -> str:
    """A line with a button for each time, which moves the animation there."""
    shown = "".join(f'<button type="button" data-time="{t:.6f}">{t:.3f}</button>' for t in times[:MAX_TIME_BUTTONS])
    more = f" and {len(times) - MAX_TIME_BUTTONS} more" if len(times) > MAX_TIME_BUTTONS else ""
    plural = "" if len(times) == 1 else "s"
    return f'<p class="passed"><strong>{verb}{len(times)} {noun}{plural}</strong> at t = {shown}{more} s</p>'


def _facts(summary: Summary) -> str:
    groups = {"Parameters": summary.parameters, "Settings": summary.settings, "Versions": summary.versions}
    tables = "".join(
        f"<div><h2>{title}</h2><table>"
        + "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        + "</table></div>"
        for title, rows in groups.items()
        if rows
    )
    written = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z")
    return f'<div class="tables">{tables}</div><p class="written">Written by bricard on {written}.</p>'


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(value: float) -> str:
    """Three significant digits, with powers of ten as superscripts."""
    if not math.isfinite(value):
        return "unknown"
    text = f"{value:.3g}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return f"{mantissa}·10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
