"""The loop of runs that only go forward: as diffrax's own, which serves those that are differentiated."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest

import bricard as br
from bricard.simulation.arguments import prepare_solver
from bricard.simulation.step_size import Steps
from bricard.simulation.stepping import integrate_forward
from bricard.simulation.vector_field import State

TERM = diffrax.ODETerm(lambda t, y, k: State(y.v, -k * y.q, jnp.zeros(3), jnp.zeros(0)))
START = State(jnp.array([1.0]), jnp.zeros(1), jnp.zeros(3), jnp.zeros(0))
TIMES = jnp.array([0.0, 0.3, 0.3001, 2.0, 5.0])


def run(times=TIMES, stops=None, max_steps=1000, tolerance=1e-9, first=1e-3, k=1.0, solver=None):
    steps = Steps(jnp.array([tolerance, tolerance, 1e-12]), adapt=True)
    solver = solver or diffrax.Tsit5(scan_kind="lax")
    return integrate_forward(TERM, solver, START, k, times, stops, steps, jnp.asarray(first), max_steps)


def test_it_ends_at_every_time():
    found = run()
    np.testing.assert_array_equal(found.t, TIMES)
    np.testing.assert_allclose(found.states.q[:, 0], np.cos(TIMES), rtol=0, atol=1e-7)
    assert float(found.last_t) == float(TIMES[-1])
    np.testing.assert_array_equal(found.last.q, found.states.q[-1])
    assert found.result == diffrax.RESULTS.successful


def test_it_takes_the_steps_of_diffrax():
    """Without stops on the way, both do the same."""
    ends = TIMES[jnp.array([0, -1])]
    found = run(ends)
    expected = diffrax.diffeqsolve(
        TERM,
        diffrax.Tsit5(),
        0.0,
        float(ends[1]),
        1e-3,
        START,
        1.0,
        stepsize_controller=Steps(jnp.array([1e-9, 1e-9, 1e-12]), adapt=True).controller(ends),
    )
    np.testing.assert_allclose(found.last.q, expected.ys.q[-1], rtol=0, atol=1e-8)
    assert abs(int(found.stats["num_steps"]) - int(expected.stats["num_steps"])) <= 1


def test_a_stop_on_the_way_does_not_slow_it_down():
    without, with_stop = (run(jnp.array([0.0, *between, 5.0])) for between in ((), (2.0, 2.0 + 1e-9)))
    assert int(with_stop.stats["num_steps"]) <= int(without.stats["num_steps"]) + 2


def test_only_what_is_asked_for_is_saved():
    """However many times steps must end at."""
    found = run(stops=jnp.union1d(TIMES, jnp.linspace(0.0, 5.0, 101)))
    np.testing.assert_array_equal(found.t, TIMES)
    np.testing.assert_allclose(found.states.q[:, 0], np.cos(TIMES), rtol=0, atol=1e-7)
    assert 100 <= int(found.stats["num_steps"]) <= 130


def test_steps_run_out():
    found = run(max_steps=5)
    assert found.result == diffrax.RESULTS.max_steps_reached
    assert int(found.stats["num_steps"]) == 5
    reached = np.isfinite(found.t)
    assert not reached[-1]
    np.testing.assert_array_equal(np.isfinite(found.states.q[:, 0]), reached)
    assert 0.0 < float(found.last_t) < 5.0


def test_too_long_a_first_step_is_rejected():
    found = run(first=4.0)
    assert int(found.stats["num_rejected_steps"]) > 0
    np.testing.assert_allclose(found.states.q[:, 0], np.cos(TIMES), rtol=0, atol=1e-7)


def test_derivatives_and_batches():
    rates = jnp.array([1.0, 2.0])
    np.testing.assert_allclose(
        jax.vmap(lambda k: run(k=k).last.q[0])(rates), np.cos(5.0 * np.sqrt(rates)), rtol=0, atol=1e-7
    )
    slope = jax.jvp(lambda k: run(k=k).last.q[0], (1.0,), (1.0,))[1]
    np.testing.assert_allclose(slope, -np.sin(5.0) * 2.5, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "solver",
    [diffrax.Dopri8(), pytest.param(diffrax.Kvaerno5(), marks=pytest.mark.slow)],
    ids=["explicit", "implicit"],
)
def test_simulations_agree_with_those_of_diffrax(solver):
    example = br.gallery.load("slider-crank")
    settings = {"t_end": 0.2, "save": 5, "solver": solver, "rtol": 1e-9, "atol": 1e-9}
    found, expected = (example.simulate(**settings, adjoint=a) for a in (None, diffrax.RecursiveCheckpointAdjoint()))
    np.testing.assert_allclose(found.q, expected.q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.v, expected.v, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.work, expected.work, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("given", "kept"), [({}, False), ({"root_finder": optx.Newton(1e-8, 1e-9)}, True)])
def test_a_root_finder_of_ones_own_is_kept(given, kept):
    """diffrax's own take their tolerances from the steps, which a loop of ours has to tell them."""
    finder = prepare_solver(diffrax.Kvaerno5(**given), False, diffrax.ForwardMode(), 1e-6, 1e-7).root_finder
    assert isinstance(finder, optx.Newton) == kept
    assert (float(finder.rtol), float(finder.atol)) == ((1e-8, 1e-9) if kept else (1e-6, 1e-7))


@pytest.mark.slow
def test_saved_states_are_on_the_constraints_as_they_are():
    """Steps end there, so that nothing has to be put back afterwards; between steps of a given length it has."""
    example = br.gallery.load("slider-crank")
    for settings in ({}, {"dt": 1e-3, "solver": diffrax.Tsit5()}, {"adjoint": diffrax.RecursiveCheckpointAdjoint()}):
        found = example.simulate(t_end=0.5, save=np.array([0.0, 0.1234567, 0.5]), **settings)
        system = example.system
        for q, v, t in zip(found.q, found.v, found.t, strict=True):
            assert np.max(np.abs(system.constraints(q, t))) < 1e-14
            assert np.max(np.abs(system.constraint_rate(q, v, t))) < 1e-13


@pytest.mark.parametrize(("offset", "moved"), [(0.0, False), (1e-9, True)])
def test_a_start_is_moved_only_if_it_must(offset, moved):
    example = br.gallery.load("slider-crank")
    q = jnp.asarray(example.q).at[-1].add(offset)
    found = br.simulate(example.system, q, jnp.asarray(example.v), 0.01, save=2)
    assert bool(np.any(found.q[0] != q)) == moved
    assert np.max(np.abs(example.system.constraints(found.q[0], 0.0))) < 1e-14
