"""Rows of the tables of figures: one figure per row, one level per column. A row has one precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tgp.build.summary import HierarchySummary, LevelSummary
from tgp.inspect.figures import FIGURES, Figure, figure_of, level_value

__all__ = [
    "FigureRow",
    "compare_first_levels",
    "figure_rows",
    "kept_shares",
    "legend",
    "quality_rows",
    "share_texts",
]

MISSING = "–"

_COMPARED = ("ratio", "edge_ratio", "cluster_largest")
"""Figures that are compared between hierarchies before the metrics."""

_LEVEL_COLUMNS = ("ratio", "edge_ratio", "cluster_mean", "cluster_largest", "bytes")
"""Figures that are columns of the table of levels and need an explanation."""


@dataclass(frozen=True)
class FigureRow:
    """Row of a table.

    Args:
        figure: the figure, with its label and its meaning.
        values: one value per column; ``None`` if it is missing.
        best: columns with the best value; empty if no value is better than the others.
    """

    figure: Figure
    values: tuple[float | None, ...]
    best: frozenset[int] = frozenset()

    @property
    def cells(self) -> list[tuple[float | None, str, bool]]:
        """Value, text and mark of each column. The mark is True for the best values."""
        return [(value, self.text(value), i in self.best) for i, value in enumerate(self.values)]

    def text(self, value: float | None) -> str:
        """Return a value with the precision of the figure. A small positive value is not shown as zero."""
        smallest = 10.0**-self.figure.digits
        if value is not None and self.figure.digits and 0 < value < smallest / 2:
            return f"<{self.figure.text(smallest)}"
        return self.figure.text(value, MISSING).replace("-", "−")


def figure_rows(levels: Sequence[LevelSummary], figures: Iterable[Figure], *, mark: bool) -> list[FigureRow]:
    """Return the rows of some figures. Figures that no level has are left out.

    Args:
        levels: one level per column.
        figures: the figures.
        mark: True to mark the best value of each row.
    """
    rows = []
    for figure in figures:
        values = tuple(level_value(level, figure) for level in levels)
        if any(value is not None for value in values):
            rows.append(FigureRow(figure, values, _best(figure, values) if mark else frozenset()))
    return rows


def _best(figure: Figure, values: Sequence[float | None]) -> frozenset[int]:
    """Return the columns whose value looks best with the precision of the figure, if others look worse."""
    known = {i: round(value, figure.digits) for i, value in enumerate(values) if value is not None}
    if figure.better is None or len({*known.values()}) < 2:
        return frozenset()
    best = max(known.values()) if figure.better == "more" else min(known.values())
    return frozenset(i for i, value in known.items() if value == best)


def quality_rows(hierarchy: HierarchySummary) -> list[FigureRow]:
    """Return the metrics of all levels of a hierarchy: those of tgp in the order of their table, then all others."""
    return figure_rows(hierarchy.levels, _metrics(hierarchy.levels), mark=False)


def compare_first_levels(hierarchies: Sequence[HierarchySummary]) -> tuple[list[str], list[FigureRow]]:
    """Compare the first levels of hierarchies. Deeper levels start from different graphs.

    Returns:
        The names of the hierarchies, which are the columns, and the rows; none if fewer than two have metrics.
    """
    measured = [h for h in hierarchies if h.levels and h.levels[0].level == 1 and h.levels[0].metrics]
    if len(measured) < 2:
        return [], []
    levels = [h.levels[0] for h in measured]
    figures = [*(FIGURES[key] for key in _COMPARED), *_metrics(levels)]
    return [h.name for h in measured], figure_rows(levels, figures, mark=True)


def _metrics(levels: Iterable[LevelSummary]) -> list[Figure]:
    found = dict.fromkeys(name for level in levels for name in level.metrics)
    known = [figure for key, figure in FIGURES.items() if key in found]
    return [*known, *(figure_of(name) for name in found if name not in FIGURES)]


def legend() -> list[Figure]:
    """Return the columns of the table of levels that need an explanation."""
    return [FIGURES[key] for key in _LEVEL_COLUMNS]


def share_texts(values: Sequence[float | None]) -> list[str]:
    """Format the shares of a column as percentages with one precision, so that the smallest keeps a digit.

    Args:
        values: shares; ``None`` is missing.

    Examples:
        >>> share_texts([0.5, 0.157, None]), share_texts([0.534, 0.00027])
        (['50.0 %', '15.7 %', '–'], ['53.40 %', '0.03 %'])
    """
    smallest = min((abs(value) for value in values if value), default=1.0)
    digits = next((d for d in (1, 2, 3) if 100 * smallest >= 0.5 * 10.0**-d), 3)
    return [MISSING if value is None else f"{100 * value:.{digits}f} %" for value in values]


def kept_shares(
    start: LevelSummary, hierarchies: Sequence[HierarchySummary]
) -> list[dict[str, tuple[float | None, str]]]:
    """Return the shares of nodes and edges that the last level of each hierarchy keeps, each with its text.

    Args:
        start: input graphs.
        hierarchies: the hierarchies.
    """
    last = [h.levels[-1] if h.levels else start for h in hierarchies]
    columns = {}
    for what in ("nodes", "edges"):
        total = getattr(start, what)
        shares = [getattr(level, what) / total if total else None for level in last]
        columns[what] = list(zip(shares, share_texts(shares), strict=True))
    return [{what: column[i] for what, column in columns.items()} for i in range(len(last))]
