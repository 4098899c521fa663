"""Which inputs make the output follow its reference? Laws that choose the acceleration of the output."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.control.allocation import Limits, allocate, effort_root, least_effort
from bricard.control.input_response import Response, controllability, reach_sizes, require_reach, response
from bricard.control.output import BlendedOutput, FunctionOutput, Output, make_output
from bricard.control.reference import Reference, make_reference
from bricard.errors import ModelError, is_concrete
from bricard.simulation.controller import Controller, Memory
from bricard.system import Scalar, System, Vector

Gain = Float[Array, ""] | Float[Array, " p"] | Float[Array, "p p"]
MASS = "mass"
"""As a metric: the mass matrix of the moment, `W = M(q)`."""


class OutputTracking(Controller):
    """Inputs of least effort that make `ë + K_D ė + K_P e = 0`, with `e = y(q, t) − y_d(t)`.

    - `output`: a function of `q` (or of `q, t`), a sensor's name, or names of coordinates; (p,).
    - `reference`: numbers, a `Reference`, or a function of time.
    - `kp`, `kd`: one number, one for each output, or a matrix (p, p).
    - `metric`: how effort is measured: None for `uᵀu`, `W` (nv, nv) for `fᵀW⁻¹f` of `f = H u`, or `"mass"`.
    - `limits`: bounds on inputs and constraint forces (`Limits`). If they do not allow the demand, the law misses it by
      as little as possible, with the outputs measured in their natural sizes (the acceleration of each output that a
      unit force gives in units of the inertia); the signal `shortfall` reports the missed acceleration.

    `system` is the controller's model; the plant may differ.
    """

    system: System
    output: Output
    reference: Reference
    kp: Gain
    kd: Gain
    metric: Float[Array, "nv nv"] | str | None
    limits: Limits | None

    def __init__(
        self,
        system: System,
        output: Any,
        reference: Any,
        kp: Any,
        kd: Any,
        *,
        metric: Any = None,
        limits: Limits | None = None,
    ):
        subject = type(self).__name__
        self.system = system
        self.output = make_output(system, output, subject)
        self.reference = make_reference(reference, self.output.names, 2, subject)
        self.kp, self.kd = make_gains(subject, len(self.output.names), kp=kp, kd=kd)
        self.metric = make_metric(subject, system, metric)
        self.limits = limits
        if limits is not None:
            limits.check(system)
            if not limits.names:
                self.limits = None

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        check_mass_metric(type(self).__name__, self.system, self.metric, q, t)
        require_reach(self.system, self.output, q, t, type(self).__name__)

    def errors(
        self, t: Scalar, q: Vector, v: Vector
    ) -> tuple[Float[Array, " p"], Float[Array, " p"], Float[Array, " p"]]:
        """`e`, `ė` and the wanted acceleration of the reference `ÿ_d`."""
        y, rate = self.output.value(self.system, q, t), self.output.rate(self.system, q, v, t)
        wanted, wanted_rate, wanted_acceleration = self.reference.derivatives(t, 2)
        return y - wanted, rate - wanted_rate, wanted_acceleration

    def demand(self, t: Scalar, q: Vector, v: Vector, at: Response) -> tuple[Float[Array, "p nu"], Float[Array, " p"]]:
        """`D u = y`: what the inputs must do for the outputs to accelerate as wanted."""
        e, rate, acceleration = self.errors(t, q, v)
        jacobian = self.output.jacobian(self.system, q, t)
        wanted = acceleration - apply_gain(self.kd, rate) - apply_gain(self.kp, e)
        return jacobian @ at.gain, wanted - self.output.drift(self.system, q, v, t) - jacobian @ at.free

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        return self._inputs(t, q, v)[0]

    def _inputs(self, t: Scalar, q: Vector, v: Vector) -> tuple[Vector, Float[Array, " p"]]:
        at = response(self.system, q, v, t)
        matrix, target = self.demand(t, q, v, at)
        root, sizes = self.effort_root(at), reach_sizes(at, self.output.jacobian(self.system, q, t))
        if self.limits is None:
            u = least_effort(matrix, target, root, *sizes)
            return u, target - matrix @ u
        found = allocate(matrix, target, root, *self.limits.rows(self.system, at), sizes)
        return found.u, found.shortfall

    def effort_root(self, at: Response) -> Float[Array, "k nu"]:
        """`F` of the effort `|F u|` in the law's metric."""
        return effort_root(at, at.mass if isinstance(self.metric, str) else self.metric)

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        shown = followed(self.system, self.output, self.reference, t, q)
        if self.limits is not None:
            shown["shortfall"] = self._inputs(t, q, v)[1]
        return shown


class ProjectedInverseDynamics(OutputTracking):
    """Which motor forces make the mechanism move so? As many outputs as degrees of freedom, any number of motors.

    Of all inputs that do the job it takes the smallest, in the chosen metric. Passive joints have no input.
    """

    __init__ = OutputTracking.__init__

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        name, outputs = type(self).__name__, self.output.names
        found = controllability(self.system, q, None, t)
        if found.demanded > len(outputs):
            raise ModelError(
                name,
                [
                    f"{found.demanded} degrees of freedom but {len(outputs)} outputs ({', '.join(outputs)}): the rest "
                    "would move on its own. Add outputs, or use ServoConstraint, which leaves internal dynamics"
                ],
            )
        super().check(t, q, v)


class ServoConstraint(OutputTracking):
    """Fewer motors than degrees of freedom: the outputs follow, the rest of the motion is internal dynamics.

    `task` is the output. Whether the internal dynamics are stable depends on it: see `br.stability`.
    """

    def __init__(self, system: System, task: Any, reference: Any, kp: Any, kd: Any, **settings: Any):
        super().__init__(system, task, reference, kp, kd, **settings)


