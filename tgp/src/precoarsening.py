"""Pre-coarsening: coarse levels that depend on the graph alone, computed before training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.src.output import PoolingOutput
from tgp.utils.ops.adjacency import dense_to_block_diag
from tgp.utils.ops.connectivity import is_dense_adj
from tgp.utils.signature import accepted
from tgp.utils.user_code import is_overridden

__all__ = ["BasePrecoarseningMixin", "Precoarsenable", "run_levels"]


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
        """Return several levels, each computed on the coarse graph of the one before.

        Args:
            levels: Number of levels.
            edge_index: Connectivity of the finest graph.
            edge_weight: Its weights.
            batch: ``[N]`` graph ids.
            num_nodes: ``N``.
            level: Position of the first of them in a longer schedule.
            **kwargs: Passed to every :meth:`precoarsening` that accepts them.
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
        **inputs: Arguments of :meth:`Precoarsenable.multi_level_precoarsening`; what the pooler does not accept is
            left out.

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


class BasePrecoarseningMixin(Precoarsenable):
    """Pre-coarsening through the pooler's own ``select`` and ``connect``.

    A pooler may have a ``preconnector`` for this purpose (a dense pooler one with sparse output); it is used unless
    ``connect`` is overridden.
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
            edge_weight: Its weights.
            batch: ``[N]`` graph ids; one graph if absent.
            num_nodes: ``N``.
            **kwargs: Passed to selector and connector (``level``: position in a schedule).
        """
        check_connectivity(edge_index)
        if getattr(self, "preconnector", None) is not None:
            kwargs.setdefault("fixed_k", True)  # levels of small graphs are joined with those of large ones
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
        """Return the level of a given assignment; ``so.batch`` is set on every level."""
        if batch is None:
            batch = so.batch
        if batch is None:
            device = edge_index.device if isinstance(edge_index, Tensor) else edge_index.device()
            batch = torch.zeros(so.num_nodes, dtype=torch.long, device=device)
        so.batch = batch
        batch_pooled = self.reducer.reduce_batch(so, batch)
        preconnector = getattr(self, "preconnector", None)
        connect = self.connect if is_overridden(self, "connect") else preconnector or self.connector
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
        if preconnector is not None and is_dense_adj(adj):  # by ``connect`` of the user
            adj, weight = dense_to_block_diag(adj)
        so._link = None  # the arrays of the engine are no longer needed
        return PoolingOutput(edge_index=adj, edge_weight=weight, batch=batch_pooled, so=so)


def check_levels(levels: int) -> None:
    """Check that the number of levels is at least one."""
    if levels < 1:
        raise InputError(f"'levels' must be >= 1, got {levels}", field="levels")


def check_connectivity(edge_index: Any) -> None:
    """Check that a connectivity is given: pre-coarsening reads nothing else."""
    if edge_index is None:
        raise InputError(
            "edge_index cannot be None for precoarsening: it reads the topology", field="edge_index"
        )
