"""The trajectory of a run: its states, and the forces, energies and errors computed from them."""

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
from bricard.equations.load_dependent import add_load_dependent_force
from bricard.equations.problem import row_variation
from bricard.equations.routes.route import Route
from bricard.errors import ModelError, is_concrete
from bricard.execution.compile import xla_jit
from bricard.extensions import extension
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem, measure_along
from bricard.mechanism.joint_reactions import Reactions, reactions_along
from bricard.mechanism.model.sensors import Reading
from bricard.simulation.controller import Controller, Memory, RecordedInput
from bricard.simulation.events import EventRecord, runner_for
from bricard.simulation.plan import Execution
from bricard.simulation.stabilization import Stabilization, stabilized_problem
from bricard.simulation.trajectory_file import read_states, write_states
from bricard.simulation.vector_field import State
from bricard.system import Scalar, System

if TYPE_CHECKING:
    import xarray


class Energy(eqx.Module):
    """Energy balance of a run (J); each array has shape (k,), and work is counted from the start."""

    kinetic: Float[Array, " *k"]
    potential: Float[Array, " *k"]
    work_of_inputs: Float[Array, " *k"]
    work_of_forces: Float[Array, " *k"]
    """Work of `applied_force`, such as friction (negative) or wind."""
    work_of_drives: Float[Array, " *k"]
    """Work of moving constraints and of parameters that change with time."""

    @property
    def total(self) -> Float[Array, " *k"]:
        """Kinetic plus potential energy."""
        return self.kinetic + self.potential

    @property
    def balance(self) -> Float[Array, " *k"]:
        """Energy error: the change of the total energy since the start minus the work done."""
        work = self.work_of_inputs + self.work_of_forces + self.work_of_drives
        return self.total - self.total[..., :1] - (work - work[..., :1])

    @property
    def drift(self) -> Float[Array, " *batch"]:
        """Largest energy error (J)."""
        return jnp.max(jnp.abs(self.balance), axis=-1)


class ConstraintError(eqx.Module):
    """Constraint error of a run; each array has shape (k,) and holds the largest entry at each time."""

    position: Float[Array, " *k"]
    """`max |Φ|`, in the units of the constraints."""
    velocity: Float[Array, " *k"]
    """`max |A v − b₁|`."""

    def max(self) -> Float[Array, " *batch"]:
        """Largest error of all times, position and velocity."""
        return jnp.maximum(jnp.max(self.position, axis=-1), jnp.max(self.velocity, axis=-1))


