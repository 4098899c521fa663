"""Runs with contacts: from event to event, with the laws of impact and contact in between."""

from __future__ import annotations

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.contact.closed_contacts import Modes, Touching
from bricard.contact.event_location import CLOSING_SPEED, GRIP, HOLD, KINDS, PUSH, Progress, advance
from bricard.contact.gap import MAX_FRICTION, Contact, checked_contacts, gaps, slip_size
from bricard.contact.impacts import LAW_TOLERANCE, contact_impact
from bricard.contact.modes import Settled, settle
from bricard.contact.record import ContactEvent, ContactRecord, record_from_arrays
from bricard.equations.problem import row_variation
from bricard.equations.routes.route import Route
from bricard.errors import ModelError
from bricard.execution.compile import xla_jit
from bricard.execution.interrupt import stoppable
from bricard.execution.llvm.stop import FLAG, STARTED
from bricard.simulation.controller import Controller
from bricard.simulation.events import EventRecord, EventRun, EventRunner, runner_for
from bricard.simulation.integration import Integration
from bricard.simulation.stabilization import Stabilization
from bricard.simulation.step_size import Steps
from bricard.simulation.vector_field import Setting, State, vector_field
from bricard.system import System, Vector

PENETRATION = 1e-6
"""A start may be so far (m, rad) inside another body; it is then moved out."""
TOUCH = 1e-9
"""Gaps below this (m, rad) are closed."""
CHATTER = 1e-6
"""A contact whose next flight is shorter than this fraction of the run comes to rest; those left are summed up."""
AHEAD = np.geomspace(1e-9, 1e-4, 6)
"""Where redundant contacts cannot go on as they are, the laws decide by their forces this part of the run later."""
STALLED = 50
"""So many events without time going on mean that the contacts find no way to go on."""


class _Stuck(Exception):
    """The contacts find no way to go on."""


class ContactRunner(EventRunner):
    """Runs with contacts, from event to event."""

    def checked(self, system: System, sources: tuple[Any, ...]) -> tuple[Any, ...]:
        return checked_contacts(system, sources)

    def integrate(
        self, system: System, sources: tuple[Any, ...], q: Vector, v: Vector, times: Float[Array, " k"], **how: Any
    ) -> EventRun:
        return integrate_with_contacts(system, sources, q, v, times, **how)

    def from_arrays(self, path: str, arrays: dict[str, np.ndarray], sources: tuple[Any, ...]) -> EventRecord:
        return record_from_arrays(path, arrays, sources)


runner_for.register(Contact, lambda _: ContactRunner())


def integrate_with_contacts(
    system: System,
    contacts: tuple[Contact, ...],
    q: Vector,
    v: Vector,
    times: Float[Array, " k"],
    *,
    controller: Controller,
    route: Route,
    stabilization: Stabilization,
    solver: diffrax.AbstractSolver,
    steps: Steps,
    stops: Float[Array, " s"] | None,
    dt: Float[Array, ""],
    max_steps: int,
    max_events: int,
    progress: diffrax.AbstractProgressMeter,
) -> EventRun:
    """Integrate from `times[0]` to `times[-1]`, saving at `times`, through impacts and changes of contact.

    `progress` shows one bar for the whole run. Ctrl-C (or `request_stop`) ends it after its present step, or as soon as
    a program that is being compiled is ready; what has been computed by then is returned.
    """
    _check_start(system, contacts, q, times[0])
    run = _Run(system, contacts, controller, route, stabilization, float(times[-1] - times[0]))
    at, failure = run.begin(q, v, times, dt)
    modes = jax.tree.map(lambda x: np.zeros((times.shape[0], *x.shape)), run.modes)
    _record(modes, run.modes, 0, 1)
    limit, recent, interrupted = jnp.asarray(max_steps), [], False
    meter, show = progress.init(), xla_jit(progress.step)
    try:
        with stoppable() as stop:
            while failure is None:
                before = int(at.reached)
                at = advance(run.setting, at, times, times if stops is None else stops, solver, steps, limit)
                FLAG[STARTED] = 1  # from now on there is something to keep
                _record(modes, run.modes, before, int(at.reached))
                if not isinstance(progress, diffrax.NoProgressMeter):
                    meter = show(meter, (at.t - times[0]) / (times[-1] - times[0]))
                happened = bool(jnp.any(at.event))
                if not happened and (bool(at.result != diffrax.RESULTS.successful) or float(at.t) >= float(times[-1])):
                    break
                if stop.requested:
                    interrupted = True
                    break
                if not happened:
                    continue
                recent = [*recent, float(at.t)][-STALLED:]
                if len(recent) == STALLED and recent[-1] - recent[0] <= 1e-12 * max(1.0, abs(recent[-1])):
                    failure = (
                        f"{run.culprit(at)} can neither stay closed nor be released: its laws contradict each other"
                    )
                elif len(run.events) >= max_events:
                    failure = (
                        f"infinitely many impacts? There were {len(run.events)} events, the last at {run.culprit(at)}. "
                        "Raise max_events, or lower the restitution"
                    )
                else:
                    try:
                        at = run.handle(at)
                    except _Stuck as error:
                        failure = str(error)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.close(meter)
    if failure is not None:
        failure = f"stopped at t = {float(at.t):.6g} s: {failure}."
    reached = jnp.arange(times.shape[0]) < at.reached
    states = jax.tree.map(lambda x: jnp.where(reached.reshape(-1, *[1] * (x.ndim - 1)), x, jnp.inf), at.saved)
    taken, rejected = int(at.taken), int(at.rejected)
    stats = {"num_steps": taken, "num_accepted_steps": taken - rejected, "num_rejected_steps": rejected}
    failed: Any = diffrax.RESULTS.event_occurred
    result = at.result if failure is None else failed
    finished = result == diffrax.RESULTS.successful
    times = jnp.where(reached, times, jnp.inf)
    integration = Integration(times, states, at.t, at.y, result, finished, stats)
    record = ContactRecord(contacts, jax.tree.map(jnp.asarray, modes), tuple(run.events))
    return EventRun(integration, record, failure, interrupted)


