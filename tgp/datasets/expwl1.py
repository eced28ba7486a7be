"""EXPWL1: graphs that need more than one round of color refinement."""

from __future__ import annotations

from tgp.datasets._base import GraphListDataset

__all__ = ["EXPWL1Dataset"]


class EXPWL1Dataset(GraphListDataset):
    """The dataset of `"The expressive power of pooling in Graph Neural Networks"
    <https://arxiv.org/abs/2304.01575>`_: pairs of graphs that only expressive models can distinguish.

    Args:
        root: Folder of the dataset. The raw file is ``<root>/raw/EXPWL1.pkl``.
        transform, pre_transform, pre_filter, force_reload: Arguments of PyG's ``InMemoryDataset``.
    """

    raw_name = "EXPWL1.pkl"
    url = "https://github.com/FilippoMB/The-expressive-power-of-pooling-in-GNNs/raw/main/data/EXPWL1/raw"
