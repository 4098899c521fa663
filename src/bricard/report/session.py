"""An interactive simulation: change the initial state or parameters and rerun, or push the system during the motion."""

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
from bricard.execution.compile import xla_jit
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.report.scene import drawings
from bricard.simulation.api import simulate
from bricard.simulation.assembly import assemble
from bricard.simulation.stabilization import Correction
from bricard.simulation.trajectory import Trajectory
from bricard.system import Scalar, System, Vector

STATES = 501
"""States saved in each run; a fixed number, so that a rerun compiles nothing."""


class Session:
    """A system with its initial state, the settings of `simulate`, and the current motion."""

    def __init__(
        self, system: System, q: Any, v: Any, t_end: float, settings: dict[str, Any] | None = None, title: str = ""
    ):
        self.system = system
        self.title = title or type(system).__name__
        self.q, self.v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
        self.t_end = float(t_end)
        self.settings: dict[str, Any] = {"throw": False} | dict(settings or {}) | {"save": STATES}
        self.segments: list[tuple[Trajectory, dict[str, np.ndarray]]] = []

    # -- parameters ------------------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, float]:
        """Scalar parameters of the system (for a mechanism, its masses) and of the controller, by name."""
        if isinstance(self.system, MechanismSystem):
            model = self.system.model
            found = {f"mass {n}": float(m) for n, m in zip(model.names, model.mass, strict=True) if m > 0}
        else:
            found = {" ".join(path): x for path, x in _numbers(self.system).items()}
        gains = _numbers(self.settings.get("controller"))
        return found | {" ".join(("controller", *path)): x for path, x in gains.items()}

    def set_parameters(self, values: dict[str, float]) -> None:
        """Set parameters by their names in `parameters`; `ModelError` for an unknown name."""
        known = self.parameters()
        unknown = [n for n in values if n not in known]
        if unknown:
            raise ModelError(self.title, [f"no parameter called {n!r}" for n in unknown])
        for path in _numbers(self.settings.get("controller")):
            name = " ".join(("controller", *path))
            if name in values:
                self.settings["controller"] = _replaced(self.settings["controller"], path, values[name])
        if isinstance(self.system, MechanismSystem):
            names = self.system.model.names
            mass = np.array(self.system.model.mass)
            for i, name in enumerate(names):
                mass[i] = values.get(f"mass {name}", mass[i])
            self.system = eqx.tree_at(lambda s: s.model.mass, self.system, jnp.asarray(mass))
            return
        for path in _numbers(self.system):
            if " ".join(path) in values:
                self.system = _replaced(self.system, path, values[" ".join(path)])

    # -- simulation ------------------------------------------------------------------------------------------------

    def run(self, q: Any = None, v: Any = None, hold: tuple[str, ...] = ()) -> Trajectory:
        """Simulate from the initial state, or from `q` and `v` projected onto the constraints.

        The projection keeps the coordinates named in `hold` if possible.
        """
        if q is not None or v is not None:
            guess = (self.q if q is None else q), (self.v if v is None else v)
            try:
                near = assemble(self.system, *guess, hold=hold)
            except AssemblyError:
                near = assemble(self.system, *guess)
            self.q, self.v = np.asarray(near.q), np.asarray(near.v)
        self.segments = []
        return self._continue(0.0, self.q, self.v)

    def push(self, t: float, velocity: str, size: float) -> Trajectory:
        """Change the velocity called `velocity` by `size` (m/s, rad/s) at time `t`, and simulate from there.

        The change is projected onto the constraints, as for an impulse. The memory of a controller is reset.
        """
        kept = [(run, shown) for run, shown in self.segments if float(run.t[0]) <= t]
        if not kept:
            raise ModelError(self.title, ["there is no motion to push; call `run` first"])
        trajectory, _ = kept[-1]
        i = int(np.searchsorted(np.asarray(trajectory.t), t, side="right")) - 1
        q, v = trajectory.q[i], trajectory.v[i]
        kick = jnp.zeros(self.system.nv).at[self.system.index(velocity, "velocity_names")[0]].set(size)
        at = float(trajectory.t[i])
        self.segments = kept
        return self._continue(at, np.asarray(q), np.asarray(v + _admissible(self.system, q, kick, jnp.asarray(at))))

    def _continue(self, t: float, q: np.ndarray, v: np.ndarray) -> Trajectory:
        end = self.t_end if self.t_end > t else t + 1e-3
        settings: dict[str, Any] = {**self.settings, "q": q, "v": v, "t0": t, "t_end": end}
        trajectory = simulate(self.system, **settings)
        shown = drawings(self.system, np.asarray(trajectory.q), np.asarray(trajectory.t))
        self.segments.append((trajectory, shown))
        return trajectory

    # -- display ---------------------------------------------------------------------------------------------------

    def frame(self, t: float) -> dict[str, np.ndarray]:
        """Points (n, 3) of each line of the drawing at the last saved time up to `t`; planar drawings are upright."""
        if not self.segments:
            return {}
        trajectory, shown = next((s for s in reversed(self.segments) if float(s[0].t[0]) <= t), self.segments[0])
        i = int(np.clip(np.searchsorted(np.asarray(trajectory.t), t, side="right") - 1, 0, len(trajectory) - 1))
        return {name: upright(points[i]) for name, points in shown.items()}

    @property
    def latest(self) -> Trajectory:
        """The motion since the start or the last push."""
        return self.segments[-1][0]


def upright(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 3"]:
    """Spatial points (n, 3); planar points are moved to the x-z plane, because z points up in space."""
    return points if points.shape[1] == 3 else np.stack([points[:, 0], 0.0 * points[:, 0], points[:, 1]], axis=1)


@xla_jit
def _admissible(system: System, q: Float[Array, " nq"], kick: Vector, t: Scalar) -> Vector:
    """Projection of a velocity change onto the admissible velocities in the mass metric, as for an impulse."""
    if system.n_constraints == 0:
        return kick
    mass, jacobian, variation = system.mass_matrix(q, t), system.constraint_jacobian(q, t), row_variation(system, q, t)
    correction = Correction(mass, jacobian, variation, system.weakest_constraint)
    return kick - correction.normal(kick)


def _numbers(thing: Any) -> dict[tuple[str, ...], float]:
    """Scalar fields of a dataclass and of its nested dataclasses, keyed by the path of field names."""
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return {}
    found: dict[tuple[str, ...], float] = {}
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, (float, jax.Array, np.ndarray)) and np.ndim(value) == 0:
            found[(field.name,)] = float(value)
        elif not isinstance(value, System):  # the parameters of the system are listed separately
            found |= {(field.name, *path): x for path, x in _numbers(value).items()}
    return found


def _replaced(thing: Any, path: tuple[str, ...], value: float) -> Any:
    # `dataclasses.replace` would call the constructor, whose arguments may differ from the fields.
    return eqx.tree_at(lambda x: functools.reduce(getattr, path, x), thing, jnp.asarray(value, dtype=float))
