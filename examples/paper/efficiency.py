"""Milliseconds to pool a batch with the deterministic poolers: online, cached, pre-coarsened, from a store.

python examples/paper/efficiency.py --root DATA --fresh
python examples/paper/efficiency.py --quick
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from _harness import Cell, Experiment, calibration, load, parse, parser
from _tables import markdown
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.data import PoolDataLoader, PooledDataset, PreCoarsening
from tgp.poolers import get_pooler

POOLERS = {
    "graclus": {},
    "kmis": {"scorer": "degree"},
    "ndp": {},
    "sep": {},
    "nmf": {"k": 8},
    "eigen": {"k": 8},
}
DATASETS = {
    "MUTAG": "MUTAG",
    "REDDIT-BINARY": "REDDIT-BINARY",
    "hard_small": "GraphClassificationBench:easy=false:small=true",
    "DBLP": "DBLP",
}
QUICK = {"molecules": "molecules:num_graphs=8"}
SETTINGS = {"batch_size": 32, "batches": 5, "channels": 32, "rounds": 7, "seconds": 3.0}
ABOUT = {
    "title": "Efficiency: time to pool a batch",
    "command": "python examples/paper/efficiency.py --root DATA --fresh",
    "budget": "under 6 minutes of one core",
}
COLUMNS = ("online", "cached", "pre-coarsened", "store", "load plain", "load pre-coarsened", "load store")
Layer = Callable[[Any, Tensor], Tensor]


class Bench:
    """Batches of one dataset in three forms: plain graphs, graphs with levels, and a store."""

    def __init__(self, spec: str, root: Path | None, settings: Mapping[str, Any], folder: Path) -> None:
        self.settings = settings
        self.limit = settings["batch_size"] * settings["batches"]
        self.config = {"dataset": spec, "root": root, "limit": self.limit, "workers": 1}
        # Only edges are used. Random features of the width of a hidden layer are made in `measure`.
        graphs = load(spec, root)[: self.limit]
        self.graphs = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs]
        self.folder = folder

    def loader(self, kind: str, pooler: str) -> Iterable[Batch]:
        """Return new batches in a fixed order."""
        size = self.settings["batch_size"]
        if kind == "plain":
            return DataLoader(self.graphs, batch_size=size)
        if kind == "pre-coarsened":
            transform = PreCoarsening([(pooler, POOLERS[pooler])])
            return PoolDataLoader([transform(graph.clone()) for graph in self.graphs], batch_size=size)
        schedule = ":".join([pooler, *(f"{name}={value}" for name, value in POOLERS[pooler].items())])
        out = self.folder / pooler
        coarsen_dataset(CoarsenConfig(**self.config, out=out, poolers=(schedule,)))
        return PoolDataLoader(PooledDataset(out, fields=["edge_index"]), batch_size=size)

    def measure(self, loader: Iterable[Batch], layer: Layer, warm: bool = False) -> tuple[float, float]:
        """Return the fastest time to load a batch, and of its forward and backward pass, in mean milliseconds.

        Each round uses new batches, so no cache of the previous round is used. With ``warm``, each call is repeated
        and the second call is timed.
        """
        best: dict[int, list[float]] = {}
        began = time.perf_counter()
        for number in range(self.settings["rounds"]):
            batches = iter(loader)
            for place in range(-(-len(self.graphs) // self.settings["batch_size"])):
                times = [time.perf_counter()]
                batch = next(batches)
                times.append(time.perf_counter())
                x = torch.randn(batch.num_nodes, self.settings["channels"], requires_grad=True)
                for _ in range(1 + warm):
                    start = time.perf_counter()
                    torch.autograd.grad(layer(batch, x).sum(), x)
                    spent = time.perf_counter() - start
                found = [times[1] - times[0], spent]
                best[place] = [min(pair) for pair in zip(found, best.get(place, found), strict=True)]
            if number and time.perf_counter() - began > self.settings["seconds"]:
                break
        load_time, layer_time = (1e3 * sum(column) / len(best) for column in zip(*best.values(), strict=True))
        return load_time, layer_time


def online(pooler: torch.nn.Module) -> Layer:
    """Return a function that calls the whole pooler."""
    return lambda batch, x: pooler(x=x, adj=batch.edge_index, batch=batch.batch).x


def reduced(pooler: torch.nn.Module) -> Layer:
    """Return a function that only reduces features, because the batch contains assignment and coarse graph."""
    return lambda batch, x: pooler.reducer(x=x, so=batch.pooled_data[0].so)[0]


def run(bench: Bench, alias: str) -> dict[str, float]:
    """Return all columns of one row."""
    kwargs = {"in_channels": bench.settings["channels"], **POOLERS[alias]}
    pooler, keeper = get_pooler(alias, **kwargs), get_pooler(alias, **kwargs, cached=True)
    plain = bench.loader("plain", alias)
    found = {}
    found["load plain"], found["online"] = bench.measure(plain, online(pooler))
    found["cached"] = bench.measure(plain, online(keeper), warm=True)[1]
    for kind in ("pre-coarsened", "store"):
        loader = bench.loader(kind, alias)
        found[f"load {kind}"], found[kind] = bench.measure(loader, reduced(pooler))
    return {name: round(found[name], 4) for name in COLUMNS}


def table(cells: Sequence[Cell], results: Mapping[str, dict[str, Any]]) -> str:
    """Return a table with one row per dataset and pooler."""
    done = [(cell, results[cell.key]) for cell in cells if cell.key in results]
    head = ["dataset", "pooler", *COLUMNS, "gain"]
    rows = [
        [cell.dataset, cell.pooler]
        + [f"{found[name]:.2f}" for name in COLUMNS]
        + [f"{(found['online'] + found['load plain']) / (found['store'] + found['load store']):.1f}"]
        for cell, found in done
    ]
    sorts = [found["sort_ms"] for _, found in done] or [0.0]
    return (
        f"{markdown(head, rows)}\nMilliseconds per batch of {SETTINGS['batch_size']} graphs (DBLP: the one graph), "
        f"{SETTINGS['channels']} channels, one level, forward and backward, one thread. A sort of a million floats took "
        f"{min(sorts):.0f} to {max(sorts):.0f} ms meanwhile. The gain is online / store, loading included.\n"
    )


def main(argv: Sequence[str] | None = None) -> Experiment:
    """Measure the missing cells and write the table."""
    options = parse(parser(__doc__, seeds=1), argv)
    datasets, settings = (
        (QUICK, {**SETTINGS, "batch_size": 4, "rounds": 2}) if options.quick else (DATASETS, SETTINGS)
    )
    settings = {**settings, "batches": 2} if options.quick else settings
    cells = [Cell(d, p, s, settings) for s in range(options.seeds) for d in datasets for p in POOLERS]
    with tempfile.TemporaryDirectory() as folder:

        def prepare(name: str) -> Bench:
            return Bench(datasets[name], options.root, settings, Path(folder) / name)

        def compute(cell: Cell, bench: Bench) -> dict[str, float]:
            sort = round(calibration(1 if options.quick else 3), 1)
            return {**run(bench, cell.pooler), "sort_ms": sort}

        experiment = Experiment("efficiency", ABOUT, options, table)
        experiment.run(cells, compute, prepare)
    return experiment


if __name__ == "__main__":
    main()
