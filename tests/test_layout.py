"""The architecture: modules import only what stands above them in this list."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "bricard"
ORDER = (
    "collecting",
    "errors",
    "files",
    "native",
    "interrupt",
    "tracing",
    "rounding",
    "lapack",
    "spatial",
    "system",
    "mechanism",
    "equations",
    "simulate",
    "control",
    "stability",
    "symbolic",
    "io",
    "report",
    "gallery",
    "cli",
)
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def layer(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(tree):
    """Modules of bricard imported at the top of a file; imports inside functions are late on purpose."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bricard":
            parts = (node.module or "").split(".")
            yield from ([parts[1]] if len(parts) > 1 else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("bricard."))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_upwards(path):
    assert layer(path) in ORDER, f"where does {layer(path)} stand?"
    tree = ast.parse(path.read_text())
    below = [name for name in imports(tree) if ORDER.index(name) > ORDER.index(layer(path))]
    assert below == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_star_imports_and_no_file_to_be_afraid_of(path):
    text = path.read_text()
    stars = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]
    assert stars == []
    assert len(text.splitlines()) <= 450


def test_every_public_name_is_documented():
    import bricard as br

    hidden = ("os", "jax", "jaxtyping")
    public = {name: getattr(br, name) for name in dir(br) if not name.startswith("_") and name not in hidden}
    assert [name for name, thing in public.items() if not (thing.__doc__ or "").strip()] == []
