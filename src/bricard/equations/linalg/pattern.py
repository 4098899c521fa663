"""Matrices with few entries: where they are, and how to find them with few derivatives."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


class Pattern:
    """Where an (m, n) matrix may differ from zero. Its entries are kept in a list, row by row."""

    def __init__(self, mask: Bool[np.ndarray, "m n"]):
        self.mask = mask
        self.rows, self.columns = np.nonzero(mask)
        self.colour = _colours(mask)
        self.seeds = np.eye(int(self.colour.max(initial=-1)) + 1)[:, self.colour]
        """(c, n): sums of columns that share no row, so that a product with it shows all their entries."""
        self._by_row = index_lists(self.rows, mask.shape[0])
        self._by_column = index_lists(self.columns, mask.shape[1])

    def entries(self, products: Float[Array, "c m"]) -> Float[Array, " k"]:
        """The entries of a matrix, from its products with `seeds`."""
        return products[self.colour[self.columns], self.rows]

    def times(self, entries: Float[Array, " k"], x: Float[Array, " n"]) -> Float[Array, " m"]:
        """The matrix times `x`."""
        return sums(entries * pick(x, self.columns), self._by_row)

    def transposed_times(self, entries: Float[Array, " k"], x: Float[Array, " m"]) -> Float[Array, " n"]:
        """Its transpose times `x`."""
        return sums(entries * pick(x, self.rows), self._by_column)

    def row_sums(self, entries: Float[Array, " k"]) -> Float[Array, " m"]:
        """Sum of the entries of each row."""
        return sums(entries, self._by_row)


def index_lists(keys: np.ndarray, count: int) -> np.ndarray:
    """(count, longest): the places of each of 0 … count − 1 in `keys`, filled up with the number of keys."""
    lists: list[list[int]] = [[] for _ in range(count)]
    for place, key in enumerate(keys.tolist()):
        lists[key].append(place)
    longest = max(map(len, lists), default=0)
    return np.array([x + [keys.size] * (longest - len(x)) for x in lists], dtype=int).reshape(count, longest)


def sums(values: Float[Array, " k"], lists: np.ndarray) -> Float[Array, " r"]:
    """The sum of the values that each of `lists` names."""
    return jnp.sum(pick(jnp.concatenate([values, jnp.zeros(1)]), lists), axis=1)


def pick(values: Float[Array, " k"], where: np.ndarray) -> Array:
    """`values[where]` for places that are known to be there: without a check, and twice as fast."""
    return values.at[where.astype(np.int32)].get(mode="promise_in_bounds")


def sharing(mask: Bool[np.ndarray, "m n"]) -> Bool[np.ndarray, "n n"]:
    """Which columns have a row in common."""
    from scipy.sparse import csr_matrix  # takes a fifth of a second, which small systems need not wait for

    entries = csr_matrix(mask.astype(np.int32))
    return (entries.T @ entries).toarray() > 0


def _colours(mask: Bool[np.ndarray, "m n"]) -> np.ndarray:
    """(n,): a colour for each column, so that columns of one colour share no row; greedy, which is good on bands."""
    shared = sharing(mask)
    colour = np.full(mask.shape[1], -1)
    for j in range(mask.shape[1]):
        taken: Sequence[int] = np.unique(colour[:j][shared[j, :j]]).tolist()
        colour[j] = next(c for c in range(len(taken) + 1) if c not in taken)
    return colour
