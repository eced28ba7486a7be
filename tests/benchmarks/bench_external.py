"""Coarsen an RMAT graph from a file of edges in bounded memory, beside the run in memory of the same graph.

    python tests/benchmarks/bench_external.py --scale 20 --edges 20_000_000 --memory 800MB --folder rmat
    python tests/benchmarks/bench_external.py --scale 25 --edges 200_000_000 --memory 2GB --folder rmat --runs files levels
    python tests/benchmarks/bench_external.py --scale 25 --edges 200_000_000 --memory 2GB --folder rmat --schedule 'hem*3'
    python tests/benchmarks/bench_external.py --scale 25 --edges 200_000_000 --memory 2GB --folder rmat --schedule 'kmis*2'

The edges are written piece by piece to ``rmat-SCALE-EDGES.npy``; the list is never in memory. Each run is a process of its own. The run in
memory reads the graph of the store that the other run has written. For each level, the tables have wall and processor seconds of both runs
(matching and contraction, without the files of the store). Resident memory is the largest one that the operating system saw. It includes pages
of mapped files, which the system can take away at any time; anonymous memory is sampled and does not include them. The files of
all stores are compared by their digests. They are computed after each run and kept in ``digests.json`` of the folder, so that the stores can be
deleted. With ``--runs`` one run can be repeated, or made later; it is compared with the digests of the others.

The run ``levels`` computes each level in memory from the stored level before it, and compares its assignment and its edges with the stored ones. It
needs the memory of one level instead of that of all levels, and no disk.

``--dask N`` adds a run on a Dask cluster of N processes of this machine, with one thread each (``--threads`` gives them more). Its processor time and
memory are those of the client; a second table has those of the workers. Small graphs do not leave the client, see ``MIN_ENTRIES`` in
:mod:`tgp.build.external_ranges`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PIECE = 1 << 20
QUADRANTS = (0.57, 0.19, 0.19)


def write_rmat(path: Path, scale: int, num_edges: int, seed: int = 0) -> None:
    """Write the edges of an RMAT graph to a ``.npy`` file ``[E, 2]``, piece by piece.

    Args:
        path: File to write.
        scale: Logarithm of the number of nodes to base 2.
        num_edges: Number of edges, with duplicates and self loops.
        seed: Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    a, b, c = QUADRANTS
    names = rng.permutation(1 << scale).astype(np.int32)  # otherwise hubs have the smallest ids
    header = {"descr": "<i4", "fortran_order": False, "shape": (num_edges, 2)}
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for low in range(0, num_edges, PIECE):
            edges = np.zeros((min(PIECE, num_edges - low), 2), np.int32)
            for _ in range(scale):
                draw = rng.random(len(edges), np.float32)
                edges[:, 0] = 2 * edges[:, 0] + (draw >= a + b)
                edges[:, 1] = 2 * edges[:, 1] + (((draw >= a) & (draw < a + b)) | (draw >= a + b + c))
            file.write(names[edges].tobytes())
    temporary.replace(path)


# Processes that are measured --------------------------------------------------------------------


