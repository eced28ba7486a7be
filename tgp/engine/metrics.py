r"""Quality figures of a level, one value per graph. They are computed when a hierarchy is written to a store.

For a level with fine weights ``w`` (sum ``W``), clusters ``c`` and coarse graph ``A'`` the figures are:

========================  =====================================================================================
``dropped``               number of nodes without a supernode
``singletons``            number of supernodes with one node
``empty``                 number of supernodes without a node
``largest``               number of nodes of the largest supernode
``isolated``              number of supernodes without an edge to another one
``components_before``     number of connected components of the fine graph (directions are ignored)
``components``            number of connected components of the coarse graph
``cut``                   share of the weight between different supernodes; a dropped node counts as one
``modularity``            :math:`\sum_c w_{cc}/W - \mathrm{out}(c)\,\mathrm{in}(c)/W^2`
``entropy``               structural entropy of the partition in bits (Li and Pan, 2016)
``entropy_flat``          structural entropy without clusters; the difference is the information in the clusters
``weight_kept``           coarse weight plus weight inside clusters, divided by ``W``; 1 if no weight is lost
``symmetric``             True if ``A'`` equals its transpose
``expressive``            True if all rows of ``S`` have the same sum, other than zero (Bianchi and Lachi, 2023)
========================  =====================================================================================

A figure that is not defined (the cut of a graph without edges) is NaN, or 0 for counts. A soft assignment has no figures
about clusters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from tgp.engine.threads import run_over_ranges
from tgp.kernels.array_types import Array, BoolArray, FloatArray, PtrArray
from tgp.ragged import Assignment, BlockCSR, Hierarchy, Level

__all__ = ["choose_kernels", "hierarchy_metrics", "level_metrics"]

Metrics = dict[str, Array]

SMALL_NODES = 63
"""Largest number of nodes of a graph whose rows are words of bits, see :data:`tgp.kernels.quality.WORD`."""

ROW_SUM_TOLERANCE = 1e-5
"""Relative difference below which two row sums of ``S`` count as equal, because weights are stored in float32."""


def choose_kernels(node_ptr: PtrArray, weighted: bool) -> tuple[bool, bool]:
    """Choose the kernels that compute the figures of graphs. The figures do not depend on the choice.

    Args:
        node_ptr: ``[B + 1]`` offsets of the nodes of the graphs.
        weighted: True if the graphs or their levels have weights.

    Returns:
        True if the kernel for small graphs is used, and True if the kernel for all other graphs is used.
    """
    sizes = np.diff(node_ptr)
    small = not weighted and bool(sizes.sum() <= SMALL_NODES * len(sizes))
    return small, not small or bool(sizes.max(initial=0) > SMALL_NODES)


def hierarchy_metrics(block: BlockCSR, hierarchy: Hierarchy) -> Metrics:
    """Return the figures of all levels as ``"<position>/<name>"`` -> one value per graph.

    Args:
        block: the input graphs.
        hierarchy: their hierarchy. The first pooled level has position 0.
    """
    found: Metrics = {}
    for position, (fine, level, before, after) in enumerate(_figures_along(block, hierarchy.levels)):
        metrics = _level_figures(fine, level, before, after)
        found.update({f"{position}/{name}": values for name, values in metrics.items()})
    return found


def level_metrics(fine: BlockCSR, level: Level) -> Metrics:
    """Return the figures of one level as name -> one value per graph.

    Args:
        fine: the graphs that are pooled.
        level: the level.

    Examples:
        >>> from tgp.engine import coarsen
        >>> from tgp.testing.graphs import path
        >>> level = coarsen(path(4), "graclus:order=index").levels[0]
        >>> level_metrics(path(4), level)["largest"].tolist()
        [2]
    """
    ((_, _, before, after),) = _figures_along(fine, [level])
    return _level_figures(fine, level, before, after)


def _figures_along(
    block: BlockCSR, levels: Sequence[Level]
) -> Iterator[tuple[BlockCSR, Level, Metrics, Metrics]]:
    """Yield each level with the block that it pools, and the figures of that block and of its coarse block."""
    weighted = any(given.weight is not None for given in (block, *(level.block for level in levels)))
    small, _ = choose_kernels(block.node_ptr, weighted)
    before = _block_figures(block, levels[0].assignment, small) if levels else None
    for level, following in zip(levels, [*levels[1:], None], strict=True):
        assert before is not None
        after = _block_figures(level.block, None if following is None else following.assignment, small)
        yield block, level, before, after
        block, before = level.block, after


def _block_figures(block: BlockCSR, assignment: Assignment | None, small: bool) -> Metrics:
    """Return the figures of graphs, and those of their clusters if the assignment has clusters.

    Args:
        block: the graphs.
        assignment: their supernodes, or ``None``.
        small: True to compute small graphs with words of bits.
    """
    from tgp.kernels import quality

    graphs = block.num_graphs
    if assignment is None or assignment.cluster is None:
        cluster, super_ptr = np.full(block.num_nodes, -1, np.int32), np.zeros(graphs + 1, np.int64)
    else:
        cluster, super_ptr = np.ascontiguousarray(assignment.cluster, np.int32), assignment.super_ptr
    counts, flows = np.zeros((6, graphs), np.int32), np.zeros((5, graphs))
    symmetric = np.zeros(graphs, bool)
    nodes, clusters = (int(np.diff(ptr).max(initial=0)) for ptr in (block.node_ptr, super_ptr))
    logs = _logarithms(quality.SMALL)
    weight = np.empty(0) if block.weight is None else block.weight
    arrays = block.indptr, block.indices, weight, block.node_ptr, cluster, super_ptr

    def compute(first: int, last: int) -> None:
        out = counts, flows, symmetric
        if small:
            given = block.indptr, block.indices, block.node_ptr, cluster, super_ptr, logs
            a, b, c, d = np.empty((4, quality.WORD + 1), np.uint64)  # scratch
            if quality.small_figures(*given, first, last, a, b, c, d, *out):
                return
        ids, words = np.empty(nodes, np.int64), np.empty(max(nodes, quality.WORD + 1), np.uint64)
        sums = np.empty((clusters, 3))
        if quality.graph_figures(*arrays, logs, first, last, ids, words, sums, *out):
            return
        part = symmetric, first, last
        quality.count_components(block.indptr, block.indices, block.node_ptr, *part, ids, words, counts)
        if clusters and not symmetric[first:last].all():
            quality.incoming_flows(*arrays, *part, np.empty((2, clusters)), flows)

    run_over_ranges(compute, block.node_ptr + block.edge_ptr)
    names = ("components", "isolated", "dropped", "singletons", "empty", "largest")
    sums = ("total", "within", "expected", "entropy_flat", "entropy")
    return {"symmetric": symmetric, **dict(zip((*names, *sums), (*counts, *flows), strict=True))}


@cache
def _logarithms(length: int) -> FloatArray:
    """Return ``x log2 x`` and ``log2 x`` of the integers below ``length``; 0 for 0."""
    logs = np.zeros((2, length))
    logs[1, 1:] = [math.log2(x) for x in range(1, length)]
    logs[0] = np.arange(length) * logs[1]
    return logs


def _level_figures(fine: BlockCSR, level: Level, before: Metrics, after: Metrics) -> Metrics:
    metrics: Metrics = {
        "components_before": before["components"],
        "components": after["components"],
        "isolated": after["isolated"],
        "symmetric": after["symmetric"],
        "expressive": _expressive(level.assignment, fine),
    }
    if level.assignment.cluster is not None:
        metrics |= {name: before[name] for name in ("dropped", "singletons", "empty", "largest")}
        # The last bits of a logarithm differ between machines. Rounding to float32 removes them.
        defined = before["total"] > 0
        floats = _cluster_figures(before, after["total"] if level.block.weight is not None else None)
        with np.errstate(over="ignore"):
            metrics |= {
                name: np.where(defined, values, np.nan).astype(np.float32) for name, values in floats.items()
            }
    return metrics


def _cluster_figures(before: Metrics, coarse_total: FloatArray | None) -> dict[str, FloatArray]:
    """Return the figures of clusters that are real numbers. ``coarse_total`` is ``None`` if no weights are stored."""
    total, within = before["total"], before["within"]
    with np.errstate(
        over="ignore", divide="ignore", invalid="ignore"
    ):  # figures of huge weights are not finite
        return {
            "cut": 1.0 - within / total,
            "modularity": within / total - before["expected"] / total**2,
            "entropy": before["entropy"],
            "entropy_flat": before["entropy_flat"],
            "weight_kept": np.full_like(total, np.nan)
            if coarse_total is None
            else (coarse_total + within) / total,
        }


def _expressive(assignment: Assignment, fine: BlockCSR) -> BoolArray:
    """Return True for each graph in which all rows of ``S`` have the same sum, other than zero."""
    if assignment.soft is not None:
        sums = assignment.soft.sum(axis=1, dtype=np.float64)
    else:
        assert assignment.cluster is not None
        kept = assignment.cluster >= 0
        if assignment.weight is None and kept.all():
            return np.ones(fine.num_graphs, bool)
        sums = (
            kept.astype(np.float64) if assignment.weight is None else np.where(kept, assignment.weight, 0.0)
        )
    expressive = np.ones(fine.num_graphs, bool)
    some = np.flatnonzero(np.diff(fine.node_ptr))
    if some.size:
        low = np.minimum.reduceat(sums, fine.node_ptr[some])
        high = np.maximum.reduceat(sums, fine.node_ptr[some])
        constant = high - low <= ROW_SUM_TOLERANCE * np.abs(high)
        expressive[some] = constant & (np.minimum(np.abs(low), np.abs(high)) > ROW_SUM_TOLERANCE)
    return expressive
