"""BaseReduce and pooled batch vectors."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tgp.lift import EigenPoolLift
from tgp.reduce import BaseReduce, EigenPoolReduce, Reduce, base_reduce
from tgp.select import SelectOutput

BATCH = torch.tensor([1, 0, 1, 3, 0])


class NoReading(TorchDispatchMode):
    """Fail on operations that would synchronize an accelerator with the host."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket not in (
            torch.ops.aten._local_scalar_dense,
            torch.ops.aten.nonzero,
            torch.ops.aten.is_nonzero,
        ), func
        return func(*args, **(kwargs or {}))


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


def test_empty_supernodes_belong_to_the_graph_of_their_neighbours():
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


def test_one_large_graph_among_small_ones():
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
    with pytest.raises(ValueError, match="must have shape"):
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weight", [None, torch.ones(3000)])
def test_half_precision_is_summed_in_float32(dtype, weight):
    so = SelectOutput(cluster_index=torch.arange(3000) % 2, num_supernodes=2, weight=weight)
    pooled, _ = BaseReduce()(torch.ones(3000, 1, dtype=dtype), so)
    assert pooled.dtype == dtype and pooled.flatten().tolist() == [torch.tensor(1500.0).to(dtype).item()] * 2
    x = torch.ones(3000, 1, dtype=torch.float64)
    assert BaseReduce()(x, so)[0].dtype == torch.float64


def test_half_precision_of_eigen_modes_is_summed_in_float32():
    so = SelectOutput(s=torch.ones(3000, 1), theta=torch.ones(3000, 1).to_sparse_coo())
    pooled, _ = EigenPoolReduce()(torch.ones(3000, 1, dtype=torch.bfloat16), so)
    assert pooled.dtype == torch.bfloat16 and pooled.item() == torch.tensor(3000.0).bfloat16().item()
    lifted = EigenPoolLift()(pooled, so)
    assert lifted.dtype == torch.bfloat16 and lifted.shape == (3000, 1)


@pytest.mark.parametrize("cluster", [[0, 0, 3, 3], [1, 1, 2, 2], [4, 4, 4, 4]])
def test_graph_ids_of_supernodes_without_synchronizing(cluster, monkeypatch):
    so = SelectOutput(cluster_index=torch.tensor(cluster), num_supernodes=5)
    batch = torch.tensor([0, 0, 1, 1] if len(set(cluster)) > 1 else [2, 2, 2, 2])
    expected = Reduce.reduce_batch(so, batch)
    monkeypatch.setattr(base_reduce, "on_host", lambda *tensors: False)
    with NoReading():
        found = Reduce.reduce_batch(so, batch)
    assert found.tolist() == expected.tolist()
    none = SelectOutput(cluster_index=torch.zeros(0, dtype=torch.long), num_nodes=0, num_supernodes=3)
    assert Reduce.reduce_batch(none, torch.zeros(0, dtype=torch.long)).tolist() == [0, 0, 0]
    empty = SelectOutput(cluster_index=torch.zeros(0, dtype=torch.long), num_nodes=0, num_supernodes=0)
    assert Reduce.reduce_batch(empty, torch.zeros(0, dtype=torch.long)).numel() == 0


def test_a_sparse_reduction_compiles_without_graph_breaks():
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 2]), num_supernodes=4, weight=torch.rand(3))
    so.cluster_index, so.is_sparse  # noqa: B018
    x, batch = torch.rand(3, 2), torch.tensor([0, 0, 1])
    expected = BaseReduce()(x, so, batch=batch)
    reduce = BaseReduce()
    found = torch.compile(lambda x: reduce(x, so, batch=batch), backend="eager", fullgraph=True)(x)
    for new, old in zip(found, expected, strict=True):
        torch.testing.assert_close(new, old)


@pytest.mark.parametrize("batch", [None, torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([1, 0, 1, 0, 1, 0])])
def test_theta_may_be_sparse(batch):
    theta, s, x = torch.rand(6, 6), torch.rand(6, 2), torch.rand(6, 4)
    dense, sparse = (SelectOutput(s=s, theta=t, batch=batch) for t in (theta, theta.to_sparse_coo()))
    for kwargs in ({}, {"return_batched": True}):
        expected, ids = EigenPoolReduce(3)(x, dense, batch=batch, **kwargs)
        found, same = EigenPoolReduce(3)(x, sparse, batch=batch, **kwargs)
        torch.testing.assert_close(found, expected)
        assert (ids is None and same is None) or ids.equal(same)
    torch.testing.assert_close(EigenPoolLift(3)(found, sparse), EigenPoolLift(3)(expected, dense))
