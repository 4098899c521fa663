"""SymPy in and out: a `System` from SymPy expressions, and its constraint forces back as formulas of the state.

Needs the extra `symbolic`. Signs and names are those of `bricard.system`: `M v̇ + h = f + H u + Aᵀλ`, where `Aᵀλ` is
the force that the constraints exert **on** the system.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import bricard.system
from bricard.equations.dynamics import check_motion_determined
from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import rank
from bricard.errors import ModelError, is_concrete
from bricard.system import Matrix, Scalar, Vector

try:
    import sympy as sp
    from sympy.core.function import AppliedUndef
    from sympy.physics.vector.printing import vlatex, vsstrrepr
    from sympy.polys.matrices import DomainMatrix
except ImportError as error:
    raise ImportError("bricard.symbolic needs SymPy: pip install 'bricard[symbolic]'") from error

Expression = Any
"""What SymPy takes for an expression, numbers included; no strings, which SymPy would execute."""


class System(bricard.system.System):
    """A system given by SymPy expressions; JAX evaluates and differentiates it like any other.

    Coordinates are functions of time, as `sympy.physics.mechanics.dynamicsymbols` makes them, with their derivatives as
    velocities; or plain symbols, with the symbols of their rates in `velocities`. In SI units:

    - `kinetic_energy`, quadratic in the velocities, and `potential_energy`;
    - `constraints`: expressions of coordinates and time that are zero, or `Eq`s;
    - `velocity_constraints`: the same with velocities, in which they are linear (rolling, a knife edge);
    - `applied_force`: an entry for each coordinate, linear in the symbols given as `inputs`, which become `u`;
    - `parameters`: `{symbol: number}`. The numbers are leaves of the pytree, to vmap over and to differentiate by;
      `system.replace(l=0.5)` is the same system with another value.
    """

    parameters: dict[str, Float[Array, ""]]
    """Value of each parameter, by its name."""
    expressions: Expressions = eqx.field(static=True)
    """What the system is made of."""
    names: tuple[str, ...] | None = eqx.field(static=True)
    """Names of the constraint rows, if given."""

    def __init__(
        self,
        coordinates: Sequence[Expression],
        *,
        kinetic_energy: Expression = None,
        potential_energy: Expression = 0,
        constraints: Iterable[Expression] = (),
        velocity_constraints: Iterable[Expression] = (),
        applied_force: Iterable[Expression] = (),
        inputs: Sequence[Expression] = (),
        parameters: Mapping[Expression, Any] | None = None,
        velocities: Sequence[Expression] | None = None,
        time: Expression = None,
        constraint_names: Sequence[str] | None = None,
    ):
        parameters = {p: float(x) if isinstance(x, sp.Expr) else x for p, x in (parameters or {}).items()}
        symbols = _read_symbols(coordinates, velocities, inputs, parameters, time)
        self.expressions = _read_expressions(
            symbols, kinetic_energy, potential_energy, constraints, velocity_constraints, applied_force
        )
        self.parameters = {p.name: jnp.asarray(x, dtype=float) for p, x in parameters.items()}
        self.names = None if constraint_names is None else tuple(constraint_names)

    @property
    def coordinates(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return tuple(_name(q) for q in self.expressions.symbols.coordinates)

    @property
    def constraint_names(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.names

    @property
    def inputs(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return tuple(_name(u) for u in self.expressions.symbols.inputs)

    def replace(self, **parameters: Any) -> System:
        """The same system with other values of some parameters."""
        unknown = [name for name in parameters if name not in self.parameters]
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise ModelError("System.replace", [f"no parameter is called {n!r}; there are: {known}" for n in unknown])
        values = {name: jnp.asarray(value, dtype=float) for name, value in parameters.items()}
        return eqx.tree_at(lambda system: system.parameters, self, {**self.parameters, **values})

    def kinetic_energy(self, q, v, t):
        return self.evaluate(self.expressions.kinetic_energy, q, v, t=t)[0, 0]

    def potential_energy(self, q, t):
        return self.evaluate(self.expressions.potential_energy, q, t=t)[0, 0]

    def constraints(self, q, t):
        return self.evaluate(self.expressions.constraints, q, t=t)[:, 0]

    def velocity_constraints(self, q, t):
        rates = self.expressions.velocity_constraints
        matrix = _jacobian(rates, self.expressions.symbols.v)
        return self.evaluate(matrix, q, t=t), -self.evaluate(rates, q, t=t)[:, 0]

    def applied_force(self, q, v, t):
        return self.evaluate(self.expressions.applied_force, q, v, t=t)[:, 0]

    def input_matrix(self, q, t):
        return self.evaluate(_jacobian(self.expressions.applied_force, self.expressions.symbols.u), q, t=t)

    def evaluate(
        self, matrix: sp.Matrix, q: Vector, v: Vector | None = None, u: Vector | None = None, t: Scalar = 0.0
    ) -> Matrix:
        """A SymPy matrix of coordinates, velocities, inputs, time and parameters as a JAX array of the same shape.

        `v` and `u` are zero if not given. Works under `jit`, `vmap` and `grad`.
        """
        symbols = self.expressions.symbols
        v = jnp.zeros(len(symbols.v)) if v is None else v
        u = jnp.zeros(len(symbols.u)) if u is None else u
        values = [self.parameters[p.name] for p in symbols.parameters]
        function = _compiled(symbols.arguments, sp.ImmutableMatrix(matrix).xreplace(symbols.stand_ins))
        return jnp.array(function(*q, *v, *u, t, *values), dtype=float).reshape(matrix.shape)


@functools.lru_cache(maxsize=1024)
def _compiled(arguments: tuple[sp.Symbol, ...], matrix: sp.ImmutableMatrix) -> Callable[..., list]:
    return sp.lambdify(arguments, list(matrix), modules="jax", cse=True, dummify=True)


# -- reading what a user wrote -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Symbols:
    """The user's symbols, and a stand-in for each: `x(t)` itself would not be constant when only `t` varies."""

    coordinates: tuple[sp.Expr, ...]
    velocities: tuple[sp.Expr, ...]
    inputs: tuple[sp.Expr, ...]
    time: sp.Symbol
    parameters: tuple[sp.Symbol, ...]

    @functools.cached_property
    def arguments(self) -> tuple[sp.Symbol, ...]:
        """All stand-ins, in the order of `originals`."""
        return tuple(_stand_in(i, bool(x.is_positive)) for i, x in enumerate(self.originals))

    @functools.cached_property
    def stand_ins(self) -> dict[sp.Expr, sp.Symbol]:
        """From the user's symbols to the stand-ins."""
        rates = {c.diff(self.time): v for c, v in zip(self.coordinates, self.v, strict=True) if not c.is_Symbol}
        return {**rates, **dict(zip(self.originals, self.arguments, strict=True))}

    def restore(self, x: Any) -> Any:
        """From the stand-ins back to the user's symbols."""
        return x.xreplace(dict(zip(self.arguments, self.originals, strict=True)))

    originals = property(lambda s: (*s.coordinates, *s.velocities, *s.inputs, s.time, *s.parameters))
    q = property(lambda s: s.arguments[: len(s.coordinates)])
    v = property(lambda s: s.arguments[len(s.coordinates) : 2 * len(s.coordinates)])
    u = property(lambda s: s.arguments[2 * len(s.coordinates) :][: len(s.inputs)])
    t = property(lambda s: s.stand_ins[s.time])


