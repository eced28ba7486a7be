"""Compute the drawings of graphs: coordinates, classes and captions. Templates turn them into SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tgp.inspect.numbers import counted
from tgp.inspect.report.captions import facts, note, part_title, sizes_text, whole_title
from tgp.inspect.report.charts import coordinate, level_name
from tgp.inspect.report.palette import COLOURS
from tgp.inspect.report.pictures import Picture, member_radius, node_radius
from tgp.inspect.report.scene import MAX_NODES, Scene, graph_scenes
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.store import StoreReader

__all__ = [
    "Drawing",
    "GraphDrawing",
    "NodeMark",
    "SceneDrawing",
    "Strip",
    "draw_graph",
    "draw_scene",
    "legend_marks",
]

_LOW, _HIGH, _MARGIN = 170, 360, 26
"""Smallest and largest height of a drawing, and its margin, in the units of the SVG."""

_THIN = 2.8
"""Smallest radius of a node."""

_STROKES = 5
"""Number of classes of edge widths. All edges of a class are one path."""

_DENSE = 1200
"""Number of edges from which on the edges that do not determine the places of nodes are drawn even fainter."""

_WHOLE = 0.995
"""Share from which on a node counts as assigned to one supernode only."""


@dataclass(frozen=True)
class NodeMark:
    """A node of a drawing.

    Args:
        x: horizontal place.
        y: vertical place.
        radius: radius.
        path: path data of a node that is not a circle, else ``None``.
        style: CSS class.
        target: supernode that the node joins, -1 if it is dropped.
        opacity: opacity of a node that several supernodes share, else ``None``.
        text: description.
    """

    x: float
    y: float
    radius: float
    path: str | None
    style: str
    target: int
    opacity: str | None
    text: str


@dataclass(frozen=True)
class Drawing:
    """One level of one graph, or of a part of it.

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
        ring: place and radius of the ring around the marked node, or ``None``.
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
    ring: tuple[float, float, float] | None
    crowded: bool


@dataclass(frozen=True)
class Strip:
    """Drawings of one graph, or of a part of it, at consecutive levels.

    Args:
        kind: ``"whole"`` or ``"near"`` (a neighbourhood).
        title: what is drawn; ``None`` if the whole graph is drawn from level 0 on.
        drawings: levels, finest first.
    """

    kind: str
    title: str | None
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True)
class SceneDrawing:
    """All drawings of one graph in one hierarchy.

    Args:
        hierarchy: name of the hierarchy.
        sizes: numbers of nodes of all levels, as text.
        depth: number of the last level of the hierarchy.
        strips: the whole graph, and a neighbourhood if the input graph is too large to draw.
        reason: reason why the graph could not be coarsened, else ``None``.
        note: note about levels that are not drawn, else ``None``.
    """

    hierarchy: str
    sizes: str
    depth: int
    strips: tuple[Strip, ...]
    reason: str | None
    note: str | None


@dataclass(frozen=True)
class GraphDrawing:
    """Drawings of one graph in some hierarchies.

    Args:
        graph: id of the graph.
        nodes: number of nodes of the input graph.
        edges: number of stored edges of the input graph.
        scenes: one entry per hierarchy.
        legend: names of the marks that occur and need an entry in the legend.
    """

    graph: int
    nodes: int
    edges: int
    scenes: tuple[SceneDrawing, ...]
    legend: frozenset[str]

    @property
    def levels(self) -> list[int]:
        """Numbers of the drawn levels; level 0 if nothing is drawn."""
        found = {d.level for scene in self.scenes for strip in scene.strips for d in strip.drawings}
        return sorted(found) or [0]


