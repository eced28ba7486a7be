"""Tables: of the store, of its hierarchies, of failures, of provenance."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tgp.inspect.overview import HierarchyView, LevelView, StoreView
from tgp.inspect.report.markup import Child, Markup, tag
from tgp.inspect.report.numbers import bytes_text, count_text, figure_text, share_text
from tgp.store import FailureRecord

__all__ = [
    "comparison",
    "facts",
    "failure_table",
    "field_table",
    "level_table",
    "quality_comparison",
    "quality_table",
    "schedule_table",
    "table",
]

MAX_FAILURES = 200
"""Rows of the failure ledger that are shown per hierarchy."""

FIGURES = {
    "dropped": "nodes without a supernode",
    "singletons": "supernodes with one member",
    "empty": "supernodes without a member",
    "isolated": "supernodes without an edge to another",
    "components_before": "connected parts of the finer graphs",
    "components": "connected parts of the coarser graphs",
    "cut": "share of the weight between supernodes; less is better",
    "modularity": "weight inside supernodes beyond chance; more is better",
    "entropy": "structural entropy in bits; less is better",
    "entropy_flat": "the same without supernodes",
    "weight_kept": "weight that coarsening kept; 1 if nothing was lost",
    "expressive": "share of graphs in which all rows of S have the same sum",
    "symmetric": "share of graphs whose coarse weights are symmetric",
}
"""What the quality figures mean, in the order of their rows."""

_COMPARED = (
    "dropped",
    "singletons",
    "components",
    "cut",
    "modularity",
    "entropy",
    "weight_kept",
    "expressive",
)
"""Figures of the first level that stand side by side; all levels below it start from different graphs."""

Cell = tuple[Child, float | str | None]
"""What is shown, and what is sorted by (``None`` for plain text)."""


def cell(value: float | None, show: Any = count_text) -> Cell:
    """A number: shown rounded, sorted exactly."""
    return show(value), value if value is not None else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, label: str, sort: bool = True) -> Markup:
    """A table; columns whose cells have a number are set to the right. The script lets it be sorted."""
    body = [list(row) for row in rows]
    # Words that are sorted by a number, such as "input" among levels, stay on the left.
    numeric = [
        bool(body) and all(row[i][1] is not None and name != "level" for row in body)
        for i, name in enumerate(columns)
    ]
    head = [
        tag("th", name, scope="col", class_="n" if right else None)
        for name, right in zip(columns, numeric, strict=True)
    ]
    lines = [
        tag(
            "tr",
            [
                tag("td", shown, class_="n" if right else None, data_v=None if key is None else str(key))
                for (shown, key), right in zip(row, numeric, strict=True)
            ],
        )
        for row in body
    ]
    inner = tag(
        "table", tag("thead", tag("tr", head)), tag("tbody", lines),
        aria_label=label, class_="sort" if sort else None,
    )  # fmt: skip
    return tag("div", inner, class_="scroll", tabindex=0, role="region", aria_label=label)


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Names and values, one pair per line."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="facts")


def field_table(view: StoreView) -> Markup:
    """Attributes of the input graphs."""
    rows = []
    for field in view.fields:
        shape = " × ".join(str(n) for n in field["shape"])
        rows.append(
            [(tag("code", field["name"]), None), (field["dtype"], None), (field["per"], None), (shape, None)]
        )
    return table(["field", "type", "one per", "shape"], rows, label="Fields of the input graphs")


def level_table(view: HierarchyView, given: LevelView) -> Markup:
    """Sizes of the levels of a hierarchy, the input graphs first."""
    columns = ["level", "method", "nodes", "edges", "ratio", "edge ratio", "mean cluster", "largest", "size"]
    rows = []
    for level in (given, *view.levels):
        first = level is given
        row: list[Cell] = [
            ("input" if first else str(level.level), level.level),
            ("" if first else tag("code", level.method), None),
            cell(level.nodes),
            cell(level.edges),
            _ratio(level),
            cell(level.edge_ratio, figure_text),
            cell(level.cluster_mean, figure_text),
            cell(level.cluster_largest),
            (bytes_text(level.bytes), level.bytes),
        ]
        rows.append(row)
    return table(columns, rows, label=f"Levels of {view.name}")


def quality_table(view: HierarchyView) -> Markup | None:
    """Quality figures, if the store has some: a row for each, a column per level, and what it means."""
    found = list(dict.fromkeys(name for level in view.levels for name in level.metrics))
    names = [name for name in FIGURES if name in found] + [name for name in found if name not in FIGURES]
    rows = [
        [
            (name.replace("_", " "), None),
            *(cell(level.metrics.get(name), figure_text) for level in view.levels),
            (tag("span", FIGURES.get(name, ""), class_="soft"), None),
        ]
        for name in names
    ]
    meaning = "meaning (counts in total, others on average)"
    columns = ["quality", *(f"level {level.level}" for level in view.levels), meaning]
    return table(columns, rows, label=f"Quality of {view.name}", sort=False) if names else None


def _ratio(level: LevelView) -> Cell:
    shown, key = cell(level.ratio, figure_text)
    if level.stalled:
        return [shown, " ", tag("b", "stalled", class_="flag")], key
    return shown, key


def comparison(view: StoreView) -> Markup:
    """Hierarchies side by side: how far they go and what they keep."""
    rows = []
    for h in view.hierarchies:
        last = h.levels[-1] if h.levels else view.input
        nodes = last.nodes / view.input.nodes if view.input.nodes else None
        edges = last.edges / view.input.edges if view.input.edges else None
        row: list[Cell] = [
            (tag("a", h.name, href=f"#{anchor(view, h)}"), None),
            (tag("code", h.summary), None),
            cell(len(h.levels)),
            cell(last.nodes),
            cell(nodes, share_text),
            cell(last.edges),
            cell(edges, share_text),
            cell(h.failures),
            (bytes_text(h.bytes), h.bytes),
        ]
        rows.append(row)
    columns = [
        "hierarchy",
        "levels",
        "depth",
        "nodes left",
        "% of nodes",
        "edges left",
        "% of edges",
        "failures",
    ]
    return table([*columns, "on disk"], rows, label="Hierarchies side by side")


def quality_comparison(view: StoreView) -> Markup | None:
    """Quality of the first level, hierarchies side by side, if there are several and the store has figures."""
    shown = [h for h in view.hierarchies if h.levels and h.levels[0].metrics]
    names = [name for name in _COMPARED if any(name in h.levels[0].metrics for h in shown)]
    if len(shown) < 2 or not names:
        return None
    rows: list[list[Cell]] = [
        [(h.name, None), *(cell(h.levels[0].metrics.get(name), figure_text) for name in names)] for h in shown
    ]
    columns = ["first level", *(name.replace("_", " ") for name in names)]
    return table(columns, rows, label="Quality of the first level side by side")


def anchor(view: StoreView, hierarchy: HierarchyView) -> str:
    """The id of a hierarchy's section: a number, so that no name can forge another."""
    return f"hierarchy-{view.hierarchies.index(hierarchy)}"


