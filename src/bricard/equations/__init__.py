"""From `(M, h, A, b)` to accelerations and constraint forces: one file per route, one for rank decisions."""

from bricard.equations.dynamics import Dynamics as Dynamics
from bricard.equations.dynamics import forward_dynamics as forward_dynamics
from bricard.equations.dynamics import inverse_dynamics as inverse_dynamics
from bricard.equations.dynamics import solve as solve
from bricard.equations.gauss import Gauss as Gauss
from bricard.equations.mass_projection import MassProjection as MassProjection
from bricard.equations.metric import decoupling as decoupling
from bricard.equations.metric import length_metric as length_metric
from bricard.equations.metric import limits_metric as limits_metric
from bricard.equations.metric import mass_metric as mass_metric
from bricard.equations.metric import split_force as split_force
from bricard.equations.mobility import Mobility as Mobility
from bricard.equations.mobility import mobility as mobility
from bricard.equations.multipliers import Multipliers as Multipliers
from bricard.equations.null_space import NullSpace as NullSpace
from bricard.equations.partitioning import Partitioning as Partitioning
from bricard.equations.penalty import AugmentedLagrangian as AugmentedLagrangian
from bricard.equations.penalty import Penalty as Penalty
from bricard.equations.problem import Problem as Problem
from bricard.equations.projection import Projection as Projection
from bricard.equations.proximal import Proximal as Proximal
from bricard.equations.quasi_velocity import QuasiVelocity as QuasiVelocity
from bricard.equations.reactions import Reaction as Reaction
from bricard.equations.reactions import Reactions as Reactions
from bricard.equations.reactions import reactions as reactions
from bricard.equations.route import Route as Route
