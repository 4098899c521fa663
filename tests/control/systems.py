"""Systems and tasks that several tests control."""

import equinox as eqx
import numpy as np
from jax import numpy as jnp

import bricard as br
from bricard.gallery.slider_crank import SliderCrank

_MADE = {}


def make_system(kind, numbers):
    """A system with these arrays. Only the first of each shape is checked as a model: a check takes about 100 ms."""
    key = kind, tuple((name, np.shape(x)) for name, x in numbers.items())
    if key not in _MADE:
        _MADE[key] = kind(**numbers)
    arrays = [jnp.asarray(x, dtype=float) for x in numbers.values()]
    return eqx.tree_at(lambda s: [getattr(s, name) for name in numbers], _MADE[key], arrays)


class Matrices(br.System):
    """A system that is nothing but its matrices: constant `M`, `A`, `H`, and a constant force."""

    mass: np.ndarray
    rows: np.ndarray
    forces: np.ndarray
    pull: np.ndarray
    coordinates = tuple("abcdef")

    def mass_matrix(self, q, t):
        return self.mass

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ self.mass @ v

    def constraints(self, q, t):
        return self.rows @ q

    def input_matrix(self, q, t):
        return self.forces

    def applied_force(self, q, v, t):
        return self.pull


def random_matrices(rng, *, inputs=None, repeat=True):
    """Six coordinates, three rows (the last a combination of the others, if `repeat`), any inputs."""
    root = rng.normal(size=(6, 6))
    rows = rng.normal(size=(3, 6))
    if repeat:
        rows[2] = 1e2 * (rows[0] - 2.0 * rows[1])
    inputs = np.eye(6) if inputs is None else inputs
    numbers = {"mass": root @ root.T + np.eye(6), "rows": rows, "forces": inputs, "pull": rng.normal(size=6)}
    return make_system(Matrices, numbers)


class CrankMotor(SliderCrank):
    """The slider-crank with a motor at the crank, its constraint written twice."""

    inputs = ("motor",)
    constraint_names = ("slider", "slider again")

    def constraints(self, q, t):
        once = super().constraints(q, t)
        return jnp.concatenate([once, 3.0 * once])

    def input_matrix(self, q, t):
        return jnp.array([[1.0], [0.0]])


class BothMotors(CrankMotor):
    """Motors at the crank and between crank and rod: one too many for the motion, enough to press as well."""

    inputs = ("motor", "rod motor")

    def input_matrix(self, q, t):
        return jnp.eye(2)


def prr_task(q):
    """Horizontal place of the tip and angle of the last link from the vertical."""
    return jnp.stack([jnp.cos(q[1] + q[2]) + jnp.cos(q[1]), q[1] + q[2] - 1.5 * jnp.pi])


def prr_path(t):
    """What the source wants of them."""
    return jnp.stack([0.3 * jnp.sin(0.6 * jnp.pi * t) + 0.5, jnp.pi / 6 * jnp.sin(jnp.pi * t) + jnp.pi / 12])


def acroboter_task(q):
    return jnp.stack([q[1] - 0.5 * (q[3] + q[5]), 0.5 * (q[2] + q[4]), 0.5 * (q[3] + q[5]), q[3] - q[5]])


def acroboter_stabilizer(q):
    return jnp.stack([q[1] - 0.5 * (q[3] + q[5]), q[0], 0.5 * (q[3] + q[5]), q[3] - q[5]])
