"""The work on one unit: take its graphs from a table or from the store, coarsen them, and write their hierarchy."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tgp.build.cluster import ClusterError, worker_name
from tgp.build.worker_functions import describe_worker
from tgp.engine.carry import CarryStep, input_names
from tgp.engine.coarsening import GraphFailure, coarsen_with_failures
from tgp.engine.schedule import Schedule
from tgp.engine.threads import limit_threads
from tgp.engine.type_graph import TypeGraph
from tgp.engine.typed_table import coarsen_table, typed_inputs
from tgp.errors import StoreDamagedError, StoreMissingError
from tgp.ragged import Field, GraphTable, Hierarchy
from tgp.ragged.types import TypeTable
from tgp.sources.tables import slice_table, weight_type
from tgp.store import FailureRecord, Manifest, PartRecord, PartWriter, StoreSpec, StoreWriter
from tgp.store.format import constants as store_format
from tgp.store.format.codec import restore
from tgp.store.read.contents import GraphsPart
from tgp.store.read.parts import DecodedCache

__all__ = [
    "ENGINE_LOCK",
    "VISIBLE_TIMEOUT",
    "JobReport",
    "UnitWork",
    "coarsen_unit",
    "needed_fields",
    "read_unit_graphs",
    "run_unit",
    "topology",
]

VISIBLE_TIMEOUT = 30.0
"""Seconds to wait for a file of another machine. Network file systems may show a new file late."""


ENGINE_LOCK = threading.Lock()
"""Lock around the engine. Two threads (of a Dask worker, for example) must not enter numba's thread pool at once."""


@dataclass(frozen=True)
class JobReport:
    """Result of a job.

    Args:
        unit: Number of the unit.
        name: Name of the hierarchy.
        num_graphs: Number of graphs in the unit.
        bytes: Size of the shard file.
        sha256: Digest of the shard file.
    """

    unit: int
    name: str
    num_graphs: int
    bytes: int
    sha256: str


def needed_fields(
    steps: Sequence[CarryStep], types: TypeTable | None, needs: Iterable[str] = ()
) -> list[str]:
    """Return the attributes of the graphs that coarsening needs in addition to edges and weights.

    Args:
        steps: Attributes of the levels.
        types: Types and relations of heterogeneous graphs, or ``None``.
        needs: Attributes of nodes that methods need.
    """
    if types is not None:
        return typed_inputs(types, steps, needs)
    return list(dict.fromkeys([*input_names(steps), *needs]))


def topology(table: GraphTable, low: int, high: int, names: Iterable[str] = ()) -> GraphTable:
    """Return views of the arrays of graphs ``low:high`` that coarsening needs: edges, weights and attributes.

    Args:
        table: All graphs.
        low: First graph.
        high: End of the range.
        names: Attributes that are carried to the levels.
    """
    return slice_table(table, low, high, ("edge_index", "edge_weight", *names))


def read_unit_graphs(writer: StoreWriter, unit: int, sha256: str, names: Collection[str] = ()) -> GraphTable:
    """Read the edges, weights and some attributes of the graphs of a unit, with 32-bit ids.

    The result contains the same graphs as :func:`topology`, which the client has written.

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


def coarsen_unit(
    graphs: GraphTable,
    schedule: Schedule,
    spec: StoreSpec,
    name: str,
    *,
    steps: Sequence[CarryStep] = (),
    metrics: bool = False,
) -> tuple[Hierarchy, list[GraphFailure], dict[str, Any] | None]:
    """Return the levels of some graphs, the graphs that failed, and the quality figures.

    Args:
        graphs: Graphs, with the attributes that :func:`needed_fields` names.
        schedule: Levels.
        spec: Specification of the store.
        name: Name of the hierarchy.
        steps: Attributes of the levels.
        metrics: True to compute quality figures. Those of heterogeneous graphs are about the edges of all relations together.
    """
    wanted = spec.hierarchy(name)
    if spec.types is not None:
        hierarchy, failed, block, measured = coarsen_table(
            graphs,
            spec.types,
            schedule,
            wanted.seed,
            relations=wanted.relations or (),
            type_graph=cast("TypeGraph", wanted.type_graph),
            steps=steps,
        )
    else:
        block, dtype = graphs.to_block(schedule.needs), weight_type(graphs)
        hierarchy, failed = coarsen_with_failures(block, schedule, wanted.seed, weight_dtype=dtype)
        measured = hierarchy
    figures = None
    if metrics:
        from tgp.engine.metrics import hierarchy_metrics

        figures = hierarchy_metrics(block, measured)
    if steps and spec.types is None:
        from tgp.engine.carry_fields import carry_fields

        hierarchy = carry_fields(graphs, hierarchy, steps)
    return hierarchy, failed, figures


@dataclass(frozen=True, eq=False)
class UnitWork:
    """One unit to coarsen under one schedule in this process.

    Args:
        unit: Number of the unit.
        name: Name of the hierarchy.
        graphs: Graphs of the unit, see :func:`topology`.
        writer: Writer of the store. Several threads use it at the same time.
        schedule: Levels.
        steps: Attributes of the levels.
        metrics: True to compute quality figures.
        threads: Largest number of threads of the engine.
    """

    unit: int
    name: str
    graphs: GraphTable
    writer: PartWriter
    schedule: Schedule
    steps: Sequence[CarryStep]
    metrics: bool
    threads: int


def run_unit(work: UnitWork) -> dict[str, Any]:
    """Coarsen the graphs of a unit, compute quality figures, and write the shard file.

    Args:
        work: The unit.

    Returns:
        The fields of :class:`JobReport`.
    """
    unit, name, writer = work.unit, work.name, work.writer
    with ENGINE_LOCK, limit_threads(work.threads):
        hierarchy, failed, metrics = coarsen_unit(
            work.graphs, work.schedule, writer.spec, name, steps=work.steps, metrics=work.metrics
        )
    first = writer.spec.bounds[unit]
    failures = [FailureRecord(first + f.graph, f.level, f.reason) for f in failed]
    record = writer.write_hierarchy(unit, name, hierarchy, metrics=metrics, failures=failures)
    report = JobReport(unit, name, work.graphs.num_graphs, record.shard.size, record.shard.sha256)
    return dataclasses.asdict(report)
