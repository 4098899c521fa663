"""Systems defined by SymPy expressions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import sympy as sp
from jaxtyping import Array, Float
from sympy.core.function import AppliedUndef

import bricard.system
from bricard.errors import ModelError, as_vector
from bricard.system import Matrix, Scalar, Vector

Expr = Any
"""A SymPy expression or matrix. Users may also pass numbers, but not strings: SymPy would evaluate them as code."""
Rows = Any
"""A list of expressions or a SymPy column vector."""


class System(bricard.system.System):
    """A system defined by SymPy expressions; JAX evaluates and differentiates it like any other system.

    Coordinates are functions of time, such as `sympy.physics.mechanics.dynamicsymbols` creates, and their derivatives
    are the velocities; or they are plain symbols, and `velocities` lists the symbols of their rates. In SI units:

    - `kinetic_energy`: quadratic in the velocities;
    - `potential_energy`: a function of coordinates and time;
    - `constraints`: expressions in coordinates and time that must be zero, or SymPy equations `Eq(left, right)`;
    - `velocity_constraints`: nonholonomic constraints (rolling, a knife edge), linear in the velocities;
    - `applied_force`: one entry for each coordinate, linear in the symbols listed as `inputs`, which form `u`;
    - `parameters`: `{symbol: number}`. The numbers are leaves of the pytree, so they can be batched with `vmap` and
      differentiated; `system.replace(l=0.5)` returns the system with another value;
    - `time`: the symbol of time. By default it is the argument of the coordinates, or `Symbol("t")` if they are plain
      symbols.
    """

    parameters: dict[str, Float[Array, ""]]
    """Values of the parameters by name."""
    expressions: Expressions = eqx.field(static=True)
    """The expressions that define the system."""
    coordinates: tuple[str, ...] = eqx.field(static=True)  # pyright: ignore
    constraint_names: tuple[str, ...] | None = eqx.field(static=True)  # pyright: ignore
    inputs: tuple[str, ...] = eqx.field(static=True)  # pyright: ignore

    def __init__(
        self,
        coordinates: Sequence[Expr],
        *,
        kinetic_energy: Expr = None,
        potential_energy: Expr = 0,
        constraints: Rows = (),
        velocity_constraints: Rows = (),
        applied_force: Rows = (),
        inputs: Sequence[Expr] = (),
        parameters: Mapping[Expr, Any] | None = None,
        velocities: Sequence[Expr] | None = None,
        time: Expr = None,
        constraint_names: Sequence[str] | None = None,
    ):
        symbols = _read_symbols(coordinates, velocities, inputs, parameters or {}, time)
        self.expressions = _read_expressions(
            symbols, kinetic_energy, potential_energy, constraints, velocity_constraints, applied_force
        )
        self.parameters = {p.name: _number(x) for p, x in (parameters or {}).items()}
        self.coordinates = tuple(x.name for x in coordinates)  # pyright: ignore
        self.constraint_names = None if constraint_names is None else tuple(constraint_names)  # pyright: ignore
        self.inputs = tuple(x.name for x in inputs)  # pyright: ignore

    def replace(self, **parameters: Any) -> System:
        """Return the system with new values of the given parameters: `system.replace(l=0.5)`."""
        known = ", ".join(self.parameters) or "none"
        unknown = [
            f"no parameter called {n!r}; its parameters are {known}" for n in parameters if n not in self.parameters
        ]
        if unknown:
            raise ModelError("System.replace", unknown)
        values = {name: _number(value) for name, value in parameters.items()}
        return eqx.tree_at(lambda system: system.parameters, self, {**self.parameters, **values})

    def kinetic_energy(self, q, v, t):
        return self.evaluate(self.expressions.kinetic_energy, q, v, t=t)[0, 0]

    def potential_energy(self, q, t):
        return self.evaluate(self.expressions.potential_energy, q, t=t)[0, 0]

    def constraints(self, q, t):
        return self.evaluate(self.expressions.constraints, q, t=t)[:, 0]

    def velocity_constraints(self, q, t):
        rates = self.expressions.velocity_constraints
        return self.evaluate(jacobian(rates, self.expressions.symbols.v), q, t=t), -self.evaluate(rates, q, t=t)[:, 0]

    def applied_force(self, q, v, t):
        return self.evaluate(self.expressions.applied_force, q, v, t=t)[:, 0]

    def input_matrix(self, q, t):
        return self.evaluate(jacobian(self.expressions.applied_force, self.expressions.symbols.inputs), q, t=t)

    def evaluate(self, matrix: Expr, q: Vector, v: Any = None, u: Any = None, t: Scalar = 0.0) -> Matrix:
        """Value of a SymPy matrix in the symbols of the system, as a JAX array of the same shape.

        `q` has shape (nq,); `v` (nv,) and `u` (nu,) are zero by default; `t` is the time (s). Works under `jit`, `vmap`
        and `grad`.
        """
        symbols = self.expressions.symbols
        v = jnp.zeros(len(symbols.velocities)) if v is None else v
        u = jnp.zeros(len(symbols.inputs)) if u is None else u
        values = [self.parameters[p.name] for p in symbols.parameters]
        function = _compiled(symbols.arguments, sp.ImmutableMatrix(matrix).xreplace(symbols.placeholders))
        return jnp.array(function(*q, *v, *u, t, *values), dtype=float).reshape(matrix.shape)


@functools.lru_cache(maxsize=1024)
def _compiled(arguments: tuple[Expr, ...], matrix: Expr) -> Callable[..., list]:
    # Exact fractions may contain integers of more than 64 bits, which JAX does not accept.
    rounded = {x: sp.Float(x, 17) for x in matrix.atoms(sp.Rational) if max(abs(x.p), x.q) > 2**53}
    return sp.lambdify(arguments, list(matrix.xreplace(rounded)), modules="jax", cse=True, dummify=True)


def _number(x: Any) -> Float[Array, ""]:
    return as_vector([float(x) if isinstance(x, sp.Expr) else x], 1, "parameter")[0]


def jacobian(column: Expr, wrt: Sequence[Expr]) -> Expr:
    """Jacobian of a column vector with respect to the symbols `wrt`, one row for each entry."""
    return sp.ImmutableMatrix(column.rows, len(wrt), lambda i, j: column[i, 0].diff(wrt[j]))


# -- reading user input ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Symbols:
    """The user's symbols, and placeholder symbols for `q` and `v`.

    Placeholders are needed for partial derivatives with respect to time, in which `x(t)` itself would not be constant.
    """

    coordinates: tuple[Expr, ...]
    velocities: tuple[Expr, ...]
    inputs: tuple[Expr, ...]
    time: Expr
    parameters: tuple[Expr, ...]

    @property
    def q(self) -> tuple[Expr, ...]:
        return tuple(_placeholder("q", i, bool(x.is_positive)) for i, x in enumerate(self.coordinates))

    @property
    def v(self) -> tuple[Expr, ...]:
        return tuple(_placeholder("v", i, False) for i in range(len(self.coordinates)))

    @functools.cached_property
    def arguments(self) -> tuple[Expr, ...]:
        return (*self.q, *self.v, *self.inputs, self.time, *self.parameters)

    @functools.cached_property
    def placeholders(self) -> dict[Expr, Expr]:
        """Map from the user's coordinates and velocities to their placeholders."""
        rates = {c.diff(self.time): v for c, v in zip(self.coordinates, self.v, strict=True) if not c.is_Symbol}
        return rates | dict(zip((*self.coordinates, *self.velocities), (*self.q, *self.v), strict=True))

    def restore(self, x: Expr) -> Expr:
        """Replace the placeholders in `x` by the user's symbols."""
        return x.xreplace(dict(zip((*self.q, *self.v), (*self.coordinates, *self.velocities), strict=True)))


