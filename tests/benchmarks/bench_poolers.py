"""Trainable poolers, forward and backward, beside those of PyG. Run: ``python tests/benchmarks/bench_poolers.py``.

Each figure is the median processor time of several runs on one thread. The column ``x TopK`` divides it by
PyG's ``TopKPooling``, run in turn with it, so that figures of different machines and hours can be compared;
``1.0.2`` holds the milliseconds that tgp 1.0.2 took on one machine. Memory is the growth of the peak resident
set over one forward and backward, after a warm-up on two graphs, in a process forked before anything is timed:
allocations of torch do not show in ``tracemalloc``.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch_geometric import nn as pyg
from torch_geometric.utils import to_dense_adj, to_dense_batch, to_undirected

from tgp.poolers import get_pooler

F, K = 32, 10
OLD = {
    "topk": 2.6, "sag": 3.7, "asap": 15, "ec": 8.5, "maxcut": 24, "diff": 13, "mincut": 9.6, "dmon": 6.9, "jb": 5.2,
    "hosc": 20, "bnpool": 67, "acc": 26, "lap": 556, "diff_u": 14, "mincut_u": 16, "dmon_u": 32, "jb_u": 15,
    "hosc_u": 28, "bnpool_u": 54, "acc_u": 22, "lap_u": 47,
}  # fmt: skip
"""Milliseconds of tgp 1.0.2 on one machine, same batch."""
SPARSE = ("topk", "sag", "asap", "pan", "ec", "maxcut")
DENSE = ("diff", "mincut", "dmon", "jb", "hosc", "bnpool", "acc", "lap")
NAMES = (*SPARSE, *DENSE, *(f"{name}_u" for name in DENSE))


class Graphs:
    """Random trees of ``low`` to ``high`` nodes with as many edges again."""

    def __init__(self, count: int, low: int = 20, high: int = 120, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.sizes = torch.randint(low, high + 1, (count,), generator=generator)
        self.ptr = torch.cat([torch.zeros(1, dtype=torch.long), self.sizes.cumsum(0)])
        self.batch = torch.arange(count).repeat_interleave(self.sizes)
        local = torch.arange(len(self.batch)) - self.ptr[self.batch]
        child = local.nonzero().view(-1)
        parent = (
            self.ptr[self.batch[child]] + (torch.rand(len(child), generator=generator) * local[child]).long()
        )
        extra = (
            self.ptr[self.batch]
            + (torch.rand(len(self.batch), generator=generator) * self.sizes[self.batch]).long()
        )
        edges = torch.stack([torch.cat([child, torch.arange(len(extra))]), torch.cat([parent, extra])])
        self.edge_index = to_undirected(edges[:, edges[0] != edges[1]])
        self.x = torch.randn(len(self.batch), F, generator=generator)

    def one(self, graph: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Features and edges of a graph."""
        low, high = int(self.ptr[graph]), int(self.ptr[graph + 1])
        keep = (self.edge_index[0] >= low) & (self.edge_index[0] < high)
        return self.x[low:high], self.edge_index[:, keep] - low


class Grid(Graphs):
    """One square grid."""

    def __init__(self, side: int) -> None:
        node = torch.arange(side * side).view(side, side)
        right = torch.stack([node[:, :-1].reshape(-1), node[:, 1:].reshape(-1)])
        down = torch.stack([node[:-1].reshape(-1), node[1:].reshape(-1)])
        self.edge_index = to_undirected(torch.cat([right, down], dim=1))
        self.batch = torch.zeros(side * side, dtype=torch.long)
        self.x = torch.randn(side * side, F, generator=torch.Generator().manual_seed(0))


def backward(x: torch.Tensor, *losses: torch.Tensor) -> None:
    """Gradients of pooled features and losses."""
    total = x.square().sum() + sum(losses)
    if total.requires_grad:
        total.backward()


def ours(name: str, graphs: Graphs, **options: object) -> Callable[[], None]:
    """One step of a pooler of this library."""
    torch.manual_seed(0)
    pooler = get_pooler(name, in_channels=F, k=K, ratio=0.5, **options)

    def step() -> None:
        pooler.zero_grad()
        out = pooler(x=graphs.x, adj=graphs.edge_index, batch=graphs.batch)
        backward(out.x, *(out.loss or {}).values())

    return step


def theirs(name: str, graphs: Graphs) -> Callable[[], None]:
    """One step of a pooler of PyG, padding included where it needs it."""
    torch.manual_seed(0)
    x, index, batch = graphs.x, graphs.edge_index, graphs.batch
    if name in ("TopKPooling", "SAGPooling", "ASAPooling"):
        layer = getattr(pyg, name)(F, ratio=0.5)
        return lambda: backward(layer(x, index, batch=batch)[0])
    if name == "DMoNPooling":
        layer = pyg.DMoNPooling(F, K)
        return lambda: _dense(lambda px, adj, mask: layer(px, adj, mask)[1:], graphs)
    assign, function = torch.nn.Linear(F, K), getattr(pyg, name)
    return lambda: _dense(lambda px, adj, mask: function(px, adj, assign(px), mask), graphs)


