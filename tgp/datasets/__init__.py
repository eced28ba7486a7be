"""Where graphs come from: known collections, local files, seeded synthetic sets. Names load on first access."""

from __future__ import annotations

import importlib
from typing import Any

_CLASSES = {
    "CSBMDataset": "csbm",
    "EXPWL1Dataset": "expwl1",
    "GraphClassificationBench": "graph_classification_bench",
    "GsetDataset": "gset",
    "MultipartiteGraphDataset": "multipartite_graph",
    "PyGSPDataset": "pygsp",
}
dataset_classes: list[str] = [*_CLASSES]
"""Names of the dataset classes."""

__all__ = [*_CLASSES, "dataset_classes"]


def __getattr__(name: str) -> Any:
    try:
        module = _CLASSES[name]
    except KeyError:
        raise AttributeError(f"module 'tgp.datasets' has no attribute {name!r}") from None
    return getattr(importlib.import_module(f"tgp.datasets.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
