"""Values that JAX is tracing, where numbers are needed: one clear error says which, and what to do."""

import jax
import jax.numpy as jnp
import pytest

import bricard as br


def swing(mass=1.0, length=1.0, at=0.0, **more):
    m = br.Mechanism(gravity=more.get("gravity", (0, -9.81)), planar=True)
    m.body("rod", mass=mass, com=(length, 0.0), inertia=more.get("inertia", 1.0))
    m.revolute("A", m.ground, "rod", (at, 0.0), limits=more.get("limits"))
    m.joint_spring("spring", "A", more.get("stiffness", 1.0), more.get("damping", 0.1))
    m.armature("rotor", "A", more.get("rotor", 0.1))
    m.motor("motor", "A", gear=more.get("gear", 1.0))
    m.gear("gear", {"A": more.get("coefficient", 1.0)}, more.get("offset"))
    m.distance("bar", m.ground, "rod", (0.0, 0.0), (1.0, 0.0), length=more.get("bar", 1.0))
    return m.system().model.mass.sum()


@pytest.mark.parametrize("transform", [jax.jit, jax.grad])
@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (lambda x: {"length": x}, "body 'rod': com"),
        (lambda x: {"inertia": x}, "body 'rod': inertia"),
        (lambda x: {"at": x}, "joint 'A': at"),
        (lambda x: {"gravity": (0.0, x)}, "gravity"),
        (lambda x: {"mass": x}, "body 'rod': mass"),
        (lambda x: {"stiffness": x}, "spring 'spring': stiffness"),
        (lambda x: {"damping": x}, "spring 'spring': damping"),
        (lambda x: {"rotor": x}, "'rotor': inertia"),
        (lambda x: {"gear": x}, "motor 'motor': gear"),
        (lambda x: {"coefficient": x}, "gear 'gear': coefficient 1"),
        (lambda x: {"offset": x}, "gear 'gear': offset"),
        (lambda x: {"bar": x}, "joint 'bar': length"),
        (lambda x: {"limits": (-x, x)}, "'A': limits"),
    ],
)
def test_parts_of_a_mechanism(transform, parts, named):
    with pytest.raises(br.ModelError, match="is being traced by JAX") as error:
        transform(lambda x: swing(**parts(x)))(0.7)
    assert named in str(error.value)
    assert "build it outside" in str(error.value)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("rod", lambda x: br.rod((0, 0, 0), (x, 0, 0), 1.0)),
        ("box", lambda x: br.box((0, 0, 0), (x, 1, 1), 1.0)),
        ("mobility", lambda x: br.mobility(br.gallery.load("pendulum-xy").system, x * jnp.ones(2))),
        ("eigenvalues", lambda x: br.stability.eigenvalues(br.gallery.load("pendulum").system, x[None])),
        ("load", lambda x: br.gallery.load("bennett", angle=x)),
    ],
)
def test_functions_that_need_numbers(name, call):
    with pytest.raises(br.ModelError, match=f"{name}: needs numbers for .*, which JAX is tracing") as error:
        jax.jit(lambda x: (call(x), x)[1])(0.7)
    assert f"call {name} outside of the traced function" in str(error.value)


def test_a_run_that_is_traced_is_not_written(tmp_path):
    system = br.gallery.load("pendulum").system

    def write(t, how):
        run = br.simulate(system, [0.1], [0.0], t, save=3)
        how(run)
        return run.q

    for how in (lambda r: r.save(tmp_path / "x.npz"), lambda r: r.report(tmp_path / "x.html"), lambda r: r.to_xarray()):
        with pytest.raises(br.ModelError, match="return it from the traced function"):
            jax.eval_shape(lambda t, how=how: write(t, how), 0.1)
    assert list(tmp_path.iterdir()) == []
