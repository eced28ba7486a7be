"""Networks of the leaderboard and their training.

Only the scores of nodes with labels are needed for training. :func:`labelled` returns a view of a problem that computes just these. It is
the same function as that of the complete view, so the protocol does not change, but an epoch costs a fraction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from _nets import Constant
from scipy.sparse import csr_matrix, diags, identity
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.nn.inits import glorot

DENSE = 0.2
"""Share of entries from which a product with a dense matrix is faster than one with a sparse matrix."""
CALL, ENTRY = 80_000, 4
"""Cost of a sparse product of APPNP, and of one of its entries, in entries of a dense product."""


def propagation(adjacency: csr_matrix) -> csr_matrix:
    """Return the matrix of a GCN: the adjacency with self-loops, normalized by the degrees of both ends."""
    looped = adjacency + identity(adjacency.shape[0], dtype=np.float32, format="csr")
    scale = diags(1 / np.sqrt(np.asarray(looped.sum(1)).ravel()))
    return (scale @ looped @ scale).tocsr().astype(np.float32)


@dataclass
class Problem:
    """Graph to train on: propagation matrix, features, and nodes with their labels for training and validation."""

    prop: csr_matrix
    x: csr_matrix
    train: tuple[Tensor, Tensor]
    val: tuple[Tensor, Tensor]


class Factor(Protocol):
    """Constant left factor of a dense matrix."""

    def __matmul__(self, dense: Tensor) -> Tensor: ...


@dataclass
class Chain:
    """Product of constant factors."""

    factors: Sequence[Factor]

    def __matmul__(self, dense: Tensor) -> Tensor:
        for factor in reversed(self.factors):
            dense = factor @ dense
        return dense


@dataclass
class Steps:
    """Propagation of APPNP. Only ``rows`` of the result are returned, if given."""

    prop: Factor
    steps: int
    alpha: float
    rows: np.ndarray | None = None

    def __matmul__(self, dense: Tensor) -> Tensor:
        out = dense
        for _ in range(self.steps):
            out = (1 - self.alpha) * (self.prop @ out) + self.alpha * dense
        return out if self.rows is None else out[self.rows]


@dataclass
class View:
    """Constant factors of both layers of a network: ``last @ (relu(first @ W + b) @ V)``."""

    first: Factor
    last: Factor


def complete(problem: Problem, settings: Mapping[str, Any]) -> View:
    """Return the view with the scores of all nodes."""
    prop, x = Constant(problem.prop), _factor(problem.x)
    if settings["model"] == "GCN":
        return View(Chain([prop, x]), prop)
    return View(x, Steps(prop, **settings["appnp"]))


def labelled(problem: Problem, settings: Mapping[str, Any]) -> View:
    """Return the view with the scores of the nodes for training, then those for validation."""
    nodes = torch.cat([problem.train[0], problem.val[0]]).numpy()
    if settings["model"] == "GCN":
        last = problem.prop[nodes]
        rows = np.unique(last.indices)
        return View(_two_hops(problem.prop[rows], problem.x), _factor(last[:, rows]))
    steps = Steps(Constant(problem.prop), **settings["appnp"], rows=nodes)
    if len(nodes) * problem.prop.shape[0] > steps.steps * (CALL + ENTRY * problem.prop.nnz):
        return View(_factor(problem.x), steps)
    ones = np.zeros((problem.prop.shape[0], len(nodes)), np.float32)
    ones[nodes, np.arange(len(nodes))] = 1
    spread = Steps(problem.prop, steps.steps, steps.alpha) @ ones  # the matrix of all steps is symmetric
    return View(_factor(problem.x), torch.from_numpy(np.ascontiguousarray(spread.T)))


def _two_hops(prop: csr_matrix, x: csr_matrix) -> Factor:
    """Return the product of some rows of the propagation matrix and the features, multiplied out if this is faster."""
    columns = np.unique(prop.indices)
    near, x = prop[:, columns], x[columns]
    if _is_dense(x):
        return torch.from_numpy(near @ x.toarray())
    product = near @ x
    return _factor(product) if product.nnz < near.nnz + x.nnz else Chain([Constant(near), Constant(x)])


def _is_dense(matrix: csr_matrix) -> bool:
    return bool(matrix.nnz > DENSE * math.prod(matrix.shape))


def _factor(matrix: csr_matrix) -> Factor:
    return torch.from_numpy(matrix.toarray()) if _is_dense(matrix) else Constant(matrix)


class Net(torch.nn.Module):
    """GCN or APPNP with two weight matrices. Products with the features come first, which is the same and faster."""

    def __init__(self, features: int, classes: int, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.is_gcn, self.rate = settings["model"] == "GCN", settings["dropout"]
        self.weights = torch.nn.ParameterList(
            [torch.empty(features, settings["hidden"]), torch.empty(settings["hidden"], classes)]
        )
        self.biases = torch.nn.ParameterList([torch.zeros(settings["hidden"]), torch.zeros(classes)])
        for weight in self.weights:
            glorot(weight)

    def hidden(self, view: View) -> Tensor:
        """Return the activations of the first layer."""
        return (view.first @ self.weights[0] + self.biases[0]).relu()

    def scores(self, view: View, hidden: Tensor) -> Tensor:
        """Return the scores of the classes."""
        out = hidden @ self.weights[1]
        return view.last @ out + self.biases[1] if self.is_gcn else view.last @ (out + self.biases[1])

    def forward(self, view: View) -> Tensor:
        """Return the scores of the classes without dropout."""
        return self.scores(view, self.hidden(view))


def drop(values: Tensor, rate: float) -> Tensor:
    """Apply dropout. At a rate of one half, the mask is made of random bits, which is 100 times faster."""
    if rate != 0.5:
        return dropout(values, rate)
    words = torch.empty(-(-values.numel() // 64), dtype=torch.int64).random_(-(2**63), None)
    bits = np.unpackbits(words.numpy().view(np.uint8), count=values.numel())
    return values * (2 * torch.from_numpy(bits)).view_as(values)


def fit(net: Net, view: View, problem: Problem, settings: Mapping[str, Any]) -> None:
    """Train; keep the weights of the lowest validation loss in the second half of the epochs.

    Args:
        net: network; it is changed.
        view: result of :func:`labelled`.
        problem: labels for training and validation.
        settings: settings of the protocol.
    """
    optimizer = torch.optim.Adam(
        net.parameters(), lr=settings["lr"], weight_decay=settings["decay"], fused=True
    )
    size = len(problem.train[0])
    best, kept, history = math.inf, _copy(net), []
    half, patience = settings["epochs"] // 2, settings["patience"]
    hidden = net.hidden(view)
    for epoch in range(settings["epochs"]):
        optimizer.zero_grad()
        out = net.scores(view, drop(hidden, net.rate))
        cross_entropy(out[:size], problem.train[1]).backward()
        optimizer.step()
        hidden = net.hidden(view)  # for the validation loss and the next epoch
        with torch.no_grad():
            loss = float(cross_entropy(net.scores(view, hidden)[size:], problem.val[1]))
        if epoch >= half and loss < best:
            best, kept = loss, _copy(net)
        if epoch > half and loss > float(np.mean(history[-patience:])):
            break
        history.append(loss)
    net.load_state_dict(kept)


def _copy(net: Net) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


@torch.no_grad()
def accuracy(net: Net, view: View, labels: Tensor, *masks: Tensor) -> list[float]:
    """Return the accuracy in percent on the nodes of each mask."""
    right = (net(view).argmax(1) == labels).float()
    return [round(100 * float(right[mask].mean()), 3) for mask in masks]
