"""Print results and messages: as text, as JSON or as CSV. All commands print through this module.

Text may contain names from a store, a dataset or another package. Every function of this module escapes control
characters (:func:`tgp.text.inert_text`) before it prints, so commands pass on names as they are.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, TextIO

from tgp.inspect.numbers import count_text
from tgp.text import csv_cell, inert_text
from tgp_cli._wrap import terminal_width, wrap_call, wrap_text

__all__ = [
    "Output",
    "count_or_dash",
    "print_line",
    "ratio_text",
    "seconds_text",
    "shows_unicode",
    "sparkline",
]

Row = Sequence[Any]

MOST_PARTS = 4
"""A table that would be split into more parts than this is printed as lists."""

LEAST_TEXT = 24
"""Smallest width of a column of text."""

LONGEST_CELL = 10_000
"""Number of characters after which a cell of a table is cut."""


def print_line(
    text: object,
    stream: TextIO | None = None,
    *,
    flush: bool = False,
    indent: int | None = None,
    wrap: bool = True,
) -> None:
    """Print one line of text with control characters and line feeds escaped.

    Args:
        text: the line. A terminal shows it broken between words, see :func:`tgp_cli._wrap.wrap_text`.
        stream: stream to print to; stdout if ``None``.
        flush: flush the stream afterwards.
        indent: number of spaces in front of the second and the following lines on a terminal.
        wrap: False to print the line whole, for example a command to copy.
    """
    stream = sys.stdout if stream is None else stream
    width = terminal_width(stream) if wrap else None
    print("\n".join(wrap_text(inert_text(text), width, indent)), file=stream, flush=flush)


class Output:
    """Printer of results (to stdout) and messages (to stderr).

    Args:
        json: print results as JSON, and no messages.
        quiet: print only warnings, errors and JSON.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet

    @property
    def silent(self) -> bool:
        """True if messages and progress are not printed."""
        return self.json or self.quiet

    def message(self, text: str) -> None:
        """Print a message that is not a result, unless silent."""
        if not self.silent:
            self._print_message(text)

    def warn(self, text: str) -> None:
        """Print a warning. Only ``--json`` suppresses it."""
        if not self.json:
            self._print_message(f"Warning: {text}")

    def hint(self, text: str) -> None:
        """Print what to do about a warning, unless silent."""
        self.message(f"  Hint: {text}")

    @staticmethod
    def _print_message(text: str) -> None:
        sys.stdout.flush()  # keeps the order if both streams go to the same file
        print_line(text, sys.stderr, flush=True)

    def result(self, data: Any, print_text: Callable[[], None]) -> None:
        """Print a result.

        Args:
            data: the result, printed as JSON if JSON was requested.
            print_text: function that prints the result as text; not called if quiet.
        """
        if self.json:
            print(json.dumps(_json_value(data), indent=2, allow_nan=False))
        elif not self.quiet:
            print_text()

    def next_steps(self, commands: Sequence[str], code: Sequence[str] = ()) -> None:
        """Print what to do next, unless silent. Lines are neither indented nor wrapped, so that they can be copied.

        Args:
            commands: commands of the shell.
            code: lines of Python.
        """
        lines = [f"{'Then' if i else 'Next'}: {command}" for i, command in enumerate(commands)]
        if code:
            width = terminal_width(sys.stderr)
            lines += ["In Python:", *(part for line in code for part in wrap_call(line, width))]
        if not self.silent:
            sys.stdout.flush()
            for line in lines:
                print_line(line, sys.stderr, flush=True, wrap=False)

    def line(self, text: str = "") -> None:
        """Print one line of a result."""
        print_line(text)

    def text(self, text: str, *, indent: int = 0) -> None:
        """Print a sentence of a result.

        Args:
            text: the sentence.
            indent: number of spaces in front of the second and the following lines on a terminal.
        """
        print_line(text, indent=indent)

    def page(self, text: str) -> None:
        """Write a whole page, whose text is inert already, to stdout as UTF-8, whatever the encoding of stdout is."""
        sys.stdout.buffer.write(inert_text(text, lines=True).encode("utf-8"))

    def csv(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Print rows as CSV. Text that a spreadsheet would read as a formula gets an apostrophe in front."""
        for row in (columns, *rows):
            print_line(",".join(map(csv_cell, row)), wrap=False)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Row],
        *,
        title: str | None = None,
        right: Sequence[int] = (),
        keys: int = 1,
        wrap: Sequence[int] = (),
    ) -> None:
        """Print a table: with rules on a terminal, as aligned plain text otherwise.

        Args:
            columns: headings.
            rows: cells, formatted or plain values; ``None`` is printed as a dash.
            title: line above the table.
            right: indices of right-aligned columns.
            keys: number of leading columns that name a row. A narrow terminal shows the other columns in several
                parts and repeats these columns in each part. If it would need too many parts, every row is printed as a
                list.
            wrap: indices of text columns that may be broken into lines.
        """
        columns = [inert_text(name) for name in columns]
        cells = [["-" if v is None else _cell_text(v) for v in row] for row in rows]
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            self._rich_table(columns, cells, title, right, keys, wrap)
        else:
            self._plain_table(columns, cells, title, right)

    @staticmethod
    def _plain_table(
        columns: Sequence[str], cells: Sequence[Sequence[str]], title: str | None, right: Sequence[int]
    ) -> None:
        if title:
            print_line(title)
        widths = [max(len(c) for c in column) for column in zip(columns, *cells, strict=True)]
        for row in (columns, *cells):
            parts = [
                text.rjust(width) if i in right else text.ljust(width)
                for i, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            print_line("  ".join(parts).rstrip(), wrap=False)

    @staticmethod
    def _rich_table(
        columns: Sequence[str],
        cells: Sequence[Sequence[str]],
        title: str | None,
        right: Sequence[int],
        keys: int,
        wrap: Sequence[int],
    ) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        parts = _split_columns(columns, cells, keys, wrap, console.width)
        if len(parts) > 1 and not wrap:  # headings of one word per line need less space
            columns = [*columns[:keys], *(name.replace(" ", "\n") for name in columns[keys:])]
            parts = _split_columns(columns, cells, keys, wrap, console.width)
        if len(parts) > (1 if wrap else MOST_PARTS):
            _print_lists([name.replace("\n", " ") for name in columns], cells, title, keys)
            return
        for part in parts:
            # Rich reads markup such as [red] in a str, but not in a Text.
            heading = None if title is None else Text(inert_text(title), style="bold")
            table = Table(
                title=heading, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
            )
            for i in part:
                table.add_column(
                    Text(columns[i]),
                    justify="right" if i in right else "left",
                    no_wrap=i in right or i < keys,
                    overflow="fold",
                )
            for row in cells:
                table.add_row(*(Text(row[i]) for i in part))
            console.print(table)


def _cell_text(value: object) -> str:
    """Return the text of a cell. Breaking a name of many megabytes into lines would take minutes."""
    text = str(value)
    return inert_text(text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}...")


def _split_columns(
    columns: Sequence[str], cells: Sequence[Sequence[str]], keys: int, wrap: Sequence[int], width: int
) -> list[list[int]]:
    """Split a table that is too wide for the terminal. Return the indices of the columns of each part."""
    width -= 2  # the rule extends beyond the first and the last column
    gap = 2
    headings = [max(name.split("\n"), key=len) for name in columns]
    widths = [gap + max(len(text) for text in column) for column in zip(headings, *cells, strict=True)]
    for i in wrap:
        widths[i] = min(widths[i], gap + LEAST_TEXT)
    if sum(widths) - gap <= width:
        return [[*range(len(columns))]]
    parts: list[list[int]] = []
    room = 0
    for i in range(keys, len(columns)):
        if not parts or widths[i] > room:
            parts.append([*range(keys)])
            room = width + gap - sum(widths[:keys])
        parts[-1].append(i)
        room -= widths[i]
    return parts


def _print_lists(
    columns: Sequence[str], cells: Sequence[Sequence[str]], title: str | None, keys: int
) -> None:
    """Print every row of a table as a list of names and values. Empty cells are left out."""
    if title:
        print_line(title)
    longest = max(len(name) for name in columns[keys:])
    for row in cells:
        print_line(" ".join(text for text in row[:keys] if text))
        for name, text in zip(columns[keys:], row[keys:], strict=True):
            if text not in ("", "-"):
                line = f"  {name.ljust(longest)}  {text}"
                print_line(line, indent=longest + 4)


def _json_value(value: Any) -> Any:
    """Convert dataclasses, arrays, numpy scalars, paths and tuples to JSON values. NaN and infinity become ``None``."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(k): _json_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_value(v) for v in value]
    if hasattr(value, "tolist"):
        return _json_value(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)


def count_or_dash(count: float | None) -> str:
    """Format a count; ``None`` is a dash.

    Examples:
        >>> count_or_dash(12345), count_or_dash(None)
        ('12,345', '-')
    """
    return count_text(count, missing="-")


def ratio_text(value: float | None, digits: int = 3) -> str:
    """Format a ratio; ``None`` and NaN are a dash.

    Examples:
        >>> ratio_text(0.5), ratio_text(None)
        ('0.500', '-')
    """
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def seconds_text(seconds: float) -> str:
    """Format a duration.

    Examples:
        >>> seconds_text(0.0123), seconds_text(3.42), seconds_text(310)
        ('12 ms', '3.4 s', '5 min 10 s')
    """
    if seconds < 0.01:
        return f"{seconds * 1000:.2g} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    from tgp.build.progress import duration_text

    return duration_text(seconds)


def shows_unicode(stream: TextIO) -> bool:
    """Return True if a stream can encode more than ASCII."""
    return "utf" in (getattr(stream, "encoding", None) or "ascii").lower()


def sparkline(counts: Sequence[float]) -> str:
    """Draw a histogram as one line of block characters, or of ASCII characters if stdout cannot show blocks."""
    levels = "▁▂▃▄▅▆▇█" if shows_unicode(sys.stdout) else "_.-=oO#@"
    top = max(counts, default=0)
    if top <= 0:
        return ""
    return "".join(" " if c <= 0 else levels[min(7, int(8 * c / top))] for c in counts)
