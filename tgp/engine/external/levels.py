"""Levels of `hem` of one graph whose edges are files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tgp
from tgp.engine import threads
from tgp.engine.contraction import REDUCE_CODES
from tgp.engine.external import matching, merging
from tgp.engine.external.buckets import (
    Limits,
    cut_rows,
    fill_ranges,
    sort_by_bucket,
    write_chunk,
)
from tgp.engine.external.journal import Journal
from tgp.engine.external.matching import is_undirected, match_rows
from tgp.engine.external.merging import merge_buckets
from tgp.engine.external.ranges import LOCAL, Array, Job, RangeMap, row_jobs
from tgp.engine.external.row_files import MappedRows, RowFiles, map_file, read_array, write_array
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.hem import HEMParams
from tgp.engine.schedule import Schedule
from tgp.errors import GraphError, InputError, ParameterError
from tgp.kernels.array_types import WordArray
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["RANGE_FUNCTIONS", "ExternalLevel", "check_external", "coarsen_level"]


MIN_PART = 1 << 16
"""Least number of entries for which a thread is started."""


@dataclass(frozen=True)
class ExternalLevel:
    """One level in files.

    Args:
        rows: The coarse graph.
        cluster: File with the supernode of each node of the finer graph, int32.
        num_fine_nodes: Number of nodes of the finer graph.
    """

    rows: RowFiles
    cluster: Path
    num_fine_nodes: int


_HINTS = {
    "degree_norm": "leave it out, and normalize the weights when the store is read",
    "edge_weight_norm": "leave it out, and normalize the weights when the store is read",
}


def check_external(schedule: Schedule) -> list[HEMParams]:
    """Return the parameters of each level of a schedule.

    Args:
        schedule: Schedule.

    Raises:
        InputError: If a level has another method than `hem`, the number of levels is open, or not all levels are stored.
        ParameterError: If a parameter is not supported for graphs larger than memory.
    """
    if schedule.open_ended or schedule.steps is not None:
        raise InputError(
            f"the levels of a graph larger than memory are computed one by one: expected a number such as hem*5, got {schedule}",
            field="poolers",
            hint="give the number of levels: each has 0.5 to 0.8 times the nodes of the level before",
        )
    found = []
    for spec in schedule:
        params = spec.params
        if spec.method != "hem" or not isinstance(params, HEMParams):
            raise InputError(
                f"{spec.method} needs the graph in memory: expected hem, got {schedule}",
                field="poolers",
                hint="use hem, or leave --memory out",
            )
        for name in ("ratio", "nodes", "ratios", "degree_norm", "edge_weight_norm"):
            if getattr(params, name) not in (None, (), False):
                raise ParameterError(
                    f"hem cannot have {name} for a graph larger than memory: expected a level of one matching, got "
                    f"{name}={getattr(params, name)}",
                    field=name,
                    hint=_HINTS.get(name, "repeat the level: hem*5"),
                )
        if params.connect_red_op == "mean":
            raise ParameterError(
                "hem cannot have connect_red_op=mean for a graph larger than memory: expected sum, min, max or mul, got mean",
                field="connect_red_op",
                hint="use sum, which is the default",
            )
        if spec.until is not None:
            raise ParameterError(
                f"hem cannot have until for a graph larger than memory: expected a number of levels, got until={spec.until}",
                field="until",
                hint="repeat the level: hem*5",
            )
        found.append(params)
    return found


def coarsen_level(
    journal: Journal,
    fine: RowFiles,
    level: int,
    params: HEMParams,
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
        params: Parameters of `hem`.
        seed: Seed of the random choices.
        weight_dtype: Type to which coarse weights are rounded.
        limits: Sizes of the run.
        ranges: Strategy that calls the functions of ranges. The result does not depend on it.

    Raises:
        GraphError: If a coarse weight is not a finite number of that type.
        InputError: If a supernode has more edges than fit in memory.
    """
    name = f"level{level + 1}"
    path = journal.folder / f"{name}.cluster"
    num_supernodes = journal.find(f"{name}:match")
    if num_supernodes is None:
        journal.report("matching")
        graph = _make_undirected(journal, fine, name, limits, ranges)
        with graph.open() as rows:
            by_share = params.score == "share"
            key = RandomKey(seed, level)
            cluster, num_supernodes = match_rows(
                rows, key, by_share=by_share, two_hop=params.two_hop, piece=limits.piece, ranges=ranges
            )
        write_array(path, cluster)
        journal.record(f"{name}:match", num_supernodes)
        if graph is not fine:
            graph.remove()
    else:
        cluster = read_array(path, np.int32)
    sizes = _count_entries(fine, cluster, num_supernodes, limits.piece)
    del cluster
    dtype = np.dtype(weight_dtype).name
    rows_of_level = _contract(journal, fine, name, path, sizes, params, dtype, limits, ranges)
    return ExternalLevel(rows_of_level, path, fine.num_nodes)


