"""Connector of EigenPool, which uses only the edges between clusters."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.connect.dense_conn import DenseConnect, dense_assignment
from tgp.select.base_select import SelectOutput
from tgp.utils.engine_link import connect_by_engine
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj

__all__ = ["EigenPoolConnect"]


class EigenPoolConnect(DenseConnect):
    r"""Connector :math:`\mathbf{A}' = \mathbf{S}^\top \mathbf{A}_{ext} \mathbf{S}`, where :math:`\mathbf{A}_{ext}` has only
    the edges between different clusters. The diagonal is always zero.

    The cluster of a node is the column with the largest entry in its row of ``S``. The arguments are those of
    :class:`~tgp.connect.DenseConnect`, but ``sparse_output`` always returns an edge list.
    """

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        *,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Tensor | None]:
        """Connect the clusters; see :meth:`~tgp.connect.DenseConnect.forward`."""
        pooled = connect_by_engine(self, so, edge_index, edge_weight, self.sparse_output)
        if pooled is not None:
            return pooled
        kwargs.update(batch=batch, batch_pooled=batch_pooled)
        label = dense_assignment(so).argmax(-1)
        if is_dense_adj(edge_index):
            adj = edge_index.unsqueeze(0) if edge_index.dim() == 2 else edge_index
            label = label.unsqueeze(0) if label.dim() == 1 else label
            between = label.unsqueeze(-1) != label.unsqueeze(-2)
            return super().forward(adj * between, so, **kwargs)
        label = label.squeeze(0) if label.dim() == 2 and label.size(0) == 1 else label
        if label.dim() == 1:
            edge_index, edge_weight = connectivity_to_edge_index(edge_index, edge_weight)
            source, target = edge_index.long()
            between = (label[source] != label[target]).nonzero().squeeze(1)
            edge_index = edge_index[:, between]
            if edge_weight is not None:
                edge_weight = edge_weight[between]
        return super().forward(edge_index, so, edge_weight=edge_weight, **kwargs)
