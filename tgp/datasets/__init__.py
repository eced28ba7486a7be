"""Dataset classes of graph-pooling benchmarks.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.datasets.csbm import CSBMDataset
    from tgp.datasets.expwl1 import EXPWL1Dataset
    from tgp.datasets.graph_classification_bench import GraphClassificationBench
    from tgp.datasets.gset import GsetDataset
    from tgp.datasets.multipartite_graph import MultipartiteGraphDataset
    from tgp.datasets.pygsp import PyGSPDataset
    from tgp.sources.source import load_graphs

dataset_classes: list[str] = [
    "CSBMDataset",
    "EXPWL1Dataset",
    "GraphClassificationBench",
    "GsetDataset",
    "MultipartiteGraphDataset",
    "PyGSPDataset",
]
"""Names of the classes of this package."""

__all__ = [
    "CSBMDataset",
    "EXPWL1Dataset",
    "GraphClassificationBench",
    "GsetDataset",
    "MultipartiteGraphDataset",
    "PyGSPDataset",
    "load_graphs",
    "dataset_classes",
]

lazy_package(__name__)
