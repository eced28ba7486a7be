"""Bond types on the levels of molecules: carried edge attributes, compared with levels without them.

python examples/bond_features.py --levels 'graclus*2'
python examples/bond_features.py --levels 'graclus*3' --graphs 400

Bond types are generated for the built-in molecules. The data was made for bond types: atoms and edges are independent of the
label. Label 0: double bonds are spread over the molecule. Label 1: as many double bonds are gathered in one part of it.
All networks have the same parameters. Bond types that a network must not see are replaced by zeros.
"""

import argparse

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from torch.nn import Linear, ModuleList
from torch.nn.functional import cross_entropy, one_hot
from torch_geometric.data import Data
from torch_geometric.nn import GINEConv

import tgp
from tgp.data import PoolDataLoader
from tgp.datasets import load_graphs
from tgp.errors import InputError, TgpError
from tgp.reduce import BaseReduce, GlobalReduce

HIDDEN, DOUBLE, NOISE = 32, 0.3, 16.0
SEEN = {"nowhere": (0, 0), "input graph": (1, 0), "levels": (0, 1), "both": (1, 1)}
"""Graphs whose bond types a network sees: the input graph and the levels."""


def add_bonds(data: Data, seed: int) -> Data:
    """Return the molecule with bond types (single, double) as `edge_attr`, and a new label."""
    draw = np.random.default_rng(seed)
    row, col = data.edge_index.int().numpy()  # scipy 1.12 needs indices of 32 bits
    shape = (data.num_nodes, data.num_nodes)
    centre = draw.integers(data.num_nodes)
    steps = shortest_path(coo_array((np.ones(len(row)), (row, col)), shape=shape).tocsr(), indices=centre)
    low, high = np.minimum(row, col), np.maximum(row, col)
    _, bond = np.unique(low * data.num_nodes + high, return_inverse=True)  # both directions are one bond
    rank = draw.random(bond.max() + 1)
    label = seed % 2
    if label:
        rank[bond] = steps[low] + steps[high] + NOISE * rank[bond]
    double = rank <= np.quantile(rank, DOUBLE)
    kinds = one_hot(torch.from_numpy(double[bond]).long(), 2).float()
    return Data(x=data.x, edge_index=data.edge_index, edge_attr=kinds, y=torch.tensor([label]))


class Net(torch.nn.Module):
    """Network with a convolution per level. Its input on a level is the carried `x` and the pooled features."""

    def __init__(self, inputs: int, levels: int, seen: tuple[int, int]) -> None:
        super().__init__()
        self.encode = ModuleList(Linear(inputs, HIDDEN) for _ in range(levels + 1))
        self.convs = ModuleList(GINEConv(Linear(HIDDEN, HIDDEN), edge_dim=2) for _ in range(levels + 1))
        self.reduce, self.readout, self.head = BaseReduce(), GlobalReduce("mean"), Linear(HIDDEN, 2)
        self.seen = [seen[0], *[seen[1]] * levels]

    def forward(self, data):
        found, x = 0, None
        graphs = [data, *data.pooled_data]
        for graph, encode, conv, seen in zip(graphs, self.encode, self.convs, self.seen, strict=True):
            before = 0 if x is None else self.reduce(x=x, so=graph.so)[0]
            x = conv(encode(graph.x) + before, graph.edge_index, seen * graph.edge_attr).relu()
            found = found + self.readout(x, batch=graph.batch, size=data.num_graphs)
        return self.head(found)


def train(graphs, inputs: int, seen: tuple[int, int], epochs: int) -> float:
    """Return the accuracy on the last quarter of the molecules."""
    torch.manual_seed(0)
    split = len(graphs) * 3 // 4
    net = Net(inputs, len(graphs[0].pooled_data), seen)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(epochs):
        for data in PoolDataLoader(graphs[:split], batch_size=32, shuffle=True, seed=0):
            loss = cross_entropy(net(data), data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        right = [(net(data).argmax(-1) == data.y) for data in PoolDataLoader(graphs[split:], batch_size=64)]
    return float(torch.cat(right).float().mean())


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--levels", default="graclus*2", help="schedule of levels")
    parser.add_argument("--graphs", type=int, default=800, help="number of molecules, a quarter for the test")
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args(argv)
    if options.graphs < 8 or options.epochs < 1:
        raise InputError("Expected at least 8 graphs and an epoch", field="graphs")
    plain = load_graphs(f"molecules:num_graphs={options.graphs}")
    graphs = [add_bonds(data, seed) for seed, data in enumerate(plain)]
    dataset = tgp.coarsen(graphs, options.levels, out=None, carry="edge_attr=mean,x=mean")
    print(f"{'bond types':12} {'accuracy':>8}", flush=True)
    found = {}
    for name, seen in SEEN.items():
        found[name] = train(dataset, graphs[0].num_features, seen, options.epochs)
        print(f"{name:12} {found[name]:8.1%}", flush=True)
    gain = found["levels"] - found["nowhere"]
    more = found["both"] - found["input graph"]
    print(
        f"Carried bond types alone: {100 * gain:+.1f} points. In addition to those of the input graph: {100 * more:+.1f}."
    )
    print(f"The test set has {len(graphs) - len(graphs) * 3 // 4} molecules: a few points are no difference.")
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
