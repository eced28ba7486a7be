"""``check_*`` functions: what every pooler must do, usable on poolers of your own.

Each takes a :class:`~tgp.testing.cases.Case` and raises ``AssertionError`` with what went wrong.

>>> from tgp.testing.cases import pooler_cases
>>> from tgp.testing.checks import check_shapes
>>> check_shapes(next(pooler_cases()))
"""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import DenseGCNConv, GCNConv

from tgp.src import PoolingOutput
from tgp.testing.cases import IN_CHANNELS, Case

__all__ = ["CHECKS", "GraphBatch", "mixed_batch"]

_TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@dataclass(frozen=True)
class GraphBatch:
    """Arguments of one forward."""

    x: Tensor
    adj: Any
    edge_weight: Tensor | None
    batch: Tensor

    def __call__(self, pooler: Any, **changes: Any) -> PoolingOutput:
        arguments = {"x": self.x, "adj": self.adj, "edge_weight": self.edge_weight, "batch": self.batch}
        return pooler(**{**arguments, **changes})


def mixed_batch(dtype: torch.dtype = torch.float32) -> GraphBatch:
    """A chain with loops, a sparse graph with two isolated nodes behind, a hub-heavy graph, a grid."""
    chain = [(i, i + 1) for i in range(5)]
    loops = [(i, i) for i in range(6)]
    sparse = [(0, 1), (1, 2), (0, 3), (2, 3)]
    hubs = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 4), (2, 5)]
    grid = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    pairs: list[tuple[int, int]] = []
    for graph, edges in enumerate((chain, sparse, hubs, grid)):
        both = edges + [(b, a) for a, b in edges] + (loops if graph == 0 else [])
        pairs += [(a + 6 * graph, b + 6 * graph) for a, b in sorted(both)]
    generator = torch.Generator().manual_seed(3)
    index = torch.tensor(pairs).t().contiguous()
    low, high = index.min(0).values, index.max(0).values
    weight = 0.5 + ((low * 31 + high * 17) % 11).to(dtype) / 11  # symmetric
    x = torch.randn(24, IN_CHANNELS, generator=generator, dtype=dtype)
    return GraphBatch(x, index, weight, torch.arange(4).repeat_interleave(6))


def check_shapes(case: Case) -> None:
    """Features, edges, graph ids and mask speak of the same supernodes."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    if case.entry.traits["dense"] and not pooler.sparse_output:
        graphs, k = out.edge_index.shape[:2]
        assert out.edge_index.shape == (4, k, k)
        assert out.x.shape[:2] == (graphs, k)
        assert out.edge_weight is None
        DenseGCNConv(out.x.size(-1), 2)(out.x.float(), out.edge_index.float())
    else:
        rows = out.x.size(0)
        assert out.batch.numel() == rows
        assert out.edge_index.numel() == 0 or int(out.edge_index.max()) < rows
        assert (out.batch[out.edge_index[0]] == out.batch[out.edge_index[1]]).all(), "an edge left its graph"
        assert out.edge_weight is None or out.edge_weight.numel() == out.edge_index.size(1)
        GCNConv(out.x.size(-1), 2)(out.x, out.edge_index, out.edge_weight)
    if out.mask is not None:
        assert out.mask.shape == (4, out.so.num_supernodes)
    assert out.so.num_nodes in (24, 6)


def check_lift(case: Case) -> None:
    """Lifting gives a row to every node."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    lifted = pooler(x=out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
    assert lifted.size(-2) == out.so.num_nodes
    assert torch.isfinite(lifted).all()


def check_copies(case: Case) -> None:
    """Deep copies and saved parameters give the same pooler."""
    data, pooler = mixed_batch(), case.build()
    expected = data(pooler).x
    _close(data(copy.deepcopy(pooler)).x, expected)
    buffer = io.BytesIO()
    torch.save(pooler.state_dict(), buffer)
    buffer.seek(0)
    other = case.build()
    other.reset_parameters()
    other.load_state_dict(torch.load(buffer, weights_only=True))
    _close(data(other).x, expected)
    assert type(pooler).__name__ in repr(pooler)


