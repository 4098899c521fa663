"""Eigenvalues in the complex plane as static figures (extra `plot`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bricard.errors import ModelError
from bricard.report.style import BAD, GOOD, INK, PALE, SOFT, STYLE, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = NDArray[np.complex128]

MARGINAL = 1e-9
"""Eigenvalues within this relative distance of the stability boundary are neither stable nor unstable."""


def spectrum_figure(values: Any, spurious: Any = None, *, sampled: bool = False, title: str = "") -> Figure:
    """Plot eigenvalues in the complex plane: `values` in colour, `spurious` ones (of the constraints) as grey crosses.

    Continuous time (`sampled=False`): eigenvalues in 1/s, stable in the left half-plane. Discrete time
    (`sampled=True`): eigenvalues of the step map, stable inside the unit circle. The axes fit `values`; the legend
    counts points that lie outside or are not finite. The figure is a pyplot figure: `plt.show()` displays it.
    """
    values, extra = _points("values", values), _points("spurious", () if spurious is None else spurious)
    if not values.size and not extra.size:
        raise ModelError("spectrum", ["no eigenvalues were given"])
    plt = pyplot("spectrum")
    finite = values[np.isfinite(values)]
    beyond = np.abs(finite) - 1.0 if sampled else finite.real
    limit = MARGINAL * max(1.0, float(np.max(np.abs(finite), initial=0.0)))
    kinds = [
        ("stable", finite[beyond < -limit], {"marker": "o", "color": GOOD}),
        ("on the boundary", finite[np.abs(beyond) <= limit], {"marker": "o", "color": GOOD, "fillstyle": "none"}),
        ("unstable", finite[beyond > limit], {"marker": "D", "color": BAD}),
    ]
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(3.6, 3.7), layout="constrained")
        box = _view(axis, finite if finite.size else extra[np.isfinite(extra)], sampled)
        if extra.size:
            _scatter(axis, "spurious", extra, box, {"marker": "x", "color": SOFT})
        for label, points, style in kinds:
            if points.size:
                _scatter(axis, label, points, box, style)
        if finite.size < values.size:
            axis.plot([], [], " ", label=f"{values.size - finite.size} not finite, not shown")
        unit = "" if sampled else " (1/s)"
        axis.set(xlabel=f"real part{unit}", ylabel=f"imaginary part{unit}", title=title)
        figure.legend(loc="outside lower left", ncols=2)
    return figure


def _points(name: str, values: Any) -> Points:
    points = np.asarray(values, dtype=np.complex128)
    if points.ndim != 1:
        raise ModelError("spectrum", [f"{name}: expected a list of numbers, got an array of shape {points.shape}"])
    return points


def _view(axis: Axes, points: Points, sampled: bool) -> tuple[float, float, float, float]:
    """Draw the stable region, set the axis limits and return them as (left, right, bottom, top)."""
    from matplotlib.patches import Circle

    if sampled:
        reach = 1.12 * max(1.0, float(np.max(np.abs(points), initial=0.0)))
        axis.add_patch(Circle((0.0, 0.0), 1.0, facecolor=PALE, edgecolor=INK, linewidth=0.8, zorder=0))
        box = (-reach, reach, -reach, reach)
        axis.set_aspect("equal")
    else:
        real, imaginary = points.real, points.imag
        low, high = float(min(np.min(real, initial=0.0), 0.0)), float(max(np.max(real, initial=0.0), 0.0))
        room = 0.12 * max(high - low, 0.2 * float(np.max(np.abs(imaginary), initial=0.0)), 1e-300) or 1.0
        reach = 1.15 * float(np.max(np.abs(imaginary), initial=0.0)) or (high - low) or 1.0
        box = (low - room, high + room, -reach, reach)
        axis.axvspan(box[0], 0.0, facecolor=PALE, zorder=0)
        axis.axvline(0.0, color=INK, linewidth=0.8, zorder=1)
    axis.axhline(0.0, color=SOFT, linewidth=0.5, zorder=1)
    axis.set(xlim=box[:2], ylim=box[2:])
    return box


def _scatter(axis: Axes, label: str, points: Points, box: tuple[float, ...], style: dict[str, Any]) -> None:
    left, right, bottom, top = box
    re, im = points.real, points.imag
    inside = (left <= re) & (re <= right) & (bottom <= im) & (im <= top)
    outside = int(np.sum(~inside))
    text = f"{label} ({len(points)}{f', {outside} outside the axes' if outside else ''})"
    axis.plot(re[inside], im[inside], linestyle="", markersize=5, label=text, zorder=3, **style)
