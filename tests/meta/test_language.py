"""Docstrings and pages use ordinary technical English."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(p for folder in ("tgp", "tgp_cli") for p in (ROOT / folder).rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPENINGS = re.compile(r"(What|Where|How|Whether|Told|Which)\b")
PHRASES = re.compile(
    r"\b(anew|so many|told apart|tell apart|behind one another|nobody|somebody|yardstick)\b", re.I
)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_docstrings_start_with_a_verb_or_a_noun(path):
    wrong = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            if OPENINGS.match(text):
                wrong.append(text.splitlines()[0])
    assert wrong == []


@pytest.mark.parametrize("path", [*MODULES, *PAGES], ids=lambda p: str(p.relative_to(ROOT)))
def test_no_unusual_phrases(path):
    assert PHRASES.findall(path.read_text()) == []
