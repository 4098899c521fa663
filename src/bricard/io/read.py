"""`br.load`: an MJCF or URDF file as a `Mechanism`, with equalities as exact constraints.

The file is parsed by MuJoCo (extra `mjcf`). Nothing in it is executed, and nothing else is read because of it:
documents with entities or includes are refused. What has no counterpart is refused by name; contacts are left out
with a note.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from bricard.errors import ModelError
from bricard.mechanism import Mechanism, rigid

LARGEST_FILE = 10_000_000
"""Bytes; a description of a mechanism is smaller."""


def load(path: str | os.PathLike[str]) -> Mechanism:
    """The mechanism described in an MJCF or URDF file.

    Bodies, inertias, joints with springs, damping and limits, motors with limits, and `connect`, `weld` and `joint`
    equalities, which become exact constraints. `mechanism.notes` says what was left out.
    """
    file = Path(path)
    text = _text(file)
    try:
        import mujoco
    except ImportError as error:
        raise ModelError(str(file), ["reading MJCF and URDF needs the extra: pip install 'bricard[mjcf]'"]) from error
    try:
        model = mujoco.MjModel.from_xml_string(text)  # pyright: ignore[reportAttributeAccessIssue]
    except ValueError as error:
        raise ModelError(str(file), [f"MuJoCo cannot read it: {str(error).strip()}"]) from error
    return _Reader(mujoco, model, file).mechanism()


def _text(file: Path) -> str:
    if not file.is_file():
        raise ModelError(str(file), ["there is no such file"])
    size = file.stat().st_size
    if size > LARGEST_FILE:
        raise ModelError(str(file), [f"is too large to be a mechanism ({size / 1e6:.0f} MB)"])
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(str(file), ["is not a text file in UTF-8"]) from error
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise ModelError(str(file), ["declares a document type or entities, which may reach for other files: refused"])
    if re.search(r"<\s*include\b", text):
        raise ModelError(str(file), ["includes other files: put everything into one"])
    if not re.search(r"<\s*(mujoco|robot)\b", text):
        raise ModelError(str(file), ["is neither MJCF (<mujoco>) nor URDF (<robot>)"])
    return text


class _Reader:
    """MuJoCo's compiled model, turned into a description piece by piece."""

    def __init__(self, mujoco: Any, model: Any, file: Path):
        self.mujoco, self.model, self.file = mujoco, model, file
        self.data = mujoco.MjData(model)
        self.data.qpos[:] = model.qpos0
        mujoco.mj_kinematics(model, self.data)
        mujoco.mj_comPos(model, self.data)
        self.problems: list[str] = []

    def mechanism(self) -> Mechanism:
        """The description, or a `ModelError` with everything that has no counterpart."""
        model = self.model
        m = Mechanism(gravity=model.opt.gravity, name=self.file.stem)
        for i in range(1, model.nbody):
            frame = self.data.ximat[i].reshape(3, 3)
            inertia = frame @ np.diag(model.body_inertia[i]) @ frame.T
            m.body(self._body(i), rigid(float(model.body_mass[i]), self.data.xipos[i], inertia))
            self._joint(m, i)
        for i in range(model.neq):
            self._equality(m, i)
        for i in range(model.nu):
            self._actuator(m, i)
        self._refuse()
        if self.problems:
            raise ModelError(str(self.file), self.problems)
        if model.ngeom and np.any(model.geom_contype | model.geom_conaffinity):
            m.notes.append("contacts between geoms are left out: bodies may pass through each other")
        return m

    def _body(self, i: int) -> str:
        return "ground" if i == 0 else self.model.body(i).name or f"body {i}"

    def _joint(self, m: Mechanism, i: int) -> None:
        """The joints of a body; several in one body become several joints with massless bodies between them."""
        model, types = self.model, self.mujoco.mjtJoint
        parent, child = self._body(int(model.body_parentid[i])), self._body(i)
        first, count = int(model.body_jntadr[i]), int(model.body_jntnum[i])
        if count == 0:
            m.fixed(f"{child} fixed", parent, child)
            return
        for k in range(first, first + count):
            name, kind = self._joint_name(k), int(model.jnt_type[k])
            outer = child if k == first + count - 1 else f"{child} before {self._joint_name(k + 1)}"
            at, axis = self.data.xanchor[k].copy(), self.data.xaxis[k].copy()
            if outer != child:
                m.body(outer, rigid(0.0, at))
            limits = tuple(model.jnt_range[k]) if model.jnt_limited[k] else None
            if kind == int(types.mjJNT_FREE):
                m.free(name, parent, outer)
            elif kind == int(types.mjJNT_BALL):
                m.spherical(name, parent, outer, at)
            elif kind == int(types.mjJNT_SLIDE):
                m.prismatic(name, parent, outer, axis, at, limits=limits)
            else:
                m.revolute(name, parent, outer, at, axis, limits=limits)
            self._spring(m, k, name)
            parent = outer

    def _spring(self, m: Mechanism, k: int, name: str) -> None:
        """Spring, damping, and what a joint may have besides."""
        model, types = self.model, self.mujoco.mjtJoint
        dof, at = int(model.jnt_dofadr[k]), int(model.jnt_qposadr[k])
        stiffness, damping = (float(np.ravel(x)[0]) for x in (model.jnt_stiffness[k], model.dof_damping[dof]))
        if int(model.jnt_type[k]) in (int(types.mjJNT_FREE), int(types.mjJNT_BALL)):
            if stiffness or damping:
                self.problems.append(f"joint {name!r}: springs and damping of ball and free joints")
        elif stiffness or damping:
            rest = float(model.qpos_spring[at] - model.qpos0[at])
            m.joint_spring(f"{name} spring", name, stiffness, damping, rest)
        for label, value in (("armature", model.dof_armature[dof]), ("frictionloss", model.dof_frictionloss[dof])):
            if value:
                self.problems.append(f"joint {name!r}: {label}")

    def _joint_name(self, k: int) -> str:
        return self.model.joint(k).name or f"joint {k}"

    def _equality(self, m: Mechanism, i: int) -> None:
        model, types = self.model, self.mujoco.mjtEq
        name = model.equality(i).name or f"equality {i}"
        if not model.eq_active0[i]:
            return
        kind, a, b = int(model.eq_type[i]), int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
        numbers = model.eq_data[i]
        if kind == int(types.mjEQ_JOINT):
            terms = {self._joint_name(a): 1.0}
            if np.any(numbers[2:5]):
                self.problems.append(f"equality {name!r}: a relation of joints that is not linear")
            if b >= 0:
                terms[self._joint_name(b)] = -float(numbers[1])
            m.gear(name, terms, float(numbers[0]))
        elif kind in (int(types.mjEQ_CONNECT), int(types.mjEQ_WELD)) and model.eq_objtype[i] == int(
            self.mujoco.mjtObj.mjOBJ_BODY
        ):
            first, second = self._body(a), self._body(b)
            if kind == int(types.mjEQ_CONNECT):
                points = [
                    self.data.xpos[k] + self.data.xmat[k].reshape(3, 3) @ numbers[3 * s : 3 * s + 3]
                    for s, k in ((0, a), (1, b))
                ]
                m.coincident(name, first, second, points[0], at_child=points[1])
            else:
                m.fixed(name, first, second)
        else:
            self.problems.append(f"equality {name!r}: only connect, weld and joint, between bodies, are exact here")

    def _actuator(self, m: Mechanism, i: int) -> None:
        model = self.model
        name = model.actuator(i).name or f"actuator {i}"
        is_motor = (
            model.actuator_trntype[i] == int(self.mujoco.mjtTrn.mjTRN_JOINT)
            and model.actuator_gaintype[i] == int(self.mujoco.mjtGain.mjGAIN_FIXED)
            and model.actuator_biastype[i] == int(self.mujoco.mjtBias.mjBIAS_NONE)
            and model.actuator_dyntype[i] == int(self.mujoco.mjtDyn.mjDYN_NONE)
            and model.actuator_gainprm[i, 0] == 1.0
            and model.actuator_gear[i, 0] == 1.0
        )
        if not is_motor:
            self.problems.append(f"actuator {name!r}: only motors of joints with gear 1 are understood")
            return
        limits = tuple(model.actuator_ctrlrange[i]) if model.actuator_ctrllimited[i] else None
        m.motor(name, self._joint_name(int(model.actuator_trnid[i, 0])), limits)

    def _refuse(self) -> None:
        for label, count in (
            ("tendons", self.model.ntendon),
            ("flexible bodies", getattr(self.model, "nflex", 0)),
            ("plugins", self.model.nplugin),
            ("mocap bodies", self.model.nmocap),
        ):
            if count:
                self.problems.append(f"{count} {label}, which are not understood")
