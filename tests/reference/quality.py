"""Reference of the quality figures of a level, with numpy and scipy in separate passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged import Assignment, BlockCSR, Hierarchy, Level

__all__ = ["hierarchy_metrics", "level_metrics"]

Metrics = dict[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROW_SUM_TOLERANCE = 1e-5


def hierarchy_metrics(block: BlockCSR, hierarchy: Hierarchy) -> Metrics:
    """Return ``{"<level>/<name>": one value per graph}`` for all levels."""
    found: Metrics = {}
    before = components(block)
    for number, level in enumerate(hierarchy.levels):
        after = components(level.block)
        metrics = {"components_before": before, "components": after, **level_metrics(block, level)}
        found.update({f"{number}/{name}": values for name, values in metrics.items()})
        block, before = level.block, after
    return found


def level_metrics(fine: BlockCSR, level: Level) -> Metrics:
    """Return all figures of one level except the numbers of components."""
    assignment, coarse = level.assignment, level.block
    metrics: Metrics = {"isolated": _isolated(coarse), "symmetric": _symmetric(coarse)}
    metrics["expressive"] = _expressive(assignment, fine.node_ptr)
    if assignment.cluster is not None:
        cluster = assignment.cluster
        metrics |= _cluster_sizes(assignment, fine.node_ptr)
        metrics |= _flows(fine, coarse, cluster, assignment.super_ptr)
    return metrics


def components(block: BlockCSR) -> npt.NDArray[np.int32]:
    """Return the number of weakly connected components of each graph ``[B]``."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    size = block.num_nodes
    if not size:
        return np.zeros(block.num_graphs, np.int32)
    ones = np.ones(block.num_edges, np.int8)
    matrix = csr_array((ones, block.indices, block.indptr), shape=(size, size))
    count, part = connected_components(matrix, directed=False)
    owner = np.zeros(count, np.int64)
    owner[part] = block.graph_of_node()
    return np.bincount(owner, minlength=block.num_graphs).astype(np.int32)


def _per_graph(owner: Ints, num_graphs: int, weight: Floats | None = None) -> Floats:
    # bincount adds in order, so the sum of a graph does not depend on the other graphs of the block.
    return np.bincount(owner, weight, minlength=num_graphs).astype(np.float64)


def _owner(ptr: Ints) -> Ints:
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def _cluster_sizes(assignment: Assignment, node_ptr: Ints) -> Metrics:
    assert assignment.cluster is not None
    graphs = assignment.num_graphs
    kept = assignment.cluster >= 0
    members = np.bincount(assignment.cluster[kept], minlength=assignment.num_supernodes)
    owner = _owner(assignment.super_ptr)
    largest = np.zeros(graphs, np.int32)
    some = np.flatnonzero(np.diff(assignment.super_ptr))
    if some.size:
        largest[some] = np.maximum.reduceat(members, assignment.super_ptr[some])
    dropped = _per_graph(_owner(node_ptr)[~kept], graphs)
    return {
        "dropped": dropped.astype(np.int32),
        "singletons": _per_graph(owner[members == 1], graphs).astype(np.int32),
        "empty": _per_graph(owner[members == 0], graphs).astype(np.int32),
        "largest": largest,
    }


def _isolated(coarse: BlockCSR) -> npt.NDArray[np.int32]:
    rows = coarse.rows()
    between = rows != coarse.indices
    linked = np.zeros(coarse.num_nodes, bool)
    linked[rows[between]] = True
    linked[coarse.indices[between]] = True
    return _per_graph(_owner(coarse.node_ptr)[~linked], coarse.num_graphs).astype(np.int32)


def _symmetric(block: BlockCSR) -> npt.NDArray[np.bool_]:
    """Return a mask of the graphs that equal their transpose, entry by entry."""
    rows, columns = block.rows(), block.indices
    order = np.argsort(columns, kind="stable")  # rows are ascending, so this sorts by (column, row)
    wrong = (columns[order] != rows) | (rows[order] != columns)
    if block.weight is not None:
        wrong |= block.weight[order] != block.weight
    symmetric = np.ones(block.num_graphs, bool)
    symmetric[_owner(block.edge_ptr)[wrong]] = False
    return symmetric


