"""Seconds per epoch of one network whose levels come from a store, from a transform, or are computed online.

python tests/benchmarks/bench_training.py --root DATA
python tests/benchmarks/bench_training.py --dataset molecules --pooler graclus --epochs 2

The network and its initial weights are the same in all cases. Loaders shuffle in different orders, so the losses are close but
not equal. The plain case has the same number of layers, without levels. Cases run in turns; the table has the fastest
epoch of each case and its ratio to the case that reads the store.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv

import tgp
from tgp.data import PoolDataLoader, PreCoarsening
from tgp.poolers import get_pooler
from tgp.reduce import BaseReduce, GlobalReduce
from tgp.sources import load_graphs

HIDDEN = 32


class Net(torch.nn.Module):
    """Graph network with one convolution per level.

    Args:
        num_features: Number of columns of ``x``.
        num_classes: Number of classes.
        poolers: Poolers that compute the levels online; ``None`` if batches contain the levels.
        depth: Number of levels.
    """

    def __init__(self, num_features, num_classes, poolers, depth):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            GraphConv(size, HIDDEN) for size in (num_features, *[HIDDEN] * depth)
        )
        self.head = torch.nn.Linear(HIDDEN, num_classes)
        self.reduce, self.readout = BaseReduce(), GlobalReduce("mean")
        self.poolers = poolers

    def forward(self, data):
        x = self.convs[0](data.x, data.edge_index).relu()
        batch, edges, weight = data.batch, data.edge_index, data.get("edge_weight")
        for position, conv in enumerate(self.convs[1:]):
            if self.poolers is not None:
                out = self.poolers[position](x=x, adj=edges, edge_weight=weight, batch=batch)
                x, edges, weight, batch = out.x, out.edge_index, out.edge_weight, out.batch
            elif "pooled_data" in data:
                level = data.pooled_data[position]
                x, _ = self.reduce(x=x, so=level.so)
                edges, weight, batch = level.edge_index, level.get("edge_weight"), level.batch
            x = conv(x, edges, weight).relu()
        return self.head(self.readout(x, batch=batch))


def epoch(model, loader, optimizer):
    """Train for one epoch and return the seconds and the mean loss."""
    model.train()
    started, total = time.perf_counter(), 0.0
    for data in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data), data.y.view(-1))
        loss.backward()
        optimizer.step()
        total += float(loss.detach())
    return time.perf_counter() - started, total / len(loader)


def cases(options, folder):
    """Return the loader and the online poolers of each case."""
    graphs = load_graphs(options.dataset, options.root)
    depth, name = options.levels, options.pooler
    store = tgp.coarsen(graphs, f"{name}*{depth}", folder, progress=False)
    started = time.perf_counter()
    transform = PreCoarsening([name] * depth)
    attached = transform.block(graphs)
    print(f"attaching the levels in memory took {time.perf_counter() - started:.2f} s")
    settings = {"batch_size": options.batch_size, "shuffle": True}
    return {
        "store": (PoolDataLoader(store, **settings), None),
        "levels in memory, PyG's loader": (DataLoader(attached, **settings), None),
        "online": (DataLoader(graphs, **settings), [get_pooler(name) for _ in range(depth)]),
        "no levels": (DataLoader(graphs, **settings), None),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="NCI1")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--pooler", default="ndp")
    parser.add_argument("--levels", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        loaders = cases(options, Path(folder, "store"))
        first = loaders["store"][0].dataset
        models = {}
        for case, (loader, poolers) in loaders.items():
            torch.manual_seed(0)
            model = Net(first.num_features, first.num_classes, poolers, options.levels)
            models[case] = (model, loader, torch.optim.Adam(model.parameters(), lr=1e-3))
        seconds = {case: [] for case in models}
        losses = {}
        for number in range(options.epochs):
            for case, parts in models.items():
                torch.manual_seed(number)
                elapsed, losses[case] = epoch(*parts)
                seconds[case].append(elapsed)
    best = {case: min(values) for case, values in seconds.items()}
    print(
        f"{options.dataset}, {options.pooler}*{options.levels}, batches of {options.batch_size}, one thread"
    )
    print("| levels | s per epoch | ratio to store |\n|---|---|---|")
    for case, value in best.items():
        print(f"| {case} | {value:.2f} | {value / best['store']:.2f} |")
    print("\nLoss of the last epoch: " + ", ".join(f"{case} {loss:.4f}" for case, loss in losses.items()))


if __name__ == "__main__":
    main()
