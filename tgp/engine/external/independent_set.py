"""Levels of `kmis` of a graph whose edges are files.

The scan by rank reads the rows in the order of their ranks, which is not that of the file. The entries are therefore sorted into buckets by the
rank of their row, once, and the buckets are read one after the other. An entry is only needed if it leads to a node of larger rank,
because a node whose better neighbour was selected is covered. Chains of ranks, such as those of a path, cost nothing, unlike in rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tgp.engine.external.buckets import Buckets, cut_rows, fill_ranges
from tgp.engine.external.entries import divide_rows, take_larger_weights, write_entries
from tgp.engine.external.method import Assigned, ExternalMethod, LevelWork, Restriction
from tgp.engine.external.ranges import Job, over_rows, row_jobs
from tgp.engine.external.row_files import MappedRows, map_file, write_array
from tgp.kernels.array_types import Array, WordArray
from tgp.ragged.block import FloatArray, IndexArray

__all__ = ["METHOD", "RANGE_FUNCTIONS"]


def assign(work: LevelWork) -> Assigned:
    """Assign each node to the best ranked member of an independent set among its neighbours.

    The result is that of :func:`tgp.engine.methods.kmis.assign`.

    Args:
        work: The level. Every edge has a reverse edge.
    """
    from tgp.kernels import mis

    files = take_larger_weights(work) if work.params.force_undirected else work.rows
    with files.open() as rows:
        score = _compute_scores(work, rows)
        order = _sort_by_key(_rank_keys(work, rows, score))
        weight = score.astype(np.float32)
        del score
        buckets = _sort_by_rank(work, rows, order)
    owner = _cover(work, order, buckets)
    del order
    size = len(owner)
    cluster, super_ptr = np.empty(size, np.int32), np.empty(2, np.int64)
    mis.number_clusters(owner, np.array([0, size], np.int64), cluster, super_ptr)
    members = np.flatnonzero(owner == np.arange(size, dtype=np.int32)).astype(np.int32)
    return Assigned(cluster, int(super_ptr[1]), weight, members)


def _compute_scores(work: LevelWork, rows: MappedRows) -> FloatArray:
    """Return the scores of the nodes."""
    from tgp.kernels import mis

    scorer = work.params.scorer
    if scorer == "degree" and not rows.weighted:
        return rows.row_lengths().astype(np.float64)
    if scorer == "degree":
        score = np.zeros(rows.num_nodes)
        for _, low, high in rows.entry_ranges(work.limits.piece):
            # One thread adds the weights in their order: another order of sums has other last bits.
            np.add.at(score, rows.indices[low:high], rows.weight[low:high])
            work.journal.report("scoring", high, rows.num_entries)
        return score
    score = np.ones(rows.num_nodes)
    if scorer == "random":
        mis.random_scores(np.array([0, rows.num_nodes], np.int64), work.key.seed, work.key.level, score)
    elif scorer == "canonical":
        score[:] = -np.arange(rows.num_nodes)
    return score


def _rank_keys(work: LevelWork, rows: MappedRows, score: FloatArray) -> WordArray:
    """Return a key of each node. Ascending keys rank the nodes."""
    from tgp.kernels import rank_ranges as kernels

    heuristic = work.params.score_heuristic
    divisor = _add_neighbours(work, rows, score) if heuristic == "w-greedy" else score
    key = np.empty(rows.num_nodes)
    for first, last in rows.row_ranges(work.limits.piece):
        part = divisor[first:last] if heuristic != "greedy" else np.diff(rows.indptr[first : last + 1]) + 1.0
        some = key[first:last]
        fixed = score[first:last], part, heuristic is not None, 0, last - first
        kernels.rank_keys(*fixed, some, some.view(np.uint64))
    return key.view(np.uint64)


def _add_neighbours(work: LevelWork, rows: MappedRows, score: FloatArray) -> FloatArray:
    """Return the sum of the scores of each node and its neighbours."""
    chosen = work.ranges.choose(rows.num_entries, rows.num_nodes)
    jobs, out = row_jobs(rows, chosen.num_ranges, work.limits.piece), np.empty(rows.num_nodes)
    published = chosen.publish(score)
    try:
        results = chosen.run(sum_neighbours, jobs, {"values": published})
        for job, result in zip(jobs, results, strict=True):
            out[job["first"] : job["last"]] = result["sums"]
    finally:
        published.remove()
    return out


def _sort_by_key(keys: WordArray) -> IndexArray:
    """Return the nodes by ascending key; equal ones by index."""
    from tgp.kernels import rank_ranges as kernels

    nodes, others = np.arange(len(keys), dtype=np.int32), np.empty(len(keys), np.int32)
    swapped = kernels.sort_part(keys, nodes, np.empty_like(keys), others, np.empty(8 * 256, np.int64))
    return others if swapped else nodes


def _sort_by_rank(work: LevelWork, rows: MappedRows, order: IndexArray) -> Buckets:
    """Sort the entries that lead to a node of larger rank into buckets of ranks."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order), dtype=np.int32)
    path = work.journal.folder / f"{work.name}.order-rank"
    write_array(path, rank)
    lengths = rows.row_lengths()
    parts = {int(rank[row]): part for row, part in divide_rows(rows, lengths, work.limits).items()}
    del rank
    bounds = cut_rows(lengths[order], work.limits, "the graph", parts)
    step, options = f"{work.name}:order", {"weighted": False, "rank": str(path)}
    return fill_ranges(
        work.journal, step, f"{work.name}.order", bounds, rows.files, orient_entries, options, work.limits, work.ranges
    )  # fmt: skip


