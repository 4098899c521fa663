"""Linearise with the constraints in: small motions about a state of rest, on the tangent space of the constraints.

With `q = q₀ ⊕ θ` (`δq = N(q₀) θ`) and `v = v₀ + δv`, the equation of motion reads to first order
`M δv̇ + C δv + K θ = H δu + Aᵀδλ`. `K` is the derivative of everything, `−Aᵀλ₀` included: what a constraint force does
when the configuration changes is most of a pendulum's stiffness in `x, y`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.dynamics import check_motion_determined, solve
from bricard.equations.problem import scales, state_problem
from bricard.equations.rank import RANK_TOLERANCE, row_dependence, subspaces
from bricard.equations.routes.gauss import Gauss
from bricard.errors import ModelError
from bricard.execution.compile import xla_jit
from bricard.system import Scalar, System, Vector

REST_TOLERANCE = 1e-6
"""A state is at rest if its acceleration (and its distance from the constraints) is below this, in SI units."""

CURVATURE_TOLERANCE = 1e-5
"""Above this, constraints that are dependent at a configuration part to second order: it is singular."""


class LinearTerms(NamedTuple):
    """Everything of the linearised descriptor form, in all `nv` directions."""

    mass: Float[Array, "nv nv"]
    """`M`."""
    damping: Float[Array, "nv nv"]
    """`C = ∂(h − f)/∂v`, gyroscopic terms included."""
    stiffness: Float[Array, "nv nv"]
    """`K = ∂(M v̇₀ + h − f − H u₀ − Aᵀλ₀)/∂θ`."""
    inputs: Float[Array, "nv nu"]
    """`H`."""
    matrix: Float[Array, "m nv"]
    """`A`, holonomic rows first."""
    drift: Float[Array, "m nv"]
    """`∂(A v₀)/∂θ`; zero at rest."""
    parting: Float[Array, "nv nv"]
    """`∂(Aᵀμ)/∂θ` for a generic `μ` with `Aᵀμ = 0`: zero between admissible motions, except where rank drops."""
    chart: Float[Array, "nq nv"]
    """`N` of `δq = N θ`."""
    multipliers: Float[Array, " m"]
    """`λ₀`."""
    acceleration: Float[Array, " nv"]
    """`v̇₀`; zero at rest."""
    position_error: Float[Array, " m"]
    velocity_error: Float[Array, " m"]
    rows: Float[Array, " m"]
    """Units of the constraint rows."""
    columns: Float[Array, " nv"]
    """Units of the velocities."""


class TangentModel(NamedTuple):
    """`ẋ = a x + b δu` of the motions that the constraints allow; NumPy arrays.

    Without velocity constraints `x = (p, ṗ)` with `θ = N p`, `δv = N ṗ`: `n = 2k`.
    """

    a: np.ndarray
    """(n, n)."""
    b: np.ndarray
    """(n, nu)."""
    embed: np.ndarray
    """(2 nv, n): `(θ, δv) = embed @ x`."""
    reduce: np.ndarray
    """(n, 2 nv): `x = reduce @ (θ, δv)`, a left inverse of `embed`."""
    position_basis: np.ndarray
    """(nv, ·): admissible changes of configuration."""
    velocity_basis: np.ndarray
    """(nv, k): admissible velocities."""
    chart: np.ndarray
    """(nq, nv): `δq = chart @ θ`; with a chart `θ = pinv(chart) @ δq`."""


def derivative(function, size: int):
    """Jacobian at zero of a function of a vector of `size`, column after column: forward, and without batching."""
    zero = jnp.zeros(size)
    if size == 0:
        return jax.jacfwd(function)(zero)
    columns = jax.lax.map(lambda e: jax.jvp(function, (zero,), (e,))[1], jnp.eye(size))
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), columns)


@xla_jit
def linear_terms(system: System, q: Vector, v: Vector, u: Vector, t: Scalar) -> LinearTerms:
    """The linearised descriptor form at a state, exact by automatic differentiation; it need not be at rest."""
    q = system.normalize(q)
    problem = state_problem(system, q, v, u, t)
    dynamics = solve(problem, Gauss())
    units = scales(problem.mass, problem.matrix, problem.variation)
    mu = _idle_multipliers(problem.matrix * units.columns[None, :] / units.rows[:, None]) / units.rows

    def at(theta: Vector) -> Vector:
        return q + system.qdot(q, theta)

    def unbalanced(q: Vector, v: Vector) -> Vector:
        force = system.bias(q, v, t) - system.applied_force(q, v, t) + system.mass_matrix(q, t) @ dynamics.acceleration
        return force - system.input_matrix(q, t) @ u

    def along(theta: Vector):
        """What changes with the configuration."""
        matrix = system.constraint_jacobian(at(theta), t)
        balance = unbalanced(at(theta), v) - dynamics.multipliers @ matrix
        return balance, matrix @ v, mu @ matrix

    stiffness, drift, parting = derivative(along, system.nv)
    return LinearTerms(
        mass=problem.mass,
        damping=derivative(lambda w: unbalanced(q, v + w), system.nv),
        stiffness=stiffness,
        inputs=system.input_matrix(q, t),
        matrix=problem.matrix,
        drift=drift,
        parting=parting,
        chart=derivative(lambda w: system.qdot(q, w), system.nv),
        multipliers=dynamics.multipliers,
        acceleration=dynamics.acceleration,
        position_error=problem.position_error / units.rows,
        velocity_error=problem.velocity_error / units.rows,
        rows=units.rows,
        columns=units.columns,
    )


def tangent_model(system: System, q: Vector, v: Vector, u: Vector, t: Scalar = 0.0) -> TangentModel:
    """`ẋ = a x + b δu` about a state of rest; refuses a state that is not, and a singular configuration."""
    t = jnp.asarray(t, dtype=float)
    check_motion_determined(system, q, t)
    terms = linear_terms(system, q, v, u, t)
    check_rest(system, terms)
    if np.any(np.asarray(v) != 0.0):
        check_steady(system, terms, q, v, u, t)
    return reduce_terms(system, terms)


def reduce_terms(system: System, linear: LinearTerms) -> TangentModel:
    """The terms on the tangent space of the constraints."""
    terms = as_numbers(linear)
    count = system.n_holonomic
    columns = terms.columns[:, None]
    scaled = terms.matrix * terms.columns / terms.rows[:, None]
    along, motions = subspaces(scaled[:count]).null, subspaces(scaled).null
    position, velocity = columns * along, columns * motions
    _check_regular(system, terms, position, velocity)
    # Velocities follow the configuration where constraints turn with it: A δv + drift θ = 0.
    follow = -columns * (np.linalg.pinv(scaled, rcond=RANK_TOLERANCE) @ (terms.drift / terms.rows[:, None])) @ position
    to_position, to_velocity = along.T / terms.columns, motions.T / terms.columns
    inertia = velocity.T @ terms.mass @ velocity
    force = np.hstack(
        [terms.stiffness @ position + terms.damping @ follow, terms.damping @ velocity, terms.inputs],
    )
    rates = np.hstack([to_position @ follow, to_position @ velocity])
    pushed = np.linalg.solve(inertia, velocity.T @ force)
    n_position, n = position.shape[1], position.shape[1] + velocity.shape[1]
    accelerations = -pushed[:, :n] - np.linalg.solve(inertia, velocity.T @ terms.mass @ follow @ rates)
    return TangentModel(
        a=np.vstack([rates, accelerations]),
        b=np.vstack([np.zeros((n_position, terms.inputs.shape[1])), pushed[:, n:]]),
        embed=np.block([[position, np.zeros_like(velocity)], [follow, velocity]]),
        reduce=np.block(
            [[to_position, np.zeros_like(to_position)], [-to_velocity @ follow @ to_position, to_velocity]]
        ),
        position_basis=position,
        velocity_basis=velocity,
        chart=terms.chart,
    )


def as_numbers(terms: LinearTerms) -> Any:
    """The terms as NumPy arrays."""
    return LinearTerms(*(np.asarray(x) for x in terms))  # pyright: ignore[reportArgumentType]


def check_rest(system: System, terms: LinearTerms) -> None:
    """Refuse a state that accelerates or is off its constraints, with numbers."""
    name, problems = type(system).__name__, []
    off = np.abs(np.concatenate([terms.position_error, terms.velocity_error]))
    if not all(np.all(np.isfinite(np.asarray(x))) for x in terms):
        raise ModelError(name, ["the linearised equations are not finite at this state"])
    if off.size and np.max(off) > REST_TOLERANCE:
        rows = 2 * list(system.row_names)
        problems.append(f"the state misses {rows[int(np.argmax(off))]} by {np.max(off):.3g}: br.assemble puts it right")
    acceleration = np.asarray(terms.acceleration)
    if not problems and np.max(np.abs(acceleration), initial=0.0) > REST_TOLERANCE:
        worst = int(np.argmax(np.abs(acceleration)))
        problems.append(
            f"not an equilibrium: {system.velocity_names[worst]} accelerates by {acceleration[worst]:.3g} "
            f"(in all {np.array2string(acceleration, precision=3, threshold=8)}). "
            "br.stability.equilibrium finds one nearby, with the inputs needed"
        )
    if problems:
        raise ModelError(name, problems)


def check_steady(system: System, terms: LinearTerms, q: Vector, v: Vector, u: Vector, t: Scalar) -> None:
    """A steady motion (a governor that spins) has constant coefficients only if nothing changes along it."""
    problem = ""
    if system.nq != system.nv:
        problem = "a chart such as quaternions turns along with the motion"
    else:
        later = linear_terms(system, q + 0.1 * system.qdot(q, v), v, u, t + 0.1)
        same = ("chart", "mass", "damping", "stiffness", "inputs", "matrix", "drift", "acceleration")
        for name in same:
            now, then = (np.asarray(getattr(x, name)) for x in (terms, later))
            if np.max(np.abs(then - now), initial=0.0) > REST_TOLERANCE * (1.0 + np.max(np.abs(now), initial=0.0)):
                problem = problem or f"its {name} changes along the motion"
    if problem:
        raise ModelError(
            type(system).__name__,
            [f"v is not zero, and {problem}: only a steady motion, the same at all times, has eigenvalues"],
        )


def _check_regular(system: System, terms: Any, position: np.ndarray, velocity: np.ndarray) -> None:
    steps = position / np.maximum(np.linalg.norm(position, axis=0), np.finfo(float).tiny)
    parting = velocity.T @ terms.parting @ steps
    if np.max(np.abs(parting), initial=0.0) > CURVATURE_TOLERANCE:
        raise ModelError(
            type(system).__name__,
            [
                "singular configuration: constraints are dependent here but not nearby, so that motions branch and "
                "the tangent space of the constraints is not defined. Linearise at a configuration beside it, or "
                "add a constraint that keeps the system on one branch (br.mobility says which rows are dependent)"
            ],
        )


def _idle_multipliers(scaled: Float[Array, "m n"]) -> Float[Array, " m"]:
    """A generic combination of rows that cancels; zero if all rows are independent."""
    if scaled.shape[0] == 0:
        return jnp.zeros(0)
    generic = np.random.default_rng(0).uniform(0.5, 1.0, scaled.shape[0])
    return row_dependence(scaled) @ jnp.asarray(generic)
