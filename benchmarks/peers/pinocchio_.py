"""Pinocchio: joints as minimal coordinates, loops as 3D constraints of `constraintDynamics` (proximal, Baumgarte).

Pinocchio gives accelerations; the integrator is the user's. Here it is the classical Runge–Kutta method with fixed
steps, and SciPy's DOP853 (order 8, adaptive). Both loop in Python, which is part of the time, as it is for its users
in Python; `note` says how much of it Pinocchio itself takes. Springs act as forces on the bodies, by NumPy.
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
"""Accuracy, regularisation, most iterations: redundant rows and singular positions are harmless with them."""


class Simulation:
    """A model of Pinocchio at its start; loops are pulled back with `rate` (1/s), critically damped."""

    def __init__(self, model: Model, rate: float, proximal: tuple[float, float, int] = PROXIMAL):
        import pinocchio as pin  # pyright: ignore[reportMissingImports]

        self.pin, self.described = pin, model
        self.model = pin.Model()
        self.model.gravity = pin.Motion(model.gravity, np.zeros(3))
        self.joints = {GROUND: 0}
        for b in _branch_by_branch(model):
            kind = pin.JointModelPrismaticUnaligned if b.slides else pin.JointModelRevoluteUnaligned
            place = pin.SE3(np.eye(3), b.at - self._origin(b.parent))
            joint = self.model.addJoint(self.joints[b.parent], kind(b.axis), place, b.name)
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
        """Of the frame of a body, at the start."""
        return np.zeros(3) if body == GROUND else self.described.body(body).at

    def _closed(self, q, v):
        tau = self.tau + self._springs(q, v) if self.described.springs else self.tau
        return self.pin.constraintDynamics(
            self.model, self.data, q, v, tau, self.constraints, self.constraint_data, self.proximal
        )

    def _open(self, q, v):
        tau = self.tau + self._springs(q, v) if self.described.springs else self.tau
        return self.pin.aba(self.model, self.data, q, v, tau)

    def _springs(self, q, v):
        """Generalised forces of the springs."""
        pin = self.pin
        pin.computeJointJacobians(self.model, self.data, q)
        total = np.zeros(self.model.nv)
        for s, ends in self.springs:
            (a, arm_a, jacobian_a), (b, arm_b, jacobian_b) = (self._spring_end(*end) for end in ends)
            along = b - a
            length = math.sqrt(along @ along)
            e = along / length
            row = _moved(jacobian_b, arm_b, e) - _moved(jacobian_a, arm_a, e)
            total -= row * (s.stiffness * (length - s.rest) + s.damping * (row @ v))
        return total

    def _spring_end(self, joint, local):
        """Point, arm from the body's origin (world axes), Jacobian of the body; of the ground, the point alone."""
        if joint == 0:
            return local, None, None
        place = self.data.oMi[joint]
        arm = place.rotation @ local
        world = self.pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        return place.translation + arm, arm, self.pin.getJointJacobian(self.model, self.data, joint, world)

    def rate(self, t, y):
        """Of the state `(q, v)`."""
        n = self.model.nv
        return np.concatenate([y[n:], self.acceleration(y[:n], y[n:])])

    def look(self, y) -> tuple[np.ndarray, float, float]:
        """The compared point (3,), the energy less the motors' work (J), the largest gap in the loops (m)."""
        n = self.model.nv
        q, v = np.ascontiguousarray(y[:n]), np.ascontiguousarray(y[n:])
        energy = self.pin.computeMechanicalEnergy(self.model, self.data, q, v) - self.tau @ q
        self.pin.forwardKinematics(self.model, self.data, q)

        def at(body, point):
            return self.data.oMi[self.joints[body]].act(point - self._origin(body))

        m = self.described
        for s in m.springs:
            length = np.linalg.norm(at(s.second, s.at_second) - at(s.first, s.at_first))
            energy += 0.5 * s.stiffness * (length - s.rest) ** 2
        gaps = [np.linalg.norm(at(l.first, p) - at(l.second, p)) for l in m.loops for p in l.points]
        return at(*m.tracked), float(energy), float(max(gaps, default=0.0))


