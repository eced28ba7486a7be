"""Graph classification with any pooler: convolve, pool, convolve, read out. The bar is the network without pooling.

python examples/classification.py --pooler nopool,mincut
python examples/classification.py --all --dataset MUTAG --root DIR
"""

import argparse
import statistics
import time

import torch
from torch.nn import BatchNorm1d, Linear, ModuleList, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGraphConv, GraphConv

from tgp.datasets import load_graphs
from tgp.errors import TgpError
from tgp.poolers import get_pooler, pooler_map
from tgp.reduce import GlobalReduce

HIDDEN = 32
MARGIN = 0.05


class Net(torch.nn.Module):
    """Two convolutions, a pooler, two convolutions, a sum over the nodes."""

    def __init__(self, pooler: str, in_channels: int, num_classes: int, k: int) -> None:
        super().__init__()
        self.before = ModuleList([GraphConv(in_channels, HIDDEN), GraphConv(HIDDEN, HIDDEN)])
        self.norms = ModuleList([BatchNorm1d(HIDDEN), BatchNorm1d(HIDDEN)])
        self.pooler = get_pooler(pooler, in_channels=HIDDEN, k=k, ratio=0.5, scorer="degree", num_modes=2)
        self.dense = self.pooler.is_dense and not self.pooler.sparse_output
        conv = DenseGraphConv if self.dense else GraphConv
        width = HIDDEN * getattr(self.pooler.reducer, "num_modes", 1)
        self.after = ModuleList([conv(width, HIDDEN), conv(HIDDEN, HIDDEN)])
        self.readout = GlobalReduce("sum")
        hidden = [BatchNorm1d(HIDDEN), Linear(HIDDEN, HIDDEN), ReLU()]
        self.head = Sequential(*hidden, Linear(HIDDEN, num_classes))

    def forward(self, data):
        x, edges = data.x, (data.edge_index, data.edge_weight)
        for conv, norm in zip(self.before, self.norms, strict=True):
            x = norm(conv(x, *edges)).relu()
        out = self.pooler(x, *edges, batch=data.batch, batch_size=data.num_graphs)
        x, more = out.x, {"mask": out.mask} if self.dense else {"edge_weight": out.edge_weight}
        for conv in self.after:
            x = conv(x, out.edge_index, **more).relu()
        x = self.readout(x, mask=out.mask) if self.dense else self.readout(x, out.batch, data.num_graphs)
        return self.head(x), sum(out.get_loss_value()) if out.loss else 0.0


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
    change = pooler_map[pooler].data_transforms() or (lambda graph: graph)
    chosen = [change(graphs[i].clone()) for i in torch.randperm(len(graphs)).tolist()]
    low, high = int(0.7 * len(graphs)), int(0.8 * len(graphs))
    train_loader = DataLoader(chosen[:low], batch_size=32, shuffle=True, drop_last=low > 32)
    loaders = [DataLoader(part, batch_size=256) for part in (chosen[low:high], chosen[high:])]
    classes = int(max(graph.y.max() for graph in graphs)) + 1
    half = max(2, sum(graph.num_nodes for graph in graphs) // len(graphs) // 2)
    net = Net(pooler, graphs[0].num_features, classes, half)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    best = (float("inf"), 0.0)
    for _ in range(epochs):
        net.train()
        for data in train_loader:
            optimizer.zero_grad()
            logits, auxiliary = net(data)
            (cross_entropy(logits, data.y.view(-1)) + auxiliary).backward()
            optimizer.step()
        loss, _ = evaluate(net, loaders[0])
        if loss < best[0]:
            best = (loss, evaluate(net, loaders[1])[1])
    return best[1]


def main(argv: list[str] | None = None) -> dict[str, list[float]]:
    """Print a table of test accuracies over the seeds, and return them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="families", help="a built-in set, a known name, or a path")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="topk", help="aliases, separated by commas")
    parser.add_argument("--all", action="store_true", help="every pooler, beside no pooling")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3, help="runs per pooler, each with its own split")
    parser.add_argument("--lr", type=float, default=4e-3)
    options = parser.parse_args(argv)
    chosen = pooler_map if options.all else options.pooler.split(",")
    graphs, found = load_graphs(options.dataset, root=options.root), {}
    print("| pooler | accuracy (%) | against nopool | verdict | s |\n|---|---|---|---|---|")
    for name in sorted(chosen, key=lambda name: name != "nopool"):
        started = time.perf_counter()
        found[name] = [train(graphs, name, options.epochs, options.lr, seed) for seed in range(options.seeds)]
        mean, spread, judged = statistics.fmean(found[name]), statistics.pstdev(found[name]), "- | -"
        if name != "nopool" and "nopool" in found:
            gap = mean - statistics.fmean(found["nopool"])
            judged = f"{100 * gap:+.1f} | {'ok' if gap >= -MARGIN else 'below'}"
        took = time.perf_counter() - started
        print(f"| {name} | {100 * mean:.1f} ± {100 * spread:.1f} | {judged} | {took:.1f} |", flush=True)
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}") from None
