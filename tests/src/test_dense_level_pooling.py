"""DenseLevelPooling: soft assignments of the engine in every output form."""

import numpy as np
import pytest
import torch
from torch_geometric.utils import erdos_renyi_graph, to_dense_adj

from tgp.connect import DenseConnect
from tgp.engine import LevelSpec, coarsen
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce
from tgp.select import LevelSelect
from tgp.src import DenseLevelPooling
from tgp.utils.blocks import to_block

K = 3


class SoftSelect(LevelSelect):
    def __init__(self, seed=0):
        super().__init__("nmf", {"k": K}, seed=seed)


class Soft(DenseLevelPooling):
    """Smallest possible dense level pooler."""

    def __init__(self, sparse_output=False):
        super().__init__(
            selector=SoftSelect(),
            reducer=BaseReduce(),
            lifter=BaseLift(),
            connector=DenseConnect(sparse_output=sparse_output),
            adj_transpose=True,
            batched=False,
            sparse_output=sparse_output,
        )
        self.preconnector = DenseConnect(sparse_output=True)
        self._use_engine(LevelSpec.of("nmf", {"k": K}))


def graphs():
    torch.manual_seed(4)
    edges = torch.cat([erdos_renyi_graph(7, 0.5), erdos_renyi_graph(5, 0.6) + 7], dim=1)
    return edges, torch.tensor([0] * 7 + [1] * 5), torch.rand(12, 2)


def test_dense_and_sparse_results_of_engine_and_torch_agree():
    edges, batch, x = graphs()
    dense, sparse = Soft()(x=x, adj=edges, batch=batch), Soft(True)(x=x, adj=edges, batch=batch)
    assert dense.x.shape == (2, K, 2) and dense.edge_index.shape == (2, K, K) and dense.batch.numel() == 2 * K
    assert sparse.x.shape == (2 * K, 2)
    flat = to_dense_adj(sparse.edge_index, edge_attr=sparse.edge_weight, max_num_nodes=2 * K)[0]
    torch.testing.assert_close(flat, torch.block_diag(*dense.edge_index.mT))
    by_torch, _ = DenseConnect()(edges, dense.so)
    torch.testing.assert_close(dense.edge_index.mT, by_torch)
    weight = torch.ones(edges.size(1), requires_grad=True)
    graded = Soft()(x=x, adj=edges, edge_weight=weight, batch=batch)
    torch.testing.assert_close(graded.edge_index, dense.edge_index)
    assert graded.edge_index.requires_grad


@pytest.mark.parametrize("sparse_output", [False, True])
def test_precoarsening_is_the_engine(sparse_output):
    edges, batch, _ = graphs()
    pooler = Soft(sparse_output)
    levels = pooler.multi_level_precoarsening(2, edges, batch=batch)
    source = to_block(edges, None, batch)
    hierarchy = coarsen(source.block, [pooler._spec] * 2)
    for level, made in zip(levels, hierarchy.levels, strict=True):
        assert np.array_equal(level.so.s, made.assignment.soft)
        assert np.array_equal(level.edge_index, made.block.edge_index())
        assert np.array_equal(level.edge_weight, made.block.weight.astype(np.float32))
        assert level.batch.tolist() == [0] * K + [1] * K and level.so.batch is not None
        assert level.as_data().mask.shape == (2, K)
    swapped = Soft()
    swapped.preconnector = DenseConnect(sparse_output=True, degree_norm=False)
    raw = swapped.precoarsening(edges, batch=batch)
    assert raw.edge_weight.max() > levels[0].edge_weight.max()


def test_given_assignment_lift_and_unsorted_batch():
    edges, batch, x = graphs()
    pooler = Soft()
    out = pooler(x=x, adj=edges, batch=batch)
    again = pooler(x=x, adj=edges, batch=batch, so=out.so)
    assert again.so is out.so
    torch.testing.assert_close(again.edge_index, out.edge_index)
    assert pooler(x=out.x, so=out.so, batch_pooled=out.batch, lifting=True).shape == (12, 2)
    places = torch.tensor([0, 2, 4, 6, 8, 9, 10, 1, 3, 5, 7, 11])  # graph 1 sits between nodes of graph 0
    mixed = torch.zeros(12, dtype=torch.long).index_fill(0, places[7:], 1)
    moved = pooler(x=x[places.argsort()], adj=places[edges], batch=mixed)
    assert torch.equal(moved.so.s[places], out.so.s)
    torch.testing.assert_close(moved.edge_index, out.edge_index)
    torch.testing.assert_close(moved.x, out.x)
