"""Runs with contacts, against closed forms."""

import os
import signal
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk

import bricard as br
from bricard.contact import event_loop as events
from bricard.errors import ModelError, SimulationError, SimulationInterrupted
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


def test_progress_is_one_bar_over_all_bounces(capsys):
    example = bouncing_ball(restitution=0.8)
    run = example.simulate(save=101, progress=True)
    jax.effects_barrier()
    shown = [float(line.rstrip("%")) for line in capsys.readouterr().out.splitlines()]
    assert len(kinds(run, "impact")) > 20
    assert shown == sorted(shown)
    assert shown[0] == 0.0
    assert shown[-1] == 100.0
    assert shown.count(0.0) == shown.count(100.0) == 1
    assert len(shown) > 5


def test_an_interrupted_run_keeps_what_it_has(monkeypatch):
    """Ctrl-C between two segments, after three bounces."""
    handle, calls = events._Run.handle, []

    def interrupted(self, progress):
        calls.append(float(progress.t))
        if len(calls) == 5:  # the start, three bounces, and the fourth
            raise KeyboardInterrupt
        return handle(self, progress)

    monkeypatch.setattr(events._Run, "handle", interrupted)
    with pytest.raises(SimulationInterrupted, match=r"Ball: interrupted at t = ") as caught:
        bouncing_ball(restitution=0.8).simulate(save=101)
    run = caught.value.trajectory
    assert caught.value.t == calls[-1] == float(run.t[-1])
    assert len(run.events) == 3
    assert run.status.startswith("interrupted")
    assert np.all(np.isfinite(run.q))
    assert float(np.min(run.q)) > -1e-9
    assert np.all(np.isfinite(run.contact_force))


def test_ctrl_c_stops_a_long_run(bounces):
    """A ball that would bounce for a day; its program is compiled already."""
    timer = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(SimulationInterrupted) as caught:
        bouncing_ball(restitution=1.0).simulate(t_end=86400.0, save=101, max_events=10**9)
    assert 0.0 < caught.value.t < 86400.0
    assert len(caught.value.trajectory.events) > 0


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


class Surface(eqx.Module):
    """The ground, or outside a disc at the origin if its radius is positive."""

    radius: jnp.ndarray

    def __call__(self, q, t):
        round = self.radius > 0.0
        return jnp.where(round, jnp.sqrt(jnp.where(round, q @ q, 1.0)) - self.radius, q[1])


class PushAndLift(eqx.Module):
    """Sideways from 2 s on, upwards from 5 s on, each growing at its rate (N/s)."""

    rates: jnp.ndarray

    def __call__(self, t):
        return self.rates * jnp.stack([jnp.clip(t - 2.0, 0.0, 3.0), jnp.maximum(t - 5.0, 0.0)])


def sliding(q, v, t):
    return v[:1]


def move(q, v, t_end, radius, rates, g, **coefficients):
    """A particle at a surface; all these runs share their programs."""
    surface = br.Contact(Surface(jnp.asarray(radius)), sliding, name="surface", **coefficients)
    push = PushAndLift(jnp.asarray(rates))
    return br.simulate(Particle(g=jnp.asarray(g)), q, v, t_end, u=push, contacts=surface, save=161)


@pytest.mark.parametrize("depth", [1e-3, 1e-6, 1e-9, -1e-9])
def test_grazing_contacts_are_not_missed(depth):
    """A free flight is one large step; it touches the disc for a small part of it."""
    start = [-4.0, 1.0 - depth], [1.0, 0.0]
    run = move(*start, 10.0, radius=1.0, rates=[0.0, 0.0], g=0.0, friction=0.0, restitution=0.5)
    if depth < 0:
        assert run.events == ()
        return
    hit = run.events[0]
    assert hit.kind == "impact"
    assert hit.time == pytest.approx(4.0 - np.sqrt(1 - (1 - depth) ** 2), abs=1e-7)
    closing = np.sqrt(1 - (1 - depth) ** 2)  # component of the velocity along the normal
    assert hit.impulse[0] == pytest.approx(2.0 * 1.5 * closing, abs=1e-6)


