"""Selection of the nodes with the highest scores (top-k)."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.resolver import activation_resolver

from tgp.errors import InputError
from tgp.select._sparse_entries import AssignmentError, check_inverse_op
from tgp.select.base_select import Select, SelectOutput
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.precision import widen
from tgp.utils.tracing import on_host
from tgp.utils.typing import SinvType

__all__ = ["TopkSelect", "keep_above", "keep_top", "softmax_by_graph"]

_LINEAR = (None, "linear", "identity", "none")
_MANY_NODES, _MOST_PADDING = 512, 4
"""Scores are sorted as rows of a padded matrix if there are at least this many nodes, and the matrix has at most this
many elements per node."""


def keep_top(score: Tensor, ratio: float, layout: GraphLayout) -> Tensor:
    """Return the nodes with the highest scores, graph by graph, best first. Among equal scores the smaller id wins.

    Args:
        score: ``[N]`` scores.
        ratio: share of the nodes of each graph (a float up to 1, rounded up), or a number of nodes per graph.
        layout: graphs of the nodes.
    """
    score = score.detach()
    kept = _numbers_to_keep(layout.counts, ratio, score.dtype)
    batch = layout.batch
    if batch is None or layout.single:
        return score.sort(descending=True, stable=True).indices[: int(kept[0])]
    counts = layout.counts
    start = counts.cumsum(0) - counts
    if score.is_floating_point() and _sorts_as_rows(layout):
        width = layout.max_count
        slot = torch.arange(layout.num_nodes) + (torch.arange(layout.batch_size) * width - start)[batch]
        rows = score.new_full((layout.batch_size * width,), -math.inf).index_copy_(0, slot, score)
        order = rows.view(-1, width).sort(dim=1, descending=True, stable=True).indices + start.unsqueeze(1)
        return order[torch.arange(width) < kept.unsqueeze(1)]
    order = score.sort(descending=True, stable=True).indices
    by_graph = batch[order].sort(stable=True)
    order, batch = order[by_graph.indices], by_graph.values
    rank = torch.arange(order.numel(), device=order.device) - start[batch]
    return order[rank < kept[batch]]


def _numbers_to_keep(counts: Tensor, ratio: float, dtype: torch.dtype) -> Tensor:
    """Return the number of nodes to keep of each graph.

    Args:
        counts: number of nodes of each graph.
        ratio: see :func:`keep_top`.
        dtype: type of the scores.
    """
    if isinstance(ratio, float) and 0 <= ratio <= 1:
        # Multiply in float32 unless the scores are float64: in float64, 0.1 * 30 is 3.0000000000000004 and would keep
        # 4 nodes. Half precision cannot represent the sizes of large graphs.
        dtype = torch.float64 if dtype is torch.float64 else torch.float32
        return (counts.to(dtype) * ratio).ceil().long()
    return counts.clamp(max=int(ratio))


def _sorts_as_rows(layout: GraphLayout) -> bool:
    """Return True if the nodes are grouped by graph and the graphs have similar sizes."""
    batch = layout.batch
    if batch is None or layout.num_nodes < _MANY_NODES or not on_host(batch):
        return False
    if layout.max_count * layout.batch_size > _MOST_PADDING * layout.num_nodes:
        return False
    return bool((batch[1:] >= batch[:-1]).all())


def keep_above(score: Tensor, min_score: float, layout: GraphLayout) -> Tensor:
    """Return the nodes with scores above ``min_score``, ascending. The best node of each graph is always kept.

    Args:
        score: ``[N]`` scores.
        min_score: threshold.
        layout: graphs of the nodes.
    """
    if layout.batch is None:
        top = score.max() if score.numel() > 0 else score.new_zeros(())
    else:
        top = score.new_full((layout.batch_size,), -math.inf)
        top = top.scatter_reduce(0, layout.batch, score, "amax")[layout.batch]
    return (score > (top - 1e-7).clamp(max=min_score)).nonzero().squeeze(1)


def softmax_by_graph(score: Tensor, layout: GraphLayout) -> Tensor:
    """Return the softmax of the scores over the nodes of each graph.

    Args:
        score: ``[N]`` scores.
        layout: graphs of the nodes.
    """
    if layout.batch is None:
        return score.softmax(0)
    batch = layout.batch
    top = score.new_full((layout.batch_size,), -math.inf).scatter_reduce(0, batch, score.detach(), "amax")
    exp = (score - top[batch]).exp()
    return exp / (layout.sum(exp)[batch] + 1e-16)


def _ordered(kept: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the kept nodes in ascending order, their positions in ``kept``, and the inverse permutation."""
    position = torch.arange(kept.numel(), device=kept.device)
    if not on_host(kept):
        nodes, rank = kept.sort()
        return nodes, rank, torch.empty_like(rank).index_copy_(0, rank, position)
    rank_of = torch.full((num_nodes,), -1, device=kept.device).scatter_(0, kept, position)
    nodes = (rank_of >= 0).nonzero().squeeze(1)  # faster than a sort
    rank = rank_of.index_select(0, nodes)
    return nodes, rank, torch.empty_like(rank).scatter_(0, rank, position)


