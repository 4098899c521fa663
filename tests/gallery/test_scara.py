import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations.dynamics import solve
from bricard.equations.problem import Problem

# The source's alpha and beta (0.5 and 200) are our 2 alpha and beta squared.
BAUMGARTE = br.Baumgarte(alpha=0.25, beta=200.0**0.5)


@pytest.fixture(scope="module")
def beside_the_path(reference):
    """The source's start, which misses the path a little."""
    numbers = reference("scara")
    return br.gallery.load("scara").system, jnp.deg2rad(jnp.array(numbers["q0_deg"], float)), jnp.array(numbers["v0"])


def test_matrices_at_the_start(beside_the_path, reference, assert_near):
    system, q, v = beside_the_path
    expected = reference("scara")["t0"]
    assert_near(system.mass_matrix(q, 0.0), expected["M"], 1e-14)
    assert_near(system.bias(q, v, 0.0), -np.array(expected["Q_tau0"]), 1e-14)
    assert_near(system.constraint_matrix(q, 0.0), expected["A"], 1e-14)
    assert_near(system.constraint_acceleration(q, v, 0.0), expected["b"], 1e-14)
    assert_near(system.constraints(q, 0.0), expected["Phi"], 1e-13)
    assert_near(system.constraint_rate(q, v, 0.0), expected["Phidot"], 1e-12)


def test_acceleration_and_torques_at_the_start(beside_the_path, reference, assert_near):
    system, q, v = beside_the_path
    expected = reference("scara")["t0"]
    dynamics = br.forward_dynamics(system, q, v)
    assert_near(dynamics.acceleration, expected["qdd"], 1e-12)
    assert_near(dynamics.constraint_force, expected["Qc"], 1e-12)
    assert_near(dynamics.multipliers, expected["lam"], 1e-12)


def stabilised(system, q, v, t):
    """Dynamics with the acceleration that Baumgarte's method asks for, and that right side."""
    target = system.constraint_acceleration(q, v, t) - 0.5 * system.constraint_rate(q, v, t)
    target = target - 200.0 * system.constraints(q, t)
    force = system.applied_force(q, v, t) - system.bias(q, v, t)
    problem = Problem.from_matrices(system.mass_matrix(q, t), force, system.constraint_matrix(q, t), target)
    return solve(problem, br.Proximal()), target


def test_stabilised_torques_at_the_start(beside_the_path, reference, assert_near):
    expected = reference("scara")["t0_baumgarte"]
    dynamics, target = stabilised(*beside_the_path, 0.0)
    assert_near(target, expected["b_stab"], 1e-12)
    assert_near(dynamics.acceleration, expected["qdd"], 1e-12)
    assert_near(dynamics.constraint_force, expected["Qc"], 1e-12)


TIMES = ("1.0", "5.0", "10.0", "20.0")


@pytest.fixture(scope="module", params=["unstabilised", "baumgarte_0.5_200"])
def long_run(request, beside_the_path, reference):
    expected = reference("scara")[request.param]
    stacked = {key: np.array([expected[t][key] for t in TIMES]) for key in ("q", "v", "Phi", "Qc")}
    run = br.simulate(
        *beside_the_path,
        20.0,
        stabilization=None if request.param == "unstabilised" else BAUMGARTE,
        save=[0.0, *(float(t) for t in TIMES)],
    )
    return request.param, run, stacked


def test_long_run_states(long_run):
    _, run, expected = long_run
    np.testing.assert_allclose(run.q[1:], expected["q"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.v[1:], expected["v"], rtol=0, atol=1e-8)


def test_long_run_errors_on_the_path_have_a_closed_form(long_run):
    kind, run, expected = long_run
    system = run.system
    t = np.asarray(run.t)[:, None]
    start, rate = system.constraints(run.q[0], 0.0), system.constraint_rate(run.q[0], run.v[0], 0.0)
    if kind == "unstabilised":
        closed = start + rate * t
    else:
        swing = np.sqrt(200.0 - 1 / 16)
        closed = np.exp(-t / 4) * (start * np.cos(swing * t) + (rate + start / 4) / swing * np.sin(swing * t))
    off = jax.vmap(system.constraints)(run.q, run.t)
    np.testing.assert_allclose(off, closed, rtol=0, atol=1e-8)
    np.testing.assert_allclose(off[1:], expected["Phi"], rtol=0, atol=1e-8)


def test_long_run_torques(long_run):
    _, run, expected = long_run
    np.testing.assert_allclose(run.constraint_force[1:], expected["Qc"], rtol=0, atol=1e-7)


def test_on_the_path_from_the_start(reference, assert_near):
    expected = reference("scara")["consistent_ic"]
    example = br.gallery.load("scara")
    assert_near(example.q, expected["q0"], 1e-14)
    assert_near(example.v, expected["v0"], 1e-14)
    run = example.simulate(t_end=5.0, save=[float(t) for t in expected["Qc"]])
    np.testing.assert_allclose(run.constraint_force, list(expected["Qc"].values()), rtol=0, atol=1e-10)
    assert run.constraint_error.max() < 1e-14
    assert np.all(run.rank == 4)
