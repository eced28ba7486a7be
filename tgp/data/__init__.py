"""From graphs and stores to mini-batches: transform, dataset, loader, batch, samplers."""

from __future__ import annotations

from tgp._lazy import lazy_package

__all__ = lazy_package(
    __name__,
    {
        "PoolCollater": "loaders",
        "PoolDataLoader": "loaders",
        "PooledBatch": "batch",
        "NormalizeAdj": "transforms",
        "PreCoarsening": "transforms",
        "SortNodes": "transforms",
        "PooledDataset": "dataset",
        "GraphHierarchy": "hierarchy",
        "lift_to_nodes": "hierarchy",
        "precoarsen": "transforms",
        "KeyedPermutation": "sampler",
        "PoolBatchSampler": "sampler",
        "graphs_to_arrays": "convert",
    },
)
