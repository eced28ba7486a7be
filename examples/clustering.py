"""Unsupervised clustering of the nodes of one graph, on the auxiliary losses of dense poolers alone.

python examples/clustering.py
python examples/clustering.py --dataset Cora --root DIR --poolers mincut,dmon --epochs 500
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch_geometric.nn import ARMAConv
from torch_geometric.transforms import NormalizeFeatures

from tgp.data.convert import table_to_data
from tgp.datasets import PyGSPDataset
from tgp.pipeline.config import CoarsenConfig
from tgp.pipeline.source import open_source
from tgp.poolers import get_pooler, pooler_map

POOLERS = "acc,diff,dmon,hosc,jb,mincut"
HIDDEN = 32


class ClusteringNet(torch.nn.Module):
    """Two convolutions and a pooler; its assignment matrix holds the clusters."""

    def __init__(self, pooler: str, in_channels: int, num_clusters: int) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            ARMAConv(size, HIDDEN, num_layers=2, act=torch.nn.ELU()) for size in (in_channels, HIDDEN)
        )
        self.pooler = get_pooler(
            pooler, in_channels=[HIDDEN, 16], act="ELU", k=num_clusters, batched=False, normalize_loss=True
        )

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs:
            x = torch.nn.functional.elu(conv(x, edge_index, edge_weight))
        out = self.pooler(x=x, adj=edge_index, edge_weight=edge_weight)
        return out.so.s, sum(out.get_loss_value())


def nmi(one: torch.Tensor, other: torch.Tensor) -> float:
    """Normalised mutual information of two labelings: ``2 I / (H + H')``."""
    table = torch.zeros(int(one.max()) + 1, int(other.max()) + 1, dtype=torch.float64)
    table.index_put_((one, other), torch.ones(one.numel(), dtype=torch.float64), accumulate=True)
    joint = table / table.sum()
    rows, cols = joint.sum(1), joint.sum(0)
    filled = joint > 0
    mutual = (joint[filled] * (joint[filled] / (rows[:, None] * cols)[filled]).log()).sum()
    entropy = sum(-(p[p > 0] * p[p > 0].log()).sum() for p in (rows, cols))
    return float(2 * mutual / entropy) if entropy > 0 else 1.0


def load(name: str, root: str | None, seed: int):
    """One graph with features of unit scale and a label per node to compare with."""
    if name.lower() != "community":
        source = open_source(CoarsenConfig(dataset=name, root=Path(root)))
        return NormalizeFeatures()(table_to_data(source.table)[0])
    with tempfile.TemporaryDirectory() as folder:
        data = PyGSPDataset(root or folder, name="Community", kwargs={"N": 400, "Nc": 5, "seed": seed})[0]
    data.x = (data.x - data.x.mean(0)) / data.x.std(0)
    return data


def cluster(data, pooler: str, epochs: int, lr: float, seed: int) -> float:
    """Train one network and return the agreement of its clusters with the labels."""
    torch.manual_seed(seed)
    transform = pooler_map[pooler].data_transforms()
    data = data if transform is None else transform(data)
    net = ClusteringNet(pooler, data.num_features, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in range(epochs):
        optimizer.zero_grad()
        _, loss = net(data.x, data.edge_index, data.edge_weight)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        assignment, _ = net.eval()(data.x, data.edge_index, data.edge_weight)
    return nmi(assignment.argmax(-1), data.y)


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Print a table of agreements and return their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="Community", help="Community (made here), or a known name")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--poolers", default=POOLERS, help="aliases, separated by commas")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seeds", type=int, default=3, help="runs per pooler; each makes a graph of its own")
    options = parser.parse_args(argv)
    if options.dataset.lower() != "community" and options.root is None:
        parser.error(f"--dataset {options.dataset} needs --root: the folder that holds its raw files")
    graphs = [load(options.dataset, options.root, seed) for seed in range(options.seeds)]
    means = {}
    print(f"{'pooler':8} {'NMI':>6} {'std':>6} {'s/run':>6}")
    for pooler in options.poolers.split(","):
        started = time.perf_counter()
        runs = [cluster(data, pooler, options.epochs, options.lr, seed) for seed, data in enumerate(graphs)]
        seconds = (time.perf_counter() - started) / len(runs)
        values = torch.tensor(runs, dtype=torch.float64)
        means[pooler] = float(values.mean())
        print(f"{pooler:8} {means[pooler]:6.3f} {values.std(correction=0):6.3f} {seconds:6.1f}", flush=True)
    return means


if __name__ == "__main__":
    main()
