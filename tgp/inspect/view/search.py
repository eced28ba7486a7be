"""Search the graphs of a store by id and by figure.

A search reads the sizes and the metrics of all graphs, and no level data. It works on whole columns, one value per graph.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tgp.build.findings import keeps_most_nodes
from tgp.errors import InputError
from tgp.inspect.export import parse_graphs
from tgp.inspect.figures import FIGURES, SPECTRAL_FIGURES, Figure, figure_of, find_figure
from tgp.inspect.thresholds import Condition, parse_condition, stored_figure
from tgp.kernels.array_types import Array, BoolArray, FloatArray, LongArray
from tgp.store import StoreReader

__all__ = ["GraphIndex", "Place", "Query", "Search", "parse_search"]

COLUMN_BYTES = 256 << 20
"""Largest total size of the columns that are kept in memory."""

RESULTS = 4
"""Number of searches whose results are kept in memory."""

LONGEST = 1000
"""Largest number of characters of a search."""

_SIZES = ("nodes", "edges")
"""Figures that the input graphs also have."""

_DERIVED = ("ratio", "edge_ratio", "cluster_mean", "cluster_largest", "stalled", "failures")
"""Figures of a graph at a level that are computed from sizes, metrics and failures."""

_VALUE = re.compile(r"((?:>=|<=|==|!=|>|<)\s*[^\s,;]+)\s+(?=\S)")
_SEPARATOR = re.compile(r"[,;&]+|\band\b", re.IGNORECASE)
_IDS = re.compile(r"[\d:]+(?:\s+[\d:]+)*", re.ASCII)

Place = tuple[str, int]
"""Name of a hierarchy and number of a level; the first pooled graphs are level 1."""

Column = Array


@dataclass(frozen=True)
class Query:
    """A search, as it stands in an address.

    Args:
        text: ids and conditions, see :func:`parse_search`.
        sort: figure to sort by, with ``-`` in front for the largest first; the id if empty.
        hierarchy: only hierarchy whose levels are searched; all if ``None``.
        level: only level that is searched; all if ``None``.
    """

    text: str = ""
    sort: str = ""
    hierarchy: str | None = None
    level: int | None = None


@dataclass(frozen=True)
class Search:
    """Content of a search.

    Args:
        ids: ids and ranges of ids, as :func:`tgp.inspect.export.parse_graphs` reads them; empty for all graphs.
        conditions: conditions that a graph must fulfil.
    """

    ids: str
    conditions: tuple[Condition, ...]


def parse_search(text: str) -> Search:
    """Parse the text of a search.

    Args:
        text: ids (``17``), ranges of ids (``100:200``, without the last one) and conditions on figures (``nodes>50``),
            separated by spaces, commas or ``and``. A graph must have one of the ids and fulfil all conditions.

    Raises:
        InputError: if the text cannot be parsed.

    Examples:
        >>> found = parse_search("5, 10:20 nodes > 50 and dropped nodes>0")
        >>> found.ids, [condition.name for condition in found.conditions]
        ('5,10:20', ['nodes', 'dropped nodes'])
    """
    if len(text) > LONGEST:
        raise InputError(
            f"the search is too long: expected at most {LONGEST} characters, got {len(text)}", field="q"
        )
    ids: list[str] = []
    conditions = []
    pieces = _SEPARATOR.split(_VALUE.sub(r"\1,", text))
    for piece in filter(None, map(str.strip, pieces)):
        leading = re.match(r"((?:[\d:]+\s+)*)(.*)", piece, re.ASCII | re.DOTALL)
        assert leading is not None, "both groups may be empty"
        numbers, rest = (piece, "") if _IDS.fullmatch(piece) else leading.groups()
        ids += numbers.split()
        conditions += [parse_condition(rest)] if rest else []
    return Search(",".join(ids), tuple(conditions))


class GraphIndex:
    """Figures of all graphs of a store, one column per figure and level.

    Columns are read when a search needs them. Their total size is limited. A graph that could not be coarsened has no
    figures from the failed level on.

    Args:
        reader: store.
        column_bytes: largest total size of the columns that are kept in memory.
        shard: only shard whose graphs are read; all if ``None``. Columns have one value per graph of the shard.
    """

    def __init__(
        self, reader: StoreReader, *, column_bytes: int = COLUMN_BYTES, shard: int | None = None
    ) -> None:
        self.reader = reader
        self._column_bytes = column_bytes
        self._shard = shard
        bounds = (0, reader.num_graphs) if shard is None else reader.manifest.spec.bounds[shard : shard + 2]
        self._rows = slice(*bounds)
        self._columns: OrderedDict[tuple[str, Place], Column | None] = OrderedDict()
        self._results: OrderedDict[Query, LongArray] = OrderedDict()
        self._failed: dict[str, LongArray] = {}

    def places(self, query: Query) -> list[Place]:
        """Return the levels that a search covers.

        Args:
            query: the search.

        Raises:
            InputError: if there is no such level.
            UnknownNameError: if there is no such hierarchy.
        """
        names = (
            [*self.reader.hierarchies]
            if query.hierarchy is None
            else [self.reader.hierarchy(query.hierarchy).name]
        )
        found = [(name, n + 1) for name in names for n in range(self.reader.hierarchies[name].depth)]
        chosen = [place for place in found if query.level in (None, place[1])]
        if query.level is not None and not chosen:
            deepest = max((level for _, level in found), default=0)
            raise InputError(f"expected a level from 1 to {deepest}, got {query.level}", field="level")
        return chosen

    def metric_names(self, places: Sequence[Place]) -> set[str]:
        """Return the names of the metrics of some levels."""
        return {
            metric.partition("/")[2]
            for name, level in places
            for metric in self.reader.hierarchies[name].metrics
            if metric.startswith(f"{level - 1}/")
        }

    def figure(self, name: str, query: Query) -> Figure:
        """Return the figure with a name, and check that graphs have it.

        Args:
            name: name of a figure, see :func:`tgp.inspect.figures.find_figure`.
            query: the search. The figure must exist at one of its levels.

        Raises:
            InputError: if the figure exists for whole levels or on request only, or no level has it.
            UnknownNameError: if there is no such figure.
        """
        stored = self.metric_names(self.places(query))
        known = find_figure(name, stored)
        if known.key in SPECTRAL_FIGURES and known.key not in stored:
            raise InputError(
                f"{known.label} is computed on request only",
                field="q",
                hint="use 'tgp inspect STORE --spectral --fail-if'",
            )
        figure = stored_figure(name, stored)
        if not figure.metric and figure.key not in (*_SIZES, *_DERIVED):
            raise InputError(
                f"{figure.label} is a figure of a whole level: expected a figure of a graph such as nodes or ratio",
                field="q",
            )
        return figure

    def figures(self, places: Sequence[Place]) -> list[Figure]:
        """Return all figures that graphs have at some levels, in the order of the table of figures."""
        stored = self.metric_names(places)
        keys = [key for key in FIGURES if key in stored or key in (*_SIZES, *_DERIVED)]
        return [figure_of(key) for key in (*keys, *sorted(stored - {*keys, "largest"}))]

    def search(self, query: Query) -> LongArray:
        """Return the ids of the graphs that a search finds, in its order. Graphs without the figure come last.

        Args:
            query: the search.

        Raises:
            InputError: if the search cannot be parsed or names a graph, level or figure that does not exist.
            UnknownNameError: if there is no such hierarchy or figure.
        """
        if query in self._results:
            self._results.move_to_end(query)
            return self._results[query]
        found = np.flatnonzero(self._matches(query))
        key, descending = query.sort.removeprefix("-"), query.sort.startswith("-")
        if key in ("", "id"):
            found = found[::-1] if descending else found
        else:
            values = self.values(self.figure(key, query), query, found, largest=descending)
            found = found[np.argsort(-values if descending else values, kind="stable")]
        self._results[query] = found
        while len(self._results) > RESULTS:
            self._results.popitem(last=False)
        return found

    def neighbours(self, query: Query, graph: int) -> tuple[int | None, int | None, int | None]:
        """Return the position of a graph in a search, and the ids of the graphs before and after it.

        Args:
            query: the search.
            graph: id of the graph.

        Returns:
            Position, previous id and next id; ``None`` where there is none.
        """
        found = self.search(query)
        at = np.flatnonzero(found == graph)
        if not at.size:
            return None, None, None
        position = int(at[0])
        before = int(found[position - 1]) if position else None
        after = int(found[position + 1]) if position + 1 < len(found) else None
        return position, before, after

    def _matches(self, query: Query) -> BoolArray:
        """Return a mask of the graphs that a search finds."""
        search = parse_search(query.text)
        total = self.reader.num_graphs
        mask = np.ones(total, bool)
        if search.ids:
            mask[:] = False
            mask[parse_graphs(search.ids, total)] = True
        parsed = [(condition, self.figure(condition.name, query).key) for condition in search.conditions]
        at_level = [item for item in parsed if not self._of_input(item[1], query)]
        for condition, key in (item for item in parsed if item not in at_level):
            mask &= _holds(condition, self.column(key, None))
        places = self.places(query)
        if not at_level:
            return mask
        # All conditions must hold at the same level.
        found = np.zeros(total, bool)
        for place in places:
            here = mask.copy()
            for condition, key in at_level:
                here &= _holds(condition, self.column(key, place))
            found |= here
        return found

    @staticmethod
    def _of_input(key: str, query: Query) -> bool:
        """Return True if a figure is that of the input graphs. Sizes are, unless a level is chosen."""
        return key in _SIZES and query.level is None

    def values(self, figure: Figure, query: Query, ids: LongArray, *, largest: bool) -> FloatArray:
        """Return the values of a figure of some graphs.

        Args:
            figure: the figure.
            query: the search. If it covers several levels, the value is the largest or the smallest of all of them.
            ids: ids of the graphs.
            largest: return the largest value, else the smallest.

        Returns:
            One value per graph; NaN if there is none.
        """
        of_input = self._of_input(figure.key, query)
        combined = np.full(len(ids), np.nan)
        for place in [None] if of_input else self.places(query):
            column = self.column(figure.key, place)
            if column is not None:
                (np.fmax if largest else np.fmin)(combined, column[ids].astype(np.float64), out=combined)
        return combined

    def column(self, key: str, place: Place | None) -> Column | None:
        """Return one value per graph, or ``None`` if the level does not have the figure.

        Args:
            key: key of the figure.
            place: the level; ``None`` for the input graphs, which have only sizes.
        """
        if place is None:
            return self._size(key, place)
        if key in _SIZES:
            return self._without_failed(self._size(key, place), place)
        if (key, place) in self._columns:
            self._columns.move_to_end((key, place))
            return self._columns[key, place]
        column = self._derive(key, place) if key in _DERIVED else self._metric(key, place)
        self._columns[key, place] = column
        while sum(c.nbytes for c in self._columns.values() if c is not None) > self._column_bytes:
            self._columns.popitem(last=False)
        return column

    def _size(self, key: str, place: Place | None) -> Column:
        """Return the numbers of nodes or edges. The reader keeps them in memory."""
        name, level = place or (None, 0)
        return self.reader.sizes(name, level)[_SIZES.index(key)][self._rows]

    def _metric(self, key: str, place: Place) -> Column | None:
        name, level = place
        if f"{level - 1}/{key}" not in self.reader.hierarchies[name].metrics:
            return None
        values = self.reader.metrics(name, level - 1, names=[key], shard=self._shard)[key]
        if values.shape != (self._rows.stop - self._rows.start,) or values.dtype.kind not in "bifu":
            return None  # one number per shard, or several numbers per graph
        return self._without_failed(values, place)

    def _derive(self, key: str, place: Place) -> Column | None:
        name, level = place
        if key == "failures":
            return (self.failed(name) <= self.reader.hierarchies[name].depth).astype(np.float32)
        if key == "cluster_largest":
            return self._metric("largest", place)
        size = "edges" if key == "edge_ratio" else "nodes"
        after, before = self._size(size, place), self._size(size, (name, level - 1))
        if key == "stalled":
            return self._without_failed(keeps_most_nodes(after, before), place)
        if key == "cluster_mean":
            dropped = self._metric("dropped", place)
            if f"{level - 1}/largest" not in self.reader.hierarchies[name].metrics:
                return None
            after, before = before - (0 if dropped is None else dropped), after
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._without_failed(np.where(before > 0, after / before, np.nan), place)

    def _without_failed(self, values: Column, place: Place) -> Column:
        """Replace the values of graphs that could not be coarsened by NaN."""
        failed = self.failed(place[0]) <= place[1]
        return np.where(failed, np.nan, values) if failed.any() else values

    def failed(self, hierarchy: str) -> LongArray:
        """Return for each graph the first level that could not be computed; a number above the depth if there is none.

        Args:
            hierarchy: name of the hierarchy.
        """
        if hierarchy not in self._failed:
            info = self.reader.hierarchies[hierarchy]
            first = np.full(self.reader.num_graphs, info.depth + 1)
            for failure in self.reader.failures(hierarchy) if info.failures else ():
                first[failure.graph] = min(first[failure.graph], failure.level + 1)
            self._failed[hierarchy] = first[self._rows]
        return self._failed[hierarchy]


def _holds(condition: Condition, values: Column | None) -> BoolArray | bool:
    """Return a mask of the graphs for which a condition holds. It does not hold for graphs without a value."""
    if values is None:
        return False
    wide = values.astype(np.float64)  # numpy would round the bound to the type of the column
    result: BoolArray = condition.compare(wide, condition.bound) & np.isfinite(wide)
    return result
