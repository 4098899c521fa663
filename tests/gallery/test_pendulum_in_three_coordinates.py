import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br


@pytest.fixture(scope="module")
def benchmark_run():
    return br.gallery.load("pendulum-xy").simulate()


def test_a01_positions(benchmark_run, reference):
    expected = reference("A01_simple_pendulum")["reference"]
    every_second = benchmark_run.q[::50]
    np.testing.assert_allclose(benchmark_run.t[::50], expected["t"], atol=1e-14)
    np.testing.assert_allclose(every_second, np.stack([expected["x"], expected["y"]], axis=1), rtol=0, atol=1e-8)


def test_a01_energy_and_constraint(benchmark_run):
    assert benchmark_run.t[-1] == 10.0
    assert benchmark_run.energy.drift < 1e-8
    assert benchmark_run.constraint_error.max() < 1e-13


def test_a01_force_in_the_rod(benchmark_run):
    # From the energy: tension = m v²/l + m g cos = 3 m g (depth below the start) / l, counted negative here.
    depth = -np.asarray(benchmark_run.q[:, 1])
    np.testing.assert_allclose(benchmark_run.multipliers[:, 0], -3 * 9.81 * depth, atol=1e-7)


@pytest.fixture(scope="module")
def driven(reference):
    numbers = reference("pendulum")
    p = numbers["params"]
    system = br.gallery.load("pendulum-xyt", m=p["m"], l=p["l"], g=p["g"]).system
    sine, cosine = np.sin(p["theta"]), np.cos(p["theta"])
    q = jnp.array([p["l"] * sine, -p["l"] * cosine, p["theta"]])
    v = p["omega"] * jnp.array([p["l"] * cosine, p["l"] * sine, 1.0])
    return numbers, system, q, v


def test_xyt_matrices(driven, terms, assert_near):
    numbers, system, q, v = driven
    p, here = numbers["params"], terms(system, q, v)
    assert_near(here.mass, np.diag([p["m"], p["m"], p["m"] * p["l"] ** 2 / 3]), 1e-15)
    assert_near(here.matrix, numbers["C"], 1e-15)
    assert_near(here.target, -np.array(numbers["B"]), 1e-15)
    assert np.max(np.abs(here.position)) < 1e-15
    assert np.max(np.abs(here.velocity)) < 1e-15


def test_xyt_acceleration_and_pivot_force(driven, assert_near):
    numbers, system, q, v = driven
    dynamics = br.forward_dynamics(system, q, v, jnp.array([numbers["params"]["tau"]]))
    assert_near(dynamics.acceleration, numbers["acc"], 1e-14)
    assert_near(dynamics.constraint_force, numbers["Qcon"], 1e-14)
    assert_near(dynamics.multipliers, numbers["lambda_eq_fx_fy"], 1e-14)


@pytest.mark.parametrize(("name", "inertia"), [("pendulum", {"J": 0.75**2 / 3}), ("pendulum-xyt", {})])
def test_free_swing_is_the_same_by_the_angle_and_by_all_three(name, inertia, reference):
    expected = reference("pendulum")["free_swing_tau0"]
    run = br.gallery.load(name, l=expected["l"], g=expected["g"], **inertia).simulate(save=[10.0])
    assert abs(float(run["angle"][0]) - expected["theta0"]) == 0.0
    assert abs(float(run["angle"][-1]) - expected["theta"]) < 1e-8
    assert abs(float(run.v[-1, -1]) - expected["omega"]) < 1e-8
