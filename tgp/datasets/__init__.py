"""Where graphs come from: known collections, local files, seeded synthetic sets. Names load on first access."""

from __future__ import annotations

from tgp._lazy import lazy_package

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

# Opening by name joins names, files and PyG graphs, which is the pipeline's work; users look for it here.
__all__ = [
    *lazy_package(__name__, {**_CLASSES, "load_graphs": "tgp.pipeline.source:load_graphs"}),
    "dataset_classes",
]
