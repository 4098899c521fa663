"""Examples with contacts, against what they are known for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import bricard as br
from bricard.gallery.compass_walker import Walker, limit_cycle
from bricard.gallery.rocking_block import rocking_block


def impacts(run):
    return [e for e in run.events if e.kind == "impact"]


@pytest.fixture(scope="module")
def rocking():
    return rocking_block().simulate(save=61)


def test_a_rocking_block_loses_housners_share(rocking):
    """Each impact keeps `(1 − 3/2 sin²α)²` of the energy of rocking (a uniform block)."""
    ratio = (1 - 1.5 * np.sin(float(rocking.system.slenderness)) ** 2) ** 2
    lost = np.array([e.energy_lost for e in impacts(rocking)])
    assert len(lost) > 20
    np.testing.assert_allclose(lost[1:20] / lost[:19], ratio, rtol=0, atol=1e-7)
    start = float(rocking.energy.total[0]) - float(rocking.system.h) * 9.81
    np.testing.assert_allclose(lost[0], start * (1 - ratio), rtol=0, atol=1e-10)


def test_a_rocking_block_takes_housners_time(rocking):
    """A quarter period by quadrature exactly, by Housner's formula for slender blocks nearly."""
    block, tilt = rocking.system, 0.1
    alpha, p2 = float(block.slenderness), 0.75 * 9.81 / float(block.radius)

    def quarter(tilt):
        # θ = tilt − s² takes the singularity out of ∫ dθ / √(2p²(cos(α−θ) − cos(α−tilt)))
        def integrand(s):
            fall = np.cos(alpha - tilt + s**2) - np.cos(alpha - tilt)
            return 2 * s / np.sqrt(2 * p2 * abs(fall)) if s > 0 else 2 / np.sqrt(2 * p2 * np.sin(alpha - tilt))

        return quad(integrand, 0, np.sqrt(tilt), epsabs=1e-13, epsrel=1e-13)[0]

    times = [e.time for e in impacts(rocking)]
    assert abs(times[0] - quarter(tilt)) < 1e-9
    housner = np.arccosh(1 / (1 - tilt / alpha)) / np.sqrt(p2)
    assert abs(times[0] - housner) < 0.01 * housner
    # From one impact to the next it rises to the tilt that its energy allows, and falls again.
    energy = float(rocking.energy.total[0]) - 9.81 * float(block.h) - impacts(rocking)[0].energy_lost
    rise = (float(block.h) + energy / 9.81) / float(block.radius)
    assert abs(times[1] - times[0] - 2 * quarter(alpha - np.arccos(rise))) < 1e-8


def test_a_rocking_block_comes_to_rest(rocking):
    assert rocking.events[-1].kind == "rest"
    assert float(rocking.energy.drift) < 1e-9
    np.testing.assert_allclose(rocking.v[-1], 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.sum(rocking.contact_force[-1], axis=0), [9.81, 0.0], rtol=0, atol=1e-9)