def _expressive(assignment: Assignment, node_ptr: Ints) -> npt.NDArray[np.bool_]:
    if assignment.soft is not None:
        sums = assignment.soft.sum(axis=1, dtype=np.float64)
    else:
        assert assignment.cluster is not None
        kept = assignment.cluster >= 0
        sums = (
            kept.astype(np.float64) if assignment.weight is None else np.where(kept, assignment.weight, 0.0)
        )
    graphs = len(node_ptr) - 1
    expressive = np.ones(graphs, bool)
    some = np.flatnonzero(np.diff(node_ptr))
    if some.size:
        low = np.minimum.reduceat(sums, node_ptr[some])
        high = np.maximum.reduceat(sums, node_ptr[some])
        constant = high - low <= ROW_SUM_TOLERANCE * np.abs(high)
        expressive[some] = constant & (np.minimum(np.abs(low), np.abs(high)) > ROW_SUM_TOLERANCE)
    return expressive


def _flows(fine: BlockCSR, coarse: BlockCSR, cluster: npt.NDArray[np.int32], super_ptr: Ints) -> Metrics:
    """Return the figures that depend on weights: cut, modularity, entropies, and the share of weight that is kept."""
    graphs = fine.num_graphs
    weight = fine.weights_or_ones()
    rows = fine.rows()
    source, target = cluster[rows], cluster[fine.indices]
    owner = _owner(fine.edge_ptr)
    total = _per_graph(owner, graphs, weight)
    inside = (source == target) & (source >= 0)
    within = _per_graph(owner[inside], graphs, weight[inside])

    clusters = int(super_ptr[-1])
    super_owner = _owner(super_ptr)
    own = np.bincount(source[inside], weight[inside], minlength=clusters)
    out = np.bincount(source[source >= 0], weight[source >= 0], minlength=clusters)
    into = np.bincount(target[target >= 0], weight[target >= 0], minlength=clusters)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = _per_graph(super_owner, graphs, out * into)
        modularity = within / total - expected / total**2
        cut = 1.0 - within / total
        coarse_weight = _per_graph(_owner(coarse.edge_ptr), graphs, coarse.weights_or_ones())
        kept = (coarse_weight + within) / total if coarse.weight is not None else np.full(graphs, np.nan)
        degree = np.bincount(rows, weight, minlength=fine.num_nodes)
        flat, entropy = _entropies(fine, cluster, degree, out, out - own, total, super_owner)
    valid = total > 0
    return {
        name: np.where(valid, values, np.nan).astype(np.float32)
        for name, values in (
            ("cut", cut),
            ("modularity", modularity),
            ("entropy", entropy),
            ("entropy_flat", flat),
            ("weight_kept", kept),
        )
    }


def _entropies(
    fine: BlockCSR,
    cluster: npt.NDArray[np.int32],
    degree: Floats,
    volume: Floats,
    leaving: Floats,
    total: Floats,
    super_owner: Ints,
) -> tuple[Floats, Floats]:
    """Return the one-dimensional entropy and the entropy of the two-level tree whose inner nodes are the clusters.

    A dropped node is a child of the root, as in the one-dimensional case.
    """
    graphs = fine.num_graphs
    owner = _owner(fine.node_ptr)
    whole = total[owner]
    parent = np.where(cluster >= 0, volume[cluster], whole) if len(volume) else whole
    flat = _per_graph(owner, graphs, _entropy_terms(degree, degree, whole, whole))
    leaves = _per_graph(owner, graphs, _entropy_terms(degree, degree, parent, whole))
    inner = _per_graph(
        super_owner, graphs, _entropy_terms(leaving, volume, total[super_owner], total[super_owner])
    )
    return flat, leaves + inner


def _entropy_terms(flow: Floats, volume: Floats, parent: Floats, whole: Floats) -> Floats:
    """Return ``-flow/whole * log2(volume/parent)``, or 0 if the flow is 0."""
    return np.where((flow > 0) & (volume > 0), -flow / whole * np.log2(volume / parent), 0.0)
