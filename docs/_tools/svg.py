"""Elements of the SVG pictures. All colours are readable on white and on the dark page, because a picture in ``<img>``
cannot follow the theme of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

COLOURS = (
    "#3a86d8", "#d9731a", "#1f9e6e", "#c44fa8", "#8a7be0", "#d95050", "#1d97ad", "#8f8b1c", "#b07a45", "#5c9a2f",
)  # fmt: skip
"""Colours of supernodes and of bars."""

INK = "#7d828a"
"""Colour of text and lines: its contrast is about 4 : 1 on white and on the dark page."""

FAINT = "#8b929b"
"""Colour of edges and grid lines, drawn with an opacity."""

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def number(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0").replace("-0", "0" if round(value, 1) == 0 else "-0")


def element(name: str, content: str | None = None, **attributes: object) -> str:
    """Return an element. Underscores in names of attributes become hyphens, and numbers are shortened.

    Args:
        name: name of the element.
        content: markup inside the element; ``None`` for an empty element.
        attributes: attributes; those that are ``None`` are left out.
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{number(value) if isinstance(value, float) else escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{shown}/>" if content is None else f"<{name}{shown}>{content}</{name}>"


def text(words: str, x: float, y: float, **attributes: object) -> str:
    """Return a line of text."""
    return element("text", escape(words), x=float(x), y=float(y), **attributes)


def line(a: tuple[float, float], b: tuple[float, float], **attributes: object) -> str:
    """Return a straight line between two points."""
    return element("path", d=f"M{number(a[0])} {number(a[1])}L{number(b[0])} {number(b[1])}", **attributes)


def pie(x: float, y: float, radius: float, shares: Iterable[tuple[float, str]]) -> str:
    """Return a disk whose sectors have the given shares and colours. The shares sum to 1."""
    parts, start = [], -0.25
    for share, colour in shares:
        if share > 0.995:
            return element("circle", cx=x, cy=y, r=radius, fill=colour)
        ends = [
            (x + radius * math.cos(2 * math.pi * t), y + radius * math.sin(2 * math.pi * t))
            for t in (start, start + share)
        ]
        (x0, y0), (x1, y1) = ends
        large = int(share > 0.5)
        path = f"M{number(x)} {number(y)}L{number(x0)} {number(y0)}A{number(radius)} {number(radius)} 0 {large} 1 {number(x1)} {number(y1)}z"
        parts.append(element("path", d=path, fill=colour))
        start += share
    return "".join(parts)


def document(
    width: float, height: float, title: str, body: Iterable[str], *, shown: float | None = None
) -> str:
    """Return an SVG file with a transparent background.

    Args:
        width: width of the coordinate system.
        height: height of the coordinate system.
        title: description for people who do not see the picture.
        body: elements.
        shown: width in pixels at which the picture is shown if there is room; ``width`` if ``None``.
    """
    wide = shown or width
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(wide)}" height="{number(height * wide / width)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" role="img" font-family="{FONT}" font-size="12" fill="{INK}">'
    )
    return "\n".join([head, element("title", escape(title)), *body, "</svg>"]) + "\n"
