"""A complete study: five stored hierarchies and three trainable poolers, compared with a network without pooling.

python examples/study/study.py                  # built-in graphs, a minute
python examples/study/study.py --root DATA      # PROTEINS, ten seeds
python examples/study/study.py --root DATA --dataset NCI1 --out out/NCI1

The same command continues an interrupted study. With --only 'graclus@*' it computes one method, with --fresh everything again.
docs/guide/study.md explains what is measured and how to adapt this script.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "paper"))

import torch
from _harness import RESULTS, Cell, Experiment, parse, parser, replace, seed_all
from _network import Method, Net
from _report import Row, choose, figure, table
from dense_modes import peak_megabytes
from graph_classification import evaluate, folds
from torch.nn.functional import cross_entropy

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.build.config import store_name
from tgp.data import PoolDataLoader, PooledDataset
from tgp.engine.schedule import parse_schedule
from tgp.errors import InputError, TgpError

# -- What to change for your own study ---------------------------------------------------------------------------------

METHODS = {
    "flat": Method(),
    "graclus": Method(schedule="graclus*2"),
    "kmis": Method(schedule="kmis*2"),
    "ndp": Method(schedule="ndp*2"),
    "hem": Method(schedule="hem:ratio=0.5*2"),
    "sep": Method(schedule="sep*2"),
    "topk": Method(pooler={"alias": "topk", "ratio": 0.5}),
    "mincut": Method(pooler={"alias": "mincut", "batched": False, "sparse_output": True}),
    "diff": Method(pooler={"alias": "diff", "batched": False, "sparse_output": True}),
}
"""Rows of the table."""


@dataclass(frozen=True)
class Plan:
    """Size of a study.

    Args:
        dataset: Name or path of the graphs.
        seeds: Number of runs of each method. A seed sets the split, the initial parameters and the order of the batches.
        grid: Values to try of each hyperparameter, the same for all methods. The cost is measured with the last ones.
        fixed: Settings that are not tuned.
    """

    dataset: str
    seeds: int
    grid: Mapping[str, Sequence[Any]]
    fixed: Mapping[str, Any]


FIXED = {"hidden": 16, "clusters": [0.25, 0.125], "batch_size": 64, "epochs": 30, "patience": 6}
"""``clusters``: supernodes of poolers with a fixed number, as shares of the mean number of nodes, one per pooling step."""
GRID = {"lr": (2e-3, 1e-2)}
FULL = Plan("PROTEINS", 10, GRID, FIXED)
SMALL = Plan("molecules:num_graphs=200", 3, GRID, {**FIXED, "batch_size": 32, "epochs": 15})
QUICK = Plan("molecules:num_graphs=40", 2, GRID, {**FIXED, "hidden": 8, "epochs": 1})

# ----------------------------------------------------------------------------------------------------------------------


class Study:
    """Cells of a study: one run per method and seed, and one measurement of cost per method.

    Args:
        plan: Size of the study.
        root: Folder of the raw files of known datasets.
        store: Directory of the store.
    """

    def __init__(self, plan: Plan, root: Path | None, store: Path) -> None:
        self.plan, self.root, self.store = plan, root, store

    def cell(self, name: str, part: str, seed: int) -> Cell:
        """Return a cell. Its settings contain everything that changes its result."""
        method = METHODS[name]
        how: dict[str, Any] = {"pooler": dict(method.pooler)}
        if method.schedule:
            how = {"schedule": method.schedule, "revision": parse_schedule(method.schedule).revision}
        weight = 3.0 if method.pooler else 1.0  # for the estimate of the remaining time only
        grid = {key: list(values) for key, values in self.plan.grid.items()}
        return Cell(
            self.plan.dataset, f"{name}@{part}", seed, {**self.plan.fixed, **how, "grid": grid}, weight
        )

    def costs(self) -> list[Cell]:
        """Return the cells that measure time and memory, one per method."""
        return [self.cell(name, "cost", 0) for name in METHODS]

    def runs(self) -> list[Cell]:
        """Return the cells that tune, train and test, seed by seed."""
        return [self.cell(name, "run", seed) for seed in range(self.plan.seeds) for name in METHODS]

    def rows(self, results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
        """Return the finished results of each method."""
        done = [cell for cell in self.runs() if cell.key in results]
        rows = []
        for (name, method), cost in zip(METHODS.items(), self.costs(), strict=True):
            runs = {cell.seed: results[cell.key] for cell in done if cell.pooler == f"{name}@run"}
            rows.append(Row(name, method.kind, runs, results.get(cost.key, {})))
        return rows

    @functools.cached_property
    def graphs(self) -> Graphs:
        """Graphs with all hierarchies, coarsened on first use."""
        return Graphs(self.plan, self.root, self.store)


class Graphs:
    """Store with all hierarchies of the study. A complete store is opened, an incomplete one is continued.

    Raises:
        InputError: If the graphs do not have features and one class each.
    """

    def __init__(self, plan: Plan, root: Path | None, store: Path) -> None:
        self.schedules = {name: method.schedule for name, method in METHODS.items() if method.schedule}
        self.source = {"dataset": plan.dataset, "root": root, "metrics": False}
        names = tuple(self.schedules)
        coarsen_dataset(
            CoarsenConfig(**self.source, out=store, poolers=tuple(self.schedules.values()), names=names)
        )
        self.plain = PooledDataset(store, names[0], levels=(), in_memory=True)
        y = self.plain.y
        if len(self.plain) < 10 or y is None or len(y) != len(self.plain) or y.is_floating_point():
            raise InputError(f"{plan.dataset!r} must have ten graphs with a class each", field="dataset")
        if not self.plain.num_features:
            raise InputError(f"{plan.dataset!r} must have node features, got none", field="dataset")
        self.labels, self.store = y.view(-1).tolist(), store
        nodes = sum(graph.num_nodes for graph in self.plain) / len(self.plain)
        self.sizes = [max(2, round(nodes * share)) for share in plan.fixed["clusters"]]
        """Number of supernodes of each pooling step, for poolers that have a fixed number."""

    def dataset(self, name: str) -> PooledDataset:
        """Return the graphs with the levels of a method, if it has stored levels."""
        return PooledDataset(self.store, name, in_memory=True) if name in self.schedules else self.plain

    def split(self, name: str, seed: int) -> list[PooledDataset]:
        """Return the graphs for training, validation and test. They depend on the seed only, not on the method."""
        return [self.dataset(name)[ids] for ids in folds(self.labels, seed)]

    def network(self, name: str, settings: Mapping[str, Any]) -> Net:
        """Return an untrained network."""
        classes = max(self.labels) + 1
        return Net(METHODS[name], self.plain.num_features, classes, settings["hidden"], self.sizes)

    def seconds_to_coarsen(self, name: str) -> float:
        """Return the processor seconds to write the levels of all graphs into a new store, without compilation."""
        if name not in self.schedules:
            return 0.0
        for _ in range(2):  # kernels are compiled in the first round
            with tempfile.TemporaryDirectory() as folder:
                config = CoarsenConfig(
                    **self.source, out=Path(folder) / "store", poolers=(self.schedules[name],), workers=1
                )
                began = time.process_time()
                coarsen_dataset(config)
                seconds = time.process_time() - began
        return seconds


def train_epoch(net: Net, loader: PoolDataLoader, optimizer: torch.optim.Optimizer) -> None:
    """Train for one epoch."""
    net.train()
    for batch in loader:
        step(net, batch, optimizer)


def step(net: Net, batch: Any, optimizer: torch.optim.Optimizer) -> None:
    """Update the parameters with one batch."""
    optimizer.zero_grad()
    logits, auxiliary = net(batch)
    (cross_entropy(logits, batch.y.view(-1)) + auxiliary).backward()
    optimizer.step()


def make_loader(dataset: PooledDataset, settings: Mapping[str, Any], seed: int) -> PoolDataLoader:
    """Return the loader of the training graphs."""
    size = settings["batch_size"]
    return PoolDataLoader(dataset, size, shuffle=True, seed=seed, drop_last=len(dataset) > size)


def fit(
    net: Net, train: PooledDataset, val: PooledDataset, settings: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Train a network. It keeps the parameters of the epoch with the lowest validation loss, which is returned."""
    loader, val_loader = make_loader(train, settings, seed), PoolDataLoader(val, 256)
    optimizer = torch.optim.Adam(net.parameters(), lr=settings["lr"])
    best, state = {"val_loss": float("inf"), "val": 0.0, "epoch": 0}, net.state_dict()
    for epoch in range(1, settings["epochs"] + 1):
        train_epoch(net, loader, optimizer)
        loss, accuracy = evaluate(net, val_loader)
        if loss < best["val_loss"]:
            best = {"val_loss": loss, "val": accuracy, "epoch": epoch}
            state = deepcopy(net.state_dict())
        elif epoch - best["epoch"] >= settings["patience"]:
            break
    net.load_state_dict(state)
    return best


