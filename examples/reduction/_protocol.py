"""Protocol of SCAL (Huang et al., KDD 2021): train on a coarse graph, test on the original one.

Coarsening gets edges, and features if the method needs them. It never gets labels.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _training import Problem, propagation
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data

import tgp
from tgp.data.level_links import compose_links
from tgp.engine.methods import METHODS
from tgp.engine.schedule import parse_schedule
from tgp.errors import InputError, PackageError
from tgp.inspect.spectral_errors import measure_graphs

SMALL = 10
"""Components of at most this many nodes are not coarsened."""
MANY_MODES, FEW_MODES, LARGE = 100, 10, 5000
"""Eigenvalues that are compared in the largest component: the first number, or the second if it has more nodes than the third."""
WARM_UP = 2000
"""Nodes of the graph that is coarsened first, to compile the kernels."""
QUICK = "regions:num_nodes=300:parts=3"
"""Generated graph for a quick run."""
SETTINGS: dict[str, Any] = {
    "protocol": "SCAL, version 1",
    "hidden": 64,
    "dropout": 0.5,
    "lr": 0.01,
    "decay": 5e-4,
    "epochs": 200,
    "appnp": {"steps": 10, "alpha": 0.1},
    "patience": 10,
    "split": "20 + 30 per class",
}
BY_DATASET: dict[str, dict[str, Any]] = {
    "Cora": {"epochs": 60, "split": "public"},
    "CiteSeer": {"split": "public"},
    "DBLP": {"epochs": 50},
    "Physics": {"lr": 1e-3, "decay": 0.0},
    QUICK: {"epochs": 20},
}


def settings_of(dataset: str) -> dict[str, Any]:
    """Return the settings of the protocol for a dataset."""
    return SETTINGS | BY_DATASET.get(dataset, {})


@dataclass
class Source:
    """Graph of a dataset, split into components."""

    adjacency: csr_matrix
    features: csr_matrix
    labels: Tensor
    masks: tuple[Tensor, Tensor, Tensor] | None
    component: np.ndarray
    big: list[np.ndarray]

    @classmethod
    def of(cls, data: Data) -> Source:
        """Read a graph. Edges become undirected and lose weights and self-loops, rows of ``x`` get the sum 1.

        Raises:
            InputError: if nodes have no features, or not one label each.
        """
        has = {name: tuple(data[name].shape) for name in ("x", "y") if data.get(name) is not None}
        if "x" not in has or has.get("y") != (data.num_nodes,):
            raise InputError(
                f"the dataset cannot be used: expected features and one label per node, got {has}"
            )
        n = int(data.num_nodes or 0)
        row, col = data.edge_index.numpy()
        adjacency = pattern(csr_matrix((np.ones(len(row), np.float32), (row, col)), (n, n)))
        count, component = connected_components(adjacency, directed=False)
        order = np.argsort(component, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(component, minlength=count))[:-1])
        masks = None
        if data.get("train_mask") is not None:
            masks = (data.train_mask, data.val_mask, data.test_mask)
        features = normalize_rows(csr_matrix(data.x.numpy()))
        big = [part for part in parts if len(part) > SMALL]
        return cls(adjacency, features, data.y, masks, component, big)

    def split(self, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return masks: the public split, or 20 nodes of each class for training and 30 for validation."""
        if self.masks is not None:
            return self.masks
        part = torch.full_like(self.labels, 2)
        generator = torch.Generator().manual_seed(seed)
        for label in self.labels.unique():
            nodes = (self.labels == label).nonzero().flatten()
            nodes = nodes[torch.randperm(len(nodes), generator=generator)]
            part[nodes[20:50]] = 1
            part[nodes[:20]] = 0
        return part == 0, part == 1, part == 2


def pattern(matrix: csr_matrix) -> csr_matrix:
    """Return the undirected pattern of a matrix without its diagonal."""
    matrix = (matrix + matrix.T).tocsr()
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.data = np.ones_like(matrix.data, np.float32)
    return matrix


def normalize_rows(matrix: csr_matrix) -> csr_matrix:
    """Divide every row by its sum. The sum must not be negative; rows of zeros stay."""
    total = np.asarray(matrix.sum(1)).ravel()
    return (diags(1 / np.where(total > 0, total, 1)) @ matrix).tocsr().astype(np.float32)


def has_ratio(method: str) -> bool:
    """Return True if a level method has the parameter ``ratio``. Schedules of several levels count as methods without."""
    return (
        not set(method) & set("*,") and "ratio" in METHODS[method.split(":")[0]].params.__dataclass_fields__
    )


def needs(method: str) -> set[str]:
    """Return the attributes of nodes that the methods of a schedule use."""
    return {
        name for spec in parse_schedule(method).levels for name in getattr(spec.level_method, "needs", ())
    }


def is_usable(name: str) -> bool:
    """Return True if a level method is installed, has the parameter ``ratio``, and needs nothing but edges and features."""
    try:
        return METHODS[name].is_installed and has_ratio(name) and needs(name) <= {"x"}
    except PackageError:
        return False


