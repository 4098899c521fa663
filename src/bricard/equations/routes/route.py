"""What every route to the acceleration has in common."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float

from bricard.equations.problem import Problem


class Route(eqx.Module):
    """A way from `(M, force, A, b)` to `v̇`. All find the same one; they differ in cost and in what they bear."""

    @abstractmethod
    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇` of a problem in good units (`equilibrate`): `M` positive definite, rows of `A` at most about 1 long."""
