"""Exudyn: absolute coordinates (`RigidBody2D` in the plane), all joints as constraints, implicit integrators.

Settings: generalised-α with index 3 (spectral radius 0.8) and the trapezoidal rule with index 2; modified Newton, and
`ignoreSingularJacobian` for redundant constraints and singular positions. The explicit integrators of Exudyn do not
support joints. The time loop is that of Exudyn, compiled, on one thread, without writing files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.models import GROUND, Model
from benchmarks.problems import Problem
from benchmarks.runs import Run

NAME = "Exudyn"


class Simulation:
    """A model in Exudyn, which is rebuilt for every run."""

    def __init__(self, model: Model):
        import exudyn as exu
        import exudyn.itemInterface as items

        self.exu: Any = exu
        self.items: Any = items
        self.description = model
        self.container = self.exu.SystemContainer()
        self.system = self.container.AddSystem()
        self.ground = self.system.AddObject(self.items.ObjectGround())
        self.bodies = {GROUND: self.ground}
        for b in model.bodies:
            (self._body_2d if model.planar else self._body_3d)(b, *model.twists()[b.name])
        for b in model.bodies:
            self._joint(b)
        for loop in model.loops:
            self._loop(loop)
        for s in model.springs:
            self._spring(s)
        self.sensor = self.system.AddSensor(
            self.items.SensorBody(
                bodyNumber=self.bodies[model.tracked[0]],
                localPosition=self._local(*model.tracked),
                outputVariableType=self.exu.OutputVariableType.Position,
                writeToFile=False,
                storeInternal=True,
            )
        )
        self.system.Assemble()

    def _local(self, body: str, point: np.ndarray) -> np.ndarray:
        return point - self.description.centre(body)

    def _body_2d(self, b, omega, velocity) -> None:
        items, system = self.items, self.system
        node = system.AddNode(
            items.NodeRigidBody2D(
                referenceCoordinates=[b.centre[0], b.centre[1], 0.0],
                initialVelocities=[velocity[0], velocity[1], omega[2]],
            )
        )
        self.bodies[b.name] = system.AddObject(
            items.ObjectRigidBody2D(mass=b.mass, inertia=b.inertia[2, 2], nodeNumber=node)
        )
        if np.any(self.description.gravity):
            mass = system.AddMarker(items.MarkerBodyMass(bodyNumber=self.bodies[b.name]))
            system.AddLoad(items.LoadMassProportional(markerNumber=mass, loadVector=self.description.gravity))
        if b.force:
            marker = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=node, coordinate=2))
            system.AddLoad(items.LoadCoordinate(markerNumber=marker, load=b.force * b.axis[2]))

    def _body_3d(self, b, omega, velocity) -> None:
        from exudyn.utilities import RigidBodyInertia

        self.bodies[b.name] = self.system.CreateRigidBody(
            inertia=RigidBodyInertia(mass=b.mass, inertiaTensor=b.inertia),
            referencePosition=b.centre,
            initialVelocity=velocity,
            initialAngularVelocity=omega,
            gravity=self.description.gravity,
            nodeType=self.exu.NodeType.RotationEulerParameters,
        )

    def _marker(self, body: str, point: np.ndarray) -> int:
        items, local = self.items, self._local(body, point)
        return self.system.AddMarker(items.MarkerBodyPosition(bodyNumber=self.bodies[body], localPosition=local))

    def _joint(self, b) -> None:
        items = self.items
        if self.description.planar:
            markers = [self._marker(b.parent, b.at), self._marker(b.name, b.at)]
            self.system.AddObject(items.ObjectJointRevolute2D(markerNumbers=markers))
            return
        self._hinge(b.parent, b.name, b.at, b.axis, b.slides)

    def _hinge(self, first, second, at, axis, slides: bool = False) -> None:
        """Constrain all relative motions of two bodies except rotation about (or translation along) `axis`."""
        free, items = 2 if slides else 5, self.items
        markers = []
        for body in (first, second):
            frame = self.exu.HT(rotation=_frame(axis), translation=self._local(body, at))
            markers.append(self.system.AddMarker(items.MarkerBodyRigid(bodyNumber=self.bodies[body], localHT=frame)))
        self.system.AddObject(
            items.ObjectJointGeneric(markerNumbers=markers, constrainedAxes=[int(i != free) for i in range(6)])
        )

    def _loop(self, loop) -> None:
        at = loop.points[0]
        if len(loop.points) == 1:
            markers = [self._marker(loop.first, at), self._marker(loop.second, at)]
            self.system.AddObject(self.items.ObjectJointRevolute2D(markerNumbers=markers))
            return
        axis = (loop.points[1] - at) / np.linalg.norm(loop.points[1] - at)
        self._hinge(loop.second, loop.first, at, axis)

    def _spring(self, s) -> None:
        self.system.AddObject(
            self.items.ObjectConnectorSpringDamper(
                markerNumbers=[self._marker(s.first, s.at_first), self._marker(s.second, s.at_second)],
                referenceLength=s.rest,
                stiffness=s.stiffness,
                damping=s.damping,
            )
        )

    def gap(self) -> float:
        """Largest violation of a loop closure (m)."""
        position = self.exu.OutputVariableType.Position

        def at(body, point):
            return np.array(self.system.GetObjectOutputBody(self.bodies[body], position, self._local(body, point)))

        loops = self.description.loops
        return max(
            (float(np.linalg.norm(at(l.first, p) - at(l.second, p))) for l in loops for p in l.points), default=0.0
        )

    def solve(self, times: np.ndarray, steps: int, rule: str, **settings: float) -> tuple[np.ndarray, float]:
        """Positions of the compared point at `times`, shape (k, 3), and the CPU time (s)."""
        exu = self.exu
        chosen = exu.SimulationSettings()
        chosen.timeIntegration.numberOfSteps = steps * (len(times) - 1)
        chosen.timeIntegration.endTime = float(times[-1])
        chosen.timeIntegration.verboseMode = 0
        chosen.solution.file.write = False
        chosen.solution.sensors.writePeriod = float(times[1] - times[0])
        chosen.timeIntegration.newton.useModifiedNewton = True
        chosen.timeIntegration.newton.relativeTolerance = settings.get("tolerance", 1e-10)
        chosen.timeIntegration.newton.absoluteTolerance = settings.get("tolerance", 1e-10)
        chosen.linearSolver.ignoreSingularJacobian = True
        chosen.linearSolver.solverType = (
            exu.LinearSolverType.EigenSparse if len(self.bodies) > 20 else exu.LinearSolverType.EigenDense
        )
        chosen.parallel.numberOfThreads = 1
        kind = exu.DynamicSolverType.GeneralizedAlpha
        if rule == "trapezoidal":
            kind = exu.DynamicSolverType.TrapezoidalIndex2
        else:
            chosen.timeIntegration.generalizedAlpha.spectralRadius = settings.get("radius", 0.8)
        start = time.process_time()
        self.system.SolveDynamic(chosen, solverType=kind)
        seconds = time.process_time() - start
        stored = np.array(self.system.GetSensorStoredData(self.sensor))
        return stored[:, 1:4], seconds


def _frame(axis) -> np.ndarray:
    """Rotation matrix whose third column is `axis`."""
    other = np.eye(3)[np.argmin(np.abs(axis))]
    x = np.cross(other, axis)
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(axis, x), axis], axis=1)


def run(problem: Problem, steps: int, rule: str, repeats: int = 3, **settings: float) -> Run:
    """One run with `steps` steps between consecutive reference times."""
    h = float(problem.times[1] - problem.times[0]) / steps
    label = "trapezoidal, index 2" if rule == "trapezoidal" else "generalised-α, index 3"
    best, error, gap, note = np.inf, np.inf, None, ""
    spent = 0.0
    for _ in range(repeats):
        simulation = Simulation(problem.model)
        try:
            points, seconds = simulation.solve(problem.times, steps, rule, **settings)
        except Exception as reason:  # Exudyn raises ValueError and others if Newton's method fails
            note = f"failed: {str(reason).splitlines()[0][:80]}"
            break
        best, spent = min(best, seconds), spent + seconds
        if len(points) == len(problem.times):
            error, gap = problem.error(points), simulation.gap() if problem.model.loops else None
        else:
            note = "stopped early"
        if spent > 4.0:
            break
    return Run(problem.name, NAME, f"{label}, h = {h:.3g} s", best, error, gap=gap, note=note)


STEPS = {
    "A01": (100, 1000, 5000),
    "A02 N=2": (100, 500, 2500),
    "A02 N=10": (100, 500, 1500),
    "A02 N=40": (100, 300),
    "A03": (100, 1000, 5000),
    "A04": (100, 500, 2000),
    "A05": (100, 1000, 3000),
}
"""Steps between consecutive reference times."""


def runs(problem: Problem, quick: bool = False) -> Iterator[Run]:
    """Runs with several settings, from coarse to fine."""
    counts, repeats = STEPS[problem.name], 1 if quick else 3
    for steps in counts[:2] if quick else counts:
        yield run(problem, steps, "alpha", repeats)
    # The trapezoidal rule with index 2 fails for redundant constraints and at singular positions.
    if problem.name in ("A01", "A03", "A05") and not quick:
        for steps in counts:
            yield run(problem, steps, "trapezoidal", repeats)
