import numpy as np
import pytest

from bricard.report import singular_positions
from bricard.report.motion import configurations
from bricard.report.singular import _minima, _parabola


def test_slider_crank_passes_eight(slider_crank):
    times = np.array(singular_positions(slider_crank).times)
    assert len(times) == 8
    crank = configurations(slider_crank, times)[:, 0]
    # The links coincide when the crank is vertical.
    np.testing.assert_allclose(np.cos(crank), 0.0, atol=1e-4)


def test_most_lie_between_saved_states(slider_crank):
    found = singular_positions(slider_crank)
    assert np.min(found.measure) > 0.0
    assert np.median(found.measure) > 0.5


def test_a_run_without_singular_positions(cone):
    assert singular_positions(cone).times == ()


def test_a_nearly_singular_position_does_not_count(slider_crank):
    t = np.asarray(slider_crank.t)
    assert _minima(np.abs(np.sin(t)) + 0.2, 0.01) == [0, 157, 314, 471]
    _, square = _parabola(t[150:165], (np.abs(np.sin(t)) ** 2 + 0.04)[150:165])
    assert square == pytest.approx(0.04, abs=1e-3)


def test_consecutive_values_below_the_floor_count_once():
    values = np.array([1.0, 0.5, 0.001, 0.0, 0.002, 0.5, 1.0, 0.4, 1.0])
    assert _minima(values, 0.01) == [3, 7]


def test_kinks_are_located_through_their_squares():
    t = np.linspace(0.0, 1.0, 11)
    place, square = _parabola(t, (t - 0.537) ** 2)
    assert place == pytest.approx(0.537)
    assert square == pytest.approx(0.0, abs=1e-12)
