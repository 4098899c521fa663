"""What absolute and natural coordinates share: numbers of each body in a row, then the tracked turns."""

from __future__ import annotations

from abc import abstractmethod

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.execution.cache import cached
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem


class BodyCoordinates(MechanismSystem):
    """Coordinates of the bodies, in which every joint is a constraint; tracked turns come after the bodies."""

    # What closes a loop is a sum of many rows here, and some 1000 times weaker than in the coordinates of joints. Still
    # smaller, redundant rows would count at the stages of a step, where they do not quite agree.
    weakest_constraint = 1e-12

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """Names of the coordinates of one body."""

    @property
    def rate_parts(self) -> tuple[str, ...]:
        """Names of the velocities of one body."""
        return self.parts

    @property
    def extra(self) -> tuple[str, ...]:
        """Names of the tracked turns."""
        return tuple(f"{self.model.frames.names[j]} angle" for j in self.model.tracked)

    @property
    def coordinates(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return cached(self, "coordinates", lambda: body_names(self.parts, self.model.names) + self.extra)

    @property
    def velocities(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return cached(self, "velocities", lambda: body_names(self.rate_parts, self.model.names) + self.extra)

    @property
    def own_rows(self):
        return self.model.rows

    @property
    def tied(self):
        return tuple(range(len(self.model.tracked)))

    @property
    def turn_columns(self):
        return tuple(len(self.rate_parts) * self.model.n + i for i in self.tied)

    def flat(self, forces: Float[Array, "*batch n k"]) -> Float[Array, "*batch nv"]:
        """Generalised forces of the bodies in a row, and none on the tracked turns."""
        batch = forces.shape[:-2]
        turns = jnp.zeros((*batch, len(self.model.tracked)))
        return jnp.concatenate([forces.reshape(*batch, forces.shape[-2] * forces.shape[-1]), turns], axis=-1)


def body_names(parts: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the coordinates of each body, such as "crank x"."""
    return tuple(f"{n} {p}" for n in names for p in parts)


def block_diagonal(blocks: Float[Array, "n k k"], extra: int = 0) -> Float[Array, "m m"]:
    """Square blocks along the diagonal, and `extra` zeros after them."""
    n, k, _ = blocks.shape
    spaced = blocks[:, :, None, :] * np.eye(n)[:, None, :, None]
    return jnp.pad(spaced.reshape(n * k, n * k), (0, extra))
