"""Simulate, control and design mechanisms with closed loops, even at dead points and with redundant joints.

Importing bricard switches JAX to 64-bit floats for the whole process, since constraints cannot be kept in single
precision. It changes nothing else; `bricard.configure` sets further options of XLA on request.
"""

from typing import Any

import lazy_loader

from bricard.execution.garbage import paused_collection
from bricard.extensions import register_extensions
from bricard.precision import enable_64_bit_floats

enable_64_bit_floats()
register_extensions(
    {
        "MJCF document": "bricard.io.mjcf_write:mjcf",
        "trajectory figure": "bricard.report.plots:trajectory_figure",
        "report page": "bricard.report.page:write_report",
        "notebook page": "bricard.report.page:notebook_page",
        "chart panel": "bricard.report.charts:Panel",
        "chart figure": "bricard.report.charts:chart_panels",
        "spectrum figure": "bricard.report.spectra:spectrum_figure",
    }
)

__version__ = "0.2.0"

# Names are imported when first used: JAX takes a second, which `bricard --help` should not.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    with paused_collection():
        return _load(name)
