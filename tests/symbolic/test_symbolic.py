"""Systems from SymPy against hand-written ones, and formulas against numbers."""

import functools
import importlib.util
import itertools
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from sympy.physics.mechanics import dynamicsymbols

import bricard as br
from bricard import symbolic

t = dynamicsymbols._t
m, l, g, tau = sp.symbols("m l g tau")
x, y, theta = dynamicsymbols("x y theta")
NAMES = ("acceleration", "constraint_force", "multipliers")


def pendulum(**extra):
    """A uniform rod of length 2l about one end, by position and angle of its centre."""
    given = {
        "kinetic_energy": m / 2 * (x.diff() ** 2 + y.diff() ** 2) + m * l**2 / 6 * theta.diff() ** 2,
        "potential_energy": m * g * y,
        "constraints": [sp.Eq(x, l * sp.sin(theta)), sp.Eq(y, -l * sp.cos(theta))],
        "applied_force": [0, 0, tau],
        "inputs": [tau],
        "parameters": {m: 2.0, l: 0.75, g: 9.81},
    }
    return symbolic.System([x, y, theta], **{**given, **extra})


def slider_crank():
    crank, rod = dynamicsymbols("crank rod")
    pin = l * sp.Matrix([sp.cos(crank), sp.sin(crank)])
    slider = pin + l * sp.Matrix([sp.cos(crank + rod), sp.sin(crank + rod)])
    return symbolic.System(
        [crank, rod],
        kinetic_energy=m / 2 * sum(p.diff(t).dot(p.diff(t)) for p in (pin, slider)),
        potential_energy=m * g * (pin[1] + slider[1]),
        constraints=[slider[1]],
        applied_force=[tau, 0],
        inputs=[tau],
        parameters={m: 1.3, l: 0.7, g: 9.81},
        constraint_names=["slider on its guide"],
    )


def particle_on_circle():
    forces, rho = sp.symbols("f_x f_y"), sp.Symbol("rho", positive=True)
    return symbolic.System(
        [x, y],
        kinetic_energy=m / 2 * (x.diff() ** 2 + y.diff() ** 2),
        constraints=[sp.sqrt(x**2 + y**2) - rho],
        applied_force=forces,
        inputs=forces,
        parameters={m: 1.3, rho: 0.7},
    )


def prr():
    slide, shoulder, elbow = dynamicsymbols("slide shoulder elbow")
    base = sp.Matrix([0, slide])
    middle = base + l * sp.Matrix([sp.cos(shoulder), sp.sin(shoulder)])
    tip = middle + l * sp.Matrix([sp.cos(shoulder + elbow), sp.sin(shoulder + elbow)])
    rates = [p.diff(t) for p in (base, middle, tip)]
    rods = sum(m / 6 * (a.dot(a) + a.dot(b) + b.dot(b)) for a, b in itertools.pairwise(rates))
    inputs = sp.symbols("u_slide u_shoulder u_elbow")
    return symbolic.System(
        [slide, shoulder, elbow],
        kinetic_energy=m / 2 * slide.diff() ** 2 + rods,
        potential_energy=m * g * (sp.Rational(3, 2) * base[1] + middle[1] + tip[1] / 2),
        constraints=[tip[1]],
        applied_force=inputs,
        inputs=inputs,
        parameters={m: 5.0, l: 1.0, g: 9.81},
    )


class KnifeEdge(br.System):
    """A skate whose blade keeps its direction against a floor that moves sideways ever faster."""

    m: float = 1.7
    J: float = 0.4
    drift: float = 0.3
    coordinates = ("x", "y", "theta")

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.m * (v[0] ** 2 + v[1] ** 2) + 0.5 * self.J * v[2] ** 2

    def velocity_constraints(self, q, t):
        return jnp.array([[jnp.sin(q[2]), -jnp.cos(q[2]), 0.0]]), jnp.array([self.drift * t**2 * q[0]])

    def applied_force(self, q, v, t):
        return -0.2 * v * jnp.abs(v)


def knife_edge():
    J, drift = sp.symbols("J drift")
    return symbolic.System(
        [x, y, theta],
        kinetic_energy=m / 2 * (x.diff() ** 2 + y.diff() ** 2) + J / 2 * theta.diff() ** 2,
        velocity_constraints=[x.diff() * sp.sin(theta) - y.diff() * sp.cos(theta) - drift * t**2 * x],
        applied_force=[-0.2 * c.diff() * sp.Abs(c.diff()) for c in (x, y, theta)],
        parameters={m: 1.7, J: 0.4, drift: 0.3},
    )


