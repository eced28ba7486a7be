"""A configuration file cannot run code; the command line can."""

import json

import pytest
from typer.testing import CliRunner

from tgp_cli.main import build_app

MODULE = """
from pathlib import Path
Path("imported").touch()
import numpy as np
from tgp.sources.tables import table_from_arrays

def make(n=2):
    Path("called").touch()
    return table_from_arrays({"edge_index": np.array([[0, 1], [1, 0]]), "num_nodes": np.array([n])}, "mine")
"""


def invoke(*arguments):
    words = [str(word) for word in arguments]
    return CliRunner().invoke(build_app(words), words)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_in_a_file.py").write_text(MODULE)
    (tmp_path / "c.toml").write_text('dataset = "mine_in_a_file:make"\npooler = "nopool"\n')
    return tmp_path


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--dry-run", "--json"), ("--seed", "3", "--force")])
def test_a_file_runs_nothing(folder, options):
    done = invoke("coarsen", "--config", "c.toml", *options)
    assert done.exit_code == 2
    assert "would run code" in done.stderr and "--dataset mine_in_a_file:make" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["c.toml", "mine_in_a_file.py"]


def test_functions_of_python_are_not_called(folder):
    (folder / "c.toml").write_text('dataset = "os:getcwd"')
    for options in ((), ("--dry-run",)):
        done = invoke("coarsen", "--config", "c.toml", *options)
        assert done.exit_code == 2 and "would run code" in done.stderr


def test_the_command_line_confirms(folder):
    given = ("--config", "c.toml", "--dataset", "mine_in_a_file:make:n=3", "--json", "-q")
    done = invoke("coarsen", *given)
    assert done.exit_code == 0 and json.loads(done.stdout)
    assert (folder / "called").exists()


def test_max_input(folder):
    import numpy as np

    np.savez_compressed("g.npz", edge_index=np.array([[0, 1], [1, 0]]), x=np.zeros((2, 50_000)))
    done = invoke("coarsen", "--dataset", "g.npz", "--dry-run", "--max-input", "100kB")
    assert done.exit_code == 2
    assert "needs too much memory" in done.stderr and "--max-input" in done.stderr
    assert invoke("coarsen", "--dataset", "g.npz", "--dry-run", "--max-input", "2MB").exit_code == 0
    (folder / "c.toml").write_text('dataset = "g.npz"\nmax-input = "100kB"\n')
    assert invoke("coarsen", "--config", "c.toml", "--dry-run").exit_code == 2
    assert invoke("coarsen", "--config", "c.toml", "--dry-run", "--max-input", "2MB").exit_code == 0
