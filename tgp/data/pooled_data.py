"""``PooledData``: a graph with levels that every loader of PyG can join.

PyG joins graphs in ``torch_geometric.data.collate`` and splits them in ``torch_geometric.data.separate``. Both know tensors,
numbers, lists and dictionaries, but neither graphs nor assignments inside an attribute. A :class:`PooledData` takes part in
three places:

- PyG makes the class of a batch from the class of the graphs. A metaclass lets it use :class:`~tgp.data.PooledBatch`.
- PyG calls :meth:`PooledData.stores_as` on the result before it joins attributes. This replaces the storage.
- PyG assigns each joined attribute to that storage, which joins the levels.
"""

from __future__ import annotations

import copyreg
from abc import ABCMeta
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.data.storage import GlobalStorage

from tgp.data.collate import join_nested, nested_keys, part_of_nested, value_forms
from tgp.data.fast_data import plain_state
from tgp.data.views import LevelViews
from tgp.display import repr_html
from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.select.concat import Parts, Rows
from tgp.utils.ops.batching import GraphLayout

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["JoinedValues", "PooledData", "attach_levels", "load_graph", "load_joined", "pooled_class"]


class _PooledType(ABCMeta):
    """Metaclass of graphs whose batches are of class :class:`~tgp.data.PooledBatch`."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        if bases[0] is Batch:  # PyG is making the class of a batch
            from tgp.data.batch import PooledBatch

            return type(PooledBatch(_base_cls=bases[-1]))
        if issubclass(bases[0], Batch):
            name = f"{bases[-1].__name__}Batch"
        return super().__new__(mcs, name, bases, namespace)


class PooledData(LevelViews, Data, metaclass=_PooledType):
    """PyG ``Data`` whose attributes may hold graphs, assignments, or lists of them.

    :class:`~tgp.data.PreCoarsening` and :class:`~tgp.data.PooledDataset` return graphs of this class, with their levels in
    ``pooled_data``. Every loader of PyG joins such graphs into a :class:`~tgp.data.PooledBatch`, level by level. An
    ``InMemoryDataset`` stores them as a few large tensors. Derive your own ``Data`` class from this one if it has levels.
    """

    _repr_html_ = repr_html

    def _hierarchy(self) -> list[Data]:
        levels = self.get("pooled_data")
        if not levels:
            raise InputError(
                "the graph has no levels: expected a list of levels in 'pooled_data', got none",
                field="pooled_data",
                hint="attach levels with PreCoarsening, or read them with PooledDataset",
            )
        return [self, *levels]

    def stores_as(self, data: Data) -> Self:
        """Prepare this object to receive the joined attributes of graphs like ``data``. PyG calls this."""
        is_batch = isinstance(self, Batch)
        if is_batch or not isinstance(data, Batch):
            nested = nested_keys(data)
            if nested or is_batch:
                store = _JoiningStorage(_parent=self)
                store._nested = nested
                store._forms = value_forms(data)
                self.__dict__["_store"] = store
        return self

    def __reduce__(self) -> Any:
        store = self._store.__dict__
        private = {
            name: value for name, value in plain_state(self._store).items() if name not in _NOT_PICKLED
        }
        more = {name: value for name, value in self.__dict__.items() if name not in _NOT_PICKLED}
        return load_graph, (type(self), _to_plain(store["_mapping"]), _to_plain(private), more)


class _JoiningStorage(GlobalStorage):
    """Storage that joins graphs and assignments when PyG's ``collate`` assigns the values of all graphs."""

    _nested: set[str]
    """Attributes that are not joined yet."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self._nested and "_num_graphs" not in self.__dict__:
            self._nested = self._nested - {key}
            value = join_nested(value, key)
            if not isinstance(self._parent(), Batch):
                value = JoinedValues(value)
        super().__setitem__(key, value)


class JoinedValues:
    """Values of an attribute on all graphs of an ``InMemoryDataset``, joined.

    Args:
        value: Batch, assignment, or list of them, with the graphs of the dataset as parts.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getitem__(self, idx: int) -> Any:
        """Return the value of one graph. PyG's ``separate`` calls this."""
        return part_of_nested(self.value, int(idx))

    def to(self, *args: Any, **kwargs: Any) -> JoinedValues:
        """Move all tensors in place; see :meth:`torch.Tensor.to`."""
        for item in self.value if isinstance(self.value, list) else [self.value]:
            item.to(*args, **kwargs)
        return self

    def __reduce__(self) -> Any:
        return load_joined, (_to_plain(self.value),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value})"


# -- files of an InMemoryDataset -------------------------------------------------------------------------------------

_OBJECTS: dict[str, type] = {"assignment": SelectOutput, "parts": Parts, "rows": Rows, "layout": GraphLayout}
_CONTAINERS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_NUMBERS: dict[str, type] = {"int": int, "float": float, "bool": bool}
_NAMES = {cls: name for name, cls in (*_OBJECTS.items(), *_CONTAINERS.items())}


