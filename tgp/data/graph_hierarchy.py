"""One graph with its levels, for models on nodes: pool features up, lift them down, train on a level."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.data.level_links import compose_links
from tgp.data.views import LevelViews
from tgp.display import repr_html
from tgp.errors import InputError
from tgp.lift.base_lift import BaseLift, Lift
from tgp.reduce.base_reduce import BaseReduce, Reduce

__all__ = ["GraphHierarchy", "depends_on_all_labels", "lift_to_nodes", "set_labels"]


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
        self.levels: Sequence[Data] = list(levels)
        self.reducer = BaseReduce() if reducer is None else reducer
        self.lifter = BaseLift() if lifter is None else lifter
        self._on: dict[torch.device, GraphHierarchy] = {}

    _repr_html_ = repr_html

    def _hierarchy(self) -> list[Data]:
        return [self.data, *self.levels]

    def _links(self, level: int) -> Tensor:
        """Return the supernode at a level of each node of the input graph, -1 for dropped nodes."""
        return compose_links(self._hierarchy(), level)

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

    def expand(self, values: Tensor, level: int, fill: float = 0) -> Tensor:
        """Copy a value of each supernode, such as a predicted class, to its nodes of the input graph.

        Unlike :meth:`lift`, it takes values of any type and shape and ignores the values of the assignment.

        Args:
            values: ``[K, ...]`` one row for each supernode of ``level``.
            level: Level of ``values``; 0 is the input graph.
            fill: Value of the nodes that a level dropped.

        Returns:
            ``[N, ...]``. A node of a soft assignment gets the value of its strongest supernode.

        Raises:
            InputError: If there is no such level, or ``values`` is not a tensor with one row per supernode.
        """
        self._check(0, level)
        if not isinstance(values, Tensor):
            raise InputError(
                f"values has the wrong type: expected a torch.Tensor, got {type(values).__name__}",
                field="values",
                hint="use torch.as_tensor(values)",
            )
        if values.dim() == 0 or values.size(0) != self[level].num_nodes:
            raise InputError(
                f"values must have one row for each supernode of level {level}: expected {self[level].num_nodes}, got "
                f"{tuple(values.shape)}",
                field="values",
            )
        cluster = self._links(level)
        kept = cluster >= 0
        result = values.new_full((len(cluster), *values.shape[1:]), fill)
        result[kept] = values[cluster[kept]]
        return result

    def reduced(self, level: int) -> Data:
        """Return a level as a plain graph on which any model can be trained.

        The labels come from the training and validation members of the supernodes. Labels of other nodes are never used.

        - ``train_mask``: supernodes with training members that all have the same label.
        - ``val_mask``: the same for validation members. A supernode that is also in ``train_mask`` must have that label.
        - ``y``: this label; -1 for supernodes outside of both masks. A ``y`` of floats is the mean of the training
          members, else of the validation members, and NaN without any.

        Args:
            level: Level from 1 on. It needs carried attributes, see the guide "Attributes on levels".

        Returns:
            A graph with ``edge_index``, ``edge_weight`` if the level has weights, ``num_members`` and the carried attributes
            of nodes and edges, such as ``x``. Carried labels and masks are left out, because they depend on all nodes. ``y``
            and the masks exist if the input graph has ``y`` and ``train_mask`` with one row per node.

        Raises:
            InputError: If there is no such level, if nothing was carried to it, or if a mask has several splits.

        Examples:
            >>> import torch, tgp
            >>> from torch_geometric.data import Data
            >>> edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
            >>> data = Data(x=torch.eye(4), edge_index=edges, y=torch.tensor([0, 1, 1, 1]))
            >>> data.train_mask = torch.tensor([True, False, False, False])
            >>> hierarchy = tgp.coarsen(data, "graclus:order=index", carry="auto").as_hierarchy()
            >>> small = hierarchy.reduced(1)
            >>> small.y.tolist(), small.train_mask.tolist(), hierarchy.expand(small.y, 1).tolist()
            ([0, -1], [True, False], [0, 0, -1, -1])
        """
        self._check(level, level, smallest=1)
        graph = self[level]
        if "num_members" not in graph:
            raise InputError(
                f"level {level} has no attributes to train on: expected attributes that were carried from the input graph, "
                "got none",
                field="level",
                hint="use `tgp coarsen --carry auto`, tgp.coarsen(..., carry='auto') or PooledDataset(store, carry='auto')",
            )
        result = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
        for name, value in graph.items():
            is_copied = name not in ("edge_index", "batch", "mask") and not depends_on_all_labels(name, graph)
            if (
                is_copied
                and isinstance(value, Tensor)
                and (graph.is_node_attr(name) or graph.is_edge_attr(name))
            ):
                result[name] = value
        if (
            self.data.get("train_mask") is not None
            and self.data.get("y") is not None
            and self.data.is_node_attr("y")
        ):
            set_labels(result, self.data, self._links(level))
        return result

    def _check(self, low: int, high: int, smallest: int = 0) -> None:
        """Check that two levels exist and are in ascending order."""
        for level in (low, high):
            is_number = isinstance(level, Integral) and not isinstance(level, bool)
            if not is_number or not smallest <= level <= len(self):
                raise InputError(
                    f"level is out of range: expected a whole number from {smallest} to {len(self)}, got {level!r}",
                    field="level",
                )
        if low > high:
            raise InputError(
                f"levels are in the wrong order: expected the finer level first, got {low} and {high}",
                field="level",
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


def depends_on_all_labels(name: str, level: Data | Mapping[str, Any]) -> bool:
    """Return True for carried masks and for carried labels with their companions, such as ``y_purity``."""
    label = name
    for ending in ("_purity", "_train", "_mixed"):
        label = label.removesuffix(ending)
    return label == "y" or f"{label}_purity" in level or name.endswith("_mask")


def set_labels(reduced: Data, data: Data, cluster: Tensor) -> None:
    """Set ``y``, ``train_mask`` and ``val_mask`` from the members of the supernodes."""
    size, y = int(reduced.num_nodes or 0), data.y
    summarize = _mean_values if y.is_floating_point() else _common_labels
    reduced.y, reduced.train_mask = summarize(y, _members(data, "train_mask", cluster), cluster, size)
    if data.get("val_mask") is not None:
        labels, known = summarize(y, _members(data, "val_mask", cluster), cluster, size)
        if not y.is_floating_point():  # a mean of other nodes is no contradiction
            known &= ~reduced.train_mask | (reduced.y == labels)
        only = known & ~reduced.train_mask
        reduced.y[only] = labels[only]
        reduced.val_mask = known


def _members(data: Data, name: str, cluster: Tensor) -> Tensor:
    """Return the nodes in a mask that no level dropped."""
    mask: Tensor = data[name]
    if mask.dtype != torch.bool or mask.shape != cluster.shape:
        raise InputError(
            f"{name} does not fit: expected one boolean per node, [{len(cluster)}], got {mask.dtype} of shape "
            f"{list(mask.shape)}. Choose one split: data.{name} = data.{name}[:, 0]",
            field=name,
        )
    return (mask & (cluster >= 0)).nonzero().flatten()


def _common_labels(y: Tensor, members: Tensor, cluster: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the label of the supernodes whose members have one label, -1 for others, and the mask of these supernodes."""
    if y.dim() != 1:
        raise InputError(f"y does not fit: expected one label per node, got shape {list(y.shape)}", field="y")
    supernode, label = torch.stack([cluster[members], y[members].long()]).unique(dim=1)
    known = torch.bincount(supernode, minlength=size) == 1
    labels = torch.full_like(known, -1, dtype=torch.long)
    labels[supernode] = label
    return torch.where(known, labels, -1), known


def _mean_values(y: Tensor, members: Tensor, cluster: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the mean of the members of each supernode, NaN without any, and the mask of supernodes with members."""
    count = torch.bincount(cluster[members], minlength=size)
    total = y.new_zeros(size, *y.shape[1:], dtype=torch.float64).index_add_(
        0, cluster[members], y[members].double()
    )
    mean = total / count.view(-1, *(1,) * (y.dim() - 1))
    return mean.to(y.dtype), count > 0
