"""Reduction methods and libraries that do the same steps, and the figures that the methods must reach.

    python tests/benchmarks/bench_reduction.py [--data ../shared/data] [--divide N] [--limit SECONDS] [--parts steps,growth,bytes,aims]

*steps*: one level of every method and the same step of networkit, pyamg, pymetis, igraph and scikit-network on a grid, an RMAT graph, a
graph of preferential attachment, the roads of New York and Coauthor Physics: million edges per processor second, added memory, supernodes / nodes,
share of cut edges and modularity. *growth*: exponents of the time of our methods. *bytes*: checksums with one and two threads, and of stores
of one and two workers. *aims*: what the methods must reach, from these figures and a few more.

Every program runs in a separate process on one thread, and is ended after ``--limit`` processor seconds. ``A x`` is the calibration: scipy's sparse
matrix times vector on the same graph. Libraries that are not installed are left out. Names given by ``--graphs`` and ``--methods`` must be contained in the
names of graphs and libraries. igraph has the GPL: install it for this comparison only.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(
    "NUMBA_NUM_THREADS", str(max(os.cpu_count() or 1, 2))
)  # children limit themselves to one thread
sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

import tgp
from tests.benchmarks import _reduction as child
from tests.benchmarks.bench_external import digests
from tests.benchmarks.bench_families import measure_cell
from tests.benchmarks.bench_methods import calibration
from tgp.engine import METHODS
from tgp.testing.graphs import with_attributes

GRAPHS = ("grid 1000000", "grid at random 1000000", "RMAT 262144", "BA 300000", "NY", "Physics")
SCATTERED = ("A x", "hem", "graclus", "affinity", "bistride", "networkit match", "standard")
"""Programs on the grid with nodes in random order: those whose time depends on memory access."""

GROWTH = (
    "hem",
    "lv",
    "leiden",
    "louvain",
    "bistride",
    "affinity",
    "simmatch",
    "ugc",
    "partition:k=16",
    "collapse",
    "graclus",
    "amg",
)
SIZES = (20_000, 80_000, 320_000)
"""Numbers of edges of the graphs on which growth is measured."""

TENTHS = "/".join(f"{ratio:.2f}" for ratio in np.arange(0.55, 0.05, -0.05))
"""Ten ratios, 0.55 to 0.10, those of the published times of AH-UGC."""

FAMILIES = ("grid", "BA", "RMAT")
"""Families of graphs on which growth is measured."""

HEADERS = {
    "graphs": ("graph", "nodes", "edges", "A x, ms"),
    "steps": ("graph", "step", "library", "M edges/s", "cpu s", "x A x", "added MB", "kept", "cut", "modularity"),
    "growth": ("exponent of time, time of the largest", *FAMILIES),
    "bytes": ("same bytes", "1 and 2 threads: grid", "1 and 2 threads: RMAT"),
    "aims": ("method", "must hold", "measured", "holds"),
}  # fmt: skip
"""Columns of the tables. ``run_all.py --page`` finds the tables of docs/performance.md by them."""

MATCH = child.MATCH
STORE = "molecules:num_graphs=2000"

Found = dict[str, Any]
Aim = tuple[str, str, str, bool]
"""Method, what must hold, what was measured, and True if it holds."""


class Bench:
    """Graphs as files in a temporary folder, and the figures that were measured so far.

    Args:
        options: Options of the command line.
        folder: Folder for files of graphs.
    """

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.data = options.data if options.data.is_dir() else None
        self.found: dict[tuple[str, str], Found] = {}
        self.features: Path | None = None

    def path(self, graph: str) -> Path | None:
        """Return the file of a graph, ``None`` if its data do not exist. It is written at the first call."""
        path = self.folder / f"{graph}.npz".replace(" ", "_")
        if not path.exists():
            block = child.make_graph(graph, self.data, self.options.divide)
            if block is None:
                return None
            child.save_graph(block, path)
        return path

    def measure(self, graph: str, name: str, needs: bool = False) -> Found:
        """Return the figures of a program or schedule on a graph. They are measured once."""
        path = self.path(graph)
        if (graph, name) not in self.found:
            features = self.physics_features() if needs else None
            found = (
                {"failure": "no file"}
                if path is None
                else child.measure(name, path, features, self.options.limit)
            )
            self.found[graph, name] = found
        return self.found[graph, name]

    def physics_features(self) -> Path:
        """Return the file of the features of Physics."""
        path = self.folder / "features.npy"
        if not path.exists() and self.data is not None:
            np.save(path, child.read_features(self.data / "Coauthor" / "Physics"))
        return path


def installed(program: child.Program) -> bool:
    """Return True if the package of a program and the method of its schedule exist."""
    if program.schedule and program.schedule.partition(":")[0] not in METHODS.entries:
        return False
    return importlib.util.find_spec(program.package) is not None


def needs_features(program: child.Program) -> bool:
    """Return True if the method of a program reads the features of the nodes."""
    return bool(program.schedule) and "x" in METHODS[program.schedule.partition(":")[0]].needs


def chosen(bench: Bench, graph: str) -> Iterator[tuple[str, child.Program]]:
    """Yield the names and programs that run on a graph."""
    for name, program in child.PROGRAMS.items():
        if bench.options.methods and not any(word in name for word in bench.options.methods.split(",")):
            continue
        if graph.startswith("grid at random") and not any(word in name for word in SCATTERED):
            continue
        if installed(program) and (graph == "Physics" or not needs_features(program)):
            yield name, program


def print_header(table: str) -> None:
    """Print the first two lines of a table."""
    print(f"\n| {' | '.join(HEADERS[table])} |\n" + "|---" * len(HEADERS[table]) + "|", flush=True)


def steps(bench: Bench) -> None:
    """Print the graphs, and the figures of every program."""
    print_header("graphs")
    words = bench.options.graphs.split(",")
    graphs = [
        graph for graph in GRAPHS if any(word in graph for word in words) and bench.path(graph) is not None
    ]
    for graph in graphs:
        found = bench.measure(graph, "scipy A x")
        print(
            f"| {graph} | {found['nodes']:,} | {found['edges']:,} | {1e3 * found['seconds']:.1f} |",
            flush=True,
        )
    print_header("steps")
    for graph in graphs:
        unit = bench.measure(graph, "scipy A x")["seconds"]
        for name, program in chosen(bench, graph):
            if program.step == "A x":
                continue
            found = bench.measure(graph, name, needs_features(program))
            print(f"| {graph} | {program.step} | {program.library} | {_figures(found, unit)} |", flush=True)


def _figures(found: Found, unit: float) -> str:
    if "failure" in found:
        return f"{found['failure']}" + " | " * 6
    speed = found["edges"] / found["seconds"] / 1e6
    texts = [
        f"{speed:.1f}" if speed >= 10 else f"{speed:.2f}",
        f"{found['seconds']:.3g}",
        f"{found['seconds'] / unit:,.0f}",
    ]
    texts.append(f"{found['memory']:.0f}")
    texts.append(f"{found['kept'][0] / found['nodes']:.4f}" if "kept" in found else "")
    texts += [f"{found[name]:.4f}" if name in found else "" for name in ("cut", "modularity")]
    return " | ".join(texts)


def growth(bench: Bench) -> None:
    """Print the exponents of the processor time of our methods over the number of edges."""
    names = [name for name in GROWTH if name.partition(":")[0] in METHODS.entries]
    print_header("growth")
    for name in names:
        texts = []
        for family in FAMILIES:
            cell = measure_cell(
                family, name, tuple(size // bench.options.divide for size in SIZES), bench.options.limit
            )
            power = cell["time_exponent"]
            bench.found[family, f"growth {name}"] = {"exponent": power}
            texts.append("failed" if power is None else f"{power:.2f}, {1e3 * cell['seconds'][-1]:.0f} ms")
        print(f"| {name} | {' | '.join(texts)} |", flush=True)


def same_bytes(bench: Bench) -> None:
    """Print if the arrays of one and two threads, and the files of one and two workers, are the same."""
    names = [name for name in GROWTH if name.partition(":")[0] in METHODS.entries]
    print_header("bytes")
    graphs = [
        with_attributes(child.make_graph(text, None))
        for text in ("grid 90000", "RMAT 8192")  # type: ignore[arg-type]
    ]
    for name in names:
        same = [len({child.digest(graph, name, threads) for threads in (1, 2)}) == 1 for graph in graphs]
        bench.found["all", f"threads {name}"] = {"same": all(same)}
        print(f"| {name} | {' | '.join('same' if one else 'DIFFERENT' for one in same)} |", flush=True)
    files = []
    for workers in (1, 2):
        out = bench.folder / f"store {workers}"
        schedules = {name.partition(":")[0]: name for name in names}
        tgp.coarsen(STORE, schedules, out, workers=workers, shard_size="200KB", progress=False)
        files.append(digests(out))
    bench.found["all", "workers"] = {"same": files[0] == files[1], "files": len(files[0])}
    equal = "the same" if files[0] == files[1] else "DIFFERENT"
    print(
        f"\nStores of all methods on `{STORE}` with 1 and 2 workers: {equal} bytes in {len(files[0])} files."
    )


def aims(bench: Bench) -> None:
    """Print what the methods must reach and what was measured."""
    print_header("aims")
    for part in (_speeds, _sizes, _times, _communities, _bistride, _partition, _bytes):
        for method, aim, measured, holds in part(bench):
            print(f"| {method} | {aim} | {measured} | {'yes' if holds else 'NO'} |", flush=True)


def _speeds(bench: Bench) -> Iterator[Aim]:
    limits = [("hem", MATCH, "grid 1000000", 10.0), ("hem", MATCH, "grid at random 1000000", 5.0)]
    limits += [("bistride", "every second front + links", "grid 1000000", 15.0)]
    limits += [
        (name, child.COMMUNITIES, graph, 2.0)
        for name in ("louvain", "leiden")
        for graph in GRAPHS
        if "random" not in graph
    ]
    for name, step, graph, limit in limits:
        found = bench.measure(graph, f"tgp {name} {step}")
        if "failure" in found:
            yield name, f"{limit:g} M edges/s, {graph}", found["failure"], False
        else:
            speed = found["edges"] / found["seconds"] / 1e6
            yield name, f"{limit:g} M edges/s, {graph}", f"{speed:.2f}", speed >= limit
    powers = [bench.found.get((family, "growth affinity"), {}).get("exponent") for family in FAMILIES]
    if None not in powers:
        text = ", ".join(f"{power:.2f}" for power in powers)
        yield (
            "affinity",
            f"linear: exponents of at most 1.2 ({', '.join(FAMILIES)})",
            text,
            max(powers) <= 1.2,
        )


def _sizes(bench: Bench) -> Iterator[Aim]:
    for graph in ("BA 300000", "RMAT 262144", "star 300000"):
        found = bench.measure(graph, f"tgp hem:ratio=0.1 {child.TENTH}")
        text = found.get("failure") or f"{found['kept'][0]:,} of {found['nodes']:,}"
        yield "hem", f"exactly a tenth of every component, {graph}", text, bool(found.get("exact"))
        found = bench.measure(graph, f"tgp hem {MATCH}")
        alone = found.get("isolated", 0)
        share = 1.0 if "failure" in found else (found["kept"][0] - alone) / (found["nodes"] - alone)
        yield (
            "hem",
            f"one level keeps at most 0.7 of the nodes with neighbours, {graph}",
            f"{share:.2f}",
            share <= 0.7,
        )


def _times(bench: Bench) -> Iterator[Aim]:
    for graph, schedule, what, limit in (
        ("DBLP", "lv:ratio=0.1", "DBLP to a tenth in 0.5 s", 0.5),
        ("DBLP", "hem:ratio=0.1", "DBLP to a tenth in 0.05 s", 0.05),
        ("Physics", f"hem:ratios={TENTHS}", "ten ratios of Physics in 1 s", 1.0),
    ):
        found = bench.measure(graph, schedule)
        exact = "" if found.get("exact") else ", sizes not exact"
        text = found.get("failure") or f"{found['seconds']:.3f} s{exact}"
        yield schedule.partition(":")[0], what, text, found.get("seconds", limit + 1) <= limit and not exact


def _communities(bench: Bench) -> Iterator[Aim]:
    methods = ("louvain", "leiden", "leiden:iterations=2")
    for graph, method in itertools.product((name for name in GRAPHS if "random" not in name), methods):
        found = bench.measure(graph, f"tgp {method} {child.COMMUNITIES}")
        reached = {
            name: other["modularity"]
            for name in child.RIVALS[method.partition(":")[0]]
            if "modularity" in (other := bench.found.get((graph, f"{name} {child.COMMUNITIES}"), {}))
        }
        if reached:
            own, others = found.get("modularity", 0.0), ", ".join(f"{k} {v:.4f}" for k, v in reached.items())
            holds = own >= 0.99 * max(reached.values())
            yield (
                method,
                f"modularity within 1 % of igraph and networkit, {graph}",
                f"{own:.4f}; {others}",
                holds,
            )
        if method == "leiden":
            parts, kept = found.get("parts", -1), found.get("kept", [0])[0]
            yield (
                method,
                f"connected communities, {graph}",
                f"{parts:,} connected parts of {kept:,}",
                parts == kept,
            )


def _bistride(bench: Bench) -> Iterator[Aim]:
    found = [bench.measure(f"components {count}", "bistride") for count in (1000, 4000, 16000)]
    if all("seconds" in one for one in found):
        times = [25e6 * one["seconds"] / one["nodes"] for one in found]
        text = ", ".join(f"{time:.2f}" for time in times)
        yield (
            "bistride",
            "linear in components: microseconds each of 1,000, 4,000 and 16,000",
            text,
            times[-1] <= 1.3 * times[0],
        )


def _partition(bench: Bench) -> Iterator[Aim]:
    for graph in (name for name in GRAPHS if "random" not in name):
        for k in child.CLUSTERS:
            step = child.PARTITION.format(k)
            found = bench.measure(graph, f"tgp partition:k={k} {step}")
            other = bench.found.get((graph, f"METIS k-way {step}"), {}).get("cut")
            kept = found.get("kept", [0])[0]
            balance = found.get("largest", 0) * k / max(found.get("nodes", 1), 1)
            yield (
                "partition",
                f"exactly {k} clusters, {graph}",
                f"{kept}, the largest {balance:.3f} of the mean",
                kept == k,
            )
            if other and graph in ("grid 1000000", "NY"):
                ratio = found.get("cut", 1.0) / other
                yield "partition", f"cut at most 1.1 of METIS, k = {k}, {graph}", f"{ratio:.3f}", ratio <= 1.1


def _bytes(bench: Bench) -> Iterator[Aim]:
    threads = {
        key[1].removeprefix("threads "): one
        for key, one in bench.found.items()
        if key[1].startswith("threads ")
    }
    if threads:
        wrong = [name for name, one in threads.items() if not one["same"]]
        text = f"differ: {', '.join(wrong)}" if wrong else f"{len(threads)} methods"
        yield "all", "the same arrays with 1 and 2 threads", text, not wrong
    if ("all", "workers") in bench.found:
        one = bench.found["all", "workers"]
        yield "all", "the same bytes of stores with 1 and 2 workers", f"{one['files']} files", one["same"]


PARTS = {"steps": steps, "growth": growth, "bytes": same_bytes, "aims": aims}


def main() -> None:
    """Print the tables of the chosen parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--divide", type=int, default=1, help="divide the numbers of nodes by this factor")
    parser.add_argument("--limit", type=float, default=25.0, help="processor seconds of one run")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--graphs", default="", help="words, separated by commas")
    parser.add_argument("--methods", default="", help="words, separated by commas")
    options = parser.parse_args()
    begin = time.perf_counter()
    print(calibration())
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        for part in options.parts.split(","):
            PARTS[part](bench)
    minutes = (time.perf_counter() - begin) / 60
    print(f"\n{calibration()}, {minutes:.1f} minutes in total", flush=True)


if __name__ == "__main__":
    main()
