"""Check and estimate a run on one graph that is larger than memory: settings, memory, disk and time."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

from tgp.build.config import CoarsenConfig
from tgp.build.external_input import check_number
from tgp.build.mismatch import explain_settings
from tgp.build.scratch import scratch_folder
from tgp.build.summary import RunPlan
from tgp.engine.external.buckets import MAX_BUCKETS, Limits
from tgp.engine.external.levels import check_external
from tgp.engine.schedule import Schedule
from tgp.engine.unit_plan import DEFAULT_SHARD_SIZE
from tgp.errors import DatasetError, InputError, StoreError, StoreFullError, StoreMismatchError
from tgp.input_limits import physical_memory
from tgp.sources.edge_files import EDGE_FILE_SUFFIXES, open_edges
from tgp.sources.edge_reader import EdgeReader
from tgp.store import HierarchySpec, StoreSpec, read_spec, spec_differences

__all__ = [
    "BASE_BYTES",
    "check_config",
    "check_disk",
    "check_fits",
    "check_store",
    "choose_limits",
    "estimate_run",
    "make_spec",
    "plan_external",
]

BASE_BYTES = 300 * 10**6
"""Memory of the process, its libraries and the compiled kernels."""

BYTES_PER_NODE = 36
"""Memory of the arrays of the nodes: 24 bytes for a matching, and 12 more for lists of nodes."""

LEAST_REST = 32 * 10**6
"""Smallest memory for edges."""

BYTES_PER_PIECE_ENTRY, BYTES_PER_BUCKET_ENTRY = 400, 64
"""Memory that is set aside for each entry that is read at once, and for each entry of a bucket."""

BYTES_IN_MEMORY = 96
"""Least memory of an edge of a file in a run in memory."""

_EDGE_FILES = tuple(suffix + end for suffix in EDGE_FILE_SUFFIXES for end in ("", ".gz", ".xz"))
_LARGEST_RATIO = 200
"""Largest expected number of bytes in memory for each byte of a file of edges. Smaller files are not checked."""

LEVEL_RATIO, LEAST_RATIO = 0.95, 0.4
"""Number of edges of a level, divided by that of the level before: that of graphs with hubs, and the least one."""

SECONDS_PER_EDGE = 0.2e-6
"""Processor time for each stored edge of the input and of a level, on one core."""

_TEXT_SIZES = "nodes and edges are estimated from the first lines"
_ARRAY_SIZES = "edges before duplicates are merged"

_UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "only_levels": (None, "leave it out: all levels are stored, and each can be read alone"),
    "shard": (None, "leave it out: one graph is one job"),
    "limit": (None, "leave it out: the file holds one graph"),
    "undirected": (False, "leave it out: reverse edges are always added"),
    "largest_component": (False, "leave it out, or remove the other components from the file"),
    "add_degree": (False, "leave it out: nodes have no attributes"),
    "exclude": ((), "leave it out: only edges and their weights are read"),
    "retry_failed": (False, "leave it out: the same command continues"),
    "carry": (None, "leave it out, and pool attributes with tgp.reduce when the store is read"),
    "until": (None, "leave it out, and give the number of levels: hem*5"),
    "max_input": (None, "leave it out: the file is read piece by piece"),
    "relations": ((), "leave it out: there is one type of nodes"),
    "type_graph": (None, "leave it out: there is one type of nodes"),
}
"""Settings that a run with bounded memory does not support: the value that they must have, and what to do."""


def choose_limits(memory: int, num_nodes: int) -> Limits:
    """Return the sizes of a run that needs at most this memory.

    Args:
        memory: Number of bytes.
        num_nodes: Number of nodes of the graph.

    Raises:
        InputError: If the memory is too small for the arrays of the nodes.
    """
    least = BASE_BYTES + BYTES_PER_NODE * num_nodes + LEAST_REST
    if memory < least:
        raise InputError(
            f"the memory is too small{f' for {num_nodes:,} nodes' if num_nodes else ''}: expected at least {-(-least // 10**6)}MB, got "
            f"{memory // 10**6}MB",
            field="memory",
            hint=_hint_of_memory(least, num_nodes),
        )
    rest = memory - least + LEAST_REST
    piece = min(max(rest // BYTES_PER_PIECE_ENTRY, 1 << 10), 1 << 22)
    return Limits(piece, rest // BYTES_PER_BUCKET_ENTRY)


def _hint_of_memory(least: int, num_nodes: int) -> str:
    """Return what to do if the memory of a run is too small."""
    if least > physical_memory():
        return "use a machine with more memory: this one has less than that"
    if num_nodes:
        return f"allow --memory {-(-least // 10**6)}MB"
    return f"allow more, such as --memory {least * 5 // 4 // 10**6}MB"


def plan_external(config: CoarsenConfig) -> RunPlan:
    """Return what :func:`tgp.build.external.coarsen_external` would do, without writing anything.

    Args:
        config: Settings of the run.

    Raises:
        InputError: If a setting is not supported, or memory or disk are too small.
        DatasetError: If the file cannot be read.
        StoreMismatchError: If the store has other settings.
    """
    schedule, reader, memory = check_config(config)
    check_store(config, schedule, reader)
    plan = estimate_run(config, schedule, reader, reader.count_nodes())
    check_number(plan.num_nodes, reader)
    choose_limits(memory, plan.num_nodes)
    if not scratch_folder(config.path).exists():
        check_disk(config, schedule, reader)
    return plan


def check_config(config: CoarsenConfig) -> tuple[Schedule, EdgeReader, int]:
    """Check the settings of a run and open its file.

    Args:
        config: Settings of the run.

    Returns:
        Schedule, reader of the file, and memory in bytes.

    Raises:
        InputError: If a setting is not supported, or the memory is too small.
        DatasetError: If the file cannot be read or has too many nodes.
    """
    _check_settings(config)
    if not isinstance(config.dataset, str):
        raise InputError(
            f"memory needs a file of edges: expected its path, got {type(config.dataset).__name__}",
            field="dataset",
            hint="leave memory out: the graphs are in memory already",
        )
    (schedule,) = config.schedules
    check_external(schedule)
    assert config.memory is not None
    _check_memory(config.memory)
    choose_limits(config.memory, 0)
    reader = open_edges(Path(config.dataset))
    check_number(reader.num_nodes or 0, reader)
    choose_limits(config.memory, reader.num_nodes or 0)
    _check_buckets(config.memory, reader)
    return schedule, reader, config.memory


def check_store(config: CoarsenConfig, schedule: Schedule, reader: EdgeReader) -> None:
    """Check that an existing store has the settings of a run, before the file is read. The graphs are compared after that.

    Args:
        config: Settings of the run.
        schedule: Schedule of the levels.
        reader: Reader of the file.

    Raises:
        StoreMismatchError: If the store has other settings.
        StoreError: If the path is a file, or a directory that cannot be written.
    """
    path = config.path
    if path.exists() and not (path.is_dir() and os.access(path, os.W_OK | os.X_OK)):
        reason = os.strerror(errno.EACCES) if path.is_dir() else "expected a directory, got a file"
        raise StoreError(f"cannot write {path}: {reason}", path=path, hint="Choose another directory.")
    stored = None if config.force else read_spec(config.path)
    if stored is None:
        return
    differences = spec_differences(stored, make_spec(config, schedule, reader, stored.data_digest))
    if differences:
        message = f"{config.path} holds a store of other data or settings"
        raise explain_settings(StoreMismatchError(message, differences=differences, path=str(config.path)))


def make_spec(config: CoarsenConfig, schedule: Schedule, reader: EdgeReader, digest: str) -> StoreSpec:
    """Return the specification of the store of a run.

    Args:
        config: Settings of the run.
        schedule: Schedule of the levels.
        reader: Reader of the file.
        digest: Digest of the input graph.
    """
    description = {
        "source": "local",
        "name": reader.path.resolve().name,
        "shard_size": config.shard_size or DEFAULT_SHARD_SIZE,
    }
    (name,) = config.hierarchy_names
    hierarchy = HierarchySpec(name, schedule.to_json(), config.seed, engine=schedule.revision, metrics=False)
    stored = None if config.force else read_spec(config.path)
    shard_edges = config.shard_edges or (None if stored is None else stored.shard_edges)
    return StoreSpec(description, digest, 1, (0, 1), "fast", (hierarchy,), shard_edges=shard_edges)


def _check_memory(memory: int) -> None:
    """Check that the machine has the memory that a run may use. With more, the system would end the run when its memory is full."""
    total = physical_memory()
    if memory > total:
        raise InputError(
            f"this machine or control group (cgroup) has less memory: expected at most {total // 10**6}MB, got {memory // 10**6}MB",
            field="memory",
            hint="allow less, or --memory auto for four fifths of the memory",
        )


def _check_buckets(memory: int, reader: EdgeReader) -> None:
    """Check that the edges fit in the largest number of buckets, if each is listed in both directions."""
    edges, _ = reader.estimate_edges()
    nodes = reader.num_nodes or 0
    least = BASE_BYTES + BYTES_PER_NODE * nodes + edges * BYTES_PER_BUCKET_ENTRY // MAX_BUCKETS
    if memory < least:
        raise InputError(
            f"the memory is too small for about {edges:,} edges: expected at least {-(-least // 10**6)}MB, got {memory // 10**6}MB",
            field="memory",
            hint=f"allow --memory {-(-2 * least // 10**6)}MB",
        )


def _check_settings(config: CoarsenConfig) -> None:
    """Check that no setting is given that a run with bounded memory does not support."""
    for name, (default, hint) in _UNSUPPORTED.items():
        if getattr(config, name) != default:
            raise InputError(
                f"{name} cannot be combined with memory: expected none, got {getattr(config, name)!r}",
                field=name,
                hint=hint,
            )
    if (config.workers or 1) > 1:
        raise InputError(
            f"workers cannot be combined with memory: expected one process, got {config.workers}",
            field="workers",
            hint="leave it out: the process uses all cores, or those of --threads",
        )
    if config.profile == "small":
        raise InputError(
            "profile=small cannot be combined with memory: expected fast, got small",
            field="profile",
            hint="leave it out: arrays that are larger than memory are mapped, not decompressed",
        )
    if len(config.poolers) > 1:
        raise InputError(
            f"several schedules cannot be combined with memory: expected one, got {', '.join(config.poolers)}",
            field="poolers",
            hint="run the command once for each schedule, with another --out",
        )


def estimate_run(
    config: CoarsenConfig, schedule: Schedule, reader: EdgeReader, num_nodes: int | None = None
) -> RunPlan:
    """Return the plan of a run, from the header of the file or its first lines.

    Args:
        config: Settings of the run.
        schedule: Schedule of the levels.
        reader: Reader of the file.
        num_nodes: Number of nodes, if it is known.
    """
    edges, nodes = reader.estimate_edges()
    nodes = nodes if num_nodes is None else num_nodes
    entries, depth = 2 * edges, len(schedule)
    scratch, stored = _estimate_disk(reader, schedule, nodes, entries, LEVEL_RATIO)
    coarse = sum(LEVEL_RATIO ** (level + 1) for level in range(depth))
    (name,) = config.hierarchy_names
    return RunPlan(
        path=str(config.path),
        dataset={"source": "local", "name": reader.path.resolve().name},
        num_graphs=1,
        num_nodes=nodes,
        num_edges=entries,
        hierarchies=[{"name": name, "levels": depth, "seed": config.seed}],
        num_units=1,
        pending=2,
        workers=1,
        estimated_seconds=SECONDS_PER_EDGE * entries * (2 + coarse),
        estimated_bytes=stored,
        peak_memory=config.memory or 0,
        profile="fast",
        up_to_date=False,
        scratch_bytes=scratch,
        sizes=_TEXT_SIZES if reader.has_holes else _ARRAY_SIZES,
    )


def check_fits(config: CoarsenConfig) -> None:
    """Check that a file of edges fits in memory, before a run without ``memory`` reads it.

    The number of edges comes from the header or the first lines. Nothing is checked if ``max_input`` is given.

    Args:
        config: Settings of a run in memory.

    Raises:
        DatasetError: If the file does not fit.
    """
    if not isinstance(config.dataset, str) or config.max_input is not None:
        return
    path, total = Path(config.dataset), physical_memory()
    if not path.is_file() or not path.name.lower().endswith(_EDGE_FILES):
        return
    if path.stat().st_size * _LARGEST_RATIO < total:
        return
    try:
        edges, _ = open_edges(path).estimate_edges()
    except DatasetError:
        return  # the run in memory reports it, or can read the file
    if edges * BYTES_IN_MEMORY > total:
        raise DatasetError(
            f"{path} does not fit in memory: expected at most {total // BYTES_IN_MEMORY:,} edges, got about {edges:,}, which need "
            f"{edges * BYTES_IN_MEMORY / 1e9:.0f} GB",
            hint="coarsen it from disk in bounded memory: --memory auto with a schedule such as --pooler 'hem*5'; or use a machine with more "
            "memory",
        )


def _estimate_disk(
    reader: EdgeReader, schedule: Schedule, num_nodes: int, num_entries: int, ratio: float
) -> tuple[int, int]:
    """Return the largest size of the temporary files and the size of the store, in bytes.

    The buckets of a level are on the disk together with the rows of all levels before it.

    Args:
        reader: Reader of the file.
        schedule: Schedule of the levels.
        num_nodes: Number of nodes.
        num_entries: Number of stored edges of the input graph.
        ratio: Number of edges of a level, divided by that of the level before.
    """
    weighted, depth = reader.weight_dtype is not None, len(schedule)
    node_bytes = sum(method.node_bytes for method in check_external(schedule))
    row_bytes, key_bytes = (12, 16) if weighted else (4, 8)
    entries = [num_entries * ratio**level for level in range(depth + 1)]
    copy = (12 if weighted else 8) * num_entries if reader.needs_copy else 0
    peaks = [
        row_bytes * sum(entries[:level]) + key_bytes * entries[level - 1] for level in range(1, depth + 1)
    ]
    peak = max(copy + key_bytes * num_entries, *peaks) + 12 * num_nodes * (depth + 1)
    stored = (12 if weighted else 8) * sum(entries) + (8 + node_bytes) * num_nodes
    return int(peak) + node_bytes * num_nodes, int(stored)


def check_disk(config: CoarsenConfig, schedule: Schedule, reader: EdgeReader) -> None:
    """Check that the least possible size of temporary files and store fits on the disk.

    Args:
        config: Settings of the run.
        schedule: Schedule of the levels.
        reader: Reader of the file.

    Raises:
        StoreFullError: If there is not enough space.
    """
    folder = config.path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    edges, _ = reader.estimate_edges()
    scratch, stored = _estimate_disk(reader, schedule, 0, edges, LEAST_RATIO)  # both directions are listed
    needed, free = scratch + stored, shutil.disk_usage(folder).free
    if needed > free:
        raise StoreFullError(
            f"the disk of {folder} is too small: expected at least {_size(needed)} for the store and temporary files, got "
            f"{_size(free)}",
            path=folder,
            hint="free some space, or write to another disk with --out",
        )


def _size(num_bytes: int) -> str:
    """Return a size with a unit."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 10**9 else f"{num_bytes / 1e6:.1f} MB"
