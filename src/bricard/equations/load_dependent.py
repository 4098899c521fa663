"""Systems with forces that depend on their own constraint forces, such as the friction of sliding contacts."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp

from bricard.equations.problem import Problem
from bricard.system import Scalar, System, Vector


class LoadDependentSystem(System):
    """A system in which some applied forces follow from the constraint forces."""

    @abstractmethod
    def load_dependent_force(self, problem: Problem, q: Vector, v: Vector, t: Scalar) -> Vector:
        """Generalised force (nv,) that depends on the constraint forces of `problem`, which does not contain it."""


def add_load_dependent_force(
    system: System, problem: Problem, q: Vector, v: Vector, t: Scalar
) -> tuple[Problem, Vector]:
    """The problem with the load-dependent force of the system added to its force, and that force; zero for others."""
    if not isinstance(system, LoadDependentSystem):
        return problem, jnp.zeros(system.nv)
    force = system.load_dependent_force(problem, q, v, t)
    return eqx.tree_at(lambda p: p.force, problem, problem.force + force), force
