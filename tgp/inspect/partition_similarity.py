"""Measure how similar two partitions of the same nodes are: adjusted Rand index and mutual information per graph."""

from __future__ import annotations

import numpy as np

from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Level
from tgp.ragged.offsets import offsets
from tgp.store import StoreReader

__all__ = ["ComposedClusters", "partition_similarity"]


class ComposedClusters:
    """The supernode of every input node, after the levels that were added so far.

    Args:
        reader: store.
        ids: graphs to follow.

    Attributes:
        ptr: ``[B + 1]`` offsets of the input nodes of each graph.
        cluster: ``[N]`` supernode of each input node, -1 if it was dropped; ``None`` after a soft assignment.
    """

    def __init__(self, reader: StoreReader, ids: LongArray) -> None:
        self.ptr: LongArray = offsets(reader.sizes()[0][ids])
        self.cluster: LongArray | None = np.arange(self.ptr[-1])

    def add(self, level: Level) -> None:
        """Follow the nodes through one more level. Dropped nodes stay dropped."""
        if self.cluster is None or level.assignment.cluster is None:
            self.cluster = None
        else:
            inner = np.append(level.assignment.cluster, -1)
            self.cluster = inner[self.cluster]  # index -1 selects the appended -1


def partition_similarity(a: ComposedClusters, b: ComposedClusters) -> tuple[FloatArray, FloatArray]:
    """Compare two partitions of the nodes of each graph. A dropped node counts as a cluster of its own.

    Args:
        a: first partition.
        b: second partition.

    Returns:
        ``[B]`` adjusted Rand index and ``[B]`` normalised mutual information. Both are NaN for soft assignments, for
        graphs whose number of nodes differs, and for graphs with fewer than two nodes.
    """
    size = np.diff(a.ptr)
    graphs = len(size)
    valid = (size == np.diff(b.ptr)) & (size >= 2)
    if a.cluster is None or b.cluster is None or not valid.any():
        return np.full(graphs, np.nan), np.full(graphs, np.nan)
    owner = np.repeat(np.arange(graphs), np.where(valid, size, 0))
    x = _separate_dropped(a.cluster[np.repeat(valid, np.diff(a.ptr))])
    y = _separate_dropped(b.cluster[np.repeat(valid, np.diff(b.ptr))])
    pair, both = _cluster_sizes(owner, x * (y.max() + 1) + y)
    left, right = _cluster_sizes(owner, x), _cluster_sizes(owner, y)
    rand = _rand_index(
        size, _count_pairs(graphs, pair, both), _count_pairs(graphs, *left), _count_pairs(graphs, *right)
    )
    joint, one, two = (_entropy(graphs, size, *c) for c in ((pair, both), left, right))
    nmi = _mutual_information(joint, one, two)
    return np.where(valid, rand, np.nan), np.where(valid, nmi, np.nan)


def _separate_dropped(cluster: LongArray) -> LongArray:
    """Give every dropped node a cluster of its own."""
    return np.where(cluster < 0, cluster.max(initial=0) + 1 + np.arange(len(cluster)), cluster)


def _cluster_sizes(owner: LongArray, cluster: LongArray) -> tuple[LongArray, LongArray]:
    """Return the graph and the size of every cluster."""
    _, first, counts = np.unique(cluster, return_index=True, return_counts=True)
    return owner[first], counts


def _sum_by_graph(graphs: int, owner: LongArray, values: FloatArray) -> FloatArray:
    sums: FloatArray = np.bincount(owner, values, minlength=graphs).astype(np.float64, copy=False)
    return sums


def _count_pairs(graphs: int, owner: LongArray, counts: LongArray) -> FloatArray:
    """Return the number of node pairs of each graph that share a cluster."""
    return _sum_by_graph(graphs, owner, counts * (counts - 1) / 2)


def _rand_index(size: LongArray, pairs: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    total = size * (size - 1.0) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = left * right / total
        highest = (left + right) / 2
        score = (pairs - expected) / (highest - expected)
    return np.where(highest == expected, 1.0, score)


def _entropy(graphs: int, size: LongArray, owner: LongArray, counts: LongArray) -> FloatArray:
    share = counts / size[owner]
    return _sum_by_graph(graphs, owner, -share * np.log(share))


def _mutual_information(joint: FloatArray, one: FloatArray, two: FloatArray) -> FloatArray:
    """Divide the mutual information by the mean entropy. Two partitions without entropy are equal."""
    mean = (one + two) / 2
    shared = np.maximum(one + two - joint, 0.0)
    return np.where(mean > 0, np.minimum(shared / np.where(mean > 0, mean, 1.0), 1.0), 1.0)
