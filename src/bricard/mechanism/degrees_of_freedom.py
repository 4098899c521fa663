"""How can it move, and which constraints are redundant?"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.equations.rank import DETERMINATE_TOLERANCE, subspaces
from bricard.equations.scaling import scaled_matrices
from bricard.errors import ModelError, needs_numbers
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.mechanism.redundancy import repetitions
from bricard.system import System, VectorLike


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
        words = f"{_counted(self.dof, 'degree')} of freedom: {_counted(self.coordinates, 'coordinate')}"
        if not self.constraints:
            return words + ", no constraints."
        words += f", {_counted(self.constraints, 'constraint')} of rank {self.rank}"
        words += "; it cannot move" if self.dof == 0 else ""
        if not self.redundant:
            return words + "; none is redundant, every constraint force is determinate."
        words += f", {self.redundant} redundant. "
        words += "".join(f"{sentence[0].upper()}{sentence[1:]}. " for sentence in self.repetitions)
        loose = "; ".join(", ".join(g) for g in self.groups)
        return words + f"Forces that a rigid model cannot determine: {loose}."


@needs_numbers
def mobility(system: System, q: VectorLike, t: ArrayLike = 0.0) -> Mobility:
    """Degrees of freedom, rank, redundant constraints and which forces are determinate, at configuration `q`."""
    q = system.vector(q, "q")
    t = jnp.asarray(t, dtype=float)
    _, matrix, units, _ = jax.tree.map(np.asarray, scaled_matrices(system, q, t))
    if not np.all(np.isfinite(matrix)):
        raise ModelError(type(system).__name__, [f"the constraints are not finite at q = {np.asarray(q)}"])
    found = subspaces(matrix)
    dependence = found.idle_rows @ found.idle_rows.T
    shares = np.sqrt(np.clip(np.diagonal(dependence), 0.0, None))
    names = system.row_names
    return Mobility(
        coordinates=system.nv,
        constraints=len(names),
        rank=found.rank,
        groups=tuple(tuple(names[i] for i in g) for g in _groups(dependence)),
        repetitions=repetitions(system, q, t)
        if isinstance(system, MechanismSystem) and found.rank < len(names)
        else (),
        determinate={n: bool(s < DETERMINATE_TOLERANCE) for n, s in zip(names, shares, strict=True)},
        singular_values=jnp.asarray(found.singular_values, dtype=float),
        motions=jnp.asarray(units.columns[:, None] * found.null, dtype=float),
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
