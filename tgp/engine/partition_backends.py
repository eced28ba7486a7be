"""Balanced clusters from METIS or KaMinPar, which are optional packages.

Both divide one graph per call. They are run on one thread with a fixed seed, so a result depends on the graph, the
parameters and the version of the package.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.engine.balanced_clusters import balance_clusters, number_clusters
from tgp.engine.bisection import SizeLimits
from tgp.engine.level_method import RandomKey
from tgp.errors import MissingPackageError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import IndexArray
from tgp.ragged.offsets import offsets

__all__ = ["check_backend", "run_backend"]

Counts = npt.NDArray[np.int64]

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
    name: str, graphs: BlockCSR, k: Counts, limits: SizeLimits, imbalance: float, key: RandomKey
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
    balance_clusters(graphs, cluster, super_ptr, limits)
    return number_clusters(cluster, graphs.node_ptr)


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