def draw_graph(
    reader: StoreReader,
    graph: int,
    hierarchies: str | Sequence[str] | None = None,
    *,
    max_nodes: int = MAX_NODES,
) -> GraphDrawing:
    """Draw one graph of a store. :func:`tgp.inspect.report.page.render_drawing` turns the result into HTML.

    Args:
        reader: store.
        graph: id of the graph.
        hierarchies: name or names of hierarchies, in this order; all if ``None``.
        max_nodes: largest number of nodes of a drawing; see :func:`tgp.inspect.report.scene.graph_scenes`.

    Returns:
        The drawings. The same graph gives the same drawings.

    Raises:
        InputError: if the store has no such graph.
        UnknownNameError: if the store has no such hierarchy.
    """
    scenes = graph_scenes(reader, graph, hierarchies, max_nodes=max_nodes)
    nodes, edges = reader.sizes()
    return GraphDrawing(
        graph,
        int(nodes[graph]),
        int(edges[graph]),
        tuple(map(draw_scene, scenes)),
        frozenset(legend_marks(scenes)),
    )


def draw_scene(scene: Scene) -> SceneDrawing:
    """Draw all levels of a graph in one hierarchy."""
    strips = []
    if scene.pictures:
        strips.append(Strip("whole", whole_title(scene), _draw_pictures(scene.pictures)))
    if scene.part:
        strips.append(Strip("near", part_title(scene), _draw_pictures(scene.part)))
    return SceneDrawing(
        scene.hierarchy,
        sizes_text(scene.sizes),
        len(scene.sizes) - 1,
        tuple(strips),
        scene.reason,
        note(scene),
    )


def _draw_pictures(pictures: Sequence[Picture]) -> tuple[Drawing, ...]:
    first = pictures[0]
    frame = _Frame(first.places)
    return tuple(_draw_picture(picture, frame, None if picture is first else first) for picture in pictures)


class _Frame:
    """Transformation of places into the drawing area, the same for all levels of a graph."""

    def __init__(self, places: FloatArray) -> None:
        low, high = places.min(0), places.max(0)
        width, height = np.maximum(high - low, 1e-9).tolist()
        self.scale = min((Drawing.WIDTH - 2 * _MARGIN) / width, (_HIGH - 2 * _MARGIN) / height, 60.0)
        self.height = round(max(_LOW, height * self.scale + 2 * _MARGIN))
        smallest = _THIN if len(places) <= MAX_NODES else 0.6 * _THIN
        self.radius = node_radius(places, self.scale, smallest, 8.0)
        self.shift: FloatArray = np.array([Drawing.WIDTH, self.height]) / 2 - self.scale * (low + high) / 2

    def transform(self, places: FloatArray) -> FloatArray:
        placed: FloatArray = places * self.scale + self.shift
        return placed


def _draw_picture(picture: Picture, frame: _Frame, first: Picture | None) -> Drawing:
    places, centres = frame.transform(picture.places), frame.transform(picture.centres)
    strokes = np.minimum((np.sqrt(picture.strength) * _STROKES).astype(np.int64), _STROKES - 1)
    edges = (
        [
            (
                f"edge rest{' dense' * (picture.edges.shape[1] > _DENSE)}",
                _edge_path(places, picture.edges[:, ~picture.core]),
            )
        ]
        if not picture.core.all()
        else []
    )
    for stroke in np.unique(strokes[picture.core]).tolist():
        chosen = picture.edges[:, picture.core & (strokes == stroke)]
        edges.append((f"edge w{stroke} f{picture.faint}", _edge_path(places, chosen)))
    # Supernodes of a neighbourhood can lie closer together than its nodes.
    radius = node_radius(picture.places, frame.scale, 0.4 * frame.radius, frame.radius)
    marks = tuple(_node_marks(picture, places, radius))
    ring = marks[picture.marked] if picture.marked >= 0 else None
    return Drawing(
        picture.level,
        picture.method if picture.level else None,
        frame.height,
        facts(picture),
        f"Drawing of {level_name(picture.level)}: {facts(picture)}",
        "" if first is None else _edge_path(frame.transform(first.places), first.edges),
        tuple(_bands(picture, places, centres, 3.4 * frame.radius)),
        tuple(edges),
        marks,
        None if ring is None else (ring.x, ring.y, ring.radius + 4.0),
        crowded=len(picture.nodes) > MAX_NODES,
    )


