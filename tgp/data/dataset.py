"""``PooledDataset``: the graphs of a store with their levels, as a PyG dataset."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch_geometric.data import Data, Dataset

from tgp.data.attributes import table_attributes
from tgp.data.batch import PooledBatch
from tgp.data.convert import table_to_data
from tgp.data.graph_hierarchy import GraphHierarchy
from tgp.data.split import levels_to_data
from tgp.errors import DatasetError, InputError, UnknownNameError
from tgp.ragged import GraphTable
from tgp.store.io.files import StoreFiles
from tgp.store.io.remote import open_files
from tgp.store.read.batch_plan import BatchPlan
from tgp.store.read.reader import StoreReader

__all__ = ["PooledDataset"]


class PooledDataset(Dataset):
    """A store as a dataset: ``dataset[i]`` is a graph with its pooled levels.

    ``dataset[i].pooled_data[l]`` is what :class:`~tgp.data.PreCoarsening` would have attached. Through
    :class:`~tgp.data.PoolDataLoader` whole batches are gathered at once; PyG's own ``DataLoader`` cannot read these
    (it ends in "'tupleBatch' object has no attribute 'stores_as'").

    Opening reads the manifest only. Files are opened by the process that needs them, when it needs them, so the
    dataset can be pickled, forked and spawned.

    Args:
        store: directory of the store, a URL that fsspec reads (see :class:`~tgp.store.io.remote.RemoteFiles` for its
            cache), or an open :class:`~tgp.store.StoreReader`.
        hierarchy: name of the hierarchy; may be left out if the store has one.
        levels: which of its levels to read, as positions in the schedule; all if ``None``.
        fields: which attributes of the input graphs to read; all if ``None``.
        in_memory: read everything now and serve from memory.
        transform: called on every graph. Batches are then joined graph by graph.
        failed: what to do if the store has graphs that could not be coarsened: ``"error"`` or ``"skip"``.

    Raises:
        DatasetError: graphs failed and ``failed="error"``, or the hierarchy is ambiguous.
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
    ) -> None:
        super().__init__(None, transform)
        if isinstance(store, str):
            store = open_files(store)
        reader = store if isinstance(store, StoreReader) else StoreReader(store)
        self.reader = reader
        self.hierarchy = _chosen_hierarchy(reader, hierarchy)
        depth = 0 if self.hierarchy is None else reader.hierarchy(self.hierarchy).depth
        self.levels = _chosen_levels(levels, depth, self.hierarchy)
        self.methods = tuple(reader.level_info(str(self.hierarchy), level).method for level in self.levels)
        self.fields = _chosen_fields(fields, reader)
        self._indices = self._sound_graphs(failed)
        self._plans: list[BatchPlan | None] = []
        self._source: Any = reader
        if in_memory:
            from tgp.data.memory import MemoryReader

            self._source = MemoryReader(reader, self.hierarchy, self.levels, self.fields)

    def _sound_graphs(self, failed: str) -> npt.NDArray[np.int64] | None:
        """Ids without those in the ledger, or ``None`` if there is nothing in it."""
        if failed not in ("error", "skip"):
            raise InputError(f"failed must be 'error' or 'skip', got {failed!r}", field="failed")
        count = self.reader.hierarchy(self.hierarchy).failures if self.hierarchy and self.levels else 0
        if not count:
            return None
        ledger = self.reader.failures(str(self.hierarchy))
        bad = np.unique([record.graph for record in ledger])
        if failed == "error":
            raise DatasetError(
                f"{len(bad)} of {self.reader.num_graphs} graphs could not be coarsened; the first is graph {bad[0]}: "
                f"{ledger[0].reason}",
                hint="pass failed='skip' to leave them out, or see `tgp status` for the reasons",
            )
        return np.setdiff1d(np.arange(self.reader.num_graphs), bad)

    # -- single graphs and batches --------------------------------------------------------------

    def len(self) -> int:
        """Number of graphs in the store (PyG's hook; ``len(dataset)`` counts the chosen ones)."""
        return self.reader.num_graphs

    def get(self, idx: int) -> Data:
        """The graph with this id in the store."""
        table, levels = self._gather(np.array([idx]))
        data = table_to_data(table)[0]
        if self.levels:
            data._store._mapping["pooled_data"] = levels_to_data(levels, self.methods)[0]
        return data

    def __getitems__(self, indices: Sequence[int]) -> PooledBatch | list[Any]:
        """What torch's loader calls: a finished batch, or a list of graphs if there is a transform."""
        if self.transform is not None:
            return [self[i] for i in indices]
        ids = np.asarray(indices, dtype=np.int64)
        if len(ids) and (ids.min() < -len(self) or ids.max() >= len(self)):
            raise IndexError(f"a dataset of {len(self)} graphs has no graph {ids.min()}..{ids.max()}")
        if self._indices is not None:
            ids = self._indices[ids]
        elif len(ids) and ids.min() < 0:
            ids = ids % len(self)
        plan = self._plan()
        if plan is None:
            return PooledBatch.from_arrays(*self._gather(ids), methods=self.methods)
        return PooledBatch.from_gathered(plan.gather(ids), self.methods)

    def _plan(self) -> BatchPlan | None:
        """The quick way to batches, made on first use and shared by subsets; ``None`` if there is none."""
        if not self._plans:
            self._plans.append(self._source.batch_plan(self.hierarchy, self.levels, self.fields))
        return self._plans[0]

    def _gather(self, ids: npt.NDArray[np.int64]) -> tuple[GraphTable, list[Any]]:
        table = self._source.gather_graphs(ids, self.fields)
        if not self.levels:
            return table, []
        return table, self._source.gather_levels(ids, self.hierarchy, self.levels)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_plans": []}

    def as_hierarchy(self, idx: int = 0) -> GraphHierarchy:
        """One graph and its levels for models on nodes; for stores of a single big graph."""
        if self.levels != tuple(range(len(self.levels))):
            raise InputError(
                f"a hierarchy needs levels without gaps, got {list(self.levels)}", field="levels"
            )
        return GraphHierarchy(self[idx])

    # -- subsets --------------------------------------------------------------------------------

    def index_select(self, idx: Any) -> PooledDataset:
        """A subset: slices (also of fractions, ``[:0.9]``), masks, and lists or arrays of indices."""
        chosen = self._ids()
        if isinstance(idx, slice):
            bounds = [round(b * len(self)) if isinstance(b, float) else b for b in (idx.start, idx.stop)]
            chosen = chosen[slice(*bounds, idx.step)]
        else:
            chosen = chosen[_as_index(idx)]
        dataset = self._twin()
        dataset._indices = chosen
        return dataset

    def copy(self, idx: Any = None) -> PooledDataset:
        """A dataset of its own over the same store; ``idx`` selects a subset."""
        return self._twin() if idx is None else self.index_select(idx)

    def _twin(self) -> PooledDataset:
        twin = copy.copy(self)
        twin._plans = self._plans
        return twin

    def _ids(self) -> npt.NDArray[np.int64]:
        return np.arange(self.len()) if self._indices is None else self._indices

    def __iter__(self) -> Iterator[Data]:
        return (self[i] for i in range(len(self)))

    # -- facts ----------------------------------------------------------------------------------

    def sizes(self, level: int = 0) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Nodes and edges of every graph: of the input graph (0), or after ``level`` pooling steps."""
        nodes, edges = self.reader.sizes(self.hierarchy if level else None, level)
        return (nodes, edges) if self._indices is None else (nodes[self._indices], edges[self._indices])

    @property
    def num_node_features(self) -> int:
        """Columns of ``x``; 0 without features."""
        return self._num_columns("x")

    @property
    def num_edge_features(self) -> int:
        """Columns of ``edge_attr``; 0 without."""
        return self._num_columns("edge_attr")

    @property
    def num_classes(self) -> int:
        """Number of classes in ``y``, by PyG's rules."""
        return self._infer_num_classes(self.y if "y" in self._names() else None)

    def _num_columns(self, name: str) -> int:
        if name not in self._names():
            return 0
        tail = self.reader.fields[name].tail
        return tail[-1] if tail else 1

    def _names(self) -> Collection[str]:
        return self.reader.fields if self.fields is None else self.fields

    def __getattr__(self, name: str) -> Any:
        """``dataset.y`` is that attribute of all graphs, joined as in a batch."""
        if "reader" in self.__dict__ and not name.startswith("_") and name in self._names():
            return table_attributes(self._source.gather_graphs(self._ids(), [name])).mapping[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        pooled = f", {self.hierarchy}: {len(self.levels)} levels" if self.levels else ""
        return f"{type(self).__name__}({len(self)} graphs{pooled})"


def _chosen_hierarchy(reader: StoreReader, name: str | None) -> str | None:
    if name is not None:
        reader.hierarchy(name)
        return name
    if len(reader.hierarchies) > 1:
        raise DatasetError(
            f"the store has {len(reader.hierarchies)} hierarchies ({', '.join(reader.hierarchies)}): choose one",
            hint=f"PooledDataset(..., hierarchy={next(iter(reader.hierarchies))!r})",
        )
    return next(iter(reader.hierarchies), None)


def _chosen_levels(levels: Sequence[int] | None, depth: int, hierarchy: str | None) -> tuple[int, ...]:
    if levels is None:
        return tuple(range(depth))
    chosen = tuple(int(level) for level in levels)
    for level in chosen:
        if not 0 <= level < depth:
            raise InputError(f"levels of {hierarchy!r} must lie in [0, {depth}), got {level}", field="levels")
    if sorted(set(chosen)) != list(chosen):
        raise InputError(f"levels must ascend, got {list(chosen)}", field="levels")
    return chosen


def _chosen_fields(fields: Collection[str] | None, reader: StoreReader) -> tuple[str, ...] | None:
    if fields is None:
        return None
    if isinstance(fields, str):
        raise InputError(f"fields must be a list of names, got the text {fields!r}", field="fields")
    for name in fields:
        if name not in reader.fields:
            raise UnknownNameError("field", name, reader.fields)
    return tuple(fields)


def _as_index(idx: Any) -> npt.NDArray[Any]:
    """A mask or list of positions as an array."""
    if isinstance(idx, Tensor):
        idx = idx.cpu().numpy()
    if isinstance(idx, str):
        raise IndexError(f"a dataset is indexed by numbers, slices and masks, got {idx!r}")
    index = np.asarray(idx).reshape(-1)
    if index.size == 0:
        return np.zeros(0, np.int64)
    if index.dtype.kind not in "biu":
        raise IndexError(f"a dataset is indexed by numbers, slices and masks, got {index.dtype}")
    return index
