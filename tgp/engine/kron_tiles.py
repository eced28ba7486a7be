"""Kron reduction of large graphs by a series, tile by tile, and the work of the methods for large graphs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tgp.engine.threads import run_over_ranges
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["ENTRY_WORK", "Rows", "Steps", "dense_work", "series_rows", "series_work"]

ENTRY_WORK = 20_000
"""Largest accepted work of a series, and of a full matrix for large graphs, in operations per stored entry. It takes about
as long as walks."""

_TOLERANCE = 0.005
"""Share of the coarse weight that a series may lose."""


class Rows(NamedTuple):
    """Rows whose columns are supernodes, and one over the diagonal entry of each row."""

    ptr: PtrArray
    cols: IndexArray
    vals: FloatArray
    inv: FloatArray


class Steps(NamedTuple):
    """Step probabilities of walks, see :func:`tgp.kernels.kron_core.step_probabilities`."""

    ptr: PtrArray
    inner: PtrArray
    to: IndexArray
    prob: FloatArray
    degree: FloatArray
    top: FloatArray


def dense_work(dropped: Any, kept: Any) -> Any:
    """Return the number of operations of a reduction by a full matrix.

    Args:
        dropped: number of dropped nodes, or an array of numbers.
        kept: number of kept nodes, or an array.
    """
    return dropped * (dropped * dropped / 3 + dropped * kept + kept * kept)


def series_work(dropped: int, inside: int, ended: int, kept: int, rounds: int) -> int:
    """Return the number of operations of a series, in which passes over a tile count as eight operations per number.

    Args:
        dropped: number of dropped nodes.
        inside: number of entries between dropped nodes.
        ended: number of entries from dropped to kept nodes.
        kept: number of kept nodes.
        rounds: number of iterations.
    """
    return kept * (2 * rounds * inside + ended + 8 * (rounds + 1) * dropped + 8 * kept)


def series_rows(
    graph: tuple[PtrArray, IndexArray, FloatArray, IndexArray, IndexArray],
    starts: Rows,
    steps: Steps,
    span: tuple[int, int],
    threshold: float,
    signed: bool,
    limit: int,
    row_length: PtrArray,
) -> tuple[IndexArray, FloatArray] | None:
    """Return the rows of a reduced graph, as far as their columns are smaller, or ``None`` if this takes too long.

    Several threads compute tiles of rows. The result does not depend on their number.

    Args:
        graph: simple undirected graphs (``indptr``, ``indices``, ``weight``), the supernode of each node, and the node of
            each supernode.
        starts: weights from dropped to kept nodes.
        steps: step probabilities of the dropped nodes.
        span: supernodes of the graph.
        threshold: entries ``|a| <= threshold`` are removed.
        signed: True if a weight is negative.
        limit: largest number of operations.
        row_length: output: number of entries of each row.
    """
    from tgp.kernels import kron_series as kernels
    from tgp.kernels._prims import fill_transpose

    low, kept = span[0], span[1] - span[0]
    count, width = len(steps.inner), kernels.WIDTH
    inside, ended = len(steps.to) - len(starts.cols), len(starts.cols)
    vector, factor = np.empty(count), np.empty(1)
    rounds = kernels.dominant_vector(
        count, *steps[:5], signed, _TOLERANCE, vector, np.empty(count), np.empty(count), factor
    )
    if series_work(count, inside, ended, kept, rounds) > limit:
        return None
    columns = starts.cols - np.int32(low)
    by_super = np.empty(kept + 1, np.int64), np.empty(ended, np.int32)
    scale = float(np.abs(starts.vals).max(initial=0.0))
    total = np.repeat(steps.degree, np.diff(starts.ptr))
    moved = np.empty(ended)
    single: list[Any] = []
    for values in (starts.vals / total, starts.vals / scale):
        fill_transpose(starts.ptr, columns, values, True, *by_super, moved)
        single.append(moved.astype(np.float32))
    inputs: tuple[Any, ...] = (
        count, *steps[:3], steps.prob.astype(np.float32), vector, *by_super, *single, scale, threshold,
    )  # fmt: skip
    tiles = -(-kept // width)
    found: dict[int, tuple[IndexArray, FloatArray]] = {}

    def run(first: int, last: int) -> None:
        scratch: tuple[Any, ...] = (
            *(np.empty(length * width, np.float32) for length in (count, count, kept)),
            np.zeros(kept),
        )
        for tile in range(first, last):
            end = min((tile + 1) * width, kept)
            # Memory pages that are never written take no memory.
            cols, vals = np.empty(width * end, np.int32), np.empty(width * end)
            outputs: tuple[Any, ...] = (*scratch, row_length, cols, vals)
            size = kernels.series_tile(tile * width, end, low, rounds, factor[0], *graph, *inputs, *outputs)
            found[tile] = cols[:size].copy(), vals[:size].copy()

    run_over_ranges(run, (2 * rounds * inside + ended) * np.arange(tiles + 1))
    pieces = [found[tile] for tile in range(tiles)]
    return np.concatenate([cols for cols, _ in pieces]), np.concatenate([vals for _, vals in pieces])
