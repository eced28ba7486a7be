"""Draw the pictures of the poolers: a small graph before and after each of them.

python docs/_tools/pictures.py          # write docs/img/poolers/*.svg, docs/img/gallery.svg and docs/img/hierarchy.svg
python docs/_tools/pictures.py ndp sep  # only these poolers

The poolers run: nothing here is drawn by hand except the places of the nodes of the input graph.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent))

from svg import COLOURS, FAINT, INK, document, element, line, pie, text

FOLDER = Path(__file__).resolve().parents[1] / "img"

PLACES = np.array(
    [
        (14, 68), (40, 34), (74, 50), (72, 92), (36, 104), (46, 70),  # a wheel
        (108, 26), (140, 10), (166, 36), (136, 52),
        (112, 92), (146, 84), (166, 116), (128, 128),
        (94, 142), (60, 140), (26, 142),  # a tail
    ],
    float,
)  # fmt: skip
"""Places of the nodes of the example graph."""

PAIRS = (
    (0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (5, 0), (5, 1), (5, 2), (5, 3), (5, 4),
    (6, 7), (7, 8), (8, 9), (9, 6), (7, 9),
    (10, 11), (11, 12), (12, 13), (13, 10), (11, 13),
    (2, 6), (3, 10), (9, 11), (13, 14), (14, 15), (15, 16),
)  # fmt: skip
"""Edges of the example graph."""

OPTIONS = {"k": 4, "ratio": 0.5, "scorer": "degree", "size": 0.6}
"""Arguments for the poolers that take them."""

OWN_OPTIONS = {"hosc": {"mu": 0.5}, "partition": {"ratio": None}}
"""Arguments of single poolers. The default of ``hosc`` puts all nodes of so small a graph into one cluster.
``partition`` takes either number."""

STEPS = 300
"""Training steps of the poolers that have a loss of their own."""

SMALLEST_SHARE = 0.05
"""Smallest share of a node in a supernode that is drawn."""

LIGHTEST = 1e-3
"""Smallest weight of an edge that is drawn and counted."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Drawing:
    """A graph and its pooled graph.

    Attributes:
        places: place of each node.
        weight: adjacency matrix.
        s: assignment, one row per node.
        pooled_places: place of each supernode.
        pooled: adjacency matrix of the pooled graph, without self-loops.
    """

    places: Floats
    weight: Floats
    s: Floats
    pooled_places: Floats
    pooled: Floats

    @property
    def title(self) -> str:
        """Description of the picture in words."""
        dropped = int((self.s.sum(1) == 0).sum())
        parts = (
            f"{len(self.s)} nodes and {_count_edges(self.weight)} edges become {self.s.shape[1]} supernodes"
        )
        rest = f" and {_count_edges(self.pooled)} edges"
        return parts + rest + (f"; {dropped} nodes are dropped" if dropped else "")


def _count_edges(weight: Floats) -> int:
    return int((np.triu(weight, 1) > LIGHTEST).sum())


def example_graph() -> Floats:
    """Return the adjacency matrix of the example graph."""
    weight = np.zeros((len(PLACES), len(PLACES)))
    for a, b in PAIRS:
        weight[a, b] = weight[b, a] = 1.0
    return weight


def pool(name: str, places: Floats, weight: Floats) -> Drawing:
    """Run a pooler on a graph. Trainable poolers start from fixed random weights and are trained on their own losses."""
    import torch

    from tgp.inspect.plot.pooler_gallery import pooled_matrices

    x = torch.tensor(np.column_stack([places / 80 - 1, weight.sum(1) / 3 - 1]), dtype=torch.float32)
    edge_index = torch.tensor(np.stack(np.nonzero(weight)))
    edge_weight = torch.tensor(weight[weight > 0], dtype=torch.float32)
    options = {"in_channels": x.size(1), **OPTIONS, **OWN_OPTIONS.get(name, {})}
    torch.set_num_threads(
        1
    )  # the result does not depend on the machine's number of cores, and small steps are faster
    s, pooled = pooled_matrices(name, x, edge_index, options, STEPS, edge_weight=edge_weight)
    s, pooled = np.abs(np.asarray(s, float)), np.abs(np.asarray(pooled, float))
    used = s.sum(0) > 1e-6
    s, pooled = s[:, used], pooled[np.ix_(used, used)]
    s = np.divide(s, s.sum(1, keepdims=True), out=np.zeros_like(s), where=s.sum(1, keepdims=True) > 1e-6)
    np.fill_diagonal(pooled, 0.0)
    means = (s.T @ places) / s.sum(0)[:, None]
    return Drawing(places, weight, s, _spread(means), np.maximum(pooled, pooled.T))


