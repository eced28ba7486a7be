"""Sort and merge the entries of buckets, and append the rows to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tgp.engine import threads
from tgp.engine.external.buckets import Buckets
from tgp.engine.external.journal import Journal
from tgp.engine.external.ranges import LOCAL, Job, RangeMap
from tgp.engine.external.row_files import RowFiles, RowWriter
from tgp.kernels.array_types import Array
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["RANGE_FUNCTIONS", "merge_bucket", "merge_buckets"]

MAX_THREADS = 4
"""Largest number of threads that merge the rows of a bucket. Each has an array with 8 bytes per node, and a run sets 36 bytes aside."""


def merge_buckets(
    journal: Journal,
    step: str,
    name: str,
    buckets: Buckets,
    op: int,
    tiny: float,
    *,
    dtype: str | None = None,
    positive: bool = False,
    refuse: Callable[[float], Exception] = lambda weight: ValueError(weight),
    ranges: RangeMap = LOCAL,
) -> RowFiles:
    """Sort and merge the entries of each bucket and append the rows to files, or continue to do so.

    Args:
        journal: Journal of the run. The rows are files of its folder.
        step: Name of the step in the journal.
        name: Name of the files of the rows.
        buckets: Entries. They are deleted when all are merged.
        op: Code of the operation that merges parallel entries.
        tiny: Entries with ``|w| <= tiny`` are removed; a negative value keeps all entries.
        dtype: Name of the type to which merged weights are rounded.
        positive: Replace negative weights by 0.
        refuse: Function that returns the error for a weight that is not a finite number of this type.
        ranges: Strategy that merges the buckets.

    Returns:
        The rows.
    """
    facts = journal.find(step) or {"buckets": 0, "entries": 0}
    first, entries = facts["buckets"], facts["entries"]
    if first < len(buckets):
        shared = {"op": op, "tiny": tiny, "dtype": dtype, "positive": positive, **buckets.to_plain()}
        jobs = [{**shared, "bucket": bucket} for bucket in range(first, len(buckets))]
        ends = np.cumsum(buckets.count_entries()).tolist()
        row, _, is_part = buckets.row_range(first)
        with RowWriter(journal.folder, name, buckets.weighted, row + is_part, entries) as writer:
            results = ranges.run(merge_bucket, jobs)
            for job, result in zip(jobs, results, strict=True):
                if result["infinite"] is not None:
                    raise refuse(result["infinite"])
                _, _, is_part = buckets.row_range(job["bucket"])
                writer.append(result["indptr"], result["indices"], result["weight"], is_part)
                writer.sync()
                entries = writer.num_entries
                journal.record(step, {"buckets": job["bucket"] + 1, "entries": entries})
                journal.report("merging", ends[job["bucket"]], ends[-1])
    buckets.remove()
    return RowFiles(journal.folder, name, buckets.num_rows, entries, buckets.weighted)


def merge_bucket(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the rows of a bucket, and a weight that cannot be rounded as ``infinite``, or ``None``."""
    from tgp.kernels import external_rows as kernels

    buckets = Buckets.from_plain(job)
    first, last, _ = buckets.row_range(job["bucket"])
    keys, values = buckets.read(job["bucket"])
    start, stop = np.empty(last - first, np.int64), np.zeros(last - first, np.int64)
    cols, grouped = np.empty(len(keys), np.int32), np.empty(len(values))
    kernels.group_keys(keys, values, buckets.weighted, first, start, stop, cols, grouped)
    del keys, values
    indptr, indices, weight = _merge_rows(start, stop, cols, grouped, buckets, job["op"], job["tiny"])
    infinite = None
    if job["positive"]:
        weight = np.maximum(weight, 0.0)
    if job["dtype"] is not None:
        with np.errstate(over="ignore"):
            rounded = weight.astype(job["dtype"]).astype(np.float64)
        finite = np.isfinite(rounded)
        infinite = None if finite.all() else float(weight[np.argmin(finite)])
        weight = rounded
    return {"indptr": indptr, "indices": indices, "weight": weight, "infinite": infinite}


def _merge_rows(
    start: PtrArray,
    stop: PtrArray,
    cols: IndexArray,
    values: FloatArray,
    buckets: Buckets,
    op: int,
    tiny: float,
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Merge the rows ``start..stop`` of a bucket on several threads, and move the merged rows together."""
    from tgp.kernels import contract

    weighted, num_columns = buckets.weighted, buckets.num_rows
    parts: dict[int, tuple[PtrArray, IndexArray, FloatArray]] = {}

    def merge(first: int, last: int) -> None:
        low, high = int(start[first]), int(stop[last - 1])
        arrays = start[first:last] - low, stop[first:last] - low, cols[low:high], values[low:high]
        parts[first] = contract.merge_columns(*arrays, weighted, num_columns, op, tiny)

    with threads.limit_threads(MAX_THREADS):
        threads.run_over_ranges(merge, np.append(start, len(cols)))
    indptr, total = np.zeros(len(start) + 1, np.int64), 0
    for first, (part_ptr, indices, weight) in sorted(parts.items()):
        count = len(indices)
        indptr[first + 1 : first + len(part_ptr)] = total + part_ptr[1:]
        cols[total : total + count] = indices
        values[total : total + count] = weight
        total += count
    return indptr, cols[:total], values[:total]


RANGE_FUNCTIONS = (merge_bucket,)
"""Range functions of this module."""
