"""Control laws at random states of random systems, against plain NumPy written from the documents.

Constraints move and one of three rows is redundant, masses span six decades, the outputs depend on time, and the bias
is the user's own. One compiled program serves all draws of a law.
"""

import equinox as eqx
import numpy as np
import pytest
import scipy.optimize
from jax import numpy as jnp
from scipy.optimize import root

import bricard as br
from bricard.control import (
    Blended,
    DirectMethod,
    HybridMotionForce,
    Limits,
    Periodic,
    ProjectedInverseDynamics,
    QuasiVelocityTracking,
    SaturationSwitching,
    ServoConstraint,
)
from tests.control.random_systems import Curved, Plain, draw

inputs = eqx.filter_jit(lambda law, t, q, v: law(t, q, v, law.start(t, q, v)))
inputs_and_error = eqx.filter_jit(lambda law, t, q, v: (law(t, q, v, jnp.zeros(0)), law.composite_error(t, q, v)))
with_memory = eqx.filter_jit(lambda law, t, q, v, memory: law(t, q, v, memory))
advance = eqx.filter_jit(lambda law, t, q, v, period: law.advance(t, (q, v), period))
first_step = eqx.filter_jit(lambda law, t, q, v: law.step(t, q, v, law.start(t, q, v), 1e-3)[0])
DRAWS = pytest.mark.parametrize("draws", [12, pytest.param(300, marks=pytest.mark.slow)])
ROWS = tuple(f"constraint {i}" for i in range(3))


@eqx.filter_jit
def blended_and_periodic(law, periodic, t, q, v, count):
    """Inputs and signals of the one, a step of the other."""
    none = jnp.zeros(0)
    return law(t, q, v, none), law.signals(t, q, v, none), periodic.step(t, q, v, count, 0.01)


def close(a, b, tolerance, size=None):
    """Relative to the size of `b`."""
    size = np.max(np.abs(b), initial=1e-300) if size is None else size
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * size)


def null_space(matrix):
    """In units in which all rows and columns have about the same size."""
    columns = np.linalg.norm(matrix, axis=0)
    columns = np.where(columns > 1e-12 * columns.max(initial=0.0), columns, 1.0)
    scaled = matrix / columns
    scaled = scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-300)
    _, s, vt = np.linalg.svd(scaled)
    return vt[np.sum(s > 1e-9) :].T / columns[:, None]


def assert_least(u, matrix, weight):
    """`u` is the cheapest of all with the same `D u`: no change that does nothing makes it cheaper, or shorter."""
    idle = null_space(matrix)
    idle = idle / np.linalg.norm(idle, axis=0)
    if idle.shape[1] == 0:
        return
    slope = idle.T @ weight @ u
    close(slope, np.zeros_like(slope), 1e-7, np.linalg.norm(idle.T @ weight, axis=1).max() * np.linalg.norm(u))
    curvature = idle.T @ weight @ idle
    values, vectors = np.linalg.eigh(curvature)
    free = idle @ vectors[:, values < 1e-9 * max(values.max(initial=0.0), 1e-300)]
    close(free.T @ u, np.zeros(free.shape[1]), 1e-6, np.linalg.norm(u))


@pytest.mark.parametrize(
    ("metric", "draws"),
    [("matrix", 12), *(pytest.param(m, 300, marks=pytest.mark.slow) for m in (None, "mass", "matrix"))],
)
def test_outputs_follow_with_the_least_effort(draws, metric):
    """Four inputs, of which two drive one joint, for two degrees of freedom."""
    rng = np.random.default_rng(1)
    for i in range(draws):
        system, output, reference, q, v, t = draw(rng, inputs=4, outputs=2, double=True)
        at = Plain(system, output, q, v, t)
        given = np.diag(np.asarray(system.sizes) ** -2.0) * (2.0 + i % 3) if metric == "matrix" else metric
        law = ProjectedInverseDynamics(system, output, reference, 30.0, 7.0, metric=given)
        u = np.asarray(inputs(law, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v)))
        matrix, target = at.demand(reference, t, 30.0, 7.0)
        scale = np.abs(target) + np.abs(matrix) @ np.abs(u)
        np.testing.assert_array_less(np.abs(matrix @ u - target), 1e-8 * scale)
        measure = at.mass if metric == "mass" else given
        weight = np.eye(4) if metric is None else at.inputs.T @ np.linalg.solve(measure, at.inputs)
        assert_least(u, matrix, weight)


