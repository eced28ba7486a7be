"""Print the results of ``tgp inspect`` as text: tables and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tgp.inspect.numbers import bytes_text, count_text, counted
from tgp_cli._output import Output, count_or_dash, ratio_text, sparkline

if TYPE_CHECKING:
    from tgp.build.summary import LevelSummary
    from tgp.inspect.compare import Comparison, LevelComparison
    from tgp.inspect.overview import StoreView

__all__ = ["level_rows", "show_comparison", "show_graph", "show_store", "show_stores"]


def show_stores(out: Output, stores: list[dict[str, Any]]) -> None:
    """Print the result of ``tgp inspect`` without a store."""
    if not stores:
        out.line("No stores below ./pooled.")
        out.message("Hint: 'tgp coarsen' makes one; 'tgp inspect DIR' shows one elsewhere.")
        return
    rows = [
        (
            s["path"],
            count_or_dash(s["num_graphs"]),
            ", ".join(s["hierarchies"]),
            None if s["bytes"] is None else bytes_text(s["bytes"]),
            s["status"],
        )
        for s in stores
    ]
    out.table(("store", "graphs", "hierarchies", "size", "status"), rows, right=(1, 3), wrap=(2, 4))


def show_store(out: Output, view: StoreView) -> None:
    """Print the result of ``tgp inspect STORE``."""
    _show_header(out, view)
    levels = [("", view.input), *((h.name, level) for h in view.hierarchies for level in h.levels)]
    cells = [{"hierarchy": name, **_level_cells(level)} for name, level in levels]
    columns = [*cells[0]]
    if view.spectral is not None:
        place = columns.index("size")
        columns[place:place] = [*_SPECTRAL]
        for row, (_, level) in zip(cells, levels, strict=True):
            row |= {column: ratio_text(level.metrics.get(name)) for column, name in _SPECTRAL.items()}
    if any(level.stalled for _, level in levels):
        columns.append("")
        for row, (_, level) in zip(cells, levels, strict=True):
            row[""] = "stall" if level.stalled else ""
    right = range(3, columns.index("graph sizes"))
    out.line()
    out.table(columns, [[row[column] for column in columns] for row in cells], right=right, keys=3)
    if view.spectral is not None:
        measured = min(view.spectral["sample"], view.num_graphs)
        modes = counted(view.spectral["modes"], "eigenvalue")
        out.line(
            f"eig.err: mean relative error of the first {modes} against the input graphs, "
            f"{count_text(measured)} of them; scaled: after the best common factor; restr.: of the clusters alone."
        )
    for hierarchy in view.hierarchies:
        stalled = [str(level.level) for level in hierarchy.levels if level.stalled]
        if stalled:
            subject = f"Level {stalled[0]}" if len(stalled) == 1 else f"Levels {', '.join(stalled)}"
            verb = "keeps" if len(stalled) == 1 else "keep"
            out.line(f"{subject} of {hierarchy.name} {verb} more than 95 % of the nodes.")


def _show_header(out: Output, view: StoreView) -> None:
    source = ", ".join(
        f"{k}={v}" for k, v in view.dataset.items() if k not in ("source", "name", "shard_size")
    )
    name = f"{view.dataset.get('source', '?')}/{view.dataset.get('name', '?')}"
    out.line(
        f"{view.path}: {counted(view.num_graphs, 'graph')} of {name}{f' ({source})' if source else ''}, "
        f"{bytes_text(view.bytes)} in {counted(view.num_shards, 'shard')} ({view.profile})"
    )
    out.line("fields: " + ", ".join(f"{f['name']} {f['dtype']}{f['shape'] or ''}" for f in view.fields))
    for hierarchy in view.hierarchies:
        failed = f", {counted(hierarchy.failures, 'graph')} failed" if hierarchy.failures else ""
        out.line(
            f"hierarchy {hierarchy.name}: {hierarchy.methods}{_packages_text(hierarchy.schedule)}, "
            f"seed {hierarchy.seed}, {bytes_text(hierarchy.bytes)}{failed}"
        )


def _packages_text(schedule: list[dict[str, Any]]) -> str:
    """Name the other packages whose methods made the levels."""
    steps = [step for level in schedule for step in level.get("levels", [level])]
    named = [step["package"] for step in steps if isinstance(step.get("package"), dict)]
    found = dict.fromkeys(f"{package.get('name')} {package.get('version')}" for package in named)
    return f" (package{'s' * (len(found) > 1)} {', '.join(found)})" if found else ""


_SPECTRAL = {
    "eig.err": "eigenvalue_error",
    "scaled": "eigenvalue_error_scaled",
    "restr.": "eigenvalue_error_restricted",
}
"""Column -> spectral metric."""


def _level_cells(level: LevelSummary) -> dict[str, str]:
    """Return the cells of a level by column."""
    metrics = level.metrics
    return {
        "level": str(level.level) if level.level else "input",
        "method": level.method if level.level else "",
        "nodes": count_text(level.nodes),
        "edges": count_text(level.edges),
        "ratio": ratio_text(level.ratio),
        "mean": ratio_text(level.cluster_mean, 2),
        "max": count_or_dash(level.cluster_largest),
        "single": count_or_dash(metrics.get("singletons")),
        "dropped": count_or_dash(metrics.get("dropped")),
        "parts": count_or_dash(metrics.get("components")),
        "cut": ratio_text(metrics.get("cut")),
        "modul.": ratio_text(metrics.get("modularity")),
        "entropy": ratio_text(metrics.get("entropy"), 2),
        "expr.": ratio_text(metrics.get("expressive"), 2),
        "size": bytes_text(level.bytes),
        "graph sizes": sparkline(level.node_histogram),
        "cluster sizes": sparkline(level.cluster_histogram),
    }


_CSV_FIELDS = (
    "level",
    "method",
    "nodes",
    "edges",
    "ratio",
    "edge_ratio",
    "cluster_mean",
    "cluster_largest",
    "bytes",
    "stalled",
)


def level_rows(view: StoreView) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of ``tgp inspect --csv``."""
    names = sorted({key for h in view.hierarchies for level in h.levels for key in level.metrics})
    rows = [
        [
            hierarchy.name,
            *(getattr(level, field) for field in _CSV_FIELDS),
            *(level.metrics.get(name) for name in names),
        ]
        for hierarchy in view.hierarchies
        for level in hierarchy.levels
    ]
    return ["hierarchy", *_CSV_FIELDS, *names], rows


