"""Graphs per second from a store into batches, compared with the loaders of PyG.

    python tests/benchmarks/bench_loader.py [--data DIR] [--graphs 100000] [--seconds 0.4] [--json FILE]

Prints a Markdown table. Every figure is the best of the rounds over shuffled graphs, with a warm cache; competitors take
turns, so that a busy machine hits all of them. Worker processes are started before the clock. "bare gather" is one numpy
take of as many bytes as a batch holds, out of a large array: what no loader in one process can beat by much. The whole grid
takes some five minutes on two free cores. ``--details --graphs 1000000`` prints time per batch, workers, cold stores, first
batch and remote stores instead.
"""

from __future__ import annotations

import argparse
import functools
import gc
import http.server
import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data, InMemoryDataset, OnDiskDataset
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader

from tgp.data import PoolDataLoader, PooledDataset, graphs_to_arrays, precoarsen
from tgp.data.batch import PooledBatch
from tgp.engine import coarsen, parse_schedule
from tgp.engine.carry import CarryRules, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.unit_plan import DEFAULT_SHARD_SIZE
from tgp.ragged.offsets import offsets
from tgp.store import HierarchySpec, StoreSpec, StoreWriter, data_digest
from tgp.store.io.remote import RemoteFiles
from tgp.store.read import batch_plan
from tgp.store.read.batch_plan import load_kernels

METHOD = "graclus"
ROUNDS, WORKER_ROUNDS = 3, 2
KEYS = ("data", "levels", "batch", "workers")
GATHER = "bare gather"
NAMES = (
    "store (disk)",
    "store (memory)",
    "list with levels",
    "PyG, no levels",
    "PyG OnDisk, no levels",
    GATHER,
)


class Synthetic(InMemoryDataset):
    """Return seeded random graphs of 10 to 40 nodes, about the size of small molecules."""

    def __init__(self, count: int) -> None:
        super().__init__(None)
        rng = np.random.default_rng(0)
        nodes = rng.integers(10, 41, count)
        links = nodes + rng.integers(0, 6, count)
        node_ptr, link_ptr = map(offsets, (nodes, links))
        ends = rng.random((2, link_ptr[-1])) * np.repeat(nodes, links)
        pairs = ends.astype(np.int64)
        order = np.argsort(np.concatenate([np.repeat(np.arange(count), links)] * 2), kind="stable")
        edges = np.concatenate([pairs, pairs[::-1]], axis=1)[:, order]
        self._data = Data(
            x=torch.from_numpy(rng.normal(size=(node_ptr[-1], 16)).astype(np.float32)),
            edge_index=torch.from_numpy(np.ascontiguousarray(edges)),
            y=torch.from_numpy(rng.integers(0, 2, count)),
        )
        rows = torch.arange(count + 1)
        self.slices = {
            "x": torch.from_numpy(node_ptr),
            "edge_index": torch.from_numpy(2 * link_ptr),
            "y": rows,
        }


def nci1(data: Path, scratch: Path) -> TUDataset | None:
    """Return NCI1 from a folder of raw files, or ``None`` if it does not exist."""
    raw = data / "TUDataset" / "NCI1" / "raw"
    if not raw.is_dir():
        return None
    shutil.copytree(raw, scratch / "NCI1" / "raw")
    return TUDataset(str(scratch), "NCI1")


def with_attributes(count: int) -> Synthetic:
    """Return the synthetic set with positions, labels, a mask and edge features."""
    dataset, rng = Synthetic(count), np.random.default_rng(1)
    nodes, edges = dataset._data.x.size(0), dataset._data.edge_index.size(1)
    added = {
        "pos": (rng.normal(size=(nodes, 3)).astype(np.float32), "x"),
        "label": (rng.integers(0, 5, nodes), "x"),
        "train_mask": (rng.random(nodes) < 0.5, "x"),
        "edge_attr": (rng.normal(size=(edges, 4)).astype(np.float32), "edge_index"),
    }
    for name, (values, owner) in added.items():
        dataset._data[name] = torch.from_numpy(values)
        dataset.slices[name] = dataset.slices[owner]
    return dataset


