"""Impulses of contacts that push and rub: complementarity in the normal, Coulomb's law along it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.contact.lcp import lemke
from bricard.equations.rank import pinv

TOLERANCE = 1e-13
"""Of the impulse laws, relative to the largest velocity."""
ROUNDS = 60
"""Rounds of relaxation and Newton steps at most."""
NEWTON_STEPS = 3
DIRECTIONS = 8
"""Where slip has two components, a polygon of so many sides stands for the disc of friction, to begin with."""
SWEEPS = 20
"""Relaxation sweeps per round; they settle which contacts close, stick or slide."""

Impulses = Float[Array, "c k1"]
"""Of each contact, normal impulse, then the tangential ones."""


def contact_impulses(
    inverse_mass: Float[Array, "c k1 c k1"],
    velocity: Impulses,
    friction: Float[Array, " c"],
    normal: Float[Array, " c"] | None = None,
) -> tuple[Impulses, Float[Array, ""]]:
    """Impulses `Λ` with `w = velocity + inverse_mass Λ`: `0 ≤ Λ_N ⟂ w_N ≥ 0`, `|Λ_T| ≤ μ Λ_N` against the slip.

    With `normal` given, the normal impulses are these. Also returns how far the laws are missed. Rows are in units in
    which the normal part of `inverse_mass` has 1 on its diagonal; redundant contacts are allowed.
    """
    c, k1 = velocity.shape
    if normal is not None and k1 == 1:
        return normal[:, None], jnp.zeros(())
    flat = inverse_mass.reshape(c * k1, c * k1)
    steps = 1.0 / _positive(jnp.trace(_blocks(inverse_mass)[:, 1:, 1:], axis1=1, axis2=2))
    size = jnp.maximum(_largest(velocity), 0.0 if normal is None else _largest(normal))
    tolerance = TOLERANCE * jnp.where(size > 0.0, size, 1.0)

    def updated(old: Float[Array, " k1"], w: Float[Array, " k1"], mu, step, given) -> Float[Array, " k1"]:
        """One contact's impulse, moved against its velocity and back into the cone of friction."""
        push = jnp.maximum(old[0] - w[0], 0.0) if given is None else given
        return jnp.concatenate([push[None], _in_disc(old[1:] - step * w[1:], mu * push)])

    def law(x: Float[Array, " n"]) -> Float[Array, " n"]:
        """Zero where the laws hold."""
        old, w = x.reshape(c, k1), velocity + (flat @ x).reshape(c, k1)
        if normal is None:
            new = jax.vmap(lambda x, y, mu, step: updated(x, y, mu, step, None))(old, w, friction, steps)
        else:
            new = jax.vmap(updated)(old, w, friction, steps, normal)
        return (old - new).reshape(-1)

    def relax(i, x: Impulses) -> Impulses:
        i = i % c
        w = velocity[i] + jnp.einsum("abc,bc->a", inverse_mass[i], x)
        given = None if normal is None else normal[i]
        return x.at[i].set(updated(x[i], w, friction[i], steps[i], given))

    def newton(x: Float[Array, " n"]) -> Float[Array, " n"]:
        return x - pinv(jax.jacfwd(law)(x)) @ law(x)

    def better(x: Float[Array, " n"], y: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.where(_largest(law(y)) < _largest(law(x)), y, x)

    def polished(x: Float[Array, " n"]) -> Float[Array, " n"]:
        return jax.lax.fori_loop(0, NEWTON_STEPS, lambda _, x: better(x, newton(x)), x)

    def round_of(carry):
        best, x, _, i = carry
        swept = jax.lax.fori_loop(0, SWEEPS * c, relax, best.reshape(c, k1)).reshape(-1)
        best = better(best, polished(swept))
        if normal is None and k1 == 3:
            # Friction acts exactly along the corners of its polygon: turn them to where the last round slipped.
            slip = -(velocity + (flat @ x).reshape(c, k1))[:, 1:]
            x = _polygonal(inverse_mass, velocity, friction, jnp.arctan2(slip[:, 1], slip[:, 0])).reshape(-1)
            best = better(best, polished(x))
        else:
            x = swept
        return best, x, _largest(law(best)), i + 1

    x = jnp.zeros(c * k1)
    if normal is None:
        x = _polygonal(inverse_mass, velocity, friction, jnp.zeros(c)).reshape(-1)
    best = better(jnp.zeros_like(x), polished(x))  # zero also where the method failed
    start = (best, x, _largest(law(best)), jnp.zeros((), dtype=int))
    x, _, missed, _ = jax.lax.while_loop(lambda s: (s[2] > tolerance) & (s[3] < ROUNDS), round_of, start)
    return in_cones(x.reshape(c, k1), friction), missed / jnp.where(size > 0.0, size, 1.0)


def in_cones(impulses: Impulses, friction: Float[Array, " c"]) -> Impulses:
    """Impulses without what rounding has left outside the cones of friction."""
    push = jnp.maximum(impulses[:, 0], 0.0)
    return jnp.concatenate([push[:, None], jax.vmap(_in_disc)(impulses[:, 1:], friction * push)], axis=1)


def _polygonal(
    inverse_mass: Float[Array, "c k1 c k1"], velocity: Impulses, friction: Float[Array, " c"], turns: Float[Array, " c"]
) -> Impulses:
    """The impulses where friction acts along some directions only: a problem of linear complementarity.

    Unknowns (Stewart and Trinkle): normal impulses, impulses along the directions, speeds of slip. `turns` (rad) is the
    first of the directions of each contact with two of slip.
    """
    c, k = velocity.shape[0], velocity.shape[1] - 1
    directions = [jnp.zeros((c, 0, 0)), jnp.tile(jnp.array([[[1.0], [-1.0]]]), (c, 1, 1)), _circles(turns)][k]
    d = directions.shape[1]
    along = jnp.zeros((c, 1 + d, 1 + k)).at[:, 0, 0].set(1.0).at[:, 1:, 1:].set(directions)
    block = jnp.einsum("ipa,iajb,jrb->pirj", along, inverse_mass, along)
    reduced = block.reshape((1 + d) * c, (1 + d) * c)
    if k == 0:
        return lemke(reduced, velocity[:, 0])[:, None]
    n = (1 + d) * c
    slip_speed = jnp.concatenate([jnp.zeros((c, c)), *[jnp.eye(c)] * d])  # what each speed adds to each row
    limit = jnp.concatenate([jnp.diag(friction), *[-jnp.eye(c)] * d], axis=1)
    matrix = jnp.block([[reduced, slip_speed], [limit, jnp.zeros((c, c))]])
    rhs = jnp.concatenate([jnp.einsum("ipa,ia->pi", along, velocity).reshape(n), jnp.zeros(c)])
    z = lemke(matrix, rhs)[:n].reshape(1 + d, c)
    return jnp.einsum("pi,ipa->ia", z, along)


def _circles(turns: Float[Array, " c"]) -> Float[Array, "c n 2"]:
    angles = turns[:, None] + 2.0 * jnp.pi * jnp.arange(DIRECTIONS)[None, :] / DIRECTIONS
    return jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=2)


def _blocks(inverse_mass: Float[Array, "c k1 c k1"]) -> Float[Array, "c k1 k1"]:
    return jnp.einsum("iaib->iab", inverse_mass)


def _positive(x: Array) -> Array:
    return jnp.where(x > 0.0, x, 1.0)


def _largest(x: Array) -> Array:
    return jnp.max(jnp.abs(x), initial=0.0)


def _in_disc(x: Float[Array, " k"], radius: Float[Array, ""]) -> Float[Array, " k"]:
    """The nearest point with `|x| ≤ radius`."""
    square = x @ x
    length = jnp.sqrt(jnp.where(square > 0.0, square, 1.0))
    return jnp.where(square > radius**2, x * radius / length, x)
