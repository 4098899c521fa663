"""Mechanical systems under constraints: closed loops, redundant constraints, singular positions.

Importing bricard changes two settings of JAX, for the whole process: 64-bit floats, since constraints cannot be kept
in single precision; and single-threaded linear algebra on the CPU, since XLA's thread pool can deadlock on vmapped
programs (matrices here are small, nothing is lost; set `XLA_FLAGS=--xla_cpu_multi_thread_eigen=true` to keep it).
"""

import os

import jax

jax.config.update("jax_enable_x64", True)
if "xla_cpu_multi_thread_eigen" not in os.environ.get("XLA_FLAGS", ""):
    # Read when JAX starts its backend, which it does at the first array.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

from bricard import gallery as gallery  # noqa: E402
from bricard.equations import AugmentedLagrangian as AugmentedLagrangian  # noqa: E402
from bricard.equations import Dynamics as Dynamics  # noqa: E402
from bricard.equations import Gauss as Gauss  # noqa: E402
from bricard.equations import MassProjection as MassProjection  # noqa: E402
from bricard.equations import Mobility as Mobility  # noqa: E402
from bricard.equations import Multipliers as Multipliers  # noqa: E402
from bricard.equations import NullSpace as NullSpace  # noqa: E402
from bricard.equations import Partitioning as Partitioning  # noqa: E402
from bricard.equations import Penalty as Penalty  # noqa: E402
from bricard.equations import Projection as Projection  # noqa: E402
from bricard.equations import Proximal as Proximal  # noqa: E402
from bricard.equations import QuasiVelocity as QuasiVelocity  # noqa: E402
from bricard.equations import Route as Route  # noqa: E402
from bricard.equations import decoupling as decoupling  # noqa: E402
from bricard.equations import forward_dynamics as forward_dynamics  # noqa: E402
from bricard.equations import inverse_dynamics as inverse_dynamics  # noqa: E402
from bricard.equations import length_metric as length_metric  # noqa: E402
from bricard.equations import limits_metric as limits_metric  # noqa: E402
from bricard.equations import mass_metric as mass_metric  # noqa: E402
from bricard.equations import mobility as mobility  # noqa: E402
from bricard.equations import reactions as reactions  # noqa: E402
from bricard.equations import split_force as split_force  # noqa: E402
from bricard.errors import AssemblyError as AssemblyError  # noqa: E402
from bricard.errors import BricardError as BricardError  # noqa: E402
from bricard.errors import ModelError as ModelError  # noqa: E402
from bricard.errors import RankError as RankError  # noqa: E402
from bricard.errors import SimulationError as SimulationError  # noqa: E402
from bricard.errors import UndeterminedMotionError as UndeterminedMotionError  # noqa: E402
from bricard.io import load as load  # noqa: E402
from bricard.mechanism import Mechanism as Mechanism  # noqa: E402
from bricard.mechanism import box as box  # noqa: E402
from bricard.mechanism import compound as compound  # noqa: E402
from bricard.mechanism import cylinder as cylinder  # noqa: E402
from bricard.mechanism import plate as plate  # noqa: E402
from bricard.mechanism import point_mass as point_mass  # noqa: E402
from bricard.mechanism import rigid as rigid  # noqa: E402
from bricard.mechanism import rod as rod  # noqa: E402
from bricard.mechanism import sphere as sphere  # noqa: E402
from bricard.simulate import Assembly as Assembly  # noqa: E402
from bricard.simulate import Baumgarte as Baumgarte  # noqa: E402
from bricard.simulate import Project as Project  # noqa: E402
from bricard.simulate import Trajectory as Trajectory  # noqa: E402
from bricard.simulate import assemble as assemble  # noqa: E402
from bricard.simulate import kinematics as kinematics  # noqa: E402
from bricard.simulate import simulate as simulate  # noqa: E402
from bricard.system import System as System  # noqa: E402

__version__ = "0.1.0"
