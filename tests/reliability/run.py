"""Test the guarantees of a store with the full numbers of ``docs/reliability.md``, in portions that are kept.

    python -m tests.reliability.run                                      # until everything is done
    python -m tests.reliability.run --seconds 600                        # start nothing new after ten minutes
    python -m tests.reliability.run --parts kills soak --show            # print the results
    python -m tests.reliability.run --portions 1 --out /tmp/short.json   # only the first portion of every part

Every part is divided into portions. The result of a portion is kept in a file when it ends, so the next call continues there.
``docs/_tools/release_tables.py`` makes the tables of the page from this file. The exit status is 1 if a guarantee was violated,
and 3 if portions are left. The test suite runs the same functions with small numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reliability import cluster, damage, interrupts, readonly
from tests.reliability.harness import ENVIRONMENT, ROOT, Figure, Job, Launcher, scratch

RESULTS = Path(__file__).with_name("results.json")
WORK = ROOT / "build" / "long-run"
"""Directory of the inputs that the fuzzer found."""

DONE, WRONG, LEFT = 0, 1, 3


@dataclass(frozen=True)
class Part:
    """Figures that are measured together.

    Args:
        full: Number of cases.
        portion: Number of cases per portion.
        run: Function of the first case and the number of cases.
    """

    full: int
    portion: int
    run: Callable[[int, int], list[Figure]]

    @property
    def portions(self) -> int:
        """Return the number of portions."""
        return -(-self.full // self.portion)

    def measure(self, number: int) -> list[Figure]:
        """Return the figures of a portion."""
        first = number * self.portion
        return self.run(first, min(self.portion, self.full - first))


def _with_launcher(function: Callable[..., Figure], *arguments: Any, **options: Any) -> list[Figure]:
    with scratch() as folder, Launcher(Path(folder)) as launcher:
        return [function(launcher, Path(folder), Job(), *arguments, **options)]


def kills(first: int, count: int, cold: bool = False) -> list[Figure]:
    """Kill runs at random moments."""
    return _with_launcher(interrupts.random_kills, count, cold, seed=interrupts.SEED + 2 * first)


def others(first: int, count: int) -> list[Figure]:
    """Measure one of the figures of interrupted and reading runs."""
    figures: list[Callable[[], list[Figure]]] = [
        lambda: _with_launcher(interrupts.named_kills, (1, 3)),
        lambda: _with_launcher(interrupts.file_limits, 20),
        lambda: _with_launcher(interrupts.full_disk, 10),
        lambda: _with_launcher(interrupts.signals, 10),
        lambda: _with_launcher(interrupts.two_writers, 10),
        lambda: _with_launcher(readonly.read_only, {**os.environ, **ENVIRONMENT}),
    ]
    return [figure for number in range(first, first + count) for figure in figures[number]()]


def clusters(first: int, count: int) -> list[Figure]:
    """Run some of the failures of Dask clusters."""
    found = []
    for number in range(first, first + count):
        with scratch() as folder:
            found.append(cluster.FIGURES[number](Path(folder)))
            found[-1].name = f"Dask: {found[-1].name}"
    return found


def mutations(first: int, count: int) -> list[Figure]:
    """Run a slice of the mutation catalogue through all consumers."""
    figure = Figure("mutated stores")
    cells = WORK / "cells.jsonl"
    cells.unlink(missing_ok=True)
    text = _run(
        "tests.store.mutation_runner", "--slice", f"{first}/{PARTS['mutations'].full}", "--cells", cells
    )
    rows = [json.loads(line) for line in cells.read_text().splitlines()]
    figure.count = len({row["mutation"] for row in rows})
    figure.tally["runs of a consumer"] = len(rows)
    figure.tally.update({"refused": 0, "right": 0})
    for row in rows:
        names = {"refused": "refused", "ok": "right"}
        figure.expect(
            row["kind"] in names, f"{row['mutation']}, {row['consumer']}: {row['kind']}: {row['text']}"
        )
        figure.tally[names.get(row["kind"], "wrong")] += 1
    figure.expect(bool(rows) and count == 1, f"no results: {text[-500:]}")
    return [figure]


def fuzz(first: int, count: int) -> list[Figure]:
    """Fuzz for a number of seconds. The inputs that were found are kept for the next portion."""
    figure, findings = Figure("fuzzed stores", count), WORK / f"findings-{first}"
    words = ["--seconds", count, "--corpus", WORK / "corpus", "--findings", findings, "--seed", first]
    text = _run("tests.fuzz.store_fuzz", *words)
    last = text.splitlines()[-1].split()
    figure.tally["inputs"] = int(last[0])
    figure.note = "guided by coverage" if "with atheris" in text else "random"
    for line in text.splitlines()[1:-1]:
        figure.expect(False, line)
    return [figure]


def _run(module: str, *words: object) -> str:
    WORK.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout


def _in_child(module: str) -> Callable[[int, int], list[Figure]]:
    """Return a function that runs a module, which prints its figure as JSON."""

    def run(first: int, count: int) -> list[Figure]:
        found = json.loads(_run(module, "--first", first, "--count", count).splitlines()[-1])
        return [Figure.from_row(found)]

    return run


PARTS = {
    "others": Part(6, 1, others),
    "kills": Part(1000, 50, kills),
    "cold kills": Part(20, 10, lambda first, count: kills(first, count, cold=True)),
    "flips": Part(10_000, 500, lambda first, count: damage.flips(count, first)),
    "truncations": Part(1000, 500, lambda first, count: damage.truncations(count, first)),
    "clusters": Part(len(cluster.FIGURES), 1, clusters),
    "ddp": Part(12, 3, _in_child("tests.reliability.ddp")),
    "soak": Part(1000, 50, _in_child("tests.reliability.soak")),
    "mutations": Part(24, 1, mutations),
    "fuzz": Part(3600, 300, fuzz),
}
"""All parts in their order. ``mutations`` counts slices of the catalogue, ``fuzz`` counts seconds."""


class Results:
    """File of the portions that were measured.

    Args:
        path: JSON file. It need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: dict[str, dict[str, Any]] = {}
        if path.exists():
            self.parts = json.loads(path.read_text())["parts"]

    def is_done(self, part: str, number: int) -> bool:
        """Return True if a portion was measured."""
        return str(number) in self.parts.get(part, {})

    def add(self, part: str, number: int, figures: list[Figure], seconds: float) -> None:
        """Keep the figures of a portion."""
        entry = {
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": round(seconds, 1),
            "figures": [figure.row() for figure in figures],
        }
        self.parts.setdefault(part, {})[str(number)] = entry
        # Parts are written one after the other by the same program: there is no other writer.
        ordered = {name: self.parts[name] for name in PARTS if name in self.parts}
        text = json.dumps({"versions": versions(), "parts": ordered}, indent=1)
        self.path.with_suffix(".new").write_text(text + "\n")
        self.path.with_suffix(".new").replace(self.path)

    def totals(self, part: str) -> list[tuple[Figure, float]]:
        """Return the figures of a part, added up over its portions by name, with their seconds."""
        found: dict[str, tuple[Figure, float]] = {}
        for entry in self.parts.get(part, {}).values():
            for row in entry["figures"]:
                one = Figure.from_row(row)
                figure, seconds = found.get(one.name, (Figure(one.name), 0.0))
                figure.add(one)
                found[one.name] = (figure, seconds + entry["seconds"] / len(entry["figures"]))
        return list(found.values())


