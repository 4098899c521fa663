"""Cholesky factors of every size, against LAPACK."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bricard.equations.linalg.factor import Factor, eliminate

SIZES = [1, 3, 4, 5, 9, 16, 17]
"""Written out, in a loop, by LAPACK."""


def definite(n, seed=0):
    a = np.random.default_rng(seed).normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


@pytest.mark.parametrize("n", SIZES)
def test_factor(n):
    matrix, x = definite(n), jnp.asarray(np.random.default_rng(1).normal(size=(n, 3)))
    factor, root = Factor(jnp.asarray(matrix)), np.linalg.cholesky(matrix)
    for found, expected in (
        (factor.whiten(x), np.linalg.solve(root, x)),
        (factor.back(x), np.linalg.solve(root.T, x)),
        (factor.solve(x[:, 0]), np.linalg.solve(matrix, x[:, 0])),
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [3, 6])
def test_many_at_a_time(n):
    matrices = np.stack([definite(n, seed) for seed in range(5)], axis=2)
    found = eliminate(jnp.asarray(matrices))
    for k in range(5):
        expected = np.linalg.inv(np.linalg.cholesky(matrices[:, :, k]))
        np.testing.assert_allclose(found[:, :, k], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [3, 6, 17])
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_derivative(n, mode):
    """`d(A⁻¹x) = −A⁻¹ dA A⁻¹x`."""
    matrix, change, x = definite(n), definite(n, 2), np.ones(n)
    found = mode(lambda s: Factor(jnp.asarray(matrix) + s * change).solve(jnp.asarray(x)))(0.0)
    expected = -np.linalg.solve(matrix, change @ np.linalg.solve(matrix, x))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
