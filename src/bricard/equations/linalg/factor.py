"""Cholesky factors of symmetric positive definite matrices, in the form that is fastest for their size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bricard.execution.lapack import cholesky, solve_triangular

WRITTEN_OUT = 4
"""Up to this size elimination is written out, step by step; beyond by a loop, which compiles as fast for any size."""

INVERTED = 16
"""Up to this size a factor is inverted once, by our own elimination: a call of LAPACK costs more than its arithmetic,
and keeps XLA from compiling the loop around it as one piece (see `bricard.configure`)."""


class Factor:
    """`L` of `matrix = L Lᵀ`."""

    def __init__(self, matrix: Float[Array, "n n"]):
        self.inverted = matrix.shape[0] <= INVERTED
        self.held = eliminate(matrix) if self.inverted else cholesky(matrix)

    def whiten(self, x: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """`L⁻¹ x`: what has the inertia `matrix` in `x` has unit inertia now."""
        return self.held @ x if self.inverted else solve_triangular(self.held, x)

    def back(self, x: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """`L⁻ᵀ x`."""
        return self.held.T @ x if self.inverted else solve_triangular(self.held, x, trans=1)

    def solve(self, x: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """`matrix⁻¹ x`."""
        return self.back(self.whiten(x))


def eliminate(matrix: Float[Array, "n n *batch"]) -> Float[Array, "n n *batch"]:
    """`L⁻¹`: elimination by rows turns `[matrix | I]` into `[Lᵀ | L⁻¹]`. For a batch at a time."""
    n, batch = matrix.shape[0], matrix.shape[2:]
    unit = jnp.broadcast_to(jnp.eye(n).reshape(n, n, *(1 for _ in batch)), matrix.shape)
    both = jnp.concatenate([matrix, unit], axis=1)
    if n <= WRITTEN_OUT:
        rows = []
        for k in range(n):
            scale = 1.0 / jnp.sqrt(both[k, k])
            row = both[k] * scale[None]
            rows.append(row[n:])
            both = both - (both[:, k] * scale[None])[:, None] * row[None]
        return jnp.stack(rows) if rows else matrix

    def step(k: Int[Array, ""], both: Float[Array, "n n2 *batch"]) -> Float[Array, "n n2 *batch"]:
        scale = 1.0 / jnp.sqrt(both[k, k])
        row = both[k] * scale[None]
        below = (jnp.arange(n) > k).reshape(n, *(1 for _ in batch))
        column = jnp.where(below, both[:, k] * scale[None], 0.0)
        return (both - column[:, None] * row[None]).at[k].set(row)

    return jax.lax.fori_loop(0, n, step, both)[:, n:]
