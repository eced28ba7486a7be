"""Draw pictures of graphs with matplotlib. Pyplot and its global state are not used."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tgp.errors import InputError, MissingPackageError
from tgp.inspect.output_file import write_file
from tgp.inspect.report.palette import LIGHT, THEMES
from tgp.inspect.report.pictures import Picture, member_radius, node_radius
from tgp.kernels.array_types import FloatArray, LongArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["INK", "SOFT", "draw_picture", "height_for", "new_figure", "save"]

_PALE = tuple(
    "#" + "".join(f"{round(255 - 0.24 * (255 - int(colour[i : i + 2], 16))):02x}" for i in (1, 3, 5))
    for colour in LIGHT
)
INK, SOFT = THEMES["light"]["ink"], THEMES["light"]["soft"]
_GHOST, _EDGE = THEMES["light"]["ghost"], THEMES["light"]["edge"]
_MARGIN, _LONGEST = 8.0, 26.0
"""Margin of a drawing, and largest length of a typical edge, in points."""

_FAINT = ((1.0, 0.85), (0.6, 0.7), (0.5, 0.5), (0.45, 0.25))
"""Width and opacity of edges by faintness, see :attr:`Picture.faint`."""

_LOWEST = 0.45
"""Smallest height of a drawing in inches."""

_THIN = 0.7
"""Smallest radius of a node in points."""

_MARKERS = ("o", "s", "^", "D")
"""Markers of matplotlib for the shapes of nodes, in the order of ``SHAPES``."""

FORMATS = (".png", ".svg", ".pdf")


def new_figure(width: float, height: float) -> Figure:
    """Create an empty figure.

    Args:
        width: width in inches.
        height: height in inches.

    Raises:
        MissingPackageError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingPackageError(
            "The 'matplotlib' package is required for plots and is not installed.",
            hint="pip install 'tgp-coarsen[plot]'",
        ) from error
    engine = ConstrainedLayoutEngine(w_pad=0.015, h_pad=0.02, wspace=0.0, hspace=0.0)
    return Figure(figsize=(width, height), layout=engine)


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 200) -> Path:
    """Write a figure as PNG, SVG or PDF. The file contains no date, so the same figure gives the same file.

    Args:
        figure: the figure.
        path: file to write; its suffix selects the format.
        dpi: dots per inch of a PNG.

    Returns:
        The file.

    Raises:
        InputError: if the suffix is unknown, or the file cannot be written there.
    """
    from matplotlib import rc_context

    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InputError(
            f"expected a file name that ends in {', '.join(FORMATS)}, got {target.name!r}", field="out"
        )
    kind = target.suffix.lower().removeprefix(".")
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "tgp"}):
        figure.savefig(drawn, format=kind, dpi=dpi, metadata=dates.get(kind))
    return write_file(target, drawn.getvalue())


def draw_picture(
    axes: Axes,
    picture: Picture,
    ghost: Picture | None = None,
    *,
    room: tuple[float, float],
    widest: float = 3.6,
) -> None:
    """Draw one level: the first level as a shadow, bands between members of a supernode, edges and nodes.

    Args:
        axes: axes to draw on.
        picture: level to draw.
        ghost: first level, drawn as a pale shadow; ``None`` if ``picture`` is the first level.
        room: width and height of the axes in inches; they determine the sizes of nodes and lines.
        widest: largest radius in points of a node that stands for one node.
    """
    from matplotlib.collections import LineCollection

    frame = picture if ghost is None else ghost
    scale = _frame(axes, frame, room)
    base = node_radius(frame.places, scale, _THIN, widest)
    if ghost is not None:
        axes.add_collection(LineCollection(_lines(ghost.places, ghost.edges), colors=_GHOST, linewidths=0.5))
    tied = picture.tied
    if tied.any():
        ties = [*np.stack([picture.places[tied], picture.centres[tied] + 1e-9], axis=1)]
        # Bands are pale instead of transparent, because overlapping transparent bands would be darker.
        colours = [_PALE[c] for c in picture.colour[tied].tolist()]
        axes.add_collection(LineCollection(ties, colors=colours, linewidths=3.4 * base, capstyle="round"))
    thin, alpha = _FAINT[picture.faint]
    widths = (0.3 + 0.8 * np.sqrt(picture.strength)) * thin
    for edges, strokes, opacity in (
        (picture.edges[:, ~picture.core], 0.25, 0.13),
        (picture.edges[:, picture.core], widths[picture.core], alpha),
    ):
        lines = _lines(picture.places, edges)
        axes.add_collection(LineCollection(lines, colors=_EDGE, linewidths=strokes, alpha=opacity))
    _nodes(axes, picture, base)


def _frame(axes: Axes, picture: Picture, room: tuple[float, float]) -> float:
    """Centre the picture on the axes and return its scale in points per unit."""
    low, high = picture.places.min(0), picture.places.max(0)
    points = 72.0 * np.array(room)
    scale = float(min(((points - 2 * _MARGIN) / np.maximum(high - low, 1e-9)).min(), _LONGEST))
    middle, half = (low + high) / 2, points / scale / 2
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(middle[0] - half[0], middle[0] + half[0])
    axes.set_ylim(middle[1] + half[1], middle[1] - half[1])  # y grows downwards, as in the report
    return scale


def height_for(picture: Picture, wide: float) -> float:
    """Return the height in inches of a drawing with the given largest width. The height is at most the width.

    Args:
        picture: level to draw.
        wide: largest width in inches.
    """
    width, height = (float(extent) for extent in np.maximum(np.ptp(picture.places, axis=0), 1e-9))
    scale = min((72 * wide - 2 * _MARGIN) / width, _LONGEST)
    return min(max((height * scale + 2 * _MARGIN) / 72, _LOWEST), wide)


def _nodes(axes: Axes, picture: Picture, base: float) -> None:
    faces: list[Any] = [
        "white" if colour < 0 else (LIGHT[colour], 0.25 + 0.75 * share)
        for colour, share in zip(picture.colour.tolist(), picture.share.tolist(), strict=True)
    ]
    rims = [_EDGE if colour < 0 else "white" for colour in picture.colour.tolist()]
    area, shape = (2 * member_radius(picture, base)) ** 2, picture.shape
    for number in np.unique(shape).tolist():
        chosen = np.flatnonzero(shape == number)
        axes.scatter(
            picture.places[chosen, 0], picture.places[chosen, 1], s=area[chosen], c=[faces[i] for i in chosen],
            edgecolors=[rims[i] for i in chosen], linewidths=min(0.5, 0.25 * base), marker=_MARKERS[number], zorder=3,
        )  # fmt: skip


def _lines(places: FloatArray, edges: LongArray) -> list[FloatArray]:
    """Return the two ends of every edge."""
    return [*np.stack([places[edges[0]], places[edges[1]]], axis=1)]
