"""Transport of batches from worker processes to the training process.

A batch with three levels holds about forty tensors. torch would send each of them in its own piece of shared memory, with
its own file descriptor and round trip. Here all bytes of a batch are packed into one buffer (:func:`pack`), and a small
description is sent with it, from which the receiver makes views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData

from tgp.data.fast_data import clone_with
from tgp.kernels.array_types import Array
from tgp.select.base_select import SelectOutput

__all__ = ["Packed", "Packer", "pack", "shared_bytes"]


_ALIGN = 64
"""Alignment of arrays in bytes: the size of a cache line and a multiple of every item size."""

_NUMPY = {
    torch.bool: np.dtype(np.bool_),
    torch.uint8: np.dtype(np.uint8),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
"""Types of numpy. Tensors of other types are copied by torch."""


class _View(NamedTuple):
    """Position of a tensor in the buffer."""

    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]


class _Sparse(NamedTuple):
    """Parts of a sparse COO tensor."""

    indices: Any
    values: Any
    shape: tuple[int, ...]
    coalesced: bool


class _Graph(NamedTuple):
    """Class of a ``Data`` or batch (and base class of a batch), attributes, and private attributes."""

    classes: tuple[type, ...]
    mapping: dict[str, Any]
    private: dict[str, Any]


class _Select(NamedTuple):
    """State of a ``SelectOutput``."""

    state: dict[str, Any]


# -- packing ----------------------------------------------------------------------------------------------------


class Packed:
    """Batch in one buffer.

    Args:
        buffer: Bytes of all tensors.
        tree: Description of the batch.
        is_pinned: True if the buffer is page-locked.
    """

    def __init__(self, buffer: Tensor, tree: Any, is_pinned: bool = False) -> None:
        self.buffer = buffer
        self.tree = tree
        self.is_pinned = is_pinned

    def unpack(self) -> Any:
        """Return the batch. Its tensors are views of the buffer."""
        return _Reader(self.buffer, self.is_pinned).read(self.tree)

    def pin_memory(self, device: Any = None) -> Packed:
        """Return the same batch in page-locked memory, with one copy instead of one per tensor."""
        return Packed(self.buffer.pin_memory(), self.tree, is_pinned=True)


def pack(value: Any, *, shared: bool = False) -> Packed:
    """Pack a batch, or lists, tuples and dictionaries that contain batches and tensors.

    Args:
        value: Object to pack.
        shared: Put the buffer into shared memory, to send it to another process.

    Examples:
        >>> packed = pack({"x": torch.ones(2), "name": "a"})
        >>> packed.unpack()["x"].tolist()
        [1.0, 1.0]
    """
    packer = Packer()
    tree = packer.plan(value)
    return Packed(packer.write(shared), tree)


class Packer:
    """Assigns a position to every tensor, then copies all of them.

    Attributes:
        size: Number of bytes of the tensors so far.
    """

    def __init__(self) -> None:
        self.size = 0
        self.seen: dict[int, _View] = {}
        self.tensors: list[tuple[_View, Tensor, Array | None]] = []

    def plan(self, value: Any) -> Any:
        """Assign positions to the tensors of a value, and return its description."""
        kind = type(value)
        if kind in _FLAT:
            return value
        if kind is dict:
            return self._mapping(value)
        if kind is Tensor or isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, SelectOutput):
            return _Select(self._mapping(value.__getstate__()))
        if isinstance(value, Data):
            return self._graph(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*(item if type(item) in _FLAT else self.plan(item) for item in value))
        if isinstance(value, (list, tuple)):
            return value if _is_flat(value) else kind(self.plan(item) for item in value)
        return value

    def _mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {k: item if type(item) in _FLAT else self.plan(item) for k, item in values.items()}

    def _tensor(self, value: Tensor) -> Any:
        view = self.seen.get(id(value))
        if view is not None:
            return view
        array = _as_array(value)
        if array is not None:
            return self._place(value, array.shape, array.nbytes, array)
        if value.layout is torch.sparse_coo and value.device.type == "cpu":
            indices, values = self.plan(value._indices()), self.plan(value._values())
            return _Sparse(indices, values, tuple(value.shape), value.is_coalesced())
        if type(value) is not Tensor or value.layout is not torch.strided or value.device.type != "cpu":
            return value
        return self._place(value, tuple(value.shape), value.numel() * value.element_size(), None)

    def _place(self, value: Tensor, shape: tuple[int, ...], size: int, array: Array | None) -> _View:
        """Assign the next position to a tensor."""
        view = self.seen[id(value)] = _View(self.size, value.dtype, shape)
        self.tensors.append((view, value, array))  # keeps the tensor alive, so that its id stays unique
        self.size += -(-size // _ALIGN) * _ALIGN
        return view

    def _graph(self, value: Data) -> _Graph:
        store = value._store
        private = self._mapping(store.__dict__ | {"_mapping": None, "_parent": None})
        del private["_mapping"], private["_parent"]
        bases = type(value).__bases__ if isinstance(value, Batch) else (type(value),)
        return _Graph(bases, self._mapping(store._mapping), private)

    def write(self, shared: bool) -> Tensor:
        """Return a new buffer with all tensors."""
        if shared and self.size:
            buffer = shared_bytes(self.size)
        else:
            buffer = torch.empty(self.size, dtype=torch.uint8)
        self.fill(buffer)
        return buffer

    def fill(self, buffer: Tensor) -> None:
        """Copy all tensors into a buffer of at least :attr:`size` bytes that is aligned for every type."""
        reader, memory = _Reader(buffer), buffer.numpy()
        for view, tensor, array in self.tensors:
            if array is None:
                reader.strided(view).copy_(tensor.detach())
            else:  # a copy in numpy takes a third of the time
                np.ndarray(view.shape, array.dtype, memory, view.offset)[...] = array


class _Reader:
    """Makes views of a buffer.

    Args:
        buffer: Buffer of the tensors.
        is_pinned: True if it is page-locked. Views then share its storage, because torch has to find it for copies to a
            device that do not wait.
    """

    def __init__(self, buffer: Tensor, is_pinned: bool = False) -> None:
        self.buffer = buffer
        self.memory = None if is_pinned else buffer.numpy()
        self.bases: dict[torch.dtype, tuple[Tensor, int, int]] = {}
        self.made: dict[int, Tensor] = {}

    def tensor(self, view: _View) -> Tensor:
        """Return the tensor at a position."""
        kind = None if self.memory is None else _NUMPY.get(view.dtype)
        if kind is None:
            return self.strided(view)
        return torch.from_numpy(np.ndarray(view.shape, kind, self.memory, view.offset))

    def strided(self, view: _View) -> Tensor:
        """Return the tensor at a position as a view that shares the storage. One typed base per type is kept."""
        base = self.bases.get(view.dtype)
        if base is None:
            typed = self.buffer.view(view.dtype)
            base = (typed, typed.element_size(), int(typed.storage_offset()))
            self.bases[view.dtype] = base
        start = base[2] + view.offset // base[1]
        # ".data": a change in place of one tensor must not count as a change of the others.
        return base[0].as_strided(view.shape, _strides(view.shape), start).data

    def read(self, tree: Any) -> Any:
        """Return the object of a description."""
        kind = type(tree)
        if kind in _FLAT:
            return tree
        if kind is _View:
            return self._once(tree)
        if kind is dict:
            return self._mapping(tree)
        if kind is _Select:
            out = SelectOutput.__new__(SelectOutput)
            out.__dict__.update(self._mapping(tree.state))
            return out
        if kind is _Graph:
            return self._graph(tree)
        if kind is _Sparse:
            return torch.sparse_coo_tensor(
                self.read(tree.indices),
                self.read(tree.values),
                tree.shape,
                is_coalesced=tree.coalesced,
                check_invariants=False,
            )
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            return kind(*(item if type(item) in _FLAT else self.read(item) for item in tree))
        if kind in (list, tuple):
            return tree if _is_flat(tree) else kind(self.read(item) for item in tree)
        return tree

    def _once(self, view: _View) -> Tensor:
        """Return the same object for a tensor that occurred twice. Empty tensors share positions and are not reused."""
        made = self.made.get(view.offset)
        if made is not None and made.numel() and made.dtype == view.dtype and made.shape == view.shape:
            return made
        made = self.made[view.offset] = self.tensor(view)
        return made

    def _mapping(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        return {k: item if type(item) in _FLAT else self.read(item) for k, item in tree.items()}

    def _graph(self, tree: _Graph) -> BaseData:
        prototype = _prototypes.get(tree.classes)
        if prototype is None:
            cls, *base = tree.classes
            prototype = _prototypes[tree.classes] = cls(_base_cls=base[0]) if base else cls()
        return clone_with(prototype, self._mapping(tree.mapping), self._mapping(tree.private))


_prototypes: dict[tuple[type, ...], Data] = {}

_FLAT = frozenset({int, float, bool, str, type(None)})


def _as_array(value: Tensor) -> Array | None:
    """Return an ordinary tensor as an array over the same memory, or ``None`` if torch has to copy the tensor."""
    if type(value) is not Tensor or value.dtype not in _NUMPY:
        return None
    try:
        return value.numpy()
    except (
        TypeError,
        RuntimeError,
    ):  # on another device, not strided, or with a gradient or a pending operation
        return None


def _is_flat(values: Iterable[Any]) -> bool:
    """Return True if a collection contains only numbers and strings, so that its items need no packing."""
    return _FLAT.issuperset(map(type, values))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def shared_bytes(size: int) -> Tensor:
    """Return new shared memory.

    Args:
        size: Number of bytes.
    """
    storage = torch.UntypedStorage._new_shared(size, device="cpu")
    return torch.empty(0, dtype=torch.uint8).set_(storage)
