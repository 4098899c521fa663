"""From JAX' equations to instructions: one after another, calls written out, loops as loops."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from bricard.native.algebra import ALGEBRA
from bricard.native.code import Code, Unsupported, known
from bricard.native.indices import INDICES
from bricard.native.kinds import INTEGERS, kind_of
from bricard.native.numbers import NUMBERWISE, UNCHANGED
from bricard.native.shapes import SHAPES, elementwise
from bricard.native.stop import TARGET
from bricard.native.values import Memory, Values, single

ARRAYWISE = SHAPES | INDICES | ALGEBRA
CALLS = (
    *("jit", "pjit", "closed_call", "core_call", "core_closed_call", "checkpoint", "remat", "remat2"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin"),
)
"""Operations that only do what is inside them."""
MANY = 64
"""Longer arrays that a loop hands on are kept in memory."""
WRITTEN_OUT = 16
"""Rounds of a loop up to this number are written out, one after another."""


class Translation:
    """Of equations into code."""

    def __init__(self) -> None:
        self.code = Code()
        self.values = Values(self.code)

    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The results of equations on arrays."""
        held: dict[Any, Any] = {}
        last: dict[Any, int] = {}
        for i, equation in enumerate(jaxpr.eqns):
            last |= {v: i for v in equation.invars if not isinstance(v, Literal)}
        last |= {v: len(jaxpr.eqns) for v in jaxpr.outvars if not isinstance(v, Literal)}

        def hold(v: Any, x: Any) -> None:
            if v in last:
                held[v] = x
                if isinstance(x, Memory):
                    x.holders += 1

        def take(v: Any, now: int) -> Any:
            if isinstance(v, Literal):
                return constants(v.val)
            x = held[v]
            if last[v] == now and isinstance(x, Memory):
                x.holders -= 1
                last[v] = -1  # once, even if it is there twice
            return x

        for v, x in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True):
            hold(v, x)
        for i, equation in enumerate(jaxpr.eqns):
            args = [take(v, i) for v in equation.invars]
            found = self._equation(equation, args)
            for v, x in zip(equation.outvars, found, strict=True):
                hold(v, x)
            for v in equation.invars:
                if not isinstance(v, Literal) and last[v] in (-1, i):
                    held.pop(v, None)
        return [take(v, len(jaxpr.eqns)) for v in jaxpr.outvars]

    def _equation(self, equation: Any, args: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        out = [v.aval for v in equation.outvars]
        if name in UNCHANGED:
            return args
        if name in NUMBERWISE or name in ARRAYWISE:
            kinds = [kind_of(v.aval) for v in equation.invars]
            for aval in out:
                kind_of(aval)
            if name in ARRAYWISE:
                return ARRAYWISE[name](self.values, params, args, kinds, out)
            operation = NUMBERWISE[name](self.code, params, kinds)
            return [elementwise(self.values, operation, out[0].shape, kind_of(out[0]), args, kinds)]
        if name == "ffi_call" and params["target_name"] == TARGET:
            return [single(self._stop_requested())]
        if name == "while":
            return self._while(params, args, out)
        if name == "scan":
            return self._scan(params, args, out)
        if name == "cond":
            return self._cond(params, args, out)
        for inside in (params.get(key) for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if name in CALLS):
            if isinstance(inside, ClosedJaxpr):
                return self._closed(inside, args)
            if isinstance(inside, Jaxpr):
                return self.run(inside, [], args)
        raise Unsupported(f"the operation {name}")

    def _stop_requested(self) -> str:
        """Whether someone outside asks for the end, or a guard has made the run worthless."""
        code = self.code
        outside = code.make("load volatile i64, ptr {}", code.parameter("%stop"), kinds="p", fixed=True)
        alarm = code.make("load i64, ptr {}", code.parameter("%memory"), kinds="p", fixed=True)
        return code.compare("ne", "i", code.bitwise("or", outside, alarm, "i"), 0)

    def _closed(self, closed: Any, inputs: Sequence[Any]) -> list[Any]:
        return self.run(closed.jaxpr, [constants(c) for c in closed.consts], inputs)

    def _while(self, params: Any, args: list[Any], out: list[Any]) -> list[Any]:
        """Arrays with rows are kept in memory and written over, all others are numbers."""
        values, code = self.values, self.code
        condition, body = params["cond_jaxpr"], params["body_jaxpr"]
        if condition.out_avals[0].shape:
            raise Unsupported("a batch of loops")
        n, m = params["cond_nconsts"], params["body_nconsts"]
        of_condition, of_body, start = args[:n], args[n : n + m], args[n + m :]
        in_memory = [(len(aval.shape) > 1 and aval.size > 0) or aval.size > MANY for aval in out]
        kinds = [kind_of(aval) for aval in out]
        slots = [values.kept(x, kind) if rows else None for x, kind, rows in zip(start, kinds, in_memory, strict=True)]
        flat = self._numbers([x for x, rows in zip(start, in_memory, strict=True) if not rows])
        types = "".join(k * aval.size for aval, k, rows in zip(out, kinds, in_memory, strict=True) if not rows)

        def arrays(given: Sequence[Any]) -> list[Any]:
            rest = iter(_gathered(given, [aval.shape for aval, slot in zip(out, slots, strict=True) if slot is None]))
            return [next(rest) if slot is None else slot for slot in slots]

        def on(*given: Any) -> Any:
            with held(slots):  # to be asked is not to be changed
                return values.numbers(self._closed(condition, [*of_condition, *arrays(given)])[0])[()]

        def step(*given: Any) -> list[Any]:
            found = self._closed(body, [*of_body, *arrays(given)])
            # What may be read from memory that is written to next is moved out of the way first.
            found = [
                values.kept(x, kind) if slot is not None and x is not slot and not isinstance(x, np.ndarray) else x
                for x, kind, slot in zip(found, kinds, slots, strict=True)
            ]
            following = self._numbers([x for x, slot in zip(found, slots, strict=True) if slot is None])
            for x, slot in zip(found, slots, strict=True):
                if slot is not None and x is not slot:
                    values.write(slot, x)
            return following

        with held((*of_condition, *of_body)):
            return arrays(code.loop(types, flat, on, step))

    def _scan(self, params: Any, args: list[Any], out: list[Any]) -> list[Any]:
        n, m, rounds = params["num_consts"], params["num_carry"], params["length"]
        consts, carry, rows = args[:n], args[n : n + m], args[n + m :]
        body, order = params["jaxpr"], range(rounds)[::-1] if params["reverse"] else range(rounds)
        if rounds > WRITTEN_OUT:
            return self._long_scan(body, consts, carry, rows, out, order)
        results = [np.empty(aval.shape, dtype=object) for aval in out[m:]]
        with held((*consts, *rows)):
            for i in order:
                found = self._closed(body, [*consts, *carry, *self._rows(rows, i, body.in_avals[n + m :])])
                carry = found[:m]
                for result, x in zip(results, found[m:], strict=True):
                    result[i, ...] = self.values.numbers(x)  # also of single numbers
        return [*carry, *results]

    def _long_scan(self, body: Any, consts: Any, carry: Any, rows: Any, out: list[Any], order: range) -> list[Any]:
        """As a loop; what each round gives is kept in memory."""
        values, code, m = self.values, self.code, len(carry)
        kinds, shapes = [kind_of(aval) for aval in out], [aval.shape for aval in out]
        results = [
            Memory(code.reserve(math.prod(shape)), shape, kind)
            for shape, kind in zip(shapes[m:], kinds[m:], strict=True)
        ]

        def step(k: Any, *given: Any) -> list[Any]:
            i = k if order.step > 0 else code.int_op("sub", order[0], k)
            row = self._rows(rows, i, body.in_avals[len(consts) + m :])
            found = self._closed(body, [*consts, *_gathered(given, shapes[:m]), *row])
            for result, x in zip(results, found[m:], strict=True):
                for index, value in np.ndenumerate(values.numbers(x)):
                    code.store(result.base, values.offset(result.shape, (i, *index)), result.kind, value)
            return [code.int_op("add", k, 1), *self._numbers(found[:m])]

        def on(k: Any, *_: Any) -> Any:
            return code.compare("lt", "i", k, len(order))

        types = "i" + "".join(k * aval.size for k, aval in zip(kinds[:m], out, strict=False))
        with held((*consts, *rows)):
            last = code.loop(types, [0, *self._numbers(carry)], on, step)[1:]
        return [*_gathered(last, shapes[:m]), *results]

    def _rows(self, arrays: Sequence[Any], i: Any, avals: Sequence[Any]) -> list[np.ndarray]:
        """The `i`-th of each; `avals` are theirs."""
        rows = [np.empty(aval.shape, dtype=object) for aval in avals]
        for x, row, aval in zip(arrays, rows, avals, strict=True):
            for index in np.ndindex(row.shape):
                row[index] = self.values.element(x, (i, *index), kind_of(aval))
        return rows

    def _numbers(self, arrays: Sequence[Any]) -> list[Any]:
        return [y for x in arrays for y in self.values.numbers(x).ravel()]

    def _cond(self, params: Any, args: list[Any], out: list[Any]) -> list[Any]:
        ways, (which, *inputs) = params["branches"], args
        chosen = self.values.numbers(which)[()]
        if known(chosen):
            return self._closed(ways[min(max(int(chosen), 0), len(ways) - 1)], inputs)
        if len(ways) != 2:
            raise Unsupported("a choice of more than two ways")
        kinds = [kind_of(aval) for aval in out]

        def way(closed: Any) -> Any:
            return lambda: self._numbers(self._closed(closed, inputs))

        code = self.code
        chosen = code.compare("gt", "i", chosen, 0)  # an index; what comes from a bit is found again as one
        types = "".join(k * aval.size for k, aval in zip(kinds, out, strict=True))
        with held(inputs):  # one way must not change them for the other
            found = code.branch(chosen, types, [way(w) for w in ways])
        return _gathered(found, [aval.shape for aval in out])


@contextlib.contextmanager
def held(arrays: Sequence[Any]) -> Iterator[None]:
    """Nobody may write over these meanwhile."""
    memories = [x for x in arrays if isinstance(x, Memory)]
    for x in memories:
        x.holders += 1
    yield
    for x in memories:
        x.holders -= 1


def _gathered(numbers: Sequence[Any], shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Arrays of these shapes, from their numbers one after another."""
    rest = iter(numbers)
    arrays = [np.empty(shape, dtype=object) for shape in shapes]
    for array in arrays:
        for index in np.ndindex(array.shape):
            array[index] = next(rest)
    return arrays


def inner(equation: Any) -> list[Jaxpr]:
    """The equations inside an equation: of calls, loops and ways."""
    values = [x for p in equation.params.values() for x in (p if isinstance(p, (tuple, list)) else (p,))]
    return [x.jaxpr if isinstance(x, ClosedJaxpr) else x for x in values if isinstance(x, (Jaxpr, ClosedJaxpr))]


def rounds_written_out(equation: Any) -> int:
    """How many copies of what is inside it are made."""
    rounds = equation.params["length"] if equation.primitive.name == "scan" else 1
    return rounds if rounds <= WRITTEN_OUT else 1


def constants(x: Any) -> Any:
    """An array of numbers that are known."""
    x = np.asarray(x)
    kind = kind_of(x)
    convert = int if kind in INTEGERS else float if kind == "f" else bool
    result = np.empty(x.shape, dtype=object)
    for index in np.ndindex(x.shape):
        result[index] = convert(x[index])
    return result
