"""Tables: of the store, of its hierarchies, of failures, of provenance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tgp.pipeline.inspection import HierarchyView, LevelView, StoreView
from tgp.report.markup import Child, Markup, tag
from tgp.report.numbers import bytes_text, count_text, figure_text, share_text
from tgp.store import FailureRecord

__all__ = [
    "comparison",
    "facts",
    "failure_table",
    "field_table",
    "level_table",
    "quality_table",
    "schedule_table",
    "table",
]

MAX_FAILURES = 200
"""Rows of the failure ledger that are shown per hierarchy."""

Cell = tuple[Child, float | str | None]
"""What is shown, and what is sorted by (``None`` for plain text)."""


def cell(value: float | None, show: Any = count_text) -> Cell:
    """A number: shown rounded, sorted exactly."""
    return show(value), value if value is not None else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, label: str) -> Markup:
    """A table that can be sorted; columns whose cells have a number are set to the right."""
    body = [list(row) for row in rows]
    numeric = [bool(body) and all(row[i][1] is not None for row in body) for i in range(len(columns))]
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
    inner = tag("table", tag("thead", tag("tr", head)), tag("tbody", lines), aria_label=label)
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
    """Quality figures of the levels, if the store has some: counts in total, others on average."""
    names = list(dict.fromkeys(name for level in view.levels for name in level.metrics))
    rows = [
        [cell(level.level), *(cell(level.metrics.get(name), figure_text) for name in names)]
        for level in view.levels
    ]
    columns = ["level", *(name.replace("_", " ") for name in names)]
    return table(columns, rows, label=f"Quality of {view.name}") if names else None


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
    columns = ["hierarchy", "levels", "depth", "nodes left", "of input", "edges left", "of input", "failures"]
    return table([*columns, "on disk"], rows, label="Hierarchies side by side")


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


def schedule_table(view: HierarchyView) -> Markup:
    """Every parameter of every level, as stored."""
    rows = []
    for number, level in enumerate(view.schedule):
        # Levels that stand for several steps list them under keys of their own.
        values = {key: value for key, value in level.items() if key not in ("method", "params")}
        params = level.get("params", {})
        values |= params if isinstance(params, dict) else {"params": params}
        pairs = [(name, json.dumps(value, ensure_ascii=False)) for name, value in sorted(values.items())]
        shown = tag("ul", [tag("li", tag("code", f"{n} = {v}")) for n, v in pairs], class_="params")
        rows.append([cell(number), (tag("code", str(level.get("method", "?"))), None), (shown, None)])
    return table(["level", "method", "parameters"], rows, label=f"Schedule of {view.name}")
