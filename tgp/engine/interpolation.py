"""Sparse interpolation matrices ``P`` between nodes and supernodes, and the coarse graph of ``P^T L P``.

``L`` is the Laplacian of the simple undirected graph. All rows of ``P`` sum to 1, so ``P^T L P`` is again the Laplacian of a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tgp.engine.undirected import make_undirected
from tgp.kernels.array_types import Array, BoolArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray
from tgp.ragged.node_attributes import unit_scales
from tgp.ragged.offsets import offsets, run_ids, run_maxima

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "StrongGraph",
    "find_strong_edges",
    "galerkin_graph",
    "interpolate_from_centers",
    "limit_entries",
    "smooth_clusters",
    "spread_centers",
]

_SHARE = 1.0 / 3.0
"""Share of the smoothing step. It is less than one half: the supernode of a node has more than half of its row."""

_CANCELLED = 1e-12
"""Coarse weights below this share of the two terms whose difference they are consist of rounding errors."""


_SMALLEST = 2.0**-1000
"""Share of the largest weight of a graph below which an edge counts as an edge of weight 0, because its inverse overflows."""


class StrongGraph(NamedTuple):
    """Simple undirected graphs with scaled positive weights, and the edges that are strong for a node.

    Args:
        graphs: graphs without self loops, parallel edges and edges of weight 0 or less. Every edge is stored in both directions. The
            largest weight of each graph is about 1.
        rows: ``[E]`` source of each edge.
        weight: ``[E]`` weights of ``graphs``.
        is_strong: ``[E]`` True if an edge is strong for its source.
        unit: ``[N]`` power of two by which the weights of each graph were multiplied.
    """

    graphs: BlockCSR
    rows: IndexArray
    weight: FloatArray
    is_strong: BoolArray
    unit: FloatArray

    def matrix(self, keep: BoolArray | None = None) -> csr_array:
        """Return the adjacency matrix, or some of its entries.

        Args:
            keep: ``[E]`` True for entries of the result; ``None`` for all.
        """
        from scipy.sparse import csr_array

        size = self.graphs.num_nodes
        indptr, indices, weight = self.graphs.indptr, self.graphs.indices, self.weight
        if keep is not None:
            indptr, indices, weight = offsets(keep)[indptr], indices[keep], weight[keep]
        # The library selects 32-bit indices from the size. Its functions, and those of pyamg, need one type for both arrays.
        if len(indices) < 2**31:
            indptr = indptr.astype(np.int32)
        return csr_array((weight, indices, indptr), shape=(size, size))

    def laplacian(self) -> csr_array:
        """Return the Laplacian matrix."""
        adjacency = self.matrix()
        found: csr_array = _diagonal(adjacency.sum(axis=1)) - adjacency
        return found


def _diagonal(values: FloatArray) -> csr_array:
    from scipy.sparse import csr_array

    size = len(values)
    return csr_array(
        (values, np.arange(size, dtype=np.int32), np.arange(size + 1, dtype=np.int32)), shape=(size, size)
    )


def find_strong_edges(block: BlockCSR, strength: float) -> StrongGraph:
    """Return the simple undirected graphs and their strong edges.

    An edge is strong for a node if its weight is at least ``strength`` times the largest weight of the node.

    Args:
        block: the graphs. The weight between two nodes is half of the sum of all stored ones, and unweighted edges count 1.
        strength: number in [0, 1].
    """
    both = make_undirected(block)
    rows, weight = both.rows(), both.weights_or_ones()
    keep = (rows != both.indices) & (weight > 0.0)
    weight = np.where(keep, weight, 0.0)
    unit = unit_scales(run_maxima(weight, both.indptr)[:, None], both.node_ptr)
    weight = weight * unit[rows]
    keep &= weight >= _SMALLEST
    rows, weight = rows[keep], weight[keep]
    graphs = BlockCSR(offsets(keep)[both.indptr], both.indices[keep], weight, both.node_ptr)
    is_strong = weight >= strength * run_maxima(weight, graphs.indptr)[rows]
    return StrongGraph(graphs, rows, weight, is_strong, unit)


def spread_centers(strong: StrongGraph, is_center: BoolArray) -> BoolArray:
    """Return the centers together with the nodes that have no strong edge to any of them.

    Args:
        strong: the graphs.
        is_center: ``[N]`` True for centers.
    """
    reached = is_center.copy()
    reached[strong.rows[strong.is_strong & is_center[strong.graphs.indices]]] = True
    found: BoolArray = is_center | ~reached
    return found


def interpolate_from_centers(
    strong: StrongGraph, is_center: BoolArray, entries: int, weights: csr_array | None = None
) -> csr_array:
    """Return the matrix in which every node is a mean of centers, weighted by its strong edges to them.

    Args:
        strong: the graphs.
        is_center: ``[N]`` True for centers. Each is a supernode, in ascending order; its row has a single entry.
        entries: largest number of entries of a row.
        weights: ``[N, K]`` weights to use instead of those of the edges. Rows without a positive sum are ignored.
    """
    size, column = strong.graphs.num_nodes, offsets(is_center)
    centers = np.flatnonzero(is_center)
    direct = strong.is_strong & is_center[strong.graphs.indices] & ~is_center[strong.rows]
    rows, cols, values = strong.rows, column[strong.graphs.indices], strong.weight
    parts: list[tuple[Array, ...]] = [(centers, column[centers], np.ones(len(centers)))]
    if weights is not None:
        given = weights.tocoo()
        usable = np.isfinite(given.data) & (given.data > 0.0) & ~is_center[given.row]
        parts.append((given.row[usable], given.col[usable], given.data[usable]))
        is_given = np.zeros(size, np.bool_)
        is_given[given.row[usable]] = True
        direct &= ~is_given[rows]
    parts.append((rows[direct], cols[direct], values[direct]))
    row, col, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return limit_entries(row, col, value, (size, len(centers)), entries)


def smooth_clusters(strong: StrongGraph, assignment: Assignment, entries: int) -> csr_array:
    """Return the matrix of a hard assignment after one smoothing step along the strong edges.

    It is ``(I - D^-1 L / 3) S``, where ``L`` and ``D`` are the Laplacian and the degrees of the edges that are strong for one of their
    ends. A node keeps more than half of its weight in its own supernode.

    Args:
        strong: the graphs.
        assignment: hard assignment ``S``. Rows of dropped nodes are empty.
        entries: largest number of entries of a row.
    """
    from scipy.sparse import csr_array

    cluster = assignment.cluster
    assert cluster is not None
    size, kept = len(cluster), np.flatnonzero(cluster >= 0)
    shape = size, assignment.num_supernodes
    own = csr_array((np.ones(len(kept)), (kept, cluster[kept])), shape=shape)
    outgoing = strong.matrix(strong.is_strong)
    edges = csr_array(outgoing.maximum(outgoing.T))
    degree = np.asarray(edges.sum(axis=1))
    step = np.divide(_SHARE, degree, out=np.zeros(size), where=degree > 0.0)
    near = csr_array(edges @ own)
    near.data *= np.repeat(step, np.diff(near.indptr))
    stay = own.copy()
    stay.data *= 1.0 - _SHARE
    found = (stay + near).tocoo()
    usable = cluster[found.row] >= 0
    return limit_entries(found.row[usable], found.col[usable], found.data[usable], shape, entries)


def limit_entries(
    row: IndexArray, col: IndexArray, value: FloatArray, shape: tuple[int, int], entries: int
) -> csr_array:
    """Return a matrix with the largest entries of each row, divided by their sum.

    Args:
        row, col, value: position and value of each entry, all positive. Positions are unique.
        shape: number of rows and columns.
        entries: largest number of entries of a row. Of equal entries, the one with the smaller column is kept.
    """
    from scipy.sparse import csr_array

    counts = np.bincount(row, minlength=shape[0])
    if counts.max(initial=0) > entries:
        order = np.lexsort((col, -value, row))
        order = order[np.arange(len(row)) - offsets(counts)[row[order]] < entries]
        row, col, value = row[order], col[order], value[order]
    found = csr_array((value, (row, col)), shape=shape)
    found.sort_indices()
    sums = np.bincount(run_ids(found.indptr), found.data, shape[0])
    found.data /= np.repeat(sums, np.diff(found.indptr))
    return found


def galerkin_graph(strong: StrongGraph, matrix: csr_array, assignment: Assignment) -> BlockCSR:
    """Return the graph whose Laplacian is ``P^T L P``. Weights can be negative.

    The weight between two supernodes is ``P^T A P - P^T D P``. Differences that consist of rounding errors are removed.

    Args:
        strong: the graphs, all of whose edges are used.
        matrix: the interpolation matrix ``P``.
        assignment: assignment with the supernodes of ``P``.
    """
    from scipy.sparse import csr_array

    back, adjacency = csr_array(matrix.T), strong.matrix()
    linked = csr_array(back @ (adjacency @ matrix))
    linked = 0.5 * (linked + linked.T)
    shared = csr_array(back @ (_diagonal(adjacency.sum(axis=1)) @ matrix))
    shared = 0.5 * (shared + shared.T)
    found, limit = csr_array(linked - shared), csr_array(linked + shared)
    found = csr_array(found.multiply(abs(found) > _CANCELLED * limit))
    found.sum_duplicates()
    rows = np.repeat(np.arange(found.shape[0], dtype=np.int32), np.diff(found.indptr))
    keep = (rows != found.indices) & (found.data != 0.0)
    counts, sizes = np.bincount(rows[keep], minlength=found.shape[0]), np.diff(assignment.super_ptr)
    node_ptr = strong.graphs.node_ptr
    filled = np.diff(node_ptr) > 0
    unit = np.ones(len(sizes))
    unit[filled] = strong.unit[node_ptr[:-1][filled]]
    with np.errstate(over="ignore"):  # the engine reports weights that are not finite
        weight = found.data[keep] / np.repeat(unit, sizes)[rows[keep]]
    return BlockCSR(offsets(counts), found.indices[keep].astype(np.int32), weight, assignment.super_ptr)
