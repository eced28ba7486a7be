"""Read, write and verify HDF5 stores. Does not import torch; no other package imports h5py.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.store.format.data_digest import DataDigest, data_digest
    from tgp.store.format.differences import spec_differences
    from tgp.store.format.fingerprint import HierarchySpec, StoreSpec
    from tgp.store.format.manifest import Manifest, PartRecord, read_manifest, read_spec
    from tgp.store.format.schema import FailureRecord, FieldInfo, HierarchyInfo, LevelInfo, ShardRecord
    from tgp.store.io.files import LocalFiles, StoreFiles
    from tgp.store.read.reader import StoreReader
    from tgp.store.verify import Finding, verify_store
    from tgp.store.write.memory import MemoryFiles, MemoryWriter
    from tgp.store.write.part_writer import PartWriter
    from tgp.store.write.writer import StoreWriter, Task

__all__ = [
    "LocalFiles",
    "MemoryFiles",
    "MemoryWriter",
    "PartWriter",
    "StoreFiles",
    "DataDigest",
    "HierarchySpec",
    "StoreSpec",
    "data_digest",
    "spec_differences",
    "Manifest",
    "PartRecord",
    "read_manifest",
    "StoreReader",
    "FailureRecord",
    "FieldInfo",
    "HierarchyInfo",
    "LevelInfo",
    "ShardRecord",
    "Finding",
    "verify_store",
    "StoreWriter",
    "Task",
    "read_spec",
]

lazy_package(__name__)
