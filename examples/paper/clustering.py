"""Unsupervised clustering: NMI of six dense poolers, trained with their auxiliary losses only.

python examples/paper/clustering.py --root DATA
python examples/paper/clustering.py --quick
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from _harness import Cell, Experiment, load, parse, parser
from _nets import Constant
from _tables import comparison
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import ARMAConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from tgp.poolers import get_pooler, pooler_map

POOLERS = ("acc", "diff", "dmon", "hosc", "jb", "mincut")
PAPER = {
    "Community": dict(zip(POOLERS, [(95, 4), (61, 2), (99, 1), (91, 6), (94, 8), (92, 1)], strict=True)),
    "Cora": dict(zip(POOLERS, [(42, 3), (29, 2), (37, 2), (30, 2), (23, 4), (37, 5)], strict=True)),
    "CiteSeer": dict(zip(POOLERS, [(27, 3), (15, 3), (23, 1), (18, 4), (18, 5), (22, 4)], strict=True)),
    "DBLP": dict(zip(POOLERS, [(28, 3), (16, 3), (27, 4), (34, 1), (18, 9), (33, 4)], strict=True)),
}
COST = {"Community": 1, "Cora": 2.5, "CiteSeer": 3, "DBLP": 8}
SETTINGS = {
    "hidden": 32,
    "epochs": 2000,
    "lr": 5e-4,
    "patience": 500,
    "plateau": {"patience": 100, "threshold": 0},
    "least_lr": 1e-7,
    "batched": False,
    "features": "as loaded",
}
ABOUT = {
    "title": "Clustering: NMI x 100",
    "command": "python examples/paper/clustering.py --root DATA",
    "budget": "the paper's 2000 epochs, 3 seeds, about 40 minutes of one core",
    "settings": "two ARMA layers of 32 channels, Adam with rate 0.0005, rate / 10 after 100 epochs without a lower loss, "
    "stop after 500, features as loaded; all graphs in unbatched mode, whose losses equal those of the padded mode",
}


class SparseARMA(ARMAConv):
    """Layer that computes ``ARMAConv(num_layers=2)`` with constant sparse matrices, ten times faster on sparse features."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, num_layers=2)

    def forward(self, x: Tensor | Constant, adj: Constant) -> Tensor:
        """Return the output of the layer. ``adj`` is the normalized adjacency with targets in rows."""
        weights = torch.cat([self.init_weight[0], self.root_weight[0][0], self.root_weight[1][0]], dim=1)
        first, root, skip = (x @ weights).split(self.out_channels, dim=1)
        out = self.act(adj @ first + root + self.bias[0].flatten())
        return self.act(adj @ (out @ self.weight[0][0]) + skip + self.bias[1].flatten())


class ClusteringNet(torch.nn.Module):
    """Network of two convolutions and a pooler, whose assignment matrix holds the clusters."""

    def __init__(self, pooler: str, in_channels: int, num_clusters: int, settings: dict[str, Any]) -> None:
        super().__init__()
        hidden = settings["hidden"]
        self.convs = torch.nn.ModuleList([SparseARMA(in_channels, hidden), SparseARMA(hidden, hidden)])
        self.pooler = get_pooler(pooler, in_channels=hidden, k=num_clusters, batched=settings["batched"])

    def forward(self, x: Tensor | Constant, adj: Constant, data: Data) -> tuple[Tensor, Tensor]:
        """Return the assignment matrix and the sum of the auxiliary losses."""
        for conv in self.convs:
            x = F.elu(conv(x, adj))
        out = self.pooler(x=x, adj=data.edge_index, edge_weight=data.edge_weight)
        return out.so.s, sum(out.get_loss_value())


def nmi(one: Tensor, other: Tensor) -> float:
    """Return the normalized mutual information of two labelings: ``2 I / (H + H')``."""
    table = torch.zeros(int(one.max()) + 1, int(other.max()) + 1, dtype=torch.float64)
    table.index_put_((one, other), torch.ones(one.numel(), dtype=torch.float64), accumulate=True)
    joint = table / table.sum()
    rows, cols = joint.sum(1), joint.sum(0)
    filled = joint > 0
    mutual = (joint[filled] * (joint[filled] / (rows[:, None] * cols)[filled]).log()).sum()
    entropy = sum(-(p[p > 0] * p[p > 0].log()).sum() for p in (rows, cols))
    return float(2 * mutual / entropy) if entropy > 0 else 1.0


def graph(name: str, root: Path | None, nodes: int) -> Data:
    """Return one graph with a label per node. Features are not scaled, because the paper mentions no scaling."""
    if name != "Community":
        return load(name, root)[0]
    from tgp.datasets import PyGSPDataset

    logging.disable(logging.INFO)  # PyGSP logs how it makes the graph
    try:
        with tempfile.TemporaryDirectory() as folder:
            # this seed gives the 5,904 arcs of the paper
            return PyGSPDataset(folder, name="Community", kwargs={"N": nodes, "Nc": 5, "seed": 0})[0]
    finally:
        logging.disable(logging.NOTSET)


def train(cell: Cell, data: Data) -> dict[str, float]:
    """Minimize the auxiliary losses of a pooler and compare its clusters with the labels."""
    settings = dict(cell.settings)
    transform = pooler_map[cell.pooler].data_transforms()
    data = data if transform is None else transform(data.clone())
    size = data.num_nodes
    index, weight = gcn_norm(
        data.edge_index, data.edge_weight, size, add_self_loops=False, dtype=data.x.dtype
    )
    source, target = index.numpy()
    adj = Constant(csr_matrix((weight.numpy(), (target, source)), (size, size)))
    x = Constant(csr_matrix(data.x.numpy())) if (data.x == 0).float().mean() > 0.9 else data.x
    net = ClusteringNet(cell.pooler, data.num_features, int(data.y.max()) + 1, settings)
    optimizer = torch.optim.Adam(net.parameters(), lr=settings["lr"], fused=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **settings["plateau"])
    best, waited, epochs, rate = float("inf"), 0, 0, settings["lr"]
    # Below the smallest rate, 2000 epochs change no weight by more than 0.0002.
    while epochs < settings["epochs"] and waited <= settings["patience"] and rate > settings["least_lr"]:
        optimizer.zero_grad()
        _, loss = net(x, adj, data)
        loss.backward()
        optimizer.step()
        scheduler.step(loss.item())
        best, waited = (loss.item(), 0) if loss.item() < best else (best, waited + 1)
        epochs, rate = epochs + 1, optimizer.param_groups[0]["lr"]
    with torch.no_grad():
        assignment, _ = net.eval()(x, adj, data)
    clusters = assignment.argmax(-1)
    found = {"epochs": epochs, "loss": best, "clusters": clusters.unique().numel(), "last_lr": rate}
    return {"value": round(100 * nmi(clusters, data.y), 2), **found}


def main(argv: Sequence[str] | None = None) -> Experiment:
    """Compute the missing cells and write the table."""
    options = parse(parser(__doc__, seeds=3), argv)
    datasets, settings, nodes = list(PAPER), SETTINGS, 400
    if options.quick:
        datasets, settings, nodes = ["Community"], {**SETTINGS, "epochs": 3}, 60
    cells = [
        Cell(dataset, pooler, seed, settings, COST[dataset])
        for dataset in datasets
        for seed in range(options.seeds)
        for pooler in POOLERS
    ]
    experiment = Experiment("clustering", ABOUT, options, comparison(PAPER))
    experiment.run(cells, train, lambda name: graph(name, options.root, nodes))
    return experiment


if __name__ == "__main__":
    main()
