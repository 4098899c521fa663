"""Factorisations of one matrix by LAPACK, safe under `jax.vmap`: a batch is factorised one matrix at a time.

On the CPU, jaxlib 0.10 and 0.11.0 divide a batched call of LAPACK among the threads of XLA and wait for them. The call
itself runs on one of these threads: as soon as every thread waits in such a call, nobody is left to do the work, and
the program never returns. Calls for single matrices run where they are. Traced code therefore uses these functions in
place of those of `jax.numpy.linalg` and `jax.scipy.linalg`; `tests/test_lapack.py` checks that it does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float, Int

from bricard.tracing import for_llvm

Matrix = Float[Array, "m n"]
Square = Float[Array, "n n"]
RightSide = Float[Array, " n *k"]


def one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays, which `vmap` calls in a loop on the CPU; on other devices it is batched as usual.

    It has no derivative in this form: use it inside of `jax.custom_jvp` or `jax.lax.custom_linear_solve`.
    """
    alone: Any = jax.custom_batching.custom_vmap(lambda *arrays: function(*arrays))  # without optional arguments

    @alone.def_vmap
    def batch(size: int, batched: list[bool], *arguments: Any) -> tuple[Any, Any]:
        def in_turn(*arguments: Any) -> Any:
            def call(mapped: list[Any]) -> Any:
                rest = iter(mapped)
                return alone(*(next(rest) if b else x for b, x in zip(batched, arguments, strict=True)))

            return jax.lax.map(call, [x for b, x in zip(batched, arguments, strict=True) if b])

        def together(*arguments: Any) -> Any:
            return jax.vmap(function, in_axes=tuple(0 if b else None for b in batched))(*arguments)

        results = jax.lax.platform_dependent(*arguments, cpu=in_turn, default=together)
        return results, jax.tree.map(lambda _: True, results)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*arguments) if for_llvm() else alone(*arguments)

    return call


_cholesky = one_at_a_time(jnp.linalg.cholesky)


@jax.custom_jvp
def _differentiable_cholesky(matrix: Square) -> Square:
    return _cholesky(matrix)


@_differentiable_cholesky.defjvp
def _cholesky_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (matrix,), (change,) = primals, tangents
    factor = _differentiable_cholesky(matrix)
    change = (change + change.T) / 2.0
    inner = solve_triangular(factor, solve_triangular(factor, change).T)
    return factor, factor @ (jnp.tril(inner) - 0.5 * jnp.diag(jnp.diagonal(inner)))


def cholesky(matrix: Square) -> Square:
    """`L`, lower triangular, of `matrix = L Lᵀ`; NaN if the symmetric matrix is not positive definite."""
    return jnp.linalg.cholesky(matrix) if for_llvm() else _differentiable_cholesky(matrix)


_forward = one_at_a_time(functools.partial(jsl.solve_triangular, lower=True))
_backward = one_at_a_time(functools.partial(jsl.solve_triangular, lower=True, trans=1))


def solve_triangular(factor: Square, x: RightSide, trans: int = 0) -> RightSide:
    """`L⁻¹ x` of a lower triangular `L`, or `L⁻ᵀ x` with `trans=1`; for one right side or several."""
    if for_llvm():
        return jsl.solve_triangular(factor, x, lower=True, trans=trans)
    lower, known = jnp.tril(factor), jax.lax.stop_gradient(factor)
    solves = [lambda _, x: _forward(known, x), lambda _, x: _backward(known, x)]
    matrix, solve, turned = (lower.T, *solves[::-1]) if trans else (lower, *solves)
    return jax.lax.custom_linear_solve(lambda x: matrix @ x, x, solve, turned)


def cho_solve(factor: Square, x: RightSide) -> RightSide:
    """`matrix⁻¹ x`, by the `factor` of `cholesky(matrix)`."""
    return solve_triangular(factor, solve_triangular(factor, x), trans=1)


_lu_factor = one_at_a_time(jsl.lu_factor)
_lu_solve = one_at_a_time(lambda lu, pivots, x: jsl.lu_solve((lu, pivots), x))
_lu_solve_turned = one_at_a_time(lambda lu, pivots, x: jsl.lu_solve((lu, pivots), x, trans=1))


