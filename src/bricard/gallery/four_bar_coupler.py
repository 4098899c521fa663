"""Four-bar whose coupler point moves along its curve with prescribed timing: one motor, one output."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.control import Polynomial, ProjectedInverseDynamics
from bricard.control.output import Output
from bricard.gallery.example import Example
from bricard.gallery.four_bar import four_bar_mechanism
from bricard.gallery.moving import mechanism_example
from bricard.gallery.ranges import Positive
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.system import System, Vector

CENTRE = (0.1, 0.105)
"""A point (m) inside the coupler curve; every ray from it crosses the curve once."""


class AngleSeenFrom(Output):
    """Polar angle (rad) of the point of a sensor about `centre`, which parametrises its curve.

    The angle is continuous over several turns: it is unwrapped with the angle of the crank `joint`, from which it must
    differ by less than half a turn.
    """

    sensor: str = eqx.field(static=True)
    joint: str = eqx.field(static=True)
    centre: Float[Array, " 2"]

    @property
    def names(self):
        return (f"{self.sensor} angle",)

    def value(self, system, q, t):
        (x, y), _ = self._point(system, q, jnp.zeros(system.nv))
        crank = q[system.index(self.joint)[0]]
        # The difference from the crank angle stays within ±π, so atan2 does not jump.
        difference = jnp.arctan2(y * jnp.cos(crank) - x * jnp.sin(crank), x * jnp.cos(crank) + y * jnp.sin(crank))
        return (crank + difference)[None]

    def rate(self, system, q, v, t):
        # The sensor already provides the velocity; differentiating `value` would compile more slowly.
        (x, y), (dx, dy) = self._point(system, q, v)
        return ((x * dy - y * dx) / (x**2 + y**2))[None]

    def _point(self, system: System, q: Vector, v: Vector) -> tuple[Float[Array, " 2"], Float[Array, " 2"]]:
        """Position (m) of the sensor point relative to the centre, and its velocity (m/s)."""
        assert isinstance(system, MechanismSystem)
        position, velocity = system.measure(q, v)[self.sensor]
        return position - self.centre, velocity


def four_bar_coupler(turns: float = 2.0, duration: Positive = 4.0, kp: float = 400.0, kd: float = 40.0) -> Example:
    """Rest-to-rest motion, `turns` times round the curve in `duration` (s); the crank speed follows from the timing."""
    mechanism = four_bar_mechanism()
    system = mechanism.system("relative")
    output = AngleSeenFrom("coupler point", "A", jnp.array(CENTRE))
    start = np.asarray(output.value(system, system.reference, jnp.zeros(())))
    reference = Polynomial(start, start + 2.0 * np.pi * turns, duration)
    return mechanism_example(
        mechanism,
        "relative",
        title="Four-bar whose coupler point follows its curve with prescribed timing",
        source="Textbook; the crank turns at a varying speed",
        t_end=duration,
        settings={"controller": ProjectedInverseDynamics(system, output, reference, kp, kd)},
    )
