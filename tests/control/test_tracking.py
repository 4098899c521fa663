"""Laws that make outputs follow: against published numbers, closed forms, and a convex program."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jax import numpy as jnp

import bricard as br
from bricard.control import (
    Blended,
    Limits,
    Periodic,
    Polynomial,
    ProjectedInverseDynamics,
    Sampled,
    ServoConstraint,
    Sinusoid,
    TrajectoryConstraint,
    Waypoints,
    computed_torque,
)
from tests.control.systems import (
    BothMotors,
    CrankMotor,
    acroboter_stabilizer,
    acroboter_task,
    prr_path,
    prr_task,
    random_matrices,
)

compiled = eqx.filter_jit(lambda law, t, q, v: law(t, q, v, jnp.zeros(0)))


def inputs(law, t, q, v):
    """Of a law; the time as an array, since a number would be compiled in."""
    return compiled(law, jnp.asarray(t, dtype=float), q, v)


@eqx.filter_jit
def allocated(law, q, v):
    """Inputs within limits and their shortfall at time zero, the demand, and the sizes that it is measured in."""
    at = br.control.input_response.response(law.system, q, v, 0.0)
    left = law.signals(0.0, q, v, jnp.zeros(0))["shortfall"]
    jacobian = law.output.jacobian(law.system, q, 0.0)
    return law(0.0, q, v, jnp.zeros(0)), left, *law.demand(0.0, q, v, at), jacobian, at.mass


def close(a, b, atol):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def tip(q):
    return q[0] + 0.9 * jnp.sin(q[1])


def error_at(t, e, rate, kp, kd):
    """`e(t)` of `ë + kd ė + kp e = 0`."""
    r = np.roots([1.0, kd, kp])
    c = np.linalg.solve([[1.0, 1.0], r], np.stack([np.ravel(e), np.ravel(rate)]))
    return np.real(np.exp(np.outer(t, r)) @ c)


class TestPublishedNumbers:
    def test_sliding_pendulum(self, reference):
        known = reference("sliding_pendulum")
        system = br.gallery.load("sliding-pendulum").system
        u, sim = known["u_CTC"], known["sim"][0]
        law = Blended(system, tip, "cart", Polynomial(0.0, 0.5, 10.0), u["KP"], u["KD"], u["kappa"])
        x = jnp.array(known["state_q_qd"])
        close(inputs(law, u["t_ref"], x[:2], x[2:]), [u["u"]], 1e-9)
        law = Blended(system, tip, "cart", Polynomial(0.0, 0.5, 10.0), sim["KP"], sim["KD"], 0.6)
        times = [2.985, 3.0]
        run = br.simulate(system, sim["x0"][:2], sim["x0"][2:], 3.0, controller=Sampled(law, 0.03, 1), save=times)
        close([*run.q[-1], *run.v[-1]], sim["x_end"], 1e-9)
        close(run.u[-2], sim["u_last"], 1e-8)
        close(run.signals["task error"][-1], tip(run.q[-1]) - law.reference(3.0)[0], 1e-12)

    @pytest.mark.slow
    def test_acroboter(self, reference):
        known, system = reference("acroboter"), br.gallery.load("acroboter").system
        law = Blended(system, acroboter_task, acroboter_stabilizer, [0.5, 0.0, -1.5, 0.0], 200.0, 22.0, 0.8)
        close(inputs(law, 0.0, jnp.array(known["q"]), jnp.array(known["qd"])), known["CTC_2_21"]["u"], 1e-9)
        sim = known["sim_regulation"][0]
        p = sim["p0_minimal_x2_y2_xc_yc_phi_and_rates"]
        half = 0.25 * np.array([np.cos(p[4]), np.sin(p[4])])
        start = np.array([*p[:2], *(p[2:4] - half), *(p[2:4] + half)])
        run = br.simulate(system, start, np.zeros(6), 1.0, controller=Sampled(law, 0.01, 1), save=[0.995, 1.0])
        close(run.q[-1], sim["q_end"], 1e-9)
        close(run.u[-2], sim["u_last"], 1e-7)

    def test_scara_as_a_constraint(self, reference):
        """The motors of a free arm do what the constraint forces of the guided one do; the run is among scenarios."""
        known, guided = reference("scara"), br.gallery.load("scara").system

        class Arm(type(guided)):
            def constraints(self, q, t):
                return jnp.zeros(0)

            constraint_names = None

        arm = Arm()
        q, v = jnp.deg2rad(jnp.array([-30.0, 55.0, -24.0, 0.0])), jnp.array(known["v0"])
        plain, stabilised = (
            TrajectoryConstraint(arm, guided.constraints, alpha, beta)
            for alpha, beta in ((0.0, 0.0), (0.25, np.sqrt(200.0)))
        )
        close(inputs(plain, 0.0, q, v), known["t0"]["Qc"], 1e-10)
        close(inputs(stabilised, 0.0, q, v), known["t0_baumgarte"]["Qc"], 1e-10)


class TestErrorDynamics:
    KP, KD = 30.0, 7.0

    @pytest.mark.slow
    def test_crank_motor_through_singular_positions_with_a_row_twice(self):
        law = ProjectedInverseDynamics(CrankMotor(), "crank", lambda t: 3.0 * t, self.KP, self.KD)
        run = br.simulate(CrankMotor(), [0.3, -0.6], [4.0, -8.0], 2.0, controller=law, save=21)
        assert float(run["crank"][-1]) > 1.5 * np.pi  # past two singular positions
        close(run.signals["error"][:, 0], error_at(run.t, 0.3, 1.0, self.KP, self.KD)[:, 0], 1e-8)
        close(run["rod"], -2.0 * run["crank"], 1e-8)

    @pytest.mark.slow
    def test_prr(self):
        example = br.gallery.load("prr")
        law = ProjectedInverseDynamics(example.system, prr_task, prr_path, self.KP, self.KD)
        run = br.simulate(example.system, example.q, example.v, 1.0, controller=law, save=6)
        e, rate = prr_task(example.q) - prr_path(0.0), -jax.jvp(prr_path, (0.0,), (1.0,))[1]
        close(run.signals["error"], error_at(run.t, e, rate, self.KP, self.KD), 1e-8)

    @pytest.mark.slow
    def test_platform(self):
        """At states all over: three legs drive three coordinates of the platform exactly as wanted."""
        example = br.gallery.load("planar-stewart")
        system = example.system
        names = [n for n in system.coordinates if "platform" in n] or list(system.coordinates[-3:])
        law = ProjectedInverseDynamics(system, names[:3], jnp.zeros(3), self.KP, self.KD)
        index = system.index(names[:3])
        rng = np.random.default_rng(0)
        for _ in range(3):
            start = br.assemble(system, example.q + 0.05 * rng.normal(size=system.nq), rng.normal(size=system.nv))
            q, v = start.q, start.v
            acceleration = br.forward_dynamics(system, q, v, inputs(law, 0.0, q, v)).acceleration[index]
            close(acceleration, -self.KP * q[index] - self.KD * v[index], 1e-8)


class TestLeastEffort:
    def test_against_a_convex_program_in_any_metric(self):
        clarabel = pytest.importorskip("clarabel")
        import scipy.sparse

        rng = np.random.default_rng(4)
        for _ in range(3):
            system = random_matrices(rng)
            root = rng.normal(size=(6, 6))
            metric = root @ root.T + np.eye(6)
            law = ProjectedInverseDynamics(system, list("abcd"), jnp.ones(4), 2.0, 3.0, metric=metric)
            q = jnp.zeros(6)
            u = inputs(law, 0.0, q, q)
            at = br.control.input_response.response_now(system, q, q, 0.0)
            matrix, target = law.demand(0.0, q, q, at)
            settings = clarabel.DefaultSettings()
            settings.verbose = False
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
            problem = clarabel.DefaultSolver(
                scipy.sparse.csc_matrix(np.triu(np.linalg.inv(metric))),
                np.zeros(6),
                scipy.sparse.csc_matrix(np.asarray(matrix)),
                np.asarray(target),
                [clarabel.ZeroConeT(4)],
                settings,
            )
            close(u, problem.solve().x, 1e-6 * float(jnp.max(jnp.abs(u))))

    def test_units_do_not_matter_with_the_metric_adapted(self):
        """In millimetres (slide and surface) the arm gets the same motion from the same forces."""
        metres = br.gallery.load("prr").system

        class Millimetres(type(metres)):
            def points(self, q):
                return super().points(q * jnp.array([1e-3, 1.0, 1.0]))

        example = br.gallery.load("prr")
        metric = np.diag([1.0, 0.3**2, 0.3**2])
        scale = np.array([1e3, 1.0, 1.0])
        q, v = example.q, np.array([0.1, -0.05, 0.2])
        first = ProjectedInverseDynamics(metres, prr_task, [0.6, 0.1], 9.0, 6.0, metric=metric)
        second = ProjectedInverseDynamics(
            Millimetres(), lambda q: prr_task(q), [0.6, 0.1], 9.0, 6.0, metric=metric / np.outer(scale, scale)
        )
        u = inputs(first, 0.0, jnp.asarray(q), jnp.asarray(v))
        close(inputs(second, 0.0, jnp.asarray(q * scale), jnp.asarray(v * scale)) * scale, u, 1e-9)

    @pytest.mark.slow
    def test_the_mass_metric_decouples(self):
        example = br.gallery.load("prr")
        law = ProjectedInverseDynamics(example.system, prr_task, [0.6, 0.1], 9.0, 6.0, metric="mass")
        u = inputs(law, 0.0, jnp.asarray(example.q), jnp.zeros(3))
        split = br.split_force(example.system, example.q, u, metric=br.mass_metric(example.system, example.q))
        close(split.passive, np.zeros(3), 1e-9)

    def test_computed_torque_of_an_open_chain(self):
        arm = br.gallery.load("two-link-arm").system
        law = computed_torque(arm, Sinusoid([0.4, 1.1], 0.3, 0.5), 9.0, 6.0)
        q, v = jnp.array([0.5, 1.0]), jnp.array([0.7, -0.5])
        wanted, rate, acceleration = law.reference.derivatives(0.2)
        a = acceleration - 9.0 * (q - wanted) - 6.0 * (v - rate)
        close(inputs(law, 0.2, q, v), arm.mass_matrix(q, 0.0) @ a + arm.bias(q, v, 0.0), 1e-13)


class TestWithinLimits:
    @pytest.mark.slow
    def test_inputs_within_bounds_and_the_shortfall_is_told(self):
        arm = br.gallery.load("two-link-arm").system
        limits = Limits(inputs={"shoulder torque": (-0.06, 0.06), "elbow torque": (-0.02, 0.02)})
        law = ServoConstraint(arm, arm.tip, [0.4, 0.5], 40.0, 30.0, limits=limits)
        q, v = jnp.array([0.4, 1.1]), jnp.array([0.7, -0.5])
        u, left, matrix, target, jacobian, mass = (np.asarray(x) for x in allocated(law, q, v))
        assert np.all(np.abs(u) <= [0.06 + 1e-9, 0.02 + 1e-9])
        # The nearest demand within a box, found by trying every corner, edge and the inside.
        a, b = (x.ravel() for x in np.meshgrid(np.linspace(-0.06, 0.06, 401), np.linspace(-0.02, 0.02, 41)))
        sizes = np.linalg.norm(jacobian / np.sqrt(np.diag(mass)), axis=1)[:, None]
        tried = np.linalg.norm((matrix @ np.stack([a, b]) - target[:, None]) / sizes, axis=0)
        close(left, target - matrix @ u, 1e-9)
        assert np.linalg.norm(left / sizes[:, 0]) <= tried.min() * (1 + 1e-9)
        easy = ServoConstraint(arm, arm.tip, arm.tip(q), 1e-3, 1e-3, limits=limits)
        u, left, matrix, target, *_ = allocated(easy, q, 0.0 * v)
        close(u, np.linalg.solve(matrix, target), 1e-10)
        close(left, [0.0, 0.0], 1e-10)

    @pytest.mark.slow
    def test_a_contact_only_pushes(self):
        example = br.gallery.load("prr")
        q, v = jnp.asarray(example.q), jnp.zeros(3)
        row = example.system.row_names[0]

        def pressed(least):
            """The force on the surface, and what is missed of the motion."""
            limits = Limits(forces={row: (least, None)})
            law = ProjectedInverseDynamics(example.system, prr_task, [0.6, 0.1], 9.0, 6.0, limits=limits)
            u, left, *_ = allocated(law, q, v)
            return float(br.forward_dynamics(example.system, q, v, u).multipliers[0]), left

        free, _ = pressed(-1e6)
        found, left = pressed(free + 20.0)
        close(found, free + 20.0, 1e-7)
        close(left, [0.0, 0.0], 1e-7)  # the motion is not disturbed

    def test_friction_cones_are_kept(self):
        class Two(BothMotors):
            constraint_names = ("normal", "tangent")

            def constraints(self, q, t):
                once = super().constraints(q, t)[:1]
                return jnp.concatenate([once, jnp.stack([q[0] - 0.3])])

        law = ServoConstraint(
            Two(),
            "crank",
            0.3,
            1.0,
            1.0,
            limits=Limits(forces={"normal": (5.0, 50.0)}, cones=[("normal", "tangent", 0.3)]),
        )
        q = jnp.array([0.3, -0.6])
        force = br.forward_dynamics(Two(), q, jnp.zeros(2), inputs(law, 0.0, q, jnp.zeros(2))).multipliers
        assert 5.0 - 1e-7 <= float(force[0]) <= 50.0 + 1e-7
        assert abs(float(force[1])) <= 0.3 * float(force[0]) + 1e-7


class TestBadInput:
    system = br.gallery.load("sliding-pendulum").system

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda s: ServoConstraint(s, "cart", 0.0, [1.0, 2.0], 1.0), r"kp has shape \(2,\); for 1 outputs"),
            (lambda s: ServoConstraint(s, "cart", 0.0, 1.0, float("nan")), "kd is not finite"),
            (lambda s: ServoConstraint(s, "cart", [0.0, 1.0], 1.0, 1.0), "the reference has shape"),
            (
                lambda s: ServoConstraint(s, "cart", Waypoints([0.0, 1.0], [0.0, 1.0], degree=1), 1.0, 1.0),
                "has only 1 derivatives, 2 are needed",
            ),
            (lambda s: ServoConstraint(s, "cart", 0.0, 1.0, 1.0, metric=np.ones((3, 3))), "metric: None, 'mass' or"),
            (lambda s: Limits(inputs={"cart force": (1.0, -1.0)}), "smallest value 1 is above the largest -1"),
            (
                lambda s: ServoConstraint(s, "cart", 0.0, 1.0, 1.0, limits=Limits(inputs={"pull": (0, 1)})),
                "no input called 'pull'; there are cart force",
            ),
            (lambda s: Blended(s, "cart", ["cart", "angle"], 0.0, 1.0, 1.0, 0.5), "the stabilizer 2"),
            (lambda s: Periodic(ServoConstraint(s, "cart", 0.0, 1.0, 1.0), 1, 1), "law: a Blended"),
            (lambda s: TrajectoryConstraint(s, lambda q: q[0]), "a function of q and t"),
        ],
    )
    def test_when_built(self, make, message):
        with pytest.raises(br.ModelError, match=message):
            make(self.system)

    def test_too_few_actuators_are_named(self):
        law = ServoConstraint(self.system, ["cart", "angle"], [0.0, 0.0], 1.0, 1.0)
        with pytest.raises(br.ModelError, match="2 outputs and 1 input: no input reaches the combination"):
            br.simulate(self.system, [0.0, 0.1], [0.0, 0.0], 1.0, controller=law)
        law = ProjectedInverseDynamics(self.system, "cart", 0.0, 1.0, 1.0)
        with pytest.raises(br.ModelError, match="2 degrees of freedom but 1 outputs"):
            br.simulate(self.system, [0.0, 0.1], [0.0, 0.0], 1.0, controller=law)

    def test_an_output_that_the_inputs_do_not_act_on(self):
        two = br.gallery.load("two-mass").system
        with pytest.raises(br.ModelError, match="no input reaches 'x2'"):
            br.simulate(two, [0, 0], [0, 0], 1.0, controller=ServoConstraint(two, "x2", 0.0, 1.0, 1.0))

    def test_a_digital_law_needs_sampling(self):
        law = Periodic(Blended(self.system, tip, "cart", 0.0, 1.0, 1.0, 0.5), 1, 1)
        with pytest.raises(br.ModelError, match="works sample by sample"):
            br.simulate(self.system, [0.0, 0.1], [0.0, 0.0], 1.0, controller=law)


@pytest.mark.slow
def test_gains_and_patterns_can_be_batched():
    """Runs over gains and switching patterns by `vmap` against single runs."""
    system = br.gallery.load("sliding-pendulum").system

    def end(kp, pattern):
        law = Periodic(Blended(system, tip, "cart", 0.1, kp, 24.0, 0.5), pattern=pattern)
        run = br.simulate(system, [0.01, 0.0], [0.0, 0.0], 0.15, controller=Sampled(law, 0.03, 1), save=2)
        return jnp.concatenate([run.q[-1], run.v[-1]])

    gains, patterns = jnp.array([50.0, 110.0]), jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    together = jax.jit(jax.vmap(end))(gains, patterns)
    for i in range(2):
        close(together[i], end(gains[i], patterns[i]), 1e-9)


@pytest.mark.slow
def test_gains_can_be_differentiated():
    """The tracking error of a sampled run over gains: `grad` against finite differences."""
    system = br.gallery.load("sliding-pendulum").system

    def cost(kp, kd):
        law = Blended(system, tip, "cart", Polynomial(0.0, 0.1, 0.4), kp, kd, 0.5)
        run = br.simulate(system, [0.01, 0.0], [0.0, 0.0], 0.4, controller=Sampled(law, 0.1, 1), save=3)
        return jnp.sum((run.q[:, 0] - law.reference(0.4)[0]) ** 2)

    compiled = jax.jit(cost)
    slope = jax.jit(jax.grad(cost, argnums=(0, 1)))(50.0, 10.0)
    for i, h in ((0, 1e-2), (1, 1e-3)):
        step = np.eye(2)[i] * h
        central = (compiled(*(np.array([50.0, 10.0]) + step)) - compiled(*(np.array([50.0, 10.0]) - step))) / (2 * h)
        np.testing.assert_allclose(slope[i], central, rtol=1e-5)
