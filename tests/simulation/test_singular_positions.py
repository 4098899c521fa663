"""Straight through singular positions, with default settings."""

import numpy as np
import pytest

import bricard as br
from tests.simulation import exact


@pytest.mark.parametrize("perturbation", [0.0, 1e-12, 1e-9, 1e-6])
def test_slider_crank_stays_on_its_branch(perturbation, reference):
    """The exact start lies on the branch in floating point; perturbed starts are assembled."""
    example = br.gallery.load("slider-crank")
    start = br.assemble(example.system, example.q + perturbation * np.array([1.0, 1.0]), example.v)
    run = br.simulate(example.system, start.q, start.v, 10.0)
    expected = exact.motion(exact.slider_crank, float(start.q[0]), float(start.v[0]), np.asarray(run.t))
    assert np.max(np.abs(run["crank"] - expected)) < 1e-8
    assert np.max(np.abs(run["rod"] + 2 * run["crank"])) < 1e-12
    assert run.energy.drift < 3e-9 * abs(reference("slider_crank")["E0"])
    assert run.constraint_error.max() < 1e-13
    if perturbation == 0.0:
        numbers = reference("slider_crank")
        crossings = np.flatnonzero(np.diff(np.sign(np.cos(run["crank"]))))
        assert len(crossings) == len(numbers["singular_times"]) == 8
        assert np.allclose(run.t[crossings], numbers["singular_times"], rtol=0, atol=0.021)
        assert np.allclose(np.concatenate([run.q[250], run.v[250]]), numbers["state_t5"], rtol=0, atol=1e-7)


@pytest.mark.parametrize("n", [1, 2, pytest.param(40, marks=pytest.mark.slow)])
def test_four_bars_stay_parallelograms(n, reference):
    example = br.gallery.load("n-four-bar", n=n)
    run = example.simulate(save=11)
    numbers = reference("A02_N_four_bar")["reference"][f"N{n}"]
    assert np.allclose(np.sin(run["rocker 0"]), numbers["B0_x"], rtol=0, atol=1e-7)
    assert np.allclose(np.cos(run["rocker 0"]), numbers["B0_y"], rtol=0, atol=1e-7)
    rockers, couplers = np.asarray(run.q[:, : n + 1]), np.asarray(run.q[:, n + 1 :])
    assert np.max(np.ptp(rockers, axis=1)) < 1e-9
    assert np.max(np.abs(couplers)) < 1e-9
    assert run.energy.drift < 1e-8 * numbers["energy_J"]


def test_fixed_steps_of_ten_milliseconds_are_enough_for_the_branch():
    """RK4 as in the literature; without projection such a run ends in NaN."""
    import diffrax

    example = br.gallery.load("n-four-bar", n=2)
    run = example.simulate(solver=diffrax.Dopri5(), dt=0.01, save=101)
    assert run.succeeded
    assert np.max(np.ptp(np.asarray(run.q[:, :3]), axis=1)) < 1e-9
    assert run.energy.drift < 1e-4
