"""``GraclusPooling`` as users call it. The tests of the kernel cover the matching."""

import pytest
import torch

from tgp.poolers import GraclusPooling

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def test_pairs_are_summed_and_connected():
    pooler = GraclusPooling(order="index")
    out = pooler(x=torch.tensor([[1.0], [2], [3], [4]]), adj=PATH, edge_weight=torch.ones(6, 1))
    assert out.so.cluster_index.tolist() == [0, 0, 1, 1] and out.x.flatten().tolist() == [3, 7]
    assert out.edge_index.tolist() == [[0, 1], [1, 0]] and out.edge_weight.tolist() == [1, 1]
    assert pooler(x=out.x, so=out.so, lifting=True).flatten().tolist() == [3, 3, 7, 7]
    mean = GraclusPooling(order="index", s_inv_op="inverse")
    again = mean(x=torch.tensor([[1.0], [2], [3], [4]]), adj=PATH)
    assert mean(x=again.x, so=again.so, lifting=True).flatten().tolist() == [1.5, 1.5, 3.5, 3.5]


def test_heavy_edges_match_first_and_negative_edges_never():
    heavy = torch.tensor([1.0, 1, 9, 9, 1, 1])
    assert (
        GraclusPooling(order="index")(x=torch.ones(4, 1), adj=PATH, edge_weight=heavy).so.num_supernodes == 2
    )
    out = GraclusPooling()(x=torch.ones(4, 1), adj=PATH, edge_weight=-torch.ones(6))
    assert out.so.cluster_index.tolist() == [0, 1, 2, 3]


def test_result_depends_on_the_seed_and_not_on_the_global_generator():
    torch.manual_seed(0)
    ring = torch.stack([torch.arange(40), (torch.arange(40) + 1) % 40])
    ring = torch.cat([ring, ring.flip(0)], dim=1)
    x = torch.ones(40, 1)
    first = GraclusPooling(seed=1)(x=x, adj=ring).so.cluster_index
    torch.manual_seed(1)
    assert torch.equal(GraclusPooling(seed=1)(x=x, adj=ring).so.cluster_index, first)
    assert not torch.equal(GraclusPooling(seed=2)(x=x, adj=ring).so.cluster_index, first)


def test_isolated_nodes_empty_graphs_and_bad_weights():
    out = GraclusPooling()(x=torch.ones(6, 1), adj=PATH)
    assert out.so.num_nodes == 6 and out.so.num_supernodes == 4 and out.so.is_expressive
    nothing = GraclusPooling()(x=torch.ones(0, 1), adj=torch.empty(2, 0, dtype=torch.long))
    assert nothing.x.shape == (0, 1) and nothing.edge_index.shape == (2, 0)
    with pytest.raises(RuntimeError, match="edge_weight"):
        GraclusPooling()(x=torch.ones(4, 1), adj=PATH, edge_weight=torch.ones(6, 2))
    with pytest.raises(ValueError, match="order must be"):
        GraclusPooling(order="size")


def test_traits_and_repr():
    pooler = GraclusPooling(cached=True)
    assert pooler.is_precoarsenable and pooler.is_sparse and not pooler.is_trainable and not pooler.has_loss
    assert "GraclusSelect(s_inv_op=transpose, order=random, seed=0, two_hop=False, match_on=weights)" in repr(
        pooler
    )
    x = torch.rand(4, 2)
    assert torch.equal(pooler(x=x, adj=PATH).x, pooler(x=x, adj=PATH).x)
