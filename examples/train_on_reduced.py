"""Training on a reduced graph: coarsen, train a network on the small graph, test it on the original one.

python examples/train_on_reduced.py
python examples/train_on_reduced.py --dataset Cora --root DIR --pooler graclus*3

Labels of the small graph come from the training nodes only. The baseline is the same network, trained on the original graph.
"""

import argparse
import time

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN
from torch_geometric.transforms import NormalizeFeatures, RandomNodeSplit

import tgp
from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError


def load(name: str, root: str | None):
    """Return a graph with masks. By default, 20 nodes of each class are for training and 10 % for validation."""
    data = load_graphs(name, root, limit=1)[0]
    if data.x is None or data.y is None or data.y.numel() != data.num_nodes:
        raise InputError(f"{name!r} must have features and a label for every node", field="dataset")
    torch.manual_seed(0)
    split = RandomNodeSplit("test_rest", num_train_per_class=20, num_val=0.1)
    return NormalizeFeatures()(data if "train_mask" in data else split(data))


def train(data, classes: int, epochs: int) -> torch.nn.Module:
    """Train a network and return it as it was at the lowest validation loss."""
    torch.manual_seed(0)
    net = GCN(data.num_features, 64, 2, classes, dropout=0.5)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    best, weights = torch.inf, {}
    for _ in range(epochs):
        for mask in (data.train_mask, data.val_mask):
            out = net.train(mask is data.train_mask)(data.x, data.edge_index)
            loss = cross_entropy(out[mask], data.y[mask])
            if net.training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            elif loss < best:
                best, weights = (
                    loss.detach(),
                    {name: value.clone() for name, value in net.state_dict().items()},
                )
    net.load_state_dict(weights)
    return net.eval()


@torch.no_grad()
def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="regions:num_nodes=4000:parts=9:noise=40", help="one graph")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="graclus*3", help="schedule; its last level is the small graph")
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args(argv)
    data = load(options.dataset, options.root)
    hierarchy = tgp.coarsen(data, options.pooler, carry="auto").as_hierarchy()
    level, classes, found = len(hierarchy), int(data.y.max()) + 1, {}
    print(f"{'trained on':12} {'nodes':>7} {'edges':>8} {'labels':>7} {'seconds':>8} {'test':>7}")
    for name, graph in {"original": data, "reduced": hierarchy.reduced(level)}.items():
        started = time.perf_counter()
        with torch.enable_grad():
            net = train(graph, classes, options.epochs)
        sizes = f"{graph.num_nodes:7} {graph.num_edges:8} {int(graph.train_mask.sum()):7}"
        answer = net(data.x, data.edge_index).argmax(1)  # always on the original graph
        found[name] = float((answer == data.y)[data.test_mask].float().mean())
        print(f"{name:12} {sizes} {time.perf_counter() - started:8.1f} {found[name]:7.1%}", flush=True)
    answer = hierarchy.expand(net(graph.x, graph.edge_index).argmax(1), level)
    found["expanded"] = float((answer == data.y)[data.test_mask].float().mean())
    print(f"answers for the small graph, expanded to the nodes: {found['expanded']:.1%}")
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
