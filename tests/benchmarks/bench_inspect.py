"""Time of commands that only read, compared with importing the packages that they need.

    python tests/benchmarks/bench_inspect.py [--graphs 100000] [--pooler graclus*3] [--rounds 15]

Prints a Markdown table: best wall and processor time of whole processes, taken in turns. "compiled" runs find the
byte code of all modules on disk, as any installed package has it; "source" runs have none of ``tgp``, as with
PYTHONDONTWRITEBYTECODE=1 in a fresh clone.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEER = [sys.executable, "-c", "import h5py, numpy, typer, rich"]
TGP = [sys.executable, "-m", "tgp_cli.main"]


def measured(command, env):
    """Return the wall and processor seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=100_000)
    parser.add_argument("--pooler", action="append", help="default graclus*3")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    poolers = [word for text in options.pooler or ["graclus*3"] for word in ("--pooler", text)]
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        data = f"molecules:num_graphs={options.graphs}"
        subprocess.run([*TGP, "coarsen", "--dataset", data, *poolers, "--out", store, "--quiet"], check=True)
        base = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        ways = {
            "compiled": {**base, "PYTHONPYCACHEPREFIX": str(Path(folder) / "pyc")},
            "source": {
                **base,
                "PYTHONPYCACHEPREFIX": str(Path(folder) / "none"),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        }
        commands = {
            "import h5py, numpy, typer, rich": PEER,
            "tgp --help": [*TGP, "--help"],
            "tgp inspect STORE": [*TGP, "inspect", store],
            "tgp inspect STORE --graph 7": [*TGP, "inspect", store, "--graph", "7"],
            "tgp inspect STORE --spectral": [*TGP, "inspect", store, "--spectral"],
        }
        for command in commands.values():
            measured(command, ways["compiled"])
        best = {}
        for _ in range(options.rounds):
            for way, env in ways.items():
                for name, command in commands.items():
                    found = measured(command, env)
                    old = best.get((name, way), (float("inf"),) * 2)
                    best[name, way] = tuple(map(min, old, found))
        files = len(list(Path(store).glob("*.h5")))
    print(f"{options.graphs:,} graphs, {' '.join(poolers)}, {files} files, best of {options.rounds}\n")
    print("| command | compiled: wall s | cpu s | source: wall s | cpu s |\n|---|---|---|---|---|")
    for name in commands:
        cells = [f"{seconds:.3f}" for way in ways for seconds in best[name, way]]
        print(f"| `{name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
