"""Drawing pictures of graphs with matplotlib, without pyplot and its global state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tgp.errors import InputError, MissingPackageError
from tgp.report.scene import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "draw_picture", "new_figure", "save"]

PALETTE = (
    "#3b78c2", "#e07b28", "#2f9e6b", "#c9443f", "#8a5fc4", "#a8752f", "#d6609f", "#2aa3b4", "#8f9a1e", "#5a6fd8",
)  # fmt: skip
"""The colours of the report on a light page."""

_PALE = tuple(
    "#" + "".join(f"{round(255 - 0.24 * (255 - int(colour[i : i + 2], 16))):02x}" for i in (1, 3, 5))
    for colour in PALETTE
)
INK, SOFT, GHOST, EDGE = "#1b2430", "#5b6675", "#e3e8ee", "#6d7987"
FORMATS = (".png", ".svg", ".pdf")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; :class:`~tgp.errors.MissingPackageError` if matplotlib is absent."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError(
            "The 'matplotlib' package is required for plots and is not installed.",
            hint="pip install 'tgp-coarsen[plot]'",
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 200) -> Path:
    """Write a figure as PNG, SVG or PDF, without a date, so that the same figure gives the same file."""
    from matplotlib import rc_context

    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InputError(
            f"expected a file name that ends in {', '.join(FORMATS)}, got {target.name!r}", field="out"
        )
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "tgp"}):
        figure.savefig(target, dpi=dpi, metadata=dates.get(target.suffix.lower()))
    return target


def draw_picture(axes: Axes, picture: Picture, ghost: Picture | None = None, *, size: float = 26.0) -> None:
    """One level: the first level as a shadow, members tied to their supernode, edges, nodes.

    Args:
        axes: where to draw.
        picture: what to draw.
        ghost: the first level, drawn pale below.
        size: area of a node that stands for itself, in points squared.
    """
    from matplotlib.collections import LineCollection

    frame = picture if ghost is None else ghost
    # Crowded graphs get smaller nodes: the area for one is what matters.
    size = float(min(size, 1400.0 / max(len(frame.nodes), 1)))
    if ghost is not None:
        axes.add_collection(LineCollection(_lines(ghost.places, ghost.edges), colors=GHOST, linewidths=0.7))
    if not picture.last:
        known = picture.colour >= 0
        ties = np.stack([picture.places[known], picture.centres[known] + 1e-9], axis=1)
        # Pale instead of transparent: the bands of one supernode overlap and must not grow darker.
        colours = [_PALE[c] for c in picture.colour[known].tolist()]
        axes.add_collection(
            LineCollection(ties, colors=colours, linewidths=1.9 * size**0.5, capstyle="round")
        )
    widths = 0.4 + 1.2 * np.sqrt(picture.strength)
    axes.add_collection(
        LineCollection(_lines(picture.places, picture.edges), colors=EDGE, linewidths=widths, alpha=0.8)
    )
    _nodes(axes, picture, size)
    axes.set_aspect("equal")
    axes.set_axis_off()
    low, high = frame.places.min(0), frame.places.max(0)
    room = 0.08 * max(float((high - low).max()), 1.0)
    axes.set_xlim(low[0] - room, high[0] + room)
    axes.set_ylim(high[1] + room, low[1] - room)  # downwards, as in the report


def _nodes(axes: Axes, picture: Picture, size: float) -> None:
    area = size * np.minimum(picture.members**0.64, 7.0)
    dropped = picture.colour < 0
    faces: list[Any] = [
        "white" if colour < 0 else (PALETTE[colour], 0.25 + 0.75 * share)
        for colour, share in zip(picture.colour.tolist(), picture.share.tolist(), strict=True)
    ]
    rims = np.where(dropped, EDGE, "white")
    axes.scatter(
        picture.places[:, 0], picture.places[:, 1], s=area, c=faces, edgecolors=rims, linewidths=0.6, zorder=3
    )


def _lines(places: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.stack([places[edges[0]], places[edges[1]]], axis=1)