def _check_start(system: System, contacts: tuple[Contact, ...], q: Vector, t: Array) -> None:
    problems = []
    for contact, gap in zip(contacts, np.asarray(gaps(contacts, q, t)), strict=True):
        if not np.isfinite(gap):
            problems.append(f"the gap of {contact.name} is not finite at the start")
        elif gap < -PENETRATION and bool(contact.enabled(q, t)):
            problems.append(f"the start penetrates {contact.name} by {-gap:.3g}")
    if problems:
        raise ModelError(type(system).__name__, problems)


def _record(all_modes: Modes, modes: Modes, start: int, end: int) -> None:
    for array, value in zip(all_modes, modes, strict=True):
        array[start:end] = np.asarray(value)[None]


@xla_jit
def _on_contacts(setting: Setting, t: Array, y: State) -> tuple[Setting, State]:
    """The setting that belongs to a start at `y`, and the start on the constraints and closed contacts."""
    setting = setting._replace(variation=row_variation(setting.system, y.q, t))
    return setting, setting.project(t, y)


@xla_jit
def _look(system: System, contacts: tuple[Contact, ...], t: Array, y: State, controller: Controller):
    able = jnp.stack([c.enabled(y.q, t) for c in contacts])
    return gaps(contacts, y.q, t), able, controller(t, y.q, y.v, y.memory)


@xla_jit
def _ahead(setting: Setting, t: Array, y: State, ahead: Array) -> tuple[Array, State, Array]:
    """Time, state and inputs a moment later, as the present modes have it."""
    rates = vector_field(t, y, setting)
    later = y._replace(q=y.q + ahead * rates.q, v=y.v + ahead * rates.v)
    later = setting.project(t + ahead, later)
    return t + ahead, later, setting.controller(t + ahead, later.q, later.v, later.memory)


