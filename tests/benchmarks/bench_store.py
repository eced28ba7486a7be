"""Time to start, to open a store of a million graphs, to read one graph, to resume. Run: ``python tests/benchmarks/bench_store.py``.

The calibration is a sort of a million numbers and the import of the libraries alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tgp.data.sampler import PoolBatchSampler
from tgp.ragged import Field, GraphTable
from tgp.store import StoreReader
from tgp.testing.stores import build_store

MILLION = 1_000_000


def best(function: Callable[[], object], runs: int = 5) -> float:
    """Milliseconds of the fastest call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def run(*words: str) -> Callable[[], object]:
    """A process."""
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)


def main() -> None:
    values = np.random.default_rng(0).random(MILLION)
    print(f"calibration: sort of 1 M float64 {best(lambda: np.sort(values)):.0f} ms")
    print(f"python -c 'import typer'            {best(run('-c', 'import typer')):8.0f} ms")
    print(
        f"tgp --help                          {best(run('-m', 'tgp_cli.main', '--help')):8.0f} ms   aim 300"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million"
        node_ptr = np.arange(0, 2 * MILLION + 1, 2)
        ends = np.tile(np.array([[0, 1], [1, 0]]), MILLION)
        fields = {
            "edge_index": Field("edge_index", ends, node_ptr, axis=-1, shifted=True),
            "y": Field("y", np.arange(MILLION), np.arange(MILLION + 1)),
        }
        build_store(path, GraphTable(node_ptr, fields), num_units=16)
        print(f"open a store of 1 M graphs          {best(lambda: StoreReader(path)):8.1f} ms   aim 50")
        reader = StoreReader(path)
        reader.gather_graphs([5]), reader.gather_levels([5], "halve")
        one = best(lambda: (reader.gather_graphs([5]), reader.gather_levels([5], "halve")), 200)
        print(f"read one graph and its levels       {one:8.2f} ms   aim 1")
        small = Path(folder) / "hundred-thousand"
        cut = {
            "edge_index": Field("edge_index", ends[:, :200_000], node_ptr[:100_001], axis=-1, shifted=True),
            "y": Field("y", np.arange(100_000), np.arange(100_001)),
        }
        build_store(small, GraphTable(node_ptr[:100_001], cut), num_units=4)
        inspect = best(run("-m", "tgp_cli.main", "inspect", str(small)))
        print(f"tgp inspect, 100,000 graphs         {inspect:8.0f} ms   aim 500")
    sampler = PoolBatchSampler(MILLION, batch_size=128, shuffle=True)
    state = sampler.state_dict() | {"position": 900_000}

    def resume() -> None:
        sampler.load_state_dict(state)
        next(iter(sampler))

    print(f"resume at 90 % of 1 M graphs        {best(resume):8.2f} ms   aim 50")


if __name__ == "__main__":
    main()