def failure_table(failures: Sequence[tuple[str, FailureRecord]], total: int) -> list[Child]:
    """The ledger of graphs that could not be coarsened."""
    if not total:
        return [tag("p", "Every graph was coarsened in every hierarchy.", class_="good")]
    rows = [[(name, None), cell(f.graph), cell(f.level), (f.reason, None)] for name, f in failures]
    shown = table(["hierarchy", "graph", "level", "reason"], rows, label="Graphs that could not be coarsened")
    more = total - len(failures)
    rest = f"{count_text(more)} more are not shown; StoreReader.failures() lists them all."
    return [shown, tag("p", rest, class_="note") if more else None]


def schedule_table(view: StoreView) -> Markup:
    """Every parameter of every level, as stored; equal levels that follow one another share a row."""
    rows: list[list[Cell]] = []
    for hierarchy in view.hierarchies:
        steps = [*enumerate(hierarchy.schedule)]
        for _, equal in itertools.groupby(steps, lambda step: json.dumps(step[1], sort_keys=True)):
            (first, level), *others = equal
            last = others[-1][0] if others else first
            rows.append(
                [
                    (hierarchy.name, None),
                    (str(first) if first == last else f"{first}–{last}", first),
                    (tag("code", str(level.get("method", "?"))), None),
                    (_parameters(level), None),
                    cell(hierarchy.seed, str),
                ]
            )
    return table(["hierarchy", "level", "method", "parameters", "seed"], rows, label="Schedules")


def _parameters(level: dict[str, Any]) -> Markup:
    # Levels that stand for several steps list them under keys of their own.
    values = {key: value for key, value in level.items() if key not in ("method", "params")}
    params = level.get("params", {})
    values |= params if isinstance(params, dict) else {"params": params}
    pairs = [(name, json.dumps(value, ensure_ascii=False)) for name, value in sorted(values.items())]
    return tag("ul", [tag("li", tag("code", f"{n} = {v}")) for n, v in pairs], class_="params")
