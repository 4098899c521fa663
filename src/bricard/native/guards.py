"""Leaving out products with zero, without ever hiding a NaN or an infinity.

Zeros of a model (axes, offsets, entries of matrices that no joint couples) are known when a program is made, and most
of its speed comes from leaving out what is multiplied by them. That is right only if the other factor is finite. So
each program with such a product assumes that it is, checks the assumption while it runs, and raises an alarm if it
fails: its results are discarded then, and XLA does the work, which leaves nothing out. The principle: a program
without an alarm has computed what XLA would have, up to rounding and the signs of zeros that are returned.

- **A factor that the program needs elsewhere** need not be checked itself. If it is not finite, neither are the sums
  and products that it enters, so it is enough to check the last of these (`_sinks`), which serves all that lead
  there.
- **A factor that nothing else needs** is not computed. It is finite if bounds on what it would be computed from show
  that it cannot overflow. A number that has no bound, or too large a one, is checked to be *moderate* (`MODERATE`),
  which bounds the sums and products of it: these need no check. Sines and cosines are bounded unless they are NaN,
  so that they only have to be finite.
- A check is one multiplication and addition, to a sum of squares; one comparison serves a block of instructions.
- **Choices** (`where`) end the argument: what is not chosen may be NaN, so that nothing behind a choice counts as a
  check of what is before it.
- **Signs of zeros.** The zero that takes the place of `0 * x` has the sign of `x`, and `x + 0` is not `-0`. What is
  left out may change the sign of a zero, which is seen only by division by it, by `atan2` and by `pow`. There an
  alarm is raised: quotients have to be finite, the others raise it where their argument is zero, unless it has no
  sign (`positive`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

MODERATE, FINITE = 2.0**64, 2.0**500
"""What has to be moderate is no larger than the first; what has to be finite is taken for it up to the second."""
LARGEST_SAFE = 1e300
"""Nothing that is left out may become larger than this."""
SUMS = 4
"""So many sums of squares are kept at a time, which do not wait for each other."""

SUM, DIFFERENCE = "fadd contract double {}, {}", "fsub contract double {}, {}"
PRODUCT, NEGATIVE = "fmul contract double {}, {}", "fneg double {}"


def call_of(function: str) -> str:
    """The instruction that calls a function of one number."""
    return f"call contract double @llvm.{function}.f64(double {{}})"


_BOUNDS: dict[str, Callable[..., float]] = {
    SUM: lambda x, y: x + y,
    DIFFERENCE: lambda x, y: x + y,
    PRODUCT: lambda x, y: x * y,
    NEGATIVE: lambda x: x,
    call_of("fabs"): lambda x: x,
    call_of("sin"): lambda x: 1.0,
    call_of("cos"): lambda x: 1.0,
}
"""Instructions whose results are finite if and only if their inputs are and nothing overflows: bounds on the result."""
_ROUND = (call_of("sin"), call_of("cos"))
"""Instructions that are bounded by themselves."""

Line = tuple[str | None, str, tuple[Any, ...]]
"""A register or None, an instruction, and the registers that it needs."""


class Guards:
    """The assumptions of a program, and the instructions that check them."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[str, Sequence[Any]]] = {}
        """How a register is computed: instruction and inputs."""
        self.dropped: dict[str, None] = {}
        """Registers that were multiplied by zero."""
        self.quotients: dict[str, None] = {}
        """Registers that are not finite if the sign of a zero was lost that they were divided by."""
        self.positive: set[str] = set()
        """Registers that are neither negative nor -0."""
        self.alarms: dict[str | None, list[str]] = {}
        """Register (None: in any case) -> conditions under which computing it was wrong."""
        self.signs_lost = False
        """Whether anything was left out that could change the sign of a zero."""

    def checked(self, lines: Sequence[Line], needed: set[str]) -> dict[str, float]:
        """The registers to check, and what they must not exceed; `needed` are those that are computed anyway."""
        order = {name: k for k, (name, _, _) in enumerate(lines) if name is not None}
        hidden = [x for x in self.dropped if x not in needed]
        kept = [x for x in (*self.dropped, *self.quotients) if x in needed]
        behind = sorted(self._behind(hidden, lambda x: x not in needed), key=order.__getitem__)
        border = [x for x in behind if x in needed]
        first = next(
            (k for k, (name, text, _) in enumerate(lines) if name is None and text.startswith("br ")), len(lines)
        )
        unneeded = [x for x in behind if x not in needed]
        bounds, checks = self._bounds(border, order, first, set())
        large = self._too_large(unneeded, bounds)
        if large:  # To bound what they would be computed from is cheaper than to compute them.
            bounds, checks = self._bounds(border, order, first, self._behind(large, lambda x: x not in needed))
            checks.update(self._too_large(unneeded, bounds))
        unbounded = [x for x in kept if not bounds.get(x, math.inf) <= LARGEST_SAFE]
        may_be_nan = [x for x in bounds if x in needed and x in self.made and self.made[x][0] in _ROUND]
        sinks = self._sinks([*unbounded, *may_be_nan], lines, needed)
        return dict.fromkeys(sinks, FINITE) | dict.fromkeys(checks, MODERATE)

    def _inputs(self, name: str) -> list[str]:
        """The registers that a sum or product is computed from; none of all others."""
        template, inputs = self.made.get(name, ("", ()))
        return [x for x in inputs if isinstance(x, str)] if template in _BOUNDS else []

    def _behind(self, names: Sequence[str], goes_on: Callable[[str], bool]) -> set[str]:
        """These, and all sums and products that they are computed from, as far as it `goes_on`."""
        found: set[str] = set()
        ask = list(names)
        while ask:
            name = ask.pop()
            if name not in found:
                found.add(name)
                if goes_on(name):
                    ask += self._inputs(name)
        return found

    def _bound(self, name: str, of_inputs: Sequence[float]) -> float:
        """The largest that a register can be, if its inputs are no larger than this."""
        template, inputs = self.made.get(name, ("", ()))
        if template[1:].startswith("itofp"):  # an integer
            return 2.0**64
        if template not in _BOUNDS:
            return math.inf
        rest = iter(of_inputs)
        return _BOUNDS[template](*(next(rest) if isinstance(x, str) else abs(x) for x in inputs))

    def _bounds(
        self, border: Sequence[str], order: dict[str, int], first: int, tight: set[str]
    ) -> tuple[dict[str, float], set[str]]:
        """How large what is at the border can be, and all that it follows from; and what is to be checked for that.

        Those at the border are checked if they may be larger than `LARGEST_SAFE`, or than `MODERATE` if `tight`.
        """
        bounds: dict[str, float] = {}
        checks: set[str] = set()
        behind = self._behind(border, lambda x: self.made[x][0] not in _ROUND if x in self.made else False)
        at_border = set(border)
        for name in sorted(behind, key=order.__getitem__):
            bound = self._bound(name, [bounds.get(x, 1.0) for x in self._inputs(name)])
            limit = MODERATE if name in tight else LARGEST_SAFE
            if not bound <= limit and (name in at_border or order[name] < first):
                checks.add(name)
                bound = MODERATE
            bounds[name] = bound
        return bounds, checks

    def _too_large(self, unneeded: Sequence[str], bounds: dict[str, float]) -> list[str]:
        """Those of registers, given in their order, that may overflow; the `bounds` of all are found."""
        large = []
        for x in unneeded:
            bounds[x] = self._bound(x, [bounds[y] for y in self._inputs(x)])
            if not bounds[x] <= LARGEST_SAFE:
                large.append(x)
                bounds[x] = MODERATE
        return large

    def _sinks(self, names: Sequence[str], lines: Sequence[Line], needed: set[str]) -> set[str]:
        """What has to be finite for all of `names` to be: the last sums and products that they enter in their block."""
        block, blocks = 0, {}
        users: dict[str, list[str]] = {}
        for name, text, _ in lines:
            if name is None:
                block += text.startswith("br ") or text.endswith(":")
            elif name in needed:
                blocks[name] = block
                for x in self._inputs(name):
                    if blocks.get(x) == block:
                        users.setdefault(x, []).append(name)
        wanted, sinks = set(names), set()
        for name in blocks:
            if name in wanted:
                if name not in users:
                    sinks.add(name)
                elif wanted.isdisjoint(users[name]):
                    wanted.add(users[name][-1])
        return sinks

    def woven_into(self, lines: Sequence[tuple[str | None, str]], checks: dict[str, float]) -> list[str]:
        """The program with its checks: each next to what it is about, the outcome stored at the end of a block."""
        conditions = {c for found in self.alarms.values() for c in found} if self.folds else set()
        if not checks and not conditions:
            return [text for _, text in lines]
        result: list[str] = []
        block = _Block(result)
        late: list[str] = []
        for name, text in lines:
            if " = phi " not in text:
                for phi in late:
                    block.square(phi, checks[phi])
                late.clear()
            if name is None and text.startswith("br "):
                block.close()
            result.append(text)
            if name in checks:
                late.append(name) if " = phi " in text else block.square(name, checks[name])
            elif name is not None and name in conditions:
                block.alarm(name)
        block.close()
        return result

    @property
    def folds(self) -> bool:
        """Whether anything was left out."""
        return self.signs_lost or bool(self.dropped)


