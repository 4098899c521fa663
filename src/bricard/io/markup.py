"""XML as a tree of elements, bounded in size and depth. It declares no entities, and no other file is opened."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from bricard.errors import ModelError

Element = ElementTree.Element

MOST_ELEMENTS = 30_000
MOST_LEVELS = 500
"""Elements within elements; MuJoCo's parser reads no more."""


class Document(NamedTuple):
    """The elements of a file."""

    root: Element
    lines: list[int]
    """Line of each element, in the order of `root.iter()`."""


class NamedFile(NamedTuple):
    """An attribute that names another file."""

    element: str
    attribute: str
    path: str


def parse(file: Path, text: str) -> Document:
    """The elements of an XML file; text between them is left out, since neither MJCF nor URDF needs it for structure.

    Text directly inside an element without children is kept, as in `<mechanicalReduction>50</mechanicalReduction>`.
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
        raise ModelError(str(file), [f"is not XML: {error}"]) from error
    assert builder.root is not None  # a document without elements is an error of the parser
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
            raise ModelError(str(self.file), [f"is too large to be a mechanism (more than {MOST_ELEMENTS} elements)"])
        if len(self.open) > MOST_LEVELS:
            raise ModelError(str(self.file), [f"line {line}: elements are nested more than {MOST_LEVELS} deep"])

    def end(self, _: str) -> None:
        self.open.pop()

    def text(self, text: str) -> None:
        self.open[-1].text = (self.open[-1].text or "") + text if len(self.open[-1]) == 0 else None

    def doctype(self, *_: object) -> None:
        problem = "declares a document type or entities, which may reach for other files: refused"
        raise ModelError(str(self.file), [problem])


def write(document: Document) -> str:
    """The elements and attributes as text, each element on the line that it had in the file."""
    lines = dict(zip(document.root.iter(), document.lines, strict=True))
    parts, line = [], 1
    waiting: list[Element | str] = [document.root]
    while waiting:
        element = waiting.pop()
        if isinstance(element, str):
            parts.append(element)
            continue
        parts.append("\n" * (lines[element] - line))
        line = max(line, lines[element])
        attributes = "".join(f' {name}="{_escaped(value)}"' for name, value in element.items())
        parts.append(f"<{element.tag}{attributes}>")
        waiting += [f"</{element.tag}>", *reversed(element)]
    return "".join(parts)


def _escaped(value: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        value = value.replace(character, entity)
    return "".join(f"&#{ord(c)};" if c in "\t\n\r" else c for c in value)


def named_files(root: Element) -> list[NamedFile]:
    """Every file that a model names, MJCF or URDF, whichever element and attribute names it."""
    return [
        NamedFile(element.tag, attribute, path)
        for element in root.iter()
        for attribute, path in element.items()
        if "file" in attribute.lower()
    ]
