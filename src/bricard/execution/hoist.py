"""Loop-invariant code motion on jaxprs: computations that depend only on the model are moved out of the time loop.

XLA does not hoist work out of loops, and the parameters of a model are inputs of the compiled program. Without this
module, every quantity derived from the parameters alone would be recomputed in every evaluation.
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

from bricard.execution.compile import tracing_for_llvm

SHORT, LARGEST_SUM = 8, 16**3
"""Matrix products of up to `LARGEST_SUM` terms are written as sums; products with vectors only if the vectors are
shorter than `SHORT`."""


class Deferred:
    """Placeholder for a value that is computed when the program runs."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval


class Program:
    """The equations that depend on the inputs, with their operands and outputs; all others are evaluated at once.

    An operand is a concrete value or a `Deferred` one. Operands in the body of a loop may be deferred in the program
    that contains the loop (`outer`).
    """

    def __init__(self, inputs: Sequence[Any], outer: Program | None = None):
        self.inputs = [Deferred(aval) for aval in inputs]
        self.steps: list[tuple[JaxprEqn, list[Any], list[Deferred]]] = []
        self.results: list[Any] = []
        self.outer = outer
        self._own = set(self.inputs)
        self._cache: dict[Any, list[Any]] = {}

    def add(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """Evaluate the equations that depend on no deferred value, append the others, and return the outputs."""
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))
        for equation in jaxpr.eqns:
            operands = [v.val if isinstance(v, Literal) else values[v] for v in equation.invars]
            values |= zip(equation.outvars, self._results(equation, operands), strict=True)
        return [v.val if isinstance(v, Literal) else values[v] for v in jaxpr.outvars]

    def _results(self, equation: JaxprEqn, operands: list[Any]) -> list[Any]:
        """Outputs of one equation; equal equations with the same operands are evaluated once."""
        key = _key(equation, operands)
        if key is None or key not in self._cache:
            outputs = self._evaluate(equation, operands)
            if key is None:
                return outputs
            self._cache[key] = [outputs, operands]  # keep the operands alive: the key contains their `id`s
        return self._cache[key][0]

    def _is_own(self, operand: Any) -> bool:
        """True if `operand` is deferred in this program, not in an outer one."""
        return isinstance(operand, Deferred) and operand in self._own

    def _evaluate(self, equation: JaxprEqn, operands: list[Any]) -> list[Any]:
        inner = equation.params.get("jaxpr")
        if equation.primitive.name == "jit" and isinstance(inner, ClosedJaxpr):
            return self.add(inner.jaxpr, inner.consts, operands)
        if equation.effects or any(self._is_own(s) for s in operands):
            if equation.primitive is scan_p:
                equation, operands = self._hoist_from_scan(equation, operands)
            outputs = [Deferred(v.aval) for v in equation.outvars]
            self._own |= set(outputs)
            self.steps.append((equation, operands, outputs))
            return outputs
        return _apply(equation, operands) if self.outer is None else self.outer._results(equation, operands)

    def _hoist_from_scan(self, equation: JaxprEqn, operands: list[Any]) -> tuple[JaxprEqn, list[Any]]:
        """The scan with loop-invariant equations moved in front of it, and its new operands."""
        body, count = equation.params["jaxpr"], equation.params["num_consts"]
        consts, varying = operands[:count], operands[count:]
        body_program = Program(body.in_avals[count:], outer=self)
        body_program.results = body_program.add(body.jaxpr, body.consts, [*consts, *body_program.inputs])
        captures = body_program.lift_captures()
        count = len(body_program.inputs) - len(captures)

        def iteration(*values: Any) -> list[Any]:  # scan passes constants first; the program takes them last
            return body_program.run([*values[len(captures) :], *values[: len(captures)]])

        avals = [x.aval for x in (*body_program.inputs[count:], *body_program.inputs[:count])]
        params = equation.params | {"jaxpr": jax.make_jaxpr(iteration)(*avals), "num_consts": len(captures)}
        return equation.replace(params=params), [*captures, *varying]

    def lift_captures(self) -> list[Any]:
        """Turn captured arrays and values deferred in the outer program into inputs; return them.

        Programs outlive the trace in which they were made, so they must not hold tracers. No equations can be added
        afterwards.
        """
        captured: dict[int, tuple[Any, Deferred]] = {}

        def lifted(operand: Any) -> Any:
            if not isinstance(operand, (Deferred, jax.Array)) or self._is_own(operand):
                return operand
            if id(operand) not in captured:
                captured[id(operand)] = operand, Deferred(operand.aval)
            return captured[id(operand)][1]

        self.steps = [(equation, [lifted(s) for s in operands], outputs) for equation, operands, outputs in self.steps]
        self.results = [lifted(s) for s in self.results]
        self.inputs += [deferred for _, deferred in captured.values()]
        self.outer, self._cache = None, {}
        return [operand for operand, _ in captured.values()]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for these inputs."""
        values = dict(zip(self.inputs, inputs, strict=True))

        def value(operand: Any) -> Any:
            return values[operand] if isinstance(operand, Deferred) else operand

        for equation, operands, outputs in self.steps:
            values |= zip(outputs, _apply(equation, [value(s) for s in operands]), strict=True)
        return [value(s) for s in self.results]


class Hoisted(eqx.Module):
    """A function of arrays whose input-independent part is already evaluated."""

    constants: list[Array]
    """Values computed in advance: the last inputs of the program."""
    program: Program = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @eqx.filter_jit  # traced once, however often a solver calls it
    def __call__(self, *arguments: Any) -> Any:
        return jax.tree.unflatten(self.structure, self.program.run([*jax.tree.leaves(arguments), *self.constants]))


def hoist(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """Return `function` with its input-independent part, which depends only on captured values, evaluated in advance.

    The result accepts arguments with the shapes of `examples`.
    """
    if tracing_for_llvm():
        return function
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*examples)
    # A third of the equations compute primal values next to derivatives and are never used.
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    program = Program([v.aval for v in jaxpr.invars])
    program.results = program.add(jaxpr, closed.consts, program.inputs)
    return Hoisted(program.lift_captures(), program, jax.tree.structure(shape))


def _apply(equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
    if equation.primitive is jax.lax.dot_general_p:
        product = _small_product(*inputs, *equation.params["dimension_numbers"])
        if product is not None:
            return [product]
    outputs = equation.primitive.bind(*inputs, **equation.primitive.get_bind_params(equation.params))
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def _key(equation: JaxprEqn, operands: list[Any]) -> Any:
    """Key that is equal for equal equations on the same operands; None if the equation cannot be compared."""
    if equation.effects:
        return None
    input_ids = tuple(map(id, operands))
    try:
        key = (equation.primitive, tuple(sorted(equation.params.items(), key=lambda p: p[0])), input_ids)
        hash(key)
    except TypeError:
        return None
    return key


def _small_product(left: Any, right: Any, summed: Any, batch: Any) -> Array | None:
    """A product of small matrices as a sum of elementwise products; None if XLA compiles the product well itself.

    From eight rows on, XLA calls Eigen, which costs more than the sum and keeps XLA from compiling the surrounding
    loop as one piece (see `bricard.configure`). Smaller products are unrolled by XLA, which takes long to compile.
    """
    operands = []
    for x, contracted, batch_axes in zip((left, right), summed, batch, strict=True):
        free = [i for i in range(x.ndim) if i not in contracted and i not in batch_axes]
        lengths = [math.prod(x.shape[i] for i in axes) for axes in (free, contracted)]
        operands.append((jnp.transpose(x, (*batch_axes, *free, *contracted)), len(free), lengths))
    (left, m, (rows, inner)), (right, n, (columns, _)) = operands
    longest = max(rows, columns, inner)
    if rows * columns * inner > LARGEST_SUM or (min(rows, columns) == 1 and longest >= SHORT):
        return None
    k = len(batch[0])
    left = jnp.expand_dims(left, tuple(range(k + m, k + m + n)))
    right = jnp.expand_dims(right, tuple(range(k, k + m)))
    return jnp.sum(left * right, axis=tuple(range(k + m + n, left.ndim)))
