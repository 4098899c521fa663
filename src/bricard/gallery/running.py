"""Landing of a runner (Bencsik, chapter 7): kinetic energy lost at the first contact of the foot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.contact import impact, point_contact
from bricard.execution.compile import xla_jit
from bricard.gallery.example import Example
from bricard.gallery.ranges import NonNegative
from bricard.system import System

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Runner(System):
    """Foot, shank and thigh are rods; the rest of the body is a point mass at the hip.

    `x`, `y` are the position of the toe (m). The angle `foot` is measured from the horizontal, `shank` and `thigh` from
    the vertical (rad), positive if the foot is ahead of the body. The data are those of the source, whose equation
    (7.10) prints `J²` for `J`.
    """

    m_body: float = 58.5
    """Mass of the trunk, the head, the arms and the other leg (kg)."""
    m_thigh: float = 10.3
    """Mass of the thigh (kg)."""
    m_shank: float = 3.16
    """Mass of the shank (kg)."""
    m_foot: float = 1.0
    """Mass of the foot (kg)."""
    J_thigh: float = 0.139
    """Moment of inertia of the thigh about its centre of mass (kg m²)."""
    J_shank: float = 0.0482
    """Moment of inertia of the shank about its centre of mass (kg m²)."""
    J_foot: float = 0.000456
    """Moment of inertia of the foot about its centre of mass (kg m²)."""
    l_thigh: float = 0.402
    """Length of the thigh (m)."""
    l_shank: float = 0.428
    """Length of the shank (m)."""
    l_foot: float = 0.274
    """Length of the foot (m)."""
    d_thigh: float = 0.164
    """Distance from the hip to the centre of mass of the thigh (m)."""
    d_shank: float = 0.188
    """Distance from the knee to the centre of mass of the shank (m)."""
    d_foot: float = 0.032
    """Distance from the heel to the centre of mass of the foot (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""

    coordinates = ("x", "y", "foot", "shank", "thigh")

    def on_foot(self, q, s):
        """Position (m) of the point of the sole at strike index `s`: 0 is the heel, 1 the toe."""
        return q[:2] + (1.0 - s) * self.l_foot * jnp.array([-jnp.cos(q[2]), jnp.sin(q[2])])

    def _up(self, angle):
        return jnp.array([-jnp.sin(angle), jnp.cos(angle)])

    def points(self, q):
        """Positions of toe, heel, knee and hip (m), shape (4, 2)."""
        heel = self.on_foot(q, 0.0)
        knee = heel + self.l_shank * self._up(q[3])
        return jnp.stack([q[:2], heel, knee, knee + self.l_thigh * self._up(q[4])])

    def centres(self, q):
        """Centres of mass of foot, shank, thigh and body (m), shape (4, 2)."""
        _, heel, knee, hip = self.points(q)
        foot = heel + self.d_foot * (q[:2] - heel) / self.l_foot
        shank = knee - self.d_shank * self._up(q[3])
        return jnp.stack([foot, shank, hip - self.d_thigh * self._up(q[4]), hip])

    @property
    def masses(self):
        """Masses of foot, shank, thigh and body (kg), shape (4,)."""
        return jnp.stack([self.m_foot, self.m_shank, self.m_thigh, self.m_body])

    def kinetic_energy(self, q, v, t):
        velocities = jax.jvp(self.centres, (q,), (v,))[1]
        rotation = jnp.stack([self.J_foot, self.J_shank, self.J_thigh]) @ v[2:] ** 2
        return 0.5 * (self.masses @ jnp.sum(velocities**2, axis=1) + rotation)

    def potential_energy(self, q, t):
        return self.g * self.masses @ self.centres(q)[:, 1]

    def drawing(self, q, t):
        toe, heel, knee, hip = self.points(q)
        parts = {"foot": (toe, heel), "shank": (heel, knee), "thigh": (knee, hip)}
        ground = {"ground": jnp.array([[-1.0, 0.0], [1.0, 0.0]])}
        return ground | {name: jnp.stack(ends) for name, ends in parts.items()} | {"body": hip[None]}


def lost_fraction(
    runner: Runner,
    strike_index: float,
    shank: float,
    thigh: float,
    velocity: tuple[float, float] = (0.0, -1.0),
    foot: float = 0.0,
) -> Float[Array, ""]:
    """Fraction `T_c / T` of the kinetic energy that is lost when a point of the foot sticks to the ground.

    `strike_index` is the point: 0 is the heel, 1 the toe. `shank`, `thigh` and `foot` are angles (rad). Before the
    impact, the whole body translates with `velocity` (m/s).
    """
    s, *angles = (jnp.asarray(x, dtype=float) for x in (strike_index, shank, thigh, foot))
    return _lost_fraction(runner, s, jnp.stack(angles), jnp.asarray(velocity, dtype=float))


@xla_jit
def _lost_fraction(runner: Runner, s, angles, velocity) -> Float[Array, ""]:
    shank, thigh, foot = angles
    q = jnp.concatenate([jnp.zeros(2), jnp.stack([foot, shank, thigh])])
    v = jnp.concatenate([velocity, jnp.zeros(3)])
    hit = impact(runner, q, v, lambda q, t: runner.on_foot(q, s))
    return hit.constrained_energy / hit.kinetic_energy


def maps(runner: Runner | None = None, points: int = 25) -> dict[str, Float[Array, "points points"]]:
    """Lost fraction `T_c / T` over strike index (rows, 0 … 1) and shank angle (columns, −15° … 15°), as in the source.

    All landings have a downward speed of 1 m/s. "straight": the thigh is in line with the shank; "bent": the thigh is
    at 15°; "3 m/s", "4 m/s" and "5 m/s": the same with forward speed.
    """
    runner = Runner() if runner is None else runner
    s, shank = jnp.linspace(0.0, 1.0, points), jnp.deg2rad(jnp.linspace(-15.0, 15.0, points))
    indices, shanks = (x.ravel() for x in jnp.meshgrid(s, shank, indexing="ij"))
    bent = jnp.full_like(shanks, jnp.deg2rad(15.0))
    cases = {"straight": (shanks, 0.0), "bent": (bent, 0.0)} | {f"{u} m/s": (bent, float(u)) for u in (3, 4, 5)}
    return {
        name: _lost_fractions(runner, indices, shanks, thigh, jnp.array([forward, -1.0])).reshape(points, points)
        for name, (thigh, forward) in cases.items()
    }


@xla_jit
def _lost_fractions(runner: Runner, s, shank, thigh, velocity) -> Float[Array, " n"]:
    angles = jnp.stack([shank, thigh, jnp.zeros_like(shank)], axis=1)
    return jax.lax.map(lambda x: _lost_fraction(runner, x[0], x[1], velocity), (s, angles))


def maps_figure(runner: Runner | None = None, points: int = 25) -> Figure:
    """Plot `maps` in per cent with matplotlib (extra `plot`), with a logarithmic scale for the vertical landings."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    values = {name: np.asarray(100.0 * x) for name, x in maps(runner, points).items()}
    figure = Figure(figsize=(15, 3.4), layout="constrained")
    for axes, (name, z) in zip(figure.subplots(1, len(values), sharey=True), values.items(), strict=True):
        scale = {"norm": LogNorm(z.min(), z.max())} if "m/s" not in name else {"vmin": 0.0, "vmax": 32.0}
        picture = axes.pcolormesh(
            np.linspace(-15, 15, points), np.linspace(0, 1, points), z, shading="gouraud", **scale
        )
        figure.colorbar(picture, ax=axes)
        axes.set_title(f"{name}: energy lost (%)")
        axes.set_xlabel("shank angle β (°)")
    figure.axes[0].set_ylabel("strike index (0 heel, 1 toe)")
    return figure


def running(g: float = 9.81, forward: float = 3.0, friction: NonNegative = 0.8) -> Example:
    """A forefoot landing: the toe strikes first and sticks, and the leg, which has no muscles, folds.

    `forward` is the horizontal speed (m/s).
    """
    runner = Runner(g=g)
    q = np.array([0.0, 0.0, 0.2, 0.0, np.deg2rad(15.0)])
    ends = (("toe", 1.0), ("heel", 0.0))
    contacts = [point_contact(_Sole(runner, jnp.asarray(s)), friction=friction, name=name) for name, s in ends]
    return Example(
        system=runner,
        title="Landing of a runner: energy lost at foot strike",
        source="L. Bencsik, Dynamic analysis and tracking control of underactuated multibody systems, PhD thesis, "
        "Budapest 2017, chapter 7",
        q=q + np.array([0.0, 0.01, 0.0, 0.0, 0.0]),
        v=np.array([forward, -1.0, 0.0, 0.0, 0.0]),
        t_end=0.1,
        settings={"contacts": contacts},
    )


class _Sole(eqx.Module):
    runner: Runner
    s: Float[Array, ""]

    def __call__(self, q, t):
        return self.runner.on_foot(q, self.s)
