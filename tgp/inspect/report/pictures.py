"""Scenes as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tgp.inspect.report.markup import Markup, number, tag
from tgp.inspect.report.numbers import count_text, counted
from tgp.inspect.report.palette import COLOURS
from tgp.inspect.report.scene import MAX_NODES, Floats, Picture, Scene, member_radius, node_radius

__all__ = ["draw_picture", "draw_scene", "legend"]

_WIDTH, _LOW, _HIGH, _MARGIN = 480, 170, 360, 26
"""Drawings are equally wide and as high as the graph needs, within bounds."""

_THIN = 2.8
"""Smallest radius of a node."""

_STROKES = 5
"""Widths of edges are rounded to so many classes, so that each is one path."""


def draw_scene(scene: Scene) -> Markup:
    """All levels of a graph in one hierarchy, side by side."""
    ghost = scene.pictures[0] if scene.pictures else None
    frame = _Frame(ghost.places) if ghost is not None else None
    figures = [
        tag(
            "figure",
            draw_picture(picture, frame, ghost if picture is not ghost else None),
            tag("figcaption", _caption(picture), _stay(scene)),
            class_="level",
            data_level=picture.step,
        )
        for picture in scene.pictures
        if frame is not None
    ]
    return tag(
        "div",
        tag("h4", scene.hierarchy, tag("small", _sizes(scene.sizes))),
        tag("div", figures, class_="strip"),
        _note(scene),
        class_="scene",
    )


def _stay(scene: Scene) -> list[Markup]:
    """Shown by the script where the slider stands at a level that this hierarchy does not draw."""
    texts = [("early", "first level drawn")] if scene.pictures[0].step else []
    return [tag("em", text, class_=name) for name, text in [*texts, ("past", "no further level")]]


def _sizes(sizes: tuple[int, ...]) -> str:
    shown = [count_text(n) for n in sizes]
    if len(shown) > 6:
        shown = [*shown[:3], "…", *shown[-2:]]
    return f"{' → '.join(shown)} node{'s' * (sizes != (1,))}"


def _note(scene: Scene) -> Markup | None:
    if scene.reason is not None:
        return tag("p", "Could not be coarsened: ", scene.reason, class_="note bad")
    if not scene.pictures:
        return tag("p", "Nothing to draw: no level has nodes and is small enough.", class_="note")
    if scene.ball:
        count = len(scene.pictures[0].nodes)
        text = f"Every level is too large to draw: {count} nodes around the one with most neighbours."
        return tag("p", text, class_="note")
    first = scene.pictures[0].step
    if first:
        size = count_text(scene.pictures[0].num_nodes)
        return tag(
            "p", f"Drawn from level {first - 1} on, the first small enough: {size} nodes.", class_="note"
        )
    return None


def _caption(picture: Picture) -> list[Markup]:
    name = "Input" if picture.step == 0 else f"Level {picture.step - 1}"
    facts = [counted(picture.num_nodes, "node"), counted(picture.num_edges, "edge")]
    if not picture.last:
        heads = len(np.unique(picture.target[picture.target >= 0]))
        facts.append(counted(heads, "supernode"))
        dropped = int((picture.target < 0).sum())
        facts += [f"{count_text(dropped)} dropped"] if dropped else []
    method = [] if picture.step == 0 else [tag("code", picture.method)]
    return [tag("b", name), *method, tag("span", " · ".join(facts))]


class _Frame:
    """Fits places into the drawing area, the same for all levels of a graph."""

    def __init__(self, places: Floats) -> None:
        low, high = places.min(0), places.max(0)
        across, down = np.maximum(high - low, 1e-9).tolist()
        self.scale = min((_WIDTH - 2 * _MARGIN) / across, (_HIGH - 2 * _MARGIN) / down, 60.0)
        self.height = round(max(_LOW, down * self.scale + 2 * _MARGIN))
        self.radius = node_radius(places, self.scale, _THIN if len(places) <= MAX_NODES else 0.6 * _THIN, 8.0)
        self.shift = np.array([_WIDTH, self.height]) / 2 - self.scale * (low + high) / 2

    def __call__(self, places: Floats) -> Floats:
        return places * self.scale + self.shift


def draw_picture(picture: Picture, frame: _Frame, ghost: Picture | None = None) -> Markup:
    """One level: the first level as a shadow, members tied to their supernode, edges, nodes."""
    places, centres = frame(picture.places), frame(picture.centres)
    base = frame.radius
    parts = []
    if ghost is not None:
        parts.append(tag("path", d=_segments(frame(ghost.places), ghost.edges), class_="ghost"))
    parts.append(_ties(picture, places, centres, base))
    strokes = np.minimum((np.sqrt(picture.strength) * _STROKES).astype(np.int64), _STROKES - 1)
    faint = f" f{picture.faint}"
    for stroke in np.unique(strokes).tolist():
        chosen = picture.edges[:, strokes == stroke]
        parts.append(tag("path", d=_segments(places, chosen), class_=f"edge w{stroke}{faint}"))
    many = " many" if len(picture.nodes) > MAX_NODES else ""
    parts.append(tag("g", _nodes(picture, places, base), class_=f"nodes{many}"))
    name = "input graph" if picture.step == 0 else f"level {picture.step - 1}"
    title = tag("title", f"Drawing of the {name}: {counted(picture.num_nodes, 'node')}")
    return tag("svg", title, parts, viewBox=f"0 0 {_WIDTH} {frame.height}", role="img", class_="drawing")


def _ties(picture: Picture, places: Floats, centres: Floats, base: float) -> list[Markup]:
    """Broad pale bands from each node to where its supernode will be: together they show the clusters."""
    found = []
    tied = picture.tied
    for colour in range(COLOURS):
        chosen = np.flatnonzero((picture.colour == colour) & tied)
        if len(chosen):
            path = "".join(
                f"M{number(x)} {number(y)}L{number(u)} {number(v)}"
                for (x, y), (u, v) in zip(places[chosen].tolist(), centres[chosen].tolist(), strict=True)
            )
            found.append(tag("path", d=path, class_=f"tie c{colour}", stroke_width=number(3.4 * base)))
    return found


def _nodes(picture: Picture, places: Floats, base: float) -> list[Markup]:
    found = []
    rows = zip(
        picture.nodes.tolist(), places.tolist(), member_radius(picture, base).tolist(), picture.target.tolist(),
        picture.colour.tolist(), picture.share.tolist(), picture.members.tolist(), strict=True,
    )  # fmt: skip
    for node, (x, y), r, target, colour, share, members in rows:
        text = f"node {node}"
        if members > 1:
            text += f", stands for {counted(members, 'node')}"
        if not picture.last:
            text += f" → supernode {target}" if target >= 0 else ", dropped"
            text += f" ({100 * share:.0f} %)" if share < 0.995 else ""
        found.append(
            tag("circle", tag("title", text), cx=number(x), cy=number(y), r=number(r),
                class_=f"c{colour}" if colour >= 0 else "dropped", data_s=target,
                fill_opacity=None if share >= 0.995 else f"{0.25 + 0.75 * share:.2f}")
        )  # fmt: skip
    return found


def _segments(places: Floats, edges: np.ndarray) -> str:
    starts, ends = places[edges[0]].tolist(), places[edges[1]].tolist()
    return "".join(
        f"M{number(x)} {number(y)}L{number(u)} {number(v)}"
        for (x, y), (u, v) in zip(starts, ends, strict=True)
    )


def legend(scenes: Sequence[Scene]) -> Markup:
    """What the marks of the drawings mean; only those that appear."""
    pictures = [picture for scene in scenes for picture in scene.pictures]
    joins = [picture for picture in pictures if not picture.last]
    some = [
        (True, tag("circle", cx=15, cy=8, r=6, class_="c0"), "colour: the supernode that a node joins next"),
        (
            any(p.tied.any() for p in joins),
            tag("path", d="M7 8H23", class_="tie c0", stroke_width=13),
            "band: members of one supernode",
        ),
        (
            any(len(np.unique(p.members)) > 1 for p in pictures),
            [tag("circle", cx=7, cy=8, r=3, class_="c0"), tag("circle", cx=21, cy=8, r=7, class_="c0")],
            "size: how many nodes it stands for",
        ),
        (
            any((p.share < 0.995).any() for p in joins),
            tag("circle", cx=15, cy=8, r=6, class_="c0", fill_opacity=0.45),
            "pale: shared by several supernodes",
        ),
        (
            any((p.target < 0).any() for p in joins),
            tag("circle", cx=15, cy=8, r=6, class_="dropped"),
            "hollow: dropped",
        ),
        (
            any(len(np.unique(p.strength)) > 1 for p in pictures),
            [tag("path", d="M2 5H28", class_="edge w0"), tag("path", d="M2 11H28", class_="edge w4")],
            "thicker edge: more weight",
        ),
        (
            any(len(scene.pictures) > 1 for scene in scenes),
            tag("path", d="M2 12L12 4L20 12L28 5", class_="ghost"),
            "shadow: the first drawing",
        ),
    ]
    items = [
        tag("li", tag("svg", tag("g", mark, class_="nodes"), viewBox="0 0 30 16", aria_hidden="true"), text)
        for shown, mark, text in some
        if shown
    ]
    return tag("ul", items, class_="key legend")
