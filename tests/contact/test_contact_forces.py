"""Forces of redundant contacts: they balance every body, stay in their cones, and are the least that do.

Checked with NumPy from the numbers of random scenes: the laws of contact themselves, and the conditions of optimality.
All scenes of the plane share their compiled programs, and so do those in space.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

import bricard as br

from .random_contacts import block_between

TOLERANCE = 1e-8


def simulate(scene, t_end=0.02, **settings):
    zero = np.zeros(scene.v.size)
    return br.simulate(scene.system, zero, scene.v, t_end, contacts=scene.contacts, save=4, **settings)


def contact_rows(scene):
    return np.concatenate([scene.normals[:, None], scene.tangents], axis=1)


def check_balance(scene, run):
    """`M v̇ = f + Aᵀλ + contact forces`, and the cones, at all saved times."""
    force, rows = np.asarray(run.contact_force), contact_rows(scene)
    carried = np.asarray(run.acceleration) @ scene.mass - scene.force
    own = np.asarray(run.multipliers) @ scene.rows
    missing = carried - own - np.einsum("kia,ian->kn", force, rows)
    size = np.max(np.abs(scene.force))
    assert np.max(np.abs(missing)) < TOLERANCE * size
    assert np.min(force[:, :, 0]) > -TOLERANCE * size
    friction = np.linalg.norm(force[:, :, 1:], axis=2) - scene.friction * force[:, :, 0]
    assert np.max(friction) < TOLERANCE * size


def check_laws(scene, run):
    """Coulomb's law and complementarity at the start, where all contacts touch; the scene is linear: no `J̇ v`."""
    rows, force = contact_rows(scene), np.asarray(run.contact_force[0])
    acceleration = rows @ np.asarray(run.acceleration[0])
    slip = scene.tangents @ scene.v
    size, rate = np.max(np.abs(scene.force)), np.max(np.abs(rows @ np.linalg.solve(scene.mass, scene.force)))
    small = 1e-7
    assert np.min(acceleration[:, 0]) > -small * rate
    np.testing.assert_allclose(force[:, 0] * acceleration[:, 0], 0.0, rtol=0, atol=small * size * rate)
    np.testing.assert_allclose(scene.rows @ np.asarray(run.acceleration[0]), 0.0, rtol=0, atol=small * rate)
    for i in range(force.shape[0]):
        way = slip[i] if np.linalg.norm(slip[i]) > small else acceleration[i, 1:]
        if np.linalg.norm(way) > small * max(1.0, rate):
            expected = -scene.friction[i] * force[i, 0] * way / np.linalg.norm(way)
            np.testing.assert_allclose(force[i, 1:], expected, rtol=0, atol=1e-6 * size)


def check_least(scene, run):
    """No admissible forces are smaller: by the conditions of Karush, Kuhn and Tucker, which are sufficient here.

    The forces must be a combination of the rows of the balance and, with factors that are not negative, of the inward
    normals of the cones that they touch. What is missing bounds how far they are from the least ones.
    """
    closed, stuck = np.asarray(run.modes.closed[0]) > 0, np.asarray(run.modes.stuck[0]) > 0
    direction, force = np.asarray(run.modes.direction[0]), np.asarray(run.contact_force[0])
    rows, own = contact_rows(scene), np.asarray(run.multipliers[0])
    given, columns, normals = list(own), list(scene.rows), []
    size = np.max(np.abs(force))

    def touched(at, inward):
        normals.append((at, inward))

    for i in np.flatnonzero(closed):
        at, mu = len(given), scene.friction[i]
        if stuck[i]:
            given += list(force[i])
            columns += list(rows[i])
            rub = np.linalg.norm(force[i, 1:])
            if force[i, 0] < 1e-7 * size:  # its force vanishes: the normals of the cone's edges, all around
                turns = np.linspace(0.0, 2.0 * np.pi, 64, endpoint=False)
                circle = (
                    np.array([[1.0], [-1.0]]) if rows.shape[1] == 2 else np.stack([np.cos(turns), np.sin(turns)], 1)
                )
                for way in circle:
                    touched(at, [mu, *way])
            elif mu * force[i, 0] - rub < 1e-7 * size:
                touched(at, [mu, *(-force[i, 1:] / rub)])
        else:  # friction follows the normal force; the unknown is the size of both
            with_friction = np.concatenate([[1.0], -mu * direction[i]])
            length = np.linalg.norm(with_friction)
            given.append(force[i, 0] * length)
            columns.append(with_friction @ rows[i] / length)
            if force[i, 0] < 1e-7 * size:
                touched(at, [1.0])
    given, balance = np.array(given), np.array(columns)
    cones = np.zeros((given.size, len(normals)))
    for j, (at, inward) in enumerate(normals):
        cones[at : at + len(inward), j] = inward / np.linalg.norm(inward)
    u, s, _ = np.linalg.svd(balance, full_matrices=False)
    u = u[:, s > 1e-9 * s[0]]
    rest = given - u @ (u.T @ given)
    missing = nnls(cones - u @ (u.T @ cones), rest)[1] if normals else np.linalg.norm(rest)
    assert missing < 1e-8 * np.linalg.norm(given)


