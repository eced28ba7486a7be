"""Pre-coarsening: coarse levels that depend on the graph alone, computed before training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from tgp.select.base_select import SelectOutput
from tgp.src.output import PoolingOutput
from tgp.utils.checks import check_levels
from tgp.utils.ops.adjacency import dense_to_block_diag
from tgp.utils.ops.connectivity import check_connectivity, is_dense_adj
from tgp.utils.signature import accepted
from tgp.utils.user_code import is_overridden

if TYPE_CHECKING:
    from tgp.src.base import SRCPooling as _Pooler
else:
    _Pooler = object

__all__ = [
    "BasePrecoarseningMixin",
    "Precoarsenable",
    "require_stage",
    "run_levels",
]

Stage = TypeVar("Stage", bound=nn.Module)


def require_stage(stage: Stage | None, name: str) -> Stage:
    """Return a stage of a pooler.

    Raises:
        NotImplementedError: If the pooler does not have it.
    """
    if stage is None:
        raise NotImplementedError(f"this pooler has no {name}")
    return stage


class Precoarsenable:
    """Interface of poolers that can compute coarse levels before training."""

    def precoarsening(self, **kwargs: Any) -> PoolingOutput:
        """Return one level: the assignment and the coarse graph, without features."""
        raise NotImplementedError(f"{type(self).__name__} must implement precoarsening")

    def multi_level_precoarsening(
        self,
        levels: int,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        level: int = 0,
        **kwargs: Any,
    ) -> list[PoolingOutput]:
        """Return several levels. Each is computed on the coarse graph of the previous level.

        Args:
            levels: Number of levels.
            edge_index: Connectivity of the finest graph.
            edge_weight: Weights of the edges.
            batch: ``[N]`` graph ids.
            num_nodes: ``N``.
            level: Position of the first level in a longer schedule.
            **kwargs: Passed to :meth:`precoarsening` if it accepts them.

        Returns:
            One output per level.
        """
        check_levels(levels)
        clear = getattr(self, "clear_cache", lambda: None)
        outputs: list[PoolingOutput] = []
        for step in range(levels):
            clear()
            if step:
                data = outputs[-1].as_data()
                edge_index, edge_weight = data.edge_index, getattr(data, "edge_weight", None)
                batch, num_nodes = getattr(data, "batch", None), data.num_nodes
            outputs.append(
                self.precoarsening(
                    **accepted(
                        self.precoarsening,
                        edge_index=edge_index,
                        edge_weight=edge_weight,
                        batch=batch,
                        num_nodes=num_nodes,
                        level=level + step,
                        **kwargs,
                    )
                )
            )
        clear()
        return outputs


def run_levels(pooler: Any, levels: int, **inputs: Any) -> list[PoolingOutput]:
    """Run the pre-coarsening of any pooler.

    Args:
        pooler: An object with ``multi_level_precoarsening`` or ``precoarsening``; it needs no base class.
        levels: Number of levels.
        **inputs: Arguments of :meth:`Precoarsenable.multi_level_precoarsening`. Those that the pooler does not
            accept are ignored.

    Returns:
        One output per level.
    """
    if hasattr(pooler, "multi_level_precoarsening"):
        return list(
            pooler.multi_level_precoarsening(
                **accepted(pooler.multi_level_precoarsening, levels=levels, **inputs)
            )
        )
    return Precoarsenable.multi_level_precoarsening(pooler, levels, **inputs)


class BasePrecoarseningMixin(Precoarsenable, _Pooler):
    """Pre-coarsening through the pooler's own ``select`` and ``connect``.

    A class that inherits from it also inherits from :class:`~tgp.src.base.SRCPooling`. If the pooler has a
    ``preconnector`` (a dense pooler has one with sparse output), it replaces the connector, unless ``connect``
    is overridden.
    """

    def precoarsening(
        self,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        **kwargs: Any,
    ) -> PoolingOutput:
        """Return one level.

        Args:
            edge_index: Connectivity.
            edge_weight: Weights of the edges.
            batch: ``[N]`` graph ids; one graph if ``None``.
            num_nodes: ``N``.
            **kwargs: Passed to selector and connector (``level``: position in a schedule).
        """
        check_connectivity(edge_index, "precoarsening")
        if getattr(self, "preconnector", None) is not None:
            kwargs.setdefault(
                "fixed_k", True
            )  # small and large graphs of a batch need assignments of equal width
        so = self.select(
            **accepted(
                self.select,
                edge_index=edge_index,
                edge_weight=edge_weight,
                batch=batch,
                num_nodes=num_nodes,
                **kwargs,
            )
        )
        return self._precoarsening_from_select_output(
            **accepted(
                self._precoarsening_from_select_output,
                so=so,
                edge_index=edge_index,
                edge_weight=edge_weight,
                batch=batch,
                **kwargs,
            )
        )

    def _precoarsening_from_select_output(
        self,
        so: SelectOutput,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        **kwargs: Any,
    ) -> PoolingOutput:
        """Return the level of a given assignment, and set ``so.batch``."""
        if batch is None:
            batch = so.batch
        if batch is None:
            device = edge_index.device if isinstance(edge_index, Tensor) else edge_index.device()
            batch = torch.zeros(so.num_nodes, dtype=torch.long, device=device)
        so.batch = batch
        batch_pooled = require_stage(self.reducer, "reducer").reduce_batch(so, batch)
        preconnector = getattr(self, "preconnector", None)
        connect: Callable[..., Any] = self.connect
        if not is_overridden(self, "connect"):
            connect = preconnector or require_stage(self.connector, "connector")
        adj, weight = connect(
            **accepted(
                connect,
                edge_index=edge_index,
                so=so,
                edge_weight=edge_weight,
                batch=batch,
                batch_pooled=batch_pooled,
                **kwargs,
            )
        )
        if preconnector is not None and is_dense_adj(adj):  # the result of an overridden ``connect``
            adj, weight = dense_to_block_diag(adj)
        so._link = None  # the arrays of the engine are no longer needed
        return PoolingOutput(edge_index=adj, edge_weight=weight, batch=batch_pooled, so=so)
