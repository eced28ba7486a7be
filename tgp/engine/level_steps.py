"""Operations on levels of any method: contract, join unchanged graphs, remove failed graphs, compose, average attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import BoolArray, IndexArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, PtrArray
from tgp.ragged.node_attributes import NodeAttributes
from tgp.ragged.offsets import offsets, run_ids

__all__ = [
    "Step",
    "check_needs",
    "compose",
    "join_unchanged",
    "pool_attributes",
    "pool_values",
    "remove_graphs",
]

Step = tuple[Assignment, BlockCSR]
"""Assignment and coarse graphs of one level."""


def join_unchanged(block: BlockCSR, done: BoolArray, assignment: Assignment, coarse: BlockCSR) -> Step:
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
        representative = _join_ids(assignment.representative, counts, done, block.node_ptr, active_ptr, sizes)
    order = np.argsort(np.concatenate([active, finished]))
    joined = BlockCSR.concat([coarse, rest]).take(order)
    return Assignment("hard", super_ptr, cluster, weight, representative=representative), joined


def remove_graphs(step: Step, failed: LongArray) -> Step:
    """Remove the supernodes of graphs that failed at an earlier level.

    Such a graph has no nodes, but a dense method has the same number of supernodes in every graph.

    Args:
        step: assignment and coarse graphs of a level.
        failed: indices of the graphs.
    """
    assignment, block = step
    counts = np.diff(assignment.super_ptr)
    if not counts[failed].any():
        return step
    alive = np.ones(assignment.num_graphs, bool)
    alive[failed] = False
    kept = np.repeat(alive, counts)
    super_ptr = offsets(counts * alive)
    new_id = np.append(np.cumsum(kept) - 1, -1).astype(np.int32)  # the last entry is the id of dropped nodes
    cluster, representative = assignment.cluster, assignment.representative
    assignment = replace(
        assignment,
        super_ptr=super_ptr,
        cluster=None if cluster is None else new_id[cluster],
        representative=None if representative is None else representative[kept],
    )
    row_sizes = np.diff(block.indptr)
    entries = np.repeat(kept, row_sizes)
    weight = None if block.weight is None else block.weight[entries]
    attributes = None if block.attributes is None else block.attributes.take(np.flatnonzero(kept))
    indices = new_id[block.indices[entries]]
    coarse = BlockCSR(offsets(row_sizes[kept]), indices, weight, super_ptr, attributes)
    return assignment, coarse


def compose(first: Assignment, second: Assignment) -> Assignment:
    """Return ``S1 S2`` of hard assignments: a node belongs to the supernode of its supernode.

    Args:
        first: assignment of the finer level.
        second: assignment of its supernodes.
    """
    assert first.cluster is not None and second.cluster is not None
    inside = first.cluster >= 0
    cluster = np.full(len(first.cluster), -1, np.int32)
    cluster[inside] = second.cluster[first.cluster[inside]]
    weight = None
    if first.weight is not None or second.weight is not None:
        weight = np.ones(len(cluster), np.float32) if first.weight is None else first.weight.copy()
        if second.weight is not None:
            weight[inside] *= second.weight[first.cluster[inside]]
    representative = None
    if first.representative is not None and second.representative is not None:
        representative = first.representative[second.representative]
    return Assignment("hard", second.super_ptr, cluster, weight, representative=representative)


def _join_ids(
    ids: IndexArray | None,
    counts: LongArray,
    done: BoolArray,
    new_ptr: LongArray,
    old_ptr: LongArray,
    sizes: LongArray,
) -> IndexArray:
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


_CHUNK = 1 << 14
"""Number of rows that are converted to float64 at a time."""


def check_needs(block: BlockCSR, needs: Mapping[str, str]) -> None:
    """Check that a block has the attributes that methods need.

    Args:
        block: the graphs.
        needs: names of attributes, each with the method that needs it.

    Raises:
        InputError: if an attribute is missing.
    """
    found = () if block.attributes is None else block.attributes.values
    for name, method in needs.items():
        if name not in found and block.num_nodes:
            raise InputError(
                f"{method} needs the node attribute {name!r}: expected a block with it, got "
                f"{', '.join(found) or 'no attributes'}",
                field=name,
                hint=f"give it to the engine: block.with_values({name}=...), or table.to_block(schedule.needs)",
            )


def pool_attributes(block: BlockCSR, assignment: Assignment, coarse: BlockCSR) -> BlockCSR:
    """Return coarse graphs with the attributes of the graphs, see :func:`pool_values`.

    Args:
        block: the graphs.
        assignment: assignment of their nodes.
        coarse: the coarse graphs.
    """
    if block.attributes is None:
        return coarse
    return replace(coarse, attributes=pool_values(block.attributes, block.node_ptr, assignment))


def pool_values(given: NodeAttributes, node_ptr: PtrArray, assignment: Assignment) -> NodeAttributes:
    """Return the attributes of supernodes.

    The value of a supernode is the mean of all input nodes that belong to it, also after several levels. Dropped nodes do not
    count. A soft assignment gives the mean weighted by its entries. Sums are computed in float64, and the result has the type of
    the attribute.

    Args:
        given: attributes of the nodes.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        assignment: assignment of the nodes.
    """
    from tgp.kernels import carry as kernels

    nodes, supers = int(node_ptr[-1]), assignment.num_supernodes
    count = given.member_counts(nodes)
    totals = {name: np.zeros((supers, rows.shape[1])) for name, rows in given.values.items()}
    size = np.zeros((supers, 1))
    for segment, share in _columns(node_ptr, assignment):
        weight = count * share if share is not None else count
        for low in range(0, nodes, _CHUNK):
            part = slice(low, low + _CHUNK)
            ones = np.ones((len(segment[part]), 1))
            kernels.add_rows(ones, segment[part], weight[part], True, size)
            for name, rows in given.values.items():
                values = rows[part].astype(np.float64)
                kernels.add_rows(values, segment[part], weight[part], True, totals[name])
    with np.errstate(over="ignore"):
        means = {
            name: (total / np.where(size == 0.0, 1.0, size)).astype(given.values[name].dtype)
            for name, total in totals.items()
        }
    return NodeAttributes(means, size[:, 0].copy())


def _columns(node_ptr: PtrArray, assignment: Assignment) -> Iterator[tuple[PtrArray, FloatArray | None]]:
    """Yield supernode and share of each node: once for a hard assignment, and for each column of a soft one."""
    soft = assignment.soft
    if soft is None:
        assert assignment.cluster is not None, "an assignment without 'soft' has clusters"
        yield assignment.cluster.astype(np.int64), None
        return
    graph = run_ids(node_ptr)
    first, width = assignment.super_ptr[graph], np.diff(assignment.super_ptr)[graph]
    for column in range(soft.shape[1]):
        inside = (column < width) & (soft[:, column] != 0.0)
        yield np.where(inside, first + column, -1), soft[:, column].astype(np.float64)
