"""Markdown that the built pages would show in another way than intended: lists and tables without an empty line before them, and
bars in cells."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(p for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if "changes" not in p.parts)
FENCE = re.compile(r"^( *)```.*?^\1```$", flags=re.M | re.S)
ITEM = re.compile(r"(?:- |\d+\. |\| )")
BEFORE = re.compile(r"\s*(?:- |\d+\. |\||#|$)|\s+\S|<!--.*-->$")
"""Lines after which an item begins or continues a list or a table."""


def swallowed(text):
    """Return the items that continue a paragraph."""
    lines = FENCE.sub("", text).splitlines()
    return [line for before, line in pairwise(lines) if ITEM.match(line) and not BEFORE.match(before)]


def test_an_item_without_an_empty_line_is_found():
    text = "Two kinds:\n- one\n- two\n\n- three\n  more\n- four\n\n```\nx\n- y\n```\n"
    assert swallowed(text) == ["- one"]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_lists_begin_after_an_empty_line(page):
    assert swallowed(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_code_in_cells_has_no_escaped_bars(page):
    """The built page would show the backslash. Write ``<code>a &#124; b</code>`` instead."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if re.search(r"`[^`]*\\\|[^`]*`", line)] == []
