"""SymPy in and out: a `System` from SymPy expressions, and its constraint forces back as formulas of the state.

Needs the extra `symbolic`. Signs and names are those of `bricard.system`: `M v̇ + h = f + H u + Aᵀλ`, where `Aᵀλ` is
the force that the constraints exert **on** the system.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
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
    from sympy.simplify.fu import TR8
except ImportError as error:
    raise ImportError("bricard.symbolic needs SymPy: pip install 'bricard[symbolic]'") from error

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
        parameters = parameters or {}
        symbols = _read_symbols(coordinates, velocities, inputs, parameters, time)
        self.expressions = _read_expressions(
            symbols, kinetic_energy, potential_energy, constraints, velocity_constraints, applied_force
        )
        self.parameters = {p.name: _number(x) for p, x in parameters.items()}
        self.coordinates = tuple(x.name for x in coordinates)  # pyright: ignore
        self.constraint_names = None if constraint_names is None else tuple(constraint_names)  # pyright: ignore
        self.inputs = tuple(x.name for x in inputs)  # pyright: ignore

    def replace(self, **parameters: Any) -> System:
        """The same system with other values of some parameters."""
        unknown = [name for name in parameters if name not in self.parameters]
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise ModelError("System.replace", [f"no parameter is called {n!r}; there are: {known}" for n in unknown])
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
        matrix = _jacobian(rates, self.expressions.symbols.v)
        return self.evaluate(matrix, q, t=t), -self.evaluate(rates, q, t=t)[:, 0]

    def applied_force(self, q, v, t):
        return self.evaluate(self.expressions.applied_force, q, v, t=t)[:, 0]

    def input_matrix(self, q, t):
        return self.evaluate(_jacobian(self.expressions.applied_force, self.expressions.symbols.u), q, t=t)

    def evaluate(self, matrix: Expr, q: Vector, v: Any = None, u: Any = None, t: Scalar = 0.0) -> Matrix:
        """A SymPy matrix of coordinates, velocities, inputs, time and parameters as a JAX array of the same shape.

        `v` (nv,) and `u` (nu,) are zero if not given. Works under `jit`, `vmap` and `grad`.
        """
        symbols = self.expressions.symbols
        v = jnp.zeros(len(symbols.v)) if v is None else v
        u = jnp.zeros(len(symbols.u)) if u is None else u
        values = [self.parameters[p.name] for p in symbols.parameters]
        function = _compiled(symbols.arguments, sp.ImmutableMatrix(matrix).xreplace(symbols.stand_ins))
        return jnp.array(function(*q, *v, *u, t, *values), dtype=float).reshape(matrix.shape)


@functools.lru_cache(maxsize=1024)
def _compiled(arguments: tuple[Expr, ...], matrix: Expr) -> Callable[..., list]:
    # JAX takes no integers beyond 64 bits, which exact fractions may contain.
    long = {x: sp.Float(x, 17) for x in matrix.atoms(sp.Rational) if max(abs(x.p), x.q) > 2**53}
    return sp.lambdify(arguments, list(matrix.xreplace(long)), modules="jax", cse=True, dummify=True)


# -- reading what a user wrote -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Symbols:
    """The user's symbols, and a stand-in for each: `x(t)` itself would not be constant when only `t` varies."""

    coordinates: tuple[Expr, ...]
    velocities: tuple[Expr, ...]
    inputs: tuple[Expr, ...]
    time: Expr
    parameters: tuple[Expr, ...]

    @functools.cached_property
    def originals(self) -> tuple[Expr, ...]:
        """All of the user's symbols: `q`, `v`, `u`, `t`, parameters."""
        return (*self.coordinates, *self.velocities, *self.inputs, self.time, *self.parameters)

    @functools.cached_property
    def arguments(self) -> tuple[Expr, ...]:
        """All stand-ins, in the same order."""
        return tuple(_stand_in(i, bool(x.is_positive)) for i, x in enumerate(self.originals))

    @functools.cached_property
    def stand_ins(self) -> dict[Expr, Expr]:
        """From the user's symbols to the stand-ins."""
        rates = {c.diff(self.time): v for c, v in zip(self.coordinates, self.v, strict=True) if not c.is_Symbol}
        return {**rates, **dict(zip(self.originals, self.arguments, strict=True))}

    def restore(self, x: Expr) -> Expr:
        """From the stand-ins back to the user's symbols."""
        return x.xreplace(dict(zip(self.arguments, self.originals, strict=True)))

    q = property(lambda self: self.arguments[: len(self.coordinates)])
    v = property(lambda self: self.arguments[len(self.coordinates) : 2 * len(self.coordinates)])
    u = property(lambda self: self.arguments[2 * len(self.coordinates) :][: len(self.inputs)])


