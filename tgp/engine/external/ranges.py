"""Functions over ranges of rows, and the strategy that calls them: in this process, or on the workers of a cluster.

A range function is a function of a module that reads files and arrays, and returns numbers and arrays. It changes none of its inputs, and
its result does not depend on the other ranges. It can therefore be called anywhere, in any order, and twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tgp.engine.external.row_files import MappedRows, RowFiles
from tgp.engine.threads import cut_ranges, run_over_ranges
from tgp.kernels.array_types import Array
from tgp.ragged.block import IndexArray, PtrArray

__all__ = [
    "LOCAL",
    "NODES_AT_ONCE",
    "Job",
    "LocalRanges",
    "Published",
    "RangeFunction",
    "RangeMap",
    "over_rows",
    "row_jobs",
]

NODES_AT_ONCE = 1 << 17
"""Number of nodes whose row pointers are read at once."""

PAGE_ENTRIES, READ_PIECES = 1 << 12, 4
"""Number of entries that the system reads with those of a node, and number of pieces of nodes that are read at once."""

Job = Mapping[str, Any]
"""Description of one call: a range, paths and parameters. All values are plain: text, numbers, and lists or dictionaries of them."""

RangeFunction = Callable[[Job, Mapping[str, Array]], dict[str, Any]]
"""Function of a job and of arrays that all jobs share. The values of the result are numbers or arrays."""


@dataclass(frozen=True)
class Published:
    """Array that range functions can read.

    Args:
        values: The array.
        path: File with its elements; ``None`` if the functions run in this process.
    """

    values: Array
    path: Path | None = None

    def remove(self) -> None:
        """Delete the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class RangeMap(Protocol):
    """Strategy that calls range functions.

    Attributes:
        num_ranges: Number of ranges into which work should be cut.
        is_remote: True if arrays travel through files.
    """

    @property
    def num_ranges(self) -> int: ...

    @property
    def is_remote(self) -> bool: ...

    def publish(self, values: Array) -> Published:
        """Let range functions read an array, which must not change until it is removed."""
        ...

    def run(
        self, function: RangeFunction, jobs: Sequence[Job], arrays: Mapping[str, Published] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the result of each job, in the order of the jobs."""
        ...

    def choose(self, num_entries: int, num_nodes: int) -> RangeMap:
        """Return the strategy for a step that reads this many entries, and that publishes arrays of this many nodes."""
        ...


class LocalRanges:
    """Call range functions in this process, one after the other. Their kernels use several threads.

    Args:
        num_ranges: Number of ranges. The results of one range are in memory at a time.
    """

    is_remote = False

    def __init__(self, num_ranges: int = 4) -> None:
        self.num_ranges = num_ranges

    def publish(self, values: Array) -> Published:
        """Return the array itself."""
        return Published(values)

    def run(
        self, function: RangeFunction, jobs: Sequence[Job], arrays: Mapping[str, Published] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the result of each job."""
        values = {name: published.values for name, published in (arrays or {}).items()}
        for job in jobs:
            yield function(job, values)

    def choose(self, num_entries: int, num_nodes: int) -> LocalRanges:
        """Return this strategy."""
        return self


LOCAL = LocalRanges()
"""Strategy for one process."""


def row_jobs(rows: MappedRows, num_ranges: int, piece: int) -> list[dict[str, Any]]:
    """Return jobs for ranges of rows with about equal numbers of entries: ``rows``, ``first``, ``last`` and ``piece``.

    Args:
        rows: Rows.
        num_ranges: Number of ranges.
        piece: Number of entries to read at once.
    """
    bounds = cut_ranges(rows.indptr, num_ranges).tolist() if rows.num_nodes else []
    shared = {"rows": rows.files.to_plain(), "piece": piece}
    return [{**shared, "first": a, "last": b} for a, b in pairwise(bounds)]


def over_rows(
    job: Job, kernel: Callable[[MappedRows], Callable[[int, int], object]], nodes: IndexArray | None = None
) -> None:
    """Map the rows of a job and call a function for parts of its range, on several threads for each piece.

    Args:
        job: Result of :func:`row_jobs`.
        kernel: Function of the rows. It returns the function of a range of rows, or of a range of ``nodes``.
        nodes: Nodes of the range, ascending; ``None`` for all.
    """
    with RowFiles.from_plain(job["rows"]).open() as rows:
        call = kernel(rows)
        if nodes is not None:
            _over_nodes(rows, nodes, job["piece"], call)
            return
        for first, last in rows.row_ranges(job["piece"], job["first"], job["last"]):
            _run_part(call, first, rows.indptr[first : last + 1])


def _run_part(call: Callable[[int, int], object], low: int, costs: PtrArray) -> None:
    """Call a function for the items from ``low`` on, on several threads. ``costs`` are the offsets of their work."""
    run_over_ranges(lambda start, stop: call(low + start, low + stop), costs)


def _over_nodes(rows: MappedRows, nodes: IndexArray, piece: int, call: Callable[[int, int], object]) -> None:
    """Call a function for parts of some nodes. The pages that a part reads are about those of ``READ_PIECES * piece`` entries."""
    for low in range(0, len(nodes), NODES_AT_ONCE):
        some = nodes[low : low + NODES_AT_ONCE]
        starts, ends = rows.indptr[some], rows.indptr[some + 1]
        # Entries between two nodes are read with them if they are on the same page.
        touched = np.minimum(np.append(starts[1:], ends[-1]) - starts, ends - starts + PAGE_ENTRIES)
        part_of = np.cumsum(touched) // (READ_PIECES * piece)
        costs = np.append(0, np.cumsum(ends - starts))
        for a, b in pairwise([0, *(np.flatnonzero(np.diff(part_of)) + 1).tolist(), len(some)]):
            _run_part(call, low + a, costs[a : b + 1])
            rows.release(int(some[a]), int(some[b - 1]) + 1, int(starts[a]), int(ends[b - 1]))