def _spread(places: Floats, distance: float = 30.0) -> Floats:
    """Move points apart until each pair has a distance, so that supernodes do not cover each other."""
    places = places.copy()
    turn = np.array([[np.cos(2.4 * i), np.sin(2.4 * i)] for i in range(len(places))])
    places += 1e-3 * turn
    for _ in range(200):
        gap = places[:, None] - places[None]
        far = np.sqrt((gap**2).sum(-1)) + np.eye(len(places)) * 1e9
        push = np.where(far < distance, (distance - far) / (2 * far), 0.0)
        places += 0.5 * (gap * push[..., None]).sum(1)
        places = places.clip((14, 14), (164, 144))
    return places


def _edges(places: Floats, weight: Floats, width: float) -> list[str]:
    """Return the edges. The width of a line grows with the weight of the edge."""
    heaviest = max(float(weight.max()), LIGHTEST)
    uniform = weight[weight > LIGHTEST].min(initial=heaviest) == heaviest
    drawn = []
    for a, b in np.argwhere(np.triu(weight, 1) > LIGHTEST):
        thick = width if uniform else width * (0.4 + 1.6 * float(weight[a, b]) / heaviest)
        drawn.append(line(tuple(places[a]), tuple(places[b]), stroke_width=float(thick)))
    return [element("g", "".join(drawn), stroke=FAINT, stroke_opacity="0.7", stroke_linecap="round")]


def _bands(drawing: Drawing) -> list[str]:
    """Return bands from the members of each supernode to their mean place."""
    drawn = []
    owner = drawing.s.argmax(1)
    for k in range(drawing.s.shape[1]):
        members = np.flatnonzero((owner == k) & (drawing.s.sum(1) > 0))
        if len(members) > 1:
            middle = tuple(drawing.places[members].mean(0))
            lines = "".join(line(tuple(drawing.places[i]), middle) for i in members)
            drawn.append(element("g", lines, stroke=COLOURS[k % len(COLOURS)], opacity="0.3"))
    return [element("g", "".join(drawn), stroke_width=17, stroke_linecap="round")]


def input_side(drawing: Drawing, radius: float = 6.5) -> list[str]:
    """Return the input graph. Nodes have the colours of their supernodes; dropped nodes are hollow."""
    nodes = []
    for (x, y), row in zip(drawing.places, drawing.s, strict=True):
        shares = [(float(v), COLOURS[k % len(COLOURS)]) for k, v in enumerate(row) if v >= SMALLEST_SHARE]
        total = sum(share for share, _ in shares)
        if shares:
            nodes.append(
                pie(float(x), float(y), radius, [(share / total, colour) for share, colour in shares])
            )
        else:
            hollow = {"fill": "none", "stroke": FAINT, "stroke_width": 1.5, "stroke_dasharray": "2.5 2"}
            nodes.append(element("circle", cx=float(x), cy=float(y), r=radius - 1, **hollow))
    return [*_bands(drawing), *_edges(drawing.places, drawing.weight, 1.5), *nodes]


def pooled_side(drawing: Drawing, radius: float = 6.5) -> list[str]:
    """Return the pooled graph. The area of a supernode grows with the number of its members."""
    nodes = [
        element(
            "circle",
            cx=float(x),
            cy=float(y),
            r=float(radius * min(max(size, 1.0), 6) ** 0.4),
            fill=COLOURS[k % len(COLOURS)],
        )
        for k, ((x, y), size) in enumerate(zip(drawing.pooled_places, drawing.s.sum(0), strict=True))
    ]
    return [*_edges(drawing.pooled_places, drawing.pooled, 1.5), *nodes]


