"""Andrews' squeezing mechanism (Test Set for IVP Solvers; IFToMM benchmark A03): seven bodies, small and fast."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bricard.gallery.drawings import spring
from bricard.gallery.example import Example
from bricard.gallery.ranges import NonNegative
from bricard.simulation import assemble
from bricard.system import System

_TEST_SET_START = (
    -0.0617138900142764496358948458001,
    0.0,
    0.455279819163070380255912382449,
    0.222668390165885884674473185609,
    0.487364979543842550225598953530,
    -0.222668390165885884674473185609,
    1.23054744454982119249735015568,
)
K1, K2, K3, K4, K5, K6, K7 = range(7)
ALONG, ACROSS = range(2)
TURNS = np.zeros((7, 7))
"""Angles of the bodies K1 … K7 as sums of coordinates: `angles = TURNS @ q`."""
for _body, _names in enumerate(((0,), (0, 1), (2,), (3, 4), (4,), (5, 6), (6,))):
    TURNS[_body, _names] = 1.0
ENDS, CENTRES, D = slice(0, 4), slice(4, 11), 11
"""Indices into `Andrews.points`: the pin E along four chains, the centres of mass, and the first of D, F, G, H."""


class Andrews(System):
    """A motor at the origin O turns the crank K1; K2 connects its pin F to the pin E, where K2, K3, K4 and K6 meet.

    K3 turns about B; a spring connects its point D to the ground at C. K4 and K5, joined at G, connect E to the ground
    at A, and so do K6 and K7, joined at H. The seven angles and the letters for the lengths are those of the Test Set.
    There is no gravity.

    The solution that the Test Set publishes for t = 0.03 s has errors of up to 1.4e-9, compared with a quadrature of
    the energy equation in 30 digits.
    """

    m1: float = 0.04325
    """K1: mass (kg)."""
    m2: float = 0.00365
    """K2: mass (kg)."""
    m3: float = 0.02373
    """K3: mass (kg)."""
    m4: float = 0.00706
    """K4: mass (kg)."""
    m5: float = 0.07050
    """K5: mass (kg)."""
    m6: float = 0.00706
    """K6: mass (kg)."""
    m7: float = 0.05498
    """K7: mass (kg)."""
    I1: float = 2.194e-6
    """K1: inertia about its centre of mass (kg m²)."""
    I2: float = 4.410e-7
    """K2: inertia about its centre of mass (kg m²)."""
    I3: float = 5.255e-6
    """K3: inertia about its centre of mass (kg m²)."""
    I4: float = 5.667e-7
    """K4: inertia about its centre of mass (kg m²)."""
    I5: float = 1.169e-5
    """K5: inertia about its centre of mass (kg m²)."""
    I6: float = 5.667e-7
    """K6: inertia about its centre of mass (kg m²)."""
    I7: float = 1.912e-5
    """K7: inertia about its centre of mass (kg m²)."""
    xa: float = -0.06934
    """Ground point A: x (m)."""
    ya: float = -0.00227
    """Ground point A: y (m)."""
    xb: float = -0.03635
    """Ground point B: x (m)."""
    yb: float = 0.03273
    """Ground point B: y (m)."""
    xc: float = 0.014
    """Ground point C: x (m)."""
    yc: float = 0.072
    """Ground point C: y (m)."""
    c0: float = 4530.0
    """Stiffness of the spring from C to D (N/m)."""
    l0: float = 0.07785
    """Its length without load (m)."""
    rr: float = 7.0e-3
    """K1: crank from O to F (m)."""
    ra: float = 0.92e-3
    """K1: distance of the centre of mass from O, towards F (m)."""
    d: float = 28.0e-3
    """K2: distance from F to E (m)."""
    da: float = 11.5e-3
    """K2: distance of the centre of mass from F, towards E (m)."""
    ss: float = 35.0e-3
    """K3: distance from B to E (m)."""
    sa: float = 18.74e-3
    """K3: distance of the centre of mass from B, along BE (m)."""
    sb: float = 10.43e-3
    """K3: distance of the centre of mass from B, across BE (m)."""
    sc: float = 18.0e-3
    """K3: distance of the spring point D from B, along BE (m)."""
    sd: float = 20.0e-3
    """K3: distance of the spring point D from B, across BE (m)."""
    e: float = 20.0e-3
    """K4: distance from G to E (m)."""
    ea: float = 14.21e-3
    """K4: distance of the centre of mass from E, towards G (m)."""
    zt: float = 40.0e-3
    """K5: distance from A to G (m)."""
    ta: float = 23.08e-3
    """K5: distance of the centre of mass from A, along AG (m)."""
    tb: float = 9.16e-3
    """K5: distance of the centre of mass from A, across AG (m)."""
    zf: float = 20.0e-3
    """K6: distance from H to E (m)."""
    fa: float = 14.21e-3
    """K6: distance of the centre of mass from E, towards H (m)."""
    u: float = 40.0e-3
    """K7: distance from A to H (m)."""
    ua: float = 12.28e-3
    """K7: distance of the centre of mass from A, along AH (m)."""
    ub: float = 4.49e-3
    """K7: distance of the centre of mass from A, across AH (m)."""

    coordinates = ("beta", "theta", "gamma", "phi", "delta", "omega", "epsilon")
    constraint_names = ("K3 at E x", "K3 at E y", "K4 at E x", "K4 at E y", "K6 at E x", "K6 at E y")
    inputs = ("drive torque",)

    def arms(self):
        """Positions of all points as sums of a ground point and of arms that turn with the bodies (m).

        Returns the ground points, shape (points, 2), and the components of the arms in the direction of each body and
        90° counterclockwise from it, each of shape (points, 7).
        """
        o, a, b = jnp.zeros(2), jnp.array([self.xa, self.ya]), jnp.array([self.xb, self.yb])
        f, g, h = {(K1, ALONG): self.rr}, {(K5, ALONG): self.zt}, {(K7, ACROSS): -self.u}
        points = (
            (o, f | {(K2, ALONG): -self.d}),  # E, along four chains
            (b, {(K3, ACROSS): -self.ss}),
            (a, g | {(K4, ACROSS): -self.e}),
            (a, h | {(K6, ALONG): self.zf}),
            (o, {(K1, ALONG): self.ra}),  # centres of mass
            (o, f | {(K2, ALONG): -self.da}),
            (b, {(K3, ALONG): self.sb, (K3, ACROSS): -self.sa}),
            (a, g | {(K4, ACROSS): self.ea - self.e}),
            (a, {(K5, ALONG): self.ta, (K5, ACROSS): self.tb}),
            (a, h | {(K6, ALONG): self.zf - self.fa}),
            (a, {(K7, ALONG): -self.ub, (K7, ACROSS): -self.ua}),
            (b, {(K3, ALONG): self.sd, (K3, ACROSS): -self.sc}),  # D, F, G, H
            (o, f),
            (a, g),
            (a, h),
        )
        where = [(component, point, body) for point, (_, arms) in enumerate(points) for body, component in arms]
        lengths = jnp.stack([length for _, arms in points for length in arms.values()])
        along, across = jnp.zeros((2, len(points), 7)).at[tuple(np.transpose(where))].set(lengths)
        return jnp.stack([start for start, _ in points]), along, across

    def points(self, q, which: Any = slice(None)):
        """Positions (m) of E along four chains, of the seven centres of mass, and of D, F, G, H; shape (15, 2)."""
        starts, along, across = (x[which] for x in self.arms())
        angles = jnp.asarray(TURNS) @ q
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        return starts + along @ jnp.stack([cos, sin], axis=1) + across @ jnp.stack([-sin, cos], axis=1)

    def kinetic_energy(self, q, v, t):
        _, velocities = jax.jvp(lambda q: self.points(q, CENTRES), (q,), (v,))
        masses = jnp.array([self.m1, self.m2, self.m3, self.m4, self.m5, self.m6, self.m7])
        inertias = jnp.array([self.I1, self.I2, self.I3, self.I4, self.I5, self.I6, self.I7])
        return 0.5 * (masses @ jnp.sum(velocities**2, axis=1) + inertias @ (jnp.asarray(TURNS) @ v) ** 2)

    def potential_energy(self, q, t):
        span = self.points(q, D) - jnp.array([self.xc, self.yc])
        return 0.5 * self.c0 * (jnp.sqrt(span @ span) - self.l0) ** 2

    def constraints(self, q, t):
        ends = self.points(q, ENDS)
        return (ends[:1] - ends[1:]).ravel()

    def input_matrix(self, q, t):
        return jnp.zeros((7, 1)).at[0, 0].set(1.0)

    def drawing(self, q, t):
        points = self.points(q)
        e, (d, f, g, h) = points[0], points[D:]
        a, b, c = (jnp.array(p) for p in ((self.xa, self.ya), (self.xb, self.yb), (self.xc, self.yc)))
        return {
            "crank K1": jnp.stack([jnp.zeros(2), f]),
            "rod K2": jnp.stack([f, e]),
            "arm K3": jnp.stack([b, e, d, b]),
            "link K4": jnp.stack([e, g]),
            "knee K5": jnp.stack([g, a]),
            "link K6": jnp.stack([e, h]),
            "knee K7": jnp.stack([h, a]),
            "spring": spring(c, d, 0.006),
            "A": a[None],
            "B": b[None],
            "C": c[None],
            "O": jnp.zeros((1, 2)),
        }


def andrews(torque: float = 0.033, beta: float = _TEST_SET_START[0], c0: NonNegative = 4530.0) -> Example:
    """Starts at rest under a constant motor `torque` (N m); the crank makes two and a half turns in 0.03 s.

    `beta` is the initial crank angle (rad): −0.062 in IFToMM A03; the Test Set (default) starts with `theta = 0`. `c0`
    is the stiffness of the spring (N/m).
    """
    system = Andrews(c0=c0)
    q = np.array(_TEST_SET_START)
    if beta != q[0]:
        q[0] = beta
        q = np.asarray(assemble(system, jnp.asarray(q), jnp.zeros(7), hold=("beta",)).q)
    return Example(
        system=system,
        title="Andrews' squeezing mechanism: seven bodies, three loops through one pin",
        source="Test Set for IVP Solvers, problem andrews (after E. Hairer and G. Wanner, Solving Ordinary "
        "Differential Equations II); IFToMM library of computational benchmark problems, A03",
        q=q,
        v=np.zeros(7),
        t_end=0.03,
        settings={"u": np.array([torque])},
    )
