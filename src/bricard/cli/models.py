"""Interpretation of the arguments of a command: models, parameters and routes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bricard.cli.terminal import Usage

if TYPE_CHECKING:
    from bricard.gallery import Example


def assignments(given: list[str] | None) -> dict[str, Any]:
    """Dictionary of the `name=value` pairs given with --set."""
    values = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise Usage(f"--set {text}: expected name=value")
        values[name.strip()] = _value(text, value.strip())
    return values


def _value(text: str, value: str) -> Any:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        shown = value if len(value) <= 60 else f"{value[:60]}…"
        name = text.partition("=")[0]
        raise Usage(
            f"--set {name}={shown}: {shown!r} is not a number", "Write lists as [1, 2] and text in quotes."
        ) from None


def numbers(name: str, text: str | None) -> list[float] | None:
    """Numbers separated by commas."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Usage(f"--{name} {text}: expected numbers separated by commas, as in --{name}=0.3,-0.6") from None


def make_route(name: str) -> Any:
    """The route called `name`, in lower or upper case, with or without hyphens."""
    import difflib

    import bricard.equations as equations

    routes = {
        n.lower(): kind
        for n, kind in vars(equations).items()
        if isinstance(kind, type) and issubclass(kind, equations.Route) and kind is not equations.Route
    }
    plain = name.lower().replace("-", "").replace("_", "")
    if plain in routes:
        return routes[plain]()
    near = difflib.get_close_matches(plain, routes, n=1)
    shown = ", ".join(sorted(kind.__name__ for kind in routes.values()))
    advice = f"Did you mean {routes[near[0]].__name__}?" if near else f"Choose one of {shown}."
    raise Usage(f"--route {name}: unknown route", advice)


def load_model(model: str, assignments: dict[str, Any]) -> Example:
    """The model with that name in the gallery, in a Python file (`file.py:object`), or in an MJCF or URDF file."""
    from bricard import gallery
    from bricard.errors import BricardError

    path, colon, name = model.rpartition(":")
    if not colon or len(path) == 1:  # the colon in `C:\model.py` separates no object
        path, name = model, ""
    try:
        if Path(model).suffix.lower() in (".xml", ".urdf", ".mjcf"):
            return _from_description(Path(model), assignments)
        if Path(path).suffix == ".py":
            return _from_file(Path(path), name, assignments)
        return gallery.load(model, **assignments)
    except (BricardError, Usage):
        raise
    except Exception as error:
        raise Usage(f"{model}: {type(error).__name__}: {error}", "Use --debug to see the traceback.") from error


def _from_description(path: Path, assignments: dict[str, Any]) -> Example:
    """The mechanism in an MJCF or URDF file, at rest in its reference configuration."""
    import numpy as np

    from bricard.gallery import Example
    from bricard.io import load

    _check_known(path.name, assignments, ["coordinates"])
    m = load(path)
    system = m.system(**assignments)
    start = np.asarray(system.reference), np.zeros(system.nv)
    return Example(system, m.name, "; ".join(m.notes), *start, t_end=10.0)


def _from_file(path: Path, name: str, assignments: dict[str, Any]) -> Example:
    """The system or example called `name` in a Python file, which is executed."""
    import importlib.util

    from bricard.gallery import Example
    from bricard.system import System

    if not path.is_file():
        raise Usage(f"{path}: there is no such file", "Give a name from `bricard list` or file.py:object.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    models = {
        n: value
        for n, value in vars(module).items()
        if isinstance(value, (System, Example))
        or (isinstance(value, type) and issubclass(value, System) and value.__module__ == module.__name__)
    }
    contents = f"The file contains {', '.join(models) or 'no model'}."
    if not name:
        if len(models) != 1:
            raise Usage(f"{path}: name the object to use, as in {path.name}:object", contents)
        (name,) = models
    found = vars(module).get(name)
    if found is None:
        raise Usage(f"{path}: no object called {name!r}", contents)
    return _as_example(found, name, assignments)


def _as_example(found: Any, name: str, assignments: dict[str, Any]) -> Example:
    """An `Example` from an example, a system, or a class or function that returns one of them."""
    import dataclasses
    import inspect

    import numpy as np

    from bricard.gallery import Example
    from bricard.system import System

    if callable(found) and not isinstance(found, (System, Example)):
        known = list(inspect.signature(found).parameters)
        _check_known(name, assignments, known)
        found, assignments = found(**assignments), {}
    if isinstance(found, System):
        title = (inspect.getdoc(type(found)) or "").splitlines()[:1] if type(found).__doc__ else []
        found = Example(found, "".join(title), "", q=np.zeros(found.nq), v=np.zeros(found.nv), t_end=10.0)
    if not isinstance(found, Example):
        raise Usage(f"{name}: expected a System or an Example, got {type(found).__name__}")
    _check_known(name, assignments, [f.name for f in dataclasses.fields(found.system)])
    return dataclasses.replace(found, system=dataclasses.replace(found.system, **assignments)) if assignments else found


def _check_known(name: str, assignments: dict[str, Any], known: list[str]) -> None:
    for parameter in assignments:
        if parameter not in known:
            raise Usage(
                f"{name}: no parameter called {parameter!r}", f"Its parameters are {', '.join(known) or 'none'}."
            )
