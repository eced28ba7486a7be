"""Choose what is drawn of one graph at all of its levels. Used by the report, the viewer and the plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tgp.inspect.report.level_graphs import Neighbourhood, choose_neighbourhood, read_input, read_levels
from tgp.inspect.report.pictures import Picture, level_pictures, place_at_positions, places_of
from tgp.inspect.report.sampled_levels import SampledLevels
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.store import StoreReader

__all__ = ["MAX_NODES", "MOST_EDGES", "Scene", "graph_scenes"]

MAX_NODES = 400
"""Largest number of nodes of a drawing. A larger graph is drawn whole from the first level that is small enough."""

MOST_EDGES = 20_000_000
"""Largest number of edges of a graph that is read for a drawing."""

_CROWD = 3
"""If no level is small enough, the last level is drawn if it has at most this many times more nodes."""

_PART = 0.4
"""Size of the drawn part of a large input graph, as a share of the largest drawing."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Pictures of one graph in one hierarchy.

    Args:
        graph: id of the graph.
        hierarchy: name of the hierarchy.
        sizes: number of nodes at every level, the input graph first.
        pictures: the whole graph at the levels that are small enough to draw, finest first.
        part: a neighbourhood of a large input graph at all levels, finest first; empty if the input graph is drawn.
        neighbourhood: nodes of that neighbourhood; ``None`` if the input graph is drawn.
        reason: reason why the graph could not be coarsened; ``None`` if it was coarsened.
        is_sample: True if only the surroundings of the neighbourhood were read, because the graph has more than :data:`MOST_EDGES` edges.
        is_too_large: True if the graph was not read, because it is also compressed.
    """

    graph: int
    hierarchy: str
    sizes: tuple[int, ...]
    pictures: tuple[Picture, ...]
    part: tuple[Picture, ...] = ()
    neighbourhood: Neighbourhood | None = None
    reason: str | None = None
    is_sample: bool = False
    is_too_large: bool = False


def _sizes(reader: StoreReader, graph: int, name: str) -> tuple[int, ...]:
    return tuple(
        int(reader.sizes(name, level)[0][graph]) for level in range(reader.hierarchy(name).depth + 1)
    )


def graph_scenes(
    reader: StoreReader,
    graph: int,
    hierarchies: str | Sequence[str] | None = None,
    *,
    max_nodes: int = MAX_NODES,
) -> list[Scene]:
    """Place a graph in some or in all hierarchies. The input graph has the same places in all of them.

    A graph with more than ``max_nodes`` nodes is drawn twice: the whole graph at its coarse levels, and a neighbourhood of
    the input graph at all levels. The neighbourhood is the same in all hierarchies. It is chosen from the first of them. Of a graph with
    more than :data:`MOST_EDGES` edges only the rows of the drawn nodes are read.

    Args:
        reader: store.
        graph: id of the graph.
        hierarchies: name or names of hierarchies; all if ``None``.
        max_nodes: largest number of nodes of a drawing.

    Returns:
        One scene per hierarchy.
    """
    if isinstance(hierarchies, str):
        hierarchies = [hierarchies]
    names = [*reader.hierarchies] if hierarchies is None else [reader.hierarchy(h).name for h in hierarchies]
    if int(reader.sizes()[1][graph]) > MOST_EDGES:
        if reader.manifest.spec.profile == "fast":
            return list(_sampled_scenes(reader, graph, names, max_nodes))
        return [Scene(graph, name, _sizes(reader, graph, name), (), is_too_large=True) for name in names]
    first = read_input(reader, graph)
    part: Neighbourhood | None = None
    places: FloatArray | None = None
    scenes = []
    for name in names:
        chain, reason = read_levels(reader, graph, name, first)
        chain = place_at_positions(chain)
        sizes = tuple(level.num_nodes for level in chain)
        start = _first_drawn(sizes, max_nodes)
        if first.num_nodes > max_nodes and part is None:
            deepest = len(chain) - 1 if start is None else start
            part = choose_neighbourhood(chain, name, deepest, max(int(_PART * max_nodes), 1))
        if places is None:
            shown = np.arange(first.num_nodes) if part is None else part.nodes
            places = places_of(chain[0], shown)
        if part is None:
            pictures = level_pictures(chain, 0, np.arange(first.num_nodes), places)
            scenes.append(Scene(graph, name, sizes, pictures, reason=reason))
            continue
        whole: tuple[Picture, ...] = ()
        if start is not None:
            everything = np.arange(sizes[start])
            whole = level_pictures(chain, start, everything, places_of(chain[start], everything), part.centre)
        scenes.append(
            Scene(
                graph,
                name,
                sizes,
                whole,
                level_pictures(chain, 0, part.nodes, places, part.centre),
                part,
                reason,
            )
        )
    return scenes


def _sampled_scenes(reader: StoreReader, graph: int, names: Sequence[str], max_nodes: int) -> Iterator[Scene]:
    """Yield the same as :func:`graph_scenes` for a large graph, of which only the rows of the drawn nodes are read."""
    part: Neighbourhood | None = None
    places: FloatArray | None = None
    for name in names:
        levels = SampledLevels(reader, graph, name)
        start = _first_drawn(levels.sizes, max_nodes)
        if part is None:
            deepest = len(levels.sizes) - 1 if start is None else start
            part = levels.choose_neighbourhood(deepest, max(int(_PART * max_nodes), 1))
        chain, ids = levels.read_part(0, part.nodes)
        chain = place_at_positions(chain)
        nodes = np.arange(len(part.nodes))
        places = places_of(chain[0], nodes) if places is None else places
        marked = int(np.searchsorted(part.nodes, part.centre))
        near = level_pictures(chain, 0, nodes, places, marked)
        whole: tuple[Picture, ...] = ()
        if start is not None:
            for finer in chain[:start]:
                marked = -1 if marked < 0 or finer.owner is None else int(finer.owner[marked])
            marked = int(ids[start][marked]) if start < len(ids) and marked >= 0 else -1
            everything = np.arange(levels.sizes[start])
            coarse, all_ids = levels.read_part(start, everything)
            coarse = place_at_positions(coarse)
            pictures = level_pictures(coarse, 0, everything, places_of(coarse[0], everything), marked)
            whole = _with_ids(pictures, levels, start, all_ids)
        sizes = tuple(levels.sizes)
        drawn = _with_ids(near, levels, 0, ids)
        yield Scene(graph, name, sizes, whole, drawn, part, levels.reason, is_sample=True)


def _with_ids(
    pictures: Sequence[Picture], levels: SampledLevels, start: int, ids: Sequence[LongArray]
) -> tuple[Picture, ...]:
    """Return pictures of a part of a graph with the ids and the sizes of the whole graph.

    Args:
        pictures: pictures of the part.
        levels: levels of the graph.
        start: level of the first picture.
        ids: ids of the nodes of each picture in the whole graph.
    """
    found = []
    for picture in pictures:
        level = start + picture.level
        above = ids[picture.level] if picture.last else ids[picture.level + 1]
        found.append(
            replace(
                picture,
                level=level,
                num_nodes=levels.sizes[level],
                num_edges=levels.num_edges[level],
                num_targets=0 if picture.last else levels.sizes[level + 1],
                nodes=ids[picture.level][picture.nodes],
                target=np.append(above, -1)[picture.target],
            )
        )
    return tuple(found)


def _first_drawn(sizes: Sequence[int], max_nodes: int) -> int | None:
    """Return the first level that is small enough to draw the whole graph, or ``None``."""
    small = next((i for i, size in enumerate(sizes) if size <= max_nodes), None)
    if small is None and len(sizes) > 1 and sizes[-1] <= _CROWD * max_nodes:
        return len(sizes) - 1
    return small
