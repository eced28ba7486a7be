"""Base classes of the dataset classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch_geometric.data import Data, InMemoryDataset, download_url

from tgp.errors import DatasetError

__all__ = ["GraphDataset", "GraphListDataset"]

Transform = Callable[[Any], Any] | None


class GraphDataset(InMemoryDataset):
    """Base class of datasets. A subclass implements :meth:`graphs`; this class applies filters and transforms.

    Raw files that already exist in ``<root>/raw`` are not downloaded.
    """

    url: str | None = None

    def __init__(
        self,
        root: str | None = None,
        transform: Transform = None,
        pre_transform: Transform = None,
        pre_filter: Transform = None,
        force_reload: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(root, transform, pre_transform, pre_filter, force_reload=force_reload, **kwargs)
        self.load(self.processed_paths[0])

    def graphs(self) -> Sequence[Data]:
        """Return all graphs, before filters and transforms."""
        raise NotImplementedError

    def download(self) -> None:
        for name in self.raw_file_names:
            url = self.url_of(name)
            try:
                download_url(url, self.raw_dir, filename=name)
            except OSError as error:
                raise DatasetError(
                    f"{name} cannot be downloaded from {url}: {error}",
                    hint=f"download the file yourself and put it at {self.raw_dir}/{name}",
                ) from error

    def url_of(self, name: str) -> str:
        """Return the address of a raw file."""
        return f"{self.url}/{name}"

    def process(self) -> None:
        graphs = list(self.graphs())
        if self.pre_filter is not None:
            graphs = [graph for graph in graphs if self.pre_filter(graph)]
        if self.pre_transform is not None:
            graphs = [self.pre_transform(graph) for graph in graphs]
        self.save(graphs, self.processed_paths[0])


class GraphListDataset(GraphDataset):
    """Base class of datasets that are published as one pickled list of PyG graphs."""

    raw_name: str

    @property
    def raw_file_names(self) -> list[str]:
        return [self.raw_name]

    @property
    def processed_file_names(self) -> list[str]:
        return ["data.pt"]

    def graphs(self) -> Sequence[Data]:
        from tgp.datasets._safe_objects import read_objects

        found = read_objects(self.raw_paths[0])
        if not isinstance(found, list) or not all(isinstance(graph, Data) for graph in found):
            raise DatasetError(f"{self.raw_name} must hold a list of graphs, got {type(found).__name__}")
        # Graphs of old PyG versions lack attributes of the current class, so only their tensors are kept.
        return [Data(**graph.to_dict()) for graph in found]
