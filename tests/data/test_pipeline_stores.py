"""Stores that `coarsen_dataset` builds contain the levels that the transform attaches."""

import sys

import pytest
import torch

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.data import PooledDataset, precoarsen
from tgp.inspect import verify_by_recompute


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64, None])
def test_weights_of_every_type(make_graphs, same, tmp_path, monkeypatch, dtype):
    graphs = make_graphs(12, weighted=dtype is not None)
    for data in graphs:
        if dtype is not None:
            data.edge_weight = (10 * data.edge_weight).to(dtype)
    module = type(sys)("graphs_for_the_pipeline")
    module.load = lambda: graphs
    monkeypatch.setitem(sys.modules, module.__name__, module)
    out = tmp_path / "store"
    config = CoarsenConfig(dataset=f"{module.__name__}:load", poolers=("graclus*2,ndp",), seed=4, out=out)
    coarsen_dataset(config)
    same(list(PooledDataset(out)), precoarsen(graphs, ["graclus", "graclus", "ndp"], 4))
    assert not verify_by_recompute(out)
