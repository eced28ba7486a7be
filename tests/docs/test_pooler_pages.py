"""One page per pooler, from the catalog. Installed packages do not change the pages."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tgp.inspect.catalog import describe_pooler, list_poolers

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def pages(tool):
    return tool("pooler_pages")


def own_poolers():
    return [pooler.alias for pooler in list_poolers() if pooler.package is None]


def test_every_pooler_has_a_page_and_no_other_name_has_one():
    assert {path.stem for path in (DOCS / "reference/poolers").iterdir()} == set(own_poolers())


@pytest.mark.parametrize("name", own_poolers())
def test_a_page_says_all_that_a_user_needs(name):
    page, info = (DOCS / f"reference/poolers/{name}.md").read_text(), describe_pooler(name)
    for heading in ("What it does", "Use it for", "Avoid it when", "Complexity", "Example"):
        assert f"\n## {heading}\n" in page
    assert f"img/poolers/{name}.svg" in page
    assert all(paper.url in page for paper in info.papers)
    assert ("```bash\ntgp coarsen" in page) == info.precoarsenable
    tables = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.*) \|$", page, flags=re.M)
    assert [row[0] for row in tables] == [
        p.name for p in [*(info.parameters or []), *(info.layer_parameters or [])]
    ]
    assert all(kind and default and meaning for _, kind, default, meaning in tables)


def test_pages_do_not_list_poolers_of_other_packages(tmp_path):
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tgp.poolers]\ntheirs = their_package:Theirs\n")
    (tmp_path / "their_package.py").write_text("class Theirs: pass\n")
    code = (
        "from pooler_pages import index_page, nav_lines\n"
        "from tgp.inspect.catalog import list_poolers\n"
        "assert any(pooler.alias == 'theirs' for pooler in list_poolers())\n"
        "assert 'theirs' not in index_page('') + nav_lines()\n"
    )
    paths = [str(tmp_path), str(DOCS.parent), str(DOCS / "_tools")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_required_parameter_without_a_value_of_its_own_gets_one_of_its_type(pages, monkeypatch):
    monkeypatch.setattr(pages, "EXAMPLE", {"in_channels": "8"})
    (entry,) = (e for e in pages.pooler_entries() if e.alias == "mincut")
    monkeypatch.setattr(pages, "EXAMPLE_TYPES", {"int": "7"})
    assert 'get_pooler("mincut", in_channels=8, k=7)' in pages.pooler_page(entry, "")


def test_cells_do_not_end_at_a_bar(pages):
    assert pages._cell("`|w| <= 1`\n and `a`") == "<code>&#124;w&#124; &lt;= 1</code> and `a`"
    assert pages._cell("a | b") == "a &#124; b"