@pytest.mark.parametrize(("count", "draws"), [(2, 12), *(pytest.param(n, 300, marks=pytest.mark.slow) for n in (1, 2))])
def test_fewer_inputs_than_freedoms_or_more_than_outputs(draws, count):
    """One output by one input (internal dynamics are left), or by two."""
    rng = np.random.default_rng(2)
    for _ in range(draws):
        system, output, reference, q, v, t = draw(rng, inputs=count, outputs=1)
        at = Plain(system, output, q, v, t)
        law = ServoConstraint(system, output, reference, 9.0, 3.0)
        u = np.asarray(inputs(law, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v)))
        matrix, target = at.demand(reference, t, 9.0, 3.0)
        close(matrix @ u, target, 1e-8, np.max(np.abs(target) + np.abs(matrix) @ np.abs(u)))
        assert_least(u, matrix, np.eye(count))


@DRAWS
def test_blended_and_periodic_servo_constraints(draws):
    """`κ` of the task and `1 − κ` of the stabilizer, fixed or by the count of samples; two outputs by three inputs."""
    rng = np.random.default_rng(8)
    for i in range(draws):
        system, task, reference, q, v, t = draw(rng, inputs=3, outputs=2)
        unit = np.linalg.norm(task.rows, axis=1)
        stabilizer = Curved(
            *(
                jnp.asarray(x)
                for x in (
                    unit[:, None] * rng.normal(size=(2, 4)),
                    0.2 * unit[:, None] * rng.normal(size=(2, 4)),
                    unit * rng.normal(size=2),
                    task.sizes,
                )
            )
        )
        kappas = rng.uniform(-0.5, 1.5, 4)
        law = Blended(system, task, stabilizer, reference, 30.0, 7.0, kappas[-1])
        pattern = [1.0, 1.0, 0.0] if i % 2 else kappas[:3]
        periodic = Periodic(law, 2, 1) if i % 2 else Periodic(law, pattern=pattern)
        count = int(rng.integers(0, 10_000))
        u, signals, (u_now, count_after) = blended_and_periodic(
            law, periodic, *map(jnp.asarray, (t, q, v, float(count)))
        )
        assert float(count_after) == count + 1
        for found, kappa in ((u, kappas[-1]), (u_now, pattern[count % 3])):
            both = ((np.asarray(getattr(x, n)) for x in (task, stabilizer)) for n in ("rows", "bend", "shift"))
            blend = Curved(*(kappa * a + (1.0 - kappa) * b for a, b in both), task.sizes)
            at = Plain(system, blend, q, v, t)
            matrix, target = at.demand(reference, t, 30.0, 7.0)
            scale = np.abs(target) + np.abs(matrix) @ np.abs(found)
            np.testing.assert_array_less(np.abs(matrix @ found - target), 1e-8 * scale)
            assert_least(np.asarray(found), matrix, np.eye(3))
        close(signals["task"], Plain(system, task, q, v, t).y, 1e-12)
        close(signals["task error"], signals["task"] - reference(t), 1e-12, np.max(np.abs(signals["task"])))


@DRAWS
def test_force_of_redundant_rows_to_rounding(draws):
    """`F = Aᵀ(λ_d + k_i/(1 + k_f) m)`, whatever the motion does, and the motion whatever the force does."""
    rng = np.random.default_rng(3)
    for _ in range(draws):
        system, output, reference, q, v, t = draw(rng, inputs=4, outputs=2)
        at = Plain(system, output, q, v, t)
        size = 1.0 / np.linalg.norm(at.a * np.asarray(system.sizes), axis=1)
        goal, memory = 10.0 * size * rng.normal(size=3), size * rng.normal(size=3)
        force = {row: br.control.Constant(x) for row, x in zip(ROWS, goal, strict=True)}
        law = HybridMotionForce(system, output, reference, 30.0, 7.0, force, 0.5, 3.0)
        u = np.asarray(with_memory(law, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v), jnp.asarray(memory)))
        matrix, target = at.demand(reference, t, 30.0, 7.0)
        np.testing.assert_array_less(np.abs(matrix @ u - target), 1e-8 * (np.abs(target) + np.abs(matrix) @ np.abs(u)))
        found = at.constraint_force(u) * np.asarray(system.sizes)
        wanted = (at.a.T @ (goal + 3.0 / 1.5 * memory)) * np.asarray(system.sizes)
        parts = np.abs(at.inputs * np.asarray(system.sizes)[:, None]) @ np.abs(u)
        close(found, wanted, 1e-10, np.max(parts))


