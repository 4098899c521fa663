"""Gallery of known systems, one file each, with source, parameters and initial state.

`names()` lists the examples, `load(name, **parameters)` builds one.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from bricard.errors import ModelError, needs_numbers
from bricard.execution.garbage import paused_collection
from bricard.gallery.example import Example as Example
from bricard.gallery.ranges import parameter_problems

# Example name -> "module:function" that builds it. Modules are imported by `load`, to keep `import bricard` fast.
_EXAMPLES = {
    "slider-crank": "slider_crank:slider_crank",
    "n-four-bar": "n_four_bar:n_four_bar",
    "particle-on-circle": "particle_on_circle:particle_on_circle",
    "pendulum": "pendulum:pendulum",
    "pendulum-xy": "pendulum:pendulum_xy",
    "pendulum-xyt": "pendulum:pendulum_xyt",
    "double-pendulum": "double_pendulum:double_pendulum",
    "prr": "prr:prr",
    "scara": "scara:scara",
    "two-link-arm": "two_link_arm:two_link_arm",
    "two-mass": "two_mass:two_mass",
    "two-mass-joined": "two_mass:two_mass_joined",
    "sliding-pendulum": "sliding_pendulum:sliding_pendulum",
    "acroboter": "acroboter:acroboter",
    "andrews": "andrews:andrews",
    "rolling-disc": "rolling_disc:rolling_disc",
    "heavy-top": "heavy_top:heavy_top",
    "four-bar": "four_bar:four_bar",
    "five-bar": "five_bar:five_bar",
    "peaucellier": "peaucellier:peaucellier",
    "bennett": "bennett:bennett",
    "bricard": "bricard:bricard",
    "sarrus": "sarrus:sarrus",
    "spatial-slider-crank": "spatial_slider_crank:spatial_slider_crank",
    "flyball-governor": "flyball_governor:flyball_governor",
    "planar-stewart": "stewart:planar_stewart",
    "stewart": "stewart:stewart",
    "delta": "delta:delta",
    "six-axis-arm": "six_axis_arm:six_axis_arm",
    "gripper": "gripper:gripper",
    "bouncing-ball": "bouncing_ball:bouncing_ball",
    "rocking-block": "rocking_block:rocking_block",
    "running": "running:running",
    "compass-walker": "compass_walker:compass_walker",
    "four-bar-stop": "four_bar:four_bar_stop",
}

# The same systems or variants of them, with a controller.
_SCENARIOS = {
    "slider-crank-driven": "slider_crank_driven:slider_crank_driven",
    "prr-tracking": "prr:prr_tracking",
    "prr-pressing": "prr:prr_pressing",
    "scara-guided": "scara:scara_guided",
    "sliding-pendulum-blended": "sliding_pendulum:sliding_pendulum_blended",
    "sliding-pendulum-periodic": "sliding_pendulum:sliding_pendulum_periodic",
    "acroboter-push": "acroboter:acroboter_push",
    "two-link-arm-saturated": "two_link_arm:two_link_arm_saturated",
    "four-bar-coupler": "four_bar_coupler:four_bar_coupler",
    "planar-stewart-path": "stewart_path:planar_stewart_path",
    "stewart-path": "stewart_path:stewart_path",
}


def names(scenarios: bool = True) -> tuple[str, ...]:
    """Names of all examples; with `scenarios=False`, without those that include a controller."""
    return (*_EXAMPLES, *_SCENARIOS) if scenarios else tuple(_EXAMPLES)


@needs_numbers
def load(name: str, **parameters: Any) -> Example:
    """Return the example called `name`, built with the given parameters: `load("pendulum", m=2.0)`."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the examples are {', '.join(names())}"
        raise ModelError("gallery", [f"no example called {name!r}; {hint}"])
    module, function = (_EXAMPLES | _SCENARIOS)[name].split(":")
    with paused_collection():
        build = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    problems = parameter_problems(build, parameters)
    if problems:
        raise ModelError(name, problems)
    return build(**parameters)