def carried(args: argparse.Namespace, scratch: Path) -> None:
    """Print the table of ``--carry``: loaders of a store whose levels have attributes."""
    dataset = with_attributes(args.graphs)
    plain, path = (write(scratch / f"s{c}", dataset, 3, None, carry=c) for c in (None, "auto"))
    options = {"shuffle": True, "seed": 0}
    sources = {
        "no attributes stored": PooledDataset(plain),
        "stored, not read": PooledDataset(path, level_fields=()),
        "stored, all read": PooledDataset(path),
        "computed when read": PooledDataset(plain, carry="auto"),
    }
    names = [*sources, "PyG, no levels"]
    print("| batch | " + " | ".join(names) + " | all read / PyG |\n" + "|---" * (len(names) + 2) + "|")
    for size in args.batch_sizes:
        loaders = {n: PoolDataLoader(d, batch_size=size, **options) for n, d in sources.items()}
        loaders["PyG, no levels"] = DataLoader(dataset, batch_size=size, shuffle=True)
        best = dict.fromkeys(names, 0.0)
        for _ in range(ROUNDS):
            for name, loader in loaders.items():
                best[name] = max(best[name], speed(loader, args.seconds))
        cells = [f"{best[name]:,.0f}" for name in names]
        ratio = best["stored, all read"] / best["PyG, no levels"]
        print(f"| {size} | " + " | ".join(cells) + f" | {ratio:.1f} |", flush=True)


