"""The base class of all models: a constrained mechanical system `M v̇ + h = f + H u + Aᵀλ` with `Φ(q, t) = 0`.

Conventions, used everywhere in bricard: `q` configuration (nq), `v` velocity (nv), `q̇ = N(q) v`; SI units and radians.
`h` holds Coriolis, centrifugal and potential forces, `f` all other applied forces, and `u` are the actuator inputs.
`Aᵀλ` is the force that the constraints exert **on** the system. Constraints read `A v = b₁` at velocity level and
`A v̇ = b` at acceleration level; holonomic rows come first, then the rows of `velocity_constraints`.
Constraints may be redundant, and their rank may drop (singular positions).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.errors import ModelError, checked_vector, is_concrete
from bricard.execution.cache import cached, trace_cached
from bricard.execution.lapack import cho_solve, cholesky
from bricard.execution.rounding import linear_term_sizes

Scalar = Float[Array, ""] | float
VectorLike = ArrayLike | Sequence[Any] | Mapping[str, Any]
"""A vector as users may pass it: numbers, or values by name; `System.vector` converts and checks it."""
Vector = Float[Array, "_"]
Matrix = Float[Array, "_ _"]
Numbers = Float[Array | np.ndarray, "_"]  # a vector as a JAX or NumPy array

TRACE_CACHED = (
    *("kinetic_energy", "potential_energy", "mass_matrix", "bias", "constraints", "velocity_constraints"),
    *("applied_force", "input_matrix", "constraint_rate", "constraint_jacobian", "constraint_bias"),
)
"""Methods that a simulation evaluates and differentiates repeatedly; their traces are cached."""


class System(eqx.Module):
    """Base class of all models.

    A subclass defines `coordinates` (a tuple of names) and either `kinetic_energy` or `mass_matrix`, and as needed
    `potential_energy`, `bias`, `constraints`, `velocity_constraints`, `applied_force` and `input_matrix`. Other
    quantities are derived by automatic differentiation. Parameters are fields (`length: float = 1.0`); floats become
    JAX scalars, so that they can be vmapped over and differentiated. Write the methods in `jax.numpy`.

    A model with `q̇ ≠ v` (such as unit quaternions, `nq ≠ nv`) also defines `velocities` (names), `qdot(q, v)` and
    `normalize(q)`.
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
    """The default route treats combinations of constraints far weaker than this as redundant: see `Proximal.mu`."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        _cache_traces(cls)

    # -- defined by models -----------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, ""]:
        """Kinetic energy (J)."""
        return 0.5 * v @ self.mass_matrix(q, t) @ v

    def potential_energy(self, q: Vector, t: Scalar) -> Float[Array, ""]:
        """Potential energy (J), such as of gravity and springs."""
        return jnp.zeros(())

    def mass_matrix(self, q: Vector, t: Scalar) -> Matrix:
        """Mass matrix `M`, (nv, nv), symmetric. It may be singular if the constraints determine the motion."""
        return jax.hessian(lambda v: self.kinetic_energy(q, v, t))(jnp.zeros(self.nv))

    def bias(self, q: Vector, v: Vector, t: Scalar) -> Vector:
        """Bias force `h`, (nv,): Coriolis, centrifugal and potential terms of the equation of motion."""

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
        """Holonomic constraints `Φ(q, t)`, which are zero if met. Rows may be redundant."""
        return jnp.zeros(0)

    def velocity_constraints(self, q: Vector, t: Scalar) -> tuple[Matrix, Vector]:
        """Matrix and right-hand side `(A, c)` of the nonholonomic constraints `A v = c`."""
        return jnp.zeros((0, self.nv)), jnp.zeros(0)

    def applied_force(self, q: Vector, v: Vector, t: Scalar) -> Vector:
        """Applied generalised force `f`, (nv,), such as friction and wind; neither in `h` nor from actuators."""
        return jnp.zeros(self.nv)

    def input_matrix(self, q: Vector, t: Scalar) -> Matrix:
        """Input matrix `H`, (nv, nu): column `i` is the generalised force of a unit input `i`."""
        return jnp.zeros((self.nv, 0))

    def qdot(self, q: Vector, v: Vector) -> Vector:
        """Rate of the coordinates `q̇ = N(q) v`, (nq,), linear in `v`."""
        return v

    def normalize(self, q: Vector) -> Vector:
        """Coordinates with internal conditions restored after rounding, for example quaternions of unit length."""
        return q

    def drawing(self, q: Vector, t: Scalar) -> dict[str, Matrix]:
        """Polylines (n, 2) or (n, 3) by name (m), for animations; a single point is drawn as a mass."""
        return {}

    # -- derived quantities ----------------------------------------------------------------------------------------

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
        """Number of constraint rows, including redundant ones."""
        return _shape(self, "constraint_rate")[0]

    @property
    def n_holonomic(self) -> int:
        """Number of rows of `constraints`."""
        return _shape(self, "constraints")[0]

    @property
    def has_chart(self) -> bool:
        """Whether the model defines its own `qdot`; otherwise `q̇ = v`."""
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
        """Velocity residual `A v − b₁`, (m,): rates of the holonomic constraints, then the nonholonomic residuals."""
        t = jnp.asarray(t, dtype=float)
        _, holonomic = jax.jvp(self.constraints, (q, t), (self.qdot(q, v), jnp.ones_like(t)))
        matrix, c = self.velocity_constraints(q, t)
        return jnp.concatenate([holonomic, matrix @ v - c])

    def constraint_jacobian(self, q: Vector, t: Scalar) -> Matrix:
        """Constraint Jacobian `A`, (m, nv)."""
        jacobian = jax.jacfwd if self.nv <= 2 * self.n_constraints else jax.jacrev
        return jacobian(lambda v: self.constraint_rate(q, v, t))(jnp.zeros(self.nv))

    def constraint_sizes(self, q: Vector, t: Scalar) -> Matrix:
        """Natural size of each entry of `A`, (m, nv): the size of the terms that add up to it, even if they cancel.

        An entry far below its size is rounding error. A row of such entries, here and nearby, is redundant: the
        coordinates satisfy it already (the second hinge of a door).
        """

        def rate(w: Vector, q: Vector) -> Vector:
            return jax.jvp(lambda v: self.constraint_rate(q, v, t), (jnp.zeros_like(w),), (w,))[1]

        return linear_term_sizes(rate, self.nv, q)

    def constraint_bias(self, q: Vector, v: Vector, t: Scalar) -> Vector:
        """Right-hand side `b` of `A v̇ = b`, (m,): `−Ȧ v` and the terms with explicit time."""
        t = jnp.asarray(t, dtype=float)
        along = (self.qdot(q, v), jnp.ones_like(t))
        return -jax.jvp(lambda q, t: self.constraint_rate(q, v, t), (q, t), along)[1]

    def energy(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, ""]:
        """Kinetic plus potential energy (J)."""
        return self.kinetic_energy(q, v, t) + self.potential_energy(q, t)

    def reference_configuration(self) -> Vector | None:
        """Values of coordinates that are not given by name: zero, or None (no default) if `qdot` is defined."""
        return None if self.has_chart else jnp.zeros(self.nq)

    def __repr__(self) -> str:
        counts = (
            (self.nq, "coordinate", self.coordinates),
            (self.n_constraints, "constraint row", ()),
            (self.nu, "input", self.input_names),
        )
        return f"{type(self).__name__}: " + ", ".join(_counted(*count) for count in counts)

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
        """The argument `q` as a checked array; `kind` is "q", "v" or "u" and sets its length and names."""
        return jax.device_put(checked(self, q, kind))  # faster than `jnp.asarray`

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
        """Turn float parameters into JAX scalars, then raise a `ModelError` that lists all problems of the model."""
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
                problems.append(f"`{name}` returns an array of shape {shape}, expected {_shape_text(expected)}")
        if not problems:
            for label, names, size in (
                ("constraint_names", self.constraint_names, self.n_constraints),
                ("inputs", self.inputs, self.nu),
            ):
                if names is not None and len(names) != size:
                    problems.append(f"`{label}` has {len(names)} names for {size} rows")
        return problems


def checked(system: System, value: Any, kind: str) -> Numbers:
    """Like `System.vector`, but a NumPy array if the values are concrete."""
    labels = {"q": "coordinates", "v": "velocity_names", "u": "input_names"}[kind]
    names = cached(system, labels, lambda: tuple(getattr(system, labels)))
    if isinstance(value, Mapping):
        value = _vector_by_name(system, value, kind, names)
    return checked_vector(value, len(names), f"{type(system).__name__}: {kind}", names)


def _vector_by_name(system: System, values: Mapping[str, Any], kind: str, names: tuple[str, ...]) -> Any:
    """The vector with these entries; others are zero (`v`, `u`) or from the reference configuration (`q`)."""
    subject = f"{type(system).__name__}: {kind}"
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ModelError(subject, [f"there is no {name!r}; the names are {', '.join(names)}" for name in unknown])
    rest = [0.0] * len(names)
    if kind == "q":
        reference = system.reference_configuration()
        missing = [name for name in names if name not in values]
        if reference is None and missing:
            raise ModelError(subject, [f"{', '.join(missing)} missing: the system has no reference configuration"])
        rest = rest if reference is None else list(np.asarray(reference))
    entries = [values.get(name, x) for name, x in zip(names, rest, strict=True)]
    return entries if is_concrete(entries) else jnp.stack([jnp.asarray(x, dtype=float) for x in entries])


def _cache_traces(kind: type[System]) -> None:
    for name in TRACE_CACHED:
        if name in vars(kind):
            setattr(kind, name, trace_cached(vars(kind)[name]))


_cache_traces(System)


def _counted(number: int, noun: str, names: Sequence[str], most: int = 8) -> str:
    """A count with names, such as `2 coordinates (x, y)`; a long list of names is shortened."""
    shown = [*names[:most], *(["…"] if len(names) > most else [])]
    listed = f" ({', '.join(shown)})" if shown else ""
    return f"{number} {noun}{'' if number == 1 else 's'}{listed}"


def _shape_text(shape: tuple[int | None, ...]) -> str:
    return str(tuple("any" if s is None else s for s in shape)).replace("'any'", "any")


def _shape(system: System, method: str) -> tuple[int, ...]:
    """Shape of the result of a method; cached, since tracing takes milliseconds."""

    def found() -> tuple[int, ...]:
        q, v, t = system._abstract_state()
        arguments = (q, v, t) if method == "constraint_rate" else (q, t)
        return jax.eval_shape(getattr(system, method), *arguments).shape

    return cached(system, f"shape of {method}", found)