@functools.cache
def _stand_in(i: int, positive: bool) -> Expr:
    """One and the same symbol for each place, so that equal systems are equal and compiled once."""
    return sp.Dummy(f"z{i}", positive=True) if positive else sp.Dummy(f"z{i}", real=True)


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
    coordinates, inputs = tuple(coordinates), tuple(inputs)
    functions = [c for c in coordinates if isinstance(c, AppliedUndef)]
    time = time if time is not None else functions[0].args[0] if functions else sp.Symbol("t")
    names = (sp.Symbol, AppliedUndef)
    kinds = {"coordinates": names, "velocities": (*names, sp.Derivative), "inputs": names}
    given = {"coordinates": coordinates, "velocities": () if velocities is None else velocities, "inputs": inputs}
    given |= {"time": [time], "parameters": parameters}
    problems = [] if coordinates else ["`coordinates` is empty"]
    for label, symbols in given.items():
        odd = [x for x in symbols if not isinstance(x, kinds.get(label, sp.Symbol))]
        problems += [f"{label}: {x!r} is not a SymPy symbol" for x in odd]
    problems += [f"coordinates: {c} is not a function of {time} alone" for c in functions if c.args != (time,)]
    if velocities is None:
        plain = [c for c in coordinates if c not in functions]
        problems += [f"coordinates: {c} is a plain symbol, give its rate in `velocities`" for c in plain]
        velocities = [c.diff(time) for c in functions] if not problems else []
    elif len(velocities) != len(coordinates):
        problems.append(f"velocities: {len(velocities)} for {len(coordinates)} coordinates")
    bad = {p: x for p, x in parameters.items() if not _is_number(x)}
    problems += [f"parameters: the value of {p} must be a finite number, not {x!r}" for p, x in bad.items()]
    result = Symbols(coordinates, tuple(velocities), inputs, time, tuple(parameters))
    for label, symbols in (("symbol", result.originals), ("parameter", [str(p) for p in parameters])):
        repeated = sorted({str(x) for x in symbols if list(symbols).count(x) > 1})
        problems += [f"the {label} {x} is given twice" for x in repeated]
    if problems:
        raise ModelError("symbolic.System", problems)
    return result


