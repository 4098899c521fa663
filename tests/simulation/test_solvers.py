"""The solver for strong dampers: what its coefficients promise."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br

TABLEAU = br.SSPRK104.tableau
A = np.zeros((10, 10))
for i, row in enumerate(TABLEAU.a_lower):
    A[i + 1, : i + 1] = row
C = A.sum(axis=1)
WEIGHTS = TABLEAU.b_sol
EMBEDDED = TABLEAU.b_sol - TABLEAU.b_error

ORDER_CONDITIONS = {
    1: [(np.ones(10), 1)],
    2: [(C, 1 / 2)],
    3: [(C**2, 1 / 3), (A @ C, 1 / 6)],
    4: [(C**3, 1 / 4), (C * (A @ C), 1 / 8), (A @ C**2, 1 / 12), (A @ A @ C, 1 / 24)],
}
"""Butcher's: what weights and elementary weights of each tree must give."""


@pytest.mark.parametrize(("weights", "order"), [(WEIGHTS, 4), (EMBEDDED, 3)], ids=["step", "error estimate"])
def test_order_conditions(weights, order):
    for k in range(1, order + 1):
        for elementary, expected in ORDER_CONDITIONS[k]:
            np.testing.assert_allclose(weights @ elementary, expected, rtol=1e-14)
    assert order == 4 or not all(np.isclose(weights @ e, x) for e, x in ORDER_CONDITIONS[4])


def growth(z):
    """What a step does to `ẏ = λ y`, `z = λ h`."""
    return 1 + z * WEIGHTS @ np.linalg.solve(np.eye(10) - z * A, np.ones(10))


def test_stable_for_fast_decays():
    assert all(abs(growth(-z)) < 1 for z in np.linspace(0.01, 13.9, 1000))
    assert abs(growth(-14.0)) > 1


class Damped(br.System):
    """A mass on a spring, and a damper with a decay of 2000 1/s between it and a second one."""

    coordinates = ("x", "y")

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def potential_energy(self, q, t):
        return 2.0 * q @ q

    def applied_force(self, q, v, t):
        return 1000.0 * (v[0] - v[1]) * jnp.array([-1.0, 1.0])


def test_it_needs_fewer_evaluations_for_the_same_decay():
    """Sum and difference of the coordinates part: an oscillation, and a decay with its slow companion."""
    slow, fast = -1000.0 + np.sqrt(1000.0**2 - 4.0) * np.array([1.0, -1.0])
    evaluations = []
    for solver, stages in ((br.SSPRK104(), 10), (diffrax.Bosh3(), 3)):
        run = br.simulate(Damped(), [1.0, 0.0], [0.0, 0.0], 1.0, save=5, solver=solver, rtol=1e-6, atol=1e-6)
        evaluations.append(stages * int(run.stats["num_steps"]))
        t = np.asarray(run.t)
        apart = (fast * np.exp(slow * t) - slow * np.exp(fast * t)) / (fast - slow)
        np.testing.assert_allclose(run["x"] + run["y"], np.cos(2.0 * t), atol=1e-5)
        np.testing.assert_allclose(run["x"] - run["y"], apart, atol=1e-5)
    assert evaluations[0] < 0.8 * evaluations[1]
