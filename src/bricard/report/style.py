"""Common style of the static figures (extra `plot`)."""

from __future__ import annotations

from typing import Any

from bricard.errors import ModelError

WIDTH, HEIGHT = 7.2, 1.75
"""Width of a figure that spans two journal columns, and height of one row of panels (inch)."""

INK, SOFT, PALE, GOOD, BAD, MARK = "#1b2430", "#5b6675", "#e4e7eb", "#0072b2", "#b3261e", "#b8860b"
"""Colours of text and lines, secondary elements, areas, stable and unstable results, and markers."""

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": PALE,
    "hatch.linewidth": 0.4,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.0,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.0,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


def pyplot(subject: str) -> Any:
    """Import `matplotlib.pyplot`; `ModelError` if it is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModelError(subject, ["matplotlib is not installed; run pip install 'bricard[plot]'"]) from error
    return plt
