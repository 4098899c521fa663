"""Doing once what does not change: what depends on the model alone leaves the loop over time.

XLA moves no work out of loops, and the parameters of a model are inputs of the compiled program: without this, whatever
follows from them alone would be computed again in every evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array

CALLS_EIGEN, LARGEST_SUM = 8, 16**3
"""Products of matrices with fewer rows and columns are compiled by XLA itself; longer sums are better left to Eigen."""


class Late(NamedTuple):
    """A value that is not known yet: the number of its slot."""

    slot: int


class Program:
    """What remains to be done: equations, each with its inputs, which are slots or values known before."""

    def __init__(self):
        self.steps: list[tuple[JaxprEqn, list[Any]]] = []
        self.results: list[Any] = []
        self.slots = 0
        self._done: dict[Any, list[Any]] = {}

    def late(self, count: int) -> list[Any]:
        """New slots."""
        self.slots += count
        return [Late(i) for i in range(self.slots - count, self.slots)]

    def add(self, jaxpr: Jaxpr, consts: list[Any], inputs: list[Any]) -> list[Any]:
        """Do what can be done of it, keep the rest for later; its results."""
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))
        for equation in jaxpr.eqns:
            sources = [v.val if isinstance(v, Literal) else values[v] for v in equation.invars]
            values |= zip(equation.outvars, self._results(equation, sources), strict=True)
        return [v.val if isinstance(v, Literal) else values[v] for v in jaxpr.outvars]

    def _results(self, equation: JaxprEqn, sources: list[Any]) -> list[Any]:
        """Of one equation; the same one on the same inputs is done once."""
        key = _key(equation, sources)
        if key is None or key not in self._done:
            inner = equation.params.get("jaxpr") if equation.primitive.name == "jit" else None
            if isinstance(inner, ClosedJaxpr):
                found = self.add(inner.jaxpr, inner.consts, sources)
            elif equation.effects or any(isinstance(s, Late) for s in sources):
                self.steps.append((equation, sources))
                found = self.late(len(equation.outvars))
            else:
                found = _apply(equation, sources)
            if key is None:
                return found
            self._done[key] = [found, sources]  # holding the sources keeps their `id`s from being used again
        return self._done[key][0]


class Hoisted(eqx.Module):
    """A function of arrays, with all that does not depend on them done already."""

    known: list[Array]
    """What was computed before and is needed."""
    program: Program = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @eqx.filter_jit  # traced once, however often a solver asks for it
    def __call__(self, *arguments: Any) -> Any:
        slots = [*jax.tree.leaves(arguments)]

        def value(source: Any) -> Any:
            if isinstance(source, Late):
                return slots[source.slot]
            return self.known[source.place] if isinstance(source, Known) else source

        for equation, sources in self.program.steps:
            slots += _apply(equation, [value(s) for s in sources])
        return jax.tree.unflatten(self.structure, [value(s) for s in self.program.results])


class Known(NamedTuple):
    """A value that was computed before: its place in `Hoisted.known`."""

    place: int


def hoist(function: Callable[..., Any], *examples: Any) -> Hoisted:
    """`function`, for arguments of the shapes of `examples`; what it closes over is what does not change."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*examples)
    program = Program()
    inputs = program.late(len(closed.jaxpr.invars))
    program.results = program.add(closed.jaxpr, closed.consts, inputs)
    known: list[Any] = []
    places: dict[int, Known] = {}

    def placed(source: Any) -> Any:
        if isinstance(source, Late) or not isinstance(source, jax.Array):
            return source
        if id(source) not in places:
            places[id(source)] = Known(len(known))
            known.append(source)
        return places[id(source)]

    program.steps = [(equation, [placed(s) for s in sources]) for equation, sources in program.steps]
    program.results = [placed(s) for s in program.results]
    return Hoisted(known, program, jax.tree.structure(shape))


def _apply(equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
    if equation.primitive is jax.lax.dot_general_p:
        product = _small_product(*inputs, *equation.params["dimension_numbers"])
        if product is not None:
            return [product]
    found = equation.primitive.bind(*inputs, **equation.primitive.get_bind_params(equation.params))
    return list(found) if equation.primitive.multiple_results else [found]


def _key(equation: JaxprEqn, sources: list[Any]) -> Any:
    """What makes two equations the same, or None where that cannot be told."""
    if equation.effects:
        return None
    which = tuple(s if isinstance(s, Late) else id(s) for s in sources)
    try:
        key = (equation.primitive, tuple(sorted(equation.params.items(), key=lambda p: p[0])), which)
        hash(key)
    except TypeError:
        return None
    return key


def _small_product(left: Any, right: Any, summed: Any, batch: Any) -> Array | None:
    """A product of small matrices as a plain sum; None for what XLA compiles well by itself.

    From eight rows on XLA calls Eigen, which costs more than the sum, and does not compile the loop around it as one
    piece (see `bricard.SMALL_LOOPS`).
    """
    operands = []
    for x, over, along in zip((left, right), summed, batch, strict=True):
        free = [i for i in range(x.ndim) if i not in over and i not in along]
        lengths = [math.prod(x.shape[i] for i in axes) for axes in (free, over)]
        operands.append((jnp.transpose(x, (*along, *free, *over)), len(free), lengths))
    (left, m, (rows, inner)), (right, n, (columns, _)) = operands
    if min(rows, columns) == 1 or max(rows, columns, inner) < CALLS_EIGEN or rows * columns * inner > LARGEST_SUM:
        return None
    k = len(batch[0])
    left = jnp.expand_dims(left, tuple(range(k + m, k + m + n)))
    right = jnp.expand_dims(right, tuple(range(k, k + m)))
    return jnp.sum(left * right, axis=tuple(range(k + m + n, left.ndim)))
