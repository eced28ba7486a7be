"""Spectral figures of a store, computed on request for a sample of its graphs. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.engine.spectral import Spectrum, eigenvalue_errors, graph_spectrum
from tgp.inspect.overview import ON_REQUEST, SpectralOptions
from tgp.inspect.partition_similarity import Composed
from tgp.store import StoreReader

__all__ = ["errors_of", "sample_graphs", "spectral_figures"]

NODES_AT_ONCE = 200_000
"""Nodes of the graphs that are solved together."""

Figures = dict[str, npt.NDArray[np.float64]]


def sample_graphs(count: int, options: SpectralOptions) -> npt.NDArray[np.int64]:
    """Ascending ids of the sample. The same seed and count give the same graphs on every machine."""
    if options.sample >= count:
        return np.arange(count)
    order = np.argsort(_hash(np.arange(count, dtype=np.uint64), options.seed), kind="stable")
    return np.sort(order[: options.sample])


def _hash(values: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """SplitMix64 of a counter."""
    mixed = (values + np.uint64(seed % (1 << 64))) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def spectral_figures(
    reader: StoreReader, names: list[str], options: SpectralOptions
) -> dict[str, list[Figures]]:
    """Per hierarchy and level: figure -> one value per graph of the sample, see :func:`errors_of`."""
    return errors_of(reader, sample_graphs(reader.num_graphs, options), names, options.modes)


def errors_of(
    reader: StoreReader, ids: npt.NDArray[np.int64], names: list[str], modes: int
) -> dict[str, list[Figures]]:
    """Per hierarchy and level: figure -> one value per graph, see :func:`tgp.engine.spectral.eigenvalue_errors`.

    Every level is compared with the input graphs, so what the levels below it lost counts, too.

    - ``eigenvalue_error`` and ``eigenvalue_error_scaled`` take the coarse graph as it is stored.
    - ``eigenvalue_error_restricted`` (Loukas, 2019) takes the input graph contracted by the clusters of all levels
      so far, weights inside clusters kept as self loops: its modes are those of the input graph among signals
      that are constant on clusters, never below the true ones. It judges clusters, not how the coarse
      graph was connected. NaN for soft assignments and where nodes were dropped.
    """
    found: dict[str, list[list[Figures]]] = {
        name: [[] for _ in range(reader.hierarchies[name].depth)] for name in names
    }
    for batch in _batches(reader, ids):
        edges, weight, node_ptr = _input(reader, batch)
        given = graph_spectrum(edges, weight, node_ptr, modes)
        for name in names:
            composed = Composed(reader, batch)
            for number, level in enumerate(
                reader.gather_levels(batch, name, arrays=("edge_weight", "cluster"))
            ):
                coarse = graph_spectrum(level.edge_index, level.edge_weight, level.super_ptr, modes)
                figures = eigenvalue_errors(given, coarse)
                composed.add(level)
                figures["eigenvalue_error_restricted"] = _restricted(
                    given, composed, edges, weight, level.super_ptr
                )
                found[name][number].append(figures)
    return {
        name: [
            {key: np.concatenate([piece[key] for piece in pieces]) for key in ON_REQUEST} for pieces in levels
        ]
        for name, levels in found.items()
    }


def _restricted(
    given: Spectrum,
    composed: Composed,
    edges: npt.NDArray[np.int64],
    weight: npt.NDArray[Any] | None,
    super_ptr: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    if composed.cluster is None:
        return np.full(len(given.zeros), np.nan)
    graph_of = np.repeat(np.arange(len(given.zeros)), np.diff(composed.ptr))
    whole = np.bincount(graph_of[composed.cluster < 0], minlength=len(given.zeros)) == 0
    ends = composed.cluster[edges]
    kept = (ends >= 0).all(axis=0)
    modes = given.values.shape[1]
    contracted = graph_spectrum(ends[:, kept], None if weight is None else weight[kept], super_ptr, modes)
    return np.where(whole, eigenvalue_errors(given, contracted)["eigenvalue_error"], np.nan)


def _batches(reader: StoreReader, ids: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    group = np.cumsum(reader.sizes()[0][ids]) // NODES_AT_ONCE
    yield from np.split(ids, np.flatnonzero(np.diff(group)) + 1)


def _input(
    reader: StoreReader, ids: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any] | None, npt.NDArray[np.int64]]:
    """Edges in batch ids, weights, and offsets of the input graphs."""
    table = reader.gather_graphs(ids, [f for f in ("edge_index", "edge_weight") if f in reader.fields])
    edges = table.fields["edge_index"]
    weight = table.fields.get("edge_weight")
    shift = np.repeat(table.node_ptr[:-1], np.diff(edges.ptr))
    return edges.values + shift, None if weight is None else weight.values.reshape(-1), table.node_ptr
