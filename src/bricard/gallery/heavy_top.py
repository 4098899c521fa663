"""Heavy symmetric top with a fixed point, described by the position of its centre and a quaternion."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bricard.gallery.drawings import circle
from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.spatial import quaternion_rate, rotation_matrix
from bricard.system import System


class HeavyTop(System):
    """A top that rotates about the origin; its symmetry axis is the y axis of its body frame.

    Coordinates are the centre of mass (m) and the quaternion of the top. Velocities are those of the centre (m/s, world
    frame) and the angular velocity (rad/s, body frame). The multipliers are the force of the pivot on the top (N).
    """

    m: float = 15.0
    """Mass (kg)."""
    l: float = 1.0
    """Distance of the centre of mass from the pivot (m)."""
    I_axis: float = 0.46875
    """Moment of inertia about the symmetry axis (kg m²)."""
    I_across: float = 0.234375
    """Moment of inertia about any perpendicular axis through the centre of mass (kg m²)."""
    g: float = 9.81
    """Gravity (m/s²), along −z."""

    coordinates = ("x", "y", "z", "qw", "qx", "qy", "qz")
    velocities = ("vx", "vy", "vz", "wx", "wy", "wz")
    constraint_names = ("pivot x", "pivot y", "pivot z")

    def axis(self, q):
        """Unit vector from the pivot to the centre of mass."""
        return rotation_matrix(q[3:])[:, 1]

    def angular_momentum(self, q, v):
        """Angular momentum about the pivot (kg m²/s), in the world frame, shape (3,)."""
        about_centre = jnp.array([self.I_across, self.I_axis, self.I_across]) * v[3:]
        return rotation_matrix(q[3:]) @ about_centre + self.m * jnp.cross(q[:3], v[:3])

    def kinetic_energy(self, q, v, t):
        inertia = jnp.array([self.I_across, self.I_axis, self.I_across])
        return 0.5 * self.m * v[:3] @ v[:3] + 0.5 * inertia @ v[3:] ** 2

    def potential_energy(self, q, t):
        return self.m * self.g * q[2]

    def constraints(self, q, t):
        return q[:3] - self.l * self.axis(q)

    def qdot(self, q, v):
        return jnp.concatenate([v[:3], quaternion_rate(q[3:], v[3:])])

    def normalize(self, q):
        return jnp.concatenate([q[:3], q[3:] / jnp.linalg.norm(q[3:])])

    def drawing(self, q, t):
        rotation = rotation_matrix(q[3:])
        a, b = circle(0.4 * self.l)
        rim = q[None, :3] + jnp.stack([a, jnp.zeros_like(a), b], axis=1) @ rotation.T
        foot = jnp.array([0.0, 0.0, -1.2]) * self.l
        return {
            "stand": jnp.stack([foot, jnp.zeros(3)]),
            "axle": jnp.stack([jnp.zeros(3), 1.2 * q[:3]]),
            "rim": rim,
            "spoke": jnp.stack([q[:3], rim[0]]),
        }


def heavy_top(
    m: Positive = 15.0, l: Positive = 1.0, I_axis: Positive = 0.46875, I_across: Positive = 0.234375, g: float = 9.81
) -> Example:
    """Starts with a horizontal axis, a spin of 150 rad/s and a rotation against the slow precession.

    The top dips and rises again. It passes through the downward vertical, where Euler angles are singular, because the
    vertical and the axial components of its angular momentum are opposite.
    """
    spin = np.array([0.0, 150.0, -4.61538])
    centre = np.array([0.0, l, 0.0])
    return Example(
        system=HeavyTop(m=m, l=l, I_axis=I_axis, I_across=I_across, g=g),
        title="Heavy top: spin, precession and nutation with quaternions",
        source="O. Brüls and A. Cardona, On the use of Lie group time integrators in multibody dynamics, "
        "J. Comput. Nonlinear Dynamics 5, 2010",
        q=np.concatenate([centre, [1.0, 0.0, 0.0, 0.0]]),
        v=np.concatenate([np.cross(spin, centre), spin]),
        t_end=2.0,
    )
