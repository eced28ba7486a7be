"""Pooling operator of EigenPool with a sparse ``theta`` and in half precision."""

import pytest
import torch

from tgp.lift import EigenPoolLift
from tgp.reduce import EigenPoolReduce
from tgp.select import EigenPoolSelect, SelectOutput

_path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
EDGES = torch.cat([_path, _path + 4], dim=1)
BATCH = torch.tensor([0] * 4 + [1] * 4)
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))


def pooled(so):
    return EigenPoolReduce(num_modes=2)(X, so, batch=so.batch)[0]


@pytest.mark.parametrize("modes", [2, 4])
def test_sparse_theta_of_the_selector(modes):
    so = EigenPoolSelect(2, num_modes=modes)(edge_index=EDGES, batch=BATCH)
    dense = pooled(so)
    so.theta = so.theta.to_sparse()
    torch.testing.assert_close(pooled(so), dense)
    lift = EigenPoolLift(num_modes=modes)
    torch.testing.assert_close(lift(dense, so, batch=BATCH), X)


def test_sparse_wide_theta():
    so = EigenPoolSelect(2, num_modes=2)(edge_index=EDGES, batch=BATCH)
    dense = pooled(so)
    wide = torch.zeros(8, 2, 2)
    wide[torch.arange(8), :, so._cluster_index] = so.theta
    so.theta = wide.flatten(1).to_sparse()
    torch.testing.assert_close(pooled(so), dense)
    other = SelectOutput(s=so.s, batch=BATCH, theta=so.theta)
    torch.testing.assert_close(pooled(other), dense)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_over_many_nodes_are_accurate_in_half_precision(dtype):
    size = 4000
    so = SelectOutput.onehot(torch.zeros(size, dtype=torch.long), 1, theta=torch.ones(size, 1))
    x = torch.ones(size, 1, dtype=dtype)
    out = EigenPoolReduce(num_modes=1)(x, so)[0]
    assert out.dtype == dtype and abs(out.item() - size) <= 16
