"""A program of its own that compiles MJCF by MuJoCo: text from standard input, numbers to standard output.

`mjcf_process.py` starts it, so that a file that crashes MuJoCo, takes for ever or needs more memory than there is
does not take the user's session with it. Once MuJoCo is imported, this process cannot open any file. It imports nothing
of bricard, which would take longer than the work itself.
"""

import io
import json
import os
import sys
from typing import Any

PLACES = ("xpos", "xmat", "xipos", "ximat", "xanchor", "xaxis", "site_xpos", "site_xmat", "geom_xpos", "geom_xmat")
"""Of bodies, joints, sites and shapes in the reference configuration."""

NOT_INSTALLED = "MuJoCo is not installed"


def main(seconds: int, memory: int) -> None:
    """Answer with an `.npz` archive of the compiled model, or of `problems`."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what MuJoCo prints is no part of the answer
    text = sys.stdin.buffer.read().decode("utf-8")
    try:
        import mujoco
    except ImportError as error:
        _send(answer, {"problems": [f"{NOT_INSTALLED}: {error}"]})
        return
    import zipfile  # noqa: F401 (what NumPy needs to write an archive)

    import numpy as np

    np.savez(io.BytesIO(), np.zeros(1))  # imports the rest of what it needs
    _limit(seconds, memory)
    try:
        found = _compiled(mujoco, text)
    except MemoryError:
        found = {"problems": [f"MuJoCo needs more than {memory / 1e9:.0f} GB of memory to read it"]}
    except Exception as error:
        found = {"problems": [f"MuJoCo cannot read it: {str(error).strip()}"]}
    _send(answer, found)


def _limit(seconds: int, memory: int) -> None:
    """Bound processor time (s), memory (bytes) and open files, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    wanted = (("RLIMIT_CPU", seconds), ("RLIMIT_AS", memory), ("RLIMIT_CORE", 0), ("RLIMIT_NOFILE", 0))
    for name, most in wanted:
        try:
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        except (AttributeError, OSError, ValueError):
            continue  # this limit is not known here


def _compiled(mujoco: Any, text: str) -> dict[str, Any]:
    """Every number of MuJoCo's model, as "model.body_mass", with places in the reference configuration."""
    import numpy as np

    spec = mujoco.MjSpec.from_string(text)
    problems = _drop_files(mujoco, spec)
    if problems:
        return {"problems": problems}
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    numbers = {f"model.{n}": x for n, x in _numbers(model)}
    numbers |= {f"option.{n}": x for n, x in _numbers(model.opt)}
    numbers |= {f"data.{n}": getattr(data, n) for n in PLACES}
    numbers["names"] = np.frombuffer(model.names, dtype=np.uint8)
    kinds = [k for k in vars(mujoco).values() if isinstance(k, type) and k.__name__.startswith("mjt")]
    values = {n: int(v) for k in kinds for n, v in getattr(k, "__members__", {}).items()}
    return numbers | {"enumerations": json.dumps(values)}


def _numbers(thing: Any) -> list[tuple[str, Any]]:
    import numpy as np

    found = [(n, getattr(thing, n, None)) for n in dir(thing) if not n.startswith("_")]
    return [(n, x) for n, x in found if isinstance(x, (int, float, np.ndarray)) and not isinstance(x, bool)]


def _drop_files(mujoco: Any, spec: Any) -> list[str]:
    """Take away what is stored in other files; of that, a mechanism only misses meshes that give a body its inertia."""
    kinds, problems = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_SDF), []
    from_shapes = int(spec.compiler.inertiafromgeom) == int(mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE)
    for geom in list(spec.geoms):
        if geom.type in kinds:
            body = geom.parent
            if body.name != "world" and (from_shapes or not body.explicitinertial):
                problems.append(f"body {body.name!r} has its inertia from a mesh: give it an <inertial>")
            spec.delete(geom)
        else:
            geom.material = ""
    for site in spec.sites:
        site.material = ""
    for parts in (spec.skins, spec.meshes, spec.hfields, spec.materials, spec.textures):
        for part in list(parts):
            spec.delete(part)
    return problems


def _send(answer: int, found: dict[str, Any]) -> None:
    import numpy as np

    content = io.BytesIO()
    np.savez(content, **found)
    with os.fdopen(answer, "wb") as out:
        out.write(content.getvalue())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