@functools.cache
def _stand_in(i: int, positive: bool) -> sp.Symbol:
    """One and the same symbol for each place, so that equal systems are equal and compiled once."""
    return sp.Dummy(f"z{i}", positive=True) if positive else sp.Dummy(f"z{i}", real=True)


@dataclasses.dataclass(frozen=True)
class Expressions:
    """What a user wrote, in stand-ins; energies (1, 1), the rest columns. Each row of constraints is zero."""

    symbols: Symbols
    kinetic_energy: sp.ImmutableMatrix
    potential_energy: sp.ImmutableMatrix
    constraints: sp.ImmutableMatrix
    velocity_constraints: sp.ImmutableMatrix
    applied_force: sp.ImmutableMatrix


def _read_symbols(coordinates, velocities, inputs, parameters, time) -> Symbols:
    functions = [c for c in coordinates if isinstance(c, AppliedUndef)]
    time = time if time is not None else functions[0].args[0] if functions else sp.Symbol("t")
    problems = [] if len(coordinates) else ["`coordinates` is empty"]
    kinds = (sp.Symbol, AppliedUndef)
    for label, values, kind in (
        ("coordinates", coordinates, kinds),
        ("velocities", velocities or (), (*kinds, sp.Derivative)),
        ("inputs", inputs, kinds),
        ("time", (time,), sp.Symbol),
        ("parameters", parameters, sp.Symbol),
    ):
        problems += [f"{label}: {x!r} is not a SymPy symbol" for x in values if not isinstance(x, kind)]
    problems += [f"coordinates: {c} is not a function of {time} alone" for c in functions if c.args != (time,)]
    if velocities is None:
        plain = [c for c in coordinates if c not in functions]
        problems += [f"coordinates: {c} is a plain symbol, give its rate in `velocities`" for c in plain]
    elif len(velocities) != len(coordinates):
        problems.append(f"velocities: {len(velocities)} for {len(coordinates)} coordinates")
    for p, value in parameters.items():
        if np.shape(value) != () or isinstance(value, str):
            problems.append(f"parameters: the value of {p} must be a number, not {value!r}")
        elif is_concrete(value) and not np.isfinite(value):
            problems.append(f"parameters: {p} is {value}")
    if problems:
        raise ModelError("symbolic.System", problems)
    rates = tuple(c.diff(time) for c in functions) if velocities is None else tuple(velocities)
    symbols = Symbols(tuple(coordinates), rates, tuple(inputs), time, tuple(parameters))
    for label, everything in (("symbol", symbols.originals), ("parameter name", [p.name for p in parameters])):
        repeated = sorted({str(x) for x in everything if list(everything).count(x) > 1})
        problems += [f"the {label} {x} has two meanings" for x in repeated]
    if problems:
        raise ModelError("symbolic.System", problems)
    return symbols


