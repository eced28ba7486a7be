"""Node classification with lift: pool, convolve on the coarse graphs, lift, concatenate with the features before pooling.

python examples/node_classification.py --pooler graclus,topk,mincut
python examples/node_classification.py --dataset Cora --root DIR --levels 1 --epochs 60 --conv gcn --drop 0.5

Baselines: the most common label, and no pooling. The default map suits this network: it proves nothing about pooling.
"""

import argparse

import torch
from torch.nn import Dropout, Linear, ModuleList, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv, GraphConv, GraphNorm
from torch_geometric.transforms import NormalizeFeatures

from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError
from tgp.poolers import get_pooler

HIDDEN = 32
CONVS = {"gcn": GCNConv, "mean": lambda inputs, outputs: GraphConv(inputs, outputs, aggr="mean")}
OPTIONS = {"ratio": 0.5, "scorer": "degree", "num_modes": 1, "batched": False, "sparse_output": True}


class Block(torch.nn.Module):
    def __init__(self, inputs: int, conv: str, drop: float) -> None:
        super().__init__()
        self.conv = CONVS[conv](inputs, HIDDEN)
        self.after = Sequential(GraphNorm(HIDDEN), ReLU(), Dropout(drop))  # a pooler may sum many nodes

    def forward(self, x, edge_index, edge_weight=None):
        return self.after(self.conv(x, edge_index, edge_weight))


class Net(torch.nn.Module):
    """Network that pools to the coarsest level and lifts back, with a skip connection at each level."""

    def __init__(self, pooler: str, inputs: int, classes: int, levels: int, **how) -> None:
        super().__init__()
        self.encode = Sequential(Dropout(how["drop"]), Linear(inputs, HIDDEN), ReLU(), Dropout(how["drop"]))
        self.first, self.head = Block(HIDDEN, **how), Linear(HIDDEN, classes)
        options = {"in_channels": HIDDEN, "cached": True, **OPTIONS}
        self.poolers = ModuleList(get_pooler(pooler, k=max(8, 64 >> i), **options) for i in range(levels))
        self.coarse = ModuleList(Block(HIDDEN, **how) for _ in range(levels))
        self.fine = ModuleList(Block(2 * HIDDEN, **how) for _ in range(levels))

    def forward(self, data):
        edges, trail, auxiliary = (data.edge_index, data.edge_weight), [], 0.0
        x = self.first(self.encode(data.x), *edges)
        for pooler, conv in zip(self.poolers, self.coarse, strict=True):
            out = pooler(x, *edges)
            auxiliary = auxiliary + (sum(out.get_loss_value()) if out.loss else 0.0)
            trail.append((x, edges, pooler, out.so))
            edges = (out.edge_index, out.edge_weight)
            x = conv(out.x, *edges)
        for conv in self.fine:
            skip, edges, pooler, so = trail.pop()
            x = conv(torch.cat([skip, pooler(x=x, so=so, lifting=True)], dim=-1), *edges)
        return self.head(x), auxiliary


def load(name: str, root: str | None):
    """Return the first graph with masks. By default, 10 % of the nodes are for training and 10 % for validation."""
    data = load_graphs(name, root, limit=1)[0]
    if data.x is None or data.y is None or data.y.numel() != data.num_nodes:
        raise InputError(f"{name!r} must have features and a label for every node", field="dataset")
    part = torch.rand(data.num_nodes, generator=torch.Generator().manual_seed(0))
    for key, low, high in (("train_mask", 0, 0.1), ("val_mask", 0.1, 0.2), ("test_mask", 0.2, 1)):
        mask = data[key] if key in data else (part >= low) & (part < high)
        data[key] = mask.view(data.num_nodes, -1)[:, 0]  # the first of several public splits
    return NormalizeFeatures()(data)


def train(data, pooler: str, levels: int, epochs: int, **how) -> float:
    """Return the test accuracy of the epoch with the best validation accuracy."""
    torch.manual_seed(0)
    net = Net(pooler, data.num_features, int(data.y.max()) + 1, levels, **how)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
    best, accuracy = -1.0, 0.0
    for _ in range(epochs):
        net.train()
        optimizer.zero_grad()
        logits, auxiliary = net(data)
        (cross_entropy(logits[data.train_mask], data.y[data.train_mask]) + auxiliary).backward()
        optimizer.step()
        with torch.no_grad():
            right = (net.eval()(data)[0].argmax(-1) == data.y).float()
        if (found := float(right[data.val_mask].mean())) > best:
            best, accuracy = found, float(right[data.test_mask].mean())
    return accuracy


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="regions", help="a built-in set, a known name, or a path")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="graclus,kmis", help="aliases, separated by commas")
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--conv", default="mean", choices=CONVS, help="gcn if neighbours have similar labels")
    parser.add_argument("--drop", type=float, default=0.2, help="dropout; use more if there are few labels")
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args(argv)
    data = load(options.dataset, options.root)
    print(f"{options.dataset}: {data.num_nodes} nodes, {int(data.train_mask.sum())} nodes with a known label")
    commonest = data.y[data.train_mask].mode().values
    found = {"commonest": float((data.y[data.test_mask] == commonest).float().mean())}
    print(f"{'pooler':10} {'accuracy':>8}\n{'commonest':10} {found['commonest']:8.1%}", flush=True)
    for name in dict.fromkeys([*options.pooler.split(","), "nopool"]):
        found[name] = train(data, name, options.levels, options.epochs, conv=options.conv, drop=options.drop)
        print(f"{name:10} {found[name]:8.1%}", flush=True)
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
