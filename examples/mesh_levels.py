"""Levels of meshes: a V-cycle network with carried positions and edge lengths, compared with the input mesh only.

python examples/mesh_levels.py --levels 'graclus*3'
python examples/mesh_levels.py --levels 'graclus*4' --nodes 100

Random points in a square are triangulated. The target is the solution of a screened Poisson problem for random sources.
The data was made for levels: a source acts on a large part of the mesh, and a convolution reaches one edge. The baseline is
the same network with the same parameters on `nopool` levels, where all convolutions use the input mesh.
"""

import argparse

import numpy as np
import torch
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import spsolve
from scipy.spatial import Delaunay
from torch.nn import Linear, ModuleList
from torch_geometric.data import Data
from torch_geometric.utils import scatter

import tgp
from tgp.data import PoolDataLoader
from tgp.errors import InputError, TgpError
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce

HIDDEN, SOURCES, SCREENING = 24, 20, 0.05


def make_mesh(num_nodes: int, seed: int) -> Data:
    """Return a mesh with sources `x`, solution `y`, positions `pos`, and edge lengths `edge_attr`."""
    draw = np.random.default_rng(seed)
    pos = draw.random((num_nodes, 2)) * num_nodes**0.5  # edges have a length of about 1
    pairs = Delaunay(pos).simplices[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    row, col = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0).T.astype(np.int64)
    length = np.linalg.norm(pos[row] - pos[col], axis=1)
    adjacency = coo_array((1 / length, (row, col)), shape=(num_nodes, num_nodes)).tocsr()
    source = draw.choice([-1.0, 1.0], num_nodes) * (draw.permutation(num_nodes) < SOURCES)
    operator = diags_array(adjacency.sum(axis=1) + SCREENING) - adjacency
    arrays = {"x": source[:, None], "y": spsolve(operator.tocsc(), source), "pos": pos, "edge_attr": length}
    tensors = {key: torch.from_numpy(value).float() for key, value in arrays.items()}
    return Data(edge_index=torch.from_numpy(np.stack([row, col])), **tensors)


class MeshConv(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source, self.target, self.after = (Linear(HIDDEN, HIDDEN) for _ in range(3))
        self.edge = Linear(3, HIDDEN)

    def forward(self, x, graph):
        row, col = graph.edge_index
        edge = torch.cat([graph.pos[row] - graph.pos[col], graph.edge_attr[:, None]], dim=1)
        messages = (self.source(x)[row] + self.target(x)[col] + self.edge(edge)).relu()
        return x + self.after(scatter(messages, col, dim_size=x.size(0), reduce="mean"))


class VCycle(torch.nn.Module):
    def __init__(self, levels: int) -> None:
        super().__init__()
        self.encode, self.head = Linear(1, HIDDEN), Linear(HIDDEN, 1)
        self.down, self.up = (ModuleList(MeshConv() for _ in range(n)) for n in (levels + 1, levels))
        self.reduce, self.lift = BaseReduce("mean"), BaseLift()

    def forward(self, data):
        graphs = [data, *data.pooled_data]
        xs = [self.down[0](self.encode(5 * data.x), data)]
        for conv, level in zip(self.down[1:], graphs[1:], strict=True):
            xs.append(conv(self.reduce(x=xs[-1], so=level.so)[0], level))
        for i in reversed(range(len(self.up))):
            xs[i] = self.up[i](xs[i] + self.lift(xs[i + 1], so=graphs[i + 1].so), graphs[i])
        return self.head(xs[0]).view(-1)


def train(graphs, split: int, epochs: int, seed: int) -> float:
    """Return the root mean square error on the test meshes."""
    torch.manual_seed(seed)
    net = VCycle(len(graphs[0].pooled_data))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    loader = PoolDataLoader(graphs[:split], batch_size=3, shuffle=True, seed=seed)
    for _ in range(epochs):
        for data in loader:
            optimizer.zero_grad()
            (net(data) - data.y).square().mean().backward()
            optimizer.step()
    test = [(net(data) - data.y).detach() for data in PoolDataLoader(graphs[split:])]
    return float(torch.cat(test).square().mean().sqrt())


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--levels", default="graclus*3", help="schedule of levels")
    for name, value in (("meshes", 160), ("nodes", 200), ("epochs", 20), ("seeds", 1)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"number of {name}")
    options = parser.parse_args(argv)
    if options.nodes < SOURCES or options.meshes < 4 or options.seeds < 1:
        raise InputError(f"Too few data: expected 4 meshes, {SOURCES} nodes, 1 seed or more", field="nodes")
    meshes, split = [make_mesh(options.nodes, i) for i in range(options.meshes)], options.meshes * 3 // 4
    scale = torch.cat([mesh.y for mesh in meshes[:split]]).square().mean().sqrt()
    for mesh in meshes:
        mesh.y /= scale
    found = {"zero": float(torch.cat([mesh.y for mesh in meshes[split:]]).square().mean().sqrt())}
    print(f"{'levels':12} {'error':>6}\n{'zero':12} {found['zero']:6.3f}", flush=True)
    schedule = options.levels
    for name in (options.levels, "no levels"):
        graphs = tgp.coarsen(meshes, schedule, out=None, carry="pos=mean,edge_attr=mean")
        sizes = [graphs[0].num_nodes, *(level.num_nodes for level in graphs[0].pooled_data)]
        runs = [train(graphs, split, options.epochs, seed) for seed in range(options.seeds)]
        found[name], schedule = float(np.mean(runs)), f"nopool*{len(sizes) - 1}"
        print(f"{name:12} {found[name]:6.3f}  first mesh: {' -> '.join(map(str, sizes))} nodes", flush=True)
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
