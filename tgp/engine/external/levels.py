"""Levels of one graph whose edges are files: assignments of the methods that can do this, and contraction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tgp
from tgp.engine.contraction import REDUCE_CODES
from tgp.engine.external import entries, independent_set, merging, row_matching
from tgp.engine.external.buckets import Limits, cut_items, cut_rows, fill_ranges
from tgp.engine.external.entries import add_reverse_edges, write_entries
from tgp.engine.external.journal import Journal
from tgp.engine.external.merging import merge_buckets
from tgp.engine.external.method import ExternalMethod, LevelWork
from tgp.engine.external.ranges import LOCAL, Job, RangeMap, row_jobs
from tgp.engine.external.row_files import MappedRows, RowFiles, map_file, read_array, write_array
from tgp.engine.level_method import RandomKey
from tgp.engine.level_spec import LevelSpec
from tgp.engine.methods import external_methods
from tgp.engine.schedule import Schedule
from tgp.errors import GraphError, InputError, ParameterError
from tgp.kernels.array_types import Array, WordArray
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["RANGE_FUNCTIONS", "ExternalLevel", "check_external", "coarsen_level"]


@dataclass(frozen=True)
class ExternalLevel:
    """One level in files.

    Args:
        rows: The coarse graph.
        cluster: File with the supernode of each node of the finer graph, int32.
        num_fine_nodes: Number of nodes of the finer graph.
        weight: File with the values of the assignment matrix, float32; ``None`` if all are 1.
        representative: File with the node that stands for each supernode, int32; ``None`` if there is none.
    """

    rows: RowFiles
    cluster: Path
    num_fine_nodes: int
    weight: Path | None = None
    representative: Path | None = None


def check_external(schedule: Schedule) -> list[ExternalMethod]:
    """Return the implementation of each level of a schedule.

    Args:
        schedule: Schedule.

    Raises:
        InputError: If a method needs the graph in memory, the number of levels is open, or not all levels are stored.
        ParameterError: If a parameter is not supported for graphs larger than memory.
    """
    if schedule.open_ended or schedule.steps is not None:
        raise InputError(
            f"the levels of a graph larger than memory are computed one by one: expected a number such as hem*5, got {schedule}",
            field="poolers",
            hint="give the number of levels: each has 0.5 to 0.8 times the nodes of the level before",
        )
    return [_check_level(spec) for spec in schedule]


def _check_level(spec: LevelSpec) -> ExternalMethod:
    found = spec.level_method.external_method()
    if found is None:
        names = ", ".join(external_methods())
        raise InputError(
            f"{spec.method} needs the graph in memory: expected one of {names} with --memory, got {spec}",
            field="poolers",
            hint=f"use {names}, or leave --memory out; 'tgp poolers {spec.method}' describes the method",
        )
    found.check(spec.method, spec.params)
    if spec.until is not None:
        raise ParameterError(
            f"{spec.method} cannot have until for a graph larger than memory: expected a number of levels, got until={spec.until}",
            field="until",
            hint=f"repeat the level: {spec.method}*5",
        )
    return found


def coarsen_level(
    journal: Journal,
    fine: RowFiles,
    level: int,
    spec: LevelSpec,
    seed: int,
    weight_dtype: npt.DTypeLike,
    limits: Limits,
    ranges: RangeMap = LOCAL,
) -> ExternalLevel:
    """Compute one level, or continue to do so. The result has the values that :func:`tgp.engine.coarsen` computes.

    Args:
        journal: Journal of the run. All files are in its folder.
        fine: The finer graph: rows of one undirected graph.
        level: Number of the level, from 0.
        spec: Method and parameters that :func:`check_external` accepts.
        seed: Seed of the random choices.
        weight_dtype: Type to which coarse weights are rounded.
        limits: Sizes of the run.
        ranges: Strategy that calls the functions of ranges. The result does not depend on it.

    Raises:
        GraphError: If a coarse weight is not a finite number of that type.
        InputError: If a node or supernode has more edges than fit in memory.
    """
    method = _check_level(spec)
    work = LevelWork(journal, fine, f"level{level + 1}", spec.params, RandomKey(seed, level), limits, ranges)
    if method.adds_reverse_edges:
        work = replace(work, rows=add_reverse_edges(work))
    path = journal.folder / f"{work.name}.cluster"
    files = {name: path.with_suffix(f".{name}") for name in ("values", "representative")}
    num_supernodes = journal.find(f"{work.name}:assign")
    if num_supernodes is None:
        journal.report("assigning nodes")
        found = method.assign(work)
        for file, values in (
            (path, found.cluster), (files["values"], found.weight), (files["representative"], found.representative),
        ):  # fmt: skip
            if values is not None:
                write_array(file, values)
        cluster, num_supernodes = found.cluster, found.num_supernodes
        journal.record(f"{work.name}:assign", num_supernodes)
    else:
        cluster = read_array(path, np.int32)
    _remove_steps(work)
    bounds = _cut_supernodes(work, cluster, num_supernodes)
    del cluster
    dtype = np.dtype(weight_dtype).name
    rows = _contract(work, spec, path, bounds, dtype)
    others = (file if file.exists() else None for file in files.values())
    return ExternalLevel(rows, path, fine.num_nodes, *others)


def _remove_steps(work: LevelWork) -> None:
    """Delete the files of the steps of an assignment that is finished."""
    for step in ("larger", "mirror", "order"):
        for path in work.journal.folder.glob(f"{work.name}.{step}*"):
            path.unlink(missing_ok=True)


def _cut_supernodes(work: LevelWork, cluster: IndexArray, num_supernodes: int) -> PtrArray:
    """Return the bounds of the buckets of a contraction. A supernode with more entries than a bucket is divided by its columns."""
    from tgp.kernels import external_rows as kernels

    sizes, parts = np.zeros(num_supernodes, np.int64), dict[int, list[int]]()
    with work.rows.open() as rows:
        for some in rows.row_ranges(work.limits.piece):
            kernels.add_row_sizes(rows.indptr, cluster, *some, sizes)
        for row in np.flatnonzero(sizes > work.limits.bucket).tolist():
            counts = np.zeros(num_supernodes, np.int64)
            fixed = rows.indptr, rows.indices, cluster, row, work.params.remove_self_loops
            for some in rows.row_ranges(work.limits.piece):
                kernels.count_columns(*fixed, *some, counts)
            parts[row] = _cut_columns(counts, work.limits, row)
    return cut_rows(sizes, work.limits, "a level", parts)


def _cut_columns(counts: PtrArray, limits: Limits, row: int) -> list[int]:
    """Return the bounds of the columns of a supernode, so that each part fits in a bucket."""
    if int(counts.max()) > limits.bucket:
        raise InputError(
            f"a level does not fit in memory: expected at most {limits.bucket:,} edges between two supernodes, got "
            f"{counts.max():,} between {row} and {counts.argmax()}",
            field="memory",
            hint="allow more memory",
        )
    return cut_items(counts, limits.bucket)


def _contract(
    work: LevelWork, spec: LevelSpec, cluster: Path, bounds: PtrArray, weight_dtype: str
) -> RowFiles:
    """Write the coarse graph."""
    fine, params, limits, ranges = work.rows, work.params, work.limits, work.ranges
    tiny = _tiny_weight(fine, limits.piece, ranges)
    options = {
        "cluster": str(cluster),
        "drop_loops": params.remove_self_loops,
        "weighted": fine.weighted or params.count_edges,
    }
    step, chunks = f"{work.name}:fill", f"{work.name}.bucket"
    buckets = fill_ranges(work.journal, step, chunks, bounds, fine, contract_entries, options, limits, ranges)
    return merge_buckets(
        work.journal,
        f"{work.name}:merge",
        work.name,
        buckets,
        REDUCE_CODES[params.connect_red_op],
        tiny,
        dtype=weight_dtype,
        refuse=lambda weight: _refuse_weight(spec.method, weight, weight_dtype),
        ranges=ranges.choose(fine.num_entries, 0),
    )


def _tiny_weight(fine: RowFiles, piece: int, ranges: RangeMap) -> float:
    """Return the largest weight that counts as zero, as :func:`tgp.engine.contraction.contract` does."""
    if not fine.weighted or not fine.num_entries:
        return tgp.eps
    chosen = ranges.choose(fine.num_entries, 0)
    with fine.open() as rows:
        jobs = row_jobs(rows, chosen.num_ranges, piece)
    highest = max(result["highest"] for result in chosen.run(find_highest_weight, jobs))
    return tgp.eps * highest if 0.0 < highest < 1.0 else tgp.eps


def _refuse_weight(method: str, weight: float, dtype: str) -> GraphError:
    return GraphError(
        f"{method}: a coarse weight is out of range: expected a finite {dtype} number, got {weight}",
        hint="scale the edge weights down",
    )


# Functions of ranges ------------------------------------------------------------------------------


def contract_entries(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Write a chunk with the entries of a range whose ends are replaced by supernodes."""
    from tgp.kernels import external_rows as kernels

    cluster = map_file(Path(job["cluster"]), np.int32, job["rows"]["num_nodes"])

    def contract(rows: MappedRows, first: int, low: int, high: int) -> tuple[WordArray, FloatArray]:
        keys, values = np.empty(high - low, np.uint64), np.ones(high - low if job["weighted"] else 0)
        count = kernels.contract_rows(
            *rows.arrays(), cluster, job["drop_loops"], first, low, high, keys, values
        )
        return keys[:count], values[:count]

    return write_entries(job, contract)


def find_highest_weight(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the largest absolute weight of the rows of a job."""
    highest = 0.0
    with RowFiles.from_plain(job["rows"]).open() as rows:
        low, stop = int(rows.indptr[job["first"]]), int(rows.indptr[job["last"]])
        for _, first, last in rows.entry_ranges(job["piece"], low, stop):
            some = rows.weight[first:last]
            highest = max(highest, float(some.max()), -float(some.min()))
    return {"highest": highest}


RANGE_FUNCTIONS = (
    *entries.RANGE_FUNCTIONS,
    *independent_set.RANGE_FUNCTIONS,
    *row_matching.RANGE_FUNCTIONS,
    *merging.RANGE_FUNCTIONS,
    contract_entries,
    find_highest_weight,
)
"""All functions that a worker of a cluster can be asked to call."""