def _bands(
    picture: Picture, places: FloatArray, centres: FloatArray, width: float
) -> list[tuple[str, float, str]]:
    """Connect each node with the place of its supernode, one path per colour. Together the bands show the clusters."""
    found = []
    tied = picture.tied
    for colour in range(COLOURS):
        chosen = np.flatnonzero((picture.colour == colour) & tied)
        if len(chosen):
            found.append((f"tie c{colour}", width, _path(places[chosen], centres[chosen])))
    return found


def _node_marks(picture: Picture, places: FloatArray, base: float) -> list[NodeMark]:
    found = []
    rows = zip(
        picture.nodes.tolist(), places.tolist(), member_radius(picture, base).tolist(), picture.target.tolist(),
        picture.colour.tolist(), picture.shape.tolist(), picture.share.tolist(), picture.members.tolist(), strict=True,
    )  # fmt: skip
    kind = "node" if picture.level == 0 else "supernode"
    for node, (x, y), radius, target, colour, shape, share, members in rows:
        text = f"{kind} {node}"
        if members > 1:
            text += f", stands for {counted(members, 'input node')}"
        if not picture.last:
            text += f" → supernode {target}" if target >= 0 else ", dropped"
            text += f" ({100 * share:.0f} %)" if share < _WHOLE else ""
        style = f"c{colour}" if colour >= 0 else "dropped"
        opacity = None if share >= _WHOLE else f"{0.25 + 0.75 * share:.2f}"
        found.append(NodeMark(x, y, radius, _shape_path(shape, x, y, radius), style, target, opacity, text))
    return found


_CORNERS = (
    None,
    ((-0.89, -0.89), (0.89, -0.89), (0.89, 0.89), (-0.89, 0.89)),
    ((0.0, -1.3), (1.15, 0.75), (-1.15, 0.75)),
    ((0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)),
)
"""Corners of the shapes of a node of radius 1, in the order of ``SHAPES``. The areas are about equal."""


def _shape_path(shape: int, x: float, y: float, radius: float) -> str | None:
    """Return the path data of a node, or ``None`` if it is a circle."""
    corners = _CORNERS[shape]
    if corners is None:
        return None
    return (
        "M" + "L".join(f"{coordinate(x + radius * u)} {coordinate(y + radius * v)}" for u, v in corners) + "Z"
    )


def _edge_path(places: FloatArray, edges: LongArray) -> str:
    return _path(places[edges[0]], places[edges[1]])


def _path(starts: FloatArray, ends: FloatArray) -> str:
    """Return the path data of straight lines."""
    return "".join(
        f"M{coordinate(x)} {coordinate(y)}L{coordinate(u)} {coordinate(v)}"
        for (x, y), (u, v) in zip(starts.tolist(), ends.tolist(), strict=True)
    )


def legend_marks(scenes: Sequence[Scene]) -> set[str]:
    """Return the names of the marks that occur in the drawings and need an entry in the legend."""
    pictures = [picture for scene in scenes for picture in (*scene.pictures, *scene.part)]
    joining = [picture for picture in pictures if not picture.last]
    marks = {
        "shape": any((p.shape > 0).any() for p in pictures),
        "band": any(p.tied.any() for p in joining),
        "size": any(len(np.unique(p.members)) > 1 for p in pictures),
        "shared": any((p.share < _WHOLE).any() for p in joining),
        "dropped": any((p.target < 0).any() for p in joining),
        "weight": any(len(np.unique(p.strength)) > 1 for p in pictures),
        "faint": any(not p.core.all() for p in pictures),
        "ring": any(p.marked >= 0 for p in pictures),
        "shadow": any(len(s.pictures) > 1 or len(s.part) > 1 for s in scenes),
    }
    return {name for name, occurs in marks.items() if occurs}
