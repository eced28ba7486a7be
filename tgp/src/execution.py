"""Run the stages of a pooler on one input: sparse, flat or padded.

Every pooler runs the same steps (:meth:`SparseExecution.run`). The executions differ in the form of the data:

- :class:`SparseExecution`: flat inputs and a sparse assignment.
- :class:`FlatExecution`: flat inputs and a dense assignment ``[N, K]``.
- :class:`PaddedExecution`: inputs padded to ``[B, N, ...]`` and a dense assignment ``[B, N, K]``.

Each step calls the public method of the pooler (``select``, ``reduce``, ``connect``, ``compute_loss``), which
calls the stage. Overridden methods, replaced stages and hooks therefore take effect. The one exception is the fast path
:class:`~tgp.src.row_execution.RowExecution`, used only if it does not skip code of the user. A pooler with other
steps defines a subclass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tgp.connect.edge_attributes import (
    attributes_of_edges,
    contract_edge_attributes,
    dense_edge_attributes,
)
from tgp.select.base_select import SelectOutput
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.src.stage_results import checked_assignment, checked_connectivity
from tgp.utils.layout import DenseView, LayoutView, SegmentView
from tgp.utils.ops.adjacency import dense_to_block_diag
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj
from tgp.utils.signature import accepted
from tgp.utils.tracing import on_host
from tgp.utils.user_code import is_overridden

if TYPE_CHECKING:
    from tgp.src.base import SRCPooling
    from tgp.src.dense import DenseSRCPooling

__all__ = ["FlatExecution", "PaddedExecution", "SparseExecution"]

Pooled = tuple[Any, Tensor | None]
"""Pooled connectivity and its weights, or pooled features and their graph ids."""

Losses = dict[str, Tensor] | None
"""Auxiliary losses by name."""


class SparseExecution:
    """Execution of the stages on flat inputs, with a sparse assignment.

    Args:
        pooler: The pooler that is called.
        inputs: The checked arguments of the call.
    """

    def __init__(self, pooler: SRCPooling, inputs: PoolInputs) -> None:
        self.pooler = pooler
        self.inputs = inputs
        self.edge_attr: Tensor | None = None

    def run(self) -> PoolingOutput:
        """Return the pooled graph."""
        so = self.inputs.so if self.pooler._accepts_assignment else None
        if so is None:
            so = self.select()
        x_pool, batch_pool = self.reduce(so)
        adj, weight = self.connect(so, batch_pool)
        output = PoolingOutput(x_pool, adj, weight, batch_pool, so, self.loss(so), self.edge_attr)
        return self.finish(output, so)

    def select(self) -> SelectOutput:
        """Return the assignment."""
        return self._select(self.inputs.x, **self.inputs.extra)

    def _select(self, x: Tensor | None, **extra: Any) -> SelectOutput:
        inputs, select = self.inputs, self.pooler.select
        arguments = accepted(
            select,
            x=x,
            edge_index=inputs.adj,
            edge_weight=inputs.edge_weight,
            batch=inputs.batch,
            num_nodes=inputs.num_nodes,
            batch_size=inputs.batch_size,
            **extra,
        )
        return checked_assignment(self.pooler, select(**arguments))

    def reduce(self, so: SelectOutput) -> tuple[Tensor | None, Tensor | None]:
        """Return the pooled features and the graph ids of the supernodes."""
        inputs = self.inputs
        if inputs.x is not None:
            return self.pooler.reduce(**accepted(self.pooler.reduce, x=inputs.x, so=so, batch=inputs.batch))
        reducer = self.pooler.reducer
        return None, None if reducer is None else reducer.reduce_batch(so, inputs.batch)

    def connect(self, so: SelectOutput, batch_pool: Tensor | None) -> Pooled:
        """Return the pooled connectivity and its weights, and store the attributes of the pooled edges."""
        inputs, attr = self.inputs, self.inputs.edge_attr
        if attr is None:
            return self._connect(so, batch_pool)
        how = inputs.edge_attr_reduce or ("sum" if so.is_dense else "mean")
        pooled = self._connect(so, batch_pool, edge_attr=attr, edge_attr_reduce=how)
        if len(pooled) == 3:
            *pooled, self.edge_attr = pooled
        else:  # code of the user, or a connector without edge attributes
            self.edge_attr = self._attributes_of(pooled[0], so, attr, how)
        return tuple(pooled)

    def _connect(self, so: SelectOutput, batch_pool: Tensor | None, **extra: Any) -> Pooled:
        inputs, connect = self.inputs, self.pooler.connect
        arguments = accepted(
            connect,
            edge_index=inputs.adj,
            so=so,
            edge_weight=inputs.edge_weight,
            batch=inputs.batch,
            batch_pooled=batch_pool,
            batch_size=inputs.batch_size,
            **extra,
        )
        return checked_connectivity(self.pooler, connect(**arguments))

    def _attributes_of(self, pooled: Any, so: SelectOutput, attr: Tensor, how: str) -> Tensor | None:
        """Return the attributes of the edges of any connector."""
        inputs = self.inputs
        if so.is_sparse or how == "none":
            return contract_edge_attributes(inputs.adj, so, pooled, attr, how)
        index, weight = connectivity_to_edge_index(inputs.adj, inputs.edge_weight)
        layout = GraphLayout(inputs.batch, so.s.size(0), inputs.batch_size)
        values = dense_edge_attributes(so.s, index, weight, attr, how, layout=layout, checked=inputs.checked)
        return attributes_of_edges(values, connectivity_to_edge_index(pooled)[0])

    def loss(self, so: SelectOutput) -> Losses:
        """Return the auxiliary losses of a pooler whose ``compute_loss`` is overridden."""
        if not is_overridden(self.pooler, "compute_loss"):
            return None
        inputs = self.inputs
        return self.pooler.compute_loss(
            **accepted(
                self.pooler.compute_loss,
                x=inputs.x,
                adj=inputs.adj,
                edge_weight=inputs.edge_weight,
                so=so,
                batch=inputs.batch,
            )
        )

    def finish(self, output: PoolingOutput, so: SelectOutput) -> PoolingOutput:
        """Return the output in its final form, and remove references that only the stages need."""
        so._link = so._memo = None
        x, weight = self.inputs.x, output.edge_weight
        if self.inputs.edge_weight is None and weight is not None and x is not None and x.is_floating_point():
            output.edge_weight = weight.to(torch.promote_types(weight.dtype, x.dtype))
        return output


class FlatExecution(SparseExecution):
    """Execution of the stages of a dense pooler on flat inputs, with an assignment ``[N, K]``.

    The connector and the losses need the same products ``A S`` and ``S^T A S``. They share one
    :class:`~tgp.utils.layout.LayoutView`, which computes each product once. For this purpose the assignment refers
    to this object while the stages run, and :class:`~tgp.connect.DenseConnect` calls :meth:`shared_product`.
    """

    pooler: DenseSRCPooling

    def __init__(self, pooler: DenseSRCPooling, inputs: PoolInputs) -> None:
        super().__init__(pooler, inputs)
        self._view: LayoutView | None = None
        self._viewed: Tensor | None = None

    def reduce(self, so: SelectOutput) -> tuple[Tensor | None, Tensor | None]:
        """Return the pooled features ``[B, K, F]``, or flat rows for a sparse output."""
        inputs = self.inputs
        if inputs.x is None:
            return super().reduce(so)
        if so.batch_size is None:
            so.batch_size = inputs.batch_size
        batched = {"return_batched": True} if not self.pooler.sparse_output else {}
        return self.pooler.reduce(
            **accepted(self.pooler.reduce, x=inputs.x, so=so, batch=inputs.batch, **batched)
        )

    def connect(self, so: SelectOutput, batch_pool: Tensor | None) -> Pooled:
        """Return the pooled connectivity; the connector may call :meth:`shared_product`."""
        so._memo = self
        return self._connect(so, batch_pool)

    def _dense_attributes(self, so: SelectOutput) -> Tensor | None:
        """Return the edge attributes ``[B, K, K, ...]`` of the supernodes, or ``None`` if there are none."""
        inputs = self.inputs
        if inputs.edge_attr is None:
            return None
        view = self.view(so)
        if isinstance(view, SegmentView):
            return self._channel_products(view.s, view.edge_index, view.edge_weight, view.layout)
        return self._channel_products(so.s, inputs.adj, None, None)

    def _channel_products(
        self, s: Tensor, adj: Tensor, weight: Tensor | None, layout: GraphLayout | None
    ) -> Tensor | None:
        """Return the edge attributes of an edge list with a layout, or of a dense adjacency."""
        inputs, pooler = self.inputs, self.pooler
        how = inputs.edge_attr_reduce or "sum"
        if inputs.edge_attr is None or how == "none":
            return None
        values = dense_edge_attributes(
            s, adj, weight, inputs.edge_attr, how, layout=layout, mask=inputs.mask, checked=inputs.checked
        )
        # A dense result has the orientation of the pooler, which a dense adjacency already has.
        flipped = layout is not None and pooler.adj_transpose and not pooler.sparse_output
        return values.transpose(1, 2) if flipped else values

    def view(self, so: SelectOutput) -> LayoutView:
        """Return the view of the assignment and of the adjacency (sources in rows) that the losses use."""
        if self._view is None:
            inputs, self._viewed = self.inputs, so.s
            if is_dense_adj(inputs.adj):
                adj = inputs.adj.mT if self.pooler.adj_transpose else inputs.adj
                self._view = DenseView(so.s, adj, inputs.mask, clean=True)
            else:
                index, weight = connectivity_to_edge_index(inputs.adj, inputs.edge_weight)
                layout = GraphLayout(
                    inputs.batch, so.s.size(0), inputs.batch_size, max_num_nodes=inputs.max_num_nodes
                )
                self._view = SegmentView(
                    so.s, index, weight, inputs.batch, layout=layout, checked=inputs.checked
                )
        return self._view

    def shared_product(self, so: SelectOutput, adj: Any, edge_weight: Tensor | None) -> Tensor | None:
        """Return ``S^T A S`` without post-processing, or ``None`` if the arguments are not those of this call."""
        if adj is not self.inputs.adj or edge_weight is not self.inputs.edge_weight:
            return None
        view = self.view(so)
        if self._viewed is not so.s:
            return None
        raw = view.coarse().to(so.s.dtype)
        return raw.mT if self.pooler.adj_transpose and isinstance(view, DenseView) else raw

    def loss(self, so: SelectOutput) -> Losses:
        """Return the auxiliary losses.

        An overridden ``compute_loss`` or ``compute_sparse_loss`` is called with the arguments of tgp 1.0.2. The
        losses of the library are formulas over the view.
        """
        pooler = self.pooler
        if is_overridden(pooler, "compute_sparse_loss"):
            return self._call_sparse_loss(so)
        if is_overridden(pooler, "compute_loss"):
            return self._call_loss(so)
        return pooler._losses(self.view(so), self.selected(so))

    def selected(self, so: SelectOutput) -> Mapping[str, Any]:
        """Return the further results of the selector by name, in the layout of the view."""
        return {name: getattr(so, name, None) for name in so._extra_args}

    def _call_sparse_loss(self, so: SelectOutput) -> Losses:
        inputs = self.inputs
        values = {
            "edge_index": inputs.adj,
            "edge_weight": inputs.edge_weight,
            "S": so.s,
            "batch": inputs.batch,
        }
        if is_dense_adj(inputs.adj):
            values.update(_flat_graph(self.view(so)))
        values.update(adj=values["edge_index"], so=so)
        return _call_by_names(self.pooler.compute_sparse_loss, self.pooler._sparse_loss_arguments, values)

    def _call_loss(self, so: SelectOutput) -> Losses:
        view = self.view(so)
        s, mask = view.padded()
        if isinstance(view, DenseView):
            adj = view.adj
        elif isinstance(view, SegmentView):
            inputs = self.inputs
            adj = self.pooler._padded_adjacency(inputs.adj, inputs.edge_weight, view.layout, so.s)
            adj = adj.mT if self.pooler.adj_transpose else adj
        num_nodes = mask.sum()
        values = {
            "adj": adj,
            "S": s,
            "adj_pooled": view.coarse(),
            "mask": mask,
            "num_nodes": int(num_nodes) if on_host(mask) else num_nodes,
            "padded_size": s.size(1),
            "num_supernodes": view.k,
            "so": so,
        }
        return _call_by_names(self.pooler.compute_loss, self.pooler._loss_arguments, values)

    def finish(self, output: PoolingOutput, so: SelectOutput) -> PoolingOutput:
        """Return a dense adjacency in the orientation of the pooler, or edges for a sparse output."""
        pooler = self.pooler
        if pooler.sparse_output:
            if is_dense_adj(output.edge_index):  # the connector has no sparse output
                output.edge_index, output.edge_weight = dense_to_block_diag(output.edge_index)
        elif pooler.adj_transpose and not is_dense_adj(self.inputs.adj):
            output.edge_index = output.edge_index.mT
        output.edge_attr = _at_edges(self._dense_attributes(so), output.edge_index)
        return SparseExecution.finish(self, output, so)


class PaddedExecution(FlatExecution):
    """Execution of the stages of a dense pooler on padded inputs, with an assignment ``[B, N, K]``."""

    def __init__(self, pooler: DenseSRCPooling, inputs: PoolInputs) -> None:
        x, adj, mask = pooler._ensure_batched_inputs(
            **accepted(
                pooler._ensure_batched_inputs,
                x=inputs.x,
                edge_index=inputs.adj,
                edge_weight=inputs.edge_weight,
                batch=inputs.batch,
                mask=inputs.mask,
                batch_size=inputs.batch_size,
                max_num_nodes=inputs.max_num_nodes,
            )
        )
        super().__init__(pooler, inputs.replace(x=x, adj=adj, mask=mask, edge_weight=None, batch=None))
        self._given = inputs

    def select(self) -> SelectOutput:
        """Return the padded assignment, with the order of the nodes for ``so.to_nodes``."""
        inputs, given = self.inputs, self._given
        so = self._select(inputs.x, mask=inputs.mask, **inputs.extra)
        if not is_dense_adj(given.adj) and given.x is not None:
            so._layout = GraphLayout(given.batch, given.x.size(0), inputs.adj.size(0))
            so._layout.max_count = inputs.adj.size(-1)
        return so

    def loss(self, so: SelectOutput) -> Losses:
        """Return the auxiliary losses; see :meth:`FlatExecution.loss`."""
        pooler = self.pooler
        if is_overridden(pooler, "compute_loss"):
            return self._call_loss(so)
        if is_overridden(pooler, "compute_sparse_loss") and "so" not in pooler._sparse_loss_arguments:
            return self._call_sparse_loss(so)
        return pooler._losses(self.view(so), self.selected(so))

    def finish(self, output: PoolingOutput, so: SelectOutput) -> PoolingOutput:
        """Return the output without graph ids, or as one edge list for a sparse output."""
        pooler, mask = self.pooler, None
        output.batch = None
        if pooler.sparse_output and output.x is not None:
            mask = so.out_mask
            adj = output.edge_index.mT if pooler.adj_transpose else output.edge_index
            output.x, output.edge_index, output.edge_weight, output.batch = pooler._finalize_sparse_output(
                output.x, adj, None, None, so
            )
        output.edge_attr = _at_edges(self._dense_attributes(so), output.edge_index, mask)
        return SparseExecution.finish(self, output, so)

    def _dense_attributes(self, so: SelectOutput) -> Tensor | None:
        given, attr = self._given, self.inputs.edge_attr
        if attr is None or is_dense_adj(given.adj):
            values = super()._dense_attributes(so)
            flipped = values is not None and self.pooler.adj_transpose and self.pooler.sparse_output
            return values.transpose(1, 2) if flipped and values is not None else values
        rows = so.to_nodes(so.s)
        index, weight = connectivity_to_edge_index(given.adj, given.edge_weight)
        layout = GraphLayout(given.batch, rows.size(0), self.inputs.adj.size(0))
        return self._channel_products(rows, index, weight, layout)


def _at_edges(values: Tensor | None, adj: Any, valid: Tensor | None = None) -> Tensor | None:
    """Return dense edge attributes at the edges of ``adj``: one row per edge, or a dense array with zeros elsewhere."""
    if values is None:
        return None
    if not is_dense_adj(adj):
        return attributes_of_edges(values, connectivity_to_edge_index(adj)[0], valid)
    present: Tensor = (adj if adj.dim() == 3 else adj.unsqueeze(0)) != 0
    return values * present.view(*present.shape, *[1] * (values.dim() - 3))


def _call_by_names(method: Callable[..., Losses], names: tuple[str, ...], values: dict[str, Any]) -> Losses:
    """Call a method with the named values. The value of a name that ends with ``=`` is passed as a keyword."""
    positional = [values[name] for name in names if not name.endswith("=")]
    return method(*positional, **{name[:-1]: values[name[:-1]] for name in names if name.endswith("=")})


def _flat_graph(view: LayoutView) -> dict[str, Any]:
    """Return padded graphs as one flat graph without padding, by the names of tgp 1.0.2."""
    _, mask = view.padded()
    rows, graph = view.rows()
    edges, real = view.entries(), mask.reshape(-1)
    place = real.long().cumsum(0) - 1
    index = torch.stack([place[edges.source], place[edges.target]])
    return {"edge_index": index, "edge_weight": edges.weight, "S": rows[real], "batch": graph[real]}
