"""What a constrained mechanical system is: `M v̇ + h = f + H u + Aᵀλ` with `Φ(q, t) = 0`.

Conventions, used everywhere in bricard: `q` configuration (nq), `v` velocity (nv), `q̇ = N(q) v`; SI units and radians.
`h` holds Coriolis, centrifugal and potential forces, `f` every other applied force, `u` the actuators.
`Aᵀλ` is the force that the constraints exert **on** the system. Constraints read `A v = b₁` at velocity level and
`A v̇ = b` at acceleration level; holonomic rows come first, then the rows of `velocity_constraints`.
Redundant rows and rank drops are normal input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.errors import ModelError, checked_vector, is_concrete
from bricard.lapack import cho_solve, cholesky
from bricard.rounding import linear_term_sizes
from bricard.tracing import remembered, traced_once

Scalar = Float[Array, ""] | float
VectorLike = ArrayLike | Sequence[Any]  # what users may pass for a vector; `System.vector` checks it
Vector = Float[Array, "_"]
Matrix = Float[Array, "_ _"]
Numbers = Float[Array | np.ndarray, "_"]  # a vector that need not be JAX'

TRACED_ONCE = (
    *("kinetic_energy", "potential_energy", "mass_matrix", "bias", "constraints", "velocity_constraints"),
    *("applied_force", "input_matrix", "constraint_rate", "constraint_matrix", "constraint_acceleration"),
)
"""Methods of which a simulation asks for values and derivatives again and again."""


class System(eqx.Module):
    """Base class of every model; a model is a subclass that says what it knows.

    Give `coordinates` (a tuple of names) and either `kinetic_energy` or `mass_matrix`; add `potential_energy`, `bias`,
    `constraints`, `velocity_constraints`, `applied_force`, `input_matrix` as needed. What is left out is derived by
    automatic differentiation. Parameters are fields (`length: float = 1.0`); floats become JAX scalars, so that they
    can be vmapped over and differentiated. Write the methods in `jax.numpy`.

    A chart with `nq ≠ nv` (unit quaternions) also gives `velocities` (names), `qdot(q, v)` and `normalize(q)`.
    """

    coordinates: ClassVar[tuple[str, ...]] = ()
    """Names of the entries of `q`."""
    velocities: ClassVar[tuple[str, ...] | None] = None
    """Names of the entries of `v`, where they differ from those of `q`."""
    constraint_names: ClassVar[tuple[str, ...] | None] = None
    """Names of the constraint rows, holonomic ones first; `constraint 0`, … if not given."""
    inputs: ClassVar[tuple[str, ...] | None] = None
    """Names of the entries of `u`; `u0`, … if not given."""
    weakest_constraint: ClassVar[float] = 1e-10
    """Combinations of constraints far weaker than this get no force from the default route: see `Proximal.mu`."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        _trace_once(cls)

    # -- what a model may give -------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, ""]:
        """Kinetic energy (J)."""
        return 0.5 * v @ self.mass_matrix(q, t) @ v

    def potential_energy(self, q: Vector, t: Scalar) -> Float[Array, ""]:
        """Potential energy (J): gravity, springs."""
        return jnp.zeros(())

    def mass_matrix(self, q: Vector, t: Scalar) -> Matrix:
        """`M`, (nv, nv), symmetric; it may be singular where the constraints make up for it."""
        return jax.hessian(lambda v: self.kinetic_energy(q, v, t))(jnp.zeros(self.nv))

    def bias(self, q: Vector, v: Vector, t: Scalar) -> Vector:
        """`h`, (nv,): what of the equation of motion is neither `M v̇` nor an applied force."""

        def momentum(q: Vector, t: Scalar) -> Vector:
            return jax.grad(self.kinetic_energy, argnums=1)(q, v, t)

        def lagrangian(q: Vector) -> Float[Array, ""]:
            return self.kinetic_energy(q, v, t) - self.potential_energy(q, t)

        t = jnp.asarray(t, dtype=float)
        p, momentum_rate = jax.jvp(momentum, (q, t), (self.qdot(q, v), jnp.ones_like(t)))
        slope = jax.grad(lagrangian)(q)
        if not self.has_chart:
            return momentum_rate - slope
        _, to_velocities = jax.vjp(lambda w: self.qdot(q, w), v)
        return momentum_rate - to_velocities(slope)[0] - self._chart_force(q, v, p)

    def constraints(self, q: Vector, t: Scalar) -> Vector:
        """`Φ(q, t)`, zero when met. A row may be redundant."""
        return jnp.zeros(0)

    def velocity_constraints(self, q: Vector, t: Scalar) -> tuple[Matrix, Vector]:
        """`(A, c)` of the nonholonomic rows `A v = c`."""
        return jnp.zeros((0, self.nv)), jnp.zeros(0)

    def applied_force(self, q: Vector, v: Vector, t: Scalar) -> Vector:
        """`f`, (nv,): friction, wind, everything that is neither in `h` nor an actuator."""
        return jnp.zeros(self.nv)

    def input_matrix(self, q: Vector, t: Scalar) -> Matrix:
        """`H`, (nv, nu): the generalised force of each unit input."""
        return jnp.zeros((self.nv, 0))

    def qdot(self, q: Vector, v: Vector) -> Vector:
        """`q̇ = N(q) v`, linear in `v`."""
        return v

    def normalize(self, q: Vector) -> Vector:
        """Bring `q` back onto its chart after rounding, for example quaternions to unit length."""
        return q

    def drawing(self, q: Vector, t: Scalar) -> dict[str, Matrix]:
        """Named polylines (n, 2) or (n, 3) in metres, for pictures; a single point is drawn as a mass."""
        return {}

    # -- what follows from it --------------------------------------------------------------------------------------

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return len(self.coordinates)

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return len(self.velocity_names)

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return _shape(self, "input_matrix")[-1]

    @property
    def n_constraints(self) -> int:
        """Number of constraint rows, redundant ones counted."""
        return _shape(self, "constraint_rate")[0]

    @property
    def n_holonomic(self) -> int:
        """Number of rows of `constraints`."""
        return _shape(self, "constraints")[0]

    @property
    def has_chart(self) -> bool:
        """Whether `q̇ = v` does not hold."""
        return type(self).qdot is not System.qdot

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of the entries of `v`."""
        return tuple(self.coordinates if self.velocities is None else self.velocities)

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the constraint rows."""
        return self.constraint_names or tuple(f"constraint {i}" for i in range(self.n_constraints))

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the entries of `u`."""
        return self.inputs or tuple(f"u{i}" for i in range(self.nu))

    def constraint_rate(self, q: Vector, v: Vector, t: Scalar) -> Vector:
        """`A v − b₁`: the rate of each holonomic constraint, then what each velocity constraint misses."""
        t = jnp.asarray(t, dtype=float)
        _, holonomic = jax.jvp(self.constraints, (q, t), (self.qdot(q, v), jnp.ones_like(t)))
        matrix, c = self.velocity_constraints(q, t)
        return jnp.concatenate([holonomic, matrix @ v - c])

    def constraint_matrix(self, q: Vector, t: Scalar) -> Matrix:
        """`A`, (m, nv)."""
        jacobian = jax.jacfwd if self.nv <= 2 * self.n_constraints else jax.jacrev
        return jacobian(lambda v: self.constraint_rate(q, v, t))(jnp.zeros(self.nv))

    def constraint_sizes(self, q: Vector, t: Scalar) -> Matrix:
        """Natural size of each entry of `A`, (m, nv): that of the terms whose sum it is, also where they cancel.

        An entry far below its size is rounding error. A row of such entries, here and nearby, restrains nothing: it
        repeats what the coordinates imply already (the second hinge of a door).
        """

        def rate(w: Vector, q: Vector) -> Vector:
            return jax.jvp(lambda v: self.constraint_rate(q, v, t), (jnp.zeros_like(w),), (w,))[1]

        return linear_term_sizes(rate, self.nv, q)

    def constraint_acceleration(self, q: Vector, v: Vector, t: Scalar) -> Vector:
        """`b` of `A v̇ = b`: `−Ȧ v` and all terms with explicit time."""
        t = jnp.asarray(t, dtype=float)
        along = (self.qdot(q, v), jnp.ones_like(t))
        return -jax.jvp(lambda q, t: self.constraint_rate(q, v, t), (q, t), along)[1]

    def energy(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, ""]:
        """Kinetic plus potential energy (J)."""
        return self.kinetic_energy(q, v, t) + self.potential_energy(q, t)

    def index(self, names: str | Sequence[str], kind: str = "coordinates") -> Array:
        """Positions of `names` among the `coordinates` or the `velocity_names`."""
        known = getattr(self, kind)
        names = (names,) if isinstance(names, str) else tuple(names)
        unknown = [n for n in names if n not in known]
        if unknown:
            what = "coordinate" if kind == "coordinates" else "velocity"
            raise ModelError(
                type(self).__name__, [f"no {what} called {n!r}; there are {', '.join(known)}" for n in unknown]
            )
        return jnp.array([known.index(n) for n in names], dtype=int)

    def vector(self, q: Any, kind: str = "q") -> Vector:
        """`q`, `v` or `u` as a checked array of the right length."""
        return jax.device_put(checked(self, q, kind))  # as `jnp.asarray`, but faster

    def _chart_force(self, q: Vector, v: Vector, p: Vector) -> Vector:
        """The Boltzmann–Hamel term `γ(v, ·)ᵀ p`, with `N γ(v, w) = D(N w)·N v − D(N v)·N w`."""
        chart = jax.jacfwd(lambda w: self.qdot(q, w))(v)
        left_inverse_p = chart @ cho_solve(cholesky(chart.T @ chart), p)

        def bracket(w: Vector) -> Float[Array, ""]:
            along_v = jax.jvp(lambda q: self.qdot(q, w), (q,), (self.qdot(q, v),))[1]
            along_w = jax.jvp(lambda q: self.qdot(q, v), (q,), (self.qdot(q, w),))[1]
            return left_inverse_p @ (along_v - along_w)

        return jax.grad(bracket)(jnp.zeros_like(v))

    def _abstract_state(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((self.nq,), (self.nv,), ()))

    # -- checks when a model is built ------------------------------------------------------------------------------

    def __check_init__(self):
        """Turn float parameters into JAX scalars, then refuse what cannot be a system, all problems at once."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            is_number = isinstance(value, (float, np.ndarray)) or (type(value) is int and "float" in str(field.type))
            if is_number and not field.metadata.get("static", False):
                object.__setattr__(self, field.name, jnp.asarray(value, dtype=float))
        problems = self._problems()
        if problems:
            raise ModelError(type(self).__name__, problems)

    def _problems(self) -> list[str]:
        kind = type(self)
        if not self.coordinates:
            return ["`coordinates` is missing: a tuple with the name of each entry of q"]
        problems = []
        for label, names in (("coordinates", self.coordinates), ("velocities", self.velocity_names)):
            repeated = sorted({n for n in names if list(names).count(n) > 1})
            problems += [f"{label}: {n!r} is there twice" for n in repeated]
        if kind.kinetic_energy is System.kinetic_energy and kind.mass_matrix is System.mass_matrix:
            return [*problems, "gives neither `kinetic_energy` nor `mass_matrix`"]
        if not self.has_chart and self.nq != self.nv:
            problems.append(f"{self.nq} coordinates but {self.nv} velocities: `qdot` is missing")
            return problems
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, jax.Array) and is_concrete(value) and np.any(np.isnan(value)):
                problems.append(f"{field.name} is NaN")
        return problems + self._shape_problems()

    def _shape_problems(self) -> list[str]:
        nq, nv = self.nq, self.nv
        checks: dict[str, tuple[Callable, tuple[int | None, ...]]] = {
            "kinetic_energy": (self.kinetic_energy, ()),
            "potential_energy": (lambda q, v, t: self.potential_energy(q, t), ()),
            "qdot": (lambda q, v, t: self.qdot(q, v), (nq,)),
            "normalize": (lambda q, v, t: self.normalize(q), (nq,)),
            "mass_matrix": (lambda q, v, t: self.mass_matrix(q, t), (nv, nv)),
            "bias": (self.bias, (nv,)),
            "constraints": (lambda q, v, t: self.constraints(q, t), (None,)),
            "velocity_constraints": (lambda q, v, t: self.velocity_constraints(q, t)[0], (None, nv)),
            "applied_force": (self.applied_force, (nv,)),
            "input_matrix": (lambda q, v, t: self.input_matrix(q, t), (nv, None)),
        }
        problems = []
        for name, (function, expected) in checks.items():
            if getattr(type(self), name) is getattr(System, name):
                continue
            try:
                shape = jnp.shape(jax.eval_shape(function, *self._abstract_state()))
            except Exception as error:
                problems.append(f"`{name}` fails: {type(error).__name__}: {str(error).splitlines()[0]}")
                continue
            fits = len(shape) == len(expected) and all(e in (None, s) for e, s in zip(expected, shape, strict=True))
            if not fits:
                problems.append(f"`{name}` returns an array of shape {shape}, expected {_written(expected)}")
        if not problems:
            for label, names, size in (
                ("constraint_names", self.constraint_names, self.n_constraints),
                ("inputs", self.inputs, self.nu),
            ):
                if names is not None and len(names) != size:
                    problems.append(f"`{label}` has {len(names)} names for {size} rows")
        return problems


def checked(system: System, value: Any, kind: str) -> Numbers:
    """As `System.vector`, but NumPy's unless JAX is tracing."""
    labels = {"q": "coordinates", "v": "velocity_names", "u": "input_names"}[kind]
    names = remembered(system, labels, lambda: tuple(getattr(system, labels)))
    return checked_vector(value, len(names), f"{type(system).__name__}: {kind}", names)


def _trace_once(kind: type[System]) -> None:
    for name in TRACED_ONCE:
        if name in vars(kind):
            setattr(kind, name, traced_once(vars(kind)[name]))


_trace_once(System)


def _written(shape: tuple[int | None, ...]) -> str:
    return str(tuple("any" if s is None else s for s in shape)).replace("'any'", "any")


def _shape(system: System, of: str) -> tuple[int, ...]:
    """Shape of what a method returns; tracing takes milliseconds."""

    def found() -> tuple[int, ...]:
        q, v, t = system._abstract_state()
        arguments = (q, v, t) if of == "constraint_rate" else (q, t)
        return jax.eval_shape(getattr(system, of), *arguments).shape

    return remembered(system, f"shape of {of}", found)
