"""Compute spectral metrics of a sample of the graphs of a store. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.engine.lifted_laplacian import (
    Clusters,
    hyperbolic_errors,
    reconstruction_errors,
    restricted_approximations,
)
from tgp.engine.spectrum import eigenvalue_errors, graph_spectrum, highest_error, undirected
from tgp.errors import InputError
from tgp.inspect.export import check_edges
from tgp.inspect.figures import SPECTRAL_FIGURES
from tgp.inspect.overview import SpectralOptions
from tgp.inspect.partition_similarity import ComposedClusters
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Level
from tgp.ragged.offsets import offsets
from tgp.store import StoreReader

__all__ = ["measure_graphs", "sample_graphs", "spectral_metrics"]

MOST_EDGES = 20_000_000
"""Largest number of edges of a graph that is measured."""

NODES_AT_ONCE = 200_000
"""Number of nodes of the graphs that are solved together."""

MAX_SIGNAL_ENTRIES = 1 << 26
"""Number of entries of the features that the hyperbolic error uses at most. Beyond it, columns at equal distances are used."""

Metrics = dict[str, FloatArray]
"""Name of a metric -> one value per graph."""

CLUSTER_METRICS = (
    "eigenvalue_error_restricted",
    "size_weighted_error",
    "size_weighted_error_highest",
    "hyperbolic_error",
    "reconstruction_error",
    "restricted_approximation",
)
"""Metrics of the clusters alone. They need hard clusters and no dropped nodes."""


def sample_graphs(count: int, options: SpectralOptions) -> LongArray:
    """Select a sample of graphs.

    Args:
        count: number of graphs in the store.
        options: size and seed of the sample.

    Returns:
        Ascending ids. The same count and seed select the same graphs on every machine.
    """
    if options.sample >= count:
        return np.arange(count)
    order = np.argsort(_splitmix64(np.arange(count, dtype=np.uint64), options.seed), kind="stable")
    return np.sort(order[: options.sample])


def _splitmix64(values: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    mixed: npt.NDArray[np.uint64] = (values + np.uint64(seed % (1 << 64))) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    hashed: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return hashed


def spectral_metrics(
    reader: StoreReader, names: list[str], options: SpectralOptions
) -> dict[str, list[Metrics]]:
    """Compute the spectral metrics of a sample of the graphs, see :func:`measure_graphs`."""
    return measure_graphs(reader, sample_graphs(reader.num_graphs, options), names, options.modes)


def measure_graphs(
    reader: StoreReader, ids: LongArray, names: list[str], modes: int
) -> dict[str, list[Metrics]]:
    r"""Compute the spectral metrics of some graphs.

    Every level is compared with the input graphs, so its error includes the losses of the levels before it. The first group uses
    the coarse graph that is stored:

    - ``eigenvalue_error``, ``eigenvalue_error_scaled``, ``eigenvalue_error_highest``: relative error of the lowest modes of the normalised
      Laplacian, the same after the best common factor, and that of the highest modes, see
      :func:`tgp.engine.spectrum.eigenvalue_errors`.
    - ``combinatorial_error``, ``combinatorial_error_highest``: relative error of the modes of ``D - A``.

    The second group uses the input graph contracted by the clusters of all levels so far. It measures the clusters,
    independently of how the coarse graph was connected. It is NaN for soft assignments and for graphs with dropped nodes:

    - ``eigenvalue_error_restricted`` (Loukas, 2019): lowest modes of the normalised Laplacian restricted to signals that are constant
      on clusters. They are never below the true ones.
    - ``size_weighted_error``, ``size_weighted_error_highest``: modes of ``D - A`` restricted in the same way, with the sizes of the
      clusters as masses.
    - ``hyperbolic_error``, ``reconstruction_error``, ``restricted_approximation``: see :mod:`tgp.engine.lifted_laplacian`. The hyperbolic
      error uses the features ``x`` of the nodes, and the identity matrix if the store has none.

    Args:
        reader: store.
        ids: graphs to measure.
        names: hierarchies to measure.
        modes: number of eigenvalues to compare.

    Returns:
        For each hierarchy a list with the metrics of each level, one value per graph.

    Raises:
        InputError: if the store has no edges, or not one real weight per edge, or if a graph has more than :data:`MOST_EDGES` edges.
    """
    if not names:
        return {}
    check_edges(reader)
    edges = reader.sizes()[1][ids]
    if edges.max(initial=0) > MOST_EDGES:
        raise InputError(
            f"graph {ids[edges.argmax()]} is too large for spectral figures: expected at most {MOST_EDGES:,} edges, got "
            f"{edges.max():,}",
            field="graph",
        )
    found: dict[str, list[list[Metrics]]] = {
        name: [[] for _ in range(reader.hierarchies[name].depth)] for name in names
    }
    for batch in _batches(reader, ids):
        measured = _measure_batch(reader, batch, names, modes)
        for name in names:
            for pieces, metrics in zip(found[name], measured[name], strict=True):
                pieces.append(metrics)
    return {
        name: [
            {key: np.concatenate([piece[key] for piece in pieces]) for key in SPECTRAL_FIGURES}
            for pieces in levels
        ]
        for name, levels in found.items()
    }


def _measure_batch(
    reader: StoreReader, batch: LongArray, names: list[str], modes: int
) -> dict[str, list[Metrics]]:
    """Return the metrics of all levels of some graphs that are solved together."""
    edges, weight, node_ptr = _input_graphs(reader, batch)
    fine = InputGraphs(edges, weight, node_ptr, modes)
    found: dict[str, list[Metrics]] = {name: [] for name in names}
    defined: list[tuple[Metrics, Clusters]] = []
    for name in names:
        composed = ComposedClusters(reader, batch)
        for level in _read_levels(reader, batch, name):
            composed.add(level)
            metrics = fine.compare_stored(level)
            metrics |= {key: np.full(len(batch), np.nan) for key in CLUSTER_METRICS}
            if composed.cluster is not None:
                clusters = Clusters(composed.cluster, int(level.super_ptr[-1]))
                metrics |= fine.compare_clusters(clusters, level.super_ptr)
                defined.append((metrics, clusters))
            found[name].append(metrics)
    partitions = [clusters for _, clusters in defined]
    approximations = restricted_approximations(fine.adjacency, node_ptr, partitions, fine.combinatorial)
    for (metrics, _), values in zip(defined, approximations, strict=True):
        metrics["restricted_approximation"] = values
    signals = _read_signals(reader, batch)
    if signals is not None and defined:
        distances = hyperbolic_errors(fine.adjacency, node_ptr, partitions, signals)
        for (metrics, _), values in zip(defined, distances, strict=True):
            metrics["hyperbolic_error"] = values
    return found


class InputGraphs:
    """Input graphs with their spectra, to compare levels with.

    Args:
        edges: ``[2, E]`` edges.
        weight: ``[E]`` weights, or ``None`` for ones.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        modes: number of eigenvalues to compare.
    """

    def __init__(
        self, edges: LongArray, weight: npt.NDArray[Any] | None, node_ptr: LongArray, modes: int
    ) -> None:
        self.node_ptr, self.modes = node_ptr, modes
        self.adjacency = undirected(edges, weight, int(node_ptr[-1]))
        self.normalized = graph_spectrum(edges, weight, node_ptr, modes, highest=True)
        ones = np.ones(int(node_ptr[-1]))
        self.combinatorial = graph_spectrum(edges, weight, node_ptr, modes, mass=ones, highest=True)

    def compare_stored(self, level: Level) -> Metrics:
        """Compare the graphs with the coarse graphs that are stored."""
        graphs = level.edge_index, level.edge_weight, level.super_ptr, self.modes
        coarse = graph_spectrum(*graphs, highest=True)
        plain = graph_spectrum(*graphs, mass=np.ones(int(level.super_ptr[-1])), highest=True)
        return eigenvalue_errors(self.normalized, coarse) | {
            "eigenvalue_error_highest": highest_error(self.normalized, coarse),
            "combinatorial_error": eigenvalue_errors(self.combinatorial, plain)["eigenvalue_error"],
            "combinatorial_error_highest": highest_error(self.combinatorial, plain),
        }

    def compare_clusters(self, clusters: Clusters, super_ptr: LongArray) -> Metrics:
        """Compare the graphs with the graphs contracted by clusters.

        The undirected graphs are contracted, so that negative weights, which count as 0, do not cancel others.
        """
        entries = self.adjacency.tocoo()
        ends = clusters.cluster[np.stack([entries.row, entries.col])]
        kept = (ends >= 0).all(axis=0)
        graphs = ends[:, kept], entries.data[kept], super_ptr, self.modes
        restricted = graph_spectrum(*graphs)
        sized = graph_spectrum(*graphs, mass=clusters.sizes(), highest=True)
        reconstruction, hyperbolic = reconstruction_errors(self.adjacency, self.node_ptr, clusters)
        found = {
            "eigenvalue_error_restricted": eigenvalue_errors(self.normalized, restricted)["eigenvalue_error"],
            "size_weighted_error": eigenvalue_errors(self.combinatorial, sized)["eigenvalue_error"],
            "size_weighted_error_highest": highest_error(self.combinatorial, sized),
            "hyperbolic_error": hyperbolic,
            "reconstruction_error": reconstruction,
        }
        undefined = clusters.undefined(self.node_ptr)
        return {key: np.where(undefined, np.nan, values) for key, values in found.items()}


def signals_of(reader: StoreReader) -> str:
    """Return ``"x"`` if the hyperbolic error uses the features of the nodes, else ``"identity"``."""
    info = reader.fields.get("x")
    if info is None or info.form != "rows" or info.axis != 0 or "node" not in info.ptrs:
        return "identity"
    return "x" if np.dtype(info.dtype).kind in "fiub" else "identity"


def _read_signals(reader: StoreReader, ids: LongArray) -> npt.NDArray[Any] | None:
    """Return the features ``[N, F]`` of some graphs, ``None`` if the store has none."""
    if signals_of(reader) == "identity":
        return None
    rows = [reader.read_graph(graph, ["x"]).fields["x"].values for graph in ids.tolist()]
    columns = int(np.prod(rows[0].shape[1:]))
    step = max(1, -(-sum(map(len, rows)) * columns // MAX_SIGNAL_ENTRIES))
    return np.concatenate([part.reshape(len(part), columns)[:, ::step] for part in rows])


def _batches(reader: StoreReader, ids: LongArray) -> Iterator[LongArray]:
    group = np.cumsum(reader.sizes()[0][ids]) // NODES_AT_ONCE
    yield from np.split(ids, np.flatnonzero(np.diff(group)) + 1)


# Single graphs are read with slices, because importing numba for a gather takes longer than reading the sample.


def _read_levels(reader: StoreReader, ids: LongArray, name: str) -> list[Level]:
    """Return all levels of a hierarchy, with the clusters and edges of the given graphs."""
    graphs = [
        reader.read_levels(graph, name, ("edge_weight", "cluster", "soft"), ()) for graph in ids.tolist()
    ]
    return [Level.concat(levels) for levels in zip(*graphs, strict=True)]


def _input_graphs(
    reader: StoreReader, ids: LongArray
) -> tuple[LongArray, npt.NDArray[Any] | None, LongArray]:
    """Return the edges (node ids counted over the batch), weights and node offsets of the input graphs."""
    names = [name for name in ("edge_index", "edge_weight") if name in reader.fields]
    tables = [reader.read_graph(graph, names) for graph in ids.tolist()]
    node_ptr = offsets([table.num_nodes for table in tables])
    edges = [
        table.fields["edge_index"].values.astype(np.int64) + start
        for table, start in zip(tables, node_ptr, strict=False)
    ]
    weights = [table.fields["edge_weight"].values.reshape(-1) for table in tables if "edge_weight" in names]
    return np.concatenate(edges, axis=1), np.concatenate(weights) if weights else None, node_ptr
