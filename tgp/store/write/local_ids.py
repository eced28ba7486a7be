"""Ids as a shard holds them: local to their graphs, in a type about as small as they need."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged import BlockCSR

__all__ = ["load_kernels", "local_edges", "local_ids"]

Ids = npt.NDArray[np.integer[Any]]
Ptr = npt.NDArray[np.int64]


def local_edges(block: BlockCSR, name: str) -> Ids:
    """``[2, nnz]`` edges of a block.

    Raises:
        InputError: an edge leaves its graph.
    """
    from tgp.kernels import local_ids as local

    out = np.empty((2, block.num_edges), _type("u", block.node_ptr))
    if not local.local_edges(block.indptr, block.indices, block.node_ptr, out[0], out[1]):
        raise _outside(name)
    return out


def local_ids(ids: npt.NDArray[np.int32], ptr: Ptr, target_ptr: Ptr, low: int, name: str) -> Ids:
    """Block ids, cut into graphs by ``ptr``, of what ``target_ptr`` cuts; any negative one is -1 if ``low`` is.

    Raises:
        InputError: an id names something of another graph, or there are too many or too few.
    """
    from tgp.kernels import local_ids as local

    if len(ids) != ptr[-1]:
        raise InputError(f"{name} must hold {ptr[-1]} ids, got {len(ids)}", field=name)
    out = np.empty(len(ids), _type("i", target_ptr))
    if not local.local_ids(np.ascontiguousarray(ids, np.int32), ptr, target_ptr, low, out):
        raise _outside(name)
    return out


def load_kernels() -> None:
    """Compile the kernels for every type of ids, or load them from their cache."""
    from tgp.kernels import local_ids as local

    ptr, ids = np.zeros(1, np.int64), np.zeros(0, np.int32)
    for size in (1, 2, 4):
        unsigned, signed = np.zeros(0, f"u{size}"), np.zeros(0, f"i{size}")
        local.local_edges(ptr, ids, ptr, unsigned, unsigned)
        local.local_ids(ids, ptr, ptr, 0, signed)


def _type(kind: str, ptr: Ptr) -> np.dtype[Any]:
    """The smallest type of 1, 2 or 4 bytes that holds an id of any of the graphs."""
    largest = int(np.diff(ptr).max(initial=1)) - 1
    return next(np.dtype(f"{kind}{n}") for n in (1, 2, 4) if largest <= np.iinfo(f"{kind}{n}").max)


def _outside(name: str) -> InputError:
    return InputError(f"{name} must hold ids of its own graph, got one out of range", field=name)
