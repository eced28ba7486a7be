"""NoPool: the identity, a baseline for comparisons."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.connect.base_conn import Connected, SparseConnect
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.base_select import SelectOutput
from tgp.select.identity_select import IdentitySelect, get_device
from tgp.src.base import SRCPooling
from tgp.src.execution import SparseExecution
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import BasePrecoarseningMixin
from tgp.utils.ops.connectivity import check_connectivity
from tgp.utils.ops.reductions import reduce_groups
from tgp.utils.signature import accepted

__all__ = ["NoPool"]


class NoPool(BasePrecoarseningMixin, SRCPooling):
    r"""Identity pooler, which returns its input and the assignment :math:`\mathbf{S} = \mathbf{I}`.

    It is a baseline for comparisons: a model keeps its structure but does not pool.

    Good for:
        A baseline: the same model without pooling, or a level of a schedule that keeps the graph.

    Avoid when:
        The graph must become smaller.

    Complexity:
        ``O(N + E)`` time and memory, to copy a level.
    """

    _accepts_assignment = True
    _connectivity_optional = True

    def __init__(self) -> None:
        super().__init__(
            selector=IdentitySelect(),
            reducer=IdentityReduce(),
            lifter=BaseLift(),
            connector=IdentityConnect(),
        )

    def _execution(self, inputs: PoolInputs) -> IdentityExecution:
        return IdentityExecution(self, inputs)

    def precoarsening(
        self,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        **kwargs: Any,
    ) -> PoolingOutput:
        """Return the inputs and the identity assignment.

        Args:
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids. ``batch`` of the result is ``None`` if there are none.
            num_nodes: ``N``; by default it is read from ``batch`` or the connectivity.
            **kwargs: ignored.
        """
        check_connectivity(edge_index, "precoarsening")
        so = self.select(edge_index=edge_index, num_nodes=num_nodes, batch=batch)
        if so.batch is None:
            so.batch = torch.zeros(so.num_nodes, dtype=torch.long, device=so._stored_index().device)
        return PoolingOutput(edge_index=edge_index, edge_weight=edge_weight, batch=batch, so=so)


class IdentityReduce(BaseReduce):
    """Reducer that returns its input."""

    def forward(
        self, x: Tensor, so: SelectOutput, *, batch: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return ``(x, batch)``."""
        return x, batch


class IdentityConnect(SparseConnect):
    """Connector that returns its input."""

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        *,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_attr_reduce: str = "mean",
        **kwargs: Any,
    ) -> Connected:
        """Return ``(edge_index, edge_weight)``. With ``edge_attr`` also the attributes, reduced edge by edge."""
        if edge_attr is None or edge_attr_reduce == "none":
            return (edge_index, edge_weight) if edge_attr is None else (edge_index, edge_weight, None)
        edge = torch.arange(edge_attr.size(0), device=edge_attr.device)
        return edge_index, edge_weight, reduce_groups(edge_attr, edge, edge.numel(), edge_attr_reduce)


class IdentityExecution(SparseExecution):
    """Execution of the identity, for inputs that may have no edges or no features."""

    def select(self) -> SelectOutput:
        """Return the identity assignment of all nodes."""
        inputs = self.inputs
        device = None if inputs.adj is None and inputs.x is None else get_device(inputs.x, inputs.adj)
        return self.pooler.select(
            **accepted(
                self.pooler.select,
                edge_index=inputs.adj,
                num_nodes=inputs.num_nodes,
                batch=inputs.batch,
                device=device,
            )
        )

    def reduce(self, so: SelectOutput) -> tuple[Tensor | None, Tensor | None]:
        """Return the features and the graph ids."""
        return super().reduce(so) if self.inputs.x is not None else (None, self.inputs.batch)
