"""Splits an object into its arrays and its static remainder, the key under which compiled programs are cached."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


class _ArrayLeaf:
    """Placeholder for an array among the leaves of an object."""


class Skeleton:
    """Everything of an object except its arrays: hashable, and the same for all objects of one structure."""

    __slots__ = ("_hash", "leaves", "tree")

    def __init__(self, tree: Any, leaves: tuple[Any, ...]):
        self.tree, self.leaves = tree, leaves
        self._hash = hash((tree, leaves))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:  # the usual case, and far cheaper than a comparison of all leaves
            return True
        return isinstance(other, Skeleton) and (self._hash, self.leaves, self.tree) == (
            other._hash,
            other.leaves,
            other.tree,
        )

    def combine(self, arrays: tuple[Any, ...]) -> Any:
        """The object with these arrays."""
        rest = iter(arrays)
        return jax.tree.unflatten(self.tree, [next(rest) if x is _ArrayLeaf else x for x in self.leaves])


def partition(value: Any) -> tuple[Skeleton, tuple[Any, ...]]:
    """Split a pytree into its skeleton and its arrays. Raises `TypeError` if another leaf cannot be hashed."""
    leaves, tree = jax.tree.flatten(value)
    is_array = [isinstance(x, (jax.Array, np.ndarray, np.generic)) for x in leaves]
    arrays = tuple(x for x, held in zip(leaves, is_array, strict=True) if held)
    return Skeleton(tree, tuple(_ArrayLeaf if held else x for x, held in zip(leaves, is_array, strict=True))), arrays
