"""Script that compiles MJCF with MuJoCo: it reads the text from standard input and writes arrays to standard output.

`mjcf_process.py` runs it in a separate process, so that a file that crashes MuJoCo, does not terminate or exhausts the
memory does not affect the user's session. Once MuJoCo is imported, this process cannot open any file. It does not
import bricard, which would take longer than the compilation itself.
"""

import io
import json
import os
import sys
from typing import Any

PLACES = ("xpos", "xmat", "xipos", "ximat", "xanchor", "xaxis", "site_xpos", "site_xmat", "geom_xpos", "geom_xmat")
"""Fields of `MjData`: poses of bodies, joints, sites and geoms in the reference configuration."""

NOT_INSTALLED = "MuJoCo is not installed"


def main(seconds: int, memory: int) -> None:
    """Write an `.npz` archive to standard output: the compiled model, or the array `problems`.

    `seconds` of processor time and `memory` in bytes bound the compilation.
    """
    output = os.dup(1)
    os.dup2(2, 1)  # what MuJoCo prints must not mix with the archive
    text = sys.stdin.buffer.read().decode("utf-8")
    try:
        import mujoco
    except ImportError as error:
        _send(output, {"problems": [f"{NOT_INSTALLED}: {error}"]})
        return
    import zipfile  # noqa: F401 (NumPy imports it when it writes an archive)

    import numpy as np

    np.savez(io.BytesIO(), np.zeros(1))  # trigger all lazy imports while files can still be opened
    _limit(seconds, memory)
    try:
        arrays = _compile(mujoco, text)
    except MemoryError:
        arrays = {"problems": [f"MuJoCo needs more than {memory / 1e9:.0f} GB of memory to compile the model"]}
    except Exception as error:
        arrays = {"problems": [f"MuJoCo cannot compile the model: {str(error).strip()}"]}
    _send(output, arrays)


def _limit(seconds: int, memory: int) -> None:
    """Limit processor time (s), memory (bytes) and open files, where the operating system allows it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = (("RLIMIT_CPU", seconds), ("RLIMIT_AS", memory), ("RLIMIT_CORE", 0), ("RLIMIT_NOFILE", 0))
    for name, limit in limits:
        try:
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
        except (AttributeError, OSError, ValueError):
            continue  # this operating system does not have this limit


def _compile(mujoco: Any, text: str) -> dict[str, Any]:
    """Return all numeric fields of `MjModel`, its options and the reference poses, with keys like "model.body_mass".

    The dictionary contains only `problems` if the model cannot be used.
    """
    import numpy as np

    spec = mujoco.MjSpec.from_string(text)
    problems = _remove_assets(mujoco, spec)
    if problems:
        return {"problems": problems}
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    arrays = {f"model.{n}": x for n, x in _numeric_fields(model)}
    arrays |= {f"option.{n}": x for n, x in _numeric_fields(model.opt)}
    arrays |= {f"data.{n}": getattr(data, n) for n in PLACES}
    arrays["names"] = np.frombuffer(model.names, dtype=np.uint8)
    enumerations = [k for k in vars(mujoco).values() if isinstance(k, type) and k.__name__.startswith("mjt")]
    values = {n: int(v) for k in enumerations for n, v in getattr(k, "__members__", {}).items()}
    return arrays | {"enumerations": json.dumps(values)}


def _numeric_fields(struct: Any) -> list[tuple[str, Any]]:
    import numpy as np

    fields = [(n, getattr(struct, n, None)) for n in dir(struct) if not n.startswith("_")]
    return [(n, x) for n, x in fields if isinstance(x, (int, float, np.ndarray)) and not isinstance(x, bool)]


def _remove_assets(mujoco: Any, spec: Any) -> list[str]:
    """Remove everything that is stored in other files, and return the bodies whose inertia would come from a mesh."""
    asset_geoms = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_SDF)
    problems = []
    from_geoms = int(spec.compiler.inertiafromgeom) == int(mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE)
    for geom in list(spec.geoms):
        if geom.type in asset_geoms:
            body = geom.parent
            if body.name != "world" and (from_geoms or not body.explicitinertial):
                problems.append(f"body {body.name!r} takes its inertia from a mesh, which is not read: add <inertial>")
            spec.delete(geom)
        else:
            geom.material = ""
    for site in spec.sites:
        site.material = ""
    for assets in (spec.skins, spec.meshes, spec.hfields, spec.materials, spec.textures):
        for asset in list(assets):
            spec.delete(asset)
    return problems


def _send(output: int, arrays: dict[str, Any]) -> None:
    import numpy as np

    content = io.BytesIO()
    np.savez(content, **arrays)
    with os.fdopen(output, "wb") as stream:
        stream.write(content.getvalue())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
