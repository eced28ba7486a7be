"""Scenes as inline SVG."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from tgp.report.markup import Markup, number, tag
from tgp.report.numbers import count_text
from tgp.report.scene import COLOURS, MAX_NODES, Floats, Picture, Scene

__all__ = ["draw_picture", "draw_scene"]

_WIDTH, _HEIGHT, _MARGIN = 480, 340, 26
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
            tag("figcaption", _caption(picture)),
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


def _sizes(sizes: tuple[int, ...]) -> str:
    shown = [count_text(n) for n in sizes]
    if len(shown) > 6:
        shown = [*shown[:3], "…", *shown[-2:]]
    return " → ".join(shown) + " nodes"


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
    facts = [f"{count_text(picture.num_nodes)} nodes", f"{count_text(picture.num_edges)} edges"]
    if not picture.last:
        heads = len(np.unique(picture.target[picture.target >= 0]))
        facts.append(f"{count_text(heads)} supernodes" if heads != 1 else "1 supernode")
        dropped = int((picture.target < 0).sum())
        facts += [f"{count_text(dropped)} dropped"] if dropped else []
    method = [] if picture.step == 0 else [tag("code", picture.method)]
    return [tag("b", name), *method, tag("span", " · ".join(facts))]


class _Frame:
    """Fits places into the drawing area, the same for all levels of a graph."""

    def __init__(self, places: Floats) -> None:
        low, high = places.min(0), places.max(0)
        room = np.array([_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN])
        self.scale = float(min((room / np.maximum(high - low, 1e-9)).min(), 60.0))
        thin = _THIN if len(places) <= MAX_NODES else 0.6 * _THIN
        self.radius = float(np.clip(0.3 * self.scale, thin, 8.0))
        if len(places) > 2:
            # Where nodes are crowded, smaller ones: three of four do not touch their nearest.
            nearest = cKDTree(places).query(places, k=2)[0][:, 1]
            self.radius = min(self.radius, max(0.55 * float(np.quantile(nearest, 0.25)) * self.scale, thin))
        self.shift = np.array([_WIDTH, _HEIGHT]) / 2 - self.scale * (low + high) / 2

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
    crowd = " crowd" if picture.edges.shape[1] > 250 else ""
    for stroke in np.unique(strokes).tolist():
        chosen = picture.edges[:, strokes == stroke]
        parts.append(tag("path", d=_segments(places, chosen), class_=f"edge w{stroke}{crowd}"))
    many = " many" if len(picture.nodes) > MAX_NODES else ""
    parts.append(tag("g", _nodes(picture, places, base), class_=f"nodes{many}"))
    name = "input graph" if picture.step == 0 else f"level {picture.step - 1}"
    title = tag("title", f"Drawing of the {name}: {count_text(picture.num_nodes)} nodes")
    return tag("svg", title, parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", class_="drawing")


def _ties(picture: Picture, places: Floats, centres: Floats, base: float) -> list[Markup]:
    """Broad pale bands from each node to where its supernode will be: together they show the clusters."""
    if picture.last:
        return []
    found = []
    for colour in range(COLOURS):
        chosen = np.flatnonzero(picture.colour == colour)
        if len(chosen):
            path = "".join(
                f"M{number(x)} {number(y)}L{number(u)} {number(v)}"
                for (x, y), (u, v) in zip(places[chosen].tolist(), centres[chosen].tolist(), strict=True)
            )
            found.append(tag("path", d=path, class_=f"tie c{colour}", stroke_width=number(3.4 * base)))
    return found


def _nodes(picture: Picture, places: Floats, base: float) -> list[Markup]:
    radius = np.minimum(base * picture.members**0.32, 2.6 * base)
    found = []
    rows = zip(
        picture.nodes.tolist(), places.tolist(), radius.tolist(), picture.target.tolist(),
        picture.colour.tolist(), picture.share.tolist(), picture.members.tolist(), strict=True,
    )  # fmt: skip
    for node, (x, y), r, target, colour, share, members in rows:
        text = f"node {node}"
        if members > 1:
            text += f" ({count_text(members)} nodes)"
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
