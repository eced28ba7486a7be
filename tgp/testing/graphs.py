"""Named small graphs and random graphs, as blocks of one graph. This module does not import torch.

Undirected graphs store both directions of every edge.

>>> path(3).edge_index().tolist()
[[0, 1, 1, 2], [1, 0, 2, 1]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import run_positions

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
    "with_attributes",
]

Pairs = Sequence[tuple[int, int]] | npt.NDArray[np.integer]


def from_pairs(
    num_nodes: int, pairs: Pairs, weights: npt.ArrayLike | None = None, *, both_ways: bool = True
) -> BlockCSR:
    """Return a graph from pairs of nodes.

    Args:
        num_nodes: Number of nodes.
        pairs: Source and target of each edge.
        weights: Weight of each edge.
        both_ways: Add the opposite of every edge, except for self loops.

    Raises:
        InputError: If the number of weights is not the number of pairs.
    """
    edges = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    values = None if weights is None else np.asarray(weights, dtype=np.float64)
    if values is not None and values.shape != (len(edges),):
        raise InputError(
            f"weights must have shape [{len(edges)}], got {list(values.shape)}.", field="weights"
        )
    if both_ways:
        proper = edges[:, 0] != edges[:, 1]
        edges = np.concatenate([edges, edges[proper][:, ::-1]])
        values = None if values is None else np.concatenate([values, values[proper]])
    return BlockCSR.from_edge_index(edges.T, values, num_nodes=num_nodes)


def with_attributes(block: BlockCSR, salt: int = 0) -> BlockCSR:
    """Return the block with features ``x`` ``[N, 4]`` and positions ``pos`` ``[N, 2]`` in the unit square.

    Args:
        block: The graphs.
        salt: Number that changes the values. They depend on it and on the index of a node inside its graph.
    """
    node = run_positions(block.node_ptr)
    words = (node[:, None] * 2654435761 + np.arange(6) * 40503 + salt * 977 + 12345) % 2**31
    values = (words * 48271 % 2147483647) / 2147483647
    return block.with_values(x=(values[:, :4] - 0.25).astype(np.float32), pos=values[:, 4:])


def empty() -> BlockCSR:
    """Return a graph without nodes."""
    return from_pairs(0, [])


def single_node() -> BlockCSR:
    """Return one node without edges."""
    return from_pairs(1, [])


def self_loop() -> BlockCSR:
    """Return two connected nodes, each with a self loop."""
    return from_pairs(2, [(0, 0), (0, 1), (1, 1)])


def isolated(n: int = 4) -> BlockCSR:
    """Return ``n`` nodes without edges."""
    return from_pairs(n, [])


def path(n: int = 6) -> BlockCSR:
    """Return a path of ``n`` nodes."""
    return from_pairs(n, [(i, i + 1) for i in range(n - 1)])


def cycle(n: int = 6) -> BlockCSR:
    """Return a ring of ``n >= 3`` nodes."""
    return from_pairs(n, [(i, (i + 1) % n) for i in range(n)])


def star(n: int = 7) -> BlockCSR:
    """Return a star: node 0 is connected to ``n - 1`` leaves."""
    return from_pairs(n, [(0, i) for i in range(1, n)])


def complete(n: int = 5) -> BlockCSR:
    """Return a complete graph of ``n`` nodes."""
    return from_pairs(n, [(i, j) for i in range(n) for j in range(i)])


def grid2d(rows: int = 4, cols: int = 5) -> BlockCSR:
    """Return a grid with nodes numbered row by row."""
    ids = np.arange(rows * cols).reshape(rows, cols)
    across = np.stack([ids[:, :-1].ravel(), ids[:, 1:].ravel()], axis=1)
    down = np.stack([ids[:-1].ravel(), ids[1:].ravel()], axis=1)
    return from_pairs(rows * cols, np.concatenate([across, down]))


def disconnected() -> BlockCSR:
    """Return a triangle, a path of three nodes, and an isolated node."""
    return from_pairs(7, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5)])


def weighted() -> BlockCSR:
    """Return a ring of five nodes with weights 1 to 5 and a chord of weight 0.5."""
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]
    return from_pairs(5, pairs, [1.0, 2.0, 3.0, 4.0, 5.0, 0.5])


def directed() -> BlockCSR:
    """Return a directed ring of four nodes with one additional edge."""
    return from_pairs(4, [(0, 1), (1, 2), (2, 3), (3, 0), (2, 1)], both_ways=False)


def erdos_renyi(n: int = 20, p: float = 0.2, seed: int = 0) -> BlockCSR:
    """Return a random graph in which each pair is connected with probability ``p``."""
    rng = np.random.default_rng(seed)
    low, high = np.triu_indices(n, k=1)
    chosen = rng.random(len(low)) < p
    return from_pairs(n, np.stack([low[chosen], high[chosen]], axis=1))


def barabasi_albert(n: int = 20, m: int = 2, seed: int = 0) -> BlockCSR:
    """Return a random graph of preferential attachment.

    Each new node is connected to ``m`` earlier nodes, with probability proportional to their degree.

    Args:
        n: Number of nodes.
        m: Number of edges of each new node.
        seed: Seed of the random number generator.

    Raises:
        InputError: If ``m`` is not in ``[1, n)``.
    """
    if not 1 <= m < n:
        raise InputError(f"m must be in [1, {n}), got {m}.", field="m")
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
"""Edges of Zachary's karate club, with nodes numbered from 0."""


def karate() -> BlockCSR:
    """Return Zachary's karate club: 34 nodes and 78 edges."""
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
"""Functions that return a small graph, by name. All have default arguments."""


def toy_block(*, weighted: bool = False) -> BlockCSR:
    """Return all undirected small graphs as one block.

    Args:
        weighted: Add symmetric weights, which are the same in every call.
    """
    block = BlockCSR.concat(
        [make() for name, make in TOY_GRAPHS.items() if name not in ("weighted", "directed")]
    )
    if not weighted:
        return block
    rows, cols = block.edge_index()
    low, high = np.minimum(rows, cols), np.maximum(rows, cols)
    weight = 0.25 + ((low * 2654435761 + high * 40503) % 1009) / 256.0
    return BlockCSR(block.indptr, block.indices, weight, block.node_ptr)
