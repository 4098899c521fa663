"""Every Python snippet of the README and the documentation runs, page by page.

Blocks marked `python` run by default; a page with longer ones, marked `py`, runs as a whole among the slow tests.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = {
    page.relative_to(ROOT).as_posix(): re.findall(r"```python\n(.*?)```", page.read_text(), re.S) for page in PAGES
}
LONG = {
    page.relative_to(ROOT).as_posix(): re.findall(r"```py(?:thon)?\n(.*?)```", page.read_text(), re.S)
    for page in PAGES
    if "```py\n" in page.read_text()
}


LASTING = tuple(f"docs/how-to/{name}.md" for name in ("control", "build-a-mechanism", "stability-examples", "contact"))
"""Pages that take more than half a minute."""


def _page(page):
    return pytest.param(page, marks=pytest.mark.slow) if page in LASTING else page


@pytest.mark.parametrize("page", [_page(page) for page, snippets in SNIPPETS.items() if snippets])
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, SNIPPETS[page])


@pytest.mark.slow
@pytest.mark.parametrize("page", LONG)
def test_long_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, LONG[page])


def run(page, snippets):
    scope: dict = {"__name__": "snippet"}
    for snippet in snippets:
        exec(compile(snippet, page, "exec"), scope)


@pytest.mark.parametrize("page", SNIPPETS)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", text)
    missing = [t for t in targets if not ((ROOT / page).parent / t).exists()]
    assert missing == []


def test_the_gallery_page_lists_every_example():
    import bricard as br

    text = (ROOT / "docs" / "gallery.md").read_text()
    assert [name for name in br.gallery.names() if f"`{name}`" not in text] == []


def test_the_site_has_every_page():
    listed = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:])


def test_pictures_are_of_examples_and_small():
    import bricard as br

    folder = ROOT / "docs" / "images" / "gallery"
    assert {path.stem for path in folder.iterdir()} <= set(br.gallery.names())
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
