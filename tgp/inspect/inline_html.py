"""Build small pieces of HTML for notebooks: tables and drawings that are readable on light and on dark pages.

Colours of text and edges are those of the page (``currentColor``). There is no style sheet and no script, because
notebooks remove them or share one page between all outputs. All text is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.inspect.report.drawings import Drawing, SceneDrawing
from tgp.text import inert_text

__all__ = ["card", "cell_text", "draw_levels", "draw_matrix", "table"]

COLOURS = ("#3d85c6", "#d9731f", "#12a07f", "#c2479c", "#9a63d8", "#d0504f", "#6f7de8", "#8f8a1c")
"""Colours of supernodes. Each has a contrast of at least 3 : 1 to white and to a dark page."""

MAX_DRAWINGS = 8
"""Largest number of drawn levels."""

LONGEST_TEXT = 200
"""Number of characters after which a text is cut."""

_CELL = "padding:2px 10px 2px 0;text-align:{}"
_WIDTH = 210
"""Width of a drawing in pixels. Four of them fit into one row."""

_SIZE = 6
"""Width of a cell of a matrix."""


def cell_text(value: object) -> str:
    """Return a value as escaped text of limited length.

    Args:
        value: number or text, for example a name from a store.
    """
    text = str(value)
    text = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
    return html.escape(inert_text(text))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> str:
    """Return a table.

    Args:
        columns: headings.
        rows: cells. They are escaped.
        right: indices of right-aligned columns.
    """

    def line(tag: str, cells: Sequence[object]) -> str:
        return "".join(
            f'<{tag} style="{_CELL.format("right" if i in right else "left")}">{cell_text(cell)}</{tag}>'
            for i, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        '<table style="border-collapse:collapse;font-size:13px;margin:4px 0">'
        f"<thead><tr>{line('th', columns)}</tr></thead><tbody>{body}</tbody></table>"
    )


def card(title: str, subtitle: str, *parts: str) -> str:
    """Return the HTML of an object.

    Args:
        title: name of the class and its size.
        subtitle: further facts; may be empty.
        *parts: HTML of tables and drawings.
    """
    below = f'<div style="font-size:13px;opacity:.8">{cell_text(subtitle)}</div>' if subtitle else ""
    return f'<div style="max-width:66em"><div><b>{cell_text(title)}</b></div>{below}{"".join(parts)}</div>'


def draw_levels(scene: SceneDrawing, first: str = "input") -> str:
    """Return the drawings of a graph and of its levels side by side.

    Args:
        scene: drawings of all levels, see :func:`tgp.inspect.report.drawings.draw_scene`.
        first: name of the first drawing.
    """
    drawings = [drawing for strip in scene.strips for drawing in strip.drawings][:MAX_DRAWINGS]
    figures = "".join(
        f'<figure style="margin:0;width:{_WIDTH}px">{_svg(drawing)}'
        f'<figcaption style="font-size:12px;opacity:.8">{cell_text(_caption(drawing, first))}</figcaption></figure>'
        for drawing in drawings
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:14px;margin:6px 0">{figures}</div>'


def _caption(drawing: Drawing, first: str) -> str:
    name = first if drawing.method is None else f"level {drawing.level}"
    if drawing.method not in (None, "pooled"):
        name += f": {drawing.method}"
    return f"{name}, {drawing.facts}"


def _svg(drawing: Drawing) -> str:
    parts = [f"<title>{cell_text(drawing.title)}</title>"]
    if drawing.shadow:
        parts.append(f'<path d="{drawing.shadow}" stroke="currentColor" stroke-opacity=".12"/>')
    for style, width, path in drawing.bands:
        colour = COLOURS[int(style.rpartition("c")[2]) % len(COLOURS)]
        parts.append(
            f'<path d="{path}" stroke="{colour}" stroke-width="{width:.1f}" stroke-opacity=".28" stroke-linecap="round"/>'
        )
    for _, path in drawing.edges:
        parts.append(f'<path d="{path}" stroke="currentColor" stroke-opacity=".6" stroke-width="1.4"/>')
    for node in drawing.nodes:
        own = COLOURS[int(node.style[1:]) % len(COLOURS)] if node.style != "dropped" else "none"
        look = f'fill="{own}" stroke="currentColor" stroke-opacity=".7" fill-opacity="{node.opacity or 1}"'
        shape = (
            f'<path d="{node.path}" {look}>'
            if node.path
            else f'<circle cx="{node.x:.1f}" cy="{node.y:.1f}" r="{node.radius:.1f}" {look}>'
        )
        parts.append(f"{shape}<title>{cell_text(node.text)}</title></{'path' if node.path else 'circle'}>")
    return (
        f'<svg viewBox="0 0 {Drawing.WIDTH} {drawing.height}" width="{_WIDTH}" height="{_WIDTH * drawing.height // Drawing.WIDTH}" '
        f'fill="none" role="img" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def draw_matrix(s: npt.NDArray[Any]) -> str:
    """Return a drawing of an assignment matrix: one row per supernode, one column per node.

    Args:
        s: ``[N, K]`` matrix.
    """
    size = np.abs(np.nan_to_num(np.asarray(s, np.float64), posinf=0.0, neginf=0.0))
    top = float(size.max(initial=0.0)) or 1.0
    cells = "".join(
        f'<rect x="{_SIZE * node}" y="{_SIZE * group}" width="{_SIZE - 1}" height="{_SIZE - 1}" '
        f'fill="{COLOURS[group % len(COLOURS)]}" fill-opacity="{size[node, group] / top:.2f}">'
        f"<title>node {node}, supernode {group}: {s[node, group]:.3g}</title></rect>"
        for node, group in np.argwhere(size > 0).tolist()
    )
    width, height = _SIZE * s.shape[0], _SIZE * s.shape[1]
    return (
        f'<svg viewBox="-1 -1 {width + 2} {height + 2}" width="{width + 2}" height="{height + 2}" role="img" '
        'style="display:block;margin:6px 0" xmlns="http://www.w3.org/2000/svg">'
        f"<title>Assignment of {s.shape[0]} nodes (columns) to {s.shape[1]} supernodes (rows)</title>"
        f'<rect x="-.5" y="-.5" width="{width}" height="{height}" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
        f"{cells}</svg>"
    )
