"""Emission of LLVM instructions on scalars, with hoisting and common-subexpression elimination.

A scalar is a Python `float`, `int` or `bool` if it is a constant, otherwise the name of a register (`str`). Its type is
a letter of `scalar_types.py`. An instruction is placed at the outermost level at which its inputs are available, so
that loop-invariant instructions are hoisted, and an instruction with the same inputs is emitted once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from bricard.execution.llvm.guards import Guards
from bricard.execution.llvm.scalar_types import LLVM_TYPES, Unsupported, wrapped

MAX_INSTRUCTIONS = 40_000
"""Programs with more instructions than this are refused: compiling them would take too long."""


class _Level:
    """The instructions of one loop body or branch, in program order."""

    def __init__(self, block: str):
        self.lines: list[tuple[str | None, str, tuple[Any, ...]]] = []
        self.emitted: dict[Any, Any] = {}
        self.block = block
        """Label of the basic block that the next instruction belongs to."""


class Instructions:
    """The instructions of one function. Each nested loop or branch is a level while it is emitted."""

    def __init__(self) -> None:
        self._levels = [_Level("entry")]
        self._level_of: dict[str, int] = {}
        self._names = 0
        self._hoist_limit = 0
        """Outermost level to hoist to. Nothing is hoisted out of a conditional branch, which may not be executed."""
        self._count = 0
        self.words = 1
        """Number of 8-byte words of working memory; the first holds the alarm of `Guards`."""
        self.guards = Guards()

    # Instructions.

    def _name(self, level: int) -> str:
        self._names += 1
        name = f"%r{self._names}"
        self._level_of[name] = level
        return name

    def _append(self, level: int, name: str | None, text: str, inputs: Sequence[Any]) -> None:
        self._count += 1
        if self._count > MAX_INSTRUCTIONS:
            raise Unsupported("too many operations")
        self._levels[level].lines.append((name, text, tuple(x for x in inputs if isinstance(x, str))))

    def emit(self, template: str, *inputs: Any, types: str, impure: bool = False) -> str:
        """Emit an instruction and return its result register.

        The placeholders of `template` are filled with `inputs`, one letter of `types` each. An `impure` instruction
        reads memory that may change: it is neither hoisted nor reused.
        """
        top = len(self._levels) - 1
        level = top if impure else max([self._hoist_limit, *(self._level_of[x] for x in inputs if isinstance(x, str))])
        key = (template, tuple(map(value_key, inputs)), tuple(map(type, inputs)))
        if not impure:
            for k in range(top, -1, -1):
                found = self._levels[k].emitted.get(key)
                if found is not None:
                    return found
        name = self._name(level)
        text = f"{name} = " + template.format(*(literal(x, k) for x, k in zip(inputs, types, strict=True)))
        self._append(level, name, text, inputs)
        self.guards.definitions[name] = template, inputs
        if not impure:
            self._levels[level].emitted[key] = name
        return name

    def to_int(self, x: Any) -> Any:
        """Convert a boolean to an integer."""
        return int(x) if is_constant(x) else self.emit("zext i1 {} to i64", x, types="b")

    # Memory.

    def parameter(self, name: str) -> str:
        """Register of a pointer parameter of the function."""
        self._level_of[name] = 0
        return name

    def reserve(self, words: int) -> str:
        """Reserve words of working memory and return their address."""
        at, self.words = self.words, self.words + words
        return self.address(self.parameter("%memory"), at)

    def address(self, base: str, index: Any) -> str:
        """Address of the word at `index` from `base`."""
        return (
            base
            if index == 0 and not isinstance(index, str)
            else self.emit("getelementptr i64, ptr {}, i64 {}", base, index, types="pi")
        )

    def load(self, base: str, index: Any, scalar_type: str, mutable: bool) -> Any:
        """Load the word at `index` from `base`; `mutable` if it may be overwritten later."""
        at = self.address(base, index)
        loaded = self.emit(
            f"load {'i64' if scalar_type == 'b' else LLVM_TYPES[scalar_type]}, ptr {{}}", at, types="p", impure=mutable
        )
        return self.emit("icmp ne i64 {}, 0", loaded, types="i") if scalar_type == "b" else loaded

    def store(self, base: str, index: Any, scalar_type: str, value: Any) -> None:
        """Store a scalar to the word at `index` from `base`, at the current level."""
        if scalar_type == "b":
            value, scalar_type = self.to_int(value), "i"
        at = self.address(base, index)
        text = f"store {LLVM_TYPES[scalar_type]} {literal(value, scalar_type)}, ptr {at}"
        self._append(len(self._levels) - 1, None, text, (value, at))

    def table(self, array: Any, scalar_type: str, values: Sequence[Any]) -> str:
        """Address of a copy of `values`, written once per `array`, at the outermost level where all are available."""
        level = max([self._hoist_limit, *(self._level_of[x] for x in values if isinstance(x, str))])
        key = ("table", id(array))
        for k in range(len(self._levels) - 1, -1, -1):
            if key in self._levels[k].emitted:
                return self._levels[k].emitted[key][0]
        base = self.reserve(len(values))
        for i, value in enumerate(values):
            if scalar_type == "b":
                value = self.to_int(value)
            at, word = self.address(base, i), "i" if scalar_type == "b" else scalar_type
            self._append(level, None, f"store {LLVM_TYPES[word]} {literal(value, word)}, ptr {at}", (value, at))
        base = self.emit("getelementptr i64, ptr {}, i64 0", base, types="p")
        self._level_of[base] = level  # loads must not be hoisted in front of the stores
        self._levels[level].emitted[key] = base, array  # keep the array alive: the key contains its `id`
        return base

    def copy(self, to: str, initial: str, words: int) -> None:
        """Copy words of memory, at the current level."""
        text = f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {initial}, i64 {8 * words}, i1 false)"
        self._append(len(self._levels) - 1, None, text, (to, initial))

    # Loops and branches.

    def loop(
        self, types: str, initial: Sequence[Any], continues: Callable[..., Any], step: Callable[..., Sequence[Any]]
    ):
        """Emit `while continues(*values): values = step(*values)`; returns the final values."""
        outer = self._levels[-1]
        self._names += 1
        head, body, done = (f"{part}{self._names}" for part in ("head", "body", "done"))
        level = _Level(head)
        self._levels.append(level)
        depth = len(self._levels) - 1
        values = [self._name(depth) for _ in types]
        condition = continues(*values)
        self._jump(f"br i1 {literal(condition, 'b')}, label %{body}, label %{done}", (condition,), body)
        following = step(*values)
        last = level.block
        self._jump(f"br label %{head}", (), done)
        self._levels.pop()
        phis = [
            (
                value,
                f"{value} = phi {LLVM_TYPES[k]} [ {literal(x, k)}, %{outer.block} ], [ {literal(y, k)}, %{last} ]",
                tuple(z for z in (x, y) if isinstance(z, str)),
            )
            for value, k, x, y in zip(values, types, initial, following, strict=True)
        ]
        outer.lines.append((None, f"br label %{head}", ()))
        outer.lines += [(None, f"{head}:", ()), *phis, *level.lines]
        outer.block = done
        for value in values:
            self._level_of[value] = depth - 1
        return values

    def branch(self, condition: Any, types: str, branches: Sequence[Callable[[], Sequence[Any]]]) -> list[Any]:
        """Emit a conditional; returns the results of `branches[1]` if `condition` holds, otherwise of `branches[0]`."""
        outer = self._levels[-1]
        self._names += 1
        yes, no, done = (f"{part}{self._names}" for part in ("yes", "no", "join"))
        previous_limit, depth = self._hoist_limit, len(self._levels)
        ends, results = [], []
        outer.lines.append(
            (
                None,
                f"br i1 {condition}, label %{yes}, label %{no}",
                (condition,) if isinstance(condition, str) else (),
            )
        )
        for label, branch in ((no, branches[0]), (yes, branches[1])):
            level = _Level(label)
            self._levels.append(level)
            self._hoist_limit = depth
            results.append(list(branch()))
            ends.append(level.block)
            self._jump(f"br label %{done}", (), done)
            self._levels.pop()
            outer.lines += [(None, f"{label}:", ()), *level.lines[:-1]]
        outer.lines.append((None, f"{done}:", ()))
        outer.block, self._hoist_limit = done, previous_limit
        values = []
        for k, x, y in zip(types, *results, strict=True):
            value = self._name(depth - 1)
            text = f"{value} = phi {LLVM_TYPES[k]} [ {literal(x, k)}, %{ends[0]} ], [ {literal(y, k)}, %{ends[1]} ]"
            outer.lines.append((value, text, tuple(z for z in (x, y) if isinstance(z, str))))
            values.append(value)
        return values

    def _jump(self, text: str, inputs: Sequence[Any], to: str) -> None:
        level = self._levels[-1]
        level.lines.append((None, text, tuple(x for x in inputs if isinstance(x, str))))
        level.lines.append((None, f"{to}:", ()))
        level.block = to

    def text(self) -> list[str]:
        """The lines of the program without dead code, with the checks of the guards."""
        lines = self._levels[0].lines
        inputs_of = {name: inputs for name, _, inputs in lines if name is not None}
        alarms = self.guards.alarms if self.guards.has_folds else {}
        needed: set[str] = set()

        def mark_needed(pending: list[str]) -> None:
            while pending:
                name = pending.pop()
                if name not in needed:
                    needed.add(name)
                    pending += inputs_of.get(name, ())
                    pending += alarms.get(name, ())

        mark_needed([x for name, _, inputs in lines if name is None for x in inputs] + alarms.get(None, []))
        checks = self.guards.required_checks(lines, needed)
        mark_needed(list(checks))
        kept = [(name, text) for name, text, _ in lines if name is None or name in needed]
        return self.guards.insert_checks(kept, checks)


class FoldedZero(float):
    """The zero that replaces a folded product with zero; its sign is unknown."""

    __slots__ = ()


ZERO = FoldedZero(0.0)


def sign(x: float) -> float:
    """1 or -1; zeros have a sign, too."""
    return math.copysign(1.0, x)


def value_key(x: Any) -> Any:
    """Key of a scalar that distinguishes 0 from -0."""
    return ("-", 0.0) if isinstance(x, float) and x == 0.0 and sign(x) < 0 else x


def is_constant(x: Any) -> bool:
    """True if a scalar is a constant of the program, not a register."""
    return not isinstance(x, str)


def literal(x: Any, scalar_type: str) -> str:
    """A scalar in LLVM syntax."""
    if isinstance(x, str):
        return x
    if scalar_type == "f":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(x)))[0]:016X}"
    return ("true" if x else "false") if scalar_type == "b" else str(wrapped(int(x), "i"))
