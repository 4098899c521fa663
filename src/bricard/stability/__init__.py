"""Is it stable, and how large may the gains be? Equilibria, linearisation, eigenvalues, sampled loops, charts."""

from bricard.stability.chart import Chart as Chart
from bricard.stability.chart import StableRegion as StableRegion
from bricard.stability.chart import chart as chart
from bricard.stability.eigenvalues import eigenvalues as eigenvalues
from bricard.stability.equilibrium import Equilibrium as Equilibrium
from bricard.stability.equilibrium import EquilibriumError as EquilibriumError
from bricard.stability.equilibrium import equilibria as equilibria
from bricard.stability.equilibrium import equilibrium as equilibrium
from bricard.stability.internal import InternalDynamics as InternalDynamics
from bricard.stability.internal import blended_dynamics as blended_dynamics
from bricard.stability.internal import internal_dynamics as internal_dynamics
from bricard.stability.linearize import Linearization as Linearization
from bricard.stability.linearize import linearize as linearize
from bricard.stability.mode import Mode as Mode
from bricard.stability.sampled import SampledMap as SampledMap
from bricard.stability.sampled import delay_margin as delay_margin
from bricard.stability.sampled import period_margin as period_margin
from bricard.stability.sampled import sampled_map as sampled_map
from bricard.stability.spectrum import Spectrum as Spectrum
from bricard.stability.tune import Tuned as Tuned
from bricard.stability.tune import tune as tune
