"""EXPWL1: graphs that need more than one round of colour refinement."""

from __future__ import annotations

from tgp.datasets._base import GraphListDataset

__all__ = ["EXPWL1Dataset"]


class EXPWL1Dataset(GraphListDataset):
    """The dataset of `"The expressive power of pooling in Graph Neural Networks"
    <https://arxiv.org/abs/2304.01575>`_: pairs of graphs that only expressive models tell apart.

    Args:
        root: folder; the raw file is ``<root>/raw/EXPWL1.pkl``.
        transform, pre_transform, pre_filter, force_reload: see PyG's ``InMemoryDataset``.
    """

    raw_name = "EXPWL1.pkl"
    url = "https://github.com/FilippoMB/The-expressive-power-of-pooling-in-GNNs/raw/main/data/EXPWL1/raw"
