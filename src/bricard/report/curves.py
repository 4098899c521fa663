"""The plots of a run, shared by the HTML page and the static figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.report.singular import SingularPositions
from bricard.simulation.trajectory import Trajectory

MAX_CURVES = 8
"""In one panel; more cannot be distinguished."""

SIGNAL_GROUPS = (("reference", "output", "task"), ("error", "task error"))
"""Controller signals that share a panel because they are meant to be compared."""

LOG_FLOOR = 1e-17
"""Smallest value on logarithmic axes, below all rounding errors; zero is drawn here."""

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6f5aa8", "#6b7280")
"""Colours after Okabe and Ito, safe for colour-blind readers. The page has its own palette, also for dark mode."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """One quantity over time."""

    name: str
    values: Float[np.ndarray, " k"]
    indeterminate: bool = False
    """True for a statically indeterminate force, which is drawn dashed."""


@dataclasses.dataclass(frozen=True)
class Panel:
    """Curves that share one axis."""

    title: str
    unit: str
    curves: tuple[Curve, ...]
    log: bool = False
    """True for a logarithmic axis; values below `LOG_FLOOR` are drawn at `LOG_FLOOR`."""
    note: str = ""
    """Remark below the panel, such as the number of curves that are not shown."""


def panels(trajectory: Trajectory, singular: SingularPositions) -> list[Panel]:
    """All plots of a run, in reading order."""
    if len(trajectory) == 0:
        return []
    system, energy = trajectory.system, trajectory.energy
    shown = [
        _panel("Coordinates", "m, rad", system.coordinates, trajectory.q),
        _panel("Velocities", "m/s, rad/s", system.velocity_names, trajectory.v),
        _energy(energy, "drives, impacts" if trajectory.contacts else "drives"),
        Panel("Energy balance", "J", (Curve("energy error", np.asarray(energy.balance)),)),
    ]
    if system.n_constraints:
        error = trajectory.constraint_error
        errors = [Curve("position", np.asarray(error.position)), Curve("velocity", np.asarray(error.velocity))]
        shown.append(Panel("Constraint error", "m, rad; m/s, rad/s", tuple(errors), log=True))
    if trajectory.contacts:
        shown += _contact_forces(trajectory)
    # Joint reactions say more than multipliers, and exist without constraints too; runs with contacts have none.
    if isinstance(system, MechanismSystem) and not trajectory.contacts:
        shown += _reactions(trajectory)
    elif system.n_constraints:
        shown += [
            _multipliers(trajectory),
            _panel("Generalised constraint forces", "N, N m", system.velocity_names, trajectory.constraint_force),
        ]
    if system.nu and np.any(np.asarray(trajectory.u) != 0.0):
        shown.append(_panel("Inputs", "N, N m", system.input_names, trajectory.u))
    shown += _signals({name: np.asarray(values) for name, values in trajectory.signals.items()})
    if len(singular.measure):
        curve = Curve("smallest singular value", singular.measure)
        # The zeros lie between saved states, so the curve does not reach them.
        note = "values at the saved states; zero at the dotted lines" if singular.times else ""
        shown.append(Panel("Distance from singular positions", "", (curve,), note=note))
    return shown


def _panel(title: str, unit: str, names: Sequence[str], values: Any) -> Panel:
    curves = [Curve(name, column) for name, column in zip(names, np.asarray(values).T, strict=True)]
    curves, note = _select(curves)
    return Panel(title, unit, curves, note=note)


def _signals(signals: dict[str, np.ndarray]) -> list[Panel]:
    """Signals of the controller; those in one of `SIGNAL_GROUPS` share a panel, unless there are too many curves."""
    groups: dict[str, list[str]] = {}
    for name in signals:
        group = next((group for group in SIGNAL_GROUPS if name in group), ())
        members = [n for n in group if n in signals]
        if not members or sum(signals[n].shape[1] for n in members) > MAX_CURVES:
            members = [name]
        groups.setdefault(", ".join(members), members)
    panels = []
    for title, names in groups.items():
        components = [(n, i) for n in names for i in range(signals[n].shape[1])]
        labels = [n if signals[n].shape[1] == 1 else f"{n} {i}" for n, i in components]
        values = np.concatenate([signals[n] for n in names], axis=1)
        panels.append(_panel(f"Controller: {title}", "", labels, values))
    return panels


def _energy(energy: Any, drives: str) -> Panel:
    curves = [Curve(n, np.asarray(getattr(energy, n))) for n in ("kinetic", "potential", "total")]
    for name, work in (
        ("inputs", np.asarray(energy.work_of_inputs)),
        ("forces", np.asarray(energy.work_of_forces)),
        (drives, np.asarray(energy.work_of_drives)),
    ):
        # Work that is only numerical error gets no curve.
        if _range(work) > 1e-6 * scale([c.values for c in curves]):
            curves.append(Curve(f"work of {name}", work - work[0]))
    return Panel("Energy", "J", tuple(curves))


def _multipliers(trajectory: Trajectory) -> Panel:
    values, determinate = np.asarray(trajectory.multipliers), np.asarray(trajectory.determinate)
    indeterminate = np.mean(determinate, axis=0) < 0.5
    curves = [Curve(name, values[:, i], bool(indeterminate[i])) for i, name in enumerate(trajectory.system.row_names)]
    return _force_panel("Constraint multipliers", "N, N m", curves)


def _reactions(trajectory: Trajectory) -> list[Panel]:
    """Magnitude of the force and the moment in each joint, and the efforts of drives, gears and user constraints."""
    reactions = trajectory.reactions
    every, dimension = reactions.all, reactions.all.point.shape[-1]
    world, determinate = np.asarray(every.world), np.asarray(every.determinate_world)
    shown = []
    for title, unit, part in (
        ("Joint forces", "N", slice(0, dimension)),
        ("Joint moments", "N m", slice(dimension, None)),
    ):
        sizes = np.linalg.norm(world[:, :, part], axis=2)
        indeterminate = np.mean(np.all(determinate[:, :, part], axis=2), axis=0) < 0.5
        # Joints that transmit no force (or no moment) get no curve.
        loaded = [j for j in range(sizes.shape[1]) if scale([sizes[:, j]]) > 1e-9 * scale([sizes])]
        if loaded and scale([sizes]) > 0.0:
            curves = [Curve(reactions.names[j], sizes[:, j], bool(indeterminate[j])) for j in loaded]
            shown.append(_force_panel(title, unit, curves))
    efforts = [
        Curve(name, np.asarray(values), bool(np.mean(np.asarray(reactions.effort_determinate[name])) < 0.5))
        for name, values in reactions.efforts.items()
    ]
    return (
        [*shown, _force_panel("Efforts of drives, gears and user constraints", "N, N m", efforts)] if efforts else shown
    )


def _contact_forces(trajectory: Trajectory) -> list[Panel]:
    """Normal force and magnitude of the friction force of each contact."""
    force, determinate = np.asarray(trajectory.contact_force), np.asarray(trajectory.contact_determinate)
    closed = np.any(force != 0.0, axis=2)
    shown = []
    for title, sizes, unique in (
        ("Normal contact forces", force[:, :, 0], determinate[:, :, 0]),
        ("Friction forces", np.linalg.norm(force[:, :, 1:], axis=2), np.all(determinate[:, :, 1:], axis=2)),
    ):
        # For more than half of the time during which the contact is closed.
        indeterminate = np.sum(closed & ~unique, axis=0) > 0.5 * np.sum(closed, axis=0)
        curves = [Curve(c.name, sizes[:, i], bool(indeterminate[i])) for i, c in enumerate(trajectory.contacts)]
        shown.append(_force_panel(title, "N", curves))
    return shown if force.shape[2] > 1 else shown[:1]


def _force_panel(title: str, unit: str, curves: list[Curve]) -> Panel:
    """A panel of forces whose note explains the dashed curves."""
    kept, note = _select(curves)
    if any(c.indeterminate for c in kept):
        note = "; ".join(filter(None, [note, "dashed: statically indeterminate, minimum-norm values shown"]))
    return Panel(title, unit, kept, note=note)


def _select(curves: list[Curve]) -> tuple[tuple[Curve, ...], str]:
    """The curves to plot and a note about the others: identical ones are merged, then those that vary most are kept."""
    scale = max((_range(c.values) for c in curves), default=0.0)
    distinct: list[tuple[Curve, int]] = []
    for curve in curves:
        for i, (other, copies) in enumerate(distinct):
            same = np.allclose(curve.values, other.values, rtol=0.0, atol=1e-4 * scale, equal_nan=True)
            if same and curve.indeterminate == other.indeterminate and len(curves) > MAX_CURVES:
                distinct[i] = (other, copies + 1)
                break
        else:
            distinct.append((curve, 0))
    ranking = sorted(range(len(distinct)), key=lambda i: -_range(distinct[i][0].values))
    chosen = sorted(ranking[:MAX_CURVES])
    shown = tuple(
        dataclasses.replace(curve, name=f"{curve.name} (+{copies} identical)") if copies else curve
        for curve, copies in (distinct[i] for i in chosen)
    )
    hidden = len(curves) - len(chosen) - sum(distinct[i][1] for i in chosen)
    return shown, f"{hidden} curves that vary less are not shown" if hidden else ""


def _range(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.ptp(finite)) if finite.size else 0.0


def thinned(t: np.ndarray, columns: Sequence[np.ndarray], most: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Times and curves with at most about `most` samples: the minimum and maximum of each interval, to keep peaks.

    The two extremes of an interval are assigned to its start and its middle, so that all curves share their times.
    """
    if len(t) <= most:
        return t, list(columns)
    size = -(-len(t) // (most // 2))
    starts = range(0, len(t), size)
    times = np.concatenate([[t[i], t[min(i + size // 2, len(t) - 1)]] for i in starts])
    times[-1] = t[-1]
    out = []
    for column in columns:
        kept = []
        for i in starts:
            part = column[i : i + size]
            first, second = sorted((int(np.argmin(part)), int(np.argmax(part))))
            kept += [part[first], part[second]]
        out.append(np.asarray(kept))
    return times, out


def rounded(values: np.ndarray, log: bool = False, scale: float = 0.0) -> list[float | None]:
    """Values rounded to the digits that a plot can show; None for values that are not finite.

    `scale` is the largest magnitude on the same axis: values below about 10⁻⁹ of it become zero.
    """
    finite = values[np.isfinite(values)]
    if log or not finite.size:
        return [float(f"{x:.3g}") if np.isfinite(x) else None for x in values]
    size = max(_range(values) or float(np.max(np.abs(finite))), 1e-5 * scale)
    digits = 4 - int(np.floor(np.log10(size))) if size > 0.0 else 0
    # Adding zero turns −0 into 0.
    return [float(f"{x:.12g}") if np.isfinite(x) else None for x in np.round(values, digits) + 0.0]


def scale(columns: Sequence[np.ndarray]) -> float:
    """Largest finite magnitude among the curves."""
    return max((float(np.max(np.abs(c[np.isfinite(c)]), initial=0.0)) for c in columns), default=0.0)
