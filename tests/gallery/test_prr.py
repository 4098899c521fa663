import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br


@pytest.fixture(scope="module")
def static(reference):
    numbers = reference("prr")["static"]
    return numbers, jnp.array(numbers["q"]), jnp.array(numbers["qd"])


def test_matrices(static, terms, assert_near):
    numbers, q, v = static
    moving, resting = (terms(br.gallery.load("prr").system, q, x) for x in (v, 0.0 * v))
    assert_near(moving.mass, numbers["M"], 1e-14)
    assert_near(moving.matrix, numbers["A"], 1e-14)
    coriolis, gravity = np.array(numbers["coriolis_Cqd"]), np.array(numbers["gravity_dVdq"])
    assert_near(moving.bias, coriolis + gravity, 1e-14)
    assert_near(resting.bias, gravity, 1e-14)


@pytest.mark.parametrize(("g", "key"), [(0.0, "no_gravity"), (9.81, "gravity")])
def test_acceleration_and_surface_force(static, g, key, assert_near):
    numbers, q, v = static
    dynamics = br.forward_dynamics(br.gallery.load("prr", g=g).system, q, v, jnp.array(numbers["f"]))
    assert_near(dynamics.acceleration, numbers[f"qdd_{key}"], 1e-13)
    assert_near(dynamics.multipliers, [-numbers[f"lambda_{key}"]], 1e-13)


def quasi_velocity_basis(here):
    """Cholesky factor `W`, and `V₂` in the gauge that the reference states."""
    factor = np.linalg.cholesky(here.mass)
    row = np.linalg.solve(factor, here.matrix[0])
    mirror = row / np.linalg.norm(row) + np.eye(3)[0]
    return factor, (np.eye(3) - 2 * np.outer(mirror, mirror) / (mirror @ mirror))[:, 1:]


def test_free_motion(reference, terms):
    expected = reference("prr")["free_motion_no_gravity"]
    system = br.gallery.load("prr", g=0.0).system
    q = jnp.array(expected["q0"])
    factor, basis = quasi_velocity_basis(terms(system, q, np.zeros(3)))
    v = np.linalg.solve(factor.T, basis @ np.array(expected["vr0"]))
    run = br.simulate(system, q, v, expected["t"], save=[expected["t"]])
    np.testing.assert_allclose(run.q[-1], expected["q"], rtol=0, atol=1e-9)
    factor, basis = quasi_velocity_basis(terms(system, run.q[-1], run.v[-1]))
    np.testing.assert_allclose(basis.T @ factor.T @ run.v[-1], expected["vr"], rtol=0, atol=1e-9)


def test_start_is_that_of_the_source(reference):
    np.testing.assert_allclose(br.gallery.load("prr").q, reference("prr")["free_motion_no_gravity"]["q0"], atol=1e-14)