def write(
    path: Path, dataset: InMemoryDataset, levels: int, shards: int | None, carry: str | None = None
) -> Path:
    """Build a store of the dataset with one hierarchy."""
    table, block = graphs_to_arrays(dataset)
    steps = resolve(CarryRules.parse(carry), table)
    if shards is None:
        shards = -(-sum(field.values.nbytes for field in table.fields.values()) // DEFAULT_SHARD_SIZE)
    plan = parse_schedule([METHOD] * levels)
    bounds = tuple(int(b) for b in np.linspace(0, table.num_graphs, shards + 1).astype(int))
    spec = StoreSpec(
        {"name": "bench"},
        data_digest(table),
        table.num_graphs,
        bounds,
        "fast",
        (HierarchySpec("h", plan.to_json(), 0, carry=carry),),
    )
    writer = StoreWriter.open(path, spec)
    for unit in range(shards):
        ids = np.arange(bounds[unit], bounds[unit + 1])
        part = table.take(ids)
        writer.write_graphs(unit, part)
        writer.write_hierarchy(unit, "h", carry_fields(part, coarsen(block.take(ids), plan), steps))
    writer.publish()
    return path


class OnDisk(OnDiskDataset):
    """Build the on-disk dataset of PyG, with one row per graph in SQLite."""

    def __init__(self, root: str, graphs: list[Data]) -> None:
        size = {"x": graphs[0].x.size(1)}
        schema = {
            "x": {"dtype": torch.float32, "size": (-1, size["x"])},
            "edge_index": {"dtype": torch.int64, "size": (2, -1)},
            "y": {"dtype": torch.int64, "size": (-1,)},
        }
        super().__init__(root, schema=schema)
        self.extend(graphs)

    def serialize(self, data: Data) -> dict[str, torch.Tensor]:
        return {"x": data.x, "edge_index": data.edge_index, "y": data.y}

    def deserialize(self, row: dict[str, torch.Tensor]) -> Data:
        return Data.from_dict(row)


def speed(loader: Iterable, seconds: float) -> float:
    """Return the graphs per second over some seconds and epochs, without the first batch."""
    stream = iter(loader)
    next(stream)
    begin, graphs = time.perf_counter(), 0
    while True:
        for batch in stream:
            graphs += batch.num_graphs
            passed = time.perf_counter() - begin
            if passed > seconds:
                return graphs / passed
        stream = iter(loader)


def gather_speed(dataset: PooledDataset, batch_size: int, seconds: float) -> float:
    """Return a loader that only copies the bytes of each batch from a flat array."""
    batch = dataset.get_batch(list(range(batch_size)))
    tensors = [t for t in batch.to_dict().values() if isinstance(t, torch.Tensor)]
    for level in batch.pooled_data:
        tensors += [t for t in level.to_dict().values() if isinstance(t, torch.Tensor)]
        tensors.append(level.so.cluster_index)
    words = sum(t.numel() * t.element_size() for t in tensors) // 8
    source = np.zeros(words * 64)
    rows = np.random.default_rng(0).integers(0, len(source), words)
    begin, graphs = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        source.take(rows)
        graphs += batch_size
    return graphs / (time.perf_counter() - begin)


def calibration() -> dict[str, float]:
    """Return the current speed of this machine for pure Python and for a copy in memory."""
    begin = time.perf_counter()
    for _ in range(2_000_000):
        pass
    loop = time.perf_counter() - begin
    source = np.ones(4_000_000)
    begin = time.perf_counter()
    for _ in range(5):
        source.copy()
    return {
        "python_loops_per_s": 2e6 / loop,
        "copy_bytes_per_s": 5 * source.nbytes / (time.perf_counter() - begin),
    }


def competitors(
    dataset: InMemoryDataset, levels: int, shards: int | None, scratch: Path
) -> dict[str, Callable]:
    """Return functions that make a loader from batch size and number of workers, by name."""
    path = write(scratch / f"store-{levels}", dataset, levels, shards)
    stored, held = PooledDataset(path), PooledDataset(path, in_memory=True)
    sample = [dataset[i] for i in range(min(len(dataset), 4000))]
    pooled = precoarsen(sample, [METHOD] * levels)
    disk = OnDisk(str(scratch / f"ondisk-{levels}"), sample[:2000])

    def pyg(data: object) -> Callable:
        return lambda size, **options: DataLoader(data, batch_size=size, shuffle=True, **options)

    def ours(data: object) -> Callable:
        return lambda size, **options: PoolDataLoader(data, batch_size=size, shuffle=True, seed=0, **options)

    return {
        "store (disk)": ours(stored),
        "store (memory)": ours(held),
        "list with levels": ours(pooled),
        "PyG, no levels": pyg(dataset),
        "PyG OnDisk, no levels": pyg(disk),
        GATHER: lambda size, **options: stored,
    }


def run(name: str, dataset: InMemoryDataset, args: argparse.Namespace, scratch: Path) -> list[dict]:
    rows = []
    for levels in args.levels:
        makers = competitors(dataset, levels, args.shards, scratch / name / str(levels))
        for size in args.batch_sizes:
            for workers in args.workers:
                options = {"num_workers": workers, "persistent_workers": workers > 0}
                best: dict[str, float] = dict.fromkeys(makers, 0.0)
                for _ in range(ROUNDS if workers == 0 else WORKER_ROUNDS):
                    for who, make in makers.items():
                        measure = gather_speed if who == GATHER else lambda x, _, seconds: speed(x, seconds)
                        best[who] = max(best[who], measure(make(size, **options), size, args.seconds))
                rows.append({"data": name, "levels": levels, "batch": size, "workers": workers, **best})
                print_row(rows[-1])
    return rows


def print_head() -> None:
    """Print the header of the table."""
    names = [*KEYS, *NAMES, "disk / PyG", "bare gather / disk"]
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names), flush=True)


def print_row(row: dict) -> None:
    """Print one row of the table."""
    cells = [str(row[key]) for key in KEYS] + [f"{row[name]:,.0f}" for name in NAMES]
    disk = row["store (disk)"]
    cells += [f"{disk / row['PyG, no levels']:.1f}", f"{row[GATHER] / disk:.1f}"]
    print("| " + " | ".join(cells) + " |", flush=True)


# Time per batch, workers and cold stores -------------------------------------------------------------------------


def spend(batch: object) -> object:
    """Work for one millisecond of processor time, as a transform of a user does."""
    end = time.thread_time() + 1e-3
    while time.thread_time() < end:
        pass
    return batch


