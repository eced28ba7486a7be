"""Protocol of SCAL (Huang et al., KDD 2021): train on a coarse graph, test on the original one.

Coarsening gets edges, and features if the method needs them. It never gets labels.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _nets import Constant
from scipy.sparse import csr_matrix, diags, identity
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.data import Data
from torch_geometric.nn.inits import glorot

import tgp
from tgp.data.level_links import compose_links
from tgp.engine.methods import METHODS
from tgp.errors import PackageError
from tgp.inspect.spectral_errors import measure_graphs

SMALL = 10
"""Components of at most this many nodes are not coarsened."""
MANY_MODES, FEW_MODES, LARGE = 100, 10, 5000
"""Eigenvalues that are compared in the largest component: the first number, or the second if it has more nodes than the third."""
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
        """Read a graph. Edges become undirected and lose weights and self-loops, rows of ``x`` get the sum 1."""
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


@dataclass
class Coarsened:
    """Supernode of every node of the big components (-1 elsewhere), and what the coarsening cost."""

    cluster: np.ndarray
    facts: dict[str, Any]


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


def propagation(adjacency: csr_matrix) -> csr_matrix:
    """Return the matrix of a GCN: the adjacency with self-loops, normalized by the degrees of both ends."""
    looped = adjacency + identity(adjacency.shape[0], dtype=np.float32, format="csr")
    scale = diags(1 / np.sqrt(np.asarray(looped.sum(1)).ravel()))
    return (scale @ looped @ scale).tocsr().astype(np.float32)


def has_ratio(method: str) -> bool:
    """Return True if a level method has the parameter ``ratio``."""
    return "ratio" in METHODS[method.split(":")[0].split("*")[0]].params.__dataclass_fields__


def is_usable(name: str) -> bool:
    """Return True if a level method is installed, has the parameter ``ratio``, and needs nothing but edges and features."""
    try:
        needs = getattr(METHODS[name], "needs", ())
    except PackageError:
        return False
    return has_ratio(name) and set(needs) <= {"x"}


def coarsen(source: Source, method: str, ratio: float) -> Coarsened:
    """Coarsen the big components, each on its own.

    A method with the parameter ``ratio`` makes one level. Of other methods, such as ``graclus*8``, the level whose total size
    is nearest to the ratio is used.
    """
    schedule = f"{method}:ratio={ratio}" if has_ratio(method) else method
    needs = getattr(METHODS[method.split(":")[0].split("*")[0]], "needs", ())
    graphs = []
    for nodes in source.big:
        row, col = source.adjacency[nodes][:, nodes].nonzero()
        graph = Data(edge_index=torch.from_numpy(np.stack([row, col]).astype(np.int64)), num_nodes=len(nodes))
        if "x" in needs:
            graph.x = torch.from_numpy(source.features[nodes].toarray())
        graphs.append(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # findings about the levels, which the table shows in figures
        tgp.coarsen(graphs, schedule)  # compiles the kernels
        before = reset_peak()
        began = time.process_time()
        dataset = tgp.coarsen(graphs, schedule)
    facts: dict[str, Any] = {"coarsen_seconds": round(time.process_time() - began, 4)}
    if before is not None:
        facts["coarsen_mb"] = round((memory("VmHWM") - before) / 1024, 1)
    total = sum(map(len, source.big))
    items = [[graph, *graph.pooled_data] for graph in dataset]
    sizes = np.sum([[level.num_nodes for level in item[1:]] for item in items], axis=0)
    level = int(np.abs(sizes / total - ratio).argmin()) + 1
    cluster, first = np.full(len(source.labels), -1), 0
    for nodes, item in zip(source.big, items, strict=True):
        cluster[nodes] = first + compose_links(item, level).numpy()
        first += int(item[level].num_nodes)
    facts |= {"kept": round(first / total, 4), "level": level}
    largest = np.array([int(np.argmax([len(nodes) for nodes in source.big]))])
    reader = dataset.reader
    modes = FEW_MODES if len(source.big[largest[0]]) > LARGE else MANY_MODES
    metrics = measure_graphs(reader, largest, list(reader.hierarchies)[:1], modes)
    facts["modes"] = modes
    for name, values in next(iter(metrics.values()))[level - 1].items():
        value = float(values[0])
        facts[name] = round(value, 4) if math.isfinite(value) else None
    return Coarsened(cluster, facts)


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


class Problem:
    """Graph to train on: its matrices, and nodes with labels for training and validation."""

    def __init__(self, adjacency: csr_matrix, features: csr_matrix) -> None:
        self.prop, self.x = Constant(propagation(adjacency)), Constant(features)
        self.train: tuple[Tensor, Tensor]
        self.val: tuple[Tensor, Tensor]


def original(source: Source, masks: tuple[Tensor, ...]) -> Problem:
    """Return the problem of the full graph."""
    made = Problem(source.adjacency, source.features)
    made.train, made.val = ((mask.nonzero().flatten(), source.labels[mask]) for mask in masks[:2])
    return made


def reduced(source: Source, coarsened: Coarsened, masks: tuple[Tensor, ...]) -> tuple[Problem, int]:
    """Return the problem of the coarse graph and its number of supernodes.

    Components that were not coarsened are kept whole if they have a node for training or validation, else left out. A supernode is
    used for training if all its training nodes have the same label. The same holds for validation.
    """
    cluster = coarsened.cluster.copy()
    used = np.zeros(int(source.component.max()) + 1, bool)
    used[source.component[(masks[0] | masks[1]).numpy()]] = True
    whole = np.flatnonzero((cluster < 0) & used[source.component])
    cluster[whole] = cluster.max() + 1 + np.arange(len(whole))
    nodes, size = np.flatnonzero(cluster >= 0), int(cluster.max()) + 1
    members = csr_matrix((np.ones(len(nodes), np.float32), (cluster[nodes], nodes)), (size, len(cluster)))
    made = Problem(pattern(members @ source.adjacency @ members.T), normalize_rows(members @ source.features))
    made.train, made.val = (_pure(torch.from_numpy(cluster), source.labels, mask) for mask in masks[:2])
    return made, size


def _pure(cluster: Tensor, labels: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the supernodes whose nodes in the mask have one label, and this label."""
    pairs = torch.stack([cluster[mask], labels[mask]]).unique(dim=1)
    supernode, place, count = pairs[0].unique(return_inverse=True, return_counts=True)
    alone = count[place] == 1
    return supernode[count == 1], pairs[1][alone]


