"""Write your own pooler: a new selector, a pooler class, and poolers with replaced stages.

python examples/custom_pooler.py
python examples/custom_pooler.py --dataset MUTAG --root DIR --epochs 30
"""

import argparse
import warnings

import torch
from torch.nn import Linear, functional
from torch_geometric.nn import GraphConv

from tgp.connect import KronConnect, SparseConnect
from tgp.data import PoolDataLoader
from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError, UnknownNameError
from tgp.lift import BaseLift
from tgp.poolers import get_pooler
from tgp.reduce import AggrReduce, BaseReduce, GlobalReduce, get_aggr
from tgp.select import Select, SelectOutput
from tgp.src import SRCPooling

HIDDEN = 32
OPTIONS = {"in_channels": HIDDEN, "k": 8, "num_modes": 1, "sparse_output": True}


class ClimbSelect(Select):
    """Assign every node to the local maximum of a score that it reaches by moving to its best neighbour."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.score = Linear(in_channels, 1)

    def forward(self, x, edge_index, *, batch=None, **kwargs):
        score = self.score(x).squeeze(-1)
        order = score.detach().argsort(stable=True)
        rank = order.argsort()  # ranks are unique, so there are no cycles
        to = order[rank.scatter_reduce(0, edge_index[0], rank[edge_index[1]], "amax")]
        while not torch.equal(to, to[to]):
            to = to[to]
        cluster = to.unique(return_inverse=True)[1]
        # Features are multiplied by the weights, so that the scores receive gradients.
        return SelectOutput(cluster_index=cluster, weight=score.sigmoid(), batch=batch)


class ClimbPooling(SRCPooling):
    """Pooler of four stages. The base class provides the forward pass, batches, caching and the repr."""

    def __init__(self, in_channels: int) -> None:
        super().__init__(ClimbSelect(in_channels), BaseReduce(), BaseLift(), SparseConnect())


def make(name: str) -> SRCPooling:
    """Return a pooler by name. Stages are attributes, so each of them can be replaced."""
    kind, _, change = name.partition("+")
    pooler = ClimbPooling(HIDDEN) if kind == "climb" else get_pooler(kind, **OPTIONS)
    if change == "kron":  # top-k disconnects graphs; this connects kept nodes along paths of dropped nodes
        pooler.connector = KronConnect()
    elif change == "max":  # maximum of the features of a supernode instead of their sum
        pooler.reducer = AggrReduce(get_aggr("max"))
    elif change:
        raise UnknownNameError("change of a stage", change, ["kron", "max"])
    return pooler


class Net(torch.nn.Module):
    def __init__(self, pooler: SRCPooling, inputs: int, classes: int) -> None:
        super().__init__()
        self.before, self.after = GraphConv(inputs, HIDDEN), GraphConv(HIDDEN, HIDDEN)
        self.pooler, self.readout, self.head = pooler, GlobalReduce("mean"), Linear(HIDDEN, classes)

    def forward(self, data):
        x = self.before(data.x, data.edge_index).relu()
        out = self.pooler(x=x, adj=data.edge_index, batch=data.batch, batch_size=data.num_graphs)
        x = self.after(out.x, out.edge_index, out.edge_weight).relu()
        return self.head(self.readout(x, batch=out.batch, size=data.num_graphs)), out


def train(graphs: list, pooler: SRCPooling, epochs: int) -> tuple[float, int, int]:
    """Return the accuracy on every fifth graph, and the number of nodes and edges after pooling."""
    test, seen = graphs[::5], [graph for number, graph in enumerate(graphs) if number % 5]
    net = Net(pooler, graphs[0].num_features, int(max(graph.y.max() for graph in graphs)) + 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    loader = PoolDataLoader(seen, batch_size=32, shuffle=True, seed=0)
    for data in (data for _ in range(epochs) for data in loader):
        optimizer.zero_grad()
        functional.cross_entropy(net(data)[0], data.y.view(-1)).backward()
        optimizer.step()
    (data,) = PoolDataLoader(test, batch_size=len(test))
    logits, out = net.eval()(data)
    right = (logits.argmax(-1) == data.y.view(-1)).float().mean().item()
    return right, out.x.size(0), out.edge_index.size(1) // 2


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="molecules", help="a built-in set, a known name, or a path")
    parser.add_argument("--root", help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="nopool,topk,topk+kron,climb,climb+max", help="see make()")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args(argv)
    graphs, found = load_graphs(options.dataset, options.root, add_degree=True), {}
    if (y := graphs[0].y) is None or y.numel() != 1 or y.is_floating_point():
        raise InputError(f"{options.dataset!r} must have one class per graph", field="dataset")
    warnings.filterwarnings("ignore", message=".*Kron.*")  # it is intended for the selection of NDP
    print(f"{'pooler':10} {'accuracy':>8} {'nodes':>7} {'edges':>7}")
    for name in options.pooler.split(","):
        torch.manual_seed(0)
        found[name], nodes, edges = train(graphs, make(name), options.epochs)
        print(f"{name:10} {found[name]:8.1%} {nodes:7} {edges:7}", flush=True)
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
