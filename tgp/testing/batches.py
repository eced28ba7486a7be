"""Batches of small graphs for the checks, and comparisons of the results of poolers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tgp.select import SelectOutput
from tgp.src import PoolingOutput
from tgp.testing.cases import IN_CHANNELS

__all__ = [
    "FeatureOutput",
    "GraphBatch",
    "adjacency",
    "assert_same_losses",
    "assert_same_output",
    "by_graph",
    "close",
    "complete_batch",
    "entries",
    "finite_gradient",
    "graph_ids",
    "is_dense_output",
    "mixed_batch",
    "needed_arguments",
    "normal",
    "objective",
    "ring_batch",
    "sorted_rows",
]

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


class FeatureOutput(PoolingOutput):
    """Result of a call with features, which always has pooled features and an assignment."""

    x: Tensor
    so: SelectOutput


def needed_arguments(pooler: Any, x: Tensor | None) -> dict[str, Tensor]:
    """Return the arguments that a pooler needs in addition to ``x``, such as ``pos``: the first two features of each node.

    Args:
        pooler: Pooler to call.
        x: Features.
    """
    names = getattr(getattr(pooler, "selector", None), "needs", ())
    return {} if x is None else {name: x.detach()[..., :2] for name in names if name != "x"}


@dataclass(frozen=True)
class GraphBatch:
    """Arguments of one forward."""

    x: Tensor
    adj: Tensor
    edge_weight: Tensor
    batch: Tensor

    def __call__(self, pooler: Any, **changes: Any) -> FeatureOutput:
        """Call ``pooler`` with a fixed seed of the random number generator.

        Args:
            pooler: Pooler to call.
            **changes: Arguments that replace those of the batch.
        """
        arguments = {"x": self.x, "adj": self.adj, "edge_weight": self.edge_weight, "batch": self.batch}
        arguments |= changes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            out: FeatureOutput = pooler(**{**needed_arguments(pooler, arguments["x"]), **arguments})
        return out

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return int(self.batch.max()) + 1

    def take(self, graphs: Sequence[int]) -> GraphBatch:
        """Return some of the graphs, in the given order."""
        parts, start = [], 0
        for place, graph in enumerate(graphs):
            nodes = (self.batch == graph).nonzero().view(-1)
            edges = self.batch[self.adj[0]] == graph
            parts.append(
                GraphBatch(
                    self.x[nodes],
                    self.adj[:, edges] - nodes[0] + start,
                    self.edge_weight[edges],
                    torch.full_like(nodes, place),
                )
            )
            start += nodes.numel()
        return GraphBatch(
            torch.cat([part.x for part in parts]),
            torch.cat([part.adj for part in parts], 1),
            torch.cat([part.edge_weight for part in parts]),
            torch.cat([part.batch for part in parts]),
        )

    def with_leaf(self) -> GraphBatch:
        """Return the batch with features that require a gradient."""
        return replace(self, x=self.x.clone().requires_grad_())


def mixed_batch(dtype: torch.dtype = torch.float32) -> GraphBatch:
    """Return a chain with loops, a sparse graph with two isolated nodes at its end, a graph of hubs and a grid."""
    chain = [(i, i + 1) for i in range(5)]
    loops = [(i, i) for i in range(6)]
    sparse = [(0, 1), (1, 2), (0, 3), (2, 3)]
    hubs = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 4), (2, 5)]
    grid = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    pairs: list[tuple[int, int]] = []
    for graph, edges in enumerate((chain, sparse, hubs, grid)):
        both = edges + [(b, a) for a, b in edges] + (loops if graph == 0 else [])
        pairs += [(a + 6 * graph, b + 6 * graph) for a, b in sorted(both)]
    return _batch(pairs, [6, 6, 6, 6], dtype)


def ring_batch(sizes: Sequence[int] = (12, 9), dtype: torch.dtype = torch.float32) -> GraphBatch:
    """Return rings. They have few edges, so dense poolers use their fast path for sparse graphs."""
    pairs, start = [], 0
    for size in sizes:
        ring = [(start + i, start + (i + 1) % size) for i in range(size)]
        pairs += sorted(ring + [(b, a) for a, b in ring])
        start += size
    return _batch(pairs, sizes, dtype)


def complete_batch(sizes: Sequence[int] = (5, 4), dtype: torch.dtype = torch.float32) -> GraphBatch:
    """Return complete graphs, which have as many edges as possible."""
    pairs, start = [], 0
    for size in sizes:
        pairs += [(start + i, start + j) for i in range(size) for j in range(size) if i != j]
        start += size
    return _batch(pairs, sizes, dtype)


def _batch(pairs: list[tuple[int, int]], sizes: Sequence[int], dtype: torch.dtype) -> GraphBatch:
    index = torch.tensor(pairs).t().contiguous()
    low, high = index.min(0).values, index.max(0).values
    weight = 0.5 + ((low * 31 + high * 17) % 11).to(dtype) / 11  # symmetric
    counts = torch.tensor(sizes)
    x = normal((int(counts.sum()), IN_CHANNELS), 3, dtype)
    return GraphBatch(x, index, weight, torch.arange(len(counts)).repeat_interleave(counts))


def normal(shape: Sequence[int], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normal random numbers on the default device. They are the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(tuple(shape), generator=generator, dtype=dtype, device="cpu")
    return values.to(torch.get_default_device())


def close(actual: Tensor | None, expected: Tensor | None, what: str = "", **tolerance: float) -> None:
    """Assert that two tensors are present and close, in values and types."""
    assert actual is not None and expected is not None, f"{what}: a tensor is missing"
    options: dict[str, Any] = {**TOLERANCE, **tolerance}
    torch.testing.assert_close(
        actual.detach(), expected.detach(), msg=(lambda text: f"{what}: {text}") if what else None, **options
    )


def graph_ids(out: PoolingOutput) -> Tensor:
    """Return the graph ids of the supernodes of a sparse result."""
    assert out.batch is not None, "the result has no graph ids"
    return out.batch


def entries(out: FeatureOutput) -> tuple[Tensor, Tensor]:
    """Return the cluster ids and the node ids of a sparse assignment."""
    cluster_index, node_index = out.so.cluster_index, out.so.node_index
    assert cluster_index is not None and node_index is not None, "the assignment has no entries"
    return cluster_index, node_index


def by_graph(out: FeatureOutput, num_graphs: int) -> list[Tensor]:
    """Return the pooled features of each graph."""
    x = out.x.detach()
    if x.dim() == 3:
        return list(x)
    if out.batch is None:
        return [x]
    return [x[out.batch == graph] for graph in range(num_graphs)]


def sorted_rows(rows: Tensor) -> Tensor:
    """Return rows in an order that does not depend on the ids of the supernodes."""
    keys = (rows * torch.linspace(1, 2, rows.size(-1), dtype=rows.dtype)).sum(-1)
    return rows[keys.argsort()]


def is_dense_output(out: PoolingOutput) -> bool:
    """Return True if the pooled graphs are one dense ``[B, K, K]`` tensor."""
    adj = out.edge_index
    return (
        isinstance(adj, Tensor) and adj.layout is torch.strided and adj.is_floating_point() and adj.dim() == 3
    )


def adjacency(out: FeatureOutput, *, flat: bool = False) -> Tensor:
    """Return the pooled connectivity in any container as a dense tensor.

    Args:
        out: Result of a pooler.
        flat: Return a dense ``[B, K, K]`` result as one block-diagonal matrix of the non-empty supernodes.
    """
    adj, weight = out.edge_index, out.edge_weight
    if is_dense_output(out):
        dense: Tensor = adj.detach()
        if not flat:
            return dense
        mask = torch.ones(adj.shape[:2], dtype=torch.bool) if out.mask is None else out.mask
        diagonal: Tensor = torch.block_diag(*dense)
        return diagonal[mask.view(-1)][:, mask.view(-1)]
    if not isinstance(adj, Tensor) or adj.layout is not torch.strided:
        matrix: Tensor = adj.to_dense()
        return matrix.detach()
    rows = out.x.size(-2)
    if weight is None:
        weight = torch.ones(adj.size(1), dtype=out.x.dtype if out.x.is_floating_point() else None)
    zeros = torch.zeros(rows, rows, dtype=weight.dtype)
    return zeros.index_put(tuple(adj.long()), weight.detach().view(-1), accumulate=True)


def assert_same_output(
    actual: FeatureOutput, expected: FeatureOutput, what: str = "", **tolerance: float
) -> None:
    """Assert that two results have the same features, connectivity, graph ids and losses."""
    close(actual.x, expected.x, f"{what} x", **tolerance)
    close(adjacency(actual), adjacency(expected), f"{what} adjacency", **tolerance)
    assert (actual.batch is None) == (expected.batch is None), f"{what} batch"
    if expected.batch is not None:
        assert torch.equal(graph_ids(actual), expected.batch), f"{what} batch"
    assert_same_losses(actual, expected, what, **tolerance)


def assert_same_losses(
    actual: PoolingOutput, expected: PoolingOutput, what: str = "", **tolerance: float
) -> None:
    """Assert that two results have the same losses."""
    mine, theirs = actual.loss or {}, expected.loss or {}
    assert mine.keys() == theirs.keys(), f"{what} losses: {sorted(mine)} and {sorted(theirs)}"
    for name, value in theirs.items():
        close(mine[name], value, f"{what} loss {name}", **tolerance)


def finite_gradient(leaf: Tensor) -> bool:
    """Return True if a tensor has a gradient and all of its values are finite."""
    return leaf.grad is not None and bool(torch.isfinite(leaf.grad).all())


def objective(out: FeatureOutput) -> Tensor:
    """Return one number that depends on all results of a pooler."""
    total: Tensor = out.x.square().sum() + sum((out.loss or {}).values())
    weight: Tensor | None = out.edge_index if is_dense_output(out) else out.edge_weight
    return total if weight is None or not weight.is_floating_point() else total + weight.square().sum()
