import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br

PARAMETERS = {"m1": 1.3, "m2": 0.7, "l1": 0.9, "l2": 1.2, "g": 9.81}


def textbook(q, v, m1, m2, l1, l2, g):
    """Accelerations, solved by hand (angles from the downward vertical)."""
    d = q[0] - q[1]
    below = 2 * m1 + m2 - m2 * np.cos(2 * d)
    pull = v[1] ** 2 * l2 + v[0] ** 2 * l1 * np.cos(d)
    upper = -g * (2 * m1 + m2) * np.sin(q[0]) - m2 * g * np.sin(q[0] - 2 * q[1]) - 2 * np.sin(d) * m2 * pull
    push = v[0] ** 2 * l1 * (m1 + m2) + g * (m1 + m2) * np.cos(q[0]) + v[1] ** 2 * l2 * m2 * np.cos(d)
    return np.array([upper / (l1 * below), 2 * np.sin(d) * push / (l2 * below)])


@pytest.fixture(scope="module")
def system():
    return br.gallery.load("double-pendulum", **PARAMETERS).system


def test_mass_matrix(system, terms, assert_near):
    m1, m2, l1, l2, _ = PARAMETERS.values()
    coupling = m2 * l1 * l2 * np.cos(0.4 - 1.9)
    expected = [[(m1 + m2) * l1**2, coupling], [coupling, m2 * l2**2]]
    assert_near(terms(system, [0.4, 1.9], [0.0, 0.0]).mass, expected, 1e-15)


def test_acceleration(system, assert_near):
    q, v = np.array([0.4, 1.9]), np.array([-2.1, 3.3])
    got = br.forward_dynamics(system, jnp.asarray(q), jnp.asarray(v)).acceleration
    assert_near(got, textbook(q, v, **PARAMETERS), 1e-13)


def test_elbow_torque_turns_the_rods_against_each_other(system):
    # Whatever the elbow does, the power it gives is its torque times the rate of the angle between the rods.
    v = jnp.array([0.3, -0.8])
    np.testing.assert_allclose(v @ system.input_matrix(jnp.zeros(2), 0.0), [0.3, -0.8 - 0.3], rtol=1e-15)


def test_small_swings_have_the_textbook_frequencies(terms):
    equal = br.gallery.load("double-pendulum").system
    stiffness = jax.jit(jax.jacfwd(lambda q: equal.bias(q, jnp.zeros(2), 0.0)))(jnp.zeros(2))
    squares = np.linalg.eigvals(np.linalg.solve(terms(equal, [0.0, 0.0], [0.0, 0.0]).mass, stiffness))
    np.testing.assert_allclose(np.sort(squares.real), 9.81 * np.array([2 - 2**0.5, 2 + 2**0.5]), rtol=1e-13)


def test_run_against_scipy(solve_ode, assert_near):
    example = br.gallery.load("double-pendulum", **PARAMETERS)
    times = np.linspace(0.0, 3.0, 7)
    run = example.simulate(t_end=3.0, save=times, rtol=1e-12, atol=1e-12)
    start = np.concatenate([example.q, example.v])
    rates = solve_ode(lambda t, y: np.concatenate([y[2:], textbook(y[:2], y[2:], **PARAMETERS)]), start, times)
    assert_near(np.concatenate([run.q, run.v], axis=1), rates, 1e-8)
