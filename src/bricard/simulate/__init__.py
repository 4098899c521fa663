"""Assembly, integration, staying on the constraints, the labelled trajectory."""

from bricard.simulate.assemble import Assembly as Assembly
from bricard.simulate.assemble import assemble as assemble
from bricard.simulate.kinematics import Kinematics as Kinematics
from bricard.simulate.kinematics import kinematics as kinematics
from bricard.simulate.run import simulate as simulate
from bricard.simulate.stabilize import Baumgarte as Baumgarte
from bricard.simulate.stabilize import Project as Project
from bricard.simulate.trajectory import Trajectory as Trajectory
