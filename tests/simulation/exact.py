"""Exact motions for comparison: one-degree-of-freedom equations, integrated by SciPy to 1e-13."""

import numpy as np
from scipy.integrate import solve_ivp


def motion(acceleration, q0, v0, times):
    """Angle over time of `q̈ = acceleration(q, q̇)`."""
    run = solve_ivp(
        lambda t, y: [y[1], acceleration(*y)],
        (times[0], times[-1]),
        [q0, v0],
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
        t_eval=times,
    )
    return run.y[0]


def slider_crank(q, w, g=9.81, l=1.0):
    """Crank acceleration on the branch `rod = −2 crank`."""
    return -(4 * np.sin(q) * np.cos(q) * w**2 + g / l * np.cos(q)) / (1 + 4 * np.sin(q) ** 2)


def n_four_bar(n, g=9.81):
    """Rocker acceleration of the parallelogram, all rockers alike."""
    return lambda q, w: g * ((n + 1) / 2 + n) / ((n + 1) / 3 + n) * np.sin(q)
