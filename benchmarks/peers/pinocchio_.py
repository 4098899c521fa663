"""Pinocchio: joints as minimal coordinates, loops as 3D constraints of `constraintDynamics` (proximal, Baumgarte).

Pinocchio computes accelerations but has no integrator. Here the integrators are the classical Runge–Kutta method with
fixed steps and DOP853 of SciPy (order 8, adaptive). Their Python loops are part of the time, as they are for users in
Python; `note` gives the time of Pinocchio alone. Spring forces are computed with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.models import GROUND, Model, damped
from benchmarks.problems import Problem
from benchmarks.runs import Run
from benchmarks.timing import cpu_time

NAME = "Pinocchio"
PROXIMAL = (1e-12, 1e-10, 20)
"""Accuracy, regularisation and maximum number of iterations, which tolerate redundant and singular constraints."""


class Simulation:
    """A model in Pinocchio at its initial state; loop errors decay with `rate` (1/s), critically damped (Baumgarte)."""

    def __init__(self, model: Model, rate: float, proximal: tuple[float, float, int] = PROXIMAL):
        import pinocchio as pin  # pyright: ignore[reportMissingImports]

        self.pin, self.description = pin, model
        self.model = pin.Model()
        self.model.gravity = pin.Motion(model.gravity, np.zeros(3))
        self.joints = {GROUND: 0}
        for b in _depth_first(model):
            kind = pin.JointModelPrismaticUnaligned if b.slides else pin.JointModelRevoluteUnaligned
            placement = pin.SE3(np.eye(3), b.at - self._origin(b.parent))
            joint = self.model.addJoint(self.joints[b.parent], kind(b.axis), placement, b.name)
            inertia = pin.Inertia(b.mass, b.centre - b.at, b.inertia)
            self.model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
            self.joints[b.name] = joint
        self.data = self.model.createData()
        self.constraints = pin.StdVec_RigidConstraintModel()
        for loop in model.loops:
            for point in loop.points:
                first, second = (
                    (self.joints[body], pin.SE3(np.eye(3), point - self._origin(body)))
                    for body in (loop.first, loop.second)
                )
                constraint = pin.RigidConstraintModel(
                    pin.ContactType.CONTACT_3D, self.model, *first, *second, pin.ReferenceFrame.LOCAL
                )
                constraint.setBaumgarteCorrectorParameters(pin.BaumgarteCorrectorParameters(rate**2, 2 * rate))
                self.constraints.append(constraint)
        self.constraint_data = pin.StdVec_RigidConstraintData()
        for constraint in self.constraints:
            self.constraint_data.append(constraint.createData())
        pin.initConstraintDynamics(self.model, self.data, self.constraints, self.constraint_data)
        self.proximal = pin.ProximalSettings(*proximal)
        self.v0, self.tau = np.zeros(self.model.nv), np.zeros(self.model.nv)
        for b in model.bodies:
            i = self.model.joints[self.joints[b.name]].idx_v
            self.v0[i], self.tau[i] = b.rate, b.force
        self.springs = [
            (
                s,
                [
                    (self.joints[body], point - self._origin(body))
                    for body, point in ((s.first, s.at_first), (s.second, s.at_second))
                ],
            )
            for s in model.springs
        ]
        self.acceleration: Callable = self._closed if model.loops else self._open

    def _origin(self, body: str) -> np.ndarray:
        """Initial origin of the frame of a body."""
        return np.zeros(3) if body == GROUND else self.description.body(body).at

    def _closed(self, q, v):
        tau = self.tau + self._springs(q, v) if self.description.springs else self.tau
        return self.pin.constraintDynamics(
            self.model, self.data, q, v, tau, self.constraints, self.constraint_data, self.proximal
        )

    def _open(self, q, v):
        tau = self.tau + self._springs(q, v) if self.description.springs else self.tau
        return self.pin.aba(self.model, self.data, q, v, tau)

    def _springs(self, q, v):
        """Generalised forces of the springs, shape (nv,)."""
        pin = self.pin
        pin.computeJointJacobians(self.model, self.data, q)
        total = np.zeros(self.model.nv)
        for s, ends in self.springs:
            (a, arm_a, jacobian_a), (b, arm_b, jacobian_b) = (self._spring_end(*end) for end in ends)
            along = b - a
            length = math.sqrt(along @ along)
            e = along / length
            row = _point_row(jacobian_b, arm_b, e) - _point_row(jacobian_a, arm_a, e)
            total -= row * (s.stiffness * (length - s.rest) + s.damping * (row @ v))
        return total

    def _spring_end(self, joint, local):
        """Point, its arm from the body origin and Jacobian of the body (world axes); the point alone for the ground."""
        if joint == 0:
            return local, None, None
        placement = self.data.oMi[joint]
        arm = placement.rotation @ local
        world = self.pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        return placement.translation + arm, arm, self.pin.getJointJacobian(self.model, self.data, joint, world)

    def rate(self, t, y):
        """Time derivative of the state `y = (q, v)`."""
        n = self.model.nv
        return np.concatenate([y[n:], self.acceleration(y[:n], y[n:])])

    def observe(self, y) -> tuple[np.ndarray, float, float]:
        """Compared point, shape (3,), energy minus the work of the motors (J), largest error of a loop closure (m)."""
        n = self.model.nv
        q, v = np.ascontiguousarray(y[:n]), np.ascontiguousarray(y[n:])
        energy = self.pin.computeMechanicalEnergy(self.model, self.data, q, v) - self.tau @ q
        self.pin.forwardKinematics(self.model, self.data, q)

        def at(body, point):
            return self.data.oMi[self.joints[body]].act(point - self._origin(body))

        m = self.description
        for s in m.springs:
            length = np.linalg.norm(at(s.second, s.at_second) - at(s.first, s.at_first))
            energy += 0.5 * s.stiffness * (length - s.rest) ** 2
        gaps = [np.linalg.norm(at(l.first, p) - at(l.second, p)) for l in m.loops for p in l.points]
        return at(*m.tracked), float(energy), float(max(gaps, default=0.0))


def _point_row(jacobian, arm, e):
    """Jacobian of the velocity along `e` of the end of `arm`, shape (nv,)."""
    if jacobian is None:
        return 0.0
    (x, y, z), (a, b, c) = arm, e
    return np.array([a, b, c, y * c - z * b, z * a - x * c, x * b - y * a]) @ jacobian


def _depth_first(model: Model):
    """Bodies in depth-first order, since Pinocchio assumes consecutive joint indices along a branch."""

    def outwards(parent):
        for b in model.bodies:
            if b.parent == parent:
                yield b
                yield from outwards(b.name)

    return outwards(GROUND)


def rk4(acceleration: Callable, q, v, h: float, n: int):
    """`n` steps of the classical Runge–Kutta method for `q̈ = acceleration(q, v)`."""
    half, sixth = 0.5 * h, h / 6
    for _ in range(n):
        a1 = acceleration(q, v)
        v2 = v + half * a1
        a2 = acceleration(q + half * v, v2)
        v3 = v + half * a2
        a3 = acceleration(q + half * v2, v3)
        v4 = v + h * a3
        a4 = acceleration(q + h * v3, v4)
        q = q + sixth * (v + 2 * (v2 + v3) + v4)
        v = v + sixth * (a1 + 2 * (a2 + a3) + a4)
    return q, v


def run_rk4(problem: Problem, steps: int, repeats: int = 5, softness: float = 2.0, proximal=PROXIMAL) -> Run:
    """One run with `steps` Runge–Kutta steps between reference times; loop errors decay within `softness` steps."""
    h = float(problem.times[1] - problem.times[0]) / steps
    simulation = Simulation(problem.model, 1.0 / (softness * h), proximal)
    q, v = np.zeros(simulation.model.nq), simulation.v0
    states = [(q, v)]
    for _ in problem.times[1:]:
        states.append(rk4(simulation.acceleration, *states[-1], h, steps))
    total = steps * (len(problem.times) - 1)
    seconds = cpu_time(lambda: rk4(simulation.acceleration, q, v, h, total), repeats)
    return _summarised(
        problem, simulation, f"RK4, h = {h:.3g} s", [np.concatenate(s) for s in states], seconds, 4 * total
    )


def run_dop853(problem: Problem, rtol: float, repeats: int = 5, rate: float | None = None, proximal=PROXIMAL) -> Run:
    """One run with the adaptive method DOP853 of SciPy; loop errors decay with `rate` (1/s)."""
    from scipy.integrate import solve_ivp

    span = float(problem.times[-1])
    simulation = Simulation(problem.model, 500.0 / span if rate is None else rate, proximal)
    start = np.concatenate([np.zeros(simulation.model.nq), simulation.v0])

    def work():
        # Integrate between reference times one by one, so that the results are not interpolated.
        states, evaluations, step = [start], 0, None
        for t0, t1 in zip(problem.times[:-1], problem.times[1:], strict=True):
            out = solve_ivp(
                simulation.rate, (t0, t1), states[-1], method="DOP853", rtol=rtol, atol=rtol, first_step=step
            )
            states.append(out.y[:, -1])
            evaluations += out.nfev
            step = min(out.t[-2] - out.t[-3], t1 - t0) if len(out.t) > 3 else None
        return states, evaluations

    states, evaluations = work()
    return _summarised(problem, simulation, f"DOP853, rtol = {rtol:.0e}", states, cpu_time(work, repeats), evaluations)


def _summarised(
    problem: Problem, simulation: Simulation, setting: str, states, seconds: float, evaluations: int
) -> Run:
    points, energies, gaps = (np.array(x) for x in zip(*map(simulation.observe, states), strict=True))
    n = simulation.model.nv
    y = states[len(states) // 2]
    q, v = np.ascontiguousarray(y[:n]), np.ascontiguousarray(y[n:])

    def calls():
        for _ in range(1000):
            simulation.acceleration(q, v)

    pinocchio_time = cpu_time(calls, 3) / 1000 * evaluations
    return Run(
        problem=problem.name,
        tool=NAME,
        setting=setting,
        seconds=seconds,
        error=problem.error(points),
        energy=None if damped(problem.model) else float(np.max(np.abs(energies - energies[0]))),
        gap=float(np.max(gaps)) if problem.model.loops else None,
        note=f"{evaluations} evaluations; about {min(pinocchio_time, seconds):.3g} s without the loop in Python",
    )


STEPS = {
    "A01": (30, 100, 300),
    "A02 N=2": (70, 110, 200, 350, 500),
    "A02 N=10": (70, 110, 200, 350, 500),
    "A02 N=40": (70, 110, 350),
    "A03": (25, 50, 100, 200, 500),
    "A04": (25, 50, 100, 200, 500),
    "A05": (3000,),
}
"""RK4 steps between reference times. In A02, a step that ends close to a singular position sometimes spoils a run."""
SMALL_MU = (1e-12, 1e-10, 20)
LARGE_MU = (1e-12, 1e-5, 10)
"""Proximal settings: small regularisation where loops pass singular positions, large for redundant constraints."""


def runs(problem: Problem, quick: bool = False) -> Iterator[Run]:
    """Runs with several settings, from coarse to fine."""
    counts, repeats = STEPS[problem.name], 2 if quick else 5
    singular, span = problem.name.startswith("A02"), float(problem.times[-1])
    for steps in counts[1::2] if quick else counts:
        yield run_rk4(problem, steps, repeats, 2.0 if singular else 50.0, SMALL_MU if singular else LARGE_MU)
    if damped(problem.model):
        return  # stiff: unsuited to an adaptive explicit method
    for rtol in (1e-5, 1e-7, 1e-9) if not quick else (1e-7,):
        yield run_dop853(problem, rtol, repeats, (500.0 if singular else 100.0) / span, LARGE_MU)
