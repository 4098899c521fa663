import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br


@pytest.fixture(scope="module")
def example():
    return br.gallery.load("sliding-pendulum")


def test_mass_and_forces(example, reference, terms, assert_near):
    numbers = reference("sliding_pendulum")
    x = numbers["state_q_qd"]
    here = terms(example.system, x[:2], x[2:])
    assert_near(here.mass, numbers["M"], 1e-15)
    assert_near(here.bias - here.applied, numbers["c_incl_gravity_damping"], 1e-14)
    assert np.array_equal(here.inputs, [[1.0], [0.0]])


def test_tip(example):
    q = jnp.array([0.2, np.pi / 6])
    np.testing.assert_allclose(example.system.tip(q), [0.2 + 0.45, -0.9 * np.cos(np.pi / 6)], rtol=1e-15)


def test_run_with_a_push_against_scipy(example, solve_ode):
    m1, m2, r, J, b, g, force = 6.35, 0.1, 0.45, 0.00675, 0.002, 9.81, 0.7

    def rates(t, y):
        c, s = np.cos(y[1]), np.sin(y[1])
        mass = [[m1 + m2, m2 * r * c], [m2 * r * c, J + m2 * r**2]]
        right = [force + m2 * r * s * y[3] ** 2, -m2 * g * r * s - b * y[3]]
        return np.concatenate([y[2:], np.linalg.solve(mass, right)])

    times = np.linspace(0.0, 5.0, 6)
    run = example.simulate(u=[force], t_end=5.0, save=times, rtol=1e-12, atol=1e-12)
    expected = solve_ode(rates, np.concatenate([example.q, example.v]), times)
    np.testing.assert_allclose(np.concatenate([run.q, run.v], axis=1), expected, rtol=0, atol=1e-8)
    # The push is all that changes the momentum along the rail; the hinge's friction stays inside.
    momentum = (m1 + m2) * run.v[:, 0] + m2 * r * np.cos(run.q[:, 1]) * run.v[:, 1]
    np.testing.assert_allclose(momentum, force * times, rtol=0, atol=1e-8)
