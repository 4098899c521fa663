"""Four-bar whose coupler point goes round its curve with a wanted timing: one motor, one output."""

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
from bricard.mechanism.base import MechanismSystem
from bricard.system import System, Vector

CENTRE = (0.1, 0.105)
"""A point (m) inside the coupler curve, from which all of it can be seen."""


class AngleSeenFrom(Output):
    """Where a sensor's point is on its curve: the angle (rad) at which it is seen from `centre`.

    Counted on from turn to turn, by the crank's angle `joint`, from which it never differs by half a turn.
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
        # atan2 of the difference to the crank's angle does not jump where atan2 of the angle itself would.
        ahead = jnp.arctan2(y * jnp.cos(crank) - x * jnp.sin(crank), x * jnp.cos(crank) + y * jnp.sin(crank))
        return (crank + ahead)[None]

    def rate(self, system, q, v, t):
        # Sensors read rates too: less to compile than a derivative of all that places the bodies.
        (x, y), (dx, dy) = self._point(system, q, v)
        return ((x * dy - y * dx) / (x**2 + y**2))[None]

    def _point(self, system: System, q: Vector, v: Vector) -> tuple[Float[Array, " 2"], Float[Array, " 2"]]:
        """The point seen from the centre, and its velocity."""
        assert isinstance(system, MechanismSystem)
        position, velocity = system.measure(q, v)[self.sensor]
        return position - self.centre, velocity


def four_bar_coupler(turns: float = 2.0, duration: Positive = 4.0, kp: float = 400.0, kd: float = 40.0) -> Example:
    """From rest to rest, `turns` times round the curve; the timing is prescribed on the curve, not at the crank."""
    mechanism = four_bar_mechanism()
    system = mechanism.system("relative")
    output = AngleSeenFrom("coupler point", "A", jnp.array(CENTRE))
    start = np.asarray(output.value(system, system.reference, jnp.zeros(())))
    reference = Polynomial(start, start + 2.0 * np.pi * turns, duration)
    return mechanism_example(
        mechanism,
        "relative",
        title="Four-bar whose coupler point keeps time on its curve",
        source="any textbook; the crank that does it turns unevenly",
        t_end=duration,
        settings={"controller": ProjectedInverseDynamics(system, output, reference, kp, kd)},
    )
