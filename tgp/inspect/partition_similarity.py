"""How much two partitions of the same nodes agree: adjusted Rand index and mutual information, per graph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tgp.store import LevelArrays, StoreReader

__all__ = ["Composed", "Floats", "Ints", "partition_similarity"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Composed:
    """The supernode of every input node, level after level."""

    def __init__(self, reader: StoreReader, ids: Ints) -> None:
        counts = reader.sizes()[0][ids]
        self.ptr: Ints = np.append(0, np.cumsum(counts))
        self.cluster: Ints | None = np.arange(self.ptr[-1])

    def add(self, level: LevelArrays) -> None:
        """Go one level up. Dropped nodes stay dropped; a soft assignment ends it."""
        if self.cluster is None or level.cluster is None:
            self.cluster = None
        else:
            inner = np.append(level.cluster, -1)
            self.cluster = inner[self.cluster]  # -1 takes the last entry


def partition_similarity(a: Composed, b: Composed) -> tuple[Floats, Floats]:
    """``[B]`` adjusted Rand index and ``[B]`` normalised mutual information.

    NaN where they have no meaning: soft assignments, different nodes, fewer than two nodes. A dropped node is a
    cluster of its own.
    """
    size = np.diff(a.ptr)
    graphs = len(size)
    valid = (size == np.diff(b.ptr)) & (size >= 2)
    if a.cluster is None or b.cluster is None or not valid.any():
        return np.full(graphs, np.nan), np.full(graphs, np.nan)
    owner = np.repeat(np.arange(graphs), np.where(valid, size, 0))
    x, y = (_named(c.cluster[np.repeat(valid, np.diff(c.ptr))]) for c in (a, b) if c.cluster is not None)
    pair, both = _counts(owner, x * (y.max() + 1) + y)
    left, right = _counts(owner, x), _counts(owner, y)
    rand = _rand(size, _pairs(graphs, pair, both), _pairs(graphs, *left), _pairs(graphs, *right))
    joint, one, two = (_entropy(graphs, size, *c) for c in ((pair, both), left, right))
    nmi = _information(joint, one, two)
    return np.where(valid, rand, np.nan), np.where(valid, nmi, np.nan)


def _named(cluster: Ints) -> Ints:
    return np.where(cluster < 0, cluster.max(initial=0) + 1 + np.arange(len(cluster)), cluster)


def _counts(owner: Ints, cluster: Ints) -> tuple[Ints, Ints]:
    """Graph and size of every cluster."""
    _, first, counts = np.unique(cluster, return_index=True, return_counts=True)
    return owner[first], counts


def _pairs(graphs: int, owner: Ints, counts: Ints) -> Floats:
    return np.bincount(owner, counts * (counts - 1) / 2, minlength=graphs)


def _rand(size: Ints, pairs: Floats, left: Floats, right: Floats) -> Floats:
    total = size * (size - 1.0) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = left * right / total
        highest = (left + right) / 2
        score = (pairs - expected) / (highest - expected)
    return np.where(highest == expected, 1.0, score)


def _entropy(graphs: int, size: Ints, owner: Ints, counts: Ints) -> Floats:
    share = counts / size[owner]
    return np.bincount(owner, -share * np.log(share), minlength=graphs)


def _information(joint: Floats, one: Floats, two: Floats) -> Floats:
    """Shared information over the mean entropy; two partitions without information agree."""
    mean = (one + two) / 2
    shared = np.maximum(one + two - joint, 0.0)
    return np.where(mean > 0, np.minimum(shared / np.where(mean > 0, mean, 1.0), 1.0), 1.0)
