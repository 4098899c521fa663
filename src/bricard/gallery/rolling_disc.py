"""Thin disc rolling without slip (rolling coin of Exudyn): two nonholonomic constraints."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bricard.gallery.drawings import circle
from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.spatial import quaternion_rate, rotation_matrix
from bricard.system import System


class RollingDisc(System):
    """A thin disc on a horizontal floor: its rim touches the floor (holonomic) and does not slip (nonholonomic).

    Coordinates are the centre (m) and the quaternion of the disc; its axis is the x axis of its body frame. Velocities
    are those of the centre (m/s, world frame) and the angular velocity (rad/s, body frame). The multipliers are the
    force of the floor on the disc (N): normal, then along x and y. The model is singular when the disc lies flat.
    """

    m: float = 1.0
    """Mass (kg)."""
    r: float = 0.01
    """Radius (m)."""
    I_axis: float = 5e-5
    """Moment of inertia about the axis (kg m²)."""
    I_across: float = 2.5e-5
    """Moment of inertia about a diameter (kg m²)."""
    g: float = 9.81
    """Gravity (m/s²), along −z."""

    coordinates = ("x", "y", "z", "qw", "qx", "qy", "qz")
    velocities = ("vx", "vy", "vz", "wx", "wy", "wz")
    constraint_names = ("rim on the floor", "no slip x", "no slip y")

    def to_contact(self, q):
        """Vector from the centre to the lowest point of the rim (m), in the world frame."""
        axis = rotation_matrix(q[3:])[:, 0]
        up = jnp.array([0.0, 0.0, 1.0])
        steepest = up - axis[2] * axis
        return -self.r * steepest / jnp.sqrt(steepest @ steepest)

    def contact(self, q):
        """Position of the lowest point of the rim (m)."""
        return q[:3] + self.to_contact(q)

    def kinetic_energy(self, q, v, t):
        inertia = jnp.array([self.I_axis, self.I_across, self.I_across])
        return 0.5 * self.m * v[:3] @ v[:3] + 0.5 * inertia @ v[3:] ** 2

    def potential_energy(self, q, t):
        return self.m * self.g * q[2]

    def constraints(self, q, t):
        return self.contact(q)[2:]

    def velocity_constraints(self, q, t):
        # Component i of `v + ω × a = 0` is `v_i + (a × e_i)ᵀ R w = 0`, with the angular velocity w in the body frame.
        arm, rotation = self.to_contact(q), rotation_matrix(q[3:])
        x, y, _ = jnp.eye(3)
        angular = jnp.stack([jnp.cross(arm, x), jnp.cross(arm, y)]) @ rotation
        return jnp.concatenate([jnp.eye(2, 3), angular], axis=1), jnp.zeros(2)

    def qdot(self, q, v):
        return jnp.concatenate([v[:3], quaternion_rate(q[3:], v[3:])])

    def normalize(self, q):
        return jnp.concatenate([q[:3], q[3:] / jnp.linalg.norm(q[3:])])

    def drawing(self, q, t):
        side = 1.5 * self.r
        square = jnp.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0], [-1, -1, 0]]) * side
        rotation = rotation_matrix(q[3:])
        a, b = circle(self.r)
        rim = q[None, :3] + jnp.stack([jnp.zeros_like(a), a, b], axis=1) @ rotation.T
        return {
            "floor": square,
            "rim": rim,
            "spoke": jnp.stack([q[:3], rim[0]]),
            "contact": self.contact(q)[None],
        }


def rolling_disc(
    m: Positive = 1.0, r: Positive = 0.01, I_axis: Positive = 5e-5, I_across: Positive = 2.5e-5, g: float = 9.81
) -> Example:
    """Starts almost upright, spinning about the vertical at five turns per second; it leans over and rises again."""
    tilt, spin = np.deg2rad(1.0), 10.0 * np.pi
    centre = r * np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    omega_world = np.array([0.0, 0.0, spin])
    omega_body = spin * np.array([-np.sin(tilt), 0.0, np.cos(tilt)])
    return Example(
        system=RollingDisc(m=m, r=r, I_axis=I_axis, I_across=I_across, g=g),
        title="Rolling disc: a nonholonomic system with quaternions",
        source="Exudyn, test model rollingCoinTest",
        q=np.concatenate([centre, [np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0]]),
        v=np.concatenate([np.cross(omega_world, centre), omega_body]),
        t_end=0.5,
    )
