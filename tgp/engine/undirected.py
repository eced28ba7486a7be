"""Make graphs undirected for matching."""

from __future__ import annotations

import numpy as np

from tgp.engine.threads import run_over_ranges
from tgp.ragged import BlockCSR

__all__ = ["make_undirected"]

_TINY = 2.0 * np.finfo(np.float64).tiny
"""Weights below this number lose their last bit when they are halved."""

_LARGEST = np.finfo(np.float64).max
"""Weight of parallel edges whose sum overflows."""


def make_undirected(block: BlockCSR) -> BlockCSR:
    """Return undirected graphs for matching, without parallel edges and negative weights.

    The weight of an edge is half of the sum of all weights that are stored between its two nodes, in either direction. An
    unweighted edge counts 1. Sums below 0 become 0, and those that overflow the largest float64. An edge of weight 0 is still an edge. The block itself is returned if all
    of its edges are stored once in each direction with the same weight.

    Args:
        block: the graphs.
    """
    from tgp.kernels import csr

    if _is_undirected(block):
        return block
    weight = block.weights_or_ones()
    merged = csr.coalesce(block.indptr, block.indices, weight, True, csr.SUM)
    # Halves, so that the sums of large weights stay finite.
    indptr, indices, both = csr.symmetrise(merged[0], merged[1], 0.5 * merged[2], True, csr.SUM)
    both = np.nan_to_num(np.maximum(both, 0.0), copy=False, nan=0.0, posinf=_LARGEST)
    made = BlockCSR(indptr, indices, both, block.node_ptr)
    if block.weight is not None:
        _restore_tiny_weights(block, made)
    return made


def _restore_tiny_weights(block: BlockCSR, made: BlockCSR) -> None:
    """Copy the weights of graphs that are undirected already and have weights whose half is rounded.

    Otherwise such a graph would have other weights in a block with directed graphs than alone.
    """
    assert block.weight is not None and made.weight is not None
    tiny = np.flatnonzero((block.weight > 0.0) & (block.weight < _TINY))
    if not len(tiny):
        return
    for g in np.unique(np.searchsorted(block.edge_ptr, tiny, side="right") - 1).tolist():
        if _is_undirected(block.take([g])):
            given, found = (slice(*graphs.edge_ptr[g : g + 2].tolist()) for graphs in (block, made))
            made.weight[found] = block.weight[given]


def _is_undirected(block: BlockCSR) -> bool:
    """Return True if every edge is stored once in each direction, with the same weight, and no weight is negative."""
    from tgp.kernels import local_matching as kernels

    indptr, indices, weight, weighted = block.arrays()
    bits, sums = weight.view(np.uint64), list[int]()
    run_over_ranges(
        lambda *rows: sums.append(int(kernels.fingerprint(indptr, indices, bits, weighted, *rows))), indptr
    )
    return sum(sums) % 2**64 == 0