class Clock:
    """Times of the levels of a run.

    Args:
        per_level: Number of timed calls that make one level.
    """

    def __init__(self, per_level: int) -> None:
        self.per_level, self.calls = per_level, 0
        self.levels: list[list[float]] = []

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a measurement around it."""

        def timed(*arguments: Any, **options: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            result = function(*arguments, **options)
            if self.calls % self.per_level == 0:
                self.levels.append([0.0, 0.0])
            self.calls += 1
            self.levels[-1][0] += time.perf_counter() - wall
            self.levels[-1][1] += time.process_time() - cpu
            return result

        return timed


def work(kind: str, source: str, out: str, schedule: str, memory: str, threads: int, scheduler: str) -> None:
    """Coarsen a graph in this process and print the times of its levels."""
    from tgp.build import CoarsenConfig, coarsen_dataset, external
    from tgp.engine import coarsening, parse_schedule

    count = threads or None
    if kind == "levels":
        print(json.dumps(compute_levels(Path(source), schedule, count)))
        return
    if kind == "external":
        clock = Clock(1)
        external.coarsen_level = clock.wrap(external.coarsen_level)
        config = CoarsenConfig(
            source,
            poolers=schedule,
            out=out,
            memory=memory,
            threads=count,
            scheduler=scheduler or None,
        )
    else:
        clock = Clock(2)
        coarsening.assign_level = clock.wrap(coarsening.assign_level)
        coarsening.connect_level = clock.wrap(coarsening.connect_level)
        config = CoarsenConfig(
            source,
            poolers=schedule,
            out=out,
            max_input="1TB",
            metrics=False,
            workers=1,
            threads=count,
        )
    coarsen_dataset(config)
    clock.levels = clock.levels[
        -len(parse_schedule(schedule)) :
    ]  # kernels are loaded with tiny graphs before
    print(json.dumps({"levels": clock.levels}))


def compute_levels(store: Path, schedule: str, threads: int | None) -> dict[str, Any]:
    """Compute each level of a store from the stored level before it. Return the times, and if all levels are equal.

    Args:
        store: Store of one graph without weights.
        schedule: Its schedule.
        threads: Number of threads; ``None`` for all cores.
    """
    from tgp.build.compilation import kernels_of
    from tgp.engine import parse_schedule
    from tgp.engine.coarsening import assign_level, connect_level
    from tgp.engine.level_method import RandomKey
    from tgp.engine.threads import limit_threads
    from tgp.kernels.ahead import compile_ahead
    from tgp.store import StoreReader
    from tgp.store.read.mapped import map_assignment

    plan, reader = parse_schedule(schedule), StoreReader(store)
    compile_ahead(kernels_of([plan], metrics=False))
    ((name, seed),) = [(found.name, found.seed) for found in reader.manifest.spec.hierarchies]
    clock, is_equal = Clock(2), True
    assign, connect = clock.wrap(assign_level), clock.wrap(connect_level)
    with limit_threads(threads):
        block = read_rows(reader, name, 0)
        for number, spec in enumerate(plan):
            assignment = assign(block, spec, RandomKey(seed, number))
            coarse = connect(block, assignment, spec)
            stored = map_assignment(reader, 0, name, number + 1)
            block = read_rows(reader, name, number + 1)
            is_equal &= stored is not None and np.array_equal(stored.take(), assignment.cluster)
            is_equal &= np.array_equal(block.indptr, coarse.indptr)
            is_equal &= np.array_equal(block.indices, coarse.indices)
            del assignment, coarse, stored
    return {"levels": clock.levels, "equal": bool(is_equal)}


def read_rows(reader: Any, name: str, level: int) -> Any:
    """Return a level of the only graph of a store as rows in memory. The sources of its edges are read piece by piece."""
    from tgp.ragged import BlockCSR
    from tgp.store.read.mapped import map_graph

    graph = map_graph(reader, 0, name, level)
    source, target = graph.edge_index()
    indptr, step = np.zeros(graph.num_nodes + 1, np.int64), 1 << 24
    for low in range(0, len(source), step):
        rows = np.asarray(source[low : low + step]).astype(np.int64)
        counts = np.bincount(rows - rows[0])  # rows are sorted
        indptr[1 + rows[0] : 1 + rows[0] + len(counts)] += counts
    np.cumsum(indptr, out=indptr)
    return BlockCSR(indptr, np.asarray(target).astype(np.int32), None, np.array([0, graph.num_nodes]))


def measure(arguments: list[str]) -> dict[str, Any]:
    """Run this file with some arguments and return what it prints, with its time and memory."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, __file__, "--work", *arguments], stdout=subprocess.PIPE)
    anonymous = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            anonymous = max(anonymous, *(int(x.split()[1]) for x in lines if x.startswith("RssAnon")), 0)
        except (OSError, ValueError, TypeError):
            pass
        time.sleep(0.02)
    if status or process.stdout is None:
        raise SystemExit(f"the run {arguments[0]} failed")
    return {
        **json.loads(process.stdout.read()),
        "wall": time.perf_counter() - started,
        "cpu": usage.ru_utime + usage.ru_stime,
        "resident": usage.ru_maxrss / 1024,
        "anonymous": anonymous / 1024,
    }


def measure_cluster(count: int, arguments: list[str]) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Run this file on a Dask cluster of this machine. Return the measurement of the client, and those of the workers."""
    from distributed import Client, LocalCluster

    options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(**options) as cluster:
        found = measure([*arguments, cluster.scheduler_address])
        with Client(cluster) as client:
            workers = [client.run(read_usage)[address] for address in client.nthreads()]
    return found, workers


def read_usage() -> dict[str, float]:
    """Return processor time and resident memory of this process."""
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu": usage.ru_utime + usage.ru_stime, "resident": usage.ru_maxrss / 1024}


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each shard file of a store."""
    found = {}
    for path in sorted(folder.glob("*.h5")):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


# Tables -----------------------------------------------------------------------------------------


