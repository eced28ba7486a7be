"""No pooling: the identity baseline."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.connect.base_conn import SparseConnect
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.base_select import SelectOutput
from tgp.select.identity_select import IdentitySelect, get_device
from tgp.src.base import PoolCall, SRCPooling
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import BasePrecoarseningMixin, check_connectivity

__all__ = ["NoPool"]


class NoPool(BasePrecoarseningMixin, SRCPooling):
    """Return the input as it is, with the identity assignment; the baseline of every comparison."""

    honours_so = True

    def __init__(self) -> None:
        super().__init__(
            selector=IdentitySelect(), reducer=BaseReduce(), lifter=BaseLift(), connector=SparseConnect()
        )

    def prepare(self, call: PoolCall) -> PoolCall:
        """The number of nodes comes from the features, where there are any; edges may be missing."""
        if call.num_nodes is None and call.x is not None:
            call.num_nodes = call.x.size(0)
        return call

    def run_select(self, call: PoolCall) -> SelectOutput:
        """The identity over all nodes."""
        device = None if call.adj is None and call.x is None else get_device(call.x, call.adj)
        return self.select(edge_index=call.adj, num_nodes=call.num_nodes, batch=call.batch, device=device)

    def run_reduce(self, call: PoolCall, so: SelectOutput) -> tuple[Tensor, Tensor | None]:
        """The same objects."""
        return call.x, call.batch

    def run_connect(
        self, call: PoolCall, so: SelectOutput, batch_pool: Tensor | None
    ) -> tuple[Any, Tensor | None]:
        """The same objects."""
        return call.adj, call.edge_weight

    def precoarsening(
        self,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        **kwargs: Any,
    ) -> PoolingOutput:
        """The inputs and the identity assignment; ``batch`` stays ``None`` if none was given."""
        check_connectivity(edge_index)
        so = self.select(edge_index=edge_index, num_nodes=num_nodes, batch=batch)
        if so.batch is None:
            so.batch = torch.zeros(so.num_nodes, dtype=torch.long, device=so.cluster_index.device)
        return PoolingOutput(edge_index=edge_index, edge_weight=edge_weight, batch=batch, so=so)
