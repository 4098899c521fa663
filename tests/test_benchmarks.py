"""Benchmarks: tables, ratios, and equality of the mechanisms in all tools. No times are asserted."""

import dataclasses
import json

import numpy as np
import pytest
from benchmarks import batch, evaluation, markdown, plot, results, size, targets, work_precision
from benchmarks.__main__ import PARTS, main
from benchmarks.problems import BUILD, REFERENCE, Problem, four_bars
from benchmarks.runs import Run


def run(tool, seconds, error, problem="A03", gap=0.0):
    return dataclasses.asdict(Run(problem, tool, "some", seconds, error, gap=gap))


def test_the_fastest_run_that_is_accurate_enough_counts():
    runs = [run("bricard", 1.0, 1e-9), run("bricard", 0.1, 1e-7), run("MuJoCo", 0.01, 1e-3), run("Exudyn", 2.0, 9e-7)]
    first, second = targets.outcomes(runs)
    assert first.ours["seconds"] == 0.1
    assert first.peer["tool"] == "Exudyn"
    assert first.ratio == pytest.approx(20.0, rel=1e-12)
    assert first.is_met
    assert second.ours["seconds"] == 1.0
    assert second.peer is None
    assert second.ratio is None
    assert second.is_met  # no peer reaches the accuracy


def test_missed_targets_are_reported():
    slow = [run("bricard", 1.0, 1e-9), run("MuJoCo", 2.0, 1e-9)]
    inaccurate = [run("bricard", 1.0, 1e-9, gap=1e-3), run("MuJoCo", 2.0, 1e-9)]
    for runs in (slow, inaccurate):
        assert not any(o.is_met for o in targets.outcomes(runs))
        assert targets.table(targets.outcomes(runs)).count("**no**") == 2
    assert targets.outcomes([run("bricard", 1.0, None)])[0].ours is None  # an infinite error, stored as None
    assert targets.outcomes([run("bricard", 1.0, 1e-9, problem="A01")])[0].is_met is None  # there is no target


def test_ratios_are_compared_not_times():
    stored = {"a": 1.0, "b": 0.2, "gone": 1.0}
    assert results.worse(stored, {"a": 1.4, "b": 0.29, "new": 9.0}) == []
    (line,) = results.worse(stored, {"a": 1.6, "b": 0.01})
    assert line.startswith("a: 1.6")
    costs = {evaluation.DEFAULT: {"1": 2e-6, "2": 4e-6}, "MuJoCo": {"1": 1e-6}}
    assert evaluation.ratios({"costs": costs}) == {"evaluation N=1": pytest.approx(2.0, rel=1e-12)}
    faster_machine = {k: {n: t / 3 for n, t in c.items()} for k, c in costs.items()}
    assert results.worse(evaluation.ratios({"costs": costs}), evaluation.ratios({"costs": faster_machine})) == []


def test_results_are_stored_as_json(tmp_path):
    results.save("part", {"runs": [run("bricard", 1.23456789, float("inf"))]}, tmp_path)
    text = (tmp_path / "part.json").read_text()
    stored = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert stored["runs"][0]["error"] is None
    assert stored["runs"][0]["seconds"] == 1.235
    assert results.load("part", tmp_path) == stored
    assert results.load("other", tmp_path) is None
    import platform

    assert platform.node() not in text or not platform.node()


def test_tables_go_between_their_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- size: generated -->\nold\n<!-- size: end -->\nbelow\n")
    markdown.put("size", markdown.table(["N", "time"], [["1", "2 s"]]), page)
    markdown.put("size", markdown.table(["N", "time"], [["1", "3 s"]]), page)
    text = page.read_text()
    assert "old" not in text
    assert "2 s" not in text
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "| N | time |\n| --- | --- |\n| 1 | 3 s |" in text
    with pytest.raises(ValueError, match="no markers for cold"):
        markdown.put("cold", "", page)


def test_the_page_has_markers_for_every_part():
    text = markdown.PAGE.read_text()
    for part in ("machine", *PARTS):
        assert f"<!-- {part}: generated -->" in text
        assert f"<!-- {part}: end -->" in text


def test_unknown_parts_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "unknown part speed; choose from work-precision" in capsys.readouterr().err


def test_durations():
    assert [markdown.duration(x) for x in (12.34, 0.01234, 1.234e-5, None)] == ["12.3 s", "12.3 ms", "12.3 µs", ""]


def test_growth_is_an_exponent():
    rows = [{"tool": "bricard", "n": n, "seconds": 1e-3 * n**1.2, "first": 1.0} for n in (1, 10, 100, 1000)]
    assert size.growth({"rows": rows}) == pytest.approx(1.2, rel=1e-9)


