"""Charts over two parameters, such as the stable region of two gains, from plain arrays (extra `plot`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bricard.errors import ModelError
from bricard.report.style import INK, MARK, PALE, SOFT, STYLE, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    x, y, z = (np.asarray(a, dtype=float) for a in (x, y, z))
    _check(x, y, z, best)
    plt = pyplot("chart")
    unknown, above = np.isnan(z), z > level
    with plt.rc_context(STYLE | {"axes.grid": False}):
        figure, axis = plt.subplots(figsize=(4.6, 3.7), layout="constrained")
        good = np.ma.masked_where(unknown | above, z)
        handles: list[Any] = [_surface(axis, x, y, above & ~unknown, PALE, outside)]
        if good.count():
            low = float(good.min())
            # A flat chart still needs a range for its colours.
            limits = {"vmin": low if low < level else level - 1.0, "vmax": level}
            image = axis.pcolormesh(x, y, good, shading="nearest", cmap="viridis", rasterized=True, **limits)
            figure.colorbar(image, ax=axis, label=z_label, pad=0.02)
        if np.any(above & ~unknown) and good.count():
            handles.append(_contour(axis, x, y, np.where(unknown, np.nan, z), level, z_label))
        handles.append(_surface(axis, x, y, unknown, "white", "not determined", hatch="/////"))
        if best is not None:
            handles.append(_best(axis, x, y, z, best, best_value))
        axis.set(xlabel=x_label, ylabel=y_label, title=title)
        axis.set_xlim(*_edges(x)[[0, -1]])
        axis.set_ylim(*_edges(y)[[0, -1]])
        shown = [h for h in handles if h is not None]
        note = "" if good.count() else f"{inside} nowhere in this range"
        if shown or note:
            figure.legend(handles=shown, loc="outside lower left", ncols=2, title=note or None, alignment="left")
    return figure


def _check(x: np.ndarray, y: np.ndarray, z: np.ndarray, best: tuple[float, float] | None) -> None:
    problems = []
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
