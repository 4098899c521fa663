"""Pendulum on a driven cart (Bencsik, section 4.2.1): the tip is to be positioned, but only the cart is driven."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bricard.control import Blended, Periodic, Polynomial, Sampled
from bricard.gallery.example import Example
from bricard.gallery.ranges import Count, Delay, NonNegative, Positive
from bricard.gallery.shapes import box
from bricard.system import System

_SOURCE = (
    "L. Bencsik, Dynamic analysis and tracking control of underactuated multibody systems, PhD thesis, Budapest 2017, "
    "section"
)


class SlidingPendulum(System):
    """A cart on a level rail with a rod hanging from it; `angle` counts from the downward vertical, counterclockwise.

    Tracking with the tip alone leaves unstable internal dynamics; blended with the cart's position it is stable below
    two thirds. The source's fastest decay, 0.947 per sample at gains (142.4, 24.6), does not follow from its table of
    parameters: it is 0.9987 there. With a tenth of the table's damping it nearly does (0.9476 at (142.79, 24.654)).
    """

    m1: float = 6.35
    """Mass of the cart (kg)."""
    m2: float = 0.1
    """Mass of the rod (kg)."""
    l: float = 0.9
    """Length of the rod (m)."""
    r: float = 0.45
    """From the hinge to the rod's centre of mass (m)."""
    J: float = 0.00675
    """Inertia of the rod about its centre of mass (kg m²)."""
    b: float = 0.002
    """Friction of the hinge (N m s)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""

    coordinates = ("cart", "angle")
    inputs = ("cart force",)

    def point(self, q, distance):
        """The point of the rod at `distance` from the hinge (m)."""
        return jnp.array([q[0] + distance * jnp.sin(q[1]), -distance * jnp.cos(q[1])])

    def tip(self, q):
        """Lower end of the rod (m): what the source's controller positions."""
        return self.point(q, self.l)

    def tip_x(self, q):
        """The same along the rail."""
        return self.tip(q)[0]

    def kinetic_energy(self, q, v, t):
        _, centre = jax.jvp(lambda q: self.point(q, self.r), (q,), (v,))
        return 0.5 * (self.m1 * v[0] ** 2 + self.m2 * centre @ centre + self.J * v[1] ** 2)

    def potential_energy(self, q, t):
        return self.m2 * self.g * self.point(q, self.r)[1]

    def applied_force(self, q, v, t):
        return jnp.stack([jnp.zeros_like(v[0]), -self.b * v[1]])

    def input_matrix(self, q, t):
        return jnp.array([[1.0], [0.0]])

    def drawing(self, q, t):
        hinge, tip = self.point(q, 0.0), self.tip(q)
        return {
            "rail": jnp.array([[-1.0, 0.0], [1.0, 0.0]]) * self.l,
            "cart": box(hinge, 0.3 * self.l, 0.15 * self.l),
            "rod": jnp.stack([hinge, tip]),
            "tip": tip[None],
        }


def sliding_pendulum(
    m1: Positive = 6.35,
    m2: Positive = 0.1,
    l: Positive = 0.9,
    r: Positive = 0.45,
    J: NonNegative = 0.00675,
    b: NonNegative = 0.002,
    g: float = 9.81,
) -> Example:
    """The rod is let go at 1 rad; the free cart yields a little and the hinge's friction eats the swing."""
    return Example(
        system=SlidingPendulum(m1=m1, m2=m2, l=l, r=r, J=J, b=b, g=g),
        title="Pendulum on a driven cart: one force for two coordinates",
        source=f"{_SOURCE} 4.2.1",
        q=np.array([0.0, 1.0]),
        v=np.zeros(2),
        t_end=10.0,
    )


def sliding_pendulum_blended(
    kappa: float = 0.6, kp: float = 116.0, kd: float = 24.1, period: Positive = 0.03, delay: Delay = 1
) -> Example:
    """The tip moves half a metre in 10 s; the law blends it with the cart, at 33 Hz with a sample of delay.

    The tip's error is 1.0 mm (root mean square). Gains are near those of the fastest decay, which are not the source's.
    """
    system = SlidingPendulum()
    law = Sampled(_blended(system, kappa, kp, kd), period, delay)
    return _moved(
        system, law, title="Pendulum on a cart, its tip positioned: blended servo-constraints", section="4.2.1"
    )


def sliding_pendulum_periodic(
    k: Count = 1, l: Count = 5, kp: float = 110.0, kd: float = 30.0, period: Positive = 0.03, delay: Delay = 1
) -> Example:
    """The same motion with the tip for `k` samples and the cart for `l` samples in turn: an error of 5.4 mm.

    The source prefers this to blending, by 37 %, with `k=2, l=5, kp=169, kd=15`: that gives 26 mm and forces of 219 N
    here, against 0.3 N. At `kp=180, kd=24` this pattern has its fastest decay, 0.968 per sample, but only for small
    swings: on this motion it diverges.
    """
    system = SlidingPendulum()
    law = Sampled(Periodic(_blended(system, 1.0, kp, kd), k, l), period, delay)
    return _moved(system, law, title="Pendulum on a cart, its tip positioned: servo-constraints in turn", section="5.3")


def _blended(system: SlidingPendulum, kappa: float, kp: float, kd: float) -> Blended:
    return Blended(system, system.tip_x, "cart", Polynomial([0.0], [0.5], 10.0), kp, kd, kappa)


def _moved(system: SlidingPendulum, law: Sampled, title: str, section: str) -> Example:
    """From rest on the reference."""
    return Example(
        system, title, f"{_SOURCE} {section}", np.zeros(2), np.zeros(2), t_end=12.0, settings={"controller": law}
    )
