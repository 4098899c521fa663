"""Relative, absolute and natural coordinates: the same motion, the same reactions, and every body in balance."""

import numpy as np
import pytest

FAST = ("four-bar",)
SLOW = (
    "bricard",
    *("five-bar", "peaucellier", "sarrus", "flyball-governor", "planar-stewart", "stewart"),
    *("delta", "six-axis-arm", "gripper", "bennett", "spatial-slider-crank"),
)


@pytest.fixture(params=[*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def both(request, gallery_motions):
    return gallery_motions(request.param)


def test_state_is_on_the_constraints(both):
    for result in both[1].values():
        assert np.max(np.abs(result["position"]), initial=0.0) < 1e-13
        assert np.max(np.abs(result["velocity"]), initial=0.0) < 1e-12


@pytest.mark.parametrize("kind", ["absolute", "natural"])
def test_accelerations_and_energies_agree(both, kind):
    expected, got = both[1]["relative"], both[1][kind]
    size = 1.0 + np.max(np.abs(expected["rates"]))
    np.testing.assert_allclose(got["rates"], expected["rates"], atol=1e-9 * size, rtol=0)
    np.testing.assert_allclose(got["energy"], expected["energy"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["absolute", "natural"])
def test_reactions_agree(both, kind):
    expected, got = both[1]["relative"]["reactions"], both[1][kind]["reactions"]
    size = 1.0 + np.max(np.abs(expected.all.world))
    np.testing.assert_allclose(got.all.world, expected.all.world, atol=1e-7 * size, rtol=0)
    np.testing.assert_allclose(got.all.joint, expected.all.joint, atol=1e-7 * size, rtol=0)
    np.testing.assert_array_equal(got.all.determinate, expected.all.determinate)


@pytest.mark.parametrize("kind", ["relative", "absolute", "natural"])
def test_every_body_is_in_balance(both, kind):
    """Reactions, taken from joint points to centres of mass by hand, supply what each body needs."""
    systems, results = both
    model, result = systems[kind].model, results[kind]
    reactions = result["reactions"].all
    place_p = np.asarray(systems[kind].place(result["q"]).p)
    total = np.zeros((model.n + 1, 6))
    for j, (parent, child) in enumerate(zip(model.frames.parent, model.frames.child, strict=True)):
        if model.planar:
            fx, fy, mz = np.asarray(reactions.world[j])
            force, moment, point = np.array([fx, fy, 0]), np.array([0, 0, mz]), np.append(reactions.point[j], 0)
        else:
            force, moment, point = (np.asarray(x) for x in (*np.split(reactions.world[j], 2), reactions.point[j]))
        for body, sign in ((parent, -1.0), (child, 1.0)):
            arm = point - (place_p[body] if body < model.n else 0.0)
            total[body] += sign * np.concatenate([force, moment + np.cross(arm, force)])
    size = 1.0 + np.max(np.abs(result["needed"]))
    np.testing.assert_allclose(total[: model.n], result["needed"], atol=1e-8 * size, rtol=0)


def test_mass_matrices_are_symmetric_and_not_negative(both):
    for result in both[1].values():
        mass = np.asarray(result["mass"])
        np.testing.assert_allclose(mass, mass.T, atol=1e-13)
        assert np.min(np.linalg.eigvalsh(mass)) > -1e-12
