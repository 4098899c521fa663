"""The direct method: a desired motion of all coordinates is computed on-line, and followed by feed-forward and PD."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bricard.control.output import Output, make_output
from bricard.control.reference import Reference, make_reference
from bricard.control.tracking import Gain, apply_gain, followed, make_gains
from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import row_dependence
from bricard.errors import ModelError
from bricard.execution.lapack import solve
from bricard.simulation.controller import DigitalController
from bricard.system import Scalar, System, Vector

NEWTON_STEPS = 12
"""Enough also next to a position where the task is nearly singular; most steps need four."""
START_TOLERANCE = 1e-3
"""How far the output may be from its reference at the start: the computed motion is on it from the first step on."""

Desired = tuple[Vector, Vector]


class DirectMethod(DigitalController):
    """Outputs follow exactly in a computed motion `(q_d, v_d)`, one implicit Euler step for each sample, and
    `u = u_d + (HᵀH)⁻¹Hᵀ(K_P (q_d − q) + K_D (v_d − v))` makes the machine follow that: a digital law, for `Sampled`.

    Unlike `ServoConstraint` it also serves outputs that the inputs reach only through a spring (any relative degree),
    at the price of an error in proportion to the period. As many outputs as inputs; `kp`, `kd`: a number, one for each
    coordinate, or a matrix. The start must be on the reference.
    """

    system: System
    output: Output
    reference: Reference
    kp: Gain
    kd: Gain

    def __init__(self, system: System, task: Any, reference: Any, kp: Any, kd: Any):
        subject = "DirectMethod"
        if system.has_chart:
            raise ModelError(subject, ["needs coordinates whose rates are the velocities (no quaternions)"])
        self.system = system
        self.output = make_output(system, task, subject)
        self.reference = make_reference(reference, self.output.names, 2, subject)
        self.kp, self.kd = make_gains(subject, system.nv, kp=kp, kd=kd)
        if len(self.output.names) != system.nu:
            raise ModelError(subject, [f"{len(self.output.names)} outputs for {system.nu} inputs: give as many"])

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        off = np.abs(np.asarray(self.output.value(self.system, q, t) - self.reference(t)))
        if np.any(off > START_TOLERANCE):
            worst = int(np.argmax(off))
            raise ModelError(
                "DirectMethod", [f"the start is off the reference: {self.output.names[worst]} by {off[worst]:.3g}"]
            )

    def start(self, t: Scalar, q: Vector, v: Vector) -> Desired:
        """The computed motion starts where the machine does."""
        return q, v

    def advance(self, t: Scalar, desired: Desired, period: Scalar) -> tuple[Desired, Vector]:
        """The computed motion at the end of a sample that starts at `t`, and the inputs for it."""
        system, (q, v), after = self.system, desired, t + period
        n, m = system.nv, system.n_constraints

        def residual(x: Vector) -> Vector:
            v_new, multipliers, u = x[:n], x[n : n + m], x[n + m :]
            q_new = q + period * v_new
            force = system.applied_force(q_new, v_new, after) - system.bias(q_new, v_new, after)
            force = force + system.input_matrix(q_new, after) @ u
            force = force + system.constraint_jacobian(q_new, after).T @ multipliers
            position = system.constraints(q_new, after) / period
            rest = system.constraint_rate(q_new, v_new, after)[position.shape[0] :]
            task = (self.output.value(system, q_new, after) - self.reference(after)) / period
            return jnp.concatenate(
                [system.mass_matrix(q_new, after) @ (v_new - v) - period * force, position, rest, task]
            )

        def newton(_: Any, x: Vector) -> Vector:
            matrix, missing = jax.jacfwd(residual)(x), residual(x)
            q_new = q + period * x[:n]
            mass, constraints = system.mass_matrix(q_new, after), system.constraint_jacobian(q_new, after)
            units = scales(mass, constraints, row_variation(system, q_new, after))
            scaled = constraints * units.columns[None, :] / units.rows[:, None]
            jacobian = self.output.jacobian(system, q_new, after) * units.columns[None, :]
            inputs = system.input_matrix(q_new, after) * units.columns[:, None]
            outputs, pushes = (_nonzero(jnp.sqrt(jnp.sum(x**2, axis=i))) for i, x in ((1, jacobian), (0, inputs)))
            rows = jnp.concatenate([units.columns, 1.0 / units.rows, 1.0 / outputs])
            columns = jnp.concatenate([units.columns, 1.0 / (period * units.rows), 1.0 / (period * pushes)])
            matrix = matrix * rows[:, None] * columns[None, :]
            # Of the multipliers of dependent rows, the part that makes no force is not to change: then the matrix is
            # regular, however weakly the inputs act on the outputs (through a soft spring, in a short period).
            matrix = matrix.at[n : n + m, n : n + m].add(row_dependence(scaled))
            return x - columns * solve(matrix, rows * missing)

        x = jax.lax.fori_loop(0, NEWTON_STEPS, newton, jnp.concatenate([v, jnp.zeros(m + system.nu)]))
        return (q + period * x[:n], x[:n]), x[n + m :]

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Desired, period: Scalar) -> tuple[Vector, Desired]:
        after, u = self.advance(t, memory, period)
        feedback = apply_gain(self.kp, memory[0] - q) + apply_gain(self.kd, memory[1] - v)
        inputs = self.system.input_matrix(q, t)
        return u + solve(inputs.T @ inputs, inputs.T @ feedback), after

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Desired) -> dict[str, Array]:
        return followed(self.system, self.output, self.reference, t, q) | {"desired q": memory[0]}


def _nonzero(x: Array) -> Array:
    return jnp.where(x > 0.0, x, 1.0)
