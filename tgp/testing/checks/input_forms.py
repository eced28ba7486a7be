"""Checks of containers, edge weights and degenerate graphs."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from tgp.imports import HAS_TORCH_SPARSE, SparseTensor
from tgp.testing.batches import (
    GraphBatch,
    adjacency,
    assert_same_losses,
    assert_same_output,
    by_graph,
    close,
    mixed_batch,
    needed_arguments,
    ring_batch,
)
from tgp.testing.cases import IN_CHANNELS, Case, Skip

ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()


def check_containers(case: Case) -> None:
    """Check that sparse matrices, int32 ids, ``EdgeIndex`` and ``[E, 1]`` weights are equivalent."""
    from torch_geometric import EdgeIndex

    data, pooler = mixed_batch(), case.build()
    expected = data(pooler)
    coo = torch.sparse_coo_tensor(data.adj, data.edge_weight, (24, 24), check_invariants=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that CSR is in beta state
        csr, csc = coo.to_sparse_csr(), coo.to_sparse_csc()
    forms: dict[str, tuple[Any, Any]] = {
        "coalesced COO": (coo.coalesce(), None),
        "COO": (coo, None),
        "CSR": (csr, None),
        "CSC": (csc, None),
        "int32 ids": (data.adj.int(), data.edge_weight),
        "EdgeIndex": (EdgeIndex(data.adj, sparse_size=(24, 24)), data.edge_weight),
        "[E, 1] weights": (data.adj, data.edge_weight.unsqueeze(-1)),
        "not contiguous": (data.adj.t().contiguous().t(), data.edge_weight),
    }
    for name, (adj, weight) in forms.items():
        out = data(pooler, adj=adj, edge_weight=weight)
        close(out.x, expected.x, f"{name}: x")
        close(adjacency(out), adjacency(expected), f"{name}: adjacency")
        assert_same_losses(out, expected, name)


def check_sparse_tensor(case: Case) -> None:
    """Check that a ``SparseTensor`` gives the result of an edge list."""
    if not HAS_TORCH_SPARSE:
        raise Skip("torch-sparse is not installed")
    data, pooler = mixed_batch(), case.build()
    expected = data(pooler)
    adj = SparseTensor(row=data.adj[0], col=data.adj[1], value=data.edge_weight, sparse_sizes=(24, 24))
    out = data(pooler, adj=adj, edge_weight=None)
    close(out.x, expected.x, "x")
    close(adjacency(out), adjacency(expected), "adjacency")


def check_weights_used(case: Case) -> None:
    """Check that edge weights change the result, and that weights of one equal no weights."""
    data, pooler = mixed_batch(), case.build()
    plain = data(pooler, edge_weight=None)
    ones = data(pooler, edge_weight=torch.ones_like(data.edge_weight))
    close(ones.x, plain.x, "weights of one against none: x")
    assert torch.equal(adjacency(ones) != 0, adjacency(plain) != 0), "weights of one against none: edges"
    assert_same_losses(ones, plain, "weights of one against none")
    changed = False
    for data in (mixed_batch(), ring_batch((24, 30))):
        first, second = data(pooler), data(pooler, edge_weight=data.edge_weight.square() + 0.1)
        for mine, theirs in ((first.x, second.x), (adjacency(first), adjacency(second))):
            changed |= mine.shape != theirs.shape or not torch.allclose(mine, theirs)
    assert changed, "the result does not depend on the edge weights"


def check_weight_types(case: Case) -> None:
    """Check that integer and bool edge weights are used as numbers."""
    data, pooler = mixed_batch(), case.build()
    count = (data.adj.sum(0) % 3 + 1).long()
    for name, weight in (("int64", count), ("bool", torch.ones_like(count).bool())):
        out, expected = data(pooler, edge_weight=weight), data(pooler, edge_weight=weight.float())
        close(out.x, expected.x, f"{name} weights: x")
        close(adjacency(out).float(), adjacency(expected), f"{name} weights: adjacency")
        assert_same_losses(out, expected, f"{name} weights:")


def check_zero_nodes(case: Case) -> None:
    """Check that a batch without nodes gives an empty result."""
    pooler = case.build()
    x, adj = torch.randn(0, IN_CHANNELS), torch.zeros(2, 0, dtype=torch.long)
    for batch in (None, torch.zeros(0, dtype=torch.long)):
        out = pooler(x=x, adj=adj, batch=batch, **needed_arguments(pooler, x))
        assert out.so.num_nodes == 0
        assert torch.isfinite(out.x).all(), "x is not finite"
        for name, value in (out.loss or {}).items():
            assert torch.isfinite(value), f"loss {name} is {float(value)}"


def check_empty_graphs(case: Case) -> None:
    """Check that graphs without nodes do not change the results of the other graphs."""
    data, pooler = mixed_batch().take([0, 3]), case.build()
    expected = by_graph(data(pooler), 2)
    out = data(pooler, batch=data.batch * 2, batch_size=4)
    assert all(torch.isfinite(value) for value in (out.loss or {}).values()), "losses are not finite"
    found = by_graph(out, 4)
    assert len(found) == 4
    close(found[0], expected[0], "first graph")
    close(found[2], expected[1], "graph after an empty one")
    for graph in (1, 3):
        assert not found[graph].any(), "an empty graph has features"


def check_duplicate_edges(case: Case) -> None:
    """Check that parallel edges and self loops are accepted; dense results sum parallel weights."""
    data, pooler = mixed_batch(), case.build()
    loops = torch.arange(24).expand(2, 24)
    doubled = GraphBatch(
        data.x,
        torch.cat([data.adj, data.adj, loops], 1),
        torch.cat([data.edge_weight / 2, data.edge_weight / 2, torch.ones(24)]),
        data.batch,
    )
    out = doubled(pooler)
    assert torch.isfinite(out.x).all()
    assert all(torch.isfinite(value) for value in (out.loss or {}).values())
    if not out.so.is_dense:
        return
    once = GraphBatch(
        data.x, torch.cat([data.adj, loops], 1), torch.cat([data.edge_weight, torch.ones(24)]), data.batch
    )
    assert_same_output(out, once(pooler), "parallel edges:", atol=1e-4)


def check_directed(case: Case) -> None:
    """Check that directed graphs give finite results."""
    data, pooler = mixed_batch(), case.build()
    one_way = data.adj[0] < data.adj[1]
    out = data(pooler, adj=data.adj[:, one_way], edge_weight=data.edge_weight[one_way])
    assert torch.isfinite(out.x).all()
    assert torch.isfinite(adjacency(out)).all()
    assert all(torch.isfinite(value) for value in (out.loss or {}).values())


def check_no_batch(case: Case) -> None:
    """Check that one graph gives the same result with and without a batch vector of zeros."""
    data, pooler = mixed_batch().take([3]), case.build()
    expected = data(pooler)
    out = data(pooler, batch=None)
    close(out.x.view_as(expected.x), expected.x, "x")  # the result of one graph may have no batch dimension
    close(adjacency(out).view_as(adjacency(expected)), adjacency(expected), "adjacency")
    assert_same_losses(out, expected)
