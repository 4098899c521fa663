"""Numbers computed independently, from Bencsik's examples, and the nonlinear runs that must follow them."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.control import Periodic, Sampled
from bricard.stability import (
    blended_dynamics,
    chart,
    delay_margin,
    eigenvalues,
    internal_dynamics,
    period_margin,
    sampled_map,
    tune,
)

from .loops import HANGING, PD, acroboter, cart_and_tip, platform, platform_by_connector, tip
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
    loop = Sampled(PDOnly(), 0.01, delay=1)
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


def test_runs_decay_as_their_eigenvalues_say():
    """From 1e-6 off rest, the nonlinear motion is the linear one to 1e-5 of it; continuous, then sampled."""
    system, law = cart_and_tip(0.6, 115.6, 24.1)
    start = 1e-6 * np.array([0.7, -0.4, 0.5, 1.0])
    spectrum = eigenvalues(system, HANGING, controller=law)
    times = np.linspace(0.0, 1.0, 6)
    settings = {"rtol": 1e-11, "atol": 1e-17}
    run = br.simulate(system, start[:2], start[2:], 1.0, controller=law, save=times, **settings)
    weights = np.linalg.solve(spectrum.vectors, start)
    expected = np.real((spectrum.vectors * weights) @ np.exp(spectrum.physical[:, None] * times)).T
    np.testing.assert_allclose(np.hstack([run.q, run.v]), expected, rtol=0, atol=1e-5 * 1e-6)

    loop = Sampled(law, 0.03, 1)
    found = sampled_map(system, HANGING, loop)
    first = law(0.0, jnp.asarray(start[:2]), jnp.asarray(start[2:]), jnp.zeros(0))
    state = np.concatenate([found.spectrum.loop.model.reduce @ start, first])
    expected = [start]
    for _ in range(12):
        state = found.matrix @ state
        expected.append(found.spectrum.loop.model.embed @ state[:4])
    run = br.simulate(system, start[:2], start[2:], 0.36, controller=loop, save=0.03 * np.arange(13), **settings)
    np.testing.assert_allclose(np.hstack([run.q, run.v]), expected, rtol=0, atol=1e-5 * 1e-6)


def test_chart_and_tuning_of_the_sliding_pendulum():
    system, law = cart_and_tip(0.6, 100.0, 10.0)
    loop = Sampled(law, 0.03, 1)
    found = chart(system, HANGING, loop, kp=np.linspace(0, 300, 41), kd=np.linspace(0, 40, 31))
    region = found.regions["loop"]
    np.testing.assert_allclose(region.best, [115.61, 24.126], rtol=0, atol=0.01)
    assert abs(region.value - 0.93537) < 1e-5
    assert found.data["value"].dims == ("loop", "kd", "kp")
    for i, j in ((3, 5), (20, 18), (40, 30)):
        point = {"kp": found.data.kp.values[i], "kd": found.data.kd.values[j]}
        _, there = cart_and_tip(0.6, point["kp"], point["kd"])
        radius = sampled_map(system, HANGING, Sampled(there, 0.03, 1)).radius
        assert abs(float(found.data["value"].sel(loop="loop", **point)) - radius) < 1e-10
    assert "stable area" in str(found)
    assert "smaller than the grid's steps of 7.5 by 1.33" in str(found)
    tuned = tune(system, HANGING, loop, kp=(0.0, 300.0), kd=(0.0, 40.0))
    assert abs(tuned.value - region.value) < 1e-7
    assert tuned.stable
    # Of a heavier and a lighter rod the worse one counts; the nominal gains do no better on it.
    others = [br.gallery.load("sliding-pendulum", m2=m).system for m in (0.07, 0.13)]
    robust = tune(system, HANGING, loop, samples=others, kp=(50.0, 200.0), kd=(10.0, 40.0))
    assert robust.value == np.max(robust.values)
    assert robust.value > tuned.value

    # Parameters that the law is not linear in, of the loop and of the system.
    other = chart(system, HANGING, loop, kappa=[0.3, 0.5, 0.6], period=[0.01, 0.03])
    _, there = cart_and_tip(0.5, 100.0, 10.0)
    radius = sampled_map(system, HANGING, Sampled(there, 0.01, 1)).radius
    assert abs(float(other.data["value"].sel(loop="loop", kappa=0.5, period=0.01)) - radius) < 1e-10
    heavy = chart(system, HANGING, loop, m2=[0.1, 0.4], kp=[80.0, 100.0])
    changed, there = cart_and_tip(0.6, 80.0, 10.0, m2=0.4)
    radius = sampled_map(changed, HANGING, Sampled(there, 0.03, 1)).radius
    assert abs(float(heavy.data["value"].sel(loop="loop", m2=0.4, kp=80.0)) - radius) < 1e-10


def test_chart_of_a_continuous_loop_has_a_known_edge():
    """`m s³ + kd s² + kp s + ki` is stable iff `kp kd > m ki` (Hurwitz)."""

    class Cart(br.System):
        coordinates = ("x",)
        m: float = 2.0

        def kinetic_energy(self, q, v, t):
            return 0.5 * self.m * v @ v

        def input_matrix(self, q, t):
            return jnp.ones((1, 1))

    found = chart(Cart(), [0.0], PD(ki=3.123), kp=np.linspace(0.5, 4.0, 15), kd=np.linspace(0.5, 4.0, 14))
    stable = found.data["value"].values[0] < 0.0
    expected = found.data.kp.values[None, :] * found.data.kd.values[:, None] > 2.0 * 3.123
    np.testing.assert_array_equal(stable, expected)
    none = chart(Cart(), [0.0], PD(ki=3.123), kp=[0.1, 0.5], kd=[0.1, 0.5])
    assert "no stable point in this range" in str(none)
    assert none.regions["loop"].area == 0.0
    tuned = tune(Cart(), [0.0], PD(ki=3.123), kp=(0.1, 0.5), kd=(0.1, 0.5))
    assert not tuned.stable
    assert set(tuned.on_edge) == {"kp", "kd"}
    assert "nothing within the bounds is stable" in str(tuned)
    check_bad_charts(Cart())


def check_bad_charts(system):
    grid = np.linspace(1.0, 2.0, 3)
    with pytest.raises(br.ModelError, match="no parameter called 'kq'; there are kd, ki, kp, m"):
        chart(system, [0.0], PD(ki=3.123), kp=grid, kq=grid)
    with pytest.raises(br.ModelError, match="kd: a grid needs at least two points"):
        chart(system, [0.0], PD(ki=3.123), kp=grid, kd=[1.0])
    with pytest.raises(br.ModelError, match="name two parameters"):
        chart(system, [0.0], PD(ki=3.123), kp=grid)
    with pytest.raises(br.ModelError, match="finite and increasing"):
        chart(system, [0.0], PD(ki=3.123), kp=grid, kd=grid[::-1])
    with pytest.raises(br.ModelError, match="a lower and an upper bound"):
        tune(system, [0.0], PD(), kp=(2.0, 1.0))
    with pytest.raises(br.ModelError, match=r"must be Sampled\(controller, period, delay\)"):
        sampled_map(system, [0.0], PD())  # pyright: ignore[reportArgumentType]
    with pytest.raises(br.ModelError, match=r"br\.stability\.sampled_map has its eigenvalues"):
        eigenvalues(system, [0.0], controller=Sampled(PD(), 0.1))


# -- a platform on cables ------------------------------------------------------------------------------------------


def test_acroboter(reference):
    numbers = reference("acroboter")
    for case in numbers["rho_ZOH_delay1"]:
        example, law = acroboter(case["kappa"], case["KP"], case["KD"])
        assert abs(sampled_map(example.system, example.q, Sampled(law, 0.01, 1)).radius - case["rho"]) < 1e-8
    for case in numbers["decay_index_periodic"]:
        example, law = acroboter(0.5, case["KP"], case["KD"])
        found = sampled_map(example.system, example.q, Sampled(Periodic(law, case["k"], case["l"]), 0.01, 1))
        assert abs(found.decay_index - case["rhobar"]) < 1e-8
    example, law = acroboter(0.8, 200.0, 22.0)
    full = sampled_map(example.system, example.q, Sampled(law, 0.01, 1), method="sensitivity", a1=10.0, a2=10.0)
    sizes = np.sort(np.abs(np.concatenate([full.physical, full.spurious])))[::-1]
    np.testing.assert_allclose(sizes[:12], numbers["DAE24_abs_eigs_kappa0.8_200_22_a10"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.sort(np.abs(full.spurious))[::-1], numbers["DAE24_spurious"], rtol=0, atol=1e-8)
    omega = numbers["internal_omega_rad_s"]
    factors = [float(k) for k in omega]
    data = blended_dynamics(
        example.system, example.q, platform, platform_by_connector, factors, u=example.settings["u"]
    )
    np.testing.assert_allclose(
        np.abs(data["eigenvalue"].values), np.array([[w, w] for w in omega.values()]), rtol=0, atol=1e-8
    )