def batch_times(path: Path, sizes: list[int]) -> None:
    """Print the processor time of a batch beside that of a numpy take of the same bytes."""
    dataset = PooledDataset(path)
    print("\n| batch | us per batch | us of a bare take | ratio |\n|---|---|---|---|")
    for size in sizes:
        loader = PoolDataLoader(dataset, size, shuffle=True, seed=0)
        words = sum(array.nbytes for array in dataset._plan().gather(range(size)).columns) // 8
        source = np.zeros(words * 64)
        rows = np.random.default_rng(0).integers(0, len(source), words)
        best = [float("inf")] * 2
        for _ in range(6):
            begin, count = time.process_time(), 0
            for _ in loader:
                count += 1
            best[0] = min(best[0], (time.process_time() - begin) / count)
            begin = time.process_time()
            for _ in range(50):
                source.take(rows)
            best[1] = min(best[1], (time.process_time() - begin) / 50)
        print(f"| {size} | {best[0] * 1e6:.0f} | {best[1] * 1e6:.0f} | {best[0] / best[1]:.2f} |", flush=True)


def worker_times(path: Path) -> None:
    """Print the wall time of a batch of 32 with a transform of one millisecond, with and without workers."""
    best = {}
    loaders = {
        workers: PoolDataLoader(
            PooledDataset(path), 32, shuffle=True, seed=0, batch_transform=spend, num_workers=workers,
            persistent_workers=workers > 0,
        )
        for workers in (0, 2)
    }  # fmt: skip
    for turn in range(6):
        for workers, loader in loaders.items():
            begin, count = time.perf_counter(), 0
            for _ in loader:
                count += 1
            if turn:
                best[workers] = min(best.get(workers, 1e9), (time.perf_counter() - begin) / count)
    print("\n| transform of 1 ms per batch of 32 | us per batch | times faster |\n|---|---|---|")
    for workers, label in ((0, "no workers"), (2, "two workers")):
        print(f"| {label} | {best[workers] * 1e6:.0f} | {best[0] / best[workers]:.2f} |", flush=True)


def profile_batch(path: Path, size: int = 32) -> None:
    """Print the processor time of the parts of a batch. Each part is the difference of two measurements."""
    dataset = PooledDataset(path)
    plan, loader = dataset._plan(), PoolDataLoader(dataset, size, shuffle=True, seed=0)
    batches = [ids for ids in loader.pool_sampler or () if len(ids) == size]
    kernel = [0.0]

    def timed(function: Callable) -> Callable:
        def call(*arguments: object) -> object:
            begin = time.thread_time()
            result = function(*arguments)
            kernel[0] += time.thread_time() - begin
            return result

        return call

    def fastest(work: Callable[[], Iterable]) -> float:
        best = float("inf")
        for _ in range(8):
            begin = time.process_time()
            for _ in work():
                pass
            best = min(best, time.process_time() - begin)
        return best / len(batches) * 1e6

    order = fastest(lambda: iter(loader.pool_sampler or ()))
    gather = fastest(lambda: map(plan.gather, batches))
    arrays = fastest(lambda: (PooledBatch.from_gathered(plan.gather(ids)) for ids in batches))
    whole = fastest(lambda: iter(loader))
    kernels = batch_plan._kernels()
    inside = float("inf")
    batch_plan._kernels = lambda: tuple(map(timed, kernels))  # type: ignore[assignment]
    for _ in range(8):
        kernel[0] = 0.0
        for ids in batches:
            plan.gather(ids)
        inside = min(inside, kernel[0] / len(batches) * 1e6)
    batch_plan._kernels = lambda: kernels  # type: ignore[assignment]
    rows = {
        "kernels: find and copy rows": inside,
        "rest of gathering: ids, check of the files, views": gather - inside,
        "tensors and PyG objects": arrays - gather,
        "order of the epoch": order,
        "torch's loader, dataset, collate function": whole - arrays - order,
        "whole batch": whole,
    }
    print(f"\n| part of a batch of {size} | us | share |\n|---|---|---|")
    for label, value in rows.items():
        print(f"| {label} | {value:.0f} | {value / whole:.0%} |", flush=True)


def evict(path: Path) -> int:
    """Remove the files of a store from the page cache, and return their bytes."""
    total = 0
    for file in path.glob("*.h5"):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        total += file.stat().st_size
    return total


