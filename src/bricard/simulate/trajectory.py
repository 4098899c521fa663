"""A simulated motion, with everything labelled that follows from it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bricard.equations.dynamics import Dynamics, solve
from bricard.equations.problem import row_variation
from bricard.equations.reactions import Reactions, reactions_along
from bricard.equations.route import Route
from bricard.errors import ModelError, is_concrete
from bricard.mechanism.base import MechanismSystem, measure_along
from bricard.mechanism.sensors import Reading
from bricard.simulate.contact import Unilateral
from bricard.simulate.controller import Controller, Memory, RecordedInput
from bricard.simulate.events import ContactEvent
from bricard.simulate.integrate import State
from bricard.simulate.saved import read_states, saved_events, write_states
from bricard.simulate.stabilize import Stabilization
from bricard.simulate.touching import Modes, Touching, problem_with_friction
from bricard.system import Scalar, System

if TYPE_CHECKING:
    import xarray


class Energy(eqx.Module):
    """Energy balance of a run (J), each of shape (k,). The start counts as zero work."""

    kinetic: Float[Array, " *k"]
    potential: Float[Array, " *k"]
    work_of_inputs: Float[Array, " *k"]
    work_of_forces: Float[Array, " *k"]
    """Of `applied_force`: friction (negative), wind, …"""
    work_of_drives: Float[Array, " *k"]
    """Of moving constraints and of parameters that change with time."""

    @property
    def total(self) -> Float[Array, " *k"]:
        """Kinetic plus potential energy."""
        return self.kinetic + self.potential

    @property
    def balance(self) -> Float[Array, " *k"]:
        """What was gained since the start beyond the work done: zero but for numerical errors."""
        work = self.work_of_inputs + self.work_of_forces + self.work_of_drives
        return self.total - self.total[..., :1] - (work - work[..., :1])

    @property
    def drift(self) -> Float[Array, " *batch"]:
        """Largest violation of the balance (J)."""
        return jnp.max(jnp.abs(self.balance), axis=-1)


class ConstraintError(eqx.Module):
    """How far a run is off its constraints, each of shape (k,): the largest entry at each time."""

    position: Float[Array, " *k"]
    """`max |Φ|`, in the units of the constraints."""
    velocity: Float[Array, " *k"]
    """`max |A v − b₁|`."""

    def max(self) -> Float[Array, " *batch"]:
        """The largest of all, position and velocity."""
        return jnp.maximum(jnp.max(self.position, axis=-1), jnp.max(self.velocity, axis=-1))


class Trajectory(eqx.Module):
    """The result of `br.simulate`: `k` states, and on demand what follows from them.

    Accelerations, forces and energies are computed when first asked for.
    """

    system: System
    method: Route
    stabilization: Stabilization
    controller: Controller
    t: Float[Array, " k"]
    """Times (s)."""
    q: Float[Array, "k nq"]
    """Coordinates."""
    v: Float[Array, "k nv"]
    """Velocities."""
    work: Float[Array, "k 3"]
    """Work (J) of the inputs, of other applied forces, of moving constraints and explicit time."""
    memory: Memory
    """Of the controller: each leaf (k, …)."""
    result: diffrax.RESULTS
    stats: dict[str, Any]
    """Numbers of steps taken, accepted, rejected."""
    contacts: tuple[Unilateral, ...] = ()
    """What could touch."""
    modes: Modes | None = None
    """Which contacts were closed, stuck or slid, each (k, c); of a run with contacts."""
    events: tuple[ContactEvent, ...] = eqx.field(static=True, default=())
    """What happened at the contacts: time, contact, kind, impulse, energy lost."""
    settings: dict[str, str] = eqx.field(static=True, default_factory=dict)
    """How it was run: solver, tolerances."""
    failure: str | None = eqx.field(static=True, default=None)
    """Why the run stopped early, if it did."""

    # -- what follows ----------------------------------------------------------------------------------------------

    @property
    def u(self) -> Float[Array, "*k nu"]:
        """Inputs."""
        return self._along.u

    @property
    def signals(self) -> dict[str, Float[Array, "*k _"]]:
        """What the controller saw and wanted, by name: `signals["error"]`, each (k, …)."""
        return self._along.signals

    @property
    def acceleration(self) -> Float[Array, "*k nv"]:
        """`v̇`."""
        return self._along.dynamics.acceleration

    @property
    def multipliers(self) -> Float[Array, "*k m"]:
        """`λ` of minimum norm, one column for each constraint row."""
        return self._along.dynamics.multipliers

    @property
    def determinate(self) -> Bool[Array, "*k m"]:
        """Which multipliers a rigid model determines."""
        return self._along.dynamics.determinate

    @property
    def constraint_force(self) -> Float[Array, "*k nv"]:
        """`Aᵀλ`, the generalised force of the constraints on the system."""
        return self._along.dynamics.constraint_force

    @property
    def contact_force(self) -> Float[Array, "*k c rows"]:
        """Normal force and friction (N) of each contact; unique where `contact_determinate`, else of least norm."""
        return self._along.contact_force

    @property
    def contact_determinate(self) -> Bool[Array, "*k c rows"]:
        """Which entries of `contact_force` a rigid model determines; redundant contacts share their load."""
        return self._along.contact_determinate

    @property
    def rank(self) -> Int[Array, " *k"]:
        """Number of independent constraints; it drops at singular positions."""
        return self._along.dynamics.rank

    @property
    def constraint_error(self) -> ConstraintError:
        """How far the states are off the constraints."""
        return self._along.constraint_error

    @property
    def energy(self) -> Energy:
        """Energies, and their balance with the work done."""
        return self._along.energy

    @functools.cached_property
    def reactions(self) -> Reactions:
        """Of a mechanism, the force and moment of every joint on its child body: `reactions["A"].force`."""
        if self.contacts:
            raise ModelError("reactions", ["of joints are not known in runs with contacts, whose forces act as well"])
        return reactions_along(self.system, self.q, self.v, self.acceleration, self.u, self.t)

    @functools.cached_property
    def sensors(self) -> dict[str, Reading]:
        """Of a mechanism, what its sensors read over time: `sensors["tip"].value`, `.rate`."""
        if not isinstance(self.system, MechanismSystem):
            return {}
        return measure_along(self.system, self.q, self.v)

    @property
    def succeeded(self) -> Bool[Array, " *batch"]:
        """Whether the run reached its end."""
        return self.result == diffrax.RESULTS.successful

    @property
    def status(self) -> str:
        """In words, how the run ended."""
        if self.failure is not None:
            return self.failure
        return "completed" if is_concrete(self.t) and bool(np.all(np.asarray(self.succeeded))) else "see `succeeded`"

    @functools.cached_property
    def _along(self) -> _Along:
        evaluate = _evaluate
        for _ in self.t.shape[:-1]:  # of a batch made by `vmap`, each run
            evaluate = eqx.filter_vmap(evaluate)
        states = State(self.q, self.v, self.work, self.memory)
        where = (self.contacts, self.modes)
        return evaluate(self.system, self.method, self.stabilization, self.controller, self.t, states, where)

    def __getitem__(self, name: str) -> Float[Array, " *k"]:
        """A coordinate by its name."""
        return self.q[..., self.system.index(name)[0]]

    def __len__(self) -> int:
        return self.t.shape[-1]

    def __repr__(self) -> str:
        if not is_concrete(self.t) or self.t.ndim != 1 or self.t.shape[0] == 0:
            return f"Trajectory of {type(self.system).__name__}, t {self.t.shape}"
        span = f"{float(self.t[0]):g} to {float(self.t[-1]):g} s"
        return f"Trajectory of {type(self.system).__name__}: {len(self)} states from {span}, {self.status}"

    # -- out -------------------------------------------------------------------------------------------------------

    def to_xarray(self) -> xarray.Dataset:
        """Everything as a labelled `xarray.Dataset` (extra `xarray`)."""
        import xarray

        self._require_single()
        system = self.system
        over = {
            "q": (("time", "coordinate"), self.q),
            "v": (("time", "velocity"), self.v),
            "acceleration": (("time", "velocity"), self.acceleration),
            "constraint_force": (("time", "velocity"), self.constraint_force),
            "multipliers": (("time", "constraint"), self.multipliers),
            "determinate": (("time", "constraint"), self.determinate),
            "u": (("time", "input"), self.u),
            "rank": (("time",), self.rank),
            "position_error": (("time",), self.constraint_error.position),
            "velocity_error": (("time",), self.constraint_error.velocity),
            "kinetic_energy": (("time",), self.energy.kinetic),
            "potential_energy": (("time",), self.energy.potential),
            "energy_balance": (("time",), self.energy.balance),
            **{f"signal_{name}": (("time", f"{name}_entry"), values) for name, values in self.signals.items()},
        }
        return xarray.Dataset(
            {name: (dims, np.asarray(values)) for name, (dims, values) in over.items()},
            coords={
                "time": ("time", np.asarray(self.t), {"units": "s"}),
                "coordinate": list(system.coordinates),
                "velocity": list(system.velocity_names),
                "constraint": list(system.row_names),
                "input": list(system.input_names),
            },
            attrs={"system": type(system).__name__, "status": self.status},
        )

    def save(self, path: str | Path) -> None:
        """Write the states to a NumPy `.npz` file, whole or not at all; `Trajectory.load` reads it back."""
        self._require_single()
        write_states(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        system: System,
        method: Route | None = None,
        stabilization: Stabilization = None,
        contacts: Sequence[Unilateral] = (),
    ) -> Trajectory:
        """Read states written by `save`; the system that made them gives them their meaning again.

        Accelerations and forces are computed anew, by `method`; they depend on `stabilization` if it was `Baumgarte`,
        and on the `contacts` if there were some.
        """
        from bricard.equations.proximal import Proximal

        found = read_states(path, system, contacts)
        t, u = jnp.asarray(found["t"]), jnp.asarray(found["u"])
        return cls(
            system=system,
            method=Proximal() if method is None else method,
            stabilization=stabilization,
            controller=RecordedInput(t, u),
            t=t,
            q=jnp.asarray(found["q"]),
            v=jnp.asarray(found["v"]),
            work=jnp.asarray(found["work"]),
            memory=jnp.zeros((t.shape[0], 0)),
            result=diffrax.RESULTS.successful,
            stats={},
            contacts=tuple(contacts),
            modes=Modes(*(jnp.asarray(found[x]) for x in Modes._fields)) if contacts else None,
            events=saved_events(str(path), found) if contacts else (),
            failure=str(found["failure"]) or None,
        )

    def plot(self) -> Any:
        """Coordinates, energy balance, constraint error and forces over time, as a matplotlib figure (extra `plot`)."""
        from bricard.report.plots import trajectory_figure

        self._require_single()
        return trajectory_figure(self)

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page with the animation and the plots; returns its path (`.html`)."""
        from bricard.report.page import write_report

        self._require_single()
        return write_report(self, path)

    def _repr_html_(self) -> str | None:
        """In notebooks, the report in a frame."""
        from bricard.report.page import notebook_page

        return notebook_page(self)

    def _require_single(self) -> None:
        if not is_concrete(self.t, self.q, self.v):
            raise ModelError(
                "Trajectory",
                ["JAX is tracing this run (jit, grad, vmap): return it from the traced function to save or show it"],
            )
        if self.t.ndim != 1:
            raise ModelError(
                "Trajectory",
                [f"holds a batch of runs of shape {self.t.shape[:-1]}; pick one with jax.tree.map"],
            )


