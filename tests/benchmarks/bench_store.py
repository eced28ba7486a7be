"""Time to start, to write, to open a store of a million graphs, to read one graph, to resume.

Run: ``python tests/benchmarks/bench_store.py``. The calibration is a sort of a million numbers and the import of the
libraries alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.data.sampler import PoolBatchSampler
from tgp.ragged import Field, GraphTable
from tgp.store import StoreReader
from tgp.testing.stores import build_store

MILLION = 1_000_000


def best(function: Callable[[], object], runs: int = 5) -> float:
    """Return the milliseconds of the fastest call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def run(*words: str) -> Callable[[], object]:
    """Run a process."""
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)


def row(what: str, value: str, aim: str = "") -> None:
    """Print a row of the table."""
    print(f"| {what} | {value} | {aim} |", flush=True)


def written(config: CoarsenConfig) -> tuple[float, float]:
    """Return the graphs per second of wall and processor time, from the opened dataset to the manifest."""
    started: dict[str, float] = {}
    summary = coarsen_dataset(
        config, progress=lambda step: started.setdefault(step.stage, time.process_time())
    )
    seconds = time.process_time() - started["coarsening"]
    return summary.graphs_per_second or 0.0, summary.num_graphs / seconds


def writing(folder: Path) -> None:
    """Measure the complete build of a store from arrays, without opening the dataset."""
    for graphs in (10_000, 100_000):
        # The graphs of another store: opened quickly, as often as needed.
        source = folder / f"source-{graphs}"
        given = CoarsenConfig(f"molecules:num_graphs={graphs}", poolers=("nopool",), out=source, workers=1)
        coarsen_dataset(given)
        for schedule, metrics in product(("graclus*3", "kmis*3"), (True, False)):
            out, rates = folder / "out", []
            for _ in range(5):
                shutil.rmtree(out, ignore_errors=True)
                rates.append(
                    written(
                        CoarsenConfig(str(source), poolers=(schedule,), out=out, workers=1, metrics=metrics)
                    )
                )
            wall, cpu = (max(column) for column in zip(*rates, strict=True))
            name = (
                f"`{schedule}`, {graphs:,} molecules, one process{'' if metrics else ', no quality figures'}"
            )
            row(name, f"{wall:,.0f} graphs/s, {cpu:,.0f} per cpu s", "100,000")
        shutil.rmtree(source)


def reading(folder: Path) -> None:
    """Measure large stores of tiny graphs."""
    path = folder / "million"
    node_ptr = np.arange(0, 2 * MILLION + 1, 2)
    ends = np.tile(np.array([[0, 1], [1, 0]]), MILLION)
    fields = {
        "edge_index": Field("edge_index", ends, node_ptr, axis=-1, shifted=True),
        "y": Field("y", np.arange(MILLION), np.arange(MILLION + 1)),
    }
    build_store(path, GraphTable(node_ptr, fields), num_units=16)
    row("open a store of 1 M graphs", f"{best(lambda: StoreReader(path)):.1f} ms", "50")
    reader = StoreReader(path)
    reader.gather_graphs([5]), reader.gather_levels([5], "halve")
    one = best(lambda: (reader.gather_graphs([5]), reader.gather_levels([5], "halve")), 200)
    row("read one graph and its levels", f"{one:.2f} ms", "1")
    small = folder / "hundred-thousand"
    cut = {
        "edge_index": Field("edge_index", ends[:, :200_000], node_ptr[:100_001], axis=-1, shifted=True),
        "y": Field("y", np.arange(100_000), np.arange(100_001)),
    }
    build_store(small, GraphTable(node_ptr[:100_001], cut), num_units=4)
    inspect = best(run("-m", "tgp_cli.main", "inspect", str(small)))
    row("`tgp inspect`, 100,000 graphs", f"{inspect:.0f} ms", "500")


def main() -> None:
    values = np.random.default_rng(0).random(MILLION)
    print("| what | measured | aim |\n|---|---|---|")
    row("calibration: sort of 1 M float64", f"{best(lambda: np.sort(values)):.0f} ms")
    row("calibration: `python -c 'import typer'`", f"{best(run('-c', 'import typer')):.0f} ms")
    row("`tgp --help`", f"{best(run('-m', 'tgp_cli.main', '--help')):.0f} ms", "300")
    with tempfile.TemporaryDirectory() as folder:
        writing(Path(folder))
        reading(Path(folder))
    sampler = PoolBatchSampler(MILLION, batch_size=128, shuffle=True)
    state = sampler.state_dict() | {"position": 900_000}

    def resume() -> None:
        sampler.load_state_dict(state)
        next(iter(sampler))

    row("resume at 90 % of 1 M graphs", f"{best(resume):.2f} ms", "50")


if __name__ == "__main__":
    main()
