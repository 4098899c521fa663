"""Tracking in quasi-velocities (Aghili): motion and constraint force apart, with no metric to choose.

With `M = WWᵀ` and `Λ = A W⁻ᵀ`, an orthogonal `V = [V₁ V₂]` splits `Wᵀv` into `V₁ᵀWᵀv = 0` and `v_r = V₂ᵀWᵀv`:
`v̇_r + Γ_r v_r = u_r` moves, `Γ_o v_r = u_o + V₁ᵀΛᵀλ` loads the constraints; `u` is `W⁻¹` times the total force.
Where constraints move, `V₁ᵀWᵀv` is not zero but given, and more terms appear. The law therefore takes from `Γ_r` only
how its error is to decay, and all that the system does by itself from its own equations: whatever a model's `bias`
holds, and however it depends on time, is compensated exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.control.allocation import least_effort
from bricard.control.force import check_force_goal, make_force_goal
from bricard.control.input_response import REACH_TOLERANCE, freedom, require_reach, response_now
from bricard.control.output import Output, make_output
from bricard.control.reference import Reference, make_reference
from bricard.control.tracking import Gain, apply_gain, followed, make_gains, positive_definite
from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import RANK_TOLERANCE, pinv
from bricard.errors import ModelError
from bricard.execution.lapack import cholesky, solve, solve_triangular
from bricard.simulation.controller import Controller, Memory
from bricard.system import Scalar, System, Vector

NEWTON_STEPS = 12
"""Enough to find the wanted configuration from any one near it."""


class Frame(NamedTuple):
    """`W` and `V` at a configuration."""

    root: Float[Array, "n n"]
    turn: Float[Array, "n n"]


class QuasiVelocityTracking(Controller):
    """As many outputs as degrees of freedom follow their reference; constraint forces too, if `force` is given.

    `ε = v_r − s` with `s = B(q_d)⁻¹θ̇_d − B⁻¹K_p θ̃` decays by `ε̇ = −(Γ_r + K_d) ε`, with a skew `Γ_r` at least as fast
    as the smallest `K_d` says (`skew=False` takes the source's `Γ_r`, with which only `εᵀΓ_r ε` along the motion
    vanishes). `force` holds wanted multipliers by row (of the constraint **on** the system). Constraints and outputs
    may depend on time; velocity constraints are not supported, since outputs then leave the configuration open.
    """

    system: System
    output: Output
    reference: Reference
    kp: Gain
    kd: Gain
    force: Reference | None
    rows: tuple[str, ...] = eqx.field(static=True)
    skew: bool = eqx.field(static=True)

    def __init__(
        self,
        system: System,
        output: Any,
        reference: Any,
        kp: Any,
        kd: Any,
        force: Any = None,
        *,
        skew: bool = True,
    ):
        subject = "QuasiVelocityTracking"
        if system.has_chart:
            raise ModelError(subject, ["needs coordinates whose rates are the velocities (no quaternions)"])
        if system.n_constraints > system.n_holonomic:
            raise ModelError(subject, ["does not support velocity constraints: use ProjectedInverseDynamics"])
        self.system, self.skew = system, skew
        self.output = make_output(system, output, subject)
        self.reference = make_reference(reference, self.output.names, 2, subject)
        self.kp, self.kd = make_gains(subject, len(self.output.names), kp=kp, kd=kd)
        self.rows, self.force = ((), None) if force is None else make_force_goal(system, force, subject)

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        count, name = freedom(self.system, q, t), "QuasiVelocityTracking"
        if count != len(self.output.names):
            raise ModelError(name, [f"{len(self.output.names)} outputs for {count} degrees of freedom"])
        if not positive_definite(np.asarray(self.system.mass_matrix(q, t))):
            raise ModelError(name, ["needs a mass matrix that is positive definite (no massless links)"])
        check_force_goal(self.system, self.rows, q, t, name)
        needed = self.system.nv if self.rows else count
        at = response_now(self.system, q, v, t)
        inputs = np.asarray(at.inputs) * np.asarray(at.units)[:, None]
        sizes = np.linalg.norm(inputs, axis=0)
        if np.linalg.matrix_rank(inputs / np.where(sizes > 0, sizes, 1.0), tol=REACH_TOLERANCE) < needed:
            raise ModelError(name, [f"{needed} independent inputs are needed"])
        require_reach(self.system, self.output, q, t, name)

    def frame(self, q: Vector, t: Scalar) -> Frame:
        """`W` lower triangular, `V` by Householder reflections of the rows of `Λ`."""
        mass, matrix = self.system.mass_matrix(q, t), self.system.constraint_jacobian(q, t)
        root = cholesky(mass)
        sizes = scales(mass, matrix, row_variation(self.system, q, t)).rows
        rows = solve_triangular(root, matrix.T).T
        return Frame(root, _complement(rows / sizes[:, None]))

    def reduced(self, q: Vector, t: Scalar) -> tuple[Float[Array, "n p"], Float[Array, "p p"]]:
        """`W_r = W V₂`, with `v_r = W_rᵀv`, and `B` with `∂θ̇/∂v_r = B`."""
        frame = self.frame(q, t)
        moving = frame.turn[:, self._bound :]
        jacobian = self.output.jacobian(self.system, q, t)
        return frame.root @ moving, jacobian @ solve_triangular(frame.root, moving, trans=1)

    @property
    def _bound(self) -> int:
        return self.system.nv - len(self.output.names)

    def wanted(self, t: Scalar, q: Vector) -> Vector:
        """The configuration with the wanted outputs, nearest to `q`: Newton's method on constraints and outputs."""

        def correct(q: Vector) -> Vector:
            missing = jnp.concatenate(
                [self.system.constraints(q, t), self.output.value(self.system, q, t) - self.reference(t)]
            )
            return q - self._motion(q, t, missing)

        found = jax.lax.fori_loop(0, NEWTON_STEPS, lambda _, q: correct(q), jax.lax.stop_gradient(q))
        last = correct(jax.lax.stop_gradient(found))  # its derivative is that of the solution
        return jnp.where(jnp.max(jnp.abs(last - found)) < 1e-8, last, jnp.nan)

    def _motion(self, q: Vector, t: Scalar, rates: Vector) -> Vector:
        """The velocities with these rates of the constraints and of the outputs."""
        system = self.system
        matrix = jnp.concatenate([system.constraint_jacobian(q, t), self.output.jacobian(system, q, t)])
        change = jnp.concatenate([row_variation(system, q, t), jnp.zeros((len(self.output.names), system.nv))])
        rows, columns = scales(system.mass_matrix(q, t), matrix, change)
        return columns * (pinv(matrix * columns[None, :] / rows[:, None]) @ (rates / rows))

    def wanted_velocity(self, wanted: Vector, t: Scalar) -> Vector:
        """How the wanted configuration moves: on the constraints, with the outputs at the rate of the reference."""
        system, rest = self.system, jnp.zeros(self.system.nv)
        _, rate = self.reference.derivatives(t, 1)
        by_time = jnp.concatenate([system.constraint_rate(wanted, rest, t), self.output.rate(system, wanted, rest, t)])
        return self._motion(wanted, t, jnp.concatenate([jnp.zeros(system.n_constraints), rate]) - by_time)

    def aim(self, q: Vector, wanted: Vector, t: Scalar) -> Float[Array, " p"]:
        """`s`: the quasi-velocity to have."""
        error = self.output.value(self.system, q, t) - self.reference(t)
        root, _ = self.reduced(wanted, t)
        _, here = self.reduced(q, t)
        return root.T @ self.wanted_velocity(wanted, t) - solve(here, apply_gain(self.kp, error))

    def coriolis(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, "n n"]:
        """`Γ + V̇Vᵀ` seen in the turned frame: rows `V₁`, then `V₂`."""
        t = jnp.asarray(t, dtype=float)
        (root, turn), (root_rate, turn_rate) = jax.jvp(self.frame, (q, t), (v, jnp.ones_like(t)))
        if self.skew:
            christoffel = _christoffel(self.system, q, v, t)
            inner = solve_triangular(root, christoffel) - root_rate.T
            gamma = solve_triangular(root, inner.T).T
        else:
            slope = jax.jacfwd(lambda q: self.frame(q, t).root.T @ v)(q)
            gamma = solve_triangular(root, root_rate - slope.T)
        return turn.T @ (gamma @ turn + turn_rate)

    def composite_error(self, t: Scalar, q: Vector, v: Vector) -> Float[Array, " p"]:
        """`ε = v_r − s`."""
        return self.reduced(q, t)[0].T @ v - self.aim(q, self.wanted(t, q), t)

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        t = jnp.asarray(t, dtype=float)
        system, bound = self.system, self._bound
        wanted = self.wanted(t, q)
        along = (v, self.wanted_velocity(wanted, t), jnp.ones_like(t))
        aim, aim_rate = jax.jvp(self.aim, (q, wanted, t), along)
        frame, frame_rate = jax.jvp(self.frame, (q, t), (v, jnp.ones_like(t)))
        gamma = self.coriolis(q, v, t)[bound:, bound:]
        seen = frame.turn.T @ (frame.root.T @ v)
        error = seen[bound:] - aim
        # Of the velocities in the frame, what changes because the frame does.
        turned_rate = frame_rate.turn.T @ (frame.root.T @ v) + frame.turn.T @ (frame_rate.root.T @ v)

        def turned(x: Array) -> Array:
            return frame.turn.T @ solve_triangular(frame.root, x)

        given = turned(system.applied_force(q, v, t) - system.bias(q, v, t)) + turned_rate
        inputs = turned(system.input_matrix(q, t))
        matrix = inputs[bound:]
        target = aim_rate - gamma @ error - apply_gain(self.kd, error) - given[bound:]
        if self.force is not None:
            index = jnp.array([system.row_names.index(n) for n in self.rows])
            goal = jnp.zeros(system.n_constraints).at[index].set(self.force(t))
            rows = system.constraint_jacobian(q, t)
            # The acceleration across the constraints is theirs: `A v̇ = b`.
            across = turned_rate[:bound] + self._across(frame, rows, system.constraint_bias(q, v, t))
            matrix = jnp.concatenate([inputs[:bound], matrix])
            target = jnp.concatenate([across - given[:bound] - turned(rows.T @ goal)[:bound], target])
        columns = jnp.sqrt(jnp.sum(inputs**2, axis=0))
        columns = jnp.where(columns > 0.0, columns, 1.0)
        return least_effort(matrix, target, inputs, jnp.ones(matrix.shape[0]), columns)

    def _across(self, frame: Frame, rows: Float[Array, "m n"], target: Float[Array, " m"]) -> Vector:
        """`V₁ᵀWᵀv̇` of accelerations with `A v̇ = b`."""
        bound = frame.turn[:, : self._bound]
        matrix = rows @ solve_triangular(frame.root, bound, trans=1)
        sizes = jnp.sqrt(jnp.sum(jax.lax.stop_gradient(matrix) ** 2, axis=1))
        sizes = jnp.where(sizes > 1e-12 * jnp.max(sizes, initial=0.0), sizes, jnp.inf)
        return pinv(matrix / sizes[:, None]) @ (target / sizes)

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        shown = followed(self.system, self.output, self.reference, t, q)
        return shown | {"composite error": self.composite_error(t, q, v)}