@functools.cache
def _placeholder(kind: str, i: int, positive: bool) -> Expr:
    """Cached, so that equal systems have equal expressions and are compiled only once."""
    return sp.Dummy(f"{kind}{i}", real=True, positive=positive or None)


@dataclasses.dataclass(frozen=True)
class Expressions:
    """The user's expressions in placeholders: energies as matrices of shape (1, 1), the others as columns."""

    symbols: Symbols
    kinetic_energy: Expr
    potential_energy: Expr
    constraints: Expr
    velocity_constraints: Expr
    applied_force: Expr


def _read_symbols(coordinates, velocities, inputs, parameters, time) -> Symbols:
    functions = [c for c in coordinates if isinstance(c, AppliedUndef)]
    time = time if time is not None else functions[0].args[0] if functions else sp.Symbol("t")
    names = (sp.Symbol, AppliedUndef)
    kinds = [(coordinates, names), (() if velocities is None else velocities, (*names, sp.Derivative)), (inputs, names)]
    kinds += [([time], sp.Symbol), (parameters, sp.Symbol)]
    problems = [f"{x!r} is not a SymPy symbol" for given, kind in kinds for x in given if not isinstance(x, kind)]
    problems += [f"{c} is not a function of {time} alone" for c in functions if c.args != (time,)]
    if velocities is None:
        problems += [f"{c} is a plain symbol; give its rate in `velocities`" for c in coordinates if c not in functions]
        velocities = [] if problems else [c.diff(time) for c in functions]
    elif len(velocities) != len(coordinates):
        problems.append(f"{len(velocities)} velocities for {len(coordinates)} coordinates")
    result = Symbols(tuple(coordinates), tuple(velocities), tuple(inputs), time, tuple(parameters))
    used = [str(x) for x in (*coordinates, *velocities, *inputs, time, *parameters)]
    problems += [f"the name {x} is used more than once" for x in dict.fromkeys(used) if used.count(x) > 1]
    for p, value in parameters.items():
        try:
            _number(value)
        except (TypeError, ModelError):
            problems.append(f"the value of {p} must be a finite number, not {value!r}")
    if problems:
        raise ModelError("symbolic.System", problems)
    return result


