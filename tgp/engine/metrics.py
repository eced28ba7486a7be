"""Quality figures of a level, one value per graph: computed when a hierarchy is written, shown by ``tgp inspect``.

For a level with fine weights ``w``, clusters ``c`` and coarse graph ``A'``:

========================  =====================================================================================
``dropped``               nodes without a supernode
``singletons``            supernodes with one member
``empty``                 supernodes without a member
``largest``               members of the largest supernode
``isolated``              supernodes without an edge to another one
``components_before``     connected components (directions ignored) of the fine graph
``components``            the same of the coarse graph
``cut``                   share of the weight between different supernodes, dropped nodes counting as such
``modularity``            :math:`\\sum_c w_{cc}/W - \\mathrm{out}(c)\\,\\mathrm{in}(c)/W^2`
``entropy``               structural entropy of the partition in bits (Li and Pan, 2016)
``entropy_flat``          the same without clusters; the difference is what the clusters explain
``weight_kept``           coarse weight and weight inside clusters, over fine weight; 1 if contraction lost nothing
``symmetric``             whether ``A'`` equals its transpose
``expressive``            whether all rows of ``S`` have the same sum other than zero (Bianchi and Lachi, 2023)
========================  =====================================================================================

A value that a graph does not have (the cut of a graph without edges, clusters of a soft assignment) is NaN
or, for counts, 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged import Assignment, BlockCSR, Hierarchy, Level

__all__ = ["hierarchy_metrics", "level_metrics"]

Metrics = dict[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]

ROW_SUM_TOLERANCE = 1e-5
"""Rows of ``S`` count as equal within this share of their sum: weights are stored in float32."""


def hierarchy_metrics(block: BlockCSR, hierarchy: Hierarchy) -> Metrics:
    """``"<level>/<name>"`` -> one value per graph, for all levels."""
    found: Metrics = {}
    before = _shape(block)
    for number, level in enumerate(hierarchy.levels):
        after = _shape(level.block)
        metrics = _combine(block, level, before, after)
        found.update({f"{number}/{name}": values for name, values in metrics.items()})
        block, before = level.block, after
    return found


def level_metrics(fine: BlockCSR, level: Level) -> Metrics:
    """All figures of one level."""
    return _combine(fine, level, _shape(fine), _shape(level.block))


def _arrays(block: BlockCSR) -> tuple[Any, ...]:
    weighted = block.weight is not None
    return block.indptr, block.indices, block.weight if weighted else np.zeros(0), weighted, block.node_ptr


def _shape(block: BlockCSR) -> Metrics:
    from tgp.kernels import quality

    names = ("components", "isolated", "symmetric", "total")
    return dict(zip(names, quality.graph_shape(*_arrays(block)), strict=True))


def _combine(fine: BlockCSR, level: Level, before: Metrics, after: Metrics) -> Metrics:
    metrics: Metrics = {
        "components_before": before["components"],
        "components": after["components"],
        "isolated": after["isolated"],
        "symmetric": after["symmetric"],
        "expressive": _expressive(level.assignment, fine),
    }
    if level.assignment.cluster is not None:
        metrics |= _clusters(fine, level, before, after["total"])
    return metrics


def _clusters(fine: BlockCSR, level: Level, before: Metrics, coarse_total: Floats) -> Metrics:
    from tgp.kernels import quality

    assignment, total = level.assignment, before["total"]
    arguments = (*_arrays(fine), assignment.cluster, assignment.super_ptr, before["symmetric"])
    counts, flows = quality.cluster_flows(*arguments)
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
    # float32 hides the last bits of a logarithm, which differ between machines.
    metrics |= {
        name: np.where(total > 0, values, np.nan).astype(np.float32) for name, values in floats.items()
    }
    return metrics


def _expressive(assignment: Assignment, fine: BlockCSR) -> npt.NDArray[np.bool_]:
    """Whether the rows of ``S`` have one sum, not zero, in each graph."""
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
