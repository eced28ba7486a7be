"""Edge lists to compressed rows."""

from __future__ import annotations

import numpy as np


def sort_edges(rows: np.ndarray, cols: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``indptr`` and the stable order that sorts entries by row, then column."""
    order = np.lexsort((cols, rows))
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=num_nodes), out=indptr[1:])
    return indptr, order
