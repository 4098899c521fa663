"""Which curves a run is shown by: the same for the page and for static figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from bricard.mechanism.base import MechanismSystem
from bricard.report.singular import SingularPositions
from bricard.simulate.trajectory import Trajectory

MOST_CURVES = 8
"""In one panel; more cannot be told apart."""

COMPARED = (("reference", "output", "task"), ("error", "task error"))
"""Signals of controllers that say more side by side."""

NO_ERROR = 1e-17
"""Below all rounding errors: where zero is shown on a logarithmic axis."""

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6f5aa8", "#6b7280")
"""After Okabe and Ito: told apart by colour-blind readers too. (The page has its own, for dark screens as well.)"""


@dataclasses.dataclass(frozen=True)
class Curve:
    """One quantity over time."""

    name: str
    values: Float[np.ndarray, " k"]
    doubtful: bool = False
    """Of a constraint force that a rigid model does not determine: drawn dashed."""


@dataclasses.dataclass(frozen=True)
class Panel:
    """Curves that share an axis."""

    title: str
    unit: str
    curves: tuple[Curve, ...]
    log: bool = False
    """Shown on a logarithmic axis that ends at `NO_ERROR`."""
    note: str = ""
    """What is left out or needs saying."""


def panels(trajectory: Trajectory, singular: SingularPositions) -> list[Panel]:
    """Everything worth plotting of a run, in the order of reading."""
    if len(trajectory) == 0:
        return []
    system, energy = trajectory.system, trajectory.energy
    shown = [
        _panel("Coordinates", "m, rad", system.coordinates, trajectory.q),
        _panel("Velocities", "m/s, rad/s", system.velocity_names, trajectory.v),
        _energy(energy, "drives, impacts" if trajectory.contacts else "drives"),
        Panel("Energy balance", "J", (Curve("gained beyond the work done", np.asarray(energy.balance)),)),
    ]
    if system.n_constraints:
        error = trajectory.constraint_error
        errors = [Curve("position", np.asarray(error.position)), Curve("velocity", np.asarray(error.velocity))]
        shown.append(Panel("Constraint error", "m, rad; per s", tuple(errors), log=True))
    if trajectory.contacts:
        shown += _contact_forces(trajectory)
    if isinstance(system, MechanismSystem) and not trajectory.contacts:  # with contacts they are not known
        shown += _reactions(trajectory)  # these say more than multipliers, and there are some without constraints too
    elif system.n_constraints:
        shown += [
            _multipliers(trajectory),
            _panel("Constraint forces, by coordinate", "N, N m", system.velocity_names, trajectory.constraint_force),
        ]
    if system.nu and np.any(np.asarray(trajectory.u) != 0.0):
        shown.append(_panel("Inputs", "N, N m", system.input_names, trajectory.u))
    shown += _signals({name: np.asarray(values) for name, values in trajectory.signals.items()})
    if len(singular.measure):
        curve = Curve("smallest singular value", singular.measure)
        # The minima lie between the saved states, where `singular_positions` looks for them.
        note = "at the saved states; 0 at the dotted lines" if singular.times else ""
        shown.append(Panel("Distance from singular positions", "", (curve,), note=note))
    return shown


def _panel(title: str, unit: str, names: Sequence[str], values: Any) -> Panel:
    curves = [Curve(name, column) for name, column in zip(names, np.asarray(values).T, strict=True)]
    curves, note = _fewer(curves)
    return Panel(title, unit, curves, note=note)


def _signals(signals: dict[str, np.ndarray]) -> list[Panel]:
    """What a controller saw and wanted; what is to be compared shares a panel, unless there is too much of it."""
    groups: dict[str, list[str]] = {}
    for name in signals:
        pair = next((pair for pair in COMPARED if name in pair), ())
        together = [n for n in pair if n in signals]
        if not together or sum(signals[n].shape[1] for n in together) > MOST_CURVES:
            together = [name]
        groups.setdefault(", ".join(together), together)
    panels = []
    for title, names in groups.items():
        counted = [(n, i) for n in names for i in range(signals[n].shape[1])]
        labels = [n if signals[n].shape[1] == 1 else f"{n} {i}" for n, i in counted]
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
        # Nothing but numerical errors is not worth a curve.
        if _range(work) > 1e-6 * scale([c.values for c in curves]):
            curves.append(Curve(f"work of {name}", work - work[0]))
    return Panel("Energy", "J", tuple(curves))


def _multipliers(trajectory: Trajectory) -> Panel:
    values, known = np.asarray(trajectory.multipliers), np.asarray(trajectory.determinate)
    doubtful = np.mean(known, axis=0) < 0.5
    curves = [Curve(name, values[:, i], bool(doubtful[i])) for i, name in enumerate(trajectory.system.row_names)]
    return _doubted("Multipliers, by constraint", "N, N m", curves)


def _reactions(trajectory: Trajectory) -> list[Panel]:
    """Size of the force and of the moment of each joint, and the efforts of drivers and gears."""
    reactions = trajectory.reactions
    every, dimension = reactions.all, reactions.all.point.shape[-1]
    world, sure = np.asarray(every.world), np.asarray(every.determinate_world)
    shown = []
    for title, unit, part in (
        ("Joint forces", "N", slice(0, dimension)),
        ("Joint moments", "N m", slice(dimension, None)),
    ):
        sizes = np.linalg.norm(world[:, :, part], axis=2)
        doubtful = np.mean(np.all(sure[:, :, part], axis=2), axis=0) < 0.5
        # A joint that carries nothing of a kind is not worth a curve.
        carries = [j for j in range(sizes.shape[1]) if scale([sizes[:, j]]) > 1e-9 * scale([sizes])]
        if carries and scale([sizes]) > 0.0:
            curves = [Curve(reactions.names[j], sizes[:, j], bool(doubtful[j])) for j in carries]
            shown.append(_doubted(title, unit, curves))
    efforts = [
        Curve(name, np.asarray(values), bool(np.mean(np.asarray(reactions.effort_determinate[name])) < 0.5))
        for name, values in reactions.efforts.items()
    ]
    return [*shown, _doubted("Efforts of drivers, gears and own constraints", "N, N m", efforts)] if efforts else shown


def _contact_forces(trajectory: Trajectory) -> list[Panel]:
    """Normal force and size of the friction of each contact."""
    force, known = np.asarray(trajectory.contact_force), np.asarray(trajectory.contact_determinate)
    closed = np.any(force != 0.0, axis=2)
    shown = []
    for title, sizes, sure in (
        ("Contact forces, normal", force[:, :, 0], known[:, :, 0]),
        ("Friction", np.linalg.norm(force[:, :, 1:], axis=2), np.all(known[:, :, 1:], axis=2)),
    ):
        doubtful = np.sum(closed & ~sure, axis=0) > 0.5 * np.sum(closed, axis=0)  # most of the time that it is closed
        curves = [Curve(c.name, sizes[:, i], bool(doubtful[i])) for i, c in enumerate(trajectory.contacts)]
        shown.append(_doubted(title, "N", curves))
    return shown if force.shape[2] > 1 else shown[:1]


def _doubted(title: str, unit: str, curves: list[Curve]) -> Panel:
    """A panel of forces that says what its dashed curves are."""
    kept, note = _fewer(curves)
    if any(c.doubtful for c in kept):
        note = "; ".join(filter(None, [note, "dashed: not determined by a rigid model, least values shown"]))
    return Panel(title, unit, kept, note=note)


def _fewer(curves: list[Curve]) -> tuple[tuple[Curve, ...], str]:
    """At most `MOST_CURVES`: of curves that coincide the first, then those that vary most."""
    scale = max((_range(c.values) for c in curves), default=0.0)
    kinds: list[tuple[Curve, int]] = []
    for curve in curves:
        for i, (other, alike) in enumerate(kinds):
            same = np.allclose(curve.values, other.values, rtol=0.0, atol=1e-4 * scale, equal_nan=True)
            if same and curve.doubtful == other.doubtful and len(curves) > MOST_CURVES:
                kinds[i] = (other, alike + 1)
                break
        else:
            kinds.append((curve, 0))
    ranking = sorted(range(len(kinds)), key=lambda i: -_range(kinds[i][0].values))
    chosen = sorted(ranking[:MOST_CURVES])
    shown = tuple(
        dataclasses.replace(kinds[i][0], name=f"{kinds[i][0].name} (+{kinds[i][1]} alike)")
        if kinds[i][1]
        else kinds[i][0]
        for i in chosen
    )
    hidden = len(curves) - len(chosen) - sum(kinds[i][1] for i in chosen)
    return shown, f"{hidden} more vary less and are not shown" if hidden else ""


def _range(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.ptp(finite)) if finite.size else 0.0


def thinned(t: np.ndarray, columns: Sequence[np.ndarray], most: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """At most about `most` samples of each curve: the smallest and the largest of each stretch, so that peaks stay.

    The times of a stretch's two extremes are set to its start and middle, the same for all curves.
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
            low, high = sorted((int(np.argmin(part)), int(np.argmax(part))))
            kept += [part[low], part[high]]
        out.append(np.asarray(kept))
    return times, out


def rounded(values: np.ndarray, log: bool = False, scale: float = 0.0) -> list[float | None]:
    """Numbers with as many digits as a plot can show; None for what is not finite.

    `scale` is the size of everything on the same axis: what is 10⁻⁹ of it becomes zero.
    """
    finite = values[np.isfinite(values)]
    if log or not finite.size:
        return [float(f"{x:.3g}") if np.isfinite(x) else None for x in values]
    size = max(_range(values) or float(np.max(np.abs(finite))), 1e-5 * scale)
    digits = 4 - int(np.floor(np.log10(size))) if size > 0.0 else 0
    # Adding zero makes −0 into 0.
    return [float(f"{x:.12g}") if np.isfinite(x) else None for x in np.round(values, digits) + 0.0]


def scale(columns: Sequence[np.ndarray]) -> float:
    """Largest finite size among curves."""
    return max((float(np.max(np.abs(c[np.isfinite(c)]), initial=0.0)) for c in columns), default=0.0)