def _christoffel(system: System, q: Vector, v: Vector, t: Scalar) -> Float[Array, "n n"]:
    """`C` of `h = C v + …` with `Ṁ − 2C` skew, half of a change of `M` with time included."""
    t = jnp.asarray(t, dtype=float)
    change = jax.jacfwd(lambda q: system.mass_matrix(q, t))(q)  # ∂M_ij/∂q_k
    rate = change @ v + jax.jvp(lambda t: system.mass_matrix(q, t), (t,), (jnp.ones_like(t),))[1]
    mixed = jnp.einsum("ijk,j->ik", change, v)
    return 0.5 * (rate + mixed - mixed.T)


def _complement(rows: Float[Array, "m n"]) -> Float[Array, "n n"]:
    """Orthogonal `V` whose first columns span the rows (of about unit natural size) and whose others their complement.

    Householder reflections, one for each independent row; unlike those of an SVD they change smoothly with the rows.
    """
    n = rows.shape[1]
    turn, count = jnp.eye(n), jnp.zeros((), dtype=int)
    for i in range(rows.shape[0]):
        left = jnp.where(jnp.arange(n) >= count, turn.T @ rows[i], 0.0)
        square = left @ left
        independent = square > RANK_TOLERANCE**2
        direction = left / jnp.sqrt(jnp.where(independent, square, 1.0))
        axis = (jnp.arange(n) == count).astype(float)
        sign = jnp.where(direction @ axis >= 0.0, 1.0, -1.0)
        mirror = direction + sign * axis
        reflect = jnp.eye(n) - 2.0 * jnp.outer(mirror, mirror) / (mirror @ mirror)
        turn = jnp.where(independent, turn @ reflect, turn)
        count = count + independent.astype(int)
    return turn
