"""Instructions of a program on single numbers, as text for LLVM, with all that is known in advance left out.

A number is a Python `float`, `int` or `bool` if it is known, otherwise the name of a register (`str`). Its kind is "f"
(double), "i" (64 bits) or "b" (one bit). An instruction goes where its inputs are known, so that what does not change
in a loop is done before it, and the same one on the same inputs is done once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

TYPES = {"f": "double", "i": "i64", "b": "i1"}

LARGEST = 40_000
"""More instructions than this take longer to compile than they are worth."""


class Unsupported(Exception):
    """What only XLA can compile."""


class _Level:
    """Instructions of a loop or a branch, in the order of the program."""

    def __init__(self, block: str):
        self.lines: list[tuple[str | None, str, tuple[Any, ...]]] = []
        self.seen: dict[Any, Any] = {}
        self.block = block
        """Label of the block that its next instruction is in."""


class Code:
    """Of one function; loops inside loops are levels."""

    def __init__(self) -> None:
        self._levels = [_Level("entry")]
        self._level_of: dict[str, int] = {}
        self._names = 0
        self._floor = 0
        """Nothing moves out of a branch: it may be there to be left out."""
        self._count = 0
        self.words = 0
        """Of working memory (8 bytes each)."""

    # Instructions.

    def _name(self, level: int) -> str:
        self._names += 1
        name = f"%r{self._names}"
        self._level_of[name] = level
        return name

    def _put(self, level: int, name: str | None, text: str, inputs: Sequence[Any]) -> None:
        self._count += 1
        if self._count > LARGEST:
            raise Unsupported("too many operations")
        self._levels[level].lines.append((name, text, tuple(x for x in inputs if isinstance(x, str))))

    def make(self, template: str, *inputs: Any, kinds: str, fixed: bool = False) -> str:
        """The result of an instruction `template`, filled with its `inputs` of these `kinds`.

        `fixed`: it stays where it is and is done again, since it reads what may change.
        """
        top = len(self._levels) - 1
        level = top if fixed else max([self._floor, *(self._level_of[x] for x in inputs if isinstance(x, str))])
        key = (template, tuple(map(_told_apart, inputs)), tuple(map(type, inputs)))
        if not fixed:
            for k in range(top, -1, -1):
                found = self._levels[k].seen.get(key)
                if found is not None:
                    return found
        name = self._name(level)
        text = f"{name} = " + template.format(*(constant(x, k) for x, k in zip(inputs, kinds, strict=True)))
        self._put(level, name, text, inputs)
        if not fixed:
            self._levels[level].seen[key] = name
        return name

    # Memory.

    def parameter(self, name: str) -> str:
        """The name of a pointer that the function is given."""
        self._level_of[name] = 0
        return name

    def reserve(self, words: int) -> str:
        """Address of so many words of working memory."""
        at, self.words = self.words, self.words + words
        return self.address(self.parameter("%memory"), at)

    def address(self, base: str, index: Any) -> str:
        """Of the word `index` from `base`."""
        return (
            base
            if index == 0 and not isinstance(index, str)
            else self.make("getelementptr i64, ptr {}, i64 {}", base, index, kinds="pi")
        )

    def load(self, base: str, index: Any, kind: str, changes: bool) -> Any:
        """The number at the word `index` from `base`; `changes`: it may be another one later."""
        at = self.address(base, index)
        loaded = self.make(f"load {'i64' if kind == 'b' else TYPES[kind]}, ptr {{}}", at, kinds="p", fixed=changes)
        return self.make("icmp ne i64 {}, 0", loaded, kinds="i") if kind == "b" else loaded

    def store(self, base: str, index: Any, kind: str, value: Any) -> None:
        """Write a number to the word `index` from `base`, here and now."""
        if kind == "b":
            value, kind = self.to_int(value), "i"
        at = self.address(base, index)
        text = f"store {TYPES[kind]} {constant(value, kind)}, ptr {at}"
        self._put(len(self._levels) - 1, None, text, (value, at))

    def table(self, array: Any, kind: str, values: Sequence[Any]) -> str:
        """Address of `values`, written once where all of them are known; `array` is what holds them."""
        level = max([self._floor, *(self._level_of[x] for x in values if isinstance(x, str))])
        key = ("table", id(array))
        for k in range(len(self._levels) - 1, -1, -1):
            if key in self._levels[k].seen:
                return self._levels[k].seen[key][0]
        base = self.reserve(len(values))
        for i, value in enumerate(values):
            value, of = (self.to_int(value), "i") if kind == "b" else (value, kind)
            at = self.address(base, i)
            self._put(level, None, f"store {TYPES[of]} {constant(value, of)}, ptr {at}", (value, at))
        base = self.make("getelementptr i64, ptr {}, i64 0", base, kinds="p")
        self._level_of[base] = level  # not to be read before
        self._levels[level].seen[key] = base, array  # holding the array keeps its `id` from being used again
        return base

    def copy(self, to: str, start: str, words: int) -> None:
        """Copy memory, here and now."""
        text = f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {start}, i64 {8 * words}, i1 false)"
        self._put(len(self._levels) - 1, None, text, (to, start))

    # Loops and branches.

    def loop(self, kinds: str, start: Sequence[Any], on: Callable[..., Any], step: Callable[..., Sequence[Any]]):
        """While `on(*values)`, `values = step(*values)`; the last values."""
        outer = self._levels[-1]
        self._names += 1
        head, body, done = (f"{part}{self._names}" for part in ("head", "body", "done"))
        level = _Level(head)
        self._levels.append(level)
        depth = len(self._levels) - 1
        values = [self._name(depth) for _ in kinds]
        condition = on(*values)
        self._jump(f"br i1 {constant(condition, 'b')}, label %{body}, label %{done}", (condition,), body)
        following = step(*values)
        last = level.block
        self._jump(f"br label %{head}", (), done)
        self._levels.pop()
        phis = [
            (
                value,
                f"{value} = phi {TYPES[k]} [ {constant(x, k)}, %{outer.block} ], [ {constant(y, k)}, %{last} ]",
                tuple(z for z in (x, y) if isinstance(z, str)),
            )
            for value, k, x, y in zip(values, kinds, start, following, strict=True)
        ]
        outer.lines.append((None, f"br label %{head}", ()))
        outer.lines += [(None, f"{head}:", ()), *phis, *level.lines]
        outer.block = done
        for value in values:
            self._level_of[value] = depth - 1
        return values

    def branch(self, condition: Any, kinds: str, ways: Sequence[Callable[[], Sequence[Any]]]) -> list[Any]:
        """What the second of two `ways` gives where `condition` holds, otherwise the first."""
        outer = self._levels[-1]
        self._names += 1
        yes, no, done = (f"{part}{self._names}" for part in ("yes", "no", "join"))
        floor, depth = self._floor, len(self._levels)
        ends, results = [], []
        outer.lines.append(
            (None, f"br i1 {condition}, label %{yes}, label %{no}", (condition,) if isinstance(condition, str) else ())
        )
        for label, way in ((no, ways[0]), (yes, ways[1])):
            level = _Level(label)
            self._levels.append(level)
            self._floor = depth
            results.append(list(way()))
            ends.append(level.block)
            self._jump(f"br label %{done}", (), done)
            self._levels.pop()
            outer.lines += [(None, f"{label}:", ()), *level.lines[:-1]]
        outer.lines.append((None, f"{done}:", ()))
        outer.block, self._floor = done, floor
        values = []
        for k, x, y in zip(kinds, *results, strict=True):
            value = self._name(depth - 1)
            text = f"{value} = phi {TYPES[k]} [ {constant(x, k)}, %{ends[0]} ], [ {constant(y, k)}, %{ends[1]} ]"
            outer.lines.append((value, text, tuple(z for z in (x, y) if isinstance(z, str))))
            values.append(value)
        return values

    def _jump(self, text: str, inputs: Sequence[Any], to: str) -> None:
        level = self._levels[-1]
        level.lines.append((None, text, tuple(x for x in inputs if isinstance(x, str))))
        level.lines.append((None, f"{to}:", ()))
        level.block = to

    def text(self) -> list[str]:
        """All instructions that something depends on."""
        lines = self._levels[0].lines
        inputs_of = {name: inputs for name, _, inputs in lines if name is not None}
        needed: set[str] = set()
        ask = [x for name, _, inputs in lines if name is None for x in inputs]
        while ask:
            name = ask.pop()
            if name not in needed:
                needed.add(name)
                ask += inputs_of.get(name, ())
        return [text for name, text, _ in lines if name is None or name in needed]

    # Arithmetic. What is known is computed here; zero times anything is zero.

    def add(self, x: Any, y: Any) -> Any:
        if known(x):
            x, y = y, x
        if known(x):
            return x + y
        return x if y == 0 and known(y) else self._commuting("fadd contract double {}, {}", x, y)

    def sub(self, x: Any, y: Any) -> Any:
        if known(x) and known(y):
            return x - y
        if known(y) and y == 0:
            return x
        return self.make("fsub contract double {}, {}", x, y, kinds="ff")

    def mul(self, x: Any, y: Any) -> Any:
        if known(x):
            x, y = y, x
        if known(x):
            return x * y
        if known(y) and y in (0.0, 1.0, -1.0):
            return 0.0 if y == 0 else x if y == 1 else self.neg(x)
        return self._commuting("fmul contract double {}, {}", x, y)

    def div(self, x: Any, y: Any) -> Any:
        if known(y):
            if known(x):
                return x / y if y else math.nan if x == 0 or x != x else math.copysign(math.inf, x) * sign(y)
            if y == 1:
                return x
        elif known(x) and x == 0:
            return 0.0
        return self.make("fdiv double {}, {}", x, y, kinds="ff")

    def neg(self, x: Any) -> Any:
        return -x if known(x) else self.make("fneg double {}", x, kinds="f")

    def _commuting(self, template: str, x: Any, y: Any, kinds: str = "ff") -> str:
        if isinstance(y, str) and y < x:
            x, y = y, x
        return self.make(template, x, y, kinds=kinds)

    def call(self, function: str, *inputs: Any) -> Any:
        """A function of numbers that LLVM knows, such as "sqrt"."""
        arguments = ", ".join("double {}" for _ in inputs)
        return self.make(f"call contract double @llvm.{function}.f64({arguments})", *inputs, kinds="f" * len(inputs))

    def next_after(self, x: Any, y: Any) -> Any:
        """The number next to `x` on the way to `y`."""
        if known(x) and known(y):
            return math.nextafter(x, y)
        return self.make("call double @nextafter(double {}, double {})", x, y, kinds="ff")

    def int_op(self, operation: str, x: Any, y: Any) -> Any:
        """`add`, `sub` or `mul` of integers."""
        if known(x) and known(y):
            return {"add": x + y, "sub": x - y, "mul": x * y}[operation]
        if operation != "sub" and known(x):
            x, y = y, x
        if known(y):
            if y == 0:
                return 0 if operation == "mul" else x
            if y == 1 and operation == "mul":
                return x
        return self.make(f"{operation} i64 {{}}, {{}}", x, y, kinds="ii")

    def divided(self, operation: str, x: Any, y: Any) -> Any:
        """`sdiv` or `srem` of integers, towards zero, by a known one."""
        if not known(y) or y == 0:
            raise Unsupported("division of integers by what is not known, or zero")
        if known(x):
            whole = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return whole if operation == "sdiv" else x - whole * y
        if y == 1:
            return x if operation == "sdiv" else 0
        return self.make(f"{operation} i64 {{}}, {{}}", x, y, kinds="ii")

    def remainder(self, x: Any, y: Any) -> Any:
        """Of a division of doubles towards zero."""
        if known(x) and known(y) and y != 0 and math.isfinite(x) and math.isfinite(y):
            return math.fmod(x, y)
        return self.make("frem double {}, {}", x, y, kinds="ff")

    def compare(self, how: str, kind: str, x: Any, y: Any) -> Any:
        """`how` is eq, ne, lt, le, gt or ge; NaN is equal to nothing."""
        if known(x) and known(y):
            return _COMPARE[how](x, y)
        if kind == "f":
            return self.make(f"fcmp {'une' if how == 'ne' else 'o' + how} double {{}}, {{}}", x, y, kinds="ff")
        sign = "" if how in ("eq", "ne") else "u" if kind == "b" else "s"
        return self.make(f"icmp {sign}{how} {TYPES[kind]} {{}}, {{}}", x, y, kinds=2 * kind)

    def both(self, x: Any, y: Any) -> Any:
        return self._bits("and", x, y, decides=False)

    def either(self, x: Any, y: Any) -> Any:
        return self._bits("or", x, y, decides=True)

    def _bits(self, operation: str, x: Any, y: Any, decides: bool) -> Any:
        """`and` or `or` of bits; one that `decides` makes the other one irrelevant."""
        if known(x):
            x, y = y, x
        if known(y):
            return decides if y == decides else x
        return x if x == y else self._commuting(f"{operation} i1 {{}}, {{}}", x, y, "bb")

    def differ(self, x: Any, y: Any) -> Any:
        if known(x):
            x, y = y, x
        if known(y):
            return self.invert(x) if y else x
        return self.make("xor i1 {}, {}", x, y, kinds="bb")

    def invert(self, x: Any) -> Any:
        return (not x) if known(x) else self.make("xor i1 {}, true", x, kinds="b")

    def select(self, condition: Any, kind: str, yes: Any, no: Any) -> Any:
        if known(condition):
            return yes if condition else no
        if type(yes) is type(no) and _told_apart(yes) == _told_apart(no):
            return yes
        t = TYPES[kind]
        return self.make(f"select i1 {{}}, {t} {{}}, {t} {{}}", condition, yes, no, kinds="b" + 2 * kind)

    def to_float(self, x: Any, kind: str) -> Any:
        if known(x):
            return float(x)
        return self.make(f"{'ui' if kind == 'b' else 'si'}tofp {TYPES[kind]} {{}} to double", x, kinds=kind)

    def to_int(self, x: Any) -> Any:
        """From a bit."""
        return int(x) if known(x) else self.make("zext i1 {} to i64", x, kinds="b")

    def cut(self, x: Any, bits: int) -> Any:
        """From a double, towards zero, to the nearest integer that there is; NaN is zero."""
        if known(x):
            limit = 2 ** (bits - 1)
            return 0 if x != x else int(max(-limit, min(x, limit - 1)))
        cut = self.make(f"call i{bits} @llvm.fptosi.sat.i{bits}.f64(double {{}})", x, kinds="f")
        return cut if bits == 64 else self.make(f"sext i{bits} {{}} to i64", cut, kinds="i")


def sign(x: float) -> float:
    """1 or -1, of zeros too."""
    return math.copysign(1.0, x)


def _told_apart(x: Any) -> Any:
    """A number, so that zero and minus zero differ."""
    return ("-", 0.0) if isinstance(x, float) and x == 0.0 and sign(x) < 0 else x


def known(x: Any) -> bool:
    """Whether a number is known in advance."""
    return not isinstance(x, str)


def constant(x: Any, kind: str) -> str:
    """A number as LLVM writes it."""
    if isinstance(x, str):
        return x
    if kind == "f":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(x)))[0]:016X}"
    return ("true" if x else "false") if kind == "b" else str(int(x))


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
