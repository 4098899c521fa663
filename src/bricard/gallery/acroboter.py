"""Planar model of the Acroboter service robot (Bencsik, section 4.2.2): a platform on cables, natural coordinates."""

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
"""At rest, one metre below the ceiling and half a metre above the platform (m)."""


class Acroboter(System):
    """A platform hangs on two cables from a connector, which hangs on a cable from a carriage at the ceiling.

    Coordinates are the positions of the connector P2 and of the platform's ends P3 and P4 (m); the platform is rigid by
    one constraint, in m². Cable tensions and a fan are inputs: four for five degrees of freedom; the connector's
    sideways motion is left over. The carriage P1 moves on its own, as a given function of time.

    The mass matrix, absent from the source's text, follows from the energies. In its matrix of inputs (4.20), entry
    (6, 3) must be `(y₂ − y₄)/l₃`, and the first column must contain P1. Its internal frequencies and the areas of its
    largest stable regions reproduce, its optimal gains do not.
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
    """Platform's centre of mass from P3 (m), towards P4."""
    eta: float = 0.0
    """The same, to the left of the line from P3 to P4."""
    xi_fan: float = 0.25
    """Fan from P3 (m), towards P4."""
    eta_fan: float = 0.05
    """The same, to the left of the line from P3 to P4."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""
    carriage: float = 0.0
    """Position of the carriage at t = 0 along the ceiling (m)."""
    carriage_speed: float = 0.0
    """Velocity of the carriage (m/s)."""

    coordinates = ("x2", "y2", "x3", "y3", "x4", "y4")
    constraint_names = ("platform length",)
    inputs = ("main cable", "cable to P3", "cable to P4", "fan")

    def suspension(self, t):
        """The carriage P1 (m); a subclass may move it as it likes."""
        x = self.carriage + self.carriage_speed * t
        return jnp.array([x, 0.0])

    def platform_point(self, q, xi, eta):
        """The point of the platform at `xi` along it and `eta` to its left (m)."""
        along = (q[4:] - q[2:4]) / self.l
        return q[2:4] + xi * along + eta * jnp.array([-along[1], along[0]])

    def task(self, q):
        """The source's outputs (m): connector above the platform's middle, its middle's x and y, its `y₃ − y₄`."""
        middle = 0.5 * (q[2:4] + q[4:])
        return jnp.stack([q[1] - middle[1], middle[0], middle[1], q[3] - q[5]])

    def stabilizer(self, q):
        """The same with the connector's x for the platform's."""
        return self.task(q).at[1].set(q[0])

    def kinetic_energy(self, q, v, t):
        # The velocity of any point of the platform is linear in those of P3 and P4: mass, static moment and inertia
        # about P3 are all that is left of the integral over the body.
        start, end = v[2:4], v[4:]
        turn = (end - start) / self.l
        moment = self.xi * turn + self.eta * jnp.array([-turn[1], turn[0]])
        platform = self.m_platform * (start @ start + 2.0 * start @ moment) + self.J * turn @ turn
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
        _, to_coordinates = jax.vjp(lambda q: self.platform_point(q, self.xi_fan, self.eta_fan), q)
        return jnp.stack(
            [
                jnp.concatenate([main, zero, zero]),
                jnp.concatenate([to_left, -to_left, zero]),
                jnp.concatenate([to_right, zero, -to_right]),
                to_coordinates((right - left) / self.l)[0],
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
    """Somebody runs into the connector: a horizontal force for a while, of which the controller does not know."""

    push: float = 5.0
    """Force on the connector (N), along x."""
    push_begin: float = 1.0
    """When it begins (s)."""
    push_end: float = 1.2
    """When it ends (s)."""

    def applied_force(self, q, v, t):
        pushed = (t >= self.push_begin) & (t < self.push_end)
        return jnp.where(pushed, self.push, 0.0) * jnp.eye(6)[0]


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
    """The cables carry the weight; the connector gets a push and swings between them."""
    # Hanging at rest, one metre below the ceiling and half a metre above the platform.
    drop = np.hypot(0.5 * l, 0.5) / 0.5
    side = 0.5 * m_platform * g * drop
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
        settings={"u": np.array([(m_connector + m_platform) * g, side, side, 0.0])},
    )


def acroboter_push(
    kappa: float = 0.8,
    kp: float = 200.0,
    kd: float = 22.0,
    period: Positive = 0.01,
    delay: Delay = 1,
    push: float = 5.0,
) -> Example:
    """Held in place at 100 Hz with a sample of delay, and pushed at its connector from 1.0 to 1.2 s.

    The platform leaves its place by 63 mm sideways and 0.05 mm in height, and is back within half a millimetre at 4 s.
    The source, whose platform moves on meanwhile, reports 10 mm and 3 mm, and that without blending (`kappa=1, kp=1500,
    kd=47`) the connector swings on. Here it does not, sampling damps it: the platform moves by 0.4 mm only.
    """
    model = Acroboter()
    law = Blended(model, model.task, model.stabilizer, model.task(jnp.asarray(HANGING)), kp, kd, kappa)
    return Example(
        system=PushedAcroboter(push=push),
        title="Platform on cables, pushed while it is held: blended servo-constraints",
        source=_SOURCE,
        q=HANGING,
        v=np.zeros(6),
        t_end=5.0,
        settings={"controller": Sampled(law, period, delay)},
    )