def _cover(work: LevelWork, order: IndexArray, buckets: Buckets) -> IndexArray:
    """Return the selected node that covers each node."""
    from tgp.kernels import external_rows as kernels

    owner = np.full(len(order), -1, np.int32)
    ends = np.cumsum(buckets.count_entries()).tolist()
    for bucket in range(len(buckets)):
        first, last, _ = buckets.row_range(bucket)
        keys, values = buckets.read(bucket)
        start, stop = np.empty(last - first, np.int64), np.zeros(last - first, np.int64)
        cols = np.empty(len(keys), np.int32)
        kernels.group_keys(keys, values, False, first, start, stop, cols, values)
        kernels.cover_rows(order, first, start, stop, cols, owner)
        work.journal.report("selecting", ends[bucket], ends[-1])
    return owner


# Functions of ranges ------------------------------------------------------------------------------


def sum_neighbours(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the sum of the values of each node of a job and its neighbours."""
    from tgp.kernels import mis

    values = arrays["values"]
    sums, balanced = np.empty(len(values)), np.full(1, mis.BALANCED, np.int8)  # other pages take no memory

    def kernel(rows: MappedRows) -> Callable[[int, int], object]:
        def add(low: int, high: int) -> None:
            nodes = np.array([low, high], np.int64)
            mis.add_incoming(rows.indptr, rows.indices, nodes, balanced, False, 0, 1, values, sums)

        return add

    over_rows(job, kernel)
    return {"sums": sums[job["first"] : job["last"]]}


def orient_entries(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Write a chunk with the entries of a range that lead to a node of larger rank."""
    from tgp.kernels import external_rows as kernels

    rank = map_file(Path(job["rank"]), np.int32, job["rows"]["num_nodes"])

    def orient(rows: MappedRows, first: int, low: int, high: int) -> tuple[WordArray, FloatArray]:
        keys = np.empty(high - low, np.uint64)
        count = kernels.orient_rows(rows.indptr, rows.indices, rank, first, low, high, keys)
        return keys[:count], np.empty(0)

    return write_entries(job, orient)


RANGE_FUNCTIONS = (orient_entries, sum_neighbours)
"""Range functions of this module."""

METHOD = ExternalMethod(
    assign,
    {
        "order_k": Restriction(
            (1,), "repeat the level: kmis*2; more hops read rows in the order of a search"
        ),
        "max_size": Restriction((None,), "leave it out, or coarsen with hem until the graph fits in memory"),
    },
    adds_reverse_edges=True,
    node_bytes=12,
)
