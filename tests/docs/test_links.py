"""Links between pages lead to files and headings that exist; every page is in the navigation. Needs no mkdocs."""

import importlib
import re
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")] if "changes" not in p.parts)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|<!--.*?-->", flags=re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)$", flags=re.M)
THEMES = {"only-light", "only-dark"}
"""Anchors that show a picture in one theme only."""

IN_NAV = re.compile(r"^ +- (?:.*: )?(\S+\.md)$", flags=re.M)


def slug(heading):
    """The anchor that a heading gets, in mkdocs and on code hosts alike for plain words."""
    text = unicodedata.normalize("NFKD", re.sub(r"[`*]", "", heading)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def anchors(page):
    """Headings, and the names that a page of the API shows."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    shown = [importlib.import_module(name) for name in re.findall(r"^::: (\S+)$", text, flags=re.M)]
    names = {f"{module.__name__}.{name}" for module in shown for name in getattr(module, "__all__", [])}
    return (
        names | {module.__name__ for module in shown} | {slug(heading) for heading in HEADING.findall(text)}
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        if anchor in THEMES and Path(path).suffix in {".png", ".svg"}:
            anchor = ""
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        if DOCS in page.parents:
            assert DOCS in target.parents, f"{link}: outside of the built pages"
            assert target.is_file(), f"{link}: a folder has no page"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def test_every_page_is_in_the_navigation():
    listed = set(IN_NAV.findall((ROOT / "mkdocs.yml").read_text()))
    there = {p.relative_to(DOCS).as_posix() for p in PAGES if DOCS in p.parents}
    decisions = {name for name in there if re.fullmatch(r"decisions/\d.*", name)}
    assert listed == there - decisions, "add the page to nav in mkdocs.yml, or take it out"
    index = (DOCS / "decisions" / "index.md").read_text()
    assert all(f"({Path(name).name})" in index for name in decisions)


def test_titles_of_decisions_begin_with_their_numbers():
    for page in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        title = page.read_text(encoding="utf-8").splitlines()[0]
        assert re.match(rf"# {page.name[:4]} \w", title.replace("`", "")), page.name


def test_every_term_of_the_glossary_is_in_order():
    terms = re.findall(r"^\*\*(.+)\*\*$", (DOCS / "glossary.md").read_text(), flags=re.M)
    assert len(terms) > 20 and terms == sorted(terms, key=str.lower)


def test_pictures_are_small_and_used():
    text = "".join(page.read_text() for page in PAGES)
    for picture in (p for p in (DOCS / "img").rglob("*") if p.is_file()):
        name = picture.relative_to(DOCS).as_posix()
        assert picture.stat().st_size < 200_000, name
        assert name in text, f"{name} is not used"
