"""The PreCoarsening transform: compute levels once before training, compared with pooling in every forward pass.

python examples/precoarsening.py --pooler ndp
python examples/precoarsening.py --pooler graclus,graclus,kmis --dataset MUTAG --root DIR

Both variants train the same network on the same batches, so the loss is equal. The time of an epoch and the time before
the first epoch differ. A PyG dataset takes the transform as TUDataset(..., pre_transform=PreCoarsening(levels)).
"""

import argparse
import time

import torch
from torch.nn import Linear, ModuleList
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphConv

from tgp.data import PoolDataLoader, precoarsen
from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError
from tgp.poolers import get_pooler
from tgp.reduce import BaseReduce, GlobalReduce

HIDDEN = 32


class Net(torch.nn.Module):
    """Network with a convolution per level. Levels come from the batch if it has them, else from poolers."""

    def __init__(self, poolers: list[str], inputs: int, classes: int) -> None:
        super().__init__()
        self.convs = ModuleList(GraphConv(size, HIDDEN) for size in [inputs] + [HIDDEN] * len(poolers))
        self.poolers = ModuleList(get_pooler(name, scorer="degree") for name in poolers)
        self.reduce, self.readout, self.head = BaseReduce(), GlobalReduce("mean"), Linear(HIDDEN, classes)

    def forward(self, data):
        x, batch = self.convs[0](data.x, data.edge_index).relu(), data.batch
        edges = (data.edge_index, None)
        for number, conv in enumerate(self.convs[1:]):
            if "pooled_data" in data:
                level = data.pooled_data[number]
                x, _ = self.reduce(x=x, so=level.so)
            else:
                level = self.poolers[number](
                    x=x, adj=edges[0], edge_weight=edges[1], batch=batch, level=number
                )
                x = level.x
            edges, batch = (level.edge_index, level.edge_weight), level.batch
            x = conv(x, *edges).relu()
        return self.head(self.readout(x, batch=batch, size=data.num_graphs))


def train(graphs: list, poolers: list[str], epochs: int) -> tuple[float, float]:
    """Return the loss of the last epoch and the seconds of the fastest epoch."""
    torch.manual_seed(0)
    net = Net(poolers, graphs[0].num_features, int(max(graph.y.max() for graph in graphs)) + 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    loader = PoolDataLoader(graphs, batch_size=64, shuffle=True, seed=0)
    fastest = float("inf")
    for _ in range(epochs):
        started, total = time.perf_counter(), 0.0
        for data in loader:
            optimizer.zero_grad()
            loss = cross_entropy(net(data), data.y.view(-1))
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * data.num_graphs
        fastest = min(fastest, time.perf_counter() - started)
    return total / len(graphs), fastest


def main(argv: list[str] | None = None) -> dict[str, tuple[float, float]]:
    """Print loss and seconds of both variants and return them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="molecules", help="a built-in set, a known name, or a path")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument(
        "--pooler", default="ndp,ndp", help="a deterministic pooler per level, separated by commas"
    )
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args(argv)
    poolers = options.pooler.split(",")
    graphs = load_graphs(options.dataset, options.root, add_degree=True)  # some datasets have no features
    if (y := graphs[0].y) is None or y.numel() != 1 or y.is_floating_point():
        raise InputError(f"{options.dataset!r} must have one class per graph", field="dataset")

    levels = [(name, {"scorer": "degree"} if name == "kmis" else {}) for name in poolers]
    precoarsen(graphs[:2], levels)  # compile kernels before the measurement
    started = time.perf_counter()
    prepared = precoarsen(graphs, levels)  # same result as PreCoarsening(levels) for each graph, but faster
    once = time.perf_counter() - started
    sizes = [sum(graph.num_nodes for graph in graphs)]
    sizes += [sum(graph.pooled_data[i].num_nodes for graph in prepared) for i in range(len(levels))]
    print(f"{options.dataset}: {len(graphs)} graphs, nodes {' -> '.join(map(str, sizes))}")

    print(f"{'levels':14} {'loss':>10} {'s/epoch':>8} {'s before':>9}", flush=True)
    found = {}
    for name, data, before in (("online", graphs, 0.0), ("pre-coarsened", prepared, once)):
        found[name] = train(data, poolers, options.epochs)
        print(f"{name:14} {found[name][0]:10.6f} {found[name][1]:8.3f} {before:9.3f}", flush=True)
    saved = found["online"][1] - found["pre-coarsened"][1]
    epochs = (
        f"after {max(1, round(once / saved + 0.5))} epochs" if saved > 0 else "never on graphs of this size"
    )
    print(f"the time before the first epoch is recovered {epochs}")
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
