"""Neighbour sampling on mapped edges, for PyG's ``NodeLoader``. It needs no compiled extension."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from tgp.data.mapped_edges import MappedEdges, Rows
from tgp.errors import InputError
from tgp.kernels.array_types import LongArray
from tgp.ragged.fields import take_ragged

__all__ = ["StoreNeighborSampler", "chosen_nodes"]


class HasEdges(Protocol):
    """Source of the edges of a sampler, such as a :class:`~tgp.data.LevelStore`. A pickled one opens its files again."""

    @property
    def edges(self) -> MappedEdges:
        """Edges by row."""
        ...


class StoreNeighborSampler(BaseSampler):
    """Sample sources of the edges to nodes, hop by hop, as PyG's ``NeighborSampler`` does (``"directional"``).

    Random numbers come from torch, so ``torch.manual_seed`` and the seeds of worker processes apply.

    Args:
        store: Object with the edges. Its mapped arrays are not sent to other processes.
        num_neighbors: Number of neighbours of each hop, -1 for all.
        replace: Sample with replacement.

    Raises:
        InputError: If there are no hops, or if a number of neighbours is not an integer from -1.
    """

    def __init__(self, store: HasEdges, num_neighbors: Sequence[int], *, replace: bool = False) -> None:
        is_list = isinstance(num_neighbors, Sequence) and not isinstance(num_neighbors, str)
        if not (is_list and num_neighbors and all(_is_fanout(count) for count in num_neighbors)):
            raise InputError(
                f"num_neighbors must be a list of integers from -1, one per hop, got {num_neighbors!r}",
                field="num_neighbors",
            )
        self.store, self.num_neighbors, self.replace = store, [int(n) for n in num_neighbors], replace

    @property
    def rows(self) -> Rows:
        """Neighbours of all nodes."""
        edges = self.store.edges
        edges.graph.part.check_unchanged()
        return edges.neighbors

    def sample_from_nodes(self, inputs: NodeSamplerInput, **_: Any) -> SamplerOutput:
        """Return the sampled nodes and edges. The first nodes are the given ones."""
        node = inputs.node.numpy().astype(np.int64)
        rows = self.rows
        if len(node):
            _check_ids(int(node.min()), int(node.max()), len(rows.ptr) - 1)
        rng = np.random.default_rng(int(torch.randint(2**62, ())))
        begin, counts = 0, [len(node)]
        found: list[tuple[LongArray, LongArray, LongArray]] = []
        for limit in self.num_neighbors:
            frontier = np.arange(begin, len(node))
            at, position = self._sample(rows, node[frontier], limit, rng)
            local, more = _number(node, rows.ids[position].astype(np.int64))
            found.append((local, frontier[at], rows.edge_ids(position, node[frontier[at]])))
            begin, node = len(node), np.concatenate([node, more])
            counts.append(len(more))
        source, target, edge = (torch.from_numpy(np.concatenate(some)) for some in zip(*found, strict=True))
        return SamplerOutput(
            node=torch.from_numpy(node),
            row=source,
            col=target,
            edge=edge,
            num_sampled_nodes=counts,
            num_sampled_edges=[len(step[0]) for step in found],
            metadata=(inputs.input_id, inputs.time),
        )

    def sample_from_edges(self, *_: Any, **__: Any) -> Any:
        """Refuse to sample around edges, which this sampler cannot do."""
        raise InputError("this sampler starts from nodes: expected a NodeLoader, got a loader of links")

    def _sample(
        self, rows: Rows, node: LongArray, limit: int, rng: np.random.Generator
    ) -> tuple[LongArray, LongArray]:
        """Return the position in ``node`` and the position in the rows of each sampled neighbour."""
        first, degree = rows.ptr[node], rows.ptr[node + 1] - rows.ptr[node]
        is_drawn = (degree > 0) if self.replace else (degree > limit)
        is_drawn &= limit >= 0
        whole, drawn = np.flatnonzero(~is_drawn), np.flatnonzero(is_drawn)
        _, all_of_whole = take_ragged(rows.ptr, node[whole])
        chosen = first[drawn, None] + _draw(degree[drawn], max(limit, 0), self.replace, rng)
        at = np.concatenate([np.repeat(whole, degree[whole]), np.repeat(drawn, chosen.shape[1])])
        order = np.argsort(at, kind="stable")
        return at[order], np.concatenate([all_of_whole, chosen.ravel()])[order]

    @property
    def edge_permutation(self) -> None:
        """Numbers of edges are those of the store."""
        return


def chosen_nodes(nodes: Any, size: int, name: str = "input_nodes", *, is_mask: bool = False) -> Tensor:
    """Return the ids of the nodes to start from.

    Args:
        nodes: Ids or a mask; all nodes if ``None``.
        size: Number of nodes.
        name: Name in messages.
        is_mask: Only a mask is valid.

    Raises:
        InputError: If it selects no nodes, or is neither a mask of all nodes nor a list of ids.
        IndexError: If there is no such node.
    """
    if nodes is None and size:
        return torch.arange(size)
    chosen = torch.as_tensor([] if nodes is None else nodes).cpu()
    if is_mask or chosen.dtype == torch.bool:
        chosen = _of_mask(chosen, size, name)
    if not chosen.numel():
        raise InputError(f"{name} selects no nodes: expected at least one to start from", field=name)
    if chosen.dim() != 1 or chosen.is_floating_point() or chosen.is_complex():
        found = f"{chosen.dtype} of shape {list(chosen.shape)}"
        raise InputError(f"{name} does not fit: expected a list of node ids, got {found}", field=name)
    _check_ids(int(chosen.min()), int(chosen.max()), size)
    return chosen.long()


def _of_mask(mask: Tensor, size: int, name: str) -> Tensor:
    if mask.dtype != torch.bool or mask.shape != (size,):
        raise InputError(
            f"{name} does not fit: expected one boolean per node, [{size}], got {mask.dtype} of shape {list(mask.shape)}",
            field=name,
        )
    return mask.nonzero().flatten()


def _check_ids(low: int, high: int, size: int) -> None:
    if low < 0 or high >= size:
        raise IndexError(f"a node is out of range: expected [0, {size}), got {low} to {high}")


def _is_fanout(count: Any) -> bool:
    return isinstance(count, Integral) and not isinstance(count, bool) and int(count) >= -1


def _draw(degree: LongArray, count: int, replace: bool, rng: np.random.Generator) -> LongArray:
    """Return ``count`` numbers below each degree. Without replacement, this is Floyd's algorithm on all rows at once."""
    if replace:
        return rng.integers(0, degree[:, None], size=(len(degree), count))
    chosen = np.empty((len(degree), count), np.int64)
    for step in range(count if len(degree) else 0):
        last = degree - count + step
        value = rng.integers(0, last + 1)
        is_used = (chosen[:, :step] == value[:, None]).any(axis=1)
        chosen[:, step] = np.where(is_used, last, value)
    return chosen


def _number(known: LongArray, found: LongArray) -> tuple[LongArray, LongArray]:
    """Return the position of each found node, where new nodes follow the known ones, and the new nodes."""
    ids, first, inverse = np.unique(np.concatenate([known, found]), return_index=True, return_inverse=True)
    is_new = first >= len(known)
    order = np.argsort(first[is_new])
    place = first.copy()
    place[np.flatnonzero(is_new)[order]] = len(known) + np.arange(len(order))
    return place[inverse[len(known) :]], ids[is_new][order]