class _Run:
    """The contacts of a run, between one event and the next."""

    def __init__(self, system, contacts, controller, route, stabilization, duration: float):
        self.system, self.contacts, self.controller = system, contacts, controller
        self.route, self.stabilization, self.duration = route, stabilization, duration
        c, k = len(contacts), slip_size(system, contacts)
        self.modes = Modes(jnp.zeros(c), jnp.zeros(c), jnp.zeros((c, k)))
        self.friction = np.array([min(float(np.asarray(x.friction)), MAX_FRICTION) for x in contacts])
        self.events: list[ContactEvent] = []
        self.hits: list[list[float]] = [[] for _ in contacts]

    def _start(self, t: Array, y: State) -> State:
        """Go on with the present modes: on the contacts that they close."""
        system = Touching.of(self.system, self.contacts, self.modes)
        rows = jnp.zeros((system.n_constraints, system.nv))
        bare = Setting(system, self.route, self.stabilization, self.controller, rows)
        self.setting, y = _on_contacts(bare, t, y)
        return y

    def culprit(self, progress: Progress) -> str:
        return self.contacts[int(np.argwhere(np.asarray(progress.event))[0][0])].name

    def begin(self, q: Vector, v: Vector, times: Float[Array, " k"], dt: Array) -> tuple[Progress, str | None]:
        """The start, with its contacts settled; if that fails, why."""
        c, k = len(self.contacts), times.shape[0]
        remember = xla_jit(self.controller.start)
        y = self._start(times[0], State(q, v, jnp.zeros(3), remember(times[0], q, v)))
        y = y._replace(memory=remember(times[0], y.q, y.v))
        zero = jnp.zeros((), dtype=int)
        saved = jax.tree.map(lambda x: jnp.full((k, *x.shape), jnp.inf, x.dtype), y)
        nothing = jnp.zeros((c, KINDS), dtype=bool)
        progress = Progress(times[0], y, dt, saved, zero, zero, zero, nothing, diffrax.RESULTS.successful)
        failure = None
        try:
            progress = self.handle(progress)
        except _Stuck as error:
            failure = str(error)
        saved = jax.tree.map(lambda all, one: all.at[0].set(one), progress.saved, progress.y)
        return progress._replace(saved=saved, reached=zero + 1), failure

    def handle(self, progress: Progress) -> Progress:
        """Impacts first, then which contacts stay closed."""
        t, y = progress.t, progress.y
        event = np.asarray(progress.event)
        gap, able, u = _look(self.system, self.contacts, t, y, self.controller)
        was = np.asarray(self.modes.closed) > 0.0
        near = (np.asarray(gap) <= TOUCH) & np.asarray(able)
        touching = near | was
        found = self._settle(y, u, t, np.zeros_like(was))
        hit = near & (np.asarray(found.velocity)[:, 0] < -CLOSING_SPEED)
        if np.any(hit):
            touching = near  # closed contacts that cannot be hit let go
            y = self._impact(t, y, touching)
        released = event[:, PUSH]
        y = self._rest(t, y, u, touching & ~released, hit, event)
        return progress._replace(y=y)

    def _settle(self, y: State, u: Array, t: Array, candidates: np.ndarray) -> Settled:
        found = settle(self.system, self.contacts, y.q, y.v, u, t, jnp.asarray(candidates), self.route)
        if not float(found.residual) <= LAW_TOLERANCE:
            names = ", ".join(c.name for c, on in zip(self.contacts, candidates, strict=True) if on)
            raise _Stuck(f"no forces at {names} meet the laws of contact: squeezed, or too much friction")
        return found

    def _impact(self, t: Array, y: State, touching: np.ndarray) -> State:
        hit = contact_impact(self.system, y.q, y.v, t, self.contacts, None, None, jnp.asarray(touching))
        if not float(hit.residual) <= LAW_TOLERANCE:
            names = ", ".join(c.name for c, on in zip(self.contacts, touching, strict=True) if on)
            raise _Stuck(f"no impulses at {names} meet the laws of impact: squeezed, or too much friction")
        impulses = np.asarray(hit.impulses)
        before = np.asarray(jnp.einsum("cak,k->ca", hit.matrix, y.v - hit.v) + hit.velocity)
        lost = -0.5 * np.sum((before + np.asarray(hit.velocity)) * impulses, axis=1)
        y = y._replace(v=hit.v, work=y.work.at[2].add(-hit.energy_lost))
        for i in np.flatnonzero(impulses[:, 0] > 1e-12 * np.max(impulses)).tolist():
            self.hits[i] = [*self.hits[i], float(t)][-3:]
            known = bool(np.all(hit.determinate[i]))
            self._note(t, y, i, "impact", tuple(float(x) for x in impulses[i]), float(lost[i]), known)
        return y

    def _rest(self, t: Array, y: State, u: Array, touching: np.ndarray, hit: np.ndarray, event: np.ndarray) -> State:
        """Close the contacts that touch without moving apart, and those whose flights have become too short."""
        velocity = np.asarray(self._settle(y, u, t, np.zeros_like(touching)).velocity)
        still = touching & (velocity[:, 0] <= CLOSING_SPEED)
        found = self._settle(y, u, t, still)
        fall = np.asarray(found.acceleration)[:, 0]
        flight = np.where(fall < 0.0, 2.0 * velocity[:, 0] / np.where(fall < 0.0, -fall, 1.0), np.inf)
        resting = touching & ~still & (flight < CHATTER * self.duration)
        if np.any(resting):
            # All that touch so slowly come to rest at once: to stop only some would drive others together again.
            slow = np.max(velocity[resting, 0])
            still = touching & (velocity[:, 0] <= slow)
            y = self._stopped(t, y, still, still & (np.linalg.norm(velocity[:, 1:], axis=1) <= slow))
            found = self._settle(y, u, t, still)
        new = self._modes(found, still, event)
        if np.any(event[:, HOLD]) and self._is_present(new):
            new = self._soon(t, y, still, event)
        for i in np.flatnonzero(resting & (np.asarray(new.closed) > 0.0)).tolist():
            self._note(t, y, i, "rest", later=self._left(i, float(flight[i])))
        self._note_changes(t, y, new)
        self.modes = new
        return self._start(t, y)

    def _stopped(self, t: Array, y: State, closed: np.ndarray, slow: np.ndarray) -> State:
        """The state in which `closed` contacts neither part nor approach; `slow` ones with friction do not slip."""
        modes, stuck = self.modes, slow & (self.friction > 0.0)
        self.modes = Modes(jnp.asarray(closed * 1.0), jnp.asarray(stuck * 1.0), jnp.zeros_like(modes.direction))
        y = self._start(t, y)
        self.modes = modes
        return y

    def _is_present(self, modes: Modes) -> bool:
        pairs = ((modes.closed, self.modes.closed), (modes.stuck, self.modes.stuck))
        return all(np.array_equal(a, b) for a, b in pairs)

    def _soon(self, t: Array, y: State, candidates: np.ndarray, event: np.ndarray) -> Modes:
        """The modes a moment later: at the very time when forces cease to be admissible, they still are."""
        new = self.modes
        for ahead in AHEAD * self.duration:
            later, state, u = _ahead(self.setting, t, y, jnp.asarray(ahead))
            new = self._modes(self._settle(state, u, later, candidates), candidates, event)
            if not self._is_present(new):
                break
        return new

    def _left(self, contact: int, flight: float) -> float:
        """Duration of all flights left, each shorter than the last by the same factor."""
        hits = self.hits[contact]
        ratio = float(np.asarray(self.contacts[contact].restitution))
        if len(hits) == 3 and hits[1] > hits[0]:
            ratio = (hits[2] - hits[1]) / (hits[1] - hits[0])
        return flight / (1.0 - ratio) if 0.0 <= ratio < 1.0 else flight

    def _modes(self, found: Settled, candidates: np.ndarray, event: np.ndarray) -> Modes:
        force = np.asarray(found.force)
        push, rub, known = force[:, 0], force[:, 1:], np.asarray(found.determinate)
        # A contact that need not push stays closed if it can; one that cannot is left.
        pushes = (push > 1e-12 * np.max(np.abs(force), initial=0.0)) | ~known[:, 0]
        closed = candidates & np.asarray(found.staying) & pushes
        rough = closed & (self.friction > 0.0)
        way = np.asarray(found.direction)
        at_limit = np.linalg.norm(rub, axis=1) > self.friction * push * (1.0 - 1e-9)
        begins = rough & (event[:, GRIP] | (at_limit & np.all(known, axis=1))) & ~np.any(way != 0.0, axis=1)
        # The way it slides, or begins to slide: against its friction.
        way = np.where(begins[:, None], -rub, way)
        size = np.linalg.norm(way, axis=1)
        sliding = rough & (size > 0.0)
        direction = np.where(sliding[:, None], way / np.where(size > 0.0, size, 1.0)[:, None], 0.0)
        stuck = rough & ~sliding
        return Modes(*(jnp.asarray(x, dtype=float) for x in (closed, stuck, direction)))

    def _note(self, t, y: State, i: int, kind: str, impulse=(), lost=0.0, known: bool = True, later=0.0) -> None:
        q, v = (tuple(float(x) for x in part) for part in (np.asarray(y.q), np.asarray(y.v)))
        self.events.append(ContactEvent(float(t) + later, self.contacts[i].name, kind, impulse, lost, known, q, v))

    def _note_changes(self, t: Array, y: State, new: Modes) -> None:
        old = self.modes
        for i in range(len(self.contacts)):
            if old.closed[i] and not new.closed[i]:
                self._note(t, y, i, "release")
            elif old.closed[i] and new.closed[i] and old.stuck[i] != new.stuck[i]:
                self._note(t, y, i, "stick" if new.stuck[i] else "slip")
