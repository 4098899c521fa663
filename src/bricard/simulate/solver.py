"""Solvers of diffrax, made to end every step on the constraints; and one for strong dampers."""

from __future__ import annotations

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bricard.native.stop import stop_requested
from bricard.simulate.sampling import Sampled
from bricard.simulate.stabilize import Project


class ProjectedSolver(diffrax.AbstractWrappedSolver):
    """Any diffrax solver, with every step put back onto the constraints before the next one starts from it."""

    solver: diffrax.AbstractSolver  # pyright: ignore[reportIncompatibleVariableOverride]
    saves_ends: bool = eqx.field(static=True, default=True)
    """Whether states are saved at the ends of steps only: they are on the constraints, what is interpolated is not."""
    stoppable: bool = eqx.field(static=True, default=False)
    """Whether a step fails if the run is asked to stop."""

    @property
    def term_structure(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.solver.term_structure

    @property
    def interpolation_cls(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return diffrax.LocalLinearInterpolation if self.saves_ends else self.solver.interpolation_cls

    @property
    def term_compatible_contr_kwargs(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.solver.term_compatible_contr_kwargs

    @property
    def root_finder(self) -> Any:
        """Of implicit solvers; diffrax gives it the tolerances of the steps."""
        return self.solver.root_finder  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def scan_kind(self) -> str:
        """How diffrax loops over the stages of a step; of the wrapped solver, it is set by `simulate`."""
        return "set"

    def order(self, terms):
        return self.solver.order(terms)

    def strong_order(self, terms):
        return self.solver.strong_order(terms)

    def error_order(self, terms):
        return self.solver.error_order(terms)

    def init(self, terms, t0, t1, y0, args):
        return self.solver.init(terms, t0, t1, y0, args)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        # `made_jump` makes solvers that reuse their last evaluation start afresh from the projected state.
        jumped = made_jump | isinstance(args.stabilization, Project) | isinstance(args.controller, Sampled)
        y1, error, dense, state, result = self.solver.step(terms, t0, t1, y0, args, solver_state, jumped)
        y1, error = args.project_step(t1, y1, error)
        if self.saves_ends:
            dense = {"y0": y0, "y1": y1}
        y1 = args.sample(t1, y1)  # of a step that is not accepted after all, nothing remains
        finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(y1)]))
        if error is not None:
            error = jax.tree.map(lambda e: jnp.where(finite, e, jnp.inf), error)
        failed: Any = diffrax.RESULTS.nonlinear_divergence
        if self.stoppable:
            finite &= ~stop_requested(t0)
        result = diffrax.RESULTS.where(finite, result, failed)
        return y1, error, dense, state, result

    def func(self, terms, t0, y0, args):
        return self.solver.func(terms, t0, y0, args)


_WHOLE = diffrax.Dopri8.tableau


class ShortDopri8(diffrax.Dopri8):
    """Without its last stage, an evaluation at the end of a step for the next one to start with.

    After a projection that is of no use. It also serves to interpolate, so that runs that do must keep it.
    """

    tableau = diffrax.ButcherTableau(  # pyright: ignore[reportAssignmentType]
        c=_WHOLE.c[:-1], b_sol=_WHOLE.b_sol[:-1], b_error=_WHOLE.b_error[:-1], a_lower=_WHOLE.a_lower[:-1]
    )


def _ten_stages() -> diffrax.ButcherTableau:
    sixth, fifteenth = 1 / 6, 1 / 15
    first = [np.full(k, sixth) for k in range(1, 5)]
    second = [np.array([fifteenth] * 5 + [sixth] * k) for k in range(5)]
    weights = np.full(10, 0.1)
    embedded = np.array([2, 0, 0, 3, 0, 0, 2, 0, 3, 0]) / 10
    rows = (*first, *second)
    nodes = np.array([np.sum(row) for row in rows])
    return diffrax.ButcherTableau(a_lower=rows, b_sol=weights, b_error=weights - embedded, c=nodes)


class SSPRK104(diffrax.AbstractERK):
    """Explicit, for strong dampers: ten stages of order 4 that stay stable for decays up to 13.9 a step.

    Where stability and not accuracy sets the step, an evaluation goes 1.7 times as far as one of `diffrax.Bosh3`, 2.5
    times as far as one of `diffrax.Tsit5`.
    Ketcheson's method (SIAM J. Sci. Comput. 30, 2008) with the error estimate of Conde, Fekete and Shadid (2018).
    """

    tableau = _ten_stages()  # pyright: ignore[reportAssignmentType]
    interpolation_cls = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k  # pyright: ignore[reportAssignmentType]
    growth: ClassVar[float] = 1.2
    """How many times longer the next step may be: at the limit of stability errors are small until they are not, and
    every second long step would be rejected."""

    def order(self, terms: Any) -> int:
        """Of a step; the error estimate is of order 3."""
        return 4
