"""Dataset of multipartite graphs."""

from __future__ import annotations

from tgp.datasets._base import GraphListDataset

__all__ = ["MultipartiteGraphDataset"]


class MultipartiteGraphDataset(GraphListDataset):
    """Dataset for the classification of multipartite graphs, from `"MaxCutPool" <https://arxiv.org/abs/2409.05100>`_.

    Args:
        root: Folder of the dataset. The raw file is ``<root>/raw/Multipartite.pkl``.
        transform, pre_transform, pre_filter, force_reload: Arguments of PyG's ``InMemoryDataset``.
    """

    raw_name = "Multipartite.pkl"

    def url_of(self, name: str) -> str:
        return f"https://zenodo.org/records/11617423/files/{name}?download=1"

    @property
    def num_classes(self) -> int:
        return int(self._data.y.unique().numel())
