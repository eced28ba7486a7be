"""Files of a store that are kept in memory."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from tgp.errors import StoreDamagedError, StoreMissingError

if TYPE_CHECKING:
    from tgp.store.format.pieces import FileRecord

__all__ = ["MemoryFiles"]


class MemoryFiles:
    """Files of a store in memory. Implements :class:`~tgp.store.io.files.StoreFiles`.

    A pickled object contains all bytes. A forked process shares them with its parent.

    Args:
        contents: Content of each file, by name.
    """

    def __init__(self, contents: Mapping[str, bytes] | None = None) -> None:
        self.contents: dict[str, bytes] = dict(contents or {})

    @property
    def location(self) -> str:
        return "memory"

    def expect(self, records: Iterable[FileRecord]) -> None:
        """Do nothing: nothing is downloaded."""

    def size(self, name: str) -> int:
        return len(self._content(name))

    def read(self, name: str, limit: int) -> bytes:
        content = self._content(name)
        if len(content) > limit:
            raise StoreDamagedError(
                f"{name} is too large: expected at most {limit} bytes, got {len(content)}",
                path=name,
                item=name,
            )
        return content

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self._content(name), np.uint8)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self._content(name))

    def path_of(self, name: str) -> str | None:
        return None

    def fetch(self, names: Sequence[str]) -> None:
        """Do nothing: the files are here."""

    def drop(self, name: str) -> None:
        """Do nothing: there is no other copy."""

    def _content(self, name: str) -> bytes:
        try:
            return self.contents[name]
        except KeyError:
            raise StoreMissingError(f"there is no {name} in memory", path=name) from None
