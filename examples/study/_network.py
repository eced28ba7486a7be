"""Network of the study. The same layers are used for every method; only the pooling steps differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Dropout, Linear, ModuleList, ReLU, Sequential
from torch_geometric.nn import GCNConv

from tgp.poolers import get_pooler
from tgp.reduce import BaseReduce, GlobalReduce


@dataclass(frozen=True)
class Method:
    """Kind of pooling of a network: by stored levels, by trainable poolers, or not at all if both arguments are empty.

    Args:
        schedule: Schedule of the stored levels, as ``tgp coarsen --pooler`` accepts it.
        pooler: Arguments of :func:`tgp.poolers.get_pooler`: ``alias`` and options.
    """

    schedule: str = ""
    pooler: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Short description for the table."""
        return "stored levels" if self.schedule else "trainable pooler" if self.pooler else "no pooling"


class Net(torch.nn.Module):
    """Network with one convolution per level, pooling steps between them, and a readout of every level.

    Args:
        method: How the network pools.
        inputs: Number of input features.
        classes: Number of classes.
        hidden: Number of channels of each layer.
        sizes: Number of supernodes of each pooling step, for poolers that have a fixed number.
    """

    def __init__(self, method: Method, inputs: int, classes: int, hidden: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.method = method
        self.convs = ModuleList(GCNConv(size, hidden) for size in [inputs] + [hidden] * len(sizes))
        self.norms = ModuleList(BatchNorm1d(hidden) for _ in self.convs)
        self.poolers = ModuleList()
        if method.pooler:
            options = dict(method.pooler)
            alias = options.pop("alias")
            self.poolers.extend(get_pooler(alias, in_channels=hidden, **{"k": k, **options}) for k in sizes)
        self.reduce, self.readout = BaseReduce(), GlobalReduce("sum")
        width = hidden * len(self.convs)
        self.head = Sequential(
            BatchNorm1d(width), Linear(width, hidden), ReLU(), Dropout(0.5), Linear(hidden, classes)
        )

    def forward(self, batch: Any) -> tuple[Tensor, Tensor | float]:
        """Return the logits of the graphs and the sum of the auxiliary losses of the poolers."""
        x, graph, auxiliary, found = batch.x, batch, 0.0, []
        for step, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if step:
                x, graph, loss = self.pool(step - 1, x, graph, batch)
                auxiliary = auxiliary + loss
            x = norm(conv(x, graph.edge_index, graph.edge_weight)).relu()
            found.append(self.readout(x, batch=graph.batch, size=batch.num_graphs))
        return self.head(torch.cat(found, dim=-1)), auxiliary

    def pool(self, step: int, x: Tensor, graph: Any, batch: Any) -> tuple[Tensor, Any, Tensor | float]:
        """Return features and graphs of the next level, and the auxiliary loss of the step."""
        if self.method.schedule:
            level = batch.pooled_data[step]
            x, _ = self.reduce(x=x, so=level.so)
            return x, level, 0.0
        if self.method.pooler:
            pooler, edges = self.poolers[step], (graph.edge_index, graph.edge_weight)
            out = pooler(x, *edges, batch=graph.batch, batch_size=batch.num_graphs)
            return out.x, out, sum(out.get_loss_value()) if out.loss else 0.0
        return x, graph, 0.0
