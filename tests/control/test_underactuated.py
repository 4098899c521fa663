"""Fewer motors than degrees of freedom, weak motors, and what lies between law and machine."""

import equinox as eqx
import numpy as np
import pytest
from jax import numpy as jnp

import bricard as br
from bricard.control import (
    LQR,
    Blended,
    CirclePath,
    DirectMethod,
    Feedback,
    Limited,
    Noisy,
    Periodic,
    Polynomial,
    Quantized,
    Sampled,
    SaturationSwitching,
    ServoConstraint,
    Trapezoid,
    internal_states,
    is_flat,
    relative_degree,
)

arm = br.gallery.load("two-link-arm").system


def close(a, b, atol):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.fixture(scope="module")
def circle():
    """The task of the source's arm, and its start: tip at (−0.5, 0.2), elbow bent to the left."""
    path = Trapezoid(CirclePath([0.0, 0.2], 0.5, np.pi, clockwise=True), np.pi, 0.7, 1.0)
    elbow = np.arccos((0.29 - 0.32) / 0.32)
    shoulder = np.arctan2(0.2, -0.5) - np.arctan2(np.sin(elbow), 1.0 + np.cos(elbow))
    return ServoConstraint(arm, arm.tip, path, 40.0, 30.0), [shoulder, elbow]


@eqx.filter_jit
def switch(law, t, q, v, memory):
    """A step of a switching law, the demand of the law inside, and that law without limits."""
    inner = law.law
    demand = inner.demand(t, q, v, br.control.input_response.response(arm, q, v, t))
    return *law.step(t, q, v, memory, jnp.asarray(1e-3)), demand, inner(t, q, v, jnp.zeros(0))


class TestSaturation:
    def test_published_matrices(self, reference, circle):
        known = reference("two_link_arm")
        q, v = jnp.array(known["q"]), jnp.array(known["qd"])
        close(arm.mass_matrix(q, 0.0), known["M"], 1e-14)
        close(arm.bias(q, v, 0.0), known["c"], 1e-14)
        output = circle[0].output
        close(output.jacobian(arm, q, 0.0), known["J"], 1e-14)
        close(output.drift(arm, q, v, 0.0), known["Jdot_qd"], 1e-13)
        law = SaturationSwitching(circle[0], -0.06, 0.06, 0.04, 7)
        index = law.manipulability(0.0, q, v, jnp.array([False, True]))
        close(index, known["z_from_6.6"], 1e-9)
        close(index / index.sum(), known["Delta_t_over_T"], 1e-12)

    def test_published_run_with_clipped_torques(self, reference, circle):
        known, (law, start) = reference("two_link_arm")["sim"][0], circle
        loop = Sampled(Limited(law, -0.06, 0.06), 1e-3)
        run = br.simulate(arm, start, [0.0, 0.0], 1.0, controller=loop, save=1001)
        close([*run.q[-1], *run.v[-1]], known["q_qd_end"], 1e-9)
        close(run.u[-2], known["tau_last"], 1e-9)
        error = np.linalg.norm(run.signals["error"], axis=1)
        close([error.max(), np.sqrt(np.mean(error**2))], [known["max_err"], known["rms_err"]], 1e-9)

    def test_switching_serves_the_outputs_in_turn(self, circle):
        law = SaturationSwitching(circle[0], [-0.06, -1.0], [0.06, 1.0], 0.04, 7)
        q, v = jnp.asarray(circle[1]), jnp.zeros(2)
        memory, served = law.start(0.0, q, v), []
        for i in range(40):
            u, memory, (matrix, target), _ = switch(law, jnp.asarray(0.3 + 1e-3 * i), q, v, memory)
            assert np.all(np.abs(u) <= [0.06, 1.0])
            close(memory.saturated, [1.0, 0.0], 0.0)
            met = np.abs(np.asarray(matrix @ u - target)) < 1e-9
            served.append(tuple(met))
        shares = np.asarray(memory.shares)
        assert served.count((True, False)) == pytest.approx(40 * shares[0], abs=1)
        assert served.count((False, True)) == pytest.approx(40 * shares[1], abs=1)

    def test_without_saturation_it_is_the_law_itself(self, circle):
        law = SaturationSwitching(circle[0], -6.0, 6.0, 0.04, 7)
        q, v = jnp.asarray(circle[1]), jnp.zeros(2)
        u, _, _, without = switch(law, jnp.asarray(0.3), q, v, law.start(0.0, q, v))
        close(u, without, 1e-13)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((0.1, -0.1, 0.04), "must be below high"),
            ((-1.0, 1.0, 0.0), "cycle must be one positive number"),
            (([-1.0] * 3, 1.0, 0.1), "one for each of 2 inputs"),
            ((-1.0, 1.0, 0.1, 0), "renew: a number of cycles"),
        ],
    )
    def test_bad_input(self, circle, arguments, message):
        with pytest.raises(br.ModelError, match=message):
            SaturationSwitching(circle[0], *arguments)


