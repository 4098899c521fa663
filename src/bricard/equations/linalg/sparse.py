"""Large systems in which every part touches few others: the same equations, at a cost that grows with their number.

Where `M` and `A` may differ from zero is found once, before a run. Columns that share no row are then differentiated
together, and `M + AᵀA/μ` is a band of small blocks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bricard.equations.linalg.band import Band
from bricard.equations.linalg.pattern import Pattern, index_lists, pick, sharing, sums
from bricard.equations.problem import applied_force, unit_columns, unit_rows
from bricard.equations.routes.proximal import spurious_strength
from bricard.execution.cache import cached
from bricard.execution.compile import xla_jit
from bricard.system import Numbers, Scalar, System, Vector

SMALLEST = 12
"""With fewer velocities, dense matrices are faster."""

WIDEST = 8
"""Blocks larger than this are left to the dense route."""


def enough_sweeps(mu: float) -> int:
    """Rounds of refinement after the first solution.

    Each takes the error of a constraint of strength `g` down by `μ/(g + μ)`, and that of rounding by `ε/μ`: the more
    are needed, the smaller `μ` is. Next to a dead point rounding would shorten the steps otherwise.
    """
    return math.ceil(18.0 / (16.0 + math.log10(mu))) - 1


class Structure:
    """What is fixed in the equations of a large system: patterns of `M` and `A`, and the order of elimination."""

    def __init__(self, mass: Bool[np.ndarray, "n n"], matrix: Bool[np.ndarray, "m n"]):
        n = mass.shape[0]
        mass = mass | mass.T | np.eye(n, dtype=bool)
        self.mass, self.matrix = Pattern(mass), Pattern(matrix)
        coupled = mass | sharing(matrix)
        self.order = _narrow_order(coupled)
        self.place = np.argsort(self.order)
        self.block = max(1, _width(coupled, self.order))
        self.count = 2 ** int(np.ceil(np.log2(-(-n // self.block) + 1))) - 1
        self._key = (mass.shape, matrix.shape, mass.tobytes(), matrix.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def find_blocks(self) -> None:
        """List, for each entry of the blocks, the entries of `M` and the pairs of entries of `A` that it sums up."""
        size = 2 * self.block**2 * self.count
        slots, self._used = self._slots(self.mass.rows, self.mass.columns)
        self._of_mass = index_lists(slots, size)
        entries = index_lists(self.matrix.rows, self.matrix.mask.shape[0])
        pairs = [(k, i) for row in entries for k in row for i in row if max(k, i) < self.matrix.rows.size]
        first, second = np.array(pairs, dtype=int).reshape(-1, 2).T
        slots, used = self._slots(self.matrix.columns[first], self.matrix.columns[second])
        self._of_pairs, self._pairs = index_lists(slots, size), (first[used], second[used])

    def _slots(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where entries are in the blocks, those on the diagonal first, then those below; and which are not above."""
        (row, i), (column, j) = (np.divmod(self.place[x], self.block) for x in (rows, columns))
        used = np.flatnonzero(row >= column)
        inside = (i * self.block + j) * self.count + column
        return (inside + np.where(row == column, 0, self.block**2 * self.count))[used], used

    def band(self, mass: Float[Array, " k"], matrix: Float[Array, " l"], mu: float | Scalar) -> Band:
        """`M + AᵀA/μ`, factorised."""
        products = pick(matrix, self._pairs[0]) * pick(matrix, self._pairs[1])
        both = sums(pick(mass, self._used), self._of_mass) + sums(products, self._of_pairs) / mu
        both = both.reshape(2, self.block, self.block, self.count)
        spare = np.arange(self.order.size, self.block * self.count)
        padding = np.zeros((self.block, self.block, self.count))
        padding[spare % self.block, spare % self.block, spare // self.block] = 1.0
        return Band(both[0] + padding, both[1][:, :, :-1])

    def into_blocks(self, x: Vector) -> Float[Array, "b k"]:
        """A vector in the order of the blocks."""
        spare = self.block * self.count - self.order.size
        where = np.pad(self.order, (0, spare), constant_values=x.shape[0])
        return pick(jnp.concatenate([x, jnp.zeros(1)]), where).reshape(-1, self.block).T

    def from_blocks(self, x: Float[Array, "b k"]) -> Vector:
        """Back into the order of the system."""
        return pick(x.T.reshape(-1), self.place)


def _narrow_order(coupled: Bool[np.ndarray, "n n"]) -> np.ndarray:
    """An order of the coordinates in which coupled ones are near each other: the best of a few by Cuthill and McKee."""
    from scipy.sparse import csr_matrix  # late: see `sharing`
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    rng = np.random.default_rng(0)
    found = []
    for _ in range(8):
        start = rng.permutation(coupled.shape[0]) if found else np.arange(coupled.shape[0])
        for _ in range(2):  # the end of one is a good beginning for the next
            order = reverse_cuthill_mckee(csr_matrix(coupled[np.ix_(start, start)]), symmetric_mode=True)
            start = start[np.asarray(order)]
        found.append(start)
    return min(found, key=lambda order: _width(coupled, order))


def _width(coupled: Bool[np.ndarray, "n n"], order: np.ndarray) -> int:
    """How far apart coupled coordinates are at most."""
    rows, columns = np.nonzero(coupled[np.ix_(order, order)])
    return int(np.max(np.abs(rows - columns)))


class Matrices(NamedTuple):
    """Entries of `M` and `A` at one state, in the patterns of a structure."""

    mass: Float[Array, " k"]
    matrix: Float[Array, " l"]


def matrices(system: System, structure: Structure, q: Vector, t: Scalar) -> Matrices:
    """`M` and `A`, by as many derivatives as there are colours."""
    if type(system).mass_matrix is System.mass_matrix:
        seeds = jnp.asarray(structure.mass.seeds)
        mass = structure.mass.entries(jax.vmap(lambda w: _impulse(system, q, t, w))(seeds))
    else:
        mass = system.mass_matrix(q, t)[structure.mass.rows, structure.mass.columns]
    seeds = jnp.asarray(structure.matrix.seeds)
    return Matrices(mass, structure.matrix.entries(jax.vmap(lambda w: _rate(system, q, t, w))(seeds)))


def _impulse(system: System, q: Vector, t: Scalar, w: Vector) -> Vector:
    """`M w`, without `M`."""
    return jax.jvp(lambda v: jax.grad(system.kinetic_energy, argnums=1)(q, v, t), (jnp.zeros_like(w),), (w,))[1]


def _rate(system: System, q: Vector, t: Scalar, w: Vector) -> Float[Array, " m"]:
    """`A w`, without `A`."""
    return jax.jvp(lambda v: system.constraint_rate(q, v, t), (jnp.zeros_like(w),), (w,))[1]


class Saddle:
    """`M x = f + Aᵀλ`, `A x = b` for several right sides, by the method of multipliers on one factorisation."""

    def __init__(
        self,
        structure: Structure,
        at: Matrices,
        variation: Float[Array, "m n"],
        mu: float,
        sweeps: int | None = None,
        residual: Float[Array, " m"] | None = None,
    ):
        self.sweeps = enough_sweeps(mu) if sweeps is None else sweeps
        of_mass, of_matrix = structure.mass, structure.matrix
        diagonal = np.flatnonzero(of_mass.rows == of_mass.columns)
        self.columns = jax.lax.stop_gradient(unit_columns(at.mass[diagonal]))
        along = self.columns[of_matrix.columns]
        change = variation[of_matrix.rows, of_matrix.columns]
        squares = of_matrix.row_sums((at.matrix * along) ** 2 + (change * along) ** 2)
        self.rows = jax.lax.stop_gradient(unit_rows(squares))
        self.mass = at.mass * self.columns[of_mass.rows] * self.columns[of_mass.columns]
        self.matrix = at.matrix * along / self.rows[of_matrix.rows]
        self.structure = structure
        self.mu = jnp.asarray(mu)
        if residual is not None:
            off = self.columns * of_matrix.transposed_times(self.matrix, residual / self.rows)
            self.mu += spurious_strength(off, change * along / self.rows[of_matrix.rows])
        self.band = structure.band(self.mass, self.matrix, self.mu)

    def solve(self, force: Vector, target: Float[Array, " m"]) -> Vector:
        """`x`."""
        of_mass, of_matrix = self.structure.mass, self.structure.matrix
        force, target = force * self.columns, target / self.rows
        x, multipliers = jnp.zeros_like(force), jnp.zeros_like(target)
        for _ in range(self.sweeps + 1):
            missing = target - of_matrix.times(self.matrix, x)
            push = of_matrix.transposed_times(self.matrix, multipliers + missing / self.mu)
            left = force + push - of_mass.times(self.mass, x)
            step = self.structure.from_blocks(self.band.solve(self.structure.into_blocks(left)))
            x = x + step
            multipliers = multipliers + (missing - of_matrix.times(self.matrix, step)) / self.mu
        return x * self.columns


def sparse_acceleration(
    system: System, structure: Structure, q: Vector, v: Vector, u: Vector, t: Scalar, variation: Float[Array, "m n"]
) -> tuple[Vector, Vector]:
    """`v̇` and the constraint force `Aᵀλ = M v̇ − f`."""
    force = applied_force(system, q, v, u, t)
    at = matrices(system, structure, q, t)
    saddle = Saddle(structure, at, variation, system.weakest_constraint)
    acceleration = saddle.solve(force, system.constraint_bias(q, v, t))
    return acceleration, structure.mass.times(at.mass, acceleration) - force


def find_structure(system: System, q: Numbers, t: Scalar) -> Structure | None:
    """The structure of a system, looked at in a few places at random around `q`; None if it is not worth using.

    It is kept with the system, and may be wrong elsewhere: see `missed`.
    """
    if system.nv < SMALLEST or system.n_constraints == 0 or system.has_chart:
        return None
    return cached(system, "structure", lambda: _structure(system, jnp.asarray(q), t))


def _structure(system: System, q: Vector, t: Scalar) -> Structure | None:
    structure = Structure(*(np.asarray(x) for x in _where_not_zero(system, q, t)))
    if structure.block > WIDEST:
        return None
    structure.find_blocks()
    return structure


@xla_jit
def _where_not_zero(system: System, q: Vector, t: Scalar) -> tuple[Bool[Array, "n n"], Bool[Array, "m n"]]:
    def look(offset: Vector) -> tuple[Array, Array]:
        return system.mass_matrix(q + offset, t) != 0.0, system.constraint_jacobian(q + offset, t) != 0.0

    offsets = np.random.default_rng(1).uniform(-0.5, 0.5, (3, system.nq))
    mass, matrix = jax.lax.map(look, jnp.asarray(offsets))
    return jnp.any(mass, axis=0), jnp.any(matrix, axis=0)


@xla_jit
def missed(system: System, structure: Structure, q: Float[Array, "k nq"], t: Float[Array, " k"]) -> Float[Array, " k"]:
    """How much of `M w` and `A w` the structure misses at `k` states, relative; `w` at random."""
    w = jnp.asarray(np.random.default_rng(2).uniform(0.5, 1.0, system.nv))

    def at(state: tuple[Vector, Scalar]) -> Float[Array, ""]:
        q, t = state
        found = matrices(system, structure, q, t)
        pairs = (
            (_impulse(system, q, t, w), structure.mass.times(found.mass, w)),
            (_rate(system, q, t, w), structure.matrix.times(found.matrix, w)),
        )
        return jnp.maximum(*(_share(whole - known, whole) for whole, known in pairs))

    return jax.lax.map(at, (q, t))


def _share(part: Float[Array, " n"], whole: Float[Array, " n"]) -> Float[Array, ""]:
    size = jnp.max(jnp.abs(whole))
    return jnp.max(jnp.abs(part)) / jnp.where(size > 0.0, size, 1.0)
