"""Planar model of the Acroboter service robot (Bencsik, section 4.2.2): a platform on cables in natural coordinates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bricard.control import Blended, Sampled
from bricard.gallery.example import Example
from bricard.gallery.ranges import Delay, NonNegative, Positive
from bricard.system import System

_SOURCE = (
    "L. Bencsik, Dynamic analysis and tracking control of underactuated multibody systems, PhD thesis, Budapest 2017, "
    "section 4.2.2"
)
HANGING = np.array([0.0, -1.0, -0.25, -1.5, 0.25, -1.5])
"""Coordinates at rest (m): the connector is 1 m below the ceiling, the platform 0.5 m below the connector."""


class Acroboter(System):
    """A platform hangs on two cables from a connector, which hangs on a cable from a carriage at the ceiling.

    Coordinates are the positions of the connector P2 and of the platform ends P3 and P4 (m); one constraint, in m²,
    keeps the platform rigid. The inputs are three cable tensions and the force of a fan (N): four inputs for five
    degrees of freedom, with the horizontal motion of the connector as internal dynamics. The position of the carriage
    P1 is a prescribed function of time.

    The source does not print the mass matrix; here it follows from the energies. In its input matrix (4.20), entry
    (6, 3) must be `(y₂ − y₄)/l₃`, and the first column must contain P1. Its internal frequencies and the areas of its
    largest stable regions are reproduced, its optimal gains are not.
    """

    m_connector: float = 0.1
    """Mass of the connector (kg)."""
    m_platform: float = 4.0
    """Mass of the platform (kg)."""
    l: float = 0.5
    """Length of the platform, P3 to P4 (m)."""
    J: float = 0.8
    """Inertia of the platform about P3 (kg m²)."""
    xi: float = 0.25
    """Distance of the platform's centre of mass from P3 (m), towards P4."""
    eta: float = 0.0
    """Distance of the platform's centre of mass to the left of the line from P3 to P4 (m)."""
    xi_fan: float = 0.25
    """Distance of the fan from P3 (m), towards P4."""
    eta_fan: float = 0.05
    """Distance of the fan to the left of the line from P3 to P4 (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""
    carriage: float = 0.0
    """Position of the carriage along the ceiling at t = 0 (m)."""
    carriage_speed: float = 0.0
    """Velocity of the carriage (m/s)."""

    coordinates = ("x2", "y2", "x3", "y3", "x4", "y4")
    constraint_names = ("platform length",)
    inputs = ("main cable", "cable to P3", "cable to P4", "fan")

    def suspension(self, t):
        """Position of the carriage P1 (m), shape (2,); subclasses may prescribe another motion."""
        x = self.carriage + self.carriage_speed * t
        return jnp.array([x, 0.0])

    def platform_point(self, q, xi, eta):
        """Position (m) of the platform point at the distance `xi` from P3 towards P4, and `eta` to the left."""
        along = (q[4:] - q[2:4]) / self.l
        return q[2:4] + xi * along + eta * jnp.array([-along[1], along[0]])

    def task(self, q):
        """Outputs that the source controls (m), shape (4,).

        Height of the connector above the platform's midpoint, x and y of the midpoint, and `y₃ − y₄`.
        """
        middle = 0.5 * (q[2:4] + q[4:])
        return jnp.stack([q[1] - middle[1], middle[0], middle[1], q[3] - q[5]])

    def stabilizer(self, q):
        """Outputs with stable internal dynamics: like `task`, with the x position of the connector instead."""
        return self.task(q).at[1].set(q[0])

    def kinetic_energy(self, q, v, t):
        # The velocity of a platform point is linear in the velocities of P3 and P4, so the integral over the body
        # depends only on its mass, its static moment and its inertia about P3.
        start, end = v[2:4], v[4:]
        direction_rate = (end - start) / self.l
        centre_rate = self.xi * direction_rate + self.eta * jnp.array([-direction_rate[1], direction_rate[0]])
        platform = self.m_platform * (start @ start + 2.0 * start @ centre_rate)
        platform = platform + self.J * direction_rate @ direction_rate
        return 0.5 * (self.m_connector * v[:2] @ v[:2] + platform)

    def potential_energy(self, q, t):
        centre = self.platform_point(q, self.xi, self.eta)
        return self.g * (self.m_connector * q[1] + self.m_platform * centre[1])

    def constraints(self, q, t):
        along = q[4:] - q[2:4]
        return jnp.array([0.5 * (along @ along - self.l**2)])

    def input_matrix(self, q, t):
        connector, left, right = q[:2], q[2:4], q[4:]
        main = _unit(self.suspension(t) - connector)
        to_left, to_right, zero = _unit(left - connector), _unit(right - connector), jnp.zeros(2)
        _, generalized_force = jax.vjp(lambda q: self.platform_point(q, self.xi_fan, self.eta_fan), q)
        return jnp.stack(
            [
                jnp.concatenate([main, zero, zero]),
                jnp.concatenate([to_left, -to_left, zero]),
                jnp.concatenate([to_right, zero, -to_right]),
                generalized_force((right - left) / self.l)[0],
            ],
            axis=1,
        )

    def drawing(self, q, t):
        carriage, connector, left, right = self.suspension(t), q[:2], q[2:4], q[4:]
        fan = self.platform_point(q, self.xi_fan, self.eta_fan)
        thrust = 0.1 * (right - left)
        return {
            "ceiling": jnp.array([[-1.0, 0.0], [1.0, 0.0]]),
            "carriage": carriage[None],
            "main cable": jnp.stack([carriage, connector]),
            "cable to P3": jnp.stack([connector, left]),
            "cable to P4": jnp.stack([connector, right]),
            "connector": connector[None],
            "platform": jnp.stack([left, right]),
            "fan": jnp.stack([fan - thrust, fan + thrust]),
        }


class PushedAcroboter(Acroboter):
    """The Acroboter with a horizontal disturbance force on the connector that its controller does not know."""

    push: float = 5.0
    """Force on the connector (N), along x."""
    push_begin: float = 1.0
    """Time at which the force begins (s)."""
    push_end: float = 1.2
    """Time at which the force ends (s)."""

    def applied_force(self, q, v, t):
        is_pushed = (t >= self.push_begin) & (t < self.push_end)
        return jnp.where(is_pushed, self.push, 0.0) * jnp.eye(6)[0]


def _unit(a):
    return a / jnp.sqrt(a @ a)


def acroboter(
    m_connector: Positive = 0.1,
    m_platform: Positive = 4.0,
    l: Positive = 0.5,
    J: NonNegative = 0.8,
    eta_fan: float = 0.05,
    g: float = 9.81,
    carriage: float = 0.0,
    carriage_speed: float = 0.0,
) -> Example:
    """Constant cable tensions carry the weight; the connector starts with 1 m/s and swings between the cables."""
    # Equilibrium with the connector 1 m below the ceiling and 0.5 m above the platform.
    slant = np.hypot(0.5 * l, 0.5) / 0.5  # cable length over its vertical extent
    side_tension = 0.5 * m_platform * g * slant
    return Example(
        system=Acroboter(
            m_connector=m_connector,
            m_platform=m_platform,
            l=l,
            J=J,
            xi=0.5 * l,
            xi_fan=0.5 * l,
            eta_fan=eta_fan,
            g=g,
            carriage=carriage,
            carriage_speed=carriage_speed,
        ),
        title="Platform on three cables and a fan: four inputs for five degrees of freedom",
        source=_SOURCE,
        q=np.array([carriage, -1.0, carriage - 0.5 * l, -1.5, carriage + 0.5 * l, -1.5]),
        v=np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        t_end=2.0,
        settings={"u": np.array([(m_connector + m_platform) * g, side_tension, side_tension, 0.0])},
    )


def acroboter_push(
    kappa: float = 0.8,
    kp: float = 200.0,
    kd: float = 22.0,
    period: Positive = 0.01,
    delay_samples: Delay = 1,
    push: float = 5.0,
) -> Example:
    """A controller at 100 Hz with one sample of delay holds the platform; its connector is pushed from 1.0 to 1.2 s.

    The platform moves by 63 mm sideways and 0.05 mm in height, and is back within 0.5 mm at 4 s. The source, in which
    the platform is moving meanwhile, reports 10 mm and 3 mm, and a connector that keeps swinging without blending
    (`kappa=1, kp=1500, kd=47`). Here sampling damps this swing, and the platform moves by only 0.4 mm.
    """
    model = Acroboter()
    law = Blended(model, model.task, model.stabilizer, model.task(jnp.asarray(HANGING)), kp, kd, kappa)
    return Example(
        system=PushedAcroboter(push=push),
        title="Platform on cables, held in place against a push: blended servo-constraints",
        source=_SOURCE,
        q=HANGING,
        v=np.zeros(6),
        t_end=5.0,
        settings={"controller": Sampled(law, period, delay_samples)},
    )
