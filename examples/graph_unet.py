"""Graph U-Net: pool whole graphs with `pooler(data)`, convolve with edge features, lift, add the features before pooling.

python examples/graph_unet.py --pooler topk,graclus,ec
python examples/graph_unet.py --dataset Cora --root DIR --levels 2 --epochs 60

`pooler(data)` also pools labels and edge features: the loss counts all levels. Baselines: the most common label, no pooling.
"""

import argparse
from copy import copy

import torch
from torch.nn import Linear, ModuleList, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GINEConv, GraphNorm

from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError
from tgp.poolers import get_pooler

HIDDEN = 16
OPTIONS = {"ratio": 0.5, "scorer": "degree", "num_modes": 1, "batched": False, "sparse_output": True}


class Block(torch.nn.Module):
    def __init__(self, edge_dim: int) -> None:
        super().__init__()
        self.conv = GINEConv(Linear(HIDDEN, HIDDEN), edge_dim=edge_dim)
        self.after = Sequential(GraphNorm(HIDDEN), ReLU())

    def forward(self, data):
        return self.after(self.conv(data.x, data.edge_index, data.edge_attr))


class GraphUNet(torch.nn.Module):
    def __init__(self, pooler: str, inputs: int, edge_dim: int, classes: int, levels: int) -> None:
        super().__init__()
        self.encode, self.first = Linear(inputs, HIDDEN), Block(edge_dim)
        options = {"in_channels": HIDDEN, **OPTIONS}
        self.poolers = ModuleList(get_pooler(pooler, k=max(8, 64 >> i), **options) for i in range(levels))
        self.down = ModuleList(Block(edge_dim) for _ in range(levels))
        self.up = ModuleList(Block(edge_dim) for _ in range(levels))
        self.head = Linear(HIDDEN, classes)

    def forward(self, data):
        """Return the logits and the graphs of all levels, the finest first."""
        data = copy(data)
        data.x = self.encode(data.x)
        data.x = self.first(data)
        levels = [data]
        for pooler, conv in zip(self.poolers, self.down, strict=True):
            levels.append(pooler(levels[-1]))
            levels[-1].x = conv(levels[-1])
        for i in reversed(range(len(self.poolers))):
            levels[i].x = levels[i].x + self.poolers[i](levels[i + 1], lifting=True)
            levels[i].x = self.up[i](levels[i])
        return self.head(levels[0].x), levels


def load(name: str, root: str | None):
    """Return the first graph with masks (10 % training, 10 % validation) and edge features."""
    data = load_graphs(name, root, limit=1)[0]
    if data.x is None or data.y is None or data.y.numel() != data.num_nodes:
        raise InputError(f"{name!r} must have features and a label for every node", field="dataset")
    part = torch.rand(data.num_nodes, generator=torch.Generator().manual_seed(0))
    for key, low, high in (("train_mask", 0, 0.1), ("val_mask", 0.1, 0.2), ("test_mask", 0.2, 1)):
        data[key] = (part >= low) & (part < high)
    if data.edge_attr is None:
        data.edge_attr = (data.x[data.edge_index[0]] - data.x[data.edge_index[1]]).norm(dim=1)
    data.edge_attr = data.edge_attr.view(data.num_edges, -1).float()
    return data


def train(data, pooler: str, levels: int, epochs: int) -> float:
    """Return the test accuracy of the epoch with the best validation accuracy."""
    torch.manual_seed(0)
    net = GraphUNet(pooler, data.num_features, data.edge_attr.size(1), int(data.y.max()) + 1, levels)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
    best = (-1.0, 0.0)
    for _ in range(epochs):
        net.train()
        logits, graphs = net(data)
        loss = cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        for graph in graphs[1:]:
            chosen = graph.y_train >= 0  # the majority of the training members, -1 without any
            loss = loss + 0.1 * cross_entropy(net.head(graph.x[chosen]), graph.y_train[chosen])
            loss = loss + sum(graph.loss.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            right = (net.eval()(data)[0].argmax(-1) == data.y).float()
        best = max(best, tuple(float(right[mask].mean()) for mask in (data.val_mask, data.test_mask)))
    return best[1]


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="regions", help="a built-in set, a known name, or a path")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="graclus,topk", help="aliases, separated by commas")
    parser.add_argument("--levels", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args(argv)
    data = load(options.dataset, options.root)
    commonest = data.y[data.train_mask].mode().values
    found = {"commonest": float((data.y[data.test_mask] == commonest).float().mean())}
    print(f"{'pooler':10} {'accuracy':>8}\n{'commonest':10} {found['commonest']:8.1%}", flush=True)
    for name in dict.fromkeys([*options.pooler.split(","), "nopool"]):
        found[name] = train(data, name, options.levels, options.epochs)
        print(f"{name:10} {found[name]:8.1%}", flush=True)
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
