"""Attributes of nodes that methods need, on coarse graphs: means over the members of each supernode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tgp.errors import InputError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, PtrArray
from tgp.ragged.node_attributes import NodeAttributes

__all__ = ["check_needs", "pool_attributes", "pool_values"]

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
    graph = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
    first, width = assignment.super_ptr[graph], np.diff(assignment.super_ptr)[graph]
    for column in range(soft.shape[1]):
        inside = (column < width) & (soft[:, column] != 0.0)
        yield np.where(inside, first + column, -1), soft[:, column].astype(np.float64)