def _read_expressions(symbols: Symbols, kinetic, potential, constraints, velocity_constraints, force) -> Expressions:
    v, u = set(symbols.v), set(symbols.u)
    problems: list[str] = []
    strangers: dict[Expr, list[str]] = {}

    def read(label: str, value: Expr, forbidden: set[Expr]) -> Expr:
        try:
            original: Expr = sp.sympify(value, strict=True)
        except sp.SympifyError:
            original = None
        if isinstance(original, sp.Equality):
            original = original.lhs - original.rhs  # pyright: ignore[reportOperatorIssue]
        if isinstance(original, sp.MatrixBase) and original.shape == (1, 1):
            original = original[0, 0]  # `v.T * M * v / 2` is a matrix
        if not isinstance(original, sp.Expr) or original.is_Matrix or original.has(sp.nan, sp.oo, sp.zoo):
            problems.append(f"{label}: {value!r} is not a finite SymPy expression")
            return sp.S.Zero
        original = original.doit()
        result = original.xreplace(symbols.stand_ins)
        unknown = (original.atoms(sp.Derivative) - symbols.stand_ins.keys()) | result.atoms(AppliedUndef)
        for x in unknown | (result.free_symbols - set(symbols.arguments)):
            strangers.setdefault(symbols.restore(x), []).append(label)
        misplaced = sorted(str(symbols.restore(x)) for x in result.free_symbols & forbidden)
        problems.extend(f"{label} must not depend on {x}" for x in misplaced)
        return result

    def column(label: str, values: Rows, forbidden: set[Expr]) -> Expr:
        entries = [read(f"{label}[{i}]", value, forbidden) for i, value in enumerate(values)]
        return sp.ImmutableMatrix(len(entries), 1, entries)

    def need_linear(label: str, rows: Expr, wrt: Sequence[Expr], what: str) -> None:
        slopes = _jacobian(rows, wrt).applyfunc(sp.expand)
        bent = [label.format(i) for i in range(rows.rows) if slopes[i, :].free_symbols & set(wrt)]
        problems.extend(f"{x} is not {what}" for x in dict.fromkeys(bent))

    if kinetic is None:
        problems.append("`kinetic_energy` is missing")
    force = list(force) or [0] * len(symbols.q)
    if len(force) != len(symbols.q):
        problems.append(f"applied_force has {len(force)} entries for {len(symbols.q)} coordinates")
    result = Expressions(
        symbols,
        kinetic_energy=sp.ImmutableMatrix([[read("kinetic_energy", 0 if kinetic is None else kinetic, u)]]),
        potential_energy=sp.ImmutableMatrix([[read("potential_energy", potential, u | v)]]),
        constraints=column("constraints", constraints, u | v),
        velocity_constraints=column("velocity_constraints", velocity_constraints, u),
        applied_force=column("applied_force", force, set()),
    )
    momentum = _jacobian(result.kinetic_energy, symbols.v).T
    if kinetic is not None and momentum.is_zero_matrix:
        problems.append("kinetic_energy contains no velocity")
    need_linear("kinetic_energy", momentum, symbols.v, "quadratic in the velocities")
    need_linear("velocity_constraints[{}]", result.velocity_constraints, symbols.v, "linear in the velocities")
    need_linear("applied_force[{}]", result.applied_force, symbols.u, "linear in the inputs")
    for x, labels in sorted(strangers.items(), key=str):
        alike = any(str(x) == str(y) for y in symbols.originals)
        hint = " (the symbol of that name has other assumptions)" if alike else ""
        where = ", ".join(labels)
        problems.append(f"{x} in {where} is neither coordinate, velocity, input, parameter nor time{hint}")
    if problems:
        raise ModelError("symbolic.System", problems)
    return result


def _number(x: Any) -> Float[Array, ""]:
    return jnp.asarray(float(x) if isinstance(x, sp.Expr) else x, dtype=float)


def _is_number(x: Any) -> bool:
    try:
        return np.shape(x) == () and not isinstance(x, str) and bool(not is_concrete(x) or np.isfinite(float(x)))
    except (TypeError, ValueError):
        return False


def _jacobian(column: Expr, wrt: Sequence[Expr]) -> Expr:
    return sp.ImmutableMatrix(column.rows, len(wrt), lambda i, j: column[i, 0].diff(wrt[j]))


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


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Formulas:
    """The explicit equations of a system, as SymPy matrices in the user's symbols. `print` it to read the main ones."""

    system: System
    mass_matrix: Expr
    """`M`, (nv, nv)."""
    bias: Expr
    """`h`, (nv, 1): Coriolis, centrifugal and potential forces, on the side of `M v̇`."""
    constraint_matrix: Expr
    """`A`, (m, nv)."""
    constraint_acceleration: Expr
    """`b` of `A v̇ = b`, (m, 1)."""
    acceleration: Expr
    """`v̇`, (nv, 1)."""
    multipliers: Expr
    """`λ`, (m, 1), of minimum norm where rows are redundant."""
    constraint_force: Expr
    """`Aᵀλ`, (nv, 1): the generalised force of the constraints on the system."""
    rows: tuple[int, ...]
    """The independent constraint rows; the others follow from them."""

    def function(self, name: str) -> Callable[..., Array]:
        """The formula called `name` as a JAX function `(system, q, v, u=None, t=0.0)`; columns become vectors."""
        matrix = self._formula(name)

        def evaluate(system: System, q: Vector, v: Vector, u: Vector | None = None, t: Scalar = 0.0) -> Array:
            u = jnp.zeros(system.nu) if u is None else u
            value = system.evaluate(matrix, system.vector(q), system.vector(v, "v"), system.vector(u, "u"), t)
            return value if name in ("mass_matrix", "constraint_matrix") else value[:, 0]

        return evaluate

    def latex(self, name: str = "constraint_force") -> str:
        """The formula called `name` as a LaTeX equation."""
        formula = self._formula(name)
        return f"{_LATEX[name]} = {vlatex(formula)}"

    def __str__(self) -> str:
        lines = []
        for name in ("acceleration", "constraint_force", "multipliers"):
            labels = self.system.row_names if name == "multipliers" else self.system.coordinates
            lines.append(name.replace("_", " ") + ":")
            lines += [f"  {label}: {vsstrrepr(x)}" for label, x in zip(labels, self._formula(name), strict=True)]
        return "\n".join(lines)

    def _formula(self, name: str) -> Expr:
        if name not in _LATEX:
            raise ModelError("Formulas", [f"no formula is called {name!r}; there are: {', '.join(_LATEX)}"])
        return getattr(self, name)


