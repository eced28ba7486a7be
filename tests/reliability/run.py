"""Test the guarantees of a store and print one row per figure.

    python tests/reliability/run.py --kills 300 --flips 10000 --truncations 1000
    python tests/reliability/run.py --kills 0 --cold-kills 0 --turns --times 0 --flips 0 --truncations 0 --clusters

The exit status is 1 if a guarantee was violated. The test suite runs the same functions with small numbers.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.reliability import cluster, damage, interrupts, readonly  # noqa: E402 - needs the path above
from tests.reliability.harness import ENVIRONMENT, Figure, Job, Launcher, scratch  # noqa: E402


def figures(options: argparse.Namespace) -> Iterator[Callable[[], list[Figure]]]:
    """Yield a function for each figure."""
    job = Job(options.graphs, options.shard_size)
    environment = {**os.environ, **ENVIRONMENT}

    def with_launcher(function: Callable[..., Figure], *arguments: object) -> Callable[[], list[Figure]]:
        def call() -> list[Figure]:
            # Each figure has its own directory and server process, so that its stores are deleted afterwards.
            with scratch() as folder, Launcher(Path(folder)) as launcher:
                try:
                    return [function(launcher, Path(folder), job, *arguments)]
                except TimeoutError as error:
                    return [Figure(function.__name__, note="stopped after a hang", problems=[str(error)])]

        return call

    if options.kills:
        yield with_launcher(interrupts.random_kills, options.kills)
    if options.cold_kills:
        yield with_launcher(interrupts.random_kills, options.cold_kills, True)
    if options.turns:
        yield with_launcher(interrupts.named_kills, tuple(options.turns))
    if options.times:
        yield with_launcher(interrupts.file_limits, 2 * options.times)
        yield with_launcher(interrupts.full_disk, options.times)
        yield with_launcher(interrupts.signals, options.times)
        yield with_launcher(interrupts.two_writers, options.times)
        yield with_launcher(readonly.read_only, environment)
    if options.flips:
        yield lambda: damage.flips(options.flips)
    if options.truncations:
        yield lambda: damage.truncations(options.truncations)
    if options.clusters:
        for figure in cluster.FIGURES:
            yield functools.partial(_run_cluster, figure)


def _run_cluster(figure: Callable[[Path], Figure]) -> list[Figure]:
    with scratch() as folder:
        try:
            return [figure(Path(folder))]
        except TimeoutError as error:
            return [Figure("cluster", note="stopped after a hang", problems=[str(error)])]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=300, help="number of SIGKILLs at random times")
    parser.add_argument(
        "--cold-kills",
        type=int,
        default=20,
        help="number of SIGKILLs with a new Python process for each command",
    )
    parser.add_argument(
        "--turns", type=int, nargs="*", default=[1, 3], help="passes of each failpoint at which to kill"
    )
    parser.add_argument(
        "--times", type=int, default=10, help="number of full disks, signals and pairs of writers"
    )
    parser.add_argument("--flips", type=int, default=10000)
    parser.add_argument("--truncations", type=int, default=1000)
    parser.add_argument("--clusters", action="store_true", help="run the failures of Dask clusters, too")
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--shard-size", default="250kB")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run all figures and return the exit status."""
    failed = False
    print(f"{'figure':45} {'count':>6} {'wrong':>6} {'seconds':>8}  note")
    for figure in figures(parse(arguments)):
        started = time.monotonic()
        for result in figure():
            seconds = time.monotonic() - started
            wrong = len(result.problems)
            print(f"{result.name:45} {result.count:6} {wrong:6} {seconds:8.0f}  {result.note}", flush=True)
            for problem in result.problems[:5]:
                print(f"    {problem}", flush=True)
            failed |= bool(wrong)
    print("load average", *(f"{value:.1f}" for value in os.getloadavg()), "on", os.cpu_count(), "cores")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