def show_levels(runs: dict[str, dict[str, Any]]) -> None:
    """Print the times of each level of each run, and their ratios to the last run."""
    names = list(runs)
    head = [f"{name}: {unit}" for name in names for unit in ("s", "cpu s")]
    head += [f"{name} / {names[-1]}" for name in names[:-1]]
    print(f"| level | {' | '.join(head)} |\n|{'---|' * (len(head) + 1)}")
    for number, levels in enumerate(zip(*(run["levels"] for run in runs.values()), strict=True)):
        row = [f"{value:.2f}" for level in levels for value in level]
        row += [f"{level[0] / levels[-1][0]:.2f}" for level in levels[:-1]]
        print(f"| {number + 1} | {' | '.join(row)} |")


def show_runs(runs: dict[str, dict[str, Any]]) -> None:
    """Print time and memory of whole runs."""
    print("\n| run | s | cpu s | resident MB | anonymous MB |\n|---|---|---|---|---|")
    for name, run in runs.items():
        figures = (
            f"{run['wall']:.1f}",
            f"{run['cpu']:.1f}",
            f"{run['resident']:.0f}",
            f"{run['anonymous']:.0f}",
        )
        print(f"| {name} | {' | '.join(figures)} |")


def main() -> None:
    """Run the benchmark."""
    if sys.argv[1:2] == ["--work"]:
        kind, source, out, schedule, memory, threads, *scheduler = sys.argv[2:]
        work(kind, source, out, schedule, memory, int(threads), "".join(scheduler))
        return
    given = read_options()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    edges = folder / f"rmat-{given.scale}-{given.edges}.npy"
    if not edges.exists():
        write_rmat(edges, given.scale, given.edges)
    wanted = [name for name in ("files", "dask", "memory", "levels") if name in given.runs]
    if given.dask and "dask" not in wanted:
        wanted.insert(wanted.index("files") + 1 if "files" in wanted else 0, "dask")
    options = [given.schedule, given.memory, str(given.threads)]
    runs: dict[str, dict[str, Any]] = {}
    found: dict[str, dict[str, str]] = {}
    workers: list[dict[str, float]] = []
    for name in wanted:
        store = folder / name
        shutil.rmtree(store, ignore_errors=True)
        shutil.rmtree(f"{store}.scratch", ignore_errors=True)
        if name == "files":
            runs[name] = measure(["external", str(edges), str(store), *options])
        elif name == "levels":
            runs[name] = measure(["levels", str(folder / "files"), str(store), *options])
            continue
        elif name == "dask":
            runs[name], workers = measure_cluster(given.dask, ["external", str(edges), str(store), *options])
        else:
            runs[name] = measure(["memory", str(folder / "files"), str(store), *options])
        found = record_digests(folder, f"{edges.stem} {given.schedule}", name, digests(store))
    print(f"RMAT scale {given.scale}, {given.edges:,} edges, {given.schedule}, --memory {given.memory}\n")
    show_levels(runs)
    show_runs(runs)
    if workers:
        print("\n| worker | cpu s | resident MB |\n|---|---|---|")
    for number, usage in enumerate(workers):
        print(f"| {number + 1} | {usage['cpu']:.1f} | {usage['resident']:.0f} |")
    same = len(set(map(json.dumps, found.values()))) <= 1
    if found:
        print(f"\nThe digests of the files of {', '.join(found)} are {'equal' if same else 'DIFFERENT'}.")
    if "levels" in runs:
        same &= runs["levels"]["equal"]
        print(
            f"The levels in memory are {'equal to' if runs['levels']['equal'] else 'DIFFERENT from'} the stored ones."
        )
    raise SystemExit(0 if same else 1)


def record_digests(folder: Path, key: str, name: str, found: dict[str, str]) -> dict[str, dict[str, str]]:
    """Record the digests of a store; return those of all runs of the same graph and schedule.

    Args:
        folder: Folder of the benchmark.
        key: Graph and schedule.
        name: Name of the run.
        found: Digest of each file.
    """
    path = folder / "digests.json"
    table = json.loads(path.read_text()) if path.exists() else {}
    table.setdefault(key, {})[name] = found
    path.write_text(json.dumps(table, indent=1, sort_keys=True))
    recorded: dict[str, dict[str, str]] = table[key]
    return recorded


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--schedule", default="hem*5")
    parser.add_argument("--memory", default="800MB")
    parser.add_argument("--threads", type=int, default=0, help="threads of each process; 0 for the default")
    parser.add_argument("--folder", type=Path, default=Path("rmat"))
    parser.add_argument("--dask", type=int, default=0, metavar="N", help="also run on N Dask workers")
    help_runs = "runs to make; 'memory' and 'levels' read the store that 'files' has written"
    names = ["files", "memory", "levels"]
    parser.add_argument("--runs", nargs="+", choices=names, default=["files", "memory"], help=help_runs)
    return parser.parse_args()


if __name__ == "__main__":
    main()