def _read_expressions(symbols: Symbols, kinetic, potential, constraints, velocity_constraints, force) -> Expressions:
    q, v, u = set(symbols.q), set(symbols.v), set(symbols.u)
    problems: list[str] = []
    strangers: dict[sp.Basic, list[str]] = {}

    def read(label: str, value: Expression, forbidden: set[sp.Symbol]) -> sp.Expr:
        try:
            original = sp.sympify(value, strict=True)
        except sp.SympifyError:
            original = None
        if isinstance(original, sp.Equality):
            original = original.lhs - original.rhs
        if not isinstance(original, sp.Expr) or original.has(sp.nan, sp.oo, sp.zoo):
            problems.append(f"{label}: {value!r} is not a finite SymPy expression")
            return sp.S.Zero
        original = original.doit()
        expr = original.xreplace(symbols.stand_ins)
        unknown = (original.atoms(sp.Derivative) - symbols.stand_ins.keys()) | expr.atoms(AppliedUndef)
        for x in unknown | (expr.free_symbols - set(symbols.arguments)):
            strangers.setdefault(x, []).append(label)
        misplaced = sorted(str(symbols.restore(x)) for x in expr.free_symbols & forbidden)
        problems.extend(f"{label} must not depend on {x}" for x in misplaced)
        return expr

    def column(label: str, values: Iterable[Expression], forbidden: set[sp.Symbol]) -> sp.ImmutableMatrix:
        entries = [read(f"{label}[{i}]", value, forbidden) for i, value in enumerate(values)]
        return sp.ImmutableMatrix(len(entries), 1, entries)

    def need_linear(label: str, rows: sp.ImmutableMatrix, wrt: Sequence[sp.Symbol], what: str) -> None:
        slopes = _jacobian(rows, wrt)
        bent = [i for i in range(rows.rows) if slopes[i, :].applyfunc(sp.expand).free_symbols & set(wrt)]
        problems.extend(f"{label.format(i)} is not {what}" for i in bent)

    if kinetic is None:
        problems.append("`kinetic_energy` is missing")
    energy = read("kinetic_energy", 0 if kinetic is None else kinetic, u)
    if kinetic is not None and not energy.free_symbols & v:
        problems.append("kinetic_energy contains no velocity")
    force = list(force) or [0] * len(q)
    if len(force) != len(q):
        problems.append(f"applied_force has {len(force)} entries for {len(q)} coordinates")
    result = Expressions(
        symbols,
        kinetic_energy=sp.ImmutableMatrix([[energy]]),
        potential_energy=sp.ImmutableMatrix([[read("potential_energy", potential, u | v)]]),
        constraints=column("constraints", constraints, u | v),
        velocity_constraints=column("velocity_constraints", velocity_constraints, u),
        applied_force=column("applied_force", force, set()),
    )
    need_linear(
        "kinetic_energy", _jacobian(result.kinetic_energy, symbols.v).T, symbols.v, "quadratic in the velocities"
    )
    need_linear("velocity_constraints[{}]", result.velocity_constraints, symbols.v, "linear in the velocities")
    need_linear("applied_force[{}]", result.applied_force, symbols.u, "linear in the inputs")
    alike = {str(s) for s in symbols.originals}
    for x, labels in sorted(strangers.items(), key=lambda item: str(item[0])):
        hint = " (the symbol of that name has other assumptions)" if str(x) in alike else ""
        where = ", ".join(dict.fromkeys(labels))
        problems.append(f"{x} in {where} is neither coordinate, velocity, input, parameter nor time{hint}")
    if problems:
        raise ModelError("symbolic.System", list(dict.fromkeys(problems)))
    return result


