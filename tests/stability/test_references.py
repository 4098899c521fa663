"""Numbers computed independently, from Bencsik's examples, and the nonlinear runs that must follow them."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.control import Periodic, Sampled
from bricard.stability import (
    blended_dynamics,
    delay_margin,
    eigenvalues,
    internal_dynamics,
    period_margin,
    sampled_map,
)

from .loops import HANGING, acroboter, cart_and_tip, platform, platform_by_connector, tip
from .spectra import assert_same


def complexes(pairs):
    return np.array([complex(*x) for x in pairs])


# -- two masses joined by a rod ------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [1.0, 10.0])
def test_two_masses_continuous(a, reference):
    system = br.gallery.load("two-mass-joined").system
    found = eigenvalues(system, [0.0, 1.5], method="sensitivity", a1=a, a2=a)
    assert_same(
        np.concatenate([found.physical, found.spurious]),
        complexes(reference("two_mass")[f"continuous_a{a:.0f}"]),
        1e-12,
    )
    assert len(found.spurious) == 2


def test_two_masses_sampled(reference):
    numbers = reference("two_mass")
    system = br.gallery.load("two-mass-joined", k=0.0, b=0.0).system
    loop = Sampled(PDOnly(), 0.01, delay_samples=1)
    expected = complexes(numbers["sampled_Ts0.01_ODE_eigs_re_im"])
    expected = expected[np.abs(expected) > 1e-12]  # the map in (x, x before) has more zeros
    assert_same(sampled_map(system, [0.0, 1.5], loop).physical, expected, 1e-12)
    full = sampled_map(system, [0.0, 1.5], loop, method="sensitivity", a1=10.0, a2=10.0)
    assert_same(full.physical, expected, 1e-10)
    np.testing.assert_allclose(
        np.sort(np.abs(full.spurious)), np.sort(numbers["spurious_exact_sampled_a10_Ts0.01"]), rtol=0, atol=1e-10
    )


class PDOnly(br.control.Controller):
    """The source's (3.18): the spring and the damper as a digital law."""

    def __call__(self, t, q, v, memory):
        return -q[:1] - v[:1]


# -- pendulum on a cart --------------------------------------------------------------------------------------------


def test_internal_dynamics_of_the_sliding_pendulum(reference):
    numbers = reference("sliding_pendulum")["internal_eigs_re_im"]
    system = br.gallery.load("sliding-pendulum").system
    data = blended_dynamics(system, HANGING, tip, "cart", [float(k) for k in numbers])
    for got, expected in zip(data["eigenvalue"].values, numbers.values(), strict=True):
        assert_same(got, complexes(expected), 1e-8)
    np.testing.assert_allclose(data.attrs["limits"], [2 / 3], rtol=0, atol=1e-8)
    assert list(data["stable"].values) == [True, True, True, False, False]
    assert not internal_dynamics(system, HANGING, tip).minimum_phase


def test_sampled_sliding_pendulum(reference):
    numbers = reference("sliding_pendulum")
    for case in numbers["rho_ZOH_delay1"]:
        system, law = cart_and_tip(case["kappa"], case["KP"], case["KD"])
        assert abs(sampled_map(system, HANGING, Sampled(law, 0.03, 1)).radius - case["rho"]) < 1e-8
    for case in numbers["rho_b0.0002_kappa0.6"]:
        system, law = cart_and_tip(0.6, case["KP"], case["KD"], b=0.0002)
        assert abs(sampled_map(system, HANGING, Sampled(law, 0.03, 1)).radius - case["rho"]) < 1e-8
    for case in numbers["decay_index_periodic"]:
        system, law = cart_and_tip(0.5, case["KP"], case["KD"])
        found = sampled_map(system, HANGING, Sampled(Periodic(law, case["k"], case["l"]), 0.03, 1))
        assert abs(found.decay_index - case["rhobar"]) < 1e-8
        assert found.samples == case["k"] + case["l"]
    system, law = cart_and_tip(0.6, 142.4, 24.6)
    expected = complexes(numbers["eigs_C_kappa0.6_142.4_24.6"])
    assert_same(sampled_map(system, HANGING, Sampled(law, 0.03, 1)).physical, expected[np.abs(expected) > 1e-10], 1e-8)


