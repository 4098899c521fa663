"""Charts over two parameters and tuned gains: against single points, known edges and known optima."""

import numpy as np
import pytest

import bricard as br
from bricard.control import Sampled
from bricard.stability import chart, eigenvalues, sampled_map, tune

from .loops import HANGING, PD, Cart, cart_and_tip


@pytest.fixture(scope="module")
def nominal():
    """The sliding pendulum at 33 Hz with one sample of delay."""
    system, law = cart_and_tip(0.6, 100.0, 10.0)
    return system, Sampled(law, 0.03, 1)


@pytest.fixture(scope="module")
def gains(nominal):
    """Its chart."""
    return chart(nominal[0], HANGING, nominal[1], kp=np.linspace(0, 300, 31), kd=np.linspace(0, 40, 31))


def radius(kappa, kp, kd, period=0.03, **parameters):
    """At a single point."""
    system, law = cart_and_tip(kappa, kp, kd, **parameters)
    return sampled_map(system, HANGING, Sampled(law, period, 1)).radius


def test_chart_of_the_sliding_pendulum(gains):
    region = gains.regions["loop"]
    np.testing.assert_allclose(region.best, [115.61, 24.126], rtol=0, atol=0.01)
    assert abs(region.value - 0.93537) < 1e-5
    assert gains.data["value"].dims == ("loop", "kd", "kp")
    for i, j in ((3, 5), (20, 18), (30, 30)):
        point = {"kp": gains.data.kp.values[i], "kd": gains.data.kd.values[j]}
        expected = radius(0.6, point["kp"], point["kd"])
        assert abs(float(gains.data["value"].sel(loop="loop", **point)) - expected) < 1e-10
    assert "stable area" in str(gains)
    assert "smaller than the grid's steps of 10 by 1.33" in str(gains)
    assert region.missed == 0  # checked: the law is linear in its gains
    assert "not checked" not in str(gains)


@pytest.mark.slow
def test_tuning_of_the_sliding_pendulum(nominal, gains):
    system, loop = nominal
    tuned = tune(system, HANGING, loop, kp=(0.0, 300.0), kd=(0.0, 40.0))
    assert abs(tuned.value - gains.regions["loop"].value) < 1e-7
    assert tuned.stable
    # Of a heavier and a lighter rod the worse one counts; the nominal gains do no better on it.
    others = [br.gallery.load("sliding-pendulum", m2=m).system for m in (0.07, 0.13)]
    robust = tune(system, HANGING, loop, samples=others, kp=(50.0, 200.0), kd=(10.0, 40.0))
    assert robust.value == np.max(robust.values)
    assert robust.value > tuned.value


@pytest.mark.slow
def test_chart_of_parameters_in_which_the_law_is_not_linear(nominal):
    """Of the loop and of the system."""
    system, loop = nominal
    other = chart(system, HANGING, loop, kappa=[0.3, 0.5, 0.6], period=[0.01, 0.03])
    got = float(other.data["value"].sel(loop="loop", kappa=0.5, period=0.01))
    assert abs(got - radius(0.5, 100.0, 10.0, period=0.01)) < 1e-10
    heavy = chart(system, HANGING, loop, m2=[0.1, 0.4], kp=[80.0, 115.0])
    got = float(heavy.data["value"].sel(loop="loop", m2=0.4, kp=80.0))
    assert abs(got - radius(0.6, 80.0, 10.0, m2=0.4)) < 1e-10


