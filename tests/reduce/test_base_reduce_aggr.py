"""``BaseReduce`` with the names of PyG's aggregations."""

import pytest
import torch
from torch_geometric.nn.aggr import MaxAggregation

from tgp.errors import InputError, UnknownNameError
from tgp.poolers import get_pooler
from tgp.reduce import BaseReduce, get_aggr
from tgp.select import SelectOutput

CLUSTER = torch.tensor([1, 0, 1, 2, 0])
NAMES = ["sum", "mean", "max", "min", "median", "var", "std", "mul", "softmax", "power_mean"]


def grouped(x, reduce):
    return torch.stack([reduce(x[k == CLUSTER]) for k in range(3)])


@pytest.mark.parametrize("name", NAMES)
def test_names_of_pyg_on_a_sparse_assignment(name):
    x = torch.rand(5, 4, requires_grad=True)
    out, batch = BaseReduce(name)(
        x, SelectOutput(cluster_index=CLUSTER, batch=torch.zeros(5, dtype=torch.long))
    )
    expected = get_aggr(name)(x[[1, 4, 0, 2, 3]], torch.tensor([0, 0, 1, 1, 2]))
    assert torch.allclose(out, expected) and batch.tolist() == [0, 0, 0]
    out.sum().backward()
    assert x.grad.isfinite().all()


def test_values():
    x = torch.rand(5, 2)
    so = SelectOutput(cluster_index=CLUSTER)
    assert torch.allclose(BaseReduce("mean")(x, so)[0], grouped(x, lambda rows: rows.mean(0)))
    assert torch.allclose(BaseReduce("max")(x, so)[0], grouped(x, lambda rows: rows.amax(0)))
    assert torch.allclose(BaseReduce()(x, so)[0], grouped(x, lambda rows: rows.sum(0)))
    assert BaseReduce("mean")(x[:, 0], so)[0].shape == (3, 1)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "median"])
def test_a_dense_one_hot_assignment_equals_the_sparse_one(name):
    x = torch.rand(5, 4, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([0, 0, 0, 1, 1])
    column = torch.tensor([1, 0, 1, 1, -1])
    dense = SelectOutput.onehot(column, 2, batch=batch, batch_size=2)
    sparse = SelectOutput.hard(
        torch.tensor([1, 0, 1, 3]), 4, node_index=torch.arange(4), num_nodes=5, batch=batch
    )
    out, ids = BaseReduce(name)(x, dense)
    assert torch.allclose(out, BaseReduce(name)(x, sparse)[0]) and ids.tolist() == [0, 0, 1, 1]
    assert torch.equal(BaseReduce(name)(x, dense, return_batched=True)[0].flatten(0, 1), out)
    out.sum().backward()
    assert x.grad[4].abs().sum() == 0


def test_mean_of_a_soft_assignment_is_weighted():
    s = torch.rand(5, 3).softmax(-1)
    x = torch.rand(5, 2)
    expected = (s.T @ x) / s.sum(0).unsqueeze(-1)
    assert torch.allclose(BaseReduce("mean")(x, SelectOutput(s=s))[0], expected)
    padded = BaseReduce("mean")(x.unsqueeze(0), SelectOutput(s=s.unsqueeze(0)))[0]
    assert torch.allclose(padded, expected.unsqueeze(0))
    ones = BaseReduce("mean")(torch.ones(5, 2), SelectOutput(s=s))[0]
    assert torch.allclose(ones, torch.ones(3, 2))


def test_errors():
    with pytest.raises(InputError, match="dense assignment"):
        BaseReduce("max")(torch.rand(5, 2), SelectOutput(s=torch.rand(5, 3)))
    with pytest.raises(UnknownNameError, match="mean"):
        BaseReduce("mena")
    assert BaseReduce(MaxAggregation()).aggregation.aggr.__class__ is MaxAggregation
    assert (repr(BaseReduce()), repr(BaseReduce("mean"))) == ("BaseReduce()", "BaseReduce(MeanAggregation())")


def test_a_pooler_uses_the_aggregation_in_every_execution():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])
    x, batch = torch.rand(6, 4), torch.tensor([0, 0, 0, 0, 1, 1])
    pooler = get_pooler("mincut", in_channels=4, k=2).eval()
    plain = pooler(x=x, adj=edges, batch=batch)
    pooler.reducer = BaseReduce("mean")
    mean = pooler(x=x, adj=edges, batch=batch)
    weight = plain.so.s.sum(1).unsqueeze(-1)
    assert torch.allclose(mean.x, plain.x / weight, atol=1e-6)
