"""Lists and tables begin after an empty line: otherwise the built pages show them as one paragraph."""

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
