"""Exact fractions of trigonometric polynomials: solve with them, and write them down shortly."""

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
