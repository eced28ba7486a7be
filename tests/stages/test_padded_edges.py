"""Padded poolers multiply over edges where those are few; the results are those of dense products."""

import pytest
import torch

from tgp.poolers import get_pooler
from tgp.src import dense

POOLERS = ["acc", "diff", "dmon", "hosc", "jb", "mincut"]


def sparse_batch(sorted_ids, directed):
    """Three long cycles with chords, so that edges are few beside node pairs; parallel edges included."""
    generator = torch.Generator().manual_seed(0)
    sizes, start, edges = [30, 17, 42], 0, []
    for size in sizes:
        node = torch.arange(size)
        edges.append(torch.stack([node, (node + 1) % size]) + start)
        edges.append(torch.stack([node[:3], node[4:7]]) + start)
        start += size
    index = torch.cat([*edges, edges[0][:, :4]], dim=1)
    index = index if directed else torch.cat([index, index.flip(0)], dim=1)
    weight = torch.rand(index.size(1), generator=generator, dtype=torch.float64) + 0.5
    batch = torch.arange(3).repeat_interleave(torch.tensor(sizes))
    x = torch.randn(start, 4, generator=generator, dtype=torch.float64)
    if not sorted_ids:
        order = torch.randperm(start, generator=generator)
        x, batch, index = x[order], batch[order], order.argsort()[index]
    return x, index, weight, batch


def run(pooler, x, index, weight, batch):
    x = x.clone().requires_grad_()
    weight = weight.clone().requires_grad_()
    out = pooler(x=x, adj=index, edge_weight=weight, batch=batch)
    total = out.x.square().sum() + out.edge_index.square().sum() + sum(out.loss.values())
    gradients = torch.autograd.grad(total, (x, weight))
    return [out.x, out.edge_index, *out.loss.values(), *gradients]


@pytest.mark.parametrize("name", POOLERS)
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("sorted_ids", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_products_over_edges_equal_dense_ones(monkeypatch, name, transposed, sorted_ids, directed):
    data = sparse_batch(sorted_ids, directed)
    torch.manual_seed(0)
    pooler = get_pooler(name, in_channels=4, k=3, adj_transpose=transposed).double()
    taken = []
    original = pooler._padded_edges
    monkeypatch.setattr(pooler, "_padded_edges", lambda call: taken.append(original(call)) or taken[-1])
    over_edges = run(pooler, *data)
    assert taken[-1] is not None, "this batch must take the way over edges"
    monkeypatch.setattr(dense, "_EDGE_COST", 10**9)
    dense_products = run(pooler, *data)
    assert taken[-1] is None
    for mine, expected in zip(over_edges, dense_products, strict=True):
        torch.testing.assert_close(mine, expected)


def test_one_graph_with_isolated_nodes_behind():
    x, index, weight, _ = sparse_batch(True, False)
    torch.manual_seed(0)
    padded = get_pooler("mincut", in_channels=4, k=3).double()
    torch.manual_seed(0)
    flat = get_pooler("mincut", in_channels=4, k=3, batched=False).double()
    x = torch.cat([x, x[:5]])
    a, b = (pooler(x=x, adj=index, edge_weight=weight) for pooler in (padded, flat))
    torch.testing.assert_close(a.edge_index, b.edge_index)
    for name in a.loss:
        torch.testing.assert_close(a.loss[name], b.loss[name])


def test_crowded_graphs_keep_dense_products(monkeypatch):
    pooler = get_pooler("mincut", in_channels=4, k=2)
    taken = []
    original = pooler._padded_edges
    monkeypatch.setattr(pooler, "_padded_edges", lambda call: taken.append(original(call)) or taken[-1])
    complete = (1 - torch.eye(6)).nonzero().t()
    pooler(x=torch.randn(6, 4), adj=complete)
    pooler(x=torch.randn(6, 4), adj=1 - torch.eye(6))
    assert taken == [None, None]
