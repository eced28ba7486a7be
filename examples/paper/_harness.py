"""What the scripts beside this one share: cells that are computed once, progress, tables, options.

An experiment is a list of cells (dataset, pooler, seed, settings). Finished cells stand in ``NAME.json``, written
after each one; a second run computes what is missing. ``NAME.md`` holds the table of the cells found so far.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from torch_geometric.data import Data

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Cell:
    """One number of a table before averaging; ``cost`` weighs it in the estimate of the time left."""

    dataset: str
    pooler: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0

    @property
    def name(self) -> str:
        """``dataset/pooler/seed``, what ``--only`` matches."""
        return f"{self.dataset}/{self.pooler}/{self.seed}"

    @property
    def key(self) -> str:
        """The name and a digest of the settings: other settings are another cell."""
        described = json.dumps(dict(self.settings), sort_keys=True)
        return f"{self.name}/{hashlib.sha256(described.encode()).hexdigest()[:12]}"

    def matches(self, patterns: str | None) -> bool:
        """Whether one of the patterns (``Cora``, ``*/mincut/0``; commas between) fits the name or a part of it."""
        texts = (self.name, self.dataset, self.pooler)
        return not patterns or any(fnmatch.fnmatch(t, p) for p in patterns.split(",") for t in texts)


class Experiment:
    """Cells of one table, their results on disk, and the table.

    Args:
        name: of the files ``name.json`` and ``name.md``.
        about: facts shown above the table: ``title``, ``command``, ``budget``, ``settings`` ...
        options: from :func:`parser`.
        render: ``(cells, results) -> Markdown``, where ``results`` maps keys of finished cells to their values.
    """

    def __init__(
        self,
        name: str,
        about: Mapping[str, str],
        options: argparse.Namespace,
        render: Callable[[Sequence[Cell], Mapping[str, dict[str, Any]]], str],
    ) -> None:
        self.about, self.options, self.render = dict(about), options, render
        self.json, self.markdown = options.out / f"{name}.json", options.out / f"{name}.md"
        self.results: dict[str, dict[str, Any]] = {}
        if self.json.exists():
            self.results = json.loads(self.json.read_text(encoding="utf-8"))["cells"]

    def run(
        self,
        cells: Sequence[Cell],
        compute: Callable[[Cell, Any], Mapping[str, Any]],
        prepare: Callable[[str], Any] = lambda dataset: None,
    ) -> int:
        """Compute what is missing of the chosen cells, save after each one, and return how many were computed.

        ``compute`` gets a cell, with all generators seeded by it, and what ``prepare`` made of the name of its dataset
        (once, outside the clock). It returns values that JSON can hold; the harness adds ``seconds``. Tables of
        ``_tables.comparison`` read ``value``.
        """
        known = () if self.options.fresh else self.results
        todo = [c for c in cells if c.matches(self.options.only) and c.key not in known]
        left = total = sum(cell.cost for cell in todo)
        console = Console(stderr=True)
        console.print(f"{self.json.stem}: {len(todo)} of {len(cells)} cells to compute", highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
        started = time.perf_counter()
        prepared: dict[str, Any] = {}
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task("", total=total)
            for number, cell in enumerate(todo, 1):
                progress.update(task, description=cell.name)
                if cell.dataset not in prepared:
                    prepared[cell.dataset] = prepare(cell.dataset)
                seed_all(cell.seed)
                began = time.process_time()  # of this process: other programs do not count
                values = dict(compute(cell, prepared[cell.dataset]))
                values["seconds"] = round(time.process_time() - began, 3)
                self.results[cell.key] = {"cell": cell.name, "settings": dict(cell.settings), **values}
                self.save(cells)
                left -= cell.cost
                eta = (time.perf_counter() - started) / max(total - left, 1e-9) * left
                progress.advance(task, cell.cost)
                shown = f"{values['value']:8.2f}" if "value" in values else ""
                line = (
                    f"[{number}/{len(todo)}] {cell.name} {shown} {values['seconds']:.1f} s, {clock(eta)} left"
                )
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        self.save(cells)
        return len(todo)

    def save(self, cells: Sequence[Cell]) -> None:
        """Replace both files; a kill leaves the old or the new ones."""
        self.json.parent.mkdir(parents=True, exist_ok=True)
        document = {"about": self.about, "cells": dict(sorted(self.results.items()))}
        replace(self.json, json.dumps(document, indent=1) + "\n")
        replace(self.markdown, self.render(cells, self.results))


def replace(path: Path, text: str) -> None:
    """Write a file in one step."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def parser(description: str | None, seeds: int, data: bool = True) -> argparse.ArgumentParser:
    """The options of every script; add your own, then call :func:`parse`. ``data``: real datasets are needed."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument(
        "--out", type=Path, help=f"folder of the results (default: {RESULTS.name} beside the script)"
    )
    made.add_argument("--seeds", type=int, default=seeds, help="runs per table entry, seeds 0, 1, ...")
    made.add_argument(
        "--quick", action="store_true", help="tiny built-in graphs and few steps, to see it work"
    )
    made.add_argument("--root", type=Path, help="folder of the raw files of the real datasets")
    made.add_argument("--only", help="patterns of dataset/pooler/seed or of a part, separated by commas")
    made.set_defaults(needs_root=data)
    made.add_argument("--fresh", action="store_true", help="compute finished cells again")
    return made


def parse(made: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse, and fill what depends on other options: a quick run never touches the real results."""
    options = made.parse_args(argv)
    if options.needs_root and options.root is None and not options.quick:
        made.error("--root is needed: the folder that holds the raw files of the datasets (or give --quick)")
    if options.out is None:
        options.out = Path(tempfile.gettempdir()) / "tgp-paper-quick" if options.quick else RESULTS
    torch.set_num_threads(1)
    return options


def load(name: str, root: Path | None) -> list[Data]:
    """The graphs of a known dataset below ``root``, or of a built-in one; nothing is written to ``root``."""
    from tgp.data.convert import table_to_data
    from tgp.sources.source import open_source

    return table_to_data(open_source(dataset=name, root=root).table)


def seed_all(seed: int) -> None:
    """Seed every generator a training run may touch."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def calibration(times: int = 7) -> float:
    """Milliseconds of a sort of a million floats, the best of several: how fast this machine is right now."""
    floats = np.random.default_rng(0).random(1_000_000)
    return best_of(lambda: np.sort(floats), times) * 1e3


def best_of(call: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of several calls."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found)


def clock(seconds: float) -> str:
    """``h:mm:ss``."""
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"
