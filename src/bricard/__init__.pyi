# The public names. `__init__.py` reads this list and imports each name when it is first used.

from . import gallery as gallery
from .equations import AugmentedLagrangian as AugmentedLagrangian
from .equations import Dynamics as Dynamics
from .equations import Gauss as Gauss
from .equations import MassProjection as MassProjection
from .equations import Mobility as Mobility
from .equations import Multipliers as Multipliers
from .equations import NullSpace as NullSpace
from .equations import Partitioning as Partitioning
from .equations import Penalty as Penalty
from .equations import Projection as Projection
from .equations import Proximal as Proximal
from .equations import QuasiVelocity as QuasiVelocity
from .equations import Route as Route
from .equations import decoupling as decoupling
from .equations import forward_dynamics as forward_dynamics
from .equations import inverse_dynamics as inverse_dynamics
from .equations import length_metric as length_metric
from .equations import limits_metric as limits_metric
from .equations import mass_metric as mass_metric
from .equations import mobility as mobility
from .equations import split_force as split_force
from .errors import AssemblyError as AssemblyError
from .errors import BricardError as BricardError
from .errors import ModelError as ModelError
from .errors import RankError as RankError
from .errors import SimulationError as SimulationError
from .errors import UndeterminedMotionError as UndeterminedMotionError
from .simulate import Assembly as Assembly
from .simulate import Baumgarte as Baumgarte
from .simulate import Project as Project
from .simulate import Trajectory as Trajectory
from .simulate import assemble as assemble
from .simulate import simulate as simulate
from .system import System as System

__version__: str
