"""Read one graph at all of its levels, and choose the part of a large graph that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Field
from tgp.store import StoreReader

__all__ = [
    "LevelGraph",
    "Neighbourhood",
    "choose_neighbourhood",
    "choose_supernode",
    "grow_nodes",
    "largest_owners",
    "read_input",
    "read_levels",
    "restrict",
    "simple_edges",
    "usable_positions",
]

_PLAIN = 1 / 3
"""Strength of edges without weights, and of edges with equal weights."""

_CORE = 60
"""Largest number of input nodes of the supernode in the middle of a neighbourhood."""


@dataclass(frozen=True, eq=False)
class LevelGraph:
    """A graph at one level, and its assignment to the next level.

    Args:
        method: method that made the level; ``"input"`` for the input graph.
        members: ``[N]`` number of input nodes that each node stands for.
        ends: ``[2, E]`` stored edges.
        weight: ``[E]`` weights, or ``None``.
        owner: ``[N]`` supernode of each node at the next level, -1 if it is dropped; ``None`` at the last level.
        share: ``[N]`` share of the node that belongs to its owner; ``None`` at the last level.
        pos: ``[N, d]`` positions of the nodes in two or three dimensions; ``None`` if there are none.
    """

    method: str
    members: LongArray
    ends: npt.NDArray[Any]
    weight: npt.NDArray[Any] | None
    owner: LongArray | None = None
    share: FloatArray | None = None
    pos: FloatArray | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.members)

    @property
    def num_edges(self) -> int:
        """Number of stored edges."""
        return int(self.ends.shape[1])


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Part of a large input graph.

    Args:
        nodes: ids of its nodes, ascending.
        centre: node in its middle.
        hierarchy: hierarchy of the supernode around which it lies; ``None`` if it lies around ``centre`` only.
        level: level of that supernode.
        supernode: id of that supernode.
    """

    nodes: LongArray
    centre: int
    hierarchy: str | None = None
    level: int = 0
    supernode: int = -1