def explicit(system: bricard.system.System, q: Vector | None = None, t: Scalar = 0.0) -> Formulas:
    """Accelerations, multipliers and constraint forces of a small system as formulas of the state and the inputs.

    Of dependent constraint rows the shortest are used. Which ones depend on others is decided at the configuration `q`
    and the time `t`; without `q`, at a random one. Give a `q` that meets the constraints, and is no singular position,
    if rows depend on each other only where the constraints are met, as with parallel cranks; then the formulas hold
    only there. Takes seconds for five coordinates and rows together, or ten if the mass matrix is diagonal.
    """
    if not isinstance(system, System):
        raise ModelError("explicit", [f"needs a symbolic.System, got {type(system).__name__}"])
    e, symbols = system.expressions, system.expressions.symbols

    def rate(column: Expr) -> Expr:
        """Time derivative at constant velocity."""
        return _jacobian(column, symbols.q) * sp.Matrix(symbols.v) + column.diff(symbols.stand_ins[symbols.time])

    momentum = _jacobian(e.kinetic_energy, symbols.v).T
    slope = _jacobian(e.kinetic_energy - e.potential_energy, symbols.q).T
    rows = sp.ImmutableMatrix(rate(e.constraints)).col_join(e.velocity_constraints)
    given = (
        *(_jacobian(momentum, symbols.v), rate(momentum) - slope, e.applied_force),
        *(_jacobian(rows, symbols.v), -rate(rows)),
    )
    algebra = _Algebra(*given)
    mass, bias, force, matrix, target = map(algebra.encode, given)
    shortest_first = sorted(range(rows.rows), key=lambda i: sp.count_ops(rows[i, 0]))
    kept = _independent_rows(system, shortest_first, q, t)
    n, r, m = len(symbols.q), len(kept), rows.rows
    basis = matrix.extract(kept, range(n))
    kkt = mass.hstack(-basis.transpose()).vstack(basis.hstack(DomainMatrix.zeros((r, r), algebra.field)))
    solution = algebra.solve(kkt, (force - bias).vstack(target.extract(kept, [0])))
    acceleration, loads = solution.extract(range(n), [0]), solution.extract(range(n, n + r), [0])
    multipliers = algebra.decode(loads)
    reaction = algebra.decode(basis.transpose()) * multipliers
    if sum(len(x.numer) for x in loads.to_list_flat()) < 100:
        # Multiplied out, much may cancel. Of a long formula it would only take time.
        pairs = zip(reaction, algebra.decode(basis.transpose() * loads), strict=True)
        reaction = sp.Matrix(n, 1, [min(pair, key=sp.count_ops) for pair in pairs])
    if r < m:
        # Of all λ with the same effect, the least: with the rows R that are kept and S = R Aᵀ, Sᵀ(S Sᵀ)⁻¹R Rᵀ loads.
        overlap, gram = basis * matrix.transpose(), basis * basis.transpose()
        shares = overlap.transpose() * algebra.solve(overlap * overlap.transpose(), gram)
        multipliers = algebra.decode(shares) * multipliers
    terms = (algebra.decode(x) for x in (mass, bias, matrix, target, acceleration))
    results = (symbols.restore(sp.ImmutableMatrix(x)) for x in (*terms, multipliers, reaction))
    return Formulas(system, *results, rows=tuple(kept))


