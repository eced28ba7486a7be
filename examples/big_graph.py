"""One big graph: coarsen it into a store, propagate labels on the coarse graph, lift the result to the nodes.

python examples/big_graph.py
python examples/big_graph.py --dataset Physics --root DIR --levels 2 --share 0.02 --keep pooled/Physics

Some nodes have a known label. Every other node takes the mean of its neighbours, again and again, until the values converge.
This is done on the full graph (the baseline) and on a coarse level, whose result is lifted and smoothed by a few sweeps on
the full graph. In a graph without labels, the label of a node is the nearest of a few landmarks.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import torch
from scipy.sparse.csgraph import dijkstra
from torch.nn.functional import one_hot
from torch_geometric.utils import to_scipy_sparse_matrix

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.data import PooledDataset
from tgp.errors import InputError, TgpError


def mean_matrix(data) -> torch.Tensor:
    """Return the matrix that computes the weighted mean of the neighbours of every node."""
    weight = torch.ones(data.num_edges) if data.edge_weight is None else data.edge_weight
    degree = torch.zeros(data.num_nodes).index_add_(0, data.edge_index[0], weight).clamp(min=1e-9)
    values = weight / degree[data.edge_index[0]]
    size = (data.num_nodes, data.num_nodes)
    return torch.sparse_coo_tensor(data.edge_index, values, size, check_invariants=True).to_sparse_csr()


def propagate(matrix, known, start, sweeps: int, tolerance: float = 1e-3) -> tuple[torch.Tensor, int]:
    """Sweep until no value changes by more than ``tolerance``. Rows with a known label do not change."""
    fixed = known.sum(1, keepdim=True) > 0
    clamp = known / known.sum(1, keepdim=True).clamp(min=1)
    x = torch.where(fixed, clamp, start)
    for done in range(sweeps):
        before, x = x, torch.where(fixed, clamp, matrix @ x)
        if float((x - before).abs().max()) < tolerance:
            return x, done + 1
    return x, sweeps


def labels_of(data, landmarks: int) -> torch.Tensor:
    """Return the labels of the nodes, or the nearest landmark of each node if there are no labels."""
    if data.y is not None and data.y.numel() == data.num_nodes and not data.y.is_floating_point():
        return data.y
    places = torch.linspace(0, data.num_nodes - 1, landmarks).long().tolist()
    matrix = to_scipy_sparse_matrix(data.edge_index, num_nodes=data.num_nodes).tocsr()
    _, _, nearest = dijkstra(matrix, indices=places, unweighted=True, min_only=True, return_predecessors=True)
    return torch.from_numpy(nearest).unique(return_inverse=True)[1]


def main(argv: list[str] | None = None) -> dict[str, tuple[float, float, float]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="regions:num_nodes=160000:parts=100", help="a set of one graph")
    parser.add_argument("--root", type=Path, help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="graclus:count_edges=true", help="a deterministic pooler")
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--share", type=float, default=0.002, help="share of nodes with a known label")
    parser.add_argument("--landmarks", type=int, default=20, help="number, if the graph has no labels")
    parser.add_argument("--sweeps", type=int, default=2000, help="maximum number of sweeps")
    parser.add_argument("--keep", type=Path, help="folder of the store; default a temporary folder")
    options = parser.parse_args(argv)
    if options.levels < 1:
        raise InputError(f"--levels must be at least 1, got {options.levels}", field="levels")
    with tempfile.TemporaryDirectory() as folder:
        out = options.keep or Path(folder) / "store"
        config = CoarsenConfig(
            dataset=options.dataset, root=options.root, out=out, limit=1, metrics=False,
            poolers=(f"{options.pooler}*{options.levels}",),
        )  # fmt: skip
        started = time.perf_counter()
        status = coarsen_dataset(config).status
        seconds = time.perf_counter() - started
        hierarchy = PooledDataset(out, in_memory=True).as_hierarchy()
    print(f"{hierarchy}\nstore {status} in {seconds:.1f} s, including kernels that are compiled on first use")

    warnings.filterwarnings("ignore", message="Sparse CSR")  # torch warns that the format is in beta state
    data, top = hierarchy.data, options.levels
    labels = labels_of(data, options.landmarks)
    draw = torch.rand(data.num_nodes, generator=torch.Generator().manual_seed(0))
    known = one_hot(labels) * (draw < options.share).float().unsqueeze(1)
    if not known.any():
        raise InputError("no node has a known label: use a larger --share", field="share")
    found, fine = {}, mean_matrix(data)
    print(f"{'work on':24} {'accuracy':>8} {'as full':>8} {'sweeps':>7} {'seconds':>8}")

    def report(name: str, x: torch.Tensor, sweeps: int, started: float) -> None:
        seconds = time.perf_counter() - started
        # Far from known labels all values are similar, so each label is compared with its mean over all nodes.
        answer = (x / x.mean(0).clamp(min=1e-9)).argmax(1)
        found.setdefault("answer", answer)
        agreement = float((answer == found["answer"]).float().mean())
        accuracy = float((answer == labels).float().mean())
        print(f"{name:24} {accuracy:8.1%} {agreement:8.1%} {sweeps:7} {seconds:8.2f}", flush=True)
        found[name] = (accuracy, agreement, seconds)

    started = time.perf_counter()
    report("full graph", *propagate(fine, known, torch.zeros_like(known), options.sweeps), started)
    started = time.perf_counter()
    above = hierarchy.pool(known, top)  # known labels of the nodes of each supernode
    coarse, sweeps = propagate(mean_matrix(hierarchy[top]), above, torch.zeros_like(above), options.sweeps)
    lifted = hierarchy.lift(coarse, top)
    report(f"level {top}, lifted", lifted, sweeps, started)
    report(f"level {top}, 10 more sweeps", *propagate(fine, known, lifted, 10), started)
    del found["answer"]
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
