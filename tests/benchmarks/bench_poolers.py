"""Poolers inside of a model, forward and backward, compared with those of PyG.

Run: ``python tests/benchmarks/bench_poolers.py``. It prints four tables in Markdown; ``--parts`` selects some of them.

- ``poolers``: milliseconds and megabytes on 64 graphs of 20 to 120 nodes. ``x TopK`` divides a time by that of PyG's
  ``TopKPooling``, run in turn with it, so that figures of different machines and hours can be compared.
- ``peer``: the same batch under another interpreter, ``--peer-python PATH``, which has tgp 1.0.2 installed. Both
  interpreters serve one step at a time and take turns, so that both see the same machine. Optional: without
  the option the table is left out.
- ``loop``: a flat batch of 256 graphs against a loop over its graphs.
- ``memory`` (or ``--memory``): dense poolers in flat mode on square grids, and on Coauthor Physics if ``--physics`` names
  its raw file ``ms_academic_phy.npz``; megabytes per million of ``E + N k`` stay level if memory is linear. The features
  of Physics are reduced to 32 by a fixed random projection before anything is measured.

A time is the median processor time of several runs on one thread. Memory is the growth of the peak resident set over
one forward and backward, after a warm-up on two graphs, in a process forked before anything is timed: allocations of
torch do not show in ``tracemalloc``.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from _peer import Server, serve
from torch_geometric import nn as pyg
from torch_geometric.utils import to_dense_adj, to_dense_batch, to_undirected

from tgp.poolers import get_pooler

F, K = 32, 10
PYG = ("TopKPooling", "SAGPooling", "ASAPooling", "dense_diff_pool", "dense_mincut_pool", "DMoNPooling")
SIDES = (50, 100, 150)


def flat_names() -> list[str]:
    """Return the dense poolers that cannot be precomputed, in flat mode."""
    from tgp.testing.cases import pooler_aliases  # not in tgp 1.0.2, which also runs this file

    return [f"{alias}_u" for alias in pooler_aliases(dense=True, precoarsenable=False)]


def pooler_names() -> list[str]:
    """Return all poolers that cannot be precomputed; dense ones in padded and in flat mode."""
    from tgp.testing.cases import pooler_aliases

    return [*pooler_aliases(precoarsenable=False), *flat_names()]


class Graphs:
    """Random trees of ``low`` to ``high`` nodes with twice as many edges."""

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
        """Return the features and edges of one graph."""
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


class Physics(Graphs):
    """Coauthor Physics from its raw file, with a random projection to 32 features."""

    def __init__(self, path: str) -> None:
        with np.load(path) as raw:
            degree = torch.from_numpy(np.diff(raw["adj_indptr"]))
            target = torch.from_numpy(raw["adj_indices"].astype(np.int64))
            words = torch.from_numpy(raw["attr_indices"].astype(np.int64))
            per_node = torch.from_numpy(np.diff(raw["attr_indptr"]))
            width = int(raw["attr_shape"][1])
        node = torch.arange(len(degree))
        self.edge_index = torch.stack([node.repeat_interleave(degree), target])
        self.batch = torch.zeros(len(degree), dtype=torch.long)
        projection = torch.randn(width, F, generator=torch.Generator().manual_seed(0)) / width**0.5
        start = per_node.cumsum(0) - per_node
        self.x = torch.nn.functional.embedding_bag(words, projection, start, mode="sum")


def backward(x: torch.Tensor, *losses: torch.Tensor) -> None:
    """Compute the gradients of pooled features and losses."""
    total = x.square().sum() + sum(losses)
    if total.requires_grad:
        total.backward()


def ours(name: str, graphs: Graphs, **options: object) -> Callable[[], None]:
    """Return one training step with a pooler of ``tgp``, in the release of this interpreter."""
    torch.manual_seed(0)
    pooler = get_pooler(name, in_channels=F, k=K, ratio=0.5, **options)

    def step() -> None:
        pooler.zero_grad()
        out = pooler(x=graphs.x, adj=graphs.edge_index, batch=graphs.batch)
        backward(out.x, *(out.loss or {}).values())

    return step


def theirs(name: str, graphs: Graphs) -> Callable[[], None]:
    """Return one training step with a pooler of PyG, including padding if it needs padding."""
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


def one_by_one(name: str, graphs: Graphs) -> Callable[[], None]:
    """Return one training step with a pooler of ``tgp`` that gets one graph at a time."""
    torch.manual_seed(0)
    pooler = get_pooler(name, in_channels=F, k=K)
    singles = [graphs.one(graph) for graph in range(len(graphs.sizes))]

    def step() -> None:
        pooler.zero_grad()
        outs = [pooler(x=x, adj=index) for x, index in singles]
        losses = [value for out in outs for value in (out.loss or {}).values()]
        backward(torch.cat([out.x.flatten(0, 1) for out in outs]), *losses)

    return step


def seconds(step: Callable[[], None]) -> float:
    """Return the processor time of one step."""
    started = time.process_time()
    step()
    return time.process_time() - started


def medians(steps: Sequence[Callable[[], float]], runs: int) -> list[float]:
    """Return the milliseconds of each step. The steps alternate, so that the load of the machine is the same."""
    rounds = [[step() for step in steps] for _ in range(runs + 2)][2:]
    return [1000 * statistics.median(taken) for taken in zip(*rounds, strict=True)]


def timed(step: Callable[[], None]) -> Callable[[], float]:
    """Return a function that runs ``step`` and returns its time."""
    return lambda: seconds(step)


def _measure(make: Callable[..., Callable[[], None]], name: str, graphs: Graphs, out) -> None:
    torch.set_num_threads(1)
    make(name, Graphs(2))()
    step = make(name, graphs)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step()
    out.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def peak(make: Callable[..., Callable[[], None]], name: str, graphs: Graphs) -> float:
    """Return the growth of the peak memory of a forked process during one step, in megabytes."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_measure, args=(make, name, graphs, send))
    child.start()
    send.close()
    value = receive.recv()
    child.join()
    return value


