"""Fast construction of many PyG objects."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any, TypeVar

from torch_geometric.data import Data

__all__ = ["clone_with", "make_data", "paused_gc"]

D = TypeVar("D", bound=Data)

_prototypes: dict[type[Data], Data] = {}


def clone_with(prototype: D, mapping: dict[str, Any], private: dict[str, Any] | None = None) -> D:
    """Return an object of the class of ``prototype`` with the given attributes.

    This does what ``copy.copy`` does to a ``Data``, without a Python call per attribute. It takes a tenth of the time of
    PyG's constructor.

    Args:
        prototype: ``Data`` or batch without attributes.
        mapping: Attributes of the result.
        private: Private attributes of its storage.
    """
    out: D = prototype.__class__.__new__(prototype.__class__)
    out.__dict__.update(prototype.__dict__)
    origin = prototype.__dict__["_store"]
    store = origin.__class__.__new__(origin.__class__)
    store.__dict__.update(origin.__dict__)
    if private:
        store.__dict__.update(private)
    store.__dict__["_mapping"] = mapping
    store.__dict__["_parent"] = weakref.ref(out)
    out.__dict__["_store"] = store
    return out


def make_data(mapping: dict[str, Any], cls: type[Data] = Data) -> Data:
    """Return a graph with the given attributes.

    Args:
        mapping: Attributes of the graph.
        cls: Class of the graph.
    """
    prototype = _prototypes.get(cls)
    if prototype is None:
        prototype = _prototypes[cls] = cls()
    return clone_with(prototype, mapping)


@contextlib.contextmanager
def paused_gc() -> Iterator[None]:
    """Disable garbage collection inside the block. It would scan the growing heap repeatedly and free nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
