"""Integration methods: a wrapper that projects each step of a diffrax solver onto the constraints, and `SSPRK104`."""

from __future__ import annotations

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bricard.execution.llvm.stop import stop_requested
from bricard.simulation.digital import Sampled
from bricard.simulation.stabilization import Project


class ProjectedSolver(diffrax.AbstractWrappedSolver):
    """A diffrax solver whose steps are projected onto the constraints before the next step starts."""

    solver: diffrax.AbstractSolver  # pyright: ignore[reportIncompatibleVariableOverride]
    saves_ends: bool = eqx.field(static=True, default=True)
    """Whether states are saved only at the ends of steps, which lie on the constraints; interpolated states do not."""
    stoppable: bool = eqx.field(static=True, default=False)
    """Whether a step fails when Ctrl-C has been pressed, which ends the run."""

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
        """Root finder of an implicit solver; diffrax gives it the tolerances of the step size control."""
        return self.solver.root_finder  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def scan_kind(self) -> str:
        """How diffrax loops over the stages of a step; not None, since `simulate` sets it in the wrapped solver."""
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
        # With `made_jump`, solvers that reuse their last evaluation evaluate the projected state instead.
        jumped = made_jump | isinstance(args.stabilization, Project) | isinstance(args.controller, Sampled)
        y1, error, dense, state, result = self.solver.step(terms, t0, t1, y0, args, solver_state, jumped)
        y1, error = args.project_step(t1, y1, error)
        if self.saves_ends:
            dense = {"y0": y0, "y1": y1}
        y1 = args.sample(t1, y1)  # discarded with the step if the step is rejected
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


_DOPRI8 = diffrax.Dopri8.tableau


class ShortDopri8(diffrax.Dopri8):
    """`diffrax.Dopri8` without its last stage, which evaluates the end of a step as the first stage of the next.

    A projection changes the end of the step, so that the evaluation cannot be reused. Runs that interpolate need it.
    """

    tableau = diffrax.ButcherTableau(  # pyright: ignore[reportAssignmentType]
        c=_DOPRI8.c[:-1], b_sol=_DOPRI8.b_sol[:-1], b_error=_DOPRI8.b_error[:-1], a_lower=_DOPRI8.a_lower[:-1]
    )


def _ssprk104_tableau() -> diffrax.ButcherTableau:
    sixth, fifteenth = 1 / 6, 1 / 15
    first = [np.full(k, sixth) for k in range(1, 5)]
    second = [np.array([fifteenth] * 5 + [sixth] * k) for k in range(5)]
    weights = np.full(10, 0.1)
    embedded = np.array([2, 0, 0, 3, 0, 0, 2, 0, 3, 0]) / 10
    rows = (*first, *second)
    nodes = np.array([np.sum(row) for row in rows])
    return diffrax.ButcherTableau(a_lower=rows, b_sol=weights, b_error=weights - embedded, c=nodes)


class SSPRK104(diffrax.AbstractERK):
    """Explicit method for strong dampers: order 4, ten stages, stable on the real axis for `−13.9 ≤ λ·dt ≤ 0`.

    If stability and not accuracy limits the step, it advances 1.7 times as far per evaluation as `diffrax.Bosh3`, and
    2.5 times as far as `diffrax.Tsit5`. It is Ketcheson's method (SIAM J. Sci. Comput. 30, 2008) with the error
    estimate of Conde, Fekete and Shadid (2018).
    """

    tableau = _ssprk104_tableau()  # pyright: ignore[reportAssignmentType]
    interpolation_cls = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k  # pyright: ignore[reportAssignmentType]
    growth: ClassVar[float] = 1.2
    """Largest ratio of successive steps. At the limit of stability the error estimate grows abruptly: with a larger
    ratio every second step would be rejected."""

    def order(self, terms: Any) -> int:
        """Order of the method; its error estimate has order 3."""
        return 4
