import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br


@pytest.fixture(scope="module")
def state(reference):
    numbers = reference("projection")["particle"]
    system = br.gallery.load("particle-on-circle", m=numbers["m"], rho=numbers["rho"]).system
    angle, rate = numbers["theta"], numbers["thetadot"]
    q = numbers["rho"] * jnp.array([np.cos(angle), np.sin(angle)])
    v = numbers["rho"] * rate * jnp.array([-np.sin(angle), np.cos(angle)])
    return numbers, system, q, v


def test_mass_and_constraint(state, terms, assert_near):
    numbers, system, q, v = state
    here = terms(system, q, v)
    assert_near(here.mass, numbers["m"] * np.eye(2), 1e-15)
    inverse = np.linalg.pinv(here.matrix)
    assert_near(np.eye(2) - inverse @ here.matrix, numbers["P"], 1e-14)
    assert_near(inverse @ here.target, numbers["Cqd"], 1e-14)


def test_acceleration_and_force_of_the_circle(state, assert_near):
    numbers, system, q, v = state
    dynamics = br.forward_dynamics(system, q, v, jnp.array(numbers["f"]))
    assert_near(dynamics.acceleration, numbers["qdd"], 1e-14)
    assert_near(dynamics.constraint_force, -np.array(numbers["F"]), 1e-14)


def test_run_against_the_angle_alone(solve_ode, assert_near):
    example = br.gallery.load("particle-on-circle", m=2.0, rho=1.5)
    times = np.linspace(0.0, example.t_end, 11)
    run = example.simulate(save=times, rtol=1e-12, atol=1e-12)
    force = example.settings["u"][1]
    start = np.arctan2(example.q[1], example.q[0]), -np.linalg.norm(example.v) / 1.5
    angle = solve_ode(lambda t, y: [y[1], force * np.cos(y[0]) / (2.0 * 1.5)], start, times)[:, 0]
    assert angle[-1] < start[0] - 2 * np.pi  # It goes round.
    assert_near(run.q, 1.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1), 1e-9)
