"""Time and memory of dense poolers, padded (batched) and flat (unbatched), on grids and on random graphs.

python examples/paper/dense_modes.py --fresh [--figure docs/img/dense-modes.svg]
python examples/paper/dense_modes.py --quick
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _harness import Cell, Experiment, calibration, parse, parser
from _tables import markdown
from torch.profiler import ProfilerActivity, profile
from torch_geometric.data import Batch, Data

from tgp.poolers import get_pooler

POOLERS = ("acc", "bnpool", "diff", "dmon", "hosc", "jb", "lap", "mincut")
SIDES = (50, 75, 100, 125, 150)
BATCHES = (4, 16, 64, 128)
SETTINGS = {"k": 10, "channels": 32, "rounds": 5, "seconds": 1.0}
MODES = {"batched": (True, False), "unbatched": (False, True)}
"""Values of ``batched`` and ``sparse_output`` of the two modes."""
BYTES = {("bnpool", "batched"): 12, ("lap", "batched"): 11, ("lap", "unbatched"): 9}
"""Bytes per pair of nodes of the modes that store all pairs. Other modes need memory for nodes and edges only."""
ABOUT = {
    "title": "Dense modes: batched against unbatched",
    "command": "python examples/paper/dense_modes.py --fresh --figure docs/img/dense-modes.svg",
    "budget": "under 6 minutes of one core, 8 GB",
}


def grid(side: int) -> Batch:
    """Return one square grid."""
    node = torch.arange(side * side).view(side, side)
    ahead = [node[:, :-1].reshape(-1), node[:-1].reshape(-1)]
    after = [node[:, 1:].reshape(-1), node[1:].reshape(-1)]
    edges = torch.stack([torch.cat(ahead), torch.cat(after)])
    graph = Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=side * side)
    return Batch.from_data_list([graph])


def erdos_renyi(count: int) -> Batch:
    """Return random graphs of 10 to 500 nodes with p = 0.02. A random tree is added, so that they are connected."""
    rng = np.random.default_rng(0)
    graphs = []
    for size in rng.integers(10, 501, count):
        adj = np.triu(rng.random((size, size)) < 0.02, 1)
        child = np.arange(1, size)
        adj[(rng.random(size - 1) * child).astype(int), child] = True
        edges = torch.from_numpy(np.stack((adj | adj.T).nonzero()))
        graphs.append(Data(edge_index=edges, num_nodes=int(size)))
    return Batch.from_data_list(graphs)


def peak_megabytes(call: Callable[[], object]) -> float:
    """Return the peak memory of torch during a call, minus the memory before the call."""
    gc.collect(1)  # free the reference cycles of earlier calls
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    records = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(records, key=lambda event: event.start_ns())]
    return max(np.cumsum([0, *sizes])) / 1e6


def measure(batch: Batch, cell: Cell, mode: str, limit: float) -> dict[str, float | None]:
    """Return milliseconds and megabytes of one forward and backward pass; empty if it would not fit into memory."""
    padded, sparse = MODES[mode]
    pairs = batch.num_graphs * int((batch.ptr[1:] - batch.ptr[:-1]).max()) ** 2
    if BYTES.get((cell.pooler, mode), 0) * pairs > limit * 1e9:
        return {f"{mode}_ms": None, f"{mode}_mb": None}
    settings = cell.settings
    pooler = get_pooler(
        cell.pooler, in_channels=settings["channels"], k=settings["k"], batched=padded, sparse_output=sparse
    )
    x = torch.randn(batch.num_nodes, settings["channels"], requires_grad=True)

    def step() -> float:
        start = time.perf_counter()
        out = pooler(x=x, adj=batch.edge_index, batch=batch.batch)
        loss = out.x.sum() + sum(out.get_loss_value() if out.loss else [])
        torch.autograd.grad(loss, x)
        return time.perf_counter() - start

    times = []
    memory = peak_megabytes(lambda: times.append(step()))
    if times[0] < 3 * settings["seconds"]:  # a slow call is not repeated, so its profiled time is used
        times.clear()
    while len(times) < settings["rounds"] and sum(times) < settings["seconds"]:
        times.append(step())
    return {f"{mode}_ms": round(1e3 * min(times), 2), f"{mode}_mb": round(memory, 2)}


def table(cells: Sequence[Cell], results: Mapping[str, dict[str, Any]]) -> str:
    """Return two tables: rows are poolers and modes, columns are sides or batch sizes, entries are ms / MB."""
    parts, sorts = [], [0.0]
    for kind, title in (("grid", "Grids: side"), ("er", "Random graphs: batch size")):
        chosen = [cell for cell in cells if cell.dataset.startswith(kind) and cell.key in results]
        sizes = list(dict.fromkeys(cell.dataset for cell in chosen))
        rows: dict[tuple[str, str], dict[str, str]] = {}
        for cell in chosen:
            found = results[cell.key]
            sorts.append(found["sort_ms"])
            for mode in MODES:
                ms, mb = found[f"{mode}_ms"], found[f"{mode}_mb"]
                entry = "does not fit" if ms is None else f"{ms:,.1f} / {mb:,.1f}"
                rows.setdefault((cell.pooler, mode), {})[cell.dataset] = entry
        head = [title, "mode", *(size.partition("-")[2] for size in sizes)]
        lines = [[*key, *(row.get(size, "") for size in sizes)] for key, row in rows.items()]
        parts.append(markdown(head, lines) if lines else "")
    note = (
        "Milliseconds / megabytes of one forward and backward; memory is the most that torch held at once beyond the "
        f"inputs. A sort of a million floats took {min(sorts[1:] or sorts):.0f} to {max(sorts):.0f} ms meanwhile.\n"
    )
    return "\n".join([*parts, note])


def figure(cells: Sequence[Cell], results: Mapping[str, dict[str, Any]], path: Path) -> None:
    """Draw memory over the side of a grid, and time over the size of a batch (solid: padded, dotted: flat)."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    made = Figure(figsize=(9, 3.6), layout="constrained")
    panels = made.subplots(1, 2)
    for axes, kind, unit in zip(panels, ("grid", "er"), ("mb", "ms"), strict=True):
        for number, pooler in enumerate(POOLERS):
            lines = [
                c for c in cells if c.pooler == pooler and c.dataset.startswith(kind) and c.key in results
            ]
            for mode, style in zip(MODES, ("-", ":"), strict=True):
                points = [(int(c.dataset.partition("-")[2]), results[c.key][f"{mode}_{unit}"]) for c in lines]
                points = [point for point in points if point[1] is not None]
                if not points:
                    continue
                label = pooler if mode == "batched" else None
                axes.plot(*zip(*points, strict=True), style, color=f"C{number}", marker=".", label=label)
        axes.set_yscale("log")
    panels[0].set(xlabel="side of the grid", ylabel="peak memory, MB")
    panels[1].set(xlabel="graphs in the batch", ylabel="forward + backward, ms", xscale="log")
    panels[1].legend(ncols=2, fontsize="small")
    with rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "tgp"}
    ):  # text is stored as text, and the file is reproducible
        made.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(argv: Sequence[str] | None = None) -> Experiment:
    """Measure the missing cells, write the tables, and draw the figure on request."""
    made = parser(__doc__, seeds=1, data=False)
    made.add_argument(
        "--gigabytes", type=float, default=8, help="skip cells that need more memory (default: 8)"
    )
    made.add_argument("--figure", type=Path, help="draw the results into this file (needs matplotlib)")
    options = parse(made, argv)
    sides, batches = ((6,), (2,)) if options.quick else (SIDES, BATCHES)
    settings = {**SETTINGS, "rounds": 1} if options.quick else SETTINGS
    datasets = [f"grid-{side}" for side in sides] + [f"er-{count}" for count in batches]
    cells = [Cell(d, p, s, settings) for s in range(options.seeds) for d in datasets for p in POOLERS]

    def prepare(dataset: str) -> Batch:
        kind, _, size = dataset.partition("-")
        return {"grid": grid, "er": erdos_renyi}[kind](int(size))

    def compute(cell: Cell, batch: Batch) -> dict[str, float | None]:
        found = {"sort_ms": round(calibration(1 if options.quick else 3), 1)}
        for mode in MODES:
            found.update(measure(batch, cell, mode, options.gigabytes))
        return found

    experiment = Experiment("dense_modes", ABOUT, options, table)
    experiment.run(cells, compute, prepare)
    if options.figure is not None:
        figure(cells, experiment.results, options.figure)
    return experiment


if __name__ == "__main__":
    main()
