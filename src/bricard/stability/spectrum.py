"""The spectrum of a linearised loop: eigenvalues, frequencies, damping ratios, mode shapes and the verdict."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bricard.errors import ModelError
from bricard.extensions import extension
from bricard.files import save_figure
from bricard.stability.mode import Mode

if TYPE_CHECKING:
    import xarray

    from bricard.stability.loop import Loop

MARGIN = 1e-7
"""Real parts (relative to the largest eigenvalue) and radii this close to the limit count as "marginal"."""

Complex = NDArray[np.complex128]
Verdict = Literal["stable", "unstable", "marginal"]


@dataclasses.dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of the linearised loop; `print` shows a table."""

    physical: Complex
    """Eigenvalues of admissible motions (complex; 1/s, or per sample of a sampled loop), slowest decay first."""
    spurious: Complex
    """Eigenvalues of deviations off the constraints, which depend on the formulation and belong to no motion."""
    method: str
    vectors: np.ndarray = dataclasses.field(repr=False)
    """(2 nv + …, ·): eigenvectors of the physical eigenvalues in columns: `(θ, δv)`, then the controller's memory."""
    participation: np.ndarray = dataclasses.field(repr=False)
    """(2 nv, ·): participation factors of coordinates and velocities in each mode; columns add up to at most 1."""
    loop: Loop = dataclasses.field(repr=False)
    period: float | None = None
    """Time (s) that the map of a sampled loop covers; None for a continuous loop."""
    sensitivity: np.ndarray | None = dataclasses.field(default=None, repr=False)
    """(·, 2): exact derivatives of `[physical, spurious]` by `a₁` and `a₂` (only for the method "sensitivity")."""

    @property
    def sampled(self) -> bool:
        """Whether these are eigenvalues of a map from sample to sample."""
        return self.period is not None

    @property
    def radius(self) -> float:
        """Spectral radius: the largest magnitude of the physical eigenvalues of a sampled loop."""
        self._require(sampled=True)
        return float(np.max(np.abs(self.physical), initial=0.0))

    @property
    def abscissa(self) -> float:
        """Largest real part (1/s): the slowest decay if negative, the fastest growth if positive."""
        return float(np.max(self.rates.real, initial=-np.inf))

    @property
    def rates(self) -> Complex:
        """Eigenvalues in 1/s; for a sampled loop `log(z)/period`, with frequencies up to half the sampling rate."""
        if self.period is None:
            return self.physical
        magnitude = np.maximum(np.abs(self.physical), np.finfo(float).tiny)
        return ((np.log(magnitude) + 1j * np.angle(self.physical)) / self.period).astype(complex)

    @property
    def frequencies(self) -> np.ndarray:
        """Natural frequencies `|s|` (rad/s)."""
        return np.abs(self.rates)

    @property
    def damping_ratios(self) -> np.ndarray:
        """Damping ratios `−Re s/|s|`: 1 without oscillation, 0 undamped, negative if growing; 0 for `s = 0`."""
        size = self.frequencies
        return np.where(size > 0, -self.rates.real / np.where(size > 0, size, 1.0), 0.0)

    @property
    def verdict(self) -> Verdict:
        """Stability of the equilibrium; "marginal" if the linearised equations do not decide (undamped or drifting)."""
        if self.period is not None:
            excess, margin = self.radius - 1.0, MARGIN
        else:
            excess, margin = self.abscissa, MARGIN * max(1.0, float(np.max(np.abs(self.physical), initial=0.0)))
        return "stable" if excess < -margin else "unstable" if excess > margin else "marginal"

    @property
    def stable(self) -> bool:
        """Whether all small deviations decay."""
        return self.verdict == "stable"

    def mode(self, index: int) -> Mode:
        """The motion that belongs to eigenvalue `index` of `physical`."""
        if not -len(self.physical) <= index < len(self.physical):
            raise ModelError("mode", [f"there are {len(self.physical)} modes, counted from 0; there is no {index}"])
        nv = self.loop.system.nv
        shape = self.vectors[:, index]
        return Mode(self.loop, complex(self.rates[index]), shape[:nv], shape[nv : 2 * nv])

    def to_xarray(self) -> xarray.Dataset:
        """The spectrum as a labelled `xarray.Dataset` (extra `xarray`)."""
        import xarray

        names = self.loop.system.velocity_names
        nv = len(names)
        return xarray.Dataset(
            {
                "eigenvalue": ("mode", self.physical),
                "frequency": ("mode", self.frequencies, {"units": "rad/s"}),
                "damping_ratio": ("mode", self.damping_ratios),
                "shape": (("velocity", "mode"), self.vectors[:nv]),
                "participation": (
                    ("velocity", "mode"),
                    self.participation[:nv] + self.participation[nv : 2 * nv],
                ),
                "spurious": ("off_constraints", self.spurious),
            },
            coords={"velocity": list(names)},
            attrs={
                "system": type(self.loop.system).__name__,
                "method": self.method,
                "verdict": self.verdict,
                **({} if self.period is None else {"period": self.period}),
            },
        )

    def plot(self) -> Any:
        """The eigenvalues in the complex plane, as a matplotlib figure (extra `plot`)."""
        return extension("spectrum figure")(self.physical, self.spurious, sampled=self.sampled)

    def show(self) -> None:
        """Open the picture in a window."""
        import matplotlib.pyplot as plt

        self.plot()
        plt.show()

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file (`.png`, `.svg`, `.pdf`); returns its path."""
        return save_figure(self.plot(), path)

    def __str__(self) -> str:
        unit = "1/s" if self.period is None else f"per sample of {self.period:g} s"
        names = np.array(self.loop.system.velocity_names)
        lines = [f"{type(self.loop.system).__name__}: {self.verdict}. Eigenvalues ({unit}):"]
        nv = len(names)
        shares = self.participation[:nv] + self.participation[nv : 2 * nv]
        for i, value in enumerate(self.physical):
            most = names[np.argsort(-shares[:, i])[:2]] if nv else []
            lines.append(
                f"  {value.real:+.6g} {value.imag:+.6g}i   {self.frequencies[i]:.5g} rad/s, damping ratio "
                f"{self.damping_ratios[i]:.3g}, mostly {', '.join(most)}"
            )
        if len(self.spurious):
            lines.append(f"  and {len(self.spurious)} that belong to no motion (off the constraints)")
        return "\n".join(lines)

    def _require(self, sampled: bool) -> None:
        if sampled != self.sampled:
            raise ModelError("Spectrum", ["only a sampled loop has a spectral radius that decides; see `abscissa`"])


def merge_defective_pairs(values: np.ndarray, vectors: np.ndarray, size: float) -> Complex:
    """Eigenvalues in which each defective pair (such as of a free motion `x = x₀ + v₀ t`) is replaced by its mean.

    Rounding errors split a double eigenvalue with a single eigenvector by their square root, about `±1e-8`; the mean of
    the pair is accurate to rounding. `size` is the size of the entries of the matrix, to which rounding is relative.
    """
    values, near = values.astype(complex), np.sqrt(100 * np.finfo(float).eps * max(size, 1.0))
    length = np.linalg.norm(vectors, axis=0)
    units = vectors / np.where(length > 0, length, 1.0)
    remaining = list(np.argsort(np.abs(values)))
    while remaining:
        i = remaining.pop(0)
        alike = [
            j for j in remaining if abs(values[i] - values[j]) < near and abs(np.vdot(units[:, i], units[:, j])) > 0.999
        ]
        if alike:
            j = min(alike, key=lambda j: abs(values[i] - values[j]))
            remaining.remove(j)
            values[[i, j]] = 0.5 * (values[i] + values[j])
    return values


def order(values: Complex, sampled: bool) -> np.ndarray:
    """Indices that sort the eigenvalues by decay, slowest first, then by frequency."""
    slow = np.abs(values) if sampled else values.real
    return np.lexsort((values.imag, np.round(np.abs(values.imag), 9), -np.round(slow, 9)))
