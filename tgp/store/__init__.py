"""The HDF5 store: shards, manifest, reader, writer. Torch-free; the only user of h5py.

Names are imported on first access, so that asking for one does not pay for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tgp.registry import load

if TYPE_CHECKING:
    from tgp.store.files import LocalFiles, StoreFiles
    from tgp.store.fingerprint import DataDigest, HierarchySpec, StoreSpec, data_digest, spec_differences
    from tgp.store.gather import LevelArrays
    from tgp.store.manifest import Manifest, PartRecord, read_manifest
    from tgp.store.reader import StoreReader
    from tgp.store.schema import FailureRecord, FieldInfo, HierarchyInfo, LevelInfo, ShardRecord
    from tgp.store.verify import Finding, verify_store
    from tgp.store.writer import StoreWriter, Task, read_spec

__all__ = [
    "LocalFiles",
    "StoreFiles",
    "DataDigest",
    "HierarchySpec",
    "StoreSpec",
    "data_digest",
    "spec_differences",
    "LevelArrays",
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

_WHERE = {
    "LocalFiles": "files",
    "StoreFiles": "files",
    "DataDigest": "fingerprint",
    "HierarchySpec": "fingerprint",
    "StoreSpec": "fingerprint",
    "data_digest": "fingerprint",
    "spec_differences": "fingerprint",
    "LevelArrays": "gather",
    "Manifest": "manifest",
    "PartRecord": "manifest",
    "read_manifest": "manifest",
    "StoreReader": "reader",
    "FailureRecord": "schema",
    "FieldInfo": "schema",
    "HierarchyInfo": "schema",
    "LevelInfo": "schema",
    "ShardRecord": "schema",
    "Finding": "verify",
    "verify_store": "verify",
    "StoreWriter": "writer",
    "Task": "writer",
    "read_spec": "writer",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tgp.store' has no attribute {name!r}")
    return load(f"tgp.store.{_WHERE[name]}:{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
