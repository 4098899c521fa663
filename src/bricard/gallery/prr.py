"""PRR arm with its tip on a surface (Aghili, quasi-velocities, section 5): coordinates in mixed units."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bricard.control import HybridMotionForce, QuasiVelocityTracking, Sinusoid
from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.system import System

_SOURCE = "F. Aghili, Modeling and control of mechanical systems in terms of quasi-velocities, section 5"


class PRR(System):
    """A base on a vertical slide carries two uniform links; the tip stays on a horizontal surface at height zero.

    `slide` is the height of the base (m), `shoulder` the angle of the first link from the x axis and `elbow` that of
    the second link from the first (rad). The multiplier is the force of the surface on the tip (N), positive upwards;
    the constraint is bilateral, so it can push and pull.

    The reference motion of the source, `0.5 + 0.3 sin(0.6 π t)` for the tip and `π/12 + π/6 sin(π t)` for the last
    link, is out of reach for t in [7.36, 7.64] s, where the cosine of `shoulder` would have to be up to 1.059.
    """

    m: float = 5.0
    """Mass of the base and of each link (kg)."""
    l: float = 1.0
    """Length of each link (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""

    coordinates = ("slide", "shoulder", "elbow")
    constraint_names = ("tip on the surface",)
    inputs = ("slide force", "shoulder torque", "elbow torque")

    def points(self, q):
        """Positions of base, elbow and tip (m)."""
        base = jnp.stack([jnp.zeros_like(q[0]), q[0]])
        elbow = base + self.l * jnp.array([jnp.cos(q[1]), jnp.sin(q[1])])
        return base, elbow, elbow + self.l * jnp.array([jnp.cos(q[1] + q[2]), jnp.sin(q[1] + q[2])])

    def pose(self, q):
        """Outputs that the source controls: distance of the tip from the slide (m), angle of the last link (rad).

        The angle is zero when the last link points vertically downwards.
        """
        return jnp.stack([self.points(q)[2][0], q[1] + q[2] - 1.5 * jnp.pi])

    def kinetic_energy(self, q, v, t):
        _, (base, elbow, tip) = jax.jvp(self.points, (q,), (v,))
        links = rod_energy(self.m, base, elbow) + rod_energy(self.m, elbow, tip)
        return 0.5 * self.m * base @ base + links

    def potential_energy(self, q, t):
        base, elbow, tip = self.points(q)
        return self.m * self.g * (1.5 * base[1] + elbow[1] + 0.5 * tip[1])

    def constraints(self, q, t):
        return self.points(q)[2][1:]

    def input_matrix(self, q, t):
        return jnp.eye(3)

    def drawing(self, q, t):
        base, elbow, tip = self.points(q)
        return {
            "slide": jnp.array([[0.0, -2.2], [0.0, 2.2]]) * self.l,
            "surface": jnp.array([[-2.2, 0.0], [2.2, 0.0]]) * self.l,
            "base": base[None],
            "first link": jnp.stack([base, elbow]),
            "second link": jnp.stack([elbow, tip]),
        }


def rod_energy(mass, start, end):
    """Kinetic energy (J) of a uniform rod with the given end velocities (m/s)."""
    return mass * (start @ start + start @ end + end @ end) / 6.0


def prr(m: Positive = 5.0, l: Positive = 1.0, g: float = 9.81) -> Example:
    """A constant slide force carries the weight; the arm starts at rest and sways with its tip on the surface."""
    return Example(
        system=PRR(m=m, l=l, g=g),
        title="PRR arm with its tip on a surface: coordinates in metres and radians",
        source=_SOURCE,
        q=_start(l),
        v=np.zeros(3),
        t_end=5.0,
        settings={"u": np.array([3.0 * m * g, 0.0, 0.0])},
    )


def prr_tracking(
    m: Positive = 5.0, l: Positive = 1.0, g: float = 9.81, amplitude: float = 0.3, kp: float = 3.0, kd: float = 5.0
) -> Example:
    """Tracking in quasi-velocities with the motion and the gains of the source, from an initial state off the path.

    The simulation ends at 7 s because the motion is out of reach from 7.36 s, unless `amplitude` is 0.2 m or less.
    """
    system = PRR(m=m, l=l, g=g)
    return Example(
        system=system,
        title="PRR arm tracking a motion in quasi-velocities: no metric to choose",
        source=_SOURCE,
        q=_start(l),
        v=np.zeros(3),
        t_end=7.0,
        settings={"controller": QuasiVelocityTracking(system, system.pose, _motion(amplitude), kp, kd)},
    )


def prr_pressing(
    m: Positive = 5.0,
    l: Positive = 1.0,
    g: float = 9.81,
    force: float = 50.0,
    amplitude: float = 0.3,
    kp: float = 25.0,
    kd: float = 10.0,
    kf: float = 1.0,
    ki: float = 5.0,
) -> Example:
    """The motion of `prr_tracking` while the tip presses on the surface with `force` (N, positive for pressing).

    The multiplier of the source has the opposite sign: its value 50 is a tip that pulls on the surface, here
    `force=-50`.
    """
    system = PRR(m=m, l=l, g=g)
    law = HybridMotionForce(system, system.pose, _motion(amplitude), kp, kd, {"tip on the surface": force}, kf, ki)
    return Example(
        system=system,
        title="PRR arm pressing on a surface with 50 N while moving",
        source=_SOURCE,
        q=_start(l),
        v=np.zeros(3),
        t_end=7.0,
        settings={"controller": law},
    )


def _start(l: float) -> np.ndarray:
    """Initial coordinates of the source: the tip at 0.7 l from the slide, the last link vertical."""
    shoulder = np.arccos(0.7)
    elbow = 1.5 * np.pi - shoulder
    return np.array([-l * (np.sin(shoulder) + np.sin(shoulder + elbow)), shoulder, elbow])


def _motion(amplitude: float) -> Sinusoid:
    """Reference motion of the source for `PRR.pose`."""
    return Sinusoid([0.5, np.pi / 12], [amplitude, np.pi / 6], [0.3, 0.5])
