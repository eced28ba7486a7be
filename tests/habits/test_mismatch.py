"""Run ``tgp coarsen`` again with other data or settings."""

import json

import pytest

from tgp_cli.main import run

MINE = """
import torch
from torch_geometric.data import Data

ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])


def load():
    return [Data(x=torch.rand(6, 2), edge_index=ring) for _ in range(5)]


def seeded():
    torch.manual_seed(0)
    return load()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)


def coarsen(*words):
    return run(["coarsen", "--out", "pooled/mine", "--pooler", "graclus", *words])


def test_a_function_with_random_numbers(capsys):
    assert coarsen("--dataset", "mine.py:load") == 0
    capsys.readouterr()
    assert coarsen("--dataset", "mine.py:load") == 2
    shown = capsys.readouterr().err
    assert "graph 0 is the first that differs: x[0, 0] is" in shown
    assert "although the description of the dataset is the same" in shown
    assert "seed" in shown and "--force" in shown and "--out" in shown
    assert "{" not in shown and "\\n" not in shown


def test_a_function_with_a_fixed_seed_is_up_to_date():
    assert coarsen("--dataset", "mine.py:seeded") == 0
    assert coarsen("--dataset", "mine.py:seeded") == 0


def test_another_parameter(capsys):
    assert coarsen("--dataset", "grid:num_graphs=3") == 0
    assert coarsen("--dataset", "grid:num_graphs=3", "--seed", "7") == 2
    assert "  - hierarchy 'graclus': seed 0 in the store, 7 asked for\n" in capsys.readouterr().err
    assert coarsen("--dataset", "grid:num_graphs=4") == 2
    assert "  - number of graphs: 3 in the store, 4 asked for\n" in capsys.readouterr().err


def test_json_has_the_fields(capsys):
    assert coarsen("--dataset", "grid:num_graphs=3") == 0
    capsys.readouterr()
    assert coarsen("--dataset", "grid:num_graphs=3", "--seed", "7", "--json") == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["type"] == "StoreMismatchError"
    (difference,) = error["differences"]
    assert (difference["what"], difference["stored"], difference["asked"]) == ("seed", 0, 7)


def test_a_dry_run_tells_it_too(capsys):
    assert coarsen("--dataset", "grid:num_graphs=3") == 0
    assert coarsen("--dataset", "grid:num_graphs=3", "--seed", "7", "--dry-run") == 2
    assert "seed 0 in the store, 7 asked for" in capsys.readouterr().err