def _jacobian(column: sp.ImmutableMatrix, wrt: Sequence[sp.Symbol]) -> sp.ImmutableMatrix:
    return sp.ImmutableMatrix(column.rows, len(wrt), lambda i, j: column[i, 0].diff(wrt[j]))


def _name(symbol: Any) -> str:
    return symbol.func.__name__ if isinstance(symbol, AppliedUndef) else symbol.name


# -- formulas ----------------------------------------------------------------------------------------------------------

_LATEX = {
    "mass_matrix": "M",
    "bias": "h",
    "constraint_matrix": "A",
    "constraint_acceleration": "b",
    "acceleration": r"\dot{v}",
    "multipliers": r"\lambda",
    "constraint_force": r"A^{\mathsf{T}} \lambda",
}


@dataclasses.dataclass(frozen=True, repr=False)
class Formulas:
    """The explicit equations of a system, as SymPy matrices in the user's symbols. `print` it to read the main ones."""

    system: System
    mass_matrix: sp.ImmutableMatrix
    """`M`, (nv, nv)."""
    bias: sp.ImmutableMatrix
    """`h`, (nv, 1): Coriolis, centrifugal and potential forces, on the side of `M v̇`."""
    constraint_matrix: sp.ImmutableMatrix
    """`A`, (m, nv)."""
    constraint_acceleration: sp.ImmutableMatrix
    """`b` of `A v̇ = b`, (m, 1)."""
    acceleration: sp.ImmutableMatrix
    """`v̇`, (nv, 1)."""
    multipliers: sp.ImmutableMatrix
    """`λ`, (m, 1), of minimum norm where rows are redundant."""
    constraint_force: sp.ImmutableMatrix
    """`Aᵀλ`, (nv, 1): the generalised force of the constraints on the system."""
    rows: tuple[int, ...]
    """The independent constraint rows that were used; the others follow from them."""

    def function(self, name: str) -> Callable[..., Array]:
        """The formula called `name` as a JAX function `(system, q, v, u=None, t=0.0)`; columns become vectors."""
        matrix = self._formula(name)

        def evaluate(system: System, q: Vector, v: Vector, u: Vector | None = None, t: Scalar = 0.0) -> Array:
            value = system.evaluate(matrix, jnp.asarray(q), jnp.asarray(v), u, t)
            return value if name in ("mass_matrix", "constraint_matrix") else value[:, 0]

        return evaluate

    def latex(self, name: str = "constraint_force") -> str:
        """The formula called `name` as a LaTeX equation."""
        return f"{_LATEX[name] if name in _LATEX else ''} = {vlatex(self._formula(name))}"

    def __str__(self) -> str:
        owners = {"acceleration": self.system.coordinates, "constraint_force": self.system.coordinates}
        owners["multipliers"] = self.system.row_names
        return "\n".join(
            line
            for name, labels in owners.items()
            for line in (
                f"{name.replace('_', ' ')}:",
                *(f"  {label}: {vsstrrepr(x)}" for label, x in zip(labels, self._formula(name), strict=True)),
            )
        )

    def _formula(self, name: str) -> sp.ImmutableMatrix:
        if name not in _LATEX:
            raise ModelError("Formulas", [f"no formula is called {name!r}; there are: {', '.join(_LATEX)}"])
        return getattr(self, name)


