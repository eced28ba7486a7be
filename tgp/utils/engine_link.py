"""Link from an assignment to the arrays of the engine, which the connector can use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tgp.engine.coarsening import connect_level
from tgp.engine.schedule import LevelSpec
from tgp.ragged import Assignment, BlockCSR
from tgp.utils.blocks import TorchBlock, to_adjacency
from tgp.utils.operator import Operator
from tgp.utils.tracing import opaque

__all__ = ["EngineLink", "connect_by_engine"]


@dataclass(frozen=True, eq=False)
class EngineLink:
    """Level whose assignment the engine has computed and which it can also connect.

    A pooler that runs a level method attaches the link to its assignment while the stages run. The connector of
    the library then calls the engine, so that layer, transform and store agree bit for bit. Any other connector
    computes the coarse graph itself.

    Args:
        source: The graphs as arrays.
        assignment: Assignment of the engine.
        spec: Method and parameters of the level.
        edge_index: Connectivity from which ``source`` was built.
        edge_weight: Weights of the edges.
        stock: Connectors that the engine may replace, with the options that they had when the pooler was built.
    """

    source: TorchBlock
    assignment: Assignment
    spec: LevelSpec
    edge_index: Any
    edge_weight: Tensor | None
    stock: tuple[tuple[Operator, dict[str, Any]], ...]

    def fits(self, connector: Operator, edge_index: Any, edge_weight: Tensor | None) -> bool:
        """Return True if the engine may replace this call of a connector."""
        if edge_index is not self.edge_index or edge_weight is not self.edge_weight:
            return False
        if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
            return False
        return any(connector is stock and connector.options() == options for stock, options in self.stock)

    @opaque
    def connect(self, sparse: bool) -> tuple[Any, Tensor | None]:
        """Return the coarse graphs in the container of the input, or as a dense ``[B, K, K]`` tensor."""
        block = replace(self.source.block, attributes=None)  # the model reduces features
        coarse = connect_level(block, self.assignment, self.spec, self.source.weight_dtype)
        if sparse:
            return to_adjacency(coarse, self.source)
        return self.source.tensor(_dense_blocks(coarse, self.source.weight_dtype)), None


def connect_by_engine(
    connector: Operator, so: Any, edge_index: Any, edge_weight: Tensor | None, sparse: bool = True
) -> tuple[Any, Tensor | None] | None:
    """Return the coarse graphs of an assignment of the engine, or ``None`` if the connector must compute them.

    Args:
        connector: Connector that is called.
        so: Assignment.
        edge_index: Connectivity.
        edge_weight: Weights of the edges.
        sparse: Return the container of the input; otherwise dense blocks with sources in rows.
    """
    link = getattr(so, "_link", None)
    if not isinstance(link, EngineLink) or not link.fits(connector, edge_index, edge_weight):
        return None
    return link.connect(sparse)


def _dense_blocks(coarse: BlockCSR, dtype: type) -> npt.NDArray[Any]:
    graphs = coarse.num_graphs
    k = coarse.num_nodes // graphs if graphs else 0
    dense: npt.NDArray[Any] = np.zeros((graphs, k, k), dtype)
    rows = coarse.rows().astype(np.int64)
    dense[rows // max(k, 1), rows % max(k, 1), coarse.indices % max(k, 1)] = coarse.weights_or_ones()
    return dense
