"""LAPACK factorisations that are safe under `jax.vmap`: a batch is factorised one matrix at a time.

On the CPU, jaxlib 0.10 and 0.11.0 distribute a batched LAPACK call over the thread pool of XLA and wait for the
result. The call itself runs on one of these threads, so once every thread waits in such a call, the program deadlocks.
Calls for single matrices run in the calling thread. Traced code therefore uses these functions instead of those in
`jax.numpy.linalg` and `jax.scipy.linalg`, which `tests/execution/test_lapack.py` checks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float, Int

from bricard.execution.compile import tracing_for_llvm

Matrix = Float[Array, "m n"]
Square = Float[Array, "n n"]
RightSide = Float[Array, " n *k"]


def one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, which takes arrays, such that `vmap` calls it in a loop on the CPU.

    On other devices it is batched as usual. The result has no derivative: use it inside `jax.custom_jvp` or
    `jax.lax.custom_linear_solve`.
    """
    unbatched: Any = jax.custom_batching.custom_vmap(lambda *arrays: function(*arrays))  # hides optional arguments

    @unbatched.def_vmap
    def batch(size: int, batched: list[bool], *arguments: Any) -> tuple[Any, Any]:
        def sequential(*arguments: Any) -> Any:
            def call(mapped: list[Any]) -> Any:
                rest = iter(mapped)
                return unbatched(*(next(rest) if b else x for b, x in zip(batched, arguments, strict=True)))

            return jax.lax.map(call, [x for b, x in zip(batched, arguments, strict=True) if b])

        def vectorised(*arguments: Any) -> Any:
            return jax.vmap(function, in_axes=tuple(0 if b else None for b in batched))(*arguments)

        results = jax.lax.platform_dependent(*arguments, cpu=sequential, default=vectorised)
        return results, jax.tree.map(lambda _: True, results)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*arguments) if tracing_for_llvm() else unbatched(*arguments)

    return call


_cholesky = one_at_a_time(jnp.linalg.cholesky)


@jax.custom_jvp
def _differentiable_cholesky(matrix: Square) -> Square:
    return _cholesky(matrix)


@_differentiable_cholesky.defjvp
def _cholesky_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (matrix,), (matrix_tangent,) = primals, tangents
    factor = _differentiable_cholesky(matrix)
    matrix_tangent = (matrix_tangent + matrix_tangent.T) / 2.0
    inner = solve_triangular(factor, solve_triangular(factor, matrix_tangent).T)
    return factor, factor @ (jnp.tril(inner) - 0.5 * jnp.diag(jnp.diagonal(inner)))


def cholesky(matrix: Square) -> Square:
    """Lower triangular factor `L` of `matrix = L Lᵀ`; NaN if the symmetric matrix is not positive definite."""
    return jnp.linalg.cholesky(matrix) if tracing_for_llvm() else _differentiable_cholesky(matrix)


_forward = one_at_a_time(functools.partial(jsl.solve_triangular, lower=True))
_backward = one_at_a_time(functools.partial(jsl.solve_triangular, lower=True, trans=1))


def solve_triangular(factor: Square, x: RightSide, trans: int = 0) -> RightSide:
    """`L⁻¹ x` for the lower triangular `L = factor`, or `L⁻ᵀ x` with `trans=1`; `x` has shape (n,) or (n, k)."""
    if tracing_for_llvm():
        return jsl.solve_triangular(factor, x, lower=True, trans=trans)
    lower, constant_factor = jnp.tril(factor), jax.lax.stop_gradient(factor)
    solves = [lambda _, x: _forward(constant_factor, x), lambda _, x: _backward(constant_factor, x)]
    matrix, solve, transposed = (lower.T, *solves[::-1]) if trans else (lower, *solves)
    return jax.lax.custom_linear_solve(lambda x: matrix @ x, x, solve, transposed)


def cho_solve(factor: Square, x: RightSide) -> RightSide:
    """`matrix⁻¹ x`, where `factor = cholesky(matrix)`."""
    return solve_triangular(factor, solve_triangular(factor, x), trans=1)


_lu_factor = one_at_a_time(jsl.lu_factor)
_lu_solve = one_at_a_time(lambda lu, pivots, x: jsl.lu_solve((lu, pivots), x))
_lu_solve_transposed = one_at_a_time(lambda lu, pivots, x: jsl.lu_solve((lu, pivots), x, trans=1))


