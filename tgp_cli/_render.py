"""Results of commands for eyes: tables and sentences, made from the objects of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tgp_cli._output import Output, human_bytes, human_count, human_ratio, human_seconds, sparkline

if TYPE_CHECKING:
    from tgp.pipeline.compare import Comparison
    from tgp.pipeline.inspection import LevelView, StoreView
    from tgp.pipeline.report import BreakEven, RunPlan, Summary

__all__ = [
    "level_rows",
    "show_comparison",
    "show_graph",
    "show_plan",
    "show_store",
    "show_stores",
    "show_summary",
]


def show_plan(out: Output, plan: RunPlan) -> None:
    """``tgp coarsen --dry-run``."""
    if plan.up_to_date:
        out.line(f"{plan.path} is up to date.")
        return
    sizes = f"{human_count(plan.num_graphs)} graphs, {human_count(plan.num_nodes)} nodes, {human_count(plan.num_edges)} edges"
    out.line(f"Would coarsen {sizes} into {plan.path}")
    for entry in plan.hierarchies:
        out.line(f"  {entry['name']}: {entry['levels']} levels, seed {entry['seed']}")
    out.line(
        f"{plan.pending} files in {plan.num_units} shard{'s' * (plan.num_units > 1)}, "
        f"about {human_bytes(plan.estimated_bytes)} ({plan.profile})"
    )
    where = "in this process" if plan.workers == 1 else f"shared by {plan.workers} processes"
    out.line(
        f"about {human_seconds(plan.estimated_seconds)} of work, {where}, "
        f"and {human_bytes(plan.peak_memory)} of memory"
    )


def show_summary(out: Output, summary: Summary) -> None:
    """The end of ``tgp coarsen``."""
    if summary.status == "up to date":
        out.line(
            f"{summary.path} is up to date ({human_count(summary.num_graphs)} graphs, {human_bytes(summary.bytes)})."
        )
        _failures(out, summary)
        return
    if summary.status == "incomplete":
        out.line(
            f"{summary.units_done} files written to {summary.path}, {summary.units_missing} are still missing."
        )
        out.message(
            f"Hint: 'tgp status {summary.path}' shows which, 'tgp merge {summary.path}' publishes the store."
        )
        return
    rate = f", {human_count(summary.graphs_per_second)} graphs/s" if summary.graphs_per_second else ""
    compiled = (
        f" after {human_seconds(summary.compile_seconds)} of preparing kernels (compiled on first use, then cached)"
        if summary.compile_seconds > 2
        else ""
    )
    shards = f"{summary.num_units} shard{'s' * (summary.num_units > 1)}"
    workers = f" by {summary.workers} processes" if summary.workers > 1 else ""
    out.line(
        f"{summary.path}: {human_count(summary.num_graphs)} graphs in {human_seconds(summary.seconds)}{rate}, "
        f"{human_bytes(summary.bytes)} in {shards}{workers}{compiled}"
    )
    for hierarchy in summary.hierarchies:
        chain = " -> ".join(
            f"{human_count(level.nodes)} ({human_ratio(level.ratio, 2)})" for level in hierarchy.levels
        )
        out.line(f"  {hierarchy.name}: nodes {chain}, {human_bytes(hierarchy.bytes)}")
    if summary.break_even is not None:
        out.line(_break_even(summary.break_even))
    _failures(out, summary)


def _break_even(even: BreakEven) -> str:
    sample = f"measured on {human_count(even.sample)} graphs in batches of {even.batch_size}"
    costs = f"{human_seconds(even.online)} to pool online, {human_seconds(even.reading)} to read, per epoch"
    if even.epochs is None:
        return f"Break-even: never, reading costs as much as pooling here ({costs}; {sample})"
    epochs = max(1, -int(-even.epochs // 1))
    plural = "epoch" if epochs == 1 else "epochs"
    return f"Break-even: after {human_count(epochs)} {plural}, {human_seconds(even.spent)} spent here ({costs}; {sample})"


def _failures(out: Output, summary: Summary) -> None:
    if summary.failures:
        count = len({(name, f.graph) for name, f in summary.failures})
        out.warn(f"{count} graphs could not be coarsened; their levels are empty.")
        for name, failure in summary.failures[:5]:
            out.warn(f"  {name}, graph {failure.graph}, level {failure.level}: {failure.reason}")


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
    out.table(("store", "graphs", "hierarchies", "size", "status"), rows, right=(1, 3))


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
        f"{view.path}: {human_count(view.num_graphs)} graphs of {name}, {human_bytes(view.bytes)} in {view.num_shards} shard{'s' * (view.num_shards > 1)} ({view.profile})"
    )
    out.line("fields: " + ", ".join(f"{f['name']} {f['dtype']}{f['shape'] or ''}" for f in view.fields))
    rows = [("", *_row(view.input))]
    for hierarchy in view.hierarchies:
        failed = f", {hierarchy.failures} graphs failed" if hierarchy.failures else ""
        out.line(
            f"hierarchy {hierarchy.name}: {hierarchy.summary}, seed {hierarchy.seed}, {human_bytes(hierarchy.bytes)}{failed}"
        )
        rows += [(hierarchy.name, *_row(level)) for level in hierarchy.levels]
    out.line()
    out.table(_COLUMNS, rows, right=range(3, 15))
    for hierarchy in view.hierarchies:
        stalled = [str(level.level) for level in hierarchy.levels if level.stalled]
        if stalled:
            out.line(f"Level {', '.join(stalled)} of {hierarchy.name} keeps more than 95 % of the nodes.")


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
    out.line(f"graph {card['graph']}: {card['nodes']} nodes, {card['edges']} edges")
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
        title = f"{comparison.first} and {comparison.second}: {human_count(comparison.num_graphs)} graphs"
        out.line(title + ("" if comparison.same_graphs else " (the input graphs differ)"))
        rows = [
            (
                level.level,
                human_count(level.different),
                human_ratio(level.rand, 4),
                ", ".join(map(str, level.examples)),
            )
            for level in comparison.levels
        ]
        out.table(("level", "different graphs", "adjusted Rand", "for example"), rows, right=(1, 2))
        out.line("equal" if comparison.equal else "different")
