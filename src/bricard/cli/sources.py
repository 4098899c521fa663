"""Names, parameters and titles of the gallery, parsed from its source, since importing it takes many seconds."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

_GALLERY = Path(__file__).parents[1] / "gallery"


@functools.cache
def gallery_names() -> dict[str, str]:
    """Location of the builder of each example, as "module:function", by name."""
    found = {}
    for node in _parsed("__init__").body:
        names = {t.id for t in node.targets if isinstance(t, ast.Name)} if isinstance(node, ast.Assign) else set()
        if isinstance(node, ast.Assign) and names & {"_EXAMPLES", "_SCENARIOS"}:
            found |= ast.literal_eval(node.value)
    return found


def gallery_parameters(name: str) -> list[str]:
    """Parameters of an example; empty for an unknown name."""
    builder = _builder(name)
    return [a.arg for a in (*builder.args.args, *builder.args.kwonlyargs)] if builder else []


def gallery_title(name: str) -> str | None:
    """Title of an example; None if it is not a literal in the source."""
    for node in ast.walk(_builder(name) or ast.Module([], [])):
        if isinstance(node, ast.keyword) and node.arg == "title":
            return str(node.value.value) if isinstance(node.value, ast.Constant) else None
    return None


def _builder(name: str) -> ast.FunctionDef | None:
    module, _, function = gallery_names().get(name, "").partition(":")
    if not (_GALLERY / f"{module}.py").is_file():
        return None
    found = (n for n in _parsed(module).body if isinstance(n, ast.FunctionDef) and n.name == function)
    return next(found, None)


@functools.cache
def _parsed(module: str) -> ast.Module:
    return ast.parse((_GALLERY / f"{module}.py").read_text("utf-8"))
