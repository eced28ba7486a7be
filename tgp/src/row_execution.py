"""Run a padded call on flat rows: the fast path of padded execution for graphs with few edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tgp.connect.dense_conn import DenseConnect
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.base_select import SelectOutput
from tgp.select.mlp_select import MLPSelect
from tgp.src.execution import FlatExecution, PaddedExecution, Pooled
from tgp.src.inputs import PoolInputs
from tgp.utils.layout import SegmentView
from tgp.utils.ops.batching import GraphLayout, is_multi_graph_batch
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj
from tgp.utils.user_code import has_user_code, is_overridden

if TYPE_CHECKING:
    from tgp.src.dense import DenseSRCPooling

__all__ = ["RowExecution"]

EDGE_COST = 3
"""Number of entries of a dense matrix whose product costs as much as that of one edge (measured)."""

_SKIPPED = (
    "select",
    "reduce",
    "connect",
    "preprocessing",
    "compute_loss",
    "compute_sparse_loss",
    "_ensure_batched_inputs",
)
"""Methods that this path does not call."""


class RowExecution(PaddedExecution):
    """Execution with the result of :class:`~tgp.src.execution.PaddedExecution`, computed on flat rows.

    Only the assignment is padded. The network runs on the rows of nodes without padding. No dense adjacency is
    built, except for the cache of ``cache_preprocessing``. :meth:`start` decides if this path may be used.

    Args:
        pooler: The pooler that is called.
        inputs: The checked arguments of the call, with an edge list.
        layout: Positions of the nodes in the padded form.
    """

    def __init__(self, pooler: DenseSRCPooling, inputs: PoolInputs, layout: GraphLayout) -> None:
        FlatExecution.__init__(self, pooler, inputs)  # without padding
        self.layout = layout
        self._extras: Mapping[str, Any] = {}

    @classmethod
    def start(cls, pooler: DenseSRCPooling, inputs: PoolInputs) -> RowExecution | None:
        """Return the execution of a call, or ``None`` if the call has to be padded.

        The stages must be those of the library, without hooks. The graphs must have few edges: with many edges, a
        dense adjacency is faster.
        """
        if (
            inputs.x is None
            or inputs.adj is None
            or is_dense_adj(inputs.adj)
            or not _has_stock_stages(pooler)
        ):
            return None
        index, weight = connectivity_to_edge_index(inputs.adj, inputs.edge_weight)
        x, batch, size = inputs.x, inputs.batch, inputs.batch_size
        layout = GraphLayout(batch, x.size(0), size, max_num_nodes=inputs.max_num_nodes)
        if index.size(1) * EDGE_COST > layout.batch_size * layout.max_count**2:
            return None
        if pooler.cache_preprocessing and not is_multi_graph_batch(batch):
            pooler.preprocessing(x, inputs.adj, inputs.edge_weight, batch, batch_size=size, use_cache=True)
        return cls(pooler, inputs.replace(adj=index, edge_weight=weight), layout)

    def select(self) -> SelectOutput:
        """Return the padded assignment, and build the view on its flat rows."""
        inputs, selector = self.inputs, self.pooler.selector
        assert isinstance(selector, MLPSelect) and inputs.x is not None
        s, self._extras, so = selector.on_rows(inputs.x, self.layout)
        self._view = SegmentView(
            s,
            inputs.adj,
            inputs.edge_weight,
            inputs.batch,
            layout=self.layout,
            padded=so.s,
            checked=inputs.checked,
        )
        return so

    def reduce(self, so: SelectOutput) -> tuple[Tensor, None]:
        """Return the pooled features ``[B, K, F]``."""
        view, x = self.view(so), self.inputs.x
        assert x is not None
        return view.product(view.s, x), None

    def connect(self, so: SelectOutput, batch_pool: Tensor | None) -> Pooled:
        """Return the post-processed ``S^T A S``."""
        raw, connector = self.view(so).coarse().to(so.s.dtype), self.pooler.connector
        assert isinstance(connector, DenseConnect)
        return connector.postprocess(raw.mT if self.pooler.adj_transpose else raw), None

    _dense_attributes = FlatExecution._dense_attributes

    def selected(self, so: SelectOutput) -> Mapping[str, Any]:
        """Return the further results of the selector for the flat rows, by name."""
        return self._extras


def _has_stock_stages(pooler: DenseSRCPooling) -> bool:
    if not isinstance(pooler.selector, MLPSelect) or pooler.cached:
        return False
    if type(pooler.reducer) is not BaseReduce or type(pooler.connector) is not DenseConnect:
        return False
    if not pooler.reducer.is_sum or has_user_code(pooler.selector, pooler.reducer, pooler.connector):
        return False
    return not any(is_overridden(pooler, method) for method in _SKIPPED)
