"""Processor and wall seconds of a first run, with nothing compiled, and of the same run with a warm cache.

    python tests/benchmarks/bench_first_run.py [--tree OTHER]

Every run is ``tgp coarsen`` on 500 molecules in a new process. The cold run has an empty folder for compiled kernels; its figures
include the processes that compile. The peer is a process that imports numba and compiles one function of two lines: no program that
uses numba starts in less. ``--tree`` measures the package of another work tree in turns.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCHEDULES = {
    "graclus*2": ["-p", "graclus*2"],
    "ndp,eigen": ["-p", "ndp,eigen"],
    "sep*2": ["-p", "sep*2"],
    "all six": [word for name in ("graclus", "ndp", "kmis", "sep", "nmf", "eigen") for word in ("-p", name)],
}
PEER = "import numba\n@numba.njit\ndef add(a, b):\n    return a + b\nadd(1, 2)\n"


def measure(
    command: list[str], environment: dict[str, str], folder: Path | None = None
) -> tuple[float, float]:
    """Return the wall and processor seconds of a process and its descendants."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, cwd=folder)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_schedule(tree: Path, arguments: list[str]) -> list[float]:
    """Return wall and processor seconds of a cold run, and the least of three warm runs."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        cache.mkdir(mode=0o700)
        # Byte code is cached, as after an installation.
        environment = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
        measure([sys.executable, "-m", "compileall", "-q", "tgp", "tgp_cli"], environment, tree)
        runs = []
        for number in range(4):
            out = ["-d", "molecules", "-o", str(Path(folder, f"store{number}"))]
            runs.append(
                measure(
                    [sys.executable, "-m", "tgp_cli.main", "coarsen", *arguments, *out], environment, tree
                )
            )
        return [*runs[0], *map(min, zip(*runs[1:], strict=True))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", type=Path, help="work tree of another version, measured in turns")
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[2]
    trees = {"before": options.tree.resolve(), "after": here} if options.tree else {"after": here}
    wall, cpu = measure([sys.executable, "-c", PEER], {})
    print(
        f"Peer: import numba and compile one function of two lines: {wall:.2f} s wall, {cpu:.2f} s of processor time.\n"
    )
    print(
        "| first run | version | cold: wall s | cpu s | wall / cpu | warm: wall s | cpu s |\n|---|---|---|---|---|---|---|"
    )
    for name, arguments in SCHEDULES.items():
        for version, tree in trees.items():
            cold_wall, cold_cpu, warm_wall, warm_cpu = measure_schedule(tree, arguments)
            ratio = cold_wall / cold_cpu
            print(
                f"| `{name}` | {version} | {cold_wall:.1f} | {cold_cpu:.1f} | {ratio:.2f} | {warm_wall:.2f} | {warm_cpu:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
