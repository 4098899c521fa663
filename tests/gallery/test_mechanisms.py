"""Known mechanisms against independent numbers, and against what they are famous for."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br


def load(name, kind):
    return br.gallery.load(name, coordinates=kind)


def bricard_error(kind, t_end, reference):
    samples = reference("A04_bricard")["reference"]["slender"]
    run = load("bricard", kind).simulate(t_end=t_end, save=int(t_end) + 1)
    expected = np.stack([samples["P3_x"], samples["P3_y"], samples["P3_z"]], axis=1)[: int(t_end) + 1]
    return run, np.max(np.abs(run.sensors["P3"].value - expected))


@pytest.mark.slow
def test_bricard_moves_as_published(reference):
    run, error = bricard_error("relative", 1.0, reference)
    assert error < 1e-7
    mobility = br.mobility(run.system, run.q[-1])
    assert (mobility.dof, mobility.redundant) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_bricard_for_ten_seconds(kind, reference):
    run, error = bricard_error(kind, 10.0, reference)
    assert error < 1e-7
    assert run.energy.drift < 1e-6
    assert np.all(run.rank == run.system.n_constraints - 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_spatial_slider_crank(kind, reference):
    expected = reference("spatial_slider_crank")["reference"]
    example = load("spatial-slider-crank", kind)
    run = example.simulate(save=11)
    slider = [float(example.system.place(q).p[2, 0]) for q in run.q]
    np.testing.assert_allclose(slider, expected["slider_x"], atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "close"),
    [
        ({}, 1e-8),
        pytest.param({"solver": diffrax.Kvaerno5(), "rtol": 1e-6, "atol": 1e-7}, 1e-6, marks=pytest.mark.slow),
    ],
    ids=["SSPRK104", "Kvaerno5"],
)
def test_flyball_governor(settings, close, reference):
    expected = reference("A05_flyball_governor")["reference"]
    run = load("flyball-governor", "relative").simulate(save=11, **settings)
    np.testing.assert_allclose(run.sensors["collar"].value[:, 2], expected["s"], atol=close, rtol=0)
    np.testing.assert_allclose(run["spin"], expected["psi"], atol=1e-5, rtol=0)


COUNTS = {
    "planar absolute": ("planar-stewart", {"coordinates": "absolute"}, (21, 18, 3)),
    "planar vectors": ("planar-stewart", {"coordinates": "relative", "closure": "platform"}, (9, 6, 3)),
    "planar branch": ("planar-stewart", {"coordinates": "absolute", "legs": 1}, (9, 6, 3)),
    "absolute": ("stewart", {"coordinates": "absolute"}, (78, 72, 6)),
    "loops": ("stewart", {"coordinates": "relative", "closure": "weld"}, (42, 36, 6)),
    "vectors": ("stewart", {"coordinates": "relative", "closure": "platform"}, (24, 18, 6)),
    "branch": ("stewart", {"coordinates": "absolute", "legs": 1}, (18, 12, 6)),
}


@pytest.mark.parametrize("case", COUNTS)
def test_stewart_counts(case):
    name, settings, (coordinates, constraints, dof) = COUNTS[case]
    example = br.gallery.load(name, **settings)
    mobility = br.mobility(example.system, example.q)
    assert (mobility.coordinates, mobility.constraints, mobility.dof) == (coordinates, constraints, dof)
    assert mobility.redundant == 0


@pytest.mark.parametrize(
    ("name", "key", "columns"), [("stewart", "spatial", range(6)), ("planar-stewart", "planar", (0, 1, 5))]
)
def test_stewart_leg_rates(name, key, columns, reference):
    """Rate of each leg for a motion of the platform; its centre of mass is its centre."""
    expected = reference("stewart")[key]
    system = load(name, "absolute").system
    model, place = system.model, system.place(system.reference)
    legs = model.joint_coordinates(model.motors)
    np.testing.assert_allclose(legs.values(place), expected["leg_lengths"], rtol=1e-12)
    # Along a leg its own hinges do not matter: a force on the platform at the ball joint, along the leg.
    frames = model.frames.world(place)
    heads = [model.frames.names.index(f"{'S' if key == 'spatial' else 'B'}{i}") for i in range(len(legs))]
    slides = [model.frames.names.index(f"P{i}") for i in range(len(legs))]
    along, head = np.asarray(frames.A[np.array(slides), :, 2]), np.asarray(frames.pb[np.array(heads)])
    rates = np.concatenate([along, np.cross(head - np.asarray(place.p[0]), along)], axis=1)
    jacobian = np.array(expected["leg_rate_jacobian_v_omega_world" if key == "spatial" else "leg_rate_jacobian"])
    np.testing.assert_allclose(rates[:, list(columns)], jacobian, atol=1e-12)


MECHANISMS = (
    *("four-bar", "five-bar", "peaucellier", "bennett", "bricard", "sarrus", "spatial-slider-crank"),
    *("flyball-governor", "planar-stewart", "stewart", "delta", "six-axis-arm", "gripper"),
)
RUNS = {
    # Errors grow 3000-fold in its last second.
    "five-bar": {"rtol": 1e-13, "atol": 1e-13},
    # Explicit steps of 0.3 ms, as its fastest decay of 3e3 1/s needs, are cheaper than implicit ones this accurate.
    "flyball-governor": {"solver": diffrax.Dopri8(), "rtol": 1e-10, "atol": 1e-10},
    # Limp, it would swing through its stretched position, where the rounding of its start grows 100-fold each time, and
    # the platform would fall through its base: their motors push with about what holds them at the start.
    "delta": {"u": [-0.54, -0.55, -0.56]},
    "stewart": {"u": [29.5, 23.5, 17.0, 16.0, 32.0, 10.0]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_same_motion_in_three_coordinates(name):
    places = []
    for kind in ("relative", "absolute", "natural"):
        example = load(name, kind)
        settings = {"rtol": 1e-10, "atol": 1e-10} | RUNS.get(name, {})
        run = example.simulate(t_end=2.0, save=3, **settings)
        places.append([example.system.place(q) for q in run.q])
    for other in places[1:]:
        for got, expected in zip(other, places[0], strict=True):
            np.testing.assert_allclose(got.p, expected.p, atol=1e-7, rtol=0)
            np.testing.assert_allclose(got.R, expected.R, atol=1e-7, rtol=0)


@pytest.mark.slow
def test_a_run_that_needs_smaller_steps_is_sensitive():
    """A change of the velocities at 1 s is a thousand times as large at 2 s, in one and the same coordinates."""
    example = load("five-bar", "relative")

    def end(q, v):
        run = example.simulate(q=q, v=v, t_end=1.0, save=2, rtol=1e-12, atol=1e-12)
        return np.concatenate([run.q[-1], run.v[-1]])

    q, v = np.split(end(example.q, example.v), 2)
    change = 1e-8 * v
    assert np.linalg.norm(end(q, v + change) - end(q, v)) > 1e3 * np.linalg.norm(change)


@pytest.mark.slow
def test_what_they_are_famous_for():
    d = load("peaucellier", "relative").simulate(save=11).sensors["D"].value
    np.testing.assert_allclose(d[:, 0], (0.5**2 - 0.2**2) / 0.4, atol=1e-10)
    assert np.ptp(d[:, 1]) > 0.1
    centre = load("sarrus", "relative").simulate(save=5).sensors["centre"].value
    np.testing.assert_allclose(centre[:, :2], 0.0, atol=1e-10)
    assert np.ptp(centre[:, 2]) > 0.1
    attitude = load("delta", "relative").simulate(u=[0.1, -0.2, 0.3], save=3).sensors["attitude"].value
    np.testing.assert_allclose(attitude, np.broadcast_to(np.eye(3), (3, 3, 3)), atol=1e-9)
    fingers = load("gripper", "relative").simulate(save=3).sensors
    np.testing.assert_allclose(fingers["right finger"].value, 0.0, atol=1e-10)


def test_bennett_has_three_redundant_constraints():
    example = load("bennett", "relative")
    mobility = br.mobility(example.system, jnp.asarray(example.q))
    assert (mobility.dof, mobility.redundant) == (1, 3)
    assert mobility.repetitions == ("joint D: 3 of its 5 requirements repeat what A, B and C already require",)
