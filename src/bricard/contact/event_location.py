"""Integration until something happens at a contact: diffrax's steps, watched between their ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bricard.contact.closed_contacts import Touching
from bricard.contact.force_distribution import INSIDE
from bricard.contact.gap import gaps
from bricard.contact.modes import SLIP_SPEED
from bricard.equations.load_dependent import add_load_dependent_force
from bricard.equations.problem import equilibrate
from bricard.execution.compile import xla_jit
from bricard.execution.llvm.stop import stop_requested
from bricard.simulation.solvers import ProjectedSolver
from bricard.simulation.stabilization import stabilized_problem
from bricard.simulation.step_size import Steps
from bricard.simulation.stepping import Stepper, StepState
from bricard.simulation.vector_field import Setting, State, vector_field
from bricard.system import Scalar, Vector

LOOKS = 8
"""How often each step is looked at for a gap that closes; between two looks the gap's extremum is looked at too."""
CLOSING_SPEED = 1e-8
"""Gaps at zero that close more slowly (m/s, rad/s) have not been hit yet."""
DEPTH = 1e-10
"""A gap that dips less below zero (m, rad) between two looks, or without speed, does not count."""
NEARLY = 0.1
"""Where a gap dips below this part of its largest value in a step, the run steps onto its lowest point."""
FEW_STEPS = 200
"""After so many steps a run returns to Python, which shows its progress."""
TRIALS = 80
"""Steps to the time of an event at most; a handful is usual."""

KINDS = 5
GAP, PUSH, SLIP, GRIP, HOLD = range(KINDS)
"""What is watched of each contact: gap (while open), normal force, speed of slip, what is left of static friction.

Of redundant contacts, whose forces are not unique: whether any forces are admissible (`HOLD`, at the first contact).
"""


class Progress(NamedTuple):
    """Where a run stands."""

    t: Float[Array, ""]
    y: State
    step: Float[Array, ""]
    """The step size to go on with (s)."""
    saved: State
    """States at the times to be saved, as far as reached."""
    reached: Int[Array, ""]
    """How many are saved."""
    taken: Int[Array, ""]
    """Steps, rejected ones too."""
    rejected: Int[Array, ""]
    event: Bool[Array, "c kinds"]
    """What happened at which contact, if anything."""
    result: diffrax.RESULTS


class _Loop(NamedTuple):
    progress: Progress
    values: Float[Array, "c kinds"]
    rates: Float[Array, " c"]
    t_next: Float[Array, ""]
    t_far: Float[Array, ""]
    state: StepState
    # While the time of an event is searched: until when it has happened, what, and its value then.
    until: Float[Array, ""]
    what: Int[Array, ""]
    value: Float[Array, ""]
    sure: Bool[Array, ""]
    side: Int[Array, ""]
    weight: Float[Array, ""]
    trials: Int[Array, ""]
    done: Bool[Array, ""]


def watched(setting: Setting, t: Scalar, y: State) -> tuple[Float[Array, "c kinds"], Float[Array, " c"]]:
    """What must stay positive, 1 where it does not apply, and the rates of all gaps."""
    system = setting.system
    assert isinstance(system, Touching)
    modes = system.modes
    gap, rate = _gaps(system, t, y.q, system.qdot(y.q, y.v))
    ones = jnp.ones_like(gap)
    slip = jnp.sum(system.slip_velocity(y.q, y.v, t) * modes.direction, axis=1)
    slides = jnp.any(modes.direction != 0.0, axis=1)

    def forces() -> tuple[Array, Array, Array]:
        u = setting.controller(t, y.q, y.v, y.memory)
        problem = stabilized_problem(system, y.q, y.v, u, t, setting.stabilization, setting.variation)
        problem, friction = add_load_dependent_force(system, problem, y.q, y.v, t)
        scaled, units = equilibrate(problem)
        acceleration = setting.route.acceleration(scaled) * units.columns
        loads = system.loads(problem, friction, acceleration, y.q, y.v, t)
        return loads.force, loads.determinate, jnp.where(loads.missed <= INSIDE, 1.0, -1.0)

    def nothing() -> tuple[Array, Array, Array]:
        shape = (gap.shape[0], 1 + system.slips)
        return jnp.ones(shape), jnp.ones(shape, dtype=bool), jnp.ones(())

    force, known, hold = jax.lax.cond(jnp.any(modes.closed > 0.0), forces, nothing)
    grip = system.friction * force[:, 0] - jnp.linalg.norm(force[:, 1:], axis=1)
    columns = (
        jnp.where(modes.closed > 0.0, ones, gap),
        jnp.where((modes.closed > 0.0) & known[:, 0], force[:, 0], ones),
        jnp.where(slides, slip, ones),
        jnp.where((modes.stuck > 0.0) & jnp.all(known, axis=1), grip, ones),
        ones.at[0].set(hold),
    )
    return jnp.stack(columns, axis=1), rate