@dataclass
class Coarsened:
    """Levels of the big components by one method.

    Attributes:
        source: graph that was coarsened.
        dataset: levels of its big components.
        cost: processor seconds of coarsening, and memory in MB.
    """

    source: Source
    dataset: tgp.PooledDataset
    cost: dict[str, float]

    @cached_property
    def items(self) -> list[list[Data]]:
        """Every component and its levels."""
        return [[graph, *graph.pooled_data] for graph in self.dataset]

    @property
    def total(self) -> int:
        """Number of nodes of the big components."""
        return sum(map(len, self.source.big))

    def level(self, ratio: float) -> int:
        """Return the level whose total size is nearest to a ratio."""
        sizes = np.sum([[level.num_nodes for level in item[1:]] for item in self.items], axis=0)
        return int(np.abs(sizes / self.total - ratio).argmin()) + 1

    def cluster(self, level: int) -> np.ndarray:
        """Return the supernode of every node of the graph, -1 for nodes of small components."""
        cluster, first = np.full(len(self.source.labels), -1), 0
        for nodes, item in zip(self.source.big, self.items, strict=True):
            cluster[nodes] = first + compose_links(item, level).numpy()
            first += int(item[level].num_nodes)
        return cluster

    @cached_property
    def spectra(self) -> tuple[int, list[dict[str, np.ndarray]]]:
        """Number of compared eigenvalues, and the figures of the levels of the largest component."""
        sizes = [len(nodes) for nodes in self.source.big]
        modes = FEW_MODES if max(sizes) > LARGE else MANY_MODES
        reader = self.dataset.reader
        found = measure_graphs(reader, np.array([int(np.argmax(sizes))]), list(reader.hierarchies)[:1], modes)
        return modes, next(iter(found.values()))

    def facts(self, level: int) -> dict[str, Any]:
        """Return the cost of coarsening and the spectral figures of a level."""
        modes, levels = self.spectra
        values = {name: float(value[0]) for name, value in levels[level - 1].items()}
        figures = {name: round(value, 4) if math.isfinite(value) else None for name, value in values.items()}
        return self.cost | {"modes": modes} | figures


def coarsen(source: Source, method: str, ratio: float) -> Coarsened:
    """Coarsen the big components, each on its own.

    A method with the parameter ``ratio`` makes one level, others such as ``graclus*8`` all levels of the schedule.
    """
    schedule = f"{method}:ratio={ratio}" if has_ratio(method) else method
    graphs = [_component(source, nodes, "x" in needs(method)) for nodes in source.big]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # findings about the levels, which the table shows in figures
        sample = max(source.big, key=len)[:WARM_UP]
        tgp.coarsen([_component(source, sample, "x" in needs(method))], schedule)  # compiles the kernels
        before = reset_peak()
        began = time.process_time()
        dataset = tgp.coarsen(graphs, schedule)
    cost = {"coarsen_seconds": round(time.process_time() - began, 4)}
    if before is not None:
        cost["coarsen_mb"] = round((memory("VmHWM") - before) / 1024, 1)
    return Coarsened(source, dataset, cost)


def _component(source: Source, nodes: np.ndarray, features: bool) -> Data:
    """Return the graph of some nodes, without labels."""
    row, col = source.adjacency[nodes][:, nodes].nonzero()
    graph = Data(edge_index=torch.from_numpy(np.stack([row, col]).astype(np.int64)), num_nodes=len(nodes))
    if features:
        graph.x = torch.from_numpy(source.features[nodes].toarray())
    return graph


def memory(name: str) -> int:
    """Return a figure of ``/proc/self/status`` in KiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def reset_peak() -> int | None:
    """Set the peak of the memory back and return the memory in use, in KiB; ``None`` on systems without ``/proc``."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return memory("VmRSS")
    except OSError:
        return None


def original(source: Source, masks: tuple[Tensor, ...]) -> Problem:
    """Return the problem of the full graph."""
    train, val = ((mask.nonzero().flatten(), source.labels[mask]) for mask in masks[:2])
    return Problem(propagation(source.adjacency), source.features, train, val)


def reduced(source: Source, cluster: np.ndarray, masks: tuple[Tensor, ...]) -> Problem:
    """Return the problem of the coarse graph.

    Components that were not coarsened are kept whole if they have a node for training or validation, else left out. A supernode is
    used for training if all its training nodes have the same label. The same holds for validation.
    """
    cluster = cluster.copy()
    used = np.zeros(int(source.component.max()) + 1, bool)
    used[source.component[(masks[0] | masks[1]).numpy()]] = True
    whole = np.flatnonzero((cluster < 0) & used[source.component])
    cluster[whole] = cluster.max() + 1 + np.arange(len(whole))
    nodes, size = np.flatnonzero(cluster >= 0), int(cluster.max()) + 1
    members = csr_matrix((np.ones(len(nodes), np.float32), (cluster[nodes], nodes)), (size, len(cluster)))
    train, val = (_pure(torch.from_numpy(cluster), source.labels, mask) for mask in masks[:2])
    adjacency = pattern(members @ source.adjacency @ members.T)
    return Problem(propagation(adjacency), normalize_rows(members @ source.features), train, val)


def _pure(cluster: Tensor, labels: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the supernodes whose nodes in the mask have one label, and this label."""
    pairs = torch.stack([cluster[mask], labels[mask]]).unique(dim=1)
    supernode, place, count = pairs[0].unique(return_inverse=True, return_counts=True)
    alone = count[place] == 1
    return supernode[count == 1], pairs[1][alone]