@pytest.mark.slow
def test_margins_are_where_stability_ends():
    system, law = cart_and_tip(0.6, 115.6, 24.1)
    loop = Sampled(law, 0.03, 1)
    limit = period_margin(system, HANGING, loop)
    radii = [sampled_map(system, HANGING, Sampled(law, limit + d, 1)).radius for d in (-1e-6, 1e-6)]
    assert radii[0] < 1.0 < radii[1]
    assert abs(radii[1] - 1.0) < 1e-3
    most = delay_margin(system, HANGING, loop)
    assert sampled_map(system, HANGING, Sampled(law, 0.03, most)).radius < 1.0
    assert sampled_map(system, HANGING, Sampled(law, 0.03, most + 1)).radius >= 1.0


OFF_REST = 1e-6 * np.array([0.7, -0.4, 0.5, 1.0])
ACCURATE = {"rtol": 1e-11, "atol": 1e-17}


@pytest.mark.slow
def test_a_run_decays_as_its_eigenvalues_say():
    """From 1e-6 off rest, the nonlinear motion is the linear one to 1e-5 of it."""
    system, law = cart_and_tip(0.6, 115.6, 24.1)
    spectrum = eigenvalues(system, HANGING, controller=law)
    times = np.linspace(0.0, 1.0, 6)
    run = br.simulate(system, OFF_REST[:2], OFF_REST[2:], 1.0, controller=law, save=times, **ACCURATE)
    weights = np.linalg.solve(spectrum.vectors, OFF_REST)
    expected = np.real((spectrum.vectors * weights) @ np.exp(spectrum.physical[:, None] * times)).T
    np.testing.assert_allclose(np.hstack([run.q, run.v]), expected, rtol=0, atol=1e-5 * 1e-6)


@pytest.mark.slow
def test_a_sampled_run_decays_as_its_map_says():
    system, law = cart_and_tip(0.6, 115.6, 24.1)
    loop = Sampled(law, 0.03, 1)
    found = sampled_map(system, HANGING, loop)
    first = law(0.0, jnp.asarray(OFF_REST[:2]), jnp.asarray(OFF_REST[2:]), jnp.zeros(0))
    state = np.concatenate([found.spectrum.loop.model.reduce @ OFF_REST, first])
    expected = [OFF_REST]
    for _ in range(12):
        state = found.matrix @ state
        expected.append(found.spectrum.loop.model.embed @ state[:4])
    times = 0.03 * np.arange(13)
    run = br.simulate(system, OFF_REST[:2], OFF_REST[2:], 0.36, controller=loop, save=times, **ACCURATE)
    np.testing.assert_allclose(np.hstack([run.q, run.v]), expected, rtol=0, atol=1e-6 * 1e-6)


# -- a platform on cables ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_acroboter_sampled(reference):
    for case in reference("acroboter")["rho_ZOH_delay1"]:
        example, law = acroboter(case["kappa"], case["KP"], case["KD"])
        assert abs(sampled_map(example.system, example.q, Sampled(law, 0.01, 1)).radius - case["rho"]) < 1e-8


def test_acroboter_periodic(reference):
    for case in reference("acroboter")["decay_index_periodic"]:
        example, law = acroboter(0.5, case["KP"], case["KD"])
        found = sampled_map(example.system, example.q, Sampled(Periodic(law, case["k"], case["l"]), 0.01, 1))
        assert abs(found.decay_index - case["rhobar"]) < 1e-8


def test_acroboter_with_what_belongs_to_no_motion(reference):
    numbers = reference("acroboter")
    example, law = acroboter(0.8, 200.0, 22.0)
    full = sampled_map(example.system, example.q, Sampled(law, 0.01, 1), method="sensitivity", a1=10.0, a2=10.0)
    sizes = np.sort(np.abs(np.concatenate([full.physical, full.spurious])))[::-1]
    np.testing.assert_allclose(sizes[:12], numbers["DAE24_abs_eigs_kappa0.8_200_22_a10"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.sort(np.abs(full.spurious))[::-1], numbers["DAE24_spurious"], rtol=0, atol=1e-8)


def test_internal_dynamics_of_the_acroboter(reference):
    example, omega = br.gallery.load("acroboter"), reference("acroboter")["internal_omega_rad_s"]
    factors, u = [float(k) for k in omega], example.settings["u"]
    data = blended_dynamics(example.system, example.q, platform, platform_by_connector, factors, u=u)
    expected = np.array([[w, w] for w in omega.values()])
    np.testing.assert_allclose(np.abs(data["eigenvalue"].values), expected, rtol=0, atol=1e-8)
