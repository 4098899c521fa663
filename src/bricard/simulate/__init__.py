"""Assembly, integration, staying on the constraints, the labelled trajectory."""

from bricard.simulate.assemble import Assembly as Assembly
from bricard.simulate.assemble import assemble as assemble
from bricard.simulate.contact import Unilateral as Unilateral
from bricard.simulate.contact import joint_limits as joint_limits
from bricard.simulate.contact import point_contact as point_contact
from bricard.simulate.events import ContactEvent as ContactEvent
from bricard.simulate.impact import Impact as Impact
from bricard.simulate.impact import impact as impact
from bricard.simulate.kinematics import Kinematics as Kinematics
from bricard.simulate.kinematics import kinematics as kinematics
from bricard.simulate.run import simulate as simulate
from bricard.simulate.solver import SSPRK104 as SSPRK104
from bricard.simulate.stabilize import Baumgarte as Baumgarte
from bricard.simulate.stabilize import Project as Project
from bricard.simulate.trajectory import Trajectory as Trajectory
