"""Independent numbers to compare with, and ways to make them."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

REFERENCE = Path(__file__).parents[1] / "reference"


@pytest.fixture(scope="session")
def reference():
    """Function: the content of a file in tests/reference, by its name without ending."""

    @functools.cache
    def read(name):
        return json.loads((REFERENCE / f"{name}.json").read_text())

    return read


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
