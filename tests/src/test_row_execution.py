"""Padded poolers run on flat rows if the graphs have few edges. The results equal those of padded execution."""

import pytest
import torch

from tgp.poolers import get_pooler
from tgp.src import row_execution
from tgp.testing.cases import pooler_aliases

POOLERS = [alias for alias in pooler_aliases(dense=True, trainable=True) if alias != "bnpool"]
"""Poolers without random numbers in the forward pass; ``bnpool`` has a test of its own."""


def sparse_batch(sorted_ids, directed):
    """Return three long cycles with chords and parallel edges: few edges compared with the number of node pairs."""
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
    edges = out.edge_index if out.edge_weight is None else out.edge_weight
    total = out.x.square().sum() + edges.square().sum() + out.so.s.square().sum() + sum(out.loss.values())
    gradients = torch.autograd.grad(total, (x, weight))
    return [out.x, edges, out.so.s, out.so.in_mask, out.batch, *out.loss.values(), *gradients]


def watch(monkeypatch, pooler):
    """Record every call that builds the padded adjacency."""
    built = []
    original = pooler._padded_adjacency
    monkeypatch.setattr(pooler, "_padded_adjacency", lambda *args: built.append(args) or original(*args))
    return built


@pytest.mark.parametrize("name", POOLERS)
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("sorted_ids", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_rows_equal_padding(monkeypatch, name, transposed, sorted_ids, directed):
    data = sparse_batch(sorted_ids, directed)
    for sparse_output in (False, True):
        torch.manual_seed(0)
        pooler = get_pooler(
            name, in_channels=4, k=3, adj_transpose=transposed, sparse_output=sparse_output
        ).double()
        with monkeypatch.context() as patch:
            built = watch(patch, pooler)
            on_rows = run(pooler, *data)
            assert not built, "this batch must run on rows"
            patch.setattr(row_execution, "EDGE_COST", 10**9)
            padded = run(pooler, *data)
            assert built
        for mine, expected in zip(on_rows, padded, strict=True):
            torch.testing.assert_close(mine, expected)


def test_the_posterior_of_bnpool_on_rows_is_padded(monkeypatch):
    x, index, _, batch = sparse_batch(True, False)
    torch.manual_seed(0)
    pooler = get_pooler("bnpool", in_channels=4, k=3).double().eval()
    outs = [pooler(x=x, adj=index, batch=batch)]
    monkeypatch.setattr(row_execution, "EDGE_COST", 10**9)
    outs.append(pooler(x=x, adj=index, batch=batch))
    mask = outs[0].so.in_mask
    for part in ("concentration1", "concentration0", "mean"):
        mine, expected = (getattr(out.so.q_z, part) for out in outs)
        assert mine.shape == expected.shape == (3, 42, 2)
        torch.testing.assert_close(mine[mask], expected[mask])
    for name, value in outs[0].loss.items():
        torch.testing.assert_close(value, outs[1].loss[name])


def test_one_graph_with_isolated_nodes_at_the_end():
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


def test_graphs_with_many_edges_are_padded(monkeypatch):
    pooler = get_pooler("mincut", in_channels=4, k=2)
    built = watch(monkeypatch, pooler)
    complete = (1 - torch.eye(6)).nonzero().t()
    pooler(x=torch.randn(6, 4), adj=complete)
    assert built


def test_a_hook_on_the_selector_gets_padded_assignments():
    x, index, _, batch = sparse_batch(True, False)
    pooler = get_pooler("mincut", in_channels=4, k=3).double()
    plain = pooler(x=x, adj=index, batch=batch)
    seen = []
    pooler.selector.register_forward_hook(lambda module, args, so: seen.append(so.s.shape))
    out = pooler(x=x, adj=index, batch=batch)
    assert seen == [(3, 42, 3)]
    torch.testing.assert_close(out.x, plain.x)


def test_cache_preprocessing_keeps_the_padded_adjacency(monkeypatch):
    x, index, weight, _ = sparse_batch(True, False)
    pooler = get_pooler("mincut", in_channels=4, k=3, cache_preprocessing=True).double()
    built = watch(monkeypatch, pooler)
    for _ in range(3):
        pooler(x=x, adj=index, edge_weight=weight)
    assert len(built) == 1
    assert pooler.preprocessing_cache.shape == (1, len(x), len(x))
    assert pooler.preprocessing_cache.sum().item() == pytest.approx(weight.sum().item())
