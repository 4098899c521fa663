"""Accelerations and constraint forces as formulas of the state."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import sympy as sp
from sympy.physics.vector.printing import vlatex, vsstrrepr
from sympy.polys.matrices import DomainMatrix

import bricard.system
from bricard.equations.dynamics import check_motion_determined
from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import rank
from bricard.errors import ModelError
from bricard.symbolic.algebra import Algebra
from bricard.symbolic.system import Expr, System, jacobian
from bricard.system import Matrix, Scalar, Vector


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Formulas:
    """The explicit equations of a system, as SymPy matrices in the user's symbols. `print` it to read the main ones.

    For numbers: `system.evaluate(formulas.constraint_force, q, v, u, t)`.
    """

    system: System
    mass_matrix: Expr
    """`M`, (nv, nv)."""
    bias: Expr
    """`h`, (nv, 1): Coriolis, centrifugal and potential forces, on the side of `M v̇`."""
    constraint_matrix: Expr
    """`A`, (m, nv)."""
    constraint_acceleration: Expr
    """`b` of `A v̇ = b`, (m, 1)."""
    acceleration: Expr
    """`v̇`, (nv, 1)."""
    multipliers: Expr
    """`λ`, (m, 1), of minimum norm where rows are redundant."""
    constraint_force: Expr
    """`Aᵀλ`, (nv, 1): the generalised force of the constraints on the system."""
    rows: tuple[int, ...]
    """The independent constraint rows; the others follow from them."""

    def latex(self) -> str:
        """The main formulas as LaTeX, each a line of an aligned equation."""
        named = {r"\dot{v}": self.acceleration, r"\lambda": self.multipliers, r"A^T \lambda": self.constraint_force}
        lines = [f"{name} &= {vlatex(formula)}" for name, formula in named.items()]
        return r"\begin{aligned}" + " \\\\\n".join(lines) + r"\end{aligned}"

    def __str__(self) -> str:
        lines = []
        for name in ("acceleration", "constraint_force", "multipliers"):
            labels = self.system.row_names if name == "multipliers" else self.system.coordinates
            lines.append(name.replace("_", " ") + ":")
            lines += [f"  {label}: {vsstrrepr(x)}" for label, x in zip(labels, getattr(self, name), strict=True)]
        return "\n".join(lines)


def explicit(system: bricard.system.System, q: Vector | None = None, t: Scalar = 0.0) -> Formulas:
    """Accelerations, multipliers and constraint forces of a small system as formulas of the state and the inputs.

    Of dependent constraint rows the shortest are used. Which rows depend on others is decided at the configuration `q`
    and the time `t`; without `q`, at a random state. If rows depend on each other only where the constraints are met,
    as with parallel cranks, give a `q` that meets them and is no singular position; the formulas hold only there then.
    Takes seconds for five coordinates and rows together, or for ten if the mass matrix is diagonal.
    """
    if not isinstance(system, System):
        raise ModelError("explicit", [f"needs a symbolic.System, got {type(system).__name__}"])
    e, symbols = system.expressions, system.expressions.symbols

    def rate(column: Expr) -> Expr:
        """Time derivative at constant velocity."""
        return jacobian(column, symbols.q) * sp.Matrix(symbols.v) + column.diff(symbols.time)

    momentum = jacobian(e.kinetic_energy, symbols.v).T
    slope = jacobian(e.kinetic_energy - e.potential_energy, symbols.q).T
    rows = sp.ImmutableMatrix(rate(e.constraints)).col_join(e.velocity_constraints)
    given = (
        *(jacobian(momentum, symbols.v), rate(momentum) - slope, e.applied_force),
        *(jacobian(rows, symbols.v), -rate(rows)),
    )
    algebra = Algebra(*given)
    mass, bias, force, matrix, target = map(algebra.encode, given)
    shortest_first = sorted(range(rows.rows), key=lambda i: sp.count_ops(rows[i, 0]))
    kept = _independent_rows(system, shortest_first, q, t)
    n, r, m = len(symbols.coordinates), len(kept), rows.rows
    basis = matrix.extract(kept, range(n))
    kkt = mass.hstack(-basis.transpose()).vstack(basis.hstack(DomainMatrix.zeros((r, r), algebra.field)))
    solution = algebra.solve(kkt, (force - bias).vstack(target.extract(kept, [0])))
    acceleration, loads = solution.extract(range(n), [0]), solution.extract(range(n, n + r), [0])
    multipliers = algebra.decode(loads)
    reaction = algebra.decode(basis.transpose()) * multipliers
    if sum(len(x.numer) for x in loads.to_list_flat()) < 300:
        # Multiplied out, much may cancel. Of a long formula it would only take time.
        pairs = zip(reaction, algebra.decode(basis.transpose() * loads), strict=True)
        reaction = sp.Matrix(n, 1, [min(pair, key=sp.count_ops) for pair in pairs])
    if r < m:
        # Of all λ with the same effect, the least: with the rows R that are kept and S = R Aᵀ, Sᵀ(S Sᵀ)⁻¹R Rᵀ loads.
        overlap, gram = basis * matrix.transpose(), basis * basis.transpose()
        shares = overlap.transpose() * algebra.solve(overlap * overlap.transpose(), gram)
        multipliers = algebra.decode(shares) * multipliers
    terms = (algebra.decode(x) for x in (mass, bias, matrix, target, acceleration))
    results = (symbols.restore(sp.ImmutableMatrix(x)) for x in (*terms, multipliers, reaction))
    return Formulas(system, *results, rows=tuple(kept))


def _independent_rows(system: System, order: Sequence[int], q: Vector | None, t: Scalar) -> list[int]:
    """The first rows in this order that are independent, at `q` or, without it, at a random state."""
    state: Any = (np.random.default_rng(0).uniform(0.2, 1.2, system.nq), 0.7) if q is None else (q, t)
    q, t = system.vector(state[0]), jnp.asarray(state[1], dtype=float)
    check_motion_determined(system, q, t)
    scaled = _scaled_constraints(system, q, t)
    kept = jnp.zeros(scaled.shape[0], dtype=bool)
    for i in order:
        more = kept.at[i].set(True)
        kept = more if rank(jnp.where(more[:, None], scaled, 0.0)) > jnp.sum(kept) else kept
    return np.flatnonzero(kept).tolist()


@eqx.filter_jit
def _scaled_constraints(system: System, q: Vector, t: Scalar) -> Matrix:
    """`A` in units in which its rank can be told, see `bricard.equations.rank`."""
    matrix = system.constraint_matrix(q, t)
    units = scales(system.mass_matrix(q, t), matrix, row_variation(system, q, t))
    return matrix * units.columns[None, :] / units.rows[:, None]
