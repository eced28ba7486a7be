"""``PooledDataset``: a PyG dataset over the graphs and levels of a store."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data, Dataset
from torch_geometric.data.summary import Summary

from tgp.data.batch import GatheredGraphs, PooledBatch
from tgp.data.carry_batch_plan import CarryBatchPlan, missing_steps
from tgp.data.choices import (
    GRAPH_KEYS,
    LARGE_HINT,
    ReadOnlyError,
    as_index,
    chosen_fields,
    chosen_hierarchy,
    chosen_level_fields,
    chosen_levels,
    complete_graphs,
)
from tgp.data.dataset_summary import schedule_text, summarize_dataset
from tgp.data.graph_hierarchy import GraphHierarchy
from tgp.data.hetero import join_hetero
from tgp.data.stored_hierarchy import open_hierarchy
from tgp.data.typed_graphs import TypedGraphs, choose_typed
from tgp.display import DatasetDisplay
from tgp.engine.carry import CarryLike, CarryRules, CarryStep
from tgp.errors import DatasetError, InputError
from tgp.store.io.files import StoreFiles
from tgp.store.locations import open_store
from tgp.store.read.batch_plan import BatchPlan
from tgp.store.read.memory_need import check_graphs, has_large_graph
from tgp.store.read.reader import StoreReader

__all__ = ["PooledDataset"]


class PooledDataset(DatasetDisplay, Dataset):
    """PyG dataset over a store: ``dataset[i]`` is a graph with its pooled levels.

    The levels in ``dataset[i].pooled_data`` are those that :class:`~tgp.data.PreCoarsening` attaches. The input graph is
    level 0, so ``pooled_data[0]`` is level 1. PyG's ``DataLoader`` and :class:`~tgp.data.PoolDataLoader` return the same
    batches. The latter gathers a whole batch at once, which is much faster than joining graphs.

    Opening the dataset reads the manifest only. Every process opens the files that it needs on first use, so the dataset
    can be pickled, forked and spawned.

    Args:
        store: Directory of the store, a URL that fsspec reads (see :class:`~tgp.store.io.remote.RemoteFiles` for its
            cache), or an open :class:`~tgp.store.StoreReader`.
        hierarchy: Name of the hierarchy. It can be omitted if the store contains only one.
        levels: Levels to read, ascending, from 1 (the first pooled graph); all if ``None``. The input graph, level 0, is
            always read.
        fields: Attributes of the input graphs to read; all if ``None``.
        in_memory: Read all of these arrays now and keep them in memory.
        transform: Function that is called on every graph. Batches are then joined graph by graph. It must keep the
            numbers of nodes and edges, because the levels refer to them.
        failed: What to do if some graphs could not be coarsened: ``"error"`` or ``"skip"``.
        level_fields: Attributes of the levels to read, such as ``["pos"]``; all that the store contains if ``None``.
            Others are not read.
        carry: Rules by which attributes of the levels are computed if the store does not contain them, such as
            ``{"pos": "mean"}`` or ``"auto"``; see :class:`~tgp.engine.carry.CarryRules`. The values are those that
            ``tgp coarsen --carry`` stores. They are computed again for every batch, which also reads their input
            attributes and all levels up to the last one. Store them if you train for more than a few epochs.

    Raises:
        DatasetError: If graphs failed and ``failed="error"``, or if the store contains several hierarchies and
            ``hierarchy`` is ``None``.
        InputError: If the hierarchy has no such level, or if a rule does not fit its attribute.
        UnknownNameError: If there is no such attribute.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | StoreReader | StoreFiles,
        hierarchy: str | None = None,
        levels: Sequence[int] | None = None,
        fields: Collection[str] | None = None,
        in_memory: bool = False,
        transform: Callable[[Data], Any] | None = None,
        *,
        failed: Literal["error", "skip"] = "error",
        level_fields: Collection[str] | None = None,
        carry: CarryLike = None,
    ) -> None:
        super().__init__(None, transform)
        reader = open_store(store)
        self.reader = reader.load() if in_memory else reader
        self.hierarchy = chosen_hierarchy(reader, hierarchy)
        depth = 0 if self.hierarchy is None else reader.hierarchy(self.hierarchy).depth
        self.levels = chosen_levels(levels, depth, self.hierarchy)
        self.carry = CarryRules.parse(carry)
        self.types = reader.manifest.spec.types
        if self.types is None:
            self.fields = chosen_fields(fields, reader)
            self.level_fields = chosen_level_fields(level_fields, reader, self.hierarchy)
        else:
            self.fields, self.level_fields = choose_typed(
                reader, self.hierarchy, fields, level_fields, self.carry
            )
        self._steps = self._missing_steps()
        self._carry_plan: CarryBatchPlan | None = None
        self._is_large = has_large_graph(reader)
        self._indices = complete_graphs(reader, self.hierarchy if self.levels else None, failed)
        if in_memory:
            self._plan().open_all()

    # -- single graphs and batches --------------------------------------------------------------

    def len(self) -> int:
        """Return the number of graphs in the store. PyG calls this; ``len(dataset)`` counts the selected graphs."""
        return self.reader.num_graphs

    def get(self, idx: int) -> Data:
        """Return the graph with the given id in the store."""
        graph: Data = self._gather([idx])[0]
        return graph

    def _gather(self, ids: Any) -> GatheredGraphs | TypedGraphs:
        """Return some graphs of the store, which are read together."""
        if self._is_large:
            check_graphs(self.reader, ids, self.hierarchy, self.levels, self.fields, LARGE_HINT)
        arrays = self._plan().gather(ids)
        if self.types is None:
            return GatheredGraphs(arrays)
        location = self.reader.files.location
        return TypedGraphs(arrays, self.types, [level - 1 for level in self.levels], location)

    def __getitem__(self, idx: Any) -> Any:
        """Return the graph at a position, after the transform, or a subset for any other index.

        Raises:
            IndexError: If there is no such graph.
            DatasetError: If the transform changes the number of nodes or edges.
        """
        if not (isinstance(idx, (int, np.integer)) or getattr(idx, "ndim", None) == 0):
            return self.index_select(idx)
        position, count = int(idx), len(self)
        if not -count <= position < count:
            raise IndexError(
                f"there is no graph {position}: expected an index in [0, {count}), because the dataset has {count} graphs"
            )
        graph = int(self._ids()[position]) if self._indices is not None else position % count
        data = self.get(graph)
        return data if self.transform is None else self._transformed(data, graph)

    def _transformed(self, data: Data, graph: int) -> Any:
        """Return a graph after the transform, which must not change the nodes and edges that the levels refer to."""
        levels = data.get("pooled_data")
        before = (data.num_nodes, data.num_edges)
        data = self.transform(data)
        if data is None:
            raise DatasetError(f"the transform returned None for graph {graph}: expected the graph")
        if levels is None or not isinstance(data, Data) or data.get("pooled_data") is not levels:
            return data
        after = (data.num_nodes, data.num_edges if "edge_index" in data else before[1])
        if before != after:
            raise DatasetError(
                f"the transform changed graph {graph}: expected {before[0]} nodes and {before[1]} edges, to which its levels "
                f"refer, got {after[0]} nodes and {after[1]} edges. Apply it before the graphs are coarsened, or read no "
                "levels: PooledDataset(..., levels=[])"
            )
        return data

    def get_batch(self, indices: Sequence[int]) -> PooledBatch:
        """Return a batch of some graphs, as :class:`~tgp.data.PoolDataLoader` does.

        Args:
            indices: Positions of the graphs in the dataset.

        Raises:
            IndexError: If an index is out of range.
        """
        graphs = self.__getitems__(indices)
        if isinstance(graphs, (GatheredGraphs, TypedGraphs)):
            return graphs.to_batch()
        return PooledBatch.from_data_list(graphs) if self.types is None else join_hetero(graphs)

    def __getitems__(self, indices: Sequence[int]) -> GatheredGraphs | TypedGraphs | list[Any]:
        """Return some graphs, which are read together. The loader of torch calls this.

        Raises:
            IndexError: If an index is out of range.
        """
        if self.transform is not None:
            return [self[i] for i in indices]
        ids, count = np.asarray(indices, dtype=np.int64), len(self)
        # Negative numbers are large unsigned numbers, so this one comparison finds all indices that are not plain ids.
        if len(ids) and int(ids.view(np.uint64).max()) >= count:
            if ids.min() < -count or ids.max() >= count:
                raise IndexError(
                    f"an index is out of range: expected [0, {count}), because the dataset has {count} graphs, got "
                    f"{ids.min()} to {ids.max()}"
                )
            ids = ids % count
        return self._gather(ids if self._indices is None else self._indices[ids])

    def _plan(self) -> BatchPlan | CarryBatchPlan:
        levels = [level - 1 for level in self.levels]
        if self.types is not None:  # the types of all finer levels are needed
            levels = list(range(max(self.levels, default=0)))
        if not self._steps:
            return self.reader.batch_plan(self.hierarchy, levels, self.fields, level_fields=self.level_fields)
        if self._carry_plan is None:
            self._carry_plan = CarryBatchPlan.open(
                self.reader, str(self.hierarchy), levels, self._names(), self.level_fields, self._steps
            )
        return self._carry_plan

    def _missing_steps(self) -> tuple[CarryStep, ...]:
        """Return the attributes of the levels that are computed when graphs are read."""
        if not self.carry or self.hierarchy is None or not self.levels:
            return ()
        return missing_steps(self.reader, self.reader.hierarchy(self.hierarchy), self.carry)

    def __getstate__(self) -> dict[str, Any]:
        # A plan holds addresses of this process.
        return {**self.__dict__, "_carry_plan": None}

    def as_hierarchy(self, idx: int = 0) -> GraphHierarchy:
        """Return one graph and its levels for models on nodes, such as a store of a single big graph.

        A level of a graph in several files (``tgp coarsen --shard-edges``) is read on first use, without a transform and ``carry=``.

        Args:
            idx: Position of the graph in the dataset.

        Raises:
            InputError: If the dataset does not read all levels up to its last one.
        """
        if self.types is not None:
            raise InputError(
                "a hierarchy of one graph needs one type of nodes: expected Data, got HeteroData. Use dataset[i].pooled_data"
            )
        if self.levels != tuple(range(1, len(self.levels) + 1)):
            raise InputError(
                f"a hierarchy needs levels without gaps: expected {list(range(1, len(self.levels) + 1))}, got {list(self.levels)}",
                field="levels",
            )
        return open_hierarchy(self, idx)

    def with_hierarchy(
        self,
        hierarchy: str,
        levels: Sequence[int] | None = None,
        *,
        failed: Literal["error", "skip"] = "error",
    ) -> PooledDataset:
        """Return a dataset of the same graphs with another hierarchy of the store.

        Args:
            hierarchy: Name of the hierarchy.
            levels: Levels to read, from 1; all if ``None``.
            failed: What to do if some graphs of the store have no such hierarchy: ``"error"`` or ``"skip"``.

        Raises:
            UnknownNameError: If the store does not contain the hierarchy.
            DatasetError: If graphs failed and ``failed="error"``.
        """
        dataset = copy.copy(self)
        dataset.hierarchy = hierarchy
        dataset.levels = chosen_levels(levels, self.reader.hierarchy(hierarchy).depth, hierarchy)
        dataset._steps = dataset._missing_steps()
        complete = complete_graphs(self.reader, hierarchy if dataset.levels else None, failed)
        if complete is not None:
            ids = self._ids()
            dataset._indices = ids[np.isin(ids, complete)]
        return dataset

    # -- subsets --------------------------------------------------------------------------------

    def index_select(self, idx: Any) -> PooledDataset:
        """Return a subset.

        Args:
            idx: Slice (also of fractions, ``[:0.9]``), mask, or list or array of indices.

        Raises:
            IndexError: If ``idx`` is of another type.
        """
        chosen = self._ids()
        if isinstance(idx, slice):
            start, stop = (round(b * len(self)) if isinstance(b, float) else b for b in (idx.start, idx.stop))
            chosen = chosen[start : stop : idx.step]
        else:
            chosen = chosen[as_index(idx)]
        dataset = copy.copy(self)
        dataset._indices = chosen
        return dataset

    def copy(self, idx: Any = None) -> PooledDataset:
        """Return another dataset over the same store, or a subset of it; see :meth:`index_select`."""
        return copy.copy(self) if idx is None else self.index_select(idx)

    def _ids(self) -> npt.NDArray[np.int64]:
        return np.arange(self.len()) if self._indices is None else self._indices

    def __iter__(self) -> Iterator[Data]:
        return (self[i] for i in range(len(self)))

    # -- properties ----------------------------------------------------------------------------------

    def sizes(self, level: int = 0) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the number of nodes and of edges of every graph at a level.

        Args:
            level: 0 for the input graphs, 1 for the first pooled graphs, and so on.

        Raises:
            InputError: If the hierarchy has no such level.
        """
        nodes, edges = self.reader.sizes(self.hierarchy if level else None, level)
        return (nodes, edges) if self._indices is None else (nodes[self._indices], edges[self._indices])

    @property
    def hierarchies(self) -> tuple[str, ...]:
        """Names of the hierarchies in the store. The dataset reads one of them, :attr:`hierarchy`."""
        return tuple(self.reader.hierarchies)

    @property
    def schedules(self) -> dict[str, str]:
        """Schedule of each hierarchy by name, as ``tgp coarsen --pooler`` and :func:`tgp.coarsen` accept it."""
        return {name: schedule_text(info) for name, info in self.reader.hierarchies.items()}

    @property
    def _is_as_stored(self) -> bool:
        return self.transform is None or not len(self)

    @property
    def num_node_features(self) -> Any:
        """Number of columns of ``x`` after the transform; 0 if there are no features. A dictionary for ``HeteroData``."""
        if self.types is not None:
            return dict(self[0].num_node_features) if len(self) else {}
        return self._num_columns("x") if self._is_as_stored else int(super().num_node_features)

    @property
    def num_edge_features(self) -> int:
        """Number of columns of ``edge_attr`` after the transform; 0 if there are none."""
        return self._num_columns("edge_attr") if self._is_as_stored else int(super().num_edge_features)

    @property
    def num_classes(self) -> int:
        """Number of classes in ``y`` after the transform, counted as PyG does."""
        if not self._is_as_stored:
            return int(super().num_classes)
        return self._infer_num_classes(self.y if "y" in self._names() else None)

    def _infer_num_classes(self, y: Any) -> int:
        if y is None or not len(y):
            return 0
        unsigned = (torch.uint16, torch.uint32, torch.uint64)  # torch has no maximum of these types
        return int(super()._infer_num_classes(y.long() if y.dtype in unsigned else y))

    def get_summary(self) -> Summary:
        """Return the sizes of the graphs and of all levels. ``print(dataset)`` shows them."""
        # A transform may change the sizes.
        return (
            summarize_dataset(self) if self.transform is None or self.levels else Summary.from_dataset(self)
        )

    def _num_columns(self, name: str) -> int:
        if name not in self._names():
            return 0
        return (self.reader.fields[name].tail or (1,))[-1]

    def _names(self) -> Collection[str]:
        return self.reader.fields if self.fields is None else self.fields

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of all graphs, such as ``dataset.y``, joined as in a batch."""
        if "reader" in self.__dict__ and not name.startswith("_") and name in self._names():
            return PooledBatch.from_arrays(self.reader.gather_graphs(self._ids(), [name]))[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the dataset. Attributes of the graphs are refused, because batches would not have them."""
        known = name in self.__dict__ or hasattr(type(self), name)
        if "reader" in self.__dict__ and not known and (name in self.reader.fields or name in GRAPH_KEYS):
            raise ReadOnlyError(
                f"{name!r} cannot be set on a {type(self).__name__}: expected a change of its graphs, because batches are "
                f"read from the store, got {type(value).__name__}. Pass a function that sets it, PooledDataset(..., "
                "transform=...), or set it before the graphs are coarsened",
                field=name,
            )
        super().__setattr__(name, value)

    def __str__(self) -> str:
        return str(summarize_dataset(self))

    def __repr__(self) -> str:
        pooled = f", {self.hierarchy}: {len(self.levels)} levels" if self.levels else ""
        return f"{type(self).__name__}({len(self)} graphs{pooled})"
