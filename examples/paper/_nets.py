"""Networks of the experiments: GIN blocks around a pooler, with a readout or with a lift."""

from __future__ import annotations

from typing import Any

import torch
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn import ELU, BatchNorm1d, Dropout, Linear, ModuleList, ReLU, Sequential
from torch.nn.functional import elu, relu
from torch_geometric.nn import DenseGINConv, GINConv

from tgp.poolers import get_pooler
from tgp.reduce import GlobalReduce

HIDDEN = 32


class Constant:
    """Constant sparse matrix for products with dense matrices. Its transpose is computed only once."""

    def __init__(self, matrix: csr_matrix) -> None:
        self.rows, self.columns = matrix, matrix.T.tocsr()

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(dense, self.rows, self.columns)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, rows: csr_matrix, columns: csr_matrix) -> Tensor:
        ctx.columns = columns
        return torch.from_numpy(rows @ dense.detach().numpy())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return torch.from_numpy(ctx.columns @ grad.numpy()), None, None


class WeightedGINConv(torch.nn.Module):
    """GIN layer with edge weights, which coarse graphs have and ``DenseGINConv`` supports."""

    def __init__(self, nn: torch.nn.Module) -> None:
        super().__init__()
        self.nn = nn

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        source, target = edge_index
        message = x[source] if edge_weight is None else edge_weight.view(-1, 1) * x[source]
        return self.nn(x.index_add(0, target, message))


def gin(conv: type, in_channels: int, layers: int, act: type, norm: bool = False) -> ModuleList:
    """GIN layers with one hidden layer each. There is no normalization, because padded rows would change its statistics."""
    made = ModuleList()
    for size in [in_channels] + [HIDDEN] * (layers - 1):
        inner = [
            Linear(size, HIDDEN),
            *([BatchNorm1d(HIDDEN)] if norm else []),
            act(),
            Linear(HIDDEN, HIDDEN),
        ]
        made.append(conv(Sequential(*inner)))
    return made


class GraphNet(torch.nn.Module):
    """Network of GIN, pooler, GIN, sum and perceptron. Levels of the batch are used if it has them."""

    def __init__(self, pooler: str, in_channels: int, classes: int, layers: int, **options) -> None:
        super().__init__()
        self.pooler = get_pooler(pooler, in_channels=HIDDEN, **options)
        self.before = gin(WeightedGINConv, in_channels, layers, ELU, norm=True)
        self.dense = self.pooler.is_dense and not self.pooler.is_precoarsenable
        width = HIDDEN * getattr(self.pooler.reducer, "num_modes", 1)
        self.after = gin(DenseGINConv if self.dense else WeightedGINConv, width, layers, ELU)
        self.readout = GlobalReduce("sum")
        head = [[Linear(HIDDEN, HIDDEN), BatchNorm1d(HIDDEN), ELU(), Dropout(0.5)] for _ in range(2)]
        self.head = Sequential(*head[0], *head[1], Linear(HIDDEN, classes))

    def forward(self, data) -> tuple[Tensor, Tensor | float]:
        """Return the logits of the graphs and the sum of the auxiliary losses."""
        x, edges, size = data.x, (data.edge_index, data.edge_weight), data.num_graphs
        for conv in self.before:
            x = elu(conv(x, *edges))
        if "pooled_data" in data:
            out, loss = data.pooled_data[0], 0.0
            x, _ = self.pooler.reducer(x=x, so=out.so, batch=data.batch, batch_size=size)
        else:
            out = self.pooler(x, *edges, batch=data.batch, batch_size=size)
            x, loss = out.x, sum(out.get_loss_value()) if out.loss else 0.0
        if self.dense:
            for conv in self.after:
                x = elu(conv(x, out.edge_index, mask=out.mask))
            return self.head(self.readout(x, mask=out.mask)), loss
        for conv in self.after:
            x = elu(conv(x, out.edge_index, out.edge_weight))
        if getattr(out, "mask", None) is not None:  # empty supernodes of small graphs
            x = x * out.mask.view(-1, 1)
        return self.head(self.readout(x, batch=out.batch, size=size)), loss


class NodeNet(torch.nn.Module):
    """Network of GIN, pooler, GIN, lift, GIN and perceptron, without skip connections and without coarse weights."""

    def __init__(self, pooler: str, in_channels: int, classes: int, layers: int, **options) -> None:
        super().__init__()
        self.pooler = get_pooler(pooler, in_channels=HIDDEN, **options)
        self.before = gin(GINConv, in_channels, layers, ReLU)
        self.coarse = gin(GINConv, HIDDEN, layers, ReLU)
        self.after = gin(GINConv, HIDDEN, layers, ReLU)
        self.head = Sequential(Linear(HIDDEN, HIDDEN), ReLU(), Dropout(0.1), Linear(HIDDEN, classes))

    def forward(self, data) -> tuple[Tensor, Tensor | float]:
        """Return the logits of the nodes and the sum of the auxiliary losses."""
        x = data.x
        for conv in self.before:
            x = relu(conv(x, data.edge_index))
        out = self.pooler(x=x, adj=data.edge_index)
        x = out.x
        for conv in self.coarse:
            x = relu(conv(x, out.edge_index))
        x = self.pooler(x=x, so=out.so, lifting=True)
        for conv in self.after:
            x = relu(conv(x, data.edge_index))
        return self.head(x), sum(out.get_loss_value()) if out.loss else 0.0