def explicit(system: System, q: Vector | None = None, t: Scalar = 0.0) -> Formulas:
    """Accelerations, multipliers and constraint forces of a small system as formulas of the state and the inputs.

    Redundant constraint rows are left out; which ones are, is decided at the configuration `q` and time `t`, without
    `q` at a generic one. Give a `q` that meets the constraints, and is no singular position, if rows depend on each
    other only when the constraints are met, as with parallel cranks.
    """
    if not isinstance(system, System):
        raise ModelError("explicit", [f"needs a symbolic.System, got {type(system).__name__}"])
    e, symbols = system.expressions, system.expressions.symbols
    rates = sp.Matrix(symbols.v)

    def total_rate(column: sp.ImmutableMatrix) -> sp.Matrix:
        """Time derivative at constant velocity."""
        return _jacobian(column, symbols.q) * rates + column.diff(symbols.t)

    momentum = _jacobian(e.kinetic_energy, symbols.v).T
    slope = _jacobian(e.kinetic_energy - e.potential_energy, symbols.q).T
    rows = sp.ImmutableMatrix.vstack(sp.ImmutableMatrix(total_rate(e.constraints)), e.velocity_constraints)
    given = (
        *(_jacobian(momentum, symbols.v), total_rate(momentum) - slope),
        *(_jacobian(rows, symbols.v), -total_rate(rows)),
    )
    algebra = _Algebra(*given, e.applied_force)
    mass, bias, matrix, target, force = map(algebra.encode, (*given, e.applied_force))
    kept = _independent_rows(system, q, t)
    n, r, m = len(symbols.q), len(kept), rows.rows
    basis = matrix.extract(kept, range(n))
    zeros = functools.partial(DomainMatrix.zeros, domain=algebra.field)
    kkt = mass.hstack(-basis.transpose()).vstack(basis.hstack(zeros((r, r))))
    wanted = DomainMatrix.eye((n + r, n + r), algebra.field).vstack(zeros((n, n)).hstack(basis.transpose()))
    solution = algebra.solve(kkt, (force - bias).vstack(target.extract(kept, [0])), wanted)
    acceleration, loads, reaction = (solution.extract(i, [0]) for i in np.split(range(2 * n + r), [n, n + r]))
    multipliers = loads if r == m else zeros((m, 1))
    if 0 < r < m:
        # A = Cᵀ R with the rows R that are kept; of all λ with C λ = loads, the least.
        share = algebra.solve(basis * basis.transpose(), basis * matrix.transpose())
        multipliers = share.transpose() * algebra.solve(share * share.transpose(), loads)
    results = (mass, bias, matrix, target, acceleration, multipliers, reaction)
    return Formulas(system, *(symbols.restore(algebra.decode(x)) for x in results), rows=tuple(kept))


def _independent_rows(system: System, q: Vector | None, t: Scalar) -> list[int]:
    """The first rows that are independent, at `q` or, without it, at the best of three random states."""
    random = np.random.default_rng(0)
    states = [(random.uniform(0.2, 1.2, system.nq), random.uniform()) for _ in range(3)] if q is None else [(q, t)]
    choices = []
    for q, t in states:
        q, t = system.vector(q), jnp.asarray(t, dtype=float)
        scaled = _scaled_constraints(system, q, t)
        kept = jnp.zeros(scaled.shape[0], dtype=bool)
        for i in range(len(kept)):
            more = kept.at[i].set(True)
            kept = more if rank(jnp.where(more[:, None], scaled, 0.0)) > jnp.sum(kept) else kept
        if np.all(np.isfinite(scaled)):
            choices.append((np.flatnonzero(kept).tolist(), q, t))
    if not choices:
        raise ModelError("explicit", ["the constraints are not finite at this `q`: give another one"])
    rows, q, t = max(choices, key=lambda choice: len(choice[0]))
    check_motion_determined(system, q, t)
    return rows


@eqx.filter_jit
def _scaled_constraints(system: System, q: Vector, t: Scalar) -> Matrix:
    """`A` in units in which the rank can be told, see `bricard.equations.rank`."""
    matrix = system.constraint_matrix(q, t)
    units = scales(system.mass_matrix(q, t), matrix, row_variation(system, q, t))
    return matrix * units.columns[None, :] / units.rows[:, None]


