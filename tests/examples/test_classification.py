"""The classification example: any pooler does about as well as none where none does well."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "classification.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.slow
def test_poolers_tell_grids_from_tori(example, capsys):
    """Message passing alone separates these: a pooler must not lose what it saw."""
    poolers = "nopool,topk,mincut,graclus"
    found = example["main"](["--dataset", "grid", "--epochs", "20", "--pooler", poolers])
    assert found["nopool"] > 0.9
    assert all(accuracy >= found["nopool"] - 0.05 for accuracy in found.values()), found
    assert "accuracy" in capsys.readouterr().out


def test_default_set_and_pooler(example):
    found = example["main"](["--epochs", "1"])
    assert list(found) == ["topk"] and 0 <= found["topk"] <= 1


def test_every_pooler_is_offered(example, monkeypatch):
    from tgp.poolers import pooler_map

    seen = []
    monkeypatch.setitem(
        example["main"].__globals__, "train", lambda graphs, name, *rest: seen.append(name) or 0.5
    )
    example["main"](["--all", "--dataset", "molecules:num_graphs=10"])
    assert seen[0] == "nopool" and sorted(seen) == sorted(pooler_map)