def check_traits(case: Case) -> None:
    """What the table says is what the pooler is."""
    pooler, traits = case.build(), case.entry.traits
    assert pooler.is_dense == traits["dense"]
    assert pooler.is_sparse != traits["dense"]
    assert pooler.is_trainable == traits["trainable"]
    assert pooler.has_loss == traits["loss"]
    assert pooler.is_precoarsenable == traits["precoarsenable"]
    loss = mixed_batch()(pooler).loss
    assert bool(loss) == traits["loss"]
    assert all(value.dim() == 0 and torch.isfinite(value) for value in (loss or {}).values())


def check_single(case: Case) -> None:
    """A graph pools the same alone and in a batch."""
    data, pooler = mixed_batch(), case.build()
    together = _by_graph(data(pooler), 4)
    for graph in range(4):
        nodes = data.batch == graph
        keep = data.batch[data.adj[0]] == graph
        alone = pooler(
            x=data.x[nodes],
            adj=data.adj[:, keep] - 6 * graph,
            edge_weight=data.edge_weight[keep],
            batch=torch.zeros(6, dtype=torch.long),
        )
        rows = _by_graph(alone, 1)[0]
        expected = together[graph]
        # A batch may be padded to the widest of its graphs.
        assert (expected[len(rows) :] == 0).all()
        _close(rows, expected[: len(rows)])


