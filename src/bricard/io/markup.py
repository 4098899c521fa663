"""XML parser for untrusted files: the number and nesting of elements are bounded.

Document type declarations and entities are refused, and no other file is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from bricard.errors import ModelError

Element = ElementTree.Element

MOST_ELEMENTS = 30_000
MOST_LEVELS = 500
"""Largest nesting depth of elements; the parser of MuJoCo has the same limit."""


class Document(NamedTuple):
    """A parsed XML file."""

    root: Element
    lines: list[int]
    """Line number of each element, in the order of `root.iter()`."""


class NamedFile(NamedTuple):
    """An attribute that refers to another file."""

    element: str
    attribute: str
    path: str


def parse(file: Path, text: str) -> Document:
    """Parse the `text` of an XML `file`; raise a `ModelError` if it is invalid or too large.

    Only the text of elements without children is kept, as in `<mechanicalReduction>50</mechanicalReduction>`; MJCF and
    URDF need no other text.
    """
    builder = _Builder(file)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: builder.start(name, attributes, parser.CurrentLineNumber)
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.doctype
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise ModelError(str(file), [f"the file is not valid XML: {error}"]) from error
    assert builder.root is not None  # expat raises an error for a document without elements
    return Document(builder.root, builder.lines)


class _Builder:
    def __init__(self, file: Path):
        self.file, self.root = file, None
        self.open: list[Element] = []
        self.lines: list[int] = []

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        element = Element(name, attributes)
        if self.open:
            self.open[-1].append(element)
        else:
            self.root = element
        self.open.append(element)
        self.lines.append(line)
        if len(self.lines) > MOST_ELEMENTS:
            raise ModelError(str(self.file), [f"the file is too large: it has more than {MOST_ELEMENTS} elements"])
        if len(self.open) > MOST_LEVELS:
            raise ModelError(str(self.file), [f"line {line}: elements are nested more than {MOST_LEVELS} deep"])

    def end(self, _: str) -> None:
        self.open.pop()

    def text(self, text: str) -> None:
        self.open[-1].text = (self.open[-1].text or "") + text if len(self.open[-1]) == 0 else None

    def doctype(self, *_: object) -> None:
        problem = "the file declares a document type or entities, which could refer to other files: remove them"
        raise ModelError(str(self.file), [problem])


def write(document: Document) -> str:
    """Serialise elements and attributes, each element on its original line so that error messages stay valid."""
    lines = dict(zip(document.root.iter(), document.lines, strict=True))
    parts, line = [], 1
    stack: list[Element | str] = [document.root]  # strings are closing tags
    while stack:
        element = stack.pop()
        if isinstance(element, str):
            parts.append(element)
            continue
        parts.append("\n" * (lines[element] - line))
        line = max(line, lines[element])
        attributes = "".join(f' {name}="{_escaped(value)}"' for name, value in element.items())
        parts.append(f"<{element.tag}{attributes}>")
        stack += [f"</{element.tag}>", *reversed(element)]
    return "".join(parts)


def _escaped(value: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        value = value.replace(character, entity)
    return "".join(f"&#{ord(c)};" if c in "\t\n\r" else c for c in value)


def named_files(root: Element) -> list[NamedFile]:
    """All references to other files in an MJCF or URDF model: every attribute whose name contains "file"."""
    return [
        NamedFile(element.tag, attribute, path)
        for element in root.iter()
        for attribute, path in element.items()
        if "file" in attribute.lower()
    ]
