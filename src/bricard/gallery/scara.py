"""SCARA robot whose tool is constrained to a path (Xu & Liu): the constraint forces are the required motor torques."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bricard.control import TrajectoryConstraint
from bricard.gallery.example import Example
from bricard.gallery.ranges import NonNegative, Positive
from bricard.system import System

_SOURCE = (
    "Y. Xu and R. Liu, Dynamic modeling of SCARA robot based on Udwadia–Kalaba theory, Advances in Mechanical "
    "Engineering 9(10), 2017"
)


class ScaraArm(System):
    """Two links, a wrist and a vertical quill, each with a motor; the tool is to climb a helix without rotating.

    `shoulder` is measured from the y axis, `elbow` and `wrist` from the previous link (rad), counterclockwise seen from
    above; `quill` is the height of the tool above `l0` (m).
    """

    m1: float = 20.0
    """Mass of the first link (kg)."""
    m2: float = 15.0
    """Mass of the second link (kg)."""
    m3: float = 15.0
    """Mass of the wrist (kg), on the axis of the quill."""
    m4: float = 0.5
    """Mass of the quill with the tool (kg)."""
    l0: float = 0.0
    """Height of the tool when the quill is at zero (m)."""
    l1: float = 0.2
    """Length of the first link (m)."""
    l2: float = 0.25
    """Length of the second link (m)."""
    r1: float = 0.1
    """Distance from the first joint to the centre of mass of the first link (m)."""
    r2: float = 0.125
    """Distance from the second joint to the centre of mass of the second link (m)."""
    I1: float = 0.27
    """Moment of inertia of the first link about the vertical axis through its centre of mass (kg m²)."""
    I2: float = 0.31
    """Moment of inertia of the second link (kg m²), like `I1`."""
    I3: float = 0.02
    """Moment of inertia of the wrist (kg m²), like `I1`."""
    I4: float = 0.0001
    """Moment of inertia of the quill (kg m²), like `I1`."""
    g: float = 9.81
    """Gravity (m/s²), along −z."""
    reach: float = 0.35
    """Distance of the axis of the helix from the first joint axis (m)."""
    radius: float = 0.05
    """Radius of the helix (m)."""
    rate: float = 0.4 * np.pi
    """Angular velocity on the helix (rad/s), clockwise seen from above."""
    climb: float = 0.02
    """Vertical velocity on the helix (m/s)."""

    coordinates = ("shoulder", "elbow", "wrist", "quill")
    inputs = ("shoulder torque", "elbow torque", "wrist torque", "quill force")

    def point(self, q, first, second):
        """Horizontal position (m) at the distance `first` along link 1 and from there `second` (m) along link 2."""
        a, b = q[0], q[0] + q[1]
        return first * jnp.array([-jnp.sin(a), jnp.cos(a)]) + second * jnp.array([-jnp.sin(b), jnp.cos(b)])

    def path(self, t):
        """Desired position of the tool (m), shape (3,)."""
        angle = self.rate * t
        return jnp.array([self.radius * jnp.sin(angle), self.reach + self.radius * jnp.cos(angle), self.climb * t])

    def kinetic_energy(self, q, v, t):
        def centres(q):
            return self.point(q, self.r1, 0.0), self.point(q, self.l1, self.r2), self.point(q, self.l1, self.l2)

        _, (first, second, tool) = jax.jvp(centres, (q,), (v,))
        rates = jnp.cumsum(v[:3])
        translation = self.m1 * first @ first + self.m2 * second @ second + (self.m3 + self.m4) * tool @ tool
        rotation = self.I1 * rates[0] ** 2 + self.I2 * rates[1] ** 2 + (self.I3 + self.I4) * rates[2] ** 2
        return 0.5 * (translation + rotation + self.m4 * v[3] ** 2)

    def potential_energy(self, q, t):
        return self.m4 * self.g * (self.l0 + q[3])

    def off_path(self, q, t):
        """Path error of the tool, shape (4,): x and y (m), direction (rad) and z (m)."""
        x, y, z = self.path(t)
        tool = self.point(q, self.l1, self.l2)
        return jnp.array([tool[0] - x, tool[1] - y, q[0] + q[1] + q[2], q[3] + self.l0 - z])

    def input_matrix(self, q, t):
        return jnp.eye(4)

    def drawing(self, q, t):
        top = 0.45  # height of the arm (m), which the dynamics do not depend on
        elbow, tool = self.point(q, self.l1, 0.0), self.point(q, self.l1, self.l2)
        a = q[0] + q[1] + q[2]
        grip = 0.02 * jnp.array([jnp.cos(a), jnp.sin(a)])
        low = self.l0 + q[3]

        def at(xy, z):
            return jnp.concatenate([xy, jnp.reshape(jnp.asarray(z, float), 1)])

        return {
            "ground": jnp.array([[-0.1, -0.1], [0.1, -0.1], [0.1, 0.1], [-0.1, 0.1], [-0.1, -0.1]]) @ jnp.eye(2, 3),
            "column": jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, top]]),
            "first link": jnp.stack([at(jnp.zeros(2), top), at(elbow, top)]),
            "second link": jnp.stack([at(elbow, top), at(tool, top)]),
            "quill": jnp.stack([at(tool, top + 0.1), at(tool, low)]),
            "tool": jnp.stack([at(tool - grip, low), at(tool + grip, low)]),
            "path": jax.vmap(self.path)(jnp.linspace(0.0, 20.0, 201)),
        }


class Scara(ScaraArm):
    """The arm with four time-dependent constraints that keep the tool on its path.

    They determine all four coordinates, so there is no degree of freedom left; `Aᵀλ` are the motor torques and the
    quill force that the path requires. The source starts off the path, at (−30°, 55°, −24°); its minus signs are lost
    in print. From this start, the error without stabilisation is exactly `Φ₀ + Φ̇₀ t`: after 20 s, 7.4 mm and 17 mm in
    x and y (the source reports 0.8 mm and 7 mm) and 10 mm in z (as reported).
    """

    constraint_names = ("tool x", "tool y", "tool direction", "tool z")

    def constraints(self, q, t):
        return self.off_path(q, t)


def scara(
    m1: Positive = 20.0,
    m2: Positive = 15.0,
    m3: Positive = 15.0,
    m4: Positive = 0.5,
    l0: float = 0.0,
    l1: Positive = 0.2,
    l2: Positive = 0.25,
    r1: NonNegative = 0.1,
    r2: NonNegative = 0.125,
    I1: NonNegative = 0.27,
    I2: NonNegative = 0.31,
    I3: NonNegative = 0.02,
    I4: NonNegative = 0.0001,
    g: float = 9.81,
    reach: Positive = 0.35,
    radius: Positive = 0.05,
    rate: float = 0.4 * np.pi,
    climb: float = 0.02,
) -> Example:
    """Two turns of the helix; unlike in the source, the initial state lies on the path."""
    # The tool starts at (0, distance) and moves along +x, so the rate of the elbow is zero at t = 0.
    distance = reach + radius
    elbow = np.arccos((distance**2 - l1**2 - l2**2) / (2.0 * l1 * l2))
    shoulder = -np.arctan2(l2 * np.sin(elbow), l1 + l2 * np.cos(elbow))
    shoulder_rate = -rate * radius / distance
    links = {"m1": m1, "m2": m2, "m3": m3, "m4": m4, "l0": l0, "l1": l1, "l2": l2, "r1": r1, "r2": r2}
    inertias = {"I1": I1, "I2": I2, "I3": I3, "I4": I4}
    return Example(
        system=Scara(**links, **inertias, g=g, reach=reach, radius=radius, rate=rate, climb=climb),
        title="SCARA robot on a helix: time-dependent constraints give the motor torques",
        source=_SOURCE,
        q=np.array([shoulder, elbow, -shoulder - elbow, -l0]),
        v=np.array([shoulder_rate, 0.0, -shoulder_rate, climb]),
        t_end=2.0 * 2.0 * np.pi / rate,
    )


def scara_guided(alpha: float = 0.25, beta: float = 200.0**0.5) -> Example:
    """The unconstrained arm, whose motors apply the constraint force; it starts off the path, as in the source.

    Path errors decay as `Φ̈ + 2α Φ̇ + β² Φ = 0`; the source writes α = 0.5 and β = 200 for 2α and β² here. With these
    values they oscillate at 2.25 Hz and decay as `e^{−t/4}`.
    """
    system = ScaraArm()
    return Example(
        system=system,
        title="SCARA robot guided to a helix: servo-constraint with Baumgarte stabilisation as feedback",
        source=_SOURCE,
        q=np.radians([-30.0, 55.0, -24.0, 0.0]),
        v=np.array([-0.157, 0.0001, 0.157, 0.0195]),
        t_end=20.0,
        settings={"controller": TrajectoryConstraint(system, system.off_path, alpha, beta)},
    )
