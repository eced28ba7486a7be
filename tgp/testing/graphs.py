"""Named toy graphs and seeded random families, as blocks of one graph. No torch.

Undirected graphs store both directions of every edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged import BlockCSR

__all__ = [
    "KARATE_EDGES",
    "TOY_GRAPHS",
    "barabasi_albert",
    "complete",
    "cycle",
    "directed",
    "disconnected",
    "empty",
    "erdos_renyi",
    "from_pairs",
    "grid2d",
    "isolated",
    "karate",
    "path",
    "self_loop",
    "single_node",
    "star",
    "toy_block",
    "weighted",
]

Pairs = Sequence[tuple[int, int]] | npt.NDArray[np.integer]


def from_pairs(
    num_nodes: int, pairs: Pairs, weights: npt.ArrayLike | None = None, *, both_ways: bool = True
) -> BlockCSR:
    """A graph from pairs of nodes; ``both_ways`` adds the opposite of every edge but self loops."""
    edges = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    values = None if weights is None else np.asarray(weights, dtype=np.float64)
    if values is not None and values.shape != (len(edges),):
        raise InputError(f"weights must hold {len(edges)} values, got {list(values.shape)}", field="weights")
    if both_ways:
        proper = edges[:, 0] != edges[:, 1]
        edges = np.concatenate([edges, edges[proper][:, ::-1]])
        values = None if values is None else np.concatenate([values, values[proper]])
    return BlockCSR.from_edge_index(edges.T, values, num_nodes=num_nodes)


def empty() -> BlockCSR:
    """A graph without nodes."""
    return from_pairs(0, [])


def single_node() -> BlockCSR:
    """One node, no edge."""
    return from_pairs(1, [])


def self_loop() -> BlockCSR:
    """Two nodes, an edge between them and a self loop on each."""
    return from_pairs(2, [(0, 0), (0, 1), (1, 1)])


def isolated(n: int = 4) -> BlockCSR:
    """``n`` nodes without an edge."""
    return from_pairs(n, [])


def path(n: int = 6) -> BlockCSR:
    """A path of ``n`` nodes."""
    return from_pairs(n, [(i, i + 1) for i in range(n - 1)])


def cycle(n: int = 6) -> BlockCSR:
    """A ring of ``n >= 3`` nodes."""
    return from_pairs(n, [(i, (i + 1) % n) for i in range(n)])


def star(n: int = 7) -> BlockCSR:
    """Node 0 joined to ``n - 1`` leaves."""
    return from_pairs(n, [(0, i) for i in range(1, n)])


def complete(n: int = 5) -> BlockCSR:
    """Every pair of ``n`` nodes joined."""
    return from_pairs(n, [(i, j) for i in range(n) for j in range(i)])


def grid2d(rows: int = 4, cols: int = 5) -> BlockCSR:
    """A grid, numbered row by row."""
    ids = np.arange(rows * cols).reshape(rows, cols)
    across = np.stack([ids[:, :-1].ravel(), ids[:, 1:].ravel()], axis=1)
    down = np.stack([ids[:-1].ravel(), ids[1:].ravel()], axis=1)
    return from_pairs(rows * cols, np.concatenate([across, down]))


def disconnected() -> BlockCSR:
    """A triangle, a path of three, and an isolated node."""
    return from_pairs(7, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5)])


def weighted() -> BlockCSR:
    """A ring of five with weights 1 to 5 and a chord of weight 0.5."""
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]
    return from_pairs(5, pairs, [1.0, 2.0, 3.0, 4.0, 5.0, 0.5])


def directed() -> BlockCSR:
    """A directed ring of four with one edge back."""
    return from_pairs(4, [(0, 1), (1, 2), (2, 3), (3, 0), (2, 1)], both_ways=False)


def erdos_renyi(n: int = 20, p: float = 0.2, seed: int = 0) -> BlockCSR:
    """Each pair joined with probability ``p``."""
    rng = np.random.default_rng(seed)
    low, high = np.triu_indices(n, k=1)
    chosen = rng.random(len(low)) < p
    return from_pairs(n, np.stack([low[chosen], high[chosen]], axis=1))


def barabasi_albert(n: int = 20, m: int = 2, seed: int = 0) -> BlockCSR:
    """Each new node joined to ``m`` older ones, drawn in proportion to their degree."""
    if not 1 <= m < n:
        raise InputError(f"m must be in [1, {n}), got {m}", field="m")
    rng = np.random.default_rng(seed)
    pairs: list[tuple[int, int]] = []
    ends: list[int] = list(range(m))
    for new in range(m, n):
        chosen: set[int] = set()
        while len(chosen) < m:
            chosen.add(ends[int(rng.integers(len(ends)))])
        pairs.extend((old, new) for old in sorted(chosen))
        ends.extend(sorted(chosen))
        ends.extend([new] * m)
    return from_pairs(n, pairs)


KARATE_EDGES: tuple[tuple[int, int], ...] = (
    *((0, i) for i in (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31)),
    *((1, i) for i in (2, 3, 7, 13, 17, 19, 21, 30)),
    *((2, i) for i in (3, 7, 8, 9, 13, 27, 28, 32)),
    *((3, i) for i in (7, 12, 13)),
    *((4, i) for i in (6, 10)),
    *((5, i) for i in (6, 10, 16)),
    (6, 16),
    *((8, i) for i in (30, 32, 33)),
    (9, 33),
    (13, 33),
    *((i, j) for i in (14, 15, 18, 20, 22) for j in (32, 33)),
    (19, 33),
    *((23, i) for i in (25, 27, 29, 32, 33)),
    *((24, i) for i in (25, 27, 31)),
    (25, 31),
    *((26, i) for i in (29, 33)),
    (27, 33),
    *((28, i) for i in (31, 33)),
    *((29, i) for i in (32, 33)),
    *((30, i) for i in (32, 33)),
    *((31, i) for i in (32, 33)),
    (32, 33),
)
"""The 78 friendships of Zachary's karate club, numbered from 0."""


def karate() -> BlockCSR:
    """Zachary's karate club: 34 nodes, 78 edges."""
    return from_pairs(34, KARATE_EDGES)


TOY_GRAPHS: dict[str, Callable[[], BlockCSR]] = {
    "empty": empty,
    "single_node": single_node,
    "self_loop": self_loop,
    "isolated": isolated,
    "path": path,
    "cycle": cycle,
    "star": star,
    "complete": complete,
    "grid2d": grid2d,
    "karate": karate,
    "disconnected": disconnected,
    "weighted": weighted,
    "directed": directed,
    "erdos_renyi": erdos_renyi,
    "barabasi_albert": barabasi_albert,
}
"""Every named graph with its default arguments."""


def toy_block(*, weighted: bool = False) -> BlockCSR:
    """All undirected toy graphs as one block; ``weighted`` draws seeded symmetric weights."""
    block = BlockCSR.concat(
        [make() for name, make in TOY_GRAPHS.items() if name not in ("weighted", "directed")]
    )
    if not weighted:
        return block
    rows, cols = block.edge_index()
    low, high = np.minimum(rows, cols), np.maximum(rows, cols)
    weight = 0.25 + ((low * 2654435761 + high * 40503) % 1009) / 256.0
    return BlockCSR(block.indptr, block.indices, weight, block.node_ptr)
