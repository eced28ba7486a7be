"""``LevelStore``: train on one level of a stored graph by neighbour sampling, without loading it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, FeatureStore, GraphStore
from torch_geometric.data.feature_store import TensorAttr, _FieldStatus
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout
from torch_geometric.loader import NodeLoader

from tgp.data.dataset import PooledDataset
from tgp.data.graph_hierarchy import depends_on_all_labels, set_labels
from tgp.data.mapped_edges import MappedEdges
from tgp.data.neighbor_sampler import StoreNeighborSampler, chosen_nodes
from tgp.errors import InputError, UnknownNameError
from tgp.store.read.mapped import MappedGraph, MappedRows, compose_clusters, map_graph

__all__ = ["LevelStore"]

_LABELS = ("y", "train_mask", "val_mask")


class LevelStore(FeatureStore, GraphStore):  # type: ignore[misc]
    """Feature store and graph store of PyG over one graph of a :class:`~tgp.data.PooledDataset`, or over one of its levels.

    Attributes and edges are mapped, and a batch reads only the rows that it needs. Memory holds a few numbers per node. This needs a
    store of the ``fast`` profile; in the ``small`` profile, arrays are decoded as a whole.

    Level 0 has the attributes of nodes of the input graph. A pooled level has the attributes and labels of
    :meth:`GraphHierarchy.reduced <tgp.data.GraphHierarchy.reduced>`: ``y`` and the masks come from training and validation nodes only.
    A level with a soft assignment, or after one, has no labels.

    PyG's ``NeighborLoader((store, store), ...)`` samples from it if ``pyg-lib`` or ``torch-sparse`` is installed.
    :meth:`neighbor_loader` needs neither, and also returns the attributes of edges.

    Args:
        dataset: Dataset.
        level: 0 for the input graph, 1 for the first pooled graph, and so on.
        idx: Position of the graph in the dataset. It can be omitted if there is only one.
        scratch: Directory of unnamed scratch files, which contain sorted copies of the edges where they are needed.

    Raises:
        InputError: If there is no such level, if the dataset contains several graphs and ``idx`` is ``None``, if the graphs have several
            types of nodes, or if the dataset computes attributes of levels (``carry=``) instead of reading them.
        IndexError: If there is no such graph.
    """

    def __init__(
        self,
        dataset: PooledDataset,
        level: int = 0,
        idx: int | None = None,
        *,
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(dataset, PooledDataset):
            raise InputError(
                f"dataset must be a PooledDataset, got {type(dataset).__name__}",
                field="dataset",
                hint="open the store: LevelStore(PooledDataset(path), level=1)",
            )
        if dataset.types is not None:
            raise InputError("a level store needs one type of nodes: expected Data, got HeteroData")
        if level and level not in dataset.levels:
            raise InputError(
                f"there is no such level: expected 0 or one of {list(dataset.levels)}, got {level}",
                field="level",
            )
        if level and dataset._steps:
            raise InputError(
                "a level store reads attributes of levels from the store, but the dataset computes them: expected no carry=",
                field="carry",
                hint="store them with `tgp coarsen --carry`",
            )
        self.dataset, self.level, self.idx = dataset, level, _position(idx, len(dataset))
        self.scratch = None if scratch is None else os.fspath(scratch)

    def __getstate__(self) -> dict[str, Any]:
        # Maps belong to this process; another one opens the files again.
        return {k: v for k, v in self.__dict__.items() if k not in ("graph", "edges", "_labels")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # -- what is mapped -------------------------------------------------------------------------

    @property
    def _id(self) -> int:
        return int(self.dataset._ids()[self.idx])

    @cached_property
    def graph(self) -> MappedGraph:
        """Mapped arrays of the graph."""
        return map_graph(self.dataset.reader, self._id, self.dataset.hierarchy, self.level)

    @cached_property
    def edges(self) -> MappedEdges:
        """Edges by row."""
        return MappedEdges(self.graph, self.scratch)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self.edges.num_edges

    def _rows(self, kind: dict[str, MappedRows]) -> dict[str, MappedRows]:
        """Return the attributes of nodes or edges that the dataset reads."""
        wanted = self.dataset.level_fields if self.level else self.dataset.fields
        chosen = {n: r for n, r in kind.items() if wanted is None or n in wanted or n == "edge_weight"}
        if not self.level:
            return chosen
        return {n: rows for n, rows in chosen.items() if not depends_on_all_labels(n, kind)}

    @cached_property
    def _labels(self) -> Data:
        """Labels and masks of a pooled level, from the training and validation members of its supernodes."""
        result = Data(num_nodes=self.num_nodes)
        fields = map_graph(self.dataset.reader, self._id).nodes
        if not self.level or "y" not in fields or "train_mask" not in fields:
            return result
        data = Data(**{n: torch.from_numpy(fields[n].take()) for n in _LABELS if n in fields})
        cluster = compose_clusters(self.dataset.reader, self._id, str(self.dataset.hierarchy), self.level)
        if cluster is None:
            return result
        set_labels(result, data, torch.from_numpy(cluster))
        return result

    # -- attributes -----------------------------------------------------------------------------

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Return the attributes of nodes."""
        return [TensorAttr(None, name) for name in self._names()]

    def _names(self) -> list[str]:
        return [*self._rows(self.graph.nodes), *(n for n in _LABELS if n in self._labels)]

    def _get_tensor(self, attr: TensorAttr) -> Tensor:
        index = None if isinstance(attr.index, _FieldStatus) else attr.index
        if self.level and attr.attr_name in self._labels:
            values: Tensor = self._labels[attr.attr_name]
            return values.clone() if index is None else values[index]
        rows = self._rows(self.graph.nodes)
        return _take(rows, attr.attr_name, index, self._names())

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if attr.index is not None:
            return tuple(self._get_tensor(attr).shape)
        if self.level and attr.attr_name in self._labels:
            return tuple(self._labels[attr.attr_name].shape)
        rows = self._rows(self.graph.nodes).get(attr.attr_name)
        return None if rows is None else rows.shape

    def node_values(self, name: str, index: Any = None) -> Tensor:
        """Return an attribute of nodes.

        Args:
            name: Name of the attribute.
            index: Nodes: a slice or a tensor; all if ``None``.

        Raises:
            UnknownNameError: If there is no such attribute.
        """
        return self._get_tensor(TensorAttr(None, name, index))

    def edge_values(self, name: str, index: Any = None) -> Tensor:
        """Return an attribute of edges, such as ``edge_weight``, in the order of the store (``e_id`` of a batch).

        Args:
            name: Name of the attribute.
            index: Edges: a slice or a tensor; all if ``None``.

        Raises:
            UnknownNameError: If there is no such attribute.
        """
        return _take(self._rows(self.graph.edges), name, index)

    # -- edges ----------------------------------------------------------------------------------

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """Return the layouts of the edges."""
        size = (self.num_nodes, self.num_nodes)
        return [
            EdgeAttr(None, layout, size=size) for layout in (EdgeLayout.CSC, EdgeLayout.COO, EdgeLayout.CSR)
        ]

    def _get_edge_index(self, attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        return None if attr.edge_type is not None else self._edge_to_layout(attr, attr.layout)[:2]

    def _edge_to_layout(
        self, attr: EdgeAttr, layout: EdgeLayout, store: bool = False
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return rows, columns and numbers in the store of the edges. PyG calls this, also for :meth:`csc`."""
        if layout == EdgeLayout.COO:
            source, target = torch.from_numpy(self.edges.coo())
            return source, target, None
        rows = self.edges.compressed(0 if layout == EdgeLayout.CSR else 1)
        ptr, ids = torch.from_numpy(rows.ptr), torch.from_numpy(rows.ids)
        perm = None if rows.perm is None else torch.from_numpy(rows.perm)
        return (ptr, ids, perm) if layout == EdgeLayout.CSR else (ids, ptr, perm)

    # -- the store cannot be changed ------------------------------------------------------------

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise InputError("a level store is read-only", field=str(attr.attr_name))

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise InputError("a level store is read-only", field=str(attr.attr_name))

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise InputError("a level store is read-only", field="edge_index")

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise InputError("a level store is read-only", field="edge_index")

    # -- loader ---------------------------------------------------------------------------------

    def neighbor_loader(
        self,
        num_neighbors: Sequence[int],
        input_nodes: Tensor | str | None = None,
        *,
        replace: bool = False,
        **kwargs: Any,
    ) -> NodeLoader:
        """Return a loader of sampled neighbourhoods, as PyG's ``NeighborLoader`` does, without compiled extensions.

        Edges are read once when the loader is made. A worker process that is spawned reads them again, a forked one does not. Use
        ``persistent_workers=True`` with ``multiprocessing_context="spawn"``.

        Args:
            num_neighbors: Number of neighbours of each hop, -1 for all.
            input_nodes: Nodes to start from: ids, a mask, or the name of a mask such as ``"train_mask"``; all if ``None``.
            replace: Sample with replacement.
            **kwargs: Arguments of PyG's ``NodeLoader`` and torch's ``DataLoader``, such as ``batch_size``.

        Raises:
            UnknownNameError: If there is no such mask.
            InputError: If there is no node to start from, if a mask has not one boolean per node, or if a number of neighbours is not an
                integer from -1.
            IndexError: If there is no such node.
        """
        sampler = StoreNeighborSampler(self, num_neighbors, replace=replace)
        if isinstance(input_nodes, str):
            nodes = chosen_nodes(self.node_values(input_nodes), self.num_nodes, input_nodes, is_mask=True)
        else:
            nodes = chosen_nodes(input_nodes, self.num_nodes)
        self.edges.neighbors  # noqa: B018  read once, before workers are forked
        transform = _EdgeValues(self, kwargs.pop("transform", None))
        return NodeLoader((self, self), sampler, nodes, transform=transform, **kwargs)

    def __repr__(self) -> str:
        return f"LevelStore(level {self.level}: {self.num_nodes} nodes, {self.num_edges} edges)"


class _EdgeValues:
    """Add the attributes of edges to a batch. PyG's loader reads only those of nodes."""

    def __init__(self, store: LevelStore, transform: Any) -> None:
        self.store, self.transform = store, transform

    def __call__(self, batch: Data) -> Any:
        batch.num_nodes = len(batch.n_id)
        for name in self.store._rows(self.store.graph.edges):
            batch[name] = self.store.edge_values(name, batch.e_id)
        return batch if self.transform is None else self.transform(batch)


def _position(idx: int | None, count: int) -> int:
    """Return the position of the only graph, or the given one."""
    if idx is None and count != 1:
        raise InputError(
            f"a level store reads one graph: expected a dataset of one graph or idx=, got {count} graphs",
            field="idx",
        )
    position = 0 if idx is None else idx
    if not -count <= position < count:
        raise IndexError(f"there is no graph {position}: expected an index in [0, {count})")
    return position


def _take(rows: dict[str, MappedRows], name: Any, index: Any, names: Iterable[str] = ()) -> Tensor:
    if name not in rows:
        raise UnknownNameError("attribute", str(name), names or rows)
    if isinstance(index, Tensor):
        index = index.cpu().numpy()
    return torch.from_numpy(rows[name].take(index))
