"""Parameters of the gallery: what cannot be is refused by name, in every example."""

import importlib
import inspect
import typing

import jax
import pytest

import bricard as br
from bricard.gallery import _EXAMPLES, _SCENARIOS
from bricard.gallery.ranges import Count, Fraction, Range, parameter_problems

BUILDERS = _EXAMPLES | _SCENARIOS


def builder(name):
    module, function = BUILDERS[name].split(":")
    return getattr(importlib.import_module(f"bricard.gallery.{module}"), function)


def hints(name):
    return typing.get_type_hints(builder(name), include_extras=True)


NAMES = [(n, p) for n in BUILDERS for p in inspect.signature(builder(n)).parameters]


NONSENSE = (float("nan"), float("inf"), 10**400, "word", [1.0], 1j, True)


@pytest.mark.parametrize("name", BUILDERS)
def test_no_parameter_takes_nonsense(name):
    for parameter, default in inspect.signature(builder(name)).parameters.items():
        assert parameter_problems(builder(name), {parameter: default.default}) == []
        for value in NONSENSE:
            with pytest.raises(br.ModelError, match=f"^{name}: {parameter} must be "):
                br.gallery.load(name, **{parameter: value})


MASSES = [(n, p) for n, p in NAMES if p[0] == "m" and (p == "m" or p[1].isdigit() or p[1] == "_")]
LENGTHS = [
    (n, p)
    for n, p in NAMES
    if p in ("l", "l1", "l2", "r", "rho", "height", "width", "radius", "reach") and hints(n)[p] is not Count
]


def test_masses_and_lengths_are_positive():
    for name, parameter in MASSES + LENGTHS:
        for value in (-1.0, 0):
            with pytest.raises(br.ModelError, match=f"^{name}: {parameter} must be positive, not {value}$"):
                br.gallery.load(name, **{parameter: value})


def test_there_are_masses_and_lengths():
    assert len(MASSES) > 15
    assert len(LENGTHS) > 15


@pytest.mark.parametrize("value", [-3, 0, 10**9, 2.0])
def test_counts(value):
    for name, parameter in (("n-four-bar", "n"), ("stewart", "legs")):
        with pytest.raises(br.ModelError, match=f"^{name}: {parameter} must be "):
            br.gallery.load(name, **{parameter: value})


def test_choices_and_several_problems_at_once():
    with pytest.raises(br.ModelError, match="coordinates must be one of relative, absolute, natural, not 'polar'"):
        br.gallery.load("four-bar", coordinates="polar")
    with pytest.raises(br.ModelError, match="2 problems"):
        br.gallery.load("pendulum", m=-1, l="long")
    with pytest.raises(br.ModelError, match=r"restitution must be between 0 and 1, not 1\.5"):
        br.gallery.load("bouncing-ball", restitution=1.5)
    assert Range(0.0, 1.0) in typing.get_args(Fraction)


def test_values_that_jax_traces_pass():
    assert jax.grad(lambda m: 2.0 * br.gallery.load("pendulum", m=m).system.m)(3.0) == 2.0
