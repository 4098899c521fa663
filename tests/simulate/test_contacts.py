"""Runs with contacts, against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.errors import ModelError, SimulationError
from bricard.gallery.bouncing_ball import Ball, bouncing_ball, floor_gap

G = 9.81


def kinds(run, kind):
    return [e for e in run.events if e.kind == kind]


# -- a ball -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bounces():
    return bouncing_ball(restitution=0.8).simulate(save=101)


def test_a_ball_bounces_at_the_times_of_the_closed_form(bounces):
    fall, e = np.sqrt(2 / G), 0.8
    times = np.array([x.time for x in kinds(bounces, "impact")])
    exact = fall * (1 + 2 * np.cumsum(np.concatenate([[0], e ** np.arange(1, 20)])))
    np.testing.assert_allclose(times[:20], exact, rtol=0, atol=1e-9)
    impulses = np.array([x.impulse[0] for x in kinds(bounces, "impact")])
    np.testing.assert_allclose(impulses[:20], 1.8 * G * fall * e ** np.arange(20), rtol=0, atol=1e-9)
    lost = np.array([x.energy_lost for x in kinds(bounces, "impact")])
    np.testing.assert_allclose(lost[:20], 0.36 * G * 0.64 ** np.arange(20), rtol=0, atol=1e-9)


def test_infinitely_many_bounces_end_in_time(bounces):
    (rest,) = kinds(bounces, "rest")
    assert abs(rest.time - np.sqrt(2 / G) * 1.8 / 0.2) < 1e-6
    still = np.asarray(bounces.t) > rest.time
    np.testing.assert_array_equal(bounces.q[still], 0.0)
    np.testing.assert_allclose(bounces.contact_force[still][:, 0, 0], G, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(bounces.contact_force[~still], 0.0)
    assert float(bounces.energy.drift) < 1e-9


def test_too_many_events_keep_the_run_so_far():
    example = bouncing_ball(restitution=1.0)
    run = example.simulate(max_events=5, throw=False, save=101)
    assert "infinitely many impacts" in run.status
    assert "floor" in run.status
    assert len(kinds(run, "impact")) == 5
    assert float(run.t[-1]) == pytest.approx(np.sqrt(2 / G) * 11, abs=1e-9)
    assert np.all(np.isfinite(run.q))
    with pytest.raises(SimulationError, match="infinitely many impacts") as caught:
        example.simulate(max_events=5, save=101)
    assert len(caught.value.trajectory.events) == 5


def test_full_restitution_loses_nothing():
    run = bouncing_ball(restitution=1.0).simulate(save=101)
    assert len(kinds(run, "impact")) == 6
    np.testing.assert_allclose(run.energy.total, G, rtol=0, atol=1e-10)


def test_no_restitution_stays_down_at_once():
    run = bouncing_ball(restitution=0.0).simulate(save=101)
    assert [e.kind for e in run.events] == ["impact"]
    assert float(run.q[-1, 0]) == 0.0


def test_a_start_inside_the_floor_is_refused_by_its_depth():
    with pytest.raises(ModelError, match=r"the start penetrates floor by 0\.25"):
        bouncing_ball(height=-0.25).simulate()


def test_a_start_on_the_floor_is_no_event():
    run = bouncing_ball(height=0.0).simulate(save=101)
    assert run.events == ()
    np.testing.assert_array_equal(run.q, 0.0)


# -- grazing ------------------------------------------------------------------------------------------------------


class Particle(br.System):
    """Free in the plane, but for two forces."""

    m: float = 2.0
    g: float = 0.0
    coordinates = ("x", "y")
    inputs = ("fx", "fy")

    def mass_matrix(self, q, t):
        return self.m * jnp.eye(2)

    def potential_energy(self, q, t):
        return self.m * self.g * q[1]

    def input_matrix(self, q, t):
        return jnp.eye(2)


class Disc(eqx.Module):
    """Outside a disc of radius 1 at the origin."""

    radius: jnp.ndarray

    def __call__(self, q, t):
        return jnp.sqrt(q @ q) - self.radius


@pytest.mark.parametrize("depth", [1e-3, 1e-6, 1e-9, -1e-9])
def test_grazing_contacts_are_not_missed(depth):
    """A free flight is one large step; it touches the disc for a small part of it."""
    disc = br.Unilateral(Disc(jnp.asarray(1.0)), restitution=0.5, name="disc")
    run = br.simulate(Particle(), [-4.0, 1.0 - depth], [1.0, 0.0], 10.0, contacts=disc, save=2)
    if depth < 0:
        assert run.events == ()
        return
    hit = run.events[0]
    assert hit.kind == "impact"
    assert hit.time == pytest.approx(4.0 - np.sqrt(1 - (1 - depth) ** 2), abs=1e-7)
    closing = np.sqrt(1 - (1 - depth) ** 2)  # component of the velocity along the normal
    assert hit.impulse[0] == pytest.approx(2.0 * 1.5 * closing, abs=1e-6)


# -- friction -----------------------------------------------------------------------------------------------------


def height(q, t):
    return q[1]


def sliding(q, v, t):
    return v[:1]


def push_and_lift(t):
    """Sideways from 2 s on, upwards from 5 s on, each growing at 4 N/s and 10 N/s."""
    return jnp.stack([4.0 * jnp.clip(t - 2.0, 0.0, 3.0), 10.0 * jnp.maximum(t - 5.0, 0.0)])


@pytest.fixture(scope="module")
def puck():
    floor = br.Unilateral(height, sliding, friction=0.5, name="ice")
    return br.simulate(Particle(g=G), [0.0, 0.0], [-3.0, 0.0], 8.0, u=push_and_lift, contacts=floor, save=161)


def test_a_puck_stops_sticks_slips_and_takes_off(puck):
    stop, slip, lift = 3.0 / (0.5 * G), 2.0 + 0.5 * 2.0 * G / 4.0, 5.0 + 2.0 * G / 10.0
    assert [e.kind for e in puck.events] == ["stick", "slip", "release"]
    np.testing.assert_allclose([e.time for e in puck.events], [stop, slip, lift], rtol=0, atol=1e-9)


def test_friction_brakes_by_its_coefficient(puck):
    t = np.asarray(puck.t)
    before = t < 3.0 / (0.5 * G)
    np.testing.assert_allclose(puck.v[before, 0], -3.0 + 0.5 * G * t[before], rtol=0, atol=1e-9)
    stuck = (t > 0.7) & (t < 4.4)
    np.testing.assert_allclose(puck.v[stuck], 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(puck.contact_force[stuck, 0, 1], -4.0 * np.maximum(t[stuck] - 2, 0), rtol=0, atol=1e-9)
    again = (t > 4.5) & (t < 5.0)
    np.testing.assert_allclose(puck.contact_force[again, 0], [[2 * G, -G]] * again.sum(), rtol=0, atol=1e-9)
    flying = t > 7.0
    np.testing.assert_array_equal(puck.contact_force[flying], 0.0)
    assert np.all(np.asarray(puck.q)[flying, 1] > 0)


def test_the_work_of_friction_is_accounted_for(puck):
    assert float(puck.energy.drift) < 1e-8
    at = np.searchsorted(np.asarray(puck.t), 1.0)
    np.testing.assert_allclose(puck.energy.work_of_forces[at], -0.5 * 2.0 * 9.0, rtol=0, atol=1e-9)


# -- bad input ----------------------------------------------------------------------------------------------------


def test_settings_that_do_not_go_with_contacts():
    floor = br.Unilateral(floor_gap, name="floor")
    with pytest.raises(ModelError, match="dt: a run with contacts chooses its steps"):
        br.simulate(Ball(), [1.0], [0.0], 1.0, contacts=floor, dt=0.1)
    with pytest.raises(ModelError, match="cannot be jitted or differentiated"):
        jax.jit(lambda q: br.simulate(Ball(), q, [0.0], 1.0, contacts=floor).q)(jnp.array([1.0]))
    with pytest.raises(ModelError, match=r"a list of br\.Unilateral, not 3"):
        br.simulate(Ball(), [1.0], [0.0], 1.0, contacts=[3])
    with pytest.raises(ModelError, match="two contacts are called 'floor'"):
        br.simulate(Ball(), [1.0], [0.0], 1.0, contacts=[floor, floor])
    with pytest.raises(ModelError, match="`gap` fails"):
        br.simulate(Ball(), [1.0], [0.0], 1.0, contacts=br.Unilateral(lambda q: q))


def test_contacts_of_points_and_joints_name_what_is_missing():
    with pytest.raises(ModelError, match="Ball is no mechanism"):
        br.joint_limits(Ball())
    with pytest.raises(ModelError, match="needs the mechanism's `system`"):
        br.point_contact("tip")
    with pytest.raises(ModelError, match="normal: a direction"):
        br.point_contact(lambda q, t: q, normal=(0.0, 0.0))
    system = br.gallery.load("four-bar").system
    with pytest.raises(ModelError, match="no sensor called 'tip'; there are coupler point"):
        br.point_contact("tip", system=system)
