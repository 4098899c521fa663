"""Checks of an MJCF file before MuJoCo compiles it: references to other files, and the size of the model."""

from __future__ import annotations

import re

from bricard.io.markup import Document, Element, named_files

MOST_PARTS = 10_000
"""Largest number of elements, repetitions included. MuJoCo needs seconds for so many; the time grows quadratically."""

NOT_OPENED = ("mesh", "texture", "hfield", "skin")
"""Elements whose files are only used for rendering and contacts. They are ignored and their files are not read."""

REFUSED = {
    "include": "put everything into one file",
    "model": "put everything into one file",
    "attach": "copy the bodies of the other model into this file",
    "flexcomp": "bodies must be rigid",
    "flex": "bodies must be rigid",
    "plugin": "plugins are not loaded",
    "extension": "plugins are not loaded",
}
"""Elements that read other files, run other code or describe flexible bodies, each with a reason or advice."""

REPEATING = ("replicate", "composite")


def unsupported(root: Element) -> list[str]:
    """Problems with elements and attributes that are not supported, one message per element name."""
    problems = {}
    files = {(f.element, f.attribute): f for f in reversed(named_files(root))}  # the first of each kind
    for (tag, attribute), file in files.items():
        if tag not in NOT_OPENED or attribute != attribute.lower():
            advice = REFUSED.get(tag.lower(), "other files are not opened")
            problems[tag.lower()] = f"<{tag} {attribute}={file.path!r}> names another file: {advice}"
    for element in root.iter():
        tag = element.tag.lower()
        if tag in REFUSED and tag not in problems:
            problems[tag] = f"<{element.tag}> is not supported: {REFUSED[tag]}"
    return list(problems.values())


def too_large(root: Element) -> list[str]:
    """Problems with the number of elements, with `<replicate>` and `<composite>` expanded."""
    total, stack, problems = 0, [(root, 1)], []
    while stack:
        element, times = stack.pop()
        total += times
        if element.tag.lower() in REPEATING:
            for attribute, text in element.items():
                if attribute.lower() == "count":
                    counts = text.split()
                    if not counts or not all(re.fullmatch(r"\+?[0-9]{1,9}", x) for x in counts):
                        problems.append(f"<{element.tag}>: count must be whole numbers, not {_abbreviated(text)}")
                        counts = []
                    for count in counts:
                        times *= max(int(count), 1)
        stack += [(child, times) for child in element]
        if total + times * len(element) > MOST_PARTS:
            repeated = ", repetitions included" if times > 1 else ""
            return [f"the model is too large: it has more than {MOST_PARTS} elements{repeated}"]
    return problems


def without_sizes(document: Document) -> Document:
    """Return the document without `<size>`, which only makes MuJoCo reserve memory for simulations."""
    root, lines = document
    line_of = dict(zip(root.iter(), lines, strict=True))
    for element in [x for x in root if x.tag == "size"]:
        root.remove(element)
    return Document(root, [line_of[x] for x in root.iter()])


def _abbreviated(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
