"""Hypothesis strategies for blocks and schedules. The only module that imports hypothesis.

Drawn blocks hold what breaks code: no graphs, graphs without nodes, single and isolated nodes,
several components, self loops, parallel edges, directed edges, zero and negative weights.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

from tgp.engine import METHODS
from tgp.engine.schedule import LevelSpec, Schedule
from tgp.ragged import BlockCSR

__all__ = ["NUMBERS", "blocks", "graphs", "levels", "schedules"]


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
def levels(draw: Any, method: str) -> LevelSpec:
    """One level of a method with valid parameters, drawn from the types of its fields.

    Numbers come from :data:`NUMBERS`, because a type does not say which values are valid; a parameter that has no
    line there has its default.
    """
    params = METHODS[method].params
    hints = typing.get_type_hints(params)
    given = {}
    for field in dataclasses.fields(params):
        values = NUMBERS.get(field.name) or _values(hints[field.name])
        if values and draw(st.booleans()):
            given[field.name] = draw(st.sampled_from(values))
    return LevelSpec.of(method, given)


@st.composite
def schedules(draw: Any, methods: Sequence[str] | None = None, max_levels: int = 4) -> Schedule:
    """Levels of the given methods with valid parameters; equal neighbours are likely.

    Args:
        methods: Aliases; ``None`` draws from the whole table, registered methods included.
        max_levels: Largest number of levels.
    """
    names = st.sampled_from(sorted(METHODS) if methods is None else list(methods))
    first = draw(names)
    found = [draw(levels(first))]
    for _ in range(draw(st.integers(0, max_levels - 1))):
        found.append(found[-1] if draw(st.booleans()) else draw(levels(draw(names))))
    return Schedule(tuple(found))


NUMBERS: dict[str, list[Any]] = {
    "k": [1, 2, 3, 5],
    "num_modes": [1, 2, 3],
    "order_k": [1, 2, 3],
    "ratio": [0.1, 0.5, 1.0],
    "restarts": [1, 2],
    "sparse_threshold": [0.0, 0.01, 0.1],
    "tol": [0.01, 0.001],
    "max_sweeps": [5, 50],
}
"""Name of a parameter -> values that are valid for every method that has it."""


def _values(hint: Any) -> list[Any]:
    """Values of a type that has few of them."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return list(typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return [value for part in typing.get_args(hint) for value in _values(part)]
    return {bool: [False, True], type(None): [None]}.get(hint, [])
