"""What the dataset classes share: processing once, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch_geometric.data import Data, InMemoryDataset, download_url

from tgp.errors import DatasetError

__all__ = ["GraphDataset", "GraphListDataset"]

Transform = Callable[[Any], Any] | None


class GraphDataset(InMemoryDataset):
    """A dataset whose subclass yields a list of graphs; filters and transforms are applied here.

    Raw files that lie in ``<root>/raw`` already are used as they are.
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
        """All graphs, before filters and transforms."""
        raise NotImplementedError

    def download(self) -> None:
        for name in self.raw_file_names:
            url = self.url_of(name)
            try:
                download_url(url, self.raw_dir, filename=name)
            except OSError as error:
                raise DatasetError(
                    f"cannot download {name} from {url} ({error})",
                    hint=f"Put the file at {self.raw_dir}/{name} by hand.",
                ) from error

    def url_of(self, name: str) -> str:
        """Where a raw file is published."""
        return f"{self.url}/{name}"

    def process(self) -> None:
        graphs = list(self.graphs())
        if self.pre_filter is not None:
            graphs = [graph for graph in graphs if self.pre_filter(graph)]
        if self.pre_transform is not None:
            graphs = [self.pre_transform(graph) for graph in graphs]
        self.save(graphs, self.processed_paths[0])


class GraphListDataset(GraphDataset):
    """A published list of PyG graphs in one object file."""

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
        # Files of old PyG versions lack attributes of today's class: keep the tensors only.
        return [Data(**graph.to_dict()) for graph in found]