def show_graph(out: Output, card: dict[str, Any]) -> None:
    """Print the result of ``tgp inspect STORE --graph I``."""
    out.line(f"graph {card['graph']}: {counted(card['nodes'], 'node')}, {counted(card['edges'], 'edge')}")
    out.line("fields: " + ", ".join(f"{name} {f['dtype']}{f['shape']}" for name, f in card["fields"].items()))
    names = sorted({key for row in card["levels"] for key in row["metrics"]})
    rows = [
        (
            r["hierarchy"],
            r["level"],
            r["method"],
            r["nodes"],
            r["edges"],
            ratio_text(r["ratio"]),
            *(_metric_text(r["metrics"].get(n)) for n in names),
        )
        for r in card["levels"]
    ]
    out.table(
        ("hierarchy", "level", "method", "nodes", "edges", "ratio", *names),
        rows,
        right=range(3, 6 + len(names)),
        keys=3,
    )
    for row in card["levels"]:
        if row["failure"]:
            out.line(f"{row['hierarchy']} failed: {row['failure']}")
            break


def _metric_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ratio_text(value) if isinstance(value, float) else "-" if value is None else str(value)


def show_comparison(out: Output, found: list[Comparison]) -> None:
    """Print the result of ``tgp inspect --diff A B``."""
    for comparison in found:
        title = f"{comparison.first} and {comparison.second}: {counted(comparison.num_graphs, 'graph')}"
        out.line(title + ("" if comparison.same_graphs else " (the input graphs differ)"))
        one, two = comparison.depths
        if one != two:
            shared = "only the first is" if min(one, two) == 1 else f"the first {min(one, two)} are"
            out.line(f"They have {one} and {counted(two, 'level')}; {shared} compared.")
        columns = (
            "level",
            "different graphs",
            "adjusted Rand",
            "NMI",
            "edges",
            "edge changes",
            "for example",
        )
        out.table(columns, [_comparison_row(level) for level in comparison.levels], right=(1, 2, 3, 4))
        out.line("equal" if comparison.equal else "different")


def _comparison_row(level: LevelComparison) -> tuple[Any, ...]:
    changes = level.edge_changes
    counts = (
        ("only in A", changes.only_first),
        ("only in B", changes.only_second),
        ("reweighted", changes.reweighted),
    )
    parts = [f"{count_text(count)} {what}" for what, count in counts if count]
    among = f" (of {counted(changes.graphs, 'graph')} with equal clusters)"
    return (
        level.level,
        count_text(level.different),
        ratio_text(level.rand, 4),
        ratio_text(level.nmi, 4),
        " / ".join(count_text(count) for count in dict.fromkeys(level.edges)),
        (", ".join(parts) or "none") + among if changes.graphs else "-",
        ", ".join(map(str, level.examples)),
    )
