"""Pooling of ``edge_attr`` compared with PyG's ``coalesce`` on the same edges. Run: ``python tests/benchmarks/bench_carry_online.py``.

Both merge the edges of a random graph whose nodes are assigned to four times fewer supernodes, in turns, on one thread. The
figures are processor seconds, the smallest of several turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.utils import coalesce

from tgp.connect import sparse_connect
from tgp.connect.edge_attributes import contract_edge_attributes
from tgp.select import SelectOutput


def seconds(run: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(num_edges: int, columns: int, how: str, turns: int) -> dict[str, float]:
    """Return the times of one setting by name."""
    draw = torch.Generator().manual_seed(0)
    nodes = num_edges // 10
    size = max(nodes // 4, 1)
    index = torch.randint(0, nodes, (2, num_edges), generator=draw)
    index = index[:, index[0].argsort()]
    attr = torch.randn(num_edges, columns, generator=draw)
    cluster = torch.randint(0, size, (nodes,), generator=draw)
    so = SelectOutput(cluster_index=cluster, num_supernodes=size)
    pooled, _ = sparse_connect(index, None, None, cluster, nodes, size, False)

    def pyg() -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = coalesce(cluster[index], attr, size, reduce=how)
        return found

    runs: dict[str, Callable[[], object]] = {
        "PyG coalesce": pyg,
        "sparse_connect": lambda: sparse_connect(
            index, None, None, cluster, nodes, size, False, edge_attr=attr, edge_attr_reduce=how
        ),
        "after the engine": lambda: contract_edge_attributes(index, so, pooled, attr, how),
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(turns):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run))
    return best


def main(argv: list[str] | None = None) -> None:
    """Print one line per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(
        "| columns | reduction | PyG, s | tgp, s | tgp / PyG | after the engine, s | after the engine / PyG |"
    )
    print("|---|---|---|---|---|---|---|")
    for columns in (1, 4, 8, 16, 64):
        for how in ("mean", "sum", "max"):
            base, mine, after = compare(options.edges, columns, how, options.turns).values()
            cells = [
                f"{base:.3f}",
                f"{mine:.3f}",
                f"{mine / base:.2f}",
                f"{after:.3f}",
                f"{after / base:.2f}",
            ]
            print(f"| {columns} | {how} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
