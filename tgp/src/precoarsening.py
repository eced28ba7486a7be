"""Poolers whose hierarchy depends on the graph alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.src.output import PoolingOutput

__all__ = ["BasePrecoarseningMixin", "Precoarsenable"]


class Precoarsenable:
    """Interface: one coarse level, or several, before training."""

    def precoarsening(self, **kwargs: Any) -> PoolingOutput:
        """One level: the assignment and the coarse graph, without features."""
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
        """Several levels, each on the coarse graph of the one before.

        Args:
            levels: how many.
            edge_index: connectivity of the finest graph.
            edge_weight: its weights.
            batch: ``[N]`` graph ids.
            num_nodes: ``N``.
            level: place of the first of them in a longer schedule.
            **kwargs: handed to every :meth:`precoarsening`.
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
                    edge_index=edge_index,
                    edge_weight=edge_weight,
                    batch=batch,
                    num_nodes=num_nodes,
                    level=level + step,
                    **kwargs,
                )
            )
        clear()
        return outputs


class BasePrecoarseningMixin(Precoarsenable):
    """Pre-coarsening through the pooler's own ``select`` and ``connector``.

    A pooler may have a ``preconnector`` for this purpose (a dense pooler one with sparse output).
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
        """One level.

        Args:
            edge_index: connectivity.
            edge_weight: its weights.
            batch: ``[N]`` graph ids; one graph if absent.
            num_nodes: ``N``.
            **kwargs: handed to selector and connector (``level``: place in a schedule).
        """
        check_connectivity(edge_index)
        so = self.select(
            edge_index=edge_index, edge_weight=edge_weight, batch=batch, num_nodes=num_nodes, **kwargs
        )
        return self._precoarsening_from_select_output(so, edge_index, edge_weight, batch=batch, **kwargs)

    def _precoarsening_from_select_output(
        self,
        so: SelectOutput,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        **kwargs: Any,
    ) -> PoolingOutput:
        """The level of a ready-made assignment; ``so.batch`` is set on every level."""
        if batch is None:
            batch = so.batch
        if batch is None:
            device = edge_index.device if isinstance(edge_index, Tensor) else edge_index.device()
            batch = torch.zeros(so.num_nodes, dtype=torch.long, device=device)
        so.batch = batch
        batch_pooled = self.reducer.reduce_batch(so, batch)
        connector = getattr(self, "preconnector", None) or self.connector
        adj, weight = connector(
            edge_index=edge_index,
            so=so,
            edge_weight=edge_weight,
            batch=batch,
            batch_pooled=batch_pooled,
            **kwargs,
        )
        return PoolingOutput(edge_index=adj, edge_weight=weight, batch=batch_pooled, so=so)


def check_levels(levels: int) -> None:
    """``levels`` must be at least one."""
    if levels < 1:
        raise InputError(f"'levels' must be >= 1, got {levels}", field="levels")


def check_connectivity(edge_index: Any) -> None:
    """Pre-coarsening reads the topology, so there must be one."""
    if edge_index is None:
        raise InputError("edge_index cannot be None: pre-coarsening reads the topology", field="edge_index")
