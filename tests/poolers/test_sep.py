"""``SEPPooling`` as users call it. The tests of the kernels cover the tree."""

import pytest
import torch

from tgp.connect import SparseConnect
from tgp.errors import GraphError
from tgp.poolers import SEPPooling
from tgp.select import SelectOutput, SEPSelect
from tgp.testing.graphs import karate

PATH = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 5], [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]])
KARATE = torch.from_numpy(karate().edge_index())


def test_golden_path():
    out = SEPPooling()(x=torch.arange(6.0), adj=PATH)
    assert out.so.cluster_index.tolist() == [0, 0, 2, 2, 1, 1]
    assert out.x.flatten().tolist() == [1, 9, 5]
    assert out.so.weight.tolist() == [1.0] * 6
    # Degrees of the coarse path are 1, 2, 1, and degree_norm is on by default.
    assert out.edge_index.tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
    torch.testing.assert_close(out.edge_weight, torch.full((4,), 0.5**0.5))


def test_golden_karate():
    assert SEPPooling()(x=torch.ones(34, 1), adj=KARATE).x.flatten().sort().values.tolist() == [16, 18]
    for levels, sizes in ((2, [10, 2]), (3, [15, 10, 2])):
        outs = SEPPooling().multi_level_precoarsening(levels, KARATE)
        assert [out.so.num_supernodes for out in outs] == sizes
        assert [out.so.num_nodes for out in outs] == [34, *sizes[:-1]]


def test_levels_chain_in_a_batch_in_any_order():
    batch = torch.tensor([2, 0, 2, 0, 2, 0, 0])
    # Graph 0: nodes 1-3-5 and isolated 6; graph 2: nodes 0-2-4; graph 1 has no nodes.
    edges = torch.tensor([[1, 3, 3, 5, 0, 2, 2, 4], [3, 1, 5, 3, 2, 0, 4, 2]])
    first, second = SEPPooling().multi_level_precoarsening(2, edges, torch.ones(8), batch=batch)
    assert first.so.cluster_index.tolist() == [4, 0, 5, 1, 6, 2, 3]
    assert first.batch.tolist() == [0, 0, 0, 0, 2, 2, 2]
    assert second.so.cluster_index.tolist() == [0, 0, 1, 2, 3, 3, 4]
    assert second.batch.tolist() == [0, 0, 0, 2, 2] and second.so.batch.tolist() == first.batch.tolist()
    selected = SEPSelect().multi_level_select(edges, torch.ones(8), batch=batch, levels=2)
    for a, b in zip(selected, (first, second), strict=True):
        assert isinstance(a, SelectOutput) and torch.equal(a.cluster_index, b.so.cluster_index)
        assert torch.equal(a.batch, b.so.batch)


def test_levels_come_from_one_tree_without_the_engine():
    expected = SEPPooling().multi_level_precoarsening(3, KARATE)
    swapped = SEPPooling()
    swapped.connector = SparseConnect(degree_norm=True)
    weight = torch.ones(KARATE.size(1), requires_grad=True)
    for outs in (
        swapped.multi_level_precoarsening(3, KARATE),
        SEPPooling().multi_level_precoarsening(3, KARATE, weight),
    ):
        for a, b in zip(outs, expected, strict=True):
            assert torch.equal(a.so.cluster_index, b.so.cluster_index) and torch.equal(a.batch, b.batch)
    assert outs[-1].edge_weight.requires_grad


def test_edgeless_batch_is_the_identity():
    nothing = torch.empty(2, 0, dtype=torch.long)
    out = SEPPooling()(x=torch.rand(3, 2), adj=nothing, batch=torch.tensor([0, 0, 1]))
    assert out.so.cluster_index.tolist() == [0, 1, 2] and out.batch.tolist() == [0, 0, 1]


def test_results_are_reproducible_and_given_assignments_are_used():
    x = torch.rand(34, 3)
    first = SEPPooling()(x=x, adj=KARATE)
    assert torch.equal(SEPPooling()(x=x, adj=KARATE).x, first.x)
    given = SelectOutput(cluster_index=torch.arange(34) % 4)
    assert SEPPooling()(x=x, adj=KARATE, so=given).so is given
    assert SEPPooling()(x=first.x, so=first.so, lifting=True).shape == (34, 3)


def test_errors():
    with pytest.raises(ValueError, match="levels"):
        SEPPooling().multi_level_precoarsening(0, PATH)
    with pytest.raises(ValueError, match="levels"):
        SEPSelect().multi_level_select(PATH, levels=0)
    for call in (SEPSelect(), SEPSelect().multi_level_select, SEPPooling().precoarsening):
        with pytest.raises(ValueError, match="edge_index"):
            call(edge_index=None)
    with pytest.raises(ValueError, match="batch"):
        SEPPooling()(x=torch.ones(6, 1), adj=PATH, batch=torch.zeros(5, dtype=torch.long))
    with pytest.raises(GraphError, match="negative"):
        SEPPooling()(x=torch.ones(6, 1), adj=PATH, edge_weight=-torch.ones(10))


def test_traits_and_repr():
    pooler = SEPPooling(cached=True)
    assert pooler.is_precoarsenable and pooler.is_sparse and not pooler.is_trainable and not pooler.has_loss
    assert "SEPSelect(s_inv_op=transpose)" in repr(pooler)
