"""Write chunks of entries that are made from ranges of a matrix, and matrices that are made from such chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tgp.engine import threads
from tgp.engine.external.buckets import Limits, cut_rows, fill_ranges, sort_by_bucket, write_chunk
from tgp.engine.external.merging import merge_buckets
from tgp.engine.external.method import LevelWork
from tgp.engine.external.ranges import Job, RangeFunction, over_rows, row_jobs
from tgp.engine.external.row_files import MappedRows, RowFiles
from tgp.kernels.array_types import Array, WordArray
from tgp.ragged.block import FloatArray, PtrArray

__all__ = [
    "RANGE_FUNCTIONS",
    "add_reverse_edges",
    "divide_rows",
    "is_undirected",
    "make_undirected",
    "take_larger_weights",
    "write_entries",
]

MIN_PART = 1 << 16
"""Least number of entries for which a thread is started."""

MakeEntries = Callable[[MappedRows, int, int, int], tuple[WordArray, FloatArray]]
"""Function ``(rows, first, low, high) -> keys, weights`` of the entries ``low..high``. ``first`` is the row of the first of them."""


def write_entries(job: Job, make: MakeEntries) -> dict[str, Any]:
    """Write the chunk of a job. Several threads make and sort the entries of each piece.

    Args:
        job: Job of :func:`~tgp.engine.external.buckets.fill_ranges`.
        make: Function that makes the entries.
    """
    bounds, weighted = np.array(job["bounds"], np.int64), job["weighted"]
    with RowFiles.from_plain(job["rows"]).open() as rows:

        def sorted_parts() -> Iterator[tuple[PtrArray, WordArray, FloatArray]]:
            for _, low, high in rows.entry_ranges(job["piece"], job["low"], job["high"]):
                found: dict[int, tuple[PtrArray, WordArray, FloatArray]] = {}

                def sort(start: int, stop: int, found: Any = found) -> None:
                    first = int(np.searchsorted(rows.indptr, start, side="right")) - 1
                    found[start] = sort_by_bucket(*make(rows, first, start, stop), weighted, bounds)

                count = max(min(threads.num_threads(), (high - low) // MIN_PART), 1)
                threads.run_ranges(sort, np.unique(np.linspace(low, high, count + 1).astype(np.int64)), count)
                yield from (found[start] for start in sorted(found))

        write_chunk(Path(job["folder"]), job["chunk"], weighted, sorted_parts())
    return {}


def divide_rows(rows: MappedRows, lengths: PtrArray, limits: Limits, copies: int = 1) -> dict[int, list[int]]:
    """Return the bounds of the columns of rows that do not fit in a bucket.

    Args:
        rows: Rows without parallel entries, sorted by column.
        lengths: ``[N]`` largest number of new entries of each row.
        limits: Sizes of the run.
        copies: Number of new entries for each entry of a row.
    """
    parts, step = {}, max(limits.bucket // copies, 1)
    for row in np.flatnonzero(lengths > limits.bucket).tolist():
        low, high = rows.indptr[row : row + 2].tolist()
        parts[row] = [0, *rows.indices[low + step : high : step].tolist(), rows.num_nodes]
    return parts


# Symmetry -----------------------------------------------------------------------------------------


def is_undirected(work: LevelWork, *, weighted: bool = True) -> bool:
    """Return True if every edge is stored once in each direction.

    Args:
        work: The level.
        weighted: The two directions must also have the same weight, and no weight may be negative.
    """
    if not work.rows.weighted:
        return True  # the input has both directions of all edges, and a contraction keeps them
    chosen = work.ranges.choose(work.rows.num_entries, 0)
    with work.rows.open() as rows:
        jobs = row_jobs(rows, chosen.num_ranges, work.limits.piece)
    results = chosen.run(add_fingerprints, [{**job, "weighted": weighted} for job in jobs])
    return sum(int(result["sum"]) for result in results) % 2**64 == 0


def make_undirected(work: LevelWork) -> RowFiles:
    """Return rows with the same weight in both directions, as :func:`tgp.engine.undirected.make_undirected` does.

    The sums of the two directions of a coarse edge are computed in different orders, so their last bits can differ.

    Args:
        work: The level.
    """
    from tgp.kernels._prims import SUM

    return _rebuild(work, "mirror", mirror_entries, {"factor": 0.5}, SUM, is_undirected, positive=True)


def take_larger_weights(work: LevelWork) -> RowFiles:
    """Return rows in which both directions of an edge have the larger of their weights.

    Args:
        work: The level.
    """
    from tgp.kernels._prims import MAX

    return _rebuild(work, "larger", mirror_entries, {"factor": 1.0}, MAX, is_undirected)


def add_reverse_edges(work: LevelWork) -> RowFiles:
    """Return rows with the reverse of every edge that has none, as :func:`tgp.engine.methods.kmis.with_reverse_edges` does.

    If the weights of the two directions of a coarse edge are computed in different orders, one of them can count as zero.

    Args:
        work: The level.
    """
    from tgp.kernels._prims import SUM

    def has_all(work: LevelWork) -> bool:
        return is_undirected(work, weighted=False)

    return _rebuild(work, "reverse", add_missing_entries, {}, SUM, has_all)


def _rebuild(
    work: LevelWork,
    step: str,
    function: RangeFunction,
    options: Mapping[str, Any],
    op: int,
    is_done: Callable[[LevelWork], bool],
    *,
    positive: bool = False,
) -> RowFiles:
    """Return the merged entries of a range function; the rows themselves if nothing is to be done, or if they have no weights."""
    fine, name = work.rows, f"{work.name}:{step}"
    if not fine.weighted or (work.journal.find(name) is None and is_done(work)):
        return fine
    with fine.open() as rows:
        # Rows are cut by twice their length: the pattern of the matrix is symmetric, or nearly so.
        lengths = 2 * rows.row_lengths()
        parts = divide_rows(rows, lengths, work.limits, 2)
        bounds = cut_rows(lengths, work.limits, "the graph", parts)
    buckets = fill_ranges(
        work.journal, name, f"{work.name}.{step}", bounds, fine, function, {"weighted": True, **options}, work.limits,
        work.ranges,
    )  # fmt: skip
    return merge_buckets(
        work.journal,
        f"{name}:merge",
        f"{work.name}.{step}-rows",
        buckets,
        op,
        -1.0,
        positive=positive,
        ranges=work.ranges.choose(2 * fine.num_entries, 0),
    )


# Functions of ranges ------------------------------------------------------------------------------


def add_fingerprints(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return a sum of hashes of the entries. The sum over all rows is 0 if the graph is undirected."""
    from tgp.kernels import local_matching as kernels

    sums: list[int] = []

    def kernel(rows: MappedRows) -> Callable[[int, int], object]:
        indptr, indices, weight, _ = rows.arrays()
        fixed = indptr, indices, weight.view(np.uint64), job["weighted"]
        return lambda low, high: sums.append(int(kernels.fingerprint(*fixed, low, high)))

    over_rows(job, kernel)
    return {"sum": sum(sums)}


def mirror_entries(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Write a chunk with the entries of a range in both directions, each with ``factor`` times its weight."""
    from tgp.kernels import external_rows as kernels

    def mirror(rows: MappedRows, first: int, low: int, high: int) -> tuple[WordArray, FloatArray]:
        keys, values = np.empty(2 * (high - low), np.uint64), np.empty(2 * (high - low))
        fixed = rows.indptr, rows.indices, rows.weight, job["factor"]
        kernels.mirror_rows(*fixed, first, low, high, keys, values)
        return keys, values

    return write_entries(job, mirror)


def add_missing_entries(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Write a chunk with the entries of a range, and the reverse of those that have none."""
    from tgp.kernels import external_rows as kernels

    def add(rows: MappedRows, first: int, low: int, high: int) -> tuple[WordArray, FloatArray]:
        keys, values = np.empty(2 * (high - low), np.uint64), np.empty(2 * (high - low))
        fixed = rows.indptr, rows.indices, rows.weight
        count = kernels.missing_rows(*fixed, first, low, high, keys, values)
        return keys[:count], values[:count]

    return write_entries(job, add)


RANGE_FUNCTIONS = (add_fingerprints, add_missing_entries, mirror_entries)
"""Range functions of this module."""
