"""Simulation: assembly of initial states, time integration, constraint stabilisation and the resulting trajectory."""

from bricard.simulation.api import simulate as simulate
from bricard.simulation.assembly import Assembly as Assembly
from bricard.simulation.assembly import assemble as assemble
from bricard.simulation.driven_motion import Kinematics as Kinematics
from bricard.simulation.driven_motion import kinematics as kinematics
from bricard.simulation.solvers import SSPRK104 as SSPRK104
from bricard.simulation.stabilization import Baumgarte as Baumgarte
from bricard.simulation.stabilization import Project as Project
from bricard.simulation.trajectory import Trajectory as Trajectory
