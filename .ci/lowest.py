"""Print the oldest versions that pyproject.toml allows, as requirements for pip: those that the smoke test needs."""

import re
import tomllib
from pathlib import Path

TEST_TOOLS = ("beartype", "hypothesis", "pytest")


def lowest(project: dict) -> list[str]:
    """Each dependency, those of the extra `all` and the tools of the tests, pinned to its lower bound."""
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    chosen = [*project["dependencies"]]
    for extra in re.search(r"\[(.*)\]", everything).group(1).split(","):
        chosen += extras[extra]
    chosen += [x for x in extras["dev"] if re.match(r"[\w-]+", x).group() in TEST_TOOLS]
    return [re.sub(r"^([\w-]+)>=([\w.]+).*$", r"\1==\2", requirement) for requirement in chosen]


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    print(*lowest(tomllib.loads(text)["project"]), sep="\n")
