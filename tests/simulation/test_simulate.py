"""What `simulate` promises beyond singular positions."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.gallery.slider_crank import SliderCrank

Q, V = [0.3, -0.6], [4.0, -8.0]


class Cart(br.System):
    """A mass on a spring with friction, pushed; its support may move."""

    mass: float = 2.0
    stiffness: float = 30.0
    damping: float = 0.7
    coordinates = ("x",)
    inputs = ("push",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.mass * v @ v

    def potential_energy(self, q, t):
        return 0.5 * self.stiffness * q @ q

    def applied_force(self, q, v, t):
        return -self.damping * v

    def input_matrix(self, q, t):
        return jnp.ones((1, 1))


class Shaken(br.System):
    """Pendulum (x, y) whose pivot is moved up and down: the constraint depends on time."""

    amplitude: float = 0.2
    coordinates = ("x", "y")
    constraint_names = ("rod",)

    def pivot(self, t):
        return self.amplitude * jnp.sin(5.0 * t)

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def potential_energy(self, q, t):
        return 9.81 * q[1]

    def constraints(self, q, t):
        return jnp.array([q[0] ** 2 + (q[1] - self.pivot(t)) ** 2 - 1.0])


class ShakenAngle(br.System):
    """The same with the angle as coordinate: the kinetic energy depends on time."""

    amplitude: float = 0.2
    coordinates = ("angle",)

    def position(self, q, t):
        return jnp.array([jnp.sin(q[0]), self.amplitude * jnp.sin(5.0 * t) - jnp.cos(q[0])])

    def kinetic_energy(self, q, v, t):
        t = jnp.asarray(t, float)
        _, w = jax.jvp(self.position, (q, t), (v, jnp.ones_like(t)))
        return 0.5 * w @ w

    def potential_energy(self, q, t):
        return 9.81 * self.position(q, t)[1]


@pytest.fixture(scope="module")
def crank_run():
    return br.simulate(SliderCrank(), Q, V, 2.0, save=41)


def test_energy_is_balanced_with_inputs_and_friction():
    system = Cart()
    run = br.simulate(system, [0.1], [0.0], 3.0, u=lambda t: jnp.array([jnp.sin(2.0 * t)]))
    assert run.energy.drift < 1e-8
    assert run.energy.work_of_forces[-1] < -1e-3
    assert abs(run.energy.work_of_inputs[-1]) > 1e-3
    assert np.allclose(run.u[:, 0], np.sin(2.0 * run.t))
    constant = br.simulate(system, [0.1], [0.0], 3.0, u=[0.0])
    rate, frequency = 0.7 / 4, np.sqrt(15 - (0.7 / 4) ** 2)
    t = np.asarray(constant.t)
    expected = 0.1 * np.exp(-rate * t) * (np.cos(frequency * t) + rate / frequency * np.sin(frequency * t))
    assert np.max(np.abs(constant["x"] - expected)) < 1e-9


def test_feedback_is_recorded_and_acts():
    run = br.simulate(Cart(), [0.1], [0.0], 3.0, controller=lambda t, q, v: -70.0 * q)
    frequency = np.sqrt(50 - (0.7 / 4) ** 2)
    t = np.asarray(run.t)
    expected = 0.1 * np.exp(-0.175 * t) * (np.cos(frequency * t) + 0.175 / frequency * np.sin(frequency * t))
    assert np.max(np.abs(run["x"] - expected)) < 1e-9
    assert np.allclose(run.u, -70.0 * run.q)
    assert run.energy.drift < 1e-8


def test_moving_constraints_and_moving_coordinates_are_the_same_motion():
    """Rheonomic terms of the constraint against those of the kinetic energy; both with their energy balance."""
    start = br.assemble(Shaken(), [np.sin(0.5), -np.cos(0.5)], [0.0, 1.0])
    constrained = br.simulate(Shaken(), start.q, start.v, 3.0, save=61)
    rate = float(start.v[0]) / float(-start.q[1])
    free = br.simulate(ShakenAngle(), [np.arctan2(start.q[0], -start.q[1])], [rate], 3.0, save=61)
    points = jax.vmap(ShakenAngle().position)(free.q, free.t)
    assert np.max(np.abs(constrained.q - points)) < 1e-9
    assert constrained.energy.drift < 1e-8
    assert free.energy.drift < 1e-8
    assert np.max(np.abs(constrained.energy.work_of_drives)) > 0.5


def test_saved_states_lie_on_the_constraints_and_forces_follow(crank_run):
    assert crank_run.constraint_error.max() < 1e-13
    system = crank_run.system
    for i in (0, 17, 40):
        result = br.forward_dynamics(system, crank_run.q[i], crank_run.v[i])
        assert np.allclose(crank_run.acceleration[i], result.acceleration, rtol=1e-9)
        assert np.allclose(crank_run.constraint_force[i], result.constraint_force, rtol=1e-9, atol=1e-9)
        assert np.allclose(crank_run.multipliers[i], result.multipliers, rtol=1e-7)


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ({"route": br.Gauss()}, 1e-9),
        ({"route": br.Projection("symmetric")}, 1e-9),
        ({"stabilization": br.Project("euclidean")}, 1e-9),
        ({"solver": diffrax.Tsit5(), "rtol": 1e-10, "atol": 1e-10}, 1e-6),
        ({"solver": diffrax.Kvaerno5(), "rtol": 1e-8, "atol": 1e-8}, 1e-5),
        ({"solver": diffrax.Dopri8(), "dt": 1e-3}, 1e-9),
        ({"solver": diffrax.Kvaerno5(), "dt": 1e-3, "rtol": 1e-7, "atol": 1e-7}, 1e-9),
    ],
    ids=["gauss", "projection", "euclidean", "tsit5", "implicit", "fixed-step", "implicit-fixed-step"],
)
def test_other_routes_and_solvers_give_the_same_motion(crank_run, settings, tolerance):
    """The tolerances are those of the solvers' dense output between its steps."""
    run = br.simulate(SliderCrank(), Q, V, 2.0, save=41, **settings)
    assert np.max(np.abs(run.q - crank_run.q)) < tolerance
    assert run.constraint_error.max() < 1e-12


