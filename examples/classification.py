"""Graph classification with any pooler: convolve, pool, convolve, read out.

python examples/classification.py --pooler mincut
python examples/classification.py --all --dataset MUTAG --root DIR
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch.nn import Linear, Sequential
from torch.nn.functional import cross_entropy
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGraphConv, GraphConv

from tgp.data.convert import table_to_data
from tgp.pipeline.config import CoarsenConfig
from tgp.pipeline.source import open_source
from tgp.poolers import get_pooler, pooler_map
from tgp.reduce import GlobalReduce

HIDDEN = 32
OPTIONS = {"ratio": 0.5, "scorer": "degree", "num_modes": 2}


class Net(torch.nn.Module):
    """Two convolutions, a pooler, two convolutions, a readout."""

    def __init__(self, pooler: str, in_channels: int, num_classes: int, k: int) -> None:
        super().__init__()
        self.before = torch.nn.ModuleList([GraphConv(in_channels, HIDDEN), GraphConv(HIDDEN, HIDDEN)])
        self.pooler = get_pooler(pooler, in_channels=HIDDEN, k=k, **OPTIONS)
        self.dense = self.pooler.is_dense and not self.pooler.sparse_output
        conv = DenseGraphConv if self.dense else GraphConv
        width = HIDDEN * OPTIONS["num_modes"] if pooler == "eigen" else HIDDEN
        self.after = torch.nn.ModuleList([conv(width, HIDDEN), conv(HIDDEN, HIDDEN)])
        self.readout = GlobalReduce("mean")
        self.head = Sequential(Linear(HIDDEN, HIDDEN), torch.nn.ReLU(), Linear(HIDDEN, num_classes))

    def forward(self, data):
        x = self.before[0](data.x, data.edge_index).relu()
        x = self.before[1](x, data.edge_index).relu()
        out = self.pooler(x=x, adj=data.edge_index, batch=data.batch, batch_size=data.num_graphs)
        x, more = out.x, {"mask": out.mask} if self.dense else {"edge_weight": out.edge_weight}
        for conv in self.after:
            x = conv(x, out.edge_index, **more).relu()
        x = self.readout(x, mask=out.mask) if self.dense else self.readout(x, batch=out.batch)
        return self.head(x), sum(out.get_loss_value()) if out.loss else 0.0


def load(name: str, root: str | None) -> list:
    """The graphs, shuffled with a fixed seed."""
    graphs = table_to_data(open_source(CoarsenConfig(dataset=name, root=root and Path(root))).table)
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0)).tolist()
    return [graphs[i] for i in order]


@torch.no_grad()
def evaluate(net: Net, loader: DataLoader) -> tuple[float, float]:
    """Mean loss of the task, and accuracy."""
    net.eval()
    found = [(net(data)[0], data.y.view(-1)) for data in loader]
    logits, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    return float(cross_entropy(logits, labels)), float((logits.argmax(-1) == labels).float().mean())


def train(graphs: list, pooler: str, epochs: int, lr: float, seed: int = 0) -> float:
    """Train on 70 % of the graphs; the test accuracy (20 %) of the epoch that validates best (10 %)."""
    torch.manual_seed(seed)
    transform = pooler_map[pooler].data_transforms()
    graphs = [transform(graph.clone()) for graph in graphs] if transform else graphs
    low, high = int(0.7 * len(graphs)), int(0.8 * len(graphs))
    train_loader = DataLoader(graphs[:low], batch_size=32, shuffle=True)
    loaders = [DataLoader(part, batch_size=128) for part in (graphs[low:high], graphs[high:])]
    classes = int(max(graph.y.max() for graph in graphs)) + 1
    clusters = max(2, sum(graph.num_nodes for graph in graphs) // len(graphs) // 5)
    net = Net(pooler, graphs[0].num_features, classes, clusters)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    best = (float("inf"), 0.0)
    for _ in range(epochs):
        net.train()
        for data in train_loader:
            optimizer.zero_grad()
            logits, auxiliary = net(data)
            (cross_entropy(logits, data.y.view(-1)) + auxiliary).backward()
            optimizer.step()
        (loss, _), (_, accuracy) = (evaluate(net, loader) for loader in loaders)
        best = min(best, (loss, accuracy))
    return best[1]


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Print a table of accuracies and return it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="molecules", help="a built-in set, a known name, or a path")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="topk", help="aliases, separated by commas")
    parser.add_argument("--all", action="store_true", help="every pooler, beside no pooling")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=5e-3)
    options = parser.parse_args(argv)
    names = (
        sorted(pooler_map, key=lambda name: name != "nopool") if options.all else options.pooler.split(",")
    )
    graphs = load(options.dataset, options.root)
    accuracies = {}
    print(f"{'pooler':8} {'accuracy':>8} {'seconds':>8}")
    for name in names:
        started = time.perf_counter()
        accuracies[name] = train(graphs, name, options.epochs, options.lr)
        print(f"{name:8} {accuracies[name]:8.1%} {time.perf_counter() - started:8.1f}", flush=True)
    return accuracies


if __name__ == "__main__":
    main()
