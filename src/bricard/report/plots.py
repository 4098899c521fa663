"""Static figures for print (extra `plot`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bricard.errors import ModelError
from bricard.report.curves import LOG_FLOOR, PALETTE, Panel, panels, scale
from bricard.report.singular import singular_positions
from bricard.report.style import BAD, HEIGHT, MARK, STYLE, WIDTH, pyplot
from bricard.simulation.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def trajectory_figure(trajectory: Trajectory) -> Figure:
    """Figure with one panel each for coordinates, velocities, energy, constraint error, forces and inputs.

    Dotted lines mark singular positions. The figure is a pyplot figure: `plt.show()` displays it.
    """
    plt = pyplot("plot")
    if len(trajectory) == 0:
        raise ModelError("plot", [f"the trajectory has no states to plot: {trajectory.status}"])
    singular = singular_positions(trajectory)
    shown = panels(trajectory, singular)
    rows = -(-len(shown) // 2)
    t = np.asarray(trajectory.t)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(rows, 2, figsize=(WIDTH, HEIGHT * rows + 0.3), sharex=True, squeeze=False)
        figure.set_layout_engine("constrained")
        for axis, panel in zip(axes.T.ravel(), shown, strict=False):
            _draw(axis, t, panel, singular.times)
        for axis in axes.T.ravel()[len(shown) :]:
            axis.remove()
        for column, used in ((0, rows), (1, len(shown) - rows)):
            last = axes[max(used - 1, 0), column]
            last.set_xlabel("time (s)")
            last.tick_params(labelbottom=True)
        if trajectory.failure is not None:
            figure.suptitle(trajectory.failure, color=BAD, fontsize=8, wrap=True)
    return figure


def _draw(axis: Axes, t: np.ndarray, panel: Panel, singular: tuple[float, ...]) -> None:
    for time in singular:
        axis.axvline(time, color=MARK, linewidth=0.6, linestyle=":", zorder=1)
    power = 0 if panel.log else _power([c.values for c in panel.curves])
    for i, curve in enumerate(panel.curves):
        values = np.maximum(curve.values, LOG_FLOOR) if panel.log else curve.values / 10.0**power
        style = "--" if curve.indeterminate else "-"
        axis.plot(t, values, style, color=PALETTE[i % len(PALETTE)], label=curve.name, zorder=2)
    if panel.log:
        axis.set_yscale("log")
    axis.set_xlim(float(t[0]), float(t[-1]) if t[-1] > t[0] else float(t[0]) + 1.0)
    axis.set_title(panel.title)
    axis.set_ylabel(f"$10^{{{power}}}$ {panel.unit}" if power else panel.unit)
    if len(panel.curves) > 1:
        # Below the panel, where it cannot cover data.
        axis.legend(
            loc="upper left",
            bbox_to_anchor=(0.0, -0.14),
            ncols=_columns(panel),
            borderpad=0.0,
            title=panel.note or None,
            title_fontsize=6,
            alignment="left",
        )


def _power(columns: list[np.ndarray]) -> int:
    """Power of ten to move into the unit label, or 0 if tick labels are short without it."""
    size = scale(columns)
    power = int(np.floor(np.log10(size))) if size > 0.0 else 0
    return power if power >= 5 or power <= -3 else 0


def _columns(panel: Panel) -> int:
    """Number of legend columns that fit below a panel."""
    longest = max(len(c.name) for c in panel.curves)
    return max(1, min(len(panel.curves), 4, 62 // (longest + 6)))
