"""The versions that pyproject.toml allows: bounds that were run, and the job that runs the lower ones."""

import importlib.metadata
import importlib.util
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
ALL = [Requirement(text) for texts in (PROJECT["dependencies"], *EXTRAS.values()) for text in texts]
REQUIREMENTS = [r for r in ALL if r.name != "bricard"]
NEEDED = [Requirement(text) for text in PROJECT["dependencies"]]

FEW_PUBLIC_NAMES = {"jaxtyping", "lazy-loader"}
"""Below 1.0, but used through a handful of documented names."""


def bounds(requirement, operator):
    return [x.version for x in requirement.specifier if x.operator == operator]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_every_dependency_has_a_lower_bound(requirement):
    assert len(bounds(requirement, ">=")) == 1


@pytest.mark.parametrize("requirement", NEEDED, ids=str)
def test_what_may_change_with_any_release_has_an_upper_bound(requirement):
    (low,) = bounds(requirement, ">=")
    unstable = low.startswith("0.") and requirement.name not in FEW_PUBLIC_NAMES
    assert len(bounds(requirement, "<")) == int(unstable)


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_the_installed_versions_are_allowed(requirement):
    try:
        installed = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{requirement.name} is not installed")
    assert requirement.specifier.contains(installed, prereleases=True)


def test_the_job_with_the_lowest_versions_pins_each_of_them():
    spec = importlib.util.spec_from_file_location("lowest", ROOT / ".ci" / "lowest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pins = {r.name: str(r.specifier) for r in map(Requirement, module.lowest(PROJECT))}
    assert {r.name for r in NEEDED} < set(pins)
    assert {"matplotlib", "mujoco", "typer", "pytest"} < set(pins)
    low = {r.name: bounds(r, ">=")[0] for r in REQUIREMENTS}
    assert pins == {name: f"=={low[name]}" for name in pins}
