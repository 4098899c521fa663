"""Contents and legends of static figures: charts, spectra and paths."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.report import chart_figure, path_figure, spectrum_figure
from bricard.simulation.driven_motion import Kinematics

plt = pytest.importorskip("matplotlib.pyplot", reason="static figures need matplotlib")

LABELS = {"x_label": "kp (1/s²)", "y_label": "kd (1/s)"}


@pytest.fixture(autouse=True)
def _no_window():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def legend(figure):
    owners = [figure, *figure.subfigs]
    found = [*(x for f in owners for x in f.legends), *(a.get_legend() for a in figure.axes if a.get_legend())]
    return [text.get_text() for box in found for text in (*box.get_texts(), box.get_title())]


class TestChart:
    x, y = np.linspace(0.0, 4.0, 41), np.linspace(0.0, 2.0, 21)

    def bowl(self):
        """Distance from the point (2, 1)."""
        return np.hypot(self.x[None, :] - 2.0, self.y[:, None] - 1.0)

    def test_the_contour_follows_the_level(self):
        figure = chart_figure(self.x, self.y, self.bowl(), **LABELS, level=0.8)
        (contour,) = (c for c in figure.axes[0].collections if type(c).__name__ == "QuadContourSet")
        vertices = np.concatenate([path.vertices for path in contour.get_paths()])
        np.testing.assert_allclose(np.hypot(*(vertices - [2.0, 1.0]).T), 0.8, rtol=0, atol=5e-3)
        assert figure.axes[0].get_xlabel() == "kp (1/s²)"
        assert "spectral radius = 0.8" in legend(figure)
        assert "not determined" not in legend(figure)

    def test_only_cells_below_the_level_are_coloured(self):
        z = self.bowl()
        z[0, 0], z[1, 1] = np.inf, np.nan
        figure = chart_figure(self.x, self.y, z, **LABELS)
        meshes = [c for c in figure.axes[0].collections if type(c).__name__ == "QuadMesh"]
        grey, colour = (np.ma.getmaskarray(m.get_array()).reshape(z.shape) for m in meshes[:2])
        np.testing.assert_array_equal(~colour, z <= 1.0)
        np.testing.assert_array_equal(~grey, z > 1.0)

    def test_nan_is_hatched_and_named_in_the_legend(self):
        z = self.bowl()
        z[:3, :5] = np.nan
        figure = chart_figure(self.x, self.y, z, **LABELS)
        assert "not determined" in legend(figure)
        (hatched,) = (c for c in figure.axes[0].collections if c.get_hatch())
        assert len(hatched.get_paths()) == 15
        figure.canvas.draw()

    def test_nothing_stable(self):
        assert "stable nowhere in this range" in legend(chart_figure(self.x, self.y, self.bowl() + 2.0, **LABELS))

    def test_everything_stable_or_flat(self):
        for z in (0.1 * self.bowl(), np.full((21, 41), 0.5), np.ones((21, 41))):
            chart_figure(self.x, self.y, z, **LABELS).canvas.draw()

    def test_nothing_known(self):
        assert "not determined" in legend(chart_figure(self.x, self.y, np.full((21, 41), np.nan), **LABELS))

    def test_the_best_point(self):
        figure = chart_figure(self.x, self.y, self.bowl(), **LABELS, best=(2.0, 1.5))
        assert "best: 2, 1.5 (0.5)" in legend(figure)

    def test_all_problems_are_reported_together(self):
        with pytest.raises(br.ModelError) as caught:
            chart_figure(self.x[::-1], self.y, self.bowl().T, **LABELS)
        assert "x: expected at least two finite, increasing" in str(caught.value)
        assert "z: expected shape (21, 41)" in str(caught.value)
        with pytest.raises(br.ModelError, match=r"\(9, 9\) lies outside the chart"):
            chart_figure(self.x, self.y, self.bowl(), **LABELS, best=(9.0, 9.0))


class TestSpectrum:
    def test_continuous_time(self):
        figure = spectrum_figure([-1 + 2j, -1 - 2j, 0.5, 3j, np.nan], [0.0, -80.0])
        assert set(legend(figure)) >= {
            "stable (2)",
            "unstable (1)",
            "on the boundary (1)",
            "spurious (2, 1 outside the axes)",
            "1 not finite, not shown",
        }
        assert figure.axes[0].get_xlabel() == "real part (1/s)"

    def test_discrete_time(self):
        figure = spectrum_figure([0.5 + 0.5j, 0.9, -1.2, 1.0], sampled=True)
        assert set(legend(figure)) >= {"stable (2)", "unstable (1)", "on the boundary (1)"}
        assert figure.axes[0].get_aspect() == 1.0
        assert figure.axes[0].get_xlabel() == "real part"

    @pytest.mark.parametrize("values", [[0.0], [-1.0, -1.0], [5j, -5j], [np.nan]])
    def test_few_values(self, values):
        spectrum_figure(values).canvas.draw()

    def test_bad_input(self):
        with pytest.raises(br.ModelError, match="no eigenvalues"):
            spectrum_figure([])
        with pytest.raises(br.ModelError, match="values: expected a list"):
            spectrum_figure(np.zeros((2, 2)))


class TestPaths:
    def test_a_crank(self):
        m = br.Mechanism(gravity=(0, 0), planar=True)
        m.body("crank", br.rod((0.0, 0.0), (2.0, 0.0), 1.0))
        m.revolute("A", m.ground, "crank", (0.0, 0.0))
        m.point_sensor("middle", "crank", (1.0, 0.0))
        t = jnp.linspace(0.0, 1.0, 31)
        one, column = jnp.ones(31), jnp.ones((31, 1))
        motion = Kinematics(m.system(), t, 2.0 * t[:, None], 2.0 * column, 0.0 * column, 0.0 * one, one - t, one)
        figure = path_figure(motion, title="Crank")
        assert {"middle", "A"} <= set(legend(figure))
        picture = figure.axes[0]
        curve = next(line for line in picture.lines if line.get_label() == "middle")
        circle = np.stack([np.cos(2.0 * t), np.sin(2.0 * t)], axis=1)
        np.testing.assert_allclose(curve.get_xydata(), circle, rtol=0, atol=1e-12)
        assert [a.get_title(loc="left") for a in figure.axes[1:]] == ["Coordinates", "Distance from dead points"]
        (dead_point,) = (line for line in figure.axes[2].lines if line.get_linestyle() == ":")
        assert dead_point.get_xdata()[0] == 1.0

    def test_in_space(self, cone):
        figure = path_figure(cone)
        assert figure.axes[0].name == "3d"
        figure.canvas.draw()
