"""Dataset of graphs made by PyGSP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data

from tgp.datasets._base import GraphDataset, Transform
from tgp.errors import UnknownNameError
from tgp.imports import check_pygsp_available

__all__ = ["PyGSPDataset"]

_GRAPHS = [
    "Graph",
    "Airfoil",
    "BarabasiAlbert",
    "Comet",
    "Community",
    "DavidSensorNet",
    "ErdosRenyi",
    "FullConnected",
    "Grid2d",
    "Logo",
    "LowStretchTree",
    "Minnesota",
    "Path",
    "RandomRegular",
    "RandomRing",
    "Ring",
    "Sensor",
    "StochasticBlockModel",
    "SwissRoll",
    "Torus",
]
_NN_GRAPHS = ["NNGraph", "Bunny", "Cube", "ImgPatches", "Grid2dImgPatches", "Sphere", "TwoMoons"]


class PyGSPDataset(GraphDataset):
    """One graph of `PyGSP <https://pygsp.readthedocs.io>`_, with coordinates as features.

    A graph without coordinates gets a spring layout with a fixed seed. ``y`` contains the communities, if the graph has
    communities, and zeros otherwise.

    Args:
        root: Folder of the processed file.
        name: Class of ``pygsp.graphs``.
        kwargs: Arguments of that class, e.g. ``{"N": 400, "seed": 0}``.
        transform, pre_transform, pre_filter, force_reload: Arguments of PyG's ``InMemoryDataset``.
    """

    def __init__(
        self,
        root: str | None = None,
        name: str = "Community",
        transform: Transform = None,
        pre_transform: Transform = None,
        pre_filter: Transform = None,
        force_reload: bool = False,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        check_pygsp_available()
        if name not in _GRAPHS and name not in _NN_GRAPHS:
            raise UnknownNameError("PyGSP graph", name, [*_GRAPHS, *_NN_GRAPHS])
        self.name, self.kwargs = name, dict(kwargs or {})
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def raw_file_names(self) -> list[str]:
        return []

    @property
    def processed_file_names(self) -> list[str]:
        described = json.dumps(self.kwargs, sort_keys=True, default=str)
        return [f"{self.name}_{hashlib.sha256(described.encode()).hexdigest()[:12]}.pt"]

    def graphs(self) -> Sequence[Data]:
        from pygsp import graphs

        graph = getattr(graphs, self.name)(**self.kwargs)
        coords = getattr(graph, "coords", None)
        if coords is None or np.shape(coords)[0] != graph.N:
            graph.set_coordinates(kind="spring", seed=42)
        weights = graph.W.tocoo()
        return [
            Data(
                x=torch.as_tensor(np.asarray(graph.coords), dtype=torch.float),
                edge_index=torch.from_numpy(np.stack([weights.row, weights.col])).long(),
                edge_weight=torch.as_tensor(weights.data, dtype=torch.float),
                y=torch.from_numpy(_communities(graph)),
            )
        ]


def _communities(graph: Any) -> npt.NDArray[np.int64]:
    for holder in (graph, getattr(graph, "info", {})):
        for name in ("node_com", "z"):
            found = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
            if found is not None and np.shape(found) == (graph.N,):
                return np.asarray(found, dtype=np.int64)
    return np.zeros(graph.N, dtype=np.int64)
