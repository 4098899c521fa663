"""The public API is listed in `tests/api.txt`, so that every change of a name or a signature shows in review.

Write the file anew with `python -m tests.test_api`.
"""

import inspect
import re
from pathlib import Path

import bricard as br
import bricard.report

LISTING = Path(__file__).parent / "api.txt"
MODULES = {
    "bricard": br,
    "bricard.control": br.control,
    "bricard.stability": br.stability,
    "bricard.symbolic": br.symbolic,
    "bricard.report": bricard.report,
}


def listing():
    """One line for each public name, and for each public method of a public class."""
    lines = []
    for prefix, module in MODULES.items():
        names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        for name in sorted(names):
            thing = getattr(module, name)
            if not inspect.ismodule(thing):
                lines += described(f"{prefix}.{name}", thing)
    return "\n".join(lines) + "\n"


def described(name, thing):
    if not inspect.isclass(thing):
        return [f"{name}{signature(thing)}" if callable(thing) else name]
    lines = [f"class {name}{signature(thing)}"]
    for member, value in sorted(vars(thing).items()):
        if member.startswith("_") or not getattr(value, "__doc__", None):
            continue
        if isinstance(value, property) or not callable(getattr(value, "__func__", value)):
            lines.append(f"    {name}.{member}")
        else:
            lines.append(f"    {name}.{member}{signature(getattr(thing, member))}")
    return lines


def signature(thing):
    """Names and kinds of the parameters; annotations and defaults would make the list unreadable."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return "(…)"
    shown, keyword_only = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            shown.append("*")
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        keyword_only |= p.kind is p.VAR_POSITIONAL
        shown.append(stars + p.name + ("=…" if p.default is not p.empty else ""))
    return f"({', '.join(shown)})"


def test_the_public_api_is_as_listed():
    assert listing() == LISTING.read_text(), "run `python -m tests.test_api` and review the difference"


def test_every_public_name_has_a_place_in_the_reference():
    pages = "\n".join(p.read_text() for p in (LISTING.parents[1] / "docs" / "reference").glob("*.md"))
    documented = set(re.findall(r"^::: (\S+)", pages, flags=re.MULTILINE))
    missing = []
    for prefix, module in MODULES.items():
        for name in getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]:
            thing = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(thing):
                continue
            here = {f"{prefix}.{name}", f"{thing.__module__}.{thing.__qualname__}", thing.__module__}
            here |= {f"{thing.__module__.rsplit('.', k)[0]}.{name}" for k in (1, 2)}
            if not here & documented:
                missing.append(f"{prefix}.{name}")
    assert missing == []


if __name__ == "__main__":
    LISTING.write_text(listing())
