"""Leaderboard of graph reduction: train on a coarse graph, test on the original one.

python examples/reduction/leaderboard.py --root DATA
python examples/reduction/leaderboard.py --root DATA --datasets Cora --methods graclus*8 --ratios 0.3 --runs 5

Methods are level methods. One that has the parameter ``ratio`` makes a level of exactly that size. Of a schedule of several levels, such
as ``graclus*8``, the level nearest to the ratio is used. Every finished cell is saved, so an interrupted command continues.
``docs/leaderboard.md`` is written from all results.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "paper"))

import numpy as np
from _harness import RESULTS, Cell, Experiment, load, parse, parser, replace, seed_all
from _page import PAGE, render
from _picture import NAME, draw
from _protocol import (
    FEW_MODES,
    LARGE,
    MANY_MODES,
    QUICK,
    Coarsened,
    Source,
    coarsen,
    has_ratio,
    is_usable,
    needs,
    original,
    reduced,
    settings_of,
)
from _training import Net, accuracy, complete, fit, labelled

from tgp.engine.methods import METHODS
from tgp.engine.schedule import parse_schedule
from tgp.errors import InputError, TgpError

FOLDER = Path(__file__).resolve().parent / "results"
DATASETS = ("Cora", "CiteSeer", "DBLP", "Photo", "Computers", "CS", "Physics")
VARIANTS = (
    "hem:balanced=true",
    "lv:balanced=true",
    "lv:sets=neighborhoods",
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
FACTS = "facts"
"""Cells with the cost and the spectral errors of coarsening. They need no training."""
MODELS = ("GCN", "APPNP")
RATIOS = (0.5, 0.3, 0.1)
FACTS_SETTINGS = {"facts": 1, "modes": [MANY_MODES, FEW_MODES, LARGE]}


def default_methods() -> list[str]:
    """Return all methods of the registry with a ratio, variants of them, and schedules of methods without.

    Methods that need more than edges and features, such as positions, and methods whose package is not installed are left out.
    """
    return [name for name in METHODS if is_usable(name)] + [*VARIANTS, *LEVELS]


def make_cells(options: Any) -> list[Cell]:
    """Return one cell for each dataset, method, ratio and network, and one with the facts of coarsening."""
    cells = []
    for dataset in options.datasets:
        for method in ["full", *options.methods]:
            revision = 0 if method == "full" else parse_schedule(method).revision
            for ratio in [1.0] if method == "full" else options.ratios:
                about = {"method": method, "ratio": ratio, "revision": revision}
                for model in options.models:
                    settings = FACTS_SETTINGS | about
                    if model != FACTS:
                        settings = settings_of(dataset) | about | {"model": model, "runs": options.seeds}
                    elif method == "full":
                        continue
                    cells.append(Cell(dataset, f"{method}@{ratio:g}@{model}", 0, settings))
    return cells


class Board:
    """Computes cells. The coarse graphs of a method are computed once if its cells follow each other."""

    def __init__(self) -> None:
        self.known: tuple[tuple[Any, ...], Coarsened] | None = None

    def coarsened(self, dataset: str, source: Source, method: str, ratio: float) -> Coarsened:
        """Return the levels of a method. Those of a schedule without a ratio serve every ratio."""
        key = (dataset, method, ratio if has_ratio(method) else None)
        if self.known is None or self.known[0] != key:
            self.known = None  # releases the memory first
            self.known = key, coarsen(source, method, ratio)
        return self.known[1]

    def compute(self, cell: Cell, source: Source) -> dict[str, Any]:
        """Return the facts of coarsening, or train the networks of a cell."""
        method, ratio = cell.settings["method"], cell.settings["ratio"]
        if method == "full":
            return train(source, None, cell.settings)
        levels = self.coarsened(cell.dataset, source, method, ratio)
        level = levels.level(ratio)
        if "facts" in cell.settings:
            return levels.facts(level)
        cluster = levels.cluster(level)
        kept = {"kept": round(float(cluster.max() + 1) / levels.total, 4), "level": level}
        return train(source, cluster, cell.settings) | kept


def train(source: Source, cluster: np.ndarray | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train networks on a coarse graph. ``test`` and ``val`` are accuracies on nodes of the original graph."""
    found: dict[str, list[float]] = {"test": [], "val": [], "supernodes": [], "train_supernodes": []}
    classes, view = int(source.labels.max()) + 1, None
    for run in range(settings["runs"]):
        seed_all(run)
        if run == 0 or source.masks is None:
            masks = source.split(run)
            problem = original(source, masks)
            view = view or complete(problem, settings)  # does not depend on the masks
            problem = problem if cluster is None else reduced(source, cluster, masks)
            part = labelled(problem, settings)
        net = Net(source.features.shape[1], classes, settings)
        fit(net, part, problem, settings)
        val, test = accuracy(net, view, source.labels, *masks[1:])
        size, used = problem.prop.shape[0], len(problem.train[0])
        for name, value in {"test": test, "val": val, "supernodes": size, "train_supernodes": used}.items():
            found[name].append(value)
    return {"value": round(statistics.fmean(found["test"]), 3), **found}


