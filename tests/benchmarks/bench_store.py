"""Time to start, to write, to open a store of a million graphs, to read one graph, to resume, to verify.

Run: ``python tests/benchmarks/bench_store.py [files] [steps] [rates] [reading]``, by default all of them. The calibration is a sort of a million numbers, the import of the libraries alone, and beside each figure
of writing and reading the time to write or to hash the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.build.estimates import attribute_bytes
from tgp.build.units import topology
from tgp.data.sampler import PoolBatchSampler
from tgp.engine import parse_schedule
from tgp.engine.coarsening import coarsen_with_failures
from tgp.engine.metrics import hierarchy_metrics
from tgp.engine.unit_plan import plan_units
from tgp.ragged import Field, GraphTable
from tgp.sources.source import open_source
from tgp.sources.tables import slice_table
from tgp.store import HierarchySpec, StoreReader, StoreSpec, StoreWriter, data_digest
from tgp.store.verify import verify_store
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
            row(name, f"{wall:,.0f} graphs/s, {cpu:,.0f} per cpu s", "150,000")
        shutil.rmtree(source)


class Steps:
    """Processor time of the steps of a run, in milliseconds."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def call(self, step: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function and add its processor time to a step."""
        start = time.process_time()
        result = function(*args, **options)
        self.spent[step] = self.spent.get(step, 0.0) + 1e3 * (time.process_time() - start)
        return result


def run_steps(source: Path, schedule_text: str, out: Path) -> dict[str, float]:
    """Write a store step by step in this thread, and return the processor time of each step."""
    steps, schedule = Steps(), parse_schedule(schedule_text)
    table = steps.call("open", open_source, str(source)).table
    digest = steps.call("digest", data_digest, table)
    nodes, edges = np.diff(table.node_ptr), np.diff(table.fields["edge_index"].ptr)
    plan = steps.call("plan", lambda: plan_units(nodes, edges, schedule, extra_bytes=attribute_bytes(table)))
    spec = StoreSpec(
        {}, digest, table.num_graphs, plan.bounds, "fast", (HierarchySpec("h", schedule.to_json(), 0),)
    )
    writer, sync = StoreWriter.open(out, spec), os.fsync
    os.fsync = lambda descriptor: steps.call("sync", sync, descriptor)
    try:
        for unit, (low, high) in enumerate(pairwise(plan.bounds)):
            steps.call("write", writer.write_graphs, unit, slice_table(table, low, high))
            block = steps.call("CSR", lambda a, b: topology(table, a, b).to_block(), low, high)
            hierarchy, _ = steps.call("engine", coarsen_with_failures, block, schedule, 0)
            metrics = steps.call("figures", hierarchy_metrics, block, hierarchy)
            steps.call("write", writer.write_hierarchy, unit, "h", hierarchy, metrics=metrics)
        steps.call("write", writer.publish)
    finally:
        os.fsync = sync
    steps.spent["write"] -= steps.spent["sync"]
    return steps.spent


def whole_run(source: Path, schedule: str, out: Path) -> None:
    """Write a store as `tgp coarsen` does, from the files of the dataset to the manifest."""
    shutil.rmtree(out, ignore_errors=True)
    coarsen_dataset(CoarsenConfig(str(source), poolers=(schedule,), out=out, workers=1))


def write_and_sync(files: list[bytes], folder: Path) -> tuple[float, float]:
    """Return the processor time and the wall time to write and sync some bytes, in milliseconds."""
    start, started = time.process_time(), time.perf_counter()
    for number, data in enumerate(files):
        with open(folder / f"calibration-{number}", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    return 1e3 * (time.process_time() - start), 1e3 * (time.perf_counter() - started)


def writing_steps(folder: Path) -> None:
    """Measure the steps of writing many small graphs and one large graph."""
    molecules, large, out = folder / "molecules", folder / "large.npz", folder / "steps"
    coarsen_dataset(
        CoarsenConfig("molecules:num_graphs=100000", poolers=("nopool",), out=molecules, workers=1)
    )
    side = 1000
    grid = np.arange(side * side).reshape(side, side)
    right, down = (grid[:, :-1], grid[:, 1:]), (grid[:-1], grid[1:])
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in (right, down)], axis=1)
    pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
    x = np.random.default_rng(0).random((side * side, 64), dtype=np.float32)
    np.savez(large, edge_index=pairs[:, np.lexsort(pairs[::-1])], x=x)
    for name, source, schedule in (
        ("100,000 molecules, `graclus*3`", molecules, "graclus*3"),
        ("one graph of 10^6 nodes with x[64], `graclus`", large, "graclus"),
    ):
        runs = []
        for _ in range(4):
            shutil.rmtree(out, ignore_errors=True)
            runs.append(run_steps(source, schedule, out))
        fastest = min(runs[1:], key=lambda spent: sum(spent.values()))
        files = [path.read_bytes() for path in sorted(out.glob("*.h5"))]
        total, size = sum(fastest.values()), sum(map(len, files)) / 1e6
        write, write_wall = write_and_sync(files, folder)
        row(f"{name} ({size:.0f} MB), processor time in one thread", f"{total:.0f} ms")
        for step, spent in fastest.items():
            aim = "150" if step == "figures" and source == molecules else ""
            row(f"- {step}", f"{spent:.0f} ms", aim)
        prepared = sum(fastest[step] for step in ("open", "digest", "plan"))
        row("- open + digest + plan", f"{prepared:.0f} ms", "150" if source == molecules else "")
        row("- calibration: write and sync the same bytes", f"{write:.0f} ms")
        row("- calibration: SHA-256 of the same bytes", f"{hash_files(out):.0f} ms")
        row("- total / write and sync", f"{total / write:.1f}", "5" if source == large else "")
        wall = best(lambda given=source, text=schedule: whole_run(given, text, out), 4)
        row(
            "- wall time of a run with two threads / write and sync",
            f"{wall / write_wall:.1f} ({wall:.0f} ms)",
        )
    shutil.rmtree(molecules)