def test_a_block_that_lands_flat_hits_with_both_corners():
    """Two corners that stick: four rows on three degrees of freedom."""
    example = rocking_block()
    run = example.simulate(q=[0.0, 0.7, 0.0], v=[0.0, 0.0, 0.0], t_end=1.0, save=61)
    first = impacts(run)
    assert [e.contact for e in first] == ["left corner", "right corner"]
    np.testing.assert_allclose(
        [e.impulse for e in first], np.sqrt(2 * 9.81 * 0.1) / 2 * np.array([[1, 0], [1, 0]]), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(run.q[-1], [0.0, 0.6, 0.0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.sum(run.contact_force[-1], axis=0), [9.81, 0.0], rtol=0, atol=1e-9)


# -- the walker ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gaits():
    """The stable gait for lighter and lighter feet."""
    return {m: limit_cycle(Walker(foot=m), (0.2002, -0.1999, -0.1841)) for m in (1e-3, 1e-4, 3e-5, 1e-5)}


def without_mass(of, gaits):
    """Extrapolated to massless feet: the cubic through four masses, at zero."""
    masses = np.array(list(gaits))
    weights = [np.prod([other / (other - m) for other in masses if other != m]) for m in masses]
    return sum(w * of(gaits[m]) for w, m in zip(weights, masses, strict=True))


@pytest.mark.slow
def test_gait_with_feet_of_a_thousandth(gaits):
    """The root printed in P. A. Bhounsule's passivewalker.m (2009): M = 1000, m = 1, slope 0.009."""
    angle, rate, swing = gaits[1e-3].state
    published = [0.200161072169750, -0.199906060087682, -0.015805473227965]
    np.testing.assert_allclose([angle, rate, rate - swing], published, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_gait_of_the_simplest_walker(gaits):
    """Garcia and others 1998 (program of the paper): the long gait at slope 0.009."""
    state = without_mass(lambda g: g.state, gaits)
    np.testing.assert_allclose(state[:2], [0.20031090049483, -0.19983247291764], rtol=0, atol=1e-8)
    swing = -0.19983247291764 * np.cos(2 * 0.20031090049483)  # massless feet: by the impact alone
    assert abs(state[2] - swing) < 1e-7


def massless_stride(state):
    """The next (angle, rate) and the time of the step: the equations of the source for massless feet, by SciPy."""

    def rates(t, y):
        theta, phi, dtheta, dphi = y
        pull = np.sin(theta - 0.009)
        return [dtheta, dphi, pull, pull + np.sin(phi) * (dtheta**2 - np.cos(theta - 0.009))]

    def strike(t, y):
        return y[1] - 2 * y[0]

    strike.terminal, strike.direction = True, 1
    theta, dtheta = state
    start = [theta, 2 * theta, dtheta, dtheta * (1 - np.cos(2 * theta))]
    accurate = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
    lifted = solve_ivp(rates, (0, 1), start, **accurate).y[:, -1]
    step = solve_ivp(rates, (1, 6), lifted, events=strike, **accurate)
    period = step.t_events[0][0]
    theta, _, dtheta, _ = solve_ivp(rates, (1, period), lifted, **accurate).y[:, -1]  # sharper than dense output
    return np.array([-theta, np.cos(2 * theta) * dtheta]), period


@pytest.mark.slow
def test_stability_of_the_simplest_walker(gaits):
    """Multipliers of P. A. Bhounsule, Numerical accuracy of two benchmark models of walking (2014), and SciPy's.

    Ours and SciPy's lie 5e-7 from the printed ones, which come from gradients integrated along the step.
    """
    pair = np.sort_complex(without_mass(lambda g: g.multipliers[:2], gaits))
    published = -0.190099639402167 + 1j * np.array([-1, 1]) * 0.557599274284362
    np.testing.assert_allclose(pair, published, rtol=0, atol=1e-6)
    assert all(abs(g.multipliers[2]) < 1e-6 for g in gaits.values())

    state, h = without_mass(lambda g: g.state, gaits)[:2], 5e-5
    after = [[massless_stride(state + k * d)[0] for k in (-2, -1, 1, 2)] for d in h * np.eye(2)]
    slope = np.stack([(8 * (c - b) - (d - a)) / (12 * h) for a, b, c, d in after], axis=1)
    np.testing.assert_allclose(pair, np.sort_complex(np.linalg.eigvals(slope)), rtol=0, atol=2e-7)


@pytest.mark.slow
def test_step_period_of_the_simplest_walker(gaits):
    after, period = massless_stride([0.20031090049483, -0.19983247291764])
    np.testing.assert_allclose(after, [0.20031090049483, -0.19983247291764], rtol=0, atol=1e-9)
    assert abs(without_mass(lambda g: g.period, gaits) - period) < 1e-7


@pytest.mark.slow
def test_the_short_gait_is_unstable():
    """Garcia and others 1998: multipliers 4.00 and 0.459."""
    gait = limit_cycle(Walker(foot=1e-5), (0.1939, -0.2039, -0.1887))
    assert gait.state[0] == pytest.approx(0.19393736960624, abs=1e-4)
    np.testing.assert_allclose(gait.multipliers.real[:2], [4.000, 0.459], rtol=0, atol=1e-2)


@pytest.mark.slow
def test_the_walker_walks():
    run = br.gallery.load("compass-walker").simulate(save=61)
    assert [e.contact for e in impacts(run)] == ["second foot", "first foot", "second foot"]
    assert len([e for e in run.events if e.kind == "release"]) == 3
    gaps = np.diff([e.time for e in impacts(run)])
    np.testing.assert_allclose(gaps, 3.88194, rtol=0, atol=1e-4)
    assert float(run.energy.drift) < 1e-9


# -- the four-bar -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_four_bar_comes_to_rest_at_its_stop():
    example = br.gallery.load("four-bar-stop")
    run = example.simulate(save=61)
    system = example.system
    assert run.events[-1].kind == "rest"
    times = np.array([e.time for e in impacts(run)])
    impulses = np.array([e.impulse[0] for e in impacts(run)])
    np.testing.assert_allclose(impulses[1:6] / impulses[:5], 0.3, rtol=0, atol=2e-2)
    np.testing.assert_allclose(run["D"][run.t > times[-1] + 1e-3], 0.5, rtol=0, atol=1e-12)
    assert float(run.energy.drift) < 1e-9
    assert float(run.constraint_error.max()) < 1e-12
    # Statics by virtual work: along the one motion that the loop allows, torque and weight balance the stop.
    q = run.q[-1]
    motion = np.linalg.svd(np.asarray(system.constraint_jacobian(q, 0.0)))[2][-1]
    torque = np.asarray(system.input_matrix(q, 0.0)) @ [0.5]
    weight = np.asarray(jax.grad(lambda q: system.potential_energy(q, 0.0))(jnp.asarray(q)))
    stop = motion @ (torque - weight) / motion[system.coordinates.index("D")]
    np.testing.assert_allclose(run.contact_force[-1, 0, 0], stop, rtol=0, atol=1e-9)
    with pytest.raises(br.ModelError, match="not known in runs with contacts"):
        _ = run.reactions


@pytest.mark.slow
def test_a_runner_lands_on_the_toe():
    run = br.gallery.load("running").simulate(save=21)
    assert [e.contact for e in run.events[:1]] == ["toe"]
    assert "heel" in [e.contact for e in impacts(run)]
    assert float(run.energy.drift) < 1e-9
    heights = np.asarray(jax.vmap(lambda q: run.system.points(q)[:2, 1])(run.q))
    assert heights.min() > -1e-9
