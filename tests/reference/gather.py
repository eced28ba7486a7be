"""A batch of rows, graph by graph and value by value."""

import numpy as np

__all__ = ["gather_rows", "shift_ids"]


def gather_rows(arrays, ptrs, bounds, ids, axis=0):
    """Rows of each graph of ``ids``, out of one array and one set of offsets (or ``None``) per shard."""
    pieces = []
    for graph in ids:
        unit = next(u for u in range(len(arrays)) if bounds[u] <= graph < bounds[u + 1])
        row = graph - bounds[unit]
        low, high = (row, row + 1) if ptrs[unit] is None else (int(ptrs[unit][row]), int(ptrs[unit][row + 1]))
        pieces.append(arrays[unit][low:high] if axis == 0 else arrays[unit][..., low:high])
    return np.concatenate(pieces, axis=axis), np.cumsum([0, *(p.shape[axis] for p in pieces)])


def shift_ids(local, ptr, target):
    """Ids of each graph moved behind those of the graphs before; -1 stays."""
    out = local.astype(np.int64)
    for graph in range(len(ptr) - 1):
        part = out[..., ptr[graph] : ptr[graph + 1]]
        part[part >= 0] += target[graph]
    return out
