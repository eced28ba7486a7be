"""Draw one graph of a store at all of its levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp.errors import InputError
from tgp.inspect.numbers import counted
from tgp.inspect.plot.canvas import INK, SOFT, draw_picture, height_for, new_figure
from tgp.inspect.report.pictures import Picture
from tgp.inspect.report.scene import MOST_EDGES, Scene, graph_scenes
from tgp.store.locations import Location, open_store
from tgp.text import inert_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["hierarchy"]

_PAGE, _NARROW, _BROAD = 6.8, 1.2, 2.0
"""Width of all columns together (the text of a page), and smallest and largest width of one column, in inches."""

_TITLE, _LINE = 0.2, 0.1
"""Height of the title of a picture, and of a second line of it, in inches."""


def hierarchy(store: Location, graph: int, hierarchy: str | None = None) -> Figure:
    """Draw one graph with one row per hierarchy and one column per level.

    Nodes have the colour of their supernode at the next level. A supernode lies at the mean place of its members. A large
    graph is drawn from the first level with at most 400 nodes.

    Args:
        store: directory or URL of a store, or a reader.
        graph: id of the graph.
        hierarchy: name of one hierarchy; all if ``None``.

    Returns:
        The figure. :func:`tgp.inspect.plot.save` or ``figure.savefig`` write it to a file.

    Raises:
        InputError: if the store has no such graph, or no level of it can be drawn.
        MissingPackageError: if matplotlib is not installed.
    """
    reader = open_store(store)
    if not 0 <= graph < reader.num_graphs:
        raise InputError(f"the store holds graphs 0 to {reader.num_graphs - 1}, got {graph}", field="graph")
    new_figure(1, 1)  # fails early if matplotlib is not installed
    # The whole graph where a level is small enough, else a part of it.
    scenes = graph_scenes(reader, graph, hierarchy)
    if any(scene.is_too_large for scene in scenes):
        raise InputError(
            f"graph {graph} is too large to draw from a store of the small profile: expected at most {MOST_EDGES:,} edges",
            field="graph",
        )
    rows = [(scene, scene.pictures or scene.part) for scene in scenes]
    rows = [(scene, pictures) for scene, pictures in rows if pictures]
    if not rows:
        raise InputError(f"graph {graph} has no nodes to draw", field="graph")
    across = max(len(pictures) for _, pictures in rows)
    wide = min(max(_PAGE / across, _NARROW), _BROAD)
    tall = [height_for(pictures[0], wide) for _, pictures in rows]
    figure = new_figure(
        wide * across + 0.25,
        sum(tall) + (_TITLE + _LINE * any(scene.part is pictures for scene, pictures in rows)) * len(rows),
    )
    grid = figure.subplots(len(rows), across, squeeze=False, height_ratios=tall)
    for row, (scene, pictures), high in zip(grid, rows, tall, strict=True):
        for axes in row[len(pictures) :]:
            axes.set_axis_off()
        for axes, picture in zip(row, pictures, strict=False):
            ghost = pictures[0] if picture is not pictures[0] else None
            draw_picture(axes, picture, ghost, room=(wide, high))
            axes.set_title(_title(picture, scene), fontsize=7, color=SOFT, pad=2)
        row[0].text(
            -0.02, 0.5, inert_text(scene.hierarchy), transform=row[0].transAxes, rotation=90,
            ha="right", va="center", fontsize=8, color=INK, parse_math=False,
        )  # fmt: skip
    return figure


def _title(picture: Picture, scene: Scene) -> str:
    part = f"\n{len(picture.nodes)} of them drawn" if len(picture.nodes) < picture.num_nodes else ""
    failed = "\ncould not be coarsened" if picture.last and scene.reason is not None else ""
    return f"level {picture.level}: {counted(picture.num_nodes, 'node')}{part}{failed}"
