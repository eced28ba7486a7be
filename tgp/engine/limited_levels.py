"""Levels with a size limit: join graphs that are coarsened with graphs that stay as they are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import offsets

__all__ = ["join_unchanged"]

Ints = npt.NDArray[np.int64]


def join_unchanged(
    block: BlockCSR, done: npt.NDArray[np.bool_], assignment: Assignment, coarse: BlockCSR
) -> tuple[Assignment, BlockCSR]:
    """Return a level in which some graphs are coarse and the others are unchanged.

    Args:
        block: all graphs.
        done: ``[B]`` True for each graph that stays as it is. Each of its nodes is its own supernode.
        assignment: hard assignment of the other graphs, in the same order.
        coarse: their coarse graphs.

    Returns:
        Assignment and coarse graphs of all graphs, in the order of ``block``.
    """
    active, finished = np.flatnonzero(~done), np.flatnonzero(done)
    rest = block.take(finished)
    sizes = np.diff(block.node_ptr)
    counts = sizes.copy()
    counts[active] = np.diff(assignment.super_ptr)
    super_ptr, active_ptr = offsets(counts), offsets(sizes[active])
    cluster = _join_ids(assignment.cluster, sizes, done, super_ptr, assignment.super_ptr, sizes)
    weight = representative = None
    if assignment.weight is not None:
        weight = np.ones(block.num_nodes, np.float32)
        weight[np.repeat(~done, sizes)] = assignment.weight
    if assignment.representative is not None:
        representative = _join_ids(
            assignment.representative, counts, done, block.node_ptr, active_ptr, sizes
        )
    order = np.argsort(np.concatenate([active, finished]))
    joined = BlockCSR.concat([coarse, rest]).take(order)
    return Assignment("hard", super_ptr, cluster, weight, representative=representative), joined


def _join_ids(
    ids: npt.NDArray[np.int32] | None,
    counts: Ints,
    done: npt.NDArray[np.bool_],
    new_ptr: Ints,
    old_ptr: Ints,
    sizes: Ints,
) -> npt.NDArray[np.int32]:
    """Return ids of all graphs: those of active graphs with a new offset, and ``0, 1, ...`` for each unchanged graph.

    Args:
        ids: ids of the active graphs, ``-1`` for a dropped node.
        counts: ``[B]`` number of entries of each graph.
        done: ``[B]`` True for each unchanged graph.
        new_ptr: ``[B + 1]`` offsets of the result's ids.
        old_ptr: offsets of ``ids``, for the active graphs.
        sizes: ``[B]`` number of nodes of each graph.
    """
    assert ids is not None
    joined = np.empty(int(counts.sum()), np.int32)
    of_active = np.repeat(~done, counts)
    shift = np.repeat(new_ptr[:-1][~done] - old_ptr[:-1], counts[~done])
    joined[of_active] = np.where(ids < 0, -1, ids + shift)
    start = new_ptr[:-1][done] - offsets(sizes[done])[:-1]
    joined[~of_active] = np.arange(int(sizes[done].sum())) + np.repeat(start, sizes[done])
    return joined