def _gaps(system: Touching, t: Scalar, q: Vector, qdot: Vector) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    t = jnp.asarray(t, dtype=float)
    return jax.jvp(lambda q, t: gaps(system.contacts, q, t), (q, t), (qdot, jnp.ones_like(t)))


def _first_event(
    setting: Setting,
    t0: Scalar,
    y0: State,
    before: Float[Array, "c kinds"],
    t1: Scalar,
    y1: State,
    after: Float[Array, "c kinds"],
    searching: Bool[Array, ""],
) -> tuple[Bool[Array, ""], Float[Array, ""], Int[Array, ""], Float[Array, ""]]:
    """Whether something happened in a step, when it had, which of the watched values, and that value then."""
    system = setting.system
    assert isinstance(system, Touching)
    h = t1 - t0
    ends = (y0.q, h * system.qdot(y0.q, y0.v), y1.q, h * system.qdot(y1.q, y1.v))

    def look(s: Float[Array, ""]) -> tuple[Array, Array, Array]:
        q = system.normalize(_hermite(s, *ends))
        gap, rate = _gaps(system, t0 + s * h, q, _hermite_rate(s, *ends) / h)
        able = jnp.stack([c.enabled(q, t0 + s * h) for c in system.contacts])
        return gap, rate, able & (system.modes.closed == 0.0)

    s = jnp.arange(LOOKS + 1) / LOOKS
    gap, rate, able = jax.lax.map(look, s)
    hit = able & (gap <= 0.0) & ((rate < -CLOSING_SPEED) | (gap < -DEPTH))
    # Between two looks a gap may dip and rise again: its lowest point is looked at, and if it is low, stepped onto.
    piece = h / LOOKS
    _, least = _lowest(gap[:-1], piece * rate[:-1], gap[1:], piece * rate[1:])
    dips = able[1:] & (gap[:-1] > 0.0) & (gap[1:] > 0.0) & (rate[:-1] < -CLOSING_SPEED) & (rate[1:] > 0.0)
    first = jnp.argmin(jnp.where(dips, least, jnp.inf), axis=0)

    def lowest(contact: Int[Array, ""]) -> tuple[Array, Array]:
        def halve(_, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            falls = look(middle)[1][contact] < 0.0
            return jnp.where(falls, middle, ends[0]), jnp.where(falls, ends[1], middle)

        _, right = jax.lax.fori_loop(0, 40, halve, (s[first[contact]], s[first[contact] + 1]))
        return right, look(right)[0][contact]

    where, depth = jax.lax.map(lowest, jnp.arange(gap.shape[1]))
    low = jnp.any(dips, axis=0) & (depth < NEARLY * jnp.max(gap, axis=0))
    times = jnp.minimum(jnp.min(jnp.where(hit[1:], s[1:, None], jnp.inf), axis=0), jnp.where(low, where, jnp.inf))
    crossed = ((after <= 0.0) & (before > 0.0)).at[:, SLIP].set(after[:, SLIP] < -SLIP_SPEED)
    fractions = jnp.where(crossed, 1.0, jnp.inf).at[:, GAP].set(times)
    what = jnp.argmin(fractions.reshape(-1))
    fraction = fractions.reshape(-1)[what]
    # What has happened in between and still has at the end of the step is known best there.
    at_end = (fraction >= 1.0) | (searching & (after.reshape(-1)[what] <= 0.0))
    value = jnp.where(at_end, after.reshape(-1)[what], -jnp.abs(before.reshape(-1)[what]))
    found = jnp.isfinite(fraction)
    return found, jnp.where(at_end, t1, t0 + jnp.where(found, fraction, 1.0) * h), what, value


def _hermite(s, a, da, b, db):
    return (1 + 2 * s) * (1 - s) ** 2 * a + s * (1 - s) ** 2 * da + s**2 * (3 - 2 * s) * b + s**2 * (s - 1) * db


def _hermite_rate(s, a, da, b, db):
    return 6 * s * (s - 1) * (a - b) + (1 - s) * (1 - 3 * s) * da + s * (3 * s - 2) * db


def _lowest(a, da, b, db) -> tuple[Array, Array]:
    """Where in 0 … 1 a cubic that falls at first and rises at the end is lowest, and its value there."""
    p, q, r = 3 * (2 * (a - b) + da + db), -2 * (3 * (a - b) + 2 * da + db), da  # its rate p s² + q s + r
    root = jnp.sqrt(jnp.maximum(q**2 - 4 * p * r, 0.0))
    s = jnp.where(q >= 0.0, -2 * r / jnp.where(q + root > 0, q + root, 1.0), (root - q) / jnp.where(p != 0, 2 * p, 1.0))
    s = jnp.clip(jnp.where(jnp.isfinite(s), s, 0.5), 0.0, 1.0)
    return s, _hermite(s, a, da, b, db)


@xla_jit
def advance(
    setting: Setting,
    progress: Progress,
    times: Float[Array, " k"],
    stops: Float[Array, " s"],
    solver: diffrax.AbstractSolver,
    steps: Steps,
    max_steps: Int[Array, ""],
) -> Progress:
    """Go on until the last of `times`, an event or a failure, or for `FEW_STEPS`; steps end at `stops`.

    On a stop request (`stop_requested`) it returns after the current step.
    """
    end = times[-1]
    t, y = progress.t, progress.y
    setting = setting.ready(t, y)
    term: Any = diffrax.ODETerm(vector_field)  # pyright: ignore[reportArgumentType]
    control: Any = steps.controller(stops)
    stepper = Stepper(term, ProjectedSolver(solver), control, setting)
    first, state = stepper.start(t, end, y, jnp.minimum(progress.step, end - t))
    zero = jnp.zeros((), dtype=int)
    loop = _Loop(
        progress=progress._replace(event=jnp.zeros_like(progress.event), result=diffrax.RESULTS.successful),
        values=jnp.ones_like(progress.event, dtype=float),
        rates=jnp.ones(progress.event.shape[0]),
        t_next=t,  # The first step has no length: it only looks at the start. So `watched` is compiled once.
        t_far=jnp.minimum(first, end),
        state=state,
        until=jnp.full((), jnp.inf),
        what=zero,
        value=jnp.zeros(()),
        sure=jnp.zeros((), dtype=bool),
        side=zero,
        weight=jnp.ones(()),
        trials=zero,
        done=t >= end,
    )

    def one_step(loop: _Loop) -> _Loop:
        p = loop.progress
        # Each step starts afresh: the search for an event repeats steps with other lengths.
        tried = stepper.attempt(p.t, loop.t_next, p.y, loop.state, True)
        y1, keep = tried.y, tried.accepted
        searching, looking = jnp.isfinite(loop.until), loop.t_next <= p.t
        finite = tried.solved == diffrax.RESULTS.successful
        good: Any = diffrax.RESULTS.successful
        result = diffrax.RESULTS.where(searching | looking, good, tried.controlled)
        keep = jnp.where(searching | looking, finite, keep)
        after, after_rates = watched(setting, loop.t_next, y1)
        found, when, what, value = _first_event(setting, p.t, p.y, loop.values, loop.t_next, y1, after, searching)
        found = found & keep & ~looking
        # The event itself: found at the end of a step that is as short as can be, or whose value there is zero.
        is_gap = jnp.where(found, what, loop.what) % KINDS == GAP
        small = jnp.where(is_gap, 1e-14 * (1.0 + jnp.max(jnp.abs(y1.q), initial=0.0)), 1e-11 * (1.0 + jnp.abs(value)))
        tiny = 1e-15 * jnp.maximum(1.0, jnp.abs(p.t))
        at_end = found & (when >= loop.t_next)
        shortest = loop.t_next - p.t <= tiny
        what = jnp.where(found, what, loop.what)
        left = jnp.abs(after.reshape(-1)[what])
        hit = (at_end & ((left <= small) | shortest | (loop.trials > TRIALS))) | (
            searching & loop.sure & keep & ~found & ((loop.until - loop.t_next <= tiny) | (left <= small))
        )
        go = keep & (~found | hit)

        def chosen(new, old):
            return jax.tree.map(lambda a, b: jnp.where(go, a, b), new, old)

        t, y = jnp.where(go, loop.t_next, p.t), chosen(y1, p.y)
        values, rates = chosen(after, loop.values), chosen(after_rates, loop.rates)
        due = go & (p.reached < times.shape[0]) & (t >= times[jnp.minimum(p.reached, times.shape[0] - 1)] - tiny)
        index = jnp.minimum(p.reached, times.shape[0] - 1)
        saved = jax.tree.map(lambda all, one: all.at[index].set(jnp.where(due, one, all[index])), p.saved, y)
        # Next: on along the run, or nearer to the event (regula falsi, Illinois variant).
        refuted = searching & ~loop.sure & keep & ~found & (loop.t_next >= loop.until)
        until = jnp.where(found, when, jnp.where(refuted, jnp.inf, loop.until))
        sure = jnp.where(found, at_end, loop.sure)
        search = jnp.isfinite(until)
        side = jnp.where(found, 1, -1)
        again = searching & (side == loop.side)
        high = jnp.where(found, value, loop.value * jnp.where(again, 0.5, 1.0))
        weight = jnp.where(again & found, 0.5 * loop.weight, 1.0)
        low = weight * values.reshape(-1)[what]
        falling = ~is_gap | (rates[what // KINDS] < -CLOSING_SPEED)
        secant = jnp.clip(low / jnp.where(low - high > 0.0, low - high, 1.0), 0.0, 1.0)
        usable = falling & (low > 0.0) & (high < 0.0) & (loop.trials < TRIALS // 2)
        inside = t + (until - t) * jnp.where(usable, secant, 0.5)
        inside = jnp.where(sure, jnp.clip(inside, jnp.minimum(t + tiny, until), until), until)
        fresh = ~searching & ~found & ~looking
        t_far = jnp.where(fresh, jnp.minimum(tried.t1, end), loop.t_far)
        t_next = jnp.where(search, inside, jnp.where(fresh, t_far, jnp.maximum(t_far, t + tiny)))
        on_steps = fresh
        failed = result != diffrax.RESULTS.successful
        taken = p.taken + 1
        out = taken >= max_steps
        spent: Any = diffrax.RESULTS.max_steps_reached
        result = diffrax.RESULTS.where(out & ~hit & (t < end), spent, result)
        asked = stop_requested(taken)
        event = jnp.zeros_like(p.event).reshape(-1).at[what].set(hit).reshape(p.event.shape)
        return _Loop(
            progress=Progress(
                t,
                y,
                jnp.where(on_steps & keep, tried.t1 - tried.t0, p.step),
                saved,
                p.reached + due,
                taken,
                p.rejected + ~keep,
                event,
                result,
            ),
            values=values,
            rates=rates,
            t_next=jnp.minimum(t_next, end),
            t_far=t_far,
            state=StepState(
                tried.state.solver,
                jax.tree.map(lambda a, b: jnp.where(on_steps, a, b), tried.state.control, loop.state.control),
            ),
            until=until,
            what=what,
            value=high,
            sure=sure & search,
            side=side,
            weight=weight,
            trials=jnp.where(search, loop.trials + 1, 0),
            # To ask in each step costs nothing here: the steps call LAPACK, and XLA does not join them anyway.
            done=hit | failed | out | (t >= end) | (fresh & (taken - progress.taken >= FEW_STEPS)) | asked,
        )

    return jax.lax.while_loop(lambda s: ~s.done, one_step, loop).progress
