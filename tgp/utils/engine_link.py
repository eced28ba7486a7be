"""The engine's arrays of a selection, for the connector that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tgp.engine.coarsening import connect_level
from tgp.engine.schedule import LevelSpec
from tgp.ragged import Assignment, BlockCSR
from tgp.utils.blocks import TorchBlock, to_adjacency
from tgp.utils.tracing import opaque

__all__ = ["EngineLink", "connect_by_engine"]


@dataclass(frozen=True, eq=False)
class EngineLink:
    """A level that the engine has selected and can connect.

    A pooler over a method of the engine attaches it to the assignment while its stages run. The stock
    connector then lets the engine connect, so layer, transform and store agree bit for bit. Any other
    connector computes on its own.

    Args:
        source: The graphs, as the engine sees them.
        assignment: The engine's assignment.
        spec: Method and parameters of the level.
        edge_index: The connectivity that ``source`` was made from.
        edge_weight: Its weights.
        stock: Connectors that do what ``spec`` says, with their options when the pooler was made.
    """

    source: TorchBlock
    assignment: Assignment
    spec: LevelSpec
    edge_index: Any
    edge_weight: Tensor | None
    stock: tuple[tuple[nn.Module, dict[str, Any]], ...]

    def fits(self, connector: nn.Module, edge_index: Any, edge_weight: Tensor | None) -> bool:
        """Return True if the engine may stand for this call of a connector."""
        if edge_index is not self.edge_index or edge_weight is not self.edge_weight:
            return False
        if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
            return False
        return any(connector is stock and connector.options() == options for stock, options in self.stock)

    @opaque
    def connect(self, sparse: bool) -> tuple[Any, Tensor | None]:
        """Return the coarse graphs as an edge list in the container of the input, or as dense ``[B, K, K]``."""
        coarse = connect_level(self.source.block, self.assignment, self.spec, self.source.weight_dtype)
        if sparse:
            return to_adjacency(coarse, self.source)
        return self.source.tensor(_dense_blocks(coarse, self.source.weight_dtype)), None


def connect_by_engine(
    connector: nn.Module, so: Any, edge_index: Any, edge_weight: Tensor | None, sparse: bool = True
) -> tuple[Any, Tensor | None] | None:
    """Return the coarse graphs of an assignment of the engine, or ``None`` if the connector has to compute.

    Args:
        connector: The connector that is called.
        so: The assignment.
        edge_index: The connectivity.
        edge_weight: Its weights.
        sparse: Return an edge list; else dense blocks, sources in rows.
    """
    link = getattr(so, "_link", None)
    if not isinstance(link, EngineLink) or not link.fits(connector, edge_index, edge_weight):
        return None
    return link.connect(sparse)


def _dense_blocks(coarse: BlockCSR, dtype: type) -> np.ndarray[Any, Any]:
    graphs = coarse.num_graphs
    k = coarse.num_nodes // graphs if graphs else 0
    dense = np.zeros((graphs, k, k), dtype)
    rows = coarse.rows().astype(np.int64)
    dense[rows // max(k, 1), rows % max(k, 1), coarse.indices % max(k, 1)] = coarse.weights_or_ones()
    return dense
