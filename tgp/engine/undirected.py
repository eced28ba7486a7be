"""Make graphs undirected for matching."""

from __future__ import annotations

import numpy as np

from tgp.engine.threads import run_over_ranges
from tgp.ragged import BlockCSR

__all__ = ["make_undirected"]


def make_undirected(block: BlockCSR) -> BlockCSR:
    """Return undirected graphs for matching, without parallel edges and negative weights.

    The weight of an edge is half of the sum of all weights that are stored between its two nodes, in either direction. An
    unweighted edge counts 1. Sums below 0 become 0. An edge of weight 0 is still an edge. The block itself is returned if all
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
    return BlockCSR(indptr, indices, np.maximum(both, 0.0), block.node_ptr)


def _is_undirected(block: BlockCSR) -> bool:
    """Return True if every edge is stored once in each direction, with the same weight, and no weight is negative."""
    from tgp.kernels import local_matching as kernels

    indptr, indices, weight, weighted = block.arrays()
    bits, sums = weight.view(np.uint64), list[int]()
    run_over_ranges(
        lambda *rows: sums.append(int(kernels.fingerprint(indptr, indices, bits, weighted, *rows))), indptr
    )
    return sum(sums) % 2**64 == 0