def _dense(layer: Callable[..., tuple], graphs: Graphs) -> None:
    padded, mask = to_dense_batch(graphs.x, graphs.batch)
    out = layer(padded, to_dense_adj(graphs.edge_index, graphs.batch), mask)
    backward(out[0], *out[2:])


def medians(steps: Sequence[Callable[[], None]], runs: int) -> list[float]:
    """Milliseconds of each step; they take turns, so that all see the same machine."""
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(runs + 1):
        for step, taken in zip(steps, times, strict=True):
            started = time.process_time()
            step()
            taken.append(time.process_time() - started)
    return [1000 * statistics.median(taken[1:]) for taken in times]


def _measure(make: Callable[..., Callable[[], None]], name: str, options: dict, graphs: Graphs, out) -> None:
    torch.set_num_threads(1)
    make(name, Graphs(2), **options)()
    step = make(name, graphs, **options)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step()
    out.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def peak(make: Callable[..., Callable[[], None]], name: str, graphs: Graphs, **options: object) -> float:
    """Megabytes by which the peak of a forked process grows over one step."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_measure, args=(make, name, options, graphs, send))
    child.start()
    send.close()
    value = receive.recv()
    child.join()
    return value


def poolers(runs: int, names: tuple[str, ...], memory: bool) -> dict[str, dict[str, float]]:
    """Milliseconds and megabytes per pooler on a batch of 64 graphs of 20 to 120 nodes."""
    graphs, results = Graphs(64), {}
    print(
        f"{'pooler':18} {'ms':>8} {'x TopK':>7} {'MB':>7} {'1.0.2':>6}   {len(graphs.batch)} nodes, load {os.getloadavg()[0]:.1f}"
    )
    pyg_names = (
        "TopKPooling",
        "SAGPooling",
        "ASAPooling",
        "dense_diff_pool",
        "dense_mincut_pool",
        "DMoNPooling",
    )
    steps = [*((theirs, n) for n in pyg_names), *((ours, n) for n in names)]
    # Before any timing: a child of a process whose heap has grown would find its memory there.
    peaks = {name: peak(make, name, graphs) for make, name in steps} if memory else {}
    reference = theirs("TopKPooling", graphs)
    for make, name in steps:
        ms, scale = medians([make(name, graphs), reference], runs)
        row = {"ms": ms, "x TopK": ms / scale}
        if memory:
            row["MB"] = peaks[name]
        results[name] = row
        print(
            f"{name:18} {ms:8.1f} {row['x TopK']:7.2f} {row.get('MB', float('nan')):7.1f} {OLD.get(name, ''):>6}",
            flush=True,
        )
    return results


def one_by_one(name: str, graphs: Graphs) -> Callable[[], None]:
    """One step of a pooler of this library, graph after graph."""
    torch.manual_seed(0)
    pooler = get_pooler(name, in_channels=F, k=K)
    singles = [graphs.one(graph) for graph in range(len(graphs.sizes))]

    def step() -> None:
        pooler.zero_grad()
        outs = [pooler(x=x, adj=index) for x, index in singles]
        losses = [value for out in outs for value in (out.loss or {}).values()]
        backward(torch.cat([out.x.flatten(0, 1) for out in outs]), *losses)

    return step


def against_loop(runs: int) -> dict[str, float]:
    """How many times faster a flat batch of 256 graphs is than a loop over its graphs."""
    graphs, results = Graphs(256), {}
    print(f"\n{'256 graphs':18} {'flat ms':>8} {'loop ms':>8} {'ratio':>7}")
    for name in (f"{name}_u" for name in DENSE):
        flat, looped = medians([ours(name, graphs), one_by_one(name, graphs)], max(3, runs // 3))
        results[name] = looped / flat
        print(f"{name:18} {flat:8.1f} {looped:8.1f} {results[name]:7.1f}", flush=True)
    return results


def grids(sides: tuple[int, int]) -> dict[str, float]:
    """Growth of the peak from a grid to one with four times its nodes, flat mode: 4 is linear."""
    small, large, results = Grid(sides[0]), Grid(sides[1]), {}
    print(f"\n{'grid':18} {sides[0]:>6}^2 MB {sides[1]:>5}^2 MB {'growth':>7}")
    for name in (f"{name}_u" for name in DENSE if name != "lap"):  # as many leaders as nodes: N x N by design
        low, high = peak(ours, name, small), peak(ours, name, large)
        results[name] = high / max(low, 1e-3)
        print(f"{name:18} {low:11.1f} {high:11.1f} {results[name]:7.1f}", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--poolers", default=",".join(NAMES))
    parser.add_argument("--parts", default="poolers,loop,grid")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, object] = {"load": os.getloadavg()[0]}
    if "grid" in options.parts:
        results["grid"] = grids((75, 150))
    if "poolers" in options.parts:
        results["poolers"] = poolers(options.runs, tuple(options.poolers.split(",")), not options.no_memory)
    if "loop" in options.parts:
        results["loop"] = against_loop(options.runs)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
