"""Random systems with random contacts, all of one shape so that they share compiled code."""

from typing import NamedTuple

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
        br.Contact(
            Gap(jnp.asarray(normals[i])),
            Slip(jnp.asarray(tangents[i])),
            restitution=float(e[i]),
            friction=friction,
            name=f"contact {i}",
        )
        for i in range(contacts)
    )
    return system, v, made, normals, tangents


# -- a block between a floor and a lid, in the plane or in space -----------------------------------------------------


class Loaded(br.System):
    """Constant mass matrix and force, linear constraints; `nv` by subclass."""

    mass: jnp.ndarray
    rows: jnp.ndarray
    force: jnp.ndarray

    def mass_matrix(self, q, t):
        return self.mass

    def constraints(self, q, t):
        return self.rows @ q

    def potential_energy(self, q, t):
        return -self.force @ q


class Planar(Loaded):
    """Block (3), lid (2)."""

    coordinates = tuple("xyrab")


class Spatial(Loaded):
    """Block (6), lid (3)."""

    coordinates = tuple("xyzrstabc")


class Offset(eqx.Module):
    row: jnp.ndarray
    gap: jnp.ndarray

    def __call__(self, q, t):
        return self.row @ q + self.gap


class Scene(NamedTuple):
    """A block between a floor and a lid, and its numbers for NumPy; the whole is turned at random."""

    system: Loaded
    v: np.ndarray
    contacts: tuple
    mass: np.ndarray
    rows: np.ndarray
    force: np.ndarray
    normals: np.ndarray
    tangents: np.ndarray
    friction: np.ndarray


def block_between(seed, dim, below, above, moving=False, gap=0.0, friction=None):
    """`below` contacts with the floor, `above` ones with a lid that slides along the normal in a doubled guide.

    With more than two (three in space) on one side, or both sides with friction, the contacts are redundant.
    """
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    spins = 1 if dim == 2 else 3
    n = 2 * dim + spins

    def point(r, sign):
        """Velocity of a point of the block, or relative to the lid above it, as (dim, n), in a frame with y or z up."""
        wheel = np.array([[-r[1]], [r[0]]]) if dim == 2 else -np.cross(np.eye(3), r)
        lid = -np.eye(dim) if sign > 0 else np.zeros((dim, dim))
        return np.concatenate([np.eye(dim), wheel, lid], axis=1)

    places, signs = [], [-1.0] * below + [1.0] * above
    for sign in signs:
        places.append(np.append(rng.uniform(-1.0, 1.0, dim - 1), sign * 0.4))
    jacobians = [point(r, s) for r, s in zip(places, signs, strict=True)]
    normals = np.stack([-s * j[-1] for j, s in zip(jacobians, signs, strict=True)])
    tangents = np.stack([j[:-1] for j in jacobians])
    guide = np.zeros((dim - 1, n))
    guide[:, n - dim : n - 1] = np.eye(dim - 1)
    rows = np.concatenate([guide, -2.0 * guide])  # doubled
    m, mass_lid = rng.uniform(0.2, 3.0), rng.uniform(0.2, 3.0)
    spin = rng.normal(size=(spins, spins))
    mass = np.zeros((n, n))
    mass[:dim, :dim], mass[n - dim :, n - dim :] = m * np.eye(dim), mass_lid * np.eye(dim)
    mass[dim : n - dim, dim : n - dim] = m * (spin @ spin.T / spins + 0.1 * np.eye(spins))
    load = rng.normal(size=n) * rng.uniform(0.5, 6.0)
    load[n - 1] = -rng.uniform(2.0, 40.0)  # the lid presses
    v = np.zeros(n)
    if moving:
        v[: dim - 1] = rng.normal(size=dim - 1)
        if dim == 3:
            v[dim + 2] = rng.normal()  # about the normal
    if gap:
        v[[dim - 1, n - 1]] = -rng.uniform(0.5, 1.0), -rng.uniform(1.0, 2.0)
    mu = (
        rng.choice([0.0, 0.2, 0.5, 1.0]) * np.ones(below + above) if seed % 3 else rng.uniform(0.05, 0.8, below + above)
    )
    mu = mu if friction is None else friction * np.ones(below + above)
    # Turn the world: linear coordinates of both bodies, and rotations in space.
    big = np.eye(n)
    big[:dim, :dim] = big[n - dim :, n - dim :] = turn
    if dim == 3:
        big[dim : n - dim, dim : n - dim] = turn
    rows, normals, tangents = rows @ big.T, normals @ big.T, tangents @ big.T
    mass, load, v = big @ mass @ big.T, big @ load, big @ v
    kind = Planar if dim == 2 else Spatial
    system = kind(jnp.asarray(mass), jnp.asarray(rows), jnp.asarray(load))
    contacts = tuple(
        br.Contact(
            Offset(jnp.asarray(normals[i]), jnp.asarray(gap)),
            Slip(jnp.asarray(tangents[i])),
            friction=float(mu[i]),
            restitution=0.5 if gap else 0.0,
            name=f"contact {i}",
        )
        for i in range(below + above)
    )
    return Scene(system, v, contacts, mass, rows, load, normals, tangents, mu)