def _to_plain(value: Any) -> Any:
    """Return a value as tensors, numbers and strings, with every container and object as a pair of its name and content.

    PyG loads the processed file of a dataset with ``weights_only=True``, which allows only such values.
    """
    if isinstance(value, Batch):
        store = value._store
        private = {name: item for name, item in plain_state(store).items() if name in _PRIVATE}
        return "batch", (_to_plain(store._mapping), _to_plain(private))
    if type(value) is dict:
        return "dict", {key: _to_plain(item) for key, item in value.items()}
    if type(value) in _OBJECTS.values():
        state = value.__getstate__() if isinstance(value, SelectOutput) else vars(value)
        return _NAMES[type(value)], _to_plain(state)
    if type(value) in _CONTAINERS.values():
        return _NAMES[type(value)], [_to_plain(item) for item in value]
    return ("type", value.__name__) if isinstance(value, type) else value


_NOT_PICKLED = ("_mapping", "_parent", "_cached_attr", "_store", "_edge_attr_cls", "_tensor_attr_cls")
"""Attributes of graphs and storages that are made again."""

_PRIVATE = ("_num_graphs", "_slice_dict", "_inc_dict", "_forms", "_num_nodes", "_so_ptr")
"""Private attributes of the storage of a batch that splitting it needs."""


def load_joined(plain: Any) -> JoinedValues:
    """Return the values of an attribute from the form in which a dataset file stores them.

    Args:
        plain: Pairs of a name and a value.
    """
    return JoinedValues(_from_plain(plain))


def load_graph(cls: type[Data], mapping: Any, private: Mapping[str, Any], more: Mapping[str, Any]) -> Data:
    """Return a graph from the form in which a file stores it.

    Args:
        cls: Class of the graph.
        mapping: Attributes in plain form.
        private: Private attributes of its storage in plain form.
        more: Further attributes of the object itself.
    """
    graph: Data = object.__new__(cls)
    graph.__dict__.update(Data().__dict__)
    graph.__dict__.update(more)
    graph.__dict__["_store"] = store = GlobalStorage(_parent=graph)
    store._mapping.update(_from_plain(mapping))
    store.__dict__.update(_from_plain(private))
    return graph


def _from_plain(plain: Any) -> Any:
    if type(plain) is not tuple:
        return plain
    kind, state = plain
    if kind == "batch":
        from tgp.data.batch import PooledBatch

        batch = PooledBatch(_base_cls=PooledData)
        mapping, private = map(_from_plain, state)
        batch._store._mapping.update(mapping)
        batch._store.__dict__.update(private)
        return batch
    if kind == "dict":
        return {key: _from_plain(item) for key, item in state.items()}
    if kind in _OBJECTS:
        made: Any = object.__new__(_OBJECTS[kind])
        made.__dict__.update(_from_plain(state))
        return made
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](_from_plain(item) for item in state)
    return _NUMBERS[state]


# -- classes ---------------------------------------------------------------------------------------------------------


def attach_levels(data: Data, key: str, levels: list[Data]) -> Data:
    """Set the levels of a graph in place, and change its class so that loaders of PyG join them.

    Args:
        data: Graph of any ``Data`` class.
        key: Attribute for the levels.
        levels: Levels, finest first.
    """
    for graph in (data, *levels):
        if not isinstance(graph, (PooledData, Batch)):
            # ``Data`` sets attributes on its storage.
            object.__setattr__(graph, "__class__", pooled_class(type(graph)))
    data[key] = levels
    return data


def pooled_class(cls: type[Data]) -> type[Data]:
    """Return the class of graphs with levels that behave like a ``Data`` class otherwise.

    Args:
        cls: ``Data`` or a subclass.
    """
    if cls is Data or issubclass(cls, PooledData):
        return PooledData if cls is Data else cls
    if type(cls) is not type(Data):  # its own metaclass makes the classes of its batches
        return cls
    if cls not in _classes:
        namespace = {"__module__": cls.__module__, "_data_class": cls}
        _classes[cls] = _PooledType(f"Pooled{cls.__name__}", (PooledData, cls), namespace)
    return _classes[cls]


_classes: dict[type, type[Data]] = {}
"""Classes that :func:`pooled_class` made, by the class of the user."""


def _reduce_class(cls: _PooledType) -> Any:
    """Describe a class for ``pickle``: by name, or by its ``Data`` class if :func:`pooled_class` made it."""
    made_from = cls.__dict__.get("_data_class")
    return cls.__qualname__ if made_from is None else (pooled_class, (made_from,))


copyreg.pickle(_PooledType, _reduce_class)  # type: ignore[arg-type]  # may return a name, too

if hasattr(torch.serialization, "add_safe_globals"):
    torch.serialization.add_safe_globals([PooledData, load_graph, load_joined, pooled_class])
