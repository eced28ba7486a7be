"""``NoPool`` returns its input and the identity assignment."""

import pytest
import torch

from tgp.poolers import NoPool
from tgp.select.identity_select import get_device

EDGES = torch.tensor([[0, 1], [1, 0]])


def test_returns_the_same_objects():
    x, w, batch = torch.rand(4, 2), torch.ones(2), torch.tensor([0, 0, 1, 1])
    pooler = NoPool()
    out = pooler(x=x, adj=EDGES, edge_weight=w, batch=batch)
    assert out.x is x and out.edge_index is EDGES and out.edge_weight is w and out.batch is batch
    assert out.so.num_nodes == 4 and out.so.node_index.tolist() == out.so.cluster_index.tolist() == [
        0,
        1,
        2,
        3,
    ]
    assert torch.equal(pooler(x=out.x, so=out.so, lifting=True), x)
    assert pooler.extra_repr_args() == {} and pooler.is_precoarsenable


def test_connectivity_may_be_missing_or_a_matrix():
    assert NoPool()(x=torch.rand(3, 2)).so.num_supernodes == 3
    coo = torch.sparse_coo_tensor(EDGES, torch.ones(2), (5, 5), check_invariants=False)
    assert NoPool()(adj=coo).so.num_nodes == 5
    with pytest.raises(NotImplementedError):
        NoPool()()
    with pytest.raises(ValueError, match="No device found"):
        get_device()


def test_precoarsening_does_not_change_batch():
    out = NoPool().precoarsening(edge_index=EDGES, num_nodes=4)
    assert out.batch is None and out.so.num_nodes == 4 and out.so.batch.tolist() == [0] * 4
    levels = NoPool().multi_level_precoarsening(2, EDGES, torch.ones(2), batch=torch.tensor([0, 1]))
    assert (
        len(levels) == 2 and levels[1].batch.tolist() == [0, 1] and levels[1].edge_weight.tolist() == [1, 1]
    )
    with pytest.raises(ValueError):
        NoPool().precoarsening()