def test_batches_are_compared_at_equal_accuracy():
    def row(tool, seconds, error):
        return {"kind": "four-bar", "tool": tool, "setting": tool, "count": 10, "seconds": seconds, "error": error}

    rows = [row("bricard", 0.1, 1e-3), row("bricard", 0.5, 1e-6), row("MuJoCo", 1.0, 1e-5)]
    (pair,) = batch.compared({"rows": rows})
    assert pair["ratio"] == pytest.approx(2.0, rel=1e-12)
    assert batch.compared({"rows": [rows[0], rows[2]]})[0]["ratio"] is None


def test_check_fails_when_ratios_grew(monkeypatch, capsys):
    fast = {"runs": [run("bricard", 1.0, 1e-9), run("MuJoCo", 2.0, 1e-9)]}
    slow = {"runs": [run("bricard", 4.0, 1e-9), run("MuJoCo", 2.0, 1e-9)]}
    monkeypatch.setattr(results, "load", lambda part: fast)
    monkeypatch.setattr(results, "save", lambda *_: pytest.fail("a check writes nothing"))
    for measured, code in ((fast, 0), (slow, 1)):
        monkeypatch.setattr("benchmarks.__main__.measure", lambda *_, data=measured: data)
        assert main(["work-precision", "--check"]) == code
    assert "worse than stored: A03 1e-06 m: 2 times the peer's time, was 0.5" in capsys.readouterr().out


def test_failed_runs_are_in_the_table_but_not_in_the_diagram(tmp_path):
    runs = [run("bricard", 1.0, 1e-9), run("Exudyn", float("inf"), float("inf"))]
    assert "| failed | failed |" in work_precision.markdown({"runs": runs})
    pytest.importorskip("matplotlib")
    plot.draw(runs, tmp_path / "diagram.png")
    assert (tmp_path / "diagram.png").stat().st_size > 1000


# -- the problems --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=BUILD)
def problem(request) -> Problem:
    return BUILD[request.param]()


def test_the_reference_has_no_error_and_starts_at_the_tracked_point(problem):
    assert problem.error(problem.points) == 0.0
    assert problem.error(problem.points * np.nan) == np.inf
    start = problem.model.tracked[1][list(problem.axes)]
    np.testing.assert_allclose(problem.points[0], start, rtol=0, atol=1e-12)
    assert np.ptp(np.diff(problem.times)) < 1e-12


def test_loops_are_closed_in_velocity_too(problem):
    model = problem.model
    twists = model.twists()
    for loop in model.loops:
        for point in loop.points:
            first, second = (
                twists[body][1] + np.cross(twists[body][0], point - model.centre(body))
                for body in (loop.first, loop.second)
            )
            np.testing.assert_allclose(first, second, rtol=0, atol=1e-12)


def test_the_reduced_equation_gives_the_stored_motion(monkeypatch):
    stored = four_bars(2)
    data = json.loads((REFERENCE / "A02_N_four_bar.json").read_text())
    del data["reference"]["N2"]
    monkeypatch.setattr("benchmarks.problems.reference", lambda name: data)
    np.testing.assert_allclose(four_bars(2).points, stored.points, rtol=0, atol=1e-9)


SHORT = {"A01": 100, "A02 N=2": 100, "A03": 100, "A04": 50}
"""A coarse number of steps between reference times; with four times as many the error must fall."""


@pytest.mark.filterwarnings("default")  # warnings of the peers are not errors here
@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("tool", ["mujoco", "pinocchio", "exudyn"])
def test_peers_simulate_the_same_mechanism(tool, name):
    pytest.importorskip(tool, reason=f"{tool} is not installed: pip install 'bricard[bench]'")
    runs = []
    for steps in (SHORT[name], 4 * SHORT[name]):
        if tool == "mujoco":
            from benchmarks.peers import mujoco_

            runs.append(mujoco_.run(BUILD[name](), "RK4", steps, 0.75 if name.startswith("A02") else 2.0, repeats=1))
        elif tool == "pinocchio":
            from benchmarks.peers import pinocchio_

            runs.append(pinocchio_.run_rk4(BUILD[name](), steps, 1, 2.0, pinocchio_.SMALL_MU))
        else:
            from benchmarks.peers import exudyn_

            runs.append(exudyn_.run(BUILD[name](), steps, "alpha", repeats=1))
    coarse, fine = runs
    assert fine.error < 0.3 * coarse.error
    assert fine.error < 2e-2
    if fine.gap is not None:
        assert fine.gap < 1e-4
