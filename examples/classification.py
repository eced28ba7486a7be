"""Graph classification with any pooler: convolve, pool, convolve, read out. The baseline is the network without pooling.

python examples/classification.py --pooler mincut,ndp
python examples/classification.py --all --dataset MUTAG --root DIR
"""

import argparse
from statistics import fmean, pstdev

import torch
from torch.nn import BatchNorm1d, Linear, ModuleList, ReLU, Sequential, functional
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGraphConv, GraphConv
from tqdm import trange

from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError
from tgp.poolers import get_pooler, pooler_map
from tgp.reduce import GlobalReduce


class Net(torch.nn.Module):
    """Network of two convolutions, a pooler, two convolutions, and a sum over the nodes."""

    def __init__(self, pooler: str, in_channels: int, classes: int, k: int, hidden: int = 32) -> None:
        super().__init__()
        self.before = ModuleList([GraphConv(in_channels, hidden), GraphConv(hidden, hidden)])
        self.norms = ModuleList([BatchNorm1d(hidden), BatchNorm1d(hidden)])
        self.pooler = get_pooler(pooler, in_channels=hidden, k=k, ratio=0.5, scorer="degree", num_modes=2)
        # Dense poolers return padded graphs with a mask, all others sparse graphs with a batch vector.
        self.dense = self.pooler.is_dense and not self.pooler.sparse_output
        conv = DenseGraphConv if self.dense else GraphConv
        width = hidden * getattr(self.pooler.reducer, "num_modes", 1)  # of EigenPool
        self.after = ModuleList([conv(width, hidden), conv(hidden, hidden)])
        self.readout = GlobalReduce("sum")
        self.head = Sequential(BatchNorm1d(hidden), Linear(hidden, hidden), ReLU(), Linear(hidden, classes))

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


def load(name: str, root: str | None) -> list:
    """Return graphs with one class each. If nodes have no features, their degree is used."""
    graphs = load_graphs(name, root)
    if graphs[0].x is None:
        graphs = load_graphs(name, root, add_degree=True)
    if len(graphs) < 10 or (y := graphs[0].y) is None or y.numel() != 1 or y.is_floating_point():
        raise InputError(f"{name!r} must contain at least ten graphs with one class each", field="dataset")
    return graphs


@torch.no_grad()
def evaluate(net: Net, loader: DataLoader) -> tuple[float, float]:
    """Return the mean loss of the task, and the accuracy."""
    found = [(net.eval()(data)[0], data.y.view(-1)) for data in loader]
    logits, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    return float(functional.cross_entropy(logits, labels)), float(logits.argmax(-1).eq(labels).float().mean())


def train(graphs: list, pooler: str, epochs: int, seed: int = 0) -> float:
    """Train on 70 % of the graphs. Return the test accuracy (20 %) of the epoch with the best validation loss (10 %)."""
    torch.manual_seed(seed)
    transform = getattr(pooler_map.get(pooler), "data_transforms", lambda: None)() or (lambda graph: graph)
    chosen = [transform(graphs[i].clone()) for i in torch.randperm(len(graphs)).tolist()]
    low, high = int(0.7 * len(graphs)), int(0.8 * len(graphs))
    train_loader = DataLoader(chosen[:low], batch_size=32, shuffle=True, drop_last=low > 32)
    loaders = [DataLoader(part, batch_size=256) for part in (chosen[low:high], chosen[high:])]
    half = max(2, sum(graph.num_nodes for graph in graphs) // len(graphs) // 2)
    net = Net(pooler, graphs[0].num_features, int(max(graph.y for graph in graphs)) + 1, half)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    best = (float("inf"), 0.0)
    for _ in trange(epochs, desc=f"{pooler}, seed {seed}", leave=False, disable=None):  # only on a terminal
        net.train()
        for data in train_loader:
            optimizer.zero_grad()
            logits, auxiliary = net(data)
            (functional.cross_entropy(logits, data.y.view(-1)) + auxiliary).backward()
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
    parser.add_argument("--all", action="store_true", help="every pooler")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3, help="runs per pooler, each with its own split")
    options = parser.parse_args(argv)
    graphs, found = load(options.dataset, options.root), {}
    print(f"{options.dataset}: {len(graphs)} graphs, {graphs[0].num_features} features\n")
    print("| pooler | accuracy (%) | against nopool | verdict |\n|---|---|---|---|", flush=True)
    for name in dict.fromkeys(["nopool", *(pooler_map if options.all else options.pooler.split(","))]):
        found[name] = [train(graphs, name, options.epochs, seed) for seed in range(max(1, options.seeds))]
        mean, spread, base = fmean(found[name]), pstdev(found[name]), fmean(found["nopool"])
        gap, verdict = f"{100 * (mean - base):+.1f}", "ok" if mean >= base - 0.05 else "below"
        judged = "- | -" if name == "nopool" else f"{gap} | {verdict}"
        print(f"| {name} | {100 * mean:.1f} ± {100 * spread:.1f} | {judged} |", flush=True)
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
