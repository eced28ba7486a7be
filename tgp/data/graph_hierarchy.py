"""One graph and its levels, for models on nodes: pool up, come back down."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.errors import InputError
from tgp.lift.base_lift import BaseLift, Lift
from tgp.reduce.base_reduce import BaseReduce, Reduce

__all__ = ["GraphHierarchy", "lift_to_nodes"]


def lift_to_nodes(x: Tensor, levels: Sequence[Data], lifter: Lift | None = None) -> Tensor:
    """Features of the last of ``levels`` brought back to the nodes of the input graph.

    Args:
        x: ``[K, F]`` features of the coarsest level.
        levels: pooled levels (of a graph or of a batch), finest first; none of those in between may be missing.
        lifter: how to go down one level; default :class:`~tgp.lift.BaseLift`.

    Returns:
        ``[N, F]``. Nodes that a level dropped get 0.
    """
    go_down = BaseLift() if lifter is None else lifter
    for level in reversed(levels):
        if x.size(0) != level.num_nodes:
            raise InputError(
                f"features must have a row for each of the {level.num_nodes} supernodes of their level, got {x.size(0)}",
                field="x",
            )
        x = go_down(x, so=level.so, batch=level.so.batch)
    return x


class GraphHierarchy:
    """One graph with its pooled levels.

    Level 0 is the graph itself, level ``l`` its ``l``-th pooled graph.

    Args:
        data: a graph with levels, from :class:`~tgp.data.PreCoarsening` or :class:`~tgp.data.PooledDataset`.
        key: attribute that holds the levels.
        reducer: how features go up one level; default :class:`~tgp.reduce.BaseReduce`.
        lifter: how they come down; default :class:`~tgp.lift.BaseLift`.

    Examples:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from tgp.data import PreCoarsening
        >>> edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> data = PreCoarsening([("graclus", {"order": "index"})] * 2)(Data(edge_index=edges, num_nodes=4))
        >>> hierarchy = GraphHierarchy(data)
        >>> top = hierarchy.pool(torch.ones(4, 1), 2)
        >>> top.tolist(), hierarchy.lift(top, 2).flatten().tolist()
        ([[4.0]], [4.0, 4.0, 4.0, 4.0])
    """

    def __init__(
        self,
        data: Data,
        key: str = "pooled_data",
        *,
        reducer: Reduce | None = None,
        lifter: Lift | None = None,
    ) -> None:
        levels = data.get(key)
        if not levels:
            raise InputError(f"the graph must have levels in {key!r}, got none", field=key)
        self.data = data
        self.levels: list[Data] = list(levels)
        self.reducer = BaseReduce() if reducer is None else reducer
        self.lifter = BaseLift() if lifter is None else lifter
        self._on: dict[torch.device, GraphHierarchy] = {}

    def __len__(self) -> int:
        """Number of pooled levels."""
        return len(self.levels)

    def __iter__(self) -> Iterator[Data]:
        return iter([self.data, *self.levels])

    def __getitem__(self, level: int) -> Data:
        """The graph at a level; 0 is the input graph."""
        return [self.data, *self.levels][level]

    def pool(self, x: Tensor, level: int, start: int = 0) -> Tensor:
        """Features of level ``start`` brought up to ``level``."""
        self._check(start, level)
        for coarse in self.levels[start:level]:
            x, _ = self.reducer(x=x, so=coarse.so, batch=coarse.so.batch)
            x = x.reshape(-1, x.size(-1))
        return x

    def lift(self, x: Tensor, level: int, stop: int = 0) -> Tensor:
        """Features of ``level`` brought down to level ``stop``; 0 are the nodes of the graph."""
        self._check(stop, level)
        return lift_to_nodes(x, self.levels[stop:level], self.lifter)

    def _check(self, low: int, high: int) -> None:
        if not 0 <= low <= high <= len(self):
            raise InputError(
                f"levels must lie in [0, {len(self)}] in order, got {low} and {high}", field="level"
            )

    def to(self, device: Any) -> GraphHierarchy:
        """The hierarchy on a device. It is moved once: asking again gives the same object."""
        target = torch.device(device)
        if target == self.device:
            return self
        if target not in self._on:
            twin = copy.copy(self)
            twin.data = self.data.clone().to(target)
            twin.levels = [level.clone().to(target) for level in self.levels]
            twin._on = {self.device: self}
            self._on[target] = twin
        return self._on[target]

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.levels[0].edge_index.device

    def __repr__(self) -> str:
        sizes = " -> ".join(str(graph.num_nodes) for graph in self)
        return f"GraphHierarchy({sizes} nodes)"