def settings_of(cell: Cell) -> list[dict[str, Any]]:
    """Return the settings to try: all combinations of the values of the grid, with the fixed settings."""
    grid = cell.settings["grid"]
    return [
        {**cell.settings, **dict(zip(grid, values, strict=True))}
        for values in itertools.product(*grid.values())
    ]


def run(cell: Cell, graphs: Graphs) -> dict[str, Any]:
    """Train with every setting, choose one by its validation loss, and read the test graphs once with that network."""
    name = cell.pooler.partition("@")[0]
    train, val, test = graphs.split(name, cell.seed)
    trials, nets = [], []
    for settings in settings_of(cell):
        seed_all(cell.seed)  # a trial does not depend on the trials before it
        nets.append(graphs.network(name, settings))
        found = fit(nets[-1], train, val, settings, cell.seed)
        trials.append({"setting": {key: settings[key] for key in cell.settings["grid"]}, **found})
    chosen = choose(trials)
    accuracy = evaluate(nets[chosen], PoolDataLoader(test, 256))[1]
    sizes = {"num_train": len(train), "num_test": len(test)}
    return {"value": accuracy, **trials[chosen], **sizes, "trials": trials}


def measure_cost(cell: Cell, graphs: Graphs, epochs: int = 3) -> dict[str, Any]:
    """Return processor seconds per epoch, peak memory of a step, the number of parameters, and seconds to coarsen."""
    name, settings = cell.pooler.partition("@")[0], settings_of(cell)[-1]
    train, _, _ = graphs.split(name, 0)
    net, loader = graphs.network(name, settings), make_loader(train, settings, 0)
    optimizer = torch.optim.Adam(net.parameters(), lr=settings["lr"])
    seconds = []
    for _ in range(1 + epochs):  # the first one fills caches
        began = time.process_time()
        train_epoch(net, loader, optimizer)
        seconds.append(time.process_time() - began)
    first = next(iter(make_loader(train, settings, 0)))
    return {
        "epoch_s": round(min(seconds[1:]), 4),
        "step_mb": round(peak_megabytes(lambda: step(net, first, optimizer)), 2),
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "level_s": round(graphs.seconds_to_coarsen(name), 3),
    }


