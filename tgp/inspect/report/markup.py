"""HTML and SVG that cannot be broken by what is put into it: text is escaped unless it is :class:`Markup`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

__all__ = ["Child", "Markup", "join", "number", "raw", "tag"]

_VOID = {"meta", "input", "br", "hr", "circle", "line", "path", "rect", "use"}
_SELF_CLOSING = {"circle", "line", "path", "rect", "use"}
# A browser shows control characters as nothing or as boxes, and the text direction can be turned by others.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


Child = Markup | str | int | float | None | Iterable["Child"]


def raw(text: str) -> Markup:
    """Text of our own that must not be escaped."""
    return Markup(text)


def join(children: Child) -> Markup:
    """Children one after another; plain text is escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(html.escape(_HIDDEN.sub("\ufffd", children), quote=True))
    if isinstance(children, int | float):
        return Markup(html.escape(str(children)))
    return Markup("".join(join(child) for child in children))


def tag(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """An element. ``class_`` and ``data_x`` become ``class`` and ``data-x``; ``None`` and ``False`` are left out."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(label if value is True else f'{label}="{join(value)}"')
    start = " ".join(parts)
    if name in _VOID and not children:
        return Markup(f"<{start}/>" if name in _SELF_CLOSING else f"<{start}>")
    return Markup(f"<{start}>{join(children)}</{name}>")


def number(value: float) -> str:
    """A coordinate with one digit after the point, as short as it can be."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")
