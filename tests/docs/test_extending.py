"""The code of the page on extending runs, in order."""

import re
import sys
import types
from pathlib import Path

import pytest

from tgp.coarsen.methods import METHODS
from tgp.poolers import pooler_map

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "extending.md"
BLOCK = re.compile(r"(?:<!-- saved as (\w+)\.py -->\n+)?```python\n(.*?)```", flags=re.S)
SAVED = "leaves"


@pytest.fixture
def restored(monkeypatch):
    """Tables and modules as they were."""
    for table in (METHODS, pooler_map):
        monkeypatch.setattr(table, "entries", dict(table.entries))
        monkeypatch.setattr(table, "_loaded", dict(table._loaded))
    yield
    for name in (SAVED, "extending_page"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_every_block_runs(tmp_path, monkeypatch, restored):
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 10
    monkeypatch.syspath_prepend(str(tmp_path))
    page = types.ModuleType("extending_page")  # the page is one module, so that its classes have a home
    sys.modules[page.__name__] = page
    for saved, code in blocks:
        if saved == SAVED:
            (tmp_path / f"{saved}.py").write_text(code)
            continue
        exec(compile(code, f"{PAGE.name}: {code.splitlines()[0]}", "exec"), page.__dict__)
    assert "leaves" in METHODS and "conductance" in pooler_map
