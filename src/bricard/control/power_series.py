"""Arithmetic of power series: arrays of coefficients of `1, t, t², …` along the first axis, cut off at one length."""

from __future__ import annotations

from typing import Any

import numpy as np


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`x y`."""
    count = x.shape[0]
    return np.stack([np.sum(x[: k + 1] * y[k::-1], axis=0) for k in range(count)])


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`x / y`."""
    found = np.zeros(np.broadcast_shapes(x.shape, y.shape))
    for k in range(x.shape[0]):
        found[k] = (x[k] - np.sum(y[1 : k + 1] * found[:k][::-1], axis=0)) / y[0]
    return found


def power(x: np.ndarray, p: Any) -> np.ndarray:
    """`x^p` with a constant `p`, where `x(0)` is not zero."""
    found = np.zeros_like(x)
    found[0] = x[0] ** p
    for k in range(1, x.shape[0]):
        weights = [p * j - (k - j) for j in range(1, k + 1)]
        found[k] = sum(w * x[j] * found[k - j] for j, w in enumerate(weights, 1)) / (k * x[0])
    return found


def integer_power(x: np.ndarray, p: int) -> np.ndarray:
    """`x^p`, wherever it exists."""
    one = np.zeros_like(x)
    one[0] = 1.0
    if p < 0:
        return quotient(one, integer_power(x, -p))
    found = one
    for _ in range(p):
        found = product(found, x)
    return found


def exponential(x: np.ndarray) -> np.ndarray:
    """`exp x`."""
    found = np.zeros_like(x)
    found[0] = np.exp(x[0])
    for k in range(1, x.shape[0]):
        found[k] = sum(j * x[j] * found[k - j] for j in range(1, k + 1)) / k
    return found


def sine_cosine(x: np.ndarray, sign: float = -1.0) -> tuple[np.ndarray, np.ndarray]:
    """`sin` and `cos`; with `sign = 1`, `sinh` and `cosh`."""
    s, c = np.zeros_like(x), np.zeros_like(x)
    s[0], c[0] = (np.sin(x[0]), np.cos(x[0])) if sign < 0 else (np.sinh(x[0]), np.cosh(x[0]))
    for k in range(1, x.shape[0]):
        s[k] = sum(j * x[j] * c[k - j] for j in range(1, k + 1)) / k
        c[k] = sign * sum(j * x[j] * s[k - j] for j in range(1, k + 1)) / k
    return s, c


def from_slope(value: Any, slope: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`y` with `y(0) = value` and `ẏ = slope ẋ`."""
    found = np.zeros_like(x)
    found[0] = value
    for k in range(1, x.shape[0]):
        found[k] = sum(j * x[j] * slope[k - j] for j in range(1, k + 1)) / k
    return found


def plus(x: np.ndarray, constant: float) -> np.ndarray:
    """`x` and a number."""
    x = x.copy()
    x[0] += constant
    return x


def atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The angle of `(x, y)`."""
    square = product(x, x) + product(y, y)
    found = from_slope(np.arctan2(y[0], x[0]), quotient(x, square), y)
    return found - from_slope(np.zeros_like(x[0]), quotient(y, square), x)


def tanh(x: np.ndarray) -> np.ndarray:
    """`tanh x`."""
    twice = exponential(2.0 * x * np.where(x[0] > 0, -1.0, 1.0)[None])  # does not overflow
    return np.where(x[0] > 0, -1.0, 1.0)[None] * quotient(plus(twice, -1.0), plus(twice, 1.0))


def cholesky(x: np.ndarray) -> np.ndarray:
    """`L` of `x = L Lᵀ`."""
    found = np.zeros_like(x)
    found[0] = np.linalg.cholesky(x[0])
    inverse = np.linalg.inv(found[0])
    for k in range(1, x.shape[0]):
        rest = x[k] - sum(found[j] @ np.swapaxes(found[k - j], -1, -2) for j in range(1, k))
        inner = np.tril(inverse @ rest @ np.swapaxes(inverse, -1, -2))
        inner[..., np.arange(x.shape[-1]), np.arange(x.shape[-1])] *= 0.5
        found[k] = found[0] @ inner
    return found
