"""Random systems with random contacts, all of one shape so that they share compiled code."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import bricard as br


class Linear(br.System):
    """Constant mass matrix, linear constraints."""

    mass: jnp.ndarray
    rows: jnp.ndarray
    coordinates = tuple("abcdef")

    def mass_matrix(self, q, t):
        return self.mass

    def constraints(self, q, t):
        return self.rows @ q


class Gap(eqx.Module):
    row: jnp.ndarray

    def __call__(self, q, t):
        return self.row @ q


class Rows(eqx.Module):
    rows: jnp.ndarray

    def __call__(self, q, t):
        return self.rows @ q


class Slip(eqx.Module):
    rows: jnp.ndarray

    def __call__(self, q, v, t):
        return self.rows @ v


def random_case(seed, contacts=3, slips=1, redundant=True, restitution=0.5, friction=0.4):
    """A system, a velocity that meets its constraints, and contacts; with `redundant`, rows are repeated."""
    rng = np.random.default_rng(seed)
    n = len(Linear.coordinates)
    square = rng.normal(size=(n, n))
    rows = rng.normal(size=(2, n))
    if redundant:
        rows[1] = -2.0 * rows[0]
    normals = rng.normal(size=(contacts, n))
    tangents = rng.normal(size=(contacts, slips, n))
    if redundant and contacts > 2:
        normals[2] = 0.5 * normals[0] + 0.5 * normals[1]
        tangents[2] = tangents[1]
    system = Linear(jnp.asarray(square @ square.T + 0.1 * np.eye(n)), jnp.asarray(rows))
    v = rng.normal(size=n)
    v = v - np.linalg.pinv(rows) @ (rows @ v)
    e = np.broadcast_to(restitution, contacts)
    made = tuple(
        br.Unilateral(
            Gap(jnp.asarray(normals[i])),
            Slip(jnp.asarray(tangents[i])),
            restitution=float(e[i]),
            friction=friction,
            name=f"contact {i}",
        )
        for i in range(contacts)
    )
    return system, v, made, normals, tangents
