"""What if the tool must press with 50 N while it moves? Motion and constraint force at once, each undisturbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.control.allocation import least_effort
from bricard.control.input_response import (
    REACH_TOLERANCE,
    Response,
    admissible,
    reach_sizes,
    response,
    response_now,
    scaled_reach,
)
from bricard.control.reference import Reference, make_reference
from bricard.control.tracking import Gain, ProjectedInverseDynamics, apply_gain, make_gains
from bricard.equations.rank import pinv
from bricard.errors import ModelError
from bricard.simulation.controller import Memory
from bricard.system import Scalar, System, Vector


class HybridMotionForce(ProjectedInverseDynamics):
    """Outputs follow their reference and constraint forces theirs: `λ_i → force[i]`, by PI feedback of the force.

    - `force`: wanted multiplier of each constraint row by its name (N, of the constraint **on** the system): numbers or
      functions of time. Rows that are not named are left alone. A multiplier can only be controlled where it is unique;
      with redundant rows name all of them: the force they make together is then controlled.
    - `kf`, `ki`: gains of the force error and of its integral.
    - `plant`: where the force is measured, if it is not as the controller's model says.

    The error of the force obeys `(1 + k_f) ė + k_i e = 0`, whatever the motion does. As many inputs as outputs and
    controlled forces are needed.
    """

    force: Reference
    rows: tuple[str, ...] = eqx.field(static=True)
    kf: Gain
    ki: Gain
    plant: System | None

    def __init__(
        self,
        system: System,
        output: Any,
        reference: Any,
        kp: Any,
        kd: Any,
        force: Any,
        kf: Any = 0.0,
        ki: Any = 0.0,
        *,
        metric: Any = None,
        plant: System | None = None,
    ):
        super().__init__(system, output, reference, kp, kd, metric=metric)
        self.rows, self.force = make_force_goal(system, force, "HybridMotionForce")
        self.kf, self.ki = make_gains("HybridMotionForce", len(self.rows), kf=kf, ki=ki)
        self.plant = plant

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        super().check(t, q, v)
        check_force_goal(self.system, self.rows, q, t, "HybridMotionForce")
        at, index = response_now(self.system, q, v, t), list(self._index)
        unique = np.asarray(unique_part(self.system, at, q, t))
        motion, rows, columns = scaled_reach(at, self.output.jacobian(self.system, q, t))
        slope = (
            (unique @ np.asarray(at.multiplier_gain))[index] * np.asarray(at.rows)[index, None] / np.asarray(columns)
        )
        needed = len(rows) + np.linalg.matrix_rank(unique[np.ix_(index, index)], tol=1e-6)
        if np.linalg.matrix_rank(np.concatenate([motion, slope]), tol=REACH_TOLERANCE) < needed:
            raise ModelError(
                "HybridMotionForce",
                [f"the {self.system.nu} inputs cannot set the force of {', '.join(self.rows)} besides the motion"],
            )

    @property
    def _index(self) -> tuple[int, ...]:
        return tuple(self.system.row_names.index(n) for n in self.rows)

    def start(self, t: Scalar, q: Vector, v: Vector) -> Float[Array, " s"]:
        """The integral of the force error."""
        return jnp.zeros(len(self.rows))

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        return self._solve(t, q, v, memory)[0]

    def rate(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Memory:
        _, goal, measured = self._solve(t, q, v, memory)
        return goal - measured

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Memory, period: Scalar) -> tuple[Vector, Memory]:
        u, goal, measured = self._solve(t, q, v, memory)
        return u, memory + period * (goal - measured)

    def _solve(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> tuple[Vector, Vector, Vector]:
        """Inputs, wanted and measured forces: one equation, since the measured force answers to the inputs at once."""
        at, index = response(self.system, q, v, t), jnp.array(self._index)
        motion, target = self.demand(t, q, v, at)
        # Multipliers of redundant rows are known up to what makes no force; that must not reach the equations.
        unique = unique_part(self.system, at, q, t)
        start, slope = (unique @ at.multipliers)[index], (unique @ at.multiplier_gain)[index]
        goal = (unique @ jnp.zeros(self.system.n_constraints).at[index].set(self.force(t)))[index]
        felt_start, felt_slope = start, slope
        if self.plant is not None:
            there = response(self.plant, q, v, t)
            felt = unique_part(self.plant, there, q, t)
            felt_start, felt_slope = (felt @ there.multipliers)[index], (felt @ there.multiplier_gain)[index]
        unique = unique[index][:, index]
        scaled = jnp.stack([apply_gain(self.kf, column) for column in felt_slope.T], axis=1)
        wanted = goal + unique @ (apply_gain(self.kf, goal - felt_start) + apply_gain(self.ki, memory))
        matrix = jnp.concatenate([motion, slope + unique @ scaled])
        both = jnp.concatenate([target, wanted - start])
        # Rows of motion and of force have different units.
        outputs, columns = reach_sizes(at, self.output.jacobian(self.system, q, t))
        gains = 1.0 + jnp.max(jnp.abs(self.kf))
        sizes = jnp.concatenate([outputs, gains / at.rows[index]])
        u = least_effort(matrix, both, self.effort_root(at), sizes, columns)
        return u, goal, felt_start + felt_slope @ u

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        _, goal, measured = self._solve(t, q, v, memory)
        return super().signals(t, q, v, memory) | {"force": measured, "force goal": goal}


def unique_part(system: System, at: Response, q: Vector, t: Scalar) -> Float[Array, "m m"]:
    """Of any multipliers, those of least norm (in scaled rows) that make the same force."""
    matrix = system.constraint_jacobian(q, t) * at.units[None, :] / at.rows[:, None]
    return (matrix @ pinv(matrix)) * at.rows[None, :] / at.rows[:, None]


def make_force_goal(system: System, force: Any, subject: str) -> tuple[tuple[str, ...], Reference]:
    """Names of rows and their wanted multipliers over time."""
    if not isinstance(force, Mapping) or not force:
        raise ModelError(subject, [f"force: wanted forces by the name of their constraint row, not {force!r}"])
    known, rows = system.row_names, tuple(force)
    unknown = [f"no constraint row called {n!r}; there are {', '.join(known)}" for n in rows if n not in known]
    if unknown:
        raise ModelError(subject, unknown)
    goals = [make_reference(goal, (name,), 0, subject) for name, goal in force.items()]
    return rows, _Together(goals)


class _Together(Reference):
    parts: list[Reference]

    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        return jnp.concatenate([part(t) for part in self.parts])


def check_force_goal(system: System, rows: tuple[str, ...], q: Vector, t: Scalar, subject: str) -> None:
    """Raise if a named row's force is not unique, unless all rows are named."""
    if len(rows) == system.n_constraints:
        return
    unique = np.asarray(admissible(system, q, t)[1])
    loose = [n for n in rows if not unique[system.row_names.index(n)]]
    if loose:
        raise ModelError(
            subject,
            [
                f"the force of {', '.join(loose)} is not unique: other rows say the same. "
                f"Name all rows ({', '.join(system.row_names)})"
            ],
        )
