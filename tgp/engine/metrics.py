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

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged import Assignment, BlockCSR, Hierarchy, Level
from tgp.ragged.hierarchy import IdArray

__all__ = ["hierarchy_metrics", "level_metrics"]

Metrics = dict[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]

ROW_SUM_TOLERANCE = 1e-5
"""Relative difference below which two row sums of ``S`` count as equal, because weights are stored in float32."""


def hierarchy_metrics(block: BlockCSR, hierarchy: Hierarchy) -> Metrics:
    """Return the figures of all levels as ``"<position>/<name>"`` -> one value per graph.

    Args:
        block: the input graphs.
        hierarchy: their hierarchy. The first pooled level has position 0.
    """
    found: Metrics = {}
    before = _graph_figures(block)
    for position, level in enumerate(hierarchy.levels):
        after = _graph_figures(level.block)
        metrics = _level_figures(block, level, before, after)
        found.update({f"{position}/{name}": values for name, values in metrics.items()})
        block, before = level.block, after
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
    return _level_figures(fine, level, _graph_figures(fine), _graph_figures(level.block))


def _graph_figures(block: BlockCSR) -> Metrics:
    from tgp.kernels import quality

    names = ("components", "isolated", "symmetric", "total")
    return dict(zip(names, quality.graph_shape(*block.arrays(), block.node_ptr), strict=True))


def _level_figures(fine: BlockCSR, level: Level, before: Metrics, after: Metrics) -> Metrics:
    metrics: Metrics = {
        "components_before": before["components"],
        "components": after["components"],
        "isolated": after["isolated"],
        "symmetric": after["symmetric"],
        "expressive": _expressive(level.assignment, fine),
    }
    if level.assignment.cluster is not None:
        metrics |= _cluster_figures(fine, level, level.assignment.cluster, before, after["total"])
    return metrics


def _cluster_figures(
    fine: BlockCSR, level: Level, cluster: IdArray, before: Metrics, coarse_total: Floats
) -> Metrics:
    from tgp.kernels import quality

    total = before["total"]
    counts, flows = quality.cluster_flows(
        *fine.arrays(), fine.node_ptr, cluster, level.assignment.super_ptr, before["symmetric"]
    )
    within, expected, flat, entropy = flows
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = (
            (coarse_total + within) / total if level.block.weight is not None else np.full_like(total, np.nan)
        )
        floats = {
            "cut": 1.0 - within / total,
            "modularity": within / total - expected / total**2,
            "entropy": entropy,
            "entropy_flat": flat,
            "weight_kept": kept,
        }
    metrics: Metrics = dict(zip(("dropped", "singletons", "empty", "largest"), counts, strict=True))
    # The last bits of a logarithm differ between machines. Rounding to float32 removes them.
    metrics |= {
        name: np.where(total > 0, values, np.nan).astype(np.float32) for name, values in floats.items()
    }
    return metrics


def _expressive(assignment: Assignment, fine: BlockCSR) -> npt.NDArray[np.bool_]:
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
