"""Natural coordinates: points and direction vectors, with a constant mass matrix and no angles at all.

In the plane a body has its centre of mass and one unit vector (4 numbers, 1 constraint that keeps it rigid). In space
it has its centre of mass and three unit vectors (12 numbers, 6 constraints). Joints are the same rows as in absolute
coordinates, now polynomials of the coordinates, so that their multipliers are the same reactions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bricard.mechanism.coordinates.body_coordinates import BodyCoordinates, block_diagonal, body_names
from bricard.mechanism.model.compiled_model import Model
from bricard.mechanism.model.frames import Placement
from bricard.spatial import cross, skew
from bricard.system import System

PLANE = ("x", "y", "ux", "uy")
SPACE = ("x", "y", "z", *(f"{u}{x}" for u in "uvw" for x in "xyz"))
_FIRST, _SECOND = np.triu_indices(3)


class Natural(BodyCoordinates):
    """A mechanism in natural coordinates: 4 per body in the plane, 12 in space."""

    @property
    def parts(self):
        return PLANE if self.model.planar else SPACE

    def _split(self, x):
        """Points (n, 2 or 3), direction vectors as rows (n, 1 or 3, 2 or 3), tracked turns."""
        n, dimension = self.model.n, 2 if self.model.planar else 3
        width = len(self.parts)
        body = x[: width * n].reshape(n, -1, dimension)
        return body[:, 0], body[:, 1:], x[width * n :]

    def place(self, q):
        p, u, turns = self._split(q)
        if not self.model.planar:
            return Placement(p, jnp.swapaxes(u, 1, 2), turns)
        n = self.model.n
        x, y = u[:, 0, 0], u[:, 0, 1]
        zero, one = jnp.zeros(n), jnp.ones(n)
        rotation = jnp.stack([x, -y, zero, y, x, zero, zero, zero, one], axis=1).reshape(n, 3, 3)
        return Placement(jnp.concatenate([p, zero[:, None]], axis=1), rotation, turns)

    def twists(self, q, v):
        _, u, _ = self._split(q)
        velocity, rate, _ = self._split(v)
        if not self.model.planar:
            return jnp.concatenate([velocity, 0.5 * jnp.sum(cross(u, rate), axis=1)], axis=1)
        spin = u[:, 0, 0] * rate[:, 0, 1] - u[:, 0, 1] * rate[:, 0, 0]
        return jnp.concatenate([velocity, jnp.zeros((self.model.n, 3)), spin[:, None]], axis=1)

    def pull(self, q, wrenches):
        _, u, _ = self._split(q)
        if self.model.planar:
            across = jnp.stack([-u[:, 0, 1], u[:, 0, 0]], axis=1)
            turning = jnp.einsum("...n,ni->...ni", wrenches[..., 5], across)
            local = jnp.concatenate([wrenches[..., :2], turning], axis=-1)
        else:
            moment = 0.5 * jnp.einsum("...nij,nkj->...nki", skew(wrenches[..., 3:]), u)
            local = jnp.concatenate([wrenches[..., :3], moment.reshape(*moment.shape[:-2], 9)], axis=-1)
        return self.flat(local)

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ self.mass_matrix(q, t) @ v

    def body_mass(self, q):
        model = self.model
        if model.planar:
            zz = model.inertia[:, 2, 2]
            blocks = jax.vmap(jnp.diag)(jnp.stack([model.mass, model.mass, zz, zz], axis=1))
        else:
            # Second moments of mass ∫ x xᵀ dm, from the inertia ∫ (|x|² 1 − x xᵀ) dm.
            trace = jnp.trace(model.inertia, axis1=1, axis2=2)
            moments = 0.5 * trace[:, None, None] * jnp.eye(3)[None] - model.inertia
            core = jnp.zeros((model.n, 4, 4)).at[:, 0, 0].set(model.mass).at[:, 1:, 1:].set(moments)
            blocks = jax.vmap(lambda c: jnp.kron(c, jnp.eye(3)))(core)
        return block_diagonal(blocks, len(self.extra))

    def bias(self, q, v, t):
        place = self.place(q)
        force = self.model.potential_wrenches(place)
        if self.model.armatures:  # of the bodies themselves the mass matrix is constant
            force = force - self.model.rotor_wrenches(place, self.twists(q, v), self.twist_bias(q, v))
        return -self.pull(q, force)

    # Off the constraints the directions are not orthonormal: rates are those of the polynomials themselves.
    constraint_rate = System.constraint_rate
    constraint_bias = System.constraint_bias
    constraint_jacobian = System.constraint_jacobian

    def rigidity(self, q):
        _, u, _ = self._split(q)
        if self.model.planar:
            return 0.5 * (jnp.sum(u[:, 0] ** 2, axis=1) - 1.0)
        gram = jnp.einsum("nki,nli->nkl", u, u) - jnp.eye(3)[None]
        return gram[:, _FIRST, _SECOND].reshape(-1)

    @property
    def rigidity_names(self):
        if self.model.planar:
            return tuple(f"{n}: |u|" for n in self.model.names)
        pairs = [f"{'uvw'[i]}·{'uvw'[j]}" for i, j in zip(_FIRST, _SECOND, strict=True)]
        return body_names(tuple(pairs), tuple(f"{n}:" for n in self.model.names))

    def coordinates_of(self, place):
        if self.model.planar:
            x = jnp.concatenate([place.p[:, :2], place.R[:, :2, 0]], axis=1)
        else:
            x = jnp.concatenate([place.p, jnp.swapaxes(place.R, 1, 2).reshape(-1, 9)], axis=1)
        return jnp.concatenate([x.reshape(-1), place.turns])

    def velocities_of(self, q, twists):
        place = self.place(q)
        rates = skew(twists[:, 3:]) @ place.R
        moving = Placement(twists[:, :3], rates, self.turn_rates(place, twists))
        return self.coordinates_of(moving)  # linear in the placement


def natural(model: Model) -> Natural:
    """The mechanism in natural coordinates."""
    eye = np.tile(np.eye(3), (model.n, 1, 1))
    width = slice(0, 2) if model.planar else slice(0, 3)
    directions = eye[:, :1, :2] if model.planar else eye
    body = np.concatenate([np.asarray(model.home)[:, None, width], directions], axis=1)
    reference = np.concatenate([body.reshape(-1), np.zeros(len(model.tracked))])
    return Natural(model, jnp.asarray(reference))
