"""Stability analysis: equilibria, linearisation, eigenvalues, sampled loops, and stability charts over gains."""

from bricard.stability.eigenvalue_routes import eigenvalues as eigenvalues
from bricard.stability.gain_chart import Chart as Chart
from bricard.stability.gain_chart import StableRegion as StableRegion
from bricard.stability.gain_chart import chart as chart
from bricard.stability.internal import InternalDynamics as InternalDynamics
from bricard.stability.internal import blended_dynamics as blended_dynamics
from bricard.stability.internal import internal_dynamics as internal_dynamics
from bricard.stability.linear_model import Linearization as Linearization
from bricard.stability.linear_model import linearize as linearize
from bricard.stability.mode import Mode as Mode
from bricard.stability.rest import Equilibrium as Equilibrium
from bricard.stability.rest import EquilibriumError as EquilibriumError
from bricard.stability.rest import equilibria as equilibria
from bricard.stability.rest import equilibrium as equilibrium
from bricard.stability.sampled import SampledMap as SampledMap
from bricard.stability.sampled import delay_margin as delay_margin
from bricard.stability.sampled import period_margin as period_margin
from bricard.stability.sampled import sampled_map as sampled_map
from bricard.stability.spectrum import Spectrum as Spectrum
from bricard.stability.tuning import Tuned as Tuned
from bricard.stability.tuning import tune as tune