def test_a_run_with_contacts_is_saved_with_them(bounces, tmp_path):
    bounces.save(tmp_path / "ball")
    back = br.Trajectory.load(tmp_path / "ball", bounces.system, contacts=bounces.contacts)
    assert back.events == bounces.events
    np.testing.assert_array_equal(back.modes.closed, bounces.modes.closed)
    np.testing.assert_allclose(back.contact_force, bounces.contact_force, rtol=0, atol=1e-12)
    with pytest.raises(ModelError, match="was made with contacts floor, not none"):
        br.Trajectory.load(tmp_path / "ball", bounces.system)


# -- friction -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def puck():
    start = [0.0, 0.0], [-3.0, 0.0]
    return move(*start, 8.0, radius=0.0, rates=[4.0, 10.0], g=G, friction=0.5, restitution=0.0)


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


def along(q, v, t):
    return v[:2]


def above(q, t):
    return q[2]


class Particle3(br.System):
    """A unit mass under gravity, pushed along x by an input."""

    coordinates = ("x", "y", "z")
    inputs = ("fx",)

    def mass_matrix(self, q, t):
        return jnp.eye(3)

    def potential_energy(self, q, t):
        return G * q[2]

    def input_matrix(self, q, t):
        return jnp.array([[1.0], [0.0], [0.0]])


@pytest.mark.slow
def test_friction_in_the_plane_turns_with_the_slip():
    floor = br.Contact(above, along, friction=0.3, name="floor")
    run = br.simulate(Particle3(), np.zeros(3), [-1.0, 2.0, 0.0], 2.0, u=[2.0], contacts=floor, save=81)
    (stick,) = run.events
    assert stick.kind == "stick"
    slides = np.asarray(run.t) < stick.time
    speed = np.linalg.norm(run.v[slides], axis=1)
    expected = -0.3 * G * np.asarray(run.v)[slides, :2] / speed[:, None]
    np.testing.assert_allclose(run.contact_force[slides, 0, 1:], expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        run.contact_force[~slides, 0], [[G, -2.0, 0.0]] * int(np.sum(~slides)), rtol=0, atol=1e-9
    )
    assert float(run.energy.drift) < 1e-9


# -- closed loops and controllers ---------------------------------------------------------------------------------


def beside(q, t):
    return q[0]


@pytest.mark.slow
def test_a_pendulum_in_cartesian_coordinates_against_a_wall():
    """Its own constraint holds through the impacts, which come at quarter periods of ever smaller swings."""
    system = br.gallery.load("pendulum-xy").system
    l, e, angle = float(system.l), 0.5, 0.5
    start = l * np.array([np.sin(angle), -np.cos(angle)])
    wall = br.Contact(beside, restitution=e, name="wall")
    run = br.simulate(system, start, [0.0, 0.0], 4.0, contacts=wall, save=41)
    times, expected, t = [x.time for x in run.events], [], 0.0
    for i in range(len(times)):
        quarter = ellipk(np.sin(angle / 2) ** 2) * np.sqrt(l / float(system.g))
        t += quarter if i == 0 else 2 * quarter
        expected.append(t)
        angle = 2 * np.arcsin(e * np.sin(angle / 2))  # the speed at the bottom falls by e
    assert len(times) >= 3
    np.testing.assert_allclose(times, expected, rtol=0, atol=1e-8)
    assert float(run.constraint_error.max()) < 1e-12
    assert float(run.energy.drift) < 1e-8


class Cart(br.System):
    """A unit mass on a line, with a motor."""

    coordinates = ("x",)
    inputs = ("force",)

    def mass_matrix(self, q, t):
        return jnp.eye(1)

    def input_matrix(self, q, t):
        return jnp.eye(1)


