"""Which part of a force moves the system, and which only loads the constraints? It depends on how forces are measured.

`W` (nv, nv), symmetric positive definite, measures velocities as `vᵀWv` and forces as `fᵀW⁻¹f`. With coordinates of
mixed units (metres and radians) the split of a force depends on the choice; the motion does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import pinv
from bricard.errors import ModelError, is_concrete
from bricard.execution.lapack import cholesky, inv, solve
from bricard.system import Scalar, System, Vector, VectorLike


class ForceSplit(NamedTuple):
    """A force as the sum of what moves the system and what only loads its constraints."""

    acting: Float[Array, " nv"]
    passive: Float[Array, " nv"]


def split_force(
    system: System,
    q: VectorLike,
    force: VectorLike,
    t: ArrayLike = 0.0,
    metric: Float[Array, "nv nv"] | None = None,
) -> ForceSplit:
    """`f_∥ = P f` moves the system, `f_⊥ = f − f_∥` only loads the constraints; both (nv,)."""
    q, force = system.vector(q, "q"), system.vector(force, "v")
    acting = acting_projector(system, q, jnp.asarray(t, dtype=float), metric) @ force
    return ForceSplit(acting, force - acting)


def acting_projector(
    system: System, q: Vector, t: Scalar = 0.0, metric: Float[Array, "nv nv"] | None = None
) -> Float[Array, "nv nv"]:
    """`P` for forces: `I − Aᵀ(A W⁻¹Aᵀ)⁺A W⁻¹`, which is `I − A⁺A` without a metric."""
    matrix = system.constraint_jacobian(q, t)
    units = scales(system.mass_matrix(q, t), matrix, row_variation(system, q, t))
    matrix = matrix / units.rows[:, None]
    identity = jnp.eye(system.nv)
    if metric is None:
        return identity - (pinv(matrix) @ matrix).T
    root = cholesky(_checked_metric(system, metric))
    weighted = solve(root, matrix.T).T
    return identity - root @ pinv(weighted) @ weighted @ inv(root)


def decoupling(
    system: System, q: VectorLike, t: ArrayLike = 0.0, metric: Float[Array, "nv nv"] | None = None
) -> Float[Array, ""]:
    """How strongly motion and constraint force are coupled: `‖(I−P) M P‖ / ‖M‖`, zero when they decouple."""
    q = system.vector(q, "q")
    t = jnp.asarray(t, dtype=float)
    projector = acting_projector(system, q, t, metric)
    mass = system.mass_matrix(q, t)
    coupling = (jnp.eye(system.nv) - projector) @ mass @ projector.T
    return jnp.linalg.norm(coupling) / jnp.linalg.norm(mass)


def length_metric(system: System, length: float, angles: str | Sequence[str]) -> Float[Array, "nv nv"]:
    """`W` from a characteristic length (m): a rate of 1 rad/s counts as `length` m/s. `angles` names the rotations."""
    if _is_not_positive(length):
        raise ModelError("length_metric", [f"the characteristic length must be positive, not {length}"])
    diagonal = jnp.ones(system.nv).at[system.index(angles, "velocity_names")].set(length**2)
    return jnp.diag(diagonal)


def effort_metric(system: System, limits: VectorLike) -> Float[Array, "nv nv"]:
    """`W` from the largest force of each coordinate's actuator (nv,): forces are measured in parts of their limit."""
    limits = system.vector(limits, "v")
    if _is_not_positive(limits):
        raise ModelError("effort_metric", [f"every limit must be positive, got {np.asarray(limits)}"])
    return jnp.diag(limits**2)


def mass_metric(system: System, q: VectorLike, t: ArrayLike = 0.0) -> Float[Array, "nv nv"]:
    """`W = M`: the one choice that does not depend on units; motion and constraint force then decouple."""
    return system.mass_matrix(system.vector(q, "q"), jnp.asarray(t, dtype=float))


def _is_not_positive(value: object) -> bool:
    """Whether something that can be looked at has an entry that is not above zero."""
    return is_concrete(value) and not bool(np.all(np.asarray(value) > 0))


def _checked_metric(system: System, metric: Float[Array, "nv nv"]) -> Float[Array, "nv nv"]:
    if jnp.shape(metric) != (system.nv, system.nv):
        raise ModelError("metric", [f"expected shape ({system.nv}, {system.nv}), got {jnp.shape(metric)}"])
    return metric
