"""Routes to the acceleration, one formulation a file, all behind the interface `Route`."""

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
