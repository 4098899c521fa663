"""The slider-crank with a controlled motor at its crank."""

from __future__ import annotations

import numpy as np

from bricard.control import Polynomial, ProjectedInverseDynamics
from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.gallery.slider_crank import SOURCE, SliderCrank


def slider_crank_driven(
    m: Positive = 1.0,
    l: Positive = 1.0,
    g: float = 9.81,
    turns: float = 2.0,
    duration: Positive = 4.0,
    kp: float = 100.0,
    kd: float = 20.0,
) -> Example:
    """The motor turns the crank by `turns` revolutions in `duration` (s), with an initial error of −0.1 rad.

    With the default of two revolutions it passes four singular positions. The error decays as `ë + k_d ė + k_p e = 0`,
    also in singular positions.
    """
    system, start, error = SliderCrank(m=m, l=l, g=g), 0.3, 0.1
    reference = Polynomial([start], [start + 2.0 * np.pi * turns], duration)
    crank = start - error
    return Example(
        system=system,
        title="Slider-crank driven at its crank through singular positions",
        source=SOURCE,
        q=np.array([crank, -2.0 * crank]),
        v=np.zeros(2),
        t_end=duration,
        settings={"controller": ProjectedInverseDynamics(system, "crank", reference, kp, kd)},
    )
