"""Checks of the arguments of `simulate`, and their conversion to the form that the integration needs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bricard.equations.routes.route import Route
from bricard.errors import ModelError, is_concrete
from bricard.simulation.digital import Sampled
from bricard.simulation.linear_solver import DenseSolver
from bricard.simulation.memory import check_memory
from bricard.simulation.solvers import ShortDopri8
from bricard.simulation.stabilization import Baumgarte, Project
from bricard.simulation.step_size import Steps

NO_METER = diffrax.NoProgressMeter()

COPIES = 4
"""Copies of the saved states in memory at the same time: in the program, in JAX, and in derived quantities."""


def as_numbers(value: Any) -> Any:
    """`value` as a float array: a NumPy array if concrete (faster, and concrete even under `jit`), else a JAX array."""
    return (np if is_concrete(value) else jnp).asarray(value, dtype=float)


def save_times(name: str, t0: Any, t_end: Any, save: Any, size: int) -> Any:
    """The times to save (s), including `t0` and `t_end`; concrete if possible, because digital controllers need that.

    `size` is the number of floats saved per state, from which the memory is estimated.
    """
    if is_concrete(t0, t_end) and not (np.isfinite(t0) and np.isfinite(t_end) and t_end > t0):
        raise ModelError(name, [f"t_end must be after the start at t = {t0:g} s, not {t_end}"])
    if isinstance(save, (int, np.integer)) and not isinstance(save, bool):
        if save < 2:
            raise ModelError(name, [f"save: at least 2 states (the first and the last), not {save}"])
        needed, label = 8 * COPIES * size * int(save), str(save) if save < 10**15 else "more than 1e15"
        check_memory(name, needed, f"save: {label} states", "save fewer states, or give the times to save")
        linspace = np.linspace if is_concrete(t0, t_end) else jnp.linspace
        return linspace(t0, t_end, int(save), dtype=float)
    try:
        times = as_numbers(save)
        if times.ndim != 1 or times.shape[0] < 1:
            raise ValueError("not a list")
    except (TypeError, ValueError) as error:
        raise ModelError(name, [f"save: a number of states or a list of times, not {save!r}"]) from error
    if is_concrete(save, t0, t_end):
        if not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
            raise ModelError(name, ["save: the times must be finite and increasing"])
        if times[0] < t0 or times[-1] > t_end:
            raise ModelError(name, [f"save: times must lie between {t0:g} and {t_end:g} s"])
        ends = [x for x in (t0,) if times[0] > x], [x for x in (t_end,) if times[-1] < x]
        times = np.concatenate([np.array(ends[0], float), times, np.array(ends[1], float)])
    return times


def check_settings(name: str, route: Any, stabilization: Any, solver: Any, rtol: Any, atol: Any, dt: Any) -> None:
    """Raise `ModelError` with all problems of the numerical settings."""
    problems = []
    if not isinstance(route, Route):
        problems.append(f"route: a route such as br.Proximal(), not {route!r}")
    if not (stabilization is None or isinstance(stabilization, (Project, Baumgarte))):
        problems.append(f"stabilization: br.Project(), br.Baumgarte(alpha, beta) or None, not {stabilization!r}")
    if not isinstance(solver, diffrax.AbstractSolver):
        problems.append(f"solver: a diffrax solver such as diffrax.Dopri8(), not {solver!r}")
    for label, value in (("rtol", rtol), ("atol", atol), ("dt", dt)):
        if value is not None and is_concrete(value) and not (np.isfinite(value) and value > 0):
            problems.append(f"{label} must be positive, not {value}")
    if dt is None and not problems and not isinstance(solver, diffrax.AbstractAdaptiveSolver):
        problems.append(f"{type(solver).__name__} cannot choose its steps: give dt")
    if problems:
        raise ModelError(name, problems)


def check_event_run(name: str, values: Any, dt: Any, adjoint: Any) -> None:
    """Raise `ModelError` if an option is not available for runs with contacts."""
    problems = []
    if not is_concrete(values):
        problems.append(
            "contacts: the sequence of events depends on values, so the run cannot be jitted or differentiated"
        )
    if dt is not None:
        problems.append("dt: a run with contacts chooses its steps, so that they end at the events")
    if adjoint is not None:
        problems.append("adjoint: a run with contacts is not differentiated")
    if problems:
        raise ModelError(name, problems)


def check_step_fits(name: str, controller: Sampled, dt: Any) -> None:
    """Raise `ModelError` if the sampling period is not a multiple of a fixed step `dt` (s)."""
    if dt is None or not is_concrete(dt):
        return
    steps = float(controller.period) / float(dt)
    if abs(steps - round(steps)) > 1e-9 * steps or round(steps) < 1:
        raise ModelError(name, [f"dt = {dt} s does not divide the sampling period of {float(controller.period):g} s"])


def make_steps(
    solver: diffrax.AbstractSolver, rtol: ArrayLike, atol: ArrayLike, dt: ArrayLike | None, span: ArrayLike
) -> Steps:
    """Step size control for a run of `span` seconds."""
    growth = getattr(solver, "growth", 10.0)
    if all(isinstance(x, (int, float)) for x in (rtol, atol, span)):
        return _cached_steps(float(rtol), float(atol), float(span), dt is None, growth)  # pyright: ignore[reportArgumentType]
    return Steps(as_numbers([rtol, atol, 1e-13 * span]), adapt=dt is None, growth=growth)


@functools.lru_cache(maxsize=64)
def _cached_steps(rtol: float, atol: float, span: float, adapt: bool, growth: float) -> Steps:
    return Steps(np.array([rtol, atol, 1e-13 * span]), adapt=adapt, growth=growth)


def make_meter(progress: bool | diffrax.AbstractProgressMeter) -> diffrax.AbstractProgressMeter:
    """The progress meter for the argument `progress` of `simulate`."""
    if isinstance(progress, bool):
        return diffrax.TextProgressMeter() if progress else NO_METER
    return progress


def prepare_solver(solver: Any, short: bool, adjoint: Any, rtol: Any, atol: Any) -> Any:
    """A copy of `solver` with the loop kind and tolerances that `diffrax.diffeqsolve` would set.

    diffrax skips this set-up for wrapped solvers, and `ProjectedSolver` wraps. `short`: leave out evaluations that a
    projected step does not use.
    """
    scan_kind = {diffrax.ForwardMode: "lax", diffrax.DirectAdjoint: "bounded"}.get(type(adjoint))
    try:
        prepared = _with_loops(solver, scan_kind, short)
    except TypeError:  # a solver that cannot be hashed
        prepared = _with_loops.__wrapped__(solver, scan_kind, short)
    if isinstance(prepared, diffrax.AbstractImplicitSolver) and not eqx.is_array_like(
        getattr(prepared.root_finder, "rtol", 0.0)
    ):
        # Root finders of diffrax take their tolerances from the step size control, unless the user set them.
        finder: Callable[..., Any] = diffrax.VeryChord
        rtol, atol = (jnp.asarray(x, float) for x in (rtol, atol))
        prepared = eqx.tree_at(
            lambda s: s.root_finder, prepared, finder(rtol=rtol, atol=atol, linear_solver=DenseSolver())
        )
    return prepared


@functools.lru_cache(maxsize=64)
def _with_loops(solver: Any, scan_kind: str | None, short: bool) -> Any:
    chosen = ShortDopri8(scan_kind=solver.scan_kind) if short and type(solver) is diffrax.Dopri8 else solver
    if scan_kind is None or getattr(chosen, "scan_kind", "") is not None:
        return chosen
    return eqx.tree_at(lambda s: s.scan_kind, chosen, scan_kind, is_leaf=lambda x: x is None)
