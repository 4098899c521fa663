"""MJCF reader: converts the model compiled by MuJoCo into a `Mechanism`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from bricard.errors import ModelError
from bricard.io.loops import Loops, add_loops
from bricard.io.markup import Document, write
from bricard.io.mjcf_limits import too_large, unsupported, without_sizes
from bricard.io.mjcf_process import Compiled, compile_mjcf
from bricard.mechanism import Mechanism, rigid
from bricard.spatial import rotation_matrix


def read_mjcf(file: Path, document: Document, loops: Loops) -> tuple[Mechanism, list[str]]:
    """Return the mechanism and a list of problems: errors in the file, and features that are not supported."""
    problems = unsupported(document.root) + too_large(document.root)
    if problems:
        raise ModelError(str(file), problems)
    # Serialise the checked document: MuJoCo accepts XML that a strict parser reads differently.
    model = compile_mjcf(file, write(without_sizes(document)))
    reader = _Reader(model, Mechanism(gravity=model.gravity, name=file.stem))
    m = reader.mechanism()
    if loops.reference:
        advice = "in MJCF, give the bodies poses in which the loops are closed"
        reader.problems.append(f"{loops.source}: 'reference' is only for URDF; {advice}")
    reader.problems += add_loops(m, loops, reader.poses())
    return m, reader.problems


class _Reader:
    """Converts the compiled model; `problems` collects features that are not supported."""

    def __init__(self, model: Compiled, m: Mechanism):
        self.model, self.m = model, m
        self.problems: list[str] = []

    def mechanism(self) -> Mechanism:
        """Return the mechanism; see `problems` for what could not be converted."""
        model, m = self.model, self.m
        for i in range(1, model.nbody):
            frame = self.model.ximat[i].reshape(3, 3)
            inertia = frame @ np.diag(model.body_inertia[i]) @ frame.T
            m.body(self._body(i), rigid(float(model.body_mass[i]), self.model.xipos[i], inertia))
            self._joints(i)
        for i in range(model.neq):
            self._equality(i)
        for i in range(model.nu):
            self._actuator(i)
        self._check_unsupported()
        if model.ngeom and np.any(model.geom_contype | model.geom_conaffinity):
            m.notes.append("contacts between geoms are ignored: bodies can pass through each other")
        return m

    def poses(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Origin (m) and rotation matrix of each body frame in the reference configuration."""
        frames = zip(self.model.xpos, self.model.xmat.reshape(-1, 3, 3), strict=True)
        return {self._body(i): (p.copy(), R.copy()) for i, (p, R) in enumerate(frames)}

    def _body(self, i: int) -> str:
        return "ground" if i == 0 else self.model.name("body", i) or f"body {i}"

    def _joint_name(self, k: int) -> str:
        return self.model.name("jnt", k) or f"joint {k}"

    # -- joints ----------------------------------------------------------------------------------------------------

    def _joints(self, i: int) -> None:
        """Add the joints of body `i`; several joints of one body are connected by massless bodies."""
        model, m = self.model, self.m
        parent, child = self._body(int(model.body_parentid[i])), self._body(i)
        first, count = int(model.body_jntadr[i]), int(model.body_jntnum[i])
        if count == 0:
            m.fixed(f"{child} fixed", parent, child)
            return
        for k in range(first, first + count):
            name, kind = self._joint_name(k), int(model.jnt_type[k])
            outer = child if k == first + count - 1 else f"{child} before {self._joint_name(k + 1)}"
            at, axis = self.model.xanchor[k].copy(), self.model.xaxis[k].copy()
            if outer != child:
                m.body(outer, rigid(0.0, at))
            if kind == model.kind("mjJNT_FREE"):
                m.free(name, parent, outer)
            elif kind == model.kind("mjJNT_BALL"):
                m.spherical(name, parent, outer, at)
            elif kind == model.kind("mjJNT_SLIDE"):
                m.prismatic(name, parent, outer, axis, at, limits=self._limits(k))
            else:
                m.revolute(name, parent, outer, at, axis, limits=self._limits(k))
            self._joint_forces(k, name)
            parent = outer

    def _limits(self, k: int) -> tuple[float, float] | None:
        """Limits (rad, m) of a hinge or slide joint, relative to the reference configuration."""
        if not self.model.jnt_limited[k]:
            return None
        start = self.model.qpos0[self.model.jnt_qposadr[k]]
        return float(self.model.jnt_range[k, 0] - start), float(self.model.jnt_range[k, 1] - start)

    def _joint_forces(self, k: int, name: str) -> None:
        """Add spring, damping and armature of joint `k`; report joint forces that are not supported."""
        model, m = self.model, self.m
        dof, at = int(model.jnt_dofadr[k]), int(model.jnt_qposadr[k])
        stiffness, damping = np.ravel(model.jnt_stiffness[k]), np.ravel(model.dof_damping[dof])
        if np.any(stiffness[1:]) or np.any(damping[1:]):
            self.problems.append(f"joint {name!r}: nonlinear springs and damping are not supported")
        armature = float(model.dof_armature[dof])
        is_multi_dof = int(model.jnt_type[k]) in (model.kind("mjJNT_FREE"), model.kind("mjJNT_BALL"))
        if is_multi_dof and (stiffness[0] or damping[0] or armature):
            problem = "springs, damping and armature of ball and free joints are not supported"
            self.problems.append(f"joint {name!r}: {problem}")
        elif stiffness[0] or damping[0]:
            rest = float(model.qpos_spring[at] - model.qpos0[at])
            m.joint_spring(f"{name} spring", name, float(stiffness[0]), float(damping[0]), rest)
        if armature and not is_multi_dof:
            m.armature(f"{name} armature", name, armature)
        if model.dof_frictionloss[dof]:
            self.problems.append(f"joint {name!r}: frictionloss is not supported")

    # -- equalities ------------------------------------------------------------------------------------------------

    def _equality(self, i: int) -> None:
        model = self.model
        name = model.name("eq", i) or f"equality {i}"
        if not model.eq_active0[i]:
            self.m.notes.append(f"equality {name!r} is not active and is ignored")
            return
        kind = int(model.eq_type[i])
        if kind in (model.kind("mjEQ_JOINT"), model.kind("mjEQ_TENDON")):
            terms_of = self._joint_terms if kind == model.kind("mjEQ_JOINT") else self._tendon_terms
            self._linear_relation(i, name, terms_of)
        elif kind == model.kind("mjEQ_CONNECT"):
            (first, p, _), (second, r, _) = self._attachments(i)
            self.m.coincident(name, first, second, p, at_child=r)
        elif kind == model.kind("mjEQ_WELD"):
            (first, p, A), (second, r, B) = self._attachments(i)
            error = max(np.linalg.norm(p - r), np.linalg.norm(A - B))
            if error > 1e-6:
                problem = f"the initial pose of its bodies is not the welded pose (error {error:.2g})"
                self.problems.append(f"equality {name!r}: {problem}")
            self.m.fixed(name, first, second, r)
        else:
            self.problems.append(f"equality {name!r}: only connect, weld, joint and tendon are supported")

    def _attachments(self, i: int) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Body, point (m) and axes (3, 3) on both sides of a connect or weld equality, in the world frame."""
        model, numbers = self.model, self.model.eq_data[i]
        ids = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
        if model.eq_objtype[i] == model.kind("mjOBJ_SITE"):
            bodies = [self._body(int(model.site_bodyid[k])) for k in ids]
            return [(b, model.site_xpos[k], model.site_xmat[k].reshape(3, 3)) for b, k in zip(bodies, ids, strict=True)]
        frames = [model.xmat[k].reshape(3, 3) for k in ids]
        if int(model.eq_type[i]) == model.kind("mjEQ_CONNECT"):
            local = [(numbers[:3], np.eye(3)), (numbers[3:6], np.eye(3))]
        else:
            # A weld stores the pose of the second body relative to the first.
            local = [(numbers[3:6], np.asarray(rotation_matrix(jnp.asarray(numbers[6:10])))), (np.zeros(3), np.eye(3))]
        return [(self._body(k), model.xpos[k] + R @ p, R @ A) for k, R, (p, A) in zip(ids, frames, local, strict=True)]

    def _linear_relation(self, i: int, name: str, terms_of: Any) -> None:
        """Add `x₁ = a + b x₂`, with both coordinates relative to the reference configuration."""
        numbers, (a, b) = self.model.eq_data[i], (int(self.model.eq_obj1id[i]), int(self.model.eq_obj2id[i]))
        if np.any(numbers[2:5]):
            self.problems.append(f"equality {name!r}: a nonlinear relation (polycoef) is not supported")
        terms = terms_of(a)
        if b >= 0:
            for joint, coefficient in terms_of(b).items():
                terms[joint] = terms.get(joint, 0.0) - float(numbers[1]) * coefficient
        self.m.gear(name, terms, float(numbers[0]))

    def _joint_terms(self, k: int) -> dict[str, float]:
        return {self._joint_name(k): 1.0}

    def _tendon_terms(self, k: int) -> dict[str, float]:
        """Coefficients of the joint coordinates in a fixed tendon; `_check_unsupported` refuses spatial tendons."""
        model = self.model
        first, count = int(model.tendon_adr[k]), int(model.tendon_num[k])
        joint = model.kind("mjWRAP_JOINT")
        wraps = [w for w in range(first, first + count) if int(model.wrap_type[w]) == joint]
        return {self._joint_name(int(model.wrap_objid[w])): float(model.wrap_prm[w]) for w in wraps}

    # -- actuators -------------------------------------------------------------------------------------------------

    def _actuator(self, i: int) -> None:
        model = self.model
        name = model.name("actuator", i) or f"actuator {i}"
        gain, gear = float(model.actuator_gainprm[i, 0]), model.actuator_gear[i]
        is_motor = (
            int(model.actuator_trntype[i]) in (model.kind("mjTRN_JOINT"), model.kind("mjTRN_JOINTINPARENT"))
            and model.actuator_gaintype[i] == model.kind("mjGAIN_FIXED")
            and model.actuator_biastype[i] == model.kind("mjBIAS_NONE")
            and model.actuator_dyntype[i] == model.kind("mjDYN_NONE")
            and gain != 0.0
            and gear[0] != 0.0
        )
        k = int(model.actuator_trnid[i, 0])
        single_dof = (model.kind("mjJNT_HINGE"), model.kind("mjJNT_SLIDE"))
        if not is_motor or int(model.jnt_type[k]) not in single_dof:
            self.problems.append(f"actuator {name!r}: only motors on hinge and slide joints are supported")
            return
        limits = np.array([-np.inf, np.inf])
        if model.actuator_ctrllimited[i]:
            limits = model.actuator_ctrlrange[i]
        if model.actuator_forcelimited[i]:
            force_limits = np.sort(model.actuator_forcerange[i] / gain)
            limits = np.clip(limits, *force_limits)
        finite_limits = tuple(limits) if np.any(np.isfinite(limits)) else None
        self.m.motor(name, self._joint_name(k), finite_limits, gear=gain * float(gear[0]))

    def _check_unsupported(self) -> None:
        model = self.model
        joint = model.kind("mjWRAP_JOINT")
        for k in range(model.ntendon):
            name = model.name("tendon", k) or f"tendon {k}"
            if int(model.wrap_type[int(model.tendon_adr[k])]) != joint:
                self.problems.append(f"tendon {name!r}: only fixed tendons are supported")
            for label in ("stiffness", "damping", "frictionloss", "armature", "limited"):
                if np.any(getattr(model, f"tendon_{label}")[k]):
                    self.problems.append(f"tendon {name!r}: {label} is not supported")
        for i in np.flatnonzero(model.body_gravcomp):
            self.problems.append(f"body {self._body(int(i))!r}: gravcomp is not supported")
        for label, count in (
            ("flexible bodies", model.nflex),
            ("plugins", model.nplugin),
            ("mocap bodies", model.nmocap),
        ):
            if count:
                self.problems.append(f"{label} are not supported (the model has {count})")
        if model.density or model.viscosity:
            self.problems.append("a surrounding fluid (density or viscosity) is not supported")