class _Algebra:
    """Exact fractions of polynomials in sines, cosines and all other symbols, reduced by `sin² + cos² = 1`.

    SymPy's own simplification takes minutes for three coordinates, polynomials take milliseconds. A subexpression that is
    no polynomial (a root, an exponential) counts as a symbol.
    """

    def __init__(self, *matrices: sp.Matrix):
        entries = [_exact(x) for matrix in matrices for x in matrix]
        steps: dict[sp.Expr, sp.Rational] = {}  # of each angle, the largest that all its multiples are multiples of
        for angle in sorted({w.args[0] for x in entries for w in x.atoms(*_WAVES)}, key=sp.default_sort_key):
            for k, base in _multiples(angle):
                steps[base] = sp.gcd(steps.get(base, 0), k)
        self.steps, self.angles = steps, [step * base for base, step in steps.items()]
        self.waves = {base: (sp.Dummy("s"), sp.Dummy("c")) for base in steps}
        self.others: dict[sp.Expr, sp.Symbol] = {}
        symbols = set().union(*(self._polynomial(x).free_symbols for x in entries))
        waves = [x for pair in self.waves.values() for x in pair]
        self.field = sp.QQ.frac_field(*waves, *sorted(symbols.difference(waves), key=sp.default_sort_key))
        self.fraction, self.ring = self.field.field, self.field.field.ring
        self.meaning = {symbol: x for x, symbol in self.others.items()}
        self.meaning |= dict(zip(waves, (f(x) for x in self.angles for f in (sp.sin, sp.cos)), strict=True))

    def encode(self, matrix: sp.Matrix) -> DomainMatrix:
        """A SymPy matrix as one of fractions."""
        entries = [self._tidy(self.field.from_sympy(self._polynomial(_exact(x)))) for x in matrix]
        return DomainMatrix.from_list_flat(entries, matrix.shape, self.field)

    def solve(self, matrix: DomainMatrix, rhs: DomainMatrix, left: DomainMatrix | None = None) -> DomainMatrix:
        """`matrix⁻¹ rhs`, or `left matrix⁻¹ rhs`; by the adjugate, so that no pivot has to be told from zero."""
        left = DomainMatrix.eye(matrix.shape, self.field) if left is None else left
        scale, matrix = matrix.clear_denoms_rowwise(convert=True)
        below_left, left = left.clear_denoms(convert=True)
        below_right, rhs = (scale.convert_to(self.field) * rhs).clear_denoms(convert=True)
        adjugate, determinant = matrix.adj_det()
        below = self._normal(determinant) * below_left.element * below_right.element
        result = []
        for row in (left * adjugate).to_list():
            row = [self._normal(x) for x in row]
            common = functools.reduce(lambda a, b: a.gcd(b), row, below)
            above = DomainMatrix([[x.exquo(common) for x in row]], (1, len(row)), rhs.domain) * rhs
            result += [self._tidy(self.fraction(x) / self.fraction(below.exquo(common))) for x in above.to_list_flat()]
        return DomainMatrix.from_list_flat(result, (left.shape[0], rhs.shape[1]), self.field)

    def decode(self, matrix: DomainMatrix) -> sp.ImmutableMatrix:
        """A matrix of fractions as short SymPy expressions."""
        return sp.ImmutableMatrix(*matrix.shape, [self._expression(self._tidy(x)) for x in matrix.to_list_flat()])

    def _polynomial(self, x: sp.Expr) -> sp.Expr:
        if x.is_Add or x.is_Mul:
            return x.func(*map(self._polynomial, x.args))
        if x.is_Pow and x.exp.is_Integer:
            return self._polynomial(x.base) ** x.exp
        if isinstance(x, sp.tan):
            return self._polynomial(sp.sin(x.args[0])) / self._polynomial(sp.cos(x.args[0]))
        if isinstance(x, _WAVES):
            sine, cosine = sp.S.Zero, sp.S.One
            for k, base in _multiples(x.args[0]):
                s, c = self.waves[base]
                for _ in range(abs(int(k / self.steps[base]))):
                    sine, cosine = sine * c + sp.sign(k) * cosine * s, cosine * c - sp.sign(k) * sine * s
            return sine if isinstance(x, sp.sin) else cosine
        return x if x.is_Rational or x.is_Symbol else self.others.setdefault(x, sp.Dummy("z"))

    def _normal(self, p: Any, replaced: int = 0) -> Any:
        """The polynomial `p` without squares of sines (of cosines, if `replaced` is 1)."""
        for k in range(0, 2 * len(self.angles), 2):
            i, other = k + replaced, self.ring.gens[k + 1 - replaced]
            parts: dict[int, dict] = {}
            for powers, factor in p.items():
                half, odd = divmod(powers[i], 2)
                parts.setdefault(half, {})[(*powers[:i], odd, *powers[i + 1 :])] = factor
            p = sum((self.ring.from_dict(x) * (1 - other**2) ** half for half, x in parts.items()), self.ring.zero)
        return p

    def _tidy(self, x: Any) -> Any:
        return self.fraction(self._normal(x.numer)) / self.fraction(self._normal(x.denom))

    def _expression(self, x: Any) -> sp.Expr:
        (above, terms), (below, divisors) = self._factor_and_terms(x.numer), self._factor_and_terms(x.denom)
        if len(divisors) == 1:
            return sp.Add(*(above * term / (below * divisors[0]) for term in terms))
        return above / below * sp.Add(*terms) / sp.Add(*divisors)

    def _factor_and_terms(self, p: Any) -> tuple[sp.Expr, list[sp.Expr]]:
        """A common factor of `p`, and a term for each monomial of what is neither sine nor cosine."""
        if not p:
            return sp.S.One, []
        n, zeros = 2 * len(self.angles), (0,) * self.ring.ngens
        common, p = p.terms_gcd()
        parts: dict[tuple, dict] = {}
        for powers, factor in p.items():
            parts.setdefault((*zeros[:n], *powers[n:]), {})[(*powers[:n], *zeros[n:])] = factor
        shortest = {rest: self._shortest(self.ring.from_dict(part)) for rest, part in parts.items()}
        terms = [sp.Mul(self._monomial(rest), *x.primitive()) for rest, x in shortest.items()]
        return self._monomial(common), terms

    def _monomial(self, powers: tuple[int, ...]) -> sp.Expr:
        return self.ring.from_dict({powers: sp.QQ(1)}).as_expr().xreplace(self.meaning)

    def _shortest(self, p: Any) -> sp.Expr:
        """A polynomial in sines and cosines: in their powers or in multiple angles, whatever has fewer terms."""
        powers = min((self._normal(p, 0), self._normal(p, 1)), key=len)
        waves: dict[tuple[int, ...], tuple[Any, Any]] = {}
        for monomial, factor in p.items():
            for k, z in _harmonics(monomial[: 2 * len(self.angles)]).items():
                real, imaginary = waves.get(k, (0, 0))
                real += factor * sp.QQ(*z.real.as_integer_ratio())
                waves[k] = (real, imaginary + factor * sp.QQ(*z.imag.as_integer_ratio()))
        terms = []
        for k, (real, imaginary) in waves.items():
            angle = sp.Add(*(n * x for n, x in zip(k, self.angles, strict=True)))
            terms += [x * f(angle) for x, f in ((sp.QQ.to_sympy(real), sp.cos), (-sp.QQ.to_sympy(imaginary), sp.sin)) if x]
        # Each wave is there twice, with k and −k.
        multiple = sp.Add(*terms)
        return multiple if len(sp.Add.make_args(multiple)) < len(powers) else powers.as_expr().xreplace(self.meaning)


