r"""Balanced clusters of a small cut by recursive multilevel bisection.

A graph with ``n`` nodes is divided into exactly ``k`` clusters of similar size, so that the sum of the weights between clusters,

.. math::
    \mathrm{cut} = \sum_{i < j} \mathbf{A}_{ij} \, [c_i \neq c_j] ,

is small. The graph is divided into two parts, and the parts in the same way, as described in `"A Fast and High Quality Multilevel
Scheme for Partitioning Irregular Graphs" <https://doi.org/10.1137/S1064827595287997>`_ (SIAM J. Sci. Comput. 1998). A bisection
merges pairs of nodes until about 100 nodes remain, grows one side of this small graph from a node, and improves the sides on
each of the larger graphs by the moves of `Fiduccia and Mattheyses <https://doi.org/10.1145/800263.809204>`_. At the end single nodes
move between clusters while the cut becomes smaller.

Good for:
    Clusters of equal size on meshes, grids, road networks and other sparse graphs. Mini-batches of one large graph.

Avoid when:
    The sizes of the clusters should follow the graph (``leiden``). The graph has many hubs: every balanced cut is large.

Complexity:
    ``O((N + E) log k)`` time and ``O(N + E)`` memory.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from tgp.engine.bisection import SizeLimits, prepare_graphs, split_recursively
from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.large_ranking import number_clusters
from tgp.engine.level_method import (
    GraphSizes,
    LevelBound,
    LevelEstimate,
    LevelMethod,
    RandomKey,
)
from tgp.engine.parameter_checks import check_choice, check_share, check_whole
from tgp.engine.target_size import count_kept
from tgp.engine.threads import run_over_ranges
from tgp.errors import MissingPackageError
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "PartitionParams", "check_backend", "run_backend"]

Backend = Literal["tgp", "metis", "kaminpar"]

_PASSES = 8
"""Largest number of visits of each node when nodes move between clusters."""


@dataclass(frozen=True)
class PartitionParams(ConnectParams):
    """Parameters of the partition. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        k: number of clusters of each graph. A graph with at most ``k`` nodes stays as it is: each node is a cluster.
        ratio: clusters / nodes, in (0, 1]. If it is given, a graph with ``n`` nodes gets exactly ``ceil(ratio * n)`` clusters, and
            ``k`` has no effect.
        imbalance: share of the average size ``n / k`` by which clusters may be larger or smaller, in [0, 1). A cluster has at
            most ``max(ceil(n / k), floor((1 + imbalance) * n / k))`` and at least
            ``min(floor(n / k), ceil((1 - imbalance) * n / k))`` nodes.
        repeats: number of bisections of each part with different random numbers, of which the one with the smallest cut is used.
        backend: program that finds the clusters: ``tgp``; ``metis``, which needs ``pip install 'tgp-coarsen[metis]'``; or
            ``kaminpar``, which needs ``pip install 'tgp-coarsen[kaminpar]'``.

    Raises:
        ParameterError: if a value is out of range.
    """

    k: int = 8
    ratio: float | None = None
    imbalance: float = 0.03
    repeats: int = 1
    backend: Backend = "tgp"

    def __post_init__(self) -> None:
        for name in ("k", "repeats"):
            check_whole(name, getattr(self, name))
        if self.ratio is not None:
            check_share("ratio", self.ratio)
        check_share("imbalance", self.imbalance, zero=True, one=False)
        check_choice("backend", self.backend, Backend)
        super().__post_init__()


def assign(block: BlockCSR, params: PartitionParams, key: RandomKey) -> Assignment:
    """Divide each graph into balanced clusters.

    Edges count in both directions: the weight between two nodes is half of the sum of all stored ones. An unweighted edge counts
    1, and negative sums count 0. Self loops have no effect. Weights are rounded to 51 bits of the sum of a graph, so that all
    gains are exact. Every node counts 1 in the sizes. Clusters of a disconnected graph can be disconnected.

    The clusters of ``metis`` and ``kaminpar`` depend on the version of the package. If they are outside of the limits,
    nodes are moved until they are inside.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.

    Raises:
        MissingPackageError: if the package of the backend is not installed.
    """
    if params.backend != "tgp":
        check_backend(params.backend)
    graphs, nodes = prepare_graphs(block), np.diff(block.node_ptr)
    k = _count_clusters(nodes, params)
    limits = SizeLimits.of(nodes, np.maximum(k, 1), params.imbalance)
    if params.backend != "tgp":
        return run_backend(params.backend, graphs, k, limits, params.imbalance, key)
    found = number_clusters(split_recursively(graphs, k, limits, key, params.repeats), graphs.node_ptr)
    return _refine_clusters(graphs, found, limits)


def _refine_clusters(graphs: BlockCSR, found: Assignment, limits: SizeLimits) -> Assignment:
    """Move single nodes between clusters while the cut becomes smaller.

    Args:
        graphs: graphs of :func:`~tgp.engine.bisection.prepare_graphs`.
        found: clusters within the limits.
        limits: limits of the numbers of nodes.

    Returns:
        An assignment with the same number of supernodes, numbered by their first node.
    """
    from tgp.kernels import partition as kernels

    assert found.cluster is not None and graphs.weight is not None
    cluster = found.cluster.copy()
    size = np.bincount(cluster, minlength=found.num_supernodes).astype(np.int64)
    link, seen = np.zeros(found.num_supernodes), np.empty(graphs.num_nodes, np.int32)
    arrays = graphs.indptr, graphs.indices, graphs.weight, graphs.node_ptr

    def move(first: int, last: int) -> None:
        kernels.move_between(*arrays, first, last, *limits, _PASSES, link, seen, cluster, size)

    run_over_ranges(move, graphs.node_ptr + graphs.edge_ptr)
    return number_clusters(cluster, graphs.node_ptr)


def _count_clusters(nodes: LongArray, params: PartitionParams) -> LongArray:
    """Return the number of clusters of graphs with the given numbers of nodes."""
    if params.ratio is not None:
        return np.minimum(count_kept(nodes, params.ratio), nodes)
    return np.minimum(nodes, params.k)


def cost(nodes: LongArray, edges: LongArray, params: PartitionParams) -> FloatArray:
    """Estimate the work: each of the bisections visits all nodes and edges several times."""
    depth = np.frexp(np.maximum(_count_clusters(nodes, params), 1).astype(np.float64))[1]
    return (8.0 * params.repeats * depth) * (nodes + edges)


def bound(sizes: GraphSizes, params: PartitionParams) -> LevelBound:
    """Bound time and memory. The number of supernodes is exact."""
    work = (sizes.nodes + sizes.edges).astype(np.float64)
    seconds = 4e-8 * cost(sizes.nodes, sizes.edges, params) + 1e-5
    return LevelBound(seconds, 160.0 * work, _count_clusters(sizes.nodes, params), sizes.edges)


METHOD = LevelMethod(
    "partition",
    PartitionParams,
    assign,
    contract,
    cost=cost,
    estimate=LevelEstimate(0.1, 0.1, scratch=250.0),
    bound=bound,
    contracts=True,
    joins_components=True,
    one_core="the bisections",
)

_PACKAGES = {"metis": "pymetis", "kaminpar": "kaminpar"}
_MAX_TOTAL = 2**31 - 1
"""Largest sum of weights, because METIS can be built with numbers of 32 bits."""


def check_backend(name: str) -> Any:
    """Return the module of a backend.

    Args:
        name: ``metis`` or ``kaminpar``.

    Raises:
        MissingPackageError: if the package is not installed.
    """
    package = _PACKAGES[name]
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPackageError(
            f"partition with backend={name} needs the package {package!r}",
            hint=f"pip install 'tgp-coarsen[{name}]'",
        ) from error


def run_backend(
    name: str, graphs: BlockCSR, k: LongArray, limits: SizeLimits, imbalance: float, key: RandomKey
) -> Assignment:
    """Divide each graph into exactly ``k`` clusters by another program.

    Clusters outside of the limits, and empty ones, are repaired by moving nodes.

    Args:
        name: ``metis`` or ``kaminpar``.
        graphs: graphs of :func:`~tgp.engine.bisection.prepare_graphs`.
        k: ``[B]`` number of clusters of each graph, at most its number of nodes.
        limits: limits of the numbers of nodes.
        imbalance: share of the average size by which clusters may be larger.
        key: key of the random numbers; its seed and level make the seed of the program.

    Returns:
        A hard assignment. Supernodes are numbered by their first node.

    Raises:
        MissingPackageError: if the package is not installed.
    """
    module, run = check_backend(name), _BACKENDS[name]
    super_ptr = offsets(k)
    cluster = np.repeat(super_ptr[:-1], np.diff(graphs.node_ptr)).astype(np.int32)
    seed = (1_000_003 * key.seed + key.level) % _MAX_TOTAL
    for g, parts in enumerate(k.tolist()):
        rows = slice(int(graphs.node_ptr[g]), int(graphs.node_ptr[g + 1]))
        if parts == rows.stop - rows.start:
            cluster[rows] += np.arange(parts, dtype=np.int32)
        elif parts > 1:
            cluster[rows] += run(module, *_one_graph(graphs, g), parts, imbalance, seed)
    _balance_clusters(graphs, cluster, super_ptr, limits)
    return number_clusters(cluster, graphs.node_ptr)


def _balance_clusters(graphs: BlockCSR, cluster: IndexArray, super_ptr: PtrArray, limits: SizeLimits) -> None:
    """Move nodes until no cluster is empty and all numbers of nodes are within the limits.

    Args:
        graphs: graphs of :func:`~tgp.engine.bisection.prepare_graphs`.
        cluster: ``[N]`` cluster of each node; changed.
        super_ptr: ``[B + 1]`` offsets of the clusters of each graph. Clusters can be empty.
        limits: limits of the numbers of nodes.
    """
    from tgp.kernels import partition as kernels

    assert graphs.weight is not None
    size = np.bincount(cluster, minlength=int(super_ptr[-1])).astype(np.int64)
    link, arrays = np.zeros(len(size)), (graphs.indptr, graphs.indices, graphs.weight, graphs.node_ptr)

    def balance(first: int, last: int) -> None:
        kernels.balance_clusters(*arrays, super_ptr, first, last, *limits, link, cluster, size)

    run_over_ranges(balance, graphs.node_ptr + graphs.edge_ptr)


def _one_graph(graphs: BlockCSR, g: int) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return the rows of a graph without self loops, and whole numbers >= 1 in proportion to its weights."""
    graph = graphs.take([g])
    assert graph.weight is not None
    rows = graph.rows()
    keep = rows != graph.indices
    weight, counts = graph.weight[keep], np.bincount(rows[keep], minlength=graph.num_nodes)
    total = weight.sum()
    if (weight != np.rint(weight)).any() or total > _MAX_TOTAL:
        weight = weight * ((_MAX_TOTAL // 2 - len(weight)) / total)
    whole = np.maximum(np.rint(weight), 1.0).astype(np.int32)
    return offsets(counts).astype(np.int32), graph.indices[keep], whole


def _run_metis(
    pymetis: Any, indptr: IndexArray, indices: IndexArray, weight: IndexArray, k: int, imbalance: float, seed: int
) -> IndexArray:  # fmt: skip
    options = pymetis.Options(seed=seed, ufactor=max(round(1000 * imbalance), 1))
    if hasattr(pymetis, "CSRAdjacency"):
        rows = {"adjacency": pymetis.CSRAdjacency(indptr, indices)}
    else:
        rows = {"xadj": indptr, "adjncy": indices}
    _, found = pymetis.part_graph(k, **rows, eweights=weight, options=options)
    return np.asarray(found, np.int32)


def _run_kaminpar(
    kaminpar: Any, indptr: IndexArray, indices: IndexArray, weight: IndexArray, k: int, imbalance: float, seed: int
) -> IndexArray:  # fmt: skip
    kaminpar.reseed(seed)
    # The package can only read a graph from a file.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.metis")
        pairs = np.char.add(np.char.add((indices + 1).astype(str), " "), weight.astype(str)).tolist()
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{len(indptr) - 1} {len(indices) // 2} 1\n")
            file.writelines(" ".join(pairs[a:b]) + "\n" for a, b in pairwise(indptr))
        graph = kaminpar.load_graph(path, kaminpar.GraphFileFormat.METIS)
        solver = kaminpar.KaMinPar(1, kaminpar.default_context())
        return np.asarray(solver.compute_partition(graph, k, max(imbalance, 1e-3)), np.int32)


_BACKENDS: dict[str, Callable[..., IndexArray]] = {"metis": _run_metis, "kaminpar": _run_kaminpar}
