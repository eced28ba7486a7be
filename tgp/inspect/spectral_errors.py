"""Compute spectral metrics of a sample of the graphs of a store. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.engine.spectrum import Spectrum, eigenvalue_errors, graph_spectrum
from tgp.inspect.export import check_edges
from tgp.inspect.figures import SPECTRAL_FIGURES
from tgp.inspect.overview import SpectralOptions
from tgp.inspect.partition_similarity import ComposedClusters, Floats, Ints
from tgp.ragged import Level
from tgp.ragged.offsets import offsets
from tgp.store import StoreReader

__all__ = ["measure_graphs", "sample_graphs", "spectral_metrics"]

NODES_AT_ONCE = 200_000
"""Number of nodes of the graphs that are solved together."""

Metrics = dict[str, Floats]
"""Name of a metric -> one value per graph."""


def sample_graphs(count: int, options: SpectralOptions) -> Ints:
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


def measure_graphs(reader: StoreReader, ids: Ints, names: list[str], modes: int) -> dict[str, list[Metrics]]:
    """Compute the spectral metrics of some graphs, see :func:`tgp.engine.spectrum.eigenvalue_errors`.

    Every level is compared with the input graphs, so its error includes the losses of the levels before it.

    - ``eigenvalue_error`` and ``eigenvalue_error_scaled`` use the coarse graph that is stored.
    - ``eigenvalue_error_restricted`` (Loukas, 2019) uses the input graph contracted by the clusters of all levels
      so far, with the weights inside clusters kept as self-loops. Its modes are those of the input graph restricted to
      signals that are constant on clusters, so they are never below the true ones. It measures the clusters,
      independently of how the coarse graph was connected. It is NaN for soft assignments and for graphs with dropped
      nodes.

    Args:
        reader: store.
        ids: graphs to measure.
        names: hierarchies to measure.
        modes: number of eigenvalues to compare.

    Returns:
        For each hierarchy a list with the metrics of each level, one value per graph.

    Raises:
        InputError: if the store has no edges, or not one real weight per edge.
    """
    if not names:
        return {}
    check_edges(reader)
    found: dict[str, list[list[Metrics]]] = {
        name: [[] for _ in range(reader.hierarchies[name].depth)] for name in names
    }
    for batch in _batches(reader, ids):
        edges, weight, node_ptr = _input_graphs(reader, batch)
        fine = graph_spectrum(edges, weight, node_ptr, modes)
        for name in names:
            composed = ComposedClusters(reader, batch)
            levels = _read_levels(reader, batch, name)
            for pieces, level in zip(found[name], levels, strict=True):
                coarse = graph_spectrum(level.edge_index, level.edge_weight, level.super_ptr, modes)
                composed.add(level)
                restricted = _restricted_error(fine, composed, edges, weight, level.super_ptr)
                pieces.append(eigenvalue_errors(fine, coarse) | {"eigenvalue_error_restricted": restricted})
    return {
        name: [
            {key: np.concatenate([piece[key] for piece in pieces]) for key in SPECTRAL_FIGURES}
            for pieces in levels
        ]
        for name, levels in found.items()
    }


def _restricted_error(
    fine: Spectrum,
    composed: ComposedClusters,
    edges: Ints,
    weight: npt.NDArray[Any] | None,
    super_ptr: Ints,
) -> Floats:
    """Compare the input graphs with the input graphs contracted by the composed clusters."""
    graphs = len(fine.zeros)
    if composed.cluster is None:
        return np.full(graphs, np.nan)
    owner = np.repeat(np.arange(graphs), np.diff(composed.ptr))
    complete = np.bincount(owner[composed.cluster < 0], minlength=graphs) == 0
    ends = composed.cluster[edges]
    kept = (ends >= 0).all(axis=0)
    modes = fine.values.shape[1]
    contracted = graph_spectrum(ends[:, kept], None if weight is None else weight[kept], super_ptr, modes)
    return np.where(complete, eigenvalue_errors(fine, contracted)["eigenvalue_error"], np.nan)


def _batches(reader: StoreReader, ids: Ints) -> Iterator[Ints]:
    group = np.cumsum(reader.sizes()[0][ids]) // NODES_AT_ONCE
    yield from np.split(ids, np.flatnonzero(np.diff(group)) + 1)


# Single graphs are read with slices, because importing numba for a gather takes longer than reading the sample.


def _read_levels(reader: StoreReader, ids: Ints, name: str) -> list[Level]:
    """Return all levels of a hierarchy, with the clusters and edges of the given graphs."""
    graphs = [
        reader.read_levels(graph, name, ("edge_weight", "cluster", "soft"), ()) for graph in ids.tolist()
    ]
    return [Level.concat(levels) for levels in zip(*graphs, strict=True)]


def _input_graphs(reader: StoreReader, ids: Ints) -> tuple[Ints, npt.NDArray[Any] | None, Ints]:
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
