"""Coupler curves and prescribed motions as static figures (extra `plot`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bricard.errors import ModelError
from bricard.mechanism.model.sensors import PointSensor
from bricard.report.curves import PALETTE
from bricard.report.scene import LINK, drawings
from bricard.report.style import INK, MARK, SOFT, STYLE, WIDTH, pyplot
from bricard.simulation.driven_motion import Kinematics
from bricard.simulation.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def path_figure(motion: Trajectory | Kinematics, *, positions: int = 7, title: str = "") -> Figure:
    """Draw the mechanism at `positions` instants, the paths of its point sensors (coupler curves), and its coordinates.

    For a result of `br.kinematics`, a further panel shows the distance from dead points. The figure is a pyplot figure.
    """
    if motion.t.ndim != 1 or motion.t.shape[0] < 2:
        raise ModelError(
            "path_figure", [f"expected a single motion with at least two states; its times have shape {motion.t.shape}"]
        )
    plt = pyplot("path_figure")
    t = np.asarray(motion.t)
    frames = np.unique(np.linspace(0, len(t) - 1, max(positions, 1)).round().astype(int))
    lines = drawings(motion.system, np.asarray(motion.q)[frames], t[frames])
    paths = _paths(motion)
    spatial = any(points.shape[-1] == 3 for points in (*lines.values(), *paths.values()))
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(WIDTH, 3.4), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
        picture = left.add_subplot(projection="3d" if spatial else None)
        _picture(picture, lines, paths, spatial)
        picture.set_title(title)
        driven = isinstance(motion, Kinematics)
        axes = np.atleast_1d(right.subplots(2 if driven else 1, 1, sharex=True))
        _coordinates(axes[0], motion)
        if isinstance(motion, Kinematics):
            _transmission(axes[1], motion)
        axes[-1].set_xlabel("time (s)")
    return figure


def _paths(motion: Trajectory | Kinematics) -> dict[str, np.ndarray]:
    """Positions of each point sensor, shape (k, d)."""
    readers = getattr(getattr(motion.system, "model", None), "readers", ())
    names = getattr(getattr(motion.system, "model", None), "sensor_names", ())
    points = [name for name, reader in zip(names, readers, strict=True) if isinstance(reader, PointSensor)]
    return {name: np.asarray(motion.sensors[name].value) for name in points} if points else {}


def _picture(axis: Any, lines: dict[str, np.ndarray], paths: dict[str, np.ndarray], spatial: bool) -> None:
    """Draw the last position in full and earlier ones faintly; lines that do not move are drawn once."""
    for points in lines.values():
        still = np.allclose(points, points[:1], rtol=0.0, atol=1e-9)
        for i in range(len(points) - 1 if still else 0, len(points)):
            line, last = points[i], i == len(points) - 1
            style = {"color": INK, "linewidth": 1.4} if last else {"color": SOFT, "linewidth": 0.8, "alpha": 0.35}
            # Short lines are links with joints at their ends; longer ones are outlines.
            marker = "o" if line.shape[0] <= LINK else None
            axis.plot(*line.T, marker=marker, markersize=3.5 if last else 2.0, markerfacecolor="white", **style)
    for i, (name, path) in enumerate(paths.items()):
        axis.plot(*path.T, color=PALETTE[i % len(PALETTE)], linewidth=1.5, label=name)
    if paths:
        axis.figure.legend(loc="outside lower left", ncols=3)
    axis.set(xlabel="x (m)", ylabel="y (m)")
    if spatial:
        axis.set_zlabel("z (m)")
        axis.set_box_aspect(np.maximum(np.diff([axis.get_xlim(), axis.get_ylim(), axis.get_zlim()])[:, 0], 1e-9))
    else:
        axis.set_aspect("equal", adjustable="datalim")


def _coordinates(axis: Axes, motion: Trajectory | Kinematics) -> None:
    t, q = np.asarray(motion.t), np.asarray(motion.q)
    ranking = np.argsort(-np.ptp(q, axis=0), kind="stable")[:6]
    for colour, i in zip(PALETTE, sorted(ranking), strict=False):
        axis.plot(t, q[:, i], color=colour, label=motion.system.coordinates[i])
    axis.set_title("Coordinates" if len(ranking) == q.shape[1] else "Coordinates that vary most")
    axis.set_ylabel("m, rad")
    axis.legend(loc="upper left", bbox_to_anchor=(0.0, -0.08), ncols=3, borderpad=0.0)


def _transmission(axis: Axes, motion: Kinematics) -> None:
    axis.plot(np.asarray(motion.t), np.asarray(motion.transmission), color=PALETTE[0])
    axis.set_ylim(bottom=0.0)
    for time in np.asarray(motion.dead_points):
        axis.axvline(float(time), color=MARK, linewidth=0.6, linestyle=":")
    axis.set_title("Distance from dead points")
    axis.set_ylabel("smallest singular value")