class TestInternalDynamics:
    def test_relative_degrees_of_two_masses(self):
        two = br.gallery.load("two-mass").system
        q = [0.0, 0.0]
        assert relative_degree(two, "x1", q) == (2,)
        assert relative_degree(two, "x2", q) == (4,)
        assert internal_states(two, "x1", q) == 2
        assert is_flat(two, "x2", q)
        assert not is_flat(two, "x1", q)

    def test_an_output_the_inputs_never_reach(self):
        class Apart(type(br.gallery.load("two-mass").system)):
            def potential_energy(self, q, t):
                return jnp.zeros(())

        assert relative_degree(Apart(), "x2", [0.0, 0.0]) == (np.inf,)

    @pytest.mark.slow
    def test_the_direct_method_serves_a_flat_output(self):
        """Through the spring: the error shrinks with the period."""
        two, worst = br.gallery.load("two-mass").system, []
        for period in (0.02, 0.01):
            law = DirectMethod(two, "x2", Polynomial(0.0, 0.1, 2.0), 20.0, 10.0)
            run = br.simulate(two, [0, 0], [0, 0], 2.0, controller=Sampled(law, period), save=11)
            worst.append(float(np.abs(run.signals["error"]).max()))
        assert worst[0] < 4e-3
        assert worst[1] < 0.6 * worst[0]
        with pytest.raises(br.ModelError, match=r"off the reference: x2 by 0\.5"):
            br.simulate(two, [0, 0.5], [0, 0], 1.0, controller=Sampled(law, 0.01))

    def test_the_direct_method_through_a_soft_spring_in_a_short_period(self):
        """The input acts on the output by `period² k/m`, here 5e-8: little, and yet all that the task needs."""
        two, period = br.gallery.load("two-mass", m1=1.0, m2=1.0, k=0.05).system, 1e-3
        law = DirectMethod(two, "x2", lambda t: t**2, 20.0, 10.0)
        q, v = jnp.array([0.3, 0.0]), jnp.array([0.1, 0.0])
        (after, rate), u = eqx.filter_jit(law.advance)(jnp.zeros(()), (q, v), jnp.asarray(period))
        close(after[1], period**2, 1e-15)
        close(after, q + period * rate, 1e-13)
        # `m ẍ₂ = k (x₁ − x₂)` gives the place of the first mass, and its equation the input.
        needed = (rate[1] - v[1]) / period / 0.05 + after[1]
        close(after[0], needed, 1e-7 * float(needed))
        close(u[0], (rate[0] - v[0]) / period + 0.05 * (after[0] - after[1]), 1e-7 * float(jnp.abs(u[0])))

    @pytest.mark.parametrize("delay", [0, 1, 2])
    def test_the_direct_method_starts_in_motion(self, delay):
        """Two masses that move along with their reference: no force is needed, however late it comes."""
        two = br.gallery.load("two-mass").system
        loop = Sampled(DirectMethod(two, "x2", lambda t: 0.7 * t, 20.0, 10.0), 0.01, delay)
        q, v = jnp.zeros(2), jnp.full(2, 0.7)
        memory = eqx.filter_jit(loop.start)(jnp.zeros(()), q, v)
        close(memory.queue, np.zeros((delay + 1, 1)), 1e-9)
        close(memory.inner[0], 0.01 * v, 1e-12)  # one sample ahead, not `delay` more
        close(memory.inner[1], v, 1e-10)

    def test_periodic_servo_constraints_follow_their_pattern(self):
        system = br.gallery.load("sliding-pendulum").system
        law = Blended(system, lambda q: q[0] + 0.9 * jnp.sin(q[1]), "cart", 0.1, 180.0, 24.0, 0.5)
        periodic = Periodic(law, 2, 1)
        run = br.simulate(system, [0.0, 0.01], [0.0, 0.0], 0.21, controller=Sampled(periodic, 0.03, 0), save=8)
        for i in range(7):
            kappa = [1.0, 1.0, 0.0][i % 3]
            close(run.u[i], law.with_kappa(kappa)(0.03 * i, run.q[i], run.v[i], jnp.zeros(0)), 1e-9)


