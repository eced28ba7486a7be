"""Graphs per second from a store into batches, beside PyG's loaders, in one run on one machine.

    python tests/benchmarks/bench_loader.py [--data DIR] [--graphs 20000] [--seconds 1.5] [--json FILE]

Every line is the best of three rounds over shuffled graphs, with a warm cache. Competitors take turns, so that a busy
machine hits all of them; without workers, graphs per second of CPU time are shown as well. "gather" is a bare numpy copy
of the same bytes per batch: what no loader can beat.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data, InMemoryDataset, OnDiskDataset
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader

from tgp.coarsen import coarsen, parse_schedule
from tgp.data import PoolDataLoader, PooledDataset, graphs_to_arrays, precoarsen
from tgp.pipeline.config import DEFAULT_SHARD_SIZE
from tgp.store import HierarchySpec, StoreSpec, StoreWriter, data_digest

METHOD = "graclus"
ROUNDS = 3


class Synthetic(InMemoryDataset):
    """Seeded random graphs of 10 to 40 nodes, about the size of small molecules."""

    def __init__(self, count: int) -> None:
        super().__init__(None)
        rng = np.random.default_rng(0)
        nodes = rng.integers(10, 41, count)
        links = nodes + rng.integers(0, 6, count)
        node_ptr, link_ptr = (np.concatenate([[0], np.cumsum(c)]) for c in (nodes, links))
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
    """NCI1 from a folder of raw files; ``None`` if it is not there."""
    raw = data / "TUDataset" / "NCI1" / "raw"
    if not raw.is_dir():
        return None
    shutil.copytree(raw, scratch / "NCI1" / "raw")
    return TUDataset(str(scratch), "NCI1")


def write(path: Path, dataset: InMemoryDataset, levels: int, shards: int | None) -> Path:
    """A store with one hierarchy over the dataset."""
    table, block = graphs_to_arrays(dataset)
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
        (HierarchySpec("h", plan.to_json(), 0),),
    )
    writer = StoreWriter.open(path, spec)
    for unit in range(shards):
        ids = np.arange(bounds[unit], bounds[unit + 1])
        writer.write_graphs(unit, table.take(ids))
        writer.write_hierarchy(unit, "h", coarsen(block.take(ids), plan), weight_dtype=np.float32)
    writer.publish()
    return path


class OnDisk(OnDiskDataset):
    """PyG's own store: one row per graph in SQLite."""

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


def speed(loader: Iterable, seconds: float) -> tuple[float, float]:
    """Graphs per second over at most ``seconds``, from the first batch on; and per second of this process's CPU time."""
    stream = iter(loader)
    next(stream)
    begin, cpu, graphs = time.perf_counter(), time.process_time(), 0
    for batch in stream:
        graphs += batch.num_graphs
        if time.perf_counter() - begin > seconds:
            break
    return graphs / (time.perf_counter() - begin), graphs / max(time.process_time() - cpu, 1e-9)


def gather_speed(dataset: PooledDataset, batch_size: int, seconds: float) -> tuple[float, float]:
    """A copy of the bytes of a batch, per batch, as one take of 64-bit words from a flat array."""
    batch = dataset.__getitems__(list(range(batch_size)))
    tensors = [t for t in batch.to_dict().values() if isinstance(t, torch.Tensor)]
    for level in batch.pooled_data:
        tensors += [t for t in level.to_dict().values() if isinstance(t, torch.Tensor)]
        tensors.append(level.so.cluster_index)
    words = sum(t.numel() * t.element_size() for t in tensors) // 8
    source = np.zeros(words * 64)
    rows = np.random.default_rng(0).integers(0, len(source), words)
    begin, cpu, graphs = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begin < seconds / 3:
        source.take(rows)
        graphs += batch_size
    return graphs / (time.perf_counter() - begin), graphs / max(time.process_time() - cpu, 1e-9)


def calibration() -> dict[str, float]:
    """How fast this machine is right now: pure Python, and a copy in memory."""
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
    """Name -> function that makes a loader from batch size and workers."""
    path = write(scratch / f"store-{levels}", dataset, levels, shards)
    stored, held = PooledDataset(path), PooledDataset(path, in_memory=True)
    sample = [dataset[i] for i in range(min(len(dataset), 4000))]
    pooled = precoarsen(sample, [METHOD] * levels)
    disk = OnDisk(str(scratch / f"ondisk-{levels}"), sample[:2000])

    def pyg(data: object) -> Callable:
        return lambda size, workers: DataLoader(data, batch_size=size, shuffle=True, num_workers=workers)

    def ours(data: object) -> Callable:
        return lambda size, workers: PoolDataLoader(
            data, batch_size=size, shuffle=True, seed=0, num_workers=workers
        )

    return {
        "store (disk)": ours(stored),
        "store (memory)": ours(held),
        "list of Data with levels": ours(pooled),
        "PyG in memory, no levels": pyg(dataset),
        "PyG OnDiskDataset, no levels": pyg(disk),
        "gather": lambda size, workers: stored,
    }


def run(name: str, dataset: InMemoryDataset, args: argparse.Namespace, scratch: Path) -> list[dict]:
    rows = []
    for levels in args.levels:
        makers = competitors(dataset, levels, args.shards, scratch / name / str(levels))
        for size in args.batch_sizes:
            for workers in args.workers:
                best: dict[str, tuple[float, float]] = {}
                for _ in range(ROUNDS):
                    for who, make in makers.items():
                        loader = make(size, workers)
                        measure = (
                            gather_speed(loader, size, args.seconds)
                            if who == "gather"
                            else speed(loader, args.seconds)
                        )
                        best[who] = tuple(map(max, best.get(who, (0.0, 0.0)), measure))
                row = {"data": name, "levels": levels, "batch": size, "workers": workers}
                row["graphs_per_s"] = {who: found[0] for who, found in best.items()}
                if workers == 0:
                    row["graphs_per_cpu_s"] = {who: found[1] for who, found in best.items()}
                rows.append(row)
                print_row(row)
    return rows


def print_row(row: dict) -> None:
    head = f"{row['data']:10} levels={row['levels']} batch={row['batch']:<4} workers={row['workers']}"
    for unit in ("graphs_per_s", "graphs_per_cpu_s"):
        if unit in row:
            cells = "  ".join(f"{who}: {found:,.0f}" for who, found in row[unit].items())
            print(f"{head}  {unit.replace('_', ' '):16}  {cells}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument(
        "--graphs", type=int, default=20_000, help="size of the synthetic set (100000 for the long run)"
    )
    parser.add_argument("--shards", type=int, help="default: shards of 64 MB, as the pipeline makes them")
    parser.add_argument("--seconds", type=float, default=1.5, help="per loader and round")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--only", choices=["NCI1", "synthetic"])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    report = {"machine": platform.platform(), "python": sys.version.split()[0], "torch": torch.__version__}
    report["calibration"] = calibration()
    print({key: f"{value:,.0f}" for key, value in report["calibration"].items()})
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
    if args.json:
        args.json.write_text(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
