r"""Communities of high modularity, level by level: the run that ``louvain`` and ``leiden`` share.

The modularity of a partition at resolution :math:`\gamma` is

.. math::
    Q = \frac{1}{W} \sum_c \Big( W_c - \gamma \frac{V_c^2}{W} \Big) ,

where :math:`W_c` is the sum of the weights :math:`\mathbf{A}_{ij}` inside community :math:`c`, :math:`V_c` the sum of the degrees
of its nodes and :math:`W` the sum of all degrees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ConnectParams
from tgp.engine.large_ranking import first_members, number_clusters
from tgp.engine.level_method import GraphSizes, LevelBound, RandomKey, linear_bound
from tgp.engine.parameter_checks import check_positive, check_whole
from tgp.engine.range_contraction import contract_rows
from tgp.engine.threads import run_over_ranges
from tgp.errors import GraphError
from tgp.kernels.array_types import BoolArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["CommunityParams", "bound", "cost", "find_levels"]

_MAX_PASSES = 64
"""Largest number of passes of a run."""

_SLOW = 0.95
"""Share of the nodes above which the parts of a refinement count as too many."""

_EFFORT = 50
"""Limit of the work of the moves of a pass, as a multiple of the nodes and entries of the graph. Usual passes need less than 10."""

_START_EFFORT = 4
"""The same limit for the passes that find the communities from which ``leiden`` starts."""


@dataclass(frozen=True)
class CommunityParams(ConnectParams):
    """Parameters of the communities. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        resolution: factor of the expected weight in the modularity. Larger values make more and smaller communities.
        max_size: largest number of nodes of a community, counted in the input graph of the run. It holds at every level.
            ``None`` sets no limit.
    """

    resolution: float = 1.0
    max_size: int | None = None

    def __post_init__(self) -> None:
        check_positive("resolution", self.resolution)
        check_whole("max_size", self.max_size, 2, optional=True)
        super().__post_init__()

    @property
    def num_runs(self) -> int:
        """Number of runs, each of which starts from the communities of the one before."""
        return 1


class _Graph(NamedTuple):
    """Graphs of one pass.

    Args:
        indptr, indices: undirected rows without self loops.
        weight: weight of each entry.
        weighted: False if all weights are 1.
        node_ptr: offsets of the graphs.
        degree: degree of each node, with the edges inside it.
        size: number of input nodes of each node.
    """

    indptr: PtrArray
    indices: IndexArray
    weight: FloatArray
    weighted: bool
    node_ptr: PtrArray
    degree: FloatArray
    size: PtrArray


def find_levels(
    block: BlockCSR, params: CommunityParams, key: RandomKey, num_levels: int, *, name: str, refine: bool
) -> list[Assignment]:
    """Return ``num_levels`` levels of one run: its first aggregations, then its final communities.

    Level ``i < num_levels`` is the ``i``-th aggregation. The last level merges all further aggregations, so it always has the
    final communities. If the run of a graph has fewer aggregations, its remaining levels are the identity.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the visiting orders.
        num_levels: number of levels.
        name: name of the method, for errors.
        refine: aggregate the connected parts of the communities (Leiden) instead of the communities (Louvain). The run
            then starts from the communities of a short run without it.

    Returns:
        Hard assignments. Supernodes are numbered by their first node.

    Raises:
        GraphError: if a weight is negative, or the sum of the weights overflows.
    """
    graph = _make_undirected(block, name)
    factor = _expected_factors(graph, params.resolution, name)
    label = np.arange(block.num_nodes, dtype=np.int32)
    if refine:
        (first,) = _run_passes(graph, label, factor, params, key, 1, False, _START_EFFORT)
        label = _labels_of(first)
    for _ in range(params.num_runs - 1):
        (found,) = _run_passes(graph, label, factor, params, key, 1, refine)
        label = _labels_of(found)
    return _run_passes(graph, label, factor, params, key, num_levels, refine)


def _run_passes(
    graph: _Graph, label: IndexArray, factor: FloatArray, params: CommunityParams, key: RandomKey,
    num_levels: int, refine: bool, effort: int = _EFFORT,
) -> list[Assignment]:  # fmt: skip
    """Return the levels of passes that start from the communities ``label``, which is changed."""
    active = factor > 0.0
    levels: list[Assignment] = []
    for number in range(_MAX_PASSES):
        if not active.any():
            break
        part, label = _run_pass(graph, label, factor, active, params, key, number, refine, effort)
        found = number_clusters(part, graph.node_ptr)
        active = np.diff(found.super_ptr) < np.diff(graph.node_ptr)
        if not active.any():
            break
        if len(levels) < num_levels:
            levels.append(found)
        else:
            levels.append(_compose(levels.pop(), found))
        graph, label = _aggregate(graph, found, label)
        if not refine:
            label = np.arange(len(label), dtype=np.int32)
    while len(levels) < num_levels:
        identity = np.arange(graph.node_ptr[-1], dtype=np.int32)
        levels.append(Assignment("hard", graph.node_ptr, identity))
    return levels


def _make_undirected(block: BlockCSR, name: str) -> _Graph:
    """Return the graphs of the first pass: ``A + A^T``, or the edges in either direction of an unweighted block."""
    from tgp.kernels import csr
    from tgp.kernels.undirected import undirected_sum

    given, rows = block.arrays(), block.rows()
    weighted = block.weight is not None
    if block.weight is not None and len(block.weight) and block.weight.min() < 0.0:
        graph = int(np.searchsorted(block.edge_ptr, np.argmax(block.weight < 0.0), side="right")) - 1
        raise GraphError(
            f"{name}: an edge weight is negative: expected weights >= 0, got {block.weight.min()}",
            graph=graph,
            hint="use absolute or shifted weights",
        )
    indptr, indices, weight, _ = undirected_sum(*given[:3], *csr.transpose(*given), weighted)
    nodes = block.num_nodes
    if weighted:
        degree = np.bincount(csr.row_ids(indptr), weight, nodes).astype(
            np.float64
        )  # int64 if there are no entries
    else:
        degree = np.diff(indptr).astype(np.float64)
    loops = np.flatnonzero(rows == block.indices)
    if len(loops) and block.weight is not None:
        with np.errstate(over="ignore"):  # the sum of the degrees is checked
            degree += np.bincount(rows[loops], 2.0 * block.weight[loops], nodes)
    elif len(loops):
        degree[rows[loops]] += 1.0
    return _Graph(indptr, indices, weight, weighted, block.node_ptr, degree, np.ones(nodes, np.int64))


def _expected_factors(graph: _Graph, resolution: float, name: str) -> FloatArray:
    """Return the resolution divided by the sum of the degrees of each graph, 0 for a graph without weights."""
    nodes = np.diff(graph.node_ptr)
    total = np.bincount(np.repeat(np.arange(len(nodes)), nodes), graph.degree, len(nodes))
    with np.errstate(all="ignore"):
        factor = np.where(total > 0.0, resolution / total, 0.0)
    valid = np.isfinite(factor) & ((factor > 0.0) | (total == 0.0))
    if not valid.all():
        bad = int(np.argmin(valid))
        raise GraphError(
            f"{name}: the sum of the edge weights is out of range: expected a normal float64 number, got {total[bad]}",
            graph=bad,
            hint="scale the edge weights of this graph",
        )
    return factor


def _run_pass(
    graph: _Graph, label: IndexArray, factor: FloatArray, active: BoolArray, params: CommunityParams,
    key: RandomKey, number: int, refine: bool, effort: int,
) -> tuple[IndexArray, IndexArray]:  # fmt: skip
    """Run one pass. Return the parts to aggregate and the communities from which the next pass starts.

    ``label`` is changed.
    """
    from tgp.kernels import communities as kernels

    rows = (graph.indptr, graph.indices, graph.weight, graph.weighted, graph.node_ptr, active)
    nodes = len(label)
    volume = np.bincount(label, graph.degree, nodes).astype(np.float64)
    members = np.bincount(label, graph.size, nodes).astype(np.int64)
    visit, part = np.zeros(nodes + kernels.AHEAD, np.int32), label
    kernels.visiting_order(graph.node_ptr, key.seed, key.level, number, visit)
    queue = visit.copy()
    link, waiting = np.zeros(nodes), np.empty(nodes, np.bool_)
    longest = int(np.diff(graph.indptr).max(initial=0))
    max_size = params.max_size or np.iinfo(np.int64).max

    def move(first: int, last: int) -> None:
        kernels.move_nodes(
            *rows, first, last, graph.degree, graph.size, factor, max_size, effort, queue, waiting, link,
            np.empty(longest + 1, np.int32), label, volume, members,
        )  # fmt: skip

    def divide(first: int, last: int) -> None:
        kernels.refine_communities(
            *rows, first, last, graph.degree, factor, visit, label, volume, link,
            np.empty(longest + 1, np.int32), waiting, part, part_volume, cut,
        )  # fmt: skip

    work = graph.node_ptr + graph.indptr[graph.node_ptr]
    run_over_ranges(move, work)
    if not refine:
        return label, label
    part = np.empty(nodes, np.int32)
    part_volume, cut = np.empty(nodes), np.empty(nodes)
    run_over_ranges(divide, work)
    return _replace_slow_parts(graph, active, label, part)


def _replace_slow_parts(
    graph: _Graph, active: BoolArray, label: IndexArray, part: IndexArray
) -> tuple[IndexArray, IndexArray]:
    """Use the components of the communities in graphs where the parts are hardly fewer than the nodes."""
    from tgp.kernels import communities as kernels

    nodes = np.diff(graph.node_ptr)
    is_first = offsets(part == np.arange(len(part)))
    parts = np.diff(is_first[graph.node_ptr])
    slow = active & (parts > _SLOW * nodes)
    if not slow.any():
        return part, label
    component = np.empty(len(part), np.int32)

    def split(first: int, last: int) -> None:
        kernels.connected_parts(graph.indptr, graph.indices, graph.node_ptr, label, first, last, component)

    run_over_ranges(split, graph.node_ptr + graph.indptr[graph.node_ptr])
    of_node = np.repeat(slow, nodes)
    return np.where(of_node, component, part), np.where(of_node, component, label)


def _compose(first: Assignment, second: Assignment) -> Assignment:
    assert first.cluster is not None and second.cluster is not None
    return Assignment("hard", second.super_ptr, second.cluster[first.cluster])


def _labels_of(found: Assignment) -> IndexArray:
    """Return the first node of the cluster of each node."""
    assert found.cluster is not None
    return first_members(found.cluster, found.num_supernodes)[found.cluster]


def _aggregate(graph: _Graph, found: Assignment, label: IndexArray) -> tuple[_Graph, IndexArray]:
    """Return the graphs with merged nodes, and the community of each new node: the first new node of the community."""
    from tgp.kernels._prims import SUM

    cluster, parts = found.cluster, found.num_supernodes
    assert cluster is not None
    indptr, indices, weight = contract_rows(
        graph.indptr, graph.indices, graph.weight, True, cluster, parts, SUM, True, -1.0
    )
    degree = np.bincount(cluster, graph.degree, parts).astype(np.float64)
    size = np.bincount(cluster, graph.size, parts).astype(np.int64)
    community = np.empty(parts, np.int32)
    community[cluster] = label
    first = first_members(community, len(label))
    coarse = _Graph(indptr, indices, weight, True, found.super_ptr, degree, size)
    return coarse, first[community]


def cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: CommunityParams
) -> npt.NDArray[np.float64]:
    """Estimate the work: a run visits each node and edge about ten times."""
    return 10.0 * params.num_runs * (nodes + edges).astype(np.float64)


def bound(sizes: GraphSizes, params: CommunityParams) -> LevelBound:
    """Bound time and memory."""
    return linear_bound(sizes, 2000.0 * params.num_runs, 80.0)
