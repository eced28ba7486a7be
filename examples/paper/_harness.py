"""Functions that the scripts of this folder share: cells that are computed once, progress, tables, options.

An experiment is a list of cells (dataset, pooler, seed, settings). ``NAME.json`` contains the finished cells and is
written after each cell, so that a second run computes only the missing ones. ``NAME.md`` contains the table.
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
    """One number of a table before averaging; ``cost`` is its weight in the estimate of the remaining time."""

    dataset: str
    pooler: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0

    @property
    def name(self) -> str:
        """Name ``dataset/pooler/seed`` for ``--only``."""
        return f"{self.dataset}/{self.pooler}/{self.seed}"

    @property
    def key(self) -> str:
        """Name and a digest of the settings. Cells with other settings are other cells."""
        described = json.dumps(dict(self.settings), sort_keys=True)
        return f"{self.name}/{hashlib.sha256(described.encode()).hexdigest()[:12]}"

    def matches(self, patterns: str | None) -> bool:
        """Return True if a pattern (``Cora,*/mincut/0``, separated by commas) matches the name or a part of it."""
        texts = (self.name, self.dataset, self.pooler)
        return not patterns or any(fnmatch.fnmatch(t, p) for p in patterns.split(",") for t in texts)


class Experiment:
    """Cells of one table, their results on disk, and the table.

    Args:
        name: Name of the files ``name.json`` and ``name.md``.
        about: Facts above the table: ``title``, ``command``, ``budget``, ``settings`` ...
        options: Result of :func:`parse`.
        render: Function ``(cells, results) -> Markdown``; ``results`` maps keys of finished cells to their values.
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
        """Compute the missing cells, save after each of them, and return their number.

        ``compute`` gets a cell and the result of ``prepare`` for the name of its dataset, which is called once and is
        not timed. All random generators are seeded before the call. ``compute`` returns JSON values; ``seconds`` is
        added. Tables of ``_tables.comparison`` read ``value``.
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
                began = time.process_time()  # processor time of this process only
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
        """Replace both files. If the process is killed, the old or the new file remains."""
        self.json.parent.mkdir(parents=True, exist_ok=True)
        document = {"about": self.about, "cells": dict(sorted(self.results.items()))}
        replace(self.json, json.dumps(document, indent=1) + "\n")
        replace(self.markdown, self.render(cells, self.results))


def replace(path: Path, text: str) -> None:
    """Write a file atomically."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def parser(description: str | None, seeds: int, data: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the options of every script. ``data`` is True if real datasets are needed."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument(
        "--out",
        type=Path,
        help=f"folder of the results (default: {RESULTS.name} in the folder of the script)",
    )
    made.add_argument("--seeds", type=int, default=seeds, help="runs per table entry, seeds 0, 1, ...")
    made.add_argument("--quick", action="store_true", help="tiny built-in graphs and few steps, as a test")
    made.add_argument("--root", type=Path, help="folder of the raw files of the real datasets")
    made.add_argument("--only", help="patterns of dataset/pooler/seed or of a part, separated by commas")
    made.set_defaults(needs_root=data)
    made.add_argument("--fresh", action="store_true", help="compute finished cells again")
    return made


def parse(made: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options and set defaults. A quick run does not write to the folder of the real results."""
    options = made.parse_args(argv)
    if options.needs_root and options.root is None and not options.quick:
        made.error("--root is needed: the folder that holds the raw files of the datasets (or give --quick)")
    if options.out is None:
        options.out = Path(tempfile.gettempdir()) / "tgp-paper-quick" if options.quick else RESULTS
    torch.set_num_threads(1)
    return options


def load(name: str, root: Path | None) -> list[Data]:
    """Return the graphs of a known dataset below ``root``, or of a built-in dataset. ``root`` is not changed."""
    from tgp.datasets import load_graphs

    return load_graphs(name, root)


def seed_all(seed: int) -> None:
    """Seed every random generator that a training run may use."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def calibration(times: int = 7) -> float:
    """Return the milliseconds to sort a million floats, the best of several runs, as the speed of this machine."""
    floats = np.random.default_rng(0).random(1_000_000)
    return best_of(lambda: np.sort(floats), times) * 1e3


def best_of(call: Callable[[], object], times: int) -> float:
    """Return the seconds of the fastest of several calls."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found)


def clock(seconds: float) -> str:
    """Format seconds as ``h:mm:ss``."""
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"
