"""Hypothesis strategies for blocks and schedules. The only module that imports hypothesis.

Drawn blocks hold what breaks code: no graphs, graphs without nodes, single and isolated nodes,
several components, self loops, parallel edges, directed edges, zero and negative weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tgp.coarsen.schedule import LevelSpec, Schedule
from tgp.ragged import BlockCSR

__all__ = ["blocks", "graphs", "schedules"]


@st.composite
def graphs(
    draw: Any,
    *,
    min_nodes: int = 0,
    max_nodes: int = 10,
    max_edges: int = 24,
    weighted: bool | None = None,
    directed: bool | None = None,
    simple: bool = False,
    negative: bool = True,
) -> BlockCSR:
    """One graph as a block.

    Args:
        min_nodes: smallest size.
        max_nodes: largest size.
        max_edges: most edges drawn (before mirroring).
        weighted: with weights or without; ``None`` draws it.
        directed: ``False`` mirrors every edge with its weight; ``None`` draws it.
        simple: no self loops and no parallel edges.
        negative: weights may be negative.
    """
    has_weight = draw(st.booleans()) if weighted is None else weighted
    one_way = draw(st.booleans()) if directed is None else directed
    n = draw(st.integers(min_nodes, max_nodes))
    node = st.integers(0, max(n - 1, 0))
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_edges)) if n else []
    if simple:
        pairs = sorted({(u, v) if one_way else (min(u, v), max(u, v)) for u, v in pairs if u != v})
    # Quarters add up without rounding, so ties and cancellations do happen.
    value = st.integers(-8 if negative else 0, 16)
    weight = [draw(value) / 4 for _ in pairs] if has_weight else None
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    values = None if weight is None else np.array(weight, dtype=np.float64)
    if not one_way:
        proper = edges[:, 0] != edges[:, 1]
        edges = np.concatenate([edges, edges[proper][:, ::-1]])
        values = None if values is None else np.concatenate([values, values[proper]])
    return BlockCSR.from_edge_index(edges.T, values, num_nodes=n)


@st.composite
def blocks(
    draw: Any,
    *,
    min_graphs: int = 0,
    max_graphs: int = 5,
    weighted: bool | None = None,
    directed: bool | None = None,
    **options: Any,
) -> BlockCSR:
    """Several graphs as one block, all weighted or none. Other options as in :func:`graphs`."""
    has_weight = draw(st.booleans()) if weighted is None else weighted
    one_way = draw(st.booleans()) if directed is None else directed
    one = graphs(weighted=has_weight, directed=one_way, **options)
    parts = draw(st.lists(one, min_size=min_graphs, max_size=max_graphs))
    return BlockCSR.concat(parts)


@st.composite
def schedules(
    draw: Any, methods: Sequence[str] = ("graclus", "nopool", "random"), max_levels: int = 4
) -> Schedule:
    """Levels of the given methods with default parameters; equal neighbours are likely."""
    names = draw(st.lists(st.sampled_from(list(methods)), min_size=1, max_size=max_levels))
    return Schedule(tuple(LevelSpec.of(name) for name in names))
