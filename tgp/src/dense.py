"""``DenseSRCPooling``: the base class of poolers with a dense assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tgp.connect.base_conn import Connect
from tgp.errors import InputError
from tgp.lift.base_lift import Lift
from tgp.reduce.base_reduce import Reduce
from tgp.select.base_select import Select, SelectOutput
from tgp.src.base import SRCPooling
from tgp.src.execution import FlatExecution, PaddedExecution
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.src.result_cache import ResultCache
from tgp.src.row_execution import RowExecution
from tgp.utils.layout import DenseView, LayoutView, SegmentView
from tgp.utils.ops.adjacency import dense_to_block_diag
from tgp.utils.ops.batching import GraphLayout, build_pooled_batch, is_multi_graph_batch
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj

__all__ = ["DenseSRCPooling", "LossTerm"]


@dataclass(frozen=True)
class LossTerm:
    """One auxiliary loss as a formula that works in both layouts.

    Args:
        name: Key in ``PoolingOutput.loss``.
        formula: ``(view, **options) -> [B]`` values per graph (averaged), or a scalar.
        coeff: Name of the attribute of the pooler that holds the coefficient. If it is 0, the term is not computed.
        options: Names of attributes of the pooler that are passed to the formula as keywords.
    """

    name: str
    formula: Callable[..., Tensor]
    coeff: str
    options: tuple[str, ...] = ()

    def value(self, view: LayoutView, pooler: Any) -> Tensor:
        """Return the weighted loss."""
        coeff = getattr(pooler, self.coeff)
        if not isinstance(coeff, Tensor) and coeff == 0:
            return view.s.new_zeros(())
        values = self.formula(view, **{name: getattr(pooler, name) for name in self.options})
        loss: Tensor = coeff * (values.mean() if values.numel() > 0 else values.sum())
        return loss


class DenseSRCPooling(SRCPooling):
    """Base class of poolers whose assignment is a dense matrix.

    The *batched* mode pads the graphs to ``[B, N, ...]``, which is fast for graphs of similar size. The
    *unbatched* mode works on flat ``[N, K]`` assignments without padding. Both give the same pooled graphs and
    losses. The pooled graphs are one dense ``[B, K, K]`` tensor. With ``sparse_output`` they are one
    block-diagonal edge list.

    With ``adj_transpose``, dense adjacencies in arguments and results have targets in rows, as
    ``DenseGCNConv`` expects. Edge lists always have sources in the first row.

    A subclass declares its auxiliary losses in ``_loss_terms``, or overrides :meth:`compute_loss`, which then
    takes effect in both modes.

    Args:
        selector, reducer, lifter, connector, cached: See :class:`SRCPooling`.
        adj_transpose: See above.
        batched: Padded or flat execution.
        sparse_output: Return an edge list.
        cache_preprocessing: Keep the padded adjacency of a single graph while it stays the same.
    """

    _rejects_crossing_edges = True

    _loss_terms: tuple[LossTerm, ...] = ()
    """Auxiliary losses of the pooler."""

    _loss_arguments: tuple[str, ...] = ("adj", "S", "adj_pooled", "mask")
    """Arguments of an overridden :meth:`compute_loss`, as tgp 1.0.2 passes them; ``name=`` is a keyword."""

    _sparse_loss_arguments: tuple[str, ...] = ("edge_index", "edge_weight", "S", "batch")
    """Arguments of an overridden :meth:`compute_sparse_loss`, as tgp 1.0.2 passes them."""

    def __init__(
        self,
        selector: Select | None = None,
        reducer: Reduce | None = None,
        lifter: Lift | None = None,
        connector: Connect | None = None,
        cached: bool = False,
        adj_transpose: bool = False,
        batched: bool = True,
        sparse_output: bool = False,
        cache_preprocessing: bool = False,
    ) -> None:
        super().__init__(selector, reducer, lifter, connector, cached)
        self.adj_transpose = adj_transpose
        self.batched = batched
        self.sparse_output = sparse_output
        self.cache_preprocessing = cache_preprocessing
        self.preprocessing_cache: Tensor | None = None
        self._padding_cache = ResultCache()

    def forward(  # type: ignore[override]  # the order of the arguments is that of tgp 1.0.2
        self,
        x: Tensor | None = None,
        adj: Any = None,
        edge_weight: Tensor | None = None,
        so: SelectOutput | None = None,
        mask: Tensor | None = None,
        batch: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        lifting: bool = False,
        **kwargs: Any,
    ) -> PoolingOutput | Tensor:
        """Pool graphs, or lift pooled features.

        Args:
            x: ``[N, F]`` or padded ``[B, N, F]``; pooled features when lifting.
            adj: Any sparse connectivity, or a dense adjacency ``[N, N]`` / ``[B, N, N]``.
            edge_weight: Weights of an edge list.
            so: Assignment to lift with.
            mask: Mask ``[B, N]`` of the nodes that are not padding.
            batch: Graph ids ``[N]``, in any order.
            batch_pooled: Graph ids of the rows of ``x`` when lifting.
            lifting: Map ``x`` back to nodes instead of pooling.
            **kwargs: ``batch_size`` and ``max_num_nodes`` (with both, the call does not synchronize an
                accelerator), ``validate``, and further keywords of the selector.

        Returns:
            A :class:`PoolingOutput`, or the lifted features.

        Raises:
            InputError: If an argument has a wrong shape, length or type, or ids out of range.
        """
        return self._pool(
            lifting,
            x=x,
            adj=adj,
            edge_weight=edge_weight,
            so=so,
            mask=mask,
            batch=batch,
            batch_pooled=batch_pooled,
            **kwargs,
        )

    def _execution(self, inputs: PoolInputs) -> FlatExecution:
        if not self.batched:
            return FlatExecution(self, inputs)
        return RowExecution.start(self, inputs) or PaddedExecution(self, inputs)

    # -- losses --------------------------------------------------------------------------------

    def _losses(self, view: LayoutView, selected: Mapping[str, Any]) -> dict[str, Tensor] | None:
        """Return the auxiliary losses that ``_loss_terms`` declares.

        Args:
            view: Assignment and adjacency.
            selected: Further results of the selector, by name.
        """
        return {term.name: term.value(view, self) for term in self._loss_terms} if self._loss_terms else None

    def compute_loss(
        self,
        adj: Tensor,
        S: Tensor,
        adj_pooled: Tensor | None = None,
        mask: Tensor | None = None,
        **kwargs: Any,
    ) -> dict[str, Tensor] | None:
        """Return the losses of padded graphs.

        A forward pass calls this method only if a subclass overrides it.

        Args:
            adj: ``[B, N, N]``, sources in rows.
            S: ``[B, N, K]``.
            adj_pooled: ``S^T A S`` without post-processing. The losses of the library compute it from the other arguments.
            mask: Mask ``[B, N]`` of the nodes that are not padding.
        """
        return self._losses(DenseView(S, adj, mask), {})

    def compute_sparse_loss(
        self,
        edge_index: Any,
        edge_weight: Tensor | None,
        S: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> dict[str, Tensor] | None:
        """Return the losses of flat graphs with an assignment ``[N, K]``.

        A forward pass calls this method only if a subclass overrides it.
        """
        index, weight = connectivity_to_edge_index(edge_index, edge_weight)
        return self._losses(SegmentView(S, index, weight, batch, batch_size), {})

    # -- padded input and sparse output -------------------------------------------------------

    def preprocessing(
        self,
        x: Tensor,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        max_num_nodes: int | None = None,
        batch_size: int | None = None,
        use_cache: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Pad a flat batch.

        Weights of parallel edges are summed. Graph ids may have any order; the order of the nodes inside each graph
        is kept.

        Args:
            x: ``[N, F]``.
            edge_index: Any sparse connectivity.
            edge_weight: Weights of the edges.
            batch: Graph ids ``[N]``.
            max_num_nodes: Padded size; default is the size of the largest graph.
            batch_size: Number of graphs.
            use_cache: Reuse the adjacency of an earlier call with the same graph.

        Returns:
            ``(x [B, N, F], adj [B, N, N], mask [B, N])``.

        Raises:
            InputError: If ``x`` is not a matrix.
        """
        if x.dim() != 2:
            raise InputError(
                f"x must have shape [N, F] with sparse connectivity, got {list(x.shape)}.", field="x"
            )
        layout = GraphLayout(batch, x.size(0), batch_size, max_num_nodes=max_num_nodes)
        if not use_cache:
            adj = self._padded_adjacency(edge_index, edge_weight, layout, x)
            return layout.pad(x), adj, layout.mask().to(x.device)
        inputs = (edge_index, edge_weight, batch, x.size(0), x.dtype, layout.max_count)
        cached: Tensor | None = self._padding_cache.find(*inputs)
        if cached is None:
            cached = self._padded_adjacency(edge_index, edge_weight, layout, x)
            self._padding_cache.keep(cached, (cached,), *inputs)
        self.preprocessing_cache = cached
        return layout.pad(x), cached, layout.mask().to(x.device)

    def _padded_adjacency(
        self, edge_index: Any, edge_weight: Tensor | None, layout: GraphLayout, x: Tensor
    ) -> Tensor:
        index, weight = connectivity_to_edge_index(edge_index, edge_weight)
        size = layout.max_count
        if weight is None:
            weight = torch.ones(
                index.size(1), dtype=x.dtype if x.is_floating_point() else None, device=x.device
            )
        source, target = index.flip(0) if self.adj_transpose else index
        if not layout.single:
            assert layout.batch is not None
            graph_start = layout.batch * size
            source, target = layout.slot[source], layout.slot[target] - graph_start[target]
        flat = weight.new_zeros(layout.batch_size * size * size)
        # In place, because index_add would allocate a second tensor of this size.
        flat = flat.index_add_(0, source * size + target, weight)
        return flat.view(layout.batch_size, size, size)

    def _ensure_batched_inputs(
        self,
        x: Tensor,
        edge_index: Any,
        edge_weight: Tensor | None,
        batch: Tensor | None,
        mask: Tensor | None,
        use_cache: bool | None = None,
        batch_size: int | None = None,
        max_num_nodes: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return padded ``(x, adj, mask)`` for dense or sparse inputs."""
        if edge_index is None:
            raise InputError("edge_index cannot be None when batched=True.", field="edge_index")
        use_cache = self.cache_preprocessing if use_cache is None else use_cache
        use_cache = use_cache and not is_multi_graph_batch(batch)
        if not is_dense_adj(edge_index):
            return self.preprocessing(
                x,
                edge_index,
                edge_weight=edge_weight,
                batch=batch,
                batch_size=batch_size,
                max_num_nodes=max_num_nodes,
                use_cache=use_cache,
            )
        x = x.unsqueeze(0) if x.dim() == 2 else x
        adj = edge_index.unsqueeze(0) if edge_index.dim() == 2 else edge_index
        adj = adj if adj.is_floating_point() else adj.to(x.dtype)
        if mask is None:
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        if use_cache:
            self.preprocessing_cache = adj
        return x, adj, (mask.unsqueeze(0) if mask.dim() == 1 else mask).bool()

    def _finalize_sparse_output(
        self,
        x_pool: Tensor,
        adj_pool: Tensor,
        batch: Tensor | None,
        batch_pooled: Tensor | None,
        so: SelectOutput,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return flat features, edges and graph ids of the non-empty supernodes of ``[B, K, ...]`` results."""
        graphs, k = adj_pool.shape[:2]
        if batch_pooled is None:
            batch_pooled = build_pooled_batch(graphs, k, adj_pool.device)
        x_pool = x_pool.flatten(0, 1)
        mask = so.out_mask
        if mask is None:
            return x_pool, *dense_to_block_diag(adj_pool), batch_pooled
        valid = mask.reshape(-1)
        index, weight = dense_to_block_diag(adj_pool * (mask.unsqueeze(1) & mask.unsqueeze(2)))
        compact = valid.long().cumsum(0) - 1
        return x_pool[valid], compact[index], weight, batch_pooled[valid]

    # -- properties ---------------------------------------------------------------------------------

    @property
    def has_loss(self) -> bool:
        """True if the class declares loss terms or overrides ``compute_loss``."""
        return bool(self._loss_terms) or type(self).compute_loss is not DenseSRCPooling.compute_loss

    def extra_repr_args(self) -> dict[str, Any]:
        """Return the mode and the coefficients of the losses."""
        return {
            "batched": self.batched,
            **{term.coeff: getattr(self, term.coeff) for term in self._loss_terms},
        }

    def clear_cache(self) -> None:
        """Remove cached results and the padded adjacency."""
        super().clear_cache()
        self._padding_cache.clear()
        self.preprocessing_cache = None