def write_page(page: Path, text: str) -> None:
    """Replace the text between the markers ``<!-- study: ... -->`` and ``<!-- end -->`` of a page.

    Raises:
        InputError: If the page does not have the markers.
    """
    pattern = re.compile(r"(<!-- study: [^>]*-->\n).*?(<!-- end -->)", flags=re.S)
    new, count = pattern.subn(
        lambda match: f"{match[1]}\n{text}\n{match[2]}", page.read_text(encoding="utf-8")
    )
    if not count:
        raise InputError(f"{page} must have the markers <!-- study: ... --> and <!-- end -->", field="page")
    replace(page, new)


def read_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options, with the plan of the study."""
    made = parser(__doc__, seeds=0, data=False)
    made.add_argument("--dataset", help=f"known name or path (default: {FULL.dataset} with --root)")
    made.add_argument("--store", type=Path, help="directory of the store (default: below --out)")
    made.add_argument("--figure", type=Path, help="file of the figure (default: study.svg in --out)")
    made.add_argument("--page", type=Path, help="page whose block <!-- study: --> gets the table")
    options = parse(made, argv)
    plan = QUICK if options.quick else FULL if options.root or options.dataset else SMALL
    seeds = options.seeds or plan.seeds
    options.plan = Plan(options.dataset or plan.dataset, seeds, plan.grid, plan.fixed)
    options.out = Path("out", "study") if options.out == RESULTS else options.out
    options.store = options.store or options.out / "store" / store_name(options.plan.dataset)
    options.figure = options.figure or options.out / "study.svg"
    return options


def main(argv: Sequence[str] | None = None) -> Experiment:
    """Compute the missing cells, and write table and figure."""
    options = read_options(argv)
    study, plan = Study(options.plan, options.root, options.store), options.plan
    about = {
        "title": f"Study of pooling on {plan.dataset}",
        "command": "python examples/study/study.py --root DATA",
        "plan": json.dumps({"seeds": plan.seeds, "grid": plan.grid, **plan.fixed}),
        "versions": f"torch {torch.__version__}, {torch.get_num_threads()} thread",
    }
    experiment = Experiment("study", about, options, lambda cells, results: table(study.rows(results)))

    def prepare(dataset: str) -> Graphs:
        return study.graphs

    experiment.run(study.costs(), measure_cost, prepare)
    experiment.run(study.runs(), run, prepare)
    text = experiment.markdown.read_text(encoding="utf-8")
    print(text)
    if options.page:
        write_page(options.page, text)
    try:
        figure(study.rows(experiment.results), options.figure)
    except ImportError:
        print("no figure: matplotlib is not installed (pip install 'tgp-coarsen[plot]')", file=sys.stderr)
    return experiment


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
    except KeyboardInterrupt:
        print("Stopped. Finished cells are kept; the same command continues.", file=sys.stderr)
        raise SystemExit(130) from None
