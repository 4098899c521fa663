"""What a model leaves out is derived, and what cannot be a model is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard import spatial


class Spinner(br.System):
    """Free rigid body: unit quaternion, angular velocity in the body frame."""

    coordinates = ("w", "x", "y", "z")
    velocities = ("p", "q", "r")

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ (jnp.array([1.0, 2.0, 3.5]) * v)

    def potential_energy(self, q, t):
        return 4.0 * (spatial.rotation_matrix(q) @ jnp.array([0.1, -0.2, 0.3]))[2]

    def qdot(self, q, v):
        return spatial.quaternion_rate(q, v)

    def normalize(self, q):
        return q / jnp.linalg.norm(q)


class Drum(br.System):
    """Bead on a wire whose shape changes with time, and a skate row; everything depends on time."""

    coordinates = ("x", "y", "angle")

    def kinetic_energy(self, q, v, t):
        return 0.5 * (1.0 + 0.3 * jnp.sin(t)) * (v[0] ** 2 + v[1] ** 2 + q[0] ** 2 * v[2] ** 2) + t * v[1]

    def potential_energy(self, q, t):
        return jnp.cos(t) * q[0] * q[1]

    def constraints(self, q, t):
        return jnp.array([q[0] ** 2 * jnp.cos(t) - q[1] * jnp.sin(q[2])])

    def velocity_constraints(self, q, t):
        return jnp.array([[jnp.sin(q[2]), -jnp.cos(q[2]), t]]), jnp.array([q[0] * t**2])


Q, V, T = jnp.array([0.4, -0.3, 0.8]), jnp.array([0.5, 0.2, -0.7]), jnp.array(0.6)


def along(function, h=1e-5):
    """Derivative of `function(q, v, t)` along the motion at constant `v`, by finite differences."""
    return (function(Q + h * V, V, T + h) - function(Q - h * V, V, T - h)) / (2 * h)


def test_bias_is_that_of_lagrange_with_explicit_time():
    system = Drum()
    momentum = jax.grad(system.kinetic_energy, argnums=1)
    slope = jax.grad(lambda q: system.kinetic_energy(q, V, T) - system.potential_energy(q, T))(Q)
    assert np.allclose(system.bias(Q, V, T), along(momentum) - slope, rtol=0, atol=1e-9)
    assert np.allclose(system.mass_matrix(Q, T), jax.hessian(system.kinetic_energy, argnums=1)(Q, V, T))


def test_constraint_terms_with_explicit_time():
    system = Drum()
    matrix = system.constraint_jacobian(Q, T)
    rates = jnp.stack([along(lambda q, v, t: system.constraints(q, t)[0])])
    nonholonomic, c = system.velocity_constraints(Q, T)
    assert np.allclose(
        system.constraint_rate(Q, V, T), jnp.concatenate([rates, nonholonomic @ V - c]), rtol=0, atol=1e-9
    )
    assert np.allclose(matrix[1], nonholonomic[0])
    assert np.allclose(matrix @ V - system.constraint_rate(Q, V, T), -system.constraint_rate(Q, jnp.zeros(3), T))
    assert np.allclose(system.constraint_bias(Q, V, T), -along(system.constraint_rate), rtol=0, atol=1e-9)


def test_a_quaternion_chart_gives_eulers_equations():
    system = Spinner()
    q = jnp.array([0.5, -0.5, 0.1, 0.7]) / jnp.linalg.norm(jnp.array([0.5, -0.5, 0.1, 0.7]))
    w = jnp.array([0.3, -0.8, 1.1])
    inertia = jnp.array([1.0, 2.0, 3.5])
    arm, down = jnp.array([0.1, -0.2, 0.3]), spatial.rotation_matrix(q).T @ jnp.array([0.0, 0.0, -4.0])
    expected = jnp.cross(w, inertia * w) - jnp.cross(arm, down)
    assert np.allclose(system.bias(q, w, 0.0), expected, rtol=0, atol=1e-12)


def test_matrices_instead_of_energies():
    class ByMatrix(br.System):
        coordinates = ("r", "angle")

        def mass_matrix(self, q, t):
            return jnp.diag(jnp.array([2.0, 2.0 * q[0] ** 2]))

    q, v = jnp.array([1.5, 0.2]), jnp.array([0.3, 0.9])
    centrifugal = jnp.array([-2.0 * q[0] * v[1] ** 2, 4.0 * q[0] * v[0] * v[1]])
    assert np.allclose(ByMatrix().bias(q, v, 0.0), centrifugal)
    assert np.allclose(ByMatrix().kinetic_energy(q, v, 0.0), 0.5 * v @ ByMatrix().mass_matrix(q, 0.0) @ v)

    class WithBias(ByMatrix):
        def bias(self, q, v, t):
            return jnp.array([1.0, 2.0])

    assert np.array_equal(WithBias().bias(q, v, 0.0), [1.0, 2.0])


def test_rotations():
    q = spatial.axis_angle(jnp.array([1.0, 2.0, -1.0]), jnp.array(0.7))
    p = spatial.axis_angle(jnp.array([0.0, 1.0, 0.5]), jnp.array(-1.1))
    r = spatial.rotation_matrix(q)
    assert np.allclose(r @ r.T, np.eye(3))
    assert np.allclose(spatial.rotation_matrix(spatial.quaternion_product(p, q)), spatial.rotation_matrix(p) @ r)
    w = jnp.array([0.2, -0.4, 0.9])
    change = jax.jvp(spatial.rotation_matrix, (q,), (spatial.quaternion_rate(q, w),))[1]
    assert np.allclose(change, r @ spatial.skew(w))


def test_parameters_are_leaves():
    from bricard.gallery.slider_crank import SliderCrank

    system = SliderCrank(l=2)
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(system))
    gradient = jax.grad(lambda s: s.energy(jnp.array([0.3, -0.6]), jnp.array([1.0, -2.0]), 0.0))(system)
    assert gradient.g == pytest.approx(2.0 * (2 * np.sin(0.3) + np.sin(-0.3)))
    longer = eqx.tree_at(lambda s: s.l, system, jnp.array(3.0))
    assert longer.energy(jnp.zeros(2), jnp.array([1.0, 0.0]), 0.0) == pytest.approx(0.5 * (9 + 36))


class TestBadModels:
    def problems(self, model):
        with pytest.raises(br.ModelError) as error:
            model()
        return error.value.problems

    def test_no_coordinates(self):
        class Empty(br.System):
            pass

        assert "`coordinates` is missing" in self.problems(Empty)[0]

    def test_neither_energy_nor_matrix(self):
        class Nothing(br.System):
            coordinates = ("x",)

        assert self.problems(Nothing) == ("gives neither `kinetic_energy` nor `mass_matrix`",)

    def test_all_problems_at_once(self):
        class Wrong(br.System):
            length: float = float("nan")
            coordinates = ("x", "y", "x")
            inputs = ("a", "b")

            def mass_matrix(self, q, t):
                return jnp.eye(2)

            def constraints(self, q, t):
                return q[0]

            def applied_force(self, q, v, t):
                return self.nonsense

            def input_matrix(self, q, t):
                return jnp.zeros((2, 1))

        found = " | ".join(self.problems(Wrong))
        for words in (
            "coordinates: 'x' is there twice",
            "length is NaN",
            "`mass_matrix` returns an array of shape (2, 2), expected (3, 3)",
            "`constraints` returns an array of shape (), expected (any,)",
            "`applied_force` fails: AttributeError",
            "`input_matrix` returns an array of shape (2, 1), expected (3, any)",
        ):
            assert words in found

    def test_names_that_do_not_fit(self):
        class Misnamed(br.System):
            coordinates = ("x",)
            constraint_names = ("one", "two")

            def kinetic_energy(self, q, v, t):
                return 0.5 * v @ v

            def constraints(self, q, t):
                return q

        assert self.problems(Misnamed) == ("`constraint_names` has 2 names for 1 rows",)

    def test_a_chart_needs_its_rates(self):
        class Chart(br.System):
            coordinates = ("w", "x", "y", "z")
            velocities = ("p", "q", "r")

            def kinetic_energy(self, q, v, t):
                return 0.5 * v @ v

        assert self.problems(Chart) == ("4 coordinates but 3 velocities: `qdot` is missing",)

    def test_gallery_names(self):
        with pytest.raises(br.ModelError, match="no example called 'slider-krank'; did you mean 'slider-crank'"):
            br.gallery.load("slider-krank")
        with pytest.raises(br.ModelError, match="no parameter called 'mass'; its parameters are m, l, g"):
            br.gallery.load("slider-crank", mass=2.0)


class TestByName:
    """`q`, `v` and `u` may be given by name; what is left out has its reference value."""

    def test_a_mechanism(self):
        system = br.gallery.load("four-bar").system
        first, *others = system.coordinates
        q = system.vector({first: 0.3}, "q")
        reference = np.asarray(system.reference)
        np.testing.assert_array_equal(q, [0.3, *reference[1:]])
        np.testing.assert_array_equal(system.vector({others[0]: 2.0}, "v"), [0.0, 2.0, *[0.0] * (system.nv - 2)])
        np.testing.assert_array_equal(system.vector({}, "u"), np.zeros(system.nu))

    def test_unknown_names_are_listed(self):
        with pytest.raises(br.ModelError, match=r"there is no 'z'; the names are A, B, D"):
            br.gallery.load("four-bar").system.vector({"z": 1.0}, "q")

    def test_a_chart_has_no_reference(self):
        system = br.gallery.load("rolling-disc").system
        with pytest.raises(br.ModelError, match="missing: the system has no reference configuration"):
            system.vector({system.coordinates[0]: 1.0}, "q")

    def test_traced_values(self):
        system = br.gallery.load("four-bar").system
        name = system.coordinates[1]
        slope = jax.jacfwd(lambda x: system.vector({name: 2.0 * x}, "q"))(0.1)
        np.testing.assert_array_equal(slope, [0.0, 2.0, 0.0])

    def test_a_run_starts_there(self):
        system = br.gallery.load("pendulum").system
        (name,) = system.coordinates
        run = br.simulate(system, {name: 0.3}, {}, 0.01, save=2)
        assert float(run.q[0, 0]) == 0.3
        assert str(run.execution).startswith("LLVM; dense; ")


def test_objects_print_names_and_numbers():
    system = br.gallery.load("four-bar").system
    assert repr(system).startswith(
        "Mechanism of 3 bodies in relative coordinates: 3 coordinates (A, B, D), 2 constraint"
    )
    m = br.Mechanism(planar=True, name="arm")
    m.body("rod", mass=1.0, com=(1.0, 0.0), inertia=0.1)
    m.revolute("A", m.ground, "rod", (0.0, 0.0))
    m.motor("motor", "A")
    assert repr(m) == "Mechanism 'arm' (planar): 1 body, 1 joint, 1 actuator"
    np.testing.assert_array_equal(m.gravity, [0.0, -9.81, 0.0])
    np.testing.assert_array_equal(br.Mechanism().gravity, [0.0, 0.0, -9.81])
