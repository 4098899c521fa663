"""Assembly: find the state on the constraints nearest to a guess."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import pinv
from bricard.errors import AssemblyError, is_concrete
from bricard.execution.compile import xla_jit
from bricard.simulation.linear_solver import DenseSolver
from bricard.system import Scalar, System, Vector, VectorLike

ASSEMBLY_TOLERANCE = 1e-10
"""A constraint counts as met when it is off by less than this many metres or radians (or per second)."""


class Assembly(eqx.Module):
    """A state on the constraints, with its residuals."""

    q: Float[Array, " nq"]
    v: Float[Array, " nv"]
    position_error: Float[Array, " m"]
    """Distance from each constraint in units of the coordinates (m, rad); zero for velocity constraints."""
    velocity_error: Float[Array, " m"]
    """Residual of each constraint at velocity level in units of the velocities (m/s, rad/s)."""

    def __repr__(self) -> str:
        if not is_concrete(self):
            return f"Assembly of {self.q.shape[-1]} coordinates (traced)"
        q, v = (np.array2string(np.asarray(x), precision=6, threshold=12) for x in (self.q, self.v))
        errors = (float(np.max(np.abs(x), initial=0.0)) for x in (self.position_error, self.velocity_error))
        return "Assembly(q = {}, v = {}, largest position error {:.2g}, velocity error {:.2g})".format(q, v, *errors)


def assemble(
    system: System,
    q: VectorLike,
    v: VectorLike | None = None,
    hold: str | Sequence[str] = (),
    t: ArrayLike = 0.0,
) -> Assembly:
    """The state on the constraints nearest to the guess `(q, v)`, with the coordinates named in `hold` kept as given.

    A held coordinate keeps its velocity too. `v` defaults to zero. `t` is the time (s). If no such state exists, an
    `AssemblyError` reports the residual of each constraint and the nearest state found.
    """
    q = system.vector(q, "q")
    v = system.vector(jnp.zeros(system.nv) if v is None else v, "v")
    names = (hold,) if isinstance(hold, str) else tuple(hold)
    held_q = np.zeros(system.nq, dtype=bool)
    held_v = np.zeros(system.nv, dtype=bool)
    if names:
        held_q[np.asarray(system.index(names))] = True
        both = [n for n in names if n in system.velocity_names]
        held_v[np.asarray(system.index(both, "velocity_names"))] = True
    result = _assemble(system, q, v, jnp.asarray(~held_q, float), jnp.asarray(~held_v, float), jnp.asarray(t, float))
    if is_concrete(result):
        _check(system, result, names)
    return result


def residuals(
    system: System, q: Vector, v: Vector, t: Scalar, variation: Float[Array, "m n"]
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Residuals of the constraints at position and at velocity level, each (m,), in units of the coordinates.

    `variation` (m, nv) is the result of `row_variation`.
    """
    matrix = system.constraint_jacobian(q, t)
    rows = scales(jnp.eye(system.nv), matrix, variation).rows
    phi = system.constraints(q, t)
    phi = jnp.concatenate([phi, jnp.zeros(rows.shape[0] - phi.shape[0])])
    return phi / rows, system.constraint_rate(q, v, t) / rows


@xla_jit
def _assemble(system: System, guess: Vector, v: Vector, free_q: Vector, free_v: Vector, t: Scalar) -> Assembly:
    guess = system.normalize(guess)
    if system.n_holonomic:
        solver = optx.LevenbergMarquardt(rtol=1e-14, atol=1e-14, linear_solver=DenseSolver())
        phi_size = _holonomic_row_sizes(system, guess, t)

        def at(step: Vector) -> Vector:
            return system.normalize(guess + free_q * step)

        def constraint_residual(step: Vector, _) -> Vector:
            return system.constraints(at(step), t) / phi_size

        def nearest_residual(step: Vector, _) -> tuple[Vector, Vector]:
            # At the nearest state the step has no component in the tangent space of the constraints.
            slope = jax.jacfwd(lambda s: system.constraints(at(s), t))(step) / phi_size[:, None]
            return constraint_residual(step, None), step - pinv(slope) @ (slope @ step)

        step = optx.least_squares(constraint_residual, solver, jnp.zeros_like(guess), max_steps=500, throw=False).value
        nearest = optx.least_squares(nearest_residual, solver, step, max_steps=100, throw=False).value
        worse = jnp.linalg.norm(constraint_residual(nearest, None)) > jnp.maximum(
            ASSEMBLY_TOLERANCE, jnp.linalg.norm(constraint_residual(step, None))
        )
        guess = at(jnp.where(worse | ~jnp.all(jnp.isfinite(nearest)), step, nearest))
    matrix = system.constraint_jacobian(guess, t)
    rows = _row_sizes(system, guess, t)
    scaled = matrix * free_v[None, :] / rows[:, None]
    for _ in range(2):
        v = v - pinv(scaled) @ (system.constraint_rate(guess, v, t) / rows)
    return Assembly(guess, v, *residuals(system, guess, v, t, row_variation(system, guess, t)))


def _row_sizes(system: System, q: Vector, t: Scalar) -> Float[Array, " m"]:
    return scales(jnp.eye(system.nv), system.constraint_jacobian(q, t), row_variation(system, q, t)).rows


def _holonomic_row_sizes(system: System, q: Vector, t: Scalar) -> Float[Array, " h"]:
    return _row_sizes(system, q, t)[: system.n_holonomic]


def _check(system: System, result: Assembly, hold: tuple[str, ...]) -> None:
    position, velocity = np.abs(result.position_error), np.abs(result.velocity_error)
    speed = 1.0 + float(jnp.max(jnp.abs(result.v), initial=0.0))
    finite = np.all(np.isfinite(position)) and np.all(np.isfinite(velocity))
    level, worst = ("velocity", velocity) if np.all(position < ASSEMBLY_TOLERANCE) else ("position", position)
    limit = ASSEMBLY_TOLERANCE * (speed if level == "velocity" else 1.0)
    if finite and np.all(worst < limit):
        return
    table = dict(zip(system.row_names, (float(x) for x in worst), strict=True))
    raise AssemblyError(
        f"{type(system).__name__}: no {level} near the guess meets the constraints"
        + (f" with {', '.join(hold)} held" if hold else "")
        + f". Constraints missed: {_worst_residuals(table)}. Nearest: q = {_row(result.q)}, v = {_row(result.v)}.",
        residuals=table,
        q=result.q,
        v=result.v,
    )


def _worst_residuals(table: dict[str, float]) -> str:
    worst = sorted(table.items(), key=lambda item: -item[1])
    return ", ".join(f"{n} by {x:.3g}" for n, x in worst[:5] if not x < ASSEMBLY_TOLERANCE)


def _row(x: Vector) -> str:
    return np.array2string(np.asarray(x), precision=6, separator=", ")