def versions() -> dict[str, str]:
    """Return the versions that the figures belong to."""
    import platform
    from importlib import metadata

    names = ("tgp-coarsen", "torch", "numpy", "numba", "h5py", "distributed")
    return {"Python": platform.python_version()} | {name: metadata.version(name) for name in names}


def show(results: Results) -> None:
    """Print a table of all figures."""
    for name, part in PARTS.items():
        done = len(results.parts.get(name, {}))
        print(f"{name}: {done} of {part.portions} portions")
        for figure, seconds in results.totals(name):
            text = f"  {figure.name:50} {figure.count:7,} {len(figure.problems):4} {seconds:7.0f} s  {figure.remark()}"
            print(text)
            for problem in figure.problems[:5]:
                print(f"      {problem[:1000]}")


def measure(results: Results, chosen: list[str], seconds: float, portions: int | None = None) -> int:
    """Measure the portions that are missing and return the exit status.

    Args:
        results: File of results.
        chosen: Names of parts.
        seconds: Time after which no portion is started.
        portions: Number of portions per part; all by default.
    """
    end = time.monotonic() + seconds
    for name in chosen:
        part = PARTS[name]
        for number in range(min(part.portions, portions or part.portions)):
            if results.is_done(name, number):
                continue
            if time.monotonic() > end:
                return LEFT
            started = time.monotonic()
            try:
                figures = part.measure(number)
            except (TimeoutError, RuntimeError) as error:
                figures = [Figure(name, note="stopped", problems=[str(error)])]
            results.add(name, number, figures, time.monotonic() - started)
            wrong = sum(len(figure.problems) for figure in figures)
            took = f"{time.monotonic() - started:.0f} s"
            print(f"{name} {number + 1}/{part.portions}: {took}, {wrong} wrong", flush=True)
    return DONE


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of results")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start no portion after this time"
    )
    parser.add_argument("--portions", type=int, metavar="N", help="measure the first N portions of each part")
    parser.add_argument("--again", action="store_true", help="forget the results of the chosen parts first")
    parser.add_argument("--show", action="store_true", help="print the table and measure nothing")
    given = parser.parse_args()
    results = Results(given.out)
    if given.again:
        for name in given.parts:
            results.parts.pop(name, None)
    status = DONE if given.show else measure(results, given.parts, given.seconds, given.portions)
    show(results)
    wrong = any(figure.problems for name in PARTS for figure, _ in results.totals(name))
    return WRONG if wrong else status


if __name__ == "__main__":
    sys.exit(main())