def simple_edges(ends: npt.NDArray[Any], weight: npt.NDArray[Any] | None) -> tuple[LongArray, FloatArray]:
    """Return the edges of a graph for a drawing.

    Args:
        ends: ``[2, E]`` edges.
        weight: ``[E]`` weights, or ``None``.

    Returns:
        ``[2, e]`` pairs of neighbours, each pair once and without self-loops, and ``[e]`` strengths: the weights divided
        by the largest weight, or 1/3 if all weights are equal.
    """
    ends = np.sort(np.asarray(ends, np.int64).reshape(2, -1), axis=0)
    kept = ends[0] != ends[1]
    width = int(ends.max(initial=0)) + 1
    keys, place = np.unique(ends[0, kept] * width + ends[1, kept], return_inverse=True)
    pairs = np.stack([keys // width, keys % width])
    strength = np.full(pairs.shape[1], _PLAIN)
    if weight is not None and pairs.shape[1]:
        flat = np.abs(np.nan_to_num(np.asarray(weight, np.float64).reshape(-1), posinf=0.0, neginf=0.0))
        np.maximum.at(strength := np.zeros(pairs.shape[1]), place.reshape(-1), flat[kept])
        low, high = float(strength.min()), float(strength.max())
        strength = np.full(len(strength), _PLAIN) if high - low <= 1e-6 * high else strength / high
    return pairs, strength


def restrict(graph: LevelGraph, nodes: LongArray) -> tuple[LongArray, FloatArray]:
    """Return the edges between ``nodes`` as indices into ``nodes``, and their strengths; see :func:`simple_edges`."""
    where = np.full(graph.num_nodes, -1)
    where[nodes] = np.arange(len(nodes))
    ends = where[graph.ends]
    kept = (ends >= 0).all(0)
    return simple_edges(ends[:, kept], None if graph.weight is None else graph.weight[kept])


def largest_owners(s: npt.NDArray[Any]) -> tuple[LongArray, FloatArray]:
    """Return the supernode with the largest share of each node, and that share. Rows of zeros give -1."""
    size = np.abs(np.nan_to_num(np.asarray(s, np.float64)))
    total = size.sum(1)
    owner = np.where(total > 0, size.argmax(1) if size.shape[1] else -1, -1)
    return owner, np.where(total > 0, size.max(1, initial=0.0) / np.maximum(total, 1e-12), 1.0)


def read_input(reader: StoreReader, graph: int) -> LevelGraph:
    """Read an input graph. Its positions are read if levels of the store have positions, too."""
    names = ["edge_index", "edge_weight"]
    levels = [level for info in reader.hierarchies.values() for level in info.levels]
    if any(field.name == "pos" for level in levels for field in level.fields):
        names.append("pos")
    table = reader.read_graph(graph, [name for name in names if name in reader.fields])
    ends = table.fields["edge_index"].values if "edge_index" in table.fields else np.zeros((2, 0), np.int64)
    weight = table.fields["edge_weight"].values if "edge_weight" in table.fields else None
    if weight is not None:
        weight = weight.reshape(-1) if weight.size == ends.shape[1] else None
    nodes = int(table.node_ptr[-1])
    return LevelGraph("input", np.ones(nodes, np.int64), ends, weight, pos=_positions(table.fields, nodes))


def _positions(fields: Mapping[str, Field], nodes: int) -> FloatArray | None:
    found = fields.get("pos")
    return None if found is None or found.form != "rows" else usable_positions(found.values, nodes)


def usable_positions(values: npt.NDArray[Any], nodes: int) -> FloatArray | None:
    """Return positions of nodes in two or three dimensions, or ``None`` if they cannot be drawn."""
    if values.shape not in ((nodes, 2), (nodes, 3)):
        return None
    pos: FloatArray = values.astype(np.float64) if values.dtype.kind in "iuf" else np.full(1, np.nan)
    # Squares of larger numbers would overflow.
    return pos if (np.abs(pos) < 1e100).all() else None


def read_levels(
    reader: StoreReader, graph: int, name: str, first: LevelGraph
) -> tuple[list[LevelGraph], str | None]:
    """Read all levels of a graph in one hierarchy.

    Args:
        reader: store.
        graph: id of the graph.
        name: name of the hierarchy.
        first: input graph.

    Returns:
        The graphs of all levels, each with its assignment to the next level, and the reason if the graph could not be
        coarsened. In that case the empty levels after the failure are left out.
    """
    chain, before = [], first
    methods = [level.method for level in reader.hierarchies[name].levels]
    levels = reader.read_levels(graph, name, ("edge_weight", "cluster", "soft"), ("pos",))
    for level, method in zip(levels, methods, strict=True):
        count = int(level.super_ptr[-1])
        given = level.assignment
        if given.soft is not None:
            owner, share = largest_owners(given.soft)
            owner[owner >= count] = -1
        else:
            owner = given.cluster if given.cluster is not None else np.full(before.num_nodes, -1)
            share = np.ones(before.num_nodes)
        owner = owner.astype(np.int64)
        chain.append(replace(before, owner=owner, share=np.nan_to_num(share.astype(np.float64))))
        kept = owner >= 0
        members = np.bincount(owner[kept], before.members[kept], minlength=count).astype(np.int64)
        weight = None if level.edge_weight is None else level.edge_weight.reshape(-1)
        pos = _positions(level.fields, count)
        before = LevelGraph(method, members, level.edge_index, weight, pos=pos)
    chain.append(before)
    failed = next((i for i, g in enumerate(chain) if i and not g.num_nodes), None)
    if failed is None or not first.num_nodes:
        return chain, None
    reason = next((f.reason for f in reader.failures(name) if f.graph == graph), None)
    if reason is not None:  # the levels after a failure are empty, but no nodes were dropped
        chain = [*chain[: failed - 1], replace(chain[failed - 1], owner=None, share=None)]
    return chain, reason


def choose_neighbourhood(chain: list[LevelGraph], hierarchy: str, deepest: int, size: int) -> Neighbourhood:
    """Choose the part of a large graph that is drawn.

    It lies around the supernode with the most input nodes, if these are not too many; of equal ones, the one of the
    coarsest level and with the smallest id. Nearer nodes, nodes with more edges into the part, and smaller ids come first.

    Args:
        chain: graphs of all levels.
        hierarchy: name of the hierarchy.
        deepest: coarsest level to choose the supernode from.
        size: number of nodes to choose.

    Returns:
        The part, around the node with most neighbours if no supernode has several members.
    """
    first = chain[0]
    level, supernode = choose_supernode([graph.members for graph in chain[1 : deepest + 1]], size)
    degree = np.bincount(first.ends.reshape(-1), minlength=first.num_nodes)
    if supernode < 0:
        centre = int(degree.argmax())
        return Neighbourhood(_grow(first, np.array([centre]), size), centre)
    inside = np.arange(first.num_nodes)
    for graph in chain[:level]:
        assert graph.owner is not None, "only the last level has no assignment"
        inside = np.where(inside >= 0, graph.owner[inside], -1)
    core = np.flatnonzero(inside == supernode)
    centre = int(core[degree[core].argmax()])
    return Neighbourhood(_grow(first, core, size), centre, hierarchy, level, supernode)


def choose_supernode(members: Sequence[LongArray], size: int) -> tuple[int, int]:
    """Return the level and the id of the supernode with the most input nodes, if these are not too many.

    Args:
        members: number of input nodes of each supernode of a level; level 1 first.
        size: largest number of input nodes.

    Returns:
        Of equal supernodes, the one of the coarsest level and with the smallest id. 0 and -1 if none has several members.
    """
    most, level, supernode = 1, 0, -1
    for number, counts in enumerate(members, start=1):
        counts = np.where(counts <= min(_CORE, size), counts, 0)
        if len(counts) and counts.max() >= max(most, 2):
            most, level, supernode = int(counts.max()), number, int(counts.argmax())
    return level, supernode


def _grow(graph: LevelGraph, core: LongArray, size: int) -> LongArray:
    """Return ``core`` and nodes around it, about ``size`` in total; see :func:`grow_nodes`."""
    ends = graph.ends.astype(np.int64, copy=False)
    ones = np.ones(ends.shape[1], np.int8)
    rows = coo_array((ones, (ends[0], ends[1])), shape=(graph.num_nodes, graph.num_nodes)).tocsr()
    columns = rows.T.tocsr()  # edges may be stored in one direction only
    return grow_nodes(core, size, lambda nodes: np.concatenate([rows[nodes].indices, columns[nodes].indices]))


def grow_nodes(core: LongArray, size: int, neighbours: Callable[[LongArray], LongArray]) -> LongArray:
    """Return some nodes and those around them, ascending. Nodes with the most links are added first.

    Args:
        core: the nodes to start from.
        size: largest number of nodes, unless ``core`` has more.
        neighbours: function that returns the neighbours of nodes, once for each link.
    """
    inside = fresh = np.sort(core)
    while len(inside) < size and len(fresh):
        reached = neighbours(fresh)
        found, links = np.unique(reached[~np.isin(reached, inside)], return_counts=True)
        fresh = np.sort(found[np.lexsort((found, -links))][: size - len(inside)])
        inside = np.union1d(inside, fresh)
    return inside
