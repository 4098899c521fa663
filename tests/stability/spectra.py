"""How sets of eigenvalues are compared."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from bricard.stability import eigenvalues


def assert_same(got, expected, tolerance):
    """Sets of eigenvalues, paired in the best way."""
    assert got.shape == expected.shape
    distance = np.abs(np.asarray(got)[:, None] - np.asarray(expected)[None, :])
    assert np.max(distance[linear_sum_assignment(distance)], initial=0.0) < tolerance


def agree(system, q, u=None, controller=None, tolerance=1e-8, v=None):
    """All three methods give the same (relative to the largest); spurious ones are as many as they must be."""
    tangent, sensitivity, pencil = (
        eigenvalues(system, q, v, u, controller=controller, method=m) for m in ("tangent", "sensitivity", "pencil")
    )
    size = max(1.0, np.max(np.abs(tangent.physical), initial=0.0))
    assert_same(sensitivity.physical, tangent.physical, tolerance * size)
    assert_same(pencil.physical, tangent.physical, tolerance * size)
    rank = np.linalg.matrix_rank(np.asarray(tangent.loop.terms.matrix), tol=1e-6) if system.n_constraints else 0
    if system.n_holonomic == system.n_constraints:
        assert len(sensitivity.spurious) == 2 * rank
        assert len(tangent.physical) - tangent.loop.n_memory == 2 * (system.nv - rank)
    return tangent, sensitivity


def doubled(system):
    """The same system with every constraint twice, once in other units and bent."""

    class Doubled(type(system)):
        constraint_names = None

        def constraints(self, q, t):
            once = super().constraints(q, t)
            return jnp.concatenate([once, 3.0 * once + once**2])

    names = [f.name for f in dataclasses.fields(system)]
    return Doubled(**{name: getattr(system, name) for name in names})