def to_minus_a_fifth(t, q, v):
    return -5.0 * (q + 0.2) - v


@pytest.mark.slow
def test_a_digital_controller_presses_against_a_stop():
    controller = br.control.Sampled(to_minus_a_fifth, period=0.05, delay_samples=1)
    stop = br.Contact(beside, restitution=0.4, name="stop")
    run = br.simulate(Cart(), [1.0], [0.0], 6.0, controller=controller, contacts=stop, save=41)
    assert run.events[-1].kind == "rest"
    np.testing.assert_allclose(run.contact_force[-1], [[1.0]], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.q[-1], 0.0, rtol=0, atol=1e-12)
    # The first contact, by a free flight from sample to sample.
    x, v, t, queue = 1.0, 0.0, 0.0, [-6.0, -6.0]
    while x + 0.05 * v + 0.5 * queue[0] * 0.05**2 > 0.0:
        x, v, t = x + 0.05 * v + 0.5 * queue[0] * 0.05**2, v + 0.05 * queue[0], t + 0.05
        queue = [queue[1], -5.0 * (x + 0.2) - v]
    left = min(r.real for r in np.roots([0.5 * queue[0], v, x]) if r.real > 0)
    assert run.events[0].time == pytest.approx(t + left, abs=1e-9)


# -- runs that cannot go on ---------------------------------------------------------------------------------------


class Wall(eqx.Module):
    """One of two walls, at 0 and 1, that close at 1 m/s."""

    side: float = eqx.field(static=True)

    def __call__(self, q, t):
        return (q[0] if self.side < 0 else 1.0 - q[0]) - t


def walls(restitution):
    sides = (("left", -1.0), ("right", 1.0))
    return [br.Contact(Wall(s), restitution=restitution, name=n) for n, s in sides]


@pytest.mark.slow
def test_what_is_squeezed_or_bounces_for_ever_stops_with_the_run_so_far():
    run = br.simulate(Cart(), [0.3], [1.0], 1.0, contacts=walls(1.0), max_events=30, save=11, throw=False)
    assert "infinitely many impacts" in run.status
    # Each impact adds twice the speed of the wall: the n-th comes when the walls have left 1/(2n+1) of their way.
    speeds = np.abs([e.v[0] for e in run.events])
    np.testing.assert_allclose(speeds, 3.0 + 2.0 * np.arange(30), rtol=0, atol=1e-8)
    run = br.simulate(Cart(), [0.3], [1.0], 1.0, contacts=walls(0.0), save=11, throw=False)
    assert "no impulses at left, right meet the laws of impact: squeezed" in run.status
    assert float(run.t[-1]) == pytest.approx(0.5, abs=1e-9)
    np.testing.assert_allclose(run.q[-1], 0.5, rtol=0, atol=1e-9)


# -- bad input ----------------------------------------------------------------------------------------------------


def test_settings_that_do_not_go_with_contacts():
    floor = br.Contact(floor_gap, name="floor")
    with pytest.raises(ModelError, match="dt: a run with contacts chooses its steps"):
        br.simulate(Ball(), [1.0], [0.0], 1.0, contacts=floor, dt=0.1)
    with pytest.raises(ModelError, match="cannot be jitted or differentiated"):
        jax.jit(lambda q: br.simulate(Ball(), q, [0.0], 1.0, contacts=floor).q)(jnp.array([1.0]))
    with pytest.raises(ModelError, match=r"expected br\.Contact objects, got 3"):
        br.simulate(Ball(), [1.0], [0.0], 1.0, contacts=[3])
    with pytest.raises(ModelError, match="two contacts are called 'floor'"):
        br.simulate(Ball(), [1.0], [0.0], 1.0, contacts=[floor, floor])
    with pytest.raises(ModelError, match="`gap` fails"):
        br.simulate(Ball(), [1.0], [0.0], 1.0, contacts=br.Contact(lambda q: q))


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
