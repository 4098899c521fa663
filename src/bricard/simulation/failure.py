"""Runs that stopped early: extract the computed part of the trajectory, and explain the failure with advice."""

from __future__ import annotations

import dataclasses

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from bricard.equations.problem import equilibrate, state_problem
from bricard.equations.rank import rank
from bricard.equations.routes.multipliers import Multipliers
from bricard.equations.routes.route import Route
from bricard.simulation.controller import Controller
from bricard.simulation.integration import Integration
from bricard.simulation.trajectory import Trajectory
from bricard.system import System


def computed_part(trajectory: Trajectory, run: Integration) -> Trajectory:
    """The trajectory until the run stopped; it ends with the last finite state."""
    good = np.isfinite(run.t) & np.all(np.isfinite(run.states.q), axis=1) & np.all(np.isfinite(run.states.v), axis=1)
    kept = jax.tree.map(lambda x: x[good], (run.t, run.states))
    modes = jax.tree.map(lambda x: x[good], trajectory.modes)
    last = (run.last_t, run.last)
    finite = all(np.all(np.isfinite(x)) for x in jax.tree.leaves(last))
    if finite and (kept[0].size == 0 or float(last[0]) > float(kept[0][-1])):
        kept = jax.tree.map(lambda x, y: jnp.concatenate([x, jnp.asarray(y)[None]]), kept, last)
        modes = jax.tree.map(lambda x: jnp.concatenate([x, x[-1:]]), modes)
    t, states = kept
    record = None if trajectory.record is None else trajectory.record.selected(modes)
    return dataclasses.replace(
        trajectory, t=t, q=states.q, v=states.v, work=states.work, memory=states.memory, record=record
    )


def failure_reason(system: System, route: Route, controller: Controller, run: Integration) -> str:
    """A sentence that says why the run stopped, with advice."""
    t = float(run.last_t)
    where = f"stopped at t = {t:.6g} s: "
    if bool(run.result == diffrax.RESULTS.max_steps_reached):
        return (
            where + "the maximum number of steps was reached. Raise max_steps, loosen rtol and atol, "
            "or try a solver for stiff systems: br.SSPRK104() or diffrax.Kvaerno5()."
        )
    for ahead in np.concatenate([[0.0], np.geomspace(1e-12, 1e-2, 11) * (1.0 + abs(t))]):
        q, v = run.last.q + ahead * system.qdot(run.last.q, run.last.v), run.last.v
        u = controller(t + ahead, q, v, run.last.memory)
        if not np.all(np.isfinite(u)):
            return where + "the controller's inputs became NaN or infinite. Check its demands and limits."
        problem = state_problem(system, q, v, u, t + ahead)
        parts = {
            "the mass matrix": problem.mass,
            "the force": problem.force,
            "the constraints": jnp.concatenate([problem.matrix.ravel(), problem.target, problem.position_error]),
        }
        for label, value in parts.items():
            if not np.all(np.isfinite(value)):
                return where + f"{label} became NaN or infinite. Check the model at the last state."
        if isinstance(route, Multipliers) and int(rank(equilibrate(problem)[0].matrix)) < problem.matrix.shape[0]:
            return where + "the constraints became dependent, which Multipliers does not tolerate; br.Proximal() does."
    if bool(run.result == diffrax.RESULTS.nonlinear_divergence):
        return where + "the next step could not be solved. Try a smaller dt, none at all, or looser rtol and atol."
    return (
        where + "the step size became too small. The motion may diverge here, or be too stiff for this solver: "
        "try br.SSPRK104() or diffrax.Kvaerno5(), or looser rtol and atol."
    )
