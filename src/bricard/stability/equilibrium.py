"""Where does it stay at rest, and which inputs hold it there?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from bricard.control.output import make_output
from bricard.equations.dynamics import solve
from bricard.equations.gauss import Gauss
from bricard.equations.linear import REST_TOLERANCE, derivative
from bricard.equations.problem import Scales, row_variation, scales, state_problem
from bricard.errors import BricardError, ModelError, needs_numbers
from bricard.stability.balance import Point, search
from bricard.system import Scalar, System, Vector, VectorLike

SAME = 1e-6
"""Equilibria nearer to each other than this (m, rad) are one."""


class EquilibriumError(BricardError):
    """No equilibrium was found. `q`, `u` are the nearest to one, `acceleration` is what is left there."""

    def __init__(self, message: str, *, q: Array, u: Array, acceleration: Array):
        self.q, self.u, self.acceleration = q, u, acceleration
        super().__init__(message)


class Equilibrium(eqx.Module):
    """A state of rest; stable or not is for `eigenvalues` to say."""

    q: Float[Array, " nq"]
    u: Float[Array, " nu"]
    """Inputs needed."""
    multipliers: Float[Array, " m"]
    """`λ` of minimum norm: the constraint forces."""
    determinate: Bool[Array, " m"]
    """Which multipliers a rigid model determines."""
    constraint_force: Float[Array, " nv"]
    """`Aᵀλ`."""
    acceleration: Float[Array, " nv"]
    """What is left of it: zero but for rounding."""
    labels: tuple[tuple[str, ...], ...] = eqx.field(static=True)
    """Names of coordinates, inputs and constraint rows."""

    def __str__(self) -> str:
        parts = []
        for title, names, values in zip(
            ("at rest at", "inputs", "multipliers"), self.labels, (self.q, self.u, self.multipliers), strict=True
        ):
            if names:
                listed = ", ".join(f"{n} = {float(x):.6g}" for n, x in zip(names, values, strict=True))
                parts.append(f"{title} {listed}")
        return "; ".join(parts)


class _Task(NamedTuple):
    """What is asked for: residuals beside the balance of forces."""

    output: Any
    wanted: Vector


@needs_numbers
def equilibrium(
    system: System,
    q_guess: VectorLike,
    u: VectorLike | None = None,
    *,
    hold: str | Sequence[str] = (),
    free: str | Sequence[str] | None = None,
    output: Any = None,
    value: VectorLike | None = None,
    v: VectorLike | None = None,
    t: ArrayLike = 0.0,
) -> Equilibrium:
    """The equilibrium near `q_guess`: static balance on the constraints, whether it is stable or not.

    - `u` (nu,): inputs, zero by default. `free` names those that may be chosen (as small a change as possible).
    - `hold`: coordinates to be kept as guessed. Inputs then have to hold them: all are free unless `u` is given.
    - `output`, `value`: trim, so that the output (a function of `q`, a sensor, coordinates) has this value.
    - `v` (nv,): of a steady motion, such as that of a governor that spins; rest by default. Where nothing accelerates.

    Raises `EquilibriumError` with the nearest state and the acceleration left there if there is none.
    """
    q = system.vector(q_guess, "q")
    start = system.vector(jnp.zeros(system.nu) if u is None else u, "u")
    held = (hold,) if isinstance(hold, str) else tuple(hold)
    if free is None:
        free = system.input_names if u is None and (held or output is not None) else ()
    chosen = (free,) if isinstance(free, str) else tuple(free)
    problems = [
        f"no input called {n!r}; there are {', '.join(system.input_names)}"
        for n in chosen
        if n not in system.input_names
    ]
    if (output is None) != (value is None):
        problems.append("output and value belong together")
    if problems:
        raise ModelError("equilibrium", problems)
    free_q = np.ones(system.nq)
    if held:
        free_q[np.asarray(system.index(held))] = 0.0
    free_u = np.array([float(n in chosen) for n in system.input_names])
    task = None
    if output is not None:
        made = make_output(system, output, "equilibrium")
        wanted = jnp.atleast_1d(jnp.asarray(value, dtype=float))
        if wanted.shape != (len(made.names),):
            raise ModelError("equilibrium", [f"value has shape {wanted.shape} for {len(made.names)} outputs"])
        task = _Task(made, wanted)
    t = jnp.asarray(t, dtype=float)
    velocity = system.vector(jnp.zeros(system.nv) if v is None else v, "v")
    found, off, missed = _find(system, q, velocity, start, jnp.asarray(free_q), jnp.asarray(free_u), task, t)
    _check(system, found, off, missed, held, chosen)
    return found


@needs_numbers
def equilibria(
    system: System, guesses: Sequence[VectorLike], u: VectorLike | None = None, **settings: Any
) -> tuple[Equilibrium, ...]:
    """The different equilibria found from several guesses; guesses that lead to none are left out."""
    found: list[Equilibrium] = []
    for guess in guesses:
        try:
            one = equilibrium(system, guess, u, **settings)
        except EquilibriumError:
            continue
        if all(np.max(np.abs(one.q - other.q)) > SAME for other in found):
            found.append(one)
    return tuple(found)


def _find(
    system: System, guess: Vector, v: Vector, u: Vector, free_q: Vector, free_u: Vector, task: _Task | None, t: Array
) -> tuple[Equilibrium, Vector, Vector]:
    """The equilibrium, how far it is off the constraints and off the task."""
    guess = system.normalize(guess)
    units, rows = _units(system, guess, t)
    asked = _Asked(guess, v, u, free_q, free_u, task, units, rows, t)
    size = system.nq + system.nu + units.rows.shape[0]

    def at(x: np.ndarray) -> Point:
        residual, slope = _residual(system, asked, jnp.asarray(x))
        return Point(x, np.asarray(residual), np.asarray(slope), (system.nq, system.nu), (system.nv, rows.shape[0]))

    return _outcome(system, asked, jnp.asarray(search(at, np.zeros(size))))


class _Asked(NamedTuple):
    """What is asked for: a guess, what may be changed, and the units of residuals."""

    guess: Vector
    v: Vector
    u: Vector
    free_q: Vector
    free_u: Vector
    task: _Task | None
    units: Scales
    rows: Vector
    t: Array

    def state(self, system: System, x: Vector) -> tuple[Vector, Vector]:
        """Configuration and inputs."""
        nq, nu = self.guess.shape[0], self.u.shape[0]
        return system.normalize(self.guess + self.free_q * x[:nq]), self.u + self.free_u * x[nq : nq + nu]


@eqx.filter_jit
def _units(system: System, q: Vector, t: Scalar) -> tuple[Scales, Vector]:
    matrix, variation = system.constraint_matrix(q, t), row_variation(system, q, t)
    rows = scales(jnp.eye(system.nv), matrix, variation).rows[: system.n_holonomic]
    return scales(system.mass_matrix(q, t), matrix, variation), rows


@eqx.filter_jit
def _residual(system: System, asked: _Asked, x: Vector) -> tuple[Vector, Float[Array, "k n"]]:
    """Unbalanced forces, constraints and task, in good units; and their derivatives."""
    t, v, units = asked.t, asked.v, asked.units

    def residual(step: Vector) -> Vector:
        q, inputs = asked.state(system, x + step)
        multipliers = (x + step)[system.nq + system.nu :] / units.rows
        force = system.bias(q, v, t) - system.applied_force(q, v, t) - system.input_matrix(q, t) @ inputs
        parts = [(force - multipliers @ system.constraint_matrix(q, t)) * units.columns]
        parts.append(system.constraints(q, t) / asked.rows)
        if asked.task is not None:
            parts.append(asked.task.output.value(system, q, t) - asked.task.wanted)
        return jnp.concatenate(parts)

    return residual(jnp.zeros_like(x)), derivative(residual, x.shape[0])


@eqx.filter_jit
def _outcome(system: System, asked: _Asked, x: Vector) -> tuple[Equilibrium, Vector, Vector]:
    q, u = asked.state(system, x)
    dynamics = solve(state_problem(system, q, asked.v, u, asked.t), Gauss())
    found = Equilibrium(
        q=q,
        u=u,
        multipliers=dynamics.multipliers,
        determinate=dynamics.determinate,
        constraint_force=dynamics.constraint_force,
        acceleration=dynamics.acceleration,
        labels=(tuple(system.coordinates), system.input_names, system.row_names),
    )
    missed = jnp.zeros(0) if asked.task is None else asked.task.output.value(system, q, asked.t) - asked.task.wanted
    return found, system.constraints(q, asked.t) / asked.rows, missed


def _check(
    system: System,
    found: Equilibrium,
    off_constraints: Vector,
    missed: Vector,
    held: tuple[str, ...],
    chosen: tuple[str, ...],
) -> None:
    name = type(system).__name__
    acceleration = np.asarray(found.acceleration)
    if all(np.all(np.abs(np.asarray(x)) < REST_TOLERANCE) for x in (acceleration, off_constraints, missed)):
        return
    where = f"nearest: q = {_row(found.q)}" + (f", u = {_row(found.u)}" if system.nu else "")
    given = (f" with {', '.join(held)} held" if held else "") + (f" by {', '.join(chosen)}" if chosen else "")
    off = np.abs(np.asarray(off_constraints))
    if not np.all(off < REST_TOLERANCE):
        worst = system.row_names[int(np.argmax(off))]
        why = f"the constraints cannot be met{given} ({worst} is off by {np.max(off):.3g}; br.assemble says more)"
    elif not np.all(np.abs(acceleration) < REST_TOLERANCE):
        worst = int(np.argmax(np.abs(acceleration)))
        why = (
            f"no balance of forces near the guess{given}: {system.velocity_names[worst]} still accelerates by "
            f"{acceleration[worst]:.3g}. Start elsewhere, change u, or free inputs that act on it "
            f"({'all ' if system.nu else 'there are '}{system.nu} inputs)"
        )
    else:
        why = f"the output cannot be brought to its value{given}: it misses by {_row(missed)}"
    raise EquilibriumError(f"{name}: {why}; {where}", q=found.q, u=found.u, acceleration=found.acceleration)


def _row(x: Any) -> str:
    return np.array2string(np.asarray(x), precision=5, separator=", ", threshold=12)
