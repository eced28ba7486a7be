"""Break lines between words if they are printed on a terminal. Output to a pipe or a file is never broken."""

from __future__ import annotations

import os
import re
import textwrap
from typing import TextIO

__all__ = ["terminal_width", "wrap_call", "wrap_text"]

LEAST_WIDTH = 24
"""Smallest width that text is broken to."""

LONGEST_TEXT = 10_000
"""Number of characters after which text is not broken. Breaking a name of many megabytes would take minutes."""

_UNBROKEN = re.compile(r"'(?:tgp|python|pip) [^']*'|`[^`]*`|\d (?:%|[kMGT]?B\b|ms\b|s\b|min\b|h\b)")
"""Parts that stay on one line: a command to copy, and a number with its unit."""


def terminal_width(stream: TextIO) -> int | None:
    """Return the number of columns of a stream, or ``None`` if it is not a terminal.

    Args:
        stream: stdout or stderr. The variable ``COLUMNS`` overrides the width of the terminal.
    """
    if not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # a stream without a descriptor
        return 80


def wrap_text(text: str, width: int | None, indent: int | None = None) -> list[str]:
    """Break text between words. A word that is longer than a line stays whole.

    Args:
        text: one line of text.
        width: width of the terminal; ``None`` returns the text as it is.
        indent: number of spaces in front of the second and the following lines; two more than the first line has if
            ``None``.

    Examples:
        >>> wrap_text("Hint: 'tgp inspect pooled/MUTAG' shows the levels of a store", 40)
        ["Hint: 'tgp inspect pooled/MUTAG' shows", '  the levels of a store']
    """
    if width is None or len(text) <= width or len(text) > LONGEST_TEXT:
        return [text]
    width = max(width, LEAST_WIDTH)
    spaces = len(text) - len(text.lstrip(" ")) + 2 if indent is None else indent

    def join(match: re.Match[str]) -> str:
        fits = len(match[0]) <= width - spaces
        return match[0].replace(" ", "\u00a0") if fits else match[0]

    lines = textwrap.wrap(
        _UNBROKEN.sub(join, text),
        width,
        subsequent_indent=" " * min(spaces, width // 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\u00a0", " ") for line in lines] or [text]


def wrap_call(line: str, width: int | None) -> list[str]:
    """Break a line of Python that ends with a call, if it is too long, so that it can still be run.

    Args:
        line: the line.
        width: width of the terminal; ``None`` returns the line as it is.

    Examples:
        >>> wrap_call("dataset = PooledDataset('pooled/MUTAG', 'graclus')", 40)
        ['dataset = PooledDataset(', "    'pooled/MUTAG', 'graclus'", ')']
    """
    head, bracket, arguments = line.partition("(")
    if width is None or len(line) <= width or not arguments.endswith(")"):
        return [line]
    return [head + bracket, f"    {arguments[:-1]}", ")"]