class ShakenPendulum(br.System):
    """A point mass on a rod whose pivot and length move as told, seen from a frame that turns."""

    m: float = 0.6
    w: float = 1.9
    coordinates = ("x", "y")

    def kinetic_energy(self, q, v, t):
        turning = jnp.array([v[0] - self.w * t * q[1], v[1] + self.w * t * q[0]])
        return 0.5 * self.m * turning @ turning

    def potential_energy(self, q, t):
        return 9.81 * self.m * q[1] * jnp.exp(-t)

    def constraints(self, q, t):
        return jnp.array([(q[0] - 0.1 * jnp.sin(self.w * t)) ** 2 + q[1] ** 2 - (0.5 + 0.1 * t) ** 2])


def shaken_pendulum():
    w = sp.Symbol("w")
    turning = (x.diff() - w * t * y, y.diff() + w * t * x)
    return symbolic.System(
        [x, y],
        kinetic_energy=m / 2 * (turning[0] ** 2 + turning[1] ** 2),
        potential_energy=9.81 * m * y * sp.exp(-t),
        constraints=[(x - 0.1 * sp.sin(w * t)) ** 2 + y**2 - (0.5 + 0.1 * t) ** 2],
        parameters={m: 0.6, w: 1.9},
    )


def states(system, count=5):
    """Random (q, v, u, t), each with `count` rows."""
    random = np.random.default_rng(3)
    return tuple(jnp.array(random.uniform(-1, 1, (count, *n))) for n in ((system.nq,), (system.nv,), (system.nu,), ()))


@eqx.filter_jit
def numbers(system, states, solve=True):
    """What automatic differentiation makes of a system and, if asked, what the default route finds."""

    def at(q, v, u, t):
        terms = {
            "mass_matrix": system.mass_matrix(q, t),
            "bias": system.bias(q, v, t),
            "constraint_jacobian": system.constraint_jacobian(q, t),
            "constraint_bias": system.constraint_bias(q, v, t),
            "applied_force": system.applied_force(q, v, t),
            "input_matrix": system.input_matrix(q, t),
        }
        if not solve:
            return terms
        dynamics = br.forward_dynamics(system, q, v, u, t)
        return terms | {name: getattr(dynamics, name) for name in NAMES}

    return jax.vmap(at)(*states)


def assert_formulas_hold(formulas, system, states, expected, tolerance=1e-10):
    chosen = {name: getattr(formulas, name) for name in expected if hasattr(formulas, name)}

    @eqx.filter_jit
    def values(system):
        return {name: jax.vmap(functools.partial(system.evaluate, matrix))(*states) for name, matrix in chosen.items()}

    for name, value in values(system).items():
        number = expected[name].reshape(value.shape)
        np.testing.assert_allclose(value, number, rtol=tolerance, atol=tolerance, err_msg=name)


WRITTEN_TWICE = {
    "slider-crank": (slider_crank, lambda: br.gallery.load("slider-crank", m=1.3, l=0.7).system),
    "particle": (particle_on_circle, lambda: br.gallery.load("particle-on-circle", m=1.3, rho=0.7).system),
    "knife edge": (knife_edge, KnifeEdge),
    "shaken pendulum": (shaken_pendulum, ShakenPendulum),
}


@pytest.mark.parametrize("name", WRITTEN_TWICE)
def test_system_and_formulas_are_those_of_a_system_written_by_hand(name):
    ours, theirs = (build() for build in WRITTEN_TWICE[name])
    assert (ours.coordinates, ours.nu, ours.n_constraints) == (theirs.coordinates, theirs.nu, theirs.n_constraints)
    state = states(ours)
    expected = numbers(theirs, state)
    # Equal terms have equal solutions; two of them are compared all the same.
    for key, value in numbers(ours, state, solve=name in ("slider-crank", "particle")).items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-12, atol=1e-12, err_msg=key)
    assert_formulas_hold(symbolic.explicit(ours), ours, state, expected)


@pytest.fixture(scope="module")
def pendulum_formulas():
    return symbolic.explicit(pendulum())


