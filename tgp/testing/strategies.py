"""Hypothesis strategies for blocks and schedules. No other module imports hypothesis.

Blocks contain unusual graphs: no graphs, graphs without nodes, single and isolated nodes, several components, self
loops, parallel edges, directed edges, zero and negative weights.
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
from tgp.errors import ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import with_attributes

__all__ = ["NUMBERS", "blocks", "graphs", "levels", "schedules"]


@st.composite
def graphs(
    draw: st.DrawFn,
    /,
    *,
    min_nodes: int = 0,
    max_nodes: int = 10,
    max_edges: int = 24,
    weighted: bool | None = None,
    directed: bool | None = None,
    simple: bool = False,
    negative: bool = True,
) -> BlockCSR:
    """Draw one graph as a block.

    Args:
        min_nodes: Smallest number of nodes.
        max_nodes: Largest number of nodes.
        max_edges: Largest number of edges, before opposite edges are added.
        weighted: True for weights, False for none; ``None`` for a random choice.
        directed: False adds the opposite of every edge with the same weight; ``None`` for a random choice.
        simple: No self loops and no parallel edges.
        negative: Weights may be negative.
    """
    has_weight = draw(st.booleans()) if weighted is None else weighted
    one_way = draw(st.booleans()) if directed is None else directed
    n = draw(st.integers(min_nodes, max_nodes))
    node = st.integers(0, max(n - 1, 0))
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_edges)) if n else []
    if simple:
        pairs = sorted({(u, v) if one_way else (min(u, v), max(u, v)) for u, v in pairs if u != v})
    # Sums of quarters are exact, so that ties and cancellations occur.
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
    draw: st.DrawFn,
    /,
    *,
    min_graphs: int = 0,
    max_graphs: int = 5,
    weighted: bool | None = None,
    directed: bool | None = None,
    **options: Any,
) -> BlockCSR:
    """Draw several graphs as one block, with the attributes of :func:`~tgp.testing.graphs.with_attributes`.

    Args:
        min_graphs: Smallest number of graphs.
        max_graphs: Largest number of graphs.
        weighted: As in :func:`graphs`, the same for all graphs.
        directed: As in :func:`graphs`, the same for all graphs.
        **options: Further options of :func:`graphs`.
    """
    has_weight = draw(st.booleans()) if weighted is None else weighted
    one_way = draw(st.booleans()) if directed is None else directed
    one = graphs(weighted=has_weight, directed=one_way, **options)
    parts = draw(st.lists(one, min_size=min_graphs, max_size=max_graphs))
    return with_attributes(BlockCSR.concat(parts))


@st.composite
def levels(draw: st.DrawFn, /, method: str) -> LevelSpec:
    """Draw one level of a method with valid parameters.

    Values of bools and choices follow from the types of the fields. Numbers come from :data:`NUMBERS`, because a type
    does not define their valid range. Other parameters have their defaults.

    Args:
        method: Alias of the method.
    """
    params = METHODS[method].params
    hints = typing.get_type_hints(params)
    given = {}
    for field in dataclasses.fields(params):
        values: list[Any] = NUMBERS.get(field.name) or _values(hints[field.name])
        is_drawn = draw(st.booleans()) if values else False
        if is_drawn:
            given[field.name] = draw(st.sampled_from(values))
    while True:
        try:
            return LevelSpec.of(method, given)
        except ParameterError as error:  # values that are valid alone, but not together
            del given[str(error.field)]


@st.composite
def schedules(draw: st.DrawFn, /, methods: Sequence[str] | None = None, max_levels: int = 4) -> Schedule:
    """Draw a schedule with valid parameters. Runs of equal levels are likely.

    Args:
        methods: Aliases; ``None`` for all methods in the table, including registered ones and those of packages.
        max_levels: Largest number of levels.
    """
    names = st.sampled_from(sorted(METHODS) if methods is None else list(methods))
    first = draw(names)
    found = [draw(levels(first))]
    for _ in range(draw(st.integers(0, max_levels - 1))):
        found.append(found[-1] if draw(st.booleans()) else draw(levels(draw(names))))
    return Schedule(tuple(found))


NUMBERS: dict[str, list[Any]] = {
    "backend": ["tgp"],
    "imbalance": [0.0, 0.03, 0.5],
    "k": [1, 2, 3, 5],
    "num_modes": [2, 3],
    "order_k": [1, 2, 3],
    "ratio": [0.1, 0.5, 1.0],
    "repeats": [1, 2],
    "restarts": [1, 2],
    "sparse_threshold": [0.0, 0.01, 0.1],
    "tol": [0.01, 0.001],
    "max_sweeps": [5, 50],
}
"""Values of a parameter that are valid for every method that has it, by name."""


def _values(hint: Any) -> list[Any]:
    """Return the values of a bool, ``None`` or choice; an empty list for other types."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return list(typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return [value for part in typing.get_args(hint) for value in _values(part)]
    if hint is bool:
        return [False, True]
    return [None] if hint is type(None) else []
