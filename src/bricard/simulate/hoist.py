"""Doing once what does not change: what depends on the model alone leaves the loop over time, and loops inside it.

XLA moves no work out of loops, and the parameters of a model are inputs of the compiled program: without this, whatever
follows from them alone would be computed again in every evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jax.extend.core.primitives import scan_p
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array

from bricard.tracing import for_llvm

SHORT, LARGEST_SUM = 8, 16**3
"""Products of matrices are written as sums up to this many terms, with vectors if these are shorter than `SHORT`."""


class Late:
    """A value that is not known yet."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval


class Program:
    """What remains to be done: equations, each with its inputs and its results.

    Inputs are values known before or late ones; those of the body of a loop may be late in the program around it.
    """

    def __init__(self, inputs: Sequence[Any], around: Program | None = None):
        self.inputs = [Late(aval) for aval in inputs]
        self.steps: list[tuple[JaxprEqn, list[Any], list[Late]]] = []
        self.results: list[Any] = []
        self.around = around
        self._own = set(self.inputs)
        self._done: dict[Any, list[Any]] = {}

    def add(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
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
            found = self._find(equation, sources)
            if key is None:
                return found
            self._done[key] = [found, sources]  # holding the sources keeps their `id`s from being used again
        return self._done[key][0]

    def _finds(self, source: Any) -> bool:
        """Whether it is late in this program."""
        return isinstance(source, Late) and source in self._own

    def _find(self, equation: JaxprEqn, sources: list[Any]) -> list[Any]:
        inner = equation.params.get("jaxpr")
        if equation.primitive.name == "jit" and isinstance(inner, ClosedJaxpr):
            return self.add(inner.jaxpr, inner.consts, sources)
        if equation.effects or any(self._finds(s) for s in sources):
            if equation.primitive is scan_p:
                equation, sources = self._loop(equation, sources)
            found = [Late(v.aval) for v in equation.outvars]
            self._own |= set(found)
            self.steps.append((equation, sources, found))
            return found
        return _apply(equation, sources) if self.around is None else self.around._results(equation, sources)

    def _loop(self, equation: JaxprEqn, sources: list[Any]) -> tuple[JaxprEqn, list[Any]]:
        """A loop with all that is the same in every round done before."""
        body, count = equation.params["jaxpr"], equation.params["num_consts"]
        consts, varying = sources[:count], sources[count:]
        inside = Program(body.in_avals[count:], around=self)
        inside.results = inside.add(body.jaxpr, body.consts, [*consts, *inside.inputs])
        outside = inside.ask()
        count = len(inside.inputs) - len(outside)

        def round(*values: Any) -> list[Any]:  # the same goes first here, what varies there
            return inside.run([*values[len(outside) :], *values[: len(outside)]])

        avals = [x.aval for x in (*inside.inputs[count:], *inside.inputs[:count])]
        params = equation.params | {"jaxpr": jax.make_jaxpr(round)(*avals), "num_consts": len(outside)}
        return equation.replace(params=params), [*outside, *varying]

    def ask(self) -> list[Any]:
        """Make inputs of all arrays in it, and of what is late in the program around it. Nothing is added after that.

        (Programs are kept, values of a trace must not be.)
        """
        asked: dict[int, tuple[Any, Late]] = {}

        def without(source: Any) -> Any:
            if not isinstance(source, (Late, jax.Array)) or self._finds(source):
                return source
            if id(source) not in asked:
                asked[id(source)] = source, Late(source.aval)
            return asked[id(source)][1]

        self.steps = [(equation, [without(s) for s in sources], found) for equation, sources, found in self.steps]
        self.results = [without(s) for s in self.results]
        self.inputs += [late for _, late in asked.values()]
        self.around, self._done = None, {}
        return [source for source, _ in asked.values()]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Its results."""
        values = dict(zip(self.inputs, inputs, strict=True))

        def value(source: Any) -> Any:
            return values[source] if isinstance(source, Late) else source

        for equation, sources, found in self.steps:
            values |= zip(found, _apply(equation, [value(s) for s in sources]), strict=True)
        return [value(s) for s in self.results]


class Hoisted(eqx.Module):
    """A function of arrays, with all that does not depend on them done already."""

    known: list[Array]
    """What was computed before and is needed: the last inputs of the program."""
    program: Program = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @eqx.filter_jit  # traced once, however often a solver asks for it
    def __call__(self, *arguments: Any) -> Any:
        return jax.tree.unflatten(self.structure, self.program.run([*jax.tree.leaves(arguments), *self.known]))


def hoist(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """`function`, for arguments of the shapes of `examples`; what it closes over is what does not change."""
    if for_llvm():
        return function
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*examples)
    # A third of it are values that nobody needs, next to derivatives that are: less to trace again and to compile.
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    program = Program([v.aval for v in jaxpr.invars])
    program.results = program.add(jaxpr, closed.consts, program.inputs)
    return Hoisted(program.ask(), program, jax.tree.structure(shape))


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
    which = tuple(map(id, sources))
    try:
        key = (equation.primitive, tuple(sorted(equation.params.items(), key=lambda p: p[0])), which)
        hash(key)
    except TypeError:
        return None
    return key


def _small_product(left: Any, right: Any, summed: Any, batch: Any) -> Array | None:
    """A product of small matrices as a plain sum; None for what XLA compiles well by itself.

    From eight rows on XLA calls Eigen, which costs more than the sum, and does not compile the loop around it as one
    piece (see `bricard.SMALL_LOOPS`). Smaller ones it writes out in hundreds of lines, which take long to compile.
    """
    operands = []
    for x, over, along in zip((left, right), summed, batch, strict=True):
        free = [i for i in range(x.ndim) if i not in over and i not in along]
        lengths = [math.prod(x.shape[i] for i in axes) for axes in (free, over)]
        operands.append((jnp.transpose(x, (*along, *free, *over)), len(free), lengths))
    (left, m, (rows, inner)), (right, n, (columns, _)) = operands
    longest = max(rows, columns, inner)
    if rows * columns * inner > LARGEST_SUM or (min(rows, columns) == 1 and longest >= SHORT):
        return None
    k = len(batch[0])
    left = jnp.expand_dims(left, tuple(range(k + m, k + m + n)))
    right = jnp.expand_dims(right, tuple(range(k, k + m)))
    return jnp.sum(left * right, axis=tuple(range(k + m + n, left.ndim)))
