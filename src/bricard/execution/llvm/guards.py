"""Run-time checks that folding products with zero never hides a NaN or an infinity.

Many parameters of a model are zero (components of axes, offsets, uncoupled matrix entries). They are constants when a
program is compiled, and most of its speed comes from folding the products `0 * x` to zero. That is valid only if `x` is
finite. A program with folded products therefore checks this assumption while it runs and raises an alarm if it fails;
then its results are discarded, and XLA, which folds nothing, computes them. Invariant: a program that raises no alarm
has computed the same as XLA, up to rounding and the signs of zeros in the results.

- **A factor that the program computes anyway** is not checked itself. If it is not finite, neither are the sums and
  products that depend on it, so it is enough to check the last of these (`_sinks`). One check covers all factors that
  lead to it.
- **A factor that nothing else uses** is not computed. Bounds on its operands show that it cannot overflow. An operand
  without a bound, or with too large a bound, is checked to be *moderate* (at most `MODERATE`), which bounds the sums
  and products computed from it. Sines and cosines are bounded unless they are NaN, so they need only be finite.
- **Cost.** A check is one multiplication and one addition to a sum of squares. Each basic block needs one comparison.
- **Selections** (`where`) end the propagation: the operand that is not selected may be NaN. A value computed from a
  selection therefore checks nothing in front of the selection.
- **Signs of zeros.** The zero that replaces `0 * x` should have the sign of `x`, and `x + 0` is never `-0`, so folding
  may change the sign of a zero. Only division, `atan2` and `pow` depend on this sign. Quotients are therefore checked
  to be finite, and `atan2` and `pow` raise an alarm if their argument is zero, unless it cannot be -0 (`positive`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

MODERATE, FINITE = 2.0**64, 2.0**500
"""Largest magnitude of a value that passes as moderate, and of one that passes as finite."""
LARGEST_SAFE = 1e300
"""Largest admissible bound on the magnitude of a factor that is not computed."""
PARALLEL_SUMS = 4
"""Number of independent sums of squares per block, so that the additions can run in parallel."""

SUM, DIFFERENCE = "fadd contract double {}, {}", "fsub contract double {}, {}"
PRODUCT, NEGATIVE = "fmul contract double {}, {}", "fneg double {}"


def unary_call(function: str) -> str:
    """Template of the instruction that calls an intrinsic of one double."""
    return f"call contract double @llvm.{function}.f64(double {{}})"


_BOUNDS: dict[str, Callable[..., float]] = {
    SUM: lambda x, y: x + y,
    DIFFERENCE: lambda x, y: x + y,
    PRODUCT: lambda x, y: x * y,
    NEGATIVE: lambda x: x,
    unary_call("fabs"): lambda x: x,
    unary_call("sin"): lambda x: 1.0,
    unary_call("cos"): lambda x: 1.0,
}
"""Bound on the magnitude of the result from those of the inputs, for instructions whose results are finite if and
only if the inputs are, barring overflow."""
_BOUNDED_FUNCTIONS = (unary_call("sin"), unary_call("cos"))
"""Instructions with bounded results for all finite inputs."""

Line = tuple[str | None, str, tuple[Any, ...]]
"""A register or None, the text of an instruction, and the registers that it reads."""


class Guards:
    """The assumptions of a program, and the instructions that check them."""

    def __init__(self) -> None:
        self.definitions: dict[str, tuple[str, Sequence[Any]]] = {}
        """Register -> template and inputs of the instruction that defines it."""
        self.zero_factors: dict[str, None] = {}
        """Registers whose products with zero were folded (an ordered set)."""
        self.quotients: dict[str, None] = {}
        """Quotients whose divisor may be a zero of the wrong sign; they are then infinite or NaN (an ordered set)."""
        self.positive: set[str] = set()
        """Registers that are neither negative nor -0."""
        self.alarms: dict[str | None, list[str]] = {}
        """Register (None: always) -> conditions under which its value may be wrong."""
        self.signs_lost = False
        """Whether an addition of zero was folded that could change the sign of a zero."""

    def required_checks(self, lines: Sequence[Line], needed: set[str]) -> dict[str, float]:
        """Registers to check -> largest admissible magnitude; `needed` are the registers that are computed anyway."""
        order = {name: k for k, (name, _, _) in enumerate(lines) if name is not None}
        uncomputed = [x for x in self.zero_factors if x not in needed]
        computed = [x for x in (*self.zero_factors, *self.quotients) if x in needed]
        ancestors = sorted(self._ancestors(uncomputed, lambda x: x not in needed), key=order.__getitem__)
        frontier = [x for x in ancestors if x in needed]
        first_jump = next(
            (k for k, (name, text, _) in enumerate(lines) if name is None and text.startswith("br ")), len(lines)
        )
        unneeded = [x for x in ancestors if x not in needed]
        bounds, checks = self._bounds(frontier, order, first_jump, set())
        large = self._too_large(unneeded, bounds)
        if large:  # tighter checks of their operands are cheaper than computing them
            bounds, checks = self._bounds(
                frontier, order, first_jump, self._ancestors(large, lambda x: x not in needed)
            )
            checks.update(self._too_large(unneeded, bounds))
        unbounded = [x for x in computed if not bounds.get(x, math.inf) <= LARGEST_SAFE]
        may_be_nan = [
            x for x in bounds if x in needed and x in self.definitions and self.definitions[x][0] in _BOUNDED_FUNCTIONS
        ]
        sinks = self._sinks([*unbounded, *may_be_nan], lines, needed)
        return dict.fromkeys(sinks, FINITE) | dict.fromkeys(checks, MODERATE)

    def _inputs(self, name: str) -> list[str]:
        """The registers that an instruction in `_BOUNDS` reads; empty for other instructions."""
        template, inputs = self.definitions.get(name, ("", ()))
        return [x for x in inputs if isinstance(x, str)] if template in _BOUNDS else []

    def _ancestors(self, names: Sequence[str], expand: Callable[[str], bool]) -> set[str]:
        """`names` and the registers they are computed from, followed backwards while `expand(name)` holds."""
        found: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                if expand(name):
                    pending += self._inputs(name)
        return found

    def _bound(self, name: str, input_bounds: Sequence[float]) -> float:
        """Bound on the magnitude of a register, given bounds on its input registers."""
        template, inputs = self.definitions.get(name, ("", ()))
        if template[1:].startswith("itofp"):  # a converted integer
            return 2.0**64
        if template not in _BOUNDS:
            return math.inf
        rest = iter(input_bounds)
        return _BOUNDS[template](*(next(rest) if isinstance(x, str) else abs(x) for x in inputs))

    def _bounds(
        self, frontier: Sequence[str], order: dict[str, int], first_jump: int, tightened: set[str]
    ) -> tuple[dict[str, float], set[str]]:
        """Bounds on the frontier and its ancestors, and the registers that must be checked for these bounds to hold.

        The frontier consists of the computed registers that uncomputed factors depend on. Registers whose bound
        exceeds `LARGEST_SAFE`, or `MODERATE` if they are in `tightened`, are checked.
        """
        bounds: dict[str, float] = {}
        checks: set[str] = set()
        ancestors = self._ancestors(
            frontier, lambda x: self.definitions[x][0] not in _BOUNDED_FUNCTIONS if x in self.definitions else False
        )
        in_frontier = set(frontier)
        for name in sorted(ancestors, key=order.__getitem__):
            bound = self._bound(name, [bounds.get(x, 1.0) for x in self._inputs(name)])
            limit = MODERATE if name in tightened else LARGEST_SAFE
            if not bound <= limit and (name in in_frontier or order[name] < first_jump):
                checks.add(name)
                bound = MODERATE
            bounds[name] = bound
        return bounds, checks

    def _too_large(self, unneeded: Sequence[str], bounds: dict[str, float]) -> list[str]:
        """The uncomputed registers, given in program order, that may overflow. Adds the bounds of all to `bounds`."""
        large = []
        for x in unneeded:
            bounds[x] = self._bound(x, [bounds[y] for y in self._inputs(x)])
            if not bounds[x] <= LARGEST_SAFE:
                large.append(x)
                bounds[x] = MODERATE
        return large

    def _sinks(self, names: Sequence[str], lines: Sequence[Line], needed: set[str]) -> set[str]:
        """Registers that are finite only if all of `names` are: the last sums and products in the same block."""
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
        to_cover, sinks = set(names), set()
        for name in blocks:
            if name in to_cover:
                if name not in users:
                    sinks.add(name)
                elif to_cover.isdisjoint(users[name]):
                    to_cover.add(users[name][-1])
        return sinks

    def insert_checks(self, lines: Sequence[tuple[str | None, str]], checks: dict[str, float]) -> list[str]:
        """The program with checks: each follows the register it checks; each block stores the outcome at its end."""
        conditions = {c for found in self.alarms.values() for c in found} if self.has_folds else set()
        if not checks and not conditions:
            return [text for _, text in lines]
        result: list[str] = []
        block = _Block(result)
        pending_phis: list[str] = []
        for name, text in lines:
            if " = phi " not in text:
                for phi in pending_phis:
                    block.check_magnitude(phi, checks[phi])
                pending_phis.clear()
            if name is None and text.startswith("br "):
                block.close()
            result.append(text)
            if name in checks:
                pending_phis.append(name) if " = phi " in text else block.check_magnitude(name, checks[name])
            elif name is not None and name in conditions:
                block.alarm(name)
        block.close()
        return result

    @property
    def has_folds(self) -> bool:
        """Whether the program contains folded operations."""
        return self.signs_lost or bool(self.zero_factors)


class _Block:
    """The checks of one basic block."""

    def __init__(self, lines: list[str]):
        self._lines, self._count, self._next_sum = lines, 0, 0
        self._sums: dict[float, list[str]] = {}
        self._failed: str | None = None

    def _append(self, text: str) -> str:
        self._count += 1
        name = f"%g{self._count}"
        self._lines.append(f"{name} = {text}")
        return name

    def check_magnitude(self, x: str, largest: float) -> None:
        """Check that the magnitude of `x` is at most `largest`; NaN fails."""
        square = self._append(f"fmul contract double {x}, {x}")
        sums = self._sums.setdefault(largest, [])
        if len(sums) < PARALLEL_SUMS:
            sums.append(square)
            return
        self._next_sum = (self._next_sum + 1) % PARALLEL_SUMS
        sums[self._next_sum] = self._append(f"fadd contract double {square}, {sums[self._next_sum]}")

    def alarm(self, condition: str) -> None:
        """Raise the alarm if a condition holds."""
        self._failed = condition if self._failed is None else self._append(f"or i1 {condition}, {self._failed}")

    def close(self) -> None:
        """End the block: combine the outcome of its checks with the alarm word in memory."""
        for largest, (total, *rest) in self._sums.items():
            for part in rest:
                total = self._append(f"fadd contract double {total}, {part}")
            self.alarm(self._append(f"fcmp ugt double {total}, {largest**2:.1f}"))
        if self._failed is not None:
            word = self._append(f"zext i1 {self._failed} to i64")
            before = self._append("load i64, ptr %memory")
            after = self._append(f"or i64 {word}, {before}")
            self._lines.append(f"store i64 {after}, ptr %memory")
        self._sums, self._failed = {}, None
