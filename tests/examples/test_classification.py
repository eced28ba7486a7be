"""The classification example: no pooler loses what the network without pooling sees."""

import runpy
from pathlib import Path

import pytest
import torch

from tgp.errors import DatasetError, TgpError
from tgp.poolers import pooler_map

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "classification.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture(autouse=True)
def same_random_state():
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def table(out):
    """Rows of the printed table by pooler, without the header."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line[:2] == "| "]
    return {row[0]: row[1:] for row in rows[1:]}


@pytest.mark.slow
def test_poolers_keep_up_with_no_pooling(example, capsys):
    """Three classes; the full table over all poolers takes minutes."""
    words = ["--dataset", "families:num_graphs=300:noise=10", "--epochs", "12", "--seeds", "1"]
    found = example["main"]([*words, "--pooler", "topk,mincut,graclus"])
    assert next(iter(found)) == "nopool"
    assert found["nopool"][0] > 0.8
    assert all(accuracy[0] > 0.65 for accuracy in found.values()), found
    assert len(table(capsys.readouterr().out)) == 4


def test_default_set_and_pooler(example):
    found = example["main"](["--epochs", "1", "--seeds", "1"])
    assert list(found) == ["nopool", "topk"] and all(0 <= runs[0] <= 1 for runs in found.values())


@pytest.mark.parametrize("pooler", [*sorted(pooler_map), "hem", "leiden"])  # the last two have no class
def test_every_pooler_trains(example, pooler):
    words = ["--dataset", "families:num_graphs=30", "--epochs", "1", "--seeds", "1"]
    assert 0 <= example["main"]([*words, "--pooler", pooler])[pooler][0] <= 1


def test_all_poolers_are_judged_by_no_pooling(example, monkeypatch, capsys):
    """Mean over the seeds; five points below the bar still pass, more do not."""
    accuracy = {"nopool": 0.9, "topk": 0.86, "ndp": 0.84}

    def train(graphs, name, epochs, seed):
        return accuracy.get(name, 0.9) + (seed - 1) * 0.02

    monkeypatch.setitem(example["main"].__globals__, "train", train)
    found = example["main"](["--all", "--dataset", "families:num_graphs=10"])
    assert next(iter(found)) == "nopool" and sorted(found) == sorted(pooler_map)
    shown = table(capsys.readouterr().out)
    assert shown["nopool"] == ["90.0 ± 1.6", "-", "-"]
    assert shown["topk"] == ["86.0 ± 1.6", "-4.0", "ok"]
    assert shown["ndp"] == ["84.0 ± 1.6", "-6.0", "below"]


def test_filtered_graphs_come_with_their_weights(example, monkeypatch):
    """Just-balance wants a filtered adjacency: its weights must reach convolutions and pooler."""
    seen = {}
    forward = example["Net"].forward

    def watch(net, data):
        seen.setdefault(type(net.pooler).__name__, []).append(data.edge_weight)
        return forward(net, data)

    monkeypatch.setattr(example["Net"], "forward", watch)
    example["main"](
        ["--dataset", "families:num_graphs=10", "--epochs", "1", "--seeds", "1", "--pooler", "jb"]
    )
    assert all(weight is None for weight in seen["NoPool"])
    assert all(weight is not None and (weight != 1).all() for weight in seen["JustBalancePooling"])


def test_an_unknown_dataset_is_an_error_that_says_so(example, tmp_path):
    with pytest.raises(DatasetError, match="MUTAG"):
        example["main"](["--dataset", "MUTAGG", "--root", str(tmp_path)])


@pytest.mark.parametrize("dataset", ["regions:num_nodes=100", "regions:num_nodes=100:num_graphs=12"])
def test_labels_of_nodes_are_not_classes_of_graphs(example, dataset):
    with pytest.raises(TgpError, match="one class each"):
        example["main"](["--dataset", dataset])
