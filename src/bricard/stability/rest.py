"""Equilibria: configurations at rest (or in steady motion), and the inputs that hold them."""

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
from bricard.equations.linearization import REST_TOLERANCE, derivative
from bricard.equations.problem import Scales, row_variation, scales, state_problem
from bricard.equations.routes.gauss import Gauss
from bricard.errors import BricardError, ModelError, needs_numbers
from bricard.execution.compile import xla_jit
from bricard.stability.force_balance import Point, search
from bricard.system import Scalar, System, Vector, VectorLike

SAME_TOLERANCE = 1e-6
"""Equilibria closer to each other than this (m, rad) count as the same."""


class EquilibriumError(BricardError):
    """No equilibrium was found. `q`, `u` are the best point found, and `acceleration` is the acceleration there."""

    def __init__(self, message: str, *, q: Array, u: Array, acceleration: Array):
        self.q, self.u, self.acceleration = q, u, acceleration
        super().__init__(message)


class Equilibrium(eqx.Module):
    """An equilibrium, stable or not; `eigenvalues` determines its stability."""

    q: Float[Array, " nq"]
    u: Float[Array, " nu"]
    """Inputs that hold the equilibrium."""
    multipliers: Float[Array, " m"]
    """Multipliers `λ` of minimum norm."""
    determinate: Bool[Array, " m"]
    """Which multipliers a rigid model determines."""
    constraint_force: Float[Array, " nv"]
    """Generalised force of the constraints on the system, `Aᵀλ`."""
    acceleration: Float[Array, " nv"]
    """Remaining acceleration: zero up to rounding."""
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
    """Further condition besides the balance of forces: the value of an output."""

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
    """The equilibrium near `q_guess`: a static balance of forces on the constraints, stable or not.

    - `u` (nu,): inputs, zero by default. `free` names the inputs that may be changed (as little as possible).
    - `hold`: names of coordinates that keep their guessed value. Inputs must hold them: all inputs are free unless `u`
      is given.
    - `output`, `value`: trim condition. The output (a function of `q`, or names of a sensor or of coordinates) must
      have this value.
    - `v` (nv,): velocity of a steady motion without acceleration, such as of a spinning governor; zero by default.
    - `t`: time (s).

    Raises `EquilibriumError` with the best state found and the acceleration there if there is no equilibrium.
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
    """The distinct equilibria found from several guesses; guesses without an equilibrium nearby are skipped."""
    found: list[Equilibrium] = []
    for guess in guesses:
        try:
            one = equilibrium(system, guess, u, **settings)
        except EquilibriumError:
            continue
        if all(np.max(np.abs(one.q - other.q)) > SAME_TOLERANCE for other in found):
            found.append(one)
    return tuple(found)


def _find(
    system: System, guess: Vector, v: Vector, u: Vector, free_q: Vector, free_u: Vector, task: _Task | None, t: Array
) -> tuple[Equilibrium, Vector, Vector]:
    """The equilibrium, and its residuals of the constraints and of the output."""
    guess = system.normalize(guess)
    units, rows = _units(system, guess, t)
    problem = _SearchProblem(guess, v, u, free_q, free_u, task, units, rows, t)
    size = system.nq + system.nu + units.rows.shape[0]

    def at(x: np.ndarray) -> Point:
        residual, slope = _residual(system, problem, jnp.asarray(x))
        return Point(x, np.asarray(residual), np.asarray(slope), (system.nq, system.nu), (system.nv, rows.shape[0]))

    return _outcome(system, problem, jnp.asarray(search(at, np.zeros(size))))


class _SearchProblem(NamedTuple):
    """The search problem: a guess, masks of free coordinates and inputs, and the units of residuals."""

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
        """Configuration and inputs for the unknowns `x`."""
        nq, nu = self.guess.shape[0], self.u.shape[0]
        return system.normalize(self.guess + self.free_q * x[:nq]), self.u + self.free_u * x[nq : nq + nu]


@xla_jit
def _units(system: System, q: Vector, t: Scalar) -> tuple[Scales, Vector]:
    matrix, variation = system.constraint_jacobian(q, t), row_variation(system, q, t)
    rows = scales(jnp.eye(system.nv), matrix, variation).rows[: system.n_holonomic]
    return scales(system.mass_matrix(q, t), matrix, variation), rows


@xla_jit
def _residual(system: System, problem: _SearchProblem, x: Vector) -> tuple[Vector, Float[Array, "k n"]]:
    """Scaled residuals of forces, constraints and output, and their Jacobian."""
    t, v, units = problem.t, problem.v, problem.units

    def residual(step: Vector) -> Vector:
        q, inputs = problem.state(system, x + step)
        multipliers = (x + step)[system.nq + system.nu :] / units.rows
        force = system.bias(q, v, t) - system.applied_force(q, v, t) - system.input_matrix(q, t) @ inputs
        parts = [(force - multipliers @ system.constraint_jacobian(q, t)) * units.columns]
        parts.append(system.constraints(q, t) / problem.rows)
        if problem.task is not None:
            parts.append(problem.task.output.value(system, q, t) - problem.task.wanted)
        return jnp.concatenate(parts)

    return residual(jnp.zeros_like(x)), derivative(residual, x.shape[0])


@xla_jit
def _outcome(system: System, problem: _SearchProblem, x: Vector) -> tuple[Equilibrium, Vector, Vector]:
    q, u = problem.state(system, x)
    dynamics = solve(state_problem(system, q, problem.v, u, problem.t), Gauss())
    found = Equilibrium(
        q=q,
        u=u,
        multipliers=dynamics.multipliers,
        determinate=dynamics.determinate,
        constraint_force=dynamics.constraint_force,
        acceleration=dynamics.acceleration,
        labels=(tuple(system.coordinates), system.input_names, system.row_names),
    )
    missed = (
        jnp.zeros(0) if problem.task is None else problem.task.output.value(system, q, problem.t) - problem.task.wanted
    )
    return found, system.constraints(q, problem.t) / problem.rows, missed


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
            f"(the system has {system.nu})"
        )
    else:
        why = f"the output cannot be brought to its value{given}: it misses by {_row(missed)}"
    raise EquilibriumError(f"{name}: {why}; {where}", q=found.q, u=found.u, acceleration=found.acceleration)


def _row(x: Any) -> str:
    return np.array2string(np.asarray(x), precision=5, separator=", ", threshold=12)
