"""The notebooks are valid, have no outputs, and run from the first to the last cell without a network."""

import ast
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
KEYS = {
    "code": {"cell_type", "execution_count", "id", "metadata", "outputs", "source"},
    "markdown": {"cell_type", "id", "metadata", "source"},
}
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_there_are_four():
    names = {path.stem for path in NOTEBOOKS}
    assert names == {"first_hierarchy", "your_own_dataset", "one_big_graph", "write_a_pooler"}


@every_notebook
def test_is_valid_and_has_no_outputs(path):
    notebook = read(path)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in ids)
    for cell in notebook["cells"]:
        assert set(cell) == KEYS[cell["cell_type"]], cell["id"]
        assert isinstance(cell["source"], list) and all(isinstance(line, str) for line in cell["source"])
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, (
                f"{path.name}: clear the outputs"
            )
            ast.parse("".join(cell["source"]))  # no magic commands, which need a kernel


@every_notebook
def test_is_valid_for_jupyter(path):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(path, as_version=4))


@every_notebook
def test_explains_what_it_does(path):
    cells = read(path)["cells"]
    assert "".join(cells[0]["source"]).startswith("# ")
    for before, cell in itertools.pairwise(cells):
        assert (
            cell["cell_type"] == "markdown" or before["cell_type"] == "markdown" or len(cell["source"]) < 25
        )
    for link in re.findall(r"\]\((\w+\.ipynb)\)", json.dumps(cells)):
        assert (path.parent / link).exists(), link


def test_are_listed_in_the_documentation():
    for page in ("docs/guide/examples.md", "examples/README.md"):
        text = (ROOT / page).read_text()
        assert set(re.findall(r"notebooks/(\w+)\.ipynb", text)) == {path.stem for path in NOTEBOOKS}, page


@pytest.mark.slow
@every_notebook
def test_runs(path, tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TGP_DATA": str(tmp_path / "data"),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    runner = Path(__file__).parent / "notebook_runner.py"
    done = subprocess.run(
        [sys.executable, str(runner), str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "cell " in done.stdout