class Trajectory(eqx.Module):
    """The result of `br.simulate`: `k` saved states, and quantities computed from them.

    Accelerations, forces and energies are computed at first access.
    """

    system: System
    route: Route
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
    """Memory of the controller; each leaf has shape (k, …)."""
    result: diffrax.RESULTS
    stats: dict[str, Any]
    """Numbers of steps taken, accepted, rejected."""
    record: EventRecord | None = None
    """Modes and events of the contacts; None in a run without contacts."""
    settings: dict[str, str] = eqx.field(static=True, default_factory=dict)
    """Settings of the run by name: solver, tolerances."""
    execution: Execution = eqx.field(static=True, default=Execution())
    """Back end, linear algebra and time to compile."""
    failure: str | None = eqx.field(static=True, default=None)
    """Why the run stopped early, if it did."""

    # -- derived quantities ----------------------------------------------------------------------------------------

    @property
    def contacts(self) -> tuple[Any, ...]:
        """The contacts of the run."""
        return () if self.record is None else self.record.sources

    @property
    def modes(self) -> Any:
        """Which contacts were closed, stuck or sliding, each (k, c); None in a run without contacts."""
        return None if self.record is None else self.record.modes

    @property
    def events(self) -> tuple[Any, ...]:
        """Events at the contacts: time, contact, kind, impulse, energy lost."""
        return () if self.record is None else self.record.events

    @property
    def u(self) -> Float[Array, "*k nu"]:
        """Inputs."""
        return self._along.u

    @property
    def signals(self) -> dict[str, Float[Array, "*k _"]]:
        """Signals of the controller by name, each (k, …): `signals["error"]`."""
        return self._along.signals

    @property
    def acceleration(self) -> Float[Array, "*k nv"]:
        """Acceleration `v̇`."""
        return self._along.dynamics.acceleration

    @property
    def multipliers(self) -> Float[Array, "*k m"]:
        """Multipliers `λ` of minimum norm, one column for each constraint row."""
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
        """Residuals of the constraints, in position and velocity."""
        return self._along.constraint_error

    @property
    def energy(self) -> Energy:
        """Energies, and their balance with the work done."""
        return self._along.energy

    @functools.cached_property
    def reactions(self) -> Reactions:
        """Force and moment of every joint of a mechanism on its child body: `reactions["A"].force`."""
        if self.contacts:
            raise ModelError("reactions", ["of joints are not known in runs with contacts, whose forces act as well"])
        return reactions_along(self.system, self.q, self.v, self.acceleration, self.u, self.t)

    @functools.cached_property
    def sensors(self) -> dict[str, Reading]:
        """Sensor readings of a mechanism over time: `sensors["tip"].value`, `.rate`."""
        if not isinstance(self.system, MechanismSystem):
            return {}
        return measure_along(self.system, self.q, self.v)

    @property
    def succeeded(self) -> Bool[Array, " *batch"]:
        """Whether the run reached its end."""
        return self.result == diffrax.RESULTS.successful

    @property
    def status(self) -> str:
        """A phrase that says how the run ended."""
        if self.failure is not None:
            return self.failure
        return "completed" if is_concrete(self.t) and bool(np.all(np.asarray(self.succeeded))) else "see `succeeded`"

    @functools.cached_property
    def _along(self) -> _Along:
        evaluate = _evaluate
        for _ in self.t.shape[:-1]:  # one for each batch axis made by `vmap`
            evaluate = eqx.filter_vmap(evaluate)
        states = State(self.q, self.v, self.work, self.memory)
        return evaluate(self.system, self.route, self.stabilization, self.controller, self.t, states, self.record)

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

    def to_xarray(self) -> xarray.Dataset:
        """The trajectory as a labelled `xarray.Dataset` (extra `xarray`)."""
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
        route: Route | None = None,
        stabilization: Stabilization = None,
        contacts: Sequence[Any] = (),
    ) -> Trajectory:
        """Read states written by `save`; `system` must be the one that was simulated.

        Accelerations and forces are computed again, by `route`. If the run used `Baumgarte` or contacts, pass the
        same `stabilization` and `contacts`.
        """
        from bricard.equations.routes.proximal import Proximal

        found = read_states(path, system, contacts)
        t, u = jnp.asarray(found["t"]), jnp.asarray(found["u"])
        return cls(
            system=system,
            route=Proximal() if route is None else route,
            stabilization=stabilization,
            controller=RecordedInput(t, u),
            t=t,
            q=jnp.asarray(found["q"]),
            v=jnp.asarray(found["v"]),
            work=jnp.asarray(found["work"]),
            memory=jnp.zeros((t.shape[0], 0)),
            result=diffrax.RESULTS.successful,
            stats={},
            record=runner_for(contacts[0]).from_arrays(str(path), found, tuple(contacts)) if contacts else None,
            failure=str(found["failure"]) or None,
        )

    def plot(self) -> Any:
        """Coordinates, energy balance, constraint error and forces over time, as a matplotlib figure (extra `plot`)."""
        self._require_single()
        return extension("trajectory figure")(self)

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page with the animation and the plots; returns its path (`.html`)."""
        self._require_single()
        return extension("report page")(self, path)

    def _repr_html_(self) -> str | None:
        """The report in a frame, for notebooks."""
        return extension("notebook page")(self)

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
    """Quantities computed from the states, along the time axis."""

    u: Float[Array, "*k nu"]
    signals: dict[str, Float[Array, "*k _"]]
    dynamics: Dynamics
    contact_force: Float[Array, "*k c rows"]
    contact_determinate: Bool[Array, "*k c rows"]
    constraint_error: ConstraintError
    energy: Energy


@xla_jit
def _evaluate(
    system: System,
    route: Route,
    stabilization: Stabilization,
    controller: Controller,
    t: Float[Array, " k"],
    states: State,
    record: EventRecord | None,
) -> _Along:
    modes = None if record is None else record.modes

    def active(modes: Any) -> System:
        return system if record is None else record.system_at(system, modes)

    start = row_variation(active(jax.tree.map(lambda x: x[0], modes)), states.q[0], t[0])

    def at(t: Scalar, state: State, modes: Any) -> _Along:
        q, v, work, memory = state
        u = controller(t, q, v, memory)
        here = active(modes)
        problem = stabilized_problem(here, q, v, u, t, stabilization, start)
        problem, friction = add_load_dependent_force(here, problem, q, v, t)
        dynamics, force, known = solve(problem, route), jnp.zeros((0, 1)), jnp.zeros((0, 1), dtype=bool)
        if record is not None:
            loads = record.forces(here, problem, friction, dynamics.acceleration, q, v, t)
            force, known = loads.force, loads.determinate
            dynamics = dataclasses.replace(
                dynamics,
                multipliers=loads.own,
                determinate=loads.own_determinate,  # without the rows of the contacts
            )
        kinetic = system.kinetic_energy(q, v, t)
        # If T has terms of lower order in v (moving pivots), T + V changes by 2T − p·v without any work.
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

    # Not vmapped: batched linear algebra can deadlock in the thread pool of XLA on few cores.
    return jax.lax.map(lambda state: at(*state), (t, states, modes))
