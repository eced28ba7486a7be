"""Shared memory that is used again and again between a worker and the training process.

Handing a new piece of shared memory to another process costs a connection, a handshake and fresh pages: more than
gathering the batch. So a worker keeps a few pieces (slots). It hands over a slot once, with the first batch in it; later
only its number travels. The receiver copies the batch out and marks the slot as free, in the slot itself. A worker that
finds no free slot takes new memory for this batch: nobody ever waits, and nothing outlives the processes.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from tgp.data.pack import Packed, Packer

__all__ = ["InSlot", "SharedBuffers", "forget"]

_HEAD = 64
"""Bytes in front of a batch; the first one says whether the slot is taken."""


class SharedBuffers:
    """The slots of one worker.

    Args:
        owner: number of the iterator that the worker belongs to.
        worker: number of the worker.
        limit: most slots.
    """

    def __init__(self, owner: int, worker: int, limit: int) -> None:
        self.owner = owner
        self.worker = worker
        self.limit = limit
        self._slots: list[Tensor] = []
        self._made = itertools.count()
        self._names: list[int] = []

    def pack(self, value: Any) -> Packed | InSlot:
        """A batch in a free slot, or else in memory of its own."""
        packer = Packer()
        tree = packer.plan(value)
        place, fresh = self._free(packer.size + _HEAD)
        if place is None:
            return Packed(packer.write(shared=True), tree)
        slot = self._slots[place]
        packer.fill(slot[_HEAD : _HEAD + packer.size])
        slot[0] = 1
        key = (self.owner, self.worker, self._names[place])
        return InSlot(key, packer.size, tree, slot if fresh else None)

    def _free(self, size: int) -> tuple[int | None, bool]:
        """A free slot that is large enough, and whether the receiver has yet to see it."""
        free = [place for place, slot in enumerate(self._slots) if not slot[0]]
        for place in free:
            if self._slots[place].numel() >= size:
                return place, False
        if free:  # too small: give it up for a larger one
            self._slots[free[0]] = _shared(size)
            self._names[free[0]] = next(self._made)
            return free[0], True
        if len(self._slots) >= self.limit:
            return None, False
        self._slots.append(_shared(size))
        self._names.append(next(self._made))
        return len(self._slots) - 1, True


class InSlot:
    """A batch that lies in a slot.

    Args:
        key: iterator, worker and number of the slot.
        size: bytes of the batch.
        tree: its description, see :class:`~tgp.data.pack.Packed`.
        slot: the slot itself if it is new.
    """

    def __init__(self, key: tuple[int, int, int], size: int, tree: Any, slot: Tensor | None) -> None:
        self.key = key
        self.size = size
        self.tree = tree
        self.slot = slot
        self.arrived = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive at the receiver."""
        self.__dict__.update(state)
        if self.slot is not None:
            _seen[self.key] = self.slot
        self.slot = _seen[self.key]
        self.arrived = True

    def __del__(self) -> None:
        # A loop that was left in the middle throws away batches that were under way: their slots are free again.
        if self.arrived and self.slot is not None:
            self.slot[0] = 0

    def take(self, pin: bool = False) -> Packed:
        """Copy the batch out and free the slot; once only."""
        slot, self.slot = self.slot, None
        assert self.arrived and slot is not None, "a batch is taken once, where it arrived"
        copy = torch.empty(self.size, dtype=torch.uint8, pin_memory=pin)
        copy.copy_(slot[_HEAD : _HEAD + self.size])
        slot[0] = 0
        return Packed(copy, self.tree)

    def unpack(self) -> Any:
        """The batch."""
        return self.take().unpack()

    def pin_memory(self, device: Any = None) -> Packed:
        """The batch in page-locked memory."""
        return self.take(pin=True)


_seen: dict[tuple[int, int, int], Tensor] = {}


def forget(owner: int) -> None:
    """Let go of the slots of an iterator that has ended."""
    for key in [key for key in _seen if key[0] == owner]:
        _seen.pop(key, None)


def _shared(size: int) -> Tensor:
    """Shared memory with a quarter more than is needed now, in whole pages."""
    room = -(-size * 5 // 4 // 4096) * 4096
    storage = torch.UntypedStorage._new_shared(room, device="cpu")
    slot = torch.empty(0, dtype=torch.uint8).set_(storage)
    slot[0] = 0
    return slot