def bytes_read() -> int:
    """Return the bytes that this process caused to be read from the disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes")).split()[1])


def read_plainly(path: Path) -> None:
    """Read all shards of a store from the first to the last byte."""
    for file in path.glob("*.h5"):
        with file.open("rb", buffering=0) as raw:
            while raw.read(1 << 22):
                pass


def first_reads(path: Path) -> None:
    """Print what opening all shards and the first shuffled batch of a cold store read.

    Opening reads and checks all offsets. The system reads ahead of them, so some rows of the batch may be in memory then.
    """
    total = evict(path)
    print(
        "\n| first batch of 32 of a cold store | MB read by opening | MB read by the batch | MB of the store |\n|---|---|---|---|"
    )
    dataset = stream = None
    for seed, (label, shuffle, is_random) in enumerate(
        (
            ("shuffle=True, store fits in memory", True, False),
            ("shuffle=True, larger store", True, True),
            ('shuffle="block"', "block", False),
        )
    ):
        del dataset, stream  # mapped pages stay in the cache
        gc.collect()
        evict(path)
        start = bytes_read()
        dataset = PooledDataset(path)
        dataset._plan().open_all()
        if is_random:
            dataset._plan().expect_random_order()
        before = bytes_read()
        stream = iter(
            PoolDataLoader(dataset, 32, shuffle=shuffle, seed=seed)
        )  # other graphs, not in the cache
        next(stream)
        opened, read = (before - start) / 1e6, (bytes_read() - before) / 1e6
        print(f"| {label} | {opened:.1f} | {read:.1f} | {total / 1e6:.0f} |", flush=True)


def limited_group(limit: int) -> Path | None:
    """Return a new group of processes whose memory is limited, below the group of this process; ``None`` if refused."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for _, kinds, place in own:
        group = Path(f"/sys/fs/cgroup/memory{place}") / f"tgp-bench-{os.getpid()}"
        if "memory" in kinds.split(","):
            try:
                group.mkdir()
                (group / "memory.limit_in_bytes").write_text(str(limit))
            except OSError:
                return None
            return group
    return None


def thread_times() -> np.ndarray:
    """Return the seconds that the main thread has run, and that it was ready but other processes had the processor."""
    return np.array(Path("/proc/self/schedstat").read_text().split()[:2], float) / 1e9


