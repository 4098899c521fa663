"""Motion and constraint force at once: 50 N held while the arm moves."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jax import numpy as jnp

import bricard as br
from bricard.control import HybridMotionForce, ProjectedInverseDynamics, QuasiVelocityTracking
from tests.control.systems import BothMotors, prr_path, prr_task

inputs = eqx.filter_jit(lambda law, t, q, v: law(t, q, v, law.start(t, q, v)))
TIP = "tip on the surface"


def close(a, b, atol):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


class TestHybrid:
    @pytest.mark.slow
    def test_force_and_motion_do_not_disturb_each_other(self):
        example = br.gallery.load("prr")
        both = HybridMotionForce(
            example.system, prr_task, prr_path, 9.0, 6.0, {TIP: lambda t: 50.0 + 20.0 * t}, 0.5, 2.0
        )
        motion = ProjectedInverseDynamics(example.system, prr_task, prr_path, 9.0, 6.0)
        run = br.simulate(example.system, example.q, example.v, 0.5, controller=both, save=4)
        close(run.multipliers[:, 0], 50.0 + 20.0 * run.t, 1e-8)
        q, v = run.q[-1], run.v[-1]
        first, second = (
            br.forward_dynamics(example.system, q, v, inputs(law, run.t[-1], q, v), run.t[-1]) for law in (both, motion)
        )
        close(first.acceleration, second.acceleration, 1e-8)

    def test_the_law_of_the_source(self):
        """Aghili (49), with `C_c` for `C`, in its sign of the force: `f_⊥ = h_⊥ + μ(f_∥ − h_∥ + C_c v) + F_d`."""
        example = br.gallery.load("prr")
        system = example.system
        start = br.assemble(system, example.q, [0.3, -0.2, 0.4])
        q, v = start.q, start.v
        law = HybridMotionForce(system, prr_task, prr_path, 9.0, 6.0, {TIP: -50.0})
        f = inputs(law, 0.0, q, v)
        mass, a = np.asarray(system.mass_matrix(q, 0.0)), np.asarray(system.constraint_matrix(q, 0.0))
        h, b = np.asarray(system.bias(q, v, 0.0)), np.asarray(system.constraint_acceleration(q, v, 0.0))
        p = np.eye(3) - np.linalg.pinv(a) @ a
        inertia = mass + p @ mass - (p @ mass).T
        mu = (np.eye(3) - p) @ mass @ np.linalg.inv(inertia)
        across = (np.eye(3) - p) @ h + mu @ (p @ f - p @ h + mass @ np.linalg.pinv(a) @ b) + a.T @ [50.0]
        close((np.eye(3) - p) @ f, across, 1e-9)

    def test_redundant_rows_share_the_force(self):
        system = BothMotors()
        goal = {"slider": 10.0, "slider again": 0.0}
        law = HybridMotionForce(system, "crank", lambda t: 0.3 + 2.0 * t, 9.0, 6.0, goal)
        q, v = jnp.array([0.3, -0.6]), jnp.array([2.0, -4.0])
        found = br.forward_dynamics(system, q, v, inputs(law, 0.0, q, v))
        close(found.constraint_force, system.constraint_matrix(q, 0.0)[0] * 10.0, 1e-8)
        with pytest.raises(br.ModelError, match="is not unique"):
            HybridMotionForce(system, "crank", 0.0, 1.0, 1.0, {"slider": 10.0}).check(0.0, q, v)

    @pytest.mark.slow
    def test_a_wrong_model_is_corrected_by_the_integral(self):
        example = br.gallery.load("prr")
        heavy = br.gallery.load("prr", m=6.0).system
        start = br.assemble(example.system, example.q)
        law = HybridMotionForce(
            heavy, prr_task, prr_task(start.q), 40.0, 12.0, {TIP: 50.0}, 1.0, 10.0, plant=example.system
        )
        run = br.simulate(example.system, start.q, start.v, 2.0, controller=law, save=3)
        error = np.abs(run.multipliers[:, 0] - 50.0)
        assert error[0] > 1.0
        assert error[-1] < 1e-3 * error[0]

    def test_too_few_inputs_for_motion_and_force(self):
        class OneMotor(BothMotors):
            inputs = ("motor",)

            def input_matrix(self, q, t):
                return jnp.array([[1.0], [0.0]])

        law = HybridMotionForce(OneMotor(), "crank", 0.0, 1.0, 1.0, {"slider": 1.0, "slider again": 1.0})
        with pytest.raises(br.ModelError, match="cannot set the force of slider, slider again besides the motion"):
            law.check(0.0, jnp.array([0.3, -0.6]), jnp.zeros(2))

    @pytest.mark.parametrize(
        ("force", "message"),
        [({}, "wanted forces by the name"), ({"floor": 1.0}, "no constraint row called 'floor'"), (3.0, "by the name")],
    )
    def test_bad_goals(self, force, message):
        with pytest.raises(br.ModelError, match=message):
            HybridMotionForce(BothMotors(), "crank", 0.0, 1.0, 1.0, force)


class TestQuasiVelocities:
    @pytest.mark.slow
    @pytest.mark.parametrize("skew", [False, True])
    def test_published_run(self, reference, skew):
        """Multipliers here are minus the source's."""
        known = reference("prr")
        run, static = known["runs"]["amp0.3_skew" if skew else "amp0.3_def"], known["static"]
        system = br.gallery.load("prr").system
        law = QuasiVelocityTracking(system, prr_task, prr_path, 3.0, 5.0, skew=skew)
        pressing = QuasiVelocityTracking(system, prr_task, prr_path, 3.0, 5.0, {TIP: -50.0}, skew=skew)
        coriolis = eqx.filter_jit(lambda law, q, v: law.coriolis(q, v, 0.0))
        gamma = coriolis(law, jnp.array(static["q"]), jnp.array(static["qd"]))[1:, 1:]
        close(gamma + gamma.T, np.zeros((2, 2)), 1e-12) if skew else close(gamma, static["Gamma_r_def"], 1e-12)
        close(gamma @ jnp.array(static["vr"]), static["Gamma_r_v_r"], 1e-12)
        for name in ("0.0", "1.0", "7.0"):
            at, t = run[name], float(name)
            q = jnp.array(at["q"])
            frame = law.frame(q, 0.0)
            v = jax.scipy.linalg.solve_triangular(frame.root.T, frame.turn[:, 1:] @ jnp.array(at["vr"]))
            close(law.composite_error(t, q, v), at["eps"], 1e-8)
            found = br.forward_dynamics(system, q, v, inputs(law, t, q, v), t)
            close(-found.multipliers, [at["lambda_uo0_actuator_gravity"]], 1e-7)
            u = inputs(pressing, t, q, v)
            close(br.forward_dynamics(system, q, v, u, t).multipliers, [-50.0], 1e-8)
            close(u - system.bias(q, 0.0 * v, t), at["f_total_with_force"], 1e-7)

    @pytest.mark.slow
    @pytest.mark.parametrize("skew", [False, True])
    def test_published_motion(self, reference, skew):
        known = reference("prr")["runs"]["amp0.3_skew" if skew else "amp0.3_def"]
        system = br.gallery.load("prr").system
        law = QuasiVelocityTracking(system, prr_task, prr_path, 3.0, 5.0, {TIP: -50.0}, skew=skew)
        run = br.simulate(system, known["0.0"]["q"], np.zeros(3), 7.0, controller=law, save=[0.0, 1.0, 7.0])
        close(run.q[1], known["1.0"]["q"], 1e-9)
        close(run.q[2], known["7.0"]["q"], 1e-9)
        close(run.multipliers[:, 0], [-50.0] * 3, 1e-8)

    @pytest.mark.slow
    def test_redundant_rows_and_bad_input(self):
        system = BothMotors()
        law = QuasiVelocityTracking(system, "crank", lambda t: 0.3 + 2.0 * t, 3.0, 5.0)
        q, v = jnp.array([0.35, -0.7]), jnp.array([1.0, -2.0])
        law.check(0.0, q, v)
        # One degree of freedom: the composite error decays by K_d alone.
        u = inputs(law, 0.0, q, v)
        a = br.forward_dynamics(system, q, v, u).acceleration
        error = eqx.filter_jit(law.composite_error)
        rate = jax.jvp(lambda t, q, v: error(t, q, v), (0.0, q, v), (1.0, v, a))[1]
        close(rate, -5.0 * error(0.0, q, v), 1e-8)
        with pytest.raises(br.ModelError, match="2 outputs for 1 degrees of freedom"):
            QuasiVelocityTracking(system, ["crank", "rod"], [0.0, 0.0], 1.0, 1.0).check(0.0, q, v)
        with pytest.raises(br.ModelError, match="no quaternions"):
            QuasiVelocityTracking(br.gallery.load("heavy-top").system, lambda q: q[:3], [0.0] * 3, 1.0, 1.0)
