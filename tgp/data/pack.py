"""One buffer per batch: how a batch crosses from a worker process to the training process.

A batch with three levels holds some forty tensors, and torch would open one piece of shared memory (one file
descriptor, one round trip) for each. Here all bytes go into a single shared buffer; what travels besides is a small
description, from which the receiver makes views.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData

from tgp.data.fast_data import clone_with
from tgp.select.base_select import SelectOutput

__all__ = ["Packed", "Packer", "pack"]

_ALIGN = 64
"""Bytes between the starts of arrays: a cache line, and a multiple of every item size."""


class _View(NamedTuple):
    """A tensor: where it lies in the buffer."""

    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]


class _Sparse(NamedTuple):
    """A sparse COO tensor: its two parts."""

    indices: Any
    values: Any
    shape: tuple[int, ...]
    coalesced: bool


class _Graph(NamedTuple):
    """A ``Data`` or a batch of them: class (and base class of a batch), attributes, private attributes."""

    classes: tuple[type, ...]
    mapping: dict[str, Any]
    private: dict[str, Any]


class _Select(NamedTuple):
    """A ``SelectOutput``: its state."""

    state: dict[str, Any]


class Packed:
    """A batch as one buffer and a description; :meth:`unpack` gives the batch back."""

    def __init__(self, buffer: Tensor, tree: Any) -> None:
        self.buffer = buffer
        self.tree = tree

    def unpack(self) -> Any:
        """The batch, its tensors being views of the buffer."""
        return _Reader(self.buffer).read(self.tree)

    def pin_memory(self, device: Any = None) -> Packed:
        """The same batch in page-locked memory: one copy instead of one per tensor."""
        return Packed(self.buffer.pin_memory(), self.tree)


def pack(value: Any, *, shared: bool = False) -> Packed:
    """Pack a batch, or any nesting of lists, tuples and mappings around batches and tensors.

    Args:
        value: what to pack.
        shared: put the buffer in shared memory, for sending to another process.
    """
    writer = Packer()
    tree = writer.plan(value)
    return Packed(writer.write(shared), tree)


class Packer:
    """First lays out all tensors, then copies them in one go.

    Attributes:
        size: bytes that the tensors laid out so far need.
    """

    def __init__(self) -> None:
        self.size = 0
        self.seen: dict[int, _View] = {}
        self.tensors: list[tuple[_View, Tensor]] = []

    def plan(self, value: Any) -> Any:
        """Lay out the tensors of a value; returns its description."""
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
            parts = value._indices(), value._values()
            return _Sparse(*(self.plan(p) for p in parts), tuple(value.shape), value.is_coalesced())
        if type(value) is not Tensor or value.layout is not torch.strided or value.device.type != "cpu":
            return value
        view = self.seen.get(id(value))
        if view is None:
            view = _View(self.size, value.dtype, tuple(value.shape))
            self.seen[id(value)] = view
            self.tensors.append((view, value.detach()))
            self.size += -(-value.numel() * value.element_size() // _ALIGN) * _ALIGN
        return view

    def _graph(self, value: Data) -> _Graph:
        store = value._store
        hidden = {
            name: self.plan(v) for name, v in store.__dict__.items() if name not in ("_mapping", "_parent")
        }
        bases = type(value).__bases__ if isinstance(value, Batch) else (type(value),)
        return _Graph(bases, {name: self.plan(v) for name, v in store._mapping.items()}, hidden)

    def write(self, shared: bool) -> Tensor:
        """All tensors in a new buffer."""
        if shared and self.size:
            storage = torch.UntypedStorage._new_shared(self.size, device="cpu")
            buffer = torch.empty(0, dtype=torch.uint8).set_(storage)
        else:
            buffer = torch.empty(self.size, dtype=torch.uint8)
        self.fill(buffer)
        return buffer

    def fill(self, buffer: Tensor) -> None:
        """Copy all tensors into a buffer of at least :attr:`size` bytes that starts at a whole number of items."""
        reader = _Reader(buffer)
        for view, tensor in self.tensors:
            reader.tensor(view).copy_(tensor)


class _Reader:
    """Makes views of a buffer; one typed base per dtype, so a tensor costs a single call."""

    def __init__(self, buffer: Tensor) -> None:
        self.buffer = buffer
        self.bases: dict[torch.dtype, tuple[Tensor, int, int]] = {}
        self.made: dict[int, Tensor] = {}

    def tensor(self, view: _View) -> Tensor:
        base = self.bases.get(view.dtype)
        if base is None:
            typed = self.buffer.view(view.dtype)
            base = self.bases[view.dtype] = (typed, typed.element_size(), typed.storage_offset())
        start = base[2] + view.offset // base[1]
        # ".data": a change in place of one tensor is not to count as a change of all others of the batch.
        return base[0].as_strided(view.shape, _strides(view.shape), start).data

    def read(self, tree: Any) -> Any:
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
        """Tensors that were one object stay one object. Empty ones share offsets, so they are made anew."""
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
    """Nothing but numbers and text inside: no need to look at every item."""
    return _FLAT.issuperset(map(type, values))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))
