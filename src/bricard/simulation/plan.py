"""The execution plan of a run: its loop over time and its linear algebra, both chosen here and nowhere else.

The back end (LLVM or XLA) is chosen by `bricard.execution.compile` when the program is compiled, and recorded there.
"""

from __future__ import annotations

from typing import NamedTuple

import diffrax

from bricard.equations.linalg.sparse import Structure
from bricard.equations.routes.proximal import DEFAULT
from bricard.equations.routes.route import Route
from bricard.execution.compile import Record
from bricard.simulation.stabilization import Project, Stabilization


class Execution(str):
    """One line about how a run was executed, such as "LLVM; dense; 1.2 s to compile".

    All such lines compare equal: trajectories of runs that were executed differently can still be combined
    (`jax.tree.map`).
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Execution)

    def __hash__(self) -> int:
        return hash(Execution)


class Plan(NamedTuple):
    """The loop and the linear algebra of a run."""

    loop: str
    """`"steps"` (the stepping core), `"diffrax"` (`diffrax.diffeqsolve`) or `"events"` (from event to event)."""
    reason: str
    """Why the loop is not the stepping core; empty if it is."""
    structure: Structure | None
    """Sparsity of a large system; None for dense algebra."""

    def describe(self, record: Record) -> Execution:
        """What was chosen, and why."""
        used = record.of("advance" if self.loop == "events" else "integrate")
        back_end = "XLA" if used is None or used.back_end == "XLA" else "LLVM"
        why = self.reason or ("" if used is None else used.reason)
        parts = [
            f"{back_end} ({why})" if why else back_end,
            "dense" if self.structure is None else "sparse",
            f"{record.seconds:.2g} s to compile" if record.seconds >= 0.005 else "compiled before",
        ]
        return Execution("; ".join(parts))


def plan_run(
    *,
    events: bool,
    adaptive: bool,
    progress: diffrax.AbstractProgressMeter,
    adjoint: diffrax.AbstractAdjoint,
    structure: Structure | None,
) -> Plan:
    """Choose the loop.

    `adaptive`: steps adapt to the error. With an `adjoint` other than `ForwardMode`, the run may be differentiated.
    """
    if events:
        return Plan("events", "contacts", None)
    if not isinstance(adjoint, diffrax.ForwardMode):
        return Plan("diffrax", "may be differentiated", structure)
    if not adaptive:
        return Plan("diffrax", "interpolates between fixed steps", structure)
    if not isinstance(progress, diffrax.NoProgressMeter):
        return Plan("diffrax", "shows progress", structure)
    return Plan("steps", "", structure)


def may_use_structure(route: Route, stabilization: Stabilization) -> bool:
    """True if sparse algebra may replace the route: only the default route with projection in the mass metric."""
    is_default = route is DEFAULT or route == DEFAULT
    return is_default and isinstance(stabilization, Project) and stabilization.metric == "mass"
