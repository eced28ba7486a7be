"""Shared memory that a worker process reuses for its batches.

A new piece of shared memory costs a connection, a handshake and page faults, which together take longer than gathering the
batch. A worker therefore reuses a few buffers (:class:`SharedBuffers`). It sends a buffer once, with the first batch in it;
later it sends only the number of the buffer. The receiver copies the batch and marks the buffer as free, in the buffer
itself. A worker that finds no free buffer allocates new memory for the batch, so no process waits for another one. Buffers
are freed when the processes end. The decision record 0407 has the measurements.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from tgp.data.transport import Packed, Packer, shared_bytes

__all__ = ["SharedBatch", "SharedBuffers", "release_buffers"]

_HEADER = 64
"""Number of bytes before a batch in a shared buffer. The first byte is 1 while the buffer is in use."""


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
        packer = Packer()
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
        return Packed(copy, self.tree, pin)

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
    buffer = shared_bytes(-(-size * 5 // 4 // 4096) * 4096)
    buffer[0] = 0
    return buffer
