"""Known systems with controllers: a short run of each kind of law; those that compile for long are marked slow."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.control import Controller

SYSTEMS = br.gallery.names(scenarios=False)
SCENARIOS = tuple(name for name in br.gallery.names() if name not in SYSTEMS)


def test_a_scenario_is_an_example_with_a_controller():
    assert len(SCENARIOS) == 11
    for name in SCENARIOS:
        example = br.gallery.load(name)
        assert isinstance(example.settings["controller"], Controller), name
        assert example.title
        assert example.source
        assert example.t_end > 0
        assert example.q.shape == (example.system.nq,), name
        assert example.v.shape == (example.system.nv,), name


def test_controllers_in_a_word():
    law = br.gallery.load("sliding-pendulum-periodic").settings["controller"]
    assert str(law) == "Sampled(Periodic(Blended))"
    assert "kappa" in repr(law)


def critically_damped(t, e, rate, pole):
    """Solution of `ë + 2p ė + p² e = 0`."""
    t = np.asarray(t)[:, None]
    return (e + (rate + pole * e) * t) * np.exp(-pole * t)


def test_slider_crank_is_driven_through_a_singular_position():
    example = br.gallery.load("slider-crank-driven")
    run = example.simulate(t_end=1.6, save=33)
    assert run["crank"][0] < np.pi / 2 < run["crank"][-1]
    expected = critically_damped(run.t, -0.1, 0.0, 10.0)
    np.testing.assert_allclose(run.signals["error"], expected, rtol=0, atol=1e-8)
    assert run.energy.drift < 1e-9
    assert run.energy.work_of_inputs[-1] > 1.0


def test_prr_presses_with_50_newtons_while_it_moves():
    run = br.gallery.load("prr-pressing").simulate(t_end=0.4, save=5)
    np.testing.assert_allclose(run.multipliers, 50.0, rtol=0, atol=1e-8)
    start = np.array([0.2, -np.pi / 12])  # away from 0.5 m and 15°
    rate = -np.array([0.3 * 0.6 * np.pi, np.pi / 6 * np.pi])  # of the motion at t = 0; the arm starts from rest
    expected = critically_damped(run.t, start, rate, 5.0)
    np.testing.assert_allclose(run.signals["error"], expected, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_scara_motors_do_what_the_constraint_force_would(reference):
    known = reference("scara")["baumgarte_0.5_200"]
    run = br.gallery.load("scara-guided").simulate(t_end=5.0, save=[0.0, 1.0, 5.0], rtol=1e-12, atol=1e-12)
    for i, t, accuracy in ((1, "1.0", 1e-9), (2, "5.0", 1e-8)):
        np.testing.assert_allclose(run.q[i], known[t]["q"], rtol=0, atol=accuracy)
        np.testing.assert_allclose(run.signals["error"][i], known[t]["Phi"], rtol=0, atol=accuracy)
        np.testing.assert_allclose(run.u[i], known[t]["Qc"], rtol=0, atol=1e-7)


@pytest.mark.slow
def test_prr_tracks_in_quasi_velocities(reference):
    expected = reference("prr")["runs"]["amp0.3_skew"]
    run = br.gallery.load("prr-tracking").simulate(t_end=1.0, save=2)
    for i, t in enumerate(("0.0", "1.0")):
        np.testing.assert_allclose(run.q[i], expected[t]["q"], rtol=0, atol=1e-8)
        np.testing.assert_allclose(run.signals["error"][i], expected[t]["theta_err"], rtol=0, atol=1e-8)


class TestSlidingPendulum:
    """Against a simulation of its own, with the equations written out and classical Runge–Kutta steps."""

    M1, M2, L, R, J, B, G, PERIOD = 6.35, 0.1, 0.9, 0.45, 0.00675, 0.002, 9.81, 0.03

    def equations(self, x):
        """Mass matrix and force without input."""
        coupling = self.M2 * self.R * np.cos(x[1])
        mass = np.array([[self.M1 + self.M2, coupling], [coupling, self.J + self.M2 * self.R**2]])
        swing = self.M2 * self.R * np.sin(x[1])
        return mass, np.array([swing * x[3] ** 2, -self.G * swing - self.B * x[3]])

    def rates(self, x, u):
        mass, force = self.equations(x)
        return np.concatenate([x[2:], np.linalg.solve(mass, force + np.array([u, 0.0]))])

    def wanted(self, t):
        rise = np.polynomial.Polynomial([0.0] * 5 + [126, -420, 540, -315, 70])
        s = np.clip(t / 10.0, 0.0, 1.0)
        return 0.5 * rise(s), 0.05 * rise.deriv(1)(s), 0.005 * rise.deriv(2)(s)

    def law(self, t, x, kappa, kp, kd):
        mass, force = self.equations(x)
        y, rate, acceleration = self.wanted(t)
        arm = kappa * self.L
        row = np.linalg.solve(mass, [1.0, arm * np.cos(x[1])])  # M is symmetric
        e, e_rate = x[0] + arm * np.sin(x[1]) - y, x[2] + arm * np.cos(x[1]) * x[3] - rate
        return (acceleration - kd * e_rate - kp * e + arm * np.sin(x[1]) * x[3] ** 2 - row @ force) / row[0]

    def tip_error(self, pattern, kp, kd, duration):
        """At the samples (m). Applied in sample `i` is what sample `i − 1` computed, with its entry of the pattern."""
        x, inputs, errors = np.zeros(4), [self.law(0.0, np.zeros(4), pattern[0], kp, kd)], []
        steps = 20
        h = self.PERIOD / steps
        for i in range(round(duration / self.PERIOD)):
            inputs.append(self.law(i * self.PERIOD, x, pattern[i % len(pattern)], kp, kd))
            for _ in range(steps):
                k1 = self.rates(x, inputs[i])
                k2 = self.rates(x + 0.5 * h * k1, inputs[i])
                k3 = self.rates(x + 0.5 * h * k2, inputs[i])
                k4 = self.rates(x + h * k3, inputs[i])
                x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            errors.append(x[0] + self.L * np.sin(x[1]) - self.wanted((i + 1) * self.PERIOD)[0])
        return np.array(errors)

    @pytest.mark.parametrize(
        ("name", "pattern", "gains", "millimetres"),
        [
            pytest.param("blended", [0.6], (116.0, 24.1), 1.0, marks=pytest.mark.slow),
            ("periodic", [1, 0, 0, 0, 0, 0], (110.0, 30.0), 5.4),
        ],
    )
    def test_tip_follows(self, name, pattern, gains, millimetres):
        error = self.tip_error(pattern, *gains, 12.0)
        assert 1e3 * np.sqrt(np.mean(error**2)) == pytest.approx(millimetres, abs=0.05)  # as the docstring says
        run = br.gallery.load(f"sliding-pendulum-{name}").simulate(t_end=3.0, save=101)
        found = np.asarray(run.signals["task error"])[1:, 0]
        np.testing.assert_allclose(found, error[:100], rtol=0, atol=1e-6)

    def test_the_sources_pattern_diverges_where_it_should_be_best(self):
        with np.errstate(all="ignore"):
            errors = self.tip_error([1, 1, 0, 0, 0, 0, 0], 180.0, 24.0, 6.0)
        assert np.max(np.abs(errors)) > 0.5


@pytest.mark.slow
def test_acroboter_recovers_from_the_push(reference):
    """Afterwards it swings out as fast as the largest eigenvalue of the sampled system says."""
    run = br.gallery.load("acroboter-push").simulate(save=501)
    t, error = np.asarray(run.t), np.abs(run.signals["task error"])

    def peak(start, end):
        return np.max(error[(t >= start) & (t < end)])

    assert peak(0.0, 1.0) < 1e-10
    assert peak(1.0, 2.0) == pytest.approx(0.0626, abs=1e-4)  # as the docstring says
    per_sample = reference("acroboter")["DAE24_abs_eigs_kappa0.8_200_22_a10"][1]  # the largest that is not spurious
    assert peak(4.5, 5.0) / peak(3.0, 3.5) == pytest.approx(per_sample**150, rel=0.15)
    assert run.energy.drift < 1e-9


@pytest.mark.slow
def test_two_link_arm_with_weak_motors():
    """Switching keeps the limits, and the tip near its circle; clipping is compared with a published run elsewhere."""
    clipping = br.gallery.load("two-link-arm-saturated", method="clipping").settings["controller"]
    assert str(clipping) == "Sampled(Limited(ServoConstraint))"
    run = br.gallery.load("two-link-arm-saturated").simulate(t_end=0.5, save=501)
    assert np.max(np.abs(run.u)) <= 0.06
    saturated = np.asarray(run.signals["saturated"])
    assert np.mean(np.any(saturated > 0.5, axis=1)) > 0.5
    assert np.max(np.linalg.norm(run.signals["error"], axis=1)) < 0.02


@pytest.mark.slow
def test_coupler_point_keeps_time_on_its_curve():
    example = br.gallery.load("four-bar-coupler")
    run = example.simulate(save=41)
    np.testing.assert_allclose(run.signals["error"], 0.0, rtol=0, atol=1e-8)
    point = np.asarray(run.sensors["coupler point"].value) - np.array([0.1, 0.105])
    seen = np.unwrap(np.arctan2(point[:, 1], point[:, 0]))
    wanted = np.asarray(run.signals["reference"])[:, 0]
    np.testing.assert_allclose(seen - seen[0], wanted - wanted[0], rtol=0, atol=1e-8)
    assert seen[-1] - seen[0] == pytest.approx(4.0 * np.pi, abs=1e-8)
    assert np.max(np.abs(run.u)) < 5.0  # the motor's limits
    crank = np.asarray(run["A"])
    assert np.max(np.abs(crank - crank[0] - (wanted - wanted[0]))) > 0.3  # the crank does not turn like the point


@pytest.mark.slow
def test_four_legs_share_the_load_with_the_least_force():
    example = br.gallery.load("planar-stewart-path")
    run = example.simulate(save=6)
    np.testing.assert_allclose(run.signals["error"], 0.0, rtol=0, atol=1e-8)
    for q, v, u in list(zip(run.q, run.v, run.u, strict=True))[1:4]:
        at = br.forward_dynamics(run.system, q, v, u).acceleration
        columns = [br.forward_dynamics(run.system, q, v, u + step).acceleration - at for step in jnp.eye(4)]
        idle = np.linalg.svd(np.stack(columns, axis=1))[2][3]  # inputs that only tighten the legs against each other
        assert np.max(np.abs(np.stack(columns, axis=1) @ idle)) < 1e-8
        assert abs(idle @ np.asarray(u)) < 1e-6 * np.linalg.norm(u)


@pytest.mark.slow
def test_six_legs_move_the_platform_along_its_path():
    run = br.gallery.load("stewart-path").simulate(save=5)
    np.testing.assert_allclose(run.signals["error"], 0.0, rtol=0, atol=1e-8)
    assert run.constraint_error.max() < 1e-9
    assert np.max(np.ptp(np.asarray(run.signals["output"]), axis=0)) > 0.1
    assert np.max(np.abs(run.u)) < 500.0  # the legs' limits
