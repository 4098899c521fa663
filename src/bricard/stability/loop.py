"""A system and its controller, linearised about an equilibrium; the other modules of `bricard.stability` use it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.equations.dynamics import check_motion_determined
from bricard.equations.linearization import (
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
from bricard.execution.compile import xla_jit
from bricard.simulation.controller import Controller, Memory, make_controller
from bricard.simulation.digital import Sampled
from bricard.system import Scalar, System, Vector, VectorLike


class LawTerms(NamedTuple):
    """A linearised controller: `(u, ṁ) = (u₀, drift) + response @ (θ, δv, δm)`, with its memory `m`.

    For a digital controller the response of `ṁ` is replaced by that of the memory one sample later.
    """

    u: Float[Array, " nu"]
    drift: Float[Array, " nm"]
    """Rate of the memory (or its change over a sample) at the equilibrium; zero if the memory is at rest."""
    response: Float[Array, "nu+nm 2*nv+nm"]


class Loop(NamedTuple):
    """A closed (or open) loop, linearised at an equilibrium."""

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
    """Response of the controller, (nu + nm, 2 nv + nm): see `LawTerms`."""

    @property
    def n_memory(self) -> int:
        """Number of states of the controller."""
        return self.response.shape[1] - 2 * self.system.nv

    @property
    def law(self) -> np.ndarray:
        """Response of the controller to the reduced state and the memory, (nu + nm, n + nm)."""
        return reduced_law(self.response, self.model)


def reduced_law(response: np.ndarray, model: TangentModel) -> np.ndarray:
    """Convert a response (…, nu + nm, 2 nv + nm) to one to the reduced state and the memory, (…, nu + nm, n + nm)."""
    n_full = model.embed.shape[0]
    return np.concatenate([response[..., :n_full] @ model.embed, response[..., n_full:]], axis=-1)


@xla_jit
def law_terms(
    controller: Controller, system: System, q: Vector, v: Vector, t: Scalar, memory: Memory, period: Scalar | None
) -> LawTerms:
    """Linearise a controller in the state and its memory; with `period` (s), as a digital controller."""
    flat, unravel = ravel_pytree(memory)
    nv = system.nv

    def evaluate(x: Vector) -> tuple[Vector, Vector]:
        near = q + system.qdot(q, x[:nv]), v + x[nv : 2 * nv], unravel(flat + x[2 * nv :])
        if period is None:
            return controller(t, *near), ravel_pytree(controller.rate(t, *near))[0]
        u, later = controller.step(t, *near, period)
        return u, ravel_pytree(later)[0]

    u, later = evaluate(jnp.zeros(2 * nv + flat.shape[0]))
    response = jnp.concatenate(derivative(evaluate, 2 * nv + flat.shape[0]))
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
    """The loop linearised about `(q, v)`. Without a controller the inputs are constant, `u`.

    With `period` (s) the memory of the controller takes digital steps. Raises `ModelError` if the state or the memory
    is not at rest.
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
    """The memory for which the loop is at rest, by Newton's method from the initial memory, and the linear terms.

    For example, the integral of a PID controller that holds a weight starts at zero, but is not zero at rest.
    """
    memory = controller.start(t, q, v)
    law = law_terms(controller, system, q, v, t, memory, period)
    terms = linear_terms(system, q, v, law.u, t)
    count = law.drift.shape[0]
    for _ in range(10):
        residual = np.concatenate([law.drift, terms.acceleration])
        if count == 0 or not np.all(np.isfinite(residual)) or np.max(np.abs(residual)) < 1e-12:
            break
        model = reduce_terms(system, terms)
        nu = law.u.shape[0]
        by_memory = np.asarray(law.response)[:, 2 * system.nv :]
        change = by_memory[nu:] - (0.0 if period is None else np.eye(count))
        slope = np.vstack([change, (model.embed @ model.b)[system.nv :] @ by_memory[:nu]])
        flat, unravel = ravel_pytree(memory)
        memory = unravel(flat - jnp.asarray(np.linalg.lstsq(slope, residual, rcond=1e-10)[0]))
        law = law_terms(controller, system, q, v, t, memory, period)
        terms = linear_terms(system, q, v, law.u, t)
    return memory, law, terms


def closed_matrix(loop: Loop) -> np.ndarray:
    """Matrix of the closed loop on the tangent space; the state is the reduced state, then the controller's memory."""
    return closed_matrices(loop.model.a, loop.model.b, loop.law)


def closed_matrices(a: np.ndarray, b: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Closed-loop matrix `[[a + b Kx, b Km], [Fx, Fm]]` for a law `[[Kx, Km], [Fx, Fm]]` or a batch of laws."""
    n, nu = b.shape[-2:]
    closed = np.concatenate([b @ law[..., :nu, :], law[..., nu:, :]], axis=-2)
    closed[..., :n, :n] += a
    return closed
