"""Mechanisms held by springs and by their spin: a Stewart platform on its legs, a governor that turns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import bricard as br
from bricard.stability import eigenvalues, equilibrium

from .spectra import agree, assert_same


class LegSprings(br.control.Controller):
    """Each leg a spring and a damper, preloaded to carry the platform: `u = u₀ − k (P − P₀) − d Ṗ`."""

    stiffness: float
    damping: float
    length: jax.Array
    preload: jax.Array
    at: tuple[int, ...] = eqx.field(static=True)
    rates: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, t, q, v, memory):
        legs = q[jnp.array(self.at)] - self.length
        return self.preload - self.stiffness * legs - self.damping * v[jnp.array(self.rates)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "legs"), [("planar-stewart", 3), ("stewart", 6)])
def test_a_stewart_platform_held_by_leg_springs(name, legs):
    """`W` is what a unit of each leg's force accelerates each leg by: the eigenvalues `s²` are those of `−(k W + G)`.

    `G` is gravity's; with stiff springs it hardly counts, and from one stiffness to the other it drops out of the sum.
    """
    example = br.gallery.load(name)
    system = example.system
    slides = [f"P{i}" for i in range(legs)]
    at = tuple(system.coordinates.index(n) for n in slides)
    rates = tuple(system.velocity_names.index(n) for n in slides)
    rest = equilibrium(system, example.q, hold=slides)
    soft, stiff = (LegSprings(k, 0.0, rest.q[jnp.array(at)], rest.u, at, rates) for k in (1e6, 1e7))
    pushed = [br.forward_dynamics(system, rest.q, jnp.zeros(system.nv), rest.u + e).acceleration for e in np.eye(legs)]
    w = np.stack([np.asarray(a)[list(rates)] for a in pushed], axis=1)
    np.testing.assert_allclose(w, w.T, rtol=0, atol=1e-9 * np.max(w))
    softly, stiffly = (agree(system, rest.q, controller=law)[0].physical for law in (soft, stiff))
    np.testing.assert_allclose(np.sum(stiffly**2 - softly**2).real, -2 * 9e6 * np.trace(w), rtol=1e-9, atol=0)
    expected = np.sqrt(1e7 * np.sort(np.linalg.eigvalsh(w)))
    np.testing.assert_allclose(np.sort(stiffly.imag)[legs:], expected, rtol=1e-4, atol=0)
    damped = eigenvalues(system, rest.q, controller=LegSprings(2e4, 200.0, stiff.length, rest.u, at, rates))
    assert damped.stable


@pytest.mark.slow
def test_a_governor_that_spins():
    """By hand with stiff springs as rods: a rhombus with one angle `p` from the vertical, its spin momentum kept.

    The springs give by 1e-4 m or so.
    """
    example, g, spin = br.gallery.load("flyball-governor"), 9.81, 2 * np.pi
    weight = (2 * (5.0 + 0.15) + 3.0) * g  # of balls, arms and collar, on one metre of cos p

    def inertia(p):
        """About the shaft, and its first two derivatives."""
        r, dr, ddr = 0.05 + np.sin(p), np.cos(p), -np.sin(p)
        rod = 0.05**2 + 0.05 * np.sin(p) + np.sin(p) ** 2 / 3
        first = 10 * r * 2 * dr + 0.6 * (0.05 * np.cos(p) + np.sin(2 * p) / 3)
        second = 20 * (dr**2 + r * ddr) + 0.6 * (-0.05 * np.sin(p) + 2 * np.cos(2 * p) / 3)
        return 0.005 + 10 * r**2 + 0.6 * rod, first, second

    p = brentq(lambda p: weight * np.sin(p) - 0.5 * spin**2 * inertia(p)[1], 0.5, 1.5)
    whole, first, second = inertia(p)
    stiffness = weight * np.cos(p) + spin**2 * (first**2 / whole - 0.5 * second)
    omega = np.sqrt(stiffness / (10 + 0.2 + 3.0 * np.sin(p) ** 2))
    found = equilibrium(example.system, example.q, v=example.v)
    np.testing.assert_allclose(found.q[1:], [1 - np.cos(p), p - np.pi / 3, p - np.pi / 3], rtol=0, atol=3e-4)
    tangent, _ = agree(example.system, found.q, v=example.v, tolerance=1e-7)
    swing = tangent.physical[np.abs(tangent.physical.imag) > 1.0]
    np.testing.assert_allclose(np.sort(swing.imag), [-omega, omega], rtol=1e-3, atol=0)
    assert np.all(swing.real < 0.0)
    assert_same(np.sort(np.abs(tangent.physical))[:2], np.zeros(2), 1e-7)  # more spin stays, and so does its angle
