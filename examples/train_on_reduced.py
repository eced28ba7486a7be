"""Training on a reduced graph: coarsen, train a network on the small graph, test it on the original one.

python examples/train_on_reduced.py
python examples/train_on_reduced.py --dataset Cora --root DIR --pooler hem:ratio=0.3

Labels of the small graph come from the training nodes only. The baseline is the same network, trained on the original graph.
"""

import argparse
import copy
import time

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN
from torch_geometric.transforms import NormalizeFeatures, RandomNodeSplit

import tgp
from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError


def train(data, classes: int, epochs: int) -> torch.nn.Module:
    """Train a network and return it as it was at the lowest validation loss."""
    torch.manual_seed(0)
    net = GCN(data.num_features, 64, 2, classes, dropout=0.5)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    best, kept = torch.inf, net
    for _ in range(epochs):
        optimizer.zero_grad()
        out = net.train()(data.x, data.edge_index)
        cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
        with torch.no_grad():
            out = net.eval()(data.x, data.edge_index)
        if (loss := cross_entropy(out[data.val_mask], data.y[data.val_mask])) < best:
            best, kept = loss, copy.deepcopy(net)
    return kept


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="regions:num_nodes=4000:parts=9:noise=40", help="one graph")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="hem:ratio=0.1", help="schedule; the last level is used")
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args(argv)
    data = load_graphs(options.dataset, options.root, limit=1)[0]
    if data.x is None or data.y is None or data.y.numel() != data.num_nodes:
        raise InputError(f"{options.dataset!r} must have features and a label for every node")
    torch.manual_seed(0)
    split = RandomNodeSplit("test_rest", num_train_per_class=20, num_val=0.1)  # only without a public split
    data = NormalizeFeatures()(data if "train_mask" in data else split(data))
    hierarchy = tgp.coarsen(data, options.pooler, carry="auto").as_hierarchy()
    level, found = len(hierarchy), {}
    for name, graph in {"original": data, "reduced": hierarchy.reduced(level)}.items():
        started = time.perf_counter()
        net = train(graph, int(data.y.max()) + 1, options.epochs)
        seconds, answer = time.perf_counter() - started, net(data.x, data.edge_index).argmax(1)
        found[name] = float((answer == data.y)[data.test_mask].float().mean())  # always on the original graph
        sizes = f"{graph.num_nodes:6} nodes {graph.num_edges:7} edges {int(graph.train_mask.sum()):5} labels"
        print(f"trained on {name:9}{sizes}{seconds:6.1f} s, test accuracy {found[name]:.1%}", flush=True)
    answer = hierarchy.expand(net(graph.x, graph.edge_index).argmax(1), level)  # without the original graph
    found["expanded"] = float((answer == data.y)[data.test_mask].float().mean())
    print(f"answers for the reduced graph, expanded to the nodes: {found['expanded']:.1%}")
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