def check_order(case: Case) -> None:
    """Edges and graphs may come in any order; nodes keep theirs inside each graph."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    order = torch.arange(24).view(4, 6).t().reshape(-1)  # graphs interleaved
    place = order.argsort()
    shuffle = torch.randperm(data.adj.size(1), generator=torch.Generator().manual_seed(1))
    mixed = pooler(
        x=data.x[order],
        adj=place[data.adj][:, shuffle],
        edge_weight=data.edge_weight[shuffle],
        batch=data.batch[order],
    )
    for mine, expected in zip(_by_graph(mixed, 4), _by_graph(out, 4), strict=True):
        _close(_sorted_rows(mine), _sorted_rows(expected))


def check_permutation(case: Case) -> None:
    """Renumbering the nodes of a graph renumbers the supernodes and nothing else."""
    data, pooler = mixed_batch(), case.build()
    inside = torch.cat([6 * g + torch.tensor([3, 1, 5, 0, 4, 2]) for g in range(4)])
    place = inside.argsort()
    index = place[data.adj]
    permuted = pooler(x=data.x[inside], adj=index, edge_weight=data.edge_weight, batch=data.batch)
    for mine, expected in zip(_by_graph(permuted, 4), _by_graph(data(pooler), 4), strict=True):
        _close(_sorted_rows(mine), _sorted_rows(expected), atol=1e-4)


def check_modes_agree(case: Case) -> None:
    """Padded and flat execution give the same pooled graphs and losses."""
    if not case.padded:
        return
    data = mixed_batch()
    ours, other = data(case.build()), data(case.build(batched=False))
    _close(ours.x, other.x)
    _close(ours.edge_index, other.edge_index)
    for name, value in (ours.loss or {}).items():
        _close(value, other.loss[name])


def check_gradients(case: Case) -> None:
    """Features and parameters get finite gradients."""
    data, pooler = mixed_batch(), case.build()
    x = data.x.clone().requires_grad_()
    out = data(pooler, x=x)
    total = out.x.square().sum() + sum((out.loss or {}).values())
    total.backward()
    assert torch.isfinite(x.grad).all()
    if case.alias != "lap":
        assert x.grad.abs().sum() > 0
    for name, parameter in pooler.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, f"no gradient for {name}"
            assert torch.isfinite(parameter.grad).all(), name


def check_dtype(case: Case) -> None:
    """Double precision in, double precision out."""
    out = mixed_batch(torch.float64)(case.build().double())
    assert out.x.dtype == torch.float64
    for value in (out.edge_weight, *(out.loss or {}).values()):
        assert value is None or value.dtype == torch.float64


def check_containers(case: Case) -> None:
    """A sparse matrix in gives a sparse matrix out, with the same entries as an edge list."""
    data, pooler = mixed_batch(), case.build()
    expected = data(pooler)
    coo = torch.sparse_coo_tensor(data.adj, data.edge_weight, (24, 24), check_invariants=True)
    for adj in (coo.coalesce(), coo, data.adj.int()):
        weight = data.edge_weight if adj.layout is torch.strided else None
        out = data(pooler, adj=adj, edge_weight=weight)
        _close(out.x, expected.x)
        if adj.layout is torch.strided or case.entry.traits["dense"]:
            continue
        assert out.edge_index.layout is torch.sparse_coo, "the container must be that of the input"
        assert out.edge_weight is None
        weights = expected.edge_weight
        weights = torch.ones(expected.edge_index.size(1)) if weights is None else weights
        size = out.edge_index.shape
        dense = torch.zeros(size).index_put(tuple(expected.edge_index), weights, accumulate=True)
        _close(out.edge_index.to_dense(), dense)


def check_device_clean(case: Case) -> None:
    """No tensor is made on the default device by accident: it would be on the wrong one elsewhere."""
    data, pooler = mixed_batch(), case.build()
    expected = data(pooler).x
    with torch.device("meta"):
        _close(data(pooler).x, expected)


def check_corners(case: Case) -> None:
    """One node, no edges, trailing isolated nodes without a batch vector."""
    pooler = case.build()
    generator = torch.Generator().manual_seed(5)
    for num_nodes, edges in ((1, []), (5, []), (6, [(0, 1), (1, 0), (1, 2), (2, 1)])):
        x = torch.randn(num_nodes, IN_CHANNELS, generator=generator)
        adj = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
        out = pooler(x=x, adj=adj, batch=torch.zeros(num_nodes, dtype=torch.long))
        assert torch.isfinite(out.x).all()
        assert out.so.num_nodes == num_nodes
        out = pooler(x=x, adj=adj)
        assert out.so.num_nodes == num_nodes
        assert all(torch.isfinite(value) for value in (out.loss or {}).values())


def check_gradcheck(case: Case) -> None:
    """Analytic gradients with respect to features equal numeric ones in double precision."""
    if not case.entry.traits["trainable"]:
        return
    data, pooler = mixed_batch(torch.float64), case.build().double()
    nodes = data.batch == 3
    keep = data.batch[data.adj[0]] == 3

    def pooled(x: Tensor) -> Tensor:
        out = pooler(x=x, adj=data.adj[:, keep] - 18, edge_weight=data.edge_weight[keep])
        return torch.stack([out.x.square().sum(), *(out.loss or {}).values()])

    start = data.x[nodes].clone().requires_grad_()
    assert torch.autograd.gradcheck(pooled, (start,), eps=1e-6, atol=1e-4, rtol=1e-3)


def _by_graph(out: PoolingOutput, num_graphs: int) -> list[Tensor]:
    """Pooled features of each graph."""
    x = out.x.detach()
    if x.dim() == 3:
        return list(x)
    if out.batch is None:
        return [x]
    return [x[out.batch == graph] for graph in range(num_graphs)]


def _sorted_rows(rows: Tensor) -> Tensor:
    """Rows in an order that does not depend on how supernodes are numbered."""
    keys = (rows * torch.linspace(1, 2, rows.size(-1), dtype=rows.dtype)).sum(-1)
    return rows[keys.argsort()]


def _close(actual: Tensor, expected: Tensor, **tolerance: float) -> None:
    torch.testing.assert_close(actual.detach(), expected.detach(), **{**_TOLERANCE, **tolerance})


CHECKS = {
    name.removeprefix("check_"): f for name, f in sorted(globals().items()) if name.startswith("check_")
}
"""Name -> check."""
