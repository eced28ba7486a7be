"""Gset: benchmark graphs of the maximum cut problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.datasets._base import GraphDataset, Transform
from tgp.errors import DatasetError, MissingPackageError, UnknownNameError
from tgp.input_limits import input_budget

__all__ = ["GsetDataset"]

_NAMES = [f"G{i}" for i in (*range(1, 68), 70, 72, 77, 81)]
_FEATURES = 32


class GsetDataset(GraphDataset):
    """One graph of the `Gset collection <https://web.stanford.edu/~yyye/yyye/Gset/>`_.

    Features are random numbers of a standard normal distribution. Weights are stored as ``edge_attr`` (integers) and as
    ``edge_weight`` (floats).

    Args:
        root: Folder of the dataset. The raw file is ``<root>/raw/<name>``.
        name: Name of the graph: ``G1`` ... ``G67``, ``G70``, ``G72``, ``G77`` or ``G81``.
        directed: Add every edge in one direction only, as in the file.
        seed: Seed of the features.
        transform, pre_transform, pre_filter, force_reload, **kwargs: Arguments of PyG's ``InMemoryDataset``.
    """

    url = "https://web.stanford.edu/~yyye/yyye/Gset"

    def __init__(
        self,
        root: str | None = None,
        name: str = "G1",
        directed: bool = False,
        transform: Transform = None,
        pre_transform: Transform = None,
        pre_filter: Transform = None,
        force_reload: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        if name not in _NAMES:
            raise UnknownNameError("Gset graph", name, _NAMES)
        self.name, self.directed, self.seed = name, directed, seed
        super().__init__(root, transform, pre_transform, pre_filter, force_reload, **kwargs)

    @property
    def raw_file_names(self) -> list[str]:
        return [self.name]

    @property
    def processed_file_names(self) -> list[str]:
        kind = "directed" if self.directed else "undirected"
        return [f"{self.name}_{kind}_seed{self.seed}.pt"]

    def parse_graph(self, data: str) -> Any:
        """Return the graph of a Gset text as a ``networkx`` graph with nodes ``1, ..., n`` and edge weights.

        Args:
            data: Content of a Gset file: a line ``n m``, then lines ``u v w``.

        Raises:
            DatasetError: If the text is not a Gset graph.
            MissingPackageError: If networkx is not installed.
        """
        try:
            import networkx as nx
        except ImportError as error:
            raise MissingPackageError(
                "parse_graph needs the package 'networkx'", hint="pip install networkx"
            ) from error
        num_nodes, edges, weight = self._parse(data)
        graph = nx.DiGraph() if self.directed else nx.Graph()
        graph.add_nodes_from(range(1, num_nodes + 1))
        graph.add_weighted_edges_from(zip(*(edges + 1).tolist(), weight.tolist(), strict=True))
        return graph

    def _parse(self, text: str) -> tuple[int, Tensor, Tensor]:
        """Return the number of nodes, the edges ``[2, E]`` with 0-based ids, and the weights of a Gset text."""
        rows = [line.split() for line in text.splitlines() if line.strip()]
        try:
            num_nodes, num_edges = int(rows[0][0]), int(rows[0][1])
            table = torch.tensor([[int(float(v)) for v in row] for row in rows[1:]], dtype=torch.long).view(
                -1, 3
            )
        except (ValueError, IndexError, OverflowError, RuntimeError) as error:
            raise DatasetError(
                f"{self.name}: expected 'n m' and lines 'u v w', got something else"
            ) from error
        if table.size(0) != num_edges:
            raise DatasetError(f"{self.name}: expected {num_edges} edges, got {table.size(0)}")
        edges, weight = table[:, :2].t() - 1, table[:, 2]
        if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= num_nodes):
            raise DatasetError(f"{self.name}: node ids must be in [1, {num_nodes}]")
        return num_nodes, edges, weight

    def graphs(self) -> Sequence[Data]:
        """Return the graph."""
        with input_budget() as budget, budget.open(self.raw_paths[0]) as file:
            try:
                text = file.read().decode()
            except UnicodeDecodeError as error:
                raise DatasetError(f"{self.name}: expected text, got {error}") from error
            num_nodes, edges, weight = self._parse(text)
            budget.charge(4 * _FEATURES * num_nodes, self.raw_paths[0], f"the features of {num_nodes} nodes")
        if not self.directed:
            edges, weight = torch.cat([edges, edges.flip(0)], dim=1), torch.cat([weight, weight])
        generator = torch.Generator().manual_seed(self.seed)
        x = torch.randn(num_nodes, _FEATURES, generator=generator)
        return [
            Data(
                x=x,
                edge_index=edges.contiguous(),
                edge_attr=weight,
                edge_weight=weight.float(),
                num_nodes=num_nodes,
            )
        ]
