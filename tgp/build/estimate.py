"""What a store and a run will take, before anything is computed."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from tgp.engine.plan import Plan
from tgp.ragged import GraphTable

__all__ = ["attribute_bytes", "peak_memory", "stored_bytes"]

COMPRESSED = 1 / 3
"""Share of the bytes of arrays that the small profile leaves: about this for small graphs, half of it for large ones,
and far less for features that are mostly zeros."""

KERNELS = 110 * 10**6
"""Memory that loading numba and the compiled kernels takes."""

WORKER = 170 * 10**6
"""Memory of a worker process before its first unit."""


def attribute_bytes(table: GraphTable) -> npt.NDArray[np.int64]:
    """Stored bytes of each graph's attributes other than its edges: integers are narrowed."""
    total = np.zeros(table.num_graphs, np.int64)
    for name, entry in table.fields.items():
        if name == "edge_index":
            continue
        rows = max(entry.values.shape[entry.axis], 1)
        total += _stored_itemsize(entry.values) * (entry.values.size // rows) * np.diff(entry.ptr)
        if not _has_known_offsets(entry.ptr, table):
            total += 4
    return total


def _has_known_offsets(ptr: npt.NDArray[np.int64], table: GraphTable) -> bool:
    known = (table.node_ptr, np.arange(table.num_graphs + 1), table.fields["edge_index"].ptr)
    return any(np.array_equal(ptr, other) for other in known)


def _stored_itemsize(values: npt.NDArray[np.generic]) -> int:
    if values.dtype.kind not in "iu" or not values.size:
        return values.dtype.itemsize
    low, high = int(values.min()), int(values.max())
    return np.min_scalar_type(high if low >= 0 else min(low, -high - 1)).itemsize


def stored_bytes(plan: Plan, profile: str) -> int:
    """Size of the finished store."""
    arrays = sum(plan.unit_bytes)
    return plan.total_bytes if profile == "fast" else int(plan.total_bytes - arrays * (1 - COMPRESSED))


def peak_memory(plan: Plan, workers: int) -> int:
    """Bytes of memory of all processes at their peak. The dataset is open already, so this process counts as it is."""
    here = _resident()
    if workers == 1:
        return here + KERNELS + plan.peak_bytes(2)
    return here + workers * WORKER + plan.peak_bytes(workers)


def _resident() -> int:
    """Peak memory of this process so far."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
