"""What ``tgp inspect`` shows: stores, figures of levels, one graph, differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tgp_cli._output import Output, counted, human_bytes, human_count, human_ratio, sparkline

if TYPE_CHECKING:
    from tgp.inspect.compare import Comparison, LevelComparison
    from tgp.inspect.overview import LevelView, StoreView

__all__ = ["level_rows", "show_comparison", "show_graph", "show_store", "show_stores"]


def show_stores(out: Output, stores: list[dict[str, Any]]) -> None:
    """``tgp inspect`` without a store."""
    if not stores:
        out.line("No stores below ./pooled.")
        out.message("Hint: 'tgp coarsen' makes one; 'tgp inspect DIR' shows one elsewhere.")
        return
    rows = [
        (
            s["path"],
            human_count(s["num_graphs"]),
            ", ".join(s["hierarchies"]),
            "-" if s["bytes"] is None else human_bytes(s["bytes"]),
            s["status"],
        )
        for s in stores
    ]
    out.table(("store", "graphs", "hierarchies", "size", "status"), rows, right=(1, 3), wrap=(2, 4))


_COLUMNS = (
    "hierarchy",
    "level",
    "method",
    "nodes",
    "edges",
    "ratio",
    "mean",
    "max",
    "single",
    "dropped",
    "parts",
    "cut",
    "modul.",
    "entropy",
    "expr.",
    "size",
    "graph sizes",
    "cluster sizes",
    "",
)


def show_store(out: Output, view: StoreView) -> None:
    """``tgp inspect STORE``."""
    source = ", ".join(
        f"{k}={v}" for k, v in view.dataset.items() if k not in ("source", "name", "shard_size")
    )
    name = f"{view.dataset.get('source', '?')}/{view.dataset.get('name', '?')}" + (
        f" ({source})" if source else ""
    )
    out.line(
        f"{view.path}: {counted(view.num_graphs, 'graph')} of {name}, {human_bytes(view.bytes)} in {counted(view.num_shards, 'shard')} ({view.profile})"
    )
    out.line("fields: " + ", ".join(f"{f['name']} {f['dtype']}{f['shape'] or ''}" for f in view.fields))
    rows = [("", *_row(view.input))]
    for hierarchy in view.hierarchies:
        failed = f", {counted(hierarchy.failures, 'graph')} failed" if hierarchy.failures else ""
        out.line(
            f"hierarchy {hierarchy.name}: {hierarchy.summary}{_packages(hierarchy.schedule)}, seed {hierarchy.seed}, {human_bytes(hierarchy.bytes)}{failed}"
        )
        rows += [(hierarchy.name, *_row(level)) for level in hierarchy.levels]
    columns, rows = _with_spectral(view, rows)
    right = range(3, len(columns) - 3)
    if not any(row[-1] for row in rows):  # nothing stalls
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    out.line()
    out.table(columns, rows, right=right, keys=3)
    if view.spectral is not None:
        looked = min(view.spectral["sample"], view.num_graphs)
        out.line(
            f"eig.err: mean relative error of the first {counted(view.spectral['modes'], 'eigenvalue')} against the input graphs, "
            f"{human_count(looked)} of them; scaled: after the best common factor; restr.: of the clusters alone."
        )
    for hierarchy in view.hierarchies:
        stalled = [str(level.level) for level in hierarchy.levels if level.stalled]
        if stalled:
            out.line(f"Level {', '.join(stalled)} of {hierarchy.name} keeps more than 95 % of the nodes.")


def _packages(schedule: list[dict[str, Any]]) -> str:
    """Other packages whose methods made the levels."""
    steps = [step for level in schedule for step in level.get("levels", [level])]
    named = [step["package"] for step in steps if isinstance(step.get("package"), dict)]
    found = dict.fromkeys(f"{package.get('name')} {package.get('version')}" for package in named)
    return f" (package{'s' * (len(found) > 1)} {', '.join(found)})" if found else ""


def _with_spectral(view: StoreView, rows: list[tuple[Any, ...]]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows, with the spectral figures before the sizes if there are any."""
    columns = [*_COLUMNS]
    if view.spectral is None:
        return columns, rows
    place = columns.index("size")
    levels = [view.input, *(level for hierarchy in view.hierarchies for level in hierarchy.levels)]
    extra = [
        tuple(
            human_ratio(level.metrics.get(f"eigenvalue_error{kind}"))
            for kind in ("", "_scaled", "_restricted")
        )
        for level in levels
    ]
    columns[place:place] = ["eig.err", "scaled", "restr."]
    return columns, [(*row[:place], *more, *row[place:]) for row, more in zip(rows, extra, strict=True)]


def _row(level: LevelView) -> tuple[Any, ...]:
    figures = level.metrics
    first = level.level < 0

    def count(key: str) -> str:
        return human_count(figures.get(key))

    return (
        "input" if first else level.level,
        "" if first else level.method,
        human_count(level.nodes),
        human_count(level.edges),
        human_ratio(level.ratio),
        human_ratio(level.cluster_mean, 2),
        human_count(level.cluster_largest),
        count("singletons"),
        count("dropped"),
        count("components"),
        human_ratio(figures.get("cut")),
        human_ratio(figures.get("modularity")),
        human_ratio(figures.get("entropy"), 2),
        human_ratio(figures.get("expressive"), 2),
        human_bytes(level.bytes),
        sparkline(level.node_histogram),
        sparkline(level.cluster_histogram),
        "stall" if level.stalled else "",
    )


def level_rows(view: StoreView) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of ``--csv``."""
    names = sorted({key for h in view.hierarchies for level in h.levels for key in level.metrics})
    columns = [
        "hierarchy",
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
        *names,
    ]
    rows = []
    for hierarchy in view.hierarchies:
        for level in hierarchy.levels:
            fixed = [hierarchy.name, *(getattr(level, column) for column in columns[1:11])]
            rows.append([*fixed, *(level.metrics.get(name) for name in names)])
    return columns, rows


def show_graph(out: Output, card: dict[str, Any]) -> None:
    """``tgp inspect STORE --graph I``."""
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
            human_ratio(r["ratio"]),
            *(_short(r["metrics"].get(n)) for n in names),
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


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return human_ratio(value) if isinstance(value, float) else "-" if value is None else str(value)


def show_comparison(out: Output, found: list[Comparison]) -> None:
    """``tgp inspect --diff A B``."""
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
        out.table(columns, [_difference(level) for level in comparison.levels], right=(1, 2, 3, 4))
        out.line("equal" if comparison.equal else "different")


def _difference(level: LevelComparison) -> tuple[Any, ...]:
    changes = level.edge_changes
    counts = (
        ("only in A", changes.only_first),
        ("only in B", changes.only_second),
        ("reweighted", changes.reweighted),
    )
    parts = [f"{human_count(count)} {what}" for what, count in counts if count]
    among = f" (of {counted(changes.graphs, 'graph')} with equal clusters)"
    return (
        level.level,
        human_count(level.different),
        human_ratio(level.rand, 4),
        human_ratio(level.nmi, 4),
        " / ".join(human_count(count) for count in dict.fromkeys(level.edges)),
        (", ".join(parts) or "none") + among if changes.graphs else "-",
        ", ".join(map(str, level.examples)),
    )