def check_flags(scene, run):
    """A force is determined if no combination of forces with no effect changes it: by an SVD."""
    closed, stuck = np.asarray(run.modes.closed[0]) > 0, np.asarray(run.modes.stuck[0]) > 0
    direction, rows = np.asarray(run.modes.direction[0]), contact_rows(scene)
    columns, where = list(scene.rows), []
    for i in np.flatnonzero(closed):
        drag = np.zeros(scene.v.size) if stuck[i] else scene.friction[i] * direction[i] @ scene.tangents[i]
        columns.append(rows[i, 0] - drag)
        where.append((i, 0))
        for a in range(1, rows.shape[1]) if stuck[i] else ():
            columns.append(rows[i, a])
            where.append((i, a))
    _, s, vt = np.linalg.svd(np.array(columns).T)
    null = vt[np.sum(s > 1e-9 * s[0]) :]
    share = np.max(np.abs(null), axis=0, initial=0.0)[len(scene.rows) :]
    known = np.asarray(run.contact_determinate[0])
    for (i, a), size in zip(where, share, strict=True):
        assert known[i, a] == (size < 1e-7)
    assert np.all(known[~closed])


def check(scene):
    run = simulate(scene)
    check_balance(scene, run)
    check_laws(scene, run)
    check_flags(scene, run)
    check_least(scene, run)
    # Gravity and the press are potentials: the energy can only fall.
    total = np.asarray(run.energy.total)
    assert np.max(np.diff(total)) < 1e-9 * max(1.0, np.max(np.abs(total)))
    return run


def several(seeds, dim, below, above):
    sliding = stuck = loose = 0
    for seed in seeds:
        run = check(block_between(seed, dim, below, above, moving=seed % 2 == 1))
        stuck += bool(np.any(run.modes.stuck[0]))
        sliding += bool(np.any(run.modes.direction[0]))
        loose += not bool(np.all(run.contact_determinate[0]))
    return stuck, sliding, loose


@pytest.mark.slow
def test_random_blocks_between_floor_and_lid():
    """Sticking, sliding, tipping and frictionless, with redundant contacts and a redundant guide."""
    stuck, sliding, loose = several([*range(24), *range(100, 150)], 2, 3, 2)
    assert min(stuck, sliding, loose) > 10


@pytest.mark.slow
def test_impulses_at_redundant_contacts():
    """Falling flat: at all times momentum and energy; impulses in their cones, flagged where they are shared."""
    hits = 0
    for seed in range(6):
        scene = block_between(seed, 2, 3, 2, gap=1e-3, friction=0.3)
        run = simulate(scene, t_end=0.05)
        check_balance(scene, run)
        start, lost = scene.v @ scene.mass @ scene.v, {}
        for event in run.events:
            if event.kind == "impact":
                assert event.impulse[0] > 0
                assert abs(event.impulse[1]) <= 0.3 * event.impulse[0] * (1 + 1e-9)
                # One contact may give energy to another one, all of them together only take.
                lost[event.time] = lost.get(event.time, 0.0) + event.energy_lost
                hits += 1
        assert min(lost.values(), default=0.0) >= -1e-9 * start
        total = np.asarray(run.energy.total)
        assert np.max(np.diff(total)) < 1e-9 * max(1.0, np.max(np.abs(total)))
    assert hits > 10
    # All three corners at once share their impulse: a free block, dropped flat.
    scene = block_between(0, 2, 3, 2, friction=0.3)
    down = np.linalg.lstsq(np.concatenate([scene.normals, scene.rows]), [-1.0] * 3 + [0.0] * 4, rcond=None)[0]
    hit = br.impact(scene.system, np.zeros(5), down, scene.contacts)
    assert not np.any(hit.determinate[:3, 0])
    rows = contact_rows(scene).reshape(-1, 5)
    change = scene.mass @ (np.asarray(hit.v) - down)
    missing = change - rows.T @ np.asarray(hit.impulses).reshape(-1) - scene.rows.T @ np.asarray(hit.reactions)
    np.testing.assert_allclose(missing, 0.0, rtol=0, atol=1e-10)


class Pushed(eqx.Module):
    """A force that grows with time."""

    rate: jnp.ndarray

    def __call__(self, t):
        return self.rate * t


