"""A linear solver for the iterations of optimistix and diffrax that is safe under `jax.vmap`; see `bricard.lapack`."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx
import numpy as np
from jaxtyping import Array

from bricard.lapack import one_at_a_time

_lu = one_at_a_time(lambda matrix: tuple(jsl.lu_factor(matrix)))
_qr = one_at_a_time(lambda matrix: tuple(jnp.linalg.qr(matrix)))
_by_lu = one_at_a_time(lambda lu, pivots, x: jsl.lu_solve((lu, pivots), x))
_by_lu_turned = one_at_a_time(lambda lu, pivots, x: jsl.lu_solve((lu, pivots), x, trans=1))
_by_qr = one_at_a_time(lambda q, r, x: jsl.solve_triangular(r, q.T @ x))
_by_qr_turned = one_at_a_time(lambda q, r, x: q @ jsl.solve_triangular(r, x, trans=1))


class _State(eqx.Module):
    """A factorised operator: the factors, and the structure of what it is applied to and of its results."""

    factors: tuple[Array, Array]
    square: bool = eqx.field(static=True)
    turned: bool = eqx.field(static=True)
    inside: Any = eqx.field(static=True)
    outside: Any = eqx.field(static=True)


class DenseSolver(lx.AbstractLinearSolver):
    """Gaussian elimination for square operators, QR for those of full rank with more rows than columns.

    Under `vmap` the factorisations are made one after the other.
    """

    def init(self, operator: Any, options: Any) -> _State:
        """Factorise `operator`."""
        matrix = operator.as_matrix()
        square = matrix.shape[0] == matrix.shape[1]
        structures = [_frozen(x) for x in (operator.in_structure(), operator.out_structure())]
        return _State((_lu if square else _qr)(matrix), square, False, *structures)

    def compute(self, state: _State, vector: Any, options: Any) -> Any:
        """The solution for one right side."""
        right = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(vector)])
        ways = (_by_lu, _by_lu_turned) if state.square else (_by_qr, _by_qr_turned)
        solution = ways[state.turned](*state.factors, right)
        tree, shapes = state.inside
        ends = np.cumsum([int(np.prod(shape)) for shape, _ in shapes])
        parts = [x.reshape(shape) for x, (shape, _) in zip(jnp.split(solution, ends[:-1]), shapes, strict=True)]
        return jax.tree.unflatten(tree, parts), lx.RESULTS.successful, {}

    def transpose(self, state: _State, options: Any) -> Any:
        """The same for the transposed operator."""
        return _State(state.factors, state.square, not state.turned, state.outside, state.inside), {}

    def conj(self, state: _State, options: Any) -> Any:
        """Operators are real."""
        return state, options

    def assume_full_rank(self) -> bool:
        """It assumes so, as `lineax.LU` and `lineax.QR` do."""
        return True

    def allow_dependent_columns(self, operator: Any) -> bool:
        """The same, asked by lineax below 0.1."""
        return operator.out_size() < operator.in_size()

    def allow_dependent_rows(self, operator: Any) -> bool:
        """The same, asked by lineax below 0.1."""
        return operator.out_size() > operator.in_size()


def _frozen(structure: Any) -> Any:
    leaves, tree = jax.tree.flatten(structure)
    return tree, tuple((x.shape, x.dtype) for x in leaves)
