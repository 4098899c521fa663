"""A system and what drives it, linearised about rest: pieces for every other file here."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.equations.dynamics import check_motion_determined
from bricard.equations.linear import (
    REST_TOLERANCE,
    LinearTerms,
    TangentModel,
    check_rest,
    check_steady,
    derivative,
    linear_terms,
    reduce_terms,
)
from bricard.errors import ModelError
from bricard.simulate.controller import Controller, Memory, make_controller
from bricard.simulate.sampling import Sampled
from bricard.system import Scalar, System, Vector, VectorLike


class LawTerms(NamedTuple):
    """A controller to first order: `(u, ṁ) = (u₀, drift) + response @ (θ, δv, δm)`.

    Of a digital law the second part is its memory one sample later.
    """

    u: Float[Array, " nu"]
    drift: Float[Array, " nm"]
    """Change of the memory at rest; zero if it is at rest too."""
    response: Float[Array, "nu+nm 2*nv+nm"]


class Loop(NamedTuple):
    """A closed (or open) loop at rest."""

    system: System
    controller: Controller
    memory: Memory
    q: Vector
    v: Vector
    u: Vector
    t: Array
    terms: LinearTerms
    model: TangentModel
    response: np.ndarray
    """Of the law, (nu + nm, 2 nv + nm)."""

    @property
    def n_memory(self) -> int:
        """Number of states of the controller."""
        return self.response.shape[1] - 2 * self.system.nv

    @property
    def law(self) -> np.ndarray:
        """Response to the reduced state: (nu + nm, n + nm)."""
        return reduced_law(self.response, self.model)


def reduced_law(response: np.ndarray, model: TangentModel) -> np.ndarray:
    """A law's response `(…, nu + nm, 2 nv + nm)` to the reduced state and the memory."""
    n_full = model.embed.shape[0]
    return np.concatenate([response[..., :n_full] @ model.embed, response[..., n_full:]], axis=-1)


@eqx.filter_jit
def law_terms(
    controller: Controller, system: System, q: Vector, v: Vector, t: Scalar, memory: Memory, period: Scalar | None
) -> LawTerms:
    """A controller's response to small changes of the state and of its memory; with `period`, as a digital one."""
    flat, unravel = ravel_pytree(memory)
    nv = system.nv

    def answer(x: Vector) -> tuple[Vector, Vector]:
        near = q + system.qdot(q, x[:nv]), v + x[nv : 2 * nv], unravel(flat + x[2 * nv :])
        if period is None:
            return controller(t, *near), ravel_pytree(controller.rate(t, *near))[0]
        u, later = controller.step(t, *near, period)
        return u, ravel_pytree(later)[0]

    u, later = answer(jnp.zeros(2 * nv + flat.shape[0]))
    response = jnp.concatenate(derivative(answer, 2 * nv + flat.shape[0]))
    return LawTerms(u, later if period is None else later - flat, response)


def close_loop(
    system: System,
    q: VectorLike,
    v: VectorLike | None = None,
    u: VectorLike | None = None,
    t: ArrayLike = 0.0,
    controller: Any = None,
    period: Any = None,
) -> Loop:
    """The loop linearised about `(q, v)`; refuses what is not at rest. Without a controller `u` is held.

    With `period` the controller's memory takes digital steps.
    """
    q = system.normalize(system.vector(q, "q"))
    v = jnp.zeros(system.nv) if v is None else _velocity(system, v)
    t = jnp.asarray(t, dtype=float)
    controller = make_controller(system, u, controller, "stability")
    if isinstance(controller, Sampled):
        raise ModelError(
            "stability", ["a sampled loop is a map from sample to sample: br.stability.sampled_map has its eigenvalues"]
        )
    check_motion_determined(system, q, t)
    controller.check(t, q, v)
    period = None if period is None else jnp.asarray(period, dtype=float)
    memory, law, terms = _at_rest(system, controller, q, v, t, period)
    check_rest(system, terms)
    if np.any(np.asarray(v) != 0.0):
        check_steady(system, terms, q, v, law.u, t)
    if np.max(np.abs(law.drift), initial=0.0) > REST_TOLERANCE:
        raise ModelError(
            "stability",
            [
                f"the controller is not at rest: its memory changes by {np.max(np.abs(law.drift)):.3g} per "
                f"{'second' if period is None else 'sample'} here. Does its reference move, or lie elsewhere?"
            ],
        )
    response = np.asarray(law.response)
    if not np.all(np.isfinite(response)):
        raise ModelError("stability", ["the controller's response to small changes is not finite here"])
    return Loop(system, controller, memory, q, v, law.u, t, terms, reduce_terms(system, terms), response)


def _velocity(system: System, v: Any) -> Vector:
    return jnp.zeros(system.nv) if np.ndim(v) == 0 and v == 0 else system.vector(v, "v")


def _at_rest(
    system: System, controller: Controller, q: Vector, v: Vector, t: Array, period: Array | None
) -> tuple[Memory, LawTerms, LinearTerms]:
    """The memory with which the controller holds the state, by Newton's method from that of its start.

    An integrator that carries a weight starts empty, but at rest it does not.
    """
    memory = controller.start(t, q, v)
    law = law_terms(controller, system, q, v, t, memory, period)
    terms = linear_terms(system, q, v, law.u, t)
    count = law.drift.shape[0]
    for _ in range(10):
        left = np.concatenate([law.drift, terms.acceleration])
        if count == 0 or not np.all(np.isfinite(left)) or np.max(np.abs(left)) < 1e-12:
            break
        model = reduce_terms(system, terms)
        nu = law.u.shape[0]
        by_memory = np.asarray(law.response)[:, 2 * system.nv :]
        change = by_memory[nu:] - (0.0 if period is None else np.eye(count))
        slope = np.vstack([change, (model.embed @ model.b)[system.nv :] @ by_memory[:nu]])
        flat, unravel = ravel_pytree(memory)
        memory = unravel(flat - jnp.asarray(np.linalg.lstsq(slope, left, rcond=1e-10)[0]))
        law = law_terms(controller, system, q, v, t, memory, period)
        terms = linear_terms(system, q, v, law.u, t)
    return memory, law, terms


def closed_matrix(loop: Loop) -> np.ndarray:
    """`ẋ = 𝔸 x` on the tangent space, `x` the reduced state and then the controller's memory."""
    return closed_matrices(loop.model.a, loop.model.b, loop.law)


def closed_matrices(a: np.ndarray, b: np.ndarray, law: np.ndarray) -> np.ndarray:
    """`[[a + b Kx, b Km], [Fx, Fm]]` for laws `[[Kx, Km], [Fx, Fm]]`, for a single one or a batch of them."""
    n, nu = b.shape[-2:]
    closed = np.concatenate([b @ law[..., :nu, :], law[..., nu:, :]], axis=-2)
    closed[..., :n, :n] += a
    return closed
