"""Trainable poolers compared with the corresponding layers of PyG. Run: ``python tests/benchmarks/bench_pyg.py``.

Forward and backward, both in this process and in turns. Two inputs: 64 graphs of 50 nodes, and Cora with features
reduced to 32 (``--cora ROOT``, a folder for PyG's ``Planetoid``). PyG's dense layers get padding and their linear
assignment in the timed step, as ours do. PAN needs torch-sparse for PyG's side and is left out without it.

``--validate`` prints the share of the argument check in a forward pass.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable

import torch
from bench_poolers import F, Graphs, K, _dense, backward, header, medians, ours, row, timed
from torch_geometric import nn as pyg

from tgp.poolers import get_pooler
from tgp.src.inputs import read_inputs

PAIRS = {
    "topk": "TopKPooling",
    "sag": "SAGPooling",
    "asap": "ASAPooling",
    "pan": "PANPooling",
    "ec": "EdgePooling",
    "diff": "dense_diff_pool",
    "diff_u": "dense_diff_pool",
    "mincut": "dense_mincut_pool",
    "mincut_u": "dense_mincut_pool",
    "dmon": "DMoNPooling",
    "dmon_u": "DMoNPooling",
}


class Cora(Graphs):
    """Cora with features reduced to 32 by a fixed random projection."""

    def __init__(self, root: str) -> None:
        from torch_geometric.datasets import Planetoid

        data = Planetoid(root, "Cora")[0]
        projection = torch.randn(data.num_features, F, generator=torch.Generator().manual_seed(0))
        self.x, self.edge_index = data.x @ projection / data.num_features**0.5, data.edge_index
        self.batch = torch.zeros(data.num_nodes, dtype=torch.long)


def layer_of_pyg(name: str, graphs: Graphs) -> Callable[[], None]:
    """Return one step of a layer of PyG."""
    torch.manual_seed(0)
    x, index, batch = graphs.x, graphs.edge_index, graphs.batch
    if name == "PANPooling":
        matrix = _transitions(graphs)
        layer = pyg.PANPooling(F, ratio=0.5)
        return lambda: backward(layer(x, matrix, batch)[0])
    if name in ("TopKPooling", "SAGPooling", "ASAPooling"):
        layer = getattr(pyg, name)(F, ratio=0.5)
        return lambda: backward(layer(x, index, batch=batch)[0])
    if name == "EdgePooling":
        layer = pyg.EdgePooling(F)
        return lambda: backward(layer(x, index, batch)[0])
    if name == "DMoNPooling":
        layer = pyg.DMoNPooling(F, K)
        return lambda: _dense(lambda px, adj, mask: layer(px, adj, mask)[1:], graphs)
    assign, function = torch.nn.Linear(F, K), getattr(pyg, name)
    return lambda: _dense(lambda px, adj, mask: function(px, adj, assign(px), mask), graphs)


def _transitions(graphs: Graphs) -> object:
    """Return the input matrix of both PAN layers, an adjacency with ones."""
    from torch_sparse import SparseTensor

    size = (len(graphs.x), len(graphs.x))
    return SparseTensor.from_edge_index(graphs.edge_index, torch.ones(graphs.edge_index.size(1)), size)


def step_of_ours(name: str, graphs: Graphs) -> Callable[[], None]:
    """Return one step of a pooler of tgp on the same input."""
    if name != "pan":
        return ours(name, graphs)
    torch.manual_seed(0)
    matrix, pooler = _transitions(graphs), get_pooler("pan", in_channels=F, ratio=0.5)
    return lambda: backward(pooler(x=graphs.x, adj=matrix, batch=graphs.batch).x)


def compare(inputs: dict[str, Graphs], names: list[str], runs: int) -> None:
    """Print one table with three columns for each input."""
    header("tgp / PyG", *(f"{title}{column}" for title in inputs for column in ("tgp ms", "PyG ms", "ratio")))
    for name in names:
        cells: list[float] = []
        try:
            for graphs in inputs.values():
                steps = [timed(step_of_ours(name, graphs)), timed(layer_of_pyg(PAIRS[name], graphs))]
                mine, other = medians(steps, runs)
                cells += [mine, other, mine / other]
        except ImportError as error:
            print(f"{name} was not compared: {error}", file=sys.stderr)
            continue
        row(f"`{name}` / `{PAIRS[name]}`", *cells)


def share_of_checks(graphs: Graphs, runs: int) -> None:
    """Print the share of the argument check in a forward pass without gradients."""
    header("64 graphs", "forward ms", "check ms", "share")
    for name in dict.fromkeys(PAIRS):
        pooler = get_pooler(name, in_channels=F, k=K, ratio=0.5)
        data = {"x": graphs.x, "adj": graphs.edge_index, "batch": graphs.batch}

        def forward(pooler=pooler, data=data) -> None:
            with torch.no_grad():
                pooler(**data)

        def check(pooler=pooler, data=data) -> None:
            for _ in range(20):
                read_inputs(pooler, dict(data))

        whole, part = medians([timed(forward), timed(check)], runs)
        row(f"`{name}`", whole, part / 20, f"{100 * part / 20 / whole:.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--poolers", default=",".join(PAIRS))
    parser.add_argument("--cora", help="root folder of PyG's Planetoid datasets (optional)")
    parser.add_argument("--validate", action="store_true", help="the share of the argument check alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    graphs = Graphs(64, 50, 50)
    if options.validate:
        share_of_checks(graphs, options.runs)
        return
    inputs = {"": graphs} | ({"Cora: ": Cora(options.cora)} if options.cora else {})
    compare(inputs, options.poolers.split(","), options.runs)


if __name__ == "__main__":
    main()
