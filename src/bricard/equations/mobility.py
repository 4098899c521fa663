"""How can it move, and which constraints are redundant?"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import DETERMINATE_TOLERANCE, kept, null_basis, row_dependence, singular_values
from bricard.equations.redundancy import repetitions
from bricard.mechanism.base import MechanismSystem
from bricard.system import Scalar, System, Vector, VectorLike


class Mobility(eqx.Module):
    """Degrees of freedom and redundancy at one configuration. `print` it for a sentence."""

    coordinates: int = eqx.field(static=True)
    """Number of velocities, `nv`."""
    constraints: int = eqx.field(static=True)
    """Number of constraint rows, `m`."""
    rank: int = eqx.field(static=True)
    """Number of independent rows, `r`."""
    groups: tuple[tuple[str, ...], ...] = eqx.field(static=True)
    """Constraints that depend on each other, group by group; each group has at least one row too many."""
    repetitions: tuple[str, ...] = eqx.field(static=True)
    """Of a mechanism, which joints require what others do already: "joint C repeats what A and B already require"."""
    determinate: dict[str, bool] = eqx.field(static=True)
    """Of each constraint, whether a rigid model determines its force."""
    singular_values: Float[Array, " k"]
    """Of the constraint matrix with rows and columns scaled to 1, largest first; dropped ones are near zero."""
    motions: Float[Array, "nv dof"]
    """A basis of the admissible velocities, one in each column."""

    @property
    def dof(self) -> int:
        """Degrees of freedom at this configuration, `nv − r`."""
        return self.coordinates - self.rank

    @property
    def redundant(self) -> int:
        """Number of constraints too many, `m − r`."""
        return self.constraints - self.rank

    def __str__(self) -> str:
        words = f"{self.dof} degree{'' if self.dof == 1 else 's'} of freedom: {self.coordinates} coordinates"
        words += f", {self.constraints} constraint{'' if self.constraints == 1 else 's'} of rank {self.rank}"
        words += "; it cannot move" if self.dof == 0 else ""
        if not self.redundant:
            return words + "; none is redundant, every constraint force is determinate."
        words += f", {self.redundant} redundant. "
        words += "".join(f"{sentence[0].upper()}{sentence[1:]}. " for sentence in self.repetitions)
        loose = "; ".join(", ".join(g) for g in self.groups)
        return words + f"Forces that a rigid model cannot determine: {loose}."


def mobility(system: System, q: VectorLike, t: ArrayLike = 0.0) -> Mobility:
    """Degrees of freedom, rank, redundant constraints and which forces are determinate, at configuration `q`."""
    q = system.vector(q, "q")
    values, dependence, motions = _analyse(system, q, jnp.asarray(t, dtype=float))
    rank = int(jnp.sum(kept(values)))
    shares = np.sqrt(np.clip(np.diagonal(dependence), 0.0, None))
    names = system.row_names
    motions = np.asarray(motions)
    return Mobility(
        coordinates=system.nv,
        constraints=len(names),
        rank=rank,
        groups=tuple(tuple(names[i] for i in g) for g in _groups(np.asarray(dependence))),
        repetitions=repetitions(system, q, jnp.asarray(t, dtype=float))
        if isinstance(system, MechanismSystem) and rank < len(names)
        else (),
        determinate={n: bool(s < DETERMINATE_TOLERANCE) for n, s in zip(names, shares, strict=True)},
        singular_values=values,
        motions=jnp.asarray(motions[:, np.any(motions != 0.0, axis=0)]),
    )


@eqx.filter_jit
def _analyse(system: System, q: Vector, t: Scalar):
    matrix = system.constraint_matrix(q, t)
    units = scales(system.mass_matrix(q, t), matrix, row_variation(system, q, t))
    scaled = matrix * units.columns[None, :] / units.rows[:, None]
    return singular_values(scaled), row_dependence(scaled), units.columns[:, None] * null_basis(scaled)


def _groups(dependence: np.ndarray) -> list[list[int]]:
    """Connected sets of rows that take part in a common dependence."""
    linked = np.abs(dependence) > DETERMINATE_TOLERANCE
    left, groups = {int(i) for i in np.flatnonzero(np.diagonal(linked))}, []
    while left:
        group, frontier = set(), {min(left)}
        while frontier:
            group |= frontier
            frontier = {int(j) for i in frontier for j in np.flatnonzero(linked[i])} & (left - group)
        left -= group
        groups.append(sorted(group))
    return groups