def _independent_rows(system: System, order: Sequence[int], q: Vector | None, t: Scalar) -> list[int]:
    """The first rows in this order that are independent, at `q` or, without it, at the best of three random states."""
    random = np.random.default_rng(0)
    states: Any = [(random.uniform(0.2, 1.2, system.nq), random.uniform()) for _ in range(3)]
    choices = []
    for state in states if q is None else [(q, t)]:
        q, t = system.vector(state[0]), jnp.asarray(state[1], dtype=float)
        scaled = _scaled_constraints(system, q, t)
        kept = jnp.zeros(scaled.shape[0], dtype=bool)
        for i in order:
            more = kept.at[i].set(True)
            kept = more if rank(jnp.where(more[:, None], scaled, 0.0)) > jnp.sum(kept) else kept
        if np.all(np.isfinite(scaled)):
            choices.append((np.flatnonzero(kept).tolist(), q, t))
    if not choices:
        raise ModelError("explicit", ["the constraints are not finite at this `q`: give another one"])
    rows, *state = max(choices, key=lambda choice: len(choice[0]))
    check_motion_determined(system, *state)
    return rows


@eqx.filter_jit
def _scaled_constraints(system: System, q: Vector, t: Scalar) -> Matrix:
    """`A` in units in which its rank can be told, see `bricard.equations.rank`."""
    matrix = system.constraint_matrix(q, t)
    units = scales(system.mass_matrix(q, t), matrix, row_variation(system, q, t))
    return matrix * units.columns[None, :] / units.rows[:, None]


# -- exact algebra -----------------------------------------------------------------------------------------------------