def serve_steps() -> None:
    """Answer requests for time and memory of poolers, see :class:`_peer.Server`."""
    graphs, steps = Graphs(64), {}

    def answer(what: str, name: str) -> float:
        if what == "peak":
            return peak(ours, name, graphs)
        if name not in steps:
            steps[name] = ours(name, graphs)
        return seconds(steps[name])

    serve(answer)


def row(*cells: object) -> None:
    """Print one row of a Markdown table."""
    shown = (f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells)
    print("|", " | ".join(shown), "|", flush=True)


def header(*cells: str) -> None:
    """Print the header of a Markdown table."""
    print()
    row(*cells)
    row(*("---" for _ in cells))


def peaks_of(names: Sequence[str]) -> dict[str, float]:
    """Return the megabytes per pooler. Call it first: a child of a process with a large heap would reuse its memory."""
    graphs = Graphs(64)
    return {name: peak(make, name, graphs) for make, name in _steps(names)}


def _steps(names: Sequence[str]) -> list[tuple[Callable[..., object], str]]:
    return [*((theirs, n) for n in PYG), *((ours, n) for n in names)]


def poolers(runs: int, names: Sequence[str], peaks: dict[str, float]) -> dict[str, dict[str, float]]:
    """Print milliseconds and megabytes per pooler on a batch of 64 graphs of 20 to 120 nodes."""
    graphs, results = Graphs(64), {}
    header("pooler", "ms", "x TopK", "MB")
    reference = timed(theirs("TopKPooling", graphs))
    for make, name in _steps(names):
        ms, scale = medians([timed(make(name, graphs)), reference], runs)
        results[name] = {"ms": ms, "x TopK": ms / scale, "MB": peaks.get(name, float("nan"))}
        row(name, *results[name].values())
    return results


