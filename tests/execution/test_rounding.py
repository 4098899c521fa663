"""Sizes of the terms behind a number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bricard.execution.rounding import linear_term_sizes, term_sizes

EPSILON = np.finfo(float).eps


@pytest.mark.parametrize(
    "cancelling",
    [
        lambda x: (0.1 * x[0] + 0.2 * x[0]) - 0.3 * x[0],
        lambda x: jnp.sin(x[0]) ** 2 + jnp.cos(x[0]) ** 2 - 1.0,
        lambda x: jnp.sqrt(x[0] ** 2 + x[1] ** 2) ** 2 - x[0] ** 2 - x[1] ** 2,
        lambda x: jnp.dot(x, jnp.array([[0.1, 0.7], [0.3, -0.2]]) @ x) - x @ (jnp.array([[0.1, 0.7], [0.3, -0.2]]) @ x),
        lambda x: jnp.sin(x[0] + x[1]) - jnp.sin(x[0]) * jnp.cos(x[1]) - jnp.cos(x[0]) * jnp.sin(x[1]),
        lambda x: jnp.arctan2(jnp.sin(x[0]), jnp.cos(x[0])) - x[0],
        lambda x: jnp.exp(x[0] + x[1]) / jnp.exp(x[1]) - jnp.exp(x[0]),
        lambda x: jax.jit(lambda y: y * (1.0 + x[1]))(x[0]) - x[0] - x[0] * x[1],
    ],
)
def test_what_cancels_is_small_against_its_terms(cancelling):
    rng = np.random.default_rng(1)
    for x in rng.uniform(-1.5, 1.5, (20, 2)):
        x = jnp.asarray(x)
        slope = linear_term_sizes(lambda w, x: jax.jvp(cancelling, (x,), (w,))[1][None], 2, x)[0]
        for value, size in (
            (cancelling(x), term_sizes(cancelling, x)),
            (jax.jacfwd(cancelling)(x), slope),
        ):
            assert np.all(np.abs(value) <= 100 * EPSILON * size)
            assert np.max(size) > 0.05


@pytest.mark.parametrize(
    "function",
    [lambda x: x[0] * x[1], lambda x: jnp.sin(x) @ jnp.cos(x), lambda x: jnp.linalg.norm(x) - 3.0, lambda x: x[0] ** 3],
)
def test_what_does_not_cancel_has_the_size_of_its_terms(function):
    for x in np.random.default_rng(2).uniform(0.3, 2.0, (20, 2)):
        value, size = float(function(jnp.asarray(x))), float(term_sizes(function, jnp.asarray(x)))
        assert abs(value) <= size < 100 * (abs(value) + 1.0)


def test_operations_without_a_rule_count_by_their_value():
    x = jnp.array([0.3, 0.4])

    def loop(x):
        return jax.lax.fori_loop(0, 3, lambda _, y: y * x, x)

    np.testing.assert_allclose(term_sizes(loop, x), np.abs(loop(x)))
