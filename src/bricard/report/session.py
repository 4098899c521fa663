"""A motion to play with: change the start or a parameter and run again, push it while it moves."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.problem import row_variation
from bricard.errors import AssemblyError, ModelError
from bricard.mechanism.base import MechanismSystem
from bricard.report.scene import drawings
from bricard.simulate.assemble import assemble
from bricard.simulate.run import simulate
from bricard.simulate.stabilize import Correction
from bricard.simulate.trajectory import Trajectory
from bricard.system import Scalar, System, Vector

STATES = 501
"""Saved in each run: always as many, so that running again compiles nothing."""


class Session:
    """One system with a start, settings of `simulate`, and the latest motion."""

    def __init__(
        self, system: System, q: Any, v: Any, t_end: float, settings: dict[str, Any] | None = None, title: str = ""
    ):
        self.system = system
        self.title = title or type(system).__name__
        self.q, self.v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
        self.t_end = float(t_end)
        self.settings: dict[str, Any] = {"throw": False} | dict(settings or {}) | {"save": STATES}
        self.parts: list[tuple[Trajectory, dict[str, np.ndarray]]] = []

    # -- what can be changed ---------------------------------------------------------------------------------------

    def knobs(self) -> dict[str, float]:
        """Parameters that are plain numbers: of the system (of a mechanism its masses) and of a controller."""
        if isinstance(self.system, MechanismSystem):
            model = self.system.model
            found = {f"mass {n}": float(m) for n, m in zip(model.names, model.mass, strict=True) if m > 0}
        else:
            found = {" ".join(path): x for path, x in _numbers(self.system).items()}
        gains = _numbers(self.settings.get("controller"))
        return found | {" ".join(("controller", *path)): x for path, x in gains.items()}

    def turn(self, knobs: dict[str, float]) -> None:
        """Set parameters by the names of `knobs`; `ModelError` for a name or a value that cannot be."""
        unknown = [n for n in knobs if n not in self.knobs()]
        if unknown:
            raise ModelError(self.title, [f"no parameter called {n!r}" for n in unknown])
        for path in _numbers(self.settings.get("controller")):
            name = " ".join(("controller", *path))
            if name in knobs:
                self.settings["controller"] = _replaced(self.settings["controller"], path, knobs[name])
        if isinstance(self.system, MechanismSystem):
            names = self.system.model.names
            mass = np.array(self.system.model.mass)
            for i, name in enumerate(names):
                mass[i] = knobs.get(f"mass {name}", mass[i])
            self.system = eqx.tree_at(lambda s: s.model.mass, self.system, jnp.asarray(mass))
            return
        for path in _numbers(self.system):
            if " ".join(path) in knobs:
                self.system = _replaced(self.system, path, knobs[" ".join(path)])

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, q: Any = None, v: Any = None, hold: tuple[str, ...] = ()) -> Trajectory:
        """Run from the start; `q` and `v` change it, and are moved onto the constraints, if possible without `hold`."""
        if q is not None or v is not None:
            guess = (self.q if q is None else q), (self.v if v is None else v)
            try:
                near = assemble(self.system, *guess, hold=hold)
            except AssemblyError:
                near = assemble(self.system, *guess)
            self.q, self.v = np.asarray(near.q), np.asarray(near.v)
        self.parts = []
        return self._continue(0.0, self.q, self.v)

    def push(self, t: float, velocity: str, size: float) -> Trajectory:
        """Hit it at time `t`: a velocity changes by `size` (m/s, rad/s), and the others as the constraints want.

        What a controller remembers starts anew.
        """
        kept = [(p, d) for p, d in self.parts if float(p.t[0]) <= t]
        if not kept:
            raise ModelError(self.title, ["run it before pushing it"])
        trajectory, _ = kept[-1]
        i = int(np.searchsorted(np.asarray(trajectory.t), t, side="right")) - 1
        q, v = trajectory.q[i], trajectory.v[i]
        kick = jnp.zeros(self.system.nv).at[self.system.index(velocity, "velocity_names")[0]].set(size)
        at = float(trajectory.t[i])
        self.parts = kept
        return self._continue(at, np.asarray(q), np.asarray(v + _admissible(self.system, q, kick, jnp.asarray(at))))

    def _continue(self, t: float, q: np.ndarray, v: np.ndarray) -> Trajectory:
        end = self.t_end if self.t_end > t else t + 1e-3
        settings: dict[str, Any] = {**self.settings, "q": q, "v": v, "t0": t, "t_end": end}
        trajectory = simulate(self.system, **settings)
        shown = drawings(self.system, np.asarray(trajectory.q), np.asarray(trajectory.t))
        self.parts.append((trajectory, shown))
        return trajectory

    # -- looking ---------------------------------------------------------------------------------------------------

    def frame(self, t: float) -> dict[str, np.ndarray]:
        """Every line of the drawing at the saved time before `t`, (n, 3); the plane stands upright in space."""
        if not self.parts:
            return {}
        trajectory, shown = next((p for p in reversed(self.parts) if float(p[0].t[0]) <= t), self.parts[0])
        i = int(np.clip(np.searchsorted(np.asarray(trajectory.t), t, side="right") - 1, 0, len(trajectory) - 1))
        return {name: upright(points[i]) for name, points in shown.items()}

    @property
    def latest(self) -> Trajectory:
        """The motion since the start or the last push."""
        return self.parts[-1][0]


def upright(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 3"]:
    """Points of the plane x-y as points of the plane x-z, so that both have up above."""
    return points if points.shape[1] == 3 else np.stack([points[:, 0], 0.0 * points[:, 0], points[:, 1]], axis=1)


@eqx.filter_jit
def _admissible(system: System, q: Float[Array, " nq"], kick: Vector, t: Scalar) -> Vector:
    """The part of a change of velocity that the constraints allow, in the mass metric: as an impulse would do it."""
    if system.n_constraints == 0:
        return kick
    mass, matrix, variation = system.mass_matrix(q, t), system.constraint_matrix(q, t), row_variation(system, q, t)
    correction = Correction(mass, matrix, variation, system.weakest_constraint)
    return kick - correction.normal(kick)


def _numbers(thing: Any) -> dict[tuple[str, ...], float]:
    """Single numbers among the fields of a dataclass and of those within, by the names that lead there."""
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return {}
    found: dict[tuple[str, ...], float] = {}
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, (float, jax.Array, np.ndarray)) and np.ndim(value) == 0:
            found[(field.name,)] = float(value)
        elif not isinstance(value, System):  # a controller knows the system, whose parameters have their own sliders
            found |= {(field.name, *path): x for path, x in _numbers(value).items()}
    return found


def _replaced(thing: Any, path: tuple[str, ...], value: float) -> Any:
    # Not `dataclasses.replace`: a controller's constructor takes other arguments than its fields.
    return eqx.tree_at(lambda x: functools.reduce(getattr, path, x), thing, jnp.asarray(value, dtype=float))
