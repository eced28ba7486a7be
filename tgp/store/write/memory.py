"""Write a store to memory, with the same bytes as on disk."""

from __future__ import annotations

import io
from collections.abc import Callable

from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import StoreSpec
from tgp.store.format.manifest import Manifest, PartRecord
from tgp.store.io.memory import MemoryFiles
from tgp.store.io.sink import MemorySink, Sink
from tgp.store.write import shard
from tgp.store.write.part_writer import Describe, PartWriter, _Record
from tgp.store.write.records import Records, complete_manifest

__all__ = ["MemoryWriter"]


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