def against_peer(runs: int, names: Sequence[str], python: str, memory: bool) -> dict[str, dict[str, float]]:
    """Print the figures of another interpreter with another release of tgp, which alternates with this one."""
    here, there = (Server(found, __file__) for found in (sys.executable, python))
    memory_columns = (f"MB {here.version}", f"MB {there.version}") if memory else ()
    header("pooler", f"ms {here.version}", f"ms {there.version}", "ours / theirs", *memory_columns)
    # Memory first, for the reason given in ``poolers``.
    cases = [name for name in names if name != "pan"]  # 1.0.2 needs torch_sparse for it
    peaks = {name: [s.ask("peak", name) for s in (here, there)] for name in cases} if memory else {}
    results = {}
    for name in cases:
        mine, other = medians([lambda s=s, n=name: s.ask("time", n) for s in (here, there)], runs)
        results[name] = {"ms": mine, "peer ms": other, "ratio": mine / other}
        row(name, *results[name].values(), *peaks.get(name, ()))
    here.close()
    there.close()
    return results


def against_loop(runs: int) -> dict[str, float]:
    """Print the speed of a flat batch of 256 graphs relative to a loop over its graphs."""
    graphs, results = Graphs(256), {}
    header("256 graphs", "flat ms", "loop ms", "loop / flat")
    for name in flat_names():
        steps = [timed(ours(name, graphs)), timed(one_by_one(name, graphs))]
        flat, looped = medians(steps, max(3, runs // 3))
        results[name] = looped / flat
        row(name, flat, looped, results[name])
    return results


def supernodes(name: str, graphs: Graphs) -> int:
    """Return the number of supernodes per graph: that of the leaders for LaPool, and ``K`` for other poolers."""
    if name != "lap_u":
        return K
    with torch.no_grad():
        return get_pooler(name).selector(x=graphs.x, edge_index=graphs.edge_index).num_supernodes


def memory_table(physics: str | None) -> dict[str, dict[str, float]]:
    """Print the peak memory of a step in flat mode on graphs of growing size."""
    cases: dict[str, Graphs] = {f"grid {side}²": Grid(side) for side in SIDES}
    if physics:
        cases["Physics"] = Physics(physics)
    results: dict[str, dict[str, float]] = {}
    header("pooler", "graph", "N", "edges", "k", "added MB", "MB per 10⁶ (E + N k)")
    for name in flat_names():
        for label, graphs in cases.items():
            k, (nodes, edges) = supernodes(name, graphs), (len(graphs.x), graphs.edge_index.size(1))
            added = peak(ours, name, graphs)
            results[f"{name} {label}"] = {"k": k, "MB": added, "per": 1e6 * added / (edges + nodes * k)}
            row(name, label, nodes, edges // 2, k, added, results[f"{name} {label}"]["per"])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--poolers", help="aliases, separated by commas (default: all)")
    parser.add_argument("--parts", default="poolers,peer,loop,memory")
    parser.add_argument("--memory", action="store_true", help="the table of memory on large graphs alone")
    parser.add_argument("--no-memory", action="store_true", help="times only")
    parser.add_argument("--peer-python", help="an interpreter that has tgp 1.0.2 (optional)")
    parser.add_argument("--physics", help="raw file of Coauthor Physics, ms_academic_phy.npz (optional)")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.serve:
        serve_steps()
        return
    parts = ["memory"] if options.memory else options.parts.split(",")
    names = options.poolers.split(",") if options.poolers else pooler_names()
    memory = not options.no_memory
    results: dict[str, object] = {"load": os.getloadavg()[0]}
    peaks = peaks_of(names) if "poolers" in parts and memory else {}
    if "memory" in parts and memory:
        results["memory"] = memory_table(options.physics)
    if "poolers" in parts:
        results["poolers"] = poolers(options.runs, names, peaks)
    if "peer" in parts and options.peer_python:
        results["peer"] = against_peer(options.runs, names, options.peer_python, memory)
    if "loop" in parts:
        results["loop"] = against_loop(options.runs)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
