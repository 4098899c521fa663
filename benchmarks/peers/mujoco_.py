"""MuJoCo: joints as minimal coordinates, loops as `connect` equalities, made as stiff as the step size allows.

Settings: Newton's method (exact in one iteration for equalities alone), no contacts, no friction. An equality is a
critically damped spring with the time constant c h, where h is the step size: `solref` in its direct form, with
`refsafe` off, so that c can be below the default limit of 2; impedance `solimp` at its upper limit 0.9999. RK4 is the
only integrator of higher order; the implicit ones are of first order. The time loop is that of MuJoCo, compiled
(`mj_step` with `nstep`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np

from benchmarks.models import GROUND, Model, damped
from benchmarks.problems import Problem
from benchmarks.runs import Run
from benchmarks.timing import cpu_time

NAME = "MuJoCo"
POINT_INERTIA = 1e-12
"""Smallest moment of inertia (kg m²); MuJoCo requires a positive one about every axis."""
SOFTNESS = 1.0
"""Time constant of the loops over the step size (c). RK4 is stable above 0.36 for the undamped spring, 0.72 with
damping."""


def mjcf(model: Model, step: float, integrator: str = "RK4", softness: float = SOFTNESS) -> str:
    """The model as MJCF; body frames are parallel to the world frame, with origins at the centres of mass."""
    root = ElementTree.Element("mujoco")
    ElementTree.SubElement(root, "compiler", angle="radian", autolimits="true", boundmass="0")
    option = ElementTree.SubElement(
        root,
        "option",
        timestep=repr(step),
        integrator=integrator,
        gravity=_joined(model.gravity),
        solver="Newton",
        iterations="10",
        tolerance="1e-14",
    )
    ElementTree.SubElement(
        option, "flag", contact="disable", refsafe="disable", frictionloss="disable", limit="disable"
    )
    elements = {GROUND: ElementTree.SubElement(root, "worldbody")}
    for b in model.bodies:
        element = ElementTree.SubElement(
            elements[b.parent], "body", name=b.name, pos=_joined(b.centre - model.centre(b.parent))
        )
        missing = max(0.0, POINT_INERTIA - np.min(np.linalg.eigvalsh(b.inertia)))
        inertia = b.inertia + missing * np.eye(3)
        ElementTree.SubElement(
            element,
            "inertial",
            pos="0 0 0",
            mass=repr(b.mass),
            fullinertia=_joined(inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]),
        )
        kind = "slide" if b.slides else "hinge"
        ElementTree.SubElement(
            element, "joint", name=b.name, type=kind, pos=_joined(b.at - b.centre), axis=_joined(b.axis)
        )
        elements[b.name] = element
    _site(elements, model, "tracked", *model.tracked)
    _loops(root, elements, model, step * softness)
    _springs(root, elements, model)
    return ElementTree.tostring(root, encoding="unicode")


def _loops(root, elements, model: Model, time_constant: float) -> None:
    if not model.loops:
        return
    equality = ElementTree.SubElement(root, "equality")
    solver: dict[str, Any] = {
        "solref": f"{-1 / time_constant**2} {-2 / time_constant}",
        "solimp": "0.9999 0.9999 0.001",
    }
    for i, loop in enumerate(model.loops):
        for k, point in enumerate(loop.points):
            sites = [f"loop {i} {k} {side}" for side in ("first", "second")]
            for site, body in zip(sites, (loop.first, loop.second), strict=True):
                _site(elements, model, site, body, point)
            ElementTree.SubElement(equality, "connect", site1=sites[0], site2=sites[1], **solver)


def _springs(root, elements, model: Model) -> None:
    tendons = ElementTree.SubElement(root, "tendon")
    for i, s in enumerate(model.springs):
        tendon = ElementTree.SubElement(
            tendons, "spatial", stiffness=repr(s.stiffness), damping=repr(s.damping), springlength=repr(s.rest)
        )
        for end, body, point in (("first", s.first, s.at_first), ("second", s.second, s.at_second)):
            _site(elements, model, f"spring {i} {end}", body, point)
            ElementTree.SubElement(tendon, "site", site=f"spring {i} {end}")


def _site(elements, model: Model, name: str, body: str, point: np.ndarray) -> None:
    ElementTree.SubElement(elements[body], "site", name=name, pos=_joined(point - model.centre(body)))


def _joined(numbers) -> str:
    return " ".join(repr(float(x)) for x in numbers)


class Simulation:
    """A model in MuJoCo at its initial state."""

    def __init__(self, model: Model, step: float, integrator: str = "RK4", softness: float = SOFTNESS):
        import mujoco

        self.mujoco: Any = mujoco  # it has no type annotations
        self.description = model
        self.model = self.mujoco.MjModel.from_xml_string(mjcf(model, step, integrator, softness))
        self.data = self.mujoco.MjData(self.model)
        self.reset()

    def reset(self) -> None:
        """Return to the initial state."""
        self.mujoco.mj_resetData(self.model, self.data)
        for b in self.description.bodies:
            dof = self.model.jnt_dofadr[self.model.joint(b.name).id]
            self.data.qvel[dof] = b.rate
            self.data.qfrc_applied[dof] = b.force

    def steps(self, n: int) -> None:
        """Advance by `n` steps."""
        self.mujoco.mj_step(self.model, self.data, nstep=n)

    def observe(self) -> tuple[np.ndarray, float, float]:
        """Compared point, shape (3,), energy minus the work of the motors (J), largest error of a loop closure (m)."""
        m, d = self.model, self.data
        self.mujoco.mj_forward(m, d)
        self.mujoco.mj_energyPos(m, d)
        self.mujoco.mj_energyVel(m, d)
        ends = [np.array(m.eq_obj1id), np.array(m.eq_obj2id)]
        gaps = np.linalg.norm(d.site_xpos[ends[0]] - d.site_xpos[ends[1]], axis=-1) if m.neq else np.zeros(1)
        work = float(d.qfrc_applied @ d.qpos)  # one coordinate per joint, constant forces
        return d.site("tracked").xpos.copy(), float(np.sum(d.energy)) - work, float(np.max(gaps))


def run(problem: Problem, integrator: str, steps: int, softness: float = SOFTNESS, repeats: int = 5) -> Run:
    """One run with `steps` steps between consecutive reference times."""
    times = problem.times
    h = float(times[1] - times[0]) / steps
    simulation = Simulation(problem.model, h, integrator, softness)
    observed = [simulation.observe()]
    for _ in times[1:]:
        simulation.steps(steps)
        observed.append(simulation.observe())

    def work():
        simulation.reset()
        simulation.steps(steps * (len(times) - 1))

    points, energies, gaps = (np.array(x) for x in zip(*observed, strict=True))
    return Run(
        problem=problem.name,
        tool=NAME,
        setting=f"{integrator}, h = {h:.3g} s",
        seconds=cpu_time(work, repeats),
        error=problem.error(points),
        energy=None if damped(problem.model) else float(np.max(np.abs(energies - energies[0]))),
        gap=float(np.max(gaps)) if problem.model.loops else None,
    )


STEPS = {
    "A01": (30, 100, 300, 1000),
    "A02 N=2": (200, 500, 1000, 5000, 20000),
    "A02 N=10": (200, 500, 1000, 5000),
    "A02 N=40": (200, 500, 1000, 3000),
    "A03": (25, 50, 100, 200, 500, 2000),
    "A04": (50, 100, 200, 500, 1000, 3000),
    "A05": (3000, 4000, 10000),
}
"""RK4 steps between consecutive reference times."""


def runs(problem: Problem, quick: bool = False) -> Iterator[Run]:
    """Runs with several settings, from coarse to fine."""
    counts, repeats = STEPS[problem.name], 2 if quick else 5
    # With singular positions the softness of the loops dominates the error: stay close to the stability limit.
    softness = 0.75 if problem.name.startswith("A02") else 2.0
    for steps in counts[1:-1:2] if quick else counts:
        yield run(problem, "RK4", steps, softness, repeats)
    if not quick:
        for steps in (200, 2000) if damped(problem.model) else (counts[0] * 2, counts[0] * 20):
            yield run(problem, "discrete", steps, 2.0, repeats)
