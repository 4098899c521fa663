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


def test_matrices_at_the_start(beside_the_path, reference, terms, assert_near):
    expected = reference("scara")["t0"]
    here = terms(*beside_the_path)
    assert_near(here.mass, expected["M"], 1e-14)
    assert_near(here.bias, -np.array(expected["Q_tau0"]), 1e-14)
    assert_near(here.matrix, expected["A"], 1e-14)
    assert_near(here.target, expected["b"], 1e-14)
    assert_near(here.position, expected["Phi"], 1e-13)
    assert_near(here.velocity, expected["Phidot"], 1e-12)


def test_acceleration_and_torques_at_the_start(beside_the_path, reference, assert_near):
    system, q, v = beside_the_path
    expected = reference("scara")["t0"]
    dynamics = br.forward_dynamics(system, q, v)
    assert_near(dynamics.acceleration, expected["qdd"], 1e-12)
    assert_near(dynamics.constraint_force, expected["Qc"], 1e-12)
    assert_near(dynamics.multipliers, expected["lam"], 1e-12)


def test_stabilised_torques_at_the_start(beside_the_path, reference, terms, assert_near):
    expected = reference("scara")["t0_baumgarte"]
    here = terms(*beside_the_path)
    target = here.target - 0.5 * here.velocity - 200.0 * here.position
    assert_near(target, expected["b_stab"], 1e-12)
    dynamics = solve(Problem.from_matrices(here.mass, -here.bias, here.matrix, target), br.Proximal())
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
        rtol=1e-12,  # the stabilised torque magnifies errors of the path by a stiffness of 200
        atol=1e-12,
    )
    return request.param, run, stacked


def test_long_run_states(long_run):
    _, run, expected = long_run
    np.testing.assert_allclose(run.q[1:], expected["q"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.v[1:], expected["v"], rtol=0, atol=1e-8)


def test_long_run_errors_on_the_path_have_a_closed_form(long_run, terms):
    kind, run, expected = long_run
    along = [terms(run.system, q, v, t) for q, v, t in zip(run.q, run.v, run.t, strict=True)]
    t, start, rate = np.asarray(run.t)[:, None], np.asarray(along[0].position), np.asarray(along[0].velocity)
    if kind == "unstabilised":
        closed = start + rate * t
    else:
        swing = np.sqrt(200.0 - 1 / 16)
        closed = np.exp(-t / 4) * (start * np.cos(swing * t) + (rate + start / 4) / swing * np.sin(swing * t))
    off = np.array([here.position for here in along])
    np.testing.assert_allclose(off, closed, rtol=0, atol=1e-8)
    np.testing.assert_allclose(off[1:], expected["Phi"], rtol=0, atol=1e-8)


def test_long_run_torques(long_run):
    _, run, expected = long_run
    np.testing.assert_allclose(run.constraint_force[1:], expected["Qc"], rtol=0, atol=1e-8)


def test_on_the_path_from_the_start(reference, assert_near):
    expected = reference("scara")["consistent_ic"]
    example = br.gallery.load("scara")
    assert_near(example.q, expected["q0"], 1e-14)
    assert_near(example.v, expected["v0"], 1e-14)
    run = example.simulate(t_end=5.0, save=[float(t) for t in expected["Qc"]])
    np.testing.assert_allclose(run.constraint_force, list(expected["Qc"].values()), rtol=0, atol=1e-10)
    assert run.constraint_error.max() < 1e-14
    assert np.all(run.rank == 4)
