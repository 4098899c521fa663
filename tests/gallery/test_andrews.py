import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br


@pytest.fixture(scope="module")
def numbers(reference):
    return reference("A03_andrews_squeezer")


@pytest.fixture(scope="module")
def parameters(numbers):
    p = dict(numbers["definition"]["parameters"])
    for letter in ("m", "I"):
        p |= {f"{letter}{i}": x for i, x in enumerate(p.pop(letter), start=1)}
    return p


@pytest.fixture(scope="module")
def run(numbers):
    return br.gallery.load("andrews").simulate(save=numbers["reference_testset"]["t"])


def test_parameters(parameters):
    example = br.gallery.load("andrews")
    assert example.settings["u"][0] == parameters["mom"]
    for name in set(parameters) - {"mom"}:
        assert float(getattr(example.system, name)) == parameters[name], name


def test_mass_matrix_and_forces_are_those_of_the_test_set(parameters, terms, assert_near):
    """Its formulas, written out by hand, against those that follow from the energies."""
    p = parameters
    q = np.array([0.4, -1.3, 0.6, 0.2, 0.5, -0.3, 1.2])
    v = np.array([300.0, -500.0, 90.0, 70.0, -40.0, 60.0, 20.0])
    _, th, ga, ph, _, om, _ = q
    be_, th_, _, ph_, de_, om_, ep_ = v
    da, rr, zt, u, k4, k6 = p["da"], p["rr"], p["zt"], p["u"], p["e"] - p["ea"], p["zf"] - p["fa"]
    m2, m4, m6 = p["m2"], p["m4"], p["m6"]
    mass = np.zeros((7, 7))
    mass[0, 0] = p["m1"] * p["ra"] ** 2 + m2 * (rr**2 - 2 * da * rr * np.cos(th) + da**2) + p["I1"] + p["I2"]
    mass[0, 1] = mass[1, 0] = m2 * (da**2 - da * rr * np.cos(th)) + p["I2"]
    mass[1, 1] = m2 * da**2 + p["I2"]
    mass[2, 2] = p["m3"] * (p["sa"] ** 2 + p["sb"] ** 2) + p["I3"]
    mass[3, 3] = m4 * k4**2 + p["I4"]
    mass[3, 4] = mass[4, 3] = m4 * (k4**2 + zt * k4 * np.sin(ph)) + p["I4"]
    mass[4, 4] = m4 * (zt**2 + 2 * zt * k4 * np.sin(ph) + k4**2) + p["I4"] + p["I5"]
    mass[4, 4] += p["m5"] * (p["ta"] ** 2 + p["tb"] ** 2)
    mass[5, 5] = m6 * k6**2 + p["I6"]
    mass[5, 6] = mass[6, 5] = m6 * (k6**2 - u * k6 * np.sin(om)) + p["I6"]
    mass[6, 6] = m6 * (k6**2 - 2 * u * k6 * np.sin(om) + u**2) + p["I6"] + p["I7"]
    mass[6, 6] += p["m7"] * (p["ua"] ** 2 + p["ub"] ** 2)
    xd = p["sd"] * np.cos(ga) + p["sc"] * np.sin(ga) + p["xb"]
    yd = p["sd"] * np.sin(ga) - p["sc"] * np.cos(ga) + p["yb"]
    span = np.hypot(xd - p["xc"], yd - p["yc"])
    pull = -p["c0"] * (span - p["l0"]) / span
    fx, fy = pull * (xd - p["xc"]), pull * (yd - p["yc"])
    force = np.array(
        [
            -m2 * da * rr * th_ * (th_ + 2 * be_) * np.sin(th),
            m2 * da * rr * be_**2 * np.sin(th),
            fx * (p["sc"] * np.cos(ga) - p["sd"] * np.sin(ga)) + fy * (p["sd"] * np.cos(ga) + p["sc"] * np.sin(ga)),
            m4 * zt * k4 * de_**2 * np.cos(ph),
            -m4 * zt * k4 * ph_ * (ph_ + 2 * de_) * np.cos(ph),
            -m6 * u * k6 * ep_**2 * np.cos(om),
            m6 * u * k6 * om_ * (om_ + 2 * ep_) * np.cos(om),
        ]
    )
    here = terms(br.gallery.load("andrews").system, q, v)
    assert_near(here.mass, mass, 1e-13)
    assert_near(here.bias, -force, 1e-13)


def test_start_of_the_test_set(numbers, assert_near):
    example = br.gallery.load("andrews")
    assert_near(example.q, numbers["definition"]["initial_angles_testset"], 1e-15)
    dynamics = br.forward_dynamics(example.system, example.q, example.v, example.settings["u"])
    # Published with the problem; its multipliers count with the other sign.
    np.testing.assert_allclose(dynamics.acceleration[:2], [14222.4439199541139, -10666.8329399655854], rtol=1e-12)
    np.testing.assert_allclose(dynamics.multipliers[:2], [-98.5668703962410896, 6.12268834425566266], rtol=1e-11)
    assert np.max(np.abs(dynamics.acceleration[2:])) < 1e-7
    assert np.max(np.abs(dynamics.multipliers[2:])) < 1e-9


def test_acceleration_at_the_end(numbers, assert_near):
    expected = numbers["reference_testset"]
    system = br.gallery.load("andrews").system
    q, v = jnp.array(expected["q"][-1]), jnp.array(expected["qdot"][-1])
    got = br.forward_dynamics(system, q, v, jnp.array([0.033])).acceleration
    assert_near(got, expected["qddot_final"], 1e-10)


def test_angles_over_the_run(run, numbers):
    expected = numbers["reference_testset"]
    np.testing.assert_allclose(run.q, expected["q"], rtol=0, atol=1e-8)
    exact = numbers["verification"]["mpmath_30digit_quadrature_q_at_0p03"]
    np.testing.assert_allclose(run.q[-1], exact, rtol=0, atol=1e-8)


def test_velocities_over_the_run(run, numbers, assert_near):
    assert_near(run.v, numbers["reference_testset"]["qdot"], 1e-8)


def test_energy_and_constraints_over_the_run(run):
    assert run.energy.drift < 1e-9
    assert run.constraint_error.position.max() < 1e-16
    assert np.all(run.rank == 6)


def test_start_of_iftomm_a03(numbers, assert_near):
    example = br.gallery.load("andrews", beta=numbers["definition"]["iftomm_beta0"])
    assert_near(example.q, numbers["reference_iftomm"]["q0"], 1e-14)
