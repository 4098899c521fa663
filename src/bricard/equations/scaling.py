"""Inertia and constraints at a configuration, in the units of `scales`; what rank decisions outside `jit` start from.

Only the matrices are compiled, one program for all who ask. The linear algebra on them is NumPy's: it is done once, and
compiling it would take far longer.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Float

from bricard.equations.problem import Scales, row_variation, scales
from bricard.execution.compile import xla_jit
from bricard.system import Scalar, System, Vector


class ScaledMatrices(NamedTuple):
    """`M` and `A` for velocities in units of `units.columns`, rows in units of `units.rows`."""

    mass: Float[Array, "n n"]
    matrix: Float[Array, "m n"]
    units: Scales
    variation: Float[Array, "m n"]
    """How much `A` changes nearby (unscaled), see `row_variation`."""


@xla_jit
def scaled_matrices(system: System, q: Vector, t: Scalar) -> ScaledMatrices:
    """The matrices at one configuration."""
    variation = row_variation(system, q, t)
    mass, matrix = system.mass_matrix(q, t), system.constraint_jacobian(q, t)
    units = scales(mass, matrix, variation)
    columns = units.columns[None, :]
    return ScaledMatrices(
        mass * columns * units.columns[:, None], matrix * columns / units.rows[:, None], units, variation
    )


@xla_jit
def constraints_along(
    system: System, q: Float[Array, "k nq"], t: Float[Array, " k"], variation: Float[Array, "m n"]
) -> Float[Array, "k m n"]:
    """The scaled `A` at `k` configurations, all rows measured by the same `variation`."""

    def at(q: Vector, t: Scalar) -> Float[Array, "m n"]:
        q = system.normalize(q)
        matrix = system.constraint_jacobian(q, t)
        units = scales(system.mass_matrix(q, t), matrix, variation)
        return matrix * units.columns[None, :] / units.rows[:, None]

    # One after the other: a batch of all would need much memory.
    return jax.lax.map(lambda state: at(*state), (q, t))
