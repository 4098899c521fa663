"""One short use of every part of bricard: what `make test-lowest` runs with the oldest versions of all dependencies."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.execution import compile as compilation

pytestmark = pytest.mark.smoke

MODEL = """
<mujoco>
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 1 0 0" size="0.05" mass="2"/>
    </body>
  </worldbody>
</mujoco>
"""


class Rod(br.System):
    """A particle on a rod, which is given twice; `l` is its length."""

    l: float = 1.0
    coordinates = ("x", "y")
    constraint_names = ("rod", "the same rod again")

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def potential_energy(self, q, t):
        return 9.81 * q[1]

    def constraints(self, q, t):
        return jnp.stack([q @ q - self.l**2, 2.0 * (q @ q - self.l**2)])


def four_bar():
    m = br.Mechanism(gravity=(0, -9.81), planar=True)
    crank = m.body("crank", br.rod((0.0, 0.0), (0.0, 0.1), 0.1))
    coupler = m.body("coupler", br.rod((0.0, 0.1), (0.3, 0.2), 0.3))
    rocker = m.body("rocker", br.rod((0.3, 0.0), (0.3, 0.2), 0.2))
    m.revolute("A", m.ground, crank, (0.0, 0.0))
    m.revolute("B", crank, coupler, (0.0, 0.1))
    m.revolute("C", coupler, rocker, (0.3, 0.2))
    m.revolute("D", m.ground, rocker, (0.3, 0.0))
    m.motor("torque", "A")
    m.point_sensor("tip", coupler, (0.15, 0.15))
    return m


def test_a_run_by_both_compilers(monkeypatch):
    example = br.gallery.load("slider-crank")
    ends = []
    for native in (True, False):
        monkeypatch.setattr(compilation, "USE_LLVM", native)
        ends.append(example.simulate(t_end=0.3, save=3).q[-1])
    np.testing.assert_allclose(*ends, rtol=0, atol=1e-8)


def test_one_loop_in_three_kinds_of_coordinates():
    """From rest, the power of the inertia forces `v̇ᵀ M v̇` does not depend on the coordinates."""
    found = []
    for kind in ("relative", "absolute", "natural"):
        system = four_bar().system(coordinates=kind)
        at = br.forward_dynamics(system, system.reference, np.zeros(system.nv), u=[0.05]).acceleration
        found.append(at @ system.mass_matrix(system.reference, 0.0) @ at)
    np.testing.assert_allclose(found[1:], found[0], rtol=1e-8)


def test_a_run_with_a_closed_loop():
    system = four_bar().system()
    run = br.simulate(system, system.reference, np.zeros(system.nv), t_end=0.05, u=[0.05], save=2)
    assert run.energy.drift < 1e-9
    assert run.sensors["tip"].value.shape == (2, 2)


def test_derivatives_and_batches():
    def height(l):
        system = Rod(l=l)
        return br.simulate(system, jnp.stack([l, 0.0]), jnp.zeros(2), t_end=0.2, save=2).q[-1, 1]

    lengths = jnp.array([0.9, 1.0])
    heights = jax.vmap(height)(lengths)
    slope = jax.grad(height)(1.0)
    secant = (height(1.0 + 1e-4) - height(1.0 - 1e-4)) / 2e-4
    assert float(slope) == pytest.approx(float(secant), abs=1e-6)
    assert float(heights[1]) == pytest.approx(float(height(1.0)), abs=1e-8)


def test_assembly_mobility_and_another_route():
    system = Rod()
    start = br.assemble(system, [0.9, 0.1], [0.0, 1.0])
    assert np.hypot(*start.q) == pytest.approx(1.0, abs=1e-12)
    assert br.mobility(system, start.q).dof == 1
    by_gauss = br.forward_dynamics(system, start.q, start.v, route=br.Gauss())
    np.testing.assert_allclose(
        br.forward_dynamics(system, start.q, start.v).acceleration, by_gauss.acceleration, atol=1e-8
    )


def test_a_control_law_and_its_stability_chart(tmp_path):
    cart = br.gallery.load("sliding-pendulum").system
    law = br.control.Blended(cart, lambda q: q[0] + 0.9 * jnp.sin(q[1]), "cart", 0.0, kp=115.6, kd=24.1, kappa=0.6)
    loop = br.control.Sampled(law, period=0.03, delay_samples=1)
    run = br.simulate(cart, [0.02, 0.0], [0.0, 0.0], t_end=0.12, controller=loop, save=3)
    assert np.all(np.isfinite(run.q))
    assert br.stability.sampled_map(cart, [0.0, 0.0], loop).radius == pytest.approx(0.947188, abs=1e-5)
    chart = br.stability.chart(cart, [0.0, 0.0], loop, kp=np.linspace(0, 300, 4), kd=np.linspace(0, 40, 4))
    chart.save(tmp_path / "chart.png")


def test_a_law_with_limits_solves_a_quadratic_program():
    example = br.gallery.load("two-link-arm-saturated")
    assert np.all(np.isfinite(example.simulate(t_end=0.02, save=2).q))


def test_contacts():
    run = br.gallery.load("bouncing-ball").simulate(t_end=0.6, save=3)
    assert run.events


def test_a_model_from_a_file(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(MODEL)
    system = br.load(path).system()
    found = br.forward_dynamics(system, [0.0], [0.0]).acceleration
    half, radius, mass = 0.5, 0.05, 2.0
    assert found[0] == pytest.approx(mass * 9.81 * half / _capsule_about_its_end(half, radius, mass), rel=1e-9)


def _capsule_about_its_end(half, radius, mass):
    """Moment of inertia about an axis across it through the centre of one of its spheres."""
    cylinder, ball = np.pi * radius**2 * 2 * half, 4 / 3 * np.pi * radius**3
    density = mass / (cylinder + ball)
    across = density * cylinder * (radius**2 / 4 + half**2 / 3)
    across += density * ball * (0.4 * radius**2 + half**2 + 0.75 * half * radius)
    return across + mass * half**2


def test_formulas():
    import sympy as sp
    from sympy.physics.mechanics import dynamicsymbols

    x, m = dynamicsymbols("x"), sp.symbols("m")
    falling = br.symbolic.System(
        [x], kinetic_energy=m / 2 * x.diff() ** 2, potential_energy=3 * m * x, parameters={m: 2.0}
    )
    assert sp.simplify(br.symbolic.explicit(falling).acceleration[0] + 3) == 0


def test_tables_pictures_and_a_page(tmp_path):
    run = br.simulate(Rod(), [1.0, 0.0], [0.0, 0.0], t_end=0.1, save=3)
    assert run.to_xarray().sizes["time"] == 3
    run.report(tmp_path / "rod.html")
    assert "<html" in (tmp_path / "rod.html").read_text()


@pytest.mark.parametrize("arguments", [["list"], ["run", "pendulum", "-o", "run.html", "--t-end", "0.1"]])
def test_the_command(arguments, tmp_path):
    command = [sys.executable, "-c", "from bricard.cli import main; main()", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