def _make_undirected(
    journal: Journal, fine: RowFiles, name: str, limits: Limits, ranges: RangeMap
) -> RowFiles:
    """Return rows with the same weight in both directions, as :func:`tgp.engine.undirected.make_undirected` does.

    The sums of the two directions of a coarse edge are computed in different orders, so their last bits can differ.
    """
    from tgp.kernels._prims import SUM

    if not fine.weighted:
        return fine
    with fine.open() as rows:
        if journal.find(f"{name}:mirror") is None and is_undirected(rows, limits.piece, ranges):
            return fine
        # Rows are cut by twice their length: the pattern of the matrix is symmetric.
        bounds = cut_rows(2 * np.diff(rows.indptr), limits, "the graph")
    step, chunks, options = f"{name}:mirror", f"{name}.mirror", {"weighted": True}
    buckets = fill_ranges(journal, step, chunks, bounds, fine, mirror_entries, options, limits, ranges)
    return merge_buckets(
        journal,
        f"{name}:mirrored",
        f"{name}.undirected",
        buckets,
        SUM,
        -1.0,
        positive=True,
        ranges=ranges.choose(2 * fine.num_entries, 0),
    )


def _count_entries(fine: RowFiles, cluster: IndexArray, num_supernodes: int, piece: int) -> PtrArray:
    """Return the number of entries of the rows of each supernode."""
    from tgp.kernels import external as kernels

    sizes = np.zeros(num_supernodes, np.int64)
    with fine.open() as rows:
        for some in rows.row_ranges(piece):
            kernels.add_row_sizes(rows.indptr, cluster, *some, sizes)
    return sizes


def _contract(
    journal: Journal,
    fine: RowFiles,
    name: str,
    cluster: Path,
    sizes: PtrArray,
    params: HEMParams,
    weight_dtype: str,
    limits: Limits,
    ranges: RangeMap,
) -> RowFiles:
    """Write the coarse graph."""
    bounds = cut_rows(sizes, limits, "a level")
    tiny = _tiny_weight(fine, limits.piece, ranges)
    options = {
        "cluster": str(cluster),
        "drop_loops": params.remove_self_loops,
        "weighted": fine.weighted or params.count_edges,
    }
    step, chunks = f"{name}:fill", f"{name}.bucket"
    buckets = fill_ranges(journal, step, chunks, bounds, fine, contract_entries, options, limits, ranges)
    return merge_buckets(
        journal,
        f"{name}:merge",
        name,
        buckets,
        REDUCE_CODES[params.connect_red_op],
        tiny,
        dtype=weight_dtype,
        refuse=lambda weight: _refuse_weight(weight, weight_dtype),
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


def _refuse_weight(weight: float, dtype: str) -> GraphError:
    return GraphError(
        f"hem: a coarse weight is out of range: expected a finite {dtype} number, got {weight}",
        hint="scale the edge weights down",
    )


# Functions of ranges ------------------------------------------------------------------------------


def mirror_entries(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Write a chunk with the entries of a range in both directions, each with half of its weight."""
    from tgp.kernels import external as kernels

    def mirror(rows: MappedRows, first: int, low: int, high: int) -> tuple[WordArray, FloatArray]:
        keys, values = np.empty(2 * (high - low), np.uint64), np.empty(2 * (high - low))
        kernels.mirror_rows(rows.indptr, rows.indices, rows.weight, first, low, high, keys, values)
        return keys, values

    return _write_chunk(job, mirror)


def contract_entries(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Write a chunk with the entries of a range whose ends are replaced by supernodes."""
    from tgp.kernels import external as kernels

    cluster = map_file(Path(job["cluster"]), np.int32, job["rows"]["num_nodes"])

    def contract(rows: MappedRows, first: int, low: int, high: int) -> tuple[WordArray, FloatArray]:
        keys, values = np.empty(high - low, np.uint64), np.ones(high - low if job["weighted"] else 0)
        count = kernels.contract_rows(
            *rows.arrays(), cluster, job["drop_loops"], first, low, high, keys, values
        )
        return keys[:count], values[:count]

    return _write_chunk(job, contract)


def _write_chunk(
    job: Job, make_entries: Callable[[MappedRows, int, int, int], tuple[WordArray, FloatArray]]
) -> dict[str, Any]:
    """Write the chunk of a job. Several threads make and sort the entries of each piece."""
    bounds, weighted = np.array(job["bounds"], np.int64), job["weighted"]
    with RowFiles.from_plain(job["rows"]).open() as rows:

        def sorted_parts() -> Iterator[tuple[PtrArray, WordArray, FloatArray]]:
            for _, low, high in rows.entry_ranges(job["piece"], job["low"], job["high"]):
                found: dict[int, tuple[PtrArray, WordArray, FloatArray]] = {}

                def make(start: int, stop: int, found: Any = found) -> None:
                    first = int(np.searchsorted(rows.indptr, start, side="right")) - 1
                    found[start] = sort_by_bucket(*make_entries(rows, first, start, stop), weighted, bounds)

                count = max(min(threads.num_threads(), (high - low) // MIN_PART), 1)
                threads.run_ranges(make, np.unique(np.linspace(low, high, count + 1).astype(np.int64)), count)
                yield from (found[start] for start in sorted(found))

        write_chunk(Path(job["folder"]), job["chunk"], weighted, sorted_parts())
    return {}


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
    *matching.RANGE_FUNCTIONS,
    *merging.RANGE_FUNCTIONS,
    contract_entries,
    find_highest_weight,
    mirror_entries,
)
"""All functions that a worker of a cluster can be asked to call."""
