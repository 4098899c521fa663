"""A `System` from SymPy expressions."""

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
"""A SymPy expression or matrix. From users also a number, never a string: SymPy would execute it."""
Rows = Any
"""A list of expressions, or a SymPy column of them."""


class System(bricard.system.System):
    """A system given by SymPy expressions; JAX evaluates and differentiates it like any other.

    Coordinates are functions of time, as `sympy.physics.mechanics.dynamicsymbols` makes them, with their derivatives as
    velocities; or plain symbols, with the symbols of their rates in `velocities`. In SI units:

    - `kinetic_energy`, quadratic in the velocities, and `potential_energy`;
    - `constraints`: expressions of coordinates and time that are zero, or `Eq`s;
    - `velocity_constraints`: the same with velocities, in which they are linear (rolling, a knife edge);
    - `applied_force`: an entry for each coordinate, linear in the symbols given as `inputs`, which become `u`;
    - `parameters`: `{symbol: number}`. The numbers are leaves of the pytree, to vmap over and to differentiate by;
      `system.replace(l=0.5)` is the same system with another value;
    - `time`: what the coordinates are functions of; if they are plain symbols and it is not given, `Symbol("t")`.
    """

    parameters: dict[str, Float[Array, ""]]
    """Value of each parameter, by its name."""
    expressions: Expressions = eqx.field(static=True)
    """What the system is made of."""
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
        """The same system with other values of some parameters."""
        known = ", ".join(self.parameters) or "none"
        unknown = [f"no parameter is called {n!r}; there are: {known}" for n in parameters if n not in self.parameters]
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
        """A SymPy matrix of coordinates, velocities, inputs, time and parameters as a JAX array of the same shape.

        `v` (nv,) and `u` (nu,) are zero if not given. Works under `jit`, `vmap` and `grad`.
        """
        symbols = self.expressions.symbols
        v = jnp.zeros(len(symbols.velocities)) if v is None else v
        u = jnp.zeros(len(symbols.inputs)) if u is None else u
        values = [self.parameters[p.name] for p in symbols.parameters]
        function = _compiled(symbols.arguments, sp.ImmutableMatrix(matrix).xreplace(symbols.stand_ins))
        return jnp.array(function(*q, *v, *u, t, *values), dtype=float).reshape(matrix.shape)


@functools.lru_cache(maxsize=1024)
def _compiled(arguments: tuple[Expr, ...], matrix: Expr) -> Callable[..., list]:
    # JAX takes no integers beyond 64 bits, which exact fractions may contain.
    long = {x: sp.Float(x, 17) for x in matrix.atoms(sp.Rational) if max(abs(x.p), x.q) > 2**53}
    return sp.lambdify(arguments, list(matrix.xreplace(long)), modules="jax", cse=True, dummify=True)


def _number(x: Any) -> Float[Array, ""]:
    return as_vector([float(x) if isinstance(x, sp.Expr) else x], 1, "parameter")[0]


def jacobian(column: Expr, wrt: Sequence[Expr]) -> Expr:
    """Derivatives of the entries of a column, a row for each."""
    return sp.ImmutableMatrix(column.rows, len(wrt), lambda i, j: column[i, 0].diff(wrt[j]))


# -- reading what a user wrote -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Symbols:
    """The user's symbols, and stand-ins for `q` and `v`: `x(t)` itself would not be constant when only `t` varies."""

    coordinates: tuple[Expr, ...]
    velocities: tuple[Expr, ...]
    inputs: tuple[Expr, ...]
    time: Expr
    parameters: tuple[Expr, ...]

    @property
    def q(self) -> tuple[Expr, ...]:
        return tuple(_stand_in("q", i, bool(x.is_positive)) for i, x in enumerate(self.coordinates))

    @property
    def v(self) -> tuple[Expr, ...]:
        return tuple(_stand_in("v", i, False) for i in range(len(self.coordinates)))

    @functools.cached_property
    def arguments(self) -> tuple[Expr, ...]:
        return (*self.q, *self.v, *self.inputs, self.time, *self.parameters)

    @functools.cached_property
    def stand_ins(self) -> dict[Expr, Expr]:
        """From the user's symbols to the stand-ins."""
        rates = {c.diff(self.time): v for c, v in zip(self.coordinates, self.v, strict=True) if not c.is_Symbol}
        return rates | dict(zip((*self.coordinates, *self.velocities), (*self.q, *self.v), strict=True))

    def restore(self, x: Expr) -> Expr:
        """From the stand-ins back to the user's symbols."""
        return x.xreplace(dict(zip((*self.q, *self.v), (*self.coordinates, *self.velocities), strict=True)))


@functools.cache
def _stand_in(kind: str, i: int, positive: bool) -> Expr:
    """One and the same symbol for each place, so that equal systems are equal and compiled once."""
    return sp.Dummy(f"{kind}{i}", real=True, positive=positive or None)


@dataclasses.dataclass(frozen=True)
class Expressions:
    """What a user wrote, in stand-ins: energies as matrices (1, 1), the rest as columns."""

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
        problems += [f"{c} is a plain symbol, give its rate in `velocities`" for c in coordinates if c not in functions]
        velocities = [] if problems else [c.diff(time) for c in functions]
    elif len(velocities) != len(coordinates):
        problems.append(f"{len(velocities)} velocities for {len(coordinates)} coordinates")
    result = Symbols(tuple(coordinates), tuple(velocities), tuple(inputs), time, tuple(parameters))
    given = [str(x) for x in (*coordinates, *velocities, *inputs, time, *parameters)]
    problems += [f"{x} has two meanings" for x in dict.fromkeys(given) if given.count(x) > 1]
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
                x = x[0, 0]  # `v.T * M * v / 2` is a matrix
            if not isinstance(x, sp.Expr) or x.is_Matrix or x.has(sp.nan, sp.oo, sp.zoo):
                problems.append(f"{name}: {value!r} is not a finite SymPy expression")
                x = sp.S.Zero
            x = x.doit()
            row = x.xreplace(symbols.stand_ins)
            used = row.free_symbols | row.atoms(AppliedUndef) | x.atoms(sp.Derivative) - symbols.stand_ins.keys()
            for stranger in sorted(used - set(symbols.arguments), key=str):
                alike = any(str(stranger) == str(known) for known in symbols.arguments)
                hint = " (the one of that name has other assumptions)" if alike else ""
                problems.append(f"{name}: {stranger} is no coordinate, velocity, input, parameter or time{hint}")
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
        slopes = jacobian(rows, wrt).applyfunc(sp.expand)
        problems += [label.format(i) for i in range(rows.rows) if slopes[i, :].has(*wrt)]
    if problems:
        raise ModelError("symbolic.System", list(dict.fromkeys(problems)))
    return result
