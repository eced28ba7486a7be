"""Speed of two workers compared with one, on datasets for which pooling takes most of the time. Run: ``python tests/benchmarks/bench_workers.py``.

Every line is ``tgp coarsen`` as a user starts it: Python, opening the dataset, starting workers, coarsening,
writing and the manifest, with compiled kernels in the cache. The graphs are those of another
store, so that opening them is reading files, as with a real set. ``cpu`` are the seconds of all
processes together: where two workers take more of them than one, work was added; where wall time is more than its
share, cores were idle or busy with something else. The calibration runs a fixed amount of work once and twice at a time: its
ratio is the best that two processes of this machine can reach at the moment.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETS = {"eigen:k=5,eigen:k=3": 60_000, "ndp*2": 60_000, "nmf:k=8,nmf:k=4": 30_000}
"""Numbers of molecules by schedule that take 20 to 30 s on one core."""

SPIN = "total = 0\nfor i in range(30_000_000): total += i"


def timed(*commands: list[str]) -> tuple[float, float]:
    """Return the wall and processor seconds of concurrent commands."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    # A worker uses one thread; so does a run without workers here, or threads would be compared with processes.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    running = [subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment) for words in commands]
    for process in running:
        if process.wait() != 0:
            raise SystemExit(f"failed: {process.args}")
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def coarsen(source: str | Path, pooler: str, workers: int, out: Path) -> tuple[float, float]:
    """Return the seconds of one run."""
    shutil.rmtree(out, ignore_errors=True)
    words = ["coarsen", "-d", str(source), "-p", pooler, "-j", str(workers), "-o", str(out)]
    return timed([sys.executable, "-m", "tgp_cli.main", *words])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2, help="runs per line; the fastest counts")
    parser.add_argument("--divide", type=int, default=1, help="take so many times fewer graphs")
    options = parser.parse_args()
    spin = [sys.executable, "-c", SPIN]
    one = min(timed(spin)[0] for _ in range(3))
    two = min(timed(spin, spin)[0] for _ in range(3))
    print(f"calibration: {one:.2f} s alone, {two:.2f} s for two at once: at best {2 * one / two:.2f} times\n")
    print("| schedule | graphs | one: wall s | cpu s | two: wall s | cpu s | times faster | aim |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pooler, graphs in SETS.items():
            graphs //= options.divide
            coarsen(
                "molecules:num_graphs=64", pooler, 1, folder / "first"
            )  # compiles what is not in the cache
            coarsen(f"molecules:num_graphs={graphs}", "nopool", 1, folder / "graphs")
            best = [
                min(coarsen(folder / "graphs", pooler, workers, folder / "out") for _ in range(options.runs))
                for workers in (1, 2)
            ]
            cells = [f"{wall:.1f} | {cpu:.1f}" for wall, cpu in best]
            ratio = best[0][0] / best[1][0]
            print(f"| `{pooler}` | {graphs:,} | {cells[0]} | {cells[1]} | {ratio:.2f} | 1.7 |", flush=True)


if __name__ == "__main__":
    main()
