"""Selectors with a fixed number of supernodes per graph (NMF, EigenPool)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from tgp.ragged import Assignment
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect, MethodParameter, to_select_output
from tgp.utils.tracing import opaque

__all__ = ["FixedKSelect"]


class FixedKSelect(LevelSelect):
    """Selector that gives every graph ``k`` supernodes, with a dense assignment.

    A graph with fewer than ``k`` nodes has empty supernodes at the end. In a batch they stay, so that all
    graphs have the same width; for a single graph they are left out unless ``fixed_k`` asks for them.
    """

    is_dense = True

    k = MethodParameter("Supernodes per graph.")

    @opaque
    def forward(
        self,
        x: Tensor | None = None,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        fixed_k: bool = False,
        keep_link: bool = False,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign the nodes of every graph.

        Args:
            x: read for the number of nodes and the type of real numbers.
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids in any order.
            num_nodes: ``N``; default from ``x``, ``batch`` or the connectivity.
            fixed_k: always return ``k`` columns.
            keep_link: store the arrays of the engine in the result, for the connector.
            **kwargs: ``batch_size`` and ``level``, see :class:`~tgp.select.LevelSelect`.
        """
        so = super().forward(
            x, edge_index, edge_weight, batch=batch, num_nodes=num_nodes, keep_link=True, **kwargs
        )
        source, assignment = so._link
        width = max(1, min(self.k, source.block.num_nodes))
        if not fixed_k and source.block.num_graphs == 1 and width < self.k:
            assignment = _narrow(assignment, width)
            so = to_select_output(assignment, source, self.s_inv_op, batch, so.batch_size)
        so._link = (source, assignment) if keep_link else None
        return so


def _narrow(assignment: Assignment, width: int) -> Assignment:
    """Return the assignment of one graph without its last, empty supernodes."""
    soft = assignment.soft
    return replace(
        assignment,
        super_ptr=np.array([0, width], np.int64),
        soft=None if soft is None else np.ascontiguousarray(soft[:, :width]),
    )