def wanted_velocity(at, sizes, v, rate):
    """The velocity on the constraints with which the outputs have these rates."""
    matrix = np.vstack([at.a[:2], at.jacobian]) * sizes
    by_time = np.concatenate([at.moving[:2], at.y_rate - at.jacobian @ v])
    size = np.linalg.norm(matrix, axis=1)
    return sizes * np.linalg.solve(matrix / size[:, None], (np.concatenate([np.zeros(2), rate]) - by_time) / size)


def missing(x, system, output, wanted, t):
    """Constraints and outputs, less what they should be, at `q/sizes = x`, without units."""
    at = Plain(system, output, x * np.asarray(system.sizes), np.zeros(4), t)
    return np.concatenate([at.position[:2], (at.y - np.asarray(wanted)) / np.linalg.norm(output.rows, axis=1)])


def configuration(system, output, wanted, q, t):
    """Where the outputs are as wanted, near `q`, by SciPy; None if it finds nothing, or a nearly singular position."""
    sizes = np.asarray(system.sizes)
    found = root(missing, q / sizes, (system, output, wanted, t), tol=1e-13)
    at = Plain(system, output, found.x * sizes, np.zeros(4), t)
    matrix = np.vstack([at.a[:2], at.jacobian]) * sizes
    regular = np.linalg.cond(matrix / np.linalg.norm(matrix, axis=1, keepdims=True)) < 1e3
    return found.x * sizes if found.success and regular else None


@DRAWS
def test_quasi_velocities_with_moving_constraints(draws):
    """The composite error decays by `K_d` alone; it is the velocity that is wrong; the force is as wanted."""
    rng, served = np.random.default_rng(4), 0

    def error(*arguments):
        return inputs_and_error(*arguments)[1]

    for _ in range(draws):
        system, output, reference, q, v, t = draw(rng, inputs=4, outputs=2)
        goal = 5.0 * rng.normal(size=3)
        force = {row: br.control.Constant(x) for row, x in zip(ROWS, goal, strict=True)}
        law = QuasiVelocityTracking(system, output, reference, 3.0, 5.0, force)
        at = Plain(system, output, q, v, t)
        u, epsilon = map(np.asarray, inputs_and_error(law, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v)))
        d = np.asarray(system.sizes)
        if configuration(system, output, reference(t), q, t) is None:
            continue
        served += 1
        size = np.max(np.abs(at.inputs * d[:, None]) @ np.abs(u))
        close(at.constraint_force(u) * d, (at.a.T @ goal) * d, 1e-9, size)
        a = at.acceleration(u)
        h = 1e-5 / max(1.0, np.max(np.abs(v / d)), np.sqrt(np.max(np.abs(a / d))))  # coordinates move by 1e-5 of a unit
        square = []
        for step in (-h, h):
            now = (t + step, q + step * v + 0.5 * step**2 * a, v + step * a)
            square.append(float(np.sum(np.asarray(error(law, *map(jnp.asarray, now))) ** 2)))
        assert (square[1] - square[0]) / (2.0 * h) == pytest.approx(-10.0 * epsilon @ epsilon, rel=1e-5, abs=1e-6)
        # On the reference, the error is the quasi-velocity of `v − v_d`, and `v_d` follows from rates alone.
        on = eqx.tree_at(lambda x: x.a, reference, reference.a + jnp.asarray(at.y) - reference(t))
        rate = np.asarray(reference.b + 2.0 * reference.c * t)
        missed = v - wanted_velocity(at, d, v, rate)
        along = at.basis @ np.linalg.solve(at.basis.T @ at.mass @ at.basis, at.basis.T @ at.mass @ missed)
        there = eqx.tree_at(lambda x: x.reference, law, on)
        epsilon = np.asarray(error(there, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v)))
        assert epsilon @ epsilon == pytest.approx(along @ at.mass @ along, rel=1e-7)
    assert served > 0.9 * draws


