"""Exact linear algebra with rational functions of sines and cosines, and their conversion to short expressions."""

from __future__ import annotations

import functools
import operator
from typing import Any

import sympy as sp
from sympy.polys.matrices import DomainMatrix
from sympy.simplify.fu import TR8

Expr = Any
"""A SymPy expression or matrix."""


class Algebra:
    """Field of rational functions in sines, cosines and all other symbols, exact and reduced by `sin² + cos² = 1`.

    The `matrices` must contain all expressions that will be encoded. `sympy.simplify` takes minutes for three
    coordinates; polynomials take milliseconds. A subexpression that is not a polynomial (a root, an exponential) is
    replaced by a symbol.
    """

    def __init__(self, *matrices: Expr):
        entries = [_exact(x) for matrix in matrices for x in matrix]
        # For each angle x, the largest rational g such that every multiple of x is an integer multiple of g x.
        self.units: dict[Expr, Expr] = {}
        for angle in sorted({f.args[0] for x in entries for f in x.atoms(*_TRIGONOMETRIC)}, key=sp.default_sort_key):
            for k, base in _multiples(angle):
                self.units[base] = sp.gcd(self.units.get(base, 0), k)
        self.sin_cos = {base: (sp.Dummy("s"), sp.Dummy("c")) for base in self.units}
        self.replaced: dict[Expr, Expr] = {}  # subexpressions that are not polynomials, with their symbols
        encoded = [self._polynomial(x) for x in entries]
        roots = {z: self._polynomial(x.base) for x, z in list(self.replaced.items()) if x.is_Pow and x.exp == sp.S.Half}
        # One extra symbol, since SymPy does not accept a field without symbols.
        symbols = set().union(*(x.free_symbols for x in (*encoded, *roots.values())), roots, [sp.Dummy("z")])
        generators = [x for pair in self.sin_cos.values() for x in pair]
        others = sorted(symbols.difference(generators), key=sp.default_sort_key)
        self.field: Any = sp.QQ.frac_field(*generators, *others)
        self.fraction, self.ring = self.field.field, self.field.field.ring
        fractions = {z: self.field.from_sympy(x) for z, x in roots.items()}
        one, index = self.ring.one, self.ring.symbols.index
        root_rules = [(index(z), x.numer) for z, x in fractions.items() if x.denom == one]
        # Index of a generator and the polynomial that replaces its square, for roots and for sines [0] or cosines [1].
        self.square_rules = [
            root_rules + [(k + i, one - self.ring.gens[k + 1 - i] ** 2) for k in range(0, len(generators), 2)]
            for i in (0, 1)
        ]
        self.decoding = {symbol: x for x, symbol in self.replaced.items()}
        for base, (s, c) in self.sin_cos.items():
            self.decoding |= {s: sp.sin(self.units[base] * base), c: sp.cos(self.units[base] * base)}

    def encode(self, matrix: Expr) -> Any:
        """Convert a SymPy matrix to a matrix over the field."""
        entries = [self._reduce(self.field.from_sympy(self._polynomial(_exact(x)))) for x in matrix]
        return DomainMatrix.from_list_flat(entries, matrix.shape, self.field)

    def solve(self, matrix: Any, rhs: Any) -> Any:
        """`matrix⁻¹ rhs`, computed with the adjugate, which needs no pivots and so no test for zero."""
        scale, matrix = matrix.clear_denoms_rowwise(convert=True)
        divisor, rhs = (scale.convert_to(self.field) * rhs).clear_denoms(convert=True)
        adjugate, determinant = matrix.adj_det()
        denominator = self._normal_form(determinant) * divisor.element
        result = []
        for row in adjugate.to_list():
            row = [self._normal_form(x) for x in row]
            common = functools.reduce(lambda a, b: a.gcd(b), row, denominator)
            numerators = DomainMatrix([[x.exquo(common) for x in row]], (1, len(row)), rhs.domain) * rhs
            below = self.fraction(denominator.exquo(common))
            result += [self._reduce(self.fraction(x) / below) for x in numerators.to_list_flat()]
        return DomainMatrix.from_list_flat(result, rhs.shape, self.field)

    def decode(self, matrix: Any) -> Expr:
        """Convert a matrix over the field to a SymPy matrix of short expressions."""
        return sp.ImmutableMatrix(*matrix.shape, [self._expression(self._reduce(x)) for x in matrix.to_list_flat()])

    def _polynomial(self, x: Expr) -> Expr:
        """Rewrite `x` in the generators of the field."""
        if x.is_Add or x.is_Mul:
            return x.func(*map(self._polynomial, x.args))
        if x.is_Pow and x.exp.is_Integer:
            return self._polynomial(x.base) ** x.exp
        if x.is_Pow and x.exp.is_Rational and x.exp.q == 2 and x.exp != sp.S.Half:
            return self._polynomial(sp.sqrt(x.base)) ** x.exp.p
        if isinstance(x, sp.tan):
            return self._polynomial(sp.sin(x.args[0])) / self._polynomial(sp.cos(x.args[0]))
        if isinstance(x, _TRIGONOMETRIC):
            sine, cosine = sp.S.Zero, sp.S.One
            for k, base in _multiples(x.args[0]):
                s, c = self.sin_cos[base]
                for _ in range(abs(int(k / self.units[base]))):
                    sine, cosine = sine * c + sp.sign(k) * cosine * s, cosine * c - sp.sign(k) * sine * s
            return sine if isinstance(x, sp.sin) else cosine
        return x if x.is_Rational or x.is_Symbol else self.replaced.setdefault(x, sp.Dummy("z"))

    def _normal_form(self, p: Any, eliminated: int = 0) -> Any:
        """Eliminate squares of roots and of sines (of cosines, if `eliminated` is 1) from the polynomial `p`."""
        for i, square in self.square_rules[eliminated]:
            parts: dict[int, dict] = {}
            for powers, factor in p.items():
                half, odd = divmod(powers[i], 2)
                parts.setdefault(half, {})[(*powers[:i], odd, *powers[i + 1 :])] = factor
            p = sum((self.ring.from_dict(x) * square**half for half, x in parts.items()), self.ring.zero)
        return p

    def _reduce(self, x: Any) -> Any:
        return self.fraction(self._normal_form(x.numer)) / self.fraction(self._normal_form(x.denom))

    def _expression(self, x: Any) -> Expr:
        (above, terms), (below, divisors) = self._factor_and_terms(x.numer), self._factor_and_terms(x.denom)
        if len(x.denom) == 1:
            return sp.Add(*(above * term / (below * divisors[0]) for term in terms))
        (a, over), (b, under) = (sp.Add(*y).primitive() for y in (terms, divisors))
        sign = -1 if under.could_extract_minus_sign() else 1
        return sp.Mul(a / b, above / below, sign * over, 1 / (sign * under))

    def _factor_and_terms(self, p: Any) -> tuple[Expr, list[Expr]]:
        """Common monomial factor of `p`, and one term for each monomial that contains no sines or cosines."""
        n, zeros = 2 * len(self.sin_cos), (0,) * self.ring.ngens
        common = tuple(map(min, zip(*p, strict=True))) if p else zeros
        parts: dict[tuple, dict] = {}
        for powers, factor in p.items():
            powers = tuple(map(operator.sub, powers, common))
            parts.setdefault((*zeros[:n], *powers[n:]), {})[(*powers[:n], *zeros[n:])] = factor
        terms = []
        for rest, part in parts.items():
            content, trigonometric = self._shortest(self.ring.from_dict(part)).primitive()
            terms.append(sp.Mul(content, self._monomial(rest), sp.factor_terms(trigonometric)))
        return self._monomial(common), terms

    def _monomial(self, powers: tuple[int, ...]) -> Expr:
        return self.ring.from_dict({powers: sp.QQ(1)}).as_expr().xreplace(self.decoding)

    def _shortest(self, p: Any) -> Expr:
        """Write a polynomial in sines and cosines with powers or with multiple angles, whichever is shorter."""
        powers = min((self._normal_form(p, 0), self._normal_form(p, 1)), key=len)
        plain = powers.as_expr().xreplace(self.decoding)
        multiple = _multiple_angles(plain)
        terms, functions = len(sp.Add.make_args(multiple)), sum(sum(map(bool, monomial)) for monomial in powers)
        return multiple if terms < len(powers) or terms + 1 < functions else plain


_TRIGONOMETRIC = (sp.sin, sp.cos, sp.tan)
_multiple_angles = functools.lru_cache(maxsize=4096)(TR8)


def _exact(x: Expr) -> Expr:
    """Replace floats by exact fractions, which polynomials need: 9.81 becomes 981/100."""
    return x.xreplace({number: sp.Rational(repr(float(number))) for number in x.atoms(sp.Float)})


def _multiples(angle: Expr) -> list[tuple[Expr, Expr]]:
    """Terms of an angle as (coefficient, angle): `2x + y/2` gives `[(2, x), (1/2, y)]`."""
    return [term.as_coeff_Mul(rational=True) for term in sp.Add.make_args(sp.expand(angle))]
