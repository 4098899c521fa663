"""Every mistake is refused when the model is built, all of them in one message."""

import jax.numpy as jnp
import pytest

import bricard as br


def problems(m, **settings):
    with pytest.raises(br.ModelError) as error:
        m.system(**settings)
    return "\n".join(error.value.problems)


def test_all_problems_in_one_message():
    m = br.Mechanism()
    m.body("light", mass=-1.0, com=(0, 0, 0), inertia=1.0)
    m.body("odd", mass=1.0, com=(0, 0, 0), inertia=(1.0, 1.0, 3.0))
    m.body("odd", mass=1.0, com=(0, 0, 0), inertia=1.0)
    m.body("lonely", mass=1.0, com=(0, 0, 0), inertia=1.0)
    m.revolute("A", m.ground, "light", (0, 0, 0), axis=(0, 0, 0))
    m.revolute("A", "light", "odd", (0, 0, 0), at_child=(0.3, 0.4, 0))
    m.spherical("B", "light", "missing", (0, 0, 0))
    m.distance("rod", m.ground, "odd", (1, 0, 0), (1, 0, 0))
    m.motor("motor", "nowhere")
    m.revolute("self", "odd", "odd", (0, 0, 0))
    text = problems(m)
    for part in (
        "'light': its mass is negative (-1 kg)",
        "there is another body of this name",
        "'lonely' is attached to nothing",
        "'A': its axis is zero",
        "'A' is there 2 times",
        "'A': its frames do not meet, they are 0.5 m apart",
        "no body called 'missing'",
        "'rod': the two points coincide",
        "no joint called 'nowhere'",
        "connects 'odd' with itself",
    ):
        assert part in text


def test_impossible_inertia_is_refused():
    m = br.Mechanism()
    m.body("odd", mass=1.0, com=(0, 0, 0), inertia=(1.0, 1.0, 3.0))
    m.free("f", m.ground, "odd")
    assert "no body has the principal inertias 1, 1, 3" in problems(m)


@pytest.mark.parametrize(
    ("describe", "text"),
    [
        (lambda m: m.revolute("A", "ground", "b", (0, 0)), "at must be 3 finite numbers"),
        (lambda m: m.revolute("A", "ground", "b", (0, 0, float("nan"))), "at must be 3 finite numbers"),
        (lambda m: m.revolute("A", "ground", "b", "here"), "at must be 3 finite numbers"),
        (lambda m: m.universal("A", "ground", "b", (0, 0, 0), (1, 0, 0), (1, 1, 0)), "not at right angles (45°)"),
        (lambda m: m.helical("A", "ground", "b", (0, 0, 0), (0, 0, 1), 0.0), "pitch must be nonzero"),
        (lambda m: m.spring("s", "ground", "b", (0, 0, 0), (0, 0, 0), 1.0), "the two points coincide"),
        (lambda m: m.spring("s", "ground", "b", (0, 0, 0), (1, 0, 0), float("inf")), "stiffness must be a finite"),
        (lambda m: m.motor("u", "F"), "the free joint 'F' has no coordinate of its own"),
        (lambda m: m.gear("g", {"F": 1.0, "Q": 2.0}), "no joint called 'Q'"),
        (
            lambda m: m.revolute("A", "ground", "b", (0, 0, 0), limits=(1.0, -1.0)),
            "limits are a smallest and a largest",
        ),
        (lambda m: m.rolling("r", "b", radius=-1.0), "radius must be positive"),
        (lambda m: m.rolling("r", "b", radius=0.3), "0.7 m off its plane"),
        (lambda m: m.distance("d", "ground", "b", (0, 0, 0), (1, 0, 0), length=2.0), "are 1 m apart, not 2"),
        (lambda m: m.constraint("c", lambda view, t: view.point("b", (0, 0, 0)), size=2), "instead of 2 numbers"),
        (lambda m: m.constraint("c", lambda view, t: view.point("x", (0, 0, 0)), size=3), "constraint 'c' fails"),
        (lambda m: m.force("f", "b", (0, 0, 0), lambda t, x, v: jnp.zeros(2)), "load on 'b'"),
        (lambda m: m.bushing("k", "ground", "b", (0, 0, 0), stiffness=[1, 2]), "expected 6 finite numbers"),
        (lambda m: m.point_sensor("p", "nobody", (0, 0, 0)), "no body called 'nobody'"),
    ],
)
def test_refused(describe, text):
    m = br.Mechanism()
    m.body("b", mass=1.0, com=(0, 0, 1), inertia=1.0)
    m.free("F", m.ground, "b")
    describe(m)
    assert text in problems(m)


def test_plane_has_its_own_limits():
    m = br.Mechanism(planar=True)
    m.body("b", mass=1.0, com=(0, 0), inertia=1.0)
    m.cylindrical("A", m.ground, "b", (0, 0), (0, 0, 1))
    m.prismatic("B", m.ground, "b", (0, 0, 1))
    m.revolute("C", m.ground, "b", (0, 0, 1))
    text = problems(m)
    assert "'A': a cylindrical joint is not possible in the plane" in text
    assert "leaves the plane" in text
    assert "is not in the plane z = 0" in text


def test_shapes_refuse_what_has_no_size():
    with pytest.raises(br.ModelError, match="same point"):
        br.rod((0, 0, 0), (0, 0, 0), 1.0)
    with pytest.raises(br.ModelError, match="3 positive sizes"):
        br.box((0, 0, 0), (1, -1, 1), 1.0)
    with pytest.raises(br.ModelError, match="either mass or density"):
        br.sphere((0, 0, 0), 1.0)


def test_unknown_coordinates_and_cuts():
    m = br.Mechanism()
    m.body("b", mass=1.0, com=(0, 0, 0), inertia=1.0)
    m.revolute("A", m.ground, "b", (0, 0, 0))
    assert "not 'polar'" in problems(m, coordinates="polar")
    assert "no joint called 'Z'" in problems(m, cut=["Z"])
    assert "would hang on nothing" in problems(m, cut=["A"])


def test_reactions_need_a_mechanism():
    pendulum = br.gallery.load("pendulum")
    with pytest.raises(br.ModelError, match=r"only a br\.Mechanism has joints"):
        br.reactions(pendulum.system, pendulum.q, pendulum.v, pendulum.v)
