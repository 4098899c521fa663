"""Linear-quadratic regulators of random constrained systems, against Riccati equations of systems reduced by hand."""

import numpy as np
import pytest
import scipy.linalg
from jax import numpy as jnp

import bricard as br
from bricard.control import LQR
from tests.control.systems import make_system


class Stiff(br.System):
    """Five coordinates about an equilibrium `(place, load)` with curved constraints under load, one row redundant."""

    mass: np.ndarray  # (5, 5)
    stiffness: np.ndarray
    damping: np.ndarray
    forces: np.ndarray  # (5, 2)
    rows: np.ndarray  # (2, 5)
    curvature: np.ndarray  # (2, 5, 5)
    again: np.ndarray  # (2,)
    pull: np.ndarray  # (5,)
    place: np.ndarray  # (5,)
    coordinates = tuple("abcde")

    def mass_matrix(self, q, t):
        return self.mass

    def bias(self, q, v, t):
        return self.stiffness @ (q - self.place) + self.damping @ v

    def applied_force(self, q, v, t):
        return self.pull

    def constraints(self, q, t):
        x = q - self.place
        two = self.rows @ x + 0.5 * (self.curvature @ x) @ x
        return jnp.concatenate([two, (self.again @ two)[None]])

    def input_matrix(self, q, t):
        return self.forces


def draw(rng):
    """A system in random units, its equilibrium, and what it is in coordinates that are alike and independent."""
    unit = 10.0 ** rng.uniform(-2, 2, 5)  # of the coordinates
    effort = 10.0 ** rng.uniform(-2, 2, 2)  # of the inputs
    a, b, c = (rng.normal(size=(5, 5)) for _ in range(3))
    mass, stiffness, damping = a @ a.T + np.eye(5), b + b.T, 0.3 * c  # stable or not, with gyroscopic terms
    rows, curvature = rng.normal(size=(2, 5)), rng.normal(size=(2, 5, 5))
    curvature = curvature + curvature.transpose(0, 2, 1)
    forces, multipliers, load = rng.normal(size=(5, 2)), rng.normal(size=2), rng.normal(size=2)
    numbers = {
        "mass": mass / np.outer(unit, unit),
        "stiffness": stiffness / np.outer(unit, unit),
        "damping": damping / np.outer(unit, unit),
        "forces": forces / unit[:, None] / effort,
        "rows": rows / unit,
        "curvature": curvature / unit[:, None] / unit,
        "again": 1e2 * rng.normal(size=2),
        "pull": -(rows.T @ multipliers + forces @ load) / unit,
        "place": unit * rng.normal(size=5),
    }
    system = make_system(Stiff, numbers)
    # `M ẍ + C ẋ + K x = H δu + Aᵀδλ`, where the loaded constraints add to the stiffness.
    basis = scipy.linalg.null_space(rows)
    stiffness = stiffness - np.einsum("i,ijk->jk", multipliers, curvature)
    m, k, d, h = (basis.T @ x for x in (mass @ basis, stiffness @ basis, damping @ basis, forces))
    n = basis.shape[1]
    state = np.block([[np.zeros((n, n)), np.eye(n)], [-np.linalg.solve(m, k), -np.linalg.solve(m, d)]])
    push = np.vstack([np.zeros((n, 2)), np.linalg.solve(m, h)])
    return system, load * effort, (unit, effort), basis, state, push


def semidefinite(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T


def test_gains_of_random_systems():
    """Continuous and sampled, with full matrices of cost."""
    rng = np.random.default_rng(11)
    for _ in range(10):
        system, load, (unit, effort), basis, state, push = draw(rng)
        position, velocity, inputs = semidefinite(rng, 5), semidefinite(rng, 5), semidefinite(rng, 2) + np.eye(2)
        costs = {
            "cost_q": position / np.outer(unit, unit),
            "cost_v": velocity / np.outer(unit, unit),
            "cost_u": inputs / np.outer(effort, effort),
        }
        cost = scipy.linalg.block_diag(basis.T @ position @ basis, basis.T @ velocity @ basis)
        admissible = scipy.linalg.block_diag(unit[:, None] * basis, unit[:, None] * basis)
        for period in (None, 10.0 ** rng.uniform(-2, 0)):
            law = LQR(system, system.place, load, period=period, **costs)
            if period is None:
                p = scipy.linalg.solve_continuous_are(state, push, cost, inputs)
                gains = np.linalg.solve(inputs, push.T @ p)
            else:
                n = len(state)
                flow = scipy.linalg.expm(period * np.block([[state, push], [np.zeros((2, n + 2))]]))
                a, b = flow[:n, :n], flow[:n, n:]
                p = scipy.linalg.solve_discrete_are(a, b, cost, inputs)
                gains = np.linalg.solve(inputs + b.T @ p @ b, b.T @ p @ a)
            found = np.asarray(law.gains) @ admissible / effort[:, None]
            np.testing.assert_allclose(found, gains, rtol=0, atol=1e-7 * np.abs(gains).max())
            # The law itself, off the equilibrium along an admissible motion.
            x = rng.normal(size=6)
            q, v = np.asarray(system.place) + (admissible @ x)[:5], (admissible @ x)[5:]
            u = law(jnp.zeros(()), jnp.asarray(q), jnp.asarray(v), jnp.zeros(0))
            sizes = np.abs(load / effort) + np.abs(gains) @ np.abs(x)
            np.testing.assert_array_less(np.abs(u / effort - (load / effort - gains @ x)), 1e-7 * sizes)


class Pair(br.System):
    """Two masses on springs that may push, not coupled; a force on the first."""

    springs: np.ndarray
    coordinates = ("near", "far")

    def mass_matrix(self, q, t):
        return jnp.eye(2)

    def bias(self, q, v, t):
        return self.springs * q

    def input_matrix(self, q, t):
        return jnp.array([[1.0], [0.0]])


@pytest.mark.parametrize("period", [None, 0.1])
@pytest.mark.parametrize("spring", [-4.0, 0.0, 4.0])
@pytest.mark.parametrize("cost", [[1.0, 1.0], [1.0, 0.0]])
def test_a_motion_that_no_input_damps_is_refused(period, spring, cost):
    """It grows, drifts or swings for ever, whether it costs something or not."""
    with pytest.raises(br.ModelError, match="no stabilising feedback found"):
        LQR(Pair(springs=np.array([1.0, spring])), [0.0, 0.0], cost_q=cost, cost_v=cost, period=period)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost_q": [1.0, 2.0, 3.0]}, r"cost_q has shape \(3,\)"),
        ({"cost_v": [[1.0, 2.0], [0.0, 1.0]]}, "cost_v must be finite and symmetric"),
        ({"cost_q": -1.0}, "cost_q must not be negative"),
        ({"cost_u": float("nan")}, "cost_u must be finite"),
        ({"period": 0.0}, "period must be positive"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises(br.ModelError, match=message):
        LQR(Pair(springs=np.ones(2)), [0.0, 0.0], **settings)
