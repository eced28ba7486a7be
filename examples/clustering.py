"""Unsupervised clustering of the nodes of one graph, using only the auxiliary losses of dense poolers.

python examples/clustering.py --pooler mincut,dmon
python examples/clustering.py --dataset Cora --root DIR --pooler mincut,dmon --epochs 200

Labels are not used in training. The table shows how well the clusters agree with them (normalized mutual information).
The baseline is k-means on the features. On the default graph, diff and hosc put all nodes into one cluster.
"""

import argparse
from statistics import fmean, pstdev

import torch
from scipy.cluster.vq import kmeans2
from torch.nn.functional import elu, one_hot
from torch_geometric.data import Data
from torch_geometric.nn import ARMAConv
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import stochastic_blockmodel_graph
from tqdm import trange

from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError
from tgp.poolers import get_pooler, pooler_map

HIDDEN = 32


class ClusteringNet(torch.nn.Module):
    """Network of two convolutions and a pooler, whose assignment matrix holds the clusters."""

    def __init__(self, pooler: str, in_channels: int, num_clusters: int) -> None:
        super().__init__()
        plain = get_pooler(pooler, in_channels=HIDDEN, k=num_clusters)
        if not (plain.is_dense and plain.has_loss):
            raise InputError(f"{pooler!r} must have soft clusters and an auxiliary loss", field="pooler")
        sizes, shape = (in_channels, HIDDEN), {"num_layers": 2, "act": torch.nn.ELU()}
        self.convs = torch.nn.ModuleList(ARMAConv(size, HIDDEN, **shape) for size in sizes)
        # A single graph stays sparse (batched=False). Losses do not depend on its size (normalize_loss).
        modes = {"batched": False, "normalize_loss": True}
        self.pooler = get_pooler(pooler, in_channels=[HIDDEN, 16], act="ELU", k=num_clusters, **modes)

    def forward(self, data):
        x = data.x
        for conv in self.convs:
            x = elu(conv(x, data.edge_index, data.edge_weight))
        out = self.pooler(x=x, adj=data.edge_index, edge_weight=data.edge_weight)
        return out.so.s, sum(out.get_loss_value())


def nmi(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the normalized mutual information of two labelings: ``2 I / (H + H')``."""
    table = torch.zeros(int(one.max()) + 1, int(other.max()) + 1, dtype=torch.float64)
    table.index_put_((one, other), torch.ones(one.numel(), dtype=torch.float64), accumulate=True)
    joint = table / table.sum()
    rows, cols = joint.sum(1), joint.sum(0)
    filled = joint > 0
    mutual = (joint[filled] * (joint[filled] / (rows[:, None] * cols)[filled]).log()).sum()
    entropy = sum(-(p[p > 0] * p[p > 0].log()).sum() for p in (rows, cols))
    return float(2 * mutual / entropy) if entropy > 0 else 1.0


def load(name: str, root: str | None, seed: int) -> Data:
    """Return one graph with features and labels. ``communities`` has five groups of 80 nodes."""
    if name == "communities":
        torch.manual_seed(seed)
        y = torch.arange(5).repeat_interleave(80)
        joined = torch.full((5, 5), 0.01).fill_diagonal_(0.1)  # probability of an edge between two groups
        edge_index = stochastic_blockmodel_graph([80] * 5, joined)
        return Data(x=one_hot(y) + torch.randn(400, 5), edge_index=edge_index, y=y)
    data = load_graphs(name, root, limit=1)[0]
    if data.x is None or data.y is None or data.y.numel() != data.num_nodes:
        raise InputError(f"{name!r} must have features and a label for every node", field="dataset")
    return NormalizeFeatures()(data)


def cluster(data: Data, pooler: str, epochs: int, lr: float, seed: int) -> float:
    """Train one network and return the mutual information of its clusters and the labels."""
    if pooler == "k-means":
        groups = kmeans2(data.x.numpy(), int(data.y.max()) + 1, minit="++", seed=seed)[1]
        return nmi(torch.from_numpy(groups).long(), data.y)
    torch.manual_seed(seed)
    transform = pooler_map[pooler].data_transforms()
    data = data if transform is None else transform(data)
    net = ClusteringNet(pooler, data.num_features, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in trange(epochs, desc=f"{pooler}, seed {seed}", leave=False, disable=None):  # only on a terminal
        optimizer.zero_grad()
        net(data)[1].backward()
        optimizer.step()
    with torch.no_grad():
        assignment, _ = net.eval()(data)
    return nmi(assignment.argmax(-1), data.y)


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="communities", help="communities (generated), a name, or a path")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="acc,dmon,mincut", help="separated by commas")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seeds", type=int, default=3, help="number of runs, each with its own communities")
    options = parser.parse_args(argv)
    graphs = [load(options.dataset, options.root, seed) for seed in range(max(1, options.seeds))]
    means = {}
    print(f"{'clusters':10} {'NMI':>6} {'std':>6}", flush=True)
    for name in ("k-means", *options.pooler.split(",")):
        runs = [cluster(data, name, options.epochs, options.lr, seed) for seed, data in enumerate(graphs)]
        means[name] = fmean(runs)
        print(f"{name:10} {means[name]:6.3f} {pstdev(runs):6.3f}", flush=True)
    return means


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
