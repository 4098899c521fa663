"""Random constrained systems with explicit time, and the same in plain NumPy with derivatives written out."""

from types import SimpleNamespace

import numpy as np
from jax import numpy as jnp

import bricard as br
from bricard.control import Output, Reference
from tests.control.systems import make_system


class Random(br.System):
    """Four coordinates, two independent moving constraints and a third that follows from them; `bias` is the user's.

    All numbers are arrays, so that one compiled law serves all draws.
    """

    root: np.ndarray  # (4, 4)
    sizes: np.ndarray  # (4,): units of the coordinates
    rows: np.ndarray  # (2, 4)
    bend: np.ndarray  # (2, 4)
    shift: np.ndarray  # (2,)
    offset: np.ndarray  # (2,)
    again: np.ndarray  # (2,): the third row is this combination of the others
    pull: np.ndarray  # (4,)
    drag: np.ndarray  # (4, 4)
    forces: np.ndarray  # (4, nu)
    coordinates = tuple("abcd")

    def mass_matrix(self, q, t):
        x = q / self.sizes
        inner = self.root @ self.root.T + jnp.diag(1.5 + 0.5 * jnp.sin(x) * jnp.cos(t))
        return inner / self.sizes[:, None] / self.sizes[None, :]

    def bias(self, q, v, t):
        x, w = q / self.sizes, v / self.sizes
        return (self.pull * jnp.cos(x + t) + w * (self.drag @ w) + self.drag.T @ w) / self.sizes

    def applied_force(self, q, v, t):
        return jnp.sin(2.0 * t) * self.pull[::-1] / self.sizes

    def constraints(self, q, t):
        x = q / self.sizes
        two = self.rows @ x + self.bend @ jnp.sin(x) + self.shift * jnp.sin(t) - self.offset
        return jnp.concatenate([two, (self.again @ two)[None]])

    def input_matrix(self, q, t):
        return self.forces


class Curved(Output):
    """`Y x + Z sin x + e sin t` in the units of the coordinates."""

    rows: np.ndarray
    bend: np.ndarray
    shift: np.ndarray
    sizes: np.ndarray

    @property
    def names(self):
        return tuple(f"y{i}" for i in range(self.rows.shape[0]))

    def value(self, system, q, t):
        x = q / self.sizes
        return self.rows @ x + self.bend @ jnp.sin(x) + self.shift * jnp.sin(t)


class Quadratic(Reference):
    """`a + b t + c t²`."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    def __call__(self, t):
        return self.a + self.b * t + self.c * t**2


class Plain:
    """The same system and output at one state, in NumPy, with no word of bricard."""

    def __init__(self, system, output, q, v, t):
        s = {k: np.asarray(x) for k, x in vars(system).items() if not k.startswith("_")}
        o = {k: np.asarray(x) for k, x in vars(output).items() if not k.startswith("_")}
        d = s["sizes"]
        x, w = q / d, v / d
        self.mass = (s["root"] @ s["root"].T + np.diag(1.5 + 0.5 * np.sin(x) * np.cos(t))) / np.outer(d, d)
        h = (s["pull"] * np.cos(x + t) + w * (s["drag"] @ w) + s["drag"].T @ w) / d
        self.force = np.sin(2.0 * t) * s["pull"][::-1] / d - h
        self.inputs = s["forces"]
        double = np.vstack([np.eye(2), s["again"]])
        self.position = double @ (s["rows"] @ x + s["bend"] @ np.sin(x) + s["shift"] * np.sin(t) - s["offset"])
        self.a = double @ (s["rows"] + s["bend"] * np.cos(x)) / d
        self.moving = double @ (s["shift"] * np.cos(t))  # ∂Φ/∂t
        self.b = double @ (s["bend"] @ (np.sin(x) * w**2) + s["shift"] * np.sin(t))
        self.y = o["rows"] @ x + o["bend"] @ np.sin(x) + o["shift"] * np.sin(t)
        self.jacobian = (o["rows"] + o["bend"] * np.cos(x)) / d
        self.y_rate = self.jacobian @ v + o["shift"] * np.cos(t)
        self.drift = -o["bend"] @ (np.sin(x) * w**2) - o["shift"] * np.sin(t)
        # v̇ = free + gain u: the null space of the two independent rows, in good units.
        rows = self.a[:2] * d
        basis = d[:, None] * np.linalg.svd(rows)[2][2:].T
        particular = d * (np.linalg.pinv(rows) @ self.b[:2])
        mobility = basis @ np.linalg.solve(basis.T @ self.mass @ basis, basis.T)
        self.basis, self.mobility = basis, mobility
        self.free = particular + mobility @ (self.force - self.mass @ particular)
        self.gain = mobility @ self.inputs

    def acceleration(self, u):
        return self.free + self.gain @ u

    def constraint_force(self, u):
        return self.mass @ self.acceleration(u) - self.force - self.inputs @ u

    def demand(self, reference, t, kp, kd):
        """`D u = y` of `ÿ = ÿ_d − k_d ė − k_p e`."""
        a, b, c = (np.asarray(x) for x in (reference.a, reference.b, reference.c))
        e, rate = self.y - (a + b * t + c * t**2), self.y_rate - (b + 2.0 * c * t)
        return self.jacobian @ self.gain, 2.0 * c - kd * rate - kp * e - self.drift - self.jacobian @ self.free


def draw(rng, *, inputs, outputs, double=False, decades=2.0):
    """A system, an output, a reference near it, and a state on the constraints (in position, and not in velocity)."""
    scale = 10.0 ** rng.uniform(-1.5, 1.5, 4)  # masses from 1e-3 to 1e3
    forces = rng.normal(size=(4, inputs)) / scale[:, None] * 10.0 ** rng.uniform(-1, 1, inputs)
    if double:  # two motors on one joint, with different gears
        forces[:, 1] = 3.0 * forces[:, 0]
    q, v, t = scale * rng.normal(size=4), scale * rng.normal(size=4), rng.uniform(-1, 1)
    numbers = {
        "root": 0.5 * rng.normal(size=(4, 4)),
        "sizes": scale,
        "rows": rng.normal(size=(2, 4)),
        "bend": 0.2 * rng.normal(size=(2, 4)),
        "shift": rng.normal(size=2),
        "again": 10.0 ** rng.uniform(-2, 2) * rng.normal(size=2),
        "pull": rng.normal(size=4),
        "drag": rng.normal(size=(4, 4)),
        "forces": forces,
    }
    numbers["offset"] = np.zeros(2)
    unit = 10.0 ** rng.uniform(-decades, decades, outputs)  # of the outputs
    output = Curved(
        unit[:, None] * rng.normal(size=(outputs, 4)),
        0.2 * unit[:, None] * rng.normal(size=(outputs, 4)),
        unit * rng.normal(size=outputs),
        scale,
    )
    output = Curved(*(jnp.asarray(getattr(output, n)) for n in ("rows", "bend", "shift", "sizes")))
    at = Plain(SimpleNamespace(**numbers), output, q, v, t)
    numbers["offset"] = at.position[:2]
    system = make_system(Random, numbers)
    b, c = unit * rng.normal(size=outputs), unit * rng.normal(size=outputs)
    a = at.y - b * t - c * t**2 + 0.02 * unit * rng.normal(size=outputs)
    return system, output, Quadratic(*(jnp.asarray(x) for x in (a, b, c))), q, v, t
