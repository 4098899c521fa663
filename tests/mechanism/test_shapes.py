"""Mass, centre and inertia of shapes, against sums over small pieces."""

import numpy as np
import pytest

import bricard as br


def summed(points, masses):
    com = masses @ points / masses.sum()
    d = points - com
    return (
        masses.sum(),
        com,
        np.einsum("k,kij->ij", masses, np.einsum("ki,ki->k", d, d)[:, None, None] * np.eye(3))
        - (np.einsum("k,ki,kj->ij", masses, d, d)),
    )


@pytest.mark.parametrize("seed", range(3))
def test_solid_shapes_against_random_points(seed):
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    frame *= np.sign(np.linalg.det(frame))
    unit = rng.uniform(-1, 1, size=(400_000, 3))
    inside = np.einsum("ki,ki->k", unit, unit) < 1
    disc = unit[:, 0] ** 2 + unit[:, 1] ** 2 < 1
    size = np.array([0.3, 0.5, 0.7])
    start, end = np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.2, 0.3]) + 0.6 * frame[:, 2]
    cases = [
        (br.box((1, 2, 3), size, 2.0, axes=frame), (unit * size / 2) @ frame.T),
        (br.sphere((1, 2, 3), 0.4, 2.0), 0.4 * unit[inside]),
        (br.plate((1, 2, 3), size[:2], 2.0, axes=frame), (unit * [0.15, 0.25, 0.0]) @ frame.T),
        (br.cylinder(start, end, 0.2, 2.0), (unit[disc] * [0.2, 0.2, 0.3]) @ frame.T),
        (br.rod(start, end, 2.0, width=0.1), (unit * [0.05, 0.05, 0.3]) @ frame.T),
        (br.rod(start, end, 2.0), (unit * [0.0, 0.0, 0.3]) @ frame.T),
    ]
    for shape, points in cases:
        _, _, inertia = summed(points, np.full(len(points), 2.0 / len(points)))
        np.testing.assert_allclose(shape.inertia, inertia, atol=3e-3 * np.max(inertia))


def test_density_and_mass_agree():
    assert br.box((0, 0, 0), (1, 2, 3), density=2.0).mass == pytest.approx(12.0)
    assert br.sphere((0, 0, 0), 2.0, density=3.0).mass == pytest.approx(32 * np.pi)
    assert br.cylinder((0, 0, 0), (0, 0, 2), 0.5, density=4.0).mass == pytest.approx(2 * np.pi)
    assert br.rod((0, 0, 0), (0, 0, 2), width=0.5, density=4.0).mass == pytest.approx(2.0)
    assert br.plate((0, 0, 0), (2, 3), density=4.0).mass == pytest.approx(24.0)


def test_compound_is_the_sum_of_its_points():
    rng = np.random.default_rng(0)
    points, masses = rng.normal(size=(7, 3)), rng.uniform(1, 2, size=7)
    shape = br.compound(*(br.point_mass(p, m) for p, m in zip(points, masses, strict=True)))
    mass, com, inertia = summed(points, masses)
    np.testing.assert_allclose(shape.mass, mass)
    np.testing.assert_allclose(shape.com, com)
    np.testing.assert_allclose(shape.inertia, inertia)