class _Algebra:
    """Fractions of polynomials in sines, cosines and all other symbols, exact and reduced by `sin² + cos² = 1`.

    SymPy's own simplification takes minutes for three coordinates, polynomials take milliseconds. A subexpression that
    is no polynomial (a root, an exponential) counts as a symbol.
    """

    def __init__(self, *matrices: Expr):
        entries = [_exact(x) for matrix in matrices for x in matrix]
        self.steps: dict[Expr, Expr] = {}  # of each angle, the largest part that all its multiples are multiples of
        for angle in sorted({w.args[0] for x in entries for w in x.atoms(*_WAVES)}, key=sp.default_sort_key):
            for k, base in _multiples(angle):
                self.steps[base] = sp.gcd(self.steps.get(base, 0), k)
        self.waves = {base: (sp.Dummy("s"), sp.Dummy("c")) for base in self.steps}
        self.others: dict[Expr, Expr] = {}
        encoded = [self._polynomial(x) for x in entries]
        roots = {z: self._polynomial(x.base) for x, z in list(self.others.items()) if x.is_Pow and x.exp == sp.S.Half}
        # With a symbol more than needed, since a field needs one.
        symbols = set().union(*(x.free_symbols for x in (*encoded, *roots.values())), roots, [sp.Dummy("z")])
        waves = [x for pair in self.waves.values() for x in pair]
        self.field: Any = sp.QQ.frac_field(*waves, *sorted(symbols.difference(waves), key=sp.default_sort_key))
        self.fraction, self.ring = self.field.field, self.field.field.ring
        fractions = {z: self.field.from_sympy(x) for z, x in roots.items()}
        one, index = self.ring.one, self.ring.symbols.index
        rooted = [(index(z), x.numer) for z, x in fractions.items() if x.denom == one]
        # Which squares to replace, and by what: those of roots, and of sines (0) or cosines (1).
        self.squares = [
            rooted + [(k + i, one - self.ring.gens[k + 1 - i] ** 2) for k in range(0, len(waves), 2)] for i in (0, 1)
        ]
        self.meaning = {symbol: x for x, symbol in self.others.items()}
        for base, (s, c) in self.waves.items():
            self.meaning |= {s: sp.sin(self.steps[base] * base), c: sp.cos(self.steps[base] * base)}

    def encode(self, matrix: Expr) -> Any:
        """A SymPy matrix as one of fractions."""
        entries = [self._tidy(self.field.from_sympy(self._polynomial(_exact(x)))) for x in matrix]
        return DomainMatrix.from_list_flat(entries, matrix.shape, self.field)

    def solve(self, matrix: Any, rhs: Any) -> Any:
        """`matrix⁻¹ rhs`; by the adjugate, so that no pivot has to be told from zero."""
        scale, matrix = matrix.clear_denoms_rowwise(convert=True)
        divisor, rhs = (scale.convert_to(self.field) * rhs).clear_denoms(convert=True)
        adjugate, determinant = matrix.adj_det()
        below = self._normal(determinant) * divisor.element
        result = []
        for row in adjugate.to_list():
            row = [self._normal(x) for x in row]
            common = functools.reduce(lambda a, b: a.gcd(b), row, below)
            above = DomainMatrix([[x.exquo(common) for x in row]], (1, len(row)), rhs.domain) * rhs
            result += [self._tidy(self.fraction(x) / self.fraction(below.exquo(common))) for x in above.to_list_flat()]
        return DomainMatrix.from_list_flat(result, rhs.shape, self.field)

    def decode(self, matrix: Any) -> Expr:
        """A matrix of fractions as short SymPy expressions."""
        return sp.ImmutableMatrix(*matrix.shape, [self._expression(self._tidy(x)) for x in matrix.to_list_flat()])

    def _polynomial(self, x: Expr) -> Expr:
        if x.is_Add or x.is_Mul:
            return x.func(*map(self._polynomial, x.args))
        if x.is_Pow and x.exp.is_Integer:
            return self._polynomial(x.base) ** x.exp
        if x.is_Pow and x.exp.is_Rational and x.exp.q == 2 and x.exp != sp.S.Half:
            return self._polynomial(sp.sqrt(x.base)) ** x.exp.p
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
        """The polynomial `p` without squares of roots and of sines (of cosines, if `replaced` is 1)."""
        for i, square in self.squares[replaced]:
            parts: dict[int, dict] = {}
            for powers, factor in p.items():
                half, odd = divmod(powers[i], 2)
                parts.setdefault(half, {})[(*powers[:i], odd, *powers[i + 1 :])] = factor
            p = sum((self.ring.from_dict(x) * square**half for half, x in parts.items()), self.ring.zero)
        return p

    def _tidy(self, x: Any) -> Any:
        return self.fraction(self._normal(x.numer)) / self.fraction(self._normal(x.denom))

    def _expression(self, x: Any) -> Expr:
        (above, terms), (below, divisors) = self._factor_and_terms(x.numer), self._factor_and_terms(x.denom)
        if len(x.denom) == 1:
            return sp.Add(*(above * term / (below * divisors[0]) for term in terms))
        (a, over), (b, under) = (sp.Add(*y).primitive() for y in (terms, divisors))
        sign = -1 if under.could_extract_minus_sign() else 1
        return sp.Mul(a / b, above / below, sign * over, 1 / (sign * under))

    def _factor_and_terms(self, p: Any) -> tuple[Expr, list[Expr]]:
        """A common factor of `p`, and a term for each monomial of what is neither sine nor cosine."""
        n, zeros = 2 * len(self.waves), (0,) * self.ring.ngens
        common = tuple(map(min, zip(*p, strict=True))) if p else zeros
        parts: dict[tuple, dict] = {}
        for powers, factor in p.items():
            powers = tuple(map(operator.sub, powers, common))
            parts.setdefault((*zeros[:n], *powers[n:]), {})[(*powers[:n], *zeros[n:])] = factor
        terms = []
        for rest, part in parts.items():
            content, waves = self._shortest(self.ring.from_dict(part)).primitive()
            terms.append(sp.Mul(content, self._monomial(rest), sp.factor_terms(waves)))
        return self._monomial(common), terms

    def _monomial(self, powers: tuple[int, ...]) -> Expr:
        return self.ring.from_dict({powers: sp.QQ(1)}).as_expr().xreplace(self.meaning)

    def _shortest(self, p: Any) -> Expr:
        """A polynomial in sines and cosines: in their powers or in multiple angles, whatever is shorter."""
        powers = min((self._normal(p, 0), self._normal(p, 1)), key=len)
        plain = powers.as_expr().xreplace(self.meaning)
        multiple = _multiple_angles(plain)
        terms, functions = len(sp.Add.make_args(multiple)), sum(sum(map(bool, monomial)) for monomial in powers)
        return multiple if terms < len(powers) or terms + 1 < functions else plain


_WAVES = (sp.sin, sp.cos, sp.tan)
_multiple_angles = functools.lru_cache(maxsize=4096)(TR8)


def _exact(x: Expr) -> Expr:
    """Polynomials need exact numbers: 9.81 becomes 981/100."""
    return x.xreplace({number: sp.Rational(repr(float(number))) for number in x.atoms(sp.Float)})


def _multiples(angle: Expr) -> list[tuple[Expr, Expr]]:
    """`2x + y/2` as `[(2, x), (1/2, y)]`."""
    return [term.as_coeff_Mul(rational=True) for term in sp.Add.make_args(sp.expand(angle))]
