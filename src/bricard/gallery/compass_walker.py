"""Passive compass walker on a slope (Garcia and others 1998): a limit cycle with impacts."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bricard.contact import Contact, point_contact
from bricard.errors import BricardError
from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.simulation import simulate
from bricard.system import System

AHEAD = 0.1
"""Contact of a foot counts only if it is ahead of the other foot by this fraction of the leg length.

Without knees, the swing foot passes slightly below the ground next to the stance foot.
"""


class Walker(System):
    """Point masses at the hip and at each foot, massless rigid legs, on a slope that descends along +x.

    The axes are along and normal to the slope. `x`, `y` are the position of the hip (m); leg angles (rad) are measured
    from the normal, positive if the foot is ahead of the hip. With light feet this is the simplest walking model of the
    source (`g = l = 1`, hip mass 1).
    """

    hip: float = 1.0
    """Mass of the hip (kg)."""
    foot: float = 1e-3
    """Mass of each foot (kg)."""
    l: float = 1.0
    """Length of the legs (m)."""
    g: float = 1.0
    """Gravity (m/s²)."""
    slope: float = 0.009
    """Angle of the slope (rad)."""

    coordinates = ("x", "y", "first leg", "second leg")

    def feet(self, q):
        """Positions of both feet (m), shape (2, 2)."""
        return q[None, :2] + self.l * jnp.stack([jnp.sin(q[2:]), -jnp.cos(q[2:])], axis=1)

    def masses_at(self, q):
        """Positions of the hip and both feet (m), shape (3, 2)."""
        return jnp.concatenate([q[None, :2], self.feet(q)])

    @property
    def masses(self):
        """Masses of the hip and both feet (kg), shape (3,)."""
        return jnp.stack([self.hip, self.foot, self.foot])

    def kinetic_energy(self, q, v, t):
        velocities = jax.jvp(self.masses_at, (q,), (v,))[1]
        return 0.5 * self.masses @ jnp.sum(velocities**2, axis=1)

    def potential_energy(self, q, t):
        up = jnp.stack([-jnp.sin(self.slope), jnp.cos(self.slope)])
        return self.g * self.masses @ (self.masses_at(q) @ up)

    def drawing(self, q, t):
        first, second = self.feet(q)
        ground = jnp.array([[-1.0, 0.0], [2.0, 0.0]]) * self.l
        return {"slope": ground, "first": jnp.stack([q[:2], first]), "second": jnp.stack([q[:2], second])}


class Foot(eqx.Module):
    """Function `(q, t)` that returns the position of a foot (m)."""

    walker: Walker
    index: int = eqx.field(static=True)

    def __call__(self, q, t):
        return self.walker.feet(q)[self.index]


class IsAhead(eqx.Module):
    """Condition `(q, t)` that a foot is ahead of the other one, see `AHEAD`."""

    walker: Walker
    index: int = eqx.field(static=True)

    def __call__(self, q, t):
        feet = self.walker.feet(q)
        return feet[self.index, 0] - feet[1 - self.index, 0] > AHEAD * self.walker.l


def foot_contacts(walker: Walker) -> list[Contact]:
    """Contacts of both feet, without slip and without restitution."""
    return [
        point_contact(Foot(walker, i), friction=np.inf, name=f"{name} foot", when=IsAhead(walker, i))
        for i, name in enumerate(("first", "second"))
    ]


def standing(walker: Walker, angle: float, rate: float, swing_rate: float) -> tuple[np.ndarray, np.ndarray]:
    """State `(q, v)` just after the first foot has struck the ground at the origin.

    The stance leg is at `angle` (rad) with `rate` (rad/s), the swing leg at `−angle` with `swing_rate` (rad/s).
    """
    q = jnp.array([-walker.l * jnp.sin(angle), walker.l * jnp.cos(angle), angle, -angle])
    v = jnp.array([-walker.l * jnp.cos(angle) * rate, -walker.l * jnp.sin(angle) * rate, rate, swing_rate])
    return np.asarray(q), np.asarray(v)


class Stride(NamedTuple):
    """Result of one step: (angle, rate, swing rate) at the start of the next step, and the duration (s)."""

    state: np.ndarray
    period: float


def stride(walker: Walker, state: np.ndarray, longest: float = 4.5) -> Stride:
    """Simulate one step, from just after one foot strike to just after the next.

    `state` is (angle, rate, swing rate) as in `standing`; `longest` bounds the duration, in units of `sqrt(l/g)`.
    """
    q, v = standing(walker, *state)
    unit = float(jnp.sqrt(walker.l / walker.g))
    run = simulate(
        walker, q, v, longest * unit, contacts=foot_contacts(walker), save=2, rtol=1e-12, atol=1e-12, throw=False
    )
    strikes = [e for e in run.events if e.kind == "impact" and e.contact == "second foot"]
    if not strikes:
        raise BricardError(f"the walker falls: the second foot does not strike within {longest * unit:.3g} s")
    strike = strikes[0]
    return Stride(np.array([strike.q[3], strike.v[3], strike.v[2]]), strike.time)


class Gait(NamedTuple):
    """A limit cycle of the walker."""

    state: np.ndarray
    """(angle, rate, swing rate) just after a foot strike."""
    period: float
    """Duration of a step (s)."""
    multipliers: np.ndarray
    """Floquet multipliers of a step, largest magnitude first; the gait is stable if all lie inside the unit circle."""


def limit_cycle(walker: Walker, guess: tuple[float, float, float], tolerance: float = 1e-10) -> Gait:
    """Find a limit cycle near `guess` (angle, rate, swing rate) by Newton's method on the stride map."""
    state = np.asarray(guess, dtype=float)
    for _ in range(12):
        step = stride(walker, state)
        if np.max(np.abs(step.state - state)) < tolerance:
            values = np.linalg.eigvals(_stride_jacobian(walker, state))
            return Gait(state, step.period, values[np.argsort(-np.abs(values), kind="stable")])
        state = state - np.linalg.solve(_stride_jacobian(walker, state) - np.eye(3), step.state - state)
    raise BricardError(f"limit_cycle: no limit cycle found near {tuple(guess)}; try another guess")


def _stride_jacobian(walker: Walker, state: np.ndarray, h: float = 7e-5) -> np.ndarray:
    """Jacobian of the stride map, shape (3, 3), by fourth-order differences; `h` is well above the noise of the map."""

    def column(d):
        after = {k: stride(walker, state + k * d).state for k in (-2, -1, 1, 2)}
        return (8 * (after[1] - after[-1]) - (after[2] - after[-2])) / (12 * h)

    return np.stack([column(d) for d in h * np.eye(3)], axis=1)


def compass_walker(foot: Positive = 1e-3, slope: float = 0.009) -> Example:
    """A few steps on the limit cycle; `foot` is the mass of each foot (kg), `slope` the angle of the slope (rad)."""
    walker = Walker(foot=foot, slope=slope)
    q, v = standing(walker, 0.20016107, -0.19990606, -0.18410059)
    return Example(
        system=walker,
        title="Compass walker: passive walking down a slope",
        source="M. Garcia, A. Chatterjee, A. Ruina and M. Coleman, The simplest walking model: stability, complexity, "
        "and scaling, J. Biomechanical Engineering 120, 1998",
        q=q,
        v=v,
        t_end=12.0,
        settings={"contacts": foot_contacts(walker)},
    )
