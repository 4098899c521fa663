"""What is refused of an MJCF file before MuJoCo sees it: other files, and models that are too large."""

from __future__ import annotations

import re

from bricard.io.markup import Document, Element, named_files

MOST_PARTS = 10_000
"""Elements, each counted as often as it is repeated. MuJoCo takes seconds for so many; time grows as their square."""

NOT_OPENED = ("mesh", "texture", "hfield", "skin")
"""Elements whose files only serve for pictures and contacts. They are left out unread."""

REFUSED = {
    "include": "put everything into one file",
    "model": "put everything into one file",
    "attach": "write the bodies of the other model into this one",
    "flexcomp": "flexible bodies are not understood",
    "flex": "flexible bodies are not understood",
    "plugin": "plugins are not understood",
    "extension": "plugins are not understood",
}
"""Elements that read other files, run other code or have no counterpart, and what to do about them."""

REPEATING = ("replicate", "composite")


def unsupported(root: Element) -> list[str]:
    """What in a file is refused by its name alone."""
    found = {}
    files = {(f.element, f.attribute): f for f in reversed(named_files(root))}
    for (tag, attribute), file in files.items():
        if tag not in NOT_OPENED or attribute != attribute.lower():
            advice = REFUSED.get(tag.lower(), "its file is not opened")
            found[tag.lower()] = f"<{tag} {attribute}={file.path!r}> names another file: {advice}"
    for element in root.iter():
        tag = element.tag.lower()
        if tag in REFUSED and tag not in found:
            found[tag] = f"<{element.tag}> is not supported: {REFUSED[tag]}"
    return list(found.values())


def too_large(root: Element) -> list[str]:
    """Whether the elements are too many when each `<replicate>` is written out."""
    total, waiting, problems = 0, [(root, 1)], []
    while waiting:
        element, times = waiting.pop()
        total += times
        if element.tag.lower() in REPEATING:
            for attribute, text in element.items():
                if attribute.lower() == "count":
                    counts = text.split()
                    if not counts or not all(re.fullmatch(r"\+?[0-9]{1,9}", x) for x in counts):
                        problems.append(f"<{element.tag}>: count must be whole numbers, not {_short(text)}")
                        counts = []
                    for count in counts:
                        times *= max(int(count), 1)
        waiting += [(child, times) for child in element]
        if total + times * len(element) > MOST_PARTS:
            cause = ", with what <replicate> repeats" if times > 1 else ""
            return [f"is too large to be a mechanism (more than {MOST_PARTS} elements{cause})"]
    return problems


def without_sizes(document: Document) -> Document:
    """The document without `<size>`: memory that MuJoCo would reserve for its own runs."""
    root, lines = document
    where = dict(zip(root.iter(), lines, strict=True))
    for element in [x for x in root if x.tag == "size"]:
        root.remove(element)
    return Document(root, [where[x] for x in root.iter()])


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
