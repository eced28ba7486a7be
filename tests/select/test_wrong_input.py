"""Selectors that are called directly with wrong ids or lengths raise an error instead of crashing."""

import subprocess
import sys

import pytest
import torch

from tgp.select import (
    EdgeContractionSelect,
    EigenPoolSelect,
    GraclusSelect,
    KMISSelect,
    LaPoolSelect,
    MaxCutSelect,
    NDPSelect,
    NMFSelect,
    SEPSelect,
    TopkSelect,
)

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 5], [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]])
ON_EDGES = {
    "graclus": GraclusSelect(),
    "ndp": NDPSelect(),
    "nmf": NMFSelect(2),
    "eigen": EigenPoolSelect(2),
    "sep": SEPSelect(),
    "kmis": KMISSelect(4),
    "ec": EdgeContractionSelect(4),
    "maxcut": MaxCutSelect(4),
    "lap": LaPoolSelect(batched_representation=False),
}


@pytest.mark.parametrize("wrong", [6, 99, 10**12, -1, -(10**12)])
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("name", ON_EDGES)
def test_ids_out_of_range(name, end, wrong):
    edges = EDGES.clone()
    edges[end, 3] = wrong
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        ON_EDGES[name](x=X, edge_index=edges, num_nodes=6)


@pytest.mark.parametrize("name", ["graclus", "ndp", "nmf", "eigen", "sep", "kmis", "maxcut", "lap"])
@pytest.mark.parametrize("length", [3, 40])
def test_weights_of_wrong_length(name, length):
    with pytest.raises((ValueError, RuntimeError)):
        ON_EDGES[name](x=X, edge_index=EDGES, edge_weight=torch.ones(length), num_nodes=6)


@pytest.mark.parametrize("name", ["graclus", "ndp", "nmf", "eigen", "sep", "kmis", "maxcut", "lap", "topk"])
@pytest.mark.parametrize("length", [3, 40])
def test_graph_ids_of_wrong_length(name, length):
    selector = ON_EDGES.get(name, TopkSelect(4))
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        selector(x=X, edge_index=EDGES, batch=torch.zeros(length, dtype=torch.long), num_nodes=6)


def test_a_wrong_id_does_not_end_the_process():
    code = (
        "import torch\n"
        "from tgp.select import MaxCutScoreNet, EdgeContractionSelect\n"
        "for wrong in (6, 99, 10**6, -1):\n"
        "    for net in (MaxCutScoreNet(4), EdgeContractionSelect(4)):\n"
        "        try:\n"
        "            net(torch.randn(6, 4), torch.tensor([[0, wrong], [1, 0]]))\n"
        "        except (ValueError, IndexError, RuntimeError):\n"
        "            print('refused')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.split() == ["refused"] * 8
