"""One graph with its levels, for models on nodes: pool features up and lift them down."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.data.views import LevelViews
from tgp.display import repr_html
from tgp.errors import InputError
from tgp.lift.base_lift import BaseLift, Lift
from tgp.reduce.base_reduce import BaseReduce, Reduce

__all__ = ["GraphHierarchy", "lift_to_nodes"]


def lift_to_nodes(x: Tensor, levels: Sequence[Data], lifter: Lift | None = None) -> Tensor:
    """Lift features of the coarsest level to the nodes of the input graph.

    Args:
        x: ``[K, F]`` features of the last of ``levels``.
        levels: Pooled levels of a graph or of a batch, finest first, without gaps.
        lifter: Module that lifts features by one level; default :class:`~tgp.lift.BaseLift`.

    Returns:
        ``[N, F]``. Nodes that a level dropped get 0.

    Raises:
        InputError: If ``x`` has not one row per supernode.
    """
    lift = BaseLift() if lifter is None else lifter
    for level in reversed(levels):
        if x.size(0) != level.num_nodes:
            raise InputError(
                f"x must have one row for each supernode of its level: expected {level.num_nodes}, got {x.size(0)}",
                field="x",
            )
        x = lift(x, so=level.so, batch=level.so.batch)
    return x


class GraphHierarchy(LevelViews):
    """One graph with its pooled levels.

    Level 0 is the input graph, level ``l`` is its ``l``-th pooled graph.

    Args:
        data: Graph with levels, from :class:`~tgp.data.PreCoarsening` or :class:`~tgp.data.PooledDataset`.
        key: Attribute that holds the levels.
        reducer: Module that pools features by one level; default :class:`~tgp.reduce.BaseReduce`.
        lifter: Module that lifts features by one level; default :class:`~tgp.lift.BaseLift`.

    Raises:
        InputError: If the graph has no levels.

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
            raise InputError(f"the graph has no levels: expected a list of levels in {key!r}", field=key)
        self.data = data
        self.levels: list[Data] = list(levels)
        self.reducer = BaseReduce() if reducer is None else reducer
        self.lifter = BaseLift() if lifter is None else lifter
        self._on: dict[torch.device, GraphHierarchy] = {}

    _repr_html_ = repr_html

    def _hierarchy(self) -> list[Data]:
        return [self.data, *self.levels]

    def __len__(self) -> int:
        """Number of pooled levels."""
        return len(self.levels)

    def __iter__(self) -> Iterator[Data]:
        return iter(self._hierarchy())

    def __getitem__(self, level: int) -> Data:
        """Return the graph at a level; 0 is the input graph."""
        return self._hierarchy()[level]

    def pool(self, x: Tensor, level: int, start: int = 0) -> Tensor:
        """Pool features of level ``start`` to ``level``.

        Args:
            x: ``[N, F]`` features of level ``start``.
            level: Level of the result.
            start: Level of ``x``; 0 is the input graph.
        """
        self._check(start, level)
        for coarse in self.levels[start:level]:
            x, _ = self.reducer(x=x, so=coarse.so, batch=coarse.so.batch)
            x = x.reshape(-1, x.size(-1))
        return x

    def lift(self, x: Tensor, level: int, stop: int = 0) -> Tensor:
        """Lift features of ``level`` to level ``stop``.

        Args:
            x: ``[K, F]`` features of ``level``.
            level: Level of ``x``.
            stop: Level of the result; 0 is the input graph.
        """
        self._check(stop, level)
        return lift_to_nodes(x, self.levels[stop:level], self.lifter)

    def _check(self, low: int, high: int) -> None:
        if not 0 <= low <= high <= len(self):
            raise InputError(
                f"levels must lie in [0, {len(self)}] in ascending order, got {low} and {high}", field="level"
            )

    def to(self, device: Any) -> GraphHierarchy:
        """Return the hierarchy on a device. It is copied once per device; later calls return the same object."""
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
        """Device of the tensors."""
        device: torch.device = self.levels[0].edge_index.device
        return device

    def __repr__(self) -> str:
        sizes = " -> ".join(str(graph.num_nodes) for graph in self)
        return f"GraphHierarchy({sizes} nodes)"
