"""What if the tool must press with 50 N while it moves? Motion and constraint force at once, each undisturbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.control.effort import input_weight, least_effort
from bricard.control.reference import Reference, make_reference
from bricard.control.response import Response, admissible, response, response_now
from bricard.control.tracking import Gain, ProjectedInverseDynamics, apply_gain, make_gains
from bricard.errors import ModelError
from bricard.simulate.controller import Memory
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
        at = response_now(self.system, q, v, t)
        index = list(self._index)
        slope, wanted = np.asarray(at.multiplier_gain)[index], np.asarray(at.unique)[np.ix_(index, index)]
        motion = np.asarray(self.output.jacobian(self.system, q, t) @ at.gain)
        both = np.concatenate([motion / np.linalg.norm(motion), slope / np.maximum(np.linalg.norm(slope), 1e-300)])
        needed = len(self.output.names) + np.linalg.matrix_rank(wanted, tol=1e-6)
        if np.linalg.matrix_rank(both, tol=1e-9) < needed:
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
        start, slope = at.multipliers[index], at.multiplier_gain[index]
        goal = self._unique(at, self.force(t))
        felt_start, felt_slope = start, slope
        if self.plant is not None:
            there = response(self.plant, q, v, t)
            felt_start, felt_slope = there.multipliers[index], there.multiplier_gain[index]
        scaled = jnp.stack([apply_gain(self.kf, column) for column in felt_slope.T], axis=1)
        wanted = goal + apply_gain(self.kf, goal - felt_start) + apply_gain(self.ki, memory)
        matrix = jnp.concatenate([motion, slope + scaled])
        both = jnp.concatenate([target, wanted - start])
        # Rows of motion and of force have different units.
        lengths = jnp.sqrt(jnp.sum(matrix**2, axis=1))
        lengths = jnp.where(lengths > 0.0, lengths, 1.0)
        metric = at.mass if isinstance(self.metric, str) else self.metric
        u = least_effort(matrix / lengths[:, None], both / lengths, input_weight(at, metric))
        return u, goal, felt_start + felt_slope @ u

    def _unique(self, at: Response, goal: Float[Array, " s"]) -> Float[Array, " s"]:
        """Of the goals of redundant rows, the part that makes a force."""
        index = jnp.array(self._index)
        return (at.unique @ jnp.zeros(self.system.n_constraints).at[index].set(goal))[index]

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        _, goal, measured = self._solve(t, q, v, memory)
        return super().signals(t, q, v, memory) | {"force": measured, "force goal": goal}


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