def write_picture(page: Path, results: Mapping[str, Any]) -> str:
    """Write the picture of the results beside a page, and return the page."""
    picture = page.parent / "img" / NAME
    picture.parent.mkdir(parents=True, exist_ok=True)
    replace(picture, draw(results))
    return render(results)


def check(options: Any) -> None:
    """Check the words of the command before anything is computed.

    Raises:
        InputError: if a method, a ratio or a number of runs cannot be used.
    """
    for method in options.methods:
        missing = needs(method) - {"x"}
        if missing:
            raise InputError(
                f"{method!r} needs {', '.join(missing)}: expected a method that needs edges or features"
            )
        if method.split(":")[0] == "nopool":
            raise InputError(
                "'nopool' does not make a graph smaller: expected another method. The full graph is always shown"
            )
        if any(re.match("ratios?=|nodes=", option) for option in method.split(":")):
            raise InputError(f"{method!r} has a size: expected a method without one. Give --ratios")
    for ratio in options.ratios:
        if not 0 < ratio < 1:
            raise InputError(f"--ratios is invalid: expected numbers between 0 and 1, got {ratio:g}")
    if options.seeds < 1:
        raise InputError(f"--runs is invalid: expected at least 1, got {options.seeds}")


def main(argv: Sequence[str] | None = None) -> Path:
    """Compute missing cells and write the page."""
    made = parser(__doc__, seeds=20)
    made.add_argument("--datasets", nargs="+", help=f"default: {' '.join(DATASETS)}")
    made.add_argument("--methods", nargs="+", default=default_methods(), help="level methods or schedules")
    made.add_argument("--ratios", nargs="+", type=float, default=list(RATIOS), help="kept nodes / nodes")
    words = [FACTS, *MODELS]
    made.add_argument(
        "--models", nargs="+", choices=words, default=words, help="networks; facts: cost and spectral errors"
    )
    made.add_argument("--runs", dest="seeds", type=int, default=argparse.SUPPRESS, help="the same as --seeds")
    made.add_argument("--page", type=Path, help="page to write (default: docs/leaderboard.md, or in --out)")
    options = parse(made, argv)
    options.out = FOLDER if options.out == RESULTS else options.out
    options.datasets = options.datasets or ([QUICK] if options.quick else DATASETS)
    check(options)
    about = {"title": "Leaderboard", "command": "python examples/reduction/leaderboard.py --root DATA"}
    page = options.page or (PAGE if options.out == FOLDER else options.out / "leaderboard.md")
    experiment = Experiment(
        "leaderboard", about, options, lambda cells, results: write_picture(page, results)
    )
    experiment.markdown = page
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
