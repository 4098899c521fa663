"""Every rank decision of bricard, with its one tolerance.

A singular value counts as zero when it is below `RANK_TOLERANCE` times the largest one, or below `RANK_TOLERANCE`
itself. The second part matters where a whole constraint row vanishes, as at a dead point. It needs rows of a known
size: `equilibrate` (problem.py) scales them so that 1 means "as large as this row ever gets nearby".

Derivatives are those at constant rank. They exist at repeated and at dropped singular values, where the derivative of
an SVD does not.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bricard.execution import lapack

RANK_TOLERANCE = 1e-7
"""Singular values below this fraction of the largest are zero. A Gram matrix resolves no less: √(float64 epsilon)."""

DETERMINATE_TOLERANCE = 1e-6
"""A multiplier is determinate if its share in every combination of rows that cancels is below this."""

Matrix = Float[Array, "m n"]


def kept(singular_values: Float[Array, " k"]) -> Bool[Array, " k"]:
    """Which singular values count as nonzero."""
    largest = jnp.max(singular_values, initial=1.0)
    return singular_values > RANK_TOLERANCE * largest


def singular_values(matrix: Matrix) -> Float[Array, " k"]:
    """Singular values, largest first; of an empty matrix, none."""
    if 0 in matrix.shape:
        return jnp.zeros(0)
    return lapack.singular_values(matrix)


def rank(matrix: Matrix) -> Int[Array, ""]:
    """Number of independent rows."""
    return jnp.sum(kept(singular_values(matrix)))


@jax.custom_jvp
def pinv(matrix: Matrix) -> Float[Array, "n m"]:
    """Moore–Penrose inverse, with the derivative at constant rank (Golub and Pereyra)."""
    if 0 in matrix.shape:
        return jnp.zeros(matrix.shape[::-1])
    u, s, vt = lapack.svd(matrix)
    keep = kept(s)
    inverse = jnp.where(keep, 1.0 / jnp.where(keep, s, 1.0), 0.0)
    return (vt.T * inverse[None, :]) @ u.T


@pinv.defjvp
def _pinv_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    p = pinv(a)
    rows, columns = jnp.eye(a.shape[0]), jnp.eye(a.shape[1])
    change = -p @ da @ p + p @ p.T @ da.T @ (rows - a @ p) + (columns - p @ a) @ da.T @ p.T @ p
    return p, change


@jax.custom_jvp
def null_basis(matrix: Matrix) -> Float[Array, "n n"]:
    """Orthonormal basis of the null space in the columns of an (n, n) matrix; the other columns are zero."""
    n = matrix.shape[1]
    if 0 in matrix.shape:
        return jnp.eye(n)
    # All of `vt` is needed, not more: then XLA finds that `pinv` of the same matrix is based on the same SVD.
    _, s, vt = lapack.svd(matrix, full_matrices=matrix.shape[0] < n)
    in_row_space = jnp.zeros(n, dtype=bool).at[: s.shape[0]].set(kept(s))
    return jnp.where(in_row_space[None, :], 0.0, vt.T)


@null_basis.defjvp
def _null_basis_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    basis = null_basis(a)
    # Of all derivatives the one that stays orthogonal to the null space: a basis is only unique up to a rotation.
    return basis, -pinv(a) @ da @ basis


def solve_on_basis(
    matrix: Float[Array, "n n"], rhs: Float[Array, " n"], basis: Float[Array, "n n"]
) -> Float[Array, " n"]:
    """`x = B w` with `Bᵀ matrix B w = Bᵀ rhs`, where zero columns of the basis `B` are left out."""
    unused = jax.lax.stop_gradient(jnp.all(basis == 0.0, axis=0)).astype(basis.dtype)
    return basis @ lapack.solve(basis.T @ matrix @ basis + jnp.diag(unused), basis.T @ rhs)


def row_dependence(matrix: Matrix) -> Float[Array, "m m"]:
    """Projector onto the combinations of rows that cancel, `null(Aᵀ)`; zero if all rows are independent."""
    basis = null_basis(jax.lax.stop_gradient(matrix).T)
    return basis @ basis.T


def determinate(matrix: Matrix) -> Bool[Array, " m"]:
    """Which multipliers the equations determine: those of rows that take part in no dependence."""
    shares = jnp.sqrt(jnp.clip(jnp.diagonal(row_dependence(matrix)), 0.0))
    return shares < DETERMINATE_TOLERANCE


# -- for numbers, outside `jit`: NumPy ---------------------------------------------------------------------------------


class Subspaces(NamedTuple):
    """What a matrix (m, n) of finite numbers keeps and what it does not: orthonormal bases in columns."""

    singular_values: Float[np.ndarray, " k"]
    """Largest first."""
    rank: int
    rows: Float[np.ndarray, "m r"]
    """Combinations of rows that are independent: `rows.T @ matrix` has full rank."""
    idle_rows: Float[np.ndarray, "m _"]
    """Combinations of rows that cancel, the null space of the transpose."""
    null: Float[np.ndarray, "n _"]
    """The null space."""


def subspaces(matrix: Float[np.ndarray, "m n"]) -> Subspaces:
    """Rank, null space and dependent rows at once, by the tolerance above."""
    m, n = matrix.shape
    if 0 in matrix.shape:
        return Subspaces(np.zeros(0), 0, np.zeros((m, 0)), np.eye(m), np.eye(n))
    u, s, vt = np.linalg.svd(matrix)
    r = int(np.sum(s > RANK_TOLERANCE * max(1.0, s[0])))
    return Subspaces(s, r, u[:, :r], u[:, r:], vt[r:].T)


def pseudoinverse(matrix: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n m"]:
    """Moore–Penrose inverse, by the tolerance above."""
    if 0 in matrix.shape:
        return np.zeros(matrix.shape[::-1])
    if not np.all(np.isfinite(matrix)):  # NumPy would raise an error
        return np.full(matrix.shape[::-1], np.nan)
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    r = int(np.sum(s > RANK_TOLERANCE * max(1.0, s[0])))
    return (vt[:r].T / s[:r]) @ u[:, :r].T
