"""The clustering example finds planted communities."""

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "clustering.py"


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("pygsp")
    return runpy.run_path(str(EXAMPLE))


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
def test_two_poolers_recover_communities(example, capsys):
    means = example["main"](["--poolers", "mincut,dmon", "--epochs", "100", "--lr", "3e-3", "--seeds", "1"])
    assert set(means) == {"mincut", "dmon"}
    assert min(means.values()) > 0.75
    assert "mincut" in capsys.readouterr().out


def test_real_data_needs_a_folder(example, capsys):
    with pytest.raises(SystemExit):
        example["main"](["--dataset", "Cora"])
    assert "--root" in capsys.readouterr().err
