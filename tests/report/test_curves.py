import csv

import numpy as np
import pytest

from bricard.report import summarize, write_table
from bricard.report.curves import MAX_CURVES, Curve, _select, _signals, rounded, thinned
from bricard.report.plots import trajectory_figure

plt = pytest.importorskip("matplotlib.pyplot", reason="static figures need matplotlib")


@pytest.fixture(autouse=True)
def _no_window(monkeypatch):
    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_identical_curves_are_merged():
    t = np.linspace(0.0, 1.0, 50)
    curves = [Curve(f"rocker {i}", t) for i in range(41)] + [Curve(f"coupler {i}", 0.0 * t) for i in range(40)]
    shown, note = _select(curves)
    assert [c.name for c in shown] == ["rocker 0 (+40 identical)", "coupler 0 (+39 identical)"]
    assert note == ""


def test_the_curves_that_vary_most_are_kept():
    t = np.linspace(0.0, 1.0, 50)
    shown, note = _select([Curve(str(i), (i + 1) * t) for i in range(20)])
    assert [c.name for c in shown] == [str(i) for i in range(20 - MAX_CURVES, 20)]
    assert note == "12 curves that vary less are not shown"


def test_reference_and_output_of_a_controller_share_a_panel():
    t = np.linspace(0.0, 1.0, 5)[:, None]
    panels = _signals({"output": t, "reference": 2 * t, "error": np.hstack([t, -t]), "memory": t})
    titles = ["Controller: reference, output", "Controller: error", "Controller: memory"]
    assert [panel.title for panel in panels] == titles
    reference, output = panels[0].curves
    assert (reference.name, output.name) == ("reference", "output")
    np.testing.assert_array_equal(reference.values, 2 * output.values)
    assert [c.name for c in panels[1].curves] == ["error 0", "error 1"]


def test_too_many_signals_get_separate_panels():
    many = np.zeros((5, MAX_CURVES // 2 + 1))
    assert [panel.title for panel in _signals({"output": many, "reference": many})] == [
        "Controller: output",
        "Controller: reference",
    ]


def test_thinned_curves_keep_their_extremes():
    t = np.linspace(0.0, 1.0, 10_001)
    y = np.zeros(10_001)
    y[[777, 778]] = 3.0, -2.0
    times, (short,) = thinned(t, [y], 500)
    assert len(times) == len(short) <= 502
    assert (short.max(), short.min()) == (3.0, -2.0)
    assert np.all(np.diff(times) > 0.0)


def test_rounded_values_are_short_and_never_nan():
    values = np.array([1000.00012345, 1000.00023456, np.nan, np.inf])
    assert rounded(values) == [1000.00012345, 1000.00023456, None, None]
    assert rounded(np.array([0.123456789, 2.0])) == [0.1235, 2.0]
    assert rounded(np.array([1e-17, -1e-17]), scale=1.0) == [0.0, 0.0]
    assert rounded(np.array([0.0, 1.23456e-15]), log=True) == [0.0, 1.23e-15]


def test_the_figure_has_all_panels(slider_crank):
    figure = trajectory_figure(slider_crank)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert {"Coordinates", "Velocities", "Energy", "Energy balance", "Constraint error"} <= set(titles)
    assert {"Constraint multipliers", "Distance from singular positions"} <= set(titles)
    assert all(axis.get_ylabel() for axis in figure.axes if "Distance" not in axis.get_title(loc="left"))
    assert slider_crank.plot() is not figure


def test_legends_do_not_cover_data(slider_crank):
    figure = trajectory_figure(slider_crank)
    figure.canvas.draw()
    boxes = [axis.get_window_extent() for axis in figure.axes]
    legends = [axis.get_legend().get_window_extent() for axis in figure.axes if axis.get_legend()]
    assert legends
    assert not any(legend.overlaps(box) for legend in legends for box in boxes)


def test_table_has_a_row_for_every_state(slider_crank, tmp_path):
    path = write_table(slider_crank, tmp_path / "run.csv")
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][:5] == ["t", "crank", "rod", "velocity crank", "velocity rod"]
    assert "multiplier slider on its guide" in rows[0]
    assert len(rows) == 502
    assert [float(x) for x in rows[-1][:3]] == [10.0, *np.asarray(slider_crank.q[-1])]


def test_summary(slider_crank):
    summary = summarize(slider_crank, settings={"rtol": 1e-9})
    assert summary.singular_words.startswith("passed 8 singular positions, at t = 0.69")
    assert summary.energy_drift < 1e-5
    assert summary.steps > 100
    assert summary.settings["rtol"] == "1e-09"
    assert not summary.failed
