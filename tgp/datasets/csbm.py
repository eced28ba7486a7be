"""Dataset of graphs with and without communities, from a contextual stochastic block model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Data

from tgp.datasets._base import GraphDataset, Transform
from tgp.errors import InputError
from tgp.kernels.array_types import Array

__all__ = ["CSBMDataset", "CSBMParameters"]

_TRIES = 128
"""Number of attempts to draw a connected graph."""


@dataclass(frozen=True)
class CSBMParameters:
    """Parameters of a :class:`CSBMDataset`, kept as ``dataset.params``."""

    num_graphs: int
    num_nodes_per_class: int
    dbar: float
    lam: float
    gamma: float
    mu: float | None
    only_sbm: bool
    structured_ratio: float
    seed: int


class CSBMDataset(GraphDataset):
    r"""Dataset for binary classification of graphs with communities (label 1) and without communities (label 0).

    A graph of label 1 is a connected stochastic block model of two blocks with edge probabilities
    :math:`p_{in/out} = (\bar d \pm \lambda\sqrt{\bar d})/n`. A graph of label 0 is a random rewiring of such a graph that keeps
    the degrees. Features are :math:`x_i = \sqrt{\mu/n}\,b_i u + z_i` for label 1, and noise for label 0. Each graph has
    the attributes ``node_gt`` (block of each node, -1 for label 0) and ``centroid`` (zeros for label 0).

    Args:
        root: Folder of the processed file.
        num_graphs: Number of graphs.
        num_nodes_per_class: Number of nodes per block.
        dbar: Mean degree.
        lam: Strength of the communities.
        gamma: Ratio of nodes to features.
        mu: Strength of the features; may be ``None`` with ``only_sbm``.
        only_sbm: Use degrees as features.
        structured_ratio: Share of graphs with communities.
        seed: Seed of all random numbers.
        transform, pre_transform, pre_filter, force_reload: Arguments of PyG's ``InMemoryDataset``.
    """

    def __init__(
        self,
        root: str | None = None,
        num_graphs: int = 1024,
        num_nodes_per_class: int = 50,
        dbar: float = 10.0,
        lam: float = 1.0,
        gamma: float = 4.0,
        mu: float | None = 4.0,
        only_sbm: bool = False,
        structured_ratio: float = 0.5,
        seed: int = 80,
        transform: Transform = None,
        pre_transform: Transform = None,
        pre_filter: Transform = None,
        force_reload: bool = False,
    ) -> None:
        if not 0 <= structured_ratio <= 1:
            raise InputError(
                f"structured_ratio must be in [0, 1], got {structured_ratio}", field="structured_ratio"
            )
        if mu is None and not only_sbm:
            raise InputError("mu must be a number unless only_sbm is set, got None", field="mu")
        self.params = CSBMParameters(
            num_graphs, num_nodes_per_class, dbar, lam, gamma, mu, only_sbm, structured_ratio, seed
        )
        self.n = 2 * num_nodes_per_class
        self.p_in = (dbar + lam * math.sqrt(dbar)) / self.n
        self.p_out = (dbar - lam * math.sqrt(dbar)) / self.n
        for name, p in (("p_in", self.p_in), ("p_out", self.p_out)):
            if not 0 <= p <= 1:
                raise InputError(
                    f"{name} must be in [0, 1], got {p:.3f}. Change dbar, lam or num_nodes_per_class",
                    field=name,
                )
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def raw_file_names(self) -> list[str]:
        return []

    @property
    def processed_file_names(self) -> list[str]:
        given = self.params
        parts = (given.num_graphs, self.n, given.dbar, given.lam, given.gamma, given.mu, given.only_sbm)
        return ["csbm_" + "_".join(str(p) for p in (*parts, given.structured_ratio, given.seed)) + ".pt"]

    def graphs(self) -> Sequence[Data]:
        rng = np.random.default_rng(self.params.seed)
        structured = round(self.params.num_graphs * self.params.structured_ratio)
        labels = [0] * (self.params.num_graphs - structured) + [1] * structured
        return [self._graph(label, rng) for label in labels]

    def _graph(self, label: int, rng: np.random.Generator) -> Data:
        adjacency, blocks = self._connected_sbm(rng)
        if label == 0:
            adjacency = _rewire(adjacency, rng)
        width = max(1, round(self.n / self.params.gamma))
        centroid = np.zeros(width)
        if self.params.only_sbm:
            x = adjacency.sum(1, keepdims=True).astype(float)
        else:
            x = rng.normal(scale=1 / math.sqrt(width), size=(self.n, width))
            if label == 1:
                direction = rng.normal(scale=1 / math.sqrt(width), size=width)
                centroid = math.sqrt((self.params.mu or 0.0) / self.n) * direction
                x = x + (2 * blocks - 1)[:, None] * centroid
        data = Data(
            x=torch.as_tensor(x, dtype=torch.float),
            edge_index=torch.from_numpy(np.stack(adjacency.nonzero())).long(),
            y=torch.tensor([label]),
            node_gt=torch.from_numpy(blocks if label == 1 else np.full(self.n, -1)).long(),
        )
        if not self.params.only_sbm:
            data.centroid = torch.as_tensor(centroid, dtype=torch.float)
        return data

    def _connected_sbm(self, rng: np.random.Generator) -> tuple[Array, Array]:
        for _ in range(_TRIES):
            blocks = rng.permutation(np.repeat([0, 1], self.n // 2))
            chance = np.where(blocks[:, None] == blocks[None, :], self.p_in, self.p_out)
            upper = np.triu(rng.random((self.n, self.n)) < chance, 1)
            adjacency: Array = upper | upper.T
            if _is_connected(adjacency):
                return adjacency, blocks
        raise RuntimeError(f"no connected graph in {_TRIES} attempts: use a larger dbar")


def _is_connected(adjacency: Array) -> bool:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    return bool(connected_components(csr_array(adjacency), directed=False)[0] == 1)


def _rewire(adjacency: Array, rng: np.random.Generator) -> Array:
    """Return a connected simple graph with the same degrees, by many random swaps of edge ends."""
    for _ in range(_TRIES):
        found: Array = adjacency.copy()
        ends = np.stack(np.triu(found).nonzero(), axis=1)
        for _ in range(10 * len(ends)):
            i, j = rng.integers(len(ends), size=2)
            (a, b), (c, d) = ends[i], ends[j] if rng.random() < 0.5 else ends[j][::-1]
            if len({a, b, c, d}) < 4 or found[a, d] or found[c, b]:
                continue
            found[a, b] = found[b, a] = found[c, d] = found[d, c] = False
            found[a, d] = found[d, a] = found[c, b] = found[b, c] = True
            ends[i], ends[j] = (a, d), (c, b)
        if _is_connected(found):
            return found
    raise RuntimeError(f"no connected rewiring in {_TRIES} attempts: use a larger dbar")