class _Block:
    """Checks in a stretch of instructions without jumps."""

    def __init__(self, lines: list[str]):
        self._lines, self._count, self._turn = lines, 0, 0
        self._sums: dict[float, list[str]] = {}
        self._bad: str | None = None

    def _put(self, text: str) -> str:
        self._count += 1
        name = f"%g{self._count}"
        self._lines.append(f"{name} = {text}")
        return name

    def square(self, x: str, largest: float) -> None:
        """Check that a number is no larger than this."""
        square = self._put(f"fmul contract double {x}, {x}")
        sums = self._sums.setdefault(largest, [])
        if len(sums) < SUMS:
            sums.append(square)
            return
        self._turn = (self._turn + 1) % SUMS
        sums[self._turn] = self._put(f"fadd contract double {square}, {sums[self._turn]}")

    def alarm(self, condition: str) -> None:
        """Check that a condition does not hold."""
        self._bad = condition if self._bad is None else self._put(f"or i1 {condition}, {self._bad}")

    def close(self) -> None:
        """Store the outcome."""
        for largest, (total, *rest) in self._sums.items():
            for part in rest:
                total = self._put(f"fadd contract double {total}, {part}")
            self.alarm(self._put(f"fcmp ugt double {total}, {largest**2:.1f}"))
        if self._bad is not None:
            word = self._put(f"zext i1 {self._bad} to i64")
            before = self._put("load i64, ptr %memory")
            after = self._put(f"or i64 {word}, {before}")
            self._lines.append(f"store i64 {after}, ptr %memory")
        self._sums, self._bad = {}, None
