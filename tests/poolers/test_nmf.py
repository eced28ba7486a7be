"""NMFPooling and NMFSelect."""

import numpy as np
import pytest
import torch
from torch_geometric.utils import erdos_renyi_graph

from tgp.engine import coarsen
from tgp.poolers import NMFPooling, get_pooler
from tgp.select import NMFSelect
from tgp.utils.blocks import to_block


def path(n, start=0):
    index = torch.arange(n - 1) + start
    return torch.cat([torch.stack([index, index + 1]), torch.stack([index + 1, index])], dim=1)


def batch_of_three():
    """Graphs of 6, 0 and 2 nodes; the last two nodes of the first are isolated."""
    return torch.cat([path(4), path(2, 6)], dim=1), torch.tensor([0] * 6 + [2] * 2)


def test_single_graph_has_the_width_it_needs():
    so = NMFSelect(5)(edge_index=path(3))
    assert torch.equal(so.s, torch.eye(3))
    assert torch.equal(NMFSelect(5)(edge_index=path(3), fixed_k=True).s, torch.eye(5)[:3])
    assert torch.equal(NMFSelect(1)(edge_index=path(4)).s, torch.ones(4, 1))
    assert NMFSelect(3)(edge_index=path(8)).s.shape == (8, 3)
    assert NMFSelect(3)(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0).s.shape == (0, 1)


def test_batches_are_padded_to_k():
    edges, batch = batch_of_three()
    so = NMFSelect(3)(edge_index=edges, batch=batch)
    assert so.s.shape == (8, 3) and so.s.dtype == torch.float32
    torch.testing.assert_close(so.s.sum(1), torch.ones(8))
    assert torch.equal(so.s[6:], torch.eye(3)[:2])
    torch.testing.assert_close(so.s[4:6], torch.full((2, 3), 1 / 3))
    assert so.batch is batch
    assert so.out_mask.tolist() == [[True] * 3, [False] * 3, [True, True, False]]


def test_edgeless_golden():
    so = NMFSelect(2)(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=5)
    assert (so.s == 0.5).all()


def test_result_depends_on_the_seed():
    edges = erdos_renyi_graph(20, 0.3)
    assert torch.equal(NMFSelect(4)(edge_index=edges).s, NMFSelect(4)(edge_index=edges).s)
    assert not torch.equal(NMFSelect(4)(edge_index=edges).s, NMFSelect(4, seed=1)(edge_index=edges).s)


@pytest.mark.parametrize("sparse_output", [False, True])
def test_forward_shapes(sparse_output):
    edges, batch = batch_of_three()
    x = torch.randn(8, 2)
    pooler = NMFPooling(3, sparse_output=sparse_output)
    out = pooler(x=x, adj=edges, batch=batch)
    if sparse_output:
        assert out.x.shape == (9, 2) and out.edge_index.shape[0] == 2
        assert int(out.edge_index.max()) < 9 and out.edge_weight.numel() == out.edge_index.size(1)
    else:
        assert out.x.shape == (3, 3, 2) and out.edge_index.shape == (3, 3, 3) and out.edge_weight is None
        torch.testing.assert_close(out.x[0], out.so.s[:6].t() @ x[:6])
        assert (out.x[1] == 0).all()
    assert out.batch.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert out.loss is None
    assert pooler(x=out.x, so=out.so, batch=batch, batch_pooled=out.batch, lifting=True).shape == (8, 2)


def test_small_single_graph_has_matching_features_and_edges():
    out = NMFPooling(5)(x=torch.randn(3, 2), adj=path(3))
    assert out.x.shape == (1, 3, 2) and out.edge_index.shape == (1, 3, 3)
    torch.testing.assert_close(out.edge_index[0, 0, 1], torch.tensor(0.5**0.5))


def test_layer_transform_and_engine_agree():
    edges, batch = batch_of_three()
    pooler = NMFPooling(3, sparse_output=True, seed=5)
    layer = pooler(x=torch.randn(8, 1), adj=edges, batch=batch)
    level = pooler.precoarsening(edges, batch=batch)
    engine = coarsen(to_block(edges, None, batch).block, "nmf:k=3", 5).levels[0]
    for out in (layer, level):
        assert np.array_equal(out.so.s, engine.assignment.soft)
        assert np.array_equal(out.edge_index, engine.block.edge_index())
        assert np.array_equal(out.edge_weight, engine.block.weight.astype(np.float32))
        assert out.batch.numel() == 9


def test_precoarsening_always_has_k_columns():
    pooler = NMFPooling(4)
    levels = pooler.multi_level_precoarsening(2, path(3))
    assert [level.so.s.shape for level in levels] == [(3, 4), (4, 4)]
    assert levels[0].batch.tolist() == [0] * 4
    assert torch.equal(levels[1].so.s, torch.eye(4))


def test_given_assignment_is_used():
    edges = path(6)
    so = NMFSelect(2, seed=9)(edge_index=edges)
    assert NMFPooling(2)(x=torch.randn(6, 1), adj=edges, so=so).so is so


def test_batched_gives_a_warning_and_has_no_effect():
    with pytest.warns(UserWarning, match="batched=True has no effect"):
        pooler = NMFPooling(2, batched=True)
    assert pooler.batched is False
    x = torch.randn(6, 3)
    torch.testing.assert_close(pooler(x=x, adj=path(6)).x, NMFPooling(2)(x=x, adj=path(6)).x)


def test_parameters_reach_the_engine():
    pooler = get_pooler("nmf", k=3, tol=0.1, max_sweeps=2, degree_norm=False, remove_self_loops=False, seed=4)
    assert str(pooler._spec) == "nmf:k=3:remove_self_loops=false:degree_norm=false:tol=0.1:max_sweeps=2"
    assert pooler.seed == 4
    out = pooler(x=torch.randn(6, 1), adj=path(6))
    torch.testing.assert_close(out.edge_index.sum(), torch.tensor(10.0))
    with pytest.raises(ValueError, match="k is out of range"):
        NMFPooling(0)
