"""Closed loops against MuJoCo, whose equalities are stiff springs: its motion tends to ours as they get stiffer."""

import equinox as eqx
import jax
import numpy as np
import pytest

import bricard as br
from bricard.gallery.bennett import bennett_mechanism
from bricard.gallery.four_bar import four_bar_mechanism
from bricard.gallery.spatial_slider_crank import spatial_slider_crank_mechanism

mujoco = pytest.importorskip("mujoco")

TIMES = np.linspace(0.0, 0.3, 4)
MECHANISMS = {
    "four-bar": four_bar_mechanism,
    "spatial-slider-crank": spatial_slider_crank_mechanism,
    "bennett": bennett_mechanism,
}


def softened(mechanism, example, stiffness, dt=1e-4):
    """Centres of mass (k, n, 3) at `TIMES`, by MuJoCo: loops by critically damped springs of `stiffness` (1/s²)."""
    model = mujoco.MjModel.from_xml_string(mechanism.to_mjcf())
    flags = mujoco.mjtDisableBit
    model.opt.timestep, model.opt.integrator = dt, mujoco.mjtIntegrator.mjINT_RK4
    model.opt.disableflags |= flags.mjDSBL_REFSAFE | flags.mjDSBL_CONTACT
    model.opt.tolerance, model.opt.iterations = 0.0, 50
    model.eq_solref[:] = (-stiffness, -2.0 * np.sqrt(stiffness))
    model.eq_solimp[:] = (0.9999, 0.9999, 1e-3, 0.5, 2.0)  # as hard as it can be
    data = mujoco.MjData(model)
    names = example.system.velocity_names
    for j in range(model.njnt):
        data.qvel[j] = example.v[names.index(model.joint(j).name)]
    found = []
    for _ in TIMES:
        mujoco.mj_kinematics(model, data)
        found.append([data.body(name).xipos.copy() for name in example.system.model.names])
        for _ in range(round((TIMES[1] - TIMES[0]) / dt)):
            mujoco.mj_step(model, data)
    return np.array(found)


@pytest.mark.parametrize(
    "name", ["four-bar", *(pytest.param(n, marks=pytest.mark.slow) for n in MECHANISMS if n != "four-bar")]
)
def test_motion_is_the_limit_of_stiff_equalities(name):
    example = br.gallery.load(name)
    run = example.simulate(t_end=TIMES[-1], save=TIMES)
    ours = eqx.filter_jit(lambda q: jax.vmap(lambda x: example.system.place(x).p)(q))(run.q)
    soft, hard = (np.max(np.abs(softened(MECHANISMS[name](), example, k) - ours)) for k in (1e4, 1e5))
    assert hard < 5e-7
    assert 6 < soft / hard < 15  # the difference is the springs': as one over their stiffness
