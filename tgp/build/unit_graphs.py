"""Read the graphs of one unit from the shard file of an unfinished store."""

from __future__ import annotations

import time
from collections.abc import Collection

import numpy as np

from tgp.build.cluster import ClusterError, worker_name
from tgp.build.worker_functions import describe_worker
from tgp.errors import StoreDamagedError, StoreMissingError
from tgp.ragged import Field, GraphTable
from tgp.store import Manifest, PartRecord, StoreWriter
from tgp.store.format import constants as store_format
from tgp.store.format.codec import restore
from tgp.store.read.contents import GraphsPart
from tgp.store.read.parts import DecodedCache

__all__ = ["VISIBLE_TIMEOUT", "read_unit_graphs"]

VISIBLE_TIMEOUT = 30.0
"""Seconds to wait for a file of another machine. Network file systems may show a new file late."""


def read_unit_graphs(writer: StoreWriter, unit: int, sha256: str, names: Collection[str] = ()) -> GraphTable:
    """Read the edges, weights and some attributes of the graphs of a unit, with 32-bit ids.

    The result contains the same graphs as :func:`tgp.build.jobs.topology`, which the client has written.

    Args:
        writer: Writer of the store.
        unit: Number of the unit.
        sha256: SHA-256 of the shard file with the graphs.
        names: Attributes to read.

    Raises:
        ClusterError: If this process does not see the file, or sees a file with another content.
        StoreDamagedError: If the file does not match its completion record.
    """
    record = _wait_for_record(writer, unit, sha256)
    shards = (record.shard,) * writer.spec.num_units  # only the entry of this unit is used
    manifest = Manifest(writer.spec, record.fields, {}, {store_format.GRAPHS: shards})
    part = GraphsPart(writer.files, manifest, unit, DecodedCache(0), full=True)
    fields = {}
    for info in record.fields:
        if info.name not in ("edge_index", "edge_weight", *names):
            continue
        path = part.ptrs[info.name]
        ptr = np.arange(part.count + 1) if not path else part.array(path).astype(np.int64)
        values = part.array(part.path(info.name))
        # Copied, because the file may be replaced while the graphs are in use.
        values = values.astype(np.int32) if info.name == "edge_index" else restore(values.copy(), info.dtype)
        fields[info.name] = Field(info.name, values, ptr, info.axis, info.form, info.shifted)
    return GraphTable(part.node_ptr.astype(np.int64), fields)


def _wait_for_record(writer: StoreWriter, unit: int, sha256: str) -> PartRecord:
    """Return the completion record of the graphs of a unit. Waits until the file system shows it."""
    name = f"{store_format.RECORDS}/{store_format.record_file(unit, store_format.GRAPHS)}"
    deadline = time.monotonic() + VISIBLE_TIMEOUT
    while True:
        try:
            data = writer.files.read(name, store_format.MAX_MANIFEST_BYTES)
            record = PartRecord.from_bytes(data, unit, store_format.GRAPHS)
            if record.shard.sha256 == sha256:
                return record
            reason = "it has another content there"
        except (StoreMissingError, StoreDamagedError) as error:
            reason = str(error)
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{worker_name(describe_worker())} does not see the graphs of unit {unit} that the client has written to "
                f"{writer.files.location}: {reason}",
                hint="all workers must see the directory of the store under the same path",
            )
        time.sleep(0.2)
