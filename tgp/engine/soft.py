"""Coarse graphs of dense assignments: ``S^T A S`` as a sparse block."""

from __future__ import annotations

import numpy as np

import tgp
from tgp.engine.contraction import ContractOptions, postprocess
from tgp.errors import InputError
from tgp.ragged import Assignment, BlockCSR

__all__ = ["soft_connect"]


def soft_connect(block: BlockCSR, assignment: Assignment, options: ContractOptions | None = None) -> BlockCSR:
    """The coarse block ``S^T A S`` of a soft assignment, post-processed.

    Parallel edges add up and an unweighted edge counts 1, so the result is always weighted. Entries
    with ``|a| <= eps`` are left out. ``reduce_op`` and ``count_edges`` play no part.

    Raises:
        InputError: for an assignment that is not soft, or of another block.
    """
    from tgp.kernels import soft as kernels

    options = options or ContractOptions()
    if assignment.soft is None:
        raise InputError(
            f"soft_connect needs a soft assignment, got a {assignment.kind} one: use contract",
            field="assignment",
        )
    if len(assignment.soft) != block.num_nodes or assignment.num_graphs != block.num_graphs:
        raise InputError(
            f"assignment must hold {block.num_nodes} nodes in {block.num_graphs} graphs, got "
            f"{len(assignment.soft)} in {assignment.num_graphs}",
            field="assignment",
        )
    indptr, indices, weight = kernels.soft_product(
        block.indptr,
        block.indices,
        block.weights_or_ones(),
        block.node_ptr,
        np.ascontiguousarray(assignment.soft, dtype=np.float32),
        tgp.eps,
    )
    return postprocess(BlockCSR(indptr, indices, weight, assignment.super_ptr), options)
