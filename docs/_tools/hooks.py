"""Hook of mkdocs that keeps options of commands, which browsers divide at hyphens, and values with their deviation on one line."""

from __future__ import annotations

import re
from typing import Any

_INLINE_CODE = re.compile(r"(?<!<span></span>)<code>([^<\n]*)</code>")
_OPTION = re.compile(r"(?<![^\s>])--?[A-Za-z][\w-]*")


def on_page_content(html: str, **_: Any) -> str:
    """Return the HTML of a page, in which no line ends inside an option such as ``--carry`` or a value such as ``75 ± 3``."""
    html = html.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
    return _INLINE_CODE.sub(lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)
