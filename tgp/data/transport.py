"""Transport of batches from worker processes to the training process.

A batch with three levels holds about forty tensors. torch would send each of them in its own piece of shared memory, with
its own file descriptor and round trip. Here all bytes of a batch are packed into one buffer (:func:`pack`), and a small
description is sent with it, from which the receiver makes views.

A new piece of shared memory costs a connection, a handshake and page faults, which together take longer than gathering the
batch. A worker therefore reuses a few buffers (:class:`SharedBuffers`). It sends a buffer once, with the first batch in it;
later it sends only the number of the buffer. The receiver copies the batch and marks the buffer as free, in the buffer
itself. A worker that finds no free buffer allocates new memory for the batch, so no process waits for another one. Buffers
are freed when the processes end. The decision record 0407 has the measurements.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData

from tgp.data.fast_data import clone_with
from tgp.select.base_select import SelectOutput

__all__ = ["Packed", "SharedBatch", "SharedBuffers", "pack", "release_buffers"]

_ALIGN = 64
"""Alignment of arrays in bytes: the size of a cache line and a multiple of every item size."""

_HEADER = 64
"""Number of bytes before a batch in a shared buffer. The first byte is 1 while the buffer is in use."""


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
    """

    def __init__(self, buffer: Tensor, tree: Any) -> None:
        self.buffer = buffer
        self.tree = tree

    def unpack(self) -> Any:
        """Return the batch. Its tensors are views of the buffer."""
        return _Reader(self.buffer).read(self.tree)

    def pin_memory(self, device: Any = None) -> Packed:
        """Return the same batch in page-locked memory, with one copy instead of one per tensor."""
        return Packed(self.buffer.pin_memory(), self.tree)


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
    packer = _Packer()
    tree = packer.plan(value)
    return Packed(packer.write(shared), tree)


