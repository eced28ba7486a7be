"""Write the captions of drawings. Where only a part of a graph is drawn, they give both numbers."""

from __future__ import annotations

import numpy as np

from tgp.inspect.numbers import count_text, counted
from tgp.inspect.report.pictures import Picture
from tgp.inspect.report.scene import MOST_EDGES, Scene

__all__ = ["facts", "note", "part_title", "sizes_text", "whole_title"]


def sizes_text(sizes: tuple[int, ...]) -> str:
    """Return the numbers of nodes of all levels."""
    shown = [count_text(n) for n in sizes]
    if len(shown) > 6:
        shown = [*shown[:3], "…", *shown[-2:]]
    return f"{' → '.join(shown)} node{'s' * (sizes != (1,))}"


def whole_title(scene: Scene) -> str | None:
    """Return the title of the drawings of a large graph; ``None`` if the graph is drawn from level 0 on."""
    if scene.neighbourhood is None:
        return None
    return f"The whole graph, drawn from level {scene.pictures[0].level} on"


def part_title(scene: Scene) -> str:
    """Return the title of the drawings of a neighbourhood."""
    part = scene.neighbourhood
    assert part is not None, "a part has a neighbourhood"
    if part.hierarchy is None:
        return f"Neighbourhood of node {part.centre}"
    if part.hierarchy != scene.hierarchy:
        return "The same neighbourhood"
    return f"Neighbourhood of supernode {part.supernode} of level {part.level}"


def note(scene: Scene) -> str | None:
    """Explain why the whole graph is not drawn."""
    if scene.is_too_large:
        return (
            f"Not drawn: a graph with more than {counted(MOST_EDGES, 'edge')} is drawn from a store of the fast profile only, "
            "because this one must be decoded completely."
        )
    if not scene.pictures and not scene.part:
        return "Nothing to draw: the graph has no nodes."
    if scene.is_sample:
        drawn, total = len(scene.part[0].nodes), scene.part[0].num_nodes
        return (
            f"A sample: of the input graph, {count_text(drawn)} of {counted(total, 'node')} ({100 * drawn / total:.2g} %) are drawn, "
            f"and only their edges were read, because it has more than {counted(MOST_EDGES, 'edge')}. "
            "The same nodes are followed through all levels."
        )
    if not scene.pictures:
        last = f"the last level has {counted(scene.sizes[-1], 'node')}"
        return f"The whole graph is not drawn, because every level is too large: {last}."
    return None


def facts(picture: Picture) -> str:
    """Return the sizes of a level. Where only a part of the level is drawn, both numbers are given."""
    drawn = len(picture.nodes)
    if drawn < picture.num_nodes:
        found = [f"{count_text(drawn)} of {counted(picture.num_nodes, 'node')} drawn"]
    else:
        found = [counted(drawn, "node"), counted(picture.num_edges, "edge")]
    if not picture.last:
        joined = len(np.unique(picture.target[picture.target >= 0]))
        if drawn < picture.num_nodes:
            found.append(f"in {count_text(joined)} of {counted(picture.num_targets, 'supernode')}")
        else:
            found.append(counted(picture.num_targets, "supernode"))
            empty = picture.num_targets - joined
            if (
                empty > 0 and (picture.share < 1.0).any()
            ):  # a soft supernode may have shares, but no node of its own
                found.append(f"{count_text(joined)} of them drawn")
            elif empty > 0:
                found.append(f"{count_text(empty)} of them empty")
        dropped = int((picture.target < 0).sum())
        found += [f"{counted(dropped, 'node')} dropped"] if dropped else []
    return " · ".join(found)
