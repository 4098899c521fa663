"""Ways to evaluate a model, and to compare it with independent numbers."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp


@pytest.fixture(scope="session")
def solve_ode():
    """Function `(rates, y0, times)`: states (k, n) at `times`, by SciPy at its tightest."""

    def solve(rates, y0, times):
        span = (times[0], times[-1])
        solution = solve_ivp(rates, span, y0, method="DOP853", t_eval=times, rtol=1e-13, atol=1e-13)
        assert solution.success
        return solution.y.T

    return solve


@pytest.fixture(scope="session")
def assert_near():
    """Function `(got, expected, tolerance)`: largest difference against the largest expected value."""

    def check(got, expected, tolerance):
        got, expected = np.asarray(got), np.asarray(expected)
        assert got.shape == expected.shape
        difference = np.max(np.abs(got - expected))
        assert difference <= tolerance * np.max(np.abs(expected))

    return check


class Terms(NamedTuple):
    """Everything of the descriptor form at one state."""

    mass: jax.Array
    bias: jax.Array
    applied: jax.Array
    inputs: jax.Array
    matrix: jax.Array
    target: jax.Array
    position: jax.Array
    velocity: jax.Array


@pytest.fixture(scope="session")
def terms():
    """Function `(system, q, v, t)`: `Terms`, compiled as a whole (term by term would take far longer)."""

    @eqx.filter_jit
    def evaluate(system, q, v, t):
        return Terms(
            mass=system.mass_matrix(q, t),
            bias=system.bias(q, v, t),
            applied=system.applied_force(q, v, t),
            inputs=system.input_matrix(q, t),
            matrix=system.constraint_jacobian(q, t),
            target=system.constraint_bias(q, v, t),
            position=system.constraints(q, t),
            velocity=system.constraint_rate(q, v, t),
        )

    def at(system, q, v, t=0.0):
        return evaluate(system, *(jnp.asarray(x, dtype=float) for x in (q, v, t)))

    return at
