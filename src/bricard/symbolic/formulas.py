"""Explicit formulas for accelerations, multipliers and constraint forces."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

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
from bricard.execution.compile import xla_jit
from bricard.symbolic.algebra import Algebra
from bricard.symbolic.sympy_system import Expr, System, jacobian
from bricard.system import Matrix, Scalar, Vector


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Formulas:
    """Explicit equations of motion of a system, as SymPy matrices in the user's symbols.

    Printing shows the acceleration, the constraint force and the multipliers. To get numbers, use
    `system.evaluate(formulas.constraint_force, q, v, u, t)`.
    """

    system: System
    mass_matrix: Expr
    """Mass matrix `M`, shape (nv, nv)."""
    bias: Expr
    """`h`, shape (nv, 1): Coriolis, centrifugal and potential forces, on the left-hand side with `M v̇`."""
    constraint_jacobian: Expr
    """Constraint Jacobian `A`, shape (m, nv)."""
    constraint_bias: Expr
    """`b` in `A v̇ = b`, shape (m, 1)."""
    acceleration: Expr
    """`v̇`, shape (nv, 1)."""
    multipliers: Expr
    """Multipliers `λ`, shape (m, 1); of minimum norm if constraints are redundant."""
    constraint_force: Expr
    """`Aᵀλ`, shape (nv, 1): the generalised force of the constraints on the system."""
    rows: tuple[int, ...]
    """Indices of the independent constraint rows; the other rows are linear combinations of them."""

    def latex(self) -> str:
        """Acceleration, multipliers and constraint force as LaTeX, one line each in an `aligned` environment."""
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
    """Formulas for the accelerations, multipliers and constraint forces of a small `symbolic.System`.

    They depend on the state, the time and the inputs. If constraint rows are redundant, the shortest independent rows
    are used. The rank is decided at the configuration `q` (nq,) and the time `t` (s); without `q`, at a random one. If
    rows are dependent only on the constraint manifold, as with parallel cranks, pass a `q` on the manifold that is not
    a singular position; the formulas then hold only on the manifold.

    The computation takes seconds if the numbers of coordinates and rows add up to five, or to ten with a diagonal mass
    matrix.
    """
    if not isinstance(system, System):
        raise ModelError("explicit", [f"needs a symbolic.System, got {type(system).__name__}"])
    e, symbols = system.expressions, system.expressions.symbols

    def rate(column: Expr) -> Expr:
        """Time derivative at zero acceleration."""
        return jacobian(column, symbols.q) * sp.Matrix(symbols.v) + column.diff(symbols.time)

    momentum = jacobian(e.kinetic_energy, symbols.v).T
    gradient = jacobian(e.kinetic_energy - e.potential_energy, symbols.q).T
    rows = sp.ImmutableMatrix(rate(e.constraints)).col_join(e.velocity_constraints)
    matrices = (
        *(jacobian(momentum, symbols.v), rate(momentum) - gradient, e.applied_force),
        *(jacobian(rows, symbols.v), -rate(rows)),
    )
    algebra = Algebra(*matrices)
    mass, bias, force, matrix, target = map(algebra.encode, matrices)
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
        # Terms may cancel when the product is expanded. For long formulas this would only take time.
        pairs = zip(reaction, algebra.decode(basis.transpose() * loads), strict=True)
        reaction = sp.Matrix(n, 1, [min(pair, key=sp.count_ops) for pair in pairs])
    if r < m:
        # Minimum-norm λ with the same Aᵀλ: Sᵀ(S Sᵀ)⁻¹R Rᵀ times the multipliers of the kept rows R, with S = R Aᵀ.
        cross_gram, gram = basis * matrix.transpose(), basis * basis.transpose()
        distribution = cross_gram.transpose() * algebra.solve(cross_gram * cross_gram.transpose(), gram)
        multipliers = algebra.decode(distribution) * multipliers
    terms = (algebra.decode(x) for x in (mass, bias, matrix, target, acceleration))
    results = (symbols.restore(sp.ImmutableMatrix(x)) for x in (*terms, multipliers, reaction))
    return Formulas(system, *results, rows=tuple(kept))


def _independent_rows(system: System, order: Sequence[int], q: Vector | None, t: Scalar) -> list[int]:
    """Indices of the first independent rows in the given order, at `q` and `t` or, without `q`, at a random state."""
    state: Any = (np.random.default_rng(0).uniform(0.2, 1.2, system.nq), 0.7) if q is None else (q, t)
    q, t = system.vector(state[0]), jnp.asarray(state[1], dtype=float)
    check_motion_determined(system, q, t)
    scaled = _scaled_constraints(system, q, t)
    kept = jnp.zeros(scaled.shape[0], dtype=bool)
    for i in order:
        extended = kept.at[i].set(True)
        kept = extended if rank(jnp.where(extended[:, None], scaled, 0.0)) > jnp.sum(kept) else kept
    return np.flatnonzero(kept).tolist()


@xla_jit
def _scaled_constraints(system: System, q: Vector, t: Scalar) -> Matrix:
    """`A`, scaled so that its numerical rank is meaningful, see `bricard.equations.rank`."""
    matrix = system.constraint_jacobian(q, t)
    units = scales(system.mass_matrix(q, t), matrix, row_variation(system, q, t))
    return matrix * units.columns[None, :] / units.rows[:, None]
