"""Checks of shapes, copies, order, independence of graphs, and gradients."""

from __future__ import annotations

import copy
import io

import torch
from torch import Tensor
from torch_geometric.nn import DenseGCNConv, GCNConv

from tgp.testing.batches import (
    FeatureOutput,
    GraphBatch,
    adjacency,
    assert_same_output,
    by_graph,
    close,
    complete_batch,
    entries,
    finite_gradient,
    graph_ids,
    is_dense_output,
    mixed_batch,
    needed_arguments,
    normal,
    objective,
    ring_batch,
    sorted_rows,
)
from tgp.testing.cases import IN_CHANNELS, Case, Skip

ONCE = frozenset({"copies", "traits", "gradcheck"})
SLOW: frozenset[str] = frozenset()


def check_shapes(case: Case) -> None:
    """Check that features, edges and graph ids describe the same supernodes, and that layers accept them."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    if is_dense_output(out):
        graphs, k = out.edge_index.shape[:2]
        assert out.edge_index.shape == (4, k, k)
        assert out.x.shape[:2] == (graphs, k)
        assert out.edge_weight is None
        DenseGCNConv(out.x.size(-1), 2)(out.x.float(), out.edge_index.float())
    else:
        rows, batch = out.x.size(0), graph_ids(out)
        assert batch.numel() == rows
        assert out.edge_index.numel() == 0 or int(out.edge_index.max()) < rows
        assert (batch[out.edge_index[0]] == batch[out.edge_index[1]]).all(), "an edge leaves its graph"
        assert out.edge_weight is None or out.edge_weight.numel() == out.edge_index.size(1)
        GCNConv(out.x.size(-1), 2)(out.x, out.edge_index, out.edge_weight)
    assert out.so.num_nodes in (24, 6)


def check_mask(case: Case) -> None:
    """Check that the mask marks the supernodes with nodes, and that the others have no features and edges."""
    for data in (mixed_batch(), ring_batch()):
        out = data(case.build())
        if out.mask is None:
            raise Skip("the result has no mask")
        assert out.mask.shape == (data.num_graphs, out.so.num_supernodes)
        assert out.mask.dtype is torch.bool
        used = torch.stack([part.abs().sum(0) > 0 for part in _assignment_by_graph(out, data)])
        assert torch.equal(out.mask, used), "the mask differs from the supernodes that have nodes"
        if is_dense_output(out):
            assert not out.x[~out.mask].any(), "a supernode without nodes has features"
            assert not out.edge_index[~out.mask].any(), "a supernode without nodes has edges"


def _assignment_by_graph(out: FeatureOutput, data: GraphBatch) -> list[Tensor]:
    s = out.so.s.to_dense() if out.so.s.layout is not torch.strided else out.so.s
    if s.dim() == 3:
        return [s[graph][: int((data.batch == graph).sum())] for graph in range(data.num_graphs)]
    return [s[data.batch == graph] for graph in range(data.num_graphs)]


def check_numbering(case: Case) -> None:
    """Check that supernodes are numbered by graph, and that no node is assigned to another graph."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    if out.so.is_dense:
        raise Skip("a dense assignment has its own columns for every graph")
    assert out.so.num_supernodes == out.x.size(0)
    batch, (index, nodes) = graph_ids(out), entries(out)
    assert (batch.diff() >= 0).all(), "graph ids of supernodes must ascend"
    assert int(index.min()) >= 0 and int(index.max()) < out.so.num_supernodes
    assert torch.equal(batch[index], data.batch[nodes]), "a node is in a supernode of another graph"
    assert index.unique().numel() == out.so.num_supernodes, "a supernode has no node"


