"""No pooling: the identity baseline."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tgp.connect.base_conn import SparseConnect
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.base_select import SelectOutput
from tgp.select.identity_select import IdentitySelect, get_device
from tgp.src.base import SRCPooling
from tgp.src.execution import Pooled, SparseExecution
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import BasePrecoarseningMixin, check_connectivity
from tgp.utils.signature import call_accepted
from tgp.utils.user_code import has_user_code, is_overridden

__all__ = ["NoPool"]


class NoPool(BasePrecoarseningMixin, SRCPooling):
    """Return the input as it is, with the identity assignment; the baseline of every comparison."""

    _accepts_assignment = True
    _connectivity_optional = True

    def __init__(self) -> None:
        super().__init__(
            selector=IdentitySelect(), reducer=BaseReduce(), lifter=BaseLift(), connector=SparseConnect()
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
        """Return the inputs and the identity assignment; ``batch`` stays ``None`` if none was given."""
        check_connectivity(edge_index)
        so = self.select(edge_index=edge_index, num_nodes=num_nodes, batch=batch)
        if so.batch is None:
            so.batch = torch.zeros(so.num_nodes, dtype=torch.long, device=so.cluster_index.device)
        return PoolingOutput(edge_index=edge_index, edge_weight=edge_weight, batch=batch, so=so)


class IdentityExecution(SparseExecution):
    """Return the inputs: stages run only where a user has replaced or hooked them."""

    def select(self) -> SelectOutput:
        """Return the identity over all nodes."""
        inputs = self.inputs
        device = None if inputs.adj is None and inputs.x is None else get_device(inputs.x, inputs.adj)
        return call_accepted(
            self.pooler.select,
            edge_index=inputs.adj,
            num_nodes=inputs.num_nodes,
            batch=inputs.batch,
            device=device,
        )

    def reduce(self, so: SelectOutput) -> tuple[Tensor | None, Tensor | None]:
        """Return the features and graph ids as they are."""
        if self._skips("reduce", self.pooler.reducer):
            return self.inputs.x, self.inputs.batch
        return super().reduce(so)

    def connect(self, so: SelectOutput, batch_pool: Tensor | None) -> Pooled:
        """Return the connectivity as it is."""
        if self._skips("connect", self.pooler.connector):
            return self.inputs.adj, self.inputs.edge_weight
        return super().connect(so, batch_pool)

    def _skips(self, method: str, stage: nn.Module) -> bool:
        return torch.compiler.is_compiling() or not (
            has_user_code(stage) or is_overridden(self.pooler, method)
        )
