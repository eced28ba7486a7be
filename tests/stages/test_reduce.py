"""BaseReduce and pooled batch vectors."""

import pytest
import torch

from tgp.reduce import BaseReduce, Reduce
from tgp.select import SelectOutput

BATCH = torch.tensor([1, 0, 1, 3, 0])


def per_graph(s, x, batch, size):
    return torch.stack([s[batch == g].T @ x[batch == g] for g in range(size)])


def test_sparse_sum_weighted_and_partial():
    x = torch.arange(6.0).view(3, 2)
    so = SelectOutput(cluster_index=torch.tensor([1, 1, 0]), num_supernodes=3)
    pooled, batch = BaseReduce()(x, so)
    assert pooled.tolist() == [[4, 5], [2, 4], [0, 0]] and batch is None
    gated = SelectOutput(
        node_index=torch.tensor([2]), cluster_index=torch.tensor([0]), weight=torch.tensor([0.5]), num_nodes=3
    )
    assert BaseReduce()(x, gated)[0].tolist() == [[2.0, 2.5]]
    assert BaseReduce()(x[:, 0], gated)[0].tolist() == [[2.0]]
    assert BaseReduce()(x.double(), gated)[0].dtype == torch.float64
    with pytest.raises(ValueError, match="return_batched=True is only supported"):
        BaseReduce()(x, so, return_batched=True)


def test_empty_supernodes_take_the_graph_of_their_block():
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 3, 3]), num_supernodes=5)
    assert Reduce.reduce_batch(so, torch.tensor([0, 0, 1, 1])).tolist() == [0, 0, 0, 1, 1]
    late = SelectOutput(cluster_index=torch.tensor([1]), num_supernodes=2)
    assert Reduce.reduce_batch(late, torch.tensor([4])).tolist() == [4, 4]
    assert Reduce.reduce_batch(so, None) is None


@pytest.mark.parametrize(
    "batch", [BATCH, BATCH.sort().values, torch.full((5,), 2)], ids=["unsorted", "sorted", "one id"]
)
def test_flat_dense_per_graph_in_any_order(batch):
    s, x = torch.rand(5, 2), torch.rand(5, 3)
    so = SelectOutput(s=s, batch=batch)
    size = int(batch.max()) + 1
    expected = per_graph(s, x, batch, size)
    pooled, pooled_batch = BaseReduce()(x, so, return_batched=True)
    torch.testing.assert_close(pooled, expected)
    flat, _ = BaseReduce()(x, so)
    assert flat.shape == (size * 2, 3) and pooled_batch.numel() == size * 2


def test_one_large_graph_among_small_ones_takes_the_outer_product_path():
    batch = torch.cat([torch.zeros(500, dtype=torch.long), torch.arange(1, 60)])
    s, x = torch.rand(559, 2), torch.rand(559, 3)
    pooled, _ = BaseReduce()(x, SelectOutput(s=s, batch=batch), return_batched=True)
    torch.testing.assert_close(pooled, per_graph(s, x, batch, 60))


def test_single_graph_batched_and_trailing_empty_graphs():
    s, x = torch.rand(5, 2), torch.rand(5, 3)
    assert BaseReduce()(x, SelectOutput(s=s))[0].shape == (2, 3)
    assert BaseReduce()(x, SelectOutput(s=s), return_batched=True)[0].shape == (1, 2, 3)
    assert BaseReduce()(x.unsqueeze(0), SelectOutput(s=s.unsqueeze(0)))[0].shape == (1, 2, 3)
    pooled, batch = BaseReduce()(x, SelectOutput(s=s, batch=BATCH), return_batched=True, batch_size=6)
    assert pooled.shape == (6, 2, 3) and batch.numel() == 12 and pooled[4:].abs().sum() == 0
    with pytest.raises(ValueError, match="must be 2D"):
        BaseReduce()(x, SelectOutput(s=torch.rand(5)))


def test_gradients_reach_features_and_weights():
    x = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    w = torch.rand(3, dtype=torch.float64, requires_grad=True)
    cluster = torch.tensor([0, 1, 0])
    assert torch.autograd.gradcheck(
        lambda a, b: BaseReduce()(a, SelectOutput(cluster_index=cluster, weight=b))[0], (x, w)
    )
    with pytest.raises(NotImplementedError):
        Reduce()(x, None)