def check_reduce(case: Case) -> None:
    """Check that the reducer returns rows and graph ids that fit the assignment of the result."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    if out.so.is_dense:
        raise Skip("the reducer of a dense assignment works on padded features")
    pooled, batch = pooler.reducer(x=data.x, so=out.so, batch=data.batch)
    assert torch.equal(batch, graph_ids(out)), "graph ids of the supernodes differ"
    assert pooled.shape == out.x.shape


def check_lift(case: Case) -> None:
    """Check that lifting returns a finite row for every node, is linear, and does not mix graphs."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    lifted = pooler(x=out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
    assert lifted.size(-2) == out.so.num_nodes
    assert torch.isfinite(lifted).all()
    twice = pooler(x=2 * out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
    close(twice, 2 * lifted, "lifting is not linear")
    for graph in range(4):
        other = out.x.clone()
        if other.dim() == 3:
            other[graph] += 1
        else:
            other[out.batch == graph] += 1
        moved = pooler(x=other, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
        changed = (moved - lifted).abs().sum(-1) > 1e-6
        if changed.dim() == 2:
            outside = torch.cat([changed[:graph], changed[graph + 1 :]])
        else:
            outside = changed[data.batch != graph]
        assert not outside.any(), "lifting mixes graphs"
        assert changed.any(), "lifting ignores the features of a graph"


def check_lift_values(case: Case) -> None:
    """Check that lifted features are ``s_inv^T x``."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    x_pool = normal(out.x.shape, 4)
    lifted = pooler(x=x_pool, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
    back = out.so.s_inv if out.so.s_inv.layout is torch.strided else out.so.s_inv.to_dense()
    if back.dim() == 2 and back.size(0) == x_pool.size(0) and not out.so.is_dense:
        expected = back.t() @ x_pool
    else:
        padded = x_pool if x_pool.dim() == 3 else _padded(x_pool, out, data.num_graphs)
        back = back.mT if back.dim() == 3 else back.t()[:, None, :]
        expected = back @ (padded if back.size(-2) != 1 else padded[data.batch])
        expected = expected if lifted.dim() == 3 else expected.reshape(-1, expected.size(-1))
    close(lifted, expected, "lifted features", atol=1e-4)


def _padded(x_pool: Tensor, out: FeatureOutput, num_graphs: int) -> Tensor:
    """Return the rows of a sparse result at their positions in ``[B, K, F]``."""
    full = x_pool.new_zeros(num_graphs * out.so.num_supernodes, x_pool.size(-1))
    mask = torch.ones(len(full), dtype=torch.bool) if out.mask is None else out.mask.reshape(-1)
    full[mask] = x_pool
    return full.view(num_graphs, -1, x_pool.size(-1))


def check_copies(case: Case) -> None:
    """Check that deep copies and loaded parameters give the same results."""
    data, pooler = mixed_batch(), case.build()
    expected = data(pooler)
    assert_same_output(data(copy.deepcopy(pooler)), expected, "deep copy")
    buffer = io.BytesIO()
    torch.save(pooler.state_dict(), buffer)
    buffer.seek(0)
    other = case.build(seed=8)
    other.reset_parameters()
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert_same_output(data(other), expected, "loaded parameters")
    assert type(pooler).__name__ in repr(pooler)


def check_traits(case: Case) -> None:
    """Check that the properties of the pooler and its entry in the table agree with its results."""
    pooler = case.build()
    out = mixed_batch()(pooler)
    facts = {
        "dense": out.so.is_dense,
        "trainable": any(p.requires_grad for p in pooler.parameters()),
        "loss": bool(out.loss),
        "precoarsenable": pooler.is_precoarsenable,
    }
    assert pooler.is_dense == facts["dense"]
    assert pooler.is_sparse != facts["dense"]
    assert pooler.is_trainable == facts["trainable"]
    assert pooler.has_loss == facts["loss"]
    assert all(value.dim() == 0 and torch.isfinite(value) for value in (out.loss or {}).values())
    if case.entry is not None and case.entry.traits:
        assert dict(case.entry.traits) == facts, "the entry in the table differs from the pooler"


def check_single(case: Case) -> None:
    """Check that the result of a graph is the same alone and at any position in a batch."""
    isolated = mixed_batch().take([1, 3, 1])  # two graphs with isolated nodes
    for data, order in (
        (mixed_batch(), [2, 0, 3, 1]),
        (ring_batch((12, 9, 5)), [1, 2, 0]),
        (isolated, [2, 1, 0]),
    ):
        pooler = case.build()
        together = data(pooler)
        for graph in range(data.num_graphs):
            _assert_graph(data.take([graph])(pooler), 0, together, graph)
        shuffled = data.take(order)(pooler)
        for place, graph in enumerate(order):
            _assert_graph(shuffled, place, together, graph)


def _assert_graph(mine: FeatureOutput, place: int, theirs: FeatureOutput, graph: int) -> None:
    """Compare graph ``place`` of one result with graph ``graph`` of another, except for padding."""
    rows, expected = by_graph(mine, place + 1)[place], by_graph(theirs, graph + 1)[graph]
    size = min(len(rows), len(expected))  # a batch may be padded to the size of its largest graph
    assert not rows[size:].any() and not expected[size:].any()
    close(rows[:size], expected[:size], f"graph {graph} alone and in a batch: x")
    ours, other = _own_adjacency(mine, place), _own_adjacency(theirs, graph)
    close(ours[:size, :size], other[:size, :size], f"graph {graph} alone and in a batch: adjacency")


def _own_adjacency(out: FeatureOutput, graph: int) -> Tensor:
    if is_dense_output(out):
        block: Tensor = out.edge_index[graph]
        return block.detach()
    keep = out.batch == graph
    return adjacency(out)[keep][:, keep]


def check_order(case: Case) -> None:
    """Check that the order of edges and of graphs does not change the result."""
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    order = torch.arange(24).view(4, 6).t().reshape(-1)  # graphs interleaved
    place = order.argsort()
    shuffle = normal((data.adj.size(1),), 1).argsort()
    mixed = data(
        pooler,
        x=data.x[order],
        adj=place[data.adj][:, shuffle],
        edge_weight=data.edge_weight[shuffle],
        batch=data.batch[order],
    )
    for mine, expected in zip(by_graph(mixed, 4), by_graph(out, 4), strict=True):
        close(sorted_rows(mine), sorted_rows(expected))


def check_permutation(case: Case) -> None:
    """Check that renumbering the nodes of a graph only renumbers its supernodes."""
    data, pooler = mixed_batch(), case.build()
    inside = torch.cat([6 * g + torch.tensor([3, 1, 5, 0, 4, 2]) for g in range(4)])
    place = inside.argsort()
    permuted = data(pooler, x=data.x[inside], adj=place[data.adj])
    for mine, expected in zip(by_graph(permuted, 4), by_graph(data(pooler), 4), strict=True):
        close(sorted_rows(mine), sorted_rows(expected), atol=1e-4)


def check_repeat(case: Case) -> None:
    """Check that a result depends only on the input, and not on earlier calls."""
    pooler, first, second = case.build(), mixed_batch(), ring_batch()
    expected = first(pooler)
    assert_same_output(first(pooler), expected, "second call", rtol=0, atol=0)
    second(pooler)
    assert_same_output(first(pooler), expected, "call after another batch", rtol=0, atol=0)
    fresh = case.build()
    complete_batch()(fresh)
    assert_same_output(first(fresh), expected, "another instance", rtol=0, atol=0)


def check_inputs_unchanged(case: Case) -> None:
    """Check that a call does not change its arguments."""
    data, pooler = mixed_batch(), case.build()
    before = {name: getattr(data, name).clone() for name in ("x", "adj", "edge_weight", "batch")}
    out = data(pooler)
    pooler(x=out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
    for name, value in before.items():
        assert torch.equal(getattr(data, name), value), f"the call changed {name} in place"


def check_gradients(case: Case) -> None:
    """Check that features and parameters get finite gradients."""
    data, pooler = mixed_batch().with_leaf(), case.build()
    out = data(pooler)
    assert out.x.requires_grad, "pooled features do not depend on the features"
    (direct,) = torch.autograd.grad(out.x.square().sum(), data.x, retain_graph=True)
    assert direct.abs().sum() > 0, "no gradient flows from the pooled features to the features"
    objective(out).backward()
    assert finite_gradient(data.x)
    for name, parameter in pooler.named_parameters():
        if parameter.requires_grad:
            assert finite_gradient(parameter), f"the gradient of {name} is missing or not finite"


def check_gradcheck(case: Case) -> None:
    """Check that analytic gradients with respect to features equal numeric ones in double precision."""
    data, pooler = mixed_batch(torch.float64).take([3]), case.build().double()
    if not pooler.is_trainable:
        raise Skip("the pooler has no parameters")

    def pooled(x: Tensor) -> Tensor:
        out = data(pooler, x=x)
        return torch.stack([out.x.square().sum(), *(out.loss or {}).values()])

    start = data.x.clone().requires_grad_()
    assert torch.autograd.gradcheck(pooled, (start,), eps=1e-6, atol=1e-4, rtol=1e-3)


def check_device_clean(case: Case) -> None:
    """Check that no tensor is created on the default device instead of the device of the inputs."""
    data, pooler = mixed_batch(), case.build()
    expected = data(pooler).x
    with torch.device("meta"):
        close(data(pooler).x, expected)


def check_corners(case: Case) -> None:
    """Check one node, no edges, and isolated nodes at the end, with and without a batch vector."""
    pooler = case.build()
    for num_nodes, edges in ((1, []), (5, []), (6, [(0, 1), (1, 0), (1, 2), (2, 1)])):
        x = normal((num_nodes, IN_CHANNELS), num_nodes)
        adj = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
        needed = needed_arguments(pooler, x)
        out = pooler(x=x, adj=adj, batch=torch.zeros(num_nodes, dtype=torch.long), **needed)
        assert torch.isfinite(out.x).all()
        assert out.so.num_nodes == num_nodes
        out = pooler(x=x, adj=adj, **needed)
        assert out.so.num_nodes == num_nodes
        assert all(torch.isfinite(value) for value in (out.loss or {}).values())