def test_bearing_forces_of_the_pendulum(pendulum_formulas, reference):
    known, formulas, system = reference("pendulum"), pendulum_formulas, pendulum()
    p = known["params"]
    s, c = np.sin(p["theta"]), np.cos(p["theta"])
    q, v = [p["l"] * s, -p["l"] * c, p["theta"]], [p["omega"] * p["l"] * c, p["omega"] * p["l"] * s, p["omega"]]
    state = tuple(map(jnp.array, (q, v, [p["tau"]])))
    for name, key in zip(NAMES, ("acc", "Qcon", "lambda_eq_fx_fy"), strict=True):
        np.testing.assert_allclose(system.evaluate(getattr(formulas, name), *state)[:, 0], known[key], rtol=1e-12)
        np.testing.assert_allclose(getattr(br.forward_dynamics(system, *state), name), known[key], rtol=1e-12)
    matrix, mass = formulas.constraint_jacobian, formulas.mass_matrix
    gain = matrix.T * (matrix * mass.inv() * matrix.T).inv()
    np.testing.assert_allclose(system.evaluate(gain, *state), known["K"], rtol=1e-12)
    target = system.evaluate(formulas.constraint_bias, *state)[:, 0]
    np.testing.assert_allclose(target, -np.array(known["B"]), rtol=1e-12)


def test_surface_force_of_the_prr_arm(reference):
    known, system = reference("prr")["static"], prr()
    formulas, state = symbolic.explicit(system), tuple(jnp.array(known[key]) for key in ("q", "qd", "f"))
    bias = np.array(known["coriolis_Cqd"]) + np.array(known["gravity_dVdq"])
    force = -known["lambda_gravity"] * np.array(known["A"])  # the reference counts it the other way
    for name, expected in (
        ("mass_matrix", known["M"]),
        ("bias", bias),
        ("constraint_jacobian", known["A"]),
        ("acceleration", known["qdd_gravity"]),
        ("constraint_force", force),
    ):
        got = system.evaluate(getattr(formulas, name), *state)
        np.testing.assert_allclose(got, np.reshape(expected, got.shape), rtol=1e-12, atol=1e-12, err_msg=name)


def test_published_formulas_of_the_pendulum_with_their_slips_corrected(pendulum_formulas):
    w, s, c = theta.diff(), sp.sin(theta), sp.cos(theta)
    published = sp.Matrix([
        -m * l * w**2 * s + 3 * tau / (4 * l) * c - 3 * m * g * c * s / 4,
        m * l * w**2 * c + 3 * tau / (4 * l) * s + m * g / 4 * (1 + 3 * c**2),
        -3 * tau / 4 - m * g * l / 4 * s,
    ])  # fmt: skip
    assert sp.expand(pendulum_formulas.constraint_force - published) == sp.zeros(3, 1)
    assert "x: -3*g*m*sin(theta)*cos(theta)/4 - l*m*sin(theta)*theta'**2" in str(pendulum_formulas)
    assert pendulum_formulas.latex().startswith(r"\begin{aligned}\dot{v} &= \left[\begin{matrix}")
    assert r"\dot{\theta}^{2}" in pendulum_formulas.latex()
    (needed,) = sp.solve(pendulum_formulas.constraint_force[0], tau)
    assert sp.simplify(needed - m * l * s * (g + 4 * l * w**2 / (3 * c))) == 0


FIRST, SECOND = x - l * sp.sin(theta), y + l * sp.cos(theta)
double = sp.Symbol("double")
TURNED = sp.cos(theta) * FIRST + sp.sin(theta) * SECOND
REDUNDANT = {
    "everywhere": ([FIRST, 2 * FIRST, 0, FIRST + SECOND, double * SECOND], (0, 4)),
    "where the constraints are met": ([TURNED, FIRST, double * FIRST, SECOND], (1, 3)),
}


@pytest.mark.parametrize("case", REDUNDANT)
def test_redundant_rows(case):
    constraints, independent = REDUNDANT[case]
    system = pendulum(constraints=constraints, parameters={m: 2.0, l: 0.75, g: 9.81, double: 3.0})
    a, w = jnp.array([[0.4, -1.1], [1.2, -2.0]])
    q = jnp.stack([0.75 * jnp.sin(a), -0.75 * jnp.cos(a), a], axis=1)
    v = jnp.stack([0.75 * w * jnp.cos(a), 0.75 * w * jnp.sin(a), w], axis=1)
    formulas = symbolic.explicit(system, q[0] if case == "where the constraints are met" else None)
    assert formulas.rows == independent
    state = (q, v, jnp.array([[0.3], [-0.8]]), jnp.zeros(2))
    assert_formulas_hold(formulas, system, state, numbers(system, state))


