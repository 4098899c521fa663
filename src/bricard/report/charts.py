"""Heat maps over two parameters, such as the stable region in a plane of two gains (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bricard.errors import ModelError
from bricard.report.style import INK, MARK, PALE, SOFT, STYLE, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

MAX_COLUMNS = 4
"""Charts in one row of a figure."""


class Panel(NamedTuple):
    """One heat map in a figure of several."""

    title: str
    z: Any
    """Values on the grid, shape (len(y), len(x))."""
    best: tuple[float, float] | None = None
    """Point (x, y) to mark."""
    best_value: float | None = None
    """Value printed for `best`; by default the value at the nearest grid point."""


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
    """Draw a heat map of `z` over the grid of `x` and `y`, with the contour `z = level`.

    `x` and `y` are increasing; `z` has shape (len(y), len(x)). Cells above the level are grey and labelled `outside`
    in the legend; cells with NaN are hatched and labelled as not determined; infinite values are above the level.
    `inside` names the region below the level. `best` is a point (x, y) to mark, and `best_value` the value printed for
    it (by default the value at the nearest grid point). The figure is a pyplot figure: `plt.show()` displays it.
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
    """Draw several charts over the same `x` and `y` in one figure, with a common colour scale; see `chart_figure`."""
    x, y = (np.asarray(a, dtype=float) for a in (x, y))
    panels = [p._replace(z=np.asarray(p.z, dtype=float)) for p in panels]
    if not panels:
        raise ModelError("chart", ["no panels were given; at least one is needed"])
    for panel in panels:
        _check(x, y, panel)
    lows = [float(np.min(p.z[p.z <= level])) for p in panels if np.any(p.z <= level)]
    low = min(lows, default=level)
    labels = _Labels(x_label, y_label, z_label, inside, outside)
    # A chart on which all values equal the level still needs a colour range.
    colour_range = (low if low < level else level - 1.0, level)
    plt = pyplot("chart")
    columns = min(len(panels), MAX_COLUMNS)
    rows = -(-len(panels) // columns)
    with plt.rc_context(STYLE | {"axes.grid": False}):
        figure = plt.figure(figsize=(4.6 * columns, 3.7 * rows), layout="constrained")
        if len(panels) == 1:
            _draw(figure, x, y, panels[0], colour_range, labels)
        else:
            subfigures = figure.subfigures(rows, columns, squeeze=False).ravel()
            for subfigure, panel in zip(subfigures, panels, strict=False):
                _draw(subfigure, x, y, panel, colour_range, labels)
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
    colour_range: tuple[float, float],
    labels: _Labels,
) -> None:
    axis, z, level = figure.subplots(), panel.z, colour_range[1]
    unknown, above = np.isnan(z), z > level
    below = np.ma.masked_where(unknown | above, z)
    handles: list[Any] = [_fill_cells(axis, x, y, above & ~unknown, PALE, labels.outside)]
    if below.count():
        limits = dict(zip(("vmin", "vmax"), colour_range, strict=True))
        image = axis.pcolormesh(x, y, below, shading="nearest", cmap="viridis", rasterized=True, **limits)
        figure.colorbar(image, ax=axis, label=labels.z, pad=0.02)
    if np.any(above & ~unknown) and below.count():
        handles.append(_contour(axis, x, y, np.where(unknown, np.nan, z), level, labels.z))
    handles.append(_fill_cells(axis, x, y, unknown, "white", "not determined", hatch="/////"))
    if panel.best is not None:
        handles.append(_mark_best(axis, x, y, z, panel.best, panel.best_value))
    axis.set(xlabel=labels.x, ylabel=labels.y, title=panel.title)
    axis.set_xlim(*_edges(x)[[0, -1]])
    axis.set_ylim(*_edges(y)[[0, -1]])
    shown = [h for h in handles if h is not None]
    note = "" if below.count() else f"{labels.inside} nowhere in this range"
    if shown or note:
        figure.legend(handles=shown, loc="outside lower left", ncols=2, title=note or None, alignment="left")


def _check(x: np.ndarray, y: np.ndarray, panel: Panel) -> None:
    problems, z, best = [], panel.z, panel.best
    for name, axis in (("x", x), ("y", y)):
        if axis.ndim != 1 or len(axis) < 2 or not np.all(np.isfinite(axis)) or np.any(np.diff(axis) <= 0.0):
            problems.append(f"{name}: expected at least two finite, increasing numbers; its shape is {axis.shape}")
    if z.shape != (y.size, x.size):
        problems.append(f"z: expected shape {(y.size, x.size)}, that is (len(y), len(x)), got {z.shape}")
    if not problems and best is not None:
        (px, py), (x0, x1), (y0, y1) = best, _edges(x)[[0, -1]], _edges(y)[[0, -1]]
        if not (x0 <= px <= x1 and y0 <= py <= y1):
            problems.append(f"best: the point ({px:g}, {py:g}) lies outside the chart")
    if problems:
        raise ModelError("chart", problems)


def _edges(centres: np.ndarray) -> np.ndarray:
    """Boundaries of the cells around `centres`; the outer cells are symmetric about their centres."""
    middle = 0.5 * (centres[1:] + centres[:-1])
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def _fill_cells(axis: Axes, x: np.ndarray, y: np.ndarray, where: np.ndarray, colour: str, label: str, hatch: str = ""):
    """Fill the cells for which `where` is true; return their legend handle, or None if there are no such cells."""
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

    # Infinite values would distort the interpolated contour: replace them by the largest finite one.
    finite = z[np.isfinite(z)]
    top = max(float(finite.max()), level + 1e-9 * max(abs(level), 1.0)) if finite.size else level
    axis.contour(x, y, np.where(np.isposinf(z), top, z), levels=[level], colors=INK, linewidths=1.0)
    return Line2D([], [], color=INK, linewidth=1.0, label=f"{z_label} = {level:g}")


def _mark_best(
    axis: Axes, x: np.ndarray, y: np.ndarray, z: np.ndarray, best: tuple[float, float], best_value: float | None
):
    value = best_value if best_value is not None else z[np.argmin(np.abs(y - best[1])), np.argmin(np.abs(x - best[0]))]
    shown = f"best: {best[0]:.4g}, {best[1]:.4g}" + (f" ({value:.4g})" if np.isfinite(value) else "")
    (mark,) = axis.plot(*best, "*", color=MARK, markeredgecolor="white", markeredgewidth=0.6, ms=11, ls="", label=shown)
    return mark
