"""Mini-batches of graphs with their pooled levels: transform, dataset, loader, batch and samplers.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.data.batch import PooledBatch
    from tgp.data.convert import graphs_to_arrays
    from tgp.data.dataset import PooledDataset
    from tgp.data.graph_hierarchy import GraphHierarchy, lift_to_nodes
    from tgp.data.level_store import LevelStore
    from tgp.data.loaders import PoolCollater, PoolDataLoader
    from tgp.data.pooled_data import PooledData
    from tgp.data.sampler import KeyedPermutation, PoolBatchSampler
    from tgp.data.transforms import NormalizeAdj, PreCoarsening, SortNodes, precoarsen

__all__ = [
    "PoolCollater",
    "PoolDataLoader",
    "PooledBatch",
    "PooledData",
    "NormalizeAdj",
    "PreCoarsening",
    "SortNodes",
    "PooledDataset",
    "GraphHierarchy",
    "LevelStore",
    "lift_to_nodes",
    "precoarsen",
    "KeyedPermutation",
    "PoolBatchSampler",
    "graphs_to_arrays",
]

lazy_package(__name__)
