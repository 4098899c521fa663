"""A linear solver for the iterations of optimistix and diffrax that is safe under `jax.vmap`.

`bricard.execution.lapack` explains why batched factorisations are unsafe.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx
import numpy as np
from jaxtyping import Array

from bricard.execution.lapack import one_at_a_time

_lu = one_at_a_time(lambda matrix: tuple(jsl.lu_factor(matrix)))
_qr = one_at_a_time(lambda matrix: tuple(jnp.linalg.qr(matrix)))
_solve_lu = one_at_a_time(lambda lu, pivots, x: jsl.lu_solve((lu, pivots), x))
_solve_lu_transposed = one_at_a_time(lambda lu, pivots, x: jsl.lu_solve((lu, pivots), x, trans=1))
_solve_qr = one_at_a_time(lambda q, r, x: jsl.solve_triangular(r, q.T @ x))
_solve_qr_transposed = one_at_a_time(lambda q, r, x: q @ jsl.solve_triangular(r, x, trans=1))


class _State(eqx.Module):
    """A factorised operator: its factors, and the pytree structures of its input and output."""

    factors: tuple[Array, Array]
    square: bool = eqx.field(static=True)
    transposed: bool = eqx.field(static=True)
    in_structure: Any = eqx.field(static=True)
    out_structure: Any = eqx.field(static=True)


class DenseSolver(lx.AbstractLinearSolver):
    """LU decomposition for square operators, QR for operators of full rank with more rows than columns.

    Under `vmap` the operators are factorised one after the other.
    """

    def init(self, operator: Any, options: Any) -> _State:
        """Factorise `operator`."""
        matrix = operator.as_matrix()
        square = matrix.shape[0] == matrix.shape[1]
        structures = [_hashable(x) for x in (operator.in_structure(), operator.out_structure())]
        return _State((_lu if square else _qr)(matrix), square, False, *structures)

    def compute(self, state: _State, vector: Any, options: Any) -> Any:
        """The solution for one right-hand side."""
        right = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(vector)])
        solvers = (_solve_lu, _solve_lu_transposed) if state.square else (_solve_qr, _solve_qr_transposed)
        solution = solvers[state.transposed](*state.factors, right)
        tree, shapes = state.in_structure
        ends = np.cumsum([int(np.prod(shape)) for shape, _ in shapes])
        parts = [x.reshape(shape) for x, (shape, _) in zip(jnp.split(solution, ends[:-1]), shapes, strict=True)]
        return jax.tree.unflatten(tree, parts), lx.RESULTS.successful, {}

    def transpose(self, state: _State, options: Any) -> Any:
        """The factorised transpose."""
        return _State(state.factors, state.square, not state.transposed, state.out_structure, state.in_structure), {}

    def conj(self, state: _State, options: Any) -> Any:
        """The state itself, since operators are real."""
        return state, options

    def assume_full_rank(self) -> bool:
        """True: operators must have full rank, as for `lineax.LU` and `lineax.QR`."""
        return True

    def allow_dependent_columns(self, operator: Any) -> bool:
        """The equivalent of `assume_full_rank` in lineax below 0.1."""
        return operator.out_size() < operator.in_size()

    def allow_dependent_rows(self, operator: Any) -> bool:
        """The equivalent of `assume_full_rank` in lineax below 0.1."""
        return operator.out_size() > operator.in_size()


def _hashable(structure: Any) -> Any:
    leaves, tree = jax.tree.flatten(structure)
    return tree, tuple((x.shape, x.dtype) for x in leaves)
