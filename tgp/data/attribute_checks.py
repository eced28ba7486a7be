"""Errors of attributes of graphs that name what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from tgp.errors import DatasetError

__all__ = ["check_edge_shapes", "sparse_error"]


def check_edge_shapes(values: Iterable[Any]) -> None:
    """Check that edges are tensors with two rows.

    Args:
        values: Edges of each graph.

    Raises:
        DatasetError: If one of them has another type or shape.
    """
    for graph, value in enumerate(values):
        if isinstance(value, (list, tuple, np.ndarray)):
            raise DatasetError(
                f"attribute 'edge_index' must be a tensor on graph {graph}, got {type(value).__name__}",
                hint="data.edge_index = torch.as_tensor(data.edge_index)",
            )
        if isinstance(value, Tensor) and (value.dim() != 2 or value.size(0) != 2):
            turned = value.dim() == 2 and value.size(1) == 2
            raise DatasetError(
                f"attribute 'edge_index' must have shape [2, E] on graph {graph}, got {list(value.shape)}",
                hint="transpose it: data.edge_index.t().contiguous()"
                if turned
                else "set two rows of node ids",
            )


def sparse_error(key: str) -> DatasetError:
    """Return the error of a sparse tensor."""
    hint = f"convert it: data.{key} = data.{key}.to_dense()"
    if key == "adj_t":
        hint = "apply ToSparseTensor after the graphs are coarsened: levels need an edge_index"
    return DatasetError(f"attribute {key!r} must be a dense tensor, got a sparse one", hint=hint)
