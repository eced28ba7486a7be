"""Compute the drawings of graphs: coordinates, classes and captions. Templates turn them into SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tgp.inspect.numbers import count_text, counted
from tgp.inspect.report.charts import coordinate, level_name
from tgp.inspect.report.palette import COLOURS
from tgp.inspect.report.scene import MAX_NODES, Floats, Ints, Picture, Scene, member_radius, node_radius

__all__ = ["Drawing", "NodeMark", "SceneDrawing", "draw_scene", "legend_marks"]

_LOW, _HIGH, _MARGIN = 170, 360, 26
"""Smallest and largest height of a drawing, and its margin, in the units of the SVG."""

_THIN = 2.8
"""Smallest radius of a node."""

_STROKES = 5
"""Number of classes of edge widths. All edges of a class are one path."""

_WHOLE = 0.995
"""Share from which on a node counts as assigned to one supernode only."""


@dataclass(frozen=True)
class NodeMark:
    """A node of a drawing.

    Args:
        x: horizontal place.
        y: vertical place.
        radius: radius.
        style: CSS class.
        target: supernode that the node joins, -1 if it is dropped.
        opacity: opacity of a node that several supernodes share, else ``None``.
        text: description.
    """

    x: float
    y: float
    radius: float
    style: str
    target: int
    opacity: str | None
    text: str


@dataclass(frozen=True)
class Drawing:
    """One level of one graph.

    Args:
        level: number of the level; 0 is the input graph.
        method: method that made the level; ``None`` for the input graph.
        height: height of the drawing.
        facts: sizes, for the caption.
        title: description for readers who cannot see the drawing.
        shadow: path of the edges of the first drawn level; empty for that level itself.
        bands: CSS class, width and path of the bands that connect the members of a supernode.
        edges: CSS class and path of the edges.
        nodes: nodes.
        crowded: True if the drawing has many nodes.
    """

    WIDTH: ClassVar[int] = 480

    level: int
    method: str | None
    height: int
    facts: str
    title: str
    shadow: str
    bands: tuple[tuple[str, float, str], ...]
    edges: tuple[tuple[str, str], ...]
    nodes: tuple[NodeMark, ...]
    crowded: bool


@dataclass(frozen=True)
class SceneDrawing:
    """All drawn levels of one graph in one hierarchy.

    Args:
        hierarchy: name of the hierarchy.
        sizes: numbers of nodes of all levels, as text.
        drawings: levels, finest first.
        reason: reason why the graph could not be coarsened, else ``None``.
        note: note about levels that are not drawn, else ``None``.
    """

    hierarchy: str
    sizes: str
    drawings: tuple[Drawing, ...]
    reason: str | None
    note: str | None


def draw_scene(scene: Scene) -> SceneDrawing:
    """Draw all levels of a graph in one hierarchy."""
    drawings: list[Drawing] = []
    if scene.pictures:
        first = scene.pictures[0]
        frame = _Frame(first.places)
        drawings = [
            _draw_picture(picture, frame, None if picture is first else first) for picture in scene.pictures
        ]
    return SceneDrawing(
        scene.hierarchy, _sizes_text(scene.sizes), tuple(drawings), scene.reason, _note(scene)
    )


def _sizes_text(sizes: tuple[int, ...]) -> str:
    shown = [count_text(n) for n in sizes]
    if len(shown) > 6:
        shown = [*shown[:3], "…", *shown[-2:]]
    return f"{' → '.join(shown)} node{'s' * (sizes != (1,))}"


def _note(scene: Scene) -> str | None:
    """Explain why levels are missing from the drawing."""
    if not scene.pictures:
        return "Nothing to draw: no level has nodes and is small enough."
    if scene.ball:
        count = len(scene.pictures[0].nodes)
        return f"Every level is too large to draw: {count} nodes around the one with most neighbours."
    first = scene.pictures[0]
    if first.level:
        size = count_text(first.num_nodes)
        return f"Drawn from level {first.level} on, the first level that is small enough: {size} nodes."
    return None


def _facts(picture: Picture) -> str:
    facts = [counted(picture.num_nodes, "node"), counted(picture.num_edges, "edge")]
    if not picture.last:
        supernodes = len(np.unique(picture.target[picture.target >= 0]))
        facts.append(counted(supernodes, "supernode"))
        dropped = int((picture.target < 0).sum())
        facts += [f"{count_text(dropped)} dropped"] if dropped else []
    return " · ".join(facts)


class _Frame:
    """Transformation of places into the drawing area, the same for all levels of a graph."""

    def __init__(self, places: Floats) -> None:
        low, high = places.min(0), places.max(0)
        width, height = np.maximum(high - low, 1e-9).tolist()
        self.scale = min((Drawing.WIDTH - 2 * _MARGIN) / width, (_HIGH - 2 * _MARGIN) / height, 60.0)
        self.height = round(max(_LOW, height * self.scale + 2 * _MARGIN))
        smallest = _THIN if len(places) <= MAX_NODES else 0.6 * _THIN
        self.radius = node_radius(places, self.scale, smallest, 8.0)
        self.shift: Floats = np.array([Drawing.WIDTH, self.height]) / 2 - self.scale * (low + high) / 2

    def transform(self, places: Floats) -> Floats:
        placed: Floats = places * self.scale + self.shift
        return placed


def _draw_picture(picture: Picture, frame: _Frame, first: Picture | None) -> Drawing:
    places, centres = frame.transform(picture.places), frame.transform(picture.centres)
    name = "the input graph" if picture.level == 0 else level_name(picture.level)
    strokes = np.minimum((np.sqrt(picture.strength) * _STROKES).astype(np.int64), _STROKES - 1)
    edges = [
        (f"edge w{stroke} f{picture.faint}", _edge_path(places, picture.edges[:, strokes == stroke]))
        for stroke in np.unique(strokes).tolist()
    ]
    return Drawing(
        picture.level,
        picture.method if picture.level else None,
        frame.height,
        _facts(picture),
        f"Drawing of {name}: {counted(picture.num_nodes, 'node')}",
        "" if first is None else _edge_path(frame.transform(first.places), first.edges),
        tuple(_bands(picture, places, centres, 3.4 * frame.radius)),
        tuple(edges),
        tuple(_node_marks(picture, places, frame.radius)),
        crowded=len(picture.nodes) > MAX_NODES,
    )


def _bands(picture: Picture, places: Floats, centres: Floats, width: float) -> list[tuple[str, float, str]]:
    """Connect each node with the place of its supernode, one path per colour. Together the bands show the clusters."""
    found = []
    tied = picture.tied
    for colour in range(COLOURS):
        chosen = np.flatnonzero((picture.colour == colour) & tied)
        if len(chosen):
            found.append((f"tie c{colour}", width, _path(places[chosen], centres[chosen])))
    return found


def _node_marks(picture: Picture, places: Floats, base: float) -> list[NodeMark]:
    found = []
    rows = zip(
        picture.nodes.tolist(), places.tolist(), member_radius(picture, base).tolist(), picture.target.tolist(),
        picture.colour.tolist(), picture.share.tolist(), picture.members.tolist(), strict=True,
    )  # fmt: skip
    for node, (x, y), radius, target, colour, share, members in rows:
        text = f"node {node}"
        if members > 1:
            text += f", stands for {counted(members, 'node')}"
        if not picture.last:
            text += f" → supernode {target}" if target >= 0 else ", dropped"
            text += f" ({100 * share:.0f} %)" if share < _WHOLE else ""
        style = f"c{colour}" if colour >= 0 else "dropped"
        opacity = None if share >= _WHOLE else f"{0.25 + 0.75 * share:.2f}"
        found.append(NodeMark(x, y, radius, style, target, opacity, text))
    return found


def _edge_path(places: Floats, edges: Ints) -> str:
    return _path(places[edges[0]], places[edges[1]])


def _path(starts: Floats, ends: Floats) -> str:
    """Return the path data of straight lines."""
    return "".join(
        f"M{coordinate(x)} {coordinate(y)}L{coordinate(u)} {coordinate(v)}"
        for (x, y), (u, v) in zip(starts.tolist(), ends.tolist(), strict=True)
    )


def legend_marks(scenes: Sequence[Scene]) -> set[str]:
    """Return the names of the marks that occur in the drawings and need an entry in the legend."""
    pictures = [picture for scene in scenes for picture in scene.pictures]
    joining = [picture for picture in pictures if not picture.last]
    marks = {
        "band": any(p.tied.any() for p in joining),
        "size": any(len(np.unique(p.members)) > 1 for p in pictures),
        "shared": any((p.share < _WHOLE).any() for p in joining),
        "dropped": any((p.target < 0).any() for p in joining),
        "weight": any(len(np.unique(p.strength)) > 1 for p in pictures),
        "shadow": any(len(scene.pictures) > 1 for scene in scenes),
    }
    return {name for name, occurs in marks.items() if occurs}
