import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.gallery.running import Runner, lost_fraction, maps, maps_figure

CASES = ("ratio_straight_vertical", "ratio_bent_gamma15")


def test_mass_matrix_and_contact_rows(reference):
    known, runner = reference("running"), Runner()
    q = jnp.asarray(known["q"])
    np.testing.assert_allclose(runner.mass_matrix(q, 0.0), known["M"], rtol=0, atol=1e-8)
    hit = br.impact(runner, q, jnp.zeros(5), lambda q, t: runner.on_foot(q, 0.3))
    np.testing.assert_allclose(hit.matrix[:, 0], known["Phi_s0.3"], rtol=0, atol=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_share_of_energy_lost(reference, case):
    for row in reference("running")[case]:
        angles = np.deg2rad([row["beta_deg"], row["gamma_deg"]])
        share = lost_fraction(Runner(), row["s"], *angles, velocity=tuple(row["v"]))
        assert abs(float(share) - row["ratio"]) < 1e-8


@pytest.mark.slow
def test_friction_that_keeps_the_foot_from_slipping(reference):
    runner = Runner()
    for row in reference("running")["mu_c_eq7.3_as_printed_and_impulse_ratio"]:
        q = np.concatenate([np.zeros(3), np.deg2rad([row["beta_deg"], row["gamma_deg"]])])
        foot = br.point_contact(lambda q, t, s=row["s"]: runner.on_foot(q, s), friction=np.inf)
        hit = br.impact(runner, q, [0.0, -1.0, 0.0, 0.0, 0.0], foot)
        assert abs(float(hit.friction_needed[0]) - row["impulse_ratio_vertical_v"]) < 1e-8
        assert hit.sticking[0]


def test_the_maps_say_what_the_source_says():
    """Landing on the heel with a straight leg costs nearly everything; on the toe, and in front of the body, little."""
    found = maps(points=5)
    assert list(found) == ["straight", "bent", "3 m/s", "4 m/s", "5 m/s"]
    np.testing.assert_allclose(found["straight"], found["straight"][:, ::-1], rtol=0, atol=1e-12)
    assert found["straight"][0, 2] > 0.99
    assert found["straight"][-1, 2] < 3e-4
    for name in ("bent", "3 m/s", "4 m/s", "5 m/s"):
        assert jnp.argmax(found[name]) == 4  # heel strike, overstriding
        assert found[name][0, 0] < 0.25 * found[name][0, -1]
    assert 0.31 < float(found["3 m/s"].max()) < 0.33
    assert 0.02 < float(found["3 m/s"].min()) < 0.025


def test_the_figure_has_a_map_for_each_case():
    pytest.importorskip("matplotlib")
    figure = maps_figure(points=3)
    assert [a.get_title() for a in figure.axes if a.get_title()][1] == "bent: energy lost (%)"
