"""Functions of pyamg, which is an optional package, on the graphs of a block.

None of them uses random numbers. The result of a graph does not depend on the other graphs of its block.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from tgp.engine.interpolation import StrongGraph
from tgp.errors import GraphError, MissingPackageError
from tgp.kernels.array_types import BoolArray, IndexArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

__all__ = ["check_pyamg", "classical_weights", "cluster_around_centers", "find_aggregates", "split_graphs"]

_MAX_EDGES = 2**31 - 1
"""Largest number of stored edges, because pyamg has offsets of 32 bits."""

_ROUNDS = 5
"""Number of rounds of Lloyd clustering."""

_LONGEST = 2.0**40
"""Largest ratio of the lengths of two edges."""


def check_pyamg(num_edges: int = 0) -> None:
    """Check that pyamg can be used.

    Args:
        num_edges: number of stored edges of the graphs.

    Raises:
        MissingPackageError: if the package is not installed or cannot be imported.
        GraphError: if there are too many edges for it.
    """
    _import_pyamg("graph")
    if num_edges > _MAX_EDGES:
        raise GraphError(
            f"graph is too large for pyamg: expected at most {_MAX_EDGES} stored edges, got {num_edges}",
            graph=0,
            hint="make it smaller first, such as by hem*2,amg",
        )


def _import_pyamg(name: str) -> Any:
    """Return a module of pyamg."""
    try:
        return importlib.import_module(f"pyamg.{name}")
    except ImportError as error:
        installed = importlib.util.find_spec("pyamg") is not None
        reason = f", which cannot be imported: {error}" if installed else ""
        raise MissingPackageError(
            f"amg needs the package 'pyamg'{reason}", hint="pip install 'tgp-coarsen[amg]'"
        ) from error


def _as_matrix(rows: csr_array) -> csr_matrix:
    """Return the sparse matrix of a sparse array. Old versions of pyamg do not accept arrays."""
    from scipy.sparse import csr_matrix

    return csr_matrix(rows)


def split_graphs(strong: StrongGraph) -> BoolArray:
    """Return True for the centers of a Ruge-Stuben splitting of each graph. Nodes without edges need not be centers.

    Args:
        strong: the graphs.
    """
    from scipy.sparse import csr_matrix

    module, graphs = _import_pyamg("classical.split"), strong.graphs
    is_center = np.ones(graphs.num_nodes, np.bool_)
    rows = strong.matrix(strong.is_strong)
    # The splitting visits the nodes of all graphs in one order. A call for each graph makes the result independent of the block.
    for g in np.flatnonzero(np.diff(graphs.edge_ptr)).tolist():
        first, last = int(graphs.node_ptr[g]), int(graphs.node_ptr[g + 1])
        start, end = int(rows.indptr[first]), int(rows.indptr[last])
        arrays = rows.data[start:end], rows.indices[start:end] - first, rows.indptr[first : last + 1] - start
        one = csr_matrix(arrays, shape=(last - first, last - first))
        is_center[first:last] = module.RS(one) == 1
    return is_center


def classical_weights(strong: StrongGraph, is_center: BoolArray) -> csr_array:
    """Return the ``[N, K]`` weights of modified classical interpolation. Rows of some nodes can be empty.

    Args:
        strong: the graphs.
        is_center: ``[N]`` True for centers.
    """
    module = _import_pyamg("classical.interpolate")
    laplacian, pattern = _as_matrix(strong.laplacian()), _as_matrix(strong.matrix(strong.is_strong))
    found: csr_array = module.classical_interpolation(laplacian, pattern, is_center.astype(np.int32))
    return found


def find_aggregates(strong: StrongGraph) -> IndexArray:
    """Return the first node of the aggregate of each node. Nodes without edges are aggregates.

    Args:
        strong: the graphs. An edge joins aggregates if it is strong for one of its ends.
    """
    module = _import_pyamg("aggregation.aggregate")
    edges = strong.matrix(strong.is_strong)
    found, roots = module.standard_aggregation(_as_matrix(edges.maximum(edges.T).tocsr()))
    root = np.arange(strong.graphs.num_nodes, dtype=np.int32)
    inside = np.diff(found.indptr) > 0  # nodes without edges have no aggregate
    root[inside] = roots[found.indices]
    return root


def cluster_around_centers(strong: StrongGraph, centers: IndexArray) -> IndexArray:
    """Return the center of the cluster of each node, by rounds of Lloyd clustering.

    Args:
        strong: the graphs. The length of an edge is 1 / weight.
        centers: first centers, in ascending order. Every component has at least one.
    """
    if not len(centers):
        return np.empty(0, np.int32)
    lengths = _as_matrix(strong.matrix())
    lengths.data = 1.0 / np.maximum(strong.weight, 1.0 / _LONGEST)
    # The first result of old versions is the distance of each node.
    *_, found, centers = _import_pyamg("graph").lloyd_cluster(lengths, centers.copy(), maxiter=_ROUNDS)
    root: IndexArray = centers[found].astype(np.int32)
    return root
