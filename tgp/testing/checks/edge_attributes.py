"""Checks that attributes of edges are pooled, in every mode and with code of the user."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.testing.batches import FeatureOutput, GraphBatch, close, is_dense_output, normal
from tgp.testing.cases import Case, Skip
from tgp.testing.checks.overrides import batches, subclass
from tgp.utils.ops.connectivity import connectivity_to_edge_index

ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()


def check_edge_attr(case: Case) -> None:
    """Check the values of pooled edge attributes for ``sum`` and ``mean``, and their gradients."""
    merges = foreign = False
    for name, data in batches().items():
        for how in ("sum", "mean"):
            attr = _attributes(data).requires_grad_()
            pooler = case.build()
            out = data(pooler, edge_attr=attr, edge_attr_reduce=how)
            if out.edge_attr is None:
                foreign = foreign or _has_foreign_edges(out, data)
                continue
            merges = True
            expected = _expected(pooler, out, data, attr, how)
            close(out.edge_attr, expected, f"edge_attr of {name}, {how}")
            factor = normal(expected.shape, 9)
            grads = [
                torch.autograd.grad((factor * value).sum(), attr, retain_graph=True)[0]
                for value in (out.edge_attr, expected)
            ]
            close(grads[0], grads[1], f"gradient of edge_attr of {name}, {how}", rtol=1e-4, atol=1e-4)
    assert merges or foreign, "edge_attr is lost: expected one row per pooled edge, got None"
    if not merges:
        raise Skip("the pooled edges are not merged input edges")


def check_edge_attr_shapes(case: Case) -> None:
    """Check that ``[E]`` attributes and ``[E, 1]`` attributes give equal values, and that ``none`` drops them."""
    for name, data in batches().items():
        attr = _attributes(data)[:, 0]
        flat = data(case.build(), edge_attr=attr)
        column = data(case.build(), edge_attr=attr.unsqueeze(-1))
        assert (flat.edge_attr is None) == (column.edge_attr is None)
        assert data(case.build(), edge_attr=attr, edge_attr_reduce="none").edge_attr is None
        assert data(case.build()).edge_attr is None, "edge_attr without edge_attr in the call"
        if flat.edge_attr is not None and column.edge_attr is not None:
            close(flat.edge_attr, column.edge_attr.squeeze(-1), f"edge_attr [E] and [E, 1] of {name}")


def check_override_edge_attr(case: Case) -> None:
    """Check that an overridden ``connect`` that returns two values does not lose edge attributes."""

    def connect(self: Any, *args: Any, **kwargs: Any) -> Any:
        adj, weight = base.connect(self, *args, **kwargs)
        return adj, weight

    base: Any = type(case.build())
    cls = subclass(base, connect=connect)
    merges = False
    for name, data in batches().items():
        attr = _attributes(data)
        plain = data(case.build(), edge_attr=attr)
        if plain.edge_attr is not None:
            merges = True
            mine = data(case.build(cls), edge_attr=attr)
            close(mine.edge_attr, plain.edge_attr, f"edge_attr of {name} with an overridden `connect`")
    if not merges:
        raise Skip("the pooled edges are not merged input edges")


def _attributes(data: GraphBatch) -> Tensor:
    return normal((data.adj.size(1), 2), 5)


def _has_foreign_edges(out: FeatureOutput, data: GraphBatch) -> bool:
    """Return True if there is a pooled edge without an input edge between its supernodes."""
    cluster = out.so.cluster
    if cluster is None:
        return False
    present = set(zip(*cluster[data.adj].tolist(), strict=True))
    pooled, _ = connectivity_to_edge_index(out.edge_index)
    return not present >= set(zip(*pooled.tolist(), strict=True))


def _expected(pooler: Any, out: FeatureOutput, data: GraphBatch, attr: Tensor, how: str) -> Tensor:
    """Return the edge attributes in the form of the result, computed from the assignment with dense matrices."""
    weight = data.edge_weight if out.so.is_dense else torch.ones_like(data.edge_weight)
    s = _rows(out, data)
    channels = [_product(s, data.adj, weight)] if how == "mean" else []
    channels += [_product(s, data.adj, weight * column) for column in attr.unbind(1)]
    if how == "mean":
        total, *channels = channels
        channels = [part / torch.where(total == 0, torch.ones_like(total), total) for part in channels]
    values = torch.stack(channels, -1)
    if not is_dense_output(out):
        if out.x.size(0) < s.size(1):  # without empty supernodes
            used = (s != 0).any(0)
            values = values[used][:, used]
        source, target = connectivity_to_edge_index(out.edge_index)[0]
        return values[source, target]
    graphs, k = out.edge_index.shape[:2]
    blocks = values.view(graphs, k, graphs, k, -1).diagonal(dim1=0, dim2=2).permute(3, 0, 1, 2)
    if getattr(pooler, "adj_transpose", False):
        blocks = blocks.transpose(1, 2)
    present: Tensor = out.edge_index != 0
    return blocks * present.unsqueeze(-1)


def _rows(out: FeatureOutput, data: GraphBatch) -> Tensor:
    """Return the assignment as a dense ``[N, B * K]`` matrix over all supernodes, without gradients."""
    so = out.so
    if so.is_sparse:
        return (so.s.to_dense() != 0).to(data.x.dtype)
    rows = so.to_nodes(so.s).detach()
    k = rows.size(-1)
    full = rows.new_zeros(rows.size(0), data.num_graphs, k)
    full[torch.arange(rows.size(0)), data.batch] = rows
    return full.view(rows.size(0), -1)


def _product(s: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    """Return ``S^T A S`` with a dense adjacency."""
    zeros = weight.new_zeros(s.size(0), s.size(0))
    adj = zeros.index_put(tuple(edge_index), weight, accumulate=True)
    return s.t() @ adj @ s