def check_channels(x: Tensor, in_channels: int) -> None:
    """Check that features have as many columns as a projection. One column would be repeated silently.

    Args:
        x: ``[N, F]`` features.
        in_channels: Number of columns of the projection.

    Raises:
        InputError: If they have another number of columns.
    """
    if x.size(-1) != in_channels:
        raise InputError(
            f"x must have in_channels={in_channels} features per node, got {list(x.shape)}", field="x"
        )


def _check_number(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, (numbers.Real, Tensor)):
        raise InputError(f"{name} must be a number, got {value!r} ({type(value).__name__})", field=name)


class TopkSelect(Select):
    r"""Selector that keeps the nodes with the highest scores of each graph. The scores are the weights of the entries.

    With a projection :math:`\mathbf{p}` the scores are :math:`\mathbf{s} = \sigma(\mathbf{X}\mathbf{p} / \|\mathbf{p}\|)`.
    Without a projection the input is :math:`\mathbf{X}\mathbf{p} / \|\mathbf{p}\|` itself. Supernodes are numbered by
    rank, graph by graph. Scores of half-precision features are computed in float32.

    With ``batch_size`` given, a call synchronizes an accelerator once, to read the number of kept nodes.

    Args:
        in_channels: feature size; ``None`` or 1 for no projection.
        ratio: share of nodes to keep (a float up to 1, so ``1.0`` keeps all), or a number of nodes per graph.
        min_score: keep the nodes whose softmax score is above this value, at least one per graph, instead of a share.
        act: activation :math:`\sigma` of the scores. Not used with ``min_score``.
        s_inv_op: ``transpose`` or ``inverse``.

    Raises:
        InputError: if ``ratio`` is negative, or if ``ratio`` and ``min_score`` are both ``None``.
    """

    weight: nn.Parameter | None

    def __init__(
        self,
        in_channels: int | None = None,
        ratio: float | int | None = 0.5,
        min_score: float | None = None,
        act: str | Callable[[Tensor], Tensor] | None = "tanh",
        s_inv_op: SinvType = "transpose",
    ) -> None:
        super().__init__()
        if ratio is None and min_score is None:
            raise InputError(
                "At least one of the 'ratio' and 'min_score' parameters must be specified in 'TopkSelect': expected a "
                "number, got None for both",
                field="ratio",
            )
        _check_number("ratio", ratio)
        _check_number("min_score", min_score)
        _check_number("in_channels", in_channels)
        if ratio is not None and ratio < 0:
            raise InputError(f"ratio must not be negative, got {ratio}", field="ratio")
        check_inverse_op(s_inv_op)
        self.in_channels = in_channels
        self.ratio = ratio
        self.min_score = min_score
        self.s_inv_op = s_inv_op
        self.act = nn.Identity() if act in _LINEAR else activation_resolver(act)
        if in_channels is not None and in_channels > 1:
            self.weight = nn.Parameter(torch.empty(1, in_channels))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the projection."""
        if self.weight is not None:
            bound = 1.0 / math.sqrt(self.weight.size(1))
            nn.init.uniform_(self.weight, -bound, bound)

    def scores(self, x: Tensor, layout: GraphLayout) -> Tensor:
        """Return the ``[N]`` scores of the nodes, in float32 or wider for floating-point features.

        Args:
            x: ``[N, F]`` features, or ``[N]`` / ``[N, 1]`` without a projection.
            layout: graphs of the nodes.
        """
        if self.weight is None:
            if x.dim() > 2 or (x.dim() == 2 and x.size(1) != 1):
                raise AssignmentError(
                    f"x must be 1D when in_channels is None: expected one score per node, got {list(x.shape)}",
                    field="x",
                )
            score = widen(x.reshape(-1))
        else:
            x = widen(x.unsqueeze(-1) if x.dim() == 1 else x)
            check_channels(x, self.weight.size(1))
            weight = self.weight.to(x.dtype) if x.is_floating_point() else self.weight
            score = (x * weight).sum(-1)
            if self.min_score is None:
                score = score / weight.norm(p=2)
        if self.min_score is not None:
            return softmax_by_graph(score, layout)
        activated: Tensor = self.act(score)
        return activated

    def forward(  # type: ignore[override]
        self, x: Tensor, *, batch: Tensor | None = None, batch_size: int | None = None, **kwargs: Any
    ) -> SelectOutput:
        """Score the nodes and select the best of each graph.

        Args:
            x: ``[N, F]`` features, or ``[N]`` / ``[N, 1]`` scores without a projection.
            batch: ``[N]`` graph ids, in any order.
            batch_size: number of graphs.
            **kwargs: ignored.
        """
        layout = GraphLayout(batch, x.size(0), batch_size)
        score = self.scores(x, layout)
        if self.min_score is not None:
            kept = keep_above(score, self.min_score, layout)
        else:
            assert self.ratio is not None  # the constructor checks that one of the two is given
            kept = keep_top(score, self.ratio, layout)
        nodes, rank, entry = _ordered(kept, x.size(0))
        weight = score.index_select(0, nodes)
        so = SelectOutput.hard(
            rank,
            kept.numel(),
            node_index=nodes,
            num_nodes=x.size(0),
            weight=weight.to(x.dtype) if x.is_floating_point() else weight,
            s_inv_op=self.s_inv_op,
            batch=batch,
            batch_size=batch_size,
        )
        so._single = (kept, entry)
        return so
