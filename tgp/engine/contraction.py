"""Coarse graphs by contraction: the array functions that level methods and torch connectors share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import tgp
from tgp.errors import InputError, ParameterError
from tgp.ragged import Assignment, BlockCSR

__all__ = ["ContractOptions", "ReduceOp", "contract", "postprocess"]

ReduceOp = Literal["sum", "mean", "min", "max", "mul"]
_CODES = {name: code for code, name in enumerate(get_args(ReduceOp))}


@dataclass(frozen=True)
class ContractOptions:
    """What happens to edges when their end points are merged.

    Args:
        reduce_op: how parallel edges merge: ``sum``, ``mean``, ``min``, ``max`` or ``mul``.
        remove_self_loops: leave out edges inside a supernode.
        degree_norm: divide each weight by the square roots of the row sums of its end points.
        edge_weight_norm: divide weights by the largest ``|w|`` of their graph.
        count_edges: give an unweighted block unit weights, so that coarse weights count edges.
    """

    reduce_op: ReduceOp = "sum"
    remove_self_loops: bool = True
    degree_norm: bool = False
    edge_weight_norm: bool = False
    count_edges: bool = False

    def __post_init__(self) -> None:
        if self.reduce_op not in _CODES:
            raise ParameterError(
                f"reduce_op must be one of {', '.join(_CODES)}, got {self.reduce_op!r}", field="reduce_op"
            )


def contract(block: BlockCSR, assignment: Assignment, options: ContractOptions | None = None) -> BlockCSR:
    """The coarse block ``S^T A S`` of a hard or one-hot assignment, post-processed.

    Edges that touch a dropped node (cluster ``-1``) vanish; the values of ``S`` play no part. An
    unweighted block stays unweighted, unless ``count_edges`` or a normalisation asks for weights.

    Raises:
        InputError: for a soft assignment (see :mod:`tgp.engine.soft`) or one of another block.
    """
    from tgp.kernels import contract as kernels

    options = options or ContractOptions()
    if assignment.cluster is None:
        raise InputError("contract needs a hard or one-hot assignment, got a soft one", field="assignment")
    if len(assignment.cluster) != block.num_nodes:
        raise InputError(
            f"assignment must hold {block.num_nodes} nodes, got {len(assignment.cluster)}", field="assignment"
        )
    block = _countable(block, options)
    indptr, indices, weight = kernels.contract(
        *block.arrays(),
        assignment.cluster,
        assignment.num_supernodes,
        _CODES[options.reduce_op],
        options.remove_self_loops,
        tgp.eps,
    )
    coarse = BlockCSR(indptr, indices, None if block.weight is None else weight, assignment.super_ptr)
    return _normalise(coarse, options)


def postprocess(block: BlockCSR, options: ContractOptions | None = None) -> BlockCSR:
    """Self loops, negligible weights (``|w| <= eps``), degree and maximum normalisation, in this order.

    A node whose out-weights sum to nothing or less has factor 0 in the degree normalisation.
    """
    from tgp.kernels import contract as kernels

    options = options or ContractOptions()
    block = _countable(block, options)
    if options.remove_self_loops or block.weight is not None:
        indptr, indices, weight = kernels.filter_entries(*block.arrays(), options.remove_self_loops, tgp.eps)
        block = BlockCSR(indptr, indices, None if block.weight is None else weight, block.node_ptr)
    return _normalise(block, options)


def _normalise(block: BlockCSR, options: ContractOptions) -> BlockCSR:
    from tgp.kernels import contract as kernels

    weight = block.weight
    if options.degree_norm:
        weight = kernels.degree_norm(block.indptr, block.indices, block.weights_or_ones())
    if options.edge_weight_norm:
        weight = kernels.max_norm(block.edge_ptr, block.weights_or_ones() if weight is None else weight)
    return block if weight is block.weight else BlockCSR(block.indptr, block.indices, weight, block.node_ptr)


def _countable(block: BlockCSR, options: ContractOptions) -> BlockCSR:
    """The block with unit weights if edges are to be counted."""
    if block.weight is not None or not options.count_edges:
        return block
    return BlockCSR(block.indptr, block.indices, block.weights_or_ones(), block.node_ptr)
