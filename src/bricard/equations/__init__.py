"""From `(M, h, A, b)` to accelerations and constraint forces: one file per route, one for rank decisions."""

from bricard.equations.dynamics import Dynamics as Dynamics
from bricard.equations.dynamics import forward_dynamics as forward_dynamics
from bricard.equations.dynamics import inverse_dynamics as inverse_dynamics
from bricard.equations.dynamics import solve as solve
from bricard.equations.metric import decoupling as decoupling
from bricard.equations.metric import effort_metric as effort_metric
from bricard.equations.metric import length_metric as length_metric
from bricard.equations.metric import mass_metric as mass_metric
from bricard.equations.metric import split_force as split_force
from bricard.equations.problem import Problem as Problem
from bricard.equations.routes.gauss import Gauss as Gauss
from bricard.equations.routes.mass_projection import MassProjection as MassProjection
from bricard.equations.routes.multipliers import Multipliers as Multipliers
from bricard.equations.routes.null_space import NullSpace as NullSpace
from bricard.equations.routes.partitioning import Partitioning as Partitioning
from bricard.equations.routes.penalty import AugmentedLagrangian as AugmentedLagrangian
from bricard.equations.routes.penalty import Penalty as Penalty
from bricard.equations.routes.projection import Projection as Projection
from bricard.equations.routes.proximal import Proximal as Proximal
from bricard.equations.routes.quasi_velocity import QuasiVelocity as QuasiVelocity
from bricard.equations.routes.route import Route as Route
