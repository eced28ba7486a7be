"""Any method of the engine as a selector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from tgp.coarsen.protocol import Draw
from tgp.coarsen.run import assign_level
from tgp.coarsen.schedule import LevelSpec
from tgp.errors import InputError
from tgp.ragged import Assignment
from tgp.select._entries import check_inverse_op
from tgp.select.base_select import Select, SelectOutput
from tgp.utils.blocks import TorchBlock, to_block
from tgp.utils.typing import SinvType

__all__ = ["LevelSelect", "to_select_output"]


class LevelSelect(Select):
    """Assignments from a level method: computed from the topology, the same on every run.

    Args:
        method: alias of the method (``graclus``, ``ndp``, ...).
        params: its parameters; what is left out has its default.
        seed: seed of every random choice.
        s_inv_op: ``transpose`` or ``inverse``.
    """

    representative: str | None = None
    """Name of the extra that holds the node standing for each supernode, for methods that have one."""

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        seed: int = 0,
        s_inv_op: SinvType = "transpose",
    ) -> None:
        super().__init__()
        check_inverse_op(s_inv_op)
        self.spec = LevelSpec.of(method, params)
        self.seed = seed
        self.s_inv_op = s_inv_op

    @property
    def method(self) -> str:
        """Alias of the method."""
        return self.spec.method

    def forward(
        self,
        x: Tensor | None = None,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        batch_size: int | None = None,
        level: int = 0,
        keep_link: bool = False,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign the nodes of every graph.

        Args:
            x: read for the number of nodes only.
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids in any order.
            num_nodes: ``N``; default from ``x``, ``batch`` or the connectivity.
            batch_size: number of graphs.
            level: place of this step in a schedule; another level draws other random numbers.
            keep_link: leave the engine's arrays at the result, for a connector that follows.
        """
        if edge_index is None:
            raise InputError(
                "edge_index cannot be None: this selection reads the topology", field="edge_index"
            )
        if num_nodes is None and batch is None and x is not None:
            num_nodes = x.size(0)
        source = to_block(edge_index, edge_weight, batch, num_nodes, batch_size)
        assignment = assign_level(source.block, self.spec, Draw(self.seed, level))
        so = to_select_output(assignment, source, self.s_inv_op, batch, batch_size, self.representative)
        if keep_link:
            so._link = (source, assignment)
        return so


def to_select_output(
    assignment: Assignment,
    source: TorchBlock,
    s_inv_op: SinvType = "transpose",
    batch: Tensor | None = None,
    batch_size: int | None = None,
    representative: str | None = None,
) -> SelectOutput:
    """The engine's assignment of the nodes of ``source`` as a :class:`SelectOutput`.

    Args:
        assignment: of the nodes of ``source.block``.
        source: the block and the order of its nodes.
        s_inv_op: ``transpose`` or ``inverse``.
        batch: kept as ``so.batch``.
        batch_size: kept as ``so.batch_size``.
        representative: name of an extra for the node that stands for each supernode.
    """
    extras: dict[str, Any] = {}
    if assignment.theta is not None:
        extras["theta"] = source.per_node(assignment.theta)
    if representative is not None and assignment.representative is not None:
        extras[representative] = source.node_ids(assignment.representative)
    if assignment.kind == "soft":
        s = source.per_node(assignment.soft)
        return SelectOutput(s=s, s_inv_op=s_inv_op, batch=batch, batch_size=batch_size, **extras)
    cluster = assignment.cluster
    if assignment.kind == "onehot":
        start = np.repeat(assignment.super_ptr[:-1], np.diff(source.block.node_ptr))
        column = source.per_node(np.where(cluster < 0, -1, cluster - start))
        width = assignment.width or 0
        return SelectOutput.onehot(
            column, width, s_inv_op=s_inv_op, batch=batch, batch_size=batch_size, **extras
        )
    ids = source.per_node(cluster.astype(np.int64))
    weight = None if assignment.weight is None else source.per_node(assignment.weight)
    nodes = None
    if cluster.size and cluster.min() < 0:
        nodes = (ids >= 0).nonzero().squeeze(1)
        ids = ids[nodes]
        weight = None if weight is None else weight[nodes]
    return SelectOutput.hard(
        ids,
        assignment.num_supernodes,
        node_index=nodes,
        num_nodes=len(cluster),
        weight=weight,
        s_inv_op=s_inv_op,
        batch=batch,
        batch_size=batch_size,
        **extras,
    )
