"""Hook of mkdocs that keeps options of commands, powers, values with their unit or deviation on one line, and raises exponents."""

from __future__ import annotations

import re
from typing import Any

_CODE = re.compile(r"(<pre\b.*?</pre>|<code\b.*?</code>)", flags=re.S)
_INLINE_CODE = re.compile(r"(?<!<span></span>)<code>([^<\n]*)</code>")
_OPTION = re.compile(r"(?<![^\s>])--?[A-Za-z][\w-]*")
_POWER = re.compile(r"(?<![\w.^])(\d+)\^(-?\d+)(?![\w^])(?![^<>]*>)")
"""A power such as 10^6, outside of tags."""
_BREAKS = re.compile(
    r" (?=± )|(?<=±) |(?<=\d) (?=\* 10<sup>|(?:kB|MB|GB|ms|us|µs|%)(?!\w))|(?<=\d \*) (?=10<sup>)"
)
"""Spaces at which no line may end."""


def on_page_content(html: str, **_: Any) -> str:
    """Return the HTML of a page, in which no line ends inside an option such as ``--carry``, a number such as ``2 * 10⁶`` or
    a value such as ``75 ± 3`` and ``2 GB``, and powers such as ``10^6`` have a raised exponent. Code is not changed, because readers copy it."""
    parts = _CODE.split(html)
    powers = [_POWER.sub(r"\1<sup>\2</sup>", part) for part in parts[::2]]
    parts[::2] = [_BREAKS.sub("\N{NO-BREAK SPACE}", part) for part in powers]
    return _INLINE_CODE.sub(
        lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), "".join(parts)
    )
