"""The architecture: modules import only from layers above their own, anywhere in a file, also inside functions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "bricard"
ORDER = (
    "precision",
    "extensions",
    "errors",
    "files",
    "execution",
    "spatial",
    "system",
    "equations",
    "mechanism",
    "simulation",
    "contact",
    "control",
    "stability",
    "symbolic",
    "io",
    "report",
    "gallery",
    "cli",
    "configuration",
)
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
MAX_LINES = 400


def layer(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(path):
    """Modules of bricard that a file imports: at the top, inside functions and for type checking."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bricard":
            yield from ([node.module] if "." in node.module else [f"bricard.{alias.name}" for alias in node.names])
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("bricard."))


def exported_functions(package):
    """Names that the `__init__.py` of a package exports."""
    tree = ast.parse((package / "__init__.py").read_text())
    return {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_upwards(path):
    assert layer(path) in ORDER, f"add the layer {layer(path)} to ORDER"
    layers = {module.split(".")[1] for module in imported_modules(path)}
    assert [name for name in layers if ORDER.index(name) > ORDER.index(layer(path))] == []


@pytest.mark.parametrize("path", sorted((ROOT / "execution" / "llvm").glob("*.py")), ids=lambda p: p.name)
def test_the_llvm_back_end_imports_nothing_else_of_bricard(path):
    assert [m for m in imported_modules(path) if not m.startswith("bricard.execution.llvm")] == []


@pytest.mark.parametrize("path", sorted((ROOT / "execution").rglob("*.py")), ids=lambda p: p.name)
def test_execution_knows_nothing_of_mechanics(path):
    assert {module.split(".")[1] for module in imported_modules(path)} <= {"execution", "errors"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_star_imports_and_no_long_files(path):
    text = path.read_text()
    stars = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]
    assert stars == []
    assert len(text.splitlines()) <= MAX_LINES


@pytest.mark.parametrize("package", sorted(p.parent for p in ROOT.rglob("__init__.py")), ids=lambda p: p.name)
def test_no_module_is_shadowed_by_a_function(package):
    if package == ROOT:
        names = set(__import__("bricard").__all__)
        packages = {"control", "gallery", "stability", "symbolic"}  # exported as the packages that they are
    else:
        names, packages = exported_functions(package), set()
    modules = {p.stem for p in package.glob("*.py")} | {p.parent.name for p in package.glob("*/__init__.py")}
    assert names & modules - packages == set()


def test_file_names_are_unique():
    """One name, one subject: no two `shapes.py`."""
    names = [path.name for path in MODULES if path.name not in ("__init__.py", "__main__.py")]
    repeated = {name for name in names if names.count(name) > 1}

    assert repeated == set()


def test_importing_changes_no_environment_variable():
    import os
    import subprocess
    import sys

    program = (
        "import os; before = dict(os.environ); import bricard; bricard.simulate; assert dict(os.environ) == before"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)


def test_importing_sets_64_bit_floats_whenever_jax_is_imported():
    import subprocess
    import sys

    for first, second in (("bricard", "jax.numpy as jnp"), ("jax.numpy as jnp", "bricard")):
        program = f"import {first}; import {second}; assert jnp.ones(()).dtype == 'float64'"
        subprocess.run([sys.executable, "-c", program], check=True)


def test_every_public_name_is_documented():
    import bricard as br

    public = {name: getattr(br, name) for name in br.__all__ if not name.startswith("_")}
    assert [name for name, thing in public.items() if not (thing.__doc__ or "").strip()] == []