def _read_expressions(symbols: Symbols, kinetic, potential, constraints, velocity_constraints, force) -> Expressions:
    v, u = set(symbols.v), set(symbols.inputs)
    problems = ["`kinetic_energy` is missing"] if kinetic is None else []

    def read(label: str, values: Rows, forbidden: set[Expr]) -> Expr:
        rows = []
        for i, value in enumerate(values):
            name = label.format(i)
            try:
                x: Expr = sp.sympify(value, strict=True)
            except sp.SympifyError:
                x = None
            if isinstance(x, sp.Equality):
                x = x.lhs - x.rhs  # pyright: ignore[reportOperatorIssue]
            if isinstance(x, sp.MatrixBase) and x.shape == (1, 1):
                x = x[0, 0]  # an expression such as `v.T * M * v / 2`
            if not isinstance(x, sp.Expr) or x.is_Matrix or x.has(sp.nan, sp.oo, sp.zoo):
                problems.append(f"{name}: {value!r} is not a finite SymPy expression")
                x = sp.S.Zero
            x = x.doit()
            row = x.xreplace(symbols.placeholders)
            used = row.free_symbols | row.atoms(AppliedUndef) | x.atoms(sp.Derivative) - symbols.placeholders.keys()
            for unknown in sorted(used - set(symbols.arguments), key=str):
                same_name = any(str(unknown) == str(known) for known in symbols.arguments)
                hint = " (a symbol of this name is known, but with other assumptions)" if same_name else ""
                problems.append(f"{name}: {unknown} is not a coordinate, velocity, input, parameter or time{hint}")
            misplaced = sorted(str(symbols.restore(y)) for y in used & forbidden)
            problems.extend(f"{name} must not depend on {y}" for y in misplaced)
            rows.append(row)
        return sp.ImmutableMatrix(len(rows), 1, rows)

    n, force = len(symbols.coordinates), list(force)
    if force and len(force) != n:
        problems.append(f"applied_force has {len(force)} entries for {n} coordinates")
    result = Expressions(
        symbols,
        kinetic_energy=read("kinetic_energy", [0 if kinetic is None else kinetic], u),
        potential_energy=read("potential_energy", [potential], u | v),
        constraints=read("constraints[{}]", constraints, u | v),
        velocity_constraints=read("velocity_constraints[{}]", velocity_constraints, u),
        applied_force=read("applied_force[{}]", force or [0] * n, set()),
    )
    momentum = jacobian(result.kinetic_energy, symbols.v).T
    if kinetic is not None and momentum.is_zero_matrix:
        problems.append("kinetic_energy contains no velocity")
    for label, rows, wrt in (
        ("kinetic_energy is not quadratic in the velocities", momentum, symbols.v),
        ("velocity_constraints[{}] is not linear in the velocities", result.velocity_constraints, symbols.v),
        ("applied_force[{}] is not linear in the inputs", result.applied_force, symbols.inputs),
    ):
        derivatives = jacobian(rows, wrt).applyfunc(sp.expand)
        problems += [label.format(i) for i in range(rows.rows) if derivatives[i, :].has(*wrt)]
    if problems:
        raise ModelError("symbolic.System", list(dict.fromkeys(problems)))
    return result