class Jaws(br.System):
    """A block between two jaws, turned by `angle`; the right jaw is pressed."""

    angle: jnp.ndarray
    grip: jnp.ndarray
    coordinates = ("x", "y", "turn", "jaw")
    inputs = ("along",)
    m, inertia, jaw = 0.2, 3e-4, 0.5

    def mass_matrix(self, q, t):
        return jnp.diag(jnp.array([self.m, self.m, self.inertia, self.jaw]))

    def potential_energy(self, q, t):
        return self.grip * q[3]

    def input_matrix(self, q, t):
        """Along the jaws."""
        return jnp.stack([-jnp.sin(self.angle), jnp.cos(self.angle), 0.0, 0.0])[:, None]


class Touch(eqx.Module):
    """A corner of the block at `r` and the jaw on its side: position along and across them."""

    r: jnp.ndarray
    angle: jnp.ndarray

    def place(self, q):
        a = self.angle + q[2]
        corner = q[:2] + jnp.stack(
            [jnp.cos(a) * self.r[0] - jnp.sin(a) * self.r[1], jnp.sin(a) * self.r[0] + jnp.cos(a) * self.r[1]]
        )
        c, s = jnp.cos(self.angle), jnp.sin(self.angle)
        return jnp.stack([c * corner[0] + s * corner[1], -s * corner[0] + c * corner[1]])


class TouchGap(Touch):
    def __call__(self, q, t):
        across = self.place(q)[0]
        return jnp.where(self.r[0] < 0, across - self.r[0], q[3] + self.r[0] - across)


class TouchSlip(Touch):
    def __call__(self, q, v, t):
        return jax.jvp(self.place, (q,), (v,))[1][1:]


@pytest.mark.parametrize(("angle", "grip"), [(0.0, 10.0), (0.7, 10.0), (2.0, 40.0)])
def test_a_block_between_jaws_slips_where_friction_ends(angle, grip):
    """Two contacts a side, all redundant: friction adds up to the load until it reaches `2 μ grip`; then all slip."""
    angle, mu, rate = jnp.asarray(angle), 0.3, 8.0 * grip
    corners = [(-0.05, -0.03), (-0.05, 0.05), (0.05, -0.04), (0.05, 0.02)]
    contacts = [
        br.Contact(TouchGap(r, angle), TouchSlip(r, angle), friction=mu, name=f"{i}")
        for i, r in enumerate(jnp.asarray(corners))
    ]
    system = Jaws(angle, jnp.asarray(grip))
    run = br.simulate(system, np.zeros(4), np.zeros(4), 0.1, u=Pushed(jnp.asarray([rate])), contacts=contacts, save=9)
    slip = 2.0 * mu * grip / rate  # unless it tilts: the load acts at the centre, and both sides can carry it
    assert {e.kind for e in run.events} == {"slip"}
    np.testing.assert_allclose([e.time for e in run.events], slip, rtol=0, atol=1e-7)
    t, force = np.asarray(run.t), np.asarray(run.contact_force)
    stuck = t < slip
    load = rate * t
    np.testing.assert_allclose(np.sum(force[stuck, :, 1], axis=1), -load[stuck], rtol=0, atol=1e-8 * grip)
    np.testing.assert_allclose(np.sum(force[:, :2, 0], axis=1), grip, rtol=0, atol=1e-8 * grip)
    np.testing.assert_allclose(np.sum(force[:, 2:, 0], axis=1), grip, rtol=0, atol=1e-8 * grip)
    # Moments about the centre: along the jaws at a distance of 0.05, across them by the height of each contact.
    heights, sides = np.array([c[1] for c in corners]), np.array([-1.0, -1.0, 1.0, 1.0])
    moment = 0.05 * force[:, :, 1] @ sides + force[:, :, 0] @ (sides * heights)
    np.testing.assert_allclose(moment[stuck], 0.0, rtol=0, atol=1e-9 * grip)
    assert np.all(np.abs(force[:, :, 1]) <= mu * force[:, :, 0] + 1e-9 * grip)
    assert not np.any(run.contact_determinate[stuck])
    np.testing.assert_allclose(force[~stuck, :, 1], -mu * force[~stuck, :, 0], rtol=0, atol=1e-9 * grip)


@pytest.mark.slow
def test_random_blocks_in_space():
    """A box on four corners under a lid on two points; friction along two directions, spinning too."""
    stuck, sliding, loose = several(range(20, 60), 3, 4, 2)
    assert min(stuck, sliding, loose) > 7


@pytest.mark.slow
def test_a_contact_that_begins_to_slip_keeps_its_direction():
    """One of the contacts slips at 0.07 m/s², where small turns of its friction would change that to 100 m/s².

    The direction of a velocity below the tolerances of the run is not known; friction along it would be wrong, and make
    a contact slip that sticks.
    """
    scene = block_between(8, 3, 4, 2)
    run = simulate(scene, t_end=1e-5)
    assert run.events == ()
    check_balance(scene, run)
    check_laws(scene, run)
    # All forces are constant, and so is the direction.
    np.testing.assert_allclose(run.contact_force, np.tile(run.contact_force[:1], (4, 1, 1)), rtol=0, atol=1e-3)
