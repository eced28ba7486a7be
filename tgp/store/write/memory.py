"""A store in memory, with the same bytes as on disk: its files and its writer."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from tgp.errors import StoreDamagedError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import StoreSpec
from tgp.store.format.manifest import Manifest, PartRecord
from tgp.store.io.sink import MemorySink, Sink
from tgp.store.write import shard
from tgp.store.write.part_writer import Describe, PartWriter, _Record
from tgp.store.write.records import Records, complete_manifest

if TYPE_CHECKING:
    from tgp.store.format.pieces import FileRecord

__all__ = ["MemoryFiles", "MemoryWriter"]


class MemoryWriter(PartWriter):
    """Writer of a store that exists only in this process. Threads may write different units at the same time.

    Args:
        spec: Specification of the store.
    """

    def __init__(self, spec: StoreSpec) -> None:
        super().__init__(spec)
        self.files: MemoryFiles = MemoryFiles()
        self._records: Records = {part: [None] * spec.num_units for part in self.parts}

    def records(self) -> Records:
        return self._records

    def publish(self) -> Manifest:
        manifest = complete_manifest(self.spec, self._records, self.files.location)
        self.files.contents[fmt.MANIFEST] = manifest.to_bytes()
        return manifest

    def find_piece(self, unit: int, part: str, number: int) -> None:
        """Return ``None``: a store in memory is not continued."""

    def _write_file(
        self, name: str, part: str, fill: Callable[[Sink], shard.PartSummary], describe: Describe[_Record]
    ) -> _Record:
        sink = MemorySink()
        try:
            summary = fill(sink)
        finally:
            sink.raise_error()
        content = bytes(sink.content)
        record = describe(summary, io.BytesIO(content))
        self.files.contents[name] = content
        if isinstance(record, PartRecord):
            self._records[part][record.unit] = record
        return record


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