def _moved(jacobian, arm, e):
    """Speed along `e` of the end of `arm`, per velocity (nv,)."""
    if jacobian is None:
        return 0.0
    (x, y, z), (a, b, c) = arm, e
    return np.array([a, b, c, y * c - z * b, z * a - x * c, x * b - y * a]) @ jacobian


def _branch_by_branch(model: Model):
    """Pinocchio takes for granted that the joints of a branch have numbers in a row."""

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


def run_rk4(problem: Problem, steps: int, repeats: int = 5, sharpness: float = 2.0, proximal=PROXIMAL) -> Run:
    """One run with `steps` Runge–Kutta steps between reference times; loops pull back within `sharpness` steps."""
    h = float(problem.times[1] - problem.times[0]) / steps
    simulation = Simulation(problem.model, 1.0 / (sharpness * h), proximal)
    q, v = np.zeros(simulation.model.nq), simulation.v0
    states = [(q, v)]
    for _ in problem.times[1:]:
        states.append(rk4(simulation.acceleration, *states[-1], h, steps))
    total = steps * (len(problem.times) - 1)
    seconds = cpu_time(lambda: rk4(simulation.acceleration, q, v, h, total), repeats)
    return _described(
        problem, simulation, f"RK4, h = {h:.3g} s", [np.concatenate(s) for s in states], seconds, 4 * total
    )


def run_dop853(problem: Problem, rtol: float, repeats: int = 5, rate: float | None = None, proximal=PROXIMAL) -> Run:
    """One run of SciPy's adaptive method of order 8; loops pull back with `rate` (1/s)."""
    from scipy.integrate import solve_ivp

    span = float(problem.times[-1])
    simulation = Simulation(problem.model, 500.0 / span if rate is None else rate, proximal)
    start = np.concatenate([np.zeros(simulation.model.nq), simulation.v0])

    def work():
        # One piece between reference times, so that no interpolation is compared.
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
    return _described(problem, simulation, f"DOP853, rtol = {rtol:.0e}", states, cpu_time(work, repeats), evaluations)


def _described(problem: Problem, simulation: Simulation, setting: str, states, seconds: float, evaluations: int) -> Run:
    points, energies, gaps = (np.array(x) for x in zip(*map(simulation.look, states), strict=True))
    n = simulation.model.nv
    y = states[len(states) // 2]
    q, v = np.ascontiguousarray(y[:n]), np.ascontiguousarray(y[n:])

    def calls():
        for _ in range(1000):
            simulation.acceleration(q, v)

    own = cpu_time(calls, 3) / 1000 * evaluations
    return Run(
        problem=problem.name,
        tool=NAME,
        setting=setting,
        seconds=seconds,
        error=problem.error(points),
        energy=None if damped(problem.model) else float(np.max(np.abs(energies - energies[0]))),
        gap=float(np.max(gaps)) if problem.model.loops else None,
        note=f"{evaluations} evaluations; about {min(own, seconds):.3g} s without the loop in Python",
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
"""RK4 steps between reference times. In A02 a step that ends next to a singular position spoils a run now and then."""
SHARP = (1e-12, 1e-10, 20)
LOOSE = (1e-12, 1e-5, 10)
"""Proximal settings: sharp where loops become singular, loose where rows are redundant all the time."""


def runs(problem: Problem, quick: bool = False) -> Iterator[Run]:
    """Several settings, coarse to fine."""
    counts, repeats = STEPS[problem.name], 2 if quick else 5
    singular, span = problem.name.startswith("A02"), float(problem.times[-1])
    for steps in counts[1::2] if quick else counts:
        yield run_rk4(problem, steps, repeats, 2.0 if singular else 50.0, SHARP if singular else LOOSE)
    if damped(problem.model):
        return  # stiff: not for an explicit method with adaptive steps
    for rtol in (1e-5, 1e-7, 1e-9) if not quick else (1e-7,):
        yield run_dop853(problem, rtol, repeats, (500.0 if singular else 100.0) / span, LOOSE)