@DRAWS
def test_the_direct_method_takes_implicit_euler_steps(draws):
    """What it computes meets the equations of motion, the constraints and the task at the end of the sample."""
    rng, period, served = np.random.default_rng(5), 1e-3, 0
    for _ in range(draws):
        system, output, reference, q, v, t = draw(rng, inputs=2, outputs=2)
        at = Plain(system, output, q, v, t)
        reference = eqx.tree_at(lambda x: x.a, reference, reference.a + jnp.asarray(at.y) - reference(t))
        law = DirectMethod(system, output, reference, 1.0, 1.0)
        wanted = configuration(system, output, reference(t + period), q, t + period)
        if wanted is None:
            continue
        served += 1
        (q_new, v_new), u = advance(law, *map(jnp.asarray, (t, q, v, period)))
        q_new, v_new, u = (np.asarray(x) for x in (q_new, v_new, u))
        after = Plain(system, output, q_new, v_new, t + period)
        d = np.asarray(system.sizes)
        close(q_new, q + period * v_new, 1e-13)
        close(q_new / d, wanted / d, 1e-8)
        close(after.position[:2], np.zeros(2), 1e-9, 1.0)
        close(after.y, reference(t + period), 1e-8)
        push = after.mass @ (v_new - v) / period - after.force - after.inputs @ u
        close(
            after.basis.T @ push, np.zeros(2), 1e-7, np.max(np.abs(after.basis / d[:, None])) * np.max(np.abs(d * push))
        )
    assert served > 0.9 * draws


@DRAWS
@pytest.mark.parametrize("outputs", [1, 2])
def test_motors_that_are_left_serve_all_outputs(draws, outputs):
    """Three motors: as long as the unsaturated ones can serve every output within their limits, they do."""
    rng, served = np.random.default_rng(6), 0
    for _ in range(draws):
        system, output, reference, q, v, t = draw(rng, inputs=3, outputs=outputs)
        at = Plain(system, output, q, v, t)
        inner = ServoConstraint(system, output, reference, 30.0, 7.0)
        matrix, target = at.demand(reference, t, 30.0, 7.0)
        rows = np.linalg.norm(matrix, axis=1)
        matrix, target = matrix / rows[:, None], target / rows
        plain = np.linalg.pinv(matrix) @ target
        worst = int(np.argmax(np.abs(plain)))
        limit = np.full(3, 1e3 * np.abs(plain).max())
        limit[worst] = 0.7 * abs(plain[worst])
        law = SaturationSwitching(inner, -limit, limit, 0.04)
        u = np.asarray(first_step(law, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v)))
        others = np.arange(3) != worst
        held = np.where(others, 0.0, np.clip(plain, -limit, limit))
        rest = np.linalg.pinv(matrix[:, others]) @ (target - matrix @ held)
        if np.any(np.abs(rest) > limit[others]) or np.linalg.cond(matrix[:, others]) > 1e4:
            continue
        served += 1
        expected = held.copy()
        expected[others] = rest
        close(u, expected, 1e-7)
        close(matrix @ u, target, 1e-7, np.max(np.abs(matrix) @ np.abs(u)))
    assert served > draws // 2


@DRAWS
def test_what_limits_do_not_allow_is_missed_as_little_as_possible(draws):
    """Against a bounded least-squares solver, with outputs measured by what a unit force does in units of `M`."""
    rng = np.random.default_rng(7)
    limits = Limits(inputs={"u0": (-1.0, 2.0), "u1": (-0.5, 0.5), "u2": (-1.0, 1.0)})
    kinds = {True: 0, False: 0}
    for _ in range(draws):
        system, output, reference, q, v, t = draw(rng, inputs=3, outputs=2)
        at = Plain(system, output, q, v, t)
        matrix, target = at.demand(reference, t, 30.0, 7.0)
        sizes = np.linalg.norm(at.jacobian / np.sqrt(np.diag(at.mass)), axis=1)
        matrix, target = matrix / sizes[:, None], target / sizes
        # Rescale the motors so that about half of the demands are possible.
        unit = 10.0 ** rng.uniform(-0.5, 1.0) * np.max(np.abs(np.linalg.pinv(matrix) @ target))
        system = eqx.tree_at(lambda s: s.forces, system, system.forces * unit)
        matrix = matrix * unit
        law = ServoConstraint(system, output, reference, 30.0, 7.0, limits=limits)
        u = np.asarray(inputs(law, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v)))
        low, high = np.array([-1.0, -0.5, -1.0]), np.array([2.0, 0.5, 1.0])
        assert np.all(u >= low - 1e-8)
        assert np.all(u <= high + 1e-8)
        best = scipy.optimize.lsq_linear(matrix, target, (low, high), tol=1e-14, lsmr_tol="auto", method="bvls")
        missed, least = np.linalg.norm(matrix @ u - target), np.linalg.norm(matrix @ best.x - target)
        assert missed <= least + 1e-8 * np.linalg.norm(target)
        kinds[bool(least > 1e-6 * np.linalg.norm(target))] += 1
    assert min(kinds.values()) > 0
