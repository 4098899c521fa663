"""Cholesky factors of symmetric positive definite matrices, in the form that is fastest for their size."""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

WRITTEN_OUT = 4
"""Up to this size a factorisation is written out: a call of LAPACK costs more than the arithmetic, and in a batch the
arithmetic is done for many matrices at a time."""

INVERTED = 16
"""Up to this size a factor is inverted once: a product costs less than the call that a triangular solve is."""


class Factor:
    """`L` of `matrix = L Lᵀ`."""

    def __init__(self, matrix: Float[Array, "n n"]):
        n = matrix.shape[0]
        self.inverted = n <= INVERTED
        if n <= WRITTEN_OUT:
            self.held = eliminate(matrix)
        else:
            self.held = jnp.linalg.cholesky(matrix)
            if self.inverted:
                self.held = solve_triangular(self.held, jnp.eye(n), lower=True)

    def whiten(self, x: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """`L⁻¹ x`: what has the inertia `matrix` in `x` has unit inertia now."""
        return self.held @ x if self.inverted else solve_triangular(self.held, x, lower=True)

    def back(self, x: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """`L⁻ᵀ x`."""
        return self.held.T @ x if self.inverted else solve_triangular(self.held, x, lower=True, trans=1)

    def solve(self, x: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """`matrix⁻¹ x`."""
        return self.back(self.whiten(x))


def eliminate(matrix: Float[Array, "n n *batch"]) -> Float[Array, "n n *batch"]:
    """`L⁻¹`, written out: elimination by rows turns `[matrix | I]` into `[Lᵀ | L⁻¹]`. For a batch at a time."""
    n, batch = matrix.shape[0], matrix.shape[2:]
    unit = jnp.broadcast_to(jnp.eye(n).reshape(n, n, *(1 for _ in batch)), matrix.shape)
    both = jnp.concatenate([matrix, unit], axis=1)
    rows = []
    for k in range(n):
        scale = 1.0 / jnp.sqrt(both[k, k])
        row = both[k] * scale[None]
        rows.append(row[n:])
        both = both - (both[:, k] * scale[None])[:, None] * row[None]
    return jnp.stack(rows) if rows else matrix
