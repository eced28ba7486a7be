"""The guide page runs as it stands."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "from-store-to-training.md"


def test_code_blocks_run(tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    names = {"__name__": "guide"}
    blocks = [(m.start(), m.group(1)) for m in re.finditer(r"```python\n(.*?)```", text, flags=re.S)]
    assert len(blocks) > 8
    for start, code in blocks:
        # Blank lines in front, so that an error names the line of the page.
        line = text.count("\n", 0, start) + 1
        exec(compile("\n" * line + code, str(PAGE), "exec"), names)


def test_links_lead_somewhere():
    prose = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.S)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    for link in links:
        assert link.startswith("http") or (PAGE.parent / link).exists(), link
