"""Forward and inverse dynamics as a user calls them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations import Problem, solve
from bricard.equations.rank import pinv
from bricard.gallery.slider_crank import SliderCrank

Q, V = [0.3, -0.6], [4.0, -8.0]


@pytest.fixture(scope="module")
def crank():
    return SliderCrank()


def test_slider_crank_matches_reference(crank, reference):
    numbers = reference("slider_crank")
    q, v = jnp.array(numbers["q0"]), jnp.array(numbers["v0"])
    assert np.allclose(crank.mass_matrix(q, 0.0), numbers["M"], rtol=1e-12)
    assert np.allclose(crank.bias(q, v, 0.0), numbers["h"], rtol=1e-12)
    assert np.allclose(crank.constraint_jacobian(q, 0.0)[0], numbers["A"], rtol=1e-12)
    result = br.forward_dynamics(crank, q, v)
    assert np.allclose(result.acceleration, numbers["qdd"], rtol=1e-12)
    # The reference writes the constraint force with the opposite sign.
    assert np.allclose(result.constraint_force, -np.array(numbers["F_eq19_sign"]), rtol=1e-12)
    assert np.allclose(result.multipliers, -numbers["lambda_eq19_sign"], rtol=1e-12)
    assert (int(result.rank), result.determinate.tolist()) == (1, [True])


def test_redundant_matrices_match_reference(reference):
    numbers = {k: np.array(v) for k, v in reference("projection")["redundant4"].items()}
    target = -numbers["Adot_qd"]
    problem = Problem.from_matrices(numbers["M"], numbers["f_minus_h"], numbers["A"], target)
    projector = np.eye(4) - np.asarray(pinv(problem.matrix)) @ numbers["A"]
    assert np.allclose(projector, numbers["P"], rtol=0, atol=1e-12)
    kinds = {"Mc": br.Projection("skew"), "Mc1": br.Projection("symmetric"), "Mc2": br.Projection("parametrized", 3.0)}
    for key, method in kinds.items():
        assert np.allclose(
            method.inertia_matrix(problem.mass, jnp.asarray(projector)), numbers[key], rtol=0, atol=1e-12
        )
        result = solve(problem, method)
        assert np.allclose(result.acceleration, numbers["qdd"], rtol=0, atol=1e-12)
        assert np.allclose(result.constraint_force, -numbers["F_eq19_sign"], rtol=0, atol=1e-11)
        assert np.allclose(result.multipliers, -numbers["lambda_minnorm"], rtol=0, atol=1e-11)


def test_a_metric_changes_the_projector_but_not_the_motion(crank):
    plain = br.forward_dynamics(crank, Q, V)
    for kind in ("skew", "symmetric", "parametrized"):
        weighted = br.forward_dynamics(crank, Q, V, route=br.Projection(kind, metric=jnp.diag(jnp.array([4.0, 0.3]))))
        assert np.allclose(weighted.acceleration, plain.acceleration, rtol=1e-10)


def test_inputs_act_through_the_input_matrix(crank):
    free, driven = (br.forward_dynamics(crank, Q, V, u=[u]) for u in (0.0, 2.0))
    mass = crank.mass_matrix(jnp.array(Q), 0.0)
    change = mass @ (driven.acceleration - free.acceleration) - (driven.constraint_force - free.constraint_force)
    assert np.allclose(change, [2.0, 0.0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", [None, "length", "limits", "mass"])
def test_inverse_dynamics_gives_the_acceleration_back_with_the_least_force(crank, metric):
    w = {
        None: None,
        "length": br.length_metric(crank, 0.5, ("crank", "rod")),
        "limits": br.effort_metric(crank, [10.0, 3.0]),
        "mass": br.mass_metric(crank, Q),
    }[metric]
    wanted = br.forward_dynamics(crank, Q, V, u=[3.0]).acceleration
    force = br.inverse_dynamics(crank, Q, V, wanted, metric=w)

    class Pushed(SliderCrank):
        def applied_force(self, q, v, t):
            return force

    assert np.allclose(br.forward_dynamics(Pushed(), Q, V).acceleration, wanted, rtol=1e-10)
    # Any other force that does it differs by a constraint force, and is larger.
    weight = np.eye(2) if w is None else np.linalg.inv(w)
    across = np.asarray(crank.constraint_jacobian(jnp.array(Q), 0.0))[0]
    assert abs(across @ weight @ force) < 1e-10
    assert np.allclose(br.split_force(crank, Q, force, metric=w).passive, 0.0, rtol=0, atol=1e-10)


def test_the_split_of_a_force_is_the_same_in_other_units_if_the_metric_goes_along():
    """Metres to millimetres for the slider of a pendulum on a cart held by a slanted rail."""

    class Rail(br.System):
        unit: float = 1.0
        coordinates = ("x", "angle")

        def kinetic_energy(self, q, v, t):
            return 0.5 * (v[0] * self.unit) ** 2 + 0.5 * v[1] ** 2

        def constraints(self, q, t):
            return (q[:1] * self.unit) - 0.7 * jnp.sin(q[1:])

    q, force = np.array([0.7 * np.sin(0.4), 0.4]), np.array([2.0, 3.0])
    metre = br.split_force(Rail(), q, force, metric=br.length_metric(Rail(), 0.5, "angle"))
    small = np.array([1e3, 1.0])  # in mm, and forces per mm
    metric = jnp.diag(jnp.array([1e-6, 0.25]))
    milli = br.split_force(Rail(unit=1e-3), q * small, force / small, metric=metric)
    assert np.allclose(milli.acting * small, metre.acting, rtol=1e-12)
    assert np.allclose(metre.acting + metre.passive, force)
    unadapted = br.split_force(Rail(unit=1e-3), q * small, force / small)
    assert not np.allclose(unadapted.acting * small, br.split_force(Rail(), q, force).acting, rtol=1e-2)


def test_motion_and_constraint_force_decouple_in_the_metric_of_the_mass(crank):
    assert br.decoupling(crank, Q) > 0.05
    assert br.decoupling(crank, Q, metric=br.mass_metric(crank, Q)) < 1e-14


def test_mobility_in_words_at_a_regular_and_a_singular_position(crank):
    regular = br.mobility(crank, Q)
    assert (regular.dof, regular.rank, regular.redundant) == (1, 1, 0)
    assert "1 degree of freedom" in str(regular)
    singular = br.mobility(crank, [np.pi / 2, -np.pi])
    assert (singular.dof, singular.rank, singular.redundant) == (2, 0, 1)
    assert singular.determinate == {"slider on its guide": False}
    assert "slider on its guide" in str(singular)


def test_mobility_groups_dependent_constraints():
    class Held(br.System):
        coordinates = ("x", "y", "z")
        constraint_names = ("wall", "wall again", "floor", "both", "back")

        def kinetic_energy(self, q, v, t):
            return 0.5 * v @ v

        def constraints(self, q, t):
            return jnp.array([q[0], 2.0 * q[0], q[1], q[0] + q[1], q[2]])

    found = br.mobility(Held(), [0.0, 0.0, 0.0])
    assert (found.dof, found.rank, found.redundant) == (0, 3, 2)
    assert found.groups == (("wall", "wall again", "floor", "both"),)
    assert found.determinate["back"]
    assert not found.determinate["floor"]


def test_everything_works_under_jit_vmap_and_grad_at_a_singular_position(crank):
    q, v = jnp.array([jnp.pi / 2, -jnp.pi]), jnp.array([1.0, -2.0])

    def total(l):
        result = br.forward_dynamics(SliderCrank(l=l), q, v)
        return jnp.sum(result.acceleration) + jnp.sum(result.constraint_force) + jnp.sum(result.multipliers)

    gradient = jax.jit(jax.vmap(jax.grad(total)))(jnp.array([0.9, 1.0]))
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("method", [br.Proximal(), br.Gauss(), br.NullSpace(), br.Partitioning(), br.Projection()])
def test_derivatives_with_redundant_rows_match_finite_differences(method):
    class Redundant(SliderCrank):
        constraint_names = ("guide", "guide again", "guide scaled")

        def constraints(self, q, t):
            guide = super().constraints(q, t)
            return jnp.concatenate([guide, guide, 1e3 * guide])

    def function(x):
        return br.forward_dynamics(Redundant(l=x), jnp.array(Q), jnp.array(V), route=method).constraint_force

    h = 1e-5
    expected = (function(jnp.array(1.0 + h)) - function(jnp.array(1.0 - h))) / (2 * h)
    assert np.allclose(jax.jacfwd(function)(jnp.array(1.0)), expected, rtol=1e-7)


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"q": [0.3]}, "q: expected 2 numbers (crank, rod), got an array of shape (1,)"),
            ({"q": [0.3, np.nan]}, "q: not finite at rod"),
            ({"v": [1.0, np.inf]}, "v: not finite at rod"),
            ({"u": [1.0, 2.0]}, "u: expected 1 number (crank torque)"),
            ({"q": "folded"}, "q: expected 2 numbers"),
        ],
    )
    def test_states(self, crank, arguments, words):
        with pytest.raises(br.ModelError) as error:
            br.forward_dynamics(crank, **{"q": Q, "v": V} | arguments)
        assert words in str(error.value)

    def test_dependent_rows_for_multipliers(self, crank):
        class Twice(SliderCrank):
            constraint_names = ("guide", "guide again")

            def constraints(self, q, t):
                return jnp.tile(super().constraints(q, t), 2)

        with pytest.raises(br.RankError, match=r"only 1 of 2 .*guide, guide again"):
            br.forward_dynamics(Twice(), Q, V, route=br.Multipliers())
        inside = eqx.filter_jit(
            lambda: br.forward_dynamics(Twice(), jnp.array(Q), jnp.array(V), route=br.Multipliers())
        )
        assert np.all(np.isnan(inside().acceleration))

    def test_a_motion_without_inertia_is_named(self):
        class Massless(br.System):
            coordinates = ("mass", "spring end")

            def kinetic_energy(self, q, v, t):
                return 0.5 * v[0] ** 2

        with pytest.raises(br.UndeterminedMotionError, match=r"spring end: \+1.*no inertia"):
            br.forward_dynamics(Massless(), [0.0, 0.0], [0.0, 0.0])

    def test_negative_mass(self):
        with pytest.raises(br.UndeterminedMotionError, match="negative inertia"):
            br.forward_dynamics(SliderCrank(m=-1.0), Q, V)

    def test_massless_links_are_fine_where_constraints_hold_them(self):
        class Joined(br.System):
            coordinates = ("mass", "hook")

            def kinetic_energy(self, q, v, t):
                return 0.5 * 2.0 * v[0] ** 2

            def applied_force(self, q, v, t):
                return jnp.array([0.0, 3.0])

            def constraints(self, q, t):
                return q[:1] - q[1:]

        for method in (
            br.Proximal(),
            br.Gauss(),
            br.NullSpace(),
            br.Multipliers(),
            br.QuasiVelocity(),
            br.Partitioning(),
        ):
            result = br.forward_dynamics(Joined(), [0.0, 0.0], [0.0, 0.0], route=method)
            assert np.allclose(result.acceleration, [1.5, 1.5], rtol=1e-10)
            assert np.allclose(result.constraint_force, [3.0, -3.0], rtol=1e-10)

    def test_constraints_that_contradict_each_other(self):
        class Torn(br.System):
            coordinates = ("x",)

            def kinetic_energy(self, q, v, t):
                return 0.5 * v @ v

            def constraints(self, q, t):
                return jnp.array([q[0] - t**2, q[0] + t**2])

        with pytest.raises(br.ModelError, match="contradict each other"):
            br.forward_dynamics(Torn(), [0.0], [0.0])

    def test_force_that_is_nan(self, crank):
        class Broken(SliderCrank):
            def applied_force(self, q, v, t):
                return jnp.full(2, jnp.nan)

        with pytest.raises(br.ModelError, match="forces are not finite"):
            br.forward_dynamics(Broken(), Q, V)

    def test_settings(self, crank):
        with pytest.raises(br.ModelError, match="'skew', 'symmetric' or 'parametrized'"):
            br.Projection("diagonal")  # pyright: ignore
        with pytest.raises(br.ModelError, match="must be positive"):
            br.length_metric(crank, 0.0, "crank")
        with pytest.raises(br.ModelError, match="no velocity called 'cronk'"):
            br.length_metric(crank, 1.0, "cronk")
        with pytest.raises(br.ModelError, match="every limit must be positive"):
            br.effort_metric(crank, [1.0, -1.0])
