"""``PreCoarsening`` with one graph at a time, compared with tgp 1.0.2.

python tests/benchmarks/bench_transform.py --data DIR --peer-python PATH [--graphs 188] [--rounds 5] [--json FILE]

``DIR`` has the raw files of MUTAG in the layout of PyTorch Geometric (``TUDataset/MUTAG/raw``), ``PATH`` is an
interpreter with tgp 1.0.2, torch-scatter and, for graclus, torch-cluster. Both interpreters transform all graphs, one call per
graph, and take turns; a figure is graphs per second of processor time on one thread, the best of the rounds. What 1.0.2
cannot run is left out and named.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from _peer import Server, serve

SCHEDULES = {
    "ndp*2": ["ndp", "ndp"],
    "graclus*2": ["graclus", "graclus"],
    "kmis*2": [("kmis", {"scorer": "degree"})] * 2,
    "sep*3": ["sep", "sep", "sep"],
    "nmf:k=8,nmf:k=4": [("nmf", {"k": 8}), ("nmf", {"k": 4})],
    "eigen:k=5,eigen:k=3": [("eigen", {"k": 5}), ("eigen", {"k": 3})],
}
AIMS = {
    "ndp*2": 20, "graclus*2": 2, "kmis*2": 2, "sep*3": 10, "nmf:k=8,nmf:k=4": 5, "eigen:k=5,eigen:k=3": 20,
}  # fmt: skip
"""Desired speed of the transform relative to tgp 1.0.2."""


def serve_transforms(root: str, count: int) -> None:
    """Transform the graphs once for every request."""
    from torch_geometric.datasets import TUDataset

    from tgp.data import PreCoarsening

    graphs = list(TUDataset(root, "MUTAG"))[:count]

    def answer(what: str, name: str) -> float:
        transform = PreCoarsening(SCHEDULES[name])
        began = time.process_time()
        for data in graphs[:2] if what == "warm" else graphs:
            transform(data.clone())
        return time.process_time() - began

    serve(answer)


def compare(root: str, count: int, rounds: int, python: str) -> dict[str, dict[str, float]]:
    """Return the graphs per second of both releases."""
    here, there = (
        Server(found, __file__, "--data", root, "--graphs", str(count)) for found in (sys.executable, python)
    )
    print(f"| transform | {here.version} | {there.version} | times faster | aim |\n|---|---|---|---|---|")
    results = {}
    for name, aim in AIMS.items():
        try:
            for server in (here, there):
                server.ask("warm", name)
        except RuntimeError as error:
            print(f"{name} was not compared: {error}", file=sys.stderr)
            continue
        turns = [[server.ask("time", name) for server in (here, there)] for _ in range(rounds)]
        mine, other = (count / min(times) for times in zip(*turns, strict=True))
        results[name] = {"graphs/s": mine, "peer graphs/s": other, "times": mine / other, "aim": aim}
        print(
            f"| `{name}`, per graph | {mine:,.0f} | {other:,.0f} | {mine / other:.1f} | {aim} |", flush=True
        )
    here.close()
    there.close()
    return results


def main() -> None:
    """Compare two releases, or answer requests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of raw files")
    parser.add_argument("--peer-python", help="an interpreter that has tgp 1.0.2")
    parser.add_argument("--graphs", type=int, default=188)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.serve:
        serve_transforms(options.data, options.graphs)
        return
    if not options.peer_python:
        parser.error("--peer-python is needed: the interpreter to compare with")
    with tempfile.TemporaryDirectory() as folder:  # PyG writes beside the raw files
        shutil.copytree(Path(options.data) / "TUDataset" / "MUTAG" / "raw", Path(folder) / "MUTAG" / "raw")
        results = compare(folder, options.graphs, options.rounds, options.peer_python)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