def _arrow(x: float, y: float, length: float) -> str:
    path = f"M{x:g} {y:g}h{length:g}m-6 -5l6 5l-6 5"
    return element(
        "path",
        d=path,
        fill="none",
        stroke=INK,
        stroke_width=2,
        stroke_linecap="round",
        stroke_linejoin="round",
    )


def _at(x: float, y: float, parts: list[str], scale: float = 1.0) -> str:
    zoom = "" if scale == 1.0 else f" scale({scale:g})"
    return element("g", "\n".join(parts), transform=f"translate({x:g} {y:g}){zoom}")


def before_after(name: str, drawing: Drawing) -> str:
    """Return the picture of one pooler."""
    below = {"y": 180, "text_anchor": "middle", "font_size": 13}
    nodes, supernodes = len(drawing.s), drawing.s.shape[1]
    body = [
        _at(2, 6, input_side(drawing)),
        _arrow(188, 84, 24),
        _at(218, 6, pooled_side(drawing)),
        text(f"{nodes} nodes, {_count_edges(drawing.weight)} edges", 92, **below),
        text(f"{supernodes} nodes, {_count_edges(drawing.pooled)} edges", 308, **below),
    ]
    return document(400, 190, f"{name}: {drawing.title}", body, shown=560)


def gallery(drawings: dict[str, Drawing]) -> str:
    """Return one picture with the input graph under each pooler."""
    columns, wide, high = 4, 140, 130
    cells = []
    for place, (name, drawing) in enumerate(drawings.items()):
        x, y = wide * (place % columns), high * (place // columns)
        label = f"{name} {len(drawing.s)}→{drawing.s.shape[1]}"
        cells.append(_at(x + 6, y + 22, input_side(drawing, 8), 0.68))
        cells.append(text(label, x + 66, y + 13, text_anchor="middle", font_size=14, font_weight=600))
    rows = -(-len(drawings) // columns)
    title = (
        "The same graph under all poolers: nodes of one colour become one supernode, hollow nodes are dropped"
    )
    return document(columns * wide, rows * high, title, cells)


def hierarchy(schedule: tuple[str, ...]) -> str:
    """Return the example graph and one pooled graph per level of a schedule."""
    wide, places, weight = 178, PLACES, example_graph()
    parts, sizes = [], [len(places)]
    for level, name in enumerate(schedule):
        drawing = pool(name, places, weight)
        parts.append(_at(2 + wide * level, 20, input_side(drawing, 6.5 + 1.5 * level)))
        places, weight = drawing.pooled_places, drawing.pooled
        sizes.append(len(places))
    last = replace(
        drawing, s=np.eye(len(places)), places=places, weight=weight, pooled_places=places, pooled=weight
    )
    parts.append(_at(2 + wide * len(schedule), 20, pooled_side(last, 10)))
    for level, size in enumerate(sizes):
        label = f"level {level}: {size} nodes"
        parts.append(text(label, 88 + wide * level, 13, text_anchor="middle", font_size=14, font_weight=600))
    title = f"A hierarchy of {' and '.join(schedule)}: {' -> '.join(str(size) for size in sizes)} nodes"
    return document(wide * len(sizes), 178, title, parts)


def names() -> list[str]:
    """Return the names of the poolers that have a page: those of this package, not of installed ones."""
    from pooler_pages import pooler_entries

    return [entry.alias for entry in pooler_entries()]


def main() -> int:
    """Write the pictures."""
    (FOLDER / "poolers").mkdir(exist_ok=True)
    chosen = sys.argv[1:] or names()
    drawings = {name: pool(name, PLACES, example_graph()) for name in chosen}
    for name, drawing in drawings.items():
        (FOLDER / "poolers" / f"{name}.svg").write_text(before_after(name, drawing))
    if not sys.argv[1:]:
        (FOLDER / "gallery.svg").write_text(gallery(drawings))
        (FOLDER / "hierarchy.svg").write_text(hierarchy(("graclus", "graclus")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