def hash_files(path: Path) -> float:
    """Return the processor time to hash the shards of a store, in milliseconds."""
    start = time.process_time()
    for file in path.glob("*.h5"):
        with open(file, "rb") as opened:
            hashlib.file_digest(opened, "sha256")
    return 1e3 * (time.process_time() - start)


def measure_process(code: str, *args: Path) -> tuple[float, int]:
    """Run code in a new process and return its processor time in seconds and its largest memory in bytes."""
    # The peak of getrusage contains the memory of the process that started this one.
    end = (
        "peak = re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1];"
        "print(time.process_time() - start, peak)"
    )
    text = f"import re, sys, time; from pathlib import Path; start = time.process_time(); {code}; {end}"
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, args)], check=True, capture_output=True, text=True
    )
    seconds, peak = done.stdout.split()
    return float(seconds), 1024 * int(peak)


def large_files(folder: Path) -> None:
    """Measure opening an npz file of 1 GB with a million graphs, the memory of a run with workers, and verifying."""
    path, out = folder / "million.npz", folder / "million-store"
    ring = np.arange(12)
    edges = np.stack([np.r_[ring, (ring + 1) % 12], np.r_[(ring + 1) % 12, ring]])
    edges = edges[:, np.lexsort(edges[::-1])]
    np.savez(
        path,
        edge_index=np.tile(edges, (1, MILLION)),
        node_ptr=12 * np.arange(MILLION + 1),
        edge_ptr=24 * np.arange(MILLION + 1),
        x=np.random.default_rng(0).random((12 * MILLION, 12), dtype=np.float32),
        y=np.arange(MILLION) % 2,
    )
    size = path.stat().st_size
    seconds, peak = measure_process(
        "from tgp.sources.source import open_source; open_source(sys.argv[1])", path
    )
    row("open a 1 GB npz file with 10^6 graphs, processor time", f"{seconds:.2f} s", "2")
    row("- memory / size of the file", f"{peak / size:.2f}")
    code = (
        "from tgp.build import CoarsenConfig, coarsen_dataset;"
        "coarsen_dataset(CoarsenConfig(sys.argv[1], poolers=('graclus*3',), out=Path(sys.argv[2]), workers=2))"
    )
    _, peak = measure_process(code, path, out)
    row("memory of the parent of a run with two workers / size of the file", f"{peak / size:.2f}", "1.5")
    start = time.process_time()
    assert not verify_store(out)
    spent = 1e3 * (time.process_time() - start)
    hashed = hash_files(out)
    row("verify this store / SHA-256 of its files, processor time", f"{spent / hashed:.2f}", "2")
    row("- verify, SHA-256", f"{spent:.0f} ms, {hashed:.0f} ms")


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
    measures = {"files": large_files, "steps": writing_steps, "rates": writing, "reading": reading}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(measures))
    parts = parser.parse_args().parts or list(measures)
    for name in set(parts) - set(measures):
        parser.error(f"there is no part {name}")
    values = np.random.default_rng(0).random(MILLION)
    print("| what | measured | aim |\n|---|---|---|")
    row("calibration: sort of 1 M float64", f"{best(lambda: np.sort(values)):.0f} ms")
    row("calibration: `python -c 'import typer'`", f"{best(run('-c', 'import typer')):.0f} ms")
    row("`tgp --help`", f"{best(run('-m', 'tgp_cli.main', '--help')):.0f} ms", "300")
    with tempfile.TemporaryDirectory() as folder:
        for name in parts:
            measures[name](Path(folder))
    sampler = PoolBatchSampler(MILLION, batch_size=128, shuffle=True)
    state = sampler.state_dict() | {"position": 900_000}

    def resume() -> None:
        sampler.load_state_dict(state)
        next(iter(sampler))

    row("resume at 90 % of 1 M graphs", f"{best(resume):.2f} ms", "50")


if __name__ == "__main__":
    main()
