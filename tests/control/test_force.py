"""Motion and constraint force at once: 50 N held while the arm moves."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
import pytest
from jax import numpy as jnp
from scipy.integrate import solve_ivp

import bricard as br
from bricard.control import HybridMotionForce, QuasiVelocityTracking, Reference
from bricard.control.quasi_velocity_tracking import Frame
from tests.control.systems import BothMotors, prr_path, prr_task

TIP = "tip on the surface"


def close(a, b, atol):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


class Swing(Reference):
    """`centre + size · (sin 0.6πt, sin πt)`, in numbers that one compiled run serves."""

    centre: jax.Array
    size: jax.Array

    def __call__(self, t):
        return self.centre + self.size * jnp.stack([jnp.sin(0.6 * jnp.pi * t), jnp.sin(jnp.pi * t)])


class Ramp(Reference):
    """`start + slope · t`."""

    start: jax.Array
    slope: jax.Array

    def __call__(self, t):
        return jnp.stack([self.start + self.slope * t])


@eqx.filter_jit
def inputs_and_terms(law, t, q, v):
    """Inputs of a law, and `M`, `h`, `A`, `b` of its system."""
    system = law.system
    terms = system.mass_matrix(q, t), system.bias(q, v, t), system.constraint_jacobian(q, t)
    return law(t, q, v, law.start(t, q, v)), (*terms, system.constraint_bias(q, v, t))


class TestHybrid:
    @staticmethod
    def run(model, reference, force):
        """From rest, on the plant of the source, with the force measured there."""
        plant = br.gallery.load("prr")
        law = HybridMotionForce(model, prr_task, reference, 9.0, 6.0, {TIP: force}, 1.0, 10.0, plant=plant.system)
        return br.simulate(plant.system, plant.q, plant.v, 2.0, controller=law, save=[0.0, 0.5, 1.0, 2.0])

    @pytest.mark.slow
    def test_force_and_motion_do_not_disturb_each_other(self):
        example = br.gallery.load("prr")
        centre, size = jnp.array([0.5, np.pi / 12]), jnp.array([0.3, np.pi / 6])
        run = self.run(example.system, Swing(centre, size), Ramp(jnp.asarray(50.0), jnp.asarray(20.0)))
        close(run.multipliers[:, 0], 50.0 + 20.0 * run.t, 1e-8)
        # `ë + 6 ė + 9 e = 0` from the start on, as without a wanted force.
        e, rate = np.asarray(prr_task(example.q) - centre), -np.asarray(size) * np.array([0.6 * np.pi, np.pi])
        t = np.asarray(run.t)[:, None]
        close(run.signals["error"], (e + (rate + 3.0 * e) * t) * np.exp(-3.0 * t), 1e-8)

    @pytest.mark.slow
    def test_a_wrong_model_is_corrected_by_the_integral(self):
        """With the arm held where it stands, the error of the force decays by `2 ė + 10 e = 0`."""
        example = br.gallery.load("prr")
        heavy = br.gallery.load("prr", m=6.0).system
        run = self.run(heavy, Swing(prr_task(example.q), jnp.zeros(2)), Ramp(jnp.asarray(50.0), jnp.asarray(0.0)))
        error = np.abs(run.multipliers[:, 0] - 50.0)
        assert error[0] > 1.0
        assert error[-1] < 1e-3 * error[0]

    def test_the_law_of_the_source(self):
        """Aghili (49), with `C_c` for `C`, in its sign of the force: `f_⊥ = h_⊥ + μ(f_∥ − h_∥ + C_c v) + F_d`."""
        example = br.gallery.load("prr")
        law = HybridMotionForce(example.system, prr_task, prr_path, 9.0, 6.0, {TIP: -50.0})
        t, q, v = jnp.zeros(()), jnp.asarray(example.q), jnp.array([0.3, -0.2, 0.4])
        _, (_, _, a, _) = inputs_and_terms(law, t, q, v)
        v = v - jnp.linalg.pinv(a) @ (a @ v)
        f, (mass, h, a, b) = jax.tree.map(np.asarray, inputs_and_terms(law, t, q, v))
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
        u, (mass, h, a, b) = jax.tree.map(np.asarray, inputs_and_terms(law, jnp.zeros(()), q, v))
        # On the reference, the crank goes on as it is; the constraint tells how the rod accelerates.
        acceleration = np.array([0.0, b[0] / a[0, 1]])
        close(mass @ acceleration + h - u, a[0] * 10.0, 1e-8)
        with pytest.raises(br.ModelError, match="is not unique"):
            HybridMotionForce(system, "crank", 0.0, 1.0, 1.0, {"slider": 10.0}).check(0.0, q, v)

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


class Seen(NamedTuple):
    """What is compared of a law in quasi-velocities at a state, and the terms of the equations of motion there."""

    u: jax.Array
    composite_error: jax.Array
    coriolis: jax.Array
    frame: Frame
    terms: tuple[jax.Array, ...]


@eqx.filter_jit
def look(laws, t, q, v):
    """At several laws of one system; they have much in common, which is compiled once."""
    system = laws[0].system
    terms = system.mass_matrix(q, t), system.bias(q, v, t), system.constraint_jacobian(q, t)
    terms = *terms, system.constraint_bias(q, v, t)
    return [
        Seen(
            law(t, q, v, jnp.zeros(0)), law.composite_error(t, q, v), law.coriolis(q, v, 0.0), law.frame(q, 0.0), terms
        )
        for law in laws
    ]


def motion(seen):
    """`v̇` and `λ` of an arm with a motor at each joint, by Lagrange multipliers."""
    mass, bias, a, b = (np.asarray(x) for x in seen.terms)
    m = len(a)
    solved = np.linalg.solve(np.block([[mass, -a.T], [a, np.zeros((m, m))]]), np.concatenate([seen.u - bias, b]))
    return solved[: len(mass)], solved[len(mass) :]


class TestQuasiVelocities:
    @staticmethod
    def laws(skew):
        """Without a wanted force and with one."""
        system = br.gallery.load("prr").system
        return [
            QuasiVelocityTracking(system, prr_task, prr_path, 3.0, 5.0, force, skew=skew)
            for force in (None, {TIP: -50.0})
        ]

    @pytest.mark.slow
    @pytest.mark.parametrize("skew", [False, True])
    def test_published_run(self, reference, skew):
        """Multipliers here are minus the source's."""
        known = reference("prr")
        run, static = known["runs"]["amp0.3_skew" if skew else "amp0.3_def"], known["static"]
        laws = self.laws(skew)

        def at(t, q, v):
            return look(laws, *(jnp.asarray(x, dtype=float) for x in (t, q, v)))

        gamma = np.asarray(at(0.0, static["q"], static["qd"])[0].coriolis)[1:, 1:]
        close(gamma + gamma.T, np.zeros((2, 2)), 1e-12) if skew else close(gamma, static["Gamma_r_def"], 1e-12)
        close(gamma @ np.array(static["vr"]), static["Gamma_r_v_r"], 1e-12)
        for name in ("0.0", "1.0", "7.0"):
            point, t = run[name], float(name)
            frame = at(t, point["q"], np.zeros(3))[0].frame
            v = np.linalg.solve(frame.root.T, frame.turn[:, 1:] @ np.array(point["vr"]))
            free, pressing = at(t, point["q"], v)
            close(free.composite_error, point["eps"], 1e-8)
            close(-motion(free)[1], [point["lambda_uo0_actuator_gravity"]], 1e-7)
            close(motion(pressing)[1], [-50.0], 1e-8)
            weight = at(t, point["q"], np.zeros(3))[0].terms[1]
            close(pressing.u - weight, point["f_total_with_force"], 1e-7)

        # The motion, by SciPy: the constraint is kept because the accelerations keep it.
        def rates(t, x):
            return np.concatenate([x[3:], motion(at(t, x[:3], x[3:])[1])[0]])

        start = np.concatenate([run["0.0"]["q"], np.zeros(3)])
        found = solve_ivp(rates, (0.0, 7.0), start, "DOP853", [1.0, 7.0], rtol=1e-11, atol=1e-11).y[:3]
        close(found[:, 0], run["1.0"]["q"], 1e-9)
        close(found[:, 1], run["7.0"]["q"], 1e-9)

    @pytest.mark.slow
    def test_redundant_rows(self):
        """One degree of freedom: the composite error decays by `K_d` alone."""
        law = QuasiVelocityTracking(BothMotors(), "crank", lambda t: 0.3 + 2.0 * t, 3.0, 5.0)
        t, q, v = 0.0, np.array([0.35, -0.7]), np.array([1.0, -2.0])
        law.check(t, jnp.asarray(q), jnp.asarray(v))
        here = look([law], *map(jnp.asarray, (t, q, v)))[0]
        once = here._replace(terms=(*here.terms[:2], here.terms[2][:1], here.terms[3][:1]))
        a, slopes = motion(once)[0], []
        for h in (1e-3, 5e-4):
            steps = [(t + s, q + s * v + 0.5 * s**2 * a, v + s * a) for s in (-h, h)]
            before, after = (look([law], *map(jnp.asarray, x))[0].composite_error for x in steps)
            slopes.append((after - before) / (2.0 * h))
        close((4.0 * slopes[1] - slopes[0]) / 3.0, -5.0 * here.composite_error, 1e-7)  # Richardson

    def test_bad_input(self):
        system, q, v = BothMotors(), jnp.array([0.35, -0.7]), jnp.array([1.0, -2.0])
        with pytest.raises(br.ModelError, match="2 outputs for 1 degrees of freedom"):
            QuasiVelocityTracking(system, ["crank", "rod"], [0.0, 0.0], 1.0, 1.0).check(0.0, q, v)
        with pytest.raises(br.ModelError, match="no quaternions"):
            QuasiVelocityTracking(br.gallery.load("heavy-top").system, lambda q: q[:3], [0.0] * 3, 1.0, 1.0)