def test_baumgarte_lets_errors_decay_and_none_leaves_them():
    system, t_end = br.gallery.load("pendulum-xy").system, 2.0
    soft = br.simulate(system, [-1.0 - 1e-3, 0.0], [0.0, 0.0], t_end, stabilization=br.Baumgarte(10.0, 10.0), save=21)
    decay = soft.constraint_error.position
    t = np.asarray(soft.t)
    assert np.allclose(decay, decay[0] * (1 + 10 * t) * np.exp(-10 * t), atol=1e-8)
    free = br.simulate(system, [-1.0 - 1e-3, 0.0], [0.0, 0.0], t_end, stabilization=None, save=21)
    assert np.allclose(free.constraint_error.position, decay[0], atol=1e-8)


def test_progress_is_shown_when_asked_for(capfd):
    br.simulate(Cart(), [0.1], [0.0], 1.0, save=2, progress=True).q.block_until_ready()
    jax.effects_barrier()
    assert "100.00%" in capfd.readouterr().out


class TestLabels:
    def test_coordinates_by_name(self, crank_run):
        assert np.array_equal(crank_run["rod"], crank_run.q[:, 1])
        with pytest.raises(br.ModelError, match="no coordinate called 'crnk'; there are crank, rod"):
            crank_run["crnk"]

    def test_xarray(self, crank_run):
        data = crank_run.to_xarray()
        assert np.array_equal(data.q.sel(coordinate="crank"), crank_run["crank"])
        assert set(data.dims) == {"time", "coordinate", "velocity", "constraint", "input"}
        assert data.time.attrs["units"] == "s"
        assert data.multipliers.sel(constraint="slider on its guide").shape == (41,)

    def test_save_and_load(self, crank_run, tmp_path):
        crank_run.save(tmp_path / "run.npz")
        back = br.Trajectory.load(tmp_path / "run.npz", crank_run.system)
        assert np.array_equal(back.q, crank_run.q)
        assert np.allclose(back.acceleration, crank_run.acceleration, rtol=1e-12)
        assert back.status == "completed"
        with pytest.raises(br.ModelError, match="belongs to coordinates crank, rod, not to x"):
            br.Trajectory.load(tmp_path / "run.npz", Cart())
        np.savez(tmp_path / "other.npz", t=np.zeros(2))
        with pytest.raises(br.ModelError, match="not a saved trajectory"):
            br.Trajectory.load(tmp_path / "other.npz", Cart())

    def test_words(self, crank_run):
        assert "SliderCrank: 41 states from 0 to 2 s, completed" in repr(crank_run)

    def test_save_at_chosen_times_keeps_both_ends(self):
        run = br.simulate(Cart(), [0.1], [0.0], 1.0, save=[0.25, 0.5])
        assert run.t.tolist() == [0.0, 0.25, 0.5, 1.0]


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"t_end": -1.0}, "t_end must be after the start"),
            ({"t_end": np.nan}, "t_end must be after the start"),
            ({"q": [0.3, np.nan]}, "q: not finite at rod"),
            ({"v": [0.3]}, "v: expected 2 numbers (crank, rod)"),
            ({"u": [1.0, 2.0]}, "u: expected 1 number (crank torque)"),
            ({"u": lambda t: jnp.zeros(3)}, "`u` returns shape (3,), but SliderCrank has 1 inputs"),
            ({"controller": lambda t, q: q}, "`controller` fails"),
            ({"u": [0.0], "controller": lambda t, q, v: v[:1]}, "either `u` or `controller`"),
            ({"rtol": 0.0}, "rtol must be positive"),
            ({"dt": -1e-3}, "dt must be positive"),
            ({"solver": diffrax.Euler()}, "Euler cannot choose its steps: give dt"),
            ({"save": 1}, "at least 2 states"),
            ({"save": [0.5, 0.2]}, "increasing"),
            ({"save": [0.5, 3.0]}, "between 0 and 1 s"),
            ({"save": "often"}, "list of times, not 'often'"),
        ],
    )
    def test_arguments(self, arguments, words):
        with pytest.raises(br.ModelError) as error:
            br.simulate(SliderCrank(), **{"q": Q, "v": V, "t_end": 1.0} | arguments)
        assert words in str(error.value)

    def test_a_start_off_the_constraints_says_by_how_much(self):
        with pytest.raises(br.AssemblyError, match=r"position misses slider on its guide by 0\.00\d+") as error:
            br.simulate(SliderCrank(), [0.3, -0.59], V, 1.0)
        assert error.value.residuals["slider on its guide"] > 1e-3
        with pytest.raises(br.AssemblyError, match="velocity misses slider on its guide"):
            br.simulate(SliderCrank(), Q, [4.0, -7.0], 1.0)

    def test_a_force_that_becomes_nan_keeps_the_run_until_then(self):
        class Failing(Cart):
            def applied_force(self, q, v, t):
                return jnp.where(t > 0.3, jnp.nan, 0.0) * jnp.ones(1)

        with pytest.raises(br.SimulationError, match=r"stopped at t = 0\.3 s: the force became NaN") as error:
            br.simulate(Failing(), [0.1], [0.0], 1.0, save=101)
        kept = error.value.trajectory
        assert error.value.t == pytest.approx(0.3, abs=1e-9)
        assert kept.t[-1] == pytest.approx(0.3, abs=1e-9)
        assert len(kept) in (31, 32)  # the saved time 0.3 and the last step may coincide
        assert np.allclose(kept["x"], 0.1 * np.cos(np.sqrt(15.0) * kept.t), atol=1e-9)
        returned = br.simulate(Failing(), [0.1], [0.0], 1.0, save=101, throw=False)
        assert not returned.succeeded
        assert "became NaN" in returned.status
        fixed = br.simulate(Failing(), [0.1], [0.0], 1.0, save=101, dt=0.01, throw=False)
        assert 0.28 <= fixed.t[-1] <= 0.3
        assert np.all(np.isfinite(fixed.q))

    def test_too_many_steps(self):
        with pytest.raises(br.SimulationError, match="maximum number of steps"):
            br.simulate(Cart(), [0.1], [0.0], 100.0, max_steps=10)

    def test_multipliers_through_a_singular_position(self):
        """They pass unless a step lands on it; started there, the run stops and says why."""
        run = br.simulate(SliderCrank(), [np.pi / 2, -np.pi], [1.0, -2.0], 1.0, route=br.Multipliers(), throw=False)
        assert "which Multipliers does not tolerate" in run.status

    def test_motion_without_inertia_is_refused_before_the_run(self):
        with pytest.raises(br.UndeterminedMotionError, match="x"):
            br.simulate(Cart(mass=0.0), [0.1], [0.0], 1.0)
