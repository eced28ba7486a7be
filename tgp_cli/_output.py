"""The only place that prints results and messages: for eyes, as JSON, or as CSV."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = [
    "Output",
    "counted",
    "human_bytes",
    "human_count",
    "human_ratio",
    "human_seconds",
    "shows_unicode",
    "sparkline",
]

Row = Sequence[Any]

MOST_PARTS = 4
"""A table that is broken into more parts than this is easier to read as lists."""


LEAST_TEXT = 24
"""A column of text is not made narrower than this."""


class Output:
    """Results go to stdout, messages to stderr.

    Args:
        json: print results as JSON; messages are silent.
        quiet: print nothing but errors and JSON; the exit status tells.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet

    @property
    def silent(self) -> bool:
        """No messages and no progress."""
        return self.json or self.quiet

    def message(self, text: str) -> None:
        """Tell the user something that is not a result."""
        if not self.silent:
            self._say(text)

    def warn(self, text: str) -> None:
        """A message that ``--quiet`` keeps."""
        if not self.json:
            self._say(f"Warning: {text}")

    @staticmethod
    def _say(text: str) -> None:
        sys.stdout.flush()  # where both go to one file, in the order they were said
        print(text, file=sys.stderr, flush=True)

    def result(self, data: Any, human: Callable[[], None]) -> None:
        """Print ``data`` as JSON, or let ``human`` print it for eyes."""
        if self.json:
            print(json.dumps(_plain(data), indent=2, allow_nan=False))
        elif not self.quiet:
            human()

    def line(self, text: str = "") -> None:
        """One line of a human result."""
        print(text)

    def csv(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Rows as CSV."""
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if v is None else v for v in row] for row in rows])

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
        """A table: ruled on a terminal, aligned plain text in a pipe.

        Args:
            columns: headings.
            rows: cells, already formatted or plain values.
            title: a line above the table.
            right: numbers of the right-aligned columns.
            keys: so many first columns name a row. They are repeated where a narrow terminal takes the others in
                several parts; where it would take many, every row becomes a list.
            wrap: numbers of the columns that hold text, which a narrow terminal breaks into lines.
        """
        cells = [["-" if v is None else str(v) for v in row] for row in rows]
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            self._rich_table(columns, cells, title, right, keys, wrap)
        else:
            self._plain_table(columns, cells, title, right)

    @staticmethod
    def _plain_table(
        columns: Sequence[str], cells: Sequence[Sequence[str]], title: str | None, right: Sequence[int]
    ) -> None:
        if title:
            print(title)
        widths = [max(len(c) for c in column) for column in zip(columns, *cells, strict=True)]
        for row in (columns, *cells):
            parts = [
                text.rjust(width) if i in right else text.ljust(width)
                for i, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            print("  ".join(parts).rstrip())

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
        parts = _parts(columns, cells, keys, wrap, console.width)
        if len(parts) > (1 if wrap else MOST_PARTS):
            _lists(columns, cells, title, keys, console.width)
            return
        for part in parts:
            table = Table(
                title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, title_style="bold"
            )
            for i in part:
                justify = "right" if i in right else "left"
                table.add_column(columns[i], justify=justify, no_wrap=i in right or i < keys, overflow="fold")
            for row in cells:
                table.add_row(*(Text(row[i]) for i in part))
            console.print(table)


def _parts(
    columns: Sequence[str], cells: Sequence[Sequence[str]], keys: int, wrap: Sequence[int], width: int
) -> list[list[int]]:
    """Numbers of the columns of each part of a table that is too wide for the terminal."""
    width -= 2  # the rule reaches beyond the first and the last column
    gap = 3
    widths = [gap + max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    for i in wrap:
        widths[i] = min(widths[i], gap + LEAST_TEXT)
    if sum(widths) - gap <= width:
        return [[*range(len(columns))]]
    first = [*range(keys)]
    parts: list[list[int]] = []
    room = 0
    for i in range(keys, len(columns)):
        if not parts or widths[i] > room:
            parts.append([*first])
            room = width + gap - sum(widths[:keys])
        parts[-1].append(i)
        room -= widths[i]
    return parts


def _lists(
    columns: Sequence[str], cells: Sequence[Sequence[str]], title: str | None, keys: int, width: int
) -> None:
    if title:
        print(title)
    longest = max(len(name) for name in columns[keys:])
    for row in cells:
        print(" ".join(text for text in row[:keys] if text))
        for name, text in zip(columns[keys:], row[keys:], strict=True):
            if text not in ("", "-"):
                line = f"  {name.ljust(longest)}  {text}"
                print(textwrap.fill(line, width, subsequent_indent=" " * (longest + 4)))


def _plain(value: Any) -> Any:
    """Arrays, numpy scalars, paths and tuples as JSON values; NaN and infinities as null."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)


def human_bytes(count: float) -> str:
    """``1.5 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def human_count(count: float | None) -> str:
    """``12,345``."""
    return "-" if count is None else f"{count:,.0f}"


def counted(count: float, noun: str) -> str:
    """``1 graph``, ``12,345 graphs``."""
    return f"{human_count(count)} {noun}{'' if count == 1 else 's'}"


def human_ratio(value: float | None, digits: int = 3) -> str:
    """``0.512``; a dash if there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def human_seconds(seconds: float) -> str:
    """``0.12 ms``, ``12 ms``, ``3.4 s``, ``5 min 10 s``."""
    if seconds < 0.01:
        return f"{seconds * 1000:.2g} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def shows_unicode(stream: Any) -> bool:
    """Whether a stream takes more than ASCII."""
    return "utf" in (getattr(stream, "encoding", None) or "ascii").lower()


def sparkline(counts: Sequence[float]) -> str:
    """Heights as one line of blocks, in ASCII where the terminal cannot show blocks."""
    levels = "▁▂▃▄▅▆▇█" if shows_unicode(sys.stdout) else "_.-=oO#@"
    top = max(counts, default=0)
    if top <= 0:
        return ""
    return "".join(" " if c <= 0 else levels[min(7, int(8 * c / top))] for c in counts)