def test_chart_of_a_continuous_loop_has_a_known_edge():
    """`m s³ + kd s² + kp s + ki` is stable iff `kp kd > m ki` (Hurwitz)."""
    found = chart(Cart(), [0.0], PD(ki=3.123), kp=np.linspace(0.5, 4.0, 15), kd=np.linspace(0.5, 4.0, 14))
    stable = found.data["value"].values[0] < 0.0
    expected = found.data.kp.values[None, :] * found.data.kd.values[:, None] > 2.0 * 3.123
    np.testing.assert_array_equal(stable, expected)
    # With a mass on an axis each point is linearised anew: those in between are not checked, and that is said.
    heavy = chart(Cart(), [0.0], PD(ki=3.123, kd=4.0), m=[1.0, 2.0, 3.0], kp=[1.0, 2.0, 4.0])
    np.testing.assert_array_equal(heavy.data["value"].values[0] < 0.0, [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    assert heavy.regions["loop"].missed is None
    assert "not checked between the points of the grid" in str(heavy)


def test_nothing_in_range_is_stable():
    none = chart(Cart(), [0.0], PD(ki=3.123), kp=[0.1, 0.5], kd=[0.1, 0.5])
    region = none.regions["loop"]
    assert "no stable point in this range" in str(none)
    assert (region.area, region.stable, region.pieces, region.missed) == (0.0, False, 0, None)
    assert np.all(np.isfinite(none.data["value"].values))
    tuned = tune(Cart(), [0.0], PD(ki=3.123), kp=(0.1, 0.5), kd=(0.1, 0.5))
    assert not tuned.stable
    assert set(tuned.on_edge) == {"kp", "kd"}
    assert "nothing within the bounds is stable" in str(tuned)


def test_several_loops_are_panels_of_one_figure(tmp_path):
    """Side by side, with the same colours; saved as one picture."""
    plt = pytest.importorskip("matplotlib.pyplot", reason="static figures need matplotlib")
    plt.switch_backend("agg")
    grids = {"kp": np.linspace(0.5, 4.0, 8), "kd": np.linspace(0.5, 4.0, 7)}
    found = chart(Cart(), [0.0], {"weak": PD(ki=1.0), "strong": PD(ki=3.123), "far too strong": PD(ki=90.0)}, **grids)
    figure = found.plot()
    axes = [panel.axes[0] for panel in figure.subfigs]
    assert [a.get_title(loc="left") or a.get_title() for a in axes] == ["weak", "strong", "far too strong"]
    assert [a.get_xlabel() for a in axes] == 3 * ["kp"]
    colours = [p.axes[0].collections[1].get_clim() for p in figure.subfigs[:2]]
    assert colours[0] == colours[1] == (float(found.data["value"].min()), 0.0)
    assert figure.subfigs[2].legends[0].get_title().get_text() == "stable nowhere in this range"
    path = found.save(tmp_path / "chart.png")
    assert [p.name for p in tmp_path.iterdir()] == ["chart.png"]
    height, width = plt.imread(path).shape[:2]
    assert width > 2 * height
    assert not chart(Cart(), [0.0], PD(ki=1.0), **grids).plot().subfigs
    plt.close("all")


def test_bad_input():
    system, grid = Cart(), np.linspace(1.0, 2.0, 3)
    with pytest.raises(br.ModelError, match="no parameter called 'kq'; there are kd, ki, kp, m"):
        chart(system, [0.0], PD(ki=3.123), kp=grid, kq=grid)
    with pytest.raises(br.ModelError, match="kd: a grid needs at least two points"):
        chart(system, [0.0], PD(ki=3.123), kp=grid, kd=[1.0])
    with pytest.raises(br.ModelError, match="name two parameters"):
        chart(system, [0.0], PD(ki=3.123), kp=grid)
    with pytest.raises(br.ModelError, match="finite and increasing"):
        chart(system, [0.0], PD(ki=3.123), kp=grid, kd=grid[::-1])
    with pytest.raises(br.ModelError, match="a lower and an upper bound"):
        tune(system, [0.0], PD(), kp=(2.0, 1.0))
    with pytest.raises(br.ModelError, match=r"must be Sampled\(controller, period, delay_samples\)"):
        sampled_map(system, [0.0], PD())
    with pytest.raises(br.ModelError, match=r"br\.stability\.sampled_map has its eigenvalues"):
        eigenvalues(system, [0.0], controller=Sampled(PD(), 0.1))
    with pytest.raises(br.ModelError, match="no parameter called 'kq'"):
        tune(system, [0.0], PD(), kq=(1.0, 2.0))
    with pytest.raises(br.ModelError, match="the controller is not at rest: its memory changes by 3 per second"):
        chart(system, [1.0], PD(ki=3.0), kp=grid, kd=grid)
    with pytest.raises(br.ModelError, match="sampled and continuous loops cannot be compared"):
        chart(system, [0.0], [PD(), Sampled(PD(), 0.1)], kp=grid, kd=grid)
