"""The clustering example finds planted communities."""

import runpy
from pathlib import Path

import pytest
import torch

from tgp.errors import TgpError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "clustering.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture(autouse=True)
def same_random_state():
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def test_nmi(example):
    nmi = example["nmi"]
    one = torch.tensor([0, 0, 1, 1, 2, 2])
    assert nmi(one, (one + 1) % 3) == pytest.approx(1)
    assert nmi(one, torch.tensor([0, 1, 0, 1, 0, 1])) == pytest.approx(0, abs=1e-12)
    assert nmi(one, torch.zeros(6, dtype=torch.long)) == 0
    # I = log 2, H = log 3, H' = log 2
    assert nmi(one, torch.tensor([0, 0, 0, 0, 1, 1])) == pytest.approx(
        2 * 0.636514 / (1.098612 + 0.636514), abs=1e-5
    )


@pytest.mark.slow
def test_poolers_see_communities_that_features_hide(example, capsys):
    means = example["main"](["--pooler", "mincut,dmon", "--seeds", "1"])
    assert list(means) == ["k-means", "mincut", "dmon"]
    assert means["k-means"] < 0.3 and min(means["mincut"], means["dmon"]) > 0.7
    assert "mincut" in capsys.readouterr().out


def test_all_dense_poolers_with_a_loss_run(example):
    dense = "acc,bnpool,diff,dmon,hosc,jb,mincut"
    means = example["main"](["--pooler", dense, "--epochs", "1", "--seeds", "1"])
    assert all(0 <= value <= 1 for value in means.values()) and len(means) == 8


@pytest.mark.parametrize("pooler", ["topk", "maxcut", "ndp"])
def test_a_pooler_without_soft_clusters_is_refused(example, pooler):
    with pytest.raises(TgpError, match=pooler):
        example["main"](["--pooler", pooler, "--epochs", "1", "--seeds", "1"])


def test_graphs_without_labels_of_nodes_are_refused(example):
    with pytest.raises(TgpError, match="label for every node"):
        example["main"](["--dataset", "molecules:num_graphs=2"])