def limited_epochs(path: Path, size: int = 128) -> None:
    """Print the bandwidth of an epoch in a third of the memory that the store needs, beside plain reading.

    The last row has the same epoch without the limit, after all bytes were read. The bandwidth is that of the seconds
    without the time in which other processes had the processor, so it depends less on the load.
    """
    total = sum(file.stat().st_size for file in path.glob("*.h5"))
    group = limited_group(total // 3)
    if group is None:
        print("\nno memory-limited group of processes is possible here", flush=True)
        return
    load_kernels()
    gc.collect()  # mapped pages of earlier datasets stay in the cache

    def epoch(name: str, results: multiprocessing.SimpleQueue) -> None:
        if name == "memory":
            read_plainly(path)
        else:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        before, begin, used = bytes_read(), time.perf_counter(), thread_times()
        if name == "plain":
            read_plainly(path)
        else:
            for _ in PoolDataLoader(PooledDataset(path), size, shuffle="block", seed=0):
                pass
        seconds, (running, ready) = time.perf_counter() - begin, thread_times() - used
        results.put((seconds, running, ready, bytes_read() - before))

    print(f"\nload {os.getloadavg()[0]:.0f} on {os.cpu_count()} processors\n")
    print(
        f"| memory of {total / 3e6:.0f} MB | s | of it running | ready | blocked | MB read | MB/s | share |"
    )
    print("|---|---|---|---|---|---|---|---|")
    context, plain = multiprocessing.get_context("fork"), 0.0
    block = f'shuffle="block", batches of {size}'
    for name, label in (("plain", "plain reading"), ("block", block), ("memory", f"{block}, in memory")):
        evict(path)
        results = context.SimpleQueue()
        process = context.Process(target=epoch, args=(name, results))
        process.start()
        process.join()
        if results.empty():
            print(f"| {label} | failed with exit code {process.exitcode} | | | | | | |", flush=True)
            continue
        seconds, running, ready, read = results.get()
        bandwidth = total / (seconds - ready)
        plain = plain or bandwidth
        cells = [f"{value:.1f}" for value in (seconds, running, ready, seconds - ready - running)]
        cells += [f"{read / 1e6:.0f}", f"{bandwidth / 1e6:.0f}", f"{bandwidth / plain:.0%}"]
        print(f"| {label} | {' | '.join(cells)} |", flush=True)
    group.rmdir()


def first_batch(path: Path) -> None:
    """Print the seconds of the first batch of a new process, after the imports."""
    code = (
        "import sys, time; from tgp.data import PooledDataset, PoolDataLoader; begin = time.process_time(); "
        "next(iter(PoolDataLoader(PooledDataset(sys.argv[1]), 32, shuffle=True, seed=0))); "
        "print(f'| 1 batch of 32 | {time.process_time() - begin:.2f} |')"
    )
    print("\n| new process, after the imports | processor s |\n|---|---|", flush=True)
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def remote_batch(path: Path) -> None:
    """Print the seconds of the first batch of a store over HTTP beside those of downloading its files."""
    handler = functools.partial(QuietHandler, directory=str(path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)  # it ignores range requests
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    best = [float("inf")] * 2
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            begin = time.perf_counter()
            for file in (path / "manifest.json", *path.glob("*.h5")):
                with (
                    urllib.request.urlopen(f"{url}/{file.name}") as reply,
                    open(Path(cache) / file.name, "wb") as out,
                ):
                    shutil.copyfileobj(reply, out, 1 << 20)
            best[0] = min(best[0], time.perf_counter() - begin)
        with tempfile.TemporaryDirectory() as cache:
            begin = time.perf_counter()
            dataset = PooledDataset(RemoteFiles(url, cache))
            next(iter(PoolDataLoader(dataset, 32, shuffle=True, seed=0)))
            best[1] = min(best[1], time.perf_counter() - begin)
    process.kill()
    print("\n| remote store | s | ratio |\n|---|---|---|")
    print(
        f"| plain download | {best[0]:.3f} | 1.00 |\n| first batch | {best[1]:.3f} | {best[1] / best[0]:.2f} |",
        flush=True,
    )


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Handler that prints nothing."""

    def log_message(self, *args: object) -> None:
        """Print nothing."""


def details(args: argparse.Namespace, scratch: Path) -> None:
    """Print the tables of ``--details``: time per batch, workers, cold stores, first batch, remote."""
    dataset = nci1(args.data, scratch / "raw") or Synthetic(4000)
    path = write(scratch / "nci1", dataset, 3, None)
    batch_times(path, args.batch_sizes)
    profile_batch(path)
    worker_times(path)
    remote_batch(path)
    big = write(scratch / "big", Synthetic(args.graphs), 3, None)
    first_batch(big)
    first_reads(big)
    limited_epochs(big)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--graphs", type=int, default=100_000, help="size of the synthetic set")
    parser.add_argument("--shards", type=int, help="default: shards of 64 MB, as the pipeline makes them")
    parser.add_argument("--seconds", type=float, default=0.4, help="per loader and round")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--only", choices=["NCI1", "synthetic"])
    parser.add_argument(
        "--details", action="store_true", help="only time per batch, workers, cold reads, first batch, remote"
    )
    parser.add_argument("--carry", action="store_true", help="only loaders of levels with attributes")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.details or args.carry:
        with tempfile.TemporaryDirectory() as folder:
            (details if args.details else carried)(args, Path(folder))
        return 0
    report = {"machine": platform.platform(), "python": sys.version.split()[0], "torch": torch.__version__}
    report["calibration"] = calibration()
    print(", ".join(f"{key} {value:,.0f}" for key, value in report["calibration"].items()), end="\n\n")
    print_head()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        sets = {}
        if args.only != "synthetic":
            sets["NCI1"] = nci1(args.data, scratch)
        if args.only != "NCI1":
            sets["synthetic"] = Synthetic(args.graphs)
        report["rows"] = [
            row for name, data in sets.items() if data is not None for row in run(name, data, args, scratch)
        ]
    report["calibration_after"] = calibration()
    print("\n" + ", ".join(f"{key} {value:,.0f}" for key, value in report["calibration_after"].items()))
    if args.json:
        args.json.write_text(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