def lu_factor(matrix: Square) -> tuple[Square, Int[Array, " n"]]:
    """The factors of Gaussian elimination, for `lu_solve`; without derivatives."""
    return _lu_factor(jax.lax.stop_gradient(matrix))


def lu_solve(factors: tuple[Square, Int[Array, " n"]], x: RightSide, trans: int = 0) -> RightSide:
    """`matrix⁻¹ x` by the factors of `lu_factor(matrix)`, or `matrix⁻ᵀ x` with `trans=1`; without derivatives."""
    return (_lu_solve_turned if trans else _lu_solve)(*factors, x)


def solve(matrix: Square, x: RightSide) -> RightSide:
    """`matrix⁻¹ x`, for one right side or several."""
    if for_llvm():
        return jnp.linalg.solve(matrix, x)
    factors = lu_factor(matrix)
    return jax.lax.custom_linear_solve(
        lambda x: matrix @ x, x, lambda _, x: lu_solve(factors, x), lambda _, x: lu_solve(factors, x, trans=1)
    )


def inv(matrix: Square) -> Square:
    """`matrix⁻¹`."""
    return solve(matrix, jnp.eye(matrix.shape[0]))


_svd = one_at_a_time(functools.partial(jnp.linalg.svd, full_matrices=False))
_full_svd = one_at_a_time(functools.partial(jnp.linalg.svd, full_matrices=True))
_singular_values = one_at_a_time(functools.partial(jnp.linalg.svd, compute_uv=False))


def svd(matrix: Matrix, full_matrices: bool = False) -> tuple[Array, Array, Array]:
    """`U`, the singular values, largest first, and `Vᵀ`; without derivatives."""
    return (_full_svd if full_matrices else _svd)(jax.lax.stop_gradient(matrix))


@jax.custom_jvp
def singular_values(matrix: Matrix) -> Float[Array, " k"]:
    """Singular values, largest first; differentiable where they differ from each other and from zero."""
    return _singular_values(matrix)


@singular_values.defjvp
def _singular_values_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    u, s, vt = svd(*primals)
    return s, jnp.sum(u * (tangents[0] @ vt.T), axis=0)


_eigh = one_at_a_time(lambda matrix: tuple(jnp.linalg.eigh(matrix)))
_eigvalsh = one_at_a_time(jnp.linalg.eigvalsh)


@jax.custom_jvp
def eigvalsh(matrix: Square) -> Float[Array, " n"]:
    """Eigenvalues of a symmetric matrix, smallest first; differentiable where they differ from each other."""
    return _eigvalsh(matrix)


@eigvalsh.defjvp
def _eigvalsh_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    values, vectors = _eigh(jax.lax.stop_gradient(primals[0]))
    return values, jnp.sum(vectors * (tangents[0] @ vectors), axis=0)


_lstsq = one_at_a_time(lambda matrix, x: jnp.linalg.lstsq(matrix, x)[0])
_pinv = one_at_a_time(jnp.linalg.pinv)


@jax.custom_jvp
def lstsq(matrix: Matrix, x: Float[Array, " m"]) -> Float[Array, " n"]:
    """The least `y` among those with the least `‖matrix y − x‖`; derivatives are those at constant rank."""
    return _lstsq(matrix, x)


@lstsq.defjvp
def _lstsq_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (matrix, x), (change, x_change) = primals, tangents
    y, inverse = lstsq(matrix, x), _pinv(jax.lax.stop_gradient(matrix))
    outside = change.T @ (inverse.T @ y)
    least = inverse @ (inverse.T @ (change.T @ (x - matrix @ y))) + outside - inverse @ (matrix @ outside)
    return y, inverse @ (x_change - change @ y) + least


_det = one_at_a_time(jnp.linalg.det)


def det(matrix: Square) -> Float[Array, ""]:
    """The determinant; without derivatives."""
    return _det(jax.lax.stop_gradient(matrix))


_column_order = one_at_a_time(lambda matrix: jsl.qr(matrix, mode="economic", pivoting=True)[2])


def column_order(matrix: Matrix) -> Int[Array, " n"]:
    """The columns in the order in which a QR factorisation with pivoting takes them: the most independent first."""
    return _column_order(jax.lax.stop_gradient(matrix))
