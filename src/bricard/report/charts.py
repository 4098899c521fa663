"""Charts over two parameters, such as the stable region of two gains, from plain arrays (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bricard.errors import ModelError
from bricard.report.style import INK, MARK, PALE, SOFT, STYLE, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

ABREAST = 4
"""Charts in one row of a figure."""


class Panel(NamedTuple):
    """One heat map of several."""

    title: str
    z: Any
    """(len(y), len(x))."""
    best: tuple[float, float] | None = None
    """A point to mark."""
    best_value: float | None = None
    """What it has there (by default that of the nearest point of the grid)."""


def chart_figure(
    x: Any,
    y: Any,
    z: Any,
    *,
    x_label: str,
    y_label: str,
    level: float = 1.0,
    best: tuple[float, float] | None = None,
    best_value: float | None = None,
    title: str = "",
    z_label: str = "spectral radius",
    inside: str = "stable",
    outside: str = "unstable",
) -> Figure:
    """A heat map of `z` (len(y), len(x)) with the contour `z = level`; values above it are grey, and said to be so.

    `x`, `y` increase. What is NaN in `z` is hatched, and named in the legend; infinite values count as above the level.
    `best` is a point to mark, `best_value` what it has there (by default that of the nearest point of the grid).
    The figure belongs to pyplot: `plt.show()` shows it.
    """
    return chart_panels(
        x,
        y,
        [Panel(title, z, best, best_value)],
        x_label=x_label,
        y_label=y_label,
        level=level,
        z_label=z_label,
        inside=inside,
        outside=outside,
    )


def chart_panels(
    x: Any,
    y: Any,
    panels: Sequence[Panel],
    *,
    x_label: str,
    y_label: str,
    level: float = 1.0,
    z_label: str = "spectral radius",
    inside: str = "stable",
    outside: str = "unstable",
) -> Figure:
    """Several charts of the same `x`, `y` side by side in one figure, with the same colours; see `chart_figure`."""
    x, y = (np.asarray(a, dtype=float) for a in (x, y))
    panels = [p._replace(z=np.asarray(p.z, dtype=float)) for p in panels]
    if not panels:
        raise ModelError("chart", ["there is nothing to draw"])
    for panel in panels:
        _check(x, y, panel)
    lows = [float(np.min(p.z[p.z <= level])) for p in panels if np.any(p.z <= level)]
    low = min(lows, default=level)
    labels = _Labels(x_label, y_label, z_label, inside, outside)
    # A flat chart still needs a range for its colours.
    colours = (low if low < level else level - 1.0, level)
    plt = pyplot("chart")
    columns = min(len(panels), ABREAST)
    rows = -(-len(panels) // columns)
    with plt.rc_context(STYLE | {"axes.grid": False}):
        figure = plt.figure(figsize=(4.6 * columns, 3.7 * rows), layout="constrained")
        if len(panels) == 1:
            _draw(figure, x, y, panels[0], colours, labels)
        else:
            places = figure.subfigures(rows, columns, squeeze=False).ravel()
            for place, panel in zip(places, panels, strict=False):
                _draw(place, x, y, panel, colours, labels)
    return figure


class _Labels(NamedTuple):
    x: str
    y: str
    z: str
    inside: str
    outside: str


def _draw(
    figure: Figure | SubFigure,
    x: np.ndarray,
    y: np.ndarray,
    panel: Panel,
    colours: tuple[float, float],
    labels: _Labels,
) -> None:
    axis, z, level = figure.subplots(), panel.z, colours[1]
    unknown, above = np.isnan(z), z > level
    good = np.ma.masked_where(unknown | above, z)
    handles: list[Any] = [_surface(axis, x, y, above & ~unknown, PALE, labels.outside)]
    if good.count():
        limits = dict(zip(("vmin", "vmax"), colours, strict=True))
        image = axis.pcolormesh(x, y, good, shading="nearest", cmap="viridis", rasterized=True, **limits)
        figure.colorbar(image, ax=axis, label=labels.z, pad=0.02)
    if np.any(above & ~unknown) and good.count():
        handles.append(_contour(axis, x, y, np.where(unknown, np.nan, z), level, labels.z))
    handles.append(_surface(axis, x, y, unknown, "white", "not determined", hatch="/////"))
    if panel.best is not None:
        handles.append(_best(axis, x, y, z, panel.best, panel.best_value))
    axis.set(xlabel=labels.x, ylabel=labels.y, title=panel.title)
    axis.set_xlim(*_edges(x)[[0, -1]])
    axis.set_ylim(*_edges(y)[[0, -1]])
    shown = [h for h in handles if h is not None]
    note = "" if good.count() else f"{labels.inside} nowhere in this range"
    if shown or note:
        figure.legend(handles=shown, loc="outside lower left", ncols=2, title=note or None, alignment="left")


def _check(x: np.ndarray, y: np.ndarray, panel: Panel) -> None:
    problems, z, best = [], panel.z, panel.best
    for name, axis in (("x", x), ("y", y)):
        if axis.ndim != 1 or len(axis) < 2 or not np.all(np.isfinite(axis)) or np.any(np.diff(axis) <= 0.0):
            problems.append(f"{name}: at least two finite, increasing numbers, not an array of shape {axis.shape}")
    if z.shape != (y.size, x.size):
        problems.append(f"z: expected shape {(y.size, x.size)} (len(y), len(x)), not {z.shape}")
    if not problems and best is not None:
        (px, py), (x0, x1), (y0, y1) = best, _edges(x)[[0, -1]], _edges(y)[[0, -1]]
        if not (x0 <= px <= x1 and y0 <= py <= y1):
            problems.append(f"best: ({px:g}, {py:g}) is not on the chart")
    if problems:
        raise ModelError("chart", problems)


def _edges(centres: np.ndarray) -> np.ndarray:
    """Limits of the cells about points, the outer ones as wide as their neighbours."""
    middle = 0.5 * (centres[1:] + centres[:-1])
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def _surface(axis: Axes, x: np.ndarray, y: np.ndarray, where: np.ndarray, colour: str, label: str, hatch: str = ""):
    """Fill the cells `where` it is true; what stands for them in the legend, None if there are none."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    if not np.any(where):
        return None
    cells = np.ma.masked_where(~where, np.ones(where.shape))
    if hatch:
        axis.pcolor(
            _edges(x), _edges(y), cells, hatch=hatch, cmap=ListedColormap([colour]), edgecolor=SOFT, linewidth=0.0
        )
    else:
        axis.pcolormesh(x, y, cells, shading="nearest", cmap=ListedColormap([colour]), rasterized=True)
    return Patch(facecolor=colour, edgecolor=SOFT, linewidth=0.4, hatch=hatch or None, label=label)


def _contour(axis: Axes, x: np.ndarray, y: np.ndarray, z: np.ndarray, level: float, z_label: str):
    from matplotlib.lines import Line2D

    # Infinite values would bend the line on their way up: the largest finite one will do.
    finite = z[np.isfinite(z)]
    top = max(float(finite.max()), level + 1e-9 * max(abs(level), 1.0)) if finite.size else level
    axis.contour(x, y, np.where(np.isposinf(z), top, z), levels=[level], colors=INK, linewidths=1.0)
    return Line2D([], [], color=INK, linewidth=1.0, label=f"{z_label} = {level:g}")


def _best(axis: Axes, x: np.ndarray, y: np.ndarray, z: np.ndarray, best: tuple[float, float], best_value: float | None):
    value = best_value if best_value is not None else z[np.argmin(np.abs(y - best[1])), np.argmin(np.abs(x - best[0]))]
    shown = f"best: {best[0]:.4g}, {best[1]:.4g}" + (f" ({value:.4g})" if np.isfinite(value) else "")
    (mark,) = axis.plot(*best, "*", color=MARK, markeredgecolor="white", markeredgewidth=0.6, ms=11, ls="", label=shown)
    return mark