class _Packer:
    """Assigns a position to every tensor, then copies all of them.

    Attributes:
        size: Number of bytes of the tensors so far.
    """

    def __init__(self) -> None:
        self.size = 0
        self.seen: dict[int, _View] = {}
        self.tensors: list[tuple[_View, Tensor]] = []

    def plan(self, value: Any) -> Any:
        """Assign positions to the tensors of a value, and return its description."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, SelectOutput):
            state = value.__getstate__()
            return _Select({name: self.plan(part) for name, part in state.items()})
        if isinstance(value, Data):
            return self._graph(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.plan(item) for item in value))
        if isinstance(value, (list, tuple)):
            return value if _is_flat(value) else type(value)(self.plan(item) for item in value)
        if type(value) is dict:
            return {name: self.plan(item) for name, item in value.items()}
        return value

    def _tensor(self, value: Tensor) -> Any:
        if value.layout is torch.sparse_coo and value.device.type == "cpu":
            indices, values = self.plan(value._indices()), self.plan(value._values())
            return _Sparse(indices, values, tuple(value.shape), value.is_coalesced())
        if type(value) is not Tensor or value.layout is not torch.strided or value.device.type != "cpu":
            return value
        view = self.seen.get(id(value))
        if view is None:
            view = _View(self.size, value.dtype, tuple(value.shape))
            self.seen[id(value)] = view
            self.tensors.append((view, value))  # keeps the tensor alive, so that its id stays unique
            self.size += -(-value.numel() * value.element_size() // _ALIGN) * _ALIGN
        return view

    def _graph(self, value: Data) -> _Graph:
        store = value._store
        private = {
            name: self.plan(v) for name, v in store.__dict__.items() if name not in ("_mapping", "_parent")
        }
        bases = type(value).__bases__ if isinstance(value, Batch) else (type(value),)
        return _Graph(bases, {name: self.plan(v) for name, v in store._mapping.items()}, private)

    def write(self, shared: bool) -> Tensor:
        """Return a new buffer with all tensors."""
        if shared and self.size:
            buffer = _shared_bytes(self.size)
        else:
            buffer = torch.empty(self.size, dtype=torch.uint8)
        self.fill(buffer)
        return buffer

    def fill(self, buffer: Tensor) -> None:
        """Copy all tensors into a buffer of at least :attr:`size` bytes that is aligned for every type."""
        reader = _Reader(buffer)
        for view, tensor in self.tensors:
            reader.tensor(view).copy_(tensor.detach())


class _Reader:
    """Makes views of a buffer. One typed base per dtype is kept, so that a view takes a single call."""

    def __init__(self, buffer: Tensor) -> None:
        self.buffer = buffer
        self.bases: dict[torch.dtype, tuple[Tensor, int, int]] = {}
        self.made: dict[int, Tensor] = {}

    def tensor(self, view: _View) -> Tensor:
        """Return the tensor at a position."""
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
        if kind is _View:
            return self._once(tree)
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
        if kind is dict:
            return self._mapping(tree)
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            return kind(*(self.read(item) for item in tree))
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
        return {name: self.read(item) for name, item in tree.items()}

    def _graph(self, tree: _Graph) -> BaseData:
        prototype = _prototypes.get(tree.classes)
        if prototype is None:
            cls, *base = tree.classes
            prototype = _prototypes[tree.classes] = cls(_base_cls=base[0]) if base else cls()
        return clone_with(prototype, self._mapping(tree.mapping), self._mapping(tree.private))


_prototypes: dict[tuple[type, ...], Data] = {}

_FLAT = frozenset({int, float, bool, str, type(None)})


def _is_flat(values: list[Any] | tuple[Any, ...]) -> bool:
    """Return True if a list contains only numbers and strings, so that its items need no packing."""
    return _FLAT.issuperset(map(type, values))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def _shared_bytes(size: int) -> Tensor:
    storage = torch.UntypedStorage._new_shared(size, device="cpu")
    return torch.empty(0, dtype=torch.uint8).set_(storage)


# -- shared buffers ---------------------------------------------------------------------------------------------


class SharedBuffers:
    """Shared buffers of one worker process.

    Args:
        owner: Number of the iterator to which the worker belongs.
        worker: Number of the worker.
        limit: Maximum number of buffers.
    """

    def __init__(self, owner: int, worker: int, limit: int) -> None:
        self.owner = owner
        self.worker = worker
        self.limit = limit
        self._buffers: list[Tensor] = []
        self._numbers: list[int] = []
        self._next_number = itertools.count()

    def pack(self, value: Any) -> Packed | SharedBatch:
        """Pack a batch into a free buffer, or into new memory if no buffer is free."""
        packer = _Packer()
        tree = packer.plan(value)
        position, is_new = self._find_free(packer.size + _HEADER)
        if position is None:
            return Packed(packer.write(shared=True), tree)
        buffer = self._buffers[position]
        packer.fill(buffer[_HEADER : _HEADER + packer.size])
        buffer[0] = 1
        key = (self.owner, self.worker, self._numbers[position])
        return SharedBatch(key, packer.size, tree, buffer if is_new else None)

    def _find_free(self, size: int) -> tuple[int | None, bool]:
        """Return the position of a free buffer of sufficient size, and True if the receiver does not know it yet."""
        free = [position for position, buffer in enumerate(self._buffers) if not buffer[0]]
        for position in free:
            if self._buffers[position].numel() >= size:
                return position, False
        if free:  # too small: replace it by a larger one
            self._buffers[free[0]] = _allocate_buffer(size)
            self._numbers[free[0]] = next(self._next_number)
            return free[0], True
        if len(self._buffers) >= self.limit:
            return None, False
        self._buffers.append(_allocate_buffer(size))
        self._numbers.append(next(self._next_number))
        return len(self._buffers) - 1, True


class SharedBatch:
    """Batch in a shared buffer.

    Args:
        key: Number of the iterator, of the worker and of the buffer.
        size: Number of bytes of the batch.
        tree: Description of the batch, see :class:`Packed`.
        buffer: Buffer, if the receiver does not know it yet.
    """

    def __init__(self, key: tuple[int, int, int], size: int, tree: Any, buffer: Tensor | None) -> None:
        self.key = key
        self.size = size
        self.tree = tree
        self.buffer = buffer
        self.is_received = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Look up the buffer in the receiving process."""
        self.__dict__.update(state)
        if self.buffer is not None:
            _known_buffers[self.key] = self.buffer
        self.buffer = _known_buffers[self.key]
        self.is_received = True

    def __del__(self) -> None:
        # A loop that ends early drops batches without unpacking them. Their buffers become free here.
        if self.is_received and self.buffer is not None:
            self.buffer[0] = 0

    def take(self, pin: bool = False) -> Packed:
        """Copy the batch and free the buffer. This can be called once.

        Args:
            pin: Copy into page-locked memory.
        """
        buffer, self.buffer = self.buffer, None
        assert self.is_received and buffer is not None, "a batch is taken once, by the receiver"
        copy = torch.empty(self.size, dtype=torch.uint8, pin_memory=pin)
        copy.copy_(buffer[_HEADER : _HEADER + self.size])
        buffer[0] = 0
        return Packed(copy, self.tree)

    def unpack(self) -> Any:
        """Return the batch."""
        return self.take().unpack()

    def pin_memory(self, device: Any = None) -> Packed:
        """Return the batch in page-locked memory."""
        return self.take(pin=True)


_known_buffers: dict[tuple[int, int, int], Tensor] = {}


def release_buffers(owner: int) -> None:
    """Release the buffers of an iterator that has ended.

    Args:
        owner: Number of the iterator.
    """
    for key in [key for key in _known_buffers if key[0] == owner]:
        _known_buffers.pop(key, None)


def _allocate_buffer(size: int) -> Tensor:
    """Return a free shared buffer with 25 % more bytes than needed, rounded up to whole pages."""
    buffer = _shared_bytes(-(-size * 5 // 4 // 4096) * 4096)
    buffer[0] = 0
    return buffer
