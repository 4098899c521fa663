import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br


@pytest.fixture(scope="module")
def state(reference):
    numbers = reference("acroboter")
    return numbers, br.gallery.load("acroboter").system, jnp.array(numbers["q"]), jnp.array(numbers["qd"])


def test_mass_gravity_constraint_and_input_directions(state, terms, assert_near):
    numbers, system, q, v = state
    here = terms(system, q, v)
    assert_near(here.mass, numbers["M"], 1e-14)
    assert_near(here.bias, -np.array(numbers["Qex"]), 1e-14)
    assert_near(here.inputs, numbers["H"], 1e-14)
    assert_near(here.matrix, numbers["Phi"], 1e-14)
    assert_near(here.target, -np.array(numbers["Phidot_qd"]), 1e-13)
    assert np.abs(here.position) < 1e-15
    assert np.abs(here.velocity) < 1e-15


def test_acceleration(state, assert_near):
    numbers, system, q, v = state
    given = numbers["forward_accel_with_u"]
    assert_near(br.forward_dynamics(system, q, v, jnp.array(given["u"])).acceleration, given["qdd"], 1e-14)


def test_cable_forces_at_rest(reference, terms, assert_near):
    example = br.gallery.load("acroboter")
    expected = reference("acroboter")["u_equilibrium"]
    assert_near(example.settings["u"], expected, 1e-14)
    here = terms(example.system, example.q, np.zeros(6))
    inputs, *_ = np.linalg.lstsq(np.concatenate([here.inputs, here.matrix.T], axis=1), np.asarray(here.bias))
    assert_near(inputs[:4], expected, 1e-13)


def test_main_cable_points_to_the_moving_carriage(terms):
    system = br.gallery.load("acroboter", carriage_speed=0.5).system
    q = jnp.array([0.2, -0.8, -0.1, -1.3, 0.4, -1.3])
    main = terms(system, q, np.zeros(6), 1.6).inputs[:, 0]  # The carriage is at (0.8, 0) now.
    np.testing.assert_allclose(main, [0.6, 0.8, 0, 0, 0, 0], rtol=0, atol=1e-15)


def test_run_against_newton_and_euler(solve_ode):
    """Independent: centre and angle of the platform, forces and moments by hand, the carriage moving."""
    mc, mp, l, eta, g, speed = 0.1, 4.0, 0.5, 0.05, 9.81, 0.3
    inertia = 0.8 - mp * 0.25**2  # About the centre.
    u = np.array([40.0, 21.0, 23.0, 0.7])

    def geometry(y):
        along = np.array([np.cos(y[4]), np.sin(y[4])])
        return y[:2], y[2:4] - 0.5 * l * along, y[2:4] + 0.5 * l * along, along

    def rates(t, y):
        connector, left, right, along = geometry(y)
        up = np.array([speed * t, 0.0]) - connector
        to_left, to_right = left - connector, right - connector
        main = u[0] * up / np.linalg.norm(up)
        pull_left = u[1] * to_left / np.linalg.norm(to_left)
        pull_right = u[2] * to_right / np.linalg.norm(to_right)
        weight = np.array([0.0, -g])
        arm = right - y[2:4]
        moment = arm[0] * (pull_left - pull_right)[1] - arm[1] * (pull_left - pull_right)[0] - eta * u[3]
        platform = (u[3] * along - pull_left - pull_right) / mp + weight
        return np.concatenate([y[5:], (main + pull_left + pull_right) / mc + weight, platform, [moment / inertia]])

    start = np.array([0.07, -0.93, 0.03, -1.47, 0.15, 0.3, -0.2, 0.1, 0.25, -0.4])
    _, left, right, along = geometry(start)
    swing = 0.5 * l * start[9] * np.array([-along[1], along[0]])
    q = np.concatenate([start[:2], left, right])
    v = np.concatenate([start[5:7], start[7:9] - swing, start[7:9] + swing])
    times = np.linspace(0.0, 1.0, 5)
    system = br.gallery.load("acroboter", carriage_speed=speed).system
    run = br.simulate(system, q, v, 1.0, u=u, save=times, rtol=1e-12, atol=1e-12)
    expected = [np.concatenate(geometry(y)[:3]) for y in solve_ode(rates, start, times)]
    np.testing.assert_allclose(run.q, expected, rtol=0, atol=1e-9)