class Blended(ServoConstraint):
    """A servo-constraint made stable: `κ` times the task and `1 − κ` times an output with stable internal dynamics."""

    def __init__(
        self,
        system: System,
        task: Any,
        stabilizer: Any,
        reference: Any,
        kp: Any,
        kd: Any,
        kappa: ArrayLike,
        **settings: Any,
    ):
        first, second = make_output(system, task, "Blended"), make_output(system, stabilizer, "Blended")
        problems = []
        if len(first.names) != len(second.names):
            problems.append(f"the task has {len(first.names)} outputs, the stabilizer {len(second.names)}")
        if np.ndim(kappa) != 0 or (is_concrete(kappa) and not np.isfinite(kappa)):
            problems.append(f"kappa: one number, not {kappa!r}")
        if problems:
            raise ModelError("Blended", problems)
        blend = BlendedOutput(first, second, jnp.asarray(kappa, dtype=float))
        super().__init__(system, blend, reference, kp, kd, **settings)

    def with_kappa(self, kappa: ArrayLike) -> Blended:
        """The same law with another blending factor."""
        return eqx.tree_at(lambda s: s.output.kappa, self, jnp.asarray(kappa, dtype=float))

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        assert isinstance(self.output, BlendedOutput)
        wanted, task = self.reference(t), self.output.first.value(self.system, q, t)
        return super().signals(t, q, v, memory) | {"task": task, "task error": task - wanted}


class TrajectoryConstraint(OutputTracking):
    """A wanted trajectory as a constraint: inputs do what its constraint force would, `constraint(q, t) = 0` (p,).

    The force is Gauss's (Udwadia and Kalaba), the smallest measured by `M⁻¹`. Errors decay as
    `Φ̈ + 2α Φ̇ + β² Φ = 0`: Baumgarte's stabilisation is a feedback (zero, as by default, corrects nothing).
    """

    def __init__(self, system: System, constraint: Any, alpha: ArrayLike = 0.0, beta: ArrayLike = 0.0):
        output = make_output(system, constraint, "TrajectoryConstraint")
        if isinstance(output, FunctionOutput) and not output.timed:
            raise ModelError("TrajectoryConstraint", ["constraint: a function of q and t"])
        alpha, beta = (jnp.asarray(x, dtype=float) for x in (alpha, beta))
        super().__init__(system, output, jnp.zeros(len(output.names)), beta**2, 2.0 * alpha, metric=MASS)


def check_mass_metric(subject: str, system: System, metric: Any, q: Vector, t: Scalar) -> None:
    """Raise if the effort is to be measured by a mass matrix that has no inverse (massless links)."""
    if isinstance(metric, str) and not positive_definite(np.asarray(system.mass_matrix(q, t))):
        raise ModelError(
            subject, ["metric 'mass' needs a mass matrix that is positive definite: give a matrix instead"]
        )


def positive_definite(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix is positive definite, whatever the units of its rows."""
    units = np.sqrt(np.abs(np.diagonal(matrix)))
    return bool(np.all(units > 0) and np.linalg.eigvalsh(matrix / np.outer(units, units))[0] > 1e-12)


def computed_torque(system: System, reference: Any, kp: Any, kd: Any, **settings: Any) -> ProjectedInverseDynamics:
    """For an open chain: every coordinate follows its reference. `settings` as for `ProjectedInverseDynamics`."""
    return ProjectedInverseDynamics(system, make_output(system, system.coordinates), reference, kp, kd, **settings)


def followed(system: System, output: Output, reference: Reference, t: Scalar, q: Vector) -> dict[str, Array]:
    """The output, its reference and the difference: what every law that follows one shows."""
    y, wanted = output.value(system, q, t), reference(t)
    return {"output": y, "reference": wanted, "error": y - wanted}


def apply_gain(gain: Gain, x: Float[Array, " p"]) -> Float[Array, " p"]:
    """One gain for all, one for each, or a matrix."""
    return gain @ x if gain.ndim == 2 else gain * x


def make_gains(subject: str, size: int, **gains: Any) -> tuple[Gain, ...]:
    """Gains for `size` outputs as arrays; all problems at once."""
    made, problems = [], []
    for name, gain in gains.items():
        try:
            array = jnp.asarray(gain, dtype=float)
        except (TypeError, ValueError):
            problems.append(f"{name}: numbers, not {gain!r}")
            continue
        if array.shape not in ((), (size,), (size, size)):
            problems.append(
                f"{name} has shape {array.shape}; for {size} outputs it may be (), ({size},), ({size}, {size})"
            )
        if is_concrete(array) and not np.all(np.isfinite(array)):
            problems.append(f"{name} is not finite")
        made.append(array)
    if problems:
        raise ModelError(subject, problems)
    return tuple(made)


def make_metric(subject: str, system: System, metric: Any) -> Any:
    """None, `"mass"`, or a checked matrix."""
    if metric is None or (isinstance(metric, str) and metric == MASS):
        return metric
    if isinstance(metric, str) or np.shape(metric) != (system.nv, system.nv):
        what = repr(metric) if isinstance(metric, str) else f"shape {np.shape(metric)}"
        raise ModelError(subject, [f"metric: None, 'mass' or a matrix ({system.nv}, {system.nv}), not {what}"])
    metric = jnp.asarray(metric, dtype=float)
    if is_concrete(metric) and not (
        np.allclose(metric, metric.T, rtol=1e-9, atol=0.0) and positive_definite(np.asarray(metric))
    ):
        raise ModelError(subject, ["metric: must be symmetric and positive definite"])
    return metric