class TestLqr:
    def test_a_pendulum_stands(self):
        """On its constraint, in `x, y`: gains of the pendulum by its angle, carried over."""
        import scipy.linalg

        class Pushed(type(br.gallery.load("pendulum-xy").system)):
            inputs = ("push",)

            def input_matrix(self, q, t):
                return jnp.array([[1.0], [0.0]])

        pushed = Pushed()
        m, l, g = (float(getattr(pushed, n)) for n in ("m", "l", "g"))
        law = LQR(pushed, [0.0, l], cost_q=2.0, cost_v=0.5, cost_u=0.1)
        a, b = np.array([[0.0, 1.0], [g / l, 0.0]]), np.array([[0.0], [1.0 / m]])
        p = scipy.linalg.solve_continuous_are(a, b, np.diag([2.0, 0.5]), [[0.1]])
        close(np.asarray(law.gains)[:, [0, 2]], b.T @ p / 0.1, 1e-8)
        angle = 0.1
        run = br.simulate(pushed, [l * np.sin(angle), l * np.cos(angle)], [0, 0], 6.0, controller=law, save=2)
        assert abs(float(run.q[-1, 0])) < 1e-4
        assert float(run.q[-1, 1]) > 0

    def test_what_cannot_be_held(self):
        class Idle(type(br.gallery.load("pendulum-xy").system)):
            inputs = ("none",)

            def input_matrix(self, q, t):
                return jnp.zeros((2, 1))

        with pytest.raises(br.ModelError, match="no stabilising feedback"):
            LQR(Idle(), [0.0, float(Idle().l)])
        with pytest.raises(br.ModelError, match="cost_u must be positive definite"):
            LQR(br.gallery.load("sliding-pendulum").system, [0.0, 0.0], cost_u=0.0)


class TestDevices:
    law = Feedback(lambda t, q, v: -10.0 * q[:1])
    q, v = jnp.array([0.123, 0.0]), jnp.zeros(2)

    def test_limits_and_steps(self):
        close(Limited(self.law, -1.0, 1.0)(0.0, self.q, self.v, jnp.zeros(0)), [-1.0], 0.0)
        close(Quantized(self.law, q=0.05, u=0.4)(0.0, self.q, self.v, jnp.zeros(0)), [-0.8], 1e-15)
        with pytest.raises(br.ModelError, match=r"low = 1\.0 is above high"):
            Limited(self.law, 1.0, -1.0)
        with pytest.raises(br.ModelError, match="v: a size that is finite and not negative"):
            Quantized(self.law, v=-1.0)

    def test_noise_is_new_at_every_sample_and_repeats_with_its_seed(self):
        system = br.gallery.load("sliding-pendulum").system
        runs = []
        for seed in (1, 1, 2):
            loop = Sampled(Noisy(self.law, u=0.5, seed=seed), 0.01)
            runs.append(br.simulate(system, [0.0, 0.0], [0.0, 0.0], 0.5, save=51, controller=loop).u[:50, 0])
        close(runs[0], runs[1], 0.0)
        assert np.abs(runs[0] - runs[2]).max() > 0.1
        assert len(np.unique(runs[0])) == 50
        assert 0.3 < np.std(runs[0]) < 0.8
