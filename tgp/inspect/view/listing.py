"""Compute the tables of the viewer: one page of the list of graphs, and the figures of one graph."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from tgp.build.findings import Finding
from tgp.inspect.figures import Figure
from tgp.inspect.numbers import count_text, counted
from tgp.inspect.report.figure_rows import FigureRow
from tgp.inspect.view.search import GraphIndex, Query, parse_search
from tgp.kernels.array_types import LongArray
from tgp.ragged.offsets import find_run
from tgp.store import StoreReader

__all__ = [
    "PAGE_ROWS",
    "GraphFigures",
    "Heading",
    "Listing",
    "Row",
    "address",
    "graph_figures",
    "list_graphs",
    "problem_searches",
]

PAGE_ROWS = 50
"""Number of graphs of one page."""

_SHOWN = ("ratio", "cut", "modularity", "singletons", "components")
"""Figures that are shown if the search covers one level."""

_LEFT_OUT = ("stalled", "failures")
"""Figures of a graph that its page shows in other ways."""

_SEARCHES = {
    "failed": ("failures>0", ""),
    "stalled": ("stalled>0", ""),
    "collapsed": ("stalled>0", ""),
    "empty": ("empty>0", "-empty"),
    "torn": ("", "-components"),
    "dropped": ("dropped>0", "-dropped"),
    "singletons": ("singletons>0", "-singletons"),
}
"""Conditions and order that show the graphs of a kind of problem."""

_MOST_SEARCHES = 12
"""Largest number of searches for problems."""

_LEVELS = 6
"""Largest number of levels whose sizes are shown; the middle ones of a deeper hierarchy are left out."""


@dataclass(frozen=True)
class Heading:
    """Heading of a column.

    Args:
        label: text.
        meaning: description of the figure.
        link: address of the list sorted by this column; ``None`` if it cannot be sorted by it.
        order: ``"ascending"`` or ``"descending"`` if the list is sorted by this column, else empty.
    """

    label: str
    meaning: str = ""
    link: str | None = None
    order: str = ""


@dataclass(frozen=True)
class Row:
    """One graph of the list: its id, the address of its page and the other cells."""

    graph: int
    link: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """One page of the list of graphs.

    Args:
        total: number of graphs that the search finds.
        offset: position of the first row among them.
        status: sentence about the result.
        headings: headings of the columns.
        rows: graphs of this page.
        first: address of the first page; ``None`` on the first page.
        previous: address of the page before, or ``None``.
        following: address of the next page, or ``None``.
        last: address of the last page; ``None`` on the last page.
    """

    total: int
    offset: int
    status: str
    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    first: str | None
    previous: str | None
    following: str | None
    last: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the page as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class GraphFigures:
    """Figures of one graph at all levels of all hierarchies.

    Args:
        places: hierarchy, number and method of each level.
        rows: each figure with its value at every level.
    """

    places: tuple[tuple[str, int, str], ...]
    rows: tuple[FigureRow, ...]

    @property
    def hierarchies(self) -> list[tuple[str, int]]:
        """Name and number of levels of each hierarchy."""
        return [
            (name, len([*group])) for name, group in itertools.groupby(self.places, lambda place: place[0])
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """Return one entry per level."""
        return [
            {
                "hierarchy": name,
                "level": level,
                "method": method,
                "figures": {row.figure.key: row.values[i] for row in self.rows if row.values[i] is not None},
            }
            for i, (name, level, method) in enumerate(self.places)
        ]


def address(page: str, query: Query, **further: int) -> str:
    """Return the relative address of a page.

    Args:
        page: name of the page.
        query: search that the page belongs to.
        **further: further values of the address. Zeros are left out, except for the id of a graph.

    Examples:
        >>> address("graph", Query("nodes>5", "-ratio"), id=3)
        'graph?id=3&q=nodes%3E5&sort=-ratio'
    """
    values = {key: value for key, value in further.items() if value or key == "id"}
    own = {"q": query.text, "sort": query.sort, "hierarchy": query.hierarchy, "level": query.level}
    pairs = values | {key: value for key, value in own.items() if value not in ("", None)}
    return f"{page}?{urlencode(pairs)}" if pairs else page


def list_graphs(index: GraphIndex, query: Query, offset: int = 0) -> Listing:
    """Compute one page of a search.

    Args:
        index: figures of the graphs.
        query: the search.
        offset: position of the first row; it is moved into the result if it is too large.

    Raises:
        InputError: if the search cannot be parsed or names something that does not exist.
        UnknownNameError: if there is no such hierarchy or figure.
    """
    found = index.search(query)
    end = max((len(found) - 1) // PAGE_ROWS * PAGE_ROWS, 0)
    offset = min(max(offset, 0), end)
    ids = found[offset : offset + PAGE_ROWS]
    figures = [*_shown_figures(index, query)]
    places = index.places(query)
    names = list(dict.fromkeys(name for name, _ in places))
    columns = [
        [text for _, text, _ in FigureRow(figure, tuple(index.values(figure, query, ids, largest=big))).cells]
        for figure, big in figures
    ]
    columns += [_size_texts(index, name, ids) for name in names]
    headings = [_heading(query, "id", "graph", "id of the graph")]
    headings += [_figure_heading(query, figure, big, len(places) > 1) for figure, big in figures]
    headings += [Heading(name, "nodes of the input graph and of each level") for name in names]
    rows = [
        Row(graph, address("graph", query, id=graph), tuple(cells))
        for graph, *cells in zip(ids.tolist(), *columns, strict=True)
    ]
    return Listing(
        len(found), offset, _status(index, query, len(found), offset, len(rows)), tuple(headings), tuple(rows),
        *(
            address("graphs", query, offset=to) if possible else None
            for to, possible in (
                (0, offset > 0), (offset - PAGE_ROWS, offset > 0), (offset + PAGE_ROWS, offset < end), (end, offset < end),
            )
        ),
    )  # fmt: skip


def _shown_figures(index: GraphIndex, query: Query) -> Iterator[tuple[Figure, bool]]:
    """Yield the figures to show, and True for the largest of several values: sizes, those of the search, common ones."""
    places = index.places(query)
    wanted = {"nodes": True, "edges": True}
    key = query.sort.removeprefix("-")
    for condition in parse_search(query.text).conditions:
        below = condition.compare in (operator.lt, operator.le)
        wanted.setdefault(index.figure(condition.name, query).key, not below)
    if key not in ("", "id"):
        wanted[index.figure(key, query).key] = query.sort.startswith("-")
    known = {figure.key: figure for figure in index.figures(places)}
    for common in _SHOWN if len(places) == 1 else ():
        if common in known:
            wanted.setdefault(common, True)
    for name, largest in wanted.items():
        yield known[name], largest


def _heading(query: Query, key: str, label: str, meaning: str) -> Heading:
    order = {key: "ascending", f"-{key}": "descending"}.get(query.sort or "id", "")
    # Figures are sorted from the largest, ids from the smallest. A second click reverses the order.
    first, second = (key, f"-{key}") if key == "id" else (f"-{key}", key)
    sort = second if order == ("ascending" if key == "id" else "descending") else first
    target = Query(query.text, "" if sort == "id" else sort, query.hierarchy, query.level)
    return Heading(label, meaning, address("graphs", target), order)


def _figure_heading(query: Query, figure: Figure, largest: bool, several: bool) -> Heading:
    label = figure.label
    if several and not (figure.key in ("nodes", "edges") and query.level is None):
        label += ", largest" if largest else ", smallest"
    return _heading(query, figure.key, label, figure.meaning)


def _size_texts(index: GraphIndex, name: str, ids: LongArray) -> list[str]:
    """Return the numbers of nodes at all levels as text, such as ``17 → 9 → 5``."""
    depth = index.reader.hierarchies[name].depth
    sizes = np.stack([index.reader.sizes(name, level)[0][ids] for level in range(depth + 1)], axis=1)
    failed = index.failed(name)[ids]
    texts = []
    for row, first in zip(sizes.tolist(), failed.tolist(), strict=True):
        parts = [count_text(n) for n in row[:first]] + (["failed"] if first <= depth else [])
        texts.append(" → ".join(parts if len(parts) <= _LEVELS else [*parts[:3], "…", *parts[-2:]]))
    return texts


def _status(index: GraphIndex, query: Query, total: int, offset: int, rows: int) -> str:
    every = counted(index.reader.num_graphs, "graph")
    if not total:
        return f"No graph of {every} matches." if query.text else "The store holds no graphs."
    shown = f"{count_text(offset + 1)}–{count_text(offset + rows)} of {counted(total, 'graph')}"
    return f"{shown} found, {every} in the store" if query.text else shown


def graph_figures(reader: StoreReader, graph: int) -> GraphFigures:
    """Return the figures of one graph in all hierarchies. Only the shard of the graph is read.

    Args:
        reader: store.
        graph: id of the graph.
    """
    bounds = np.asarray(reader.manifest.spec.bounds)
    shard = find_run(bounds, graph)
    index, row = GraphIndex(reader, shard=shard), graph - int(bounds[shard])
    places = index.places(Query())
    rows = [
        FigureRow(figure, tuple(_value(index.column(figure.key, place), row) for place in places))
        for figure in index.figures(places)
        if figure.key not in _LEFT_OUT
    ]
    methods = [reader.level_info(name, level - 1).method for name, level in places]
    return GraphFigures(
        tuple((*place, method) for place, method in zip(places, methods, strict=True)),
        tuple(one for one in rows if any(value is not None for value in one.values)),
    )


def problem_searches(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """Return searches for the graphs that the problems of a store concern.

    Args:
        findings: problems, see :func:`tgp.build.findings.find_problems`.

    Returns:
        Label and address of each search.
    """
    found = []
    for finding in findings:
        if finding.kind in _SEARCHES and finding.hierarchy is not None:
            query = Query(*_SEARCHES[finding.kind], finding.hierarchy, finding.level)
            level = "" if finding.level is None else f", level {finding.level}"
            found.append((f"{finding.kind}: {finding.hierarchy}{level}", address("graphs", query)))
    return found[:_MOST_SEARCHES]


def _value(column: npt.NDArray[Any] | None, row: int) -> float | None:
    value = float("nan") if column is None else float(column[row])
    return value if math.isfinite(value) else None
