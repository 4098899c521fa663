"""Symmetric positive definite matrices made of a diagonal of blocks and its neighbours, solved by odd-even elimination.

Every second block is eliminated at the same time, which leaves a matrix of the same kind and half the size: about
log₂ rounds, each of them arithmetic on long vectors, instead of one block after the other.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.linalg.factor import eliminate


class Band:
    """A factorised matrix of `k = 2^p − 1` blocks of size `b`; the number of the block comes last in every array."""

    def __init__(self, diagonal: Float[Array, "b b k"], below: Float[Array, "b b k_1"]):
        """`below[..., i]` is the block in row `i + 1` and column `i`."""
        self.roots, self.left, self.right = [], [], []
        while True:
            root = eliminate(diagonal[:, :, 0::2])
            self.roots.append(root)
            if diagonal.shape[2] == 1:
                return
            # What an eliminated block has to do with the kept ones on its left and right.
            left = _product(root[:, :, 1:], below[:, :, 1::2])
            right = _product(root[:, :, :-1], jnp.swapaxes(below[:, :, 0::2], 0, 1))
            self.left.append(left)
            self.right.append(right)
            diagonal = diagonal[:, :, 1::2] - _product(_turned(right), right) - _product(_turned(left), left)
            below = -_product(_turned(right[:, :, 1:]), left[:, :, :-1])

    def solve(self, x: Float[Array, "b k"]) -> Float[Array, "b k"]:
        """The matrix' inverse times `x`."""
        done = []
        for root, left, right in zip(self.roots, self.left, self.right, strict=False):
            y = _times(root, x[:, 0::2])
            done.append(y)
            x = x[:, 1::2] - _times(_turned(right), y[:, :-1]) - _times(_turned(left), y[:, 1:])
        x = _times(_turned(self.roots[-1]), _times(self.roots[-1], x))
        for level in reversed(range(len(done))):
            zero = jnp.zeros((x.shape[0], 1))
            right = jnp.concatenate([_times(self.right[level], x), zero], axis=1)
            left = jnp.concatenate([zero, _times(self.left[level], x)], axis=1)
            eliminated = _times(_turned(self.roots[level]), done[level] - left - right)
            pairs = jnp.stack([eliminated[:, :-1], x], axis=2).reshape(x.shape[0], -1)
            x = jnp.concatenate([pairs, eliminated[:, -1:]], axis=1)
        return x


def _turned(x: Float[Array, "a b k"]) -> Float[Array, "b a k"]:
    return jnp.swapaxes(x, 0, 1)


def _product(x: Float[Array, "a b k"], y: Float[Array, "b c k"]) -> Float[Array, "a c k"]:
    return jnp.sum(x[:, :, None, :] * y[None, :, :, :], axis=1)


def _times(x: Float[Array, "a b k"], y: Float[Array, "b k"]) -> Float[Array, "a k"]:
    return jnp.sum(x * y[None, :, :], axis=1)
