"""Checks of the arrays from which a block of graphs is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.kernels.array_types import Array, FloatArray, LongArray, PtrArray

__all__ = [
    "MAX_NODES",
    "check_edge_list",
    "check_edges",
    "check_offsets",
    "check_weights",
    "make_node_ptr",
    "make_writeable",
]

MAX_NODES = 2**31 - 1
"""Largest number of nodes of a block. Node ids have 32 bits, which halves the memory traffic of the kernels."""


def check_offsets(name: str, ptr: PtrArray, length: int, end: int) -> None:
    if len(ptr) != length or ptr[0] != 0 or ptr[-1] != end or (np.diff(ptr) < 0).any():
        raise InputError(
            f"{name} is wrong: expected {length} offsets that start at 0, never decrease and end at {end}, "
            f"got {len(ptr)} from {ptr[:1]} to {ptr[-1:]}",
            field=name,
        )


def check_edge_list(edge_index: npt.ArrayLike) -> npt.NDArray[np.integer[Any]]:
    """Return an edge list as a ``[2, E]`` array of integers."""
    edges = np.asarray(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(
            f"edge_index has the wrong shape: expected [2, E], got {list(edges.shape)}", field="edge_index"
        )
    if edges.dtype.kind not in "iu" and edges.size:
        raise InputError(
            f"edge_index has the wrong type: expected integers, got {edges.dtype}", field="edge_index"
        )
    return edges


def make_writeable(array: Array, dtype: type[np.generic]) -> Array:
    """Return a C-contiguous and writeable array. For read-only arrays numba would compile the kernels again."""
    out = np.ascontiguousarray(array, dtype=dtype)
    return out if out.flags.writeable else out.copy()


def check_weights(weight: npt.ArrayLike | None, num_edges: int) -> FloatArray | None:
    """Return the weights as a vector of float64."""
    if weight is None:
        return None
    values = np.asarray(weight)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (num_edges,):
        raise InputError(
            f"edge_weight has the wrong shape: expected [{num_edges}], got {list(values.shape)}",
            field="edge_weight",
        )
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"edge_weight has the wrong type: expected numbers, got {values.dtype}", field="edge_weight"
        )
    values = make_writeable(values, np.float64)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(
            f"edge_weight is not finite: expected finite numbers, got {values[bad]} at edge {bad}",
            field="edge_weight",
        )
    return values


def make_node_ptr(
    node_ptr: npt.ArrayLike | None, num_nodes: int | None, edges: npt.NDArray[np.integer[Any]]
) -> PtrArray:
    """Return the offsets of the graphs. Without ``node_ptr`` there is one graph."""
    if node_ptr is None:
        if num_nodes is None:
            num_nodes = int(edges.max()) + 1 if edges.size else 0
        count = int(num_nodes)
        if count < 0:
            raise InputError(
                f"num_nodes is out of range: expected a number >= 0, got {count}", field="num_nodes"
            )
        ptr = np.array([0, count], dtype=np.int64)
    else:
        given = np.asarray(node_ptr)
        if given.size and given.dtype.kind not in "iu":
            raise InputError(
                f"node_ptr has the wrong type: expected integers, got {given.dtype}", field="node_ptr"
            )
        ptr = given.astype(np.int64)
        if ptr.ndim != 1 or len(ptr) == 0 or ptr[0] != 0 or (np.diff(ptr) < 0).any():
            raise InputError(
                f"node_ptr is wrong: expected a vector that starts at 0 and never decreases, got {given}",
                field="node_ptr",
            )
    if ptr[-1] > MAX_NODES:
        raise InputError(
            f"the block is too large: expected at most {MAX_NODES} nodes, got {ptr[-1]}",
            field="node_ptr",
            hint="split it into several blocks",
        )
    return ptr


def check_edges(edges: LongArray, node_ptr: PtrArray) -> None:
    """Check that all ids are valid and that no edge connects two graphs."""
    from tgp.kernels import csr

    finding, position = csr.check_edges(edges[0], edges[1], node_ptr)
    if finding == 0:
        return
    s, t = int(edges[0, position]), int(edges[1, position])
    if finding == csr.CROSSING:
        g, h = np.searchsorted(node_ptr, [s, t], side="right") - 1
        raise InputError(
            f"an edge connects two graphs: expected both ends in one graph, got {s} -> {t} between graphs {g} and {h} "
            f"(edge {position})",
            field="edge_index",
        )
    bad = s if finding == csr.BAD_ROW else t
    raise InputError(
        f"edge_index has a wrong id: expected ids in [0, {node_ptr[-1]}), got {bad} at edge {position}",
        field="edge_index",
    )