@functools.cache
def _harmonics(powers: tuple[int, ...]) -> dict[tuple[int, ...], complex]:
    """`sin^a x cos^b x sin^c y …` as `Σ z exp(i(k₁x + k₂y + …))`: `{k: z}`. Exact, since all `z` are sums of 1/2, 1/4, …"""
    i = next((i for i, power in enumerate(powers) if power), None)
    if i is None:
        return {(0,) * (len(powers) // 2): 1.0 + 0.0j}
    result: dict[tuple[int, ...], complex] = {}
    j, up, down = i // 2, *((0.5, 0.5) if i % 2 else (-0.5j, 0.5j))
    for k, z in _harmonics((*powers[:i], powers[i] - 1, *powers[i + 1 :])).items():
        for step, factor in ((1, up), (-1, down)):
            key = (*k[:j], k[j] + step, *k[j + 1 :])
            result[key] = result.get(key, 0.0) + factor * z
    return result


_WAVES = (sp.sin, sp.cos, sp.tan)


def _exact(x: sp.Expr) -> sp.Expr:
    """Polynomials need exact numbers: 9.81 becomes 981/100."""
    return x.xreplace({number: sp.Rational(repr(float(number))) for number in x.atoms(sp.Float)})


def _multiples(angle: sp.Expr) -> list[tuple[sp.Rational, sp.Expr]]:
    """`2x + y/2` as `[(2, x), (1/2, y)]`."""
    return [term.as_coeff_Mul(rational=True) for term in sp.Add.make_args(sp.expand(angle))]
