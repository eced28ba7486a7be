"""File objects through which libhdf5 writes a shard to a file or to memory."""

from __future__ import annotations

import io
import os
from typing import Any

__all__ = ["MemorySink", "Sink"]


class Sink(io.RawIOBase):
    """File object that HDF5 writes to. It stores the first error instead of raising it.

    libhdf5 may crash or corrupt its state if a write fails while it closes a file. Therefore it never sees the failure:
    later writes are discarded, and the writer calls :meth:`raise_error` afterwards. The same holds for an interrupt that
    arrives during a write.

    Args:
        descriptor: Descriptor of a file that is open for reading and writing.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.error: BaseException | None = None
        self.length = 0
        self._position = 0

    def write_all(self, data: Any) -> None:
        """Write bytes at the current position and raise the error if that fails."""
        self.write(data)
        self.raise_error()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            if self.error is None:
                self._store(view)
        except BaseException as error:  # noqa: BLE001 - raised again by raise_error
            self.error = error
        self._position += len(view)
        self.length = max(self.length, self._position)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._fetch(len(view))
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        self._position += len(view)
        return len(view)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self.length)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        self.length = self._position if size is None else size
        try:
            if self.error is None:
                self._resize()
        except BaseException as error:  # noqa: BLE001 - raised again by raise_error
            self.error = error
        return self.length

    def _store(self, view: memoryview) -> None:
        """Write bytes at the current position."""
        os.lseek(self.descriptor, self._position, os.SEEK_SET)
        done = 0
        while done < len(view):
            done += os.write(self.descriptor, view[done:])

    def _fetch(self, size: int) -> bytes | bytearray:
        """Return at most ``size`` bytes from the current position."""
        os.lseek(self.descriptor, self._position, os.SEEK_SET)
        return os.read(self.descriptor, size)

    def _resize(self) -> None:
        """Set the size of the file to ``length``."""
        os.ftruncate(self.descriptor, self.length)

    def raise_error(self) -> None:
        """Raise the first error of a write, if there was one."""
        if self.error is not None:
            raise self.error

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class MemorySink(Sink):
    """File object that HDF5 writes to, without a file.

    Attributes:
        content: Bytes that were written.
    """

    def __init__(self) -> None:
        super().__init__(-1)
        self.content = bytearray()

    def _store(self, view: memoryview) -> None:
        if self._position > len(self.content):
            self.content.extend(bytes(self._position - len(self.content)))
        self.content[self._position : self._position + len(view)] = view

    def _fetch(self, size: int) -> bytes | bytearray:
        return self.content[self._position : self._position + size]

    def _resize(self) -> None:
        del self.content[self.length :]
        self.content.extend(bytes(self.length - len(self.content)))