def test_massless_coordinate_and_no_constraints_at_all():
    point_mass = pendulum(kinetic_energy=m / 2 * (x.diff() ** 2 + y.diff() ** 2), applied_force=[0, tau, 0])
    swing = symbolic.explicit(point_mass).acceleration[2]
    assert sp.expand(swing - (tau - m * g) * sp.sin(theta) / (m * l)) == 0
    free = symbolic.explicit(symbolic.System([x], kinetic_energy=x.diff() ** 2, potential_energy=x))
    assert (free.acceleration[0], free.constraint_force[0], free.multipliers.shape) == (-sp.Rational(1, 2), 0, (0, 1))
    with pytest.raises(br.UndeterminedMotionError, match="theta"):
        symbolic.explicit(pendulum(kinetic_energy=m * x.diff() ** 2 + m * y.diff() ** 2, constraints=[x]))


def test_plain_symbols_and_given_velocities():
    a, b, c, va, vb, vc = sp.symbols("a b c v_a v_b v_c")
    system = symbolic.System(
        [a, b, c],
        velocities=[va, vb, vc],
        kinetic_energy=sp.Matrix([[va, vb, vc]]) * sp.diag(m, m, m * l**2 / 3) * sp.Matrix([va, vb, vc]) / 2,
        potential_energy=m * g * b,
        constraints=[a - l * sp.sin(c), b + l * sp.cos(c)],
        applied_force=sp.Matrix([0, 0, tau]),
        inputs=[tau],
        parameters={m: sp.Rational(2), l: 0.75, g: 9.81},
    )
    assert (system.coordinates, system.inputs) == (("a", "b", "c"), ("tau",))
    names = dict(zip((theta.diff(), x, y, theta), (vc, a, b, c), strict=True))
    mine, theirs = symbolic.explicit(system), symbolic.explicit(pendulum())
    assert sp.expand(mine.constraint_force - theirs.constraint_force.xreplace(names)) == sp.zeros(3, 1)


def test_algebra_keeps_values():
    a, b = sp.symbols("a b")
    odd = [
        sp.tan(a + b) * sp.cos(a / 2) ** 5 / (1 + sp.sin(3 * a - b)),
        sp.sqrt(1 + a**2) ** 3 * sp.sqrt(2) / sp.sqrt(sp.cos(a) + 2),
        sp.exp(sp.sin(a)) * sp.cos(a + sp.pi / 3) * sp.Piecewise((a, a > 0), (b, True)) - 0.1 * sp.sin(1.5 * b),
        sp.sqrt(a / b) * sp.Abs(a - b) ** sp.Rational(1, 3) * sp.sin(0.3) / a**b,
    ]
    column = sp.ImmutableMatrix(odd)
    matrix = sp.ImmutableMatrix([[sp.sin(a + b), sp.sqrt(1 + a**2)], [sp.cos(a), sp.tan(b)]])
    algebra = symbolic.algebra.Algebra(column, matrix)
    code = algebra.encode(matrix)
    point = {a: sp.Rational(7, 10), b: sp.Rational(4, 10)}
    for got, expected in (
        (algebra.decode(algebra.encode(column)), column),
        (algebra.decode(algebra.solve(code, code * code)), matrix),
        (algebra.decode(algebra.solve(code, code)), sp.eye(2)),
    ):
        assert max(abs(x) for x in (got - expected).subs(point).evalf(30)) < 1e-13


def test_equal_systems_are_compiled_once():
    assert pendulum().expressions == pendulum().expressions
    assert jax.tree.structure(pendulum()) == jax.tree.structure(pendulum().replace(l=0.5))
    assert jax.tree.structure(pendulum()) != jax.tree.structure(pendulum(potential_energy=0))


def test_derivatives_by_parameters(pendulum_formulas):
    system, formula = pendulum(), pendulum_formulas.acceleration
    q, v, u = jnp.array([0.1, -0.7, 0.7]), jnp.array([0.3, 0.2, -1.3]), jnp.array([1.1])

    def acceleration(l, m):
        return br.forward_dynamics(system.replace(l=l, m=m), q, v, u).acceleration

    lengths = jnp.array([0.5, 0.75, 1.0])
    jacobians = jax.jit(jax.vmap(jax.jacfwd(acceleration), in_axes=(0, None)))(lengths, 2.0)
    for length, got in zip(lengths, jacobians, strict=True):
        expected = system.replace(l=length).evaluate(formula.diff(l), q, v, u)[:, 0]
        np.testing.assert_allclose(got, expected, rtol=1e-10)
    whole = eqx.filter_grad(lambda system: system.energy(q, v, 0.0))(system)
    np.testing.assert_allclose(list(map(whole.parameters.get, "mlg")), [-6.6435625, 0.845, -1.4], rtol=1e-12)
    # Built inside a traced function: parameters may be tracers.
    slope = jax.grad(lambda value: pendulum(parameters={m: 2.0, l: 0.75, g: value}).potential_energy(q, 0.0))(9.81)
    np.testing.assert_allclose(slope, -1.4, rtol=1e-15)


