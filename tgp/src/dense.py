"""``DenseSRCPooling``: poolers with a dense assignment, padded or flat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tgp.connect.base_conn import Connect
from tgp.connect.dense_conn import DenseConnect
from tgp.errors import InputError
from tgp.lift.base_lift import Lift
from tgp.reduce.base_reduce import Reduce
from tgp.select.base_select import Select, SelectOutput
from tgp.src._cache import InputKey
from tgp.src._rows import prepare_rows
from tgp.src.base import PoolCall, SRCPooling
from tgp.src.output import PoolingOutput
from tgp.utils.layout import DenseView, LayoutView, SegmentView
from tgp.utils.ops.adjacency import dense_to_block_diag
from tgp.utils.ops.batching import GraphLayout, build_pooled_batch, is_multi_graph_batch
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index, is_dense_adj

__all__ = ["DenseSRCPooling", "LossTerm"]


@dataclass(frozen=True)
class LossTerm:
    """One auxiliary loss, written once for both layouts.

    Args:
        name: key in ``PoolingOutput.loss``.
        formula: ``(view, **options) -> [B]`` values per graph (averaged), or a scalar.
        coeff: attribute of the pooler that holds its coefficient; a coefficient of 0 skips the term.
        options: attributes of the pooler handed to the formula by name.
    """

    name: str
    formula: Callable[..., Tensor]
    coeff: str
    options: tuple[str, ...] = ()

    def value(self, view: LayoutView, pooler: Any) -> Tensor:
        """The weighted loss of this call."""
        coeff = getattr(pooler, self.coeff)
        if not isinstance(coeff, Tensor) and coeff == 0:
            return view.s.new_zeros(())
        return coeff * self.formula(view, **{name: getattr(pooler, name) for name in self.options}).mean()


class DenseSRCPooling(SRCPooling):
    """Base of poolers whose assignment is a dense matrix.

    *Batched*: graphs are padded to ``[B, N, ...]``, the fast way for graphs of similar size. *Unbatched*: one
    flat ``[N, K]``, no padding. Both give the same pooled graphs and losses. The pooled graph is dense
    ``[B, K, K]``, or with ``sparse_output`` one block-diagonal edge list.

    With ``adj_transpose`` dense adjacencies, given or returned, have targets in rows, as
    ``DenseGCNConv`` reads them; edge lists always run from source to target.

    Args:
        selector, reducer, lifter, connector, cached: see :class:`SRCPooling`.
        adj_transpose: see above.
        batched: padded or flat.
        sparse_output: return an edge list.
        cache_preprocessing: keep the padded adjacency of a single graph while it stays the same.
    """

    loss_terms: tuple[LossTerm, ...] = ()

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

    def forward(
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
            adj: any sparse connectivity, or a dense adjacency ``[N, N]`` / ``[B, N, N]``.
            edge_weight: weights of an edge list.
            so: assignment to lift with.
            mask: ``[B, N]`` real nodes of padded input.
            batch: ``[N]`` graph ids, in any order.
            batch_pooled: graph ids of the rows of ``x`` when lifting.
            lifting: bring ``x`` back to nodes instead.
            **kwargs: ``batch_size``, and whatever the selector reads.
        """
        return self.pool(
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

    # -- stages --------------------------------------------------------------------------------

    def prepare(self, call: PoolCall) -> PoolCall:
        """Pad the inputs in batched mode."""
        if not self.batched:
            return super().prepare(call)
        call.so = call.so if self.honours_so else None
        if self.runs_on_rows and prepare_rows(self, call):
            return call
        call.x, call.adj, call.mask = self._ensure_batched_inputs(
            call.x, call.adj, call.edge_weight, call.batch, call.mask, batch_size=call.batch_size
        )
        call.edge_weight = call.batch = None
        return call

    runs_on_rows: bool = False
    """A padded call may run on flat rows, padding the assignment only: every override goes through :meth:`view`."""

    def run_select(self, call: PoolCall) -> SelectOutput:
        """Hand the call to ``select``."""
        if call.layout is not None:
            s, call.row_extras, so = self.selector.on_rows(call.x, call.layout)
            call.view = SegmentView(
                s, call.adj, call.edge_weight, call.batch, layout=call.layout, padded=so.s
            )
            return so
        return self.select(
            x=call.x,
            edge_index=call.adj,
            edge_weight=call.edge_weight,
            mask=call.mask,
            batch=call.batch,
            num_nodes=call.num_nodes,
            batch_size=call.batch_size,
            **call.extra,
        )

    def run_reduce(self, call: PoolCall, so: SelectOutput) -> tuple[Tensor, Tensor | None]:
        """Hand the call to ``reduce``; flat assignments give ``[B, K, F]`` unless the output is sparse."""
        if call.layout is not None:
            return self.view(call, so).product(call.view.s, call.x), None
        if so.batch_size is None:
            so.batch_size = call.batch_size
        return self.reduce(x=call.x, so=so, batch=call.batch, return_batched=not self.sparse_output)

    def run_connect(
        self, call: PoolCall, so: SelectOutput, batch_pool: Tensor | None
    ) -> tuple[Any, Tensor | None]:
        """``S^T A S`` once for the coarse graph and the losses; other connectors are called as they are."""
        if type(self.connector) is not DenseConnect:
            return super().run_connect(call, so, batch_pool)
        raw = self.view(call, so).coarse()
        if isinstance(call.view, DenseView) or call.layout is not None:
            return self.connector.postprocess(raw.mT if self.adj_transpose else raw), None
        return self.connector.finish(raw, Container.of(call.adj), batch_pool)

    def view(self, call: PoolCall, so: SelectOutput) -> LayoutView:
        """Assignment and adjacency (source in rows) of this call, in their layout."""
        if call.view is None:
            if is_dense_adj(call.adj):
                adj = call.adj.mT if self.adj_transpose else call.adj
                call.view = DenseView(so.s, adj, call.mask, clean=True)
            else:
                index, weight = connectivity_to_edge_index(call.adj, call.edge_weight)
                call.view = SegmentView(so.s, index, weight, call.batch, call.batch_size)
        return call.view

    def loss(self, call: PoolCall, so: SelectOutput) -> dict[str, Tensor] | None:
        """The declared loss terms of this call."""
        return self.losses_of(self.view(call, so)) if self.loss_terms else None

    def losses_of(self, view: LayoutView) -> dict[str, Tensor]:
        """The declared loss terms over a layout view."""
        return {term.name: term.value(view, self) for term in self.loss_terms}

    def compute_loss(
        self,
        adj: Tensor,
        S: Tensor,
        adj_pooled: Tensor | None = None,
        mask: Tensor | None = None,
        **kwargs: Any,
    ) -> dict[str, Tensor] | None:
        """Losses from a dense adjacency (source in rows) and a padded assignment.

        Args:
            adj: ``[B, N, N]``.
            S: ``[B, N, K]``.
            adj_pooled: not needed; ``S^T A S`` follows from the others.
            mask: ``[B, N]`` real nodes.
        """
        return self.losses_of(DenseView(S, adj, mask)) if self.loss_terms else None

    def compute_sparse_loss(
        self,
        edge_index: Any,
        edge_weight: Tensor | None,
        S: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> dict[str, Tensor] | None:
        """Losses from sparse connectivity and a flat assignment ``[N, K]``."""
        index, weight = connectivity_to_edge_index(edge_index, edge_weight)
        return self.losses_of(SegmentView(S, index, weight, batch, batch_size)) if self.loss_terms else None

    def finish(self, call: PoolCall, output: PoolingOutput) -> PoolingOutput:
        """Orient dense adjacencies, and flatten the batched mode's output if it is to be sparse."""
        if not self.batched:
            if not self.sparse_output and self.adj_transpose and not is_dense_adj(call.adj):
                output.edge_index = output.edge_index.mT
            return output
        output.batch = None
        if self.sparse_output:
            adj = output.edge_index.mT if self.adj_transpose else output.edge_index
            output.x, output.edge_index, output.edge_weight, output.batch = self._finalize_sparse_output(
                output.x, adj, None, None, output.so
            )
        return output

    # -- padded input and compact output -------------------------------------------------------

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
        """Pad a flat batch: ``(x [B, N, F], adj [B, N, N], mask [B, N])``.

        Parallel edges add up. Graph ids may come in any order; nodes keep theirs inside each graph.

        Args:
            x: ``[N, F]``.
            edge_index: any sparse connectivity.
            edge_weight: its weights.
            batch: ``[N]`` graph ids.
            max_num_nodes: padded size; default that of the largest graph.
            batch_size: number of graphs.
            use_cache: reuse the adjacency of the same input.
        """
        if x.dim() != 2:
            raise InputError(
                f"x must have shape [N, F] with sparse connectivity, got {list(x.shape)}", field="x"
            )
        layout = GraphLayout(batch, x.size(0), batch_size)
        if max_num_nodes is not None:
            if max_num_nodes < layout.max_count:
                raise InputError(
                    f"max_num_nodes must be at least {layout.max_count}, got {max_num_nodes}",
                    field="max_num_nodes",
                )
            layout.max_count = max_num_nodes
        inputs = (edge_index, edge_weight, batch, x.size(0), layout.max_count)
        if use_cache and self.preprocessing_cache is not None and self._preprocessing_key.matches(*inputs):
            adj = self.preprocessing_cache
        else:
            adj = self._padded_adjacency(edge_index, edge_weight, layout, x)
            if use_cache:
                self.preprocessing_cache = adj
                self._preprocessing_key = InputKey(*inputs)
        return layout.pad(x), adj, layout.mask().to(x.device)

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
            graph_start = layout.batch * size
            source, target = layout.slot[source], layout.slot[target] - graph_start[target]
        flat = weight.new_zeros(layout.batch_size * size * size)
        flat.index_add_(0, source * size + target, weight)  # in place: a second array of this size is slow
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
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Padded ``(x, adj, mask)`` of dense or sparse inputs."""
        if edge_index is None:
            raise InputError("edge_index cannot be None when batched=True.", field="edge_index")
        use_cache = self.cache_preprocessing if use_cache is None else use_cache
        use_cache = use_cache and not is_multi_graph_batch(batch)
        if not is_dense_adj(edge_index):
            return self.preprocessing(
                x, edge_index, edge_weight, batch, batch_size=batch_size, use_cache=use_cache
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
        """Flat features, edges and graph ids of the non-empty supernodes of ``[B, K, ...]`` results."""
        graphs, k = adj_pool.shape[:2]
        if batch_pooled is None:
            batch_pooled = build_pooled_batch(graphs, k, adj_pool.device)
        x_pool = x_pool.reshape(graphs * k, -1)
        mask = so.out_mask
        if mask is None:
            return x_pool, *dense_to_block_diag(adj_pool), batch_pooled
        valid = mask.reshape(-1)
        index, weight = dense_to_block_diag(adj_pool * (mask.unsqueeze(1) & mask.unsqueeze(2)))
        compact = valid.long().cumsum(0) - 1
        return x_pool[valid], compact[index], weight, batch_pooled[valid]

    # -- facts ---------------------------------------------------------------------------------

    @property
    def has_loss(self) -> bool:
        """There are loss terms, or the class computes its own."""
        return bool(self.loss_terms) or type(self).compute_loss is not DenseSRCPooling.compute_loss

    def extra_repr_args(self) -> dict[str, Any]:
        """Mode and coefficients."""
        return {
            "batched": self.batched,
            **{term.coeff: getattr(self, term.coeff) for term in self.loss_terms},
        }

    def clear_cache(self) -> None:
        """Forget cached results and the padded adjacency."""
        super().clear_cache()
        self.preprocessing_cache: Tensor | None = None
        self._preprocessing_key = InputKey()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> DenseSRCPooling:
        out = super()._apply(fn, recurse)
        if self.preprocessing_cache is not None:
            self.preprocessing_cache = fn(self.preprocessing_cache)
            self._preprocessing_key = self._preprocessing_key.apply(fn)
        return out