class Net(torch.nn.Module):
    """GCN or APPNP with two weight matrices. Products with the sparse features come first, which is the same and faster."""

    def __init__(self, kind: str, features: int, classes: int, settings: dict[str, Any]) -> None:
        super().__init__()
        self.kind, self.settings = kind, settings
        self.weights = torch.nn.ParameterList(
            [torch.empty(features, settings["hidden"]), torch.empty(settings["hidden"], classes)]
        )
        self.biases = torch.nn.ParameterList([torch.zeros(settings["hidden"]), torch.zeros(classes)])
        for weight in self.weights:
            glorot(weight)

    def forward(self, problem: Problem) -> Tensor:
        """Return the scores of the classes for every node."""
        is_gcn = self.kind == "GCN"
        hidden = problem.x @ self.weights[0]
        hidden = ((problem.prop @ hidden if is_gcn else hidden) + self.biases[0]).relu()
        out = dropout(hidden, self.settings["dropout"], self.training) @ self.weights[1]
        if is_gcn:
            return problem.prop @ out + self.biases[1]
        first = out = out + self.biases[1]
        alpha = self.settings["appnp"]["alpha"]
        for _ in range(self.settings["appnp"]["steps"]):
            out = (1 - alpha) * (problem.prop @ out) + alpha * first
        return out


def fit(net: Net, problem: Problem, settings: dict[str, Any]) -> None:
    """Train; keep the weights of the lowest validation loss in the second half of the epochs."""
    optimizer = torch.optim.Adam(net.parameters(), lr=settings["lr"], weight_decay=settings["decay"])
    best, kept, history = math.inf, copy.deepcopy(net.state_dict()), []
    half, patience = settings["epochs"] // 2, settings["patience"]
    for epoch in range(settings["epochs"]):
        optimizer.zero_grad()
        cross_entropy(net.train()(problem)[problem.train[0]], problem.train[1]).backward()
        optimizer.step()
        with torch.no_grad():
            loss = float(cross_entropy(net.eval()(problem)[problem.val[0]], problem.val[1]))
        if epoch >= half and loss < best:
            best, kept = loss, copy.deepcopy(net.state_dict())
        if epoch > half and loss > float(np.mean(history[-patience:])):
            break
        history.append(loss)
    net.load_state_dict(kept)
    net.eval()


@torch.no_grad()
def accuracy(net: Net, problem: Problem, labels: Tensor, *masks: Tensor) -> list[float]:
    """Return the accuracy in percent on the nodes of each mask."""
    right = (net(problem).argmax(1) == labels).float()
    return [round(100 * float(right[mask].mean()), 3) for mask in masks]
