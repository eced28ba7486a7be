"""Run all benchmarks of docs/performance.md one after another and write their tables into that page.

    python tests/benchmarks/run_all.py --data DATA --peer-python PATH --out FOLDER [--tree OTHER] [--parts store,loader]

``FOLDER`` receives the output of each part as a text file. ``--tree`` runs the same parts with the package of another work tree:
parts then take turns, so that both versions see the same machine. Parts that compare both versions themselves, step by step, need
``--tree``. ``--page`` replaces the tables of the page by those with the same header in the output.
``--compare`` runs nothing: it prints the figures of both versions from the files in ``FOLDER``, side by side, and replaces these
tables of the page with ``--page``. ``TGP_BENCH_LIBRARIES`` names a folder with libraries to compare with (pyamg, pymetis,
networkit, scikit-network, igraph). A calibration (a sort of a million numbers) is measured before and after each part.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "performance.md"

PARTS: dict[str, tuple[str, ...]] = {
    "small": ("bench_methods.py", "--small", "--data", "{data}"),
    "transform": ("bench_transform.py", "--data", "{data}", "--peer-python", "{peer}"),
    "transform_before": ("bench_transform.py", "--data", "{data}", "--peer-python", "{before}"),
    "engine": ("bench_engine.py",),
    "carry": ("bench_carry.py",),
    "carry_online": ("bench_carry_online.py", "--edges", "500000"),
    "first_run": ("bench_first_run.py", "--tree", "{tree}"),
    "store": ("bench_store.py",),
    "inspect": ("bench_inspect.py",),
    "loader": ("bench_loader.py", "--data", "{data}"),
    "loader_details": ("bench_loader.py", "--details", "--graphs", "1000000", "--data", "{data}"),
    "training": ("bench_training.py", "--root", "{data}"),
    "large": ("bench_methods.py", "--large", "--data", "{data}", "--limit", "60"),
    "threads": ("bench_threads.py", "--calibrate"),
    "reduction": ("bench_reduction.py", "--data", "{data}"),
    "workers": ("bench_workers.py",),
    "ndp": ("bench_ndp.py", "--data", "{data}"),
    "sep": ("bench_kmis_sep.py", "--data", "{data}"),
    "spectral": ("bench_nmf_eigen.py", "--data", "{data}"),
    "families": ("bench_families.py", "--limit", "5"),
    "pyg": ("bench_pyg.py", "--cora", "{data}/Planetoid", "--runs", "31"),
    "poolers": ("bench_poolers.py", "--peer-python", "{peer}", "--physics", "{data}/Coauthor/Physics/raw/ms_academic_phy.npz"),
    "poolers_before": ("bench_poolers.py", "--parts", "peer", "--no-memory", "--peer-python", "{before}"),
}  # fmt: skip
"""Command of each part. Short parts come first; parts that concern models come last."""

OTHER_VERSION = {"{before}", "{tree}"}
"""Arguments of parts that compare both versions themselves: an interpreter with the other package, and the other work tree."""


def compares_versions(part: str) -> bool:
    """Return True if a part measures both versions in one run."""
    return not OTHER_VERSION.isdisjoint(PARTS[part])


def calibrate() -> float:
    """Return the milliseconds of a sort of a million numbers, the best of five."""
    values = np.random.default_rng(0).random(1_000_000)
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        np.sort(values)
        seconds.append(time.perf_counter() - begin)
    return min(seconds) * 1e3


def run_part(command: list[str], tree: Path, out: Path) -> str:
    """Run one part with the package of a work tree and return its output.

    A part that a tree does not have is left out. A part that fails does not end the run: the file has the messages.
    """
    script = tree / "tests" / "benchmarks" / command[0]
    if not script.exists():
        return ""
    paths = [str(tree), *filter(None, [os.environ.get("TGP_BENCH_LIBRARIES")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, str(script), *command[1:]],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    failure = "" if done.returncode == 0 else f"\nexit code {done.returncode}\n{done.stderr}"
    out.write_text(done.stdout + failure)
    return done.stdout


def replace_tables(page: str, output: str) -> tuple[str, int]:
    """Replace the tables of a page by tables with the same header in the output of a benchmark.

    Returns:
        The page, and the number of replaced tables.
    """
    replaced = 0
    for table in _tables(output):
        header = _cells(table)
        for old in _tables(page):
            if _cells(old) == header:
                page = page.replace(old, table)
                replaced += 1
    return page, replaced


def write_tables(output: str) -> int:
    """Replace tables of the page by those with the same header, and return the number of replaced tables."""
    page, count = replace_tables(PAGE.read_text(), output)
    PAGE.write_text(page)
    return count


@dataclass(frozen=True)
class Comparison:
    """Table of the figures of two versions.

    Args:
        title: Header of its first column.
        columns: Columns of the part to read. Several names are alternatives; the first one that a table has is used.
        smallest: Rows with a smaller figure of the other version are left out.
    """

    title: str
    columns: tuple[str, ...] = ()
    smallest: float = 0.0


COMPARED = {
    "small": Comparison("graphs per second of the engine", ("graphs/s", "graphs/s (wall)")),
    "transform_before": Comparison("`PreCoarsening`, one graph of MUTAG at a time, graphs per second"),
    "loader": Comparison("graphs per second from a store", ("store (disk)",)),
    "large": Comparison("one level on large graphs, processor s", ("cpu s",), smallest=0.05),
    "store": Comparison("graphs per second, written to a store, two threads", ("measured",)),
    "workers": Comparison("seconds of `tgp coarsen`", ("one: wall s", "two: wall s")),
    "inspect": Comparison("seconds of commands", ("compiled: wall s", "wall s", "s")),
    "poolers_before": Comparison("milliseconds of trainable poolers, forward and backward"),
}


def compare_tables(before: str, after: str, columns: tuple[str, ...]) -> list[tuple[str, float, float]]:
    """Return (row, figure before, figure after) for the rows that the tables of two versions share.

    The name of a row is made of the texts and settings before the column.

    Args:
        before: Output of a part with the other version.
        after: Output of the part with this version.
        columns: Names of the column to read; the first one that a table has is used.
    """
    old = dict(_figures(before, columns))
    return [(name, old[name], value) for name, value in _figures(after, columns) if name in old]


def read_two_versions(text: str) -> list[tuple[str, float, float]]:
    """Return (row, figure before, figure after) of a table that has this version and the other one side by side."""
    rows = [_row_cells(line) for table in _tables(text) for line in table.splitlines()[2:]]
    return [(row[0], float(row[2].replace(",", "")), float(row[1].replace(",", ""))) for row in rows]


def _figures(text: str, columns: tuple[str, ...]) -> list[tuple[str, float]]:
    found = []
    for table in _tables(text):
        header = _cells(table)
        column = next((header.index(name) for name in columns if name in header), None)
        if column is None:
            continue
        for line in table.splitlines()[2:]:
            cells = _row_cells(line)
            value = _number(cells[column]) if column < len(cells) else None
            if value is not None:
                found.append((_row_name(cells[:column], header), value))
    return found


def _row_name(cells: list[str], header: list[str]) -> str:
    """Return the texts of a row, and its numbers that are settings and not figures, with their headers."""
    settings = ("levels", "batch", "workers", "nodes", "k")
    named = [f"{h} {cell}" if h in settings else cell for cell, h in zip(cells, header, strict=False)]
    return ", ".join(cell for cell in named if cell and _number(cell) is None)


def _row_cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]


def _number(cell: str) -> float | None:
    """Return the number of a cell such as ``1,234`` or ``1,234 graphs/s, 987 per cpu s``, or ``None``."""
    try:
        return float(cell.partition(" graphs/s")[0].replace(",", "").rstrip("%"))
    except ValueError:
        return None


def compare_versions(folder: Path, part: str) -> str:
    """Return a table with the figures of two versions side by side, from the output files of an earlier run.

    Args:
        folder: Folder with ``PART.before.txt`` and ``PART.after.txt``.
        part: Part to compare.

    Returns:
        The table, or nothing if the part was not measured with both versions or cannot be compared.
    """
    before, after = (folder / f"{part}.{version}.txt" for version in ("before", "after"))
    chosen = COMPARED.get(part)
    if chosen is None or not after.exists():
        return ""
    if compares_versions(part):
        rows = read_two_versions(after.read_text())
    else:
        rows = compare_tables(
            before.read_text() if before.exists() else "", after.read_text(), chosen.columns
        )
    lines = [
        f"| {name} | {old:,g} | {new:,g} | {new / old if old else float('nan'):.2f} |\n"
        for name, old, new in rows
        if old >= chosen.smallest
    ]
    return (
        "".join([f"| {chosen.title} | before | after | after / before |\n|---|---|---|---|\n", *lines])
        if lines
        else ""
    )


def _tables(text: str) -> list[str]:
    return re.findall(r"(?:^\|.*\n?)+", text, flags=re.M)


def _cells(table: str) -> list[str]:
    return [cell.strip() for cell in table.splitlines()[0].strip("| ").split("|")]


def main() -> None:
    """Run the parts and print one line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=HERE.parents[2] / "shared" / "data", help="folder of raw files"
    )
    parser.add_argument("--peer-python", default="", help="an interpreter that has tgp 1.0.2")
    parser.add_argument("--out", type=Path, required=True, help="folder for the output of the parts")
    parser.add_argument("--tree", type=Path, help="work tree of another version, measured in turns")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/performance.md")
    parser.add_argument(
        "--compare", action="store_true", help="print the figures of both versions, run nothing"
    )
    options = parser.parse_args()
    parts = options.parts.split(",")
    if options.compare:
        tables = "\n".join(filter(None, (compare_versions(options.out, part) for part in parts)))
        print(tables)
        if options.page:
            write_tables(tables)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    before_python = options.out / "before-python"
    if options.tree:
        before_python.write_text(
            f'#!/bin/sh\nPYTHONPATH={options.tree.resolve()} exec {sys.executable} "$@"\n'
        )
        before_python.chmod(0o755)
    else:
        parts = [part for part in parts if not compares_versions(part)]
    trees = {"before": options.tree, "after": HERE.parents[1]} if options.tree else {"after": HERE.parents[1]}
    print(
        "| part | version | seconds | calibration before, ms | after, ms | load |\n|---|---|---|---|---|---|"
    )
    values = {
        "data": options.data.resolve(),
        "peer": options.peer_python,
        "before": before_python.resolve(),
        "tree": options.tree and options.tree.resolve(),
    }
    for name in parts:
        command = [word.format_map(values) for word in PARTS[name]]
        for version, tree in trees.items():
            if version == "before" and compares_versions(name):
                continue
            before, begin = calibrate(), time.perf_counter()
            output = run_part(command, tree.resolve(), options.out / f"{name}.{version}.txt")
            seconds, load = time.perf_counter() - begin, os.getloadavg()[0]
            print(
                f"| {name} | {version} | {seconds:.0f} | {before:.0f} | {calibrate():.0f} | {load:.1f} |",
                flush=True,
            )
            if version == "after" and options.page:
                print(f"{name}: {write_tables(output)} tables of the page were replaced", file=sys.stderr)


if __name__ == "__main__":
    main()