F, extra = sp.Function("F")(t), sp.Symbol("extra")
BAD = {
    "unknown symbols": (
        {"potential_energy": extra * y + F, "constraints": [x - extra, theta.diff(t, 2)]},
        [
            "potential_energy: extra is not a coordinate, velocity, input, parameter or time",
            "potential_energy: F(t) is not a",
            "constraints[0]: extra is not a",
            "constraints[1]: Derivative(theta(t), (t, 2)) is not a",
        ],
    ),
    "another symbol of that name": (
        {"potential_energy": sp.Symbol("m", positive=True) * y},
        ["potential_energy: m is not a", "other assumptions"],
    ),
    "no kinetic energy": ({"kinetic_energy": None}, ["`kinetic_energy` is missing"]),
    "no velocity": ({"kinetic_energy": x**2}, ["kinetic_energy contains no velocity"]),
    "not quadratic": ({"kinetic_energy": x.diff() ** 4}, ["kinetic_energy is not quadratic in the velocities"]),
    "velocity in a constraint": (
        {"constraints": [x, y.diff()]},
        ["constraints[1] must not depend on Derivative(y(t), t)"],
    ),
    "input in a potential": ({"potential_energy": tau * x}, ["potential_energy must not depend on tau"]),
    "not linear": (
        {"velocity_constraints": [x.diff() ** 2], "applied_force": [0, tau**2, 0]},
        ["velocity_constraints[0] is not linear in the velocities", "applied_force[1] is not linear in the inputs"],
    ),
    "too few forces": ({"applied_force": [tau]}, ["applied_force has 1 entries for 3 coordinates"]),
    "no expression": (
        {"constraints": ["x - y", x < y, sp.nan, sp.Matrix([x, y])]},
        ["'x - y'", "x(t) < y(t)", "nan is not a finite", "Matrix"],
    ),
    "no number": (
        {"parameters": {m: "two", l: np.nan, g: [1.0], tau: sp.pi * x}},
        ["'two'", "nan", "[1.0]", "pi*x(t)"],
    ),
    "no symbol": (
        {"parameters": {"m": 2.0, m: 1.0}, "inputs": [2 * tau]},
        ["'m' is not a SymPy symbol", "2*tau is not a SymPy symbol"],
    ),
    "two meanings": ({"inputs": [m]}, ["m is used more than once"]),
    "two of one name": ({"parameters": {m: 1.0, sp.Symbol("m", real=True): 1.0}}, ["m is used more than once"]),
    "velocities": ({"velocities": [x.diff()]}, ["1 velocities for 3 coordinates"]),
    "time": ({"time": sp.Symbol("s")}, ["x(t) is not a function of s alone", "theta(t) is not"]),
    "names": ({"constraint_names": ["pivot"]}, ["`constraint_names` has 1 names for 2 rows"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_every_culprit(case):
    change, culprits = BAD[case]
    with pytest.raises(br.ModelError) as error:
        pendulum(**change)
    assert all(culprit in str(error.value) for culprit in culprits), str(error.value)
    assert len(error.value.problems) >= len(culprits) or case == "another symbol of that name"


def test_bad_input_elsewhere():
    with pytest.raises(br.ModelError, match="a is a plain symbol; give its rate in `velocities`"):
        symbolic.System([sp.Symbol("a")], kinetic_energy=x.diff() ** 2)
    with pytest.raises(br.ModelError, match="kinetic_energy contains no velocity"):
        symbolic.System([], kinetic_energy=1)
    with pytest.raises(br.ModelError, match="no parameter called 'mass'; its parameters are m, l, g"):
        pendulum().replace(mass=1.0)
    with pytest.raises(br.ModelError, match=r"needs a symbolic\.System, got KnifeEdge"):
        symbolic.explicit(KnifeEdge())
    with pytest.raises(br.ModelError, match="`constraints` fails: NameError"):
        pendulum(constraints=[sp.besselj(0, x)])


def test_without_sympy(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    spec = importlib.util.spec_from_file_location("without_sympy", symbolic.__file__)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=r"pip install 'bricard\[symbolic\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
