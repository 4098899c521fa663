"""Lemke's method for linear complementarity: find `z ≥ 0` with `M z + q ≥ 0` and `z ⟂ M z + q`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

PIVOT = 1e-11
"""Entries below this do not limit a pivot step."""
JITTER = 1e-11
"""Relative change of `q` that makes ties unlikely; ties can make the pivots go in circles."""


def lemke(matrix: Float[Array, "n n"], q: Float[Array, " n"]) -> Float[Array, " n"]:
    """A solution `z`, to about the accuracy of `JITTER`; for copositive matrices and a solvable problem it ends at one.

    The best there is, not a solution, if the method ends on a ray: check the result.
    """
    n = q.shape[0]
    size = jnp.max(jnp.abs(q), initial=0.0)
    q = q + JITTER * size * jnp.sqrt(jnp.arange(1.0, n + 1.0))
    # Columns: w (n), z (n), the artificial variable z0, the right side.
    tableau = jnp.concatenate([jnp.eye(n), -matrix, -jnp.ones((n, 1)), q[:, None]], axis=1)

    def pivot(tableau: Array, row: Array, column: Array) -> Array:
        line = tableau[row] / tableau[row, column]
        return (tableau - tableau[:, column][:, None] * line[None, :]).at[row].set(line)

    def going_on(state) -> Array:
        *_, done, i = state
        return ~done & (i < 50 * n)

    def step(state):
        tableau, basis, entering, _, i = state
        column = tableau[:, entering]
        ratios = jnp.where(column > PIVOT, tableau[:, -1] / jnp.where(column > PIVOT, column, 1.0), jnp.inf)
        # The artificial variable leaves as soon as it can.
        ratios = jnp.where((basis == 2 * n) & (ratios <= jnp.min(ratios) * (1.0 + 1e-12)), -jnp.inf, ratios)
        row = jnp.argmin(ratios)
        on_ray = jnp.isposinf(ratios[row])
        leaving = basis[row]
        after = jnp.where(on_ray, tableau, pivot(tableau, row, entering))
        basis = jnp.where(on_ray, basis, basis.at[row].set(entering))
        complement = jnp.where(leaving < n, leaving + n, leaving - n)
        return after, basis, complement, on_ray | (leaving == 2 * n), i + 1

    worst = jnp.argmin(q)
    basis = jnp.arange(n).at[worst].set(2 * n)
    start = (pivot(tableau, worst, jnp.asarray(2 * n)), basis, worst + n, jnp.zeros((), dtype=bool), jnp.zeros((), int))
    trivial = jnp.min(q) >= 0.0
    tableau, basis, *_ = jax.lax.while_loop(lambda s: ~trivial & going_on(s), step, start)
    values = jnp.zeros(2 * n + 1).at[basis].set(tableau[:, -1])
    return jnp.where(trivial, 0.0, values[n : 2 * n])
