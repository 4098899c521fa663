"""Instructions of a program on single numbers, as text for LLVM.

A number is a Python `float`, `int` or `bool` if it is known, otherwise the name of a register (`str`). Its kind is one
of `kinds.py`. An instruction goes where its inputs are known, so that what does not change in a loop is done before it,
and the same one on the same inputs is done once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from bricard.native.guards import Guards
from bricard.native.kinds import TYPES, Unsupported, wrapped

LARGEST = 40_000
"""More instructions than this take longer to compile than they are worth."""


class _Level:
    """Instructions of a loop or a branch, in the order of the program."""

    def __init__(self, block: str):
        self.lines: list[tuple[str | None, str, tuple[Any, ...]]] = []
        self.seen: dict[Any, Any] = {}
        self.block = block
        """Label of the block that its next instruction is in."""


class Instructions:
    """Of one function; loops inside loops are levels."""

    def __init__(self) -> None:
        self._levels = [_Level("entry")]
        self._level_of: dict[str, int] = {}
        self._names = 0
        self._floor = 0
        """Nothing moves out of a branch: it may be there to be left out."""
        self._count = 0
        self.words = 1
        """Of working memory (8 bytes each); the first is that of `Guards`."""
        self.guards = Guards()

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
        key = (template, tuple(map(value_key, inputs)), tuple(map(type, inputs)))
        if not fixed:
            for k in range(top, -1, -1):
                found = self._levels[k].seen.get(key)
                if found is not None:
                    return found
        name = self._name(level)
        text = f"{name} = " + template.format(*(constant(x, k) for x, k in zip(inputs, kinds, strict=True)))
        self._put(level, name, text, inputs)
        self.guards.made[name] = template, inputs
        if not fixed:
            self._levels[level].seen[key] = name
        return name

    def to_int(self, x: Any) -> Any:
        """From a bit."""
        return int(x) if known(x) else self.make("zext i1 {} to i64", x, kinds="b")

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
            if kind == "b":
                value = self.to_int(value)
            at, word = self.address(base, i), "i" if kind == "b" else kind
            self._put(level, None, f"store {TYPES[word]} {constant(value, word)}, ptr {at}", (value, at))
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
        """All instructions that something depends on, and the guards."""
        lines = self._levels[0].lines
        inputs_of = {name: inputs for name, _, inputs in lines if name is not None}
        alarms = self.guards.alarms if self.guards.folds else {}
        needed: set[str] = set()

        def need(ask: list[str]) -> None:
            while ask:
                name = ask.pop()
                if name not in needed:
                    needed.add(name)
                    ask += inputs_of.get(name, ())
                    ask += alarms.get(name, ())

        need([x for name, _, inputs in lines if name is None for x in inputs] + alarms.get(None, []))
        checks = self.guards.checked(lines, needed)
        need(list(checks))
        kept = [(name, text) for name, text, _ in lines if name is None or name in needed]
        return self.guards.woven_into(kept, checks)


class FoldedZero(float):
    """Zero, of a product with zero that was left out: nobody knows its sign."""

    __slots__ = ()


ZERO = FoldedZero(0.0)


def sign(x: float) -> float:
    """1 or -1, of zeros too."""
    return math.copysign(1.0, x)


def value_key(x: Any) -> Any:
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
    return ("true" if x else "false") if kind == "b" else str(wrapped(int(x), "i"))
