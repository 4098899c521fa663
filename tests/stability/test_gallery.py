"""Every gallery system that can stand still: three methods, all kinds of coordinates, constraints given twice."""

import numpy as np
import pytest

import bricard as br
from bricard.stability import EquilibriumError, equilibrium

from .spectra import agree, assert_same, doubled

MECHANISMS = [
    "four-bar",
    "five-bar",
    "peaucellier",
    "bennett",
    "bricard",
    "sarrus",
    "spatial-slider-crank",
    "flyball-governor",
    "planar-stewart",
    "stewart",
    "delta",
    "six-axis-arm",
    "gripper",
]
BY_HAND = [
    "slider-crank",
    "n-four-bar",
    "particle-on-circle",
    "pendulum",
    "pendulum-xy",
    "pendulum-xyt",
    "double-pendulum",
    "prr",
    "two-mass",
    "two-mass-joined",
    "sliding-pendulum",
    "acroboter",
    "andrews",
    "rolling-disc",
    "heavy-top",
]
PLACES = {
    "rolling-disc": [0.0, 0.0, 0.01, 1.0, 0.0, 0.0, 0.0],  # upright; from its start it falls
    "pendulum-xy": [0.0, -1.0],  # it starts half way between hanging and standing
}
GUESSES = {
    "flyball-governor": [0.0, 0.0, -np.pi / 3, -np.pi / 3],  # its arms hang; it starts spinning, far from that
    "sarrus": [2.5, -1.9, -0.6, -5.6, 1.9],  # folded; from its start it finds the stretched, which is singular
}


def at_rest(example, guess=None):
    """The equilibrium near the start (or a guess), with inputs where it needs them."""
    system, u = example.system, example.settings.get("u")
    guess = example.q if guess is None else guess
    u = None if callable(u) else u
    if "crank" in system.coordinates and system.nv == 2:  # without a torque the slider-crank rests only where singular
        return equilibrium(system, guess, hold="crank")
    try:
        return equilibrium(system, guess, u)
    except EquilibriumError:
        return equilibrium(system, guess, u, free=system.input_names)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_HAND)
def test_systems_given_by_their_energies(name):
    example = br.gallery.load(name)
    if name in PLACES:
        q, u = PLACES[name], None
    else:
        found = at_rest(example)
        q, u = found.q, found.u
    once, _ = agree(example.system, q, u)
    if example.system.n_holonomic:
        twice, _ = agree(doubled(example.system), q, u)
        assert_same(twice.physical, once.physical, 1e-8 * max(1.0, np.max(np.abs(once.physical))))


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_in_all_coordinates(name):
    example = br.gallery.load(name)
    tree, found = example.system, at_rest(example, GUESSES.get(name))
    expected = agree(tree, found.q, found.u)[0].physical
    size = max(1.0, float(np.max(np.abs(expected))))
    for coordinates in ("absolute", "natural"):
        system = br.gallery.load(name, coordinates=coordinates).system
        q = system.coordinates_of(tree.place(found.q))
        assert_same(agree(system, q, found.u)[0].physical, expected, 1e-8 * size)
