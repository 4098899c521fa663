"""Translation of a jaxpr to instructions: equation by equation, with calls inlined and loops kept as loops."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from bricard.execution.llvm.algebra_rules import ALGEBRA_RULES
from bricard.execution.llvm.arithmetic import Code, Unsupported, is_constant
from bricard.execution.llvm.array_rules import ARRAY_RULES, elementwise
from bricard.execution.llvm.index_rules import INDEX_RULES
from bricard.execution.llvm.scalar_rules import IDENTITIES, SCALAR_RULES
from bricard.execution.llvm.scalar_types import INTEGERS, scalar_type_of
from bricard.execution.llvm.stop import TARGET
from bricard.execution.llvm.values import Memory, Values, as_object_array

RULES_ON_ARRAYS = ARRAY_RULES | INDEX_RULES | ALGEBRA_RULES
CALL_PRIMITIVES = (
    *("jit", "pjit", "closed_call", "core_call", "core_closed_call", "checkpoint", "remat", "remat2"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin"),
)
"""Primitives that only evaluate an inner jaxpr, which is inlined."""
MAX_CARRIED = 64
"""Vectors in the carry of a loop with more elements than this are kept in memory, not in registers."""
MAX_UNROLLED = 16
"""Scans of up to this many iterations are unrolled."""


class Translation:
    """Translates the equations of a jaxpr into `code`."""

    def __init__(self) -> None:
        self.code = Code()
        self.values = Values(self.code)

    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """Translate a jaxpr applied to `inputs`; returns its results."""
        environment: dict[Any, Any] = {}
        last_use: dict[Any, int] = {}
        for i, equation in enumerate(jaxpr.eqns):
            last_use |= {v: i for v in equation.invars if not isinstance(v, Literal)}
        last_use |= {v: len(jaxpr.eqns) for v in jaxpr.outvars if not isinstance(v, Literal)}

        def bind(v: Any, x: Any) -> None:
            if v in last_use:
                environment[v] = x
                if isinstance(x, Memory):
                    x.references += 1

        def read(v: Any, position: int) -> Any:
            if isinstance(v, Literal):
                return constant_array(v.val)
            x = environment[v]
            if last_use[v] == position and isinstance(x, Memory):
                x.references -= 1
                last_use[v] = -1  # decrement once, even if the variable occurs twice
            return x

        for v, x in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True):
            bind(v, x)
        for i, equation in enumerate(jaxpr.eqns):
            args = [read(v, i) for v in equation.invars]
            found = self._equation(equation, args)
            for v, x in zip(equation.outvars, found, strict=True):
                bind(v, x)
            for v in equation.invars:
                if not isinstance(v, Literal) and last_use[v] in (-1, i):
                    environment.pop(v, None)
        return [read(v, len(jaxpr.eqns)) for v in jaxpr.outvars]

    def _equation(self, equation: Any, args: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        out = [v.aval for v in equation.outvars]
        if name in IDENTITIES:
            return args
        if name in SCALAR_RULES or name in RULES_ON_ARRAYS:
            types = [scalar_type_of(v.aval) for v in equation.invars]
            for aval in out:
                scalar_type_of(aval)
            if name in RULES_ON_ARRAYS:
                return RULES_ON_ARRAYS[name](self.values, params, args, types, out)
            operation = SCALAR_RULES[name](self.code, params, types)
            return [elementwise(self.values, operation, out[0].shape, scalar_type_of(out[0]), args, types)]
        if name == "ffi_call" and params["target_name"] == TARGET:
            return [as_object_array(self._stop_requested())]
        if name == "while":
            return self._while(params, args, out)
        if name == "scan":
            return self._scan(params, args, out)
        if name == "cond":
            return self._cond(params, args, out)
        for inside in (params.get(key) for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if name in CALL_PRIMITIVES):
            if isinstance(inside, ClosedJaxpr):
                return self._closed(inside, args)
            if isinstance(inside, Jaxpr):
                return self.run(inside, [], args)
        raise Unsupported(f"the operation {name}")

    def _stop_requested(self) -> str:
        """True if a stop is requested, or if a guard raised an alarm and the results will be discarded."""
        code = self.code
        outside = code.emit("load volatile i64, ptr {}", code.parameter("%stop"), types="p", impure=True)
        alarm = code.emit("load i64, ptr {}", code.parameter("%memory"), types="p", impure=True)
        return code.compare("ne", "i", code.bitwise("or", outside, alarm, "i"), 0)

    def _closed(self, closed: Any, inputs: Sequence[Any]) -> list[Any]:
        return self.run(closed.jaxpr, [constant_array(c) for c in closed.consts], inputs)

    def _while(self, params: Any, args: list[Any], out: list[Any]) -> list[Any]:
        """Carried matrices and long vectors live in memory and are overwritten; all others are scalarised."""
        values, code = self.values, self.code
        condition, body = params["cond_jaxpr"], params["body_jaxpr"]
        if condition.out_avals[0].shape:
            raise Unsupported("a batch of loops")
        n, m = params["cond_nconsts"], params["body_nconsts"]
        condition_consts, body_consts, start = args[:n], args[n : n + m], args[n + m :]
        in_memory = [(len(aval.shape) > 1 and aval.size > 0) or aval.size > MAX_CARRIED for aval in out]
        types = [scalar_type_of(aval) for aval in out]
        slots = [
            values.stored_copy(x, scalar_type) if rows else None
            for x, scalar_type, rows in zip(start, types, in_memory, strict=True)
        ]
        flat = self._flattened([x for x, rows in zip(start, in_memory, strict=True) if not rows])
        flat_types = "".join(k * aval.size for aval, k, rows in zip(out, types, in_memory, strict=True) if not rows)

        def arrays(carried: Sequence[Any]) -> list[Any]:
            rest = iter(
                _unflattened(carried, [aval.shape for aval, slot in zip(out, slots, strict=True) if slot is None])
            )
            return [next(rest) if slot is None else slot for slot in slots]

        def continues(*carried: Any) -> Any:
            with pinned(slots):  # evaluating the condition must not mutate the carry
                return values.scalars(self._closed(condition, [*condition_consts, *arrays(carried)])[0])[()]

        def step(*carried: Any) -> list[Any]:
            found = self._closed(body, [*body_consts, *arrays(carried)])
            # Results that may still read from a slot are copied before any slot is overwritten.
            found = [
                values.stored_copy(x, scalar_type)
                if slot is not None and x is not slot and not isinstance(x, np.ndarray)
                else x
                for x, scalar_type, slot in zip(found, types, slots, strict=True)
            ]
            following = self._flattened([x for x, slot in zip(found, slots, strict=True) if slot is None])
            for x, slot in zip(found, slots, strict=True):
                if slot is not None and x is not slot:
                    values.write(slot, x)
            return following

        with pinned((*condition_consts, *body_consts)):
            return arrays(code.loop(flat_types, flat, continues, step))

    def _scan(self, params: Any, args: list[Any], out: list[Any]) -> list[Any]:
        n, m, iterations = params["num_consts"], params["num_carry"], params["length"]
        consts, carry, rows = args[:n], args[n : n + m], args[n + m :]
        body, order = params["jaxpr"], range(iterations)[::-1] if params["reverse"] else range(iterations)
        if iterations > MAX_UNROLLED:
            return self._long_scan(body, consts, carry, rows, out, order)
        results = [np.empty(aval.shape, dtype=object) for aval in out[m:]]
        with pinned((*consts, *rows)):
            for i in order:
                found = self._closed(body, [*consts, *carry, *self._rows(rows, i, body.in_avals[n + m :])])
                carry = found[:m]
                for result, x in zip(results, found[m:], strict=True):
                    result[i, ...] = self.values.scalars(x)  # the ellipsis is needed for 0-d arrays
        return [*carry, *results]

    def _long_scan(self, body: Any, consts: Any, carry: Any, rows: Any, out: list[Any], order: range) -> list[Any]:
        """A scan translated to a loop; its stacked outputs are written to memory."""
        values, code, m = self.values, self.code, len(carry)
        types, shapes = [scalar_type_of(aval) for aval in out], [aval.shape for aval in out]
        results = [
            Memory(code.reserve(math.prod(shape)), shape, scalar_type)
            for shape, scalar_type in zip(shapes[m:], types[m:], strict=True)
        ]

        def step(k: Any, *carried: Any) -> list[Any]:
            i = k if order.step > 0 else code.int_op("sub", order[0], k)
            row = self._rows(rows, i, body.in_avals[len(consts) + m :])
            found = self._closed(body, [*consts, *_unflattened(carried, shapes[:m]), *row])
            for result, x in zip(results, found[m:], strict=True):
                for index, value in np.ndenumerate(values.scalars(x)):
                    code.store(result.base, values.offset(result.shape, (i, *index)), result.scalar_type, value)
            return [code.int_op("add", k, 1), *self._flattened(found[:m])]

        def continues(k: Any, *_: Any) -> Any:
            return code.compare("lt", "i", k, len(order))

        flat_types = "i" + "".join(k * aval.size for k, aval in zip(types[:m], out, strict=False))
        with pinned((*consts, *rows)):
            last_use = code.loop(flat_types, [0, *self._flattened(carry)], continues, step)[1:]
        return [*_unflattened(last_use, shapes[:m]), *results]

    def _rows(self, arrays: Sequence[Any], i: Any, avals: Sequence[Any]) -> list[np.ndarray]:
        """Row `i` of each array, scalarised; `avals` are the abstract values of the rows."""
        rows = [np.empty(aval.shape, dtype=object) for aval in avals]
        for x, row, aval in zip(arrays, rows, avals, strict=True):
            for index in np.ndindex(row.shape):
                row[index] = self.values.element(x, (i, *index), scalar_type_of(aval))
        return rows

    def _flattened(self, arrays: Sequence[Any]) -> list[Any]:
        return [y for x in arrays for y in self.values.scalars(x).ravel()]

    def _cond(self, params: Any, args: list[Any], out: list[Any]) -> list[Any]:
        branches, (which, *inputs) = params["branches"], args
        chosen = self.values.scalars(which)[()]
        if is_constant(chosen):
            return self._closed(branches[min(max(int(chosen), 0), len(branches) - 1)], inputs)
        if len(branches) != 2:
            raise Unsupported("a conditional with more than two branches")
        types = [scalar_type_of(aval) for aval in out]

        def branch(closed: Any) -> Any:
            return lambda: self._flattened(self._closed(closed, inputs))

        code = self.code
        chosen = code.compare("gt", "i", chosen, 0)  # the index is usually a converted boolean
        flat_types = "".join(k * aval.size for k, aval in zip(types, out, strict=True))
        with pinned(inputs):  # neither branch may mutate the inputs of the other
            found = code.branch(chosen, flat_types, [branch(w) for w in branches])
        return _unflattened(found, [aval.shape for aval in out])


@contextlib.contextmanager
def pinned(arrays: Sequence[Any]) -> Iterator[None]:
    """Inside the `with` block these arrays are not overwritten."""
    memories = [x for x in arrays if isinstance(x, Memory)]
    for x in memories:
        x.references += 1
    yield
    for x in memories:
        x.references -= 1


def _unflattened(scalars: Sequence[Any], shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Arrays of these shapes from their elements in order; inverse of `_flattened`."""
    rest = iter(scalars)
    arrays = [np.empty(shape, dtype=object) for shape in shapes]
    for array in arrays:
        for index in np.ndindex(array.shape):
            array[index] = next(rest)
    return arrays


def inner_jaxprs(equation: Any) -> list[Jaxpr]:
    """The jaxprs inside an equation: of calls, loops and branches."""
    values = [x for p in equation.params.values() for x in (p if isinstance(p, (tuple, list)) else (p,))]
    return [x.jaxpr if isinstance(x, ClosedJaxpr) else x for x in values if isinstance(x, (Jaxpr, ClosedJaxpr))]


def unrolled_copies(equation: Any) -> int:
    """Number of times the inner jaxpr of an equation is emitted."""
    iterations = equation.params["length"] if equation.primitive.name == "scan" else 1
    return iterations if iterations <= MAX_UNROLLED else 1


def constant_array(x: Any) -> Any:
    """Object array of Python scalars, which are constants of the program."""
    x = np.asarray(x)
    scalar_type = scalar_type_of(x)
    convert = int if scalar_type in INTEGERS else float if scalar_type == "f" else bool
    result = np.empty(x.shape, dtype=object)
    for index in np.ndindex(x.shape):
        result[index] = convert(x[index])
    return result
