"""Sampling of negative edges: pairs of nodes without an edge."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.checks import check_ids
from tgp.utils.ops.batching import num_graphs

__all__ = [
    "batched_negative_edge_sampling",
    "edge_index_to_vector_id",
    "negative_edge_sampling",
    "sample_almost_k_edges",
    "vector_id_to_edge_index",
]

_METHODS = ("sparse", "dense", "auto")


class _MethodError(InputError, AssertionError):
    """Unknown sampling method. Also an ``AssertionError``, which tgp 1.0.2 raised."""


def edge_index_to_vector_id(edge_index: Tensor, size: tuple[int, int]) -> Tensor:
    """Return ``row * size[1] + col`` of each pair."""
    return edge_index[0] * size[1] + edge_index[1]


def vector_id_to_edge_index(vector_id: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return ``(row, col)`` of each id, the inverse of :func:`edge_index_to_vector_id`."""
    return vector_id // size[1], vector_id % size[1]


def sample_almost_k_edges(
    size: tuple[int, int],
    k: int,
    force_undirected: bool,
    remove_self_loops: bool,
    method: str,
    device: torch.device | str | None = None,
    *,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw at most ``k`` distinct pairs in random order, and return the pairs and their ids.

    The method ``dense`` draws without replacement. The method ``sparse`` draws with replacement and removes repeated
    pairs. With ``force_undirected``, pairs on and below the diagonal are removed; with ``remove_self_loops``, pairs on
    the diagonal are removed.
    """
    total = size[0] * size[1]
    if method == "dense":
        ids = torch.randperm(total, device=device, generator=generator)[:k]
    else:
        ids = torch.unique(torch.randint(max(total, 1), (min(k, total),), device=device, generator=generator))
        ids = ids[torch.randperm(ids.numel(), device=device, generator=generator)]
    row, col = vector_id_to_edge_index(ids, size)
    keep = torch.ones_like(row, dtype=torch.bool)
    if force_undirected:
        keep = col > row
    elif remove_self_loops:
        keep = col != row
    return torch.stack([row[keep], col[keep]]), ids[keep]


def _draws(wanted: int, free: float) -> int:
    """Return the number of draws with replacement that give about ``wanted`` negatives.

    A share ``free`` of all pairs is negative.
    """
    if free > 2 / 3:
        return int(wanted / free)
    if free < 0.5:
        warnings.warn(
            "The probability of sampling a negative edge is too low; use method='dense' to get them all.",
            stacklevel=4,
        )
        return 2 * wanted
    warnings.warn("The probability of sampling a negative edge is low; fewer may come back.", stacklevel=4)
    return int(1.5 * wanted)


def negative_edge_sampling(
    edge_index: Tensor,
    num_nodes: int | tuple[int, int] | None = None,
    num_neg_samples: int | None = None,
    method: str = "auto",
    force_undirected: bool = False,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw ``[2, M]`` pairs that are not edges.

    The result may have fewer pairs than ``num_neg_samples``, never more.

    Args:
        edge_index: ``[2, E]``.
        num_nodes: ``N``, or ``(Ns, Nd)`` for a bipartite graph, in which a node may be paired with the same id.
        num_neg_samples: Number of pairs; default is the number of edges, if there are enough pairs.
        method: ``sparse``, ``dense`` or ``auto`` (dense if more than half of the pairs are edges).
        force_undirected: Draw pairs above the diagonal and add the opposite pairs.
        generator: Random number generator.
    """
    if method not in _METHODS:
        raise _MethodError(f"method must be one of {', '.join(_METHODS)}, got {method!r}", field="method")
    bipartite = isinstance(num_nodes, tuple)
    if isinstance(num_nodes, tuple):
        size = (int(num_nodes[0]), int(num_nodes[1]))
        force_undirected = False
    else:
        count = (
            num_nodes if num_nodes is not None else int(edge_index.max()) + 1 if edge_index.numel() > 0 else 0
        )
        size = (int(count), int(count))
    for side, limit in zip(edge_index, size, strict=True):
        check_ids(side, limit, "edge_index")
    total, edges = size[0] * size[1], edge_index.size(1)
    wanted = min(edges, total - edges) if num_neg_samples is None else num_neg_samples
    wanted = wanted // 2 if force_undirected else wanted
    if total == 0 or wanted <= 0:
        return edge_index.new_empty(2, 0)
    free = 1.0 - edges / total
    if method == "auto":
        method = "dense" if free < 0.5 else "sparse"
    draws = total if method == "dense" else min(total, _draws(wanted, free) * (2 if force_undirected else 1))
    pairs, ids = sample_almost_k_edges(
        size, draws, force_undirected, not bipartite, method, edge_index.device, generator=generator
    )
    negative = ~torch.isin(ids, edge_index_to_vector_id(edge_index, size))
    pairs = pairs[:, negative][:, :wanted]
    return torch.cat([pairs, pairs.flip(0)], dim=1) if force_undirected else pairs


def batched_negative_edge_sampling(
    edge_index: Tensor,
    batch: Tensor | tuple[Tensor, Tensor],
    num_neg_samples: int | None = None,
    method: str = "auto",
    force_undirected: bool = False,
    *,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw negative pairs inside each graph of a batch.

    Edges and nodes may have any order. For each graph, distinct pairs are drawn from its ``Ns_g * Nd_g`` pairs, and
    edges are removed.

    Args:
        edge_index: ``[2, E]`` in global ids.
        batch: ``[N]`` graph ids, or one vector per side of a bipartite graph.
        num_neg_samples: Number of pairs per graph; default is the number of its edges, if there are enough pairs.
        method: Must be a valid method, but has no effect: the number of draws follows from the density of each graph.
        force_undirected: Draw pairs above the diagonal and add the opposite pairs.
        batch_size: Number of graphs.
        generator: Random number generator.

    Returns:
        ``[2, M]`` pairs in global ids.
    """
    if method not in _METHODS:
        raise _MethodError(f"method must be one of {', '.join(_METHODS)}, got {method!r}", field="method")
    bipartite = isinstance(batch, tuple)
    src, dst = batch if isinstance(batch, tuple) else (batch, batch)
    for side, ids in zip(edge_index, (src, dst), strict=True):
        check_ids(side, ids.numel(), "edge_index")
    force_undirected = force_undirected and not bipartite
    graphs = max(num_graphs(src, batch_size), num_graphs(dst, batch_size))
    rows, cols = _Side(src, graphs), _Side(dst, graphs)
    pairs = rows.counts * cols.counts
    start = pairs.cumsum(0) - pairs
    graph = src[edge_index[0]]
    edges = torch.bincount(graph, minlength=graphs)
    taken = start[graph] + rows.local(edge_index[0]) * cols.counts[graph] + cols.local(edge_index[1])

    wanted = (
        torch.minimum(edges, pairs - edges)
        if num_neg_samples is None
        else torch.full_like(edges, num_neg_samples)
    )
    wanted = wanted // 2 if force_undirected else wanted
    usable = 0.5 if force_undirected else 1.0
    ids, owner = _draw_pairs(pairs, start, wanted, edges, usable, generator)
    local = ids - start[owner]
    row, col = local // cols.counts[owner], local % cols.counts[owner]
    keep = ~torch.isin(ids, taken)
    if force_undirected:
        keep &= col > row
    elif not bipartite:
        keep &= col != row
    row, col, owner = row[keep], col[keep], owner[keep]
    kept = torch.bincount(owner, minlength=graphs)
    place = torch.arange(owner.numel(), device=owner.device) - (kept.cumsum(0) - kept)[owner]
    inside = place < wanted[owner]
    out = torch.stack([rows.node(owner[inside], row[inside]), cols.node(owner[inside], col[inside])])
    return torch.cat([out, out.flip(0)], dim=1) if force_undirected else out


class _Side:
    """Local and global node ids of one side of a batch, with graph ids in any order."""

    def __init__(self, batch: Tensor, graphs: int) -> None:
        self.counts = torch.bincount(batch, minlength=graphs)
        self.start = self.counts.cumsum(0) - self.counts
        self.order = batch.argsort(stable=True)
        self.batch = batch
        self.rank = torch.empty_like(self.order)
        self.rank[self.order] = torch.arange(batch.numel(), device=batch.device)

    def local(self, node: Tensor) -> Tensor:
        return self.rank[node] - self.start[self.batch[node]]

    def node(self, graph: Tensor, local: Tensor) -> Tensor:
        return self.order[self.start[graph] + local]


def _draw_pairs(
    pairs: Tensor,
    start: Tensor,
    wanted: Tensor,
    edges: Tensor,
    usable: float,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """Return distinct global pair ids, grouped by graph and shuffled inside each graph, with their graph ids.

    Pairs are drawn with replacement. The number of draws is chosen so that about ``wanted`` pairs remain after repeated
    pairs, edges and pairs of the wrong triangle are removed; a share ``usable`` of all pairs is in the right triangle.
    All pairs of a small graph are used.
    """
    free = (pairs - edges).clamp(min=1).double() / pairs.clamp(min=1).double()
    draws = (2.0 * wanted / (free * usable)).ceil().long() + 8 * (wanted > 0)
    all_of_them = (draws >= pairs) & (wanted > 0)
    draws = torch.where(all_of_them, pairs, draws)
    owner = torch.arange(pairs.numel(), device=pairs.device).repeat_interleave(draws)
    first = (draws.cumsum(0) - draws)[owner]
    counter = torch.arange(owner.numel(), device=pairs.device) - first
    noise = torch.rand(owner.numel(), dtype=torch.float64, device=pairs.device, generator=generator)
    drawn = (noise * pairs[owner]).long().clamp(max=(pairs[owner] - 1).clamp(min=0))
    ids = torch.unique(start[owner] + torch.where(all_of_them[owner], counter, drawn))
    owner = torch.searchsorted(pairs.cumsum(0), ids, right=True)
    shuffle = torch.rand(ids.numel(), dtype=torch.float64, device=pairs.device, generator=generator)
    return ids[(owner + shuffle).argsort()], owner