def lu_factor(matrix: Square) -> tuple[Square, Int[Array, " n"]]:
    """LU factors and pivot indices for `lu_solve`; not differentiable."""
    return _lu_factor(jax.lax.stop_gradient(matrix))


def lu_solve(factors: tuple[Square, Int[Array, " n"]], x: RightSide, trans: int = 0) -> RightSide:
    """`matrix⁻¹ x`, or `matrix⁻ᵀ x` with `trans=1`, where `factors = lu_factor(matrix)`; not differentiable."""
    return (_lu_solve_transposed if trans else _lu_solve)(*factors, x)


def solve(matrix: Square, x: RightSide) -> RightSide:
    """`matrix⁻¹ x`; `x` has shape (n,) or (n, k)."""
    if tracing_for_llvm():
        return jnp.linalg.solve(matrix, x)
    factors = lu_factor(matrix)
    return jax.lax.custom_linear_solve(
        lambda x: matrix @ x, x, lambda _, x: lu_solve(factors, x), lambda _, x: lu_solve(factors, x, trans=1)
    )


def inv(matrix: Square) -> Square:
    """Inverse of a square matrix."""
    return solve(matrix, jnp.eye(matrix.shape[0]))


_svd = one_at_a_time(functools.partial(jnp.linalg.svd, full_matrices=False))
_full_svd = one_at_a_time(functools.partial(jnp.linalg.svd, full_matrices=True))
_singular_values = one_at_a_time(functools.partial(jnp.linalg.svd, compute_uv=False))


def svd(matrix: Matrix, full_matrices: bool = False) -> tuple[Array, Array, Array]:
    """`U`, the singular values in descending order, and `Vᵀ`; not differentiable."""
    return (_full_svd if full_matrices else _svd)(jax.lax.stop_gradient(matrix))


@jax.custom_jvp
def singular_values(matrix: Matrix) -> Float[Array, " k"]:
    """Singular values in descending order; differentiable where they are distinct and nonzero."""
    return _singular_values(matrix)


@singular_values.defjvp
def _singular_values_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    u, s, vt = svd(*primals)
    return s, jnp.sum(u * (tangents[0] @ vt.T), axis=0)


_eigh = one_at_a_time(lambda matrix: tuple(jnp.linalg.eigh(matrix)))
_eigvalsh = one_at_a_time(jnp.linalg.eigvalsh)


@jax.custom_jvp
def eigvalsh(matrix: Square) -> Float[Array, " n"]:
    """Eigenvalues of a symmetric matrix in ascending order; differentiable where they are distinct."""
    return _eigvalsh(matrix)


@eigvalsh.defjvp
def _eigvalsh_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    values, vectors = _eigh(jax.lax.stop_gradient(primals[0]))
    return values, jnp.sum(vectors * (tangents[0] @ vectors), axis=0)


_lstsq = one_at_a_time(lambda matrix, x: jnp.linalg.lstsq(matrix, x)[0])
_pinv = one_at_a_time(jnp.linalg.pinv)


@jax.custom_jvp
def lstsq(matrix: Matrix, x: Float[Array, " m"]) -> Float[Array, " n"]:
    """Minimum-norm least-squares solution `y` of `matrix y = x`; its derivatives assume a constant rank."""
    return _lstsq(matrix, x)


@lstsq.defjvp
def _lstsq_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (matrix, x), (matrix_tangent, x_tangent) = primals, tangents
    y, inverse = lstsq(matrix, x), _pinv(jax.lax.stop_gradient(matrix))
    null_space_part = matrix_tangent.T @ (inverse.T @ y)
    correction = (
        inverse @ (inverse.T @ (matrix_tangent.T @ (x - matrix @ y)))
        + null_space_part
        - inverse @ (matrix @ null_space_part)
    )
    return y, inverse @ (x_tangent - matrix_tangent @ y) + correction


_det = one_at_a_time(jnp.linalg.det)


def det(matrix: Square) -> Float[Array, ""]:
    """Determinant; not differentiable."""
    return _det(jax.lax.stop_gradient(matrix))


_column_order = one_at_a_time(lambda matrix: jsl.qr(matrix, mode="economic", pivoting=True)[2])


def column_order(matrix: Matrix) -> Int[Array, " n"]:
    """Column permutation of a QR factorisation with column pivoting: the most independent columns come first."""
    return _column_order(jax.lax.stop_gradient(matrix))
