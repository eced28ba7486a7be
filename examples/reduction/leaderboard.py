"""Leaderboard of graph reduction: train on a coarse graph, test on the original one.

python examples/reduction/leaderboard.py --root DATA
python examples/reduction/leaderboard.py --root DATA --datasets Cora --methods graclus*8 --ratios 0.3 --runs 5

Methods are level methods. One that has the parameter ``ratio`` makes a level of exactly that size. Of a schedule of several levels, such
as ``graclus*8``, the level nearest to the ratio is used. Every finished cell is saved, so an interrupted command continues.
``docs/leaderboard.md`` is written from all results.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "paper"))

from _harness import RESULTS, Cell, Experiment, load, parse, parser, seed_all
from _page import PAGE, render
from _protocol import (
    QUICK,
    Coarsened,
    Net,
    Source,
    accuracy,
    coarsen,
    fit,
    is_usable,
    original,
    reduced,
    settings_of,
)

from tgp.engine.methods import METHODS
from tgp.engine.schedule import parse_schedule
from tgp.errors import TgpError

FOLDER = Path(__file__).resolve().parent / "results"
DATASETS = ("Cora", "CiteSeer", "DBLP", "Photo", "Computers", "CS", "Physics")
VARIANTS = (
    "hem:balanced=true",
    "lv:balanced=true",
)
"""Methods with a ratio and other options than the default ones, one line each."""
LEVELS = (
    "graclus*8",
    "graclus:two_hop=true*8",
    "kmis*4",
    "leiden*6",
    "louvain*6",
    "sep",
)
"""Schedules of methods without a ratio, one line each."""
MODELS = ("GCN", "APPNP")


def default_methods() -> list[str]:
    """Return all methods of the registry with a ratio, variants of them, and schedules of methods without.

    Methods that need more than edges and features, such as positions, and methods whose package is not installed are left out.
    """
    return [name for name in METHODS if is_usable(name)] + [*VARIANTS, *LEVELS]


def make_cells(options: Any) -> list[Cell]:
    """Return one cell for each dataset, method, ratio and network. A cell contains all runs."""
    cells = []
    for dataset in options.datasets:
        settings = settings_of(dataset)
        for method in ["full", *options.methods]:
            revision = 0 if method == "full" else parse_schedule(method).revision
            for ratio in [1.0] if method == "full" else options.ratios:
                for model in options.models:
                    more = {"method": method, "ratio": ratio, "model": model, "runs": options.seeds}
                    name = f"{method}@{ratio:g}@{model}"
                    cells.append(Cell(dataset, name, 0, settings | more | {"revision": revision}))
    return cells


class Board:
    """Computes cells. The coarse graph of a method and ratio is computed once."""

    def __init__(self) -> None:
        self.known: tuple[tuple[str, float], Coarsened] | None = None

    def compute(self, cell: Cell, source: Source) -> dict[str, Any]:
        """Train the networks of a cell. ``test`` and ``val`` are accuracies on nodes of the original graph."""
        settings, facts = dict(cell.settings), {}
        if settings["method"] != "full":
            key = (f"{cell.dataset}/{settings['method']}", settings["ratio"])
            if self.known is None or self.known[0] != key:
                self.known = key, coarsen(source, settings["method"], settings["ratio"])
            facts = self.known[1].facts
        found: dict[str, list[float]] = {"test": [], "val": [], "supernodes": [], "train_supernodes": []}
        for run in range(settings["runs"]):
            seed_all(run)
            masks = source.split(run)
            whole = original(source, masks)
            problem, size = whole, len(source.labels)
            if settings["method"] != "full":
                problem, size = reduced(source, self.known[1], masks)
            classes = int(source.labels.max()) + 1
            net = Net(settings["model"], source.features.shape[1], classes, settings)
            fit(net, problem, settings)
            val, test = accuracy(net, whole, source.labels, *masks[1:])
            values = {"test": test, "val": val, "supernodes": size, "train_supernodes": len(problem.train[0])}
            for name, value in values.items():
                found[name].append(value)
        return {"value": round(statistics.fmean(found["test"]), 3), **found, **facts}


def main(argv: Sequence[str] | None = None) -> Path:
    """Compute missing cells and write the page."""
    made = parser(__doc__, seeds=20)
    made.add_argument("--datasets", nargs="+", help=f"default: {' '.join(DATASETS)}")
    made.add_argument("--methods", nargs="+", default=default_methods(), help="level methods or schedules")
    made.add_argument("--ratios", nargs="+", type=float, default=[0.5, 0.3, 0.1], help="kept nodes / nodes")
    made.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    made.add_argument("--runs", dest="seeds", type=int, default=argparse.SUPPRESS, help="the same as --seeds")
    made.add_argument("--page", type=Path, help="page to write (default: docs/leaderboard.md, or in --out)")
    options = parse(made, argv)
    options.out = FOLDER if options.out == RESULTS else options.out
    options.datasets = options.datasets or ([QUICK] if options.quick else DATASETS)
    about = {"title": "Leaderboard", "command": "python examples/reduction/leaderboard.py --root DATA"}
    experiment = Experiment("leaderboard", about, options, lambda cells, results: render(results))
    experiment.markdown = options.page or (PAGE if options.out == FOLDER else experiment.markdown)
    cells, board = make_cells(options), Board()
    try:
        experiment.run(cells, board.compute, lambda name: Source.of(load(name, options.root)[0]))
    except KeyboardInterrupt:
        print("stopped; the same command continues", file=sys.stderr)
    return experiment.markdown


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