class _Along(eqx.Module):
    """What follows from the states."""

    u: Float[Array, "*k nu"]
    signals: dict[str, Float[Array, "*k _"]]
    dynamics: Dynamics
    contact_force: Float[Array, "*k c rows"]
    contact_determinate: Bool[Array, "*k c rows"]
    constraint_error: ConstraintError
    energy: Energy


@eqx.filter_jit
def _evaluate(
    system: System,
    method: Route,
    stabilization: Stabilization,
    controller: Controller,
    t: Float[Array, " k"],
    states: State,
    where: tuple[tuple[Unilateral, ...], Modes | None],
) -> _Along:
    contacts, modes = where

    def touching(modes: Modes | None) -> System:
        return system if modes is None else Touching.of(system, contacts, modes)

    start = row_variation(touching(jax.tree.map(lambda x: x[0], modes)), states.q[0], t[0])

    def at(t: Scalar, state: State, modes: Modes | None) -> _Along:
        q, v, work, memory = state
        u = controller(t, q, v, memory)
        here = touching(modes)
        problem, friction = problem_with_friction(here, q, v, u, t, stabilization, start)
        dynamics, force, known = solve(problem, method), jnp.zeros((0, 1)), jnp.zeros((0, 1), dtype=bool)
        if isinstance(here, Touching):
            loads = here.loads(problem, friction, dynamics.acceleration, q, v, t)
            force, known = loads.force, loads.determinate
            dynamics = dataclasses.replace(
                dynamics,
                multipliers=loads.own,
                determinate=loads.own_determinate,  # of the system's own rows
            )
        kinetic = system.kinetic_energy(q, v, t)
        # For kinetic energies with terms of lower order in v (moving pivots) T + V changes by this without any work.
        momentum = jax.grad(system.kinetic_energy, argnums=1)(q, v, t)
        return _Along(
            u=u,
            signals={name: jnp.atleast_1d(x) for name, x in controller.signals(t, q, v, memory).items()},
            dynamics=dynamics,
            contact_force=force,
            contact_determinate=known,
            constraint_error=ConstraintError(
                jnp.max(jnp.abs(problem.position_error), initial=0.0),
                jnp.max(jnp.abs(problem.velocity_error), initial=0.0),
            ),
            energy=Energy(
                kinetic,
                system.potential_energy(q, t),
                work[0],
                work[1],
                work[2] + 2.0 * kinetic - v @ momentum,
            ),
        )

    # One state after the other: batched linear algebra can deadlock in the thread pool of XLA on few cores.
    return jax.lax.map(lambda state: at(*state), (t, states, modes))
